//! The thread that keeps pages fresh. It hears what workers tell, looks for signals of people, and writes at the rate what becomes
//! due.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use portolan_model::{CanonicalUrl, DocId, LinkBatch, LinkKind, PartitionId, Reason, Verdict};
use portolan_registry::{Entry, Snapshot, UrlState};
use tokio::sync::mpsc;

use super::notes::{Found, NewUrl, Note};
use super::scan::{Source, Ticks, scan};
use super::schedule::{MAX_URGENT, Schedule, Settled, Why};
use super::spool::{Message, Spool, Teller};
use super::{put_off, weight_of};
use crate::admission::Sighting;
use crate::crawl::REGISTRY_DIR;
use crate::error::CrawlError;
use crate::judging::{Hand, Judge};
use crate::shared::Shared;

/// How long the keeper sleeps when it has done all there is to do.
const NAP: Duration = Duration::from_millis(10);

/// How often it looks for signals of people and of sites that ping.
const SPOOL_EVERY: Duration = Duration::from_millis(500);

/// What they make due is in the journal after this time.
const SPOOL_KEPT: Duration = Duration::from_secs(5);

/// What has come to be due while nothing could be picked, in time: no more is made up for.
const MADE_UP_FOR_S: f64 = 0.5;

/// URLs that become due by one entry of a log.
const URLS_TOGETHER: usize = 500;

/// Where URLs had to be left out of the schedule, the registry is read again after this share of its pages was fetched.
const READ_AGAIN_AFTER: f64 = 0.5;

/// A registry that was read is not read again before this many times as long: no more than a twentieth of the time goes into it.
const READ_AGAIN_AT_MOST: u32 = 20;

pub(crate) struct Keeper {
    registry: PathBuf,
    inbox: mpsc::Receiver<Note>,
    spool: Spool,
    spool_looked: Option<Instant>,
    /// Notes that came while the registry was read.
    meanwhile: Vec<Note>,
}

impl Keeper {
    pub(crate) fn new(dir: &Path, inbox: mpsc::Receiver<Note>) -> Self {
        Self {
            registry: dir.join(REGISTRY_DIR),
            inbox,
            spool: Spool::of(dir),
            spool_looked: None,
            meanwhile: Vec::new(),
        }
    }

    /// Until the crawl is to stop.
    pub(crate) fn run(mut self, hand: &Hand<'_>, judge: &mut Judge<'_>) -> Result<(), CrawlError> {
        let shared = hand.shared;
        while !shared.budget.is_stopping() {
            let ticks = Ticks::from_now(shared.now_ms(), shared.settings.freshness.tick_ms);
            let begun = Instant::now();
            let Some(schedule) = self.read(shared, ticks)? else {
                return Ok(());
            };
            let not_before = Instant::now() + begun.elapsed() * READ_AGAIN_AT_MOST;
            tracing::info!(
                pages = schedule.len(),
                new = schedule.new_waiting(),
                "pages are kept fresh"
            );
            self.keep(hand, judge, (schedule, ticks), not_before);
        }
        Ok(())
    }

    /// Makes pages due until the crawl is to stop, or the registry has to be read again, which it may `not_before` a time.
    fn keep(
        &mut self,
        hand: &Hand<'_>,
        judge: &mut Judge<'_>,
        (mut schedule, ticks): (Schedule, Ticks),
        not_before: Instant,
    ) {
        let shared = hand.shared;
        for note in std::mem::take(&mut self.meanwhile) {
            heed(shared, &mut schedule, ticks, note);
        }
        self.spool.hear_again();
        let rate = shared.settings.freshness.fetches_per_s;
        let mut last = Instant::now();
        let (mut credit, mut picked) = (1.0, 0_u64);
        while !shared.budget.is_stopping() {
            while let Ok(note) = self.inbox.try_recv() {
                heed(shared, &mut schedule, ticks, note);
            }
            self.look_for_signals(hand, judge, &mut schedule);
            let now = Instant::now();
            credit += (now - last).as_secs_f64() * rate;
            credit = f64::min(credit, f64::max(1.0, rate * MADE_UP_FOR_S));
            last = now;
            let due = make_due(
                hand,
                &mut schedule,
                ticks.of(shared.now_ms()),
                credit as u64,
            );
            credit -= due as f64;
            picked += due;
            let is_used_up =
                picked as f64 >= READ_AGAIN_AFTER * schedule.len() as f64 && now >= not_before;
            if schedule.left_some && is_used_up || ticks.are_running_out(shared.now_ms()) {
                return;
            }
            std::thread::sleep(NAP);
        }
    }

    /// The schedule as the registry has it. What workers tell meanwhile is heeded afterwards. `None`: the crawl is to stop.
    fn read(&mut self, shared: &Shared, ticks: Ticks) -> Result<Option<Schedule>, CrawlError> {
        let source = Source {
            registry: &self.registry,
            ids: shared.ids,
            settings: &shared.settings,
            ticks,
        };
        let (inbox, meanwhile) = (&mut self.inbox, &mut self.meanwhile);
        let mut go_on = || {
            while let Ok(note) = inbox.try_recv() {
                meanwhile.push(note);
            }
            !shared.budget.is_stopping()
        };
        scan(&source, shared.division.partitions(), &mut go_on)
    }

    fn look_for_signals(
        &mut self,
        hand: &Hand<'_>,
        judge: &mut Judge<'_>,
        schedule: &mut Schedule,
    ) {
        let looked_lately = self
            .spool_looked
            .is_some_and(|looked| looked.elapsed() < SPOOL_EVERY);
        if looked_lately {
            return;
        }
        self.spool_looked = Some(Instant::now());
        let waits = |doc| schedule.is_said_to_have_changed(doc);
        self.spool.forget(SPOOL_KEPT, waits);
        if schedule.urgent() >= MAX_URGENT {
            return;
        }
        for Message { path, teller, urls } in self.spool.look() {
            let mut docs = Vec::with_capacity(urls.len());
            for url in urls {
                let doc = url.doc_id(&hand.shared.ids);
                docs.push(doc);
                let is_known = match teller {
                    Teller::Person => schedule.tell(doc),
                    Teller::Site => schedule.ping(doc),
                };
                if !is_known {
                    introduce(hand, judge, schedule, &url, teller);
                }
            }
            self.spool.heard(path, docs);
        }
    }
}

/// Makes up to `most` URLs due; how many did become so.
fn make_due(hand: &Hand<'_>, schedule: &mut Schedule, now: u32, most: u64) -> u64 {
    let metrics = &hand.shared.metrics;
    let mut due: BTreeMap<PartitionId, Vec<DocId>> = BTreeMap::new();
    let mut count = 0;
    while count < most
        && let Some(pick) = schedule.pick(now)
    {
        tracing::debug!(doc = pick.doc.0, why = ?pick.why, "due again");
        if let (Why::Told | Why::Signal, Some(notes)) = (pick.why, &hand.shared.keeper) {
            notes.told_of(pick.doc);
        }
        due.entry(pick.partition).or_default().push(pick.doc);
        count += 1;
    }
    for (partition, docs) in due {
        for docs in docs.chunks(URLS_TOGETHER) {
            let docs = docs.to_vec();
            hand.over(partition, Entry::Refresh { docs });
        }
    }
    if count > 0 {
        metrics.add(&metrics.refreshed, count);
    }
    count
}

fn heed(shared: &Shared, schedule: &mut Schedule, ticks: Ticks, note: Note) {
    let now = ticks.of(shared.now_ms());
    let host = schedule.hosts.number(note.host, note.partition);
    let known = schedule.hosts.get(host);
    known.set_delay(note.delay_ms);
    known.rest_until(note.rests_until_ms.map_or(0, |at_ms| ticks.of(at_ms)));
    for new in &note.new {
        schedule.add_new(new);
    }
    for signal in &note.signals {
        schedule.signal(signal, signal.changed_ms.map(|at_ms| ticks.of(at_ms)));
    }
    if note.found == Found::Retry {
        return;
    }
    let settings = &shared.settings;
    let weight = weight_of(&settings.freshness, settings.frontier.order, note.class);
    let settled = Settled {
        doc: note.doc,
        host,
        weight,
        found: note.found,
        is_source: note.is_source,
        is_there: note.is_there,
    };
    schedule.settled(now, &settled);
}

/// A page that is not in the schedule: as if a sitemap named it. What a person names is due at once; what a site names waits for the
/// share of new pages.
fn introduce(
    hand: &Hand<'_>,
    judge: &mut Judge<'_>,
    schedule: &mut Schedule,
    url: &CanonicalUrl,
    teller: Teller,
) {
    let doc = url.doc_id(&hand.shared.ids);
    let found = Sighting {
        kind: LinkKind::SitemapPage,
        depth: 0,
        hops: 0,
        nofollow: false,
        discoverer: None,
    };
    let mut admitted = judge.admission.admit(&hand.shared.scope(), url, doc, found);
    if teller == Teller::Site {
        let link = &mut admitted.link;
        link.verdict = put_off(link.kind, link.verdict);
        if link.verdict == Verdict::Exclude(Reason::WaitsForItsShare) {
            schedule.add_new(&NewUrl {
                doc,
                host: admitted.host,
                partition: admitted.owner,
            });
        }
    }
    let mut links = LinkBatch::new(None);
    links.push_known(doc, admitted.link);
    let entry = Entry::Links {
        source: None,
        links,
    };
    hand.over(admitted.owner, entry);
    if teller == Teller::Person {
        // If it is known all the same, it is due again.
        hand.over(admitted.owner, Entry::Refresh { docs: vec![doc] });
    }
}

/// URLs that wait for their share of a rate, in a crawl that has none: they become due.
pub(crate) fn release_waiting(
    hand: &Hand<'_>,
    dir: &Path,
    judge: &mut Judge<'_>,
) -> Result<(), CrawlError> {
    let shared: &Arc<Shared> = hand.shared;
    for id in 0..shared.division.partitions() {
        let snapshot = Snapshot::open_one(&dir.join(REGISTRY_DIR), shared.ids, id)?;
        let mut docs = Vec::new();
        for url in snapshot.scattered(&[UrlState::Excluded]) {
            let url = url?;
            if shared.budget.is_stopping() {
                return Ok(());
            }
            let waits = url.reason == Some(Reason::WaitsForItsShare);
            if waits && judge.allows(&shared.scope(), &url) {
                docs.push(url.doc);
            }
            if docs.len() >= URLS_TOGETHER {
                let docs = std::mem::take(&mut docs);
                hand.over(PartitionId(id), Entry::Refresh { docs });
            }
        }
        if !docs.is_empty() {
            hand.over(PartitionId(id), Entry::Refresh { docs });
        }
    }
    Ok(())
}
