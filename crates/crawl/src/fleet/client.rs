//! The agent's part of a crawl-client: asks each seed-server for work, ships what was archived, and only then brings back what
//! came of each grant.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use portolan_fleet::{Commit, Pace, ShipError, ShipRecord, Want};
use portolan_registry::{Grant, Return};
use tokio::sync::{Semaphore, mpsc, oneshot};
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::agent::{Agent, Matter};
use super::booth::{Booth, Job};
use super::membership::Phase;
use super::role::Shift;
use super::warcs::Warcs;
use crate::error::CrawlError;

/// How often it is looked who has partitions.
const SERVERS_EVERY: Duration = Duration::from_secs(1);
/// With all connections taken, or while nothing may be asked.
const FULL: Duration = Duration::from_millis(10);
const STILL: Duration = Duration::from_millis(200);
/// A server that does not answer is asked again after this time.
const AWAY: Duration = Duration::from_millis(500);
/// Who has nothing else to do ships after this time.
const SHORTEST_PAUSE: Duration = Duration::from_millis(60);
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// Returns that are under way to a server at once.
const RETURNS: usize = 32;
/// A server with this many shipped returns that it has not taken is asked for nothing more.
const UNTAKEN: usize = 256;

/// What a crawl-client's tasks share.
pub(super) struct ClientSide {
    pub(super) booth: Arc<Booth>,
    /// Connections that it begins with, and those that it may have at most.
    pub(super) first: u32,
    pub(super) most: u32,
    servers: Mutex<BTreeMap<String, Arc<Server>>>,
    ready: mpsc::UnboundedSender<Ready>,
    /// Servers that did not answer a return.
    silent: Mutex<BTreeSet<String>>,
    /// Questions under way, and grants that are here, up to and with their return's way back.
    open: AtomicUsize,
    pub(super) hurries: AtomicU64,
    pub(super) slows: AtomicU64,
    told: Mutex<Option<(Pace, Instant)>>,
    pub(super) grants: AtomicU64,
    pub(super) returns: AtomicU64,
    pub(super) late: AtomicU64,
    pub(super) grant_bytes: AtomicU64,
    pub(super) return_bytes: AtomicU64,
}

/// Something that has to end before the client does.
struct Open(Arc<ClientSide>);

impl Drop for Open {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Ordering::SeqCst);
    }
}

/// A seed-server, as a client knows it.
struct Server {
    name: String,
    target: AtomicU32,
    running: AtomicU32,
    /// Returns that are shipped, and not taken yet.
    untaken: AtomicUsize,
    /// Places of returns that are under way.
    returns: Semaphore,
}

/// What came of a grant, archived and not shipped.
pub(super) struct Ready {
    server: Arc<Server>,
    back: Return,
    /// Then its server expects nothing more of it.
    expires_ms: u64,
    _open: Open,
}

impl ClientSide {
    pub(super) fn new(
        booth: Arc<Booth>,
        first: u32,
        most: u32,
    ) -> (Self, mpsc::UnboundedReceiver<Ready>) {
        let (ready, comes) = mpsc::unbounded_channel();
        let side = Self {
            booth,
            first,
            most,
            servers: Mutex::default(),
            ready,
            silent: Mutex::default(),
            open: AtomicUsize::new(0),
            hurries: AtomicU64::new(0),
            slows: AtomicU64::new(0),
            told: Mutex::default(),
            grants: AtomicU64::new(0),
            returns: AtomicU64::new(0),
            late: AtomicU64::new(0),
            grant_bytes: AtomicU64::new(0),
            return_bytes: AtomicU64::new(0),
        };
        (side, comes)
    }

    /// Connections that it is told to have, over all servers.
    pub(super) fn target(&self) -> u64 {
        let servers = self.servers.lock().unwrap_or_else(PoisonError::into_inner);
        let targets = servers.values();
        let sum = targets.map(|server| u64::from(server.target.load(Ordering::Relaxed)));
        sum.sum()
    }

    /// What it was told within the last two seconds.
    pub(super) fn pace(&self) -> &'static str {
        let told = *self.told.lock().unwrap_or_else(PoisonError::into_inner);
        match told {
            Some((pace, at)) if at.elapsed() < Duration::from_secs(2) => pace.name(),
            _ => "",
        }
    }

    fn open(self: &Arc<Self>) -> Open {
        self.open.fetch_add(1, Ordering::SeqCst);
        Open(Arc::clone(self))
    }

    fn note_pace(&self, server: &str, pace: Pace, target: u32) {
        let counter = match pace {
            Pace::Steady => return,
            Pace::HurryUp => &self.hurries,
            Pace::SlowDown => &self.slows,
        };
        counter.fetch_add(1, Ordering::Relaxed);
        tracing::info!(server, connections = target, "told to {}", pace.name());
        *self.told.lock().unwrap_or_else(PoisonError::into_inner) = Some((pace, Instant::now()));
    }

    /// Brings what came of a grant to its server, as long as that may take it.
    async fn bring(&self, agent: &Agent, ready: Ready) {
        let Ready {
            server,
            back,
            expires_ms,
            _open,
        } = ready;
        {
            // It is never closed.
            let _place = server.returns.acquire().await;
            let counter = match self.hand_in(agent, &server.name, &back, expires_ms).await {
                true => &self.returns,
                false => {
                    let (server, entries) = (&server.name, back.entries.len());
                    tracing::info!(server, entries, "came back too late");
                    &self.late
                }
            };
            counter.fetch_add(1, Ordering::Relaxed);
        }
        server.untaken.fetch_sub(1, Ordering::Relaxed);
    }

    /// Tries until the grant expires. False if it does not count; of an attempt whose answer was lost nobody knows.
    async fn hand_in(&self, agent: &Agent, server: &str, back: &Return, expires_ms: u64) -> bool {
        let Some(packed) = agent.node.pack_return(server, &back.encode()).await else {
            tracing::error!(server, "what came of a grant cannot be packed");
            return false;
        };
        let now_ms = || agent.shared.now_ms();
        loop {
            let (taken, sent) = agent.node.hand_in(server, now_ms, &packed).await;
            self.return_bytes.fetch_add(sent as u64, Ordering::Relaxed);
            let is_over = now_ms() >= expires_ms;
            self.note_silent(agent, server, taken.is_none() && !is_over);
            match taken {
                Some(taken) => return taken,
                None if is_over => {
                    agent.node.give_up_return(packed);
                    return false;
                }
                None => tokio::time::sleep(AWAY).await,
            }
        }
    }

    fn note_silent(&self, agent: &Agent, server: &str, is_silent: bool) {
        let mut silent = self.silent.lock().unwrap_or_else(PoisonError::into_inner);
        let has_changed = match is_silent {
            true => silent.insert(server.to_owned()),
            false => silent.remove(server),
        };
        if !has_changed {
            return;
        }
        let names: Vec<&str> = silent.iter().map(String::as_str).collect();
        match names.is_empty() {
            true => agent.clear_trouble(Matter::Returns),
            false => {
                let why = format!("no answer from seed-servers: {}", names.join(", "));
                agent.set_trouble(Matter::Returns, why);
            }
        }
    }
}

/// Asks all servers that there are, until the crawl ends.
pub(super) async fn ask(agent: Arc<Agent>, side: Arc<ClientSide>) {
    let mut tasks: BTreeMap<String, JoinSet<()>> = BTreeMap::new();
    while !agent.shared.budget.is_stopping() {
        if let Some(holders) = agent.fleet.holders().await {
            tasks.retain(|name, _| holders.contains(name));
            let count = holders.len().max(1) as u32;
            {
                let mut servers = side.servers.lock().unwrap_or_else(PoisonError::into_inner);
                servers.retain(|name, _| holders.contains(name));
            }
            for name in holders {
                tasks.entry(name.clone()).or_insert_with(|| {
                    let mut one = JoinSet::new();
                    one.spawn(poll(Arc::clone(&agent), Arc::clone(&side), name, count));
                    one
                });
            }
        }
        tokio::time::sleep(SERVERS_EVERY).await;
    }
}

/// Asks one server for work, again and again.
async fn poll(agent: Arc<Agent>, side: Arc<ClientSide>, name: String, servers: u32) {
    let first = side.first.div_ceil(servers);
    let server = Arc::new(Server {
        name: name.clone(),
        target: AtomicU32::new(first),
        running: AtomicU32::new(0),
        untaken: AtomicUsize::new(0),
        returns: Semaphore::new(RETURNS),
    });
    side.servers
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .insert(name.clone(), Arc::clone(&server));
    while !agent.shared.budget.is_stopping() {
        if !agent.membership.may_ask() {
            tokio::time::sleep(STILL).await;
            continue;
        }
        let (target, running) = (
            server.target.load(Ordering::Relaxed),
            server.running.load(Ordering::Relaxed),
        );
        let want = Want {
            client: agent.node.name().to_owned(),
            slots: target.saturating_sub(running),
            running,
            most: side.most.div_ceil(servers),
            first,
        };
        if want.slots == 0 || server.untaken.load(Ordering::Relaxed) >= UNTAKEN {
            tokio::time::sleep(FULL).await;
            continue;
        }
        let _open = side.open();
        let asked_ms = agent.shared.now_ms();
        let Some((work, bytes)) = agent.node.ask_for_work(&name, &want).await else {
            tokio::time::sleep(AWAY).await;
            continue;
        };
        side.grant_bytes.fetch_add(bytes as u64, Ordering::Relaxed);
        if work.target > 0 {
            server.target.store(work.target, Ordering::Relaxed);
        }
        side.note_pace(&name, work.pace, work.target);
        if work.grants.is_empty() && work.now_ms == 0 {
            tokio::time::sleep(STILL).await;
        }
        let shift = Shift::between(work.now_ms, agent.shared.now_ms());
        for bytes in &work.grants {
            let Some(mut grant) = Grant::decode(bytes) else {
                tracing::error!(server = name, "a grant cannot be read");
                continue;
            };
            shift.grant(&mut grant, work.now_ms, asked_ms);
            begin(&side, &server, grant);
        }
    }
}

/// Has a worker take the grant, and what it finds wait to be shipped.
fn begin(side: &Arc<ClientSide>, server: &Arc<Server>, grant: Grant) {
    let (id, expires_ms) = (grant.id, grant.expires_ms);
    side.grants.fetch_add(1, Ordering::Relaxed);
    let open = side.open();
    server.running.fetch_add(1, Ordering::Relaxed);
    let haul = side.booth.hauls.open(id);
    let (back, comes) = oneshot::channel();
    side.booth.push(Job { grant, back });
    let (side, server) = (Arc::clone(side), Arc::clone(server));
    tokio::spawn(async move {
        let back = comes.await;
        server.running.fetch_sub(1, Ordering::Relaxed);
        let Ok(mut back) = back else {
            // The crawl stops at once: the grant expires.
            side.booth.hauls.close(id);
            return;
        };
        back.entries = haul.complete().await;
        side.booth.hauls.close(id);
        let ready = Ready {
            server,
            back,
            expires_ms,
            _open: open,
        };
        // Who ships is there until the end.
        let _ = side.ready.send(ready);
    });
}

/// Ships what is archived, then brings back what came of grants; until the crawl has closed and nothing is left.
pub(super) struct Carrier {
    pub(super) agent: Arc<Agent>,
    pub(super) side: Arc<ClientSide>,
    pub(super) ready: mpsc::UnboundedReceiver<Ready>,
    pub(super) warcs: Warcs,
}

impl Carrier {
    pub(super) async fn run(mut self) -> Result<Warcs, CrawlError> {
        let pause = Duration::from_millis(self.agent.shared.settings.fleet.ship_ms);
        let mut last = Instant::now();
        let mut waiting: Vec<Ready> = Vec::new();
        // A server that is away holds up what is for others no longer than shipping takes.
        let mut under_way = JoinSet::new();
        loop {
            // Read before what there is to carry: nothing comes after it.
            let closed = *self.agent.membership.phases().borrow() == Phase::Closed;
            if closed {
                // A server may have granted something while the workers ended.
                self.side.booth.close();
            }
            while let Ok(ready) = self.ready.try_recv() {
                waiting.push(ready);
            }
            let hurries = last.elapsed() >= SHORTEST_PAUSE && self.has_time();
            if !waiting.is_empty() && (closed || hurries || last.elapsed() >= pause) {
                self.ship().await?;
                for ready in waiting.drain(..) {
                    ready.server.untaken.fetch_add(1, Ordering::Relaxed);
                    let (agent, side) = (Arc::clone(&self.agent), Arc::clone(&self.side));
                    under_way.spawn(async move { side.bring(&agent, ready).await });
                }
                last = Instant::now();
            }
            while under_way.try_join_next().is_some() {}
            if closed && waiting.is_empty() && self.side.open.load(Ordering::SeqCst) == 0 {
                self.ship().await?;
                return Ok(self.warcs);
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    /// Fewer than half of the connections are at work: servers wait for what is here.
    fn has_time(&self) -> bool {
        let turns = self.agent.gauges.iter();
        let turns: u64 = turns.map(|g| g.turns.load(Ordering::Relaxed)).sum();
        2 * turns <= self.side.target()
    }

    async fn ship(&mut self) -> Result<(), CrawlError> {
        self.agent.membership.roots_are_told().await;
        let Some(end) = self.side.booth.archive_end() else {
            return Ok(());
        };
        let agent = Arc::clone(&self.agent);
        let blobs = agent.fleet.blobs();
        let warc = self.warcs.ship(blobs, end).await?;
        if warc.is_empty() {
            return Ok(());
        }
        let bytes: u64 = warc.iter().map(|chunk| chunk.bytes).sum();
        agent.shipped_bytes.fetch_add(bytes, Ordering::Relaxed);
        let record = ShipRecord::Commit(Commit {
            incarnation: agent.incarnation,
            first_frame: 0,
            last_frame: 0,
            journal: String::new(),
            warc,
            archive_end: self.warcs.end(),
            pages: self.side.booth.pages.load(Ordering::Relaxed),
            partitions: Vec::new(),
        });
        loop {
            match agent.node.ship(record.clone()).await {
                Ok(_) => {
                    agent.clear_trouble(Matter::ShipLog);
                    break;
                }
                Err(ShipError::Fenced(why)) => return Err(CrawlError::Fenced(why)),
                Err(ShipError::Unavailable(why)) => {
                    agent.set_trouble(Matter::ShipLog, why);
                    tokio::time::sleep(AWAY).await;
                }
            }
        }
        // What is in the store needs no disk here.
        self.warcs.let_go(blobs).await
    }
}
