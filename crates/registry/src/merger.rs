//! The merge threads: they look up, write, merge and sync for all partitions, so that those who
//! crawl do not wait for the disk. Some do what is wanted soon and soon done, as many as there are processors for; one does
//! what partitions wait for sooner or later, one appends to files that only grow, and one does what takes long and can wait.

use crate::error::{RegistryError, Result};
use crate::lock::DirLock;
use portolan_model::PartitionId;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::thread::{self, JoinHandle};

/// A quarter of a share of a processor that others want as well: whoever crawls, looks up or writes is waited for.
const PATIENT_NICE: i32 = 6;

type Job = Box<dyn FnOnce() + Send>;

/// Handles to the merge threads. When the last handle is dropped, the threads finish what they have begun and end, and
/// the drop waits for that: nothing is written later. Only merges that may wait are given up then.
#[derive(Clone, Debug)]
pub(crate) struct Mergers {
    // Before `threads`, which end when these are gone.
    readers: Vec<Merger>,
    pub(crate) writer: Merger,
    pub(crate) appender: Merger,
    pub(crate) patient: Merger,
    threads: Arc<Threads>,
}

#[derive(Debug)]
struct Threads {
    stopping: Arc<AtomicBool>,
    handles: Vec<JoinHandle<()>>,
    /// Freed when the threads have ended. A reader's write nothing and have none.
    _lock: Option<Arc<DirLock>>,
}

impl Mergers {
    /// Starts the threads that serve `partitions` partitions.
    pub(crate) fn start(partitions: u16, lock: Option<Arc<DirLock>>) -> std::io::Result<Self> {
        let processors = thread::available_parallelism().map_or(1, |number| number.get());
        let readers = usize::from(partitions).clamp(1, processors);
        let mut handles = Vec::new();
        let mut start = |name, nice| {
            let (merger, handle) = Merger::start(name, nice)?;
            handles.push(handle);
            std::io::Result::Ok(merger)
        };
        Ok(Self {
            readers: (0..readers)
                .map(|_| start("registry-read", 0))
                .collect::<std::io::Result<_>>()?,
            writer: start("registry-write", 0)?,
            appender: start("registry-append", 0)?,
            patient: start("registry-merge", PATIENT_NICE)?,
            threads: Arc::new(Threads {
                stopping: Arc::default(),
                handles,
                _lock: lock,
            }),
        })
    }

    /// No threads: whoever starts a job does it, at once. For who wants everything to happen in one order.
    pub(crate) fn inline(lock: Option<Arc<DirLock>>) -> Self {
        let merger = Merger { jobs: None };
        Self {
            readers: vec![merger.clone()],
            writer: merger.clone(),
            appender: merger.clone(),
            patient: merger,
            threads: Arc::new(Threads {
                stopping: Arc::default(),
                handles: Vec::new(),
                _lock: lock,
            }),
        }
    }

    /// The one that does a partition's short jobs.
    pub(crate) fn reader(&self, PartitionId(partition): PartitionId) -> &Merger {
        &self.readers[usize::from(partition) % self.readers.len()]
    }

    /// True when nobody waits for a merge any longer.
    pub(crate) fn stopping(&self) -> Arc<AtomicBool> {
        self.threads.stopping.clone()
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        self.stopping.store(true, Ordering::Relaxed);
        for handle in self.handles.drain(..) {
            // One that panicked has told whoever waited for it.
            let _ = handle.join();
        }
    }
}

/// One thread, one job at a time.
#[derive(Clone, Debug)]
pub(crate) struct Merger {
    // Bounded by its users: a partition has one job of a kind at a time, and a few buffers for each file that grows.
    // `None`: who starts a job does it.
    jobs: Option<Sender<Job>>,
}

/// The result of a job, when it is there.
#[derive(Debug)]
pub(crate) struct Promise<T> {
    result: Receiver<Result<T>>,
}

impl Merger {
    fn start(name: &str, nice: i32) -> std::io::Result<(Self, JoinHandle<()>)> {
        let (jobs, inbox) = channel::<Job>();
        let handle = thread::Builder::new()
            .name(name.to_owned())
            .spawn(move || {
                give_way(nice);
                for job in inbox {
                    job();
                }
            })?;
        Ok((Self { jobs: Some(jobs) }, handle))
    }

    pub(crate) fn start_job<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> Result<T> + Send + 'static,
    ) -> Result<Promise<T>> {
        let (sender, result) = channel();
        let job = move || {
            // Whoever gave the job up does not want the result.
            let _ = sender.send(work());
        };
        match &self.jobs {
            Some(jobs) => jobs
                .send(Box::new(job))
                .map_err(|_| RegistryError::MergerDied)?,
            None => job(),
        }
        Ok(Promise { result })
    }
}

/// Lowers the priority of the calling thread by `nice` steps, so that others go first when processors are scarce.
fn give_way(nice: i32) {
    #[cfg(target_os = "linux")]
    if nice > 0 {
        use rustix::process::{getpriority_process, setpriority_process};
        const NICEST: i32 = 19;
        // The calling thread's alone. Where that is forbidden, it competes like any other.
        let _ = getpriority_process(None)
            .and_then(|now| setpriority_process(None, (now + nice).min(NICEST)));
    }
    #[cfg(not(target_os = "linux"))]
    let _ = nice;
}

impl<T> Promise<T> {
    /// `None` while the job goes on.
    pub(crate) fn poll(&self) -> Option<Result<T>> {
        match self.result.try_recv() {
            Ok(result) => Some(result),
            Err(TryRecvError::Empty) => None,
            Err(TryRecvError::Disconnected) => Some(Err(RegistryError::MergerDied)),
        }
    }

    pub(crate) fn wait(&self) -> Result<T> {
        self.result.recv().map_err(|_| RegistryError::MergerDied)?
    }
}
