//! A new session may divide the crawl anew: sites among partitions by the graph of what was fetched so far, or by hash, and
//! into another number of partitions.
//!
//! The registry of the new division is made beside the old one, in the directory `dividing`, with the new part vector, the
//! new settings and, last of all, the file `ready`. From then on the new one counts: renames put everything in its place,
//! and whoever finds the directory with `ready` in it goes on with them. Whoever finds it without begins anew with the
//! old registry, of which nothing was touched. The file `session` says that it is to be done, so the run after a kill does
//! it (decision 9).

use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

use portolan_graph::{
    CrawlPages, CutSettings, Cutter, Measure, Method, PartVector, Unit, read_crawl,
};
use portolan_model::{CanonicalUrl, Identities, PartitionId, UrlKey};
use portolan_registry::{Redivided, Redivision, Snapshot};

use crate::assembly;
use crate::crawl::{Crawl, Plan, REGISTRY_DIR};
use crate::directory::{self, DIVIDING_DIR, READY_FILE, SETTINGS_FILE};
use crate::division::{Chosen, DIVISION_DIR, Division};
use crate::error::CrawlError;
use crate::report::{counted, thousands};
use crate::sealed::seal;
use crate::secret;
use crate::session::{self, NotedDivision};
use crate::settings::{ExchangeMode, MAX_PARTITIONS, PartitionMethod, Settings};
use crate::start::Checked;

/// How far above the mean a part's bytes or requests may be.
const TOLERANCE: f64 = 0.05;
/// The same graph is cut the same way.
const SEED: u64 = 1;
/// The new part vector, before the crawl's own copy of it is made.
const CUT_FILE: &str = "cut.pv";

/// By what sites are divided.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DivideBy {
    /// A cut of the graph of what was fetched so far, with as many bytes and requests for each part, and few links
    /// between parts.
    Graph,
    Hash,
}

impl DivideBy {
    pub fn name(self) -> &'static str {
        match self {
            DivideBy::Graph => "graph",
            DivideBy::Hash => "hash",
        }
    }

    pub(crate) fn from_name(name: &str) -> Option<Self> {
        [DivideBy::Graph, DivideBy::Hash]
            .into_iter()
            .find(|by| by.name() == name)
    }
}

/// How a new session is to be divided.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Divide {
    pub by: DivideBy,
    /// Into how many partitions; `None` for as many as there are.
    pub partitions: Option<u16>,
}

/// What came of a division.
#[derive(Debug, Clone)]
pub struct Divided {
    pub by: DivideBy,
    pub partitions: u16,
    pub urls: u64,
    pub hosts: u64,
    /// Of a cut: the links that lead to another partition, all links, and how far the heaviest partition is above the
    /// mean in bytes and in requests.
    pub cut: Option<Measured>,
}

#[derive(Debug, Clone, Copy)]
pub struct Measured {
    pub exchanged_links: u64,
    pub links: u64,
    pub bytes_imbalance: f64,
    pub request_imbalance: f64,
}

impl std::fmt::Display for Divided {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (hosts, urls) = (counted(self.hosts, "host"), counted(self.urls, "URL"));
        let parts = counted(u64::from(self.partitions), "partition");
        write!(
            f,
            "Divided anew by {}: {hosts} with {urls} among {parts}",
            self.by.name()
        )?;
        if let Some(cut) = &self.cut {
            let percent = |share: f64| format!("{:.1} %", 100.0 * share);
            write!(
                f,
                "; {} of {} links lead from one to another ({}), and the heaviest is {} above the mean in bytes and {} in requests",
                thousands(cut.exchanged_links),
                thousands(cut.links),
                percent(cut.exchanged_links as f64 / cut.links.max(1) as f64),
                percent(cut.bytes_imbalance),
                percent(cut.request_imbalance),
            )?;
        }
        f.write_str(".")
    }
}

/// Before the crawl of the plan is opened: finishes a division that was cut off, and carries out the one that this run asks
/// for. The plan goes on with the settings that the crawl has from then on.
pub(crate) fn see_to(plan: &mut Plan) -> Result<Option<Divided>, CrawlError> {
    if plan.part.is_some() || !Crawl::exists(&plan.dir) {
        return Ok(None);
    }
    let dir = plan.dir.clone();
    if dir.join(DIVIDING_DIR).exists() {
        let lock = lock(&dir)?;
        if finish(&dir)? {
            session::note_divided(&dir)?;
            go_on_as_divided(plan)?;
        }
        drop(lock);
    }
    let noted = session::noted_division(&dir)?;
    let asked = plan.divide.filter(|_| plan.new_session);
    let Some(divide) = asked.or(noted.map(|noted| noted.divide)) else {
        return Ok(None);
    };
    // What a person can get wrong is told before anything is written.
    Checked::new(plan.clone())?;
    let dividing = Dividing::begin(plan, divide, noted)?;
    let divided = dividing.run()?;
    go_on_as_divided(plan)?;
    Ok(Some(divided))
}

/// What is settled when a crawl begins is now what the division made of it.
fn go_on_as_divided(plan: &mut Plan) -> Result<(), CrawlError> {
    let saved = Crawl::saved_settings(&plan.dir)?;
    plan.settings.partition = saved.partition;
    plan.settings.dset = saved.dset;
    plan.settings.registry.partitions = saved.registry.partitions;
    Ok(())
}

/// A division under way. No other process may open the crawl meanwhile.
struct Dividing<'p> {
    plan: &'p Plan,
    divide: Divide,
    noted: Option<NotedDivision>,
    ids: Identities,
    registry: Redivision,
    /// Of the crawl's directory.
    _lock: File,
}

impl<'p> Dividing<'p> {
    fn begin(
        plan: &'p Plan,
        divide: Divide,
        noted: Option<NotedDivision>,
    ) -> Result<Self, CrawlError> {
        let dir = &plan.dir;
        if plan.settings.partition.mode == ExchangeMode::CrossOver {
            return Err(CrawlError::Input(
                "partition.mode: with 'cross-over' several partitions have the same URLs, so there is nothing to divide"
                    .to_owned(),
            ));
        }
        let lock = lock(dir)?;
        let ids = secret::read(dir)?;
        let registry = Redivision::of(&dir.join(REGISTRY_DIR), ids)?;
        let partitions = divide.partitions.unwrap_or(registry.partitions());
        if partitions == 0 || partitions > MAX_PARTITIONS {
            registry.give_up()?;
            return Err(CrawlError::Input(format!(
                "a crawl has from 1 to {MAX_PARTITIONS} partitions, not {partitions}"
            )));
        }
        Ok(Self {
            plan,
            divide: Divide {
                partitions: Some(partitions),
                ..divide
            },
            noted,
            ids,
            registry,
            _lock: lock,
        })
    }

    fn run(self) -> Result<Divided, CrawlError> {
        let made = self.make();
        let dir = self.plan.dir.clone();
        match made {
            Ok(Some(divided)) => {
                finish(&dir)?;
                session::note_divided(&dir)?;
                Ok(divided)
            }
            Ok(None) => {
                self.registry.give_up()?;
                Err(CrawlError::HalfDivided(dir))
            }
            Err(error) => {
                self.registry.give_up()?;
                Err(error)
            }
        }
    }

    /// All that is to take the old one's place, up to the file that says so. `None` if it was stopped.
    fn make(&self) -> Result<Option<Divided>, CrawlError> {
        let dir = &self.plan.dir;
        let partitions = self.divide.partitions.unwrap_or(1);
        let snapshot = Snapshot::open(&dir.join(REGISTRY_DIR), self.ids)?;
        let dividing = dir.join(DIVIDING_DIR);
        let cut_path = dividing.join(CUT_FILE);
        let cut = match self.divide.by {
            DivideBy::Graph => Some(cut(&snapshot, partitions)?),
            DivideBy::Hash => None,
        };
        self.note(&snapshot, partitions)?;
        drop(snapshot);
        clear(&dividing)?;
        directory::make_dir(&dividing).map_err(at(&dividing))?;
        let mut settings = Crawl::saved_settings(dir)?;
        settings.registry.partitions = partitions;
        settings.partition.vector.clear();
        settings.partition.dsets.clear();
        settings.dset.clear();
        settings.partition.method = match &cut {
            Some((graph, cut, _)) => {
                let wrong = |error| CrawlError::Internal(format!("the cut of the graph: {error}"));
                PartVector::write(&cut_path, graph, cut, SEED).map_err(wrong)?;
                PartitionMethod::Vector
            }
            None => PartitionMethod::Hash,
        };
        let measured = cut.map(|(_, _, measured)| measured);
        let chosen = Chosen::anew(&settings, &cut_path)?;
        chosen.remember(&dividing)?;
        // By hash nothing is remembered, but the old division has to go.
        let home = dividing.join(DIVISION_DIR);
        directory::make_dir(&home).map_err(at(&home))?;
        let division = chosen.open(&dividing, partitions, false)?;
        let Some(Redivided { urls, hosts }) = self.move_all(&settings, &division)? else {
            return Ok(None);
        };
        division.make_durable()?;
        let text = toml::to_string(&settings).map_err(|e| CrawlError::Internal(e.to_string()))?;
        directory::replace(&dividing, SETTINGS_FILE, seal(&text).as_bytes())?;
        directory::replace(&dividing, READY_FILE, b"")?;
        Ok(Some(Divided {
            by: self.divide.by,
            partitions,
            urls,
            hosts,
            cut: measured,
        }))
    }

    fn move_all(
        &self,
        settings: &Settings,
        division: &Division,
    ) -> Result<Option<Redivided>, CrawlError> {
        let (ids, partitions) = (self.ids, division.partitions());
        let owner = |url: &str, had: PartitionId| {
            let discoverer = PartitionId(had.0 % partitions);
            match CanonicalUrl::from_canonical(url.to_owned()) {
                Ok(url) => division.part_of(UrlKey::of(&url, &ids), discoverer),
                Err(_) => discoverer,
            }
        };
        let to = self.plan.dir.join(DIVIDING_DIR).join(REGISTRY_DIR);
        let registry = assembly::registry(settings, partitions, (ids, 0));
        let goes_on = || !self.plan.give_up.load(Ordering::Relaxed);
        Ok(self.registry.run(&to, &registry, owner, goes_on)?)
    }

    /// From now on the next run goes on with this, if this one is killed.
    fn note(&self, snapshot: &Snapshot, partitions: u16) -> Result<(), CrawlError> {
        if self.noted.is_some_and(|noted| noted.divide == self.divide) {
            return Ok(());
        }
        let sessions = snapshot.stats().sessions;
        let latest_ms = sessions.iter().map(|session| session.last_ms).max();
        let now_ms = self.plan.outside.clock().now_ms();
        let noted = NotedDivision {
            divide: Divide {
                by: self.divide.by,
                partitions: Some(partitions),
            },
            ranked: self.plan.ranked_session,
        };
        session::note_division(
            &self.plan.dir,
            noted,
            (
                snapshot.session() + 1,
                now_ms.max(latest_ms.unwrap_or(0) + 1),
            ),
        )
    }
}

type CutGraph = (portolan_graph::WebGraph, portolan_graph::Cut, Measured);

fn cut(snapshot: &Snapshot, parts: u16) -> Result<CutGraph, CrawlError> {
    let wrong = |error| {
        CrawlError::Input(format!(
            "the graph cannot be cut into {parts} parts: {error}; name another number of partitions"
        ))
    };
    let graph = read_crawl(snapshot, CrawlPages::Fetched).map_err(wrong)?;
    let settings = CutSettings {
        parts,
        unit: Unit::Site,
        method: Method::Graph,
        tolerance: TOLERANCE,
        seed: SEED,
    };
    let cutter = Cutter::new(&graph, Unit::Site).and_then(|mut cutter| cutter.cut(&settings));
    let cut = cutter.map_err(wrong)?;
    let measure = Measure::of(&graph, &cut.pages(&graph), parts);
    let measured = Measured {
        exchanged_links: measure.exchanged_links,
        links: graph.links.count(),
        bytes_imbalance: measure.bytes_imbalance,
        request_imbalance: measure.request_imbalance,
    };
    Ok((graph, cut, measured))
}

/// Puts what is ready in its place. False if nothing is: then what there is of it is removed. May be called again at any
/// moment of it.
fn finish(dir: &Path) -> Result<bool, CrawlError> {
    let dividing = dir.join(DIVIDING_DIR);
    let ready = dividing.join(READY_FILE).exists();
    if ready {
        for name in [REGISTRY_DIR, DIVISION_DIR] {
            put_in_place(dir, &dividing, name)?;
        }
        let settings = dividing.join(SETTINGS_FILE);
        if settings.exists() {
            fs::rename(&settings, dir.join(SETTINGS_FILE)).map_err(at(&settings))?;
        }
        for changed in [dir, &dividing] {
            let synced = File::open(changed).and_then(|dir| dir.sync_all());
            synced.map_err(at(changed))?;
        }
    }
    clear(&dividing)?;
    Ok(ready)
}

fn put_in_place(dir: &Path, dividing: &Path, name: &str) -> Result<(), CrawlError> {
    let (new, place) = (dividing.join(name), dir.join(name));
    if !new.exists() {
        return Ok(());
    }
    if place.exists() {
        let old = dividing.join(format!("old-{name}"));
        fs::rename(&place, &old).map_err(at(&place))?;
    }
    fs::rename(&new, &place).map_err(at(&new))
}

fn clear(dividing: &Path) -> Result<(), CrawlError> {
    match fs::remove_dir_all(dividing) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(at(dividing)(error)),
        _ => Ok(()),
    }
}

/// One process at a time divides a crawl. Free again when the process dies.
fn lock(dir: &Path) -> Result<File, CrawlError> {
    let file = File::open(dir).map_err(at(dir))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(CrawlError::Input(format!(
            "another process divides the crawl in {} anew; wait for it, or stop it first",
            dir.display()
        ))),
        Err(TryLockError::Error(error)) => Err(at(dir)(error)),
    }
}

fn at(path: &Path) -> impl Fn(io::Error) -> CrawlError {
    let path: PathBuf = path.to_owned();
    move |source| CrawlError::File {
        path: path.clone(),
        source,
    }
}
