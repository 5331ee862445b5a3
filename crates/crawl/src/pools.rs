//! Who may be at work: a turn takes a place by the state that it is in, so that waiting costs hardly more than a socket.
//!
//! A turn begins in a *quick* place; `limits.connections` is how many there are. A request that has waited for its server for
//! longer than `limits.patience_ms` more than its bytes account for gives that place to the next turn, if one needs it, and goes
//! on in a *waiting* one. When those are full, the request that has waited longest is given up. A turn that waits for the DNS
//! leaves its quick place at once and takes one again when it knows the address; so does one that waits for the archivist. Hosts that were slow or failed the last time have
//! a few *slow* places of their own, which they keep to the end.
//!
//! Each worker has pools of its own; nothing here is shared between threads.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::future::{Future, poll_fn};
use std::ops::ControlFlow;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::Poll;
use std::time::Duration;

use portolan_model::HostId;
use portolan_net::{BodySink, Head, NetError, Wait};
use tokio::sync::{Notify, Semaphore};

use tokio::time::Instant;

use crate::generations::Generations;

/// How often quick places are searched for those whose patience is at an end, while all of them are taken.
pub(crate) const LOOK_EVERY: Duration = Duration::from_millis(25);
/// At a look, at most one in this many of the quick places is freed by giving up somebody who waits.
const GIVEN_UP_SHARE: usize = 16;
/// Nobody is given up before it has waited for this many times the patience.
const LEAST_WAIT: u32 = 4;
/// A body that comes at this rate or faster keeps its quick place.
const BYTES_PER_S: u64 = 16 << 10;
/// A body that has grown past this in a waiting place goes on only in a quick one: it takes memory now.
const WAITING_BODY_BYTES: usize = 32 << 10;
/// A request that took this much longer than its bytes account for makes its host a slow one.
const SLOW: Duration = Duration::from_secs(5);
/// Hosts that are remembered as slow, twice over.
const SLOW_REMEMBERED: usize = 8_192;
/// A slow host that finds no place comes back when one is likely to be free, but within this time.
const LONGEST_WAIT_MS: u64 = 60_000;
/// How long a turn in a slow place takes, before any was seen.
const FIRST_HOLD_MS: u64 = 1_000;

/// How many places a worker has.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PoolSizes {
    pub(crate) quick: usize,
    pub(crate) waiting: usize,
    pub(crate) slow: usize,
    pub(crate) patience: Duration,
}

/// The places of one worker.
pub(crate) struct Pools {
    sizes: PoolSizes,
    quick: Semaphore,
    /// Turns in quick places by number, that is in the order in which they began.
    seated: RefCell<BTreeMap<u64, Rc<SeatState>>>,
    /// Turns in waiting places, by the order in which they took them.
    waiting: RefCell<BTreeMap<u64, Rc<SeatState>>>,
    resolving: Cell<usize>,
    pacing: Cell<usize>,
    handing_over: Cell<usize>,
    slow: Cell<usize>,
    next_number: Cell<u64>,
    look_at: Cell<Option<Instant>>,
    slow_hosts: RefCell<Generations<HostId, bool>>,
    /// For those who find no slow place: when the next of them may come back, and how long places are held.
    slow_next_ms: Cell<u64>,
    slow_hold_ms: Cell<u64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    Quick,
    /// With the order in which it was taken.
    Waiting(u64),
    /// A quick place was left while the DNS is asked, ...
    Resolving,
    /// ... or while the archivist has no room for what was fetched, or a program reads it, ...
    HandingOver,
    /// ... or while we read slowly, because a person limits bytes a second, ...
    Pacing,
    /// ... or another state ended, and a quick place is not free yet.
    Queueing,
    Slow,
}

struct SeatState {
    number: u64,
    place: Cell<Place>,
    /// When the request began that is under way. `None` while the turn does work of ours.
    since: Cell<Option<Instant>>,
    /// How long the bytes that came account for.
    paid: Cell<Duration>,
    /// How long we read nothing, by our own will.
    paced: Cell<Duration>,
    /// It is to be given up; whoever waits is woken.
    is_given_up: Cell<bool>,
    given_up: Notify,
}

/// Given up for others: the time that it had.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct GivenUp(pub(crate) Duration);

/// A turn's place, given back when it is dropped.
pub(crate) struct Seat {
    pools: Rc<Pools>,
    state: Rc<SeatState>,
    host: HostId,
    begun: Instant,
}

impl Pools {
    pub(crate) fn new(sizes: PoolSizes) -> Rc<Self> {
        Rc::new(Self {
            quick: Semaphore::new(sizes.quick.max(1)),
            sizes,
            seated: RefCell::default(),
            waiting: RefCell::default(),
            resolving: Cell::new(0),
            pacing: Cell::new(0),
            handing_over: Cell::new(0),
            slow: Cell::new(0),
            next_number: Cell::new(0),
            look_at: Cell::new(None),
            slow_hosts: RefCell::new(Generations::with_bound(SLOW_REMEMBERED)),
            slow_next_ms: Cell::new(0),
            slow_hold_ms: Cell::new(FIRST_HOLD_MS),
        })
    }

    /// Is a quick place free, or can one be freed?
    pub(crate) fn has_room(&self) -> bool {
        if self.quick.available_permits() == 0 {
            self.free_places(Instant::now());
        }
        self.quick.available_permits() > 0
    }

    /// A place for a host's turn. `failures`: those in a row. An error says when to come back: the host is slow, and the places
    /// for such hosts are taken. To be called when there is room.
    pub(crate) fn seat(
        self: &Rc<Self>,
        host: HostId,
        failures: u16,
        now_ms: u64,
    ) -> Result<Seat, u64> {
        let remembered = self.slow_hosts.borrow_mut().get(&host) == Some(&true);
        let place = if failures > 0 || remembered {
            if self.slow.get() >= self.sizes.slow.max(1) {
                return Err(self.later_ms(now_ms));
            }
            self.slow.set(self.slow.get() + 1);
            Place::Slow
        } else {
            match self.quick.try_acquire() {
                Ok(permit) => permit.forget(),
                Err(_) => return Err(now_ms + 1),
            }
            Place::Quick
        };
        let state = Rc::new(SeatState {
            number: self.number(),
            place: Cell::new(place),
            since: Cell::new(None),
            paid: Cell::new(Duration::ZERO),
            paced: Cell::new(Duration::ZERO),
            is_given_up: Cell::new(false),
            given_up: Notify::new(),
        });
        if place == Place::Quick {
            self.sit(&state);
        }
        Ok(Seat {
            pools: Rc::clone(self),
            state,
            host,
            begun: Instant::now(),
        })
    }

    fn number(&self) -> u64 {
        self.next_number.replace(self.next_number.get() + 1)
    }

    fn sit(&self, state: &Rc<SeatState>) {
        state.place.set(Place::Quick);
        self.seated
            .borrow_mut()
            .insert(state.number, Rc::clone(state));
    }

    /// Those whose patience is at an end go on in waiting places.
    fn free_places(&self, now: Instant) {
        if self.look_at.get().is_some_and(|at| now < at) {
            return;
        }
        self.look_at.set(Some(now + LOOK_EVERY));
        let overdue: Vec<Rc<SeatState>> = self
            .seated
            .borrow()
            .values()
            .filter(|state| state.is_overdue(now, self.sizes.patience))
            .cloned()
            .collect();
        let mut give_up = (self.sizes.quick / GIVEN_UP_SHARE).max(1);
        for state in overdue {
            if self.waiting.borrow().len() + self.pacing.get() >= self.sizes.waiting.max(1) {
                if give_up == 0 || !self.give_up_longest(now) {
                    break;
                }
                give_up -= 1;
            }
            self.leave(&state);
            let order = self.number();
            state.place.set(Place::Waiting(order));
            self.waiting.borrow_mut().insert(order, state);
        }
    }

    fn give_up_longest(&self, now: Instant) -> bool {
        let least = self.sizes.patience * LEAST_WAIT;
        let Some((_, longest)) = self.waiting.borrow_mut().pop_first() else {
            return false;
        };
        if longest.waited(now) < least {
            if let Place::Waiting(order) = longest.place.get() {
                self.waiting.borrow_mut().insert(order, longest);
            }
            return false;
        }
        longest.place.set(Place::Queueing);
        longest.is_given_up.set(true);
        longest.given_up.notify_one();
        true
    }

    /// Leave whatever place it is.
    fn leave(&self, state: &SeatState) {
        match state.place.get() {
            Place::Quick => {
                self.seated.borrow_mut().remove(&state.number);
                self.quick.add_permits(1);
            }
            Place::Waiting(order) => {
                self.waiting.borrow_mut().remove(&order);
            }
            Place::Resolving => self.resolving.set(self.resolving.get() - 1),
            Place::Pacing => self.pacing.set(self.pacing.get() - 1),
            Place::HandingOver => self.handing_over.set(self.handing_over.get() - 1),
            Place::Slow => self.slow.set(self.slow.get() - 1),
            Place::Queueing => {}
        }
        state.place.set(Place::Queueing);
    }

    /// When a slow host that found no place is to come back: they come one by one, at the pace at which places become free.
    fn later_ms(&self, now_ms: u64) -> u64 {
        let step_ms = self.slow_hold_ms.get() / self.sizes.slow.max(1) as u64 + 1;
        let at_ms = (self.slow_next_ms.get().max(now_ms) + step_ms).min(now_ms + LONGEST_WAIT_MS);
        self.slow_next_ms.set(at_ms);
        at_ms
    }
}

impl SeatState {
    fn waited(&self, now: Instant) -> Duration {
        let since = self.since.get();
        since.map_or(Duration::ZERO, |since| now.saturating_duration_since(since))
    }

    fn is_overdue(&self, now: Instant, patience: Duration) -> bool {
        self.waited(now) > patience + self.paid.get()
    }
}

impl Seat {
    /// Wait for a server. What this costs depends on how long it takes.
    pub(crate) async fn wait_for<T>(&self, answer: impl Future<Output = T>) -> Result<T, GivenUp> {
        let state = &self.state;
        if state.place.get() == Place::Queueing {
            // It was given up at the moment when its answer came, or has handed something over.
            take_quick(Rc::clone(&self.pools), Rc::clone(state)).await;
        }
        state.is_given_up.set(false);
        let begun = Instant::now();
        state.since.set(Some(begun));
        state.paid.set(Duration::ZERO);
        state.paced.set(Duration::ZERO);
        let mut answer = pin!(answer);
        let mut given_up = pin!(state.given_up.notified());
        let answer = poll_fn(|cx| {
            if let Poll::Ready(answer) = answer.as_mut().poll(cx) {
                return Poll::Ready(Some(answer));
            }
            // The sign may be an old one.
            while given_up.as_mut().poll(cx).is_ready() {
                if state.is_given_up.get() {
                    return Poll::Ready(None);
                }
                given_up.set(state.given_up.notified());
            }
            Poll::Pending
        })
        .await;
        state.since.set(None);
        let took = begun.elapsed();
        self.remember(answer.is_none() || took > SLOW + state.paid.get() + state.paced.get());
        answer.ok_or(GivenUp(took))
    }

    /// Wait for the DNS, without a quick place unless too many others do.
    pub(crate) async fn resolve<T>(&self, answer: impl Future<Output = T>) -> T {
        let pools = &self.pools;
        let answer = self
            .without_place(
                answer,
                Place::Resolving,
                &pools.resolving,
                pools.sizes.waiting,
            )
            .await;
        if self.state.place.get() == Place::Resolving {
            take_quick(Rc::clone(pools), Rc::clone(&self.state)).await;
        }
        answer
    }

    /// Wait for the archivist or for a program that reads a document, without a quick place unless as many others do: servers
    /// are asked meanwhile. A place is taken again with the next request.
    pub(crate) async fn hand_over<T>(&self, done: impl Future<Output = T>) -> T {
        let pools = &self.pools;
        let done = self
            .without_place(
                done,
                Place::HandingOver,
                &pools.handing_over,
                pools.sizes.quick,
            )
            .await;
        if self.state.place.get() == Place::HandingOver {
            pools.leave(&self.state);
        }
        done
    }

    /// Wait in `place` instead of a quick one, if there are fewer than `most` there. Who need not wait keeps its place.
    async fn without_place<T>(
        &self,
        future: impl Future<Output = T>,
        place: Place,
        count: &Cell<usize>,
        most: usize,
    ) -> T {
        let mut future = pin!(future);
        let first = poll_fn(|cx| Poll::Ready(future.as_mut().poll(cx))).await;
        if let Poll::Ready(done) = first {
            return done;
        }
        if self.state.place.get() == Place::Quick && count.get() < most {
            self.pools.leave(&self.state);
            self.state.place.set(place);
            count.set(count.get() + 1);
        }
        future.await
    }

    /// Bytes came.
    pub(crate) fn note_bytes(&self, bytes: usize) {
        let more = Duration::from_micros(bytes as u64 * 1_000_000 / BYTES_PER_S);
        self.state.paid.set(self.state.paid.get() + more);
    }

    /// A body that has `so_far_bytes` is to grow: from a waiting place only after a quick one was found.
    pub(crate) fn wait_before_more(&self, so_far_bytes: usize) -> Option<Wait> {
        let waits = matches!(self.state.place.get(), Place::Waiting(_));
        if !waits || so_far_bytes < WAITING_BODY_BYTES {
            return None;
        }
        let quick = take_quick(Rc::clone(&self.pools), Rc::clone(&self.state));
        Some(Box::pin(quick) as Pin<Box<_>>)
    }

    /// Read nothing of a body for `time`, which is no fault of the host's. A small body leaves its place to others meanwhile.
    pub(crate) fn slow_down(&self, time: Duration, so_far_bytes: usize) -> Wait {
        let (pools, state) = (Rc::clone(&self.pools), Rc::clone(&self.state));
        Box::pin(async move {
            state.paced.set(state.paced.get() + time);
            let has_room = pools.waiting.borrow().len() + pools.pacing.get() < pools.sizes.waiting;
            let can_leave = matches!(state.place.get(), Place::Quick | Place::Waiting(_));
            if so_far_bytes < WAITING_BODY_BYTES && can_leave && has_room {
                pools.leave(&state);
                state.place.set(Place::Pacing);
                pools.pacing.set(pools.pacing.get() + 1);
                tokio::time::sleep(time).await;
                take_quick(pools, state).await;
            } else {
                state.paid.set(state.paid.get() + time);
                tokio::time::sleep(time).await;
            }
        })
    }

    fn remember(&self, slow: bool) {
        let mut hosts = self.pools.slow_hosts.borrow_mut();
        if slow || hosts.get(&self.host).is_some() {
            hosts.insert(self.host, slow);
        }
    }
}

/// Exchange whatever place it is for a quick one. Those who come from elsewhere go before turns that have not begun.
async fn take_quick(pools: Rc<Pools>, state: Rc<SeatState>) {
    pools.leave(&state);
    // The semaphore is never closed; were it, going on would be right.
    if let Ok(permit) = pools.quick.acquire().await {
        permit.forget();
        pools.sit(&state);
    }
    if state.since.get().is_some() {
        // Its patience begins anew.
        state.since.set(Some(Instant::now()));
        state.paid.set(Duration::ZERO);
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        if self.state.place.get() == Place::Slow {
            let held_ms = self.begun.elapsed().as_millis() as u64;
            let before_ms = self.pools.slow_hold_ms.get();
            self.pools.slow_hold_ms.set((before_ms * 7 + held_ms) / 8);
        }
        self.pools.leave(&self.state);
    }
}

impl From<GivenUp> for NetError {
    fn from(GivenUp(time): GivenUp) -> Self {
        NetError::Timeout {
            waiting_for: "a slow server, while too many others wait",
            after_ms: time.as_millis() as u64,
        }
    }
}

/// Sees bytes come for who reads them, and tells the seat.
pub(crate) struct SeatedSink<'a> {
    pub(crate) seat: &'a Seat,
    pub(crate) sink: &'a mut dyn BodySink,
}

impl BodySink for SeatedSink<'_> {
    fn slow_down(&mut self, so_far_bytes: usize) -> Option<Wait> {
        self.sink.slow_down(so_far_bytes)
    }

    fn head(&mut self, head: &Head) -> ControlFlow<()> {
        self.sink.head(head)
    }

    fn body(&mut self, bytes: &[u8]) -> ControlFlow<()> {
        self.seat.note_bytes(bytes.len());
        self.sink.body(bytes)
    }

    fn wait_before_more(&mut self, so_far: &[u8]) -> Option<Wait> {
        let own = self.sink.wait_before_more(so_far);
        match (self.seat.wait_before_more(so_far.len()), own) {
            (Some(seat), Some(own)) => Some(Box::pin(async move {
                seat.await;
                own.await;
            })),
            (seat, own) => seat.or(own),
        }
    }
}

#[cfg(test)]
mod tests;
