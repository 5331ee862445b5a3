//! What is owed to a host outside of its turns: a robots.txt may redirect to a host that another
//! worker looks after, and only that one's partition knows how the host is to be left alone.

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
    /// `None`: the partition is with another worker now.
    answer: oneshot::Sender<Option<Rest>>,
}

/// The workers, to be asked.
pub(crate) struct Neighbours {
    workers: Vec<mpsc::Sender<Question>>,
}

impl Neighbours {
    pub(crate) fn of(workers: usize) -> (Self, Vec<mpsc::Receiver<Question>>) {
        let (workers, questions) = (0..workers).map(|_| mpsc::channel(QUESTIONS)).unzip();
        (Self { workers }, questions)
    }

    /// `None` if the crawl has come to its end.
    pub(crate) async fn rest_of(
        &self,
        routes: &Routes,
        partition: PartitionId,
        host: HostId,
    ) -> Option<Rest> {
        loop {
            let (answer, answered) = oneshot::channel();
            let question = Question {
                partition,
                host,
                answer,
            };
            let worker = self.workers.get(routes.owner(partition))?;
            worker.send(question).await.ok()?;
            if let Some(rest) = answered.await.ok()? {
                return Some(rest);
            }
            // It is on its way from one worker to another.
            tokio::time::sleep(ASK_AGAIN).await;
        }
    }
}

/// Answers for the partitions of one worker, beside its other work.
pub(crate) async fn answer(worker: Rc<Worker>, mut questions: mpsc::Receiver<Question>) {
    while let Some(question) = questions.recv().await {
        match worker.rest_of(question.partition, question.host) {
            // Who asked may be gone.
            Ok(rest) => drop(question.answer.send(rest)),
            Err(error) => worker.shared.fail(error.into()),
        }
    }
}
