//! Is everything in a crawl's directory as it was written? Reads all files once and changes none. Holds what one WARC
//! file or one table needs, however large the crawl is.

use std::path::{Path, PathBuf};

use portolan_archive::{
    IndexFaults, check_files, check_index, check_merged_index, check_seen, is_claimed,
    verify_for_index,
};
use portolan_model::CanonicalUrl;
use portolan_registry::RegistryCheck;
use serde::Serialize;

use crate::assembly;
use crate::crawl::{ARCHIVE_DIR, Crawl, REGISTRY_DIR, SEEN_DIR};
use crate::directory::{SEEDS_FILE, SETTINGS_FILE, archive_id, remembered_seeds};
use crate::division;
use crate::error::CrawlError;
use crate::judging::{JUDGED_FILE, Judged};
use crate::named::{NAMED_FILE, Named};
use crate::pauses::PAUSES_FILE;
use crate::secret::{self, SECRET_FILE};
use crate::settings::Settings;

/// Where recovery puts whole records that the log does not name, in the archive.
const SET_ASIDE_DIR: &str = "set-aside";

/// What was found out about the files of one kind.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CheckedKind {
    pub kind: &'static str,
    /// What the files are, in words.
    pub about: &'static str,
    pub files: u64,
    pub bytes: u64,
    pub damage: Vec<Damaged>,
    /// What a crash cut off at the end. That is no damage: going on with the crawl cuts it off or writes it again.
    pub torn_bytes: u64,
    /// What follows from damage, and what to do.
    #[serde(skip)]
    pub meaning: &'static str,
}

/// Damage to a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Damaged {
    pub file: PathBuf,
    pub offset: u64,
    pub what: String,
}

impl CheckedKind {
    fn of(kind: &'static str, about: &'static str, meaning: &'static str) -> Self {
        Self {
            kind,
            about,
            files: 0,
            bytes: 0,
            damage: Vec::new(),
            torn_bytes: 0,
            meaning,
        }
    }

    pub fn is_sound(&self) -> bool {
        self.damage.is_empty()
    }

    fn count(&mut self, path: &Path) {
        if let Ok(metadata) = std::fs::metadata(path) {
            self.files += 1;
            self.bytes += metadata.len();
        }
    }

    fn find(&mut self, file: &Path, offset: u64, what: impl Into<String>) {
        let (file, what) = (file.to_owned(), what.into());
        self.damage.push(Damaged { file, offset, what });
    }

    /// A file that is looked at as a whole. Its name is not said twice.
    fn look<T>(&mut self, file: &Path, looked: Result<T, CrawlError>) -> Option<T> {
        self.count(file);
        match looked {
            Ok(found) => Some(found),
            Err(error) => {
                let said = error.to_string();
                let name = file.display().to_string();
                let what = said.strip_prefix(&name).unwrap_or(&said);
                self.find(file, 0, what.trim_start_matches([':', ' ']));
                None
            }
        }
    }
}

/// Looks at all of the crawl in `dir`, which must not be running. Calls `told` with each kind as soon as it is known.
pub fn check(dir: &Path, told: &mut dyn FnMut(CheckedKind)) -> Result<(), CrawlError> {
    if Crawl::is_running(dir) {
        return Err(CrawlError::Input(format!(
            "a crawl is running in {}; stop it first, for its files change while they are read",
            dir.display()
        )));
    }
    let (kind, settings) = check_settings(dir);
    told(kind);
    let ids = secret::read(dir).ok();
    let registry = portolan_registry::check(&dir.join(REGISTRY_DIR), ids);
    for kind in &registry.kinds {
        let (about, meaning) = registry_words(kind.kind);
        let damage = kind.damage.iter().map(|damage| Damaged {
            file: damage.path.clone(),
            offset: damage.offset,
            what: damage.what.clone(),
        });
        told(CheckedKind {
            files: kind.files,
            bytes: kind.bytes,
            damage: damage.collect(),
            torn_bytes: kind.torn_bytes,
            ..CheckedKind::of(kind.kind, about, meaning)
        });
    }
    let (warcs, indexes) = check_archive(dir, settings.as_ref(), &registry)?;
    told(warcs);
    told(indexes);
    told(check_payloads(dir, registry.closed)?);
    told(check_pauses(dir, &registry));
    Ok(())
}

fn registry_words(kind: &str) -> (&'static str, &'static str) {
    const STATE: &str = "Restore the registry from a copy.";
    match kind {
        "meta" => ("what the registry is", STATE),
        "manifest" => ("the last checkpoints", STATE),
        "journal" => (
            "what has happened since",
            "What is logged behind it cannot be read. Restore the registry from a copy.",
        ),
        "known" => ("what is known of each URL", STATE),
        "due" => ("queues", STATE),
        "hosts" => ("what is known of hosts", STATE),
        "urls" => (
            "texts of URLs",
            "Some URLs, or how they were found, cannot be told. Restore the registry from a copy.",
        ),
        "visits" => (
            "what came of requests",
            "Some visits cannot be told. Restore the registry from a copy.",
        ),
        "links" => (
            "the link graph",
            "Links and graph commands fail there. Restore the registry from a copy.",
        ),
        _ => ("seeds that were planted", STATE),
    }
}

/// Files without which the crawl would be another one.
fn check_settings(dir: &Path) -> (CheckedKind, Option<Settings>) {
    let mut kind = CheckedKind::of(
        "settings",
        "what the crawl is to be",
        "The crawl does not go on before the file is restored from a copy.",
    );
    let settings = kind.look(&dir.join(SETTINGS_FILE), Crawl::saved_settings(dir));
    kind.look(&dir.join(SEEDS_FILE), remembered_seeds(dir));
    kind.look(&dir.join(NAMED_FILE), Named::read(dir));
    kind.look(&dir.join(SECRET_FILE), secret::read(dir));
    let judged = dir.join(JUDGED_FILE);
    if judged.exists() {
        kind.look(&judged, Judged::read(dir));
    }
    if let Some(settings) = &settings {
        for (file, looked) in division::check(settings, dir) {
            kind.look(&file, looked);
        }
        let ranks = dir.join(crate::directory::RANKS_FILE);
        if ranks.exists() {
            let looked = assembly::ranker(settings, Some(dir));
            kind.look(&ranks, looked.map(|_| ()));
        }
    }
    (kind, settings)
}

/// WARC files against what was logged and against their own checksums; indexes against the WARC files.
fn check_archive(
    dir: &Path,
    settings: Option<&Settings>,
    registry: &RegistryCheck,
) -> Result<(CheckedKind, CheckedKind), CrawlError> {
    let mut warcs = CheckedKind::of(
        "archive",
        "WARC files",
        "What is archived there is lost. Restore the file from a copy.",
    );
    let mut indexes = CheckedKind::of(
        "index",
        "indexes of the WARC files",
        "Delete it if it is there: the crawl makes it again when it goes on.",
    );
    let logged = registry.archive_files.as_deref();
    if let (Some(settings), Some(logged)) = (settings, logged) {
        for fault in check_files(dir, &settings.archive.file_prefix(), logged)? {
            warcs.find(&fault.path, 0, fault.what());
        }
    }
    if let Some(id) = registry.crawl_id
        && let Err(error) = is_claimed(dir, &archive_id(id))
    {
        warcs.find(
            &dir.join(ARCHIVE_DIR).join("crawl-id"),
            0,
            error.to_string(),
        );
    }
    let end = logged.and_then(|logged| logged.last().copied());
    for path in warc_files(&dir.join(ARCHIVE_DIR))? {
        warcs.count(&path);
        let report = verify_for_index(&path, &surt)?;
        // Beyond what was logged, a crash has left what it left.
        let sure_up_to = match (number_of(&path), end) {
            (Some(number), Some((last, end))) if number == last => end,
            (Some(number), Some((last, _))) if number > last => 0,
            (Some(_), None) if logged.is_some() => 0,
            _ => u64::MAX,
        };
        for finding in &report.findings {
            if finding.offset >= sure_up_to {
                let length = std::fs::metadata(&path).map_or(0, |metadata| metadata.len());
                warcs.torn_bytes += length.saturating_sub(finding.offset);
                break;
            }
            warcs.find(&path, finding.offset, finding.fault.to_string());
        }
        if sure_up_to == 0 {
            continue;
        }
        if let Some(faults) = check_index(&report)? {
            // Not closed: it is made when the crawl goes on.
            if registry.closed || !faults.absent {
                indexes.find(&faults.path, 0, index_fault(&faults));
            }
        }
    }
    for path in warc_files(&dir.join(ARCHIVE_DIR).join(SET_ASIDE_DIR))? {
        warcs.count(&path);
        for finding in verify_for_index(&path, &surt)?.findings {
            warcs.find(&path, finding.offset, finding.fault.to_string());
        }
    }
    count_indexes(dir, &mut indexes);
    if registry.closed
        && dir.join("index").is_dir()
        && let Some(faults) = check_merged_index(dir)?
    {
        indexes.find(&faults.path, 0, index_fault(&faults));
    }
    Ok((warcs, indexes))
}

fn count_indexes(dir: &Path, kind: &mut CheckedKind) {
    kind.count(&dir.join("index.cdxj"));
    let entries = std::fs::read_dir(dir.join("index"));
    for entry in entries.into_iter().flatten().flatten() {
        kind.count(&entry.path());
    }
}

fn check_payloads(dir: &Path, closed: bool) -> Result<CheckedKind, CrawlError> {
    let mut kind = CheckedKind::of(
        "seen",
        "which payloads are archived",
        "Copies of some payloads are stored in full once more; nothing is lost.",
    );
    let dir = dir.join(SEEN_DIR);
    // Whoever ends in order leaves both.
    for path in [dir.clone(), dir.join("MANIFEST")] {
        if closed && !path.exists() {
            kind.find(&path, 0, "it is missing");
            return Ok(kind);
        }
    }
    if !dir.is_dir() {
        return Ok(kind);
    }
    let seen = check_seen(&dir)?;
    (kind.files, kind.bytes, kind.torn_bytes) = (seen.files, seen.bytes, seen.torn_bytes);
    for (file, offset, what) in seen.damage {
        kind.find(&file, offset, what);
    }
    if closed && seen.torn_bytes > 0 {
        kind.find(&dir.join("text"), 0, "its last entry is cut off");
        kind.torn_bytes = 0;
    }
    Ok(kind)
}

/// The file is made before anything is asked of any host.
fn check_pauses(dir: &Path, registry: &RegistryCheck) -> CheckedKind {
    let mut kind = CheckedKind::of(
        PAUSES_FILE,
        "hosts that asked to be left alone",
        "Some hosts may be asked sooner than they wished. Going on with the crawl makes the file anew.",
    );
    let path = dir.join(PAUSES_FILE);
    let archived = registry.archive_files.as_ref();
    if path.exists() {
        kind.count(&path);
    } else if registry.closed && registry.crawl_id.is_some()
        || archived.is_some_and(|files| !files.is_empty())
    {
        kind.find(&path, 0, "the file is missing");
    }
    kind
}

/// What is wrong with an index, in words.
pub fn index_fault(faults: &IndexFaults) -> String {
    if faults.absent {
        return "the file is missing".to_owned();
    }
    format!(
        "it does not fit: {} lines are missing, {} are about records that are not there, {} are broken, {} out of order",
        faults.missing, faults.surplus, faults.broken, faults.unsorted
    )
}

/// The key of a URL in an index.
pub fn surt(url: &str) -> String {
    CanonicalUrl::from_canonical(url.to_owned()).map_or_else(|_| url.to_owned(), |u| u.surt())
}

/// By name; a directory that is not there has none.
fn warc_files(dir: &Path) -> Result<Vec<PathBuf>, CrawlError> {
    let at = |source| CrawlError::File {
        path: dir.to_owned(),
        source,
    };
    let entries = match std::fs::read_dir(dir) {
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.map_err(at)?,
    };
    let mut files = Vec::new();
    for entry in entries {
        let path = entry.map_err(at)?.path();
        let name = path.to_string_lossy();
        if name.ends_with(".warc") || name.ends_with(".warc.gz") {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

/// `prefix-timestamp-number.warc.gz`.
fn number_of(path: &Path) -> Option<u32> {
    let name = path.file_name()?.to_str()?;
    let stem = name.split(".warc").next()?;
    stem.rsplit_once('-')?.1.parse().ok()
}
