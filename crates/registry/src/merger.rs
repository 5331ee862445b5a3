//! The merge threads: they look up, write, merge and sync for all partitions, so that those who
//! crawl do not wait for the disk. One does what is wanted soon and soon done, one what partitions wait
//! for sooner or later, and one what takes long and can wait.

use crate::error::{RegistryError, Result};
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::thread;

type Job = Box<dyn FnOnce() + Send>;

/// Handles; the threads end when all are gone.
#[derive(Clone, Debug)]
pub(crate) struct Mergers {
    pub(crate) reader: Merger,
    pub(crate) writer: Merger,
    pub(crate) patient: Merger,
}

impl Mergers {
    pub(crate) fn start() -> std::io::Result<Self> {
        Ok(Self {
            reader: Merger::start("registry-read")?,
            writer: Merger::start("registry-write")?,
            patient: Merger::start("registry-merge")?,
        })
    }
}

/// One thread, one job at a time.
#[derive(Clone, Debug)]
pub(crate) struct Merger {
    // Bounded by its users: a partition has one job of a kind at a time.
    jobs: Sender<Job>,
}

/// The result of a job, when it is there.
#[derive(Debug)]
pub(crate) struct Promise<T> {
    result: Receiver<Result<T>>,
}

impl Merger {
    fn start(name: &str) -> std::io::Result<Self> {
        let (jobs, inbox) = channel::<Job>();
        thread::Builder::new()
            .name(name.to_owned())
            .spawn(move || {
                for job in inbox {
                    job();
                }
            })?;
        Ok(Self { jobs })
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
        self.jobs
            .send(Box::new(job))
            .map_err(|_| RegistryError::MergerDied)?;
        Ok(Promise { result })
    }
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
