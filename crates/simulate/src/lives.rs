//! The lives of a simulated crawl: it is started, killed, started again from what its directory held, and in the end
//! left alone until it is done.

use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use portolan_crawl::scope::ScopeKind;
use portolan_crawl::{Crawl, CrawlError, Outside, Plan, Settings};
use portolan_simweb::{
    ContentSpec, DiscoverySpec, FaultSpec, LatencySpec, RobotsSpec, Web, WebSpec, Within,
};
use tempfile::TempDir;
use tokio::runtime::Runtime;
use tokio::task::LocalSet;
use xxhash_rust::xxh3::xxh3_64;

use crate::chance::Chance;
use crate::disk::Disk;
use crate::time::SimulatedClock;
use crate::verdict::{Broken, Durable, judge};
use crate::weather::Weather;
use crate::world::World;

/// At most this many kills in a simulation.
const KILLS: u64 = 4;
/// A crawl that has not come to its end by then, in simulated time, stands still.
const LIMIT: Duration = Duration::from_secs(86_400);
/// Requests that are compared when a seed is repeated.
const RECORDED: usize = 100_000;
const DELAY_MS: u64 = 1_000;

/// What came of one seed.
#[derive(Debug, Clone)]
pub struct Simulated {
    pub seed: u64,
    /// Invariants that did not hold.
    pub broken: Vec<Broken>,
    pub requests: u64,
    /// Lives that ended before the crawl did, ...
    pub kills: u64,
    /// ... and those among them that ended because the disk refused.
    pub refusals: u64,
    /// In the simulation's time.
    pub seconds: f64,
    /// Of all requests, with their times: a seed that is repeated has the same.
    pub digest: u64,
}

/// Run one crawl, with all that the seed says. `Err`: this machine could not.
pub fn simulate(seed: u64) -> io::Result<Simulated> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()?;
    let _inside = runtime.enter();
    let mut chance = Chance::new(seed);
    let world = Arc::new(world(seed, &mut chance)?);
    let home = scratch()?;
    let mut lives = Lives {
        runtime: &runtime,
        world: Arc::clone(&world),
        seed,
        home,
        lived: 0,
        refused: 0,
        durable: Vec::new(),
    };
    let mut broken = lives.run(&mut chance)?;
    if broken.is_empty() {
        broken = judge(&world, &lives.dir(), &lives.durable);
    }
    let witness = world.within.witness();
    let trace: String = witness
        .requests()
        .iter()
        .map(|r| format!("{r:?}\n"))
        .collect();
    Ok(Simulated {
        seed,
        broken,
        requests: witness.report().requests,
        kills: lives.lived,
        refusals: lives.refused,
        seconds: world.clock.ran_ms() as f64 / 1e3,
        digest: xxh3_64(trace.as_bytes()),
    })
}

/// A small Web with a bit of everything that a crawl can bring to an end.
fn world(seed: u64, chance: &mut Chance) -> io::Result<World> {
    let spec = WebSpec {
        faults: FaultSpec {
            redirect_share: 0.08,
            ..FaultSpec::default()
        },
        content: ContentSpec {
            page_bytes: 1_500,
            duplicate_share: 0.08,
            ..ContentSpec::default()
        },
        robots: RobotsSpec {
            forbidden_share: 0.1,
            crawl_delay_share: 0.2,
            crawl_delay_s: 3.0,
            ..RobotsSpec::default()
        },
        discovery: DiscoverySpec {
            sitemap_share: 0.3,
            ..DiscoverySpec::default()
        },
        latency: LatencySpec {
            mean_ms: chance.between(1, 400) as f64,
            ..LatencySpec::default()
        },
        ..WebSpec::small()
    };
    let spec = spec
        .with_hosts(chance.between(2, 7) as u32)
        .with_pages_per_host(chance.between(3, 12) as u32)
        .with_seed(seed);
    let web = Web::new(spec).map_err(io::Error::other)?;
    let web = Arc::new(web);
    let addresses: Vec<IpAddr> = (1..=chance.between(1, 4) as u8)
        .map(|last| IpAddr::V4(Ipv4Addr::new(127, 0, 0, last)))
        .collect();
    let within = Within::new(Arc::clone(&web), &addresses);
    within.witness().expect_delay_ms(DELAY_MS);
    within.witness().record_requests(RECORDED);
    Ok(World {
        weather: Weather::draw(chance, &addresses),
        clock: Arc::new(SimulatedClock::new()),
        disk: Disk::new(),
        web,
        within,
        addresses,
    })
}

/// In memory where there is such a place: nobody waits for a disk.
fn scratch() -> io::Result<TempDir> {
    let memory = Path::new("/dev/shm");
    match memory.is_dir() {
        true => TempDir::new_in(memory).or_else(|_| TempDir::new()),
        false => TempDir::new(),
    }
}

struct Lives<'a> {
    runtime: &'a Runtime,
    world: Arc<World>,
    seed: u64,
    home: TempDir,
    /// Lives that were ended by a kill.
    lived: u64,
    /// Those of them that a refusing disk ended.
    refused: u64,
    durable: Vec<Durable>,
}

enum End {
    Killed,
    Ended(Result<(), CrawlError>),
    StoodStill,
}

impl Lives<'_> {
    /// Where the crawl of this life is.
    fn dir(&self) -> PathBuf {
        self.home.path().join(format!("life-{}", self.lived))
    }

    fn run(&mut self, chance: &mut Chance) -> io::Result<Vec<Broken>> {
        let kills = chance.between(0, KILLS + 1);
        let steps: Vec<(u64, i64)> = self.world.weather.clock_steps.clone();
        let clock = Arc::clone(&self.world.clock);
        self.runtime.spawn(async move {
            for (at_ms, by_ms) in steps {
                tokio::time::sleep(Duration::from_millis(at_ms)).await;
                tracing::info!(by_ms, "the time of day is set");
                clock.set_by(by_ms);
            }
        });
        loop {
            let may_die = self.lived < kills;
            match self.live(may_die, chance)? {
                End::Killed => self.be_killed(chance)?,
                End::Ended(Ok(())) => return Ok(Vec::new()),
                // Somebody makes room, and starts the crawl again.
                End::Ended(Err(_)) if self.world.disk.has_refused() => {
                    self.refused += 1;
                    self.world.disk.leave_behind()?;
                    self.be_killed(chance)?;
                }
                End::Ended(Err(error)) => return Ok(failed(&format!("the crawl failed: {error}"))),
                End::StoodStill => return Ok(failed("the crawl stands still")),
            }
        }
    }

    /// One life, until the crawl is done or killed: at a certain time, or at a certain step.
    fn live(&self, may_die: bool, chance: &mut Chance) -> io::Result<End> {
        let clock = &self.world.clock;
        clock.reborn();
        let disk = &self.world.disk;
        let next = self.home.path().join(format!("life-{}", self.lived + 1));
        disk.reborn(self.dir(), next);
        let way = chance.between(0, 4);
        let by_time = may_die && way == 0;
        let (die_ms, die_step) = (chance.between(1, 20_000), chance.between(1, 3_000));
        let commit_step = chance.between(1, 60);
        let prepared = match Crawl::prepare(self.plan()) {
            Ok(prepared) => prepared,
            Err(error) => return Ok(End::Ended(Err(error))),
        };
        match way {
            1 if may_die => clock.die_in(die_step),
            2 if may_die => disk.die_in(commit_step),
            3 if may_die => disk.refuse_in(commit_step),
            _ => {}
        }
        let tasks = LocalSet::new();
        let end = self.runtime.block_on(tasks.run_until(async {
            let death = async {
                match by_time {
                    true => tokio::time::sleep(Duration::from_millis(die_ms)).await,
                    false => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                () = death => End::Killed,
                () = clock.fatal.notified() => End::Killed,
                () = disk.fatal.notified() => End::Killed,
                () = tokio::time::sleep(LIMIT) => End::StoodStill,
                ended = prepared.run_here() => End::Ended(ended.map(|_| ())),
            }
        }));
        if let End::Killed = end {
            // What a process leaves behind is what is in its files now: those who are dropped may still write.
            disk.leave_behind()?;
        }
        drop(tasks);
        Ok(end)
    }

    fn be_killed(&mut self, chance: &mut Chance) -> io::Result<()> {
        std::fs::remove_dir_all(self.dir())?;
        self.lived += 1;
        tracing::info!(
            life = self.lived,
            at_ms = self.world.clock.ran_ms(),
            "killed"
        );
        let away = Duration::from_millis(chance.between(1, 20_000));
        // The servers notice, and time passes.
        self.runtime.block_on(tokio::time::sleep(away));
        self.durable.push(Durable::of(&self.world, &self.dir()));
        self.world.within.witness().mark();
        Ok(())
    }

    fn plan(&self) -> Plan {
        let mut settings = Settings::default();
        settings.access.proxy_from_environment = false;
        settings.scope.scope = ScopeKind::Any;
        settings.politeness.delay_ms = DELAY_MS;
        // Longer than all bad weather.
        settings.outages.wait_ms = 3_600_000;
        settings.limits.threads = 2;
        settings.limits.max_attempts = 100;
        settings.registry.partitions = 3;
        settings.registry.memory_bytes = 16 << 20;
        settings.dns.allow_private = true;
        settings.identity.contact = "https://example.org/crawler".to_owned();
        let home = self.world.web.spec().home_url();
        Plan {
            outside: Outside {
                clock: Some(Arc::clone(&self.world.clock) as _),
                dialer: Some(Arc::clone(&self.world) as _),
                resolver: Some(Arc::clone(&self.world) as _),
                steps: Some(Arc::clone(&self.world) as _),
                chance: Some(self.seed.wrapping_mul(1_000).wrapping_add(self.lived)),
                // Half of all crawls are decided and fetched as by two processes.
                wired: self.seed % 2 == 1,
            },
            ..Plan::new(self.dir(), [home], settings)
        }
    }
}

fn failed(what: &str) -> Vec<Broken> {
    vec![Broken {
        invariant: "ends",
        what: what.to_owned(),
    }]
}
