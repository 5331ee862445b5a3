//! What each session of a crawl came to. Counters of the fold, as in `stats`.

use crate::stats::is_request;
use crate::wire::{Reader, put_varint};
use portolan_model::{Change, Visit};

/// One session, as far as its visits are folded.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SessionStats {
    /// The first is 1.
    pub number: u32,
    /// When it began; of the first session, when its first visit was.
    pub begun_ms: u64,
    /// When its last visit was.
    pub last_ms: u64,
    pub requests: u64,
    pub wire_bytes: u64,
    /// Documents that are there: new, changed or unchanged.
    pub pages: u64,
    pub new: u64,
    pub changed: u64,
    pub unchanged: u64,
    /// Of the unchanged, those whose servers said so and sent nothing.
    pub not_modified: u64,
    /// Documents whose volatile parts alone were fetched.
    pub refreshed: u64,
    /// URLs that were there at the last check, and are not there any longer.
    pub gone: u64,
    /// Bytes that servers did not send, because nothing had changed, or because parts alone were asked for.
    pub saved_bytes: u64,
}

impl SessionStats {
    pub(crate) fn new(number: u32) -> Self {
        Self {
            number,
            ..Self::default()
        }
    }

    pub(crate) fn begin(&mut self, begun_ms: u64) {
        self.begun_ms = begun_ms;
    }

    pub(crate) fn visit(&mut self, visit: &Visit) {
        if self.begun_ms == 0 {
            self.begun_ms = visit.at_ms;
        }
        self.last_ms = self.last_ms.max(visit.at_ms);
        self.requests += u64::from(is_request(visit));
        self.wire_bytes += visit.wire_bytes;
        self.saved_bytes += visit.history.saved_bytes;
        let is_document = visit.is_document();
        self.pages += u64::from(is_document);
        self.not_modified += u64::from(is_document && visit.is_not_modified());
        self.refreshed += u64::from(is_document && visit.is_refreshed());
        match visit.change() {
            Some(Change::Gone) => self.gone += 1,
            Some(Change::New) if is_document => self.new += 1,
            Some(Change::Changed) if is_document => self.changed += 1,
            Some(Change::Unchanged) if is_document => self.unchanged += 1,
            _ => {}
        }
    }

    /// Adds what another partition has of the same session.
    pub(crate) fn add(&mut self, other: &Self) {
        self.begun_ms = match (self.begun_ms, other.begun_ms) {
            (0, begun) | (begun, 0) => begun,
            (one, two) => one.min(two),
        };
        self.last_ms = self.last_ms.max(other.last_ms);
        for (sum, number) in self.counts().into_iter().zip(other.clone().counts()) {
            *sum += *number;
        }
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        put_varint(out, u64::from(self.number));
        put_varint(out, self.begun_ms);
        put_varint(out, self.last_ms);
        for number in self.clone().counts() {
            put_varint(out, *number);
        }
    }

    pub(crate) fn decode(reader: &mut Reader<'_>) -> Option<Self> {
        let mut session = Self {
            number: reader.narrow()?,
            begun_ms: reader.varint()?,
            last_ms: reader.varint()?,
            ..Self::default()
        };
        for number in session.counts() {
            *number = reader.varint()?;
        }
        Some(session)
    }

    fn counts(&mut self) -> [&mut u64; 10] {
        [
            &mut self.requests,
            &mut self.wire_bytes,
            &mut self.pages,
            &mut self.new,
            &mut self.changed,
            &mut self.unchanged,
            &mut self.not_modified,
            &mut self.refreshed,
            &mut self.gone,
            &mut self.saved_bytes,
        ]
    }
}
