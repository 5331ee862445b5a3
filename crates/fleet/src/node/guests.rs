//! Guests: a node that has to ask a host which another node looks after, as a redirect of some robots.txt makes it, asks
//! that node for leave. It says when it is done, and how long the host is to be left alone then.

use super::{Inner, Node};
use crate::fleet::Fleet;
use async_nats::Request;
use bytes::Bytes;
use portolan_model::{HostId, PartitionId};
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;

/// A node that says nothing for this time is not there.
const ANSWER: Duration = Duration::from_secs(2);
/// Attempts to say that a visit is over. If none is heard, the host waits for as long as a visit may take.
const FAREWELLS: usize = 3;
/// Questions that wait for the node; those beyond are lost, and asked again.
const QUESTIONS: usize = 1_024;

/// What a guest says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GuestSays {
    /// May I send one request to the host?
    MayI { partition: u16, host: u64 },
    /// I have, or I will not; leave the host alone for this time from now on.
    Done { visit: u64, rest_ms: u64 },
}

/// What the node says that looks after the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HostSays {
    /// One request, if it begins at once. The host asks for this pause after each, if it is known.
    Come { visit: u64, delay_ms: Option<u32> },
    /// Not now; ask again after this time.
    Later { ms: u64 },
    /// I have heard that you are done.
    Farewell,
}

/// What a guest says, to be answered once.
pub struct Guest {
    pub says: GuestSays,
    inner: Arc<Inner>,
    reply: async_nats::Subject,
}

impl Guest {
    /// Who does not hear it asks again.
    pub async fn answer(self, says: HostSays) {
        let json = serde_json::to_vec(&says).unwrap_or_default();
        let client = &self.inner.fleet.bus().client;
        if let Err(error) = client.publish(self.reply, json.into()).await {
            tracing::debug!(%error, "a guest was not answered");
        }
    }
}

impl Fleet {
    /// The node that looks after a partition now.
    pub async fn holder_of(&self, partition: PartitionId) -> Option<String> {
        let (_, assignment) = self.assignment().await.ok()?;
        let share = assignment.shares.get(usize::from(partition.0))?;
        Some(share.holder.as_ref()?.node.clone())
    }
}

impl Node {
    /// Asks `holder` for leave to send one request to a host of its partition. `None`: it does not answer.
    pub async fn ask_as_guest(
        &self,
        holder: &str,
        partition: PartitionId,
        host: HostId,
    ) -> Option<HostSays> {
        let says = GuestSays::MayI {
            partition: partition.0,
            host: host.0,
        };
        self.say_as_guest(holder, says).await
    }

    /// The visit is over.
    pub async fn leave_as_guest(&self, holder: &str, visit: u64, rest_ms: u64) {
        let says = GuestSays::Done { visit, rest_ms };
        for _ in 0..FAREWELLS {
            if self.say_as_guest(holder, says).await.is_some() {
                return;
            }
        }
    }

    async fn say_as_guest(&self, holder: &str, says: GuestSays) -> Option<HostSays> {
        let bus = self.inner.fleet.bus();
        let json = serde_json::to_vec(&says).ok()?;
        let request = Request::new().payload(json.into()).timeout(Some(ANSWER));
        let subject = bus.names.guest_subject(holder);
        let answer = bus.client.send_request(subject, request).await.ok()?;
        serde_json::from_slice(&answer.payload).ok()
    }

    /// What guests say to this node, as long as it lives.
    pub fn serve_guests(&self) -> mpsc::Receiver<Guest> {
        let (says, hears) = mpsc::channel(QUESTIONS);
        let inner = &self.inner;
        let subject = inner.fleet.bus().names.guest_subject(&inner.me.node);
        tokio::spawn(Arc::clone(inner).hear(subject, move |inner, message| {
            let guest = read(&message.payload).zip(message.reply.clone());
            let says = says.clone();
            async move {
                if let Some((what, reply)) = guest {
                    let guest = Guest {
                        says: what,
                        inner,
                        reply,
                    };
                    let _ = says.send(guest).await;
                }
            }
        }));
        hears
    }
}

fn read(payload: &Bytes) -> Option<GuestSays> {
    serde_json::from_slice(payload).ok()
}
