//! A change of mind counts: when a crawl goes on with other settings about what is fetched, every URL that is due or
//! excluded is judged by them before anything is asked for. The verdicts that differ go through the partitions' logs,
//! so the registry stays a fold of its log, and a judging that was killed starts again and ends the same.
//!
//! Layout: `criteria` (what decides, and by what the registry was judged), `judge` (the verdict on one URL),
//! `rescan` (links of archived pages that nobody looked for before).

mod criteria;
mod judge;
mod rescan;

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use portolan_model::{CanonicalUrl, DocId, Identities, LinkBatch, LinkKind, PartitionId, Verdict};
use portolan_registry::{Entry, Snapshot, UrlState};
use tokio::runtime::Runtime;

use crate::admission::Admission;
use crate::commit::Finished;
use crate::crawl::REGISTRY_DIR;
use crate::error::CrawlError;
use crate::granted::Asking;
use crate::keep::{Keeper, release_waiting};
use crate::page::Workbench;
use crate::retry::Retry;
use crate::scope::Scope;
use crate::session::Beginning;
use crate::settings::Settings;
use crate::shared::Shared;

use criteria::Changes;
pub(crate) use criteria::{Criteria, JUDGED_FILE, Judged};
pub(crate) use judge::Judge;
use rescan::Rescan;

/// At most this many verdicts are one entry of a log.
const VERDICTS_TOGETHER: usize = 500;

/// How often it is looked whether all verdicts are folded.
const LOOK_EVERY: Duration = Duration::from_millis(2);

/// That all URLs are to be judged, and by what.
pub(crate) struct Judging {
    dir: PathBuf,
    criteria: Criteria,
    changes: Changes,
    rescan: Option<Rescan>,
}

impl Judging {
    /// `None` if the URLs of the crawl in `dir` are judged by these settings already. Else it is noted that from now on
    /// some of them may be and others not, so that the next run begins anew if this one is killed.
    pub(crate) fn wanted(
        dir: &Path,
        settings: &Settings,
        scope: &Scope,
    ) -> Result<Option<Self>, CrawlError> {
        let criteria = Criteria::of(settings, scope)?;
        let judged = Judged::read(dir)?;
        let Some(changes) = Judged::changes(judged.as_ref(), &criteria) else {
            return Ok(None);
        };
        let rescan = Rescan::wanted(judged.as_ref(), settings);
        if let Some(judged) = judged {
            judged.begin(dir)?;
        }
        Ok(Some(Self {
            rescan,
            dir: dir.to_owned(),
            criteria,
            changes,
        }))
    }

    /// Names of what has changed.
    pub(crate) fn names(&self) -> Vec<String> {
        self.changes.names().to_vec()
    }

    /// Judges all that is known, while no turn begins. Where the crawl is stopped before its end, the next run judges
    /// again.
    fn run(
        &self,
        hand: &Hand<'_>,
        judge: &mut Judge<'_>,
        bench: &mut Workbench,
    ) -> Result<(), CrawlError> {
        let shared = hand.shared;
        let registry = self.dir.join(REGISTRY_DIR);
        for id in 0..shared.division.partitions() {
            let snapshot = Snapshot::open_one(&registry, shared.ids, id)?;
            judge_partition(hand, &snapshot, PartitionId(id), judge)?;
        }
        if let Some(rescan) = self.rescan {
            let snapshot = Snapshot::open(&registry, shared.ids)?;
            rescan.run(hand, &self.dir, &snapshot, bench)?;
        }
        wait_until_folded(shared);
        if !shared.budget.is_stopping() {
            Judged::remember(&self.dir, &self.criteria)?;
        }
        Ok(())
    }
}

/// Seeds that a person gave, and what they redirected to: `all` has both.
pub(crate) fn roots(
    ids: &Identities,
    given: &[CanonicalUrl],
    all: &[CanonicalUrl],
) -> HashMap<DocId, LinkKind> {
    let redirects = all.iter().map(|url| (url, LinkKind::SeedRedirect));
    let seeds = given.iter().map(|url| (url, LinkKind::Seed));
    let roots = redirects.chain(seeds);
    roots.map(|(url, kind)| (url.doc_id(ids), kind)).collect()
}

/// What there is to do about known pages beside asking for those that are due.
pub(crate) enum Keeping {
    Nothing,
    /// They are kept fresh until the crawl is stopped.
    Fresh(Keeper),
    /// A server grants what is fetched.
    Granted(Box<Asking>),
    /// A run before kept them fresh, and new ones waited for their share: those of the crawl in this directory are due.
    Release(PathBuf),
}

/// The body of the thread that judges URLs by settings that changed, begins a new session, and then makes due again what
/// failed. The crawl does not end before this does.
pub(crate) fn run(
    shared: &Arc<Shared>,
    (roots, admission, mut bench): (HashMap<DocId, LinkKind>, Admission, Workbench),
    judging: Option<Judging>,
    beginning: Option<Beginning>,
    retried: Option<(Retry, Snapshot)>,
    keeping: Keeping,
) {
    let mut judge = Judge {
        settings: &shared.settings,
        admission,
        changes: judging
            .as_ref()
            .map_or_else(Changes::default, |judging| judging.changes.clone()),
        roots,
    };
    let work = || -> Result<(), CrawlError> {
        let hand = Hand::of(shared)?;
        if let Some(judging) = judging {
            judging.run(&hand, &mut judge, &mut bench)?;
        }
        if let Some(beginning) = beginning {
            beginning.run(&hand, &mut judge)?;
        }
        if let Keeping::Granted(asking) = &keeping {
            asking.prepare(&hand)?;
        }
        if !shared.budget.is_stopping() {
            shared.judging.store(false, Ordering::SeqCst);
        }
        if let Some((retry, snapshot)) = retried {
            retry.run(&hand, &snapshot, &mut judge)?;
        }
        match keeping {
            Keeping::Fresh(keeper) => keeper.run(&hand, &mut judge),
            Keeping::Granted(asking) => asking.run(&hand, &mut judge),
            Keeping::Release(dir) => release_waiting(&hand, &dir, &mut judge),
            Keeping::Nothing => Ok(()),
        }
    };
    if let Err(error) = work() {
        shared.fail(error);
    }
    shared.outstanding.fetch_sub(1, Ordering::SeqCst);
}

/// Hands entries to the archivist from a thread that has nothing else to do.
pub(crate) struct Hand<'s> {
    pub(crate) shared: &'s Arc<Shared>,
    runtime: Runtime,
}

impl<'s> Hand<'s> {
    fn of(shared: &'s Arc<Shared>) -> Result<Self, CrawlError> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .build()
            .map_err(|e| CrawlError::Internal(format!("no runtime for judging: {e}")))?;
        Ok(Self { shared, runtime })
    }

    /// Waits while there is no room.
    pub(crate) fn over(&self, partition: PartitionId, entry: Entry) {
        self.runtime.block_on(self.shared.hand_over(Finished {
            partition,
            entry,
            record: None,
            haul: None,
            room: None,
        }));
    }

    pub(crate) fn verdicts(&self, partition: PartitionId, links: LinkBatch) {
        if !links.is_empty() {
            self.over(partition, Entry::Judged { links });
        }
    }
}

fn judge_partition(
    hand: &Hand<'_>,
    snapshot: &Snapshot,
    partition: PartitionId,
    judge: &mut Judge<'_>,
) -> Result<(), CrawlError> {
    let shared = hand.shared;
    let metrics = &shared.metrics;
    let mut links = LinkBatch::new(None);
    for url in snapshot.scattered(&[UrlState::Due, UrlState::Excluded]) {
        let url = url?;
        if shared.budget.is_stopping() {
            return Ok(());
        }
        let visit = match url.reason {
            Some(_) => snapshot.visit(&url)?,
            None => None,
        };
        metrics.add(&metrics.judged, 1);
        if let Some(link) = judge.judge(&shared.scope(), &url, visit.as_ref()) {
            match (url.state, link.verdict) {
                (UrlState::Excluded, Verdict::Crawl { .. }) => metrics.add(&metrics.judged_due, 1),
                (UrlState::Due, Verdict::Exclude(_)) => metrics.add(&metrics.judged_out, 1),
                _ => {}
            }
            links.push_known(url.doc, link);
        }
        if links.len() >= VERDICTS_TOGETHER {
            let links = std::mem::replace(&mut links, LinkBatch::new(None));
            hand.verdicts(partition, links);
        }
    }
    hand.verdicts(partition, links);
    Ok(())
}

/// Waits until nothing is outstanding but the judging itself, or the crawl is to stop.
pub(crate) fn wait_until_folded(shared: &Shared) {
    while shared.outstanding.load(Ordering::SeqCst) > 1 && !shared.budget.is_stopping() {
        shared.commit_now.notify_one();
        std::thread::sleep(LOOK_EVERY);
    }
}

/// Was judging by other settings begun in `dir` and cut off? Then some URLs are judged by the settings that hold, and
/// some by those before.
pub(crate) fn is_unfinished(dir: &Path) -> Result<bool, CrawlError> {
    Ok(Judged::read(dir)?.is_none_or(|judged| judged.is_unfinished()))
}
