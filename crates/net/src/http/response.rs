//! An answer as the archive wants it, and what looks at it while it comes.

use super::head::{Head, Version};
use super::oddity::Oddities;
use portolan_model::Truncation;
use std::borrow::Cow;
use std::ops::ControlFlow;
use std::pin::Pin;

#[derive(Debug, Clone)]
pub struct Response {
    /// The request as the server gets it, but for values that are withheld; for HTTP/2 in HTTP/1.1 form.
    pub request_head: Vec<u8>,
    pub head: Head,
    /// Transfer-decoded, content encoding as received.
    pub body: Vec<u8>,
    /// The body came in chunks: its head speaks of a framing that `body` no longer has.
    pub chunked: bool,
    pub truncated: Option<Truncation>,
    pub oddities: Oddities,
    pub timings: Timings,
    /// All bytes that came over the connection (inside TLS) for this answer: interim answers, head, body,
    /// and what they are packed in. For HTTP/2 also what came between the answer before and this one.
    pub wire_bytes: u64,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Timings {
    /// Making the connection, TLS included; 0 on a connection that was used before.
    pub connect_ms: u32,
    /// From sending the request to the end of the head.
    pub first_byte_ms: u32,
    /// From sending the request to the end of the body.
    pub total_ms: u32,
}

impl Response {
    pub fn status(&self) -> u16 {
        self.head.status()
    }

    pub fn version(&self) -> Version {
        self.head.version()
    }

    /// The first header of that name, in any case.
    pub fn header(&self, name: &str) -> Option<&[u8]> {
        self.head.get(name)
    }

    /// A URL in the first header of that name (`Location`): see `Head::get_url`.
    pub fn header_url(&self, name: &str) -> Option<Cow<'_, str>> {
        self.head.get_url(name)
    }

    /// The first header of that name, if it is UTF-8.
    pub fn header_str(&self, name: &str) -> Option<&str> {
        self.head.get_str(name)
    }
}

/// Sees an answer while it comes, and may say that it is enough. The rest is then not read: the
/// response is marked as truncated by length, and its connection is not used again.
pub trait BodySink {
    /// Called once, before the body.
    fn head(&mut self, _head: &Head) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }

    /// The next bytes of the body, transfer-decoded.
    fn body(&mut self, bytes: &[u8]) -> ControlFlow<()>;

    /// Asked before more of a body is read, with what came of it already (where the transfer is
    /// compressed, the sink is shown that only later): something to wait for
    /// first, such as memory. The server waits meanwhile; the request's time limit runs on.
    fn wait_before_more(&mut self, _so_far: &[u8]) -> Option<Wait> {
        None
    }

    /// Asked before more of a body is read: something to wait for because we are to read slowly. This time is ours: the request's
    /// time limit is put off by it, and it does not count as a slow pace.
    fn slow_down(&mut self, _so_far_bytes: usize) -> Option<Wait> {
        None
    }
}

pub type Wait = Pin<Box<dyn Future<Output = ()>>>;

impl<F: FnMut(&[u8]) -> ControlFlow<()>> BodySink for F {
    fn body(&mut self, bytes: &[u8]) -> ControlFlow<()> {
        self(bytes)
    }
}
