//! Idle connections, kept a short while for their host's next turn. One a host, bounded in number.

use std::collections::HashMap;

use portolan_model::HostId;
use portolan_net::Connection;

pub(crate) struct Parking {
    places: HashMap<HostId, Place>,
    bound: usize,
}

struct Place {
    connection: Connection,
    leaves_at_ms: u64,
}

impl Parking {
    pub(crate) fn with_bound(bound: usize) -> Self {
        Self {
            places: HashMap::new(),
            bound: bound.max(1),
        }
    }

    /// The host's connection, if it can still be used.
    pub(crate) fn take(&mut self, host: HostId, now_ms: u64) -> Option<Connection> {
        let place = self.places.remove(&host)?;
        (place.leaves_at_ms > now_ms && place.connection.reusable()).then_some(place.connection)
    }

    pub(crate) fn park(&mut self, host: HostId, connection: Connection, now_ms: u64, stay_ms: u64) {
        if !connection.reusable() || stay_ms == 0 {
            return;
        }
        // Those that have stayed too long are swept out now and then. With more hosts than places, whoever has one keeps it: to
        // put out the oldest would mean that every connection is put out before its host's next turn.
        if self.places.len() < self.bound {
            self.places.insert(
                host,
                Place {
                    connection,
                    leaves_at_ms: now_ms + stay_ms,
                },
            );
        }
    }

    /// Close all.
    pub(crate) fn clear(&mut self) {
        self.places.clear();
    }

    /// Close what has stayed too long.
    pub(crate) fn sweep(&mut self, now_ms: u64) {
        self.places.retain(|_, place| place.leaves_at_ms > now_ms);
    }
}
