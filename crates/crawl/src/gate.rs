//! The one table that all workers share: which addresses (and which hosts that a robots.txt
//! redirect led us to) are being asked right now, and from when on they may be asked again.
//! Touched once a request, never once a link.

use std::collections::HashMap;
use std::hash::Hash;
use std::net::IpAddr;
use std::sync::Mutex;

use portolan_model::HostId;

/// Above this many entries, those whose time has passed are swept out.
const SWEEP_ENTRIES: usize = 65_536;

/// What a request needs to be alone at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Door {
    Address(IpAddr),
    Host(HostId),
}

#[derive(Debug, Default)]
pub(crate) struct Gate {
    doors: Mutex<HashMap<Door, DoorState>>,
}

#[derive(Debug, Clone, Copy)]
struct DoorState {
    busy: bool,
    not_before_ms: u64,
}

/// How soon to ask again when a door is taken by a request whose end is unknown.
const BUSY_RETRY_MS: u64 = 50;

impl Gate {
    /// Take the door, or learn when to come back.
    pub(crate) fn enter(&self, door: Door, now_ms: u64) -> Result<(), u64> {
        let mut doors = self
            .doors
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner());
        if doors.len() >= SWEEP_ENTRIES {
            doors.retain(|_, state| state.busy || state.not_before_ms > now_ms);
        }
        match doors.get_mut(&door) {
            Some(state) if state.busy => Err(now_ms + BUSY_RETRY_MS),
            Some(state) if state.not_before_ms > now_ms => Err(state.not_before_ms),
            Some(state) => {
                state.busy = true;
                Ok(())
            }
            None => {
                doors.insert(
                    door,
                    DoorState {
                        busy: true,
                        not_before_ms: 0,
                    },
                );
                Ok(())
            }
        }
    }

    /// Give the door back; nobody enters before `not_before_ms`.
    pub(crate) fn leave(&self, door: Door, not_before_ms: u64, now_ms: u64) {
        let mut doors = self
            .doors
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner());
        if not_before_ms <= now_ms {
            doors.remove(&door);
        } else if let Some(state) = doors.get_mut(&door) {
            *state = DoorState {
                busy: false,
                not_before_ms,
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_door_is_for_one_at_a_time_and_rests_afterwards() {
        let gate = Gate::default();
        let door = Door::Address("192.0.2.1".parse().expect("an address"));
        assert_eq!(gate.enter(door, 100), Ok(()));
        assert!(gate.enter(door, 100).is_err());
        gate.leave(door, 500, 200);
        assert_eq!(gate.enter(door, 300), Err(500));
        assert_eq!(gate.enter(door, 500), Ok(()));
        gate.leave(door, 0, 600);
        assert_eq!(gate.enter(door, 600), Ok(()));
    }
}
