//! Reads the links that other nodes send to the partitions of this one, and has the archivist log them.

use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use portolan_fleet::{Delivery, Inbox};
use portolan_model::PartitionId;
use portolan_registry::{Forwarded, Origin};
use tokio::sync::oneshot;

use super::agent::Agent;
use crate::commit::{Heard, ToArchivist};
use crate::error::CrawlError;

/// Forwards that are logged together, at most by a message more.
const TOGETHER: usize = 1000;

/// An inbox that cannot be opened is tried again after this time.
const TRY_AGAIN: Duration = Duration::from_secs(1);

/// Reads a partition's inbox from behind `cursor` on, until the partition goes.
pub(super) fn begin(agent: &Arc<Agent>, partition: PartitionId, cursor: u64) {
    let listening = Arc::clone(agent);
    let task = tokio::spawn(async move {
        if let Err(error) = listen(&listening, partition, cursor).await {
            listening.shared.fail(error);
        }
    });
    agent.note_listener(partition, task.abort_handle());
}

async fn listen(agent: &Agent, partition: PartitionId, mut cursor: u64) -> Result<(), CrawlError> {
    loop {
        let mut inbox = match agent.fleet.inbox(partition, cursor).await {
            Ok(inbox) => inbox,
            Err(error @ portolan_fleet::FleetError::Cut { .. }) => {
                return Err(CrawlError::Fleet(error.to_string()));
            }
            Err(error) => {
                tracing::warn!(partition = partition.0, %error, "an inbox cannot be opened");
                tokio::time::sleep(TRY_AGAIN).await;
                continue;
            }
        };
        loop {
            agent.may_hear().await;
            let (read_to, forwards) = read(&mut inbox, partition).await?;
            let (heard, answer) = oneshot::channel();
            agent.note_heard(forwards.len());
            let told = ToArchivist::Hear {
                partition,
                cursor: read_to,
                forwards,
                heard,
            };
            if !agent.membership.tell_archivist(told).await {
                return Ok(());
            }
            match answer.await {
                Ok(Heard::All) => cursor = read_to,
                Ok(Heard::Held) => {}
                Ok(Heard::Dropped) => break,
                Err(_) => return Ok(()),
            }
        }
    }
}

/// What there is, but one message at least.
async fn read(
    inbox: &mut Inbox,
    partition: PartitionId,
) -> Result<(u64, Vec<Forwarded>), CrawlError> {
    let mut forwards = Vec::new();
    let mut delivery = inbox.next().await;
    loop {
        let cursor = delivery.cursor;
        unpack(delivery, partition, &mut forwards)?;
        if forwards.len() >= TOGETHER {
            return Ok((cursor, forwards));
        }
        match inbox.next().now_or_never() {
            Some(next) => delivery = next,
            None => return Ok((cursor, forwards)),
        }
    }
}

fn unpack(
    delivery: Delivery,
    partition: PartitionId,
    into: &mut Vec<Forwarded>,
) -> Result<(), CrawlError> {
    for forward in delivery.forwards {
        let origin = Origin {
            source: forward.source,
            number: forward.number,
            predecessor: forward.predecessor,
        };
        let decoded = Forwarded::decode(partition, origin, &forward.body);
        let decoded = decoded.ok_or_else(|| {
            CrawlError::Fleet(format!(
                "links of partition {} to partition {} cannot be read (message {})",
                forward.source.0, partition.0, delivery.cursor
            ))
        })?;
        into.push(decoded);
    }
    Ok(())
}
