//! A bucket of keys whose values change by compare-and-swap. What timed out is read again before it is tried again.

use super::{PATIENCE, PAUSE, REQUEST, patiently};
use crate::error::FleetError;
use async_nats::HeaderMap;
use async_nats::jetstream::Context;
use async_nats::jetstream::context::PublishErrorKind;
use async_nats::jetstream::kv;
use async_nats::jetstream::message::PublishMessage;
use async_nats::jetstream::stream::{self, LastRawMessageErrorKind};
use bytes::Bytes;
use std::time::Instant;

const OPERATION: &str = "KV-Operation";

/// What a key holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    /// 0 if nothing was ever written.
    pub(crate) revision: u64,
    /// `None` if it was deleted, too.
    pub(crate) value: Option<Bytes>,
    /// When it was written, in milliseconds of the server's time of day.
    pub(crate) written_ms: u64,
}

/// What became of a compare-and-swap.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Swap {
    Done(u64),
    /// Somebody else wrote it: this is there now.
    Lost(Entry),
}

#[derive(Clone)]
pub(crate) struct Kv {
    js: Context,
    stream: stream::Stream<()>,
    bucket: String,
    /// Before the subjects that are written: the way to another JetStream domain, or nothing.
    way: String,
}

impl Kv {
    /// Makes the bucket if it is not there.
    pub(crate) async fn create(
        js: &Context,
        bucket: &str,
        replicas: usize,
    ) -> Result<Self, FleetError> {
        let config = kv::Config {
            bucket: bucket.to_owned(),
            history: 1,
            num_replicas: replicas,
            storage: stream::StorageType::File,
            ..kv::Config::default()
        };
        let made = js.create_key_value(config).await;
        made.map_err(|error| FleetError::Refused(error.to_string()))?;
        Self::open(js, bucket).await
    }

    pub(crate) async fn open(js: &Context, bucket: &str) -> Result<Self, FleetError> {
        let stream = js.get_stream_no_info(Self::stream_name(bucket)).await;
        let stream = stream.map_err(|error| FleetError::Unavailable(error.to_string()))?;
        Ok(Self {
            js: js.clone(),
            stream,
            bucket: bucket.to_owned(),
            way: String::new(),
        })
    }

    /// Of another JetStream domain, which leaf connections lead to. `js` must be of that domain, too. Servers do not let
    /// buckets' own subjects pass from one domain to another, but for this way.
    pub(crate) async fn open_in(
        js: &Context,
        bucket: &str,
        domain: &str,
    ) -> Result<Self, FleetError> {
        Ok(Self {
            way: format!("$JS.{domain}.API."),
            ..Self::open(js, bucket).await?
        })
    }

    pub(crate) fn stream_name(bucket: &str) -> String {
        format!("KV_{bucket}")
    }

    pub(crate) fn subject(&self, key: &str) -> String {
        format!("$KV.{}.{key}", self.bucket)
    }

    /// As the stream's leader has it.
    pub(crate) async fn get(&self, key: &str) -> Result<Entry, FleetError> {
        patiently(|| self.get_now(key)).await
    }

    /// The same, but asked once: who is away is not waited for.
    pub(crate) async fn get_once(&self, key: &str) -> Result<Entry, FleetError> {
        match tokio::time::timeout(REQUEST, self.get_now(key)).await {
            Ok(entry) => entry,
            Err(_) => Err(FleetError::Unavailable(format!(
                "no answer in {} s",
                REQUEST.as_secs()
            ))),
        }
    }

    async fn get_now(&self, key: &str) -> Result<Entry, FleetError> {
        match self
            .stream
            .get_last_raw_message_by_subject(&self.subject(key))
            .await
        {
            Ok(message) => Ok(Entry {
                revision: message.sequence,
                value: value(Some(&message.headers), message.payload),
                written_ms: u64::try_from(message.time.unix_timestamp_nanos() / 1_000_000)
                    .unwrap_or(0),
            }),
            Err(error) if error.kind() == LastRawMessageErrorKind::NoMessageFound => Ok(Entry {
                revision: 0,
                value: None,
                written_ms: 0,
            }),
            Err(error) => Err(FleetError::Unavailable(error.to_string())),
        }
    }

    /// Writes `value` (`None`: deletes) if the key's revision is still `revision`. The value must be one that nobody
    /// else would write. `Unavailable` if nobody knows what became of it: then it may yet be written.
    pub(crate) async fn swap(
        &self,
        key: &str,
        value: Option<Bytes>,
        revision: u64,
    ) -> Result<Swap, FleetError> {
        let begun = Instant::now();
        loop {
            let kind = match self.publish(key, value.clone(), Some(revision)).await {
                Ok(written) => return Ok(Swap::Done(written)),
                Err(kind) => kind,
            };
            match self.get(key).await {
                Ok(entry) if entry.revision > revision && entry.value == value => {
                    return Ok(Swap::Done(entry.revision));
                }
                Ok(entry) if entry.revision != revision => return Ok(Swap::Lost(entry)),
                Ok(_) | Err(_) if begun.elapsed() < PATIENCE => tokio::time::sleep(PAUSE).await,
                Ok(_) | Err(_) => return Err(FleetError::Unavailable(kind)),
            }
        }
    }

    /// Writes whatever is there.
    pub(crate) async fn put(&self, key: &str, value: Bytes) -> Result<u64, FleetError> {
        let written = self.publish(key, Some(value), None).await;
        written.map_err(FleetError::Unavailable)
    }

    async fn publish(
        &self,
        key: &str,
        value: Option<Bytes>,
        revision: Option<u64>,
    ) -> Result<u64, String> {
        let mut headers = HeaderMap::new();
        if value.is_none() {
            headers.insert(OPERATION, "DEL");
        }
        let mut message = PublishMessage::build().headers(headers);
        if let Some(revision) = revision {
            message = message.expected_last_subject_sequence(revision);
        }
        let message = message.payload(value.unwrap_or_default());
        let subject = format!("{}{}", self.way, self.subject(key));
        let sent = self.js.send_publish(subject, message).await;
        let acknowledged = match sent {
            Ok(sent) => sent.await,
            Err(error) => Err(error),
        };
        match acknowledged {
            Ok(acknowledgement) => Ok(acknowledgement.sequence),
            Err(error) if error.kind() == PublishErrorKind::WrongLastSequence => {
                Err("another one wrote it".to_owned())
            }
            Err(error) => Err(error.to_string()),
        }
    }
}

/// What a message of the bucket's stream says of its key.
pub(crate) fn value(headers: Option<&HeaderMap>, payload: Bytes) -> Option<Bytes> {
    let deleted = headers.is_some_and(|headers| headers.get(OPERATION).is_some());
    (!deleted).then_some(payload)
}
