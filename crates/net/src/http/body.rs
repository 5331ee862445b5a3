//! The body of an HTTP/1.x answer, read to its end, to a limit, or to where it breaks.

use super::chunked::{Chunked, Progress};
use super::framing::Framing;
use super::oddity::{Oddities, Oddity};
use super::pace::Pace;
use super::response::{BodySink, Wait};
use super::stream::ReadEnd;
use super::wire::{READ_BYTES, Wire};
use crate::decode::{DecodeEnd, Decoder};
use portolan_model::Truncation;
use std::ops::ControlFlow;
use std::time::Duration;
use tokio::time::Instant;

/// A promised length is believed, as far as memory goes, only so far.
const MAX_RESERVED_BYTES: u64 = 256 * 1024;

/// A body under way.
pub(crate) struct BodyReader<'a> {
    pub(crate) wire: &'a mut Wire,
    pub(crate) sink: &'a mut dyn BodySink,
    /// What came with the head, at first; then the body so far.
    pub(crate) body: Vec<u8>,
    /// The sink has seen this many bytes of it.
    pub(crate) shown: usize,
    pub(crate) max_bytes: u64,
    pub(crate) max_trailer_bytes: usize,
    pub(crate) read_timeout: Duration,
    pub(crate) pace: Pace,
    pub(crate) wire_bytes: u64,
    pub(crate) max_wire_bytes: u64,
    pub(crate) oddities: Oddities,
}

/// How a body ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ended {
    Whole,
    /// The body is whole, but the connection is not at the start of a next answer.
    WholeAndMore,
    TooLong,
    TooLate,
    Lost,
}

impl Ended {
    fn early(end: &ReadEnd) -> Self {
        match end {
            ReadEnd::TimedOut => Ended::TooLate,
            ReadEnd::TooMuch => Ended::TooLong,
            _ => Ended::Lost,
        }
    }

    pub(crate) fn truncation(self) -> Option<Truncation> {
        match self {
            Ended::Whole | Ended::WholeAndMore => None,
            Ended::TooLong => Some(Truncation::Length),
            Ended::TooLate => Some(Truncation::Time),
            Ended::Lost => Some(Truncation::Disconnect),
        }
    }
}

impl BodyReader<'_> {
    /// Read it all; `body` is then what the sink saw.
    pub(crate) async fn read(&mut self, framing: Framing) -> Ended {
        self.wire
            .deadline
            .allow_silence(Instant::now(), self.read_timeout);
        match framing {
            Framing::Empty => self.read_nothing(),
            Framing::Length(length) => self.read_length(length).await,
            Framing::Chunked => self.read_chunked().await,
            Framing::Close => self.read_to_close().await,
        }
    }

    fn read_nothing(&mut self) -> Ended {
        if self.body.is_empty() {
            return Ended::Whole;
        }
        self.body.clear();
        Ended::WholeAndMore
    }

    async fn read_length(&mut self, length: u64) -> Ended {
        let wanted = length.min(self.max_bytes);
        loop {
            let have = (self.body.len() as u64).min(wanted) as usize;
            let flow = self.show(have);
            if have as u64 == wanted {
                let extra = self.body.len() - have;
                self.body.truncate(have);
                if wanted < length {
                    return Ended::TooLong;
                }
                if extra == 0 {
                    return Ended::Whole;
                }
                self.oddities.add(Oddity::WrongContentLength);
                return Ended::WholeAndMore;
            }
            if flow.is_break() {
                return Ended::TooLong;
            }
            let missing = (wanted - have as u64).min(MAX_RESERVED_BYTES) as usize;
            if self.body.capacity() - self.body.len() < missing {
                self.body.reserve(missing);
            }
            if let Err(end) = self.read_on().await {
                if matches!(end, ReadEnd::Closed | ReadEnd::ClosedUnclean) {
                    self.oddities.add(Oddity::WrongContentLength);
                }
                self.body.truncate(self.shown);
                return Ended::early(&end);
            }
        }
    }

    async fn read_chunked(&mut self) -> Ended {
        let mut chunked = Chunked::new(self.max_trailer_bytes);
        let ended = loop {
            let progress = chunked.decode(&mut self.body);
            if chunked.odd || progress == Progress::Broken {
                self.oddities.add(Oddity::BadChunking);
            }
            if progress == Progress::Broken && !chunked.seen_chunk() {
                return self.read_to_close().await;
            }
            let decoded = chunked.decoded();
            let have = (decoded as u64).min(self.max_bytes) as usize;
            let flow = self.show(have);
            match progress {
                _ if have < decoded => break Ended::TooLong,
                Progress::Done { extra: 0 } => break Ended::Whole,
                Progress::Done { .. } => {
                    self.oddities.add(Oddity::WrongContentLength);
                    break Ended::WholeAndMore;
                }
                Progress::Broken if chunked.data_complete() => break Ended::WholeAndMore,
                Progress::Broken => break Ended::Lost,
                Progress::More if flow.is_break() => break Ended::TooLong,
                Progress::More => {}
            }
            self.make_room();
            let Err(end) = self.read_on().await else {
                continue;
            };
            if chunked.data_complete() {
                self.oddities.add(Oddity::BadChunking);
                break Ended::WholeAndMore;
            }
            if !matches!(end, ReadEnd::TimedOut | ReadEnd::TooMuch) {
                self.oddities.add(Oddity::BadChunking);
            }
            break Ended::early(&end);
        };
        self.body.truncate(self.shown);
        ended
    }

    async fn read_to_close(&mut self) -> Ended {
        let ended = loop {
            let have = (self.body.len() as u64).min(self.max_bytes) as usize;
            let flow = self.show(have);
            if flow.is_break() || have < self.body.len() {
                break Ended::TooLong;
            }
            self.make_room();
            match self.read_on().await {
                Ok(()) => {}
                Err(ReadEnd::Closed) => break Ended::WholeAndMore,
                Err(ReadEnd::ClosedUnclean) => {
                    self.oddities.add(Oddity::NoCloseNotify);
                    break Ended::WholeAndMore;
                }
                Err(end) => break Ended::early(&end),
            }
        };
        self.body.truncate(self.shown);
        ended
    }

    /// Show the sink what it has not seen of the first `have` bytes.
    fn show(&mut self, have: usize) -> ControlFlow<()> {
        if self.shown == have {
            return ControlFlow::Continue(());
        }
        let fresh = &self.body[self.shown..have];
        self.shown = have;
        self.sink.body(fresh)
    }

    /// More of the body, within the read timeout and at no less than the smallest pace.
    async fn read_on(&mut self) -> Result<(), ReadEnd> {
        if self.pace.is_too_slow() {
            return Err(ReadEnd::TimedOut);
        }
        if let Some(wait) = self.sink.slow_down(self.body.len()) {
            let begun = Instant::now();
            wait.await;
            let now = Instant::now();
            self.wire.deadline.put_off(now - begun);
            self.wire.deadline.allow_silence(now, self.read_timeout);
            self.pace.restart(now);
        }
        if let Some(wait) = self.sink.wait_before_more(&self.body[..self.shown]) {
            wait.await;
            let now = Instant::now();
            self.wire.deadline.allow_silence(now, self.read_timeout);
            self.pace.restart(now);
        }
        let read = self.wire.read(&mut self.body).await?;
        self.wire_bytes += read.bytes as u64;
        if self.wire_bytes > self.max_wire_bytes {
            self.oddities.add(Oddity::TooMuchFraming);
            return Err(ReadEnd::TooMuch);
        }
        self.pace.came(read.bytes, read.at);
        self.wire.deadline.allow_silence(read.at, self.read_timeout);
        Ok(())
    }

    fn make_room(&mut self) {
        let spare = self.body.capacity() - self.body.len();
        if spare < READ_BYTES / 4 {
            self.body.reserve(READ_BYTES);
        }
    }
}

/// For a body whose transfer is compressed: the sink is shown nothing until all of it is undone.
pub(crate) struct Unshown<'a>(pub(crate) &'a mut dyn BodySink);

impl BodySink for Unshown<'_> {
    fn body(&mut self, _bytes: &[u8]) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }

    fn wait_before_more(&mut self, so_far: &[u8]) -> Option<Wait> {
        self.0.wait_before_more(so_far)
    }

    fn slow_down(&mut self, so_far_bytes: usize) -> Option<Wait> {
        self.0.slow_down(so_far_bytes)
    }
}

impl Unshown<'_> {
    /// Undoes the compression and shows the sink what came out; what is missing of it, if anything.
    pub(crate) fn decode(self, mut decoder: Decoder, body: &mut Vec<u8>) -> Option<Truncation> {
        let mut plain = Vec::new();
        let result = decoder
            .push(body, &mut plain)
            .and_then(|()| decoder.finish());
        *body = plain;
        let enough = !body.is_empty() && self.0.body(body).is_break();
        match result {
            Ok(()) => enough.then_some(Truncation::Length),
            Err(DecodeEnd::TooLong) => Some(Truncation::Length),
            Err(DecodeEnd::Broken) => Some(Truncation::Disconnect),
        }
    }
}
