//! Writes the ship log, each record where the node expects its own last one to be: whoever was sealed meanwhile is
//! refused.

use crate::error::{FleetError, ShipError};
use crate::nats::{Bus, PATIENCE, PAUSE, patiently};
use crate::records::{Commit, Incarnation, ShipRecord, Shipped};
use async_nats::jetstream::context::PublishErrorKind;
use async_nats::jetstream::message::{PublishMessage, StreamMessage};
use async_nats::jetstream::stream::{LastRawMessageErrorKind, Stream};
use bytes::Bytes;
use std::time::Instant;
use tokio::sync::Mutex;

/// Headers that every record has, so that the last one tells them whatever it is.
const PAGES: &str = "Portolan-Pages";
const COMMIT: &str = "Portolan-Commit";

/// The subject of one node.
pub(crate) struct Ship {
    bus: Bus,
    stream: Stream<()>,
    node: String,
    subject: String,
    place: Mutex<Place>,
}

/// Where a node is in its subject.
#[derive(Clone, Debug, Default)]
struct Place {
    /// Its last record; 0 if it has none.
    last: u64,
    last_commit: u64,
    pages: u64,
    fenced: Option<String>,
}

/// The last record of a subject, with what its headers tell.
pub(crate) struct Last {
    pub(crate) shipped: Shipped,
    pub(crate) last_commit: u64,
    pub(crate) pages: u64,
    payload: Bytes,
}

/// What became of one attempt.
enum Attempt {
    Done(u64),
    /// Another record is there.
    Refused,
    Unknown(String),
}

/// What was found after an attempt that failed.
enum Found {
    /// The record is there.
    It(u64),
    Fenced(String),
    /// Nothing new, or older records of this process.
    UpTo(u64),
}

impl Ship {
    pub(crate) async fn open(bus: &Bus, node: &str) -> Result<Self, FleetError> {
        let stream = bus.js.get_stream_no_info(bus.names.ship_stream()).await;
        let stream = stream.map_err(|error| FleetError::Unavailable(error.to_string()))?;
        Ok(Self {
            subject: bus.names.ship_subject(node),
            node: node.to_owned(),
            bus: bus.clone(),
            stream,
            place: Mutex::default(),
        })
    }

    /// The last record of the subject.
    pub(crate) async fn last(&self) -> Result<Option<Last>, FleetError> {
        patiently(|| async {
            match self
                .stream
                .get_last_raw_message_by_subject(&self.subject)
                .await
            {
                Ok(message) => self.read(message).map(Some),
                Err(error) if error.kind() == LastRawMessageErrorKind::NoMessageFound => Ok(None),
                Err(error) => Err(FleetError::Unavailable(error.to_string())),
            }
        })
        .await
    }

    fn read(&self, message: StreamMessage) -> Result<Last, FleetError> {
        let record = ShipRecord::from_message(&message.payload)?;
        let number = |name: &str| {
            let value = message.headers.get(name)?;
            value.as_str().parse().ok()
        };
        Ok(Last {
            shipped: Shipped {
                seq: message.sequence,
                node: self.node.clone(),
                record,
            },
            last_commit: number(COMMIT).unwrap_or(0),
            pages: number(PAGES).unwrap_or(0),
            payload: message.payload,
        })
    }

    /// Becomes the process that writes for this node: appends `Joined` after the last record. Gives its number and the
    /// last commit of this incarnation.
    pub(crate) async fn join(
        &self,
        incarnation: Incarnation,
        session: u64,
        fresh: bool,
    ) -> Result<(u64, Option<Commit>), FleetError> {
        let record = ShipRecord::Joined {
            incarnation,
            session,
        };
        let begun = Instant::now();
        loop {
            let last = self.last().await?;
            let known = last
                .as_ref()
                .is_some_and(|last| last.shipped.record.incarnation() == incarnation);
            let sealed = last
                .as_ref()
                .is_some_and(|last| matches!(last.shipped.record, ShipRecord::Sealed { .. }));
            if known && sealed || !known && !fresh {
                return Err(FleetError::Sealed(self.node.clone()));
            }
            let last = match &last {
                Some(last) if known => Place {
                    last: last.shipped.seq,
                    last_commit: last.commit(),
                    pages: last.pages,
                    fenced: None,
                },
                // What another life of the node has left is nothing to this one.
                Some(last) => Place {
                    last: last.shipped.seq,
                    ..Place::default()
                },
                None => Place::default(),
            };
            *self.place.lock().await = last.clone();
            match self.ship(&record).await {
                Ok(joined) => return Ok((joined, self.commit(last.last_commit).await?)),
                Err(ShipError::Fenced(_)) if begun.elapsed() < PATIENCE => {}
                Err(error) => return Err(FleetError::Unavailable(error.to_string())),
            }
        }
    }

    async fn commit(&self, seq: u64) -> Result<Option<Commit>, FleetError> {
        if seq == 0 {
            return Ok(None);
        }
        let read = || async {
            let message = self.stream.get_raw_message(seq).await;
            message.map_err(|error| FleetError::Unavailable(error.to_string()))
        };
        let message = patiently(read).await?;
        match self.read(message)?.shipped.record {
            ShipRecord::Commit(commit) => Ok(Some(commit)),
            _ => Err(FleetError::Damaged(
                "a commit record of the ship log is none".to_owned(),
            )),
        }
    }

    /// Appends a record of this process. Records wait for each other.
    pub(crate) async fn ship(&self, record: &ShipRecord) -> Result<u64, ShipError> {
        let mut place = self.place.lock().await;
        if let Some(why) = &place.fenced {
            return Err(ShipError::Fenced(why.clone()));
        }
        let payload = Bytes::from(record.to_message());
        let pages = match record {
            ShipRecord::Commit(commit) => commit.pages.max(place.pages),
            _ => place.pages,
        };
        let begun = Instant::now();
        let seq = loop {
            let why = match self
                .attempt(&payload, place.last, place.last_commit, pages)
                .await
            {
                Attempt::Done(seq) => break seq,
                Attempt::Refused => "another record came first".to_owned(),
                Attempt::Unknown(why) => why,
            };
            match self.find(&payload, record, place.last).await {
                Ok(Found::It(seq)) => break seq,
                Ok(Found::UpTo(seq)) => place.last = seq,
                Ok(Found::Fenced(why)) => {
                    place.fenced = Some(why.clone());
                    return Err(ShipError::Fenced(why));
                }
                Err(error) => tracing::debug!(%error, "the ship log is read again"),
            }
            if begun.elapsed() > PATIENCE {
                return Err(ShipError::Unavailable(why));
            }
            tokio::time::sleep(PAUSE).await;
        };
        place.last = seq;
        place.pages = pages;
        if matches!(record, ShipRecord::Commit(_)) {
            place.last_commit = seq;
        }
        Ok(seq)
    }

    async fn attempt(&self, payload: &Bytes, last: u64, last_commit: u64, pages: u64) -> Attempt {
        let message = PublishMessage::build()
            .payload(payload.clone())
            .header(PAGES, pages.to_string().as_str())
            .header(COMMIT, last_commit.to_string().as_str())
            .expected_last_subject_sequence(last);
        let sent = self
            .bus
            .js
            .send_publish(self.subject.clone(), message)
            .await;
        let acknowledged = match sent {
            Ok(sent) => sent.await,
            Err(error) => Err(error),
        };
        match acknowledged {
            Ok(acknowledgement) => Attempt::Done(acknowledgement.sequence),
            Err(error) if error.kind() == PublishErrorKind::WrongLastSequence => Attempt::Refused,
            Err(error) => Attempt::Unknown(full_text(&error)),
        }
    }

    /// Reads what came after message `last` on the subject.
    async fn find(
        &self,
        payload: &Bytes,
        record: &ShipRecord,
        last: u64,
    ) -> Result<Found, FleetError> {
        let mut at = last;
        loop {
            let read = self.stream.raw_message_builder().sequence(at + 1);
            let read = read.next_by_subject(self.subject.as_str()).send();
            let message = match read.await {
                Ok(message) => message,
                Err(error) if error.kind() == LastRawMessageErrorKind::NoMessageFound => {
                    return Ok(Found::UpTo(at));
                }
                Err(error) => return Err(FleetError::Unavailable(error.to_string())),
            };
            let read = self.read(message)?;
            at = read.shipped.seq;
            if read.payload == *payload {
                return Ok(Found::It(at));
            }
            match read.shipped.record {
                ShipRecord::Sealed { by, .. } => {
                    return Ok(Found::Fenced(format!("sealed by {by}")));
                }
                ShipRecord::Joined { .. } => {
                    return Ok(Found::Fenced(
                        "another process goes by this node's name".to_owned(),
                    ));
                }
                other if other.incarnation() != record.incarnation() => {
                    return Ok(Found::Fenced(
                        "another process goes by this node's name".to_owned(),
                    ));
                }
                _ => {}
            }
        }
    }

    /// Appends `Sealed` for another node's life, where its last record is still the one that is there now. Gives the
    /// pages that it has settled; `None` if another record came first, or if its life is sealed already.
    pub(crate) async fn seal(
        &self,
        incarnation: Incarnation,
        by: &str,
    ) -> Result<Option<u64>, FleetError> {
        let Some(last) = self.last().await? else {
            return Ok(None);
        };
        let sealed = matches!(last.shipped.record, ShipRecord::Sealed { .. });
        if sealed || last.shipped.record.incarnation() != incarnation {
            return Ok(None);
        }
        let record = ShipRecord::Sealed {
            incarnation,
            by: by.to_owned(),
        };
        let payload = Bytes::from(record.to_message());
        match self
            .attempt(&payload, last.shipped.seq, last.commit(), last.pages)
            .await
        {
            Attempt::Done(_) => Ok(Some(last.pages)),
            Attempt::Refused => Ok(None),
            Attempt::Unknown(why) => Err(FleetError::Unavailable(why)),
        }
    }
}

impl Last {
    /// The last commit up to this record.
    fn commit(&self) -> u64 {
        match self.shipped.record {
            ShipRecord::Commit(_) => self.shipped.seq,
            _ => self.last_commit,
        }
    }
}

/// An error with its causes.
pub(crate) fn full_text(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(next) = cause {
        text = format!("{text}: {next}");
        cause = next.source();
    }
    text
}
