//! Guests: a robots.txt may redirect to a host that another worker looks after, and only that one's partition knows how
//! the host is to be left alone. Guests from other nodes are let in by that worker, too.

use std::rc::Rc;
use std::time::Duration;

use portolan_model::{HostId, PartitionId};
use portolan_registry::Rest;
use tokio::sync::{mpsc, oneshot};

use crate::routes::Routes;
use crate::worker::Worker;

/// Questions that wait for a worker; who has more waits.
const QUESTIONS: usize = 64;

/// How soon a worker is looked for again that has the partition.
const ASK_AGAIN: Duration = Duration::from_millis(5);

pub(crate) struct Question {
    partition: PartitionId,
    host: HostId,
    asks: Asks,
}

/// Each is answered with `None` if the partition is not with the worker.
enum Asks {
    /// What is owed to the host outside of its turns.
    Rest(oneshot::Sender<Option<Rest>>),
    /// May another node ask the host once?
    Admit {
        answer: oneshot::Sender<Option<Admitted>>,
        done: oneshot::Receiver<u64>,
    },
}

/// The pause that the host asks for, if it is known; or when to ask again.
pub(crate) type Admitted = Result<Option<u32>, u64>;

/// The workers, to be asked.
pub(crate) struct Neighbours {
    workers: Vec<mpsc::Sender<Question>>,
}

impl Neighbours {
    pub(crate) fn of(workers: usize) -> (Self, Vec<mpsc::Receiver<Question>>) {
        let (workers, questions) = (0..workers).map(|_| mpsc::channel(QUESTIONS)).unzip();
        (Self { workers }, questions)
    }

    /// `None` if the crawl has come to its end, or if the partition `is_here` no longer.
    pub(crate) async fn rest_of(
        &self,
        routes: &Routes,
        partition: PartitionId,
        host: HostId,
        is_here: impl Fn() -> bool,
    ) -> Option<Rest> {
        loop {
            let (answer, answered) = oneshot::channel();
            let asks = Asks::Rest(answer);
            self.ask(routes, partition, host, asks).await?;
            if let Some(rest) = answered.await.ok()? {
                return Some(rest);
            }
            if !is_here() {
                return None;
            }
            // It is on its way from one worker to another.
            tokio::time::sleep(ASK_AGAIN).await;
        }
    }

    /// Another node asks the host once: nobody else does until `done` says for how long the host is to be left alone. `None`
    /// if the partition is not here now.
    pub(crate) async fn admit(
        &self,
        routes: &Routes,
        partition: PartitionId,
        host: HostId,
        done: oneshot::Receiver<u64>,
    ) -> Option<Admitted> {
        let (answer, answered) = oneshot::channel();
        let asks = Asks::Admit { answer, done };
        self.ask(routes, partition, host, asks).await?;
        answered.await.ok()?
    }

    async fn ask(
        &self,
        routes: &Routes,
        partition: PartitionId,
        host: HostId,
        asks: Asks,
    ) -> Option<()> {
        let question = Question {
            partition,
            host,
            asks,
        };
        let worker = self.workers.get(routes.owner(partition))?;
        worker.send(question).await.ok()
    }
}

/// Answers for the partitions of one worker, beside its other work.
pub(crate) async fn answer(worker: Rc<Worker>, mut questions: mpsc::Receiver<Question>) {
    while let Some(question) = questions.recv().await {
        let Question {
            partition,
            host,
            asks,
        } = question;
        // Who asked may be gone.
        let answered = match asks {
            Asks::Rest(answer) => {
                let rest = worker.rest_of(partition, host);
                rest.map(|rest| answer.send(rest).is_ok())
            }
            Asks::Admit { answer, done } => {
                let admitted = worker.admit(partition, host, done);
                admitted.map(|admitted| answer.send(admitted).is_ok())
            }
        };
        if let Err(error) = answered {
            worker.shared.fail(error.into());
        }
    }
}
