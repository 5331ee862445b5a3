//! A part of the crawl that works by itself: on a thread of its own, or, where the whole crawl runs in one thread, as a
//! task of that.

use std::thread::JoinHandle;

pub(crate) enum Hand<T> {
    Thread(JoinHandle<T>),
    Task(tokio::task::JoinHandle<T>),
}

impl<T> Hand<T> {
    pub(crate) fn is_finished(&self) -> bool {
        match self {
            Self::Thread(thread) => thread.is_finished(),
            Self::Task(task) => task.is_finished(),
        }
    }

    /// What it came to; `None` if it panicked. The caller's thread waits for a thread.
    pub(crate) async fn join(self) -> Option<T> {
        match self {
            Self::Thread(thread) => thread.join().ok(),
            Self::Task(task) => task.await.ok(),
        }
    }
}

/// Where the parts of a crawl work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    Threads,
    /// In the caller's thread, as tasks of its `LocalSet`.
    Here,
}
