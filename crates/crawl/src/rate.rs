//! Bytes a second as a limit, in all and by host. What was read is paid for with time: before more of a body is read, and before
//! the next request. Whoever has to wait holds nobody else up: a small body leaves its place meanwhile (`pools`), and a host that may
//! not begin yet is queued for later.

use std::cell::{Cell, RefCell};
use std::ops::ControlFlow;
use std::rc::Rc;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use portolan_net::{BodySink, Head, Wait};

use crate::pools::Seat;
use crate::shared::Shared;

/// Shorter waits are not worth a timer.
const SHORTEST_WAIT_US: u64 = 2_000;
/// Nobody is told to come back later than this.
const LATEST_US: u64 = 60_000_000;
/// What an answer is thought to have before any was seen.
const FIRST_GUESS_BYTES: u64 = 16 << 10;

/// How far what was read is paid for.
#[derive(Debug, Clone, Copy, Default)]
struct Debt {
    /// 0: no limit.
    bytes_per_s: u64,
    /// From then on nothing is owed.
    paid_at_us: u64,
}

impl Debt {
    fn of(bytes_per_s: u64) -> Self {
        Self {
            bytes_per_s,
            paid_at_us: 0,
        }
    }

    fn time_us(&self, bytes: u64) -> u64 {
        let us = u128::from(bytes) * 1_000_000 / u128::from(self.bytes_per_s.max(1));
        u64::try_from(us).unwrap_or(u64::MAX)
    }

    /// So many bytes were read; how long nothing more may be.
    fn add(&mut self, bytes: u64, now_us: u64) -> u64 {
        if self.bytes_per_s == 0 {
            return 0;
        }
        let from_us = self.paid_at_us.max(now_us);
        self.paid_at_us = from_us.saturating_add(self.time_us(bytes));
        self.paid_at_us - now_us
    }
}

/// The limit over all hosts.
#[derive(Debug)]
pub(crate) struct Rate {
    state: Mutex<Balance>,
}

#[derive(Debug)]
struct Balance {
    debt: Debt,
    /// Those who may not begin come back one after the other.
    next_us: u64,
    average_bytes: u64,
}

impl Rate {
    /// `None` for 0, which is no limit.
    pub(crate) fn new(bytes_per_s: u64) -> Option<Self> {
        (bytes_per_s > 0).then(|| Self {
            state: Mutex::new(Balance {
                debt: Debt::of(bytes_per_s),
                next_us: 0,
                average_bytes: FIRST_GUESS_BYTES,
            }),
        })
    }

    /// May a request begin? Then as many bytes as answers have are taken for it; they are what comes back. `Err`: when to come back.
    fn begin(&self, now_ms: u64) -> Result<u64, u64> {
        let now_us = now_ms * 1_000;
        let mut state = self.lock();
        let bytes = state.average_bytes;
        if state.debt.paid_at_us <= now_us {
            state.debt.add(bytes, now_us);
            return Ok(bytes);
        }
        let at_us = state.next_us.max(state.debt.paid_at_us);
        let at_us = at_us.min(now_us + LATEST_US);
        state.next_us = at_us + state.debt.time_us(bytes);
        Err(at_us / 1_000 + 1)
    }

    /// Bytes that nothing was taken for; how long nothing more may be read.
    fn add(&self, bytes: u64, now_ms: u64) -> u64 {
        self.lock().debt.add(bytes, now_ms * 1_000)
    }

    /// An answer had `bytes`, `left` fewer than were taken for it.
    fn end(&self, bytes: u64, left: u64) {
        let mut state = self.lock();
        let left_us = state.debt.time_us(left);
        state.debt.paid_at_us = state.debt.paid_at_us.saturating_sub(left_us);
        state.average_bytes = (state.average_bytes * 7 + bytes) / 8;
    }

    fn lock(&self) -> MutexGuard<'_, Balance> {
        self.state
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

/// One request's share of the limits. Dropped when the request has ended, however it did.
pub(crate) struct Metered {
    shared: Arc<Shared>,
    of_host: RefCell<Debt>,
    /// Taken of the limit over all hosts, and not read yet.
    reserved_bytes: Cell<u64>,
    read_bytes: Cell<u64>,
    /// To be waited for before more is read.
    owed_us: Cell<u64>,
    /// How long reading was put off in all.
    paused: Rc<Cell<Duration>>,
}

impl Metered {
    /// `None` where there is no limit. `Err`: when to come back, in ms.
    pub(crate) fn begin(shared: &Arc<Shared>, host_bytes_per_s: u64) -> Result<Option<Self>, u64> {
        if shared.rate.is_none() && host_bytes_per_s == 0 {
            return Ok(None);
        }
        let reserved = match &shared.rate {
            Some(rate) => rate.begin(shared.now_ms())?,
            None => 0,
        };
        Ok(Some(Self {
            shared: Arc::clone(shared),
            of_host: RefCell::new(Debt::of(host_bytes_per_s)),
            reserved_bytes: Cell::new(reserved),
            read_bytes: Cell::new(0),
            owed_us: Cell::new(0),
            paused: Rc::default(),
        }))
    }

    fn read(&self, bytes: u64) {
        let now_ms = self.shared.now_ms();
        self.read_bytes.set(self.read_bytes.get() + bytes);
        let mut owed_us = self.of_host.borrow_mut().add(bytes, now_ms * 1_000);
        let taken = bytes.min(self.reserved_bytes.get());
        self.reserved_bytes.set(self.reserved_bytes.get() - taken);
        if let Some(rate) = self.shared.rate.as_ref().filter(|_| bytes > taken) {
            owed_us = owed_us.max(rate.add(bytes - taken, now_ms));
        }
        self.owed_us.set(owed_us);
    }

    /// The answer took this much in all, head and packing included. How long the host is to be left alone for it, in ms.
    pub(crate) fn end(&self, wire_bytes: u64) -> u64 {
        self.read(wire_bytes.saturating_sub(self.read_bytes.get()));
        let debt = self.of_host.borrow();
        let now_us = self.shared.now_ms() * 1_000;
        debt.paid_at_us.saturating_sub(now_us).div_ceil(1_000)
    }

    /// How long reading was put off: the server is not to blame for it.
    pub(crate) fn paused_ms(&self) -> u64 {
        self.paused.get().as_millis() as u64
    }
}

impl Drop for Metered {
    fn drop(&mut self) {
        if let Some(rate) = &self.shared.rate {
            rate.end(self.read_bytes.get(), self.reserved_bytes.get());
        }
    }
}

/// Counts what comes, and has reading wait for it to be paid for.
pub(crate) struct MeteredSink<'a> {
    pub(crate) metered: Option<&'a Metered>,
    pub(crate) seat: &'a Seat,
    pub(crate) sink: &'a mut dyn BodySink,
}

impl BodySink for MeteredSink<'_> {
    fn head(&mut self, head: &Head) -> ControlFlow<()> {
        self.sink.head(head)
    }

    fn body(&mut self, bytes: &[u8]) -> ControlFlow<()> {
        if let Some(metered) = self.metered {
            metered.read(bytes.len() as u64);
        }
        self.sink.body(bytes)
    }

    fn wait_before_more(&mut self, so_far: &[u8]) -> Option<Wait> {
        self.sink.wait_before_more(so_far)
    }

    fn slow_down(&mut self, so_far_bytes: usize) -> Option<Wait> {
        let metered = self.metered?;
        let owed_us = metered.owed_us.replace(0);
        if owed_us < SHORTEST_WAIT_US {
            return None;
        }
        let time = Duration::from_micros(owed_us);
        metered.paused.set(metered.paused.get() + time);
        Some(self.seat.slow_down(time, so_far_bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_read_is_paid_for_with_time() {
        let mut debt = Debt::of(1_000);
        assert_eq!(debt.add(500, 1_000_000), 500_000);
        assert_eq!(debt.add(500, 1_200_000), 800_000);
        assert_eq!(
            debt.add(1, 9_000_000),
            1_000,
            "time that nobody used is gone"
        );
        assert_eq!(Debt::of(0).add(u64::MAX, 5), 0);
    }

    #[test]
    fn requests_begin_at_the_pace_of_the_limit_one_after_the_other() {
        let rate = Rate::new(1_000 * 1_024).expect("a limit");
        let bytes = rate.begin(1_000).expect("the first may");
        assert_eq!(bytes, FIRST_GUESS_BYTES);
        let told: Vec<u64> = (0..3)
            .map(|_| rate.begin(1_000).expect_err("not now"))
            .collect();
        assert_eq!(told, [1_017, 1_033, 1_049]);
        // The answer was empty: what was taken for it is given back.
        rate.end(0, bytes);
        assert!(rate.begin(1_000).is_ok());
        assert!(Rate::new(0).is_none());
    }

    #[test]
    fn nobody_is_sent_away_for_long() {
        let rate = Rate::new(1_024).expect("a limit");
        rate.begin(0).expect("the first may");
        rate.add(1 << 30, 0);
        for _ in 0..1_000 {
            assert!(rate.begin(0).expect_err("not now") <= LATEST_US / 1_000 + 1);
        }
    }
}
