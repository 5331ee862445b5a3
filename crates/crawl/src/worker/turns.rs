//! Which host of which partition gets its turn next, and when turns may begin.

use std::rc::Rc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use portolan_model::{PartitionId, Pulse};
use portolan_registry::{Partition, RegistryError, Return};
use tokio::time::Instant;

use super::{IDLE_MAX_MS, Worker};
use crate::metrics::Stage;
use crate::pools::LOOK_EVERY;

/// Turns are begun for this long before connections are looked after again: with many hosts, each may have to
/// read the disk.
const BEGIN_TURNS_MAX: Duration = Duration::from_millis(3);

/// When a turn ends, a host that is due is looked for in at most this many partitions. The worker looks at the others
/// a moment later.
const NEXT_PARTITIONS: usize = 4;

/// How soon partitions are looked at again that look URLs up, if there is nothing else to do.
const LOOKING_UP_MS: u64 = 2;

/// The same pulse, but not before a time.
pub(super) fn later(pulse: Pulse, at_ms: u64) -> Pulse {
    Pulse {
        not_before_ms: pulse.not_before_ms.max(at_ms),
        ..pulse
    }
}

/// What became of a partition's next turn.
enum Begun {
    Turn,
    /// No host is due.
    Nothing,
    /// Turns may not begin before this time, in milliseconds.
    NotBefore(u64),
}

impl Worker {
    /// Give turns to hosts that are due, as far as connections allow. Returns how long nothing
    /// needs to be looked at again, if nobody wakes us.
    pub(super) fn begin_turns(self: &Rc<Self>) -> Result<u64, RegistryError> {
        let shared = &self.shared;
        let now_ms = shared.now_ms();
        let begun = Instant::now();
        let mut rest_ms = IDLE_MAX_MS;
        self.look_for_verdicts();
        let unjudged = self.unjudged.get();
        for id in self.ids_in_turn() {
            let open = !shared.budget.is_stopping() && self.has_room() && !unjudged;
            shared.metrics.sampled(Stage::Fold, || {
                self.with(id, |partition| {
                    partition.tend(unjudged || (open && self.is_hungry(partition, now_ms)))
                })
            })?;
            if self.with(id, |partition| partition.is_looking_up()) {
                rest_ms = rest_ms.min(LOOKING_UP_MS);
            }
            if !open || self.leaves_alone(id) {
                continue;
            }
            while self.has_room_for(id) && begun.elapsed() < BEGIN_TURNS_MAX {
                match self.begin_turn(id, now_ms)? {
                    Begun::Turn => {}
                    Begun::Nothing => break,
                    Begun::NotBefore(at_ms) => {
                        rest_ms = rest_ms.min(at_ms.saturating_sub(now_ms));
                        break;
                    }
                }
            }
            if let Some(due_ms) = self.next_due_ms(id)
                && (due_ms > now_ms || self.has_room_for(id))
            {
                rest_ms = rest_ms.min(due_ms.saturating_sub(now_ms));
            }
        }
        if self.is_held(now_ms) {
            rest_ms = IDLE_MAX_MS;
        }
        if self.turns.get() == 0 && shared.outstanding.load(Ordering::Relaxed) > 0 {
            shared.commit_now.notify_one();
        }
        self.client.sweep(now_ms);
        // With all places taken there is nothing to begin, however much is due, until one is given back or freed.
        Ok(if self.fetches && !self.client.pools.has_room() {
            LOOK_EVERY.as_millis() as u64
        } else {
            rest_ms
        })
    }

    /// Are all URLs judged by the settings that changed? A verdict that waits to be looked up would come too late for
    /// a URL whose turn is now.
    fn look_for_verdicts(&self) {
        if self.unjudged.get() && !self.shared.judging.load(Ordering::SeqCst) {
            let partitions = self.partitions.borrow();
            let waiting = partitions.iter().any(|p| p.backlog().pending > 0);
            self.unjudged.set(waiting);
        }
    }

    /// Give the next host of the partition its turn, or its place in the queue again if it is slow and
    /// finds no place. To be called when there is room.
    fn begin_turn(self: &Rc<Self>, id: PartitionId, now_ms: u64) -> Result<Begun, RegistryError> {
        if self.is_leaving(id) {
            return Ok(Begun::Nothing);
        }
        if let Err(at_ms) = self.may_begin(id, now_ms) {
            return Ok(Begun::NotBefore(at_ms));
        }
        let metrics = &self.shared.metrics;
        let turn = metrics.sampled(Stage::Choose, || self.with(id, |p| p.begin_turn(now_ms)))?;
        let Some(turn) = turn else {
            return Ok(Begun::Nothing);
        };
        if let Some((desk, _)) = &self.desk
            && let Some(ticket) = desk.ticket(id)
        {
            self.grant_away(id, turn, ticket)?;
            return Ok(Begun::Turn);
        }
        if !self.fetches {
            // Who asked has got something else meanwhile.
            self.with(id, |p| p.end_turn(turn.host, turn.pulse))?;
            return Ok(Begun::Nothing);
        }
        match self
            .client
            .pools
            .seat(turn.host, turn.pulse.failures, now_ms)
        {
            Ok(seat) => self.grant(id, turn, seat)?,
            Err(at_ms) => self.with(id, |p| p.end_turn(turn.host, later(turn.pulse, at_ms)))?,
        }
        Ok(Begun::Turn)
    }

    /// A turn has ended: its place is for the next host at once, of whichever partition's turn it is. If places waited
    /// until all answers that have come are worked through, turns would begin in bunches, their answers would come in
    /// bunches, and each would wait for the others of its bunch.
    pub(super) fn begin_next(self: &Rc<Self>) {
        if self.shared.budget.is_stopping() || self.unjudged.get() || !self.has_room() {
            return;
        }
        let now_ms = self.shared.now_ms();
        let is_due = |id| {
            let due_ms = self.next_due_ms(id);
            due_ms.is_some_and(|due_ms| due_ms <= now_ms)
        };
        let mut ids = self.ids_in_turn().take(NEXT_PARTITIONS);
        let Some(id) = ids.find(|&id| is_due(id) && self.has_room_for(id)) else {
            return;
        };
        if let Err(error) = self.begin_turn(id, now_ms) {
            self.shared.fail(error.into());
        }
    }

    /// Is somebody there who could ask a host?
    fn has_room(&self) -> bool {
        let asked = self
            .desk
            .as_ref()
            .is_some_and(|(desk, _)| desk.has_askers());
        asked || (self.fetches && self.client.pools.has_room())
    }

    /// Is somebody there who could ask a host of the partition, and may?
    fn has_room_for(&self, id: PartitionId) -> bool {
        let has_room = self.fetches && self.client.pools.has_room();
        match &self.desk {
            Some((desk, _)) => desk.is_wanted(id) || (has_room && desk.lets_ask(id)),
            None => has_room,
        }
    }

    /// All partitions, beginning with another one each time.
    fn ids_in_turn(&self) -> impl Iterator<Item = PartitionId> + use<> {
        let ids = Rc::clone(&self.partitions.borrow().ids);
        let count = ids.len();
        let first = self.first.get().checked_rem(count).unwrap_or(0);
        self.first.set(first + 1);
        (first..count).chain(0..first).map(move |at| ids[at])
    }

    /// When the next host of a partition may have its turn; never in one that leaves.
    fn next_due_ms(&self, id: PartitionId) -> Option<u64> {
        let partitions = self.partitions.borrow();
        let held = partitions.held.get(&id)?;
        let stays = held.leaving.is_none();
        held.partition.next_due_ms().filter(|_| stays)
    }

    /// Is it to have no turns any longer?
    pub(super) fn is_leaving(&self, id: PartitionId) -> bool {
        let partitions = self.partitions.borrow();
        let held = partitions.held.get(&id);
        held.is_none_or(|held| held.leaving.is_some())
    }

    /// A turn begins.
    pub(super) fn note_turn(&self, id: PartitionId, is_failing: bool) {
        self.turns.set(self.turns.get() + 1);
        self.count_turn(id, |turns| turns + 1);
        let failing = usize::from(is_failing);
        self.failing_turns.set(self.failing_turns.get() + failing);
    }

    fn count_turn(&self, id: PartitionId, count: impl FnOnce(usize) -> usize) {
        if let Some(held) = self.partitions.borrow_mut().held.get_mut(&id) {
            held.turns = count(held.turns);
        }
    }

    pub(super) async fn end_turns_now(&self) {
        let mut tasks = self.tasks.take();
        if tasks.is_empty() {
            return;
        }
        tasks.abort_all();
        while tasks.join_next().await.is_some() {}
        self.turns.set(0);
        self.failing_turns.set(0);
        let mut partitions = self.partitions.borrow_mut();
        partitions.held.values_mut().for_each(|held| held.turns = 0);
    }

    /// May the next host of the partition have its turn? `Err`: when to look again.
    fn may_begin(&self, id: PartitionId, now_ms: u64) -> Result<(), u64> {
        if self.client.hold_until_ms() > now_ms {
            return Err(self.client.hold_until_ms());
        }
        if !self.shared.may_ask() || self.leaves_alone(id) {
            return Err(now_ms + IDLE_MAX_MS);
        }
        if self.shared.network.down_since_ms().is_none() {
            return Ok(());
        }
        match self.next_due_ms(id) {
            Some(due_ms) if due_ms <= now_ms => self.shared.network.may_begin(now_ms),
            Some(due_ms) => Err(due_ms),
            None => Err(now_ms + IDLE_MAX_MS),
        }
    }

    /// In a fleet that may have come to its end: only hosts that fail wait here, and they are not to be asked meanwhile.
    fn leaves_alone(&self, id: PartitionId) -> bool {
        let membership = self.shared.membership.as_ref();
        membership.is_some_and(|membership| membership.is_quiet()) && {
            let backlog = self.with(id, |partition| partition.backlog());
            backlog.hosts_queued == backlog.hosts_failing
        }
    }

    /// Turns may not begin although hosts are due.
    fn is_held(&self, now_ms: u64) -> bool {
        self.client.hold_until_ms() > now_ms
            || !self.shared.may_ask()
            || self.shared.network.down_since_ms().is_some()
    }

    /// Links that wait to be merged are worth a merge now if nothing else can be fetched.
    fn is_hungry(&self, partition: &Partition, now_ms: u64) -> bool {
        partition.next_due_ms().is_none_or(|due_ms| due_ms > now_ms)
    }

    /// The turn is over: the host is queued again.
    pub(super) fn end_turn(&self, back: &Return, was_failing: bool) {
        let id = back.id.partition;
        let failing = self.failing_turns.get();
        self.failing_turns
            .set(failing.saturating_sub(usize::from(was_failing)));
        // In one process a grant does not expire, so what comes back is taken.
        if let Err(error) = self.with(id, |partition| partition.take_back(back)) {
            self.shared.fail(error.into());
        }
        self.note_turn_over(id);
    }

    pub(super) fn note_turn_over(&self, id: PartitionId) {
        self.turns.set(self.turns.get().saturating_sub(1));
        self.count_turn(id, |turns| turns.saturating_sub(1));
        self.wake.notify_one();
    }
}
