//! Takes links from this group to the other ones, while this node coordinates the group. `protocol::Ferry` says in which order,
//! and what may go from the `up` stream.

use super::Inner;
use crate::group::Group;
use crate::links;
use crate::names::{self, Names};
use crate::nats::{Followed, Follower, PAUSE, REQUEST};
use crate::pieces;
use crate::protocol::Ferry;
use async_nats::Request;
use async_nats::jetstream::message::PublishMessage;
use bytes::Bytes;
use portolan_model::PartitionId;
use std::collections::HashMap;
use std::sync::{Arc, PoisonError};
use std::time::Duration;
use tokio::task::JoinSet;

/// Messages to one group that are read ahead. A message has a megabyte at most, and commonly some kilobytes.
const AHEAD: usize = 64;

/// How often messages that have arrived are removed from the stream.
const PURGE: Duration = Duration::from_secs(1);

/// Before a message is tried again that did not arrive.
const AGAIN: Duration = Duration::from_secs(1);

/// A piece may have to wait for the other group's store.
const PIECE_PATIENCE: Duration = Duration::from_secs(30);

impl Inner {
    /// Takes what comes for one group there, for as long as the task lives.
    pub(super) async fn carry(self: Arc<Self>, group: Arc<Group>, to: String) {
        let bus = self.fleet.bus();
        let subjects = bus.names.up_subjects_to(&to);
        let there = Arc::new(There {
            names: Names(group.fleet_of(&to)),
            group: to,
        });
        let mut follower = Follower::new(
            &bus.js,
            bus.names.up_stream(),
            vec![subjects.clone()],
            1,
            AHEAD / 4,
        );
        let (mut ferry, mut waiting, mut gone) = (Ferry::default(), HashMap::new(), 0);
        let mut sending = JoinSet::new();
        let mut tick = tokio::time::interval(PURGE);
        loop {
            let next = tokio::select! {
                message = follower.next(), if ferry.outstanding() < AHEAD => {
                    let Followed { seq, subject, payload, .. } = message;
                    let Ok(partition) = names::last_token(&subject).parse::<u16>() else {
                        tracing::error!(subject, "a message for another group is for no partition");
                        continue;
                    };
                    waiting.insert(seq, payload);
                    ferry.came(seq, partition).then_some((seq, partition))
                }
                Some(arrived) = sending.join_next() => {
                    let Ok((seq, partition)) = arrived else { return };
                    waiting.remove(&seq);
                    ferry.arrived(seq, partition).map(|next| (next, partition))
                }
                _ = tick.tick() => {
                    let done = ferry.done();
                    if done > gone && self.purge_up(&subjects, done).await {
                        gone = done;
                    }
                    None
                }
            };
            if let Some((seq, partition)) = next
                && let Some(payload) = waiting.get(&seq).cloned()
            {
                let (inner, there) = (Arc::clone(&self), Arc::clone(&there));
                sending.spawn(async move {
                    inner.bring(&there, PartitionId(partition), payload).await;
                    (seq, partition)
                });
            }
        }
    }

    /// Returns once the other group's servers have the message, however long that takes.
    async fn bring(&self, there: &There, partition: PartitionId, payload: Bytes) {
        loop {
            match self.try_to_bring(there, partition, &payload).await {
                Ok(()) => {
                    self.not_taken().remove(&there.group);
                    return;
                }
                Err(why) => {
                    self.not_taken().insert(there.group.clone(), why);
                    tokio::time::sleep(AGAIN).await;
                }
            }
        }
    }

    async fn try_to_bring(
        &self,
        there: &There,
        partition: PartitionId,
        payload: &Bytes,
    ) -> Result<(), String> {
        let payload = match links::key_of(payload) {
            Some(key) => self.bring_pieces(there, &key).await?,
            None => payload.clone(),
        };
        let id = format!(
            "{}-{:032x}",
            partition.0,
            xxhash_rust::xxh3::xxh3_128(&payload)
        );
        let message = PublishMessage::build().payload(payload).message_id(&id);
        let subject = there.names.links_subject(partition);
        let sent = self.fleet.bus().js.send_publish(subject, message).await;
        let acknowledged = match sent {
            Ok(sent) => sent.await,
            Err(error) => Err(error),
        };
        acknowledged.map(drop).map_err(|error| error.to_string())
    }

    /// Links that are an object of this group's store: puts them into the other group's, and gives the message that names
    /// them there.
    async fn bring_pieces(&self, there: &There, key: &str) -> Result<Bytes, String> {
        let bytes = self.fleet.blobs().get(key).await;
        let bytes = bytes.ok_or_else(|| format!("{key} is missing from the store"))?;
        let from = self.fleet.group().map_or("", |group| group.name.as_str());
        let name = pieces::name(from, &bytes);
        let chunks = bytes.chunks(pieces::PIECE_BYTES);
        let count = chunks.len() as u32;
        for (piece, chunk) in (0..count).zip(chunks) {
            let request = Request::new()
                .payload(pieces::pack(&name, piece, chunk))
                .timeout(Some(PIECE_PATIENCE));
            let subject = there.names.pieces_subject();
            let answer = self.fleet.bus().client.send_request(subject, request).await;
            match answer {
                Ok(answer) if answer.payload[..] == *pieces::KEPT => {}
                Ok(_) => return Err("its nodes refuse a piece of links".to_owned()),
                Err(error) => return Err(error.to_string()),
            }
        }
        Ok(links::pack_pieces(&name, count).into())
    }

    /// False if it is to be tried again.
    async fn purge_up(&self, subjects: &str, to: u64) -> bool {
        let bus = self.fleet.bus();
        let Ok(stream) = bus.js.get_stream_no_info(bus.names.up_stream()).await else {
            return false;
        };
        let purge = stream.purge().filter(subjects).sequence(to + 1);
        let purged = tokio::time::timeout(REQUEST, async { purge.await }).await;
        matches!(purged, Ok(Ok(_)))
    }

    pub(super) fn not_taken(
        &self,
    ) -> std::sync::MutexGuard<'_, std::collections::BTreeMap<String, String>> {
        self.not_taken
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts pieces of links into this group's store that other groups bring, for as long as the node lives.
    pub(super) async fn serve_pieces(self: Arc<Self>) {
        let bus = self.fleet.bus();
        loop {
            let subject = bus.names.pieces_subject();
            // One of the group's nodes is enough.
            let subscribed = bus.client.queue_subscribe(subject, QUEUE.to_owned()).await;
            if let Ok(mut pieces) = subscribed {
                while let Some(message) = futures_util::StreamExt::next(&mut pieces).await {
                    let Some(reply) = message.reply else { continue };
                    let kept = pieces::keep(self.fleet.blobs(), &message.payload).await;
                    let answer = if kept { pieces::KEPT } else { b"none" };
                    let _ = bus.client.publish(reply, Bytes::from_static(answer)).await;
                }
            }
            tokio::time::sleep(PAUSE).await;
        }
    }
}

/// Nodes of a group that share questions from other groups.
pub(super) const QUEUE: &str = "nodes";

/// Another group.
struct There {
    group: String,
    names: Names,
}
