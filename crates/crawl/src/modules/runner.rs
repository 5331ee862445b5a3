//! The thread beside the workers on which programs are fed, read and waited for. Workers wait for its answers as they wait
//! for servers.

use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::JoinHandle;

use tokio::sync::{OwnedSemaphorePermit, mpsc, oneshot};

use super::program::Program;
use super::run::{self, Failure, Input};
use super::said::Said;
use crate::error::CrawlError;

/// Runs that were asked for and not begun. Each holds a place of its program, so there are few.
const QUEUE: usize = 64;

struct Job {
    program: Arc<Program>,
    input: Input,
    reply: oneshot::Sender<Result<Said, Failure>>,
    /// One of the program's, until it has ended.
    _place: OwnedSemaphorePermit,
}

/// Has programs run on a thread of its own, from `begin` to `end`.
#[derive(Default)]
pub(super) struct Runner(Mutex<Option<Running>>);

struct Running {
    jobs: mpsc::Sender<Job>,
    thread: JoinHandle<()>,
}

impl Runner {
    /// Begin the thread.
    pub(super) fn begin(&self) -> Result<(), CrawlError> {
        let (jobs, inbox) = mpsc::channel(QUEUE);
        let no_thread = |e| CrawlError::Internal(format!("no thread for modules: {e}"));
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(no_thread)?;
        let thread = std::thread::Builder::new()
            .name("modules".to_owned())
            .spawn(move || runtime.block_on(live(inbox)))
            .map_err(no_thread)?;
        *self.running() = Some(Running { jobs, thread });
        Ok(())
    }

    /// Ends the thread, and kills what still runs.
    pub(super) fn end(&self) {
        let running = self.running().take();
        if let Some(Running { jobs, thread }) = running {
            drop(jobs);
            if thread.join().is_err() {
                tracing::warn!("the thread for modules died");
            }
        }
    }

    /// Run a program, once one of its places is free. Whoever gives up waiting has it killed.
    pub(super) async fn run(&self, program: &Arc<Program>, input: Input) -> Result<Said, Failure> {
        let place = Arc::clone(&program.places).acquire_owned().await;
        let jobs = self.running().as_ref().map(|running| running.jobs.clone());
        let (Some(jobs), Ok(place)) = (jobs, place) else {
            return Err(Failure::Ending);
        };
        let (reply, answer) = oneshot::channel();
        let job = Job {
            program: Arc::clone(program),
            input,
            reply,
            _place: place,
        };
        jobs.send(job).await.map_err(|_| Failure::Ending)?;
        drop(jobs);
        answer.await.unwrap_or(Err(Failure::Ending))
    }

    fn running(&self) -> MutexGuard<'_, Option<Running>> {
        let running = self.0.lock();
        running.unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

/// Tasks that are left when it ends are dropped with their runtime, which kills their programs.
async fn live(mut inbox: mpsc::Receiver<Job>) {
    while let Some(job) = inbox.recv().await {
        tokio::spawn(done(job));
    }
}

/// The job is held whole to its end, and with it the program's place.
async fn done(mut job: Job) {
    let said = tokio::select! {
        biased;
        // Nobody waits any longer.
        () = job.reply.closed() => return,
        said = run::run(&job.program, &job.input) => said,
    };
    // The same a moment later.
    let _ = job.reply.send(said);
}
