//! A new session: what is known and in scope becomes due again, through the partitions' logs, before a turn begins.
//!
//! The file `session` says that one is being begun. A beginning that was killed starts again and ends the same: what is
//! due already, or was visited in the session, is left as it is.

use std::path::{Path, PathBuf};

use portolan_model::PartitionId;
use portolan_registry::{Entry, Partition, Renewed, Snapshot, UrlRecord, UrlState, Was};

use crate::crawl::REGISTRY_DIR;
use crate::directory;
use crate::error::CrawlError;
use crate::judging::{Hand, Judge, wait_until_folded};
use crate::sealed::{seal, unseal};

/// The last session that was begun in a crawl's directory.
pub(crate) const SESSION_FILE: &str = "session";

/// URLs that become due by one entry of a log.
const URLS_TOGETHER: usize = 500;

const NUMBER: &str = "session ";
const BEGUN: &str = " begun at ";
const UNFINISHED: &str = ", not all of its URLs are due yet";

/// A session that is to begin.
pub(crate) struct Beginning {
    dir: PathBuf,
    number: u32,
    begun_ms: u64,
}

/// The session of a crawl, and when it began: the one that begins, or the last that did.
pub(crate) fn of(partitions: &[Partition], beginning: Option<&Beginning>) -> (u32, u64) {
    if let Some(beginning) = beginning {
        return (beginning.number, beginning.begun_ms);
    }
    let last = partitions.iter().max_by_key(|p| p.session());
    match last.map(|p| (p.session(), p.session_begun_ms())) {
        Some((number, begun_ms)) if number > 1 => (number, begun_ms),
        _ => (1, 0),
    }
}

impl Beginning {
    /// `None` if no session is to begin. Else it is noted first, so that the next run goes on if this one is killed.
    pub(crate) fn wanted(
        dir: &Path,
        partitions: &[Partition],
        new_session: bool,
        now_ms: u64,
    ) -> Result<Option<Self>, CrawlError> {
        if let Some(unfinished) = Self::read_unfinished(dir)? {
            return Ok(Some(unfinished));
        }
        if !new_session {
            return Ok(None);
        }
        let last = partitions.iter().map(Partition::session).max().unwrap_or(1);
        let beginning = Self {
            dir: dir.to_owned(),
            number: last + 1,
            begun_ms: now_ms,
        };
        beginning.note(UNFINISHED)?;
        Ok(Some(beginning))
    }

    fn read_unfinished(dir: &Path) -> Result<Option<Self>, CrawlError> {
        let path = dir.join(SESSION_FILE);
        if !path.exists() {
            return Ok(None);
        }
        let sealed = directory::read(&path)?;
        let text = unseal(&sealed, &path, "")?;
        let parse = |text: &str| {
            let (number, begun) = text.trim_end().strip_prefix(NUMBER)?.split_once(BEGUN)?;
            let unfinished = begun.strip_suffix(UNFINISHED);
            let beginning = Self {
                dir: dir.to_owned(),
                number: number.parse().ok()?,
                begun_ms: unfinished.unwrap_or(begun).parse().ok()?,
            };
            Some(unfinished.map(|_| beginning))
        };
        parse(text).ok_or_else(|| {
            CrawlError::Input(format!(
                "{} names no session; restore the file from a copy",
                path.display()
            ))
        })
    }

    fn note(&self, state: &str) -> Result<(), CrawlError> {
        let (number, begun_ms) = (self.number, self.begun_ms);
        let text = format!("{NUMBER}{number}{BEGUN}{begun_ms}{state}\n");
        directory::replace(&self.dir, SESSION_FILE, seal(&text).as_bytes())
    }

    /// Makes due what is known and in scope. Where the crawl is stopped before the end, the next run goes on.
    pub(crate) fn run(&self, hand: &Hand<'_>, judge: &mut Judge<'_>) -> Result<(), CrawlError> {
        let shared = hand.shared;
        let partitions = shared.division.partitions();
        for id in 0..partitions {
            self.renew(hand, PartitionId(id), &mut Vec::new());
        }
        for id in 0..partitions {
            let registry = self.dir.join(REGISTRY_DIR);
            let snapshot = Snapshot::open_one(&registry, shared.ids, id)?;
            self.renew_partition(hand, &snapshot, PartitionId(id), judge)?;
        }
        wait_until_folded(shared);
        if !shared.budget.is_stopping() {
            self.note("")?;
            tracing::info!(session = self.number, "the session has begun");
        }
        Ok(())
    }

    fn renew_partition(
        &self,
        hand: &Hand<'_>,
        snapshot: &Snapshot,
        partition: PartitionId,
        judge: &mut Judge<'_>,
    ) -> Result<(), CrawlError> {
        let shared = hand.shared;
        let mut together = Vec::new();
        for url in snapshot.scattered(&[UrlState::Visited, UrlState::Failed, UrlState::Excluded]) {
            let url = url?;
            if shared.budget.is_stopping() {
                return Ok(());
            }
            if !may_have_changed(&url) || !judge.allows(&shared.scope(), &url) {
                continue;
            }
            let visit = snapshot.visit(&url)?;
            if visit
                .as_ref()
                .is_some_and(|visit| visit.history.session >= self.number)
            {
                continue;
            }
            let was = visit.as_ref().map(Was::of).unwrap_or_default();
            together.push(Renewed { url: url.url, was });
            if together.len() >= URLS_TOGETHER {
                self.renew(hand, partition, &mut together);
            }
        }
        if !together.is_empty() {
            self.renew(hand, partition, &mut together);
        }
        Ok(())
    }

    fn renew(&self, hand: &Hand<'_>, partition: PartitionId, urls: &mut Vec<Renewed>) {
        let entry = Entry::Session {
            number: self.number,
            begun_ms: self.begun_ms,
            urls: std::mem::take(urls),
        };
        hand.over(partition, entry);
    }
}

/// What settings keep out, only settings let in; all else may be another thing by now.
fn may_have_changed(url: &UrlRecord) -> bool {
    url.state != UrlState::Excluded || url.reason.is_some_and(|reason| !reason.is_liftable())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_beginning_that_was_cut_off_goes_on_and_a_damaged_note_is_told() {
        let dir = tempfile::tempdir().expect("a directory");
        let read = || Beginning::read_unfinished(dir.path());
        assert!(read().expect("no file").is_none());
        let begun = Beginning::wanted(dir.path(), &[], true, 77).expect("noted");
        let begun = begun.expect("a session");
        assert_eq!((begun.number, begun.begun_ms), (2, 77));
        // Whoever comes next goes on with it, whatever was asked for.
        for new_session in [false, true] {
            let next = Beginning::wanted(dir.path(), &[], new_session, 99).expect("read");
            assert_eq!(next.map(|next| next.begun_ms), Some(77));
        }
        begun.note("").expect("noted");
        assert!(read().expect("a file").is_none());
        let path = dir.path().join(SESSION_FILE);
        std::fs::write(&path, "session 2").expect("written");
        let told = read().err().expect("damaged").to_string();
        assert!(told.contains("session is cut off"), "{told}");
    }
}
