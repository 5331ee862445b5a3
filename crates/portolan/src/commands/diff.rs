//! `portolan diff`: what changed between two sessions, and the text of one page in both.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use portolan_archive::{Cat, warc_path};
use portolan_crawl::report::{bytes, counted, date};
use portolan_crawl::{Crawl, Fresh, write_fresh, write_payload};
use portolan_model::{CanonicalUrl, Visit};
use portolan_registry::{Snapshot, UrlFilter, UrlRecord};
use serde_json::json;

use super::warc::files_with;
use super::{inspect, side_by_side};
use crate::arguments::DiffArguments;
use crate::failure::Failure;
use crate::output::field;

/// What is known of a URL in two sessions.
struct Pair {
    before: Option<Visit>,
    after: Visit,
}

/// How a URL differs.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Difference {
    New,
    Changed,
    Gone,
}

impl Difference {
    fn name(self) -> &'static str {
        match self {
            Difference::New => "new",
            Difference::Changed => "changed",
            Difference::Gone => "gone",
        }
    }
}

pub(crate) fn run(arguments: &DiffArguments) -> Result<ExitCode, Failure> {
    let snapshot = inspect::open(&arguments.dir)?;
    let last = snapshot.session();
    let (from, to) = match (arguments.from, arguments.to) {
        (Some(from), Some(to)) => (from, to),
        _ => (last.saturating_sub(1), last),
    };
    if from == 0 && last == 1 {
        return Err(Failure::usage(format!(
            "the crawl in {} has one session, and nothing to compare it with; 'portolan crawl --out {0} --new-session' begins another",
            arguments.dir.display()
        )));
    }
    if from == 0 || from >= to || to > last {
        return Err(Failure::usage(format!(
            "sessions {from} and {to}: the first must be before the second, and there are sessions 1 to {last}"
        )));
    }
    match &arguments.url {
        Some(url) => page(&snapshot, arguments, url, (from, to)),
        None => list(&snapshot, arguments, (from, to)),
    }
}

/// The last check of a URL up to each of two sessions; `None` if the second knows nothing that the first does not.
fn pair(
    snapshot: &Snapshot,
    url: &UrlRecord,
    (from, to): (u32, u32),
) -> Result<Option<Pair>, Failure> {
    let up_to = |mut visit: Option<Visit>, session: u32| -> Result<Option<Visit>, Failure> {
        while let Some(found) = visit {
            if found.is_check() && found.history.session <= session {
                return Ok(Some(found));
            }
            visit = snapshot
                .check_before(url, &found)
                .map_err(Failure::failed)?;
        }
        Ok(None)
    };
    let last = snapshot.visit(url).map_err(Failure::failed)?;
    let after = up_to(last, to)?.filter(|after| after.history.session > from);
    let Some(after) = after else { return Ok(None) };
    let before = snapshot
        .check_before(url, &after)
        .map_err(Failure::failed)?;
    let before = up_to(before, from)?;
    Ok(Some(Pair { before, after }))
}

impl Pair {
    fn difference(&self) -> Option<Difference> {
        let before = self.before.as_ref().filter(|before| !before.is_gone());
        match (before, self.after.is_gone()) {
            (None, true) => None,
            (None, false) => Some(Difference::New),
            (Some(_), true) => Some(Difference::Gone),
            (Some(before), false) if before.sha1 == self.after.sha1 => None,
            (Some(_), false) => Some(Difference::Changed),
        }
    }

    /// Bits of 64 in which the fingerprints of the texts differ: few for a small change.
    fn distance(&self) -> Option<u32> {
        let before = self.before.as_ref()?;
        let is_text = before.simhash != 0 && self.after.simhash != 0;
        is_text.then(|| (before.simhash ^ self.after.simhash).count_ones())
    }
}

fn list(
    snapshot: &Snapshot,
    arguments: &DiffArguments,
    sessions: (u32, u32),
) -> Result<ExitCode, Failure> {
    let mut out = inspect::lines();
    let mut counts = [0_u64; 3];
    for url in snapshot.urls(UrlFilter::default()) {
        let url = url.map_err(Failure::failed)?;
        let Some(pair) = pair(snapshot, &url, sessions)? else {
            continue;
        };
        let Some(difference) = pair.difference() else {
            continue;
        };
        counts[difference as usize] += 1;
        if arguments.json {
            let before = pair.before.as_ref();
            let line = json!({
                "url": url.url,
                "difference": difference.name(),
                "status_before": before.map(|v| v.status),
                "status": pair.after.status,
                "at_ms_before": before.map(|v| v.at_ms),
                "at_ms": pair.after.at_ms,
                "body_bytes_before": before.map(|v| v.body_bytes),
                "body_bytes": pair.after.body_bytes,
                "gone_ms": Some(pair.after.history.gone_ms).filter(|&ms| ms > 0),
                "text_distance": pair.distance(),
            });
            inspect::write_json(&mut out, &line)?;
            continue;
        }
        let how = match difference {
            Difference::New => bytes(pair.after.body_bytes),
            Difference::Gone => format!("since {}", date(pair.after.history.gone_ms)),
            Difference::Changed => {
                let before = pair.before.as_ref().map_or(0, |before| before.body_bytes);
                format!("{} -> {}", bytes(before), bytes(pair.after.body_bytes))
            }
        };
        writeln!(out, "{:<8} {}  ({how})", difference.name(), field(&url.url))?;
    }
    if !arguments.json {
        let [new, changed, gone] = counts;
        writeln!(
            out,
            "From session {} to session {}: {} new, {changed} changed, {gone} gone.",
            sessions.0,
            sessions.1,
            counted(new, "URL"),
        )?;
    }
    Ok(ExitCode::SUCCESS)
}

/// One page in both sessions.
fn page(
    snapshot: &Snapshot,
    arguments: &DiffArguments,
    url: &str,
    sessions: (u32, u32),
) -> Result<ExitCode, Failure> {
    let canonicalizer = Crawl::canonicalizer(&arguments.dir)?;
    let url = canonicalizer
        .parse_seed(url)
        .map_err(|e| Failure::usage(format!("'{url}': {e}")))?;
    let record = snapshot
        .find(url.doc_id(snapshot.ids()))
        .map_err(Failure::failed)?;
    let Some(record) = record else {
        return Err(Failure::usage(format!("{url} is not known to this crawl")));
    };
    let Some(pair) = pair(snapshot, &record, sessions)? else {
        return Err(Failure::usage(format!(
            "{url} was not asked for in session {}",
            sessions.1
        )));
    };
    let before = match &pair.before {
        Some(before) => text(&arguments.dir, &url, before)?,
        None => Vec::new(),
    };
    let after = text(&arguments.dir, &url, &pair.after)?;
    let rows = side_by_side::compare(&before, &after);
    let mut out = inspect::lines();
    if arguments.json {
        let line = json!({
            "url": url.as_str(),
            "difference": pair.difference().map(Difference::name),
            "before": before,
            "after": after,
        });
        inspect::write_json(&mut out, &line)?;
    } else {
        side_by_side::write(&mut out, &rows)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The lines of a page's text, as it is archived, with the volatile parts that the visit fetched. What is gone has none.
fn text(dir: &Path, url: &CanonicalUrl, visit: &Visit) -> Result<Vec<String>, Failure> {
    let Some(at) = visit.archive.filter(|_| !visit.is_gone()) else {
        return Ok(Vec::new());
    };
    if visit.is_refreshed() {
        let files = files_with(dir, Some(url.as_str()))?;
        let mut body = Vec::new();
        let fresh = write_fresh(&files, url, Some(visit.at_ms), &mut body)?;
        if matches!(fresh, Fresh::Refreshed(_)) {
            return Ok(side_by_side::lines_of(&body, &visit.mime, &visit.charset));
        }
    }
    let prefix = Crawl::saved_settings(dir)?.archive.prefix;
    let path_of = |file: u32| warc_path(dir, &prefix, file).map_err(Failure::failed);
    let Some(own) = path_of(at.file)? else {
        return Err(Failure::usage(
            "the WARC file of this page is gone".to_owned(),
        ));
    };
    let mut body = Vec::new();
    let revisit_in: Vec<PathBuf> = vec![own];
    let found = match write_payload(&revisit_in, Cat::Offset(at.offset), &mut body) {
        Ok(found) => found,
        // The payload is in another file, mostly an earlier one.
        Err(_) => {
            body.clear();
            let mut files = revisit_in;
            for file in (0..at.file).rev() {
                files.extend(path_of(file)?);
            }
            write_payload(&files, Cat::Offset(at.offset), &mut body)?
        }
    };
    if !found {
        return Err(Failure::usage(
            "the record of this page is not in its WARC file".to_owned(),
        ));
    }
    Ok(side_by_side::lines_of(&body, &visit.mime, &visit.charset))
}
