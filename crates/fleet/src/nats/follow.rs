//! Follows a stream from a message on, in its order, whatever happens to servers and connections meanwhile.

use super::{PAUSE, kv};
use async_nats::jetstream::Context;
use async_nats::jetstream::consumer::{AckPolicy, Consumer, DeliverPolicy, pull};
use bytes::Bytes;
use futures_util::StreamExt;
use std::convert::Infallible;
use std::time::Duration;
use tokio::sync::mpsc;

/// A server that says nothing for twice this long is not there any more.
const HEARTBEAT: Duration = Duration::from_secs(2);

/// A message of a stream.
#[derive(Clone, Debug)]
pub(crate) struct Followed {
    pub(crate) seq: u64,
    pub(crate) subject: String,
    pub(crate) payload: Bytes,
    /// In a bucket's stream: what the key holds now.
    pub(crate) value: Option<Bytes>,
}

/// Follows in a task of its own, so that waiting for a message can be given up at any time. The task ends when this is
/// dropped.
pub(crate) struct Follower {
    messages: mpsc::Receiver<Followed>,
}

impl Follower {
    /// From message `from` on, those whose subjects match one of `filters`. At most about twice `batch` messages wait
    /// here.
    pub(crate) fn new(
        js: &Context,
        stream: String,
        filters: Vec<String>,
        from: u64,
        batch: usize,
    ) -> Self {
        let (sender, messages) = mpsc::channel(batch);
        let place = Place {
            js: js.clone(),
            stream,
            filters,
            next: from.max(1),
            batch,
        };
        tokio::spawn(async move {
            tokio::select! {
                () = sender.closed() => {}
                () = place.follow(&sender) => {}
            }
        });
        Self { messages }
    }

    /// The next message. May be dropped at any time; nothing is lost.
    pub(crate) async fn next(&mut self) -> Followed {
        match self.messages.recv().await {
            Some(followed) => followed,
            // The runtime is coming to its end.
            None => std::future::pending().await,
        }
    }
}

/// How far a stream was followed.
struct Place {
    js: Context,
    stream: String,
    filters: Vec<String>,
    /// The first message that was not given out.
    next: u64,
    batch: usize,
}

impl Place {
    async fn follow(mut self, sender: &mpsc::Sender<Followed>) {
        loop {
            let Err(error) = self.attempt(sender).await;
            tracing::debug!(stream = self.stream, error, "following anew");
            tokio::time::sleep(PAUSE).await;
        }
    }

    async fn attempt(&mut self, sender: &mpsc::Sender<Followed>) -> Result<Infallible, String> {
        let mut messages =
            begin(&self.js, &self.stream, &self.filters, self.next, self.batch).await?;
        // Consumers number what they deliver: a hole means that something was lost on the way.
        let mut delivered = 0;
        loop {
            let message = messages.next().await.ok_or("the stream ended")?;
            let message = message.map_err(|error| error.to_string())?;
            let info = message.info().map_err(|error| error.to_string())?;
            delivered += 1;
            if info.consumer_sequence != delivered {
                return Err("a message was lost on the way".to_owned());
            }
            let seq = info.stream_sequence;
            let message = message.message;
            let followed = Followed {
                seq,
                subject: message.subject.to_string(),
                value: kv::value(message.headers.as_ref(), message.payload.clone()),
                payload: message.payload,
            };
            sender
                .send(followed)
                .await
                .map_err(|error| error.to_string())?;
            self.next = seq + 1;
        }
    }
}

async fn begin(
    js: &Context,
    stream: &str,
    filters: &[String],
    from: u64,
    batch: usize,
) -> Result<pull::Stream, String> {
    let config = pull::Config {
        deliver_policy: DeliverPolicy::ByStartSequence {
            start_sequence: from,
        },
        ack_policy: AckPolicy::None,
        filter_subjects: filters.to_vec(),
        memory_storage: true,
        num_replicas: 1,
        inactive_threshold: Duration::from_secs(30),
        ..pull::Config::default()
    };
    let consumer: Result<Consumer<pull::Config>, _> =
        js.create_consumer_on_stream(config, stream).await;
    let consumer = consumer.map_err(|error| error.to_string())?;
    let messages = consumer
        .stream()
        .max_messages_per_batch(batch)
        .heartbeat(HEARTBEAT)
        .expires(Duration::from_secs(10))
        .messages();
    messages.await.map_err(|error| error.to_string())
}
