//! One HTTP/1.x connection: sends a request, takes the answer whatever shape it has. One request at
//! a time; redirects, retries and politeness are the caller's.

use super::body::{BodyReader, Ended, Unshown};
use super::framing::{BodyPlan, Framing, plan, promises_length, transfer_decoder};
use super::head::Head;
use super::oddity::{Oddities, Oddity};
use super::pace::Pace;
use super::request::{Method, Origin, Reader, Request};
use super::response::{BodySink, Response, Timings};
use super::stream::{ReadEnd, Stream};
use super::wire::{Sent, Wire};
use super::{HttpSettings, MAX_INTERIM_ANSWERS, elapsed_ms, lost, too_many_interim_answers};
use crate::NetError;
use crate::proxy::Forward;
use std::time::Duration;
use tokio::time::Instant;

pub(crate) struct Http1 {
    wire: Wire,
    /// May another request be sent? False while one is under way, so that a request that was
    /// dropped half-way leaves no usable connection behind.
    open: bool,
    served: u32,
    idle_since: Instant,
    idle_limit: Duration,
    forward: Option<Forward>,
}

impl Http1 {
    pub(crate) fn new(stream: Stream, settings: &HttpSettings, forward: Option<Forward>) -> Self {
        Self {
            forward,
            wire: Wire::new(stream),
            open: true,
            served: 0,
            idle_since: Instant::now(),
            idle_limit: Duration::from_millis(settings.agent.keep_alive_ms),
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
        if !self.open || (self.served > 0 && self.wire.is_stale().await) {
            self.open = false;
            return Err(lost("it was closed while idle", true));
        }
        self.open = false;
        let mut request_head = request.write_head(origin, settings, true, Reader::Server);
        let started = Instant::now();
        self.wire.deadline.start(
            started,
            Duration::from_millis(settings.request_timeout_ms),
            Duration::from_millis(settings.first_byte_timeout_ms),
        );
        let sent = match &self.forward {
            None => self.wire.send(&request_head).await,
            Some(forward) => self.wire.send(&forward.rewritten(&request_head)).await,
        };
        if request.withholds() {
            request_head = request.write_head(origin, settings, true, Reader::Archive);
        }
        let mut buffer = Vec::new();
        let mut oddities = Oddities::default();
        let (head, head_bytes) = self
            .read_head(&mut buffer, settings, &mut oddities, sent)
            .await?;
        let first_byte_ms = elapsed_ms(started);

        let BodyPlan {
            framing,
            keep_alive,
        } = plan(&head, request.method, &mut oddities);
        if framing == Framing::Empty && !buffer.is_empty() {
            oddities.add(match request.method {
                Method::Head => Oddity::BodyAfterHead,
                Method::Get => Oddity::WrongContentLength,
            });
        }
        let unwanted = sink.head(&head).is_break() && framing != Framing::Empty;
        let is_compressed = oddities.has(Oddity::CompressedTransfer) && !unwanted;
        let decoder = is_compressed
            .then(|| transfer_decoder(&head, settings.max_body_bytes))
            .flatten();
        let mut unshown = Unshown(sink);
        let mut reader = BodyReader {
            wire: &mut self.wire,
            sink: match decoder {
                Some(_) => &mut unshown,
                None => &mut *unshown.0,
            },
            max_wire_bytes: settings.max_wire_bytes(),
            wire_bytes: (head_bytes + buffer.len()) as u64,
            body: buffer,
            shown: 0,
            max_bytes: settings.max_body_bytes,
            max_trailer_bytes: settings.max_head_bytes,
            read_timeout: Duration::from_millis(settings.read_timeout_ms),
            pace: Pace::new(settings, Instant::now()),
            oddities,
        };
        let ended = if unwanted {
            reader.body.clear();
            Ended::TooLong
        } else {
            reader.read(framing).await
        };
        let BodyReader {
            mut body,
            wire_bytes,
            oddities,
            ..
        } = reader;
        let mut truncated = ended.truncation();
        let came_true = oddities.has(Oddity::ConflictingContentLength)
            && matches!(ended, Ended::Lost | Ended::TooLate)
            && promises_length(&head, body.len());
        if came_true {
            truncated = None;
        }
        if let Some(decoder) = decoder {
            let missing = unshown.decode(decoder, &mut body);
            truncated = truncated.or(missing);
        }
        self.served += 1;
        let is_over = oddities.has(Oddity::HeadWithoutEnd);
        if ended == Ended::Whole && keep_alive && !is_over {
            self.open = true;
            self.idle_since = Instant::now();
            if let Some(limit) = keep_alive_timeout(&head) {
                self.idle_limit = self.idle_limit.min(limit);
            }
        }
        Ok(Response {
            request_head,
            head,
            body,
            chunked: framing == Framing::Chunked,
            truncated,
            oddities,
            timings: Timings {
                connect_ms: 0,
                first_byte_ms,
                total_ms: elapsed_ms(started),
            },
            wire_bytes,
        })
    }

    /// The head, and how many bytes it and all before it took; `buffer` keeps what came after it.
    async fn read_head(
        &mut self,
        buffer: &mut Vec<u8>,
        settings: &HttpSettings,
        oddities: &mut Oddities,
        sent: Sent,
    ) -> Result<(Head, usize), NetError> {
        if sent == Sent::TimedOut {
            return Err(NetError::Timeout {
                waiting_for: "the server to take the request",
                after_ms: settings.first_byte_timeout_ms,
            });
        }
        // Otherwise read: a server may answer and close before it has taken the whole request.
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
                    return Err(too_many_interim_answers());
                }
                (start, searched) = (0, 0);
                continue;
            }
            searched = buffer.len();
            match self.wire.read(buffer).await {
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
                // A head that stops within a line is lost; one that stops behind a line lacks nothing but
                // its end.
                Err(end @ (ReadEnd::Closed | ReadEnd::ClosedUnclean))
                    if begins_as_http == Some(true) && buffer.ends_with(b"\n") =>
                {
                    let head = Head::parse(&buffer[start..], oddities)
                        .ok_or_else(|| no_status(&buffer[start..]))?;
                    if matches!(head.status(), 100 | 102..200) {
                        return Err(lost("it was closed after an interim answer", false));
                    }
                    oddities.add(Oddity::HeadWithoutEnd);
                    if matches!(end, ReadEnd::ClosedUnclean) {
                        oddities.add(Oddity::NoCloseNotify);
                    }
                    skipped += buffer.len();
                    buffer.clear();
                    return Ok((head, skipped));
                }
                Err(end) => {
                    let nothing_came = buffer.is_empty() && interim == 0;
                    let detail = match (&end, nothing_came, sent) {
                        (ReadEnd::Failed(error), ..) => error.to_string(),
                        (_, true, Sent::Whole) => "it was closed before an answer came".to_owned(),
                        (_, true, _) => "it was closed before the request was sent".to_owned(),
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
            return Err(NetError::OutOfStep);
        }
        if !settings.http09 {
            return Err(no_status(buffer));
        }
        *oddities = Oddities::default();
        oddities.add(Oddity::Http09);
        Ok((Head::http09(), 0))
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
