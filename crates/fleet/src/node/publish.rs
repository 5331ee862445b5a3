//! Sends links to other partitions. For one destination only one message is under way at a time: what was sent again after
//! a time-out cannot come after what follows it.

use super::Inner;
use crate::boottime_ms;
use crate::error::PublishError;
use crate::links::{Forward, Packed, object_key, pack, pack_key};
use crate::nats::{PATIENCE, PAUSE};
use crate::protocol::named_within_ms;
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
            let begun_ms = boottime_ms();
            let Packed {
                bytes: payload,
                forwards: packed,
            } = Self::message(rest, most)?;
            let (payload, is_object) = match payload.len() <= most {
                true => (payload.into(), false),
                false => (self.put(destination, payload).await?, true),
            };
            let bytes = payload.len() as u64;
            self.send(destination, payload).await?;
            let within_ms = named_within_ms(self.fleet.definition().lease_ms);
            if is_object && boottime_ms() > begun_ms + within_ms {
                // It may have been thrown away before it was named.
                continue;
            }
            self.link_messages.fetch_add(1, Ordering::Relaxed);
            self.link_bytes.fetch_add(bytes, Ordering::Relaxed);
            rest = &rest[packed..];
        }
        Ok(())
    }

    /// The next message. It is longer than `most` only where one page's links are.
    fn message(forwards: &[Forward], most: usize) -> Result<Packed, PublishError> {
        let mut raw_bytes = RAW_BYTES;
        loop {
            let packed = pack(forwards, raw_bytes);
            let packed = packed.map_err(|error| PublishError::Unavailable(error.to_string()))?;
            if packed.bytes.len() <= most || packed.forwards == 1 {
                return Ok(packed);
            }
            raw_bytes /= 2;
        }
    }

    /// Links that are more than a message go through the store. Gives the message that names them.
    async fn put(&self, destination: PartitionId, links: Vec<u8>) -> Result<Bytes, PublishError> {
        let key = object_key(destination);
        let key = key.map_err(|error| PublishError::Unavailable(error.to_string()))?;
        self.fleet.blobs().put(&key, links.into()).await;
        Ok(pack_key(&key).into())
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
