//! Sends links to other partitions. For one destination only one message is under way at a time: what was sent again after
//! a time-out cannot come after what follows it.

use super::Inner;
use crate::error::PublishError;
use crate::links::{Forward, pack, pack_key};
use crate::nats::{PATIENCE, PAUSE};
use crate::ship::full_text;
use async_nats::jetstream::message::PublishMessage;
use bytes::Bytes;
use portolan_model::PartitionId;
use std::sync::PoisonError;
use std::sync::atomic::Ordering;
use std::time::Instant;

/// Of unpacked links in a message.
const RAW_BYTES: usize = 1 << 20;

/// Left for headers.
const HEADERS: usize = 4 << 10;

impl Inner {
    pub(super) async fn publish(
        &self,
        destination: PartitionId,
        forwards: &[Forward],
    ) -> Result<(), PublishError> {
        let turn = {
            let mut destinations = self
                .destinations
                .lock()
                .unwrap_or_else(PoisonError::into_inner);
            destinations.entry(destination).or_default().clone()
        };
        let _turn = turn.lock().await;
        let most = self
            .fleet
            .bus()
            .client
            .max_payload()
            .saturating_sub(HEADERS);
        let mut rest = forwards;
        while !rest.is_empty() {
            let (payload, packed) = self.message(destination, rest, most).await?;
            let bytes = payload.len() as u64;
            self.send(destination, payload).await?;
            self.link_messages.fetch_add(1, Ordering::Relaxed);
            self.link_bytes.fetch_add(bytes, Ordering::Relaxed);
            rest = &rest[packed..];
        }
        Ok(())
    }

    /// The next message, and how many forwards are in it.
    async fn message(
        &self,
        destination: PartitionId,
        forwards: &[Forward],
        most: usize,
    ) -> Result<(Bytes, usize), PublishError> {
        let mut raw_bytes = RAW_BYTES;
        loop {
            let packed = pack(forwards, raw_bytes);
            let packed = packed.map_err(|error| PublishError::Unavailable(error.to_string()))?;
            if packed.bytes.len() <= most {
                return Ok((packed.bytes.into(), packed.forwards));
            }
            if packed.forwards > 1 {
                raw_bytes /= 2;
                continue;
            }
            // One page's links are more than a message: they go through the store.
            let hash = xxhash_rust::xxh3::xxh3_128(&packed.bytes);
            let key = format!("links/p{:05}/{hash:032x}", destination.0);
            self.fleet.blobs().put(&key, packed.bytes.into()).await;
            return Ok((pack_key(&key).into(), 1));
        }
    }

    async fn send(&self, destination: PartitionId, payload: Bytes) -> Result<(), PublishError> {
        let bus = self.fleet.bus();
        // What is for another group waits in a stream of its own until it has arrived there.
        let subject = match self.fleet.group() {
            Some(group) if !group.is_mine(destination) => {
                bus.names.up_subject(group.owner(destination), destination)
            }
            _ => bus.names.links_subject(destination),
        };
        let id = format!(
            "{}-{:032x}",
            destination.0,
            xxhash_rust::xxh3::xxh3_128(&payload)
        );
        let begun = Instant::now();
        loop {
            let message = PublishMessage::build()
                .payload(payload.clone())
                .message_id(&id);
            let sent = bus.js.send_publish(subject.clone(), message).await;
            let acknowledged = match sent {
                Ok(sent) => sent.await,
                Err(error) => Err(error),
            };
            let why = match acknowledged {
                Ok(_) => return Ok(()),
                Err(error) => full_text(&error),
            };
            if begun.elapsed() > PATIENCE {
                return Err(PublishError::Unavailable(why));
            }
            tokio::time::sleep(PAUSE).await;
        }
    }
}
