//! A new session: what is known and in scope becomes due again, through the partitions' logs, before a turn begins.
//!
//! The file `session` says that one is being begun. A beginning that was killed starts again and ends the same: what is
//! due already, or was visited in the session, is left as it is.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use portolan_graph::{CrawlPages, PageRankSettings, class_of_score, pagerank, read_crawl};
use portolan_model::{DocId, PartitionId};
use portolan_registry::{Entry, Partition, Renewed, Snapshot, UrlRecord, UrlState, Was};

use crate::crawl::REGISTRY_DIR;
use crate::directory;
use crate::error::CrawlError;
use crate::judging::{Hand, Judge, wait_until_folded};
use crate::redivide::{Divide, DivideBy};
use crate::sealed::{seal, unseal};

/// The last session that was begun in a crawl's directory.
pub(crate) const SESSION_FILE: &str = "session";

/// URLs that become due by one entry of a log.
const URLS_TOGETHER: usize = 500;

const NUMBER: &str = "session ";
const BEGUN: &str = " begun at ";
const UNFINISHED: &str = ", not all of its URLs are due yet";
/// Before `UNFINISHED`, where queues go by the ranks of the last session's graph.
const RANKED: &str = ", ranked";
/// Before both, where the crawl is to be divided anew first: followed by what by, ...
const TO_DIVIDE: &str = ", to be divided by ";
/// ... this, and the number of partitions.
const INTO: &str = " into ";

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
    /// Queues go by the ranks of the last session's graph.
    ranked: bool,
    /// The crawl is divided anew before anything else.
    divide: Option<Divide>,
}

/// A division that is to be carried out before its session begins.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NotedDivision {
    pub(crate) divide: Divide,
    /// The session that follows goes by ranks.
    pub(crate) ranked: bool,
}

/// What a person asked for.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Asked {
    pub(crate) new_session: bool,
    pub(crate) keep_fresh: bool,
    /// With `new_session`: queues go by the ranks of the last session's graph.
    pub(crate) ranked: bool,
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

/// The division that a session which is being begun waits for.
pub(crate) fn noted_division(dir: &Path) -> Result<Option<NotedDivision>, CrawlError> {
    let noted = Beginning::read(dir)?.filter(|(_, unfinished)| *unfinished);
    Ok(noted.and_then(|(beginning, _)| {
        beginning.divide.map(|divide| NotedDivision {
            divide,
            ranked: beginning.ranked,
        })
    }))
}

/// A division is to be carried out, and then a session begins: this one, with its number and the time of its beginning, or
/// the one whose beginning is unfinished.
pub(crate) fn note_division(
    dir: &Path,
    noted: NotedDivision,
    (number, begun_ms): (u32, u64),
) -> Result<(), CrawlError> {
    let unfinished =
        Beginning::read(dir)?.filter(|(before, unfinished)| *unfinished && !before.keeps);
    let (number, begun_ms) = match unfinished {
        Some((before, _)) => (before.number, before.begun_ms),
        None => (number, begun_ms),
    };
    let beginning = Beginning {
        dir: dir.to_owned(),
        number,
        begun_ms,
        keeps: false,
        ranked: noted.ranked,
        divide: Some(noted.divide),
    };
    beginning.note_unfinished()
}

/// The division has been carried out; the session is still to begin.
pub(crate) fn note_divided(dir: &Path) -> Result<(), CrawlError> {
    match Beginning::read(dir)? {
        Some((mut beginning, true)) if beginning.divide.is_some() => {
            beginning.divide = None;
            beginning.note_unfinished()
        }
        _ => Ok(()),
    }
}

/// As `note_unfinished` writes it.
fn parse_division(text: &str) -> Option<Divide> {
    let (by, partitions) = text.split_once(INTO)?;
    Some(Divide {
        by: DivideBy::from_name(by)?,
        partitions: Some(partitions.parse().ok()?),
    })
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
            ranked: asked.ranked,
            divide: None,
        };
        beginning.note_unfinished()?;
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
                let begun = begun.strip_suffix(end)?;
                Some((begun, keeps, unfinished))
            };
            let (begun, keeps, unfinished) = ends.into_iter().find_map(with)?;
            let (begun, ranked) = match begun.strip_suffix(RANKED) {
                Some(begun) => (begun, true),
                None => (begun, false),
            };
            let (begun_ms, divide) = match begun.split_once(TO_DIVIDE) {
                Some((begun_ms, divide)) => (begun_ms, Some(parse_division(divide)?)),
                None => (begun, None),
            };
            let beginning = Self {
                dir: dir.to_owned(),
                number: number.parse().ok()?,
                begun_ms: begun_ms.parse().ok()?,
                keeps,
                ranked,
                divide,
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

    /// Its URLs are not all due yet.
    fn note_unfinished(&self) -> Result<(), CrawlError> {
        if self.keeps {
            return self.note(KEEPS_UNFINISHED);
        }
        let divide = self.divide.map(|divide| {
            let partitions = divide.partitions.unwrap_or_default();
            format!("{TO_DIVIDE}{}{INTO}{partitions}", divide.by.name())
        });
        let ranked = if self.ranked { RANKED } else { "" };
        self.note(&format!(
            "{}{ranked}{UNFINISHED}",
            divide.unwrap_or_default()
        ))
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
        let registry = self.dir.join(REGISTRY_DIR);
        let ranks = match self.ranked {
            true => Some(ranks(&Snapshot::open(&registry, shared.ids)?, hand)?),
            false => None,
        };
        for id in (0..partitions).filter(|_| !self.keeps) {
            let snapshot = Snapshot::open_one(&registry, shared.ids, id)?;
            self.renew_partition(hand, (&snapshot, ranks.as_ref()), PartitionId(id), judge)?;
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
        (snapshot, ranks): (&Snapshot, Option<&HashMap<DocId, u8>>),
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
            // What the graph has not is worth least.
            let class = ranks.map(|ranks| ranks.get(&url.doc).copied().unwrap_or(0));
            together.push(Renewed {
                url: url.url,
                was,
                class,
            });
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

/// The classes of all pages by the PageRank of what was fetched so far. Takes memory for the whole graph.
fn ranks(snapshot: &Snapshot, hand: &Hand<'_>) -> Result<HashMap<DocId, u8>, CrawlError> {
    let wrong =
        |error| CrawlError::Input(format!("the PageRank of what was fetched so far: {error}"));
    let graph = read_crawl(snapshot, CrawlPages::Fetched).map_err(wrong)?;
    let back = graph.links.transposed();
    let scores = pagerank(&graph.links, &back, PageRankSettings::default()).scores;
    let mean = scores.iter().sum::<f64>() / scores.len().max(1) as f64;
    let ids = &hand.shared.ids;
    let pages = (0..).zip(&scores).map(|(page, score)| {
        let doc = ids.doc(&graph.pages.name(page));
        (doc, class_of_score(*score, mean))
    });
    Ok(pages.collect())
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
        ranked: false,
    };
    const KEEP: Asked = Asked {
        new_session: false,
        keep_fresh: true,
        ranked: false,
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

    #[test]
    fn a_division_that_was_cut_off_is_known_until_it_is_done() {
        let dir = tempfile::tempdir().expect("a directory");
        let noted = || noted_division(dir.path()).expect("read");
        assert!(noted().is_none());
        for (by, partitions, ranked) in [(DivideBy::Graph, 12, false), (DivideBy::Hash, 3, true)] {
            let divide = Divide {
                by,
                partitions: Some(partitions),
            };
            let wanted = NotedDivision { divide, ranked };
            note_division(dir.path(), wanted, (2, 77)).expect("noted");
            let found = noted().expect("a division");
            assert_eq!((found.divide, found.ranked), (divide, ranked));
        }
        note_divided(dir.path()).expect("noted");
        assert!(noted().is_none());
        let next = Beginning::wanted(dir.path(), &[], Asked::default(), 99).expect("read");
        let next = next.expect("it goes on");
        assert_eq!((next.number, next.begun_ms, next.ranked), (2, 77, true));
    }

    #[test]
    fn a_session_that_goes_by_ranks_goes_on_so() {
        let dir = tempfile::tempdir().expect("a directory");
        let wanted = |asked| Beginning::wanted(dir.path(), &[], asked, 5).expect("read");
        let ranked = Asked {
            ranked: true,
            ..NEW
        };
        assert!(wanted(ranked).is_some_and(|next| next.ranked));
        assert!(wanted(Asked::default()).is_some_and(|next| next.ranked && !next.keeps));
    }
}
