//! What `-v`, `-vv` and `--log FILE` tell: events of the rooms, which they emit through `tracing`, one line each. Without them
//! nobody listens, and an event costs the look at one number.
//!
//! Values are other people's text (URLs, hosts, errors): they pass `plain` and cannot end a line.

use std::fmt::{self, Write as _};
use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError, RwLock};
use std::time::{SystemTime, UNIX_EPOCH};

use portolan_crawl::report::date;
use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

use crate::failure::Failure;
use crate::output::{field, noteln};

/// Others' libraries have events, too; they are not what was asked for.
const OURS: &str = "portolan";

/// Levels that were set while the program ran, by the beginning of an event's target. The last one that fits counts.
static ADJUSTED: RwLock<Vec<(String, LevelFilter)>> = RwLock::new(Vec::new());

/// Listen from now on, if anybody wants to know: `verbose` is how often -v was given.
pub(crate) fn begin(verbose: u8, file: Option<&Path>) -> Result<(), Failure> {
    match (verbose, file) {
        (0, None) => Ok(()),
        (0 | 1, _) => listen(LevelFilter::INFO, file),
        _ => listen(LevelFilter::DEBUG, file),
    }
}

/// The same, where `adjust` may ask for more later. Without -v only warnings are told until then.
pub(crate) fn begin_adjustable(verbose: u8, file: Option<&Path>) -> Result<(), Failure> {
    match (verbose, file) {
        (0, None) => listen(LevelFilter::WARN, file),
        _ => begin(verbose, file),
    }
}

/// Tell from now on what this part of the program says at this level. A name that is none of its parts means all of it.
pub(crate) fn adjust(part: &str, level: LevelFilter) {
    let part = if part.starts_with(OURS) { part } else { OURS };
    let mut adjusted = ADJUSTED.write().unwrap_or_else(PoisonError::into_inner);
    adjusted.retain(|(name, _)| !name.starts_with(part));
    adjusted.push((part.to_owned(), level));
    drop(adjusted);
    tracing::callsite::rebuild_interest_cache();
}

fn listen(level: LevelFilter, file: Option<&Path>) -> Result<(), Failure> {
    let open = |path: &Path| {
        let opened = OpenOptions::new().create(true).append(true).open(path);
        opened.map_err(|e| Failure::usage(format!("--log {}: {e}", path.display())))
    };
    let log = Log {
        level,
        file: file.map(open).transpose()?.map(Mutex::new),
        has_failed: AtomicBool::new(false),
    };
    tracing::subscriber::set_global_default(log).map_err(Failure::failed)
}

struct Log {
    level: LevelFilter,
    /// Where lines go; standard error if there is none.
    file: Option<Mutex<File>>,
    /// The file could not be written, which was said.
    has_failed: AtomicBool,
}

impl Log {
    fn write(&self, line: &str) {
        let Some(file) = &self.file else {
            noteln!("{line}");
            return;
        };
        let mut file = file.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        if let Err(error) = file.write_all(format!("{line}\n").as_bytes())
            && !self.has_failed.swap(true, Ordering::Relaxed)
        {
            noteln!("The log cannot be written: {error}. The crawl goes on without it.");
        }
    }
}

impl Subscriber for Log {
    fn enabled(&self, about: &Metadata<'_>) -> bool {
        if !about.is_event() || !about.target().starts_with(OURS) {
            return false;
        }
        let adjusted = ADJUSTED.read().unwrap_or_else(PoisonError::into_inner);
        let mut fitting = adjusted.iter().rev();
        let level = fitting.find(|(part, _)| about.target().starts_with(part));
        *about.level() <= level.map_or(self.level, |(_, level)| *level)
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        let adjusted = ADJUSTED.read().unwrap_or_else(PoisonError::into_inner);
        let levels = adjusted.iter().map(|(_, level)| *level);
        levels.chain([self.level]).max()
    }

    fn event(&self, event: &Event<'_>) {
        let now = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        let mut line = Line::default();
        event.record(&mut line);
        // As in 2026-11-18 06:24:13.250 UTC.
        let date = date(now.as_millis() as u64);
        self.write(&format!(
            "{}.{:03} UTC {:<5} {}{}",
            date.trim_end_matches(" UTC"),
            now.subsec_millis(),
            event.metadata().level(),
            line.message,
            line.fields
        ));
    }

    // Nobody uses spans here.
    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }
    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

/// An event's words: what happened, and ` name=value` for each of its fields.
#[derive(Default)]
struct Line {
    message: String,
    fields: String,
}

impl Visit for Line {
    fn record_debug(&mut self, name: &Field, value: &dyn fmt::Debug) {
        let value = format!("{value:?}");
        self.record_str(name, &value);
    }

    fn record_str(&mut self, name: &Field, value: &str) {
        let value = field(value);
        if name.name() == "message" {
            self.message = value.to_string();
            return;
        }
        let value = value.to_string();
        let is_one_word = !value.is_empty() && !value.contains([' ', '"']);
        let _ = match is_one_word {
            true => write!(self.fields, " {}={value}", name.name()),
            false => write!(
                self.fields,
                " {}=\"{}\"",
                name.name(),
                value.replace('"', "'")
            ),
        };
    }
}
