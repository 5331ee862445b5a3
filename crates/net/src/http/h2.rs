//! One HTTP/2 connection, used like an HTTP/1.1 one: a request at a time. The archive gets heads in
//! HTTP/1.1 form, since HTTP/2 has none to keep.

use super::deadline::Deadline;
use super::head::{Head, Version};
use super::meter::{Meter, Metered};
use super::oddity::{Oddities, Oddity};
use super::pace::Pace;
use super::request::{Method, Origin, Reader, Request, push_target};
use super::response::{BodySink, Response, Timings};
use super::stream::Stream;
use super::{HttpSettings, MAX_INTERIM_ANSWERS, elapsed_ms, lost, too_many_interim_answers};
use crate::NetError;
use bytes::Bytes;
use h2::RecvStream;
use h2::client::{ResponseFuture, SendRequest};
use portolan_model::Truncation;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;
use tokio::task::JoinHandle;
use tokio::time::Instant;

/// Bytes that a server may send before it must wait for us.
const WINDOW_BYTES: u32 = 1024 * 1024;
const FRAME_BYTES: u32 = 64 * 1024;

pub(crate) struct Http2 {
    sender: SendRequest<Bytes>,
    /// Answers pings and moves frames, also while no request is under way.
    driver: JoinHandle<()>,
    meter: Arc<Meter>,
    deadline: Deadline,
    open: bool,
    served: u32,
    idle_since: Instant,
    idle_limit: Duration,
}

impl Http2 {
    pub(crate) async fn new(stream: Stream, settings: &HttpSettings) -> Result<Self, NetError> {
        let meter = Arc::new(Meter::default());
        meter.allow(max_wire_bytes(settings));
        let stream = Metered {
            stream,
            meter: Arc::clone(&meter),
        };
        let (sender, connection) = h2::client::Builder::new()
            .enable_push(false)
            .initial_window_size(WINDOW_BYTES)
            .initial_connection_window_size(WINDOW_BYTES)
            .max_frame_size(FRAME_BYTES)
            .max_header_list_size(u32::try_from(settings.max_head_bytes).unwrap_or(u32::MAX))
            .handshake::<_, Bytes>(stream)
            .await
            .map_err(|error| NetError::BrokenHttp(format!("HTTP/2: {error}")))?;
        // How the connection ended shows in the next request, so the result is not needed here.
        let driver = tokio::spawn(async move {
            connection.await.ok();
        });
        Ok(Self {
            sender,
            driver,
            meter,
            deadline: Deadline::new(),
            open: true,
            served: 0,
            idle_since: Instant::now(),
            idle_limit: Duration::from_millis(settings.agent.keep_alive_ms),
        })
    }

    pub(crate) fn reusable(&self) -> bool {
        self.open && !self.driver.is_finished() && self.idle_since.elapsed() < self.idle_limit
    }

    pub(crate) async fn fetch(
        &mut self,
        origin: &Origin,
        settings: &HttpSettings,
        request: &Request<'_>,
        sink: &mut dyn BodySink,
    ) -> Result<Response, NetError> {
        if !self.open || self.driver.is_finished() {
            self.open = false;
            return Err(lost("it was closed while idle", true));
        }
        self.open = false;
        let started = Instant::now();
        self.deadline.start(
            started,
            Duration::from_millis(settings.request_timeout_ms),
            Duration::from_millis(settings.first_byte_timeout_ms),
        );
        self.meter.allow(max_wire_bytes(settings));
        let (parts, mut stream) = self.ask(origin, settings, request).await?;
        let mut oddities = Oddities::default();
        let head = head_in_http1_form(&parts, &mut oddities)?;
        let first_byte_ms = elapsed_ms(started);
        let mut body = Vec::new();
        let mut truncated = if sink.head(&head).is_break() && !stream.is_end_stream() {
            Some(Truncation::Length)
        } else {
            self.read_body(&mut stream, &mut body, settings, sink).await
        };
        if self.meter.is_overrun() {
            oddities.add(Oddity::TooMuchFraming);
            truncated = truncated.map(|_| Truncation::Length);
        }
        // A cut stream is reset when it is dropped; the connection itself goes on, unless it is what
        // was too slow or broke.
        self.open =
            matches!(truncated, None | Some(Truncation::Length)) && !self.meter.is_overrun();
        self.served += 1;
        self.idle_since = Instant::now();
        Ok(Response {
            request_head: request.write_head(origin, settings, false, Reader::Archive),
            wire_bytes: self.meter.take(),
            head,
            body,
            chunked: false,
            truncated,
            oddities,
            timings: Timings {
                connect_ms: 0,
                first_byte_ms,
                total_ms: elapsed_ms(started),
            },
        })
    }

    async fn ask(
        &mut self,
        origin: &Origin,
        settings: &HttpSettings,
        request: &Request<'_>,
    ) -> Result<(http::response::Parts, RecvStream), NetError> {
        let message = message(origin, settings, request)?;
        let served = self.served;
        let Self {
            sender, deadline, ..
        } = self;
        let answer = async {
            poll_fn(|cx| sender.poll_ready(cx))
                .await
                .map_err(|error| failure(&error, served > 0))?;
            let (answer, _) = sender
                .send_request(message, true)
                .map_err(|error| failure(&error, served > 0))?;
            final_answer(answer, served > 0).await
        };
        let response = deadline.race(answer).await.ok_or(NetError::Timeout {
            waiting_for: "the answer's head",
            after_ms: settings.first_byte_timeout_ms,
        })?;
        match response {
            Ok(response) => Ok(response.into_parts()),
            Err(_) if self.meter.is_overrun() => Err(NetError::BrokenHttp(
                "HTTP/2: more came before a head than an answer may take".to_owned(),
            )),
            Err(error) => Err(error),
        }
    }

    async fn read_body(
        &mut self,
        stream: &mut RecvStream,
        body: &mut Vec<u8>,
        settings: &HttpSettings,
        sink: &mut dyn BodySink,
    ) -> Option<Truncation> {
        let read_timeout = Duration::from_millis(settings.read_timeout_ms);
        let mut pace = Pace::new(settings, Instant::now());
        loop {
            if pace.is_too_slow() {
                return Some(Truncation::Time);
            }
            if let Some(wait) = sink.slow_down(body.len()) {
                let begun = Instant::now();
                wait.await;
                let now = Instant::now();
                self.deadline.put_off(now - begun);
                pace.restart(now);
            }
            if let Some(wait) = sink.wait_before_more(body) {
                wait.await;
                pace.restart(Instant::now());
            }
            let now = Instant::now();
            // A server that never pauses would never let the timer be asked.
            self.deadline.allow_silence(now, read_timeout);
            if self.deadline.has_passed(now) {
                return Some(Truncation::Time);
            }
            let bytes = match self.deadline.race(stream.data()).await {
                None => return Some(Truncation::Time),
                Some(None) => return None,
                Some(Some(Err(_))) => return Some(Truncation::Disconnect),
                Some(Some(Ok(bytes))) => bytes,
            };
            pace.came(bytes.len(), Instant::now());
            let room = settings.max_body_bytes - body.len() as u64;
            let kept = &bytes[..bytes.len().min(usize::try_from(room).unwrap_or(usize::MAX))];
            body.extend_from_slice(kept);
            let flow = sink.body(kept);
            if kept.len() < bytes.len() || (flow.is_break() && !stream.is_end_stream()) {
                return Some(Truncation::Length);
            }
            // An error shows in the next read.
            stream
                .flow_control()
                .release_capacity(bytes.len())
                .unwrap_or_default();
        }
    }
}

/// Besides the answer, what was under way for this one and for the one before when they were cut.
fn max_wire_bytes(settings: &HttpSettings) -> u64 {
    settings
        .max_wire_bytes()
        .saturating_add(2 * u64::from(WINDOW_BYTES))
}

impl Drop for Http2 {
    fn drop(&mut self) {
        self.driver.abort();
    }
}

/// The answer behind the interim ones, of which there may be a few. They are taken one by one: `h2` keeps
/// those that nobody asks for.
async fn final_answer(
    mut answer: ResponseFuture,
    reused: bool,
) -> Result<http::Response<RecvStream>, NetError> {
    let mut interim = 0;
    poll_fn(|cx| {
        while let Poll::Ready(Some(Ok(_))) = answer.poll_informational(cx) {
            interim += 1;
            if interim > MAX_INTERIM_ANSWERS {
                return Poll::Ready(Err(too_many_interim_answers()));
            }
        }
        Pin::new(&mut answer)
            .poll(cx)
            .map_err(|error| failure(&error, reused))
    })
    .await
}

fn message(
    origin: &Origin,
    settings: &HttpSettings,
    request: &Request<'_>,
) -> Result<http::Request<()>, NetError> {
    let mut path = Vec::new();
    push_target(&mut path, request.path_and_query);
    let uri = http::Uri::builder()
        .scheme(origin.scheme.name())
        .authority(origin.authority())
        .path_and_query(path)
        .build()
        .map_err(|error| unsendable(&error))?;
    let mut builder = http::Request::builder()
        .method(match request.method {
            Method::Get => http::Method::GET,
            Method::Head => http::Method::HEAD,
        })
        .version(http::Version::HTTP_2)
        .uri(uri);
    request.for_each_field(settings, Reader::Server, |name, value| {
        let header = (
            http::HeaderName::from_bytes(name.as_bytes()),
            http::HeaderValue::from_bytes(value.as_bytes()),
        );
        // What HTTP/2 cannot carry stays unsaid.
        if let (Ok(name), Ok(value), Some(headers)) = (header.0, header.1, builder.headers_mut()) {
            headers.append(name, value);
        }
    });
    builder.body(()).map_err(|error| unsendable(&error))
}

fn unsendable(error: &http::Error) -> NetError {
    NetError::BrokenHttp(format!("the URL cannot be asked for with HTTP/2: {error}"))
}

fn failure(error: &h2::Error, reused: bool) -> NetError {
    let refused = error.reason() == Some(h2::Reason::REFUSED_STREAM);
    if error.is_io() || error.is_go_away() || refused {
        // A stream that was refused, or is beyond what a GOAWAY covers, was never worked on.
        let retry = refused || (reused && (error.is_io() || error.is_remote()));
        lost(&format!("HTTP/2: {error}"), retry)
    } else if error.is_reset() {
        lost(&format!("HTTP/2: {error}"), false)
    } else {
        NetError::BrokenHttp(format!("HTTP/2: {error}"))
    }
}

fn head_in_http1_form(
    parts: &http::response::Parts,
    oddities: &mut Oddities,
) -> Result<Head, NetError> {
    let mut text = format!(
        "HTTP/1.1 {} {}\r\n",
        parts.status.as_str(),
        parts.status.canonical_reason().unwrap_or("")
    )
    .into_bytes();
    for (name, value) in &parts.headers {
        text.extend_from_slice(name.as_str().as_bytes());
        text.extend_from_slice(b": ");
        text.extend_from_slice(value.as_bytes());
        text.extend_from_slice(b"\r\n");
    }
    text.extend_from_slice(b"\r\n");
    let mut head = Head::parse(&text, oddities)
        .ok_or_else(|| NetError::BrokenHttp("HTTP/2: no status".to_owned()))?;
    head.set_version(Version::Http2);
    Ok(head)
}
