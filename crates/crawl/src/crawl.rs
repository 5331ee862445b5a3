//! A crawl from its directory to its report: opens or recovers everything, starts the threads,
//! watches over them, and closes the books.

use std::collections::{BTreeMap, HashSet};
use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, RwLock};
use std::thread::JoinHandle;
use std::time::Instant;

use portolan_archive::{
    ContentSeen, DurableEnd, RecordBuilder, WarcWriter, check_files, claim_archive,
};
use portolan_model::{
    CanonicalUrl, Canonicalizer, Clock, Identities, LinkBatch, PartitionId, SystemClock,
    service_of_port,
};
use portolan_registry::{Entry, Opened, Registry, RegistryError, RegistrySettings, Snapshot};
use tokio::sync::{Notify, Semaphore, mpsc};

use crate::access::Access;
use crate::admission::Admission;
use crate::assembly;
use crate::budget::{Budget, StoppedBy};
use crate::check::surt;
use crate::commit::{self, Archivist, DELIVERY_QUEUE, FINISHED_QUEUE, Finished};
use crate::directory::{self, SETTINGS_FILE};
use crate::division::Chosen;
use crate::error::CrawlError;
use crate::gate::{Door, Gate};
use crate::judging::{self, Criteria, Judged, Judging};
use crate::machine::{self, TooFewFiles};
use crate::mapper::{self, NameDrop};
use crate::metrics::{Metrics, Progress, process_cpu_seconds};
use crate::named::Named;
use crate::neighbour::Neighbours;
use crate::network::Network;
use crate::page::Workbench;
use crate::pauses::Pauses;
use crate::politeness::Politeness;
use crate::recovery::Recovered;
use crate::report::Report;
use crate::retry::Retry;
use crate::secret;
use crate::settings::Settings;
use crate::shared::{LARGE_BODIES, ROOM_KIB, Shared, UNFOLDED_KIB, owner};
use crate::watch::Watcher;
use crate::worker::{self, Gauges, WorkerPlan};

/// The WARC files of a crawl, in its directory.
pub const ARCHIVE_DIR: &str = "archive";
/// Which payloads are archived already.
pub(crate) const SEEN_DIR: &str = "seen";
/// What is known and what is due, in a crawl's directory.
pub const REGISTRY_DIR: &str = "registry";

/// A seed as a person wrote it.
#[derive(Debug, Clone)]
pub struct Seed {
    pub text: String,
    /// Where it was written, for messages: "the command line", "seeds.txt line 3".
    pub place: String,
}

/// What to crawl, where to, and how.
#[derive(Debug, Clone)]
pub struct Plan {
    pub dir: PathBuf,
    pub seeds: Vec<Seed>,
    pub settings: Settings,
    /// Limits that hold for this run alone. They win over the settings, and are not remembered.
    pub this_run: RunLimits,
    /// What failed earlier and is to be asked for again, now.
    pub retry: Option<Retry>,
}

/// When this run stops, whatever the settings say of the others.
#[derive(Debug, Clone, Copy, Default)]
pub struct RunLimits {
    /// Documents archived; 0 is no limit.
    pub max_pages: Option<u64>,
    /// Seconds; 0 is no limit.
    pub time_limit_s: Option<f64>,
}

impl RunLimits {
    fn apply(self, settings: &mut Settings) {
        let limits = &mut settings.limits;
        limits.max_pages = self.max_pages.unwrap_or(limits.max_pages);
        limits.time_limit_s = self.time_limit_s.unwrap_or(limits.time_limit_s);
    }
}

/// A running crawl.
pub struct Crawl {
    shared: Arc<Shared>,
    gauges: Vec<Arc<Gauges>>,
    begun: Instant,
    resumed: bool,
    recovered: Recovered,
    too_few_files: Option<TooFewFiles>,
    judging_for: Option<Vec<String>>,
    watcher: JoinHandle<Result<Report, CrawlError>>,
}

impl Crawl {
    /// Does `dir` hold a crawl that can go on?
    pub fn exists(dir: &Path) -> bool {
        dir.join(SETTINGS_FILE).is_file()
    }

    /// The settings that the crawl in `dir` ran with last.
    pub fn saved_settings(dir: &Path) -> Result<Settings, CrawlError> {
        let text = directory::remembered_settings(dir)?;
        let path = dir.join(SETTINGS_FILE);
        Settings::with_overrides(&text)
            .map_err(|e| CrawlError::Input(e.in_file(&path.display().to_string())))
    }

    /// Every seed that the crawl in `dir` was ever given.
    pub fn seeds(dir: &Path) -> Result<Vec<CanonicalUrl>, CrawlError> {
        directory::remembered_seeds(dir)
    }

    /// Are all URLs of the crawl in `dir` judged by its settings? Not while a run judges them again, or if that was cut
    /// off.
    pub fn is_judged(dir: &Path) -> Result<bool, CrawlError> {
        Ok(!judging::is_unfinished(dir)?)
    }

    /// Is a process at work in `dir`?
    pub fn is_running(dir: &Path) -> bool {
        Registry::is_open(&dir.join(REGISTRY_DIR))
    }

    /// By what documents and hosts are known in the crawl in `dir`. A secret: it is not for printing.
    pub fn identities(dir: &Path) -> Result<Identities, CrawlError> {
        secret::read(dir)
    }

    /// Did the last run in `dir` end in order? Then the archive's index is merged.
    pub fn has_ended(dir: &Path) -> bool {
        Registry::is_closed(&dir.join(REGISTRY_DIR))
    }

    /// What makes two spellings of a URL one in the crawl in `dir`.
    pub fn canonicalizer(dir: &Path) -> Result<Canonicalizer, CrawlError> {
        Ok(Canonicalizer::new(&assembly::canonical(
            &Self::saved_settings(dir)?,
        )))
    }

    /// Start, or go on. Everything that a person can get wrong is found before anything is written.
    pub fn start(plan: Plan) -> Result<Self, CrawlError> {
        let begun = Instant::now();
        let cpu_before = process_cpu_seconds();
        let clock = Arc::new(SystemClock::start());
        let canonicalizer = Canonicalizer::new(&assembly::canonical(&plan.settings));
        let mut seeds = parse_seeds(&canonicalizer, &plan.seeds)?;
        let bounds = assembly::bounds(&plan.settings);
        let open_files = machine::raise_open_files();
        let mapping = assembly::mapping(&plan.settings, &bounds, clock.clone())?;
        let scope = assembly::scope(&plan.settings, &seeds)?;
        let access = Access::new(&plan.settings)?;
        check_ports(&plan.settings, &seeds)?;
        assembly::connector(&plan.settings, &Named::default())?;
        let archive_settings = assembly::archive(&plan.settings);
        RecordBuilder::new(&archive_settings, 0)?;
        let resumed = Self::exists(&plan.dir);
        if resumed {
            let begun = Self::saved_settings(&plan.dir)?;
            let fixed = plan.settings.check_fixed(&begun);
            fixed.map_err(|e| CrawlError::Input(e.to_string()))?;
            directory::refuse_without_registry(&plan.dir)?;
        }
        let ranker = assembly::ranker(&plan.settings, resumed.then_some(&*plan.dir))?;
        let chosen = Chosen::of(&plan.settings, resumed.then_some(&plan.dir))?;
        let dir = directory::prepare(&plan.dir, resumed)?;
        // What a person named is what this run was given and what earlier runs were given, and nothing that a
        // server said.
        let (ids, mut named) = match resumed {
            true => (secret::read(&dir)?, Named::read(&dir)?),
            false => (secret::make(&dir)?, Named::default()),
        };
        let proxy_resolves = assembly::proxies(&plan.settings)?.is_resolving();
        if !plan.settings.dns.allow_private {
            // What a name stands for is then for the proxy to know, but not what an address does.
            let is_known = |seed: &&CanonicalUrl| !proxy_resolves || is_address(seed.host());
            let known: Vec<CanonicalUrl> = seeds.iter().filter(is_known).cloned().collect();
            named.name(&known, &mapping)?;
        }
        if resumed {
            let given: HashSet<CanonicalUrl> = seeds.iter().cloned().collect();
            let earlier = directory::remembered_seeds(&dir)?;
            seeds.extend(earlier.into_iter().filter(|s| !given.contains(s)));
        } else {
            // What the crawl is to be is durable before anything else: killed at any later moment,
            // it can go on.
            chosen.remember(&dir)?;
            directory::remember_ranks(&dir, &plan.settings)?;
            named.remember(&dir)?;
            Judged::remember(&dir, &Criteria::of(&plan.settings, &scope)?)?;
            directory::remember(&dir, &seeds, &plan.settings)?;
        }
        let retried = match &plan.retry {
            Some(_) if resumed => Some(Snapshot::open(&dir.join(REGISTRY_DIR), ids)?),
            _ => None,
        };
        let opened = Registry::open(
            &dir.join(REGISTRY_DIR),
            &RegistrySettings {
                retry_now: plan.retry.is_some(),
                ..assembly::registry(
                    &plan.settings,
                    chosen.partitions(),
                    (ids, directory::new_crawl_id()?),
                )
            },
            clock.now_ms(),
        )
        .map_err(|error| match error {
            RegistryError::Settings { .. } => CrawlError::Input(error.to_string()),
            other => other.into(),
        })?;
        let Opened {
            logs,
            partitions,
            archive_files,
            crawl_id,
            torn_log_bytes,
            after_crash,
            seeds: known,
            opened_ms: run_ms,
        } = opened;
        // The machine's clock may have been set back since.
        clock.go_on_from(run_ms);
        let given_seeds = seeds.clone();
        let planted: HashSet<&str> = known.iter().map(String::as_str).collect();
        let new_seeds: Vec<CanonicalUrl> = seeds
            .iter()
            .filter(|s| !planted.contains(s.as_str()))
            .cloned()
            .collect();
        seeds.extend(
            known
                .iter()
                .filter_map(|s| CanonicalUrl::from_canonical(s.clone()).ok()),
        );

        let durable = archive_files.last();
        let durable = durable.map(|&(file, end)| DurableEnd { file, end });
        if durable.is_none() || dir.join(ARCHIVE_DIR).is_dir() {
            claim_archive(&dir, &directory::archive_id(crawl_id))?;
        }
        let faults = check_files(&dir, &archive_settings.prefix, &archive_files)?;
        let (warc, recovery) = WarcWriter::recover(
            &dir,
            archive_settings.clone(),
            durable,
            &surt,
            clock.clone(),
            record_seed(clock.wall_ms(), 0),
        )?;
        let recovered = Recovered::new((after_crash, torn_log_bytes), &recovery, &faults);
        let seen = ContentSeen::open(
            &dir.join(SEEN_DIR),
            archive_settings.seen_ram_bytes,
            durable,
        )?;

        if resumed {
            // Only now is it certain that no other process is at work here, and that all can be opened.
            named.remember(&dir)?;
            directory::remember(&dir, &given_seeds, &plan.settings)?;
        }
        let scope = assembly::scope(&plan.settings, &seeds)?;
        let judging = match resumed {
            true => Judging::wanted(&dir, &plan.settings, &scope)?,
            false => None,
        };
        let judging_for = judging.as_ref().map(Judging::names);
        // Nothing is remembered from here on.
        let mut settings = plan.settings;
        plan.this_run.apply(&mut settings);

        let (finished, inbox) = mpsc::channel(FINISHED_QUEUE);
        let judged_before = partitions
            .iter()
            .map(|p| p.stats())
            .fold((0, 0), |sum, stats| {
                (sum.0 + stats.judged_due, sum.1 + stats.judged_out)
            });
        let begun_before = partitions.iter().any(|p| p.applied() > 0);
        let division = chosen.open(&dir, partitions.len() as u16, begun_before)?;
        let politeness = Politeness::new(
            settings.politeness.clone(),
            settings.outages.clone(),
            run_ms,
        );
        let (pauses, resting) = Pauses::open(&dir, clock.clone())?;
        let addresses_from_ms = clock.now_ms() + politeness.ip_delay_ms() + 1;
        let gate = Gate::new(if resumed { addresses_from_ms } else { 0 });
        for (host, not_before_ms) in resting {
            gate.shut_until(Door::Host(host), not_before_ms);
        }
        let workers = assembly::threads(&settings).min(partitions.len()).max(1);
        let (neighbours, questions) = Neighbours::of(workers);
        let shared = Arc::new(Shared {
            division: Arc::new(division),
            ranker,
            scope: RwLock::new(scope),
            access,
            politeness,
            gate,
            pauses,
            neighbours,
            network: Network::default(),
            run_ms,
            budget: Budget::new(settings.limits.max_pages),
            metrics: Metrics::default(),
            connector: assembly::connector(&settings, &named)?,
            settings,
            ids,
            mapping,
            clock,
            finished,
            room: Arc::new(Semaphore::new(ROOM_KIB)),
            unfolded: Semaphore::new(UNFOLDED_KIB),
            large_bodies: Arc::new(Semaphore::new(LARGE_BODIES)),
            commit_now: Notify::new(),
            closing: Notify::new(),
            outstanding: AtomicU64::new(0),
            folded: AtomicU64::new(0),
            judging: AtomicBool::new(judging.is_some()),
            judged_before,
            failure: Mutex::new(None),
        });
        plant(&shared, shared.admission(canonicalizer.clone()), &new_seeds)?;
        let retried = plan.retry.zip(retried);
        if judging.is_some() || retried.is_some() {
            // The crawl does not end before these URLs are judged and due again.
            shared.outstanding.fetch_add(1, Ordering::SeqCst);
        }

        let mut owned: Vec<Vec<_>> = (0..workers).map(|_| Vec::new()).collect();
        for partition in partitions {
            owned[owner(partition.id(), workers)].push(partition);
        }
        let (names, names_inbox) = mapper::queue();
        let mapping = Arc::clone(&shared.mapping);
        let at_once = bounds.lookups + bounds.slow_lookups;
        spawn("mapper", move || mapper::run(mapping, at_once, names_inbox))?;
        let partitions = shared.division.partitions();
        let too_few_files = bounds.too_few_files(partitions, open_files);
        let pools = assembly::pool_sizes(&shared.settings, &bounds, workers);
        let mut threads = Vec::new();
        let mut owners = Vec::new();
        let mut gauges = Vec::new();
        for (number, (partitions, questions)) in owned.into_iter().zip(questions).enumerate() {
            let (deliveries, inbox) = mpsc::channel(DELIVERY_QUEUE);
            owners.push(deliveries);
            let gauge = Arc::new(Gauges::default());
            gauges.push(Arc::clone(&gauge));
            let seed = record_seed(shared.wall_ms(), number as u64 + 2);
            let builder = RecordBuilder::new(&archive_settings, seed)?;
            let bench = Workbench::new(
                &shared,
                canonicalizer.clone(),
                builder,
                match proxy_resolves {
                    true => NameDrop::shut(),
                    false => NameDrop::new(names.clone()),
                },
            );
            let plan = WorkerPlan {
                shared: Arc::clone(&shared),
                partitions,
                bench,
                inbox,
                questions,
                pools,
                max_idle: bounds.idle.div_ceil(workers),
                gauges: gauge,
            };
            threads.push(spawn(&format!("worker-{number}"), move || {
                worker::run(plan)
            })?);
        }
        let archivist = Archivist {
            shared: Arc::clone(&shared),
            warc,
            seen,
            builder: RecordBuilder::new(&archive_settings, record_seed(shared.wall_ms(), 1))?,
            logs,
            inbox,
            left_some: false,
            owners,
        };
        let archivist = spawn("archivist", move || commit::run(archivist))?;
        if judging.is_some() || retried.is_some() {
            let shared = Arc::clone(&shared);
            let roots = judging::roots(&ids, &given_seeds, &seeds);
            let judge = (roots, shared.admission(canonicalizer));
            spawn("judge", move || {
                judging::run(&shared, judge, judging, retried)
            })?;
        }
        let watcher = Watcher {
            shared: Arc::clone(&shared),
            gauges: gauges.clone(),
            workers: threads,
            archivist,
            begun,
            cpu_before,
            dir,
            recovered: recovered.clone(),
        };
        let watcher = spawn("watcher", move || watcher.run())?;
        Ok(Self {
            shared,
            gauges,
            begun,
            resumed,
            recovered,
            too_few_files,
            judging_for,
            watcher,
        })
    }

    /// What has changed since the last run, if URLs are judged again for that before anything is asked for: names of
    /// settings, or "the seeds". Empty where a judging was cut off and begins anew.
    pub fn judging_for(&self) -> Option<&[String]> {
        self.judging_for.as_deref()
    }

    /// How many URLs were judged again, once that is done.
    pub fn judged(&self) -> Option<u64> {
        let done = self.judging_for.is_some() && !self.shared.judging.load(Ordering::SeqCst);
        done.then(|| self.shared.metrics.judged.load(Ordering::Relaxed))
    }

    /// The crawl runs with fewer connections than it is set to, because too few files may be open.
    pub fn too_few_files(&self) -> Option<TooFewFiles> {
        self.too_few_files
    }

    pub fn is_resumed(&self) -> bool {
        self.resumed
    }

    /// What was found and done before the crawl went on.
    pub fn recovered(&self) -> &Recovered {
        &self.recovered
    }

    /// Finish what is under way, then stop.
    pub fn stop(&self, by: StoppedBy) {
        self.shared.budget.stop(by);
    }

    /// Give up what is under way and stop; what was finished is kept.
    pub fn stop_now(&self, by: StoppedBy) {
        self.shared.budget.stop_now(by);
    }

    pub fn is_finished(&self) -> bool {
        self.watcher.is_finished()
    }

    pub fn progress(&self) -> Progress {
        let seconds = self.begun.elapsed().as_secs_f64();
        let shared = &self.shared;
        let settings = &shared.settings;
        let limit_s = settings.limits.time_limit_s;
        let ip_delay_ms = shared.politeness.ip_delay_ms();
        Progress {
            no_network_since_ms: shared.network.down_since_ms(),
            patience_ms: settings.outages.wait_ms,
            pages_left: shared
                .budget
                .left(shared.metrics.pages.load(Ordering::Relaxed)),
            seconds_left: (limit_s > 0.0).then(|| (limit_s - seconds).max(0.0)),
            ip_delay_rules_ms: (settings.politeness.delay_ms < ip_delay_ms).then_some(ip_delay_ms),
            ..shared.metrics.progress(&self.gauges, seconds)
        }
    }

    /// Wait for the end.
    pub fn join(self) -> Result<Report, CrawlError> {
        self.watcher
            .join()
            .unwrap_or_else(|_| Err(CrawlError::Internal("the watcher died".to_owned())))
    }
}

fn parse_seeds(
    canonicalizer: &Canonicalizer,
    seeds: &[Seed],
) -> Result<Vec<CanonicalUrl>, CrawlError> {
    let mut urls: Vec<CanonicalUrl> = Vec::new();
    let mut distinct = HashSet::new();
    for seed in seeds {
        let wrong = |what: &dyn Display| {
            let (text, place) = (without_user(&seed.text), &seed.place);
            CrawlError::Input(format!("seed '{text}' ({place}): {what}"))
        };
        if seed.text.trim().is_empty() {
            return Err(wrong(
                &"it is empty; name a URL such as https://example.org/",
            ));
        }
        let parsed = canonicalizer.parse_seed(&seed.text);
        let url = parsed.map_err(|e| wrong(&e))?;
        if names_a_user(&seed.text) {
            return Err(wrong(
                &"user names and passwords are not sent; leave them out",
            ));
        }
        if distinct.insert(url.clone()) {
            urls.push(url);
        }
    }
    Ok(urls)
}

/// A seed on a port that will not be asked is a mistake worth telling at once.
/// Is it an address, or a name that is always this machine's?
fn is_address(host: &str) -> bool {
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    bare.parse::<std::net::IpAddr>().is_ok() || bare == "localhost"
}

fn check_ports(settings: &Settings, seeds: &[CanonicalUrl]) -> Result<(), CrawlError> {
    let scope = &settings.scope;
    for seed in seeds {
        let port = seed.port();
        let allowed = scope.allowed_ports.contains(&port) || scope.also_ports.contains(&port);
        if let Some(service) = service_of_port(port)
            && !allowed
        {
            return Err(CrawlError::Input(format!(
                "seed '{seed}': port {port} is that of {service}, not of a Web server; scope.also_ports = [{port}] in the settings would allow it"
            )));
        }
    }
    Ok(())
}

/// Is there an `@` before the host? Slashes may be missing, or too many, or turned round: they are put right
/// as browsers do.
fn names_a_user(url: &str) -> bool {
    let url = url.trim();
    let scheme = ["http:", "https:"].into_iter().find(|scheme| {
        url.get(..scheme.len())
            .is_some_and(|s| s.eq_ignore_ascii_case(scheme))
    });
    let rest = &url[scheme.map_or(0, str::len)..];
    let rest = rest.trim_start_matches(['/', '\\']);
    let authority = rest.split(['/', '\\', '?', '#']).next();
    authority.is_some_and(|authority| authority.contains('@'))
}

/// A seed for messages: a password is not for terminals and logs. What is refused may be so wrong that nobody
/// can say where the password ends, so everything before the last `@` goes. Mail addresses have none.
fn without_user(url: &str) -> String {
    if url.starts_with("mailto:") {
        return url.to_owned();
    }
    let start = url.find("://").map_or(0, |at| at + 3);
    match url[start..].rfind('@') {
        Some(at) => format!("{}…{}", &url[..start], &url[start + at..]),
        None => url.to_owned(),
    }
}

/// Put seeds into their partitions' logs, like any other links.
fn plant(
    shared: &Shared,
    mut admission: Admission,
    seeds: &[CanonicalUrl],
) -> Result<(), CrawlError> {
    let scope = shared.scope();
    let vote = admission.vote_of_seeds(seeds.len());
    let mut batches: BTreeMap<u16, LinkBatch> = BTreeMap::new();
    for seed in seeds {
        let admitted = admission.seed(&scope, seed);
        let batch = batches.entry(admitted.owner.0).or_default();
        batch.set_vote(vote);
        batch.push(admitted.link);
    }
    for (number, links) in batches {
        let entry = Entry::Links {
            source: None,
            links,
        };
        let finished = Finished {
            partition: PartitionId(number),
            entry,
            record: None,
            room: None,
        };
        shared.outstanding.fetch_add(1, Ordering::SeqCst);
        // At most one entry for each partition, and there is room for more than that.
        shared
            .finished
            .try_send(finished)
            .map_err(|_| CrawlError::Internal("no room for the seeds".to_owned()))?;
    }
    Ok(())
}

/// Record ids must differ between threads and between runs.
fn record_seed(now_ms: u64, thread: u64) -> u64 {
    now_ms ^ (u64::from(std::process::id()) << 44) ^ (thread << 34)
}

fn spawn<T: Send + 'static>(
    name: &str,
    body: impl FnOnce() -> T + Send + 'static,
) -> Result<JoinHandle<T>, CrawlError> {
    std::thread::Builder::new()
        .name(name.to_owned())
        .spawn(body)
        .map_err(|e| CrawlError::Internal(format!("no thread for {name}: {e}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refused_seed_keeps_its_password_to_itself() {
        let canonicalizer = Canonicalizer::default();
        for text in [
            "http://user:hunter2@example.org/",
            "https://user:hunter2@/x",
            "http://user:hun/hunter2@example.org/",
            "http://user:hunter2@exa mple.org/@me",
            "user:hunter2@example.org",
            "ftp://user:hunter2@example.org/",
            "http:\\\\user:hunter2@example.org/",
            "http:/user:hunter2@example.org/",
            " HTTP:user:hunter2@example.org/",
        ] {
            let seed = Seed {
                text: text.to_owned(),
                place: "seeds.txt line 3".to_owned(),
            };
            let refused = parse_seeds(&canonicalizer, &[seed]);
            let error = refused.expect_err(text).to_string();
            assert!(!error.contains("hunter2"), "{error}");
            assert!(error.contains("seeds.txt line 3"), "{error}");
        }
    }
}
