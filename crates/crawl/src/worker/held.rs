//! The partitions of a worker, by id, and what is delivered for them. One that is not ready for its entries keeps them
//! waiting, and nobody else.

use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use portolan_model::PartitionId;
use portolan_registry::{Delivery, Partition, RegistryError};
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::Worker;
use crate::commit::ToArchivist;
use crate::metrics::Stage;
use crate::routes::{Command, Destination, Ends, Parcel};
use crate::shared::{UNFOLDED_KIB, kib};

/// Deliveries are folded for this long before connections are looked after again.
const FOLD_MAX: Duration = Duration::from_millis(3);
/// Entries are folded together until they have this many links.
const LINKS_TOGETHER: usize = 100;
/// At most this many entries are folded in one batch.
const ENTRIES_TOGETHER: usize = 256;

/// A partition, and what goes on in it.
pub(super) struct Held {
    pub(super) partition: Partition,
    /// Turns of its hosts that are under way.
    pub(super) turns: usize,
    pub(super) leaving: Option<Leaving>,
}

/// The way of a partition to another worker.
pub(super) struct Leaving {
    to: Destination,
    /// What follows goes to the other worker, or is about to.
    redirected: bool,
    /// All that was delivered here has come.
    last_came: bool,
}

/// By id.
#[derive(Default)]
pub(super) struct Partitions {
    pub(super) held: BTreeMap<PartitionId, Held>,
    /// The ids, for who gives them their turns.
    pub(super) ids: Rc<[PartitionId]>,
    /// What partitions were not ready for, or what came before they did.
    waiting: BTreeMap<PartitionId, VecDeque<Delivery>>,
}

impl Partitions {
    pub(super) fn of(partitions: Vec<Partition>) -> Self {
        let mut all = Self::default();
        partitions.into_iter().for_each(|p| all.add(p));
        all
    }

    pub(super) fn add(&mut self, partition: Partition) {
        let held = Held {
            turns: 0,
            leaving: None,
            partition,
        };
        self.held.insert(held.partition.id(), held);
        self.ids = self.held.keys().copied().collect();
    }

    /// The partition of a turn, which ends before its partition goes.
    pub(super) fn of_turn(&self, id: PartitionId) -> &Partition {
        let held = self.held.get(&id);
        &held.expect("a partition stays while it is used").partition
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Partition> {
        self.held.values().map(|held| &held.partition)
    }

    pub(super) fn take_all(&mut self) -> Vec<Partition> {
        let held = std::mem::take(&mut self.held);
        held.into_values().map(|held| held.partition).collect()
    }

    /// Could it fold something now without waiting for the disk?
    fn is_ready(&self, id: PartitionId) -> bool {
        let held = self.held.get(&id);
        held.is_some_and(|held| held.partition.is_ready())
    }

    /// The partitions that may go now: turned away from, and with nothing left to fold.
    fn take_ready_to_go(&mut self) -> Vec<(Partition, Destination)> {
        let waiting = &self.waiting;
        let is_done = |id: &PartitionId, held: &mut Held| {
            let leaving = held.leaving.as_ref();
            leaving.is_some_and(|l| l.last_came) && !waiting.contains_key(id)
        };
        let going = self.held.extract_if(.., is_done);
        let going = going.filter_map(|(_, held)| Some((held.partition, held.leaving?.to)));
        let going: Vec<_> = going.collect();
        if !going.is_empty() {
            self.ids = self.held.keys().copied().collect();
        }
        going
    }
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Folded {
    /// All there was, or much of it; at least what was received last.
    Some,
    /// The same, but a partition would have to wait for the disk, or has not come yet: what is for it waits.
    NotReady,
    /// The archivist has ended: nothing more will be delivered.
    Ended,
}

impl Worker {
    /// Does what it is told, `first` first.
    pub(super) fn obey(self: &Rc<Self>, first: Option<Command>, ends: &mut Ends) {
        let mut next = first.or_else(|| ends.commands.try_recv().ok());
        while let Some(command) = next {
            match command {
                Command::Adopt(partition) => {
                    tracing::debug!(partition = partition.id().0, "partition taken over");
                    self.partitions.borrow_mut().add(*partition);
                    self.note_folded(1);
                }
                Command::Release { partition, to } => self.release(partition, to),
            }
            next = ends.commands.try_recv().ok();
        }
        self.see_off();
    }

    fn release(&self, id: PartitionId, to: Destination) {
        let mut partitions = self.partitions.borrow_mut();
        match partitions.held.get_mut(&id) {
            Some(held) if held.leaving.is_none() => {
                held.leaving = Some(Leaving {
                    to,
                    redirected: false,
                    last_came: false,
                });
            }
            // It is on its way already, or gone.
            _ => {
                self.shared.outstanding.fetch_sub(1, Ordering::SeqCst);
            }
        }
    }

    /// Sees to partitions that leave: once their turns have ended, and once all that was delivered is folded.
    fn see_off(self: &Rc<Self>) {
        let mut partitions = self.partitions.borrow_mut();
        for (&id, held) in &mut partitions.held {
            let Some(leaving) = &mut held.leaving else {
                continue;
            };
            if held.turns == 0 && !leaving.redirected {
                leaving.redirected = true;
                let worker = Rc::clone(self);
                let to = match leaving.to {
                    Destination::Worker(to) => Some(to),
                    Destination::Node(_) => None,
                };
                tokio::task::spawn_local(async move {
                    if !worker.turn_away(id, to).await {
                        worker.keep(id);
                    }
                });
            }
        }
        for (partition, to) in partitions.take_ready_to_go() {
            tracing::debug!(partition = partition.id().0, "partition handed over");
            match to {
                Destination::Worker(to) => {
                    let adopt = Command::Adopt(Box::new(partition));
                    self.shared.routes.command(to, adopt);
                }
                Destination::Node(to) => {
                    // Who wanted it may be gone with the crawl.
                    let _ = to.send(partition);
                    self.shared.outstanding.fetch_sub(1, Ordering::SeqCst);
                }
            }
        }
    }

    /// Has what follows delivered to worker `to`, or, where the partition leaves the node, committed elsewhere. False if the
    /// crawl has ended.
    async fn turn_away(&self, id: PartitionId, to: Option<usize>) -> bool {
        match (to, &self.shared.membership) {
            (Some(to), _) => self.shared.routes.redirect(id, to).await,
            (None, Some(membership)) => membership.tell_archivist(ToArchivist::Release(id)).await,
            (None, None) => false,
        }
    }

    /// The crawl ends: it stays where it is.
    fn keep(&self, id: PartitionId) {
        if let Some(held) = self.partitions.borrow_mut().held.get_mut(&id) {
            held.leaving = None;
            self.shared.outstanding.fetch_sub(1, Ordering::SeqCst);
        }
    }

    /// Fold what has been delivered, `next` first, as far as partitions are ready for it.
    pub(super) fn fold(
        &self,
        next: &mut Option<Parcel>,
        inbox: &mut mpsc::Receiver<Parcel>,
    ) -> Result<Folded, RegistryError> {
        let begun = Instant::now();
        self.fold_waiting(begun)?;
        let mut together = Vec::new();
        loop {
            let mut links = 0;
            let mut missing = None;
            // Entries with many links are large, and gain nothing by waiting for others.
            while links < LINKS_TOGETHER && together.len() < ENTRIES_TOGETHER {
                match next.take().map_or_else(|| inbox.try_recv(), Ok) {
                    Ok(Parcel::Delivery(delivery)) => {
                        links += delivery.entry.links_len();
                        together.push(delivery);
                    }
                    Ok(Parcel::Last(id)) => self.note_last(id),
                    Err(error) => {
                        missing = Some(error);
                        break;
                    }
                }
            }
            self.apply(&mut together)?;
            match missing {
                Some(mpsc::error::TryRecvError::Disconnected) => return Ok(Folded::Ended),
                None if begun.elapsed() < FOLD_MAX => {}
                _ => break,
            }
        }
        Ok(match self.partitions.borrow().waiting.is_empty() {
            true => Folded::Some,
            false => Folded::NotReady,
        })
    }

    fn note_last(&self, id: PartitionId) {
        let mut partitions = self.partitions.borrow_mut();
        let held = partitions.held.get_mut(&id);
        if let Some(leaving) = held.and_then(|held| held.leaving.as_mut()) {
            leaving.last_came = true;
        }
    }

    /// What has waited, as far as its partitions are ready for it now.
    fn fold_waiting(&self, begun: Instant) -> Result<(), RegistryError> {
        let mut partitions = self.partitions.borrow_mut();
        if partitions.waiting.is_empty() {
            return Ok(());
        }
        let ids: Vec<PartitionId> = partitions.waiting.keys().copied().collect();
        for id in ids {
            while partitions.is_ready(id) && begun.elapsed() < FOLD_MAX {
                let Some(queue) = partitions.waiting.get_mut(&id) else {
                    break;
                };
                let some: Vec<Delivery> = queue.drain(..queue.len().min(LINKS_TOGETHER)).collect();
                if queue.is_empty() {
                    partitions.waiting.remove(&id);
                }
                if let Some(held) = partitions.held.get_mut(&id) {
                    self.fold_into(&mut held.partition, some.iter())?;
                }
            }
        }
        Ok(())
    }

    /// Each partition folds its own, in order; what it is not ready for waits.
    fn apply(&self, deliveries: &mut Vec<Delivery>) -> Result<(), RegistryError> {
        let mut by_partition: Vec<(PartitionId, usize)> = Vec::with_capacity(deliveries.len());
        let numbered = deliveries.iter().enumerate();
        by_partition.extend(numbered.map(|(at, delivery)| (delivery.partition, at)));
        by_partition.sort_unstable();
        let mut partitions = self.partitions.borrow_mut();
        let mut put_off = Vec::new();
        for own in by_partition.chunk_by(|one, other| one.0 == other.0) {
            let id = own[0].0;
            if partitions.waiting.contains_key(&id) || !partitions.is_ready(id) {
                put_off.push(id);
            } else if let Some(held) = partitions.held.get_mut(&id) {
                let own = own.iter().map(|&(_, at)| &deliveries[at]);
                self.fold_into(&mut held.partition, own)?;
            }
        }
        if put_off.is_empty() {
            deliveries.clear();
        }
        for delivery in deliveries.drain(..) {
            if put_off.contains(&delivery.partition) {
                let queue = partitions.waiting.entry(delivery.partition);
                queue.or_default().push_back(delivery);
            }
        }
        Ok(())
    }

    fn fold_into<'d>(
        &self,
        partition: &mut Partition,
        own: impl ExactSizeIterator<Item = &'d Delivery> + Clone,
    ) -> Result<(), RegistryError> {
        let room = |delivery: &Delivery| kib(delivery.entry.ram_bytes(), UNFOLDED_KIB) as usize;
        let (count, room) = (own.len() as u64, own.clone().map(room).sum());
        let entries = own.map(|delivery| (delivery.seq, &delivery.entry));
        let fold = || partition.apply_all(entries);
        self.shared.metrics.sampled(Stage::Fold, fold)?;
        self.note_folded(count);
        self.shared.unfolded.add_permits(room);
        Ok(())
    }

    fn note_folded(&self, count: u64) {
        let shared = &self.shared;
        self.gauges
            .note_folded(&shared.folded, &shared.outstanding, count);
    }
}
