//! A node's life: it finds its fleet, joins, crawls until it is told to end, ships the rest, and leaves. A node that was
//! fenced has lost what it had not shipped, and joins anew as a new one.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use portolan_archive::file_prefix;
use portolan_fleet::{
    Checkpoint, Definition, Fleet, FleetError, Instruction, Joining, Ledger, Node, Servers,
    StoredCheckpoint,
};
use portolan_registry::{Adopter, RegistryError};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::addresses;
use super::adoption::blocking;
use super::agent::Agent;
use super::booth::Booth;
use super::catalogue;
use super::checkpoints::{self, Checkpoints};
use super::client::{self, Carrier, ClientSide};
use super::desk::Desk;
use super::gather::Gathering;
use super::guests;
use super::identity::{Identity, LOCK_LOOK, UNLOCKED_WITHIN};
use super::leaving::{Leave, Quit, heed};
use super::membership::{Membership, Part, Phase};
use super::new_settings;
use super::role::Role;
use super::roots::Roots;
use super::sending::{self, Room};
use super::serving;
use super::shipper::Shipper;
use super::warcs::Warcs;
use crate::crawl::{Crawl, Plan, Prepared, REGISTRY_DIR};
use crate::directory::replace;
use crate::division::open_vector;
use crate::error::CrawlError;
use crate::report::Report;
use crate::settings::{ExchangeMode, PartitionMethod, Settings, UnlistedSites};

/// Where in the fleet's store its part vector is, if it has one.
pub const VECTOR_KEY: &str = "partition/parts.pv";
const VECTOR_FILE: &str = "parts.pv";
/// Whoever makes a fleet puts the vector there right after.
const VECTOR_PATIENCE: Duration = Duration::from_secs(30);
const VECTOR_LOOK: Duration = Duration::from_millis(500);

/// A grant is for this long, and for the longest request.
const GRANT_MS: u64 = 30_000;
/// Connections of a crawl-client, where nobody says how many.
const FIRST_CONNECTIONS: usize = 32;

/// `portolan_archive::check_node` takes no more.
const MAX_NODE_NAME: usize = 63;

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
    pub role: Role,
    /// Connections at once, where they are not what the fleet's settings say; a crawl-client begins with them.
    pub connections: Option<usize>,
    /// And those that it may be told to have; four times as many, if it is not said.
    pub max_connections: Option<usize>,
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
    /// A person has asked it to end.
    Leaves(Leave),
}

/// What the node granted before.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Grants {
    /// The process before was killed, perhaps.
    MayBeOut,
    /// Its last life ended in order, once all had come back or expired.
    AllBack,
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
    if plan.role == Role::CrawlClient {
        // What it had not brought has never happened: there is nothing to go on with.
        identity = Identity::begin(&plan.dir, &plan.node, fleet.definition())?;
    }
    let mut grants = Grants::MayBeOut;
    loop {
        match life(
            plan,
            &fleet,
            (&mut identity, grants),
            quit.clone(),
            &mut tell,
        )
        .await
        {
            Err(CrawlError::Fenced(why)) if *quit.borrow() == Quit::No => {
                tell(NodeEvent::Fenced(why));
                grants = Grants::MayBeOut;
                identity = Identity::begin(&plan.dir, &plan.node, fleet.definition())?;
            }
            Ok(None) => {
                grants = Grants::AllBack;
                tell(NodeEvent::NewSettings);
            }
            Ok(Some(report)) => return Ok(report),
            Err(error) => return Err(error),
        }
    }
}

fn input(error: FleetError) -> CrawlError {
    CrawlError::NoFleet(error)
}

/// `None` if it ends because there are new settings: it is to begin again at once.
async fn life(
    plan: &NodePlan,
    fleet: &Fleet,
    (identity, grants): (&mut Identity, Grants),
    quit: watch::Receiver<Quit>,
    tell: &mut impl FnMut(NodeEvent),
) -> Result<Option<Report>, CrawlError> {
    let resumed = identity.number.is_some();
    let (node, orders) = join(plan, fleet, identity).await?;
    let mut log = fleet.log_reader();
    log.read_all().await.map_err(unavailable)?;
    if identity.number.is_none() {
        let number = number_of(log.ledger(), identity.incarnation())?;
        identity.note_number(&plan.dir, number)?;
    }
    tell(NodeEvent::Joined { resumed });
    let definition = fleet.definition();
    fetch_vector(plan, fleet).await?;
    if definition.max_pages.is_some() {
        // What the process before had taken and not used is gone with it.
        node.begin_budget().await.map_err(unavailable)?;
    }
    let (version, settings) = fleet.settings().await.map_err(unavailable)?;
    let settings = node_settings(plan, (definition, &settings), identity)?;
    node.leave_addresses_alone(settings.politeness.ip_delay_ms);
    let desk = plan.role.decides();
    let desk = desk.then(|| desk_of(&settings, definition));
    let desk = desk.transpose()?.map(Arc::new);
    let booth = (!plan.role.decides()).then(|| Arc::new(Booth::default()));
    let (membership, ends) = Membership::new(node.lease(), plan.role, desk.clone(), booth.clone());
    let part = Part {
        secret: definition.secret(),
        crawl_id: crawl_id(definition),
        shipped_frames: node.last_commit().map_or(0, |commit| commit.last_frame),
        limited: definition.max_pages.is_some(),
        membership: Arc::clone(&membership),
    };
    let mut prepared = prepare_crawl(plan, definition, &settings, &part).await?;
    let in_fleet = prepared.books.in_fleet.take();
    let in_fleet =
        in_fleet.ok_or_else(|| CrawlError::Internal("a node without a fleet".to_owned()))?;
    let held = prepared.books.held();
    let mut known = Vec::new();
    let has_clients = fleet.has_clients().await.map_err(unavailable)?;
    for &partition in &held {
        membership.add(partition);
        let (shipped, cursor) = log.ledger().last_of(partition);
        // Where nothing has come since it was taken over, a checkpoint alone says under which epoch that was.
        let newest = log.ledger().checkpoints_of(partition).next();
        let own =
            newest.filter(|it| it.incarnation == identity.incarnation() && it.epoch >= shipped);
        let epoch = own.map_or(shipped, |own| own.epoch);
        let stored = own_checkpoint(fleet, own).await;
        known.push((partition, epoch, cursor, stored));
        if let Some(desk) = &desk
            && grants == Grants::MayBeOut
        {
            // The process before may have granted.
            desk.hold(partition, has_clients);
        }
    }
    if fleet.has_ended().await.map_err(unavailable)? {
        // What is here is shipped, and nothing more is asked of the Web.
        membership.set_stopped(true);
    }
    // Before anything is judged here.
    let mut roots = Roots::listen(&node).await;
    for root in roots.look(fleet.blobs()).await {
        prepared.books.widen(&root);
    }
    let crawl = prepared.begin()?;
    let client = booth.map(|booth| {
        let (first, most) = connections_of(plan, &crawl.shared.settings);
        let (side, ready) = ClientSide::new(booth, first, most);
        (Arc::new(side), ready)
    });
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
        link_url_bytes: AtomicU64::new(0),
        role: plan.role,
        client: client.as_ref().map(|(side, _)| Arc::clone(side)),
        held: Mutex::new(BTreeMap::new()),
        trouble: Mutex::default(),
        deaf: watch::Sender::new(false),
        log: tokio::sync::Mutex::new(log),
        checkpoints: Checkpoints::new(Identity::crawl_dir(&plan.dir).join(REGISTRY_DIR)),
        gathering: Gathering::default(),
    });
    for (partition, epoch, cursor, stored) in known {
        agent.note_adopted(partition, epoch, cursor, stored);
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
    let (progress, shipped_to) = watch::channel(0);
    let mut tasks = JoinSet::new();
    if let Some(desk) = desk {
        let (asked, handed_in) = node.serve_clients();
        tasks.spawn(serving::serve(Arc::clone(&agent), desk, asked, handed_in));
        tasks.spawn(guests::serve(Arc::clone(&agent), node.serve_guests()));
    }
    let shipping = match client {
        Some((side, ready)) => {
            tasks.spawn(client::ask(Arc::clone(&agent), Arc::clone(&side)));
            let carrier = Carrier {
                agent: Arc::clone(&agent),
                side,
                ready,
                warcs,
            };
            tokio::spawn(shipped(Arc::clone(&agent), carrier.run()))
        }
        None => {
            let shipper = Shipper {
                agent: Arc::clone(&agent),
                exporter: in_fleet.exporter,
                warcs,
                progress,
                shipped: last.map_or(0, |commit| commit.last_frame),
                pages: last.map_or(0, |commit| commit.pages),
            };
            let sending = sending::send(Arc::clone(&agent), sending, shipped_to);
            let ships = async move {
                let (warcs, ()) = tokio::try_join!(shipper.run(), sending)?;
                Ok(warcs)
            };
            tokio::spawn(shipped(Arc::clone(&agent), ships))
        }
    };
    let adopter = Arc::new(in_fleet.adopter);
    tasks.spawn(Arc::clone(&agent).report());
    tasks.spawn(addresses::ask(Arc::clone(&agent), ends.wanted));
    tasks.spawn(guests::ask(Arc::clone(&agent), ends.wishes));
    tasks.spawn(roots.exchange(Arc::clone(&agent), ends.roots));
    tasks.spawn(obey(Arc::clone(&agent), adopter, orders));
    tasks.spawn(checkpoints::keep(Arc::clone(&agent)));
    let (leaves, mut events) = mpsc::unbounded_channel();
    tasks.spawn(heed(Arc::clone(&agent), quit.clone(), leaves));
    tasks.spawn(look_after(Arc::clone(&agent), room));
    let changed = Arc::new(AtomicBool::new(false));
    tasks.spawn(new_settings::watch(
        Arc::clone(&agent),
        version,
        Arc::clone(&changed),
    ));
    let mut crawling = std::pin::pin!(blocking(move || crawl.join()));
    let report = loop {
        tokio::select! {
            report = &mut crawling => break report,
            Some(event) = events.recv() => tell(event),
        }
    };
    while let Ok(event) = events.try_recv() {
        tell(event);
    }
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
    agent.report_last().await;
    node.leave().await;
    if let Err(error) = catalogue::close(fleet, &plan.node, &plan.dir).await {
        // Who wants the index can merge it as well.
        tracing::warn!(%error, "the index of all WARC files is not in the store");
    }
    Ok(Some(report))
}

async fn join(
    plan: &NodePlan,
    fleet: &Fleet,
    identity: &Identity,
) -> Result<(Node, mpsc::Receiver<Instruction>), CrawlError> {
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
        // Who decides nothing gets no partitions.
        weight: if plan.role.decides() {
            plan.weight
        } else {
            0.0
        },
    };
    fleet.join(joining).await.map_err(|error| match error {
        FleetError::Sealed(_) => CrawlError::Fenced(error.to_string()),
        other => input(other),
    })
}

/// Where a life of this process ended a moment ago, a partition that it was taking over or letting go may keep the registry
/// locked until that is done.
async fn prepare_crawl(
    plan: &NodePlan,
    definition: &Definition,
    settings: &Settings,
    part: &Part,
) -> Result<Prepared, CrawlError> {
    let begun = Instant::now();
    loop {
        let dir = Identity::crawl_dir(&plan.dir);
        let mut crawl_plan = Plan::new(dir, definition.seeds.iter().cloned(), settings.clone());
        crawl_plan.part = Some(part.clone());
        match blocking(move || Crawl::prepare(crawl_plan)).await {
            Err(CrawlError::Registry(RegistryError::Locked { pid, .. }))
                if pid == std::process::id().to_string() && begun.elapsed() < UNLOCKED_WITHIN =>
            {
                tokio::time::sleep(LOCK_LOOK).await;
            }
            prepared => return prepared,
        }
    }
}

fn unavailable(error: FleetError) -> CrawlError {
    CrawlError::Fleet(error.to_string())
}

/// Each life of each node has WARC files of its own numbers.
fn number_of(log: &Ledger, incarnation: u64) -> Result<u16, CrawlError> {
    let place = log.number_of(incarnation).unwrap_or(usize::MAX);
    u16::try_from(place)
        .ok()
        .filter(|number| *number <= portolan_archive::MAX_NODE_NUMBER)
        .ok_or_else(|| {
            CrawlError::Input(format!(
                "more than {} nodes have archived something for the fleet, counting those that came anew: no file numbers are left",
                portolan_archive::MAX_NODE_NUMBER
            ))
        })
}

/// The same for all nodes of a fleet, and another one for another fleet.
pub(super) fn crawl_id(definition: &Definition) -> u64 {
    u64::from_str_radix(&definition.id, 16).unwrap_or_default()
}

/// The fleet's settings, with what is this node's own.
fn node_settings(
    plan: &NodePlan,
    (definition, settings): (&Definition, &str),
    identity: &Identity,
) -> Result<Settings, CrawlError> {
    let mut settings = Settings::with_overrides(settings)
        .map_err(|e| CrawlError::Input(e.in_file("the fleet's settings")))?;
    fit_for_fleet(&settings)?;
    if settings.partition.method == PartitionMethod::Vector {
        settings.partition.vector = plan.dir.join(VECTOR_FILE).display().to_string();
    }
    // Groups may have nodes of one name, and their WARC files may come together.
    settings.archive.node = match &definition.group {
        Some(group) => format!("{}-{}", group.name, identity.node)
            .chars()
            .take(MAX_NODE_NAME)
            .collect(),
        None => identity.node.clone(),
    };
    settings.archive.node_number = identity.number.unwrap_or_default();
    settings.registry.partitions = definition.partitions;
    // The fleet's budget is shared out; its time is for who made it.
    settings.limits.max_pages = 0;
    if let Some(threads) = plan.threads {
        settings.limits.threads = threads;
    }
    if plan.role == Role::CrawlClient {
        let (_, most) = connections_of(plan, &settings);
        settings.limits.connections = most as usize;
    } else if let Some(connections) = plan.connections {
        settings.limits.connections = connections;
    }
    Ok(settings)
}

/// May a fleet have these settings? What it says follows "settings of a fleet".
pub fn fit_for_fleet(settings: &Settings) -> Result<(), CrawlError> {
    let partition = &settings.partition;
    let refused = |what: &str| Err(CrawlError::Input(what.to_owned()));
    if partition.mode == ExchangeMode::CrossOver {
        return refused(
            "partition.mode: in a fleet, 'cross-over' would have several machines ask one server at once; compare it on one machine",
        );
    }
    match partition.method {
        PartitionMethod::Hash => Ok(()),
        PartitionMethod::Vector
            if partition.unlisted == UnlistedSites::Discoverer
                && partition.mode == ExchangeMode::Firewall =>
        {
            refused(
                "partition.unlisted: in a fleet, 'discoverer' has links go by the homes of sites, and partition.mode 'firewall' lets none go; compare it on one machine",
            )
        }
        PartitionMethod::Vector => Ok(()),
        PartitionMethod::Dset => refused(
            "partition.method: in a fleet, DSets are [[dset]] blocks of the settings, and no file; write them there, and leave partition.method out",
        ),
    }
}

/// How many parts the part vector in `path` has, if a fleet can be divided by it.
pub fn parts_of_vector(path: &Path) -> Result<u16, CrawlError> {
    Ok(open_vector(path)?.parts())
}

/// The fleet's part vector, in the node's own directory.
async fn fetch_vector(plan: &NodePlan, fleet: &Fleet) -> Result<(), CrawlError> {
    let settings = Settings::with_overrides(&fleet.definition().settings)
        .map_err(|e| CrawlError::Input(e.in_file("the fleet's settings")))?;
    if settings.partition.method != PartitionMethod::Vector {
        return Ok(());
    }
    let begun = Instant::now();
    let bytes = loop {
        match fleet.blobs().get(VECTOR_KEY).await {
            Some(bytes) => break bytes,
            // Whoever made the fleet may be about to put it there.
            None if begun.elapsed() < VECTOR_PATIENCE => tokio::time::sleep(VECTOR_LOOK).await,
            None => {
                return Err(CrawlError::Fleet(format!(
                    "{VECTOR_KEY}, the fleet's part vector, is missing from {}; put it back from a copy",
                    fleet.blobs().place()
                )));
            }
        }
    };
    replace(&plan.dir, VECTOR_FILE, &bytes)
}

/// Connections that a crawl-client begins with, and those that it may be told to have.
fn connections_of(plan: &NodePlan, settings: &Settings) -> (u32, u32) {
    let set = match settings.limits.connections {
        0 => FIRST_CONNECTIONS,
        set => set,
    };
    let first = plan.connections.unwrap_or(set).max(1);
    let most = plan.max_connections.unwrap_or(4 * first).max(first);
    (first as u32, most as u32)
}

/// Where crawl-clients ask: a DSet may be for one of them alone. Whoever granted before may have done so by the settings that
/// the fleet began with.
fn desk_of(settings: &Settings, definition: &Definition) -> Result<Desk, CrawlError> {
    let first = Settings::with_overrides(&definition.settings)
        .map_err(|e| CrawlError::Input(e.in_file("the fleet's settings")))?;
    let reserved = settings.dset.iter().map(|set| set.client.clone());
    let hold_ms = grant_ms(settings).max(grant_ms(&first));
    Ok(Desk::new(reserved.collect(), grant_ms(settings), hold_ms))
}

/// How long a grant lives: the last request begins as long before its end as it may take.
fn grant_ms(settings: &Settings) -> u64 {
    let begins_ms = match settings.fleet.grant_ms {
        0 => GRANT_MS,
        grant_ms => grant_ms,
    };
    settings.http.request_timeout_ms + begins_ms
}

/// The checkpoint of a partition that this life of the node told of last, and its key: if it is the newest one, and nobody
/// shipped under a later epoch, what is here goes on from it.
async fn own_checkpoint(
    fleet: &Fleet,
    own: Option<&Checkpoint>,
) -> Option<(StoredCheckpoint, String)> {
    let own = own?;
    let object = fleet.blobs().get(&own.manifest).await?;
    let stored = StoredCheckpoint::from_object(&object).ok()?;
    Some((stored, own.manifest.clone()))
}

async fn obey(agent: Arc<Agent>, adopter: Arc<Adopter>, orders: mpsc::Receiver<Instruction>) {
    if let Err(error) = Arc::clone(&agent).obey(adopter, orders).await {
        agent.end(error);
    }
}

async fn look_after(agent: Arc<Agent>, room: Room) {
    if let Err(error) = room.watch(Arc::clone(&agent)).await {
        agent.end(error);
    }
}

/// `None` if not everything was shipped and sent.
async fn shipped(
    agent: Arc<Agent>,
    ships: impl Future<Output = Result<Warcs, CrawlError>>,
) -> Option<Warcs> {
    match ships.await {
        Ok(warcs) => {
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
        self.gathering.stop();
    }
}
