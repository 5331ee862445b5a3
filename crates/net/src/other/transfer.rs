//! An answer under way: its head goes to the sink first, then its bytes, to their end, to a limit, or to where they break.

use crate::http::{BodySink, Head, HttpSettings, Method, Oddities, Response, Scheme, Timings};
use portolan_model::Truncation;
use std::ops::ControlFlow;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::time::{Instant, timeout_at};

const READ_BYTES: usize = 32 * 1024;

pub(super) struct Transfer<'a> {
    settings: &'a HttpSettings,
    sink: &'a mut dyn BodySink,
    scheme: Scheme,
    begun: Instant,
    request_end: Instant,
    body: Vec<u8>,
    truncated: Option<Truncation>,
    /// Bytes that came and are not of the body.
    pub(super) other_bytes: u64,
}

impl<'a> Transfer<'a> {
    pub(super) fn new(
        scheme: Scheme,
        settings: &'a HttpSettings,
        sink: &'a mut dyn BodySink,
    ) -> Self {
        let begun = Instant::now();
        Self {
            settings,
            sink,
            scheme,
            begun,
            request_end: begun + Duration::from_millis(settings.request_timeout_ms),
            body: Vec::new(),
            truncated: None,
            other_bytes: 0,
        }
    }

    /// An answer without bytes.
    pub(super) fn status(self, status: u16) -> Response {
        let head = Head::of_other(self.scheme, status, &[]);
        self.end(head)
    }

    /// The document is to be found there.
    pub(super) fn moved(self, location: &str) -> Response {
        let head = Head::of_other(self.scheme, 301, &[("Location", location)]);
        self.end(head)
    }

    /// The head of a document, and whether its bytes are wanted.
    pub(super) fn begin(&mut self, media_type: Option<&str>, method: Method) -> (Head, bool) {
        let fields = media_type.map(|media_type| ("Content-Type", media_type));
        let head = Head::of_other(self.scheme, 200, fields.as_slice());
        let flow = self.sink.head(&head);
        if flow.is_break() {
            self.truncated = Some(Truncation::Length);
        }
        let is_wanted = flow.is_continue() && method == Method::Get;
        (head, is_wanted)
    }

    /// Reads to the end. `false`: it was cut or broke off.
    pub(super) async fn read(&mut self, stream: &mut (impl AsyncRead + Unpin)) -> bool {
        let mut buffer = vec![0; READ_BYTES];
        loop {
            if let Some(wait) = self.sink.wait_before_more(&self.body) {
                wait.await;
            }
            if let Some(wait) = self.sink.slow_down(self.body.len()) {
                let paused = Instant::now();
                wait.await;
                self.request_end += paused.elapsed();
            }
            let silence = Duration::from_millis(self.settings.read_timeout_ms);
            let deadline = self.request_end.min(Instant::now() + silence);
            let cut = match timeout_at(deadline, stream.read(&mut buffer)).await {
                Err(_) => Truncation::Time,
                Ok(Err(_)) => Truncation::Disconnect,
                Ok(Ok(0)) => return true,
                Ok(Ok(read)) => match self.take(&buffer[..read]) {
                    ControlFlow::Continue(()) => continue,
                    ControlFlow::Break(()) => Truncation::Length,
                },
            };
            self.truncated = Some(cut);
            return false;
        }
    }

    /// More of the body. `Break`: no more of it is wanted.
    pub(super) fn take(&mut self, bytes: &[u8]) -> ControlFlow<()> {
        let room = self.settings.max_body_bytes as usize - self.body.len();
        let taken = &bytes[..bytes.len().min(room)];
        self.body.extend_from_slice(taken);
        self.sink.body(taken)?;
        match taken.len() < bytes.len() {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    }

    /// Bytes may be missing.
    pub(super) fn cut(&mut self, why: Truncation) {
        self.truncated = self.truncated.or(Some(why));
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.body
    }

    pub(super) fn request_end(&self) -> Instant {
        self.request_end
    }

    pub(super) fn end(self, head: Head) -> Response {
        let total_ms = self.begun.elapsed().as_millis().min(u128::from(u32::MAX)) as u32;
        Response {
            request_head: Vec::new(),
            head,
            wire_bytes: self.body.len() as u64 + self.other_bytes,
            body: self.body,
            chunked: false,
            truncated: self.truncated,
            oddities: Oddities::default(),
            timings: Timings {
                connect_ms: 0,
                first_byte_ms: total_ms,
                total_ms,
            },
        }
    }
}
