//! Look-ups that take long wait apart from the others, so that names whose servers never answer do not keep the rest waiting.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::oneshot;
use tokio::time::Instant;

/// A bounded room for what takes long. Who enters a full one makes the one that has waited longest give up, unless that one
/// has not waited for long either.
pub(super) struct WaitingRoom {
    places: usize,
    least_wait: Duration,
    waiting: Mutex<Waiting>,
}

#[derive(Default)]
struct Waiting {
    next: u64,
    /// In the order of entry.
    queue: VecDeque<Waiter>,
}

struct Waiter {
    number: u64,
    since: Instant,
    /// Dropping it is the sign to give up.
    _stay: oneshot::Sender<()>,
}

/// A place in the room, given back when dropped. `given_up` ends when it is time to leave.
pub(super) struct Place<'a> {
    room: &'a WaitingRoom,
    number: u64,
    pub(super) given_up: oneshot::Receiver<()>,
}

impl WaitingRoom {
    pub(super) fn new(places: usize, least_wait: Duration) -> Self {
        Self {
            places: places.max(1),
            least_wait,
            waiting: Mutex::default(),
        }
    }

    /// A place for who waits since `since`, if there is one or one can be had.
    pub(super) fn enter(&self, since: Instant) -> Option<Place<'_>> {
        let mut waiting = self.waiting();
        if waiting.queue.len() >= self.places {
            let longest = waiting.queue.front()?;
            if longest.since.elapsed() < self.least_wait {
                return None;
            }
            waiting.queue.pop_front();
        }
        let number = waiting.next;
        waiting.next += 1;
        let (stay, given_up) = oneshot::channel();
        waiting.queue.push_back(Waiter {
            number,
            since,
            _stay: stay,
        });
        Some(Place {
            room: self,
            number,
            given_up,
        })
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.waiting().queue.is_empty()
    }

    /// Nothing in here can be left half-done by a panic.
    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        let mut waiting = self.room.waiting();
        if let Ok(at) = waiting
            .queue
            .binary_search_by_key(&self.number, |waiter| waiter.number)
        {
            waiting.queue.remove(at);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_full_room_lets_go_of_who_has_waited_longest() {
        let room = WaitingRoom::new(2, Duration::from_secs(1));
        let enter = || room.enter(Instant::now());
        let mut first = enter().unwrap();
        let second = enter().unwrap();
        assert!(enter().is_none(), "nobody has waited for long");
        tokio::time::advance(Duration::from_secs(1)).await;
        let mut third = enter().unwrap();
        assert!((&mut first.given_up).await.is_err());
        drop(second);
        let fourth = enter().unwrap();
        assert!(third.given_up.try_recv() == Err(oneshot::error::TryRecvError::Empty));
        drop((third, fourth));
        assert!(room.is_empty());
    }
}
