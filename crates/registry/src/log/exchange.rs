//! The exchange: links that leave their partition for another one, put into the streams between the two.

use crate::error::{RegistryError, Result};
use crate::log::Entry;
use crate::log::stream::{Heard, Inbox, Origin, Received};
use portolan_model::{LinkBatch, PartitionId};
use std::collections::BTreeMap;

/// Forwards that a destination holds while others before them are missing.
const HELD_MAX: usize = 1024;

#[derive(Debug)]
pub(crate) struct Exchange {
    /// By destination.
    inboxes: BTreeMap<PartitionId, Inbox<LinkBatch>>,
}

impl Exchange {
    /// The destinations, and what they have heard.
    pub(crate) fn new(heard: impl Iterator<Item = (PartitionId, Heard)>) -> Self {
        let inbox = |(id, heard)| (id, Inbox::new(heard, HELD_MAX));
        Self {
            inboxes: heard.map(inbox).collect(),
        }
    }

    /// Makes entries of their destinations of links that entry `number` of `source` has for others.
    pub(crate) fn pass_on(
        &mut self,
        source: PartitionId,
        number: u64,
        forwards: Vec<(PartitionId, LinkBatch)>,
        mut entries: impl FnMut(PartitionId, Entry),
    ) -> Result<()> {
        for (destination, links) in one_per_destination(forwards) {
            let inbox = self.inboxes.get_mut(&destination);
            let inbox = inbox.ok_or(RegistryError::NoPartition(destination.0))?;
            // Between partitions of one process what was sent has arrived: what was heard last is what was sent last.
            let origin = Origin {
                source,
                number,
                predecessor: inbox.heard().last(source),
            };
            if let Received::Ready(links) = inbox.arrive(origin, links) {
                entries(destination, forward(origin, links));
                while let Some((origin, links)) = inbox.released(source) {
                    entries(destination, forward(origin, links));
                }
            }
        }
        Ok(())
    }
}

fn forward(origin: Origin, links: LinkBatch) -> Entry {
    let source = Some(origin);
    Entry::Links { source, links }
}

/// A stream has one forward of each entry.
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
