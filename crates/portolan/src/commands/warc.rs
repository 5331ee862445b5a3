//! `portolan warc`: verify, list and print records.

use std::ffi::OsStr;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::rc::Rc;

use portolan_archive::{
    Cat, FileCheck, IndexFaults, Part, cat, check_files, check_index, check_merged_index, list,
    verify_for_index,
};
use portolan_crawl::report::thousands;
use portolan_crawl::{
    ARCHIVE_DIR, Crawl, CrawlError, Fresh, index_fault, surt, write_fresh, write_payload,
};
use portolan_model::Canonicalizer;
use serde_json::json;

use super::fleet_crawl::FleetCrawl;
use super::inspect;
use crate::arguments::WarcCommand;
use crate::failure::Failure;
use crate::output::{Lines, field, noteln};

/// What names of WARC files end with.
const WARC_ENDS: [&str; 4] = [".warc", ".warc.gz", ".arc", ".arc.gz"];

pub(crate) fn run(command: WarcCommand) -> Result<ExitCode, Failure> {
    match command {
        WarcCommand::Verify { paths, json } => verify_all(&paths, json),
        WarcCommand::List { paths, json } => list_all(&paths, json),
        WarcCommand::Cat {
            path,
            url,
            payload,
            raw,
            fresh,
            offset,
        } => {
            if let Some(url) = url.as_deref().filter(|_| fresh) {
                return print_fresh(&path, url);
            }
            let part = match (raw, payload) {
                (true, _) => Shown::Raw,
                (false, true) => Shown::Payload,
                (false, false) => Shown::Record,
            };
            match (&url, offset) {
                (Some(url), _) => print_response(&path, url, part),
                (None, offset) => print_record(&path, Cat::Offset(offset.unwrap_or(0)), part),
            }
        }
    }
}

fn verify_all(paths: &[PathBuf], json: bool) -> Result<ExitCode, Failure> {
    let mut sound = true;
    let mut out = inspect::lines();
    for path in paths.iter().filter(|path| Crawl::exists(path)) {
        for (file, what) in compare_with_log(path)? {
            sound = false;
            if json {
                let findings = [json!({ "offset": 0, "fault": what })];
                let value =
                    json!({ "file": file, "sound": false, "faults": 1, "findings": findings });
                inspect::write_json(&mut out, &value)?;
            } else {
                writeln!(out, "{}: {what}", file.display())?;
            }
        }
    }
    for file in warcs(paths)? {
        let path = file.path()?;
        let report = verify_for_index(&path, &surt).map_err(Failure::failed)?;
        let index = check_index(&report).map_err(Failure::failed)?;
        sound &= report.is_sound() && index.is_none();
        if json {
            let findings: Vec<_> = report
                .findings
                .iter()
                .map(|f| json!({ "offset": f.offset, "fault": f.fault.to_string() }))
                .collect();
            let value = json!({
                "file": path, "sound": report.is_sound(), "records": report.records,
                "kinds": report.kinds, "digests_checked": report.digests_checked,
                "faults": report.findings_total, "findings": findings,
                "index_faults": index.as_ref().map(|index| json!({
                    "file": index.path, "missing": index.missing, "surplus": index.surplus,
                    "broken": index.broken, "unsorted": index.unsorted,
                })),
            });
            inspect::write_json(&mut out, &value)?;
        } else {
            tell(&mut out, &report)?;
            if let Some(index) = &index {
                tell_index(&mut out, index)?;
            }
        }
    }
    out.flush()?;
    Ok(ExitCode::from(u8::from(!sound)))
}

/// What a crawl's archive as a whole lacks: files that visits were logged in, and the merged index of a crawl that has
/// ended.
fn compare_with_log(dir: &Path) -> Result<Vec<(PathBuf, String)>, Failure> {
    let settings = Crawl::saved_settings(dir)?;
    let logged = inspect::open(dir)?.stats().archive_files;
    let faults =
        check_files(dir, &settings.archive.file_prefix(), &logged).map_err(Failure::failed)?;
    let mut found: Vec<_> = faults.iter().map(|f| (f.path.clone(), f.what())).collect();
    if Crawl::has_ended(dir) {
        let merged = check_merged_index(dir).map_err(Failure::failed)?;
        found.extend(merged.map(|faults| (faults.path.clone(), told(&faults))));
    }
    Ok(found)
}

fn tell_index(out: &mut impl Write, index: &IndexFaults) -> std::io::Result<()> {
    writeln!(out, "{}: {}", index.path.display(), told(index))
}

fn told(index: &IndexFaults) -> String {
    let what = index_fault(index);
    match index.absent {
        true => format!("{what}; the crawl makes it again when it goes on"),
        false => format!("{what}. Delete it: the crawl makes it again when it goes on."),
    }
}

/// One file's verdict, in words.
pub(crate) fn tell(out: &mut impl Write, report: &FileCheck) -> std::io::Result<()> {
    let kinds: Vec<String> = report
        .kinds
        .iter()
        .map(|(kind, n)| format!("{} {}", thousands(*n), field(kind)))
        .collect();
    let verdict = if report.is_sound() {
        "sound".to_owned()
    } else {
        format!("{} faults", thousands(report.findings_total))
    };
    writeln!(
        out,
        "{}: {verdict}; {} records ({}), {} digests right",
        report.path.display(),
        thousands(report.records),
        kinds.join(", "),
        thousands(report.digests_checked),
    )?;
    for finding in &report.findings {
        writeln!(
            out,
            "  at byte {}: {}",
            finding.offset,
            field(&finding.fault.to_string())
        )?;
    }
    Ok(())
}

fn list_all(paths: &[PathBuf], json: bool) -> Result<ExitCode, Failure> {
    let mut out = inspect::lines();
    for file in warcs(paths)? {
        let path = file.path()?;
        for record in list(&path).map_err(Failure::failed)? {
            let record = record.map_err(Failure::failed)?;
            if json {
                let value = json!({
                    "file": path, "offset": record.offset, "length": record.length,
                    "type": record.kind, "date": record.date, "url": record.url,
                    "status": record.status, "mime": record.mime, "digest": record.digest,
                });
                inspect::write_json(&mut out, &value)?;
            } else {
                writeln!(
                    out,
                    "{}\t{}\t{}\t{}\t{}\t{}\t{}",
                    record.offset,
                    record.length,
                    field(&record.kind),
                    field(&record.date),
                    or_dash(&record.status),
                    or_dash(&record.mime),
                    or_dash(&record.url)
                )?;
            }
        }
    }
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}

/// A text of the Web's for a table, or a dash where there is none.
fn or_dash(text: &str) -> crate::plain::Plain<'_> {
    field(if text.is_empty() { "-" } else { text })
}

/// How much of a record is printed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Shown {
    Record,
    /// What was served, decoded.
    Payload,
    /// What was served, as stored.
    Raw,
}

/// As it was typed; else as a crawl would write it.
fn print_response(path: &Path, url: &str, part: Shown) -> Result<ExitCode, Failure> {
    let typed = print_record(path, Cat::Url(url), part);
    match Canonicalizer::default().parse_seed(url) {
        Ok(canonical) if typed.is_err() && canonical.as_str() != url => {
            print_record(path, Cat::Url(canonical.as_str()), part)
        }
        _ => typed,
    }
}

/// The newest document at a URL with the parts that were fetched since.
fn print_fresh(path: &Path, url: &str) -> Result<ExitCode, Failure> {
    let canonicalizer = match Crawl::exists(path) {
        true => Crawl::canonicalizer(path)?,
        false => Canonicalizer::default(),
    };
    let url = canonicalizer
        .parse_seed(url)
        .map_err(|e| Failure::usage(format!("'{url}': {e}")))?;
    let mut out = Lines::of_bytes();
    let fresh = write_fresh(&files_with(path, Some(url.as_str()))?, &url, None, &mut out)?;
    out.flush()?;
    match fresh {
        Fresh::Absent => {
            let (path, url) = (path.display(), url.as_str());
            return Err(Failure::failed(format!("{path} has no document at {url}")));
        }
        Fresh::Misfit => noteln!(
            "portolan: the newest table of volatile parts does not fit; this is the document as it is stored"
        ),
        Fresh::Refreshed(_) | Fresh::AsStored => {}
    }
    Ok(ExitCode::SUCCESS)
}

/// As it is in the file; only a terminal gets it in plain characters.
fn print_record(path: &Path, which: Cat<'_>, part: Shown) -> Result<ExitCode, Failure> {
    let mut out = Lines::of_bytes();
    let url = match which {
        Cat::Url(url) => Some(url),
        _ => None,
    };
    let files = files_with(path, url)?;
    let found = match part {
        Shown::Payload => write_payload(&files, which, &mut out)?,
        Shown::Record => cat_first(&files, which, Part::Record, &mut out)?,
        Shown::Raw => cat_first(&files, which, Part::Payload, &mut out)?,
    };
    if found {
        out.flush()?;
        return Ok(ExitCode::SUCCESS);
    }
    Err(Failure::failed(match which {
        Cat::Offset(offset) => format!("{} has no record at byte {offset}", path.display()),
        Cat::Url(url) => format!("{} has no response to {url}", path.display()),
        Cat::Original(_) => format!("{} has no such record", path.display()),
    }))
}

fn cat_first(
    files: &[PathBuf],
    which: Cat<'_>,
    part: Part,
    out: &mut Lines,
) -> Result<bool, Failure> {
    for path in files {
        let found = cat(path, which, part, out).map_err(CrawlError::from)?;
        if found.is_some() {
            return Ok(true);
        }
    }
    Ok(false)
}

/// A WARC file that is looked into.
enum WarcFile {
    Here(PathBuf),
    /// Fetched when it is its turn.
    Stored(Rc<FleetCrawl>, String),
}

impl WarcFile {
    fn path(&self) -> Result<PathBuf, Failure> {
        match self {
            Self::Here(path) => Ok(path.clone()),
            Self::Stored(crawl, name) => crawl.warc(name),
        }
    }
}

/// Files as they are, those of directories, and those of a fleet's store: all of them, or the one that is named.
fn warcs(paths: &[PathBuf]) -> Result<Vec<WarcFile>, Failure> {
    let mut found = Vec::new();
    for path in paths {
        let (store, name) = match path.file_name().filter(|_| !path.exists()) {
            Some(name) if is_warc(name) => (path.parent().unwrap_or(path), Some(name)),
            _ => (path.as_path(), None),
        };
        match FleetCrawl::at(store)? {
            Some(crawl) => {
                let all = crawl.warcs()?;
                let crawl = Rc::new(crawl);
                let of = |name| WarcFile::Stored(Rc::clone(&crawl), name);
                match name {
                    Some(name) => found.push(of(name.to_string_lossy().into_owned())),
                    None => found.extend(all.into_iter().map(of)),
                }
            }
            None => found.extend(
                files(std::slice::from_ref(path))?
                    .into_iter()
                    .map(WarcFile::Here),
            ),
        }
    }
    Ok(found)
}

/// The files in which something is looked for: of a fleet's store those that have something of the URL.
pub(super) fn files_with(path: &Path, url: Option<&str>) -> Result<Vec<PathBuf>, Failure> {
    match (FleetCrawl::at(path)?, url) {
        (Some(crawl), Some(url)) => {
            let found = crawl.warcs_with(url)?;
            match found.is_empty() {
                true => Err(Failure::failed(format!(
                    "{} has no response to {url}",
                    path.display()
                ))),
                false => Ok(found),
            }
        }
        (Some(_), None) => Err(Failure::usage(format!(
            "--offset is for one WARC file; name it: {}/NAME.warc.gz",
            path.display()
        ))),
        (None, _) => warcs(&[path.to_owned()])?
            .iter()
            .map(WarcFile::path)
            .collect(),
    }
}

fn is_warc(name: &OsStr) -> bool {
    let name = name.to_string_lossy();
    WARC_ENDS.iter().any(|end| name.ends_with(end))
}

/// Files as they are; of a directory its WARC files, of a crawl's directory those of its archive.
pub(crate) fn files(paths: &[PathBuf]) -> Result<Vec<PathBuf>, Failure> {
    let mut files = Vec::new();
    for path in paths {
        if !path.is_dir() {
            if !path.exists() {
                return Err(Failure::usage(format!(
                    "{}: there is no such file",
                    path.display()
                )));
            }
            files.push(path.clone());
            continue;
        }
        let inner = path.join(ARCHIVE_DIR);
        let dir = if inner.is_dir() { &inner } else { path };
        let before = files.len();
        for entry in std::fs::read_dir(dir)? {
            let name = entry?.path();
            if name.file_name().is_some_and(is_warc) {
                files.push(name);
            }
        }
        files[before..].sort();
        if files.len() == before {
            return Err(Failure::usage(format!(
                "{} holds no WARC files",
                dir.display()
            )));
        }
    }
    Ok(files)
}
