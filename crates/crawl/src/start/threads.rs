//! The third step: the threads begin. From here on the crawl runs until the watcher sees its end.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, RwLock};
use std::thread::JoinHandle;

use portolan_archive::{ArchiveSettings, RecordBuilder};
use portolan_model::{CanonicalUrl, Canonicalizer, LinkBatch, PartitionId};
use portolan_registry::{Entry, Partition};
use tokio::sync::{Notify, Semaphore, mpsc};
use tokio::time::Instant;

use super::Books;
use crate::admission::Admission;
use crate::assembly;
use crate::away;
use crate::budget::Budget;
use crate::commit::{self, Archivist, FINISHED_QUEUE, Finished, Hearing, Recorder};
use crate::crawl::Crawl;
use crate::early::EARLY_PLACES;
use crate::error::CrawlError;
use crate::granted::{Asking, Granted};
use crate::hand::{Hand, Place};
use crate::judging::{self, Judging, Keeping};
use crate::keep::{Keeper, NoteBox};
use crate::machine::{Bounds, TooFewFiles};
use crate::mapper::{self, NameDrop};
use crate::metrics::Metrics;
use crate::neighbour::{Neighbours, Question};
use crate::network::Network;
use crate::outside::Outside;
use crate::page::Workbench;
use crate::rate::Rate;
use crate::recovery::Recovered;
use crate::redivide::Divided;
use crate::report::Report;
use crate::routes::{Ends, Routes};
use crate::shared::{LARGE_BODIES, ROOM_KIB, Shared, UNFOLDED_KIB};
use crate::watch::{self, Watcher};
use crate::worker::{self, Gauges, WorkerPlan};

/// The workers' threads, and what others know them by.
#[derive(Default)]
struct Workers {
    hands: Vec<Hand<Vec<Partition>>>,
    gauges: Vec<Arc<Gauges>>,
}

impl Books {
    /// Let the crawl run, on threads of its own.
    pub(crate) fn begin(self) -> Result<Crawl, CrawlError> {
        let begun = self.checked.begun;
        let (canonicalizer, seeds) = (
            self.checked.canonicalizer.clone(),
            self.checked.seeds.clone(),
        );
        let employed = self.employ(Place::Threads)?;
        let watcher = employed.watcher;
        let watcher = spawn("watcher", move || watch::run(watcher))?;
        Ok(Crawl {
            shared: employed.shared,
            gauges: employed.gauges,
            begun,
            resumed: employed.resumed,
            recovered: employed.recovered,
            too_few_files: employed.too_few_files,
            judging_for: employed.judging_for,
            divided: employed.divided,
            canonicalizer,
            seeds,
            watcher,
        })
    }

    /// Let the crawl run in this thread, as tasks of the caller's `LocalSet`.
    pub(crate) async fn run_here(self) -> Result<Report, CrawlError> {
        self.employ(Place::Here)?.watcher.live().await
    }

    /// Everybody but the watcher begins.
    fn employ(self, place: Place) -> Result<Employed, CrawlError> {
        let Self { checked, .. } = self;
        let outside = checked.plan.outside;
        let (finished, inbox) = mpsc::channel(FINISHED_QUEUE);
        let stats = self.partitions.iter().map(|p| p.stats());
        let judged_before = stats.fold((0, 0), |sum, stats| {
            (sum.0 + stats.judged_due, sum.1 + stats.judged_out)
        });
        let part = checked.plan.part;
        let partitions = match &part {
            Some(_) => usize::from(self.division.partitions()),
            None => self.partitions.len(),
        };
        let workers = assembly::threads(&checked.plan.settings)
            .min(partitions)
            .max(1);
        let (note_box, inbox_of_notes) = match checked.plan.keep_fresh {
            true => {
                let (note_box, inbox) = NoteBox::new();
                (Some(note_box), Some(inbox))
            }
            false => (None, None),
        };
        let (granted, returning) = match checked.plan.settings.frontier_server.is_used() {
            true => {
                let (granted, returning) = Granted::begin(&checked.plan.settings.frontier_server)?;
                (Some(granted), Some(returning))
            }
            false => (None, None),
        };
        let (neighbours, questions) = Neighbours::of(workers);
        let (routes, ends) = Routes::deal(self.partitions.iter().map(Partition::id), workers);
        let shared = Arc::new(Shared {
            dir: self.dir.clone(),
            division: Arc::new(self.division),
            ranker: checked.ranker,
            scope: RwLock::new(checked.scope),
            access: checked.access,
            modules: checked.modules,
            politeness: self.politeness,
            gate: self.gate,
            pauses: self.pauses,
            neighbours,
            routes,
            network: Network::default(),
            rate: Rate::new(checked.plan.settings.limits.bytes_per_s),
            run_ms: self.run_ms,
            budget: Budget::new(checked.plan.settings.limits.max_pages),
            metrics: Metrics::default(),
            connector: checked.connector.with_named_hosts(self.named.hosts()),
            settings: checked.plan.settings,
            ids: self.ids,
            mapping: checked.mapping,
            clock: checked.clock,
            finished,
            room: Arc::new(Semaphore::new(ROOM_KIB)),
            unfolded: Semaphore::new(UNFOLDED_KIB),
            large_bodies: Arc::new(Semaphore::new(LARGE_BODIES)),
            early_places: Arc::new(Semaphore::new(EARLY_PLACES)),
            paced_bodies: Arc::new(Semaphore::new(LARGE_BODIES)),
            commit_now: Notify::new(),
            closing: Notify::new(),
            outstanding: AtomicU64::new(0),
            folded: AtomicU64::new(0),
            judging: AtomicBool::new(
                self.judging.is_some() || self.beginning.is_some() || granted.is_some(),
            ),
            session: self.session.0,
            session_begun_ms: self.session.1,
            judged_before,
            keeper: note_box,
            granted,
            failure: Mutex::new(None),
            membership: part.as_ref().map(|p| Arc::clone(&p.membership)),
        });
        if part.as_ref().is_some_and(|part| part.limited) {
            shared.budget.wait_for_allotments();
        }
        if shared.modules.has_programs() && place == Place::Here {
            return Err(CrawlError::Input(
                "a crawl in one thread runs no programs as modules".to_owned(),
            ));
        }
        shared.modules.begin()?;
        let canonicalizer = checked.canonicalizer;
        // A node plants the seeds of a partition when it is the first to have it.
        if part.is_none() && shared.granted.is_none() {
            plant(
                &shared,
                shared.admission(canonicalizer.clone()),
                &self.new_seeds,
            )?;
        }
        let asking = shared.granted.as_ref().map(|granted| {
            Asking::new(
                Arc::clone(granted),
                shared.settings.frontier_server.clone(),
                canonicalizer.clone(),
                &self.dir,
                self.new_seeds,
                checked.resumed,
            )
        });
        let keeping = match (inbox_of_notes, asking) {
            (_, Some(asking)) => Keeping::Granted(Box::new(asking)),
            (Some(inbox), None) => Keeping::Fresh(Keeper::new(&self.dir, inbox)),
            (None, None) if self.some_wait => Keeping::Release(self.dir.clone()),
            (None, None) => Keeping::Nothing,
        };
        let judges = self.judging.is_some()
            || self.beginning.is_some()
            || self.retry.is_some()
            || !matches!(keeping, Keeping::Nothing);
        if judges && place == Place::Here {
            return Err(CrawlError::Input(
                "a crawl in one thread goes on with the settings and the session that it began with".to_owned(),
            ));
        }
        if judges {
            // The crawl does not end before these URLs are judged and due again.
            shared.outstanding.fetch_add(1, Ordering::SeqCst);
        }
        let too_few_files = checked
            .bounds
            .too_few_files(shared.division.partitions(), checked.open_files);
        let names = begin_mapper(&shared, &checked.bounds, place)?;
        let workers = Outfit {
            shared: &shared,
            canonicalizer: &canonicalizer,
            archive: &checked.archive,
            bounds: &checked.bounds,
            names,
            proxy_resolves: checked.proxy_resolves,
            outside: &outside,
            place,
        }
        .begin_workers(self.partitions, questions, ends)?;
        let builder =
            RecordBuilder::new(&checked.archive, outside.record_seed(shared.wall_ms(), 1))?;
        let archivist = Archivist {
            shared: Arc::clone(&shared),
            recorder: Recorder::new(self.archive.warc, self.archive.seen, builder, self.ids),
            journal: self.journal,
            steps: outside.steps.clone(),
            inbox,
            told: part.and_then(|part| part.membership.take_told()),
            granted: Vec::new(),
            hearing: Hearing::default(),
            has_obeyed: false,
            left_some: false,
        };
        let archivist = match place {
            Place::Threads => Hand::Thread(spawn("archivist", move || commit::run(archivist))?),
            Place::Here => Hand::Task(tokio::task::spawn_local(commit::live(archivist))),
        };
        let judging_for = self.judging.as_ref().map(Judging::names);
        if judges {
            let roots = judging::roots(&self.ids, &checked.seeds, &self.roots);
            let builder = RecordBuilder::new(
                &checked.archive,
                outside.record_seed(shared.wall_ms(), u64::from(u8::MAX)),
            )?;
            let admission = shared.admission(canonicalizer.clone());
            let bench = Workbench::new(&shared, canonicalizer, builder, NameDrop::shut());
            let judge = (roots, admission, bench);
            let keeping = match keeping {
                Keeping::Granted(asking) => {
                    Keeping::Granted(Box::new(asking.beside(workers.gauges.clone())))
                }
                other => other,
            };
            if let Some(returning) = returning {
                spawn("returning", move || returning.run())?;
            }
            let shared = Arc::clone(&shared);
            spawn("judge", move || {
                judging::run(
                    &shared,
                    judge,
                    self.judging,
                    self.beginning,
                    self.retry,
                    keeping,
                )
            })?;
        }
        tracing::info!(
            dir = %self.dir.display(),
            resumed = checked.resumed,
            workers = workers.hands.len(),
            partitions = shared.division.partitions(),
            "the crawl begins"
        );
        for sentence in self.archive.recovered.sentences() {
            tracing::info!("{sentence}");
        }
        let watcher = Watcher {
            shared: Arc::clone(&shared),
            gauges: workers.gauges.clone(),
            workers: workers.hands,
            archivist,
            begun: Instant::now(),
            started_in: checked.begun.elapsed(),
            cpu_before: checked.cpu_before,
            dir: self.dir,
            recovered: self.archive.recovered.clone(),
        };
        Ok(Employed {
            shared,
            gauges: workers.gauges,
            resumed: checked.resumed,
            recovered: self.archive.recovered,
            too_few_files,
            judging_for,
            divided: self.divided,
            watcher,
        })
    }
}

/// A crawl that works, and whoever is to watch it.
struct Employed {
    shared: Arc<Shared>,
    gauges: Vec<Arc<Gauges>>,
    resumed: bool,
    recovered: Recovered,
    too_few_files: Option<TooFewFiles>,
    judging_for: Option<Vec<String>>,
    divided: Option<Divided>,
    watcher: Watcher,
}

/// What all workers are made from.
struct Outfit<'a> {
    shared: &'a Arc<Shared>,
    canonicalizer: &'a Canonicalizer,
    archive: &'a ArchiveSettings,
    bounds: &'a Bounds,
    names: mpsc::Sender<String>,
    /// Then nothing is resolved here.
    proxy_resolves: bool,
    outside: &'a Outside,
    place: Place,
}

impl Outfit<'_> {
    /// A thread for each of `questions`, with its partitions.
    fn begin_workers(
        &self,
        partitions: Vec<Partition>,
        questions: Vec<mpsc::Receiver<Question>>,
        ends: Vec<Ends>,
    ) -> Result<Workers, CrawlError> {
        let count = questions.len();
        let mut owned: Vec<Vec<_>> = (0..count).map(|_| Vec::new()).collect();
        for partition in partitions {
            owned[self.shared.routes.owner(partition.id())].push(partition);
        }
        let mut workers = Workers::default();
        let outfits = owned.into_iter().zip(questions).zip(ends);
        for (number, ((partitions, questions), ends)) in outfits.enumerate() {
            let gauges = Arc::new(Gauges::default());
            let plan = WorkerPlan {
                shared: Arc::clone(self.shared),
                partitions,
                bench: self.workbench(number)?,
                ends,
                questions,
                pools: assembly::pool_sizes(&self.shared.settings, self.bounds, count),
                max_idle: self.bounds.idle.div_ceil(count),
                gauges: Arc::clone(&gauges),
                is_wired: self.outside.wired,
            };
            let hand = match self.place {
                Place::Threads => {
                    let name = format!("worker-{number}");
                    let booth = self.shared.booth().cloned();
                    Hand::Thread(spawn(&name, move || match booth {
                        Some(booth) => away::run(plan, booth),
                        None => worker::run(plan),
                    })?)
                }
                Place::Here => Hand::Task(tokio::task::spawn_local(worker::live(plan))),
            };
            workers.hands.push(hand);
            workers.gauges.push(gauges);
        }
        Ok(workers)
    }

    fn workbench(&self, number: usize) -> Result<Workbench, CrawlError> {
        let wall_ms = self.shared.wall_ms();
        let seed = self.outside.record_seed(wall_ms, number as u64 + 2);
        let builder = RecordBuilder::new(self.archive, seed)?;
        let names = match self.proxy_resolves {
            true => NameDrop::shut(),
            false => NameDrop::new(self.names.clone()),
        };
        Ok(Workbench::new(
            self.shared,
            self.canonicalizer.clone(),
            builder,
            names,
        ))
    }
}

/// The thread that resolves names ahead; where they are dropped for it.
fn begin_mapper(
    shared: &Shared,
    bounds: &Bounds,
    place: Place,
) -> Result<mpsc::Sender<String>, CrawlError> {
    let (names, inbox) = mapper::queue();
    let mapping = Arc::clone(&shared.mapping);
    let at_once = bounds.lookups + bounds.slow_lookups;
    match place {
        Place::Threads => {
            spawn("mapper", move || mapper::run(mapping, at_once, inbox))?;
        }
        Place::Here => {
            tokio::task::spawn_local(mapper::live(mapping, at_once, inbox));
        }
    }
    Ok(names)
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
            haul: None,
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

fn spawn<T: Send + 'static>(
    name: &str,
    body: impl FnOnce() -> T + Send + 'static,
) -> Result<JoinHandle<T>, CrawlError> {
    std::thread::Builder::new()
        .name(name.to_owned())
        .spawn(body)
        .map_err(|e| CrawlError::Internal(format!("no thread for {name}: {e}")))
}
