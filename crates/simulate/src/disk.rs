//! The simulated disk: at a certain step of a commit it refuses, or the process dies with what is on disk just then.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use portolan_crawl::{Step, Steps};
use tokio::sync::Notify;

#[derive(Debug)]
pub(crate) struct Disk {
    steps: AtomicU64,
    dies_at: AtomicU64,
    refuses_at: AtomicU64,
    has_refused: AtomicBool,
    /// Where the crawl is, and where what it leaves behind goes.
    places: Mutex<(PathBuf, PathBuf)>,
    /// What was left behind by a death at a step has been copied.
    has_copied: AtomicBool,
    pub(crate) fatal: Notify,
}

impl Disk {
    pub(crate) fn new() -> Self {
        Self {
            steps: AtomicU64::new(0),
            dies_at: AtomicU64::new(u64::MAX),
            refuses_at: AtomicU64::new(u64::MAX),
            has_refused: AtomicBool::new(false),
            places: Mutex::default(),
            has_copied: AtomicBool::new(false),
            fatal: Notify::new(),
        }
    }

    /// Another process begins, which leaves `from` behind as `to` if it dies.
    pub(crate) fn reborn(&self, from: PathBuf, to: PathBuf) {
        for never in [&self.dies_at, &self.refuses_at] {
            never.store(u64::MAX, Ordering::Relaxed);
        }
        self.has_refused.store(false, Ordering::Relaxed);
        self.has_copied.store(false, Ordering::Relaxed);
        *self.places.lock().unwrap_or_else(PoisonError::into_inner) = (from, to);
    }

    /// The process dies before the step of a commit that is this number of steps away.
    pub(crate) fn die_in(&self, steps: u64) {
        let at = self.steps.load(Ordering::Relaxed).saturating_add(steps);
        self.dies_at.store(at, Ordering::Relaxed);
    }

    /// The disk refuses the step of a commit that is this number of steps away.
    pub(crate) fn refuse_in(&self, steps: u64) {
        let at = self.steps.load(Ordering::Relaxed).saturating_add(steps);
        self.refuses_at.store(at, Ordering::Relaxed);
    }

    pub(crate) fn has_refused(&self) -> bool {
        self.has_refused.load(Ordering::Relaxed)
    }

    /// What a dead process leaves behind, unless it was copied when it died.
    pub(crate) fn leave_behind(&self) -> io::Result<()> {
        if self.has_copied.swap(true, Ordering::Relaxed) {
            return Ok(());
        }
        let places = self.places.lock().unwrap_or_else(PoisonError::into_inner);
        copy(&places.0, &places.1)
    }
}

impl Steps for Disk {
    fn before(&self, step: Step) -> io::Result<()> {
        let number = self.steps.fetch_add(1, Ordering::Relaxed);
        if number == self.dies_at.load(Ordering::Relaxed) {
            tracing::info!(?step, "dies before a step of a commit");
            self.leave_behind()?;
            self.fatal.notify_one();
        }
        if number == self.refuses_at.load(Ordering::Relaxed) {
            tracing::info!(?step, "the disk refuses a step of a commit");
            self.has_refused.store(true, Ordering::Relaxed);
            return Err(io::ErrorKind::StorageFull.into());
        }
        Ok(())
    }
}

/// A directory as it is now, with all that is below it.
fn copy(from: &Path, to: &Path) -> io::Result<()> {
    std::fs::create_dir_all(to)?;
    for entry in std::fs::read_dir(from)? {
        let entry = entry?;
        let (path, to) = (entry.path(), to.join(entry.file_name()));
        match entry.file_type()?.is_dir() {
            true => copy(&path, &to)?,
            false => std::fs::copy(&path, &to).map(|_| ())?,
        }
    }
    Ok(())
}
