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

/// The end of the note of a session in which pages are kept fresh: nothing is due because it begins. Before all partitions know of it, ...
const KEEPS_UNFINISHED: &str = ", to keep fresh";
/// ... and from then on.
const KEEPS: &str = ", keeps fresh";

/// A session that is to begin.
pub(crate) struct Beginning {
    dir: PathBuf,
    number: u32,
    begun_ms: u64,
    /// Pages are kept fresh in it: none is due because it begins.
    keeps: bool,
}

/// What a person asked for.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Asked {
    pub(crate) new_session: bool,
    pub(crate) keep_fresh: bool,
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
        asked: Asked,
        now_ms: u64,
    ) -> Result<Option<Self>, CrawlError> {
        let noted = Self::read(dir)?;
        if let Some((unfinished, true)) = noted {
            return Ok(Some(unfinished));
        }
        let is_keeping = noted.is_some_and(|(last, _)| last.keeps);
        // What is kept fresh goes on in the session that began for it.
        if !asked.new_session && (!asked.keep_fresh || is_keeping) {
            return Ok(None);
        }
        let last = partitions.iter().map(Partition::session).max().unwrap_or(1);
        let beginning = Self {
            dir: dir.to_owned(),
            number: last + 1,
            begun_ms: now_ms,
            keeps: asked.keep_fresh && !asked.new_session,
        };
        beginning.note(match beginning.keeps {
            true => KEEPS_UNFINISHED,
            false => UNFINISHED,
        })?;
        Ok(Some(beginning))
    }

    /// The last session that was begun, and whether its beginning is unfinished.
    fn read(dir: &Path) -> Result<Option<(Self, bool)>, CrawlError> {
        let path = dir.join(SESSION_FILE);
        if !path.exists() {
            return Ok(None);
        }
        let sealed = directory::read(&path)?;
        let text = unseal(&sealed, &path, "")?;
        let parse = |text: &str| {
            let (number, begun) = text.trim_end().strip_prefix(NUMBER)?.split_once(BEGUN)?;
            let ends = [
                (UNFINISHED, false, true),
                (KEEPS_UNFINISHED, true, true),
                (KEEPS, true, false),
                ("", false, false),
            ];
            let with = |(end, keeps, unfinished)| {
                let begun_ms = begun.strip_suffix(end)?;
                Some((begun_ms, keeps, unfinished))
            };
            let (begun_ms, keeps, unfinished) = ends.into_iter().find_map(with)?;
            let beginning = Self {
                dir: dir.to_owned(),
                number: number.parse().ok()?,
                begun_ms: begun_ms.parse().ok()?,
                keeps,
            };
            Some((beginning, unfinished))
        };
        parse(text).map(Some).ok_or_else(|| {
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
        for id in (0..partitions).filter(|_| !self.keeps) {
            let registry = self.dir.join(REGISTRY_DIR);
            let snapshot = Snapshot::open_one(&registry, shared.ids, id)?;
            self.renew_partition(hand, &snapshot, PartitionId(id), judge)?;
        }
        wait_until_folded(shared);
        if !shared.budget.is_stopping() {
            self.note(if self.keeps { KEEPS } else { "" })?;
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

    const NEW: Asked = Asked {
        new_session: true,
        keep_fresh: false,
    };
    const KEEP: Asked = Asked {
        new_session: false,
        keep_fresh: true,
    };

    #[test]
    fn a_beginning_that_was_cut_off_goes_on_and_a_damaged_note_is_told() {
        let dir = tempfile::tempdir().expect("a directory");
        let read = || Beginning::read(dir.path());
        assert!(read().expect("no file").is_none());
        let begun = Beginning::wanted(dir.path(), &[], NEW, 77).expect("noted");
        let begun = begun.expect("a session");
        assert_eq!((begun.number, begun.begun_ms), (2, 77));
        // Whoever comes next goes on with it, whatever was asked for.
        for asked in [Asked::default(), NEW, KEEP] {
            let next = Beginning::wanted(dir.path(), &[], asked, 99).expect("read");
            assert_eq!(
                next.map(|next| (next.begun_ms, next.keeps)),
                Some((77, false))
            );
        }
        begun.note("").expect("noted");
        assert!(
            read()
                .expect("a file")
                .is_some_and(|(_, unfinished)| !unfinished)
        );
        let path = dir.path().join(SESSION_FILE);
        std::fs::write(&path, "session 2").expect("written");
        let told = read().err().expect("damaged").to_string();
        assert!(told.contains("session is cut off"), "{told}");
    }

    #[test]
    fn pages_are_kept_fresh_in_one_session_until_another_begins() {
        let dir = tempfile::tempdir().expect("a directory");
        let wanted = |asked| Beginning::wanted(dir.path(), &[], asked, 5).expect("read");
        let begun = wanted(KEEP).expect("a session");
        assert!(begun.keeps);
        assert!(wanted(Asked::default()).is_some_and(|unfinished| unfinished.keeps));
        begun.note(KEEPS).expect("noted");
        assert!(wanted(KEEP).is_none() && wanted(Asked::default()).is_none());
        assert!(wanted(NEW).is_some_and(|next| !next.keeps));
    }
}
