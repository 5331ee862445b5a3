//! A node's life: it finds its fleet, joins, crawls until it is told to end, ships the rest, and leaves. A node that was
//! fenced has lost what it had not shipped, and joins anew as a new one.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use portolan_archive::file_prefix;
use portolan_fleet::{Definition, Fleet, FleetError, Joining, Node, Order, Servers};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;

use super::addresses;
use super::adoption::{Gate, blocking};
use super::agent::Agent;
use super::catalogue;
use super::identity::Identity;
use super::log_index::LogIndex;
use super::membership::{Membership, Part, Phase};
use super::new_settings;
use super::roots;
use super::sending::{self, Room};
use super::shipper::Shipper;
use super::warcs::Warcs;
use crate::budget::StoppedBy;
use crate::crawl::{Crawl, Plan};
use crate::error::CrawlError;
use crate::report::Report;
use crate::settings::{ExchangeMode, Settings};

/// Threads for what waits for servers and the store.
const AGENT_THREADS: usize = 2;

/// Which node of which fleet, and where.
#[derive(Clone, Debug)]
pub struct NodePlan {
    pub servers: Servers,
    pub fleet: String,
    /// Letters, digits and '-'; no other node of the fleet may have it.
    pub node: String,
    /// The node's own directory.
    pub dir: PathBuf,
    /// Worker threads, where they are not what the fleet's settings say; 0 is one for each core.
    pub threads: Option<usize>,
    /// Its share of the work beside the others': 1 for a common machine.
    pub weight: f64,
}

/// What a node tells while it lives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NodeEvent {
    /// It is one of the fleet now. `resumed`: it goes on from its directory.
    Joined { resumed: bool },
    /// The fleet has gone on without it; it joins anew.
    Fenced(String),
    /// A person has changed the fleet's settings; it goes on with these.
    NewSettings,
}

/// How a node is asked to end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Quit {
    #[default]
    No,
    /// Finish what is under way, ship it, and let others have the partitions.
    Drain,
    /// The same, but give up what is under way.
    Now,
}

/// How a node is asked to end, and what hears it: for `run_node`.
pub fn quitting() -> (watch::Sender<Quit>, watch::Receiver<Quit>) {
    watch::channel(Quit::No)
}

/// Runs a node until its crawl has ended, or it was asked to. `tell` hears what becomes of it.
pub fn run_node(
    plan: &NodePlan,
    quit: watch::Receiver<Quit>,
    tell: impl FnMut(NodeEvent) + Send,
) -> Result<Report, CrawlError> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(AGENT_THREADS)
        .thread_name("fleet")
        .enable_all()
        .build()
        .map_err(|e| CrawlError::Internal(format!("no runtime for the node: {e}")))?;
    runtime.block_on(live(plan, quit, tell))
}

async fn live(
    plan: &NodePlan,
    quit: watch::Receiver<Quit>,
    mut tell: impl FnMut(NodeEvent) + Send,
) -> Result<Report, CrawlError> {
    let fleet = Fleet::open(&plan.servers, &plan.fleet)
        .await
        .map_err(input)?;
    let _lock = Identity::lock(&plan.dir)?;
    let mut identity = Identity::open(&plan.dir, &plan.node, fleet.definition())?;
    loop {
        match life(plan, &fleet, &mut identity, quit.clone(), &mut tell).await {
            Err(CrawlError::Fenced(why)) if *quit.borrow() == Quit::No => {
                tell(NodeEvent::Fenced(why));
                identity = Identity::begin(&plan.dir, &plan.node, fleet.definition())?;
            }
            Ok(None) => tell(NodeEvent::NewSettings),
            Ok(Some(report)) => return Ok(report),
            Err(error) => return Err(error),
        }
    }
}

fn input(error: FleetError) -> CrawlError {
    CrawlError::Input(error.to_string())
}

/// `None` if it ends because there are new settings: it is to begin again at once.
async fn life(
    plan: &NodePlan,
    fleet: &Fleet,
    identity: &mut Identity,
    quit: watch::Receiver<Quit>,
    tell: &mut impl FnMut(NodeEvent),
) -> Result<Option<Report>, CrawlError> {
    let resumed = identity.number.is_some();
    let (node, orders) = join(plan, fleet, identity).await?;
    let mut log = LogIndex::new(fleet);
    let end = fleet.ship_log_end().await.map_err(unavailable)?;
    log.read_to(end).await;
    if identity.number.is_none() {
        let number = number_of(&log, identity.incarnation())?;
        identity.note_number(&plan.dir, number)?;
    }
    tell(NodeEvent::Joined { resumed });
    let (membership, ends) = Membership::new(node.lease());
    let definition = fleet.definition();
    let part = Part {
        secret: definition.secret(),
        crawl_id: crawl_id(definition),
        shipped_frames: node.last_commit().map_or(0, |commit| commit.last_frame),
        limited: definition.max_pages.is_some(),
        membership: Arc::clone(&membership),
    };
    let (version, settings) = fleet.settings().await.map_err(unavailable)?;
    let crawl_plan = crawl_plan(plan, (definition, &settings), identity, part)?;
    let mut prepared = blocking(move || Crawl::prepare(crawl_plan)).await?;
    let in_fleet = prepared.books.in_fleet.take();
    let in_fleet =
        in_fleet.ok_or_else(|| CrawlError::Internal("a node without a fleet".to_owned()))?;
    let held = prepared.books.held();
    for &partition in &held {
        membership.add(partition);
    }
    if fleet.has_ended().await.map_err(unavailable)? {
        // What is here is shipped, and nothing more is asked of the Web.
        membership.set_stopped(true);
    }
    let crawl = prepared.begin()?;
    let agent = Arc::new(Agent {
        fleet: fleet.clone(),
        node: node.clone(),
        incarnation: identity.incarnation(),
        membership,
        shared: Arc::clone(&crawl.shared),
        gauges: crawl.gauges.clone(),
        settler: in_fleet.settler,
        canonicalizer: crawl.canonicalizer.clone(),
        seeds: crawl.seeds.clone(),
        acknowledged: AtomicU64::new(0),
        unshipped_bytes: AtomicU64::new(0),
        shipped_bytes: AtomicU64::new(0),
        links: Default::default(),
        held: Mutex::new(BTreeMap::new()),
        trouble: Mutex::default(),
        deaf: watch::Sender::new(false),
    });
    for partition in held {
        let (epoch, cursor) = log.last_of(partition);
        agent.note_adopted(partition, epoch, cursor);
    }
    let last = node.last_commit();
    let archive = &crawl.shared.settings.archive;
    let prefix = file_prefix(&archive.prefix, &archive.node);
    let shipped_to = last.and_then(|commit| commit.archive_end.clone());
    let warcs = Warcs::new(&Identity::crawl_dir(&plan.dir), prefix, shipped_to);
    let sending = in_fleet.exporter.of_shipped();
    let room = Room {
        warcs: warcs.clone(),
        not_shipped: in_fleet.exporter.behind(),
        not_sent: sending.behind(),
    };
    let (progress, shipped) = watch::channel(0);
    let shipper = Shipper {
        agent: Arc::clone(&agent),
        exporter: in_fleet.exporter,
        warcs,
        progress,
        shipped: last.map_or(0, |commit| commit.last_frame),
        pages: last.map_or(0, |commit| commit.pages),
    };
    let gate = Gate {
        adopter: in_fleet.adopter,
        log,
    };
    let mut tasks = JoinSet::new();
    tasks.spawn(Arc::clone(&agent).report());
    tasks.spawn(addresses::ask(Arc::clone(&agent), ends.wanted));
    tasks.spawn(roots::exchange(Arc::clone(&agent), ends.roots));
    tasks.spawn(obey(Arc::clone(&agent), gate, orders));
    tasks.spawn(heed(Arc::clone(&agent), quit.clone()));
    tasks.spawn(look_after(Arc::clone(&agent), room));
    let changed = Arc::new(AtomicBool::new(false));
    tasks.spawn(new_settings::watch(
        Arc::clone(&agent),
        version,
        Arc::clone(&changed),
    ));
    let sending = sending::send(Arc::clone(&agent), sending, shipped);
    let shipping = tokio::spawn(ship(Arc::clone(&agent), shipper, sending));
    let report = blocking(move || crawl.join()).await;
    let warcs = shipping.await.ok().flatten();
    tasks.shutdown().await;
    agent.stop_listening();
    let report = report?;
    if let Some(warcs) = warcs {
        warcs.ship_indexes(fleet.blobs()).await?;
    }
    let unspent = agent.shared.budget.unclaimed();
    if definition.max_pages.is_some() && unspent > 0 {
        node.give_back(unspent).await;
    }
    if changed.load(Ordering::Acquire) && *quit.borrow() == Quit::No {
        // The lease goes on, and the partitions stay.
        return Ok(None);
    }
    node.leave().await;
    catalogue::close(fleet, &plan.node, &plan.dir).await?;
    Ok(Some(report))
}

async fn join(
    plan: &NodePlan,
    fleet: &Fleet,
    identity: &Identity,
) -> Result<(Node, mpsc::Receiver<Order>), CrawlError> {
    let place = Joining::place_of(&plan.dir).map_err(|source| CrawlError::File {
        path: plan.dir.clone(),
        source,
    })?;
    let joining = Joining {
        node: plan.node.clone(),
        incarnation: identity.incarnation(),
        fresh: identity.number.is_none(),
        place,
        checksum: identity.checksum.clone(),
        weight: plan.weight,
    };
    fleet.join(joining).await.map_err(|error| match error {
        FleetError::Sealed(_) => CrawlError::Fenced(error.to_string()),
        other => input(other),
    })
}

fn unavailable(error: FleetError) -> CrawlError {
    CrawlError::Fleet(error.to_string())
}

/// Each life of each node has WARC files of its own numbers.
fn number_of(log: &LogIndex, incarnation: u64) -> Result<u16, CrawlError> {
    let place = log.number_of(incarnation).unwrap_or(usize::MAX);
    u16::try_from(place)
        .ok()
        .filter(|number| *number <= portolan_archive::MAX_NODE_NUMBER)
        .ok_or_else(|| {
            CrawlError::Input(format!(
                "the fleet has had more than {} nodes, counting those that came anew: no file numbers are left",
                portolan_archive::MAX_NODE_NUMBER
            ))
        })
}

/// The same for all nodes of a fleet, and another one for another fleet.
pub(super) fn crawl_id(definition: &Definition) -> u64 {
    u64::from_str_radix(&definition.id, 16).unwrap_or_default()
}

/// The fleet's settings, with what is this node's own.
fn crawl_plan(
    plan: &NodePlan,
    (definition, settings): (&Definition, &str),
    identity: &Identity,
    part: Part,
) -> Result<Plan, CrawlError> {
    let mut settings = Settings::with_overrides(settings)
        .map_err(|e| CrawlError::Input(e.in_file("the fleet's settings")))?;
    if settings.partition.method != crate::settings::PartitionMethod::Hash {
        return Err(CrawlError::Input(
            "partition.method: a fleet shares sites out by hash; make it with 'hash'".to_owned(),
        ));
    }
    if settings.partition.mode == ExchangeMode::CrossOver {
        return Err(CrawlError::Input(
            "partition.mode: in a fleet, 'cross-over' would have several machines ask one server at once; compare it on one machine, with 'portolan crawl --mode cross-over'".to_owned(),
        ));
    }
    settings.archive.node.clone_from(&identity.node);
    settings.archive.node_number = identity.number.unwrap_or_default();
    settings.registry.partitions = definition.partitions;
    // The fleet's budget is shared out; its time is for who made it.
    settings.limits.max_pages = 0;
    if let Some(threads) = plan.threads {
        settings.limits.threads = threads;
    }
    let dir = Identity::crawl_dir(&plan.dir);
    let mut crawl = Plan::new(dir, definition.seeds.iter().cloned(), settings);
    crawl.part = Some(part);
    Ok(crawl)
}

async fn obey(agent: Arc<Agent>, gate: Gate, orders: mpsc::Receiver<Order>) {
    if let Err(error) = Arc::clone(&agent).obey(gate, orders).await {
        agent.end(error);
    }
}

/// Ends the crawl when a person asks for it.
async fn heed(agent: Arc<Agent>, mut quit: watch::Receiver<Quit>) {
    while let Ok(asked) = quit
        .wait_for(|quit| *quit != Quit::No)
        .await
        .map(|quit| *quit)
    {
        if asked == Quit::Now {
            agent.shared.budget.stop_now(StoppedBy::Signal);
            return;
        }
        agent.shared.budget.stop(StoppedBy::Signal);
        if quit.wait_for(|quit| *quit == Quit::Now).await.is_err() {
            return;
        }
    }
}

async fn look_after(agent: Arc<Agent>, room: Room) {
    if let Err(error) = room.watch(Arc::clone(&agent)).await {
        agent.end(error);
    }
}

/// `None` if not everything was shipped and sent.
async fn ship(
    agent: Arc<Agent>,
    shipper: Shipper,
    sending: impl Future<Output = Result<(), CrawlError>>,
) -> Option<Warcs> {
    match tokio::try_join!(shipper.run(), sending) {
        Ok((warcs, ())) => {
            agent.membership.set_phase(Phase::Shipped);
            Some(warcs)
        }
        Err(error) => {
            agent.end(error);
            None
        }
    }
}

impl Agent {
    fn stop_listening(&self) {
        tracing::debug!(
            bytes = self.shipped_bytes.load(Ordering::Relaxed),
            "the node has shipped what it had"
        );
        self.abort_listeners();
    }
}
