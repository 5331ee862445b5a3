//! One HTTP/1.x connection: sends a request, takes the answer whatever shape it has. One request at
//! a time; redirects, retries and politeness are the caller's.

use super::chunked::{Chunked, Progress};
use super::deadline::Deadline;
use super::framing::{BodyPlan, Framing, plan};
use super::head::{Head, Version};
use super::oddity::{Oddities, Oddity};
use super::request::{Method, Origin, Request};
use super::response::{BodySink, Response, Timings};
use super::stream::{ReadEnd, Stream};
use super::{HttpSettings, elapsed_ms, lost};
use crate::NetError;
use portolan_model::Truncation;
use std::future::{Future, poll_fn};
use std::ops::ControlFlow;
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::Instant;

/// Read at least so much at once, space permitting.
const READ_BYTES: usize = 32 * 1024;
/// A promised length is believed, as far as memory goes, only so far.
const MAX_RESERVED_BYTES: u64 = 256 * 1024;
/// So many 1xx answers before the real one are skipped.
const MAX_INTERIM_ANSWERS: u32 = 16;

pub(crate) struct Http1 {
    stream: Stream,
    deadline: Deadline,
    /// May another request be sent? False while one is under way, so that a request that was
    /// dropped half-way leaves no usable connection behind.
    open: bool,
    served: u32,
    idle_since: Instant,
    idle_limit: Duration,
}

impl Http1 {
    pub(crate) fn new(stream: Stream, settings: &HttpSettings) -> Self {
        Self {
            stream,
            deadline: Deadline::new(),
            open: true,
            served: 0,
            idle_since: Instant::now(),
            idle_limit: Duration::from_millis(settings.keep_alive_ms),
        }
    }

    pub(crate) fn reusable(&self) -> bool {
        self.open && self.idle_since.elapsed() < self.idle_limit
    }

    pub(crate) async fn fetch(
        &mut self,
        origin: &Origin,
        settings: &HttpSettings,
        request: &Request<'_>,
        sink: &mut dyn BodySink,
    ) -> Result<Response, NetError> {
        if !self.open || (self.served > 0 && self.is_stale().await) {
            self.open = false;
            return Err(lost("it was closed while idle", true));
        }
        self.open = false;
        let request_head = request.write_head(origin, settings, true);
        let started = Instant::now();
        self.deadline.start(
            started,
            Duration::from_millis(settings.request_timeout_ms),
            Duration::from_millis(settings.first_byte_timeout_ms),
        );
        // A server may answer and close before it has read the request: what it said counts.
        let sent = self.send(&request_head, settings).await?;
        let mut buffer = Vec::with_capacity(READ_BYTES);
        let mut oddities = Oddities::default();
        let (head, head_bytes) = self
            .read_head(&mut buffer, settings, &mut oddities, sent)
            .await?;
        let first_byte_ms = elapsed_ms(started);

        let body_plan = match head.version() {
            Version::Http09 => BodyPlan {
                framing: Framing::Close,
                keep_alive: false,
            },
            _ => plan(&head, request.method, &mut oddities),
        };
        if body_plan.framing == Framing::Empty && !buffer.is_empty() {
            oddities.add(match request.method {
                Method::Head => Oddity::BodyAfterHead,
                Method::Get => Oddity::WrongContentLength,
            });
        }
        let mut reading = Reading {
            max_bytes: settings.max_body_bytes,
            wire_bytes: (head_bytes + buffer.len()) as u64,
            body: buffer,
            ended: None,
            oddities,
        };
        if sink.head(&head).is_break() && body_plan.framing != Framing::Empty {
            reading.stop(Ended::TooLong);
            reading.body.clear();
        }
        let read_timeout = Duration::from_millis(settings.read_timeout_ms);
        self.deadline.allow_silence(Instant::now(), read_timeout);
        match body_plan.framing {
            Framing::Empty => reading.end_empty(),
            Framing::Length(length) => {
                self.read_length(&mut reading, length, read_timeout, sink)
                    .await
            }
            Framing::Chunked => {
                let chunked = Chunked::new(settings.max_head_bytes);
                self.read_chunked(&mut reading, chunked, read_timeout, sink)
                    .await
            }
            Framing::Close => {
                self.read_to_close(&mut reading, 0, read_timeout, sink)
                    .await
            }
        }
        self.served += 1;
        if reading.ended == Some(Ended::Whole) && body_plan.keep_alive {
            self.open = true;
            self.idle_since = Instant::now();
            if let Some(limit) = keep_alive_timeout(&head) {
                self.idle_limit = self.idle_limit.min(limit);
            }
        }
        Ok(Response {
            request_head,
            chunked: body_plan.framing == Framing::Chunked,
            truncated: reading.ended.and_then(Ended::truncation),
            oddities: reading.oddities,
            timings: Timings {
                connect_ms: 0,
                first_byte_ms,
                total_ms: elapsed_ms(started),
            },
            wire_bytes: reading.wire_bytes,
            body: reading.body,
            head,
        })
    }

    /// Did anything happen on the idle connection? Either it was closed, or bytes came that nobody
    /// asked for; both make it useless. Costs no system call where nothing happened.
    async fn is_stale(&mut self) -> bool {
        let mut scratch = [0; 1];
        let mut read = pin!(self.stream.read(&mut scratch));
        poll_fn(|cx| Poll::Ready(read.as_mut().poll(cx).is_ready())).await
    }

    /// True if the whole request was taken; false if the server has closed its side.
    async fn send(&mut self, bytes: &[u8], settings: &HttpSettings) -> Result<bool, NetError> {
        let Self {
            stream, deadline, ..
        } = self;
        let write = async {
            stream.write_all(bytes).await?;
            stream.flush().await
        };
        match deadline.race(write).await {
            Some(Ok(())) => Ok(true),
            Some(Err(_)) => Ok(false),
            None => Err(NetError::Timeout {
                waiting_for: "the server to take the request",
                after_ms: settings.first_byte_timeout_ms,
            }),
        }
    }

    /// The head, and how many bytes it and all before it took; `buffer` keeps what came after it.
    async fn read_head(
        &mut self,
        buffer: &mut Vec<u8>,
        settings: &HttpSettings,
        oddities: &mut Oddities,
        sent: bool,
    ) -> Result<(Head, usize), NetError> {
        let (mut start, mut searched, mut interim, mut skipped) = (0, 0, 0, 0);
        loop {
            while matches!(buffer.get(start), Some(b'\r' | b'\n')) {
                oddities.add(Oddity::LeadingBlankLines);
                start += 1;
            }
            let begins_as_http = Head::looks_like_http(&buffer[start..]);
            if begins_as_http == Some(false) {
                return self.http09(buffer, settings, oddities);
            }
            let end = match begins_as_http {
                Some(true) => Head::end(buffer, searched.max(start)),
                _ => None,
            };
            if end.unwrap_or(buffer.len()) > settings.max_head_bytes {
                return Err(NetError::BrokenHttp(format!(
                    "its head is longer than {} bytes",
                    settings.max_head_bytes
                )));
            }
            if let Some(end) = end {
                let head = Head::parse(&buffer[start..end], oddities)
                    .ok_or_else(|| no_status(&buffer[start..end]))?;
                buffer.drain(..end);
                skipped += end;
                if !matches!(head.status(), 100 | 102..200) {
                    return Ok((head, skipped));
                }
                interim += 1;
                if interim > MAX_INTERIM_ANSWERS {
                    return Err(NetError::BrokenHttp(format!(
                        "more than {MAX_INTERIM_ANSWERS} interim answers"
                    )));
                }
                (start, searched) = (0, 0);
                continue;
            }
            searched = buffer.len();
            match self.read(buffer).await {
                Ok(_) => {}
                Err(ReadEnd::TimedOut) => {
                    return Err(NetError::Timeout {
                        waiting_for: "the answer's head",
                        after_ms: settings.first_byte_timeout_ms,
                    });
                }
                // A few bytes that could have become HTTP, but did not.
                Err(ReadEnd::Closed | ReadEnd::ClosedUnclean)
                    if begins_as_http.is_none() && buffer.len() > start =>
                {
                    return self.http09(buffer, settings, oddities);
                }
                Err(end) => {
                    let nothing_came = buffer.is_empty() && interim == 0;
                    let detail = match (&end, nothing_came, sent) {
                        (ReadEnd::Failed(error), ..) => error.to_string(),
                        (_, true, false) => "it was closed before the request was sent".to_owned(),
                        (_, true, true) => "it was closed before an answer came".to_owned(),
                        (_, false, _) => "it was closed within the answer's head".to_owned(),
                    };
                    return Err(lost(&detail, nothing_came && self.served > 0));
                }
            }
        }
    }

    fn http09(
        &self,
        buffer: &[u8],
        settings: &HttpSettings,
        oddities: &mut Oddities,
    ) -> Result<(Head, usize), NetError> {
        if self.served > 0 {
            // The tail of the answer before: this connection is out of step.
            return Err(lost("it carried bytes that belong to no answer", true));
        }
        if !settings.http09 {
            return Err(no_status(buffer));
        }
        *oddities = Oddities::default();
        oddities.add(Oddity::Http09);
        Ok((Head::http09(), 0))
    }

    async fn read_length(
        &mut self,
        reading: &mut Reading,
        length: u64,
        read_timeout: Duration,
        sink: &mut dyn BodySink,
    ) {
        let wanted = length.min(reading.max_bytes);
        let mut shown = 0;
        while reading.ended.is_none() {
            let have = (reading.body.len() as u64).min(wanted) as usize;
            if shown < have {
                let flow = sink.body(&reading.body[shown..have]);
                shown = have;
                if flow.is_break() && (have as u64) < length {
                    reading.stop(Ended::TooLong);
                    break;
                }
            }
            if have as u64 == wanted {
                let extra = reading.body.len() - have;
                reading.body.truncate(have);
                if extra > 0 && wanted == length {
                    reading.oddities.add(Oddity::WrongContentLength);
                }
                reading.stop(match (wanted < length, extra) {
                    (true, _) => Ended::TooLong,
                    (false, 0) => Ended::Whole,
                    (false, _) => Ended::WholeAndMore,
                });
                break;
            }
            let missing = (wanted - have as u64).min(MAX_RESERVED_BYTES) as usize;
            if reading.body.capacity() - reading.body.len() < missing {
                reading.body.reserve(missing);
            }
            if let Err(end) = self.read_on(reading, read_timeout).await {
                if matches!(end, ReadEnd::Closed | ReadEnd::ClosedUnclean) {
                    reading.oddities.add(Oddity::WrongContentLength);
                }
                reading.stop(Ended::early(&end));
            }
        }
        reading.body.truncate(shown);
    }

    async fn read_chunked(
        &mut self,
        reading: &mut Reading,
        mut chunked: Chunked,
        read_timeout: Duration,
        sink: &mut dyn BodySink,
    ) {
        let mut shown = 0;
        while reading.ended.is_none() {
            let progress = chunked.decode(&mut reading.body);
            if progress == Progress::Broken && !chunked.seen_chunk() {
                reading.oddities.add(Oddity::BadChunking);
                return self.read_to_close(reading, 0, read_timeout, sink).await;
            }
            let decoded = chunked.decoded();
            let have = (decoded as u64).min(reading.max_bytes) as usize;
            let flow = if shown < have {
                sink.body(&reading.body[shown..have])
            } else {
                ControlFlow::Continue(())
            };
            shown = have;
            if chunked.odd || progress == Progress::Broken {
                reading.oddities.add(Oddity::BadChunking);
            }
            if have < decoded {
                reading.stop(Ended::TooLong);
                break;
            }
            match progress {
                Progress::Done { extra: 0 } => reading.stop(Ended::Whole),
                Progress::Done { .. } => {
                    reading.oddities.add(Oddity::WrongContentLength);
                    reading.stop(Ended::WholeAndMore);
                }
                Progress::Broken => reading.stop(if chunked.data_complete() {
                    Ended::WholeAndMore
                } else {
                    Ended::Lost
                }),
                Progress::More if flow.is_break() => reading.stop(Ended::TooLong),
                Progress::More => {
                    reading.make_room();
                    if let Err(end) = self.read_on(reading, read_timeout).await {
                        if !matches!(end, ReadEnd::TimedOut) || chunked.data_complete() {
                            reading.oddities.add(Oddity::BadChunking);
                        }
                        reading.stop(if chunked.data_complete() {
                            Ended::WholeAndMore
                        } else {
                            Ended::early(&end)
                        });
                    }
                }
            }
        }
        reading.body.truncate(shown);
    }

    async fn read_to_close(
        &mut self,
        reading: &mut Reading,
        mut shown: usize,
        read_timeout: Duration,
        sink: &mut dyn BodySink,
    ) {
        while reading.ended.is_none() {
            let have = (reading.body.len() as u64).min(reading.max_bytes) as usize;
            let mut flow = ControlFlow::Continue(());
            if shown < have {
                flow = sink.body(&reading.body[shown..have]);
                shown = have;
            }
            if flow.is_break() || have < reading.body.len() {
                reading.stop(Ended::TooLong);
                break;
            }
            reading.make_room();
            match self.read_on(reading, read_timeout).await {
                Ok(()) => {}
                Err(ReadEnd::Closed) => reading.stop(Ended::WholeAndMore),
                Err(ReadEnd::ClosedUnclean) => {
                    reading.oddities.add(Oddity::NoCloseNotify);
                    reading.stop(Ended::WholeAndMore);
                }
                Err(end) => reading.stop(Ended::early(&end)),
            }
        }
        reading.body.truncate(shown);
    }

    /// More of the body, within the read timeout.
    async fn read_on(
        &mut self,
        reading: &mut Reading,
        read_timeout: Duration,
    ) -> Result<(), ReadEnd> {
        let read = self.read(&mut reading.body).await?;
        reading.wire_bytes += read.bytes as u64;
        self.deadline.allow_silence(read.at, read_timeout);
        Ok(())
    }

    /// Whatever is there, into the spare room of `into`.
    async fn read(&mut self, into: &mut Vec<u8>) -> Result<Read, ReadEnd> {
        if into.capacity() == into.len() {
            into.reserve(READ_BYTES);
        }
        let Self {
            stream, deadline, ..
        } = self;
        match deadline.race(stream.read_buf(into)).await {
            None => Err(ReadEnd::TimedOut),
            Some(Ok(0)) => Err(ReadEnd::Closed),
            Some(Err(error)) => Err(ReadEnd::from(error)),
            Some(Ok(bytes)) => {
                let at = Instant::now();
                // A server that never pauses would never let the timer be asked.
                if deadline.has_passed(at) {
                    return Err(ReadEnd::TimedOut);
                }
                Ok(Read { bytes, at })
            }
        }
    }
}

struct Read {
    bytes: usize,
    at: Instant,
}

/// A body under way.
struct Reading {
    body: Vec<u8>,
    max_bytes: u64,
    wire_bytes: u64,
    ended: Option<Ended>,
    oddities: Oddities,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ended {
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
            _ => Ended::Lost,
        }
    }

    fn truncation(self) -> Option<Truncation> {
        match self {
            Ended::Whole | Ended::WholeAndMore => None,
            Ended::TooLong => Some(Truncation::Length),
            Ended::TooLate => Some(Truncation::Time),
            Ended::Lost => Some(Truncation::Disconnect),
        }
    }
}

impl Reading {
    fn stop(&mut self, ended: Ended) {
        if self.ended.is_none() {
            self.ended = Some(ended);
        }
    }

    fn end_empty(&mut self) {
        self.stop(if self.body.is_empty() {
            Ended::Whole
        } else {
            Ended::WholeAndMore
        });
        self.body.clear();
    }

    fn make_room(&mut self) {
        let spare = self.body.capacity() - self.body.len();
        if spare < READ_BYTES / 4 {
            self.body.reserve(READ_BYTES);
        }
    }
}

fn no_status(bytes: &[u8]) -> NetError {
    const SHOWN_BYTES: usize = 40;
    let shown = &bytes[..bytes.len().min(SHOWN_BYTES)];
    NetError::BrokenHttp(format!("it begins with '{}'", shown.escape_ascii()))
}

/// How long the server says that it keeps an idle connection, less a second for the way.
fn keep_alive_timeout(head: &Head) -> Option<Duration> {
    let value = head.get_str("keep-alive")?;
    let seconds = value.split(',').find_map(|part| {
        let (name, number) = part.split_once('=')?;
        (name.trim().eq_ignore_ascii_case("timeout"))
            .then(|| number.trim().parse::<u32>().ok())
            .flatten()
    })?;
    Some(Duration::from_secs(u64::from(seconds.saturating_sub(1))))
}
