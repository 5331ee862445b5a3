//! What all threads of a crawl share: settings, the gate, the budget, counters, the resolver. Small,
//! and touched once a request at most.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, RwLock, RwLockReadGuard};

use portolan_model::{CanonicalUrl, Canonicalizer, Clock, HostId, Identities, Ranker};
use portolan_net::{Connector, Mapping, NetError, Origin, Resolved};
use portolan_registry::GrantId;
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{Notify, Semaphore, mpsc};

use crate::access::Access;
use crate::admission::{Admission, PutsOff};
use crate::answered::VisitRecords;
use crate::assembly;
use crate::budget::{Budget, StoppedBy};
use crate::commit::Finished;
use crate::division::Division;
use crate::early::EARLY_PLACES;
use crate::error::CrawlError;
use crate::fleet::{Booth, Membership};
use crate::gate::Gate;
use crate::granted::Granted;
use crate::haul::Haul;
use crate::keep::NoteBox;
use crate::metrics::Metrics;
use crate::modules::{Extensions, Modules};
use crate::named::Named;
use crate::neighbour::Neighbours;
use crate::network::Network;
use crate::pauses::Pauses;
use crate::politeness::Politeness;
use crate::rate::Rate;
use crate::routes::Routes;
use crate::scope::Scope;
use crate::settings::Settings;

pub(crate) struct Shared {
    pub(crate) settings: Settings,
    /// The crawl's directory.
    pub(crate) dir: PathBuf,
    /// By what documents and hosts are known: the crawl's secret.
    pub(crate) ids: Identities,
    pub(crate) division: Arc<Division>,
    pub(crate) ranker: Arc<dyn Ranker>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) scope: RwLock<Scope>,
    pub(crate) access: Access,
    pub(crate) modules: Modules,
    pub(crate) politeness: Politeness,
    pub(crate) gate: Gate,
    pub(crate) network: Network,
    /// Bytes a second over all hosts; `None`: no limit.
    pub(crate) rate: Option<Rate>,
    pub(crate) pauses: Pauses,
    pub(crate) neighbours: Neighbours,
    pub(crate) routes: Routes,
    pub(crate) budget: Budget,
    pub(crate) metrics: Metrics,
    pub(crate) mapping: Arc<Mapping>,
    pub(crate) connector: Connector,
    pub(crate) finished: mpsc::Sender<Finished>,
    /// Room for records and links between workers and archivist, in KiB.
    pub(crate) room: Arc<Semaphore>,
    /// Room for entries between archivist and workers, in KiB: taken by the archivist, given back by who folds
    /// them. Closed when something has failed: then nobody may be there to give it back.
    pub(crate) unfolded: Semaphore,
    /// Places for bodies that are not small.
    pub(crate) large_bodies: Arc<Semaphore>,
    /// The same for hosts that are read slowly because a person said so: they hold up nobody but each other.
    pub(crate) paced_bodies: Arc<Semaphore>,
    /// Places for pages whose links leave while they come.
    pub(crate) early_places: Arc<Semaphore>,
    /// A worker has nothing to fetch, or nowhere to put what it fetched: commit what there is.
    pub(crate) commit_now: Notify,
    /// Everything is folded: the archivist may end.
    pub(crate) closing: Notify,
    /// Entries handed to the archivist, or delivered by it, that are not folded yet.
    pub(crate) outstanding: AtomicU64,
    /// Entries folded, ever: lets the watcher see that nothing moved between two looks.
    pub(crate) folded: AtomicU64,
    /// URLs are being judged by other settings, or a session begins: no turn begins.
    pub(crate) judging: AtomicBool,
    /// The number of the session; the first is 1.
    pub(crate) session: u32,
    /// When it began; 0 for the first.
    pub(crate) session_begun_ms: u64,
    /// URLs that earlier changes of settings made due, and took out.
    pub(crate) judged_before: (u64, u64),
    /// When this run opened the registry; tells it from other runs.
    pub(crate) run_ms: u64,
    /// Where the keeper hears what becomes of URLs, if pages are kept fresh.
    pub(crate) keeper: Option<NoteBox>,
    /// The server that grants what is fetched, if it is not the crawl itself.
    pub(crate) granted: Option<Arc<Granted>>,
    pub(crate) failure: Mutex<Option<CrawlError>>,
    /// `None` on a single machine.
    pub(crate) membership: Option<Arc<Membership>>,
}

/// Budget, in KiB, for records and links between workers and archivist.
pub(crate) const ROOM_KIB: usize = 16 * 1024;

/// Budget, in KiB, for entries delivered to workers but not folded yet.
pub(crate) const UNFOLDED_KIB: usize = 4 * 1024;

/// An entry without a record that is smaller than this needs no room.
const SMALL_BYTES: u64 = 4 * 1024;

/// Large bodies in memory at once, over all workers.
pub(crate) const LARGE_BODIES: usize = 8;

impl Shared {
    /// For one look at the Web, without a directory: nothing is logged, and no pause is written down.
    pub(crate) fn alone(
        settings: Settings,
        seeds: &[CanonicalUrl],
        named: &Named,
        mapping: Arc<Mapping>,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, CrawlError> {
        let (finished, _nobody) = mpsc::channel(1);
        let (politeness, outages) = (settings.politeness.clone(), settings.outages.clone());
        Ok(Self {
            dir: PathBuf::new(),
            ids: Identities::PUBLIC,
            division: Arc::new(Division::by_hash(1)),
            ranker: assembly::ranker(&settings, None)?,
            scope: RwLock::new(assembly::scope(&settings, seeds)?),
            access: Access::new(&settings, clock.wall_ms())?,
            modules: Modules::new(&settings, &Extensions::default())?,
            politeness: Politeness::new(politeness, outages, 0),
            gate: Gate::new(0),
            network: Network::default(),
            rate: None,
            pauses: Pauses::forgotten(Arc::clone(&clock))?,
            neighbours: Neighbours::of(1).0,
            routes: Routes::default(),
            budget: Budget::new(0),
            metrics: Metrics::default(),
            mapping,
            connector: assembly::connector(&settings)?.with_named_hosts(named.hosts()),
            finished,
            room: Arc::new(Semaphore::new(ROOM_KIB)),
            unfolded: Semaphore::new(UNFOLDED_KIB),
            large_bodies: Arc::new(Semaphore::new(LARGE_BODIES)),
            paced_bodies: Arc::new(Semaphore::new(LARGE_BODIES)),
            early_places: Arc::new(Semaphore::new(EARLY_PLACES)),
            commit_now: Notify::new(),
            closing: Notify::new(),
            outstanding: AtomicU64::new(0),
            folded: AtomicU64::new(0),
            judging: AtomicBool::new(false),
            session: 1,
            session_begun_ms: 0,
            judged_before: (0, 0),
            run_ms: 0,
            keeper: None,
            granted: None,
            failure: Mutex::new(None),
            membership: None,
            settings,
            clock,
        })
    }

    /// Something failed that the crawl cannot go on without: everything stops, the first failure
    /// is kept for the report.
    pub(crate) fn fail(&self, error: CrawlError) {
        self.failure
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
            .get_or_insert(error);
        self.unfolded.close();
        self.budget.stop_now(StoppedBy::Error);
    }

    pub(crate) fn take_failure(&self) -> Option<CrawlError> {
        self.failure
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
            .take()
    }

    /// Where the crawl may go, as of now: the redirects of seeds widen it.
    pub(crate) fn scope(&self) -> RwLockReadGuard<'_, Scope> {
        self.scope
            .read()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// A seed led here: the crawl may go where this lives, on all nodes.
    pub(crate) fn widen_scope(&self, root: &CanonicalUrl) {
        let scope = self.scope.write();
        scope
            .unwrap_or_else(|poisoned| poisoned.into_inner())
            .add_root(root);
        if let Some(membership) = &self.membership {
            membership.note_root(root);
        }
    }

    /// By what URLs enter this crawl's logs.
    pub(crate) fn admission(&self, canonicalizer: Canonicalizer) -> Admission {
        Admission::new(
            &self.settings,
            canonicalizer,
            Arc::clone(&self.division),
            Arc::clone(&self.ranker),
            self.ids,
        )
        .putting_off(match (&self.granted, &self.keeper) {
            (Some(_), _) => PutsOff::Everything,
            (None, Some(_)) => PutsOff::NewPages,
            (None, None) => PutsOff::Nothing,
        })
    }

    /// May the Web be asked now? On a single machine always; a node needs its lease, and somewhere to put what comes.
    pub(crate) fn may_ask(&self) -> bool {
        self.membership.as_ref().is_none_or(|node| node.may_ask())
    }

    /// On a crawl-client: where what is archived goes.
    pub(crate) fn booth(&self) -> Option<&Arc<Booth>> {
        self.membership.as_ref()?.booth()
    }

    /// What a grant brings, on a crawl-client.
    pub(crate) fn haul_of(&self, grant: GrantId) -> Option<Arc<Haul>> {
        self.booth()?.hauls.of(grant)
    }

    /// By which pauses go.
    pub(crate) fn now_ms(&self) -> u64 {
        self.clock.now_ms()
    }

    /// For dates that others read.
    pub(crate) fn wall_ms(&self) -> u64 {
        self.clock.wall_ms()
    }

    /// Where the origin's host is, unless that is for a proxy to know.
    pub(crate) async fn address_of(&self, origin: &Origin) -> Result<Arc<Resolved>, NetError> {
        if self.connector.resolves_elsewhere(origin) {
            return Ok(Arc::new(Resolved::elsewhere()));
        }
        self.mapping.resolve(origin.host()).await
    }

    /// The host is to be left alone from now on, whatever happens to us.
    pub(crate) fn note_pause(&self, host: HostId, pause_ms: u64) {
        if let Err(error) = self.pauses.note(host, pause_ms) {
            self.fail(error);
        }
    }

    /// Hand an entry to the archivist; waits while its buffers are full.
    pub(crate) async fn hand_over(&self, mut finished: Finished) {
        let record_bytes = finished.record.as_ref().map(VisitRecords::bytes);
        let bytes = record_bytes.unwrap_or(0) + finished.entry.ram_bytes();
        if record_bytes.is_some() || bytes >= SMALL_BYTES {
            let kib = kib(bytes, ROOM_KIB);
            let room = Arc::clone(&self.room);
            finished.room = match room.try_acquire_many_owned(kib) {
                Ok(room) => Some(room),
                Err(_) => {
                    self.commit_now.notify_one();
                    let room = Arc::clone(&self.room);
                    room.acquire_many_owned(kib).await.ok()
                }
            };
            let waiting_bytes = (ROOM_KIB - self.room.available_permits()) * 1024;
            if waiting_bytes >= self.settings.archive.commit_bytes {
                self.commit_now.notify_one();
            }
        }
        let place = match self.finished.try_reserve() {
            Err(TrySendError::Full(())) => {
                self.commit_now.notify_one();
                self.finished.reserve().await.ok()
            }
            reserved => reserved.ok(),
        };
        // Without a place the archivist is gone, which only happens after a failure that is already recorded. Counted only
        // now: who waits for a place may be given up.
        if let Some(place) = place {
            self.outstanding.fetch_add(1, Ordering::SeqCst);
            place.send(finished);
        }
    }
}

/// What this many bytes take of a room, in KiB; something larger than all of it takes all.
pub(crate) fn kib(bytes: u64, room_kib: usize) -> u32 {
    (bytes / 1024 + 1).min(room_kib as u64) as u32
}
