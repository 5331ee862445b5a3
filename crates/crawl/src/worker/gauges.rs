//! What a worker shows of itself, for the watcher and for the progress display.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::Worker;
use crate::fleet::PartitionLook;

/// What a worker shows of itself.
#[derive(Debug, Default)]
pub(crate) struct Gauges {
    pub(crate) known: AtomicU64,
    pub(crate) due: AtomicU64,
    pub(crate) turns: AtomicU64,
    /// Hosts that wait for their next turn, for whatever reason.
    pub(crate) queued: AtomicU64,
    /// Those of them whose address is asked for another host, or rests after that.
    pub(crate) by_address: AtomicU64,
    /// Turns that read a robots.txt.
    pub(crate) robots: AtomicU64,
    /// Hosts that rest because they failed, or are asked again after that.
    pub(crate) failing: AtomicU64,
    /// Nothing is due and nothing under way here.
    pub(crate) idle: AtomicBool,
    /// Nothing is due here but URLs of hosts that fail.
    pub(crate) waits: AtomicBool,
    /// The gauges are of after the last entry that was folded.
    pub(crate) looked: AtomicBool,
}

impl Gauges {
    /// Entries are folded, and what they made due is not looked at yet. `idle` and the other gauges are from before them: that
    /// is noted before the entries stop being outstanding, or for a moment nobody would seem to have anything to do.
    pub(crate) fn note_folded(&self, folded: &AtomicU64, outstanding: &AtomicU64, count: u64) {
        self.idle.store(false, Ordering::SeqCst);
        self.looked.store(false, Ordering::SeqCst);
        folded.fetch_add(count, Ordering::SeqCst);
        outstanding.fetch_sub(count, Ordering::SeqCst);
    }
}

impl Worker {
    /// The node's reporter looks at the partitions once a second: what it sees is of after it began to look.
    fn show_to_fleet(&self) {
        let Some(membership) = &self.shared.membership else {
            return;
        };
        let look = membership.look();
        if self.shown.replace(look) == look {
            return;
        }
        for held in self.partitions.borrow().held.values() {
            let (partition, backlog) = (&held.partition, held.partition.backlog());
            let given_up = partition.is_resting() && backlog.hosts_queued == 0;
            let only_failing = backlog.hosts_queued == backlog.hosts_failing;
            let asks_failing = held.turns > 0 && self.turns.get() == self.failing_turns.get();
            let rests = held.turns == 0 && only_failing && partition.is_resting();
            let some_fail = asks_failing || (held.turns == 0 && backlog.hosts_failing > 0);
            membership.show(PartitionLook {
                look,
                partition: partition.id(),
                exchanged: (partition.exchanged().sent, partition.exchanged().heard),
                known: partition.stats().known,
                due: partition.stats().due,
                visited: partition.stats().visited,
                requests: partition.stats().requests,
                body_bytes: partition.stats().body_bytes,
                exhausted: held.turns == 0 && (partition.is_exhausted() || given_up),
                waits: only_failing && some_fail && backlog.pending == 0,
                rests,
            });
        }
    }

    /// Tell the watcher and the progress display how things stand.
    pub(super) fn show(&self) {
        self.show_to_fleet();
        let partitions = self.partitions.borrow();
        let (mut known, mut due, mut queued, mut failing) = (0, 0, 0, 0);
        let (mut exhausted, mut waits) = (true, !self.unjudged.get());
        for partition in partitions.iter() {
            let (stats, backlog) = (partition.stats(), partition.backlog());
            known += stats.known;
            due += stats.due;
            queued += backlog.hosts_queued as u64;
            failing += backlog.hosts_failing as u64;
            waits &= backlog.hosts_queued == backlog.hosts_failing;
            // URLs of hosts that were given up are due, but not in this run.
            exhausted &=
                partition.is_exhausted() || (partition.is_resting() && backlog.hosts_queued == 0);
        }
        let by_address = self.client.waiting_for_address(self.shared.now_ms());
        self.gauges.queued.store(queued, Ordering::Relaxed);
        self.gauges.by_address.store(by_address, Ordering::Relaxed);
        let robots = self.client.robots_being_read();
        self.gauges.robots.store(robots, Ordering::Relaxed);
        let turns = self.turns.get();
        let failing = failing + self.failing_turns.get() as u64;
        self.gauges.failing.store(failing, Ordering::SeqCst);
        waits &= turns == self.failing_turns.get();
        self.gauges.waits.store(waits, Ordering::SeqCst);
        self.gauges.known.store(known, Ordering::Relaxed);
        self.gauges.due.store(due, Ordering::Relaxed);
        self.gauges.turns.store(turns as u64, Ordering::Relaxed);
        let stopping = self.shared.budget.is_stopping();
        self.gauges
            .idle
            .store(turns == 0 && (exhausted || stopping), Ordering::SeqCst);
        self.gauges.looked.store(true, Ordering::SeqCst);
    }
}
