//! The one table that all workers share: which addresses and hosts are being asked right now, and
//! from when on they may be asked again. Touched once a request, never once a link; in pieces with a
//! lock each, and what is over is taken out a bit at a time, so that nobody waits for the table.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::net::IpAddr;
use std::sync::{Mutex, MutexGuard};

use portolan_model::HostId;

/// A power of two.
const PIECES: usize = 64;

/// Doors that are taken out, at most, when one is entered or left: more than can be added.
const TAKEN_OUT: usize = 2;

/// How soon to ask again when a door is taken by a request whose end is unknown.
const BUSY_RETRY_MS: u64 = 50;

/// So long a door is kept for a guest that was told when to come back.
const KEPT_FOR_GUEST_MS: u64 = 1_000;

/// What a request needs to be alone at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Door {
    Address(IpAddr),
    Host(HostId),
}

#[derive(Debug)]
pub(crate) struct Gate {
    pieces: Vec<Mutex<Piece>>,
    addresses_from_ms: u64,
}

#[derive(Debug, Default)]
struct Piece {
    doors: HashMap<Door, DoorState>,
    /// When doors are over, the first one first. A door that was used again since is here twice.
    over: BinaryHeap<Reverse<(u64, Door)>>,
}

#[derive(Debug, Clone, Copy, Default)]
struct DoorState {
    busy: bool,
    not_before_ms: u64,
    /// Until then a guest comes first.
    kept_until_ms: u64,
    /// The last one in was a guest.
    after_guest: bool,
}

impl Gate {
    /// No address is asked before `addresses_from_ms`: one that is not known here may have been asked
    /// just before we began.
    pub(crate) fn new(addresses_from_ms: u64) -> Self {
        Self {
            pieces: (0..PIECES).map(|_| Mutex::default()).collect(),
            addresses_from_ms,
        }
    }

    /// Take the door, or learn when to come back.
    pub(crate) fn enter(&self, door: Door, now_ms: u64) -> Result<(), u64> {
        if matches!(door, Door::Address(_)) && now_ms < self.addresses_from_ms {
            return Err(self.addresses_from_ms);
        }
        let mut piece = self.piece(door);
        piece.take_out(now_ms);
        let state = piece.doors.entry(door).or_default();
        if state.kept_until_ms > now_ms && state.free_ms(now_ms) <= now_ms {
            return Err(now_ms + BUSY_RETRY_MS);
        }
        state.enter(now_ms)
    }

    /// Take a host's door for a request outside of its turns, or learn when to come back; the door is
    /// then kept for a moment, unless another guest was the last one in.
    pub(crate) fn enter_as_guest(&self, door: Door, now_ms: u64) -> Result<(), u64> {
        let mut piece = self.piece(door);
        piece.take_out(now_ms);
        let state = piece.doors.entry(door).or_default();
        let entered = state.enter(now_ms);
        match entered {
            Ok(()) => {
                state.kept_until_ms = 0;
                state.after_guest = true;
            }
            Err(at_ms) if !state.after_guest => {
                let kept_until_ms = at_ms + KEPT_FOR_GUEST_MS;
                state.kept_until_ms = kept_until_ms;
                piece.over.push(Reverse((kept_until_ms, door)));
            }
            Err(_) => {}
        }
        entered
    }

    /// Give the door back; nobody enters before `not_before_ms`.
    pub(crate) fn leave(&self, door: Door, not_before_ms: u64, now_ms: u64) {
        let mut piece = self.piece(door);
        piece.take_out(now_ms);
        let Some(state) = piece.doors.get_mut(&door) else {
            return;
        };
        state.busy = false;
        state.not_before_ms = not_before_ms;
        let over_ms = not_before_ms.max(state.kept_until_ms);
        if over_ms <= now_ms {
            piece.doors.remove(&door);
        } else {
            piece.over.push(Reverse((over_ms, door)));
        }
    }

    /// Nobody enters before `not_before_ms`, whoever asked for it.
    pub(crate) fn shut_until(&self, door: Door, not_before_ms: u64) {
        let mut piece = self.piece(door);
        let state = piece.doors.entry(door).or_default();
        state.not_before_ms = state.not_before_ms.max(not_before_ms);
        piece.over.push(Reverse((not_before_ms, door)));
    }

    fn piece(&self, door: Door) -> MutexGuard<'_, Piece> {
        let number = match door {
            Door::Host(host) => host.0,
            Door::Address(IpAddr::V4(ip)) => u64::from(u32::from(ip)),
            Door::Address(IpAddr::V6(ip)) => (u128::from(ip) ^ (u128::from(ip) >> 64)) as u64,
        };
        // The upper bits of a product depend on all bits of the number.
        let place = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (u64::BITS - PIECES.ilog2());
        self.pieces[place as usize]
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    #[cfg(test)]
    fn len(&self) -> usize {
        let len = |piece: &Mutex<Piece>| {
            let piece = piece.lock().expect("no test panics with it");
            assert!(piece.over.len() >= piece.doors.values().filter(|d| !d.busy).count());
            piece.doors.len()
        };
        self.pieces.iter().map(len).sum()
    }
}

impl DoorState {
    fn free_ms(&self, now_ms: u64) -> u64 {
        if self.busy {
            now_ms + BUSY_RETRY_MS
        } else {
            self.not_before_ms
        }
    }

    fn enter(&mut self, now_ms: u64) -> Result<(), u64> {
        let free_ms = self.free_ms(now_ms);
        if free_ms > now_ms {
            return Err(free_ms);
        }
        self.busy = true;
        self.after_guest = false;
        Ok(())
    }

    fn is_over(&self, now_ms: u64) -> bool {
        !self.busy && self.not_before_ms.max(self.kept_until_ms) <= now_ms
    }
}

impl Piece {
    fn take_out(&mut self, now_ms: u64) {
        for _ in 0..TAKEN_OUT {
            match self.over.peek() {
                Some(&Reverse((over_ms, door))) if over_ms <= now_ms => {
                    self.over.pop();
                    if self.doors.get(&door).is_some_and(|s| s.is_over(now_ms)) {
                        self.doors.remove(&door);
                    }
                }
                _ => return,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(number: u32) -> Door {
        Door::Address(IpAddr::V4(number.into()))
    }

    #[test]
    fn a_door_is_for_one_at_a_time_and_rests_afterwards() {
        let gate = Gate::new(0);
        let door = address(1);
        assert_eq!(gate.enter(door, 100), Ok(()));
        assert!(gate.enter(door, 100).is_err());
        gate.leave(door, 500, 200);
        assert_eq!(gate.enter(door, 300), Err(500));
        assert_eq!(gate.enter(door, 500), Ok(()));
        gate.leave(door, 0, 600);
        assert_eq!(gate.enter(door, 600), Ok(()));
    }

    #[test]
    fn at_first_no_address_is_asked_but_hosts_are_unless_they_were_shut() {
        let gate = Gate::new(1_000);
        assert_eq!(gate.enter(address(1), 999), Err(1_000));
        assert_eq!(gate.enter(address(1), 1_000), Ok(()));
        assert_eq!(gate.enter(Door::Host(HostId(1)), 0), Ok(()));
        gate.shut_until(Door::Host(HostId(2)), 700);
        gate.shut_until(Door::Host(HostId(2)), 600);
        assert_eq!(gate.enter(Door::Host(HostId(2)), 699), Err(700));
        assert_eq!(gate.enter(Door::Host(HostId(2)), 700), Ok(()));
    }

    #[test]
    fn a_guest_comes_first_when_it_was_told_to_wait_but_not_twice_in_a_row() {
        let gate = Gate::new(0);
        let door = Door::Host(HostId(7));
        gate.enter(door, 0).expect("it is free");
        gate.leave(door, 500, 100);
        assert_eq!(gate.enter_as_guest(door, 200), Err(500));
        assert!(gate.enter(door, 500).is_err(), "it is kept for the guest");
        assert_eq!(gate.enter_as_guest(door, 510), Ok(()));
        gate.leave(door, 900, 520);
        assert_eq!(gate.enter_as_guest(door, 600), Err(900));
        assert_eq!(gate.enter(door, 900), Ok(()), "now it is the host's turn");
        gate.leave(door, 1_500, 1_000);
        assert_eq!(gate.enter_as_guest(door, 1_100), Err(1_500));
        assert_eq!(gate.enter(door, 2_500), Ok(()), "no guest came");
    }

    #[test]
    fn doors_that_are_over_are_taken_out_a_few_at_a_time() {
        const DOORS: u32 = 100_000;
        let gate = Gate::new(0);
        for number in 0..DOORS {
            gate.enter(address(number), 0).expect("it is free");
            gate.leave(address(number), 1_000, 0);
        }
        assert_eq!(gate.len(), DOORS as usize);
        // All of them are over, and yet no step looks at more than a few.
        let (mut before, mut most) = (gate.len(), 0);
        for number in 0..100 {
            let door = Door::Host(HostId(number));
            gate.enter(door, 2_000).expect("it is free");
            gate.leave(door, 0, 2_000);
            let now = gate.len();
            most = most.max(before - now);
            before = now;
        }
        assert_eq!(most, 2 * TAKEN_OUT);
        // A crawl that goes on with other doors does not keep them.
        for number in 0..DOORS {
            gate.enter(address(DOORS + number), 2_000).expect("free");
            gate.leave(address(DOORS + number), 0, 2_000);
        }
        assert_eq!(gate.len(), 0);
    }
}
