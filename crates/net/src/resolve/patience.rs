//! Look-ups that take long wait apart from the others, so that names whose servers never answer do not keep the rest waiting.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use tokio::sync::oneshot;

/// A bounded room for what takes long. Who enters a full one makes the one that has waited longest give up.
pub(super) struct WaitingRoom {
    places: usize,
    waiting: Mutex<Waiting>,
}

#[derive(Default)]
struct Waiting {
    next: u64,
    /// In the order of entry.
    queue: VecDeque<(u64, oneshot::Sender<()>)>,
}

/// A place in the room, given back when dropped. `given_up` ends when it is time to leave.
pub(super) struct Place<'a> {
    room: &'a WaitingRoom,
    number: u64,
    pub(super) given_up: oneshot::Receiver<()>,
}

impl WaitingRoom {
    pub(super) fn new(places: usize) -> Self {
        Self {
            places: places.max(1),
            waiting: Mutex::default(),
        }
    }

    pub(super) fn enter(&self) -> Place<'_> {
        let mut waiting = self.waiting();
        while waiting.queue.len() >= self.places {
            // Dropping the sender is the sign.
            waiting.queue.pop_front();
        }
        let number = waiting.next;
        waiting.next += 1;
        let (sender, given_up) = oneshot::channel();
        waiting.queue.push_back((number, sender));
        Place {
            room: self,
            number,
            given_up,
        }
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
            .binary_search_by_key(&self.number, |(number, _)| *number)
        {
            waiting.queue.remove(at);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_full_room_lets_go_of_who_has_waited_longest() {
        let room = WaitingRoom::new(2);
        let mut first = room.enter();
        let mut second = room.enter();
        assert!(first.given_up.try_recv() == Err(oneshot::error::TryRecvError::Empty));
        let mut third = room.enter();
        assert!((&mut first.given_up).await.is_err());
        drop(second);
        let mut fourth = room.enter();
        second = room.enter();
        assert!(third.given_up.try_recv() == Err(oneshot::error::TryRecvError::Closed));
        assert!(fourth.given_up.try_recv() == Err(oneshot::error::TryRecvError::Empty));
        drop((second, third, fourth));
        assert!(room.is_empty());
    }
}
