//! The thread that owns the ledger. Calls come to it as closures; it carries out those that wait, makes all that they changed durable with
//! one sync, and only then lets their answers go.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc as blocking};
use std::thread::JoinHandle;

use tokio::sync::{mpsc, oneshot, watch};

use crate::error::FrontierError;
use crate::ledger::{Ledger, Reader};
use crate::service::now_ms;
use crate::sweep::sweep;

/// Calls that wait for the thread. More of them wait at their connections.
const WAITING: usize = 256;
/// Calls whose changes are made durable together, at most.
const TOGETHER: usize = 64;

type Deliver = Box<dyn FnOnce(Result<(), String>) + Send>;
type Call = Box<dyn FnOnce(&mut Ledger) -> Result<Deliver, FrontierError> + Send>;

/// Hands calls to the thread.
#[derive(Clone)]
pub(crate) struct Clerk {
    calls: mpsc::Sender<Call>,
    pub(crate) reader: Reader,
    /// Becomes the reason why the thread has ended early.
    failure: watch::Receiver<Option<String>>,
}

/// Waits for the threads.
pub(crate) struct Threads {
    clerk: JoinHandle<()>,
    sweeper: JoinHandle<()>,
    stop_sweeping: Arc<AtomicBool>,
}

impl Threads {
    /// All handles have been dropped: waits until everything is written.
    pub(crate) fn finish(self) {
        self.stop_sweeping.store(true, Ordering::Relaxed);
        let _ = self.clerk.join();
        let _ = self.sweeper.join();
    }
}

/// What a frontier has at its start.
#[derive(Clone, Copy, Debug)]
pub struct Found {
    /// Queues of all crawls.
    pub queues: usize,
    /// URLs of all crawls, completed or not.
    pub urls: u64,
}

impl Clerk {
    /// Opens the frontier in a directory, and begins.
    pub(crate) fn begin(dir: &Path, memory: u64) -> Result<(Self, Threads, Found), FrontierError> {
        let mut ledger = Ledger::open(dir, memory, now_ms())?;
        let found = ledger.found();
        let reader = ledger.reader();
        let (database, tables) = ledger.store_handles();
        let (numbers, swept) = blocking::channel();
        ledger.sweep_with(numbers)?;
        let stop_sweeping = Arc::new(AtomicBool::new(false));
        let stop = stop_sweeping.clone();
        let sweeper = std::thread::spawn(move || sweep(&swept, &database, &tables, &stop));
        let (calls, waiting) = mpsc::channel(WAITING);
        let (say, failure) = watch::channel(None);
        let clerk = std::thread::spawn(move || {
            if let Err(error) = serve(ledger, waiting) {
                tracing::error!(%error, "the frontier stops");
                let _ = say.send(Some(error.to_string()));
            }
        });
        let threads = Threads {
            clerk,
            sweeper,
            stop_sweeping,
        };
        let clerk = Self {
            calls,
            reader,
            failure,
        };
        Ok((clerk, threads, found))
    }

    /// Hands a call over, and returns once there is room for it. The receiver gets the answer when it is durable.
    pub(crate) async fn hand_over<T: Send + 'static>(
        &self,
        call: impl FnOnce(&mut Ledger) -> Result<T, FrontierError> + Send + 'static,
    ) -> Result<oneshot::Receiver<Result<T, String>>, FrontierError> {
        let (answer, receiver) = oneshot::channel();
        let call: Call = Box::new(move |ledger| {
            let result = call(ledger)?;
            Ok(Box::new(move |durable: Result<(), String>| {
                // Who asked may be gone.
                let _ = answer.send(durable.map(|()| result));
            }))
        });
        let sent = self.calls.send(call).await;
        sent.map_err(|_| FrontierError::Stopped)?;
        Ok(receiver)
    }

    /// Carries a call out, and returns when it is durable.
    pub(crate) async fn carry_out<T: Send + 'static>(
        &self,
        call: impl FnOnce(&mut Ledger) -> T + Send + 'static,
    ) -> Result<T, FrontierError> {
        let answer = self.hand_over(|ledger| Ok(call(ledger))).await?;
        match answer.await {
            Ok(Ok(result)) => Ok(result),
            _ => Err(FrontierError::Stopped),
        }
    }

    /// Returns the reason when the thread has ended early. It does not end otherwise as long as there is a handle.
    pub(crate) async fn failed(&self) -> String {
        let mut failure = self.failure.clone();
        let reason = failure.wait_for(Option::is_some).await;
        match reason.ok().and_then(|reason| reason.clone()) {
            Some(reason) => reason,
            // It has panicked without a word.
            None => "the thread that writes has died".to_owned(),
        }
    }
}

fn serve(mut ledger: Ledger, mut waiting: mpsc::Receiver<Call>) -> Result<(), FrontierError> {
    while let Some(first) = waiting.blocking_recv() {
        let mut answers = Vec::new();
        let mut next = Some(first);
        let mut carry_out = || -> Result<(), FrontierError> {
            while let Some(call) = next.take() {
                answers.push(call(&mut ledger)?);
                if answers.len() < TOGETHER {
                    next = waiting.try_recv().ok();
                }
            }
            ledger.make_durable()
        };
        let done = carry_out();
        let told = done.as_ref().map(|_| ()).map_err(ToString::to_string);
        for deliver in answers {
            deliver(told.clone());
        }
        done?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_thread_that_dies_is_noticed() {
        let dir = tempfile::tempdir().expect("a directory");
        let (clerk, threads, _) = Clerk::begin(dir.path(), 16 << 20).expect("a frontier");
        let died = clerk.carry_out(|_| panic!("as if a call met a bug")).await;
        assert!(matches!(died, Err::<(), _>(FrontierError::Stopped)));
        assert!(clerk.failed().await.contains("died"));
        drop(clerk);
        threads.finish();
    }
}
