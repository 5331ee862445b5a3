//! The exchange: links that leave their partition for another one, put into the streams between the two. Where both are
//! in this process, they become entries of their destination at once. In a fleet, what is for a partition that another
//! node has stays in an entry of its source, and what other nodes send arrives here.

use crate::error::{RegistryError, Result};
use crate::log::stream::{Heard, Inbox, Origin, Received};
use crate::log::{Entry, Exchanged, Forward};
use portolan_model::{LinkBatch, PartitionId};
use std::collections::BTreeMap;

/// Forwards that a destination holds while others before them are missing.
const HELD_MAX: usize = 1024;

#[derive(Debug)]
pub(crate) struct Exchange {
    /// By destination.
    inboxes: BTreeMap<PartitionId, Inbox<Vec<LinkBatch>>>,
    /// In a fleet, by source: the last forward to each destination. On a single machine what was sent has arrived, and what
    /// was heard last is what was sent last.
    sent: Option<BTreeMap<PartitionId, Exchanged>>,
    /// Destinations that a forward was dropped for since they were last asked about.
    dropped: Vec<PartitionId>,
}

/// What a partition brings to the exchange.
pub(crate) struct Streams {
    pub(crate) id: PartitionId,
    pub(crate) heard: Heard,
    pub(crate) sent: Exchanged,
}

impl Exchange {
    pub(crate) fn new(streams: impl Iterator<Item = Streams>, in_fleet: bool) -> Self {
        let mut exchange = Self {
            inboxes: BTreeMap::new(),
            sent: in_fleet.then(BTreeMap::new),
            dropped: Vec::new(),
        };
        streams.for_each(|streams| exchange.add(streams));
        exchange
    }

    pub(crate) fn add(&mut self, streams: Streams) {
        let inbox = Inbox::new(streams.heard, HELD_MAX);
        self.inboxes.insert(streams.id, inbox);
        if let Some(sent) = &mut self.sent {
            sent.insert(streams.id, streams.sent);
        }
    }

    pub(crate) fn remove(&mut self, id: PartitionId) {
        self.inboxes.remove(&id);
        if let Some(sent) = &mut self.sent {
            sent.remove(&id);
        }
    }

    pub(crate) fn in_fleet(&self) -> bool {
        self.sent.is_some()
    }

    /// Makes entries of their destinations of links that entry `number` of `source` has for others. Returns what the
    /// source has to send, in a fleet. `forwards` has each destination once.
    pub(crate) fn pass_on(
        &mut self,
        source: PartitionId,
        number: u64,
        forwards: Vec<(PartitionId, Vec<LinkBatch>)>,
        mut entries: impl FnMut(PartitionId, Entry),
    ) -> Result<Vec<Forward>> {
        let mut sent = match &mut self.sent {
            Some(all) => Some(
                all.get_mut(&source)
                    .ok_or(RegistryError::NoPartition(source.0))?,
            ),
            None => None,
        };
        let mut leaving = Vec::new();
        for (to, pages) in forwards {
            let inbox = self.inboxes.get_mut(&to);
            let Some(sent) = &mut sent else {
                let inbox = inbox.ok_or(RegistryError::NoPartition(to.0))?;
                let predecessor = inbox.heard().last(source);
                arrive(inbox, origin(source, number, predecessor), pages, |entry| {
                    entries(to, entry);
                });
                continue;
            };
            let predecessor = sent.last(to);
            sent.send(to, number);
            let mut forward = Forward {
                to,
                predecessor,
                pages,
            };
            // One that has come here lately may have some forwards still on their way to it: then this one goes after them.
            if let Some(inbox) = inbox.filter(|inbox| inbox.heard().last(source) == predecessor) {
                let pages = std::mem::take(&mut forward.pages);
                arrive(inbox, origin(source, number, predecessor), pages, |entry| {
                    entries(to, entry);
                });
            }
            leaving.push(forward);
        }
        Ok(leaving)
    }

    /// A forward has come from another node. What it makes next is given to `entries`, in order; what was heard before
    /// makes nothing.
    pub(crate) fn arrive(
        &mut self,
        to: PartitionId,
        origin: Origin,
        pages: Vec<LinkBatch>,
        entries: impl FnMut(Entry),
    ) -> Result<()> {
        // One that was released meanwhile hears it elsewhere.
        let Some(inbox) = self.inboxes.get_mut(&to) else {
            return Ok(());
        };
        match arrive(inbox, origin, pages, entries) {
            Received::Astray => Err(RegistryError::Stream {
                partition: to.0,
                from: origin.source.0,
                number: origin.number,
                heard: inbox.heard().last(origin.source),
            }),
            Received::Dropped(_) => {
                self.dropped.push(to);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Has everything that arrived for this partition become entries of it?
    pub(crate) fn has_heard_all(&self, id: PartitionId) -> bool {
        let all = self.inboxes.get(&id).is_some_and(Inbox::holds_nothing);
        all && !self.dropped.contains(&id)
    }

    /// Was something dropped since the last call?
    pub(crate) fn take_dropped(&mut self, id: PartitionId) -> bool {
        let before = self.dropped.len();
        self.dropped.retain(|dropped| *dropped != id);
        self.dropped.len() < before
    }
}

fn origin(source: PartitionId, number: u64, predecessor: u64) -> Origin {
    Origin {
        source,
        number,
        predecessor,
    }
}

/// Hands on what the inbox lets through, in order.
fn arrive(
    inbox: &mut Inbox<Vec<LinkBatch>>,
    origin: Origin,
    pages: Vec<LinkBatch>,
    mut entries: impl FnMut(Entry),
) -> Received<()> {
    match inbox.arrive(origin, pages) {
        Received::Ready(pages) => {
            entries(Entry::heard(origin, pages));
            while let Some((origin, pages)) = inbox.released(origin.source) {
                entries(Entry::heard(origin, pages));
            }
            Received::Ready(())
        }
        Received::Known => Received::Known,
        Received::Held(ask) => Received::Held(ask),
        Received::Dropped(ask) => Received::Dropped(ask),
        Received::Astray => Received::Astray,
    }
}

/// Links of some pages of one source, by destination: what one forward to each of them holds.
#[derive(Debug, Default)]
pub(crate) struct Leaving {
    by_destination: Vec<(PartitionId, Vec<LinkBatch>)>,
    bytes: usize,
}

impl Leaving {
    /// What one page has for other partitions.
    pub(crate) fn add(&mut self, page: Vec<(PartitionId, LinkBatch)>) {
        for (to, batch) in one_per_destination(page) {
            self.bytes += batch.bytes();
            let mut known = self.by_destination.iter_mut();
            match known.find(|(known, _)| *known == to) {
                Some((_, pages)) => pages.push(batch),
                None => self.by_destination.push((to, vec![batch])),
            }
        }
    }

    /// Of all links, without the numbers around them.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(crate) fn into_forwards(self) -> Vec<(PartitionId, Vec<LinkBatch>)> {
        self.by_destination
    }
}

/// A page has one batch for each destination.
fn one_per_destination(forwards: Vec<(PartitionId, LinkBatch)>) -> Vec<(PartitionId, LinkBatch)> {
    let mut merged: Vec<(PartitionId, LinkBatch)> = Vec::with_capacity(forwards.len());
    for (partition, batch) in forwards {
        match merged.iter_mut().find(|(known, _)| *known == partition) {
            None => merged.push((partition, batch)),
            Some((_, into)) => into.append(&batch),
        }
    }
    merged
}
