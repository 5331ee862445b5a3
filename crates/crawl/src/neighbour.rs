//! What is owed to a host outside of its turns: a robots.txt may redirect to a host that another
//! worker looks after, and only that one's partition knows how the host is to be left alone.

use std::rc::Rc;

use portolan_model::{HostId, PartitionId};
use portolan_registry::Rest;
use tokio::sync::{mpsc, oneshot};

use crate::shared::owner;
use crate::worker::Worker;

/// Questions that wait for a worker; who has more waits.
const QUESTIONS: usize = 64;

pub(crate) struct Question {
    partition: PartitionId,
    host: HostId,
    answer: oneshot::Sender<Rest>,
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
    pub(crate) async fn rest_of(&self, partition: PartitionId, host: HostId) -> Option<Rest> {
        let (answer, answered) = oneshot::channel();
        let question = Question {
            partition,
            host,
            answer,
        };
        let worker = &self.workers[owner(partition, self.workers.len())];
        worker.send(question).await.ok()?;
        answered.await.ok()
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
