//! Work goes to crawl-clients, and what they bring back comes: questions and answers on subjects of each seed-server.

use super::{Inner, Node};
use crate::fleet::Fleet;
use crate::grants::{
    Answer, Brought, HandIn, Want, Work, pack_back, pack_key, unpack_answer, unpack_back, unpacked,
    with_time,
};
use crate::nats::PAUSE;
use async_nats::{Message, Request};
use bytes::Bytes;
use futures_util::StreamExt;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Semaphore, mpsc};
use xxhash_rust::xxh3::xxh3_128;

/// A server that has nothing for a client says so within a second; one that says nothing for this time is not there.
const ANSWER: Duration = Duration::from_secs(5);
/// The entries of a return wait for room in the server's buffers.
const TAKEN: Duration = Duration::from_secs(15);
/// An answer that is too large for a message is put into the store within this time, or nothing of it was given.
const PUT: Duration = Duration::from_secs(2);
/// And read there within this time, or its grants expire.
const FETCHED: Duration = Duration::from_secs(20);
/// Left for headers.
const HEADERS: usize = 4 << 10;
/// Questions that wait for the server; those beyond are lost, and asked again.
const QUESTIONS: usize = 1_024;
/// Returns that are read from the store at once; those beyond are lost, and brought again.
const READ_AT_ONCE: usize = 8;
/// Where they are.
const RETURNS: &str = "returns";

/// A client's question, to be answered once.
pub struct Asked {
    pub want: Want,
    reply: Reply,
}

/// What a client brings, to be acknowledged once.
pub struct HandedIn {
    pub brought: Brought,
    reply: Reply,
    /// Where in the store it came from.
    key: Option<String>,
}

/// What came of a grant, as it goes to its server.
pub struct PackedReturn {
    body: Vec<u8>,
    bytes: usize,
    /// Where in the store it is, if no message can hold it.
    key: Option<String>,
}

struct Reply {
    inner: Arc<Inner>,
    subject: async_nats::Subject,
}

impl Reply {
    /// Who does not hear it asks again. An error is why it did not leave.
    async fn send(self, payload: Bytes) -> Result<(), String> {
        let sent = self
            .inner
            .fleet
            .bus()
            .client
            .publish(self.subject, payload)
            .await;
        sent.map_err(|error| error.to_string())
    }
}

impl Asked {
    /// Returns how many bytes went out. An error is why nothing did: nobody has the grants.
    pub async fn answer(self, work: &Work) -> Result<usize, String> {
        let mut packed = work.pack().map_err(|error| error.to_string())?;
        let bytes = packed.len();
        let inner = Arc::clone(&self.reply.inner);
        if bytes > inner.most_bytes() {
            let key = inner.key_of("grants", &inner.me.node, &packed);
            let put = inner.fleet.blobs().put(&key, packed.into());
            if tokio::time::timeout(PUT, put).await.is_err() {
                let why = inner.fleet.blobs().trouble().unwrap_or_default();
                return Err(format!("{bytes} bytes were not put into the store: {why}"));
            }
            packed = pack_key(&key);
        }
        self.reply.send(packed.into()).await?;
        Ok(bytes)
    }
}

impl HandedIn {
    /// `taken`: it is in the server's hands. Otherwise its grant is over, and nothing of it counts.
    pub async fn answer(self, taken: bool) {
        if let Some(key) = self.key {
            // Nobody needs it any more.
            let blobs = self.reply.inner.fleet.blobs().clone();
            tokio::spawn(async move { blobs.delete(&key).await });
        }
        self.reply.settle(taken).await;
    }
}

impl Reply {
    async fn settle(self, taken: bool) {
        let word: &'static [u8] = if taken { b"taken" } else { b"over" };
        if let Err(why) = self.send(Bytes::from_static(word)).await {
            tracing::debug!(why, "a return was not acknowledged");
        }
    }
}

impl Fleet {
    /// The nodes that hold partitions now: those that a crawl-client asks for work.
    pub async fn holders(&self) -> Option<BTreeSet<String>> {
        let (_, assignment) = self.assignment().await.ok()?;
        let holders = assignment.shares.iter();
        Some(
            holders
                .filter_map(|share| Some(share.holder.as_ref()?.node.clone()))
                .collect(),
        )
    }
}

impl Node {
    /// Asks a seed-server for work; `None` if it is not there now. Also how many bytes came.
    pub async fn ask_for_work(&self, server: &str, want: &Want) -> Option<(Work, usize)> {
        let bus = self.inner.fleet.bus();
        let json = serde_json::to_vec(want).ok()?;
        let request = Request::new().payload(json.into()).timeout(Some(ANSWER));
        let subject = bus.names.work_subject(server);
        let answer = bus.client.send_request(subject, request).await.ok()?;
        match unpack_answer(&answer.payload)? {
            Answer::Here(work) => Some((work, answer.payload.len())),
            Answer::Key(key) => self.fetch_work(key).await,
        }
    }

    async fn fetch_work(&self, key: String) -> Option<(Work, usize)> {
        let blobs = self.inner.fleet.blobs().clone();
        let Ok(bytes) = tokio::time::timeout(FETCHED, blobs.get(&key)).await else {
            tracing::warn!(key, "grants were not read from the store in time");
            return None;
        };
        let bytes = bytes?;
        tokio::spawn(async move { blobs.delete(&key).await });
        Some((Work::unpack(&bytes)?, bytes.len()))
    }

    /// Makes what came of a grant ready for its server; the store has it, if it is large. `None` if it cannot be packed.
    pub async fn pack_return(&self, server: &str, back: &[u8]) -> Option<PackedReturn> {
        let mut body = pack_back(back).ok()?;
        let (bytes, mut key) = (body.len(), None);
        if bytes > self.inner.most_bytes() {
            let name = self.inner.key_of(RETURNS, server, &body);
            self.inner.fleet.blobs().put(&name, body.into()).await;
            body = pack_key(&name);
            key = Some(name);
        }
        Some(PackedReturn { body, bytes, key })
    }

    /// Hands in what came of a grant. `Some(true)`: the server has it; `Some(false)`: the grant is over, and nothing of it counts;
    /// `None`: nobody knows, try again. `now_ms` is read when the message leaves. Also how many bytes left.
    pub async fn hand_in(
        &self,
        server: &str,
        now_ms: impl Fn() -> u64,
        packed: &PackedReturn,
    ) -> (Option<bool>, usize) {
        let bus = self.inner.fleet.bus();
        let request = Request::new()
            .payload(with_time(now_ms(), &packed.body))
            .timeout(Some(TAKEN));
        let subject = bus.names.back_subject(server);
        let answer = bus.client.send_request(subject, request).await;
        let taken = answer.ok().and_then(|answer| match &answer.payload[..] {
            b"taken" => Some(true),
            b"over" => Some(false),
            _ => None,
        });
        (taken, packed.bytes)
    }

    /// It is not handed in again, though its server has not said anything.
    pub fn give_up_return(&self, packed: PackedReturn) {
        if let Some(key) = packed.key {
            let blobs = self.inner.fleet.blobs().clone();
            tokio::spawn(async move { blobs.delete(&key).await });
        }
    }

    /// What clients ask of this server, and what they bring, as long as the node lives.
    pub fn serve_clients(&self) -> (mpsc::Receiver<Asked>, mpsc::Receiver<HandedIn>) {
        let (asked, questions) = mpsc::channel(QUESTIONS);
        let (handed_in, returns) = mpsc::channel(QUESTIONS);
        let inner = &self.inner;
        let name = &inner.me.node;
        let work = inner.fleet.bus().names.work_subject(name);
        let back = inner.fleet.bus().names.back_subject(name);
        tokio::spawn(Arc::clone(inner).hear(work, move |inner, message| {
            let want = serde_json::from_slice(&message.payload).ok();
            let reply = reply(&inner, &message);
            let asked = asked.clone();
            async move {
                if let (Some(want), Some(reply)) = (want, reply) {
                    let _ = asked.send(Asked { want, reply }).await;
                }
            }
        }));
        let places = Arc::new(Semaphore::new(READ_AT_ONCE));
        tokio::spawn(Arc::clone(inner).hear(back, move |inner, message| {
            let (handed_in, places) = (handed_in.clone(), Arc::clone(&places));
            async move {
                let Some(reply) = reply(&inner, &message) else {
                    return;
                };
                match unpack_back(&message.payload) {
                    Some(HandIn::Here(brought)) => {
                        let key = None;
                        let one = HandedIn {
                            brought,
                            reply,
                            key,
                        };
                        let _ = handed_in.send(one).await;
                    }
                    // What waits for the store holds up nobody else.
                    Some(HandIn::Key { now_ms, key }) => {
                        let Ok(place) = places.try_acquire_owned() else {
                            return;
                        };
                        tokio::spawn(async move {
                            inner.fetch_back((now_ms, key), reply, &handed_in).await;
                            drop(place);
                        });
                    }
                    None => tracing::error!("what was handed in cannot be read"),
                }
            }
        }));
        (questions, returns)
    }
}

fn reply(inner: &Arc<Inner>, message: &Message) -> Option<Reply> {
    Some(Reply {
        inner: Arc::clone(inner),
        subject: message.reply.clone()?,
    })
}

impl Inner {
    /// What a message may have.
    fn most_bytes(&self) -> usize {
        let most = self.fleet.bus().client.max_payload();
        most.saturating_sub(HEADERS)
    }

    /// Where in the store something is that is too large for a message to or from a server.
    fn key_of(&self, what: &str, server: &str, bytes: &[u8]) -> String {
        format!("{what}/{server}/{:032x}", xxh3_128(bytes))
    }

    pub(super) async fn hear<F: Future<Output = ()> + Send>(
        self: Arc<Self>,
        subject: String,
        heard: impl Fn(Arc<Self>, Message) -> F + Send,
    ) {
        loop {
            if self.end.is_cancelled() {
                return;
            }
            if let Ok(mut messages) = self.fleet.bus().client.subscribe(subject.clone()).await {
                loop {
                    let message = tokio::select! {
                        () = self.end.cancelled() => return,
                        message = messages.next() => message,
                    };
                    match message {
                        Some(message) => heard(Arc::clone(&self), message).await,
                        None => break,
                    }
                }
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    async fn fetch_back(
        &self,
        (now_ms, key): (u64, String),
        reply: Reply,
        handed_in: &mpsc::Sender<HandedIn>,
    ) {
        let is_ours = key.starts_with(&format!("{RETURNS}/{}/", self.me.node));
        let bytes = match is_ours {
            true => self.fleet.blobs().get(&key).await,
            false => None,
        };
        match bytes.and_then(|bytes| unpacked(&bytes)) {
            Some(back) => {
                let one = HandedIn {
                    brought: Brought { now_ms, back },
                    reply,
                    key: Some(key),
                };
                let _ = handed_in.send(one).await;
            }
            // It was handed in before.
            None => reply.settle(false).await,
        }
    }
}
