//! One connection to one origin, whatever it speaks.

use super::h1::Http1;
use super::h2::Http2;
use super::{BodySink, HttpSettings, Origin, Request, Response, Stream, elapsed_ms};
use crate::NetError;
use crate::other::Other;
use crate::proxy::Forward;
use crate::tls::Certificate;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use tokio::time::Instant;

pub struct Connection {
    origin: Origin,
    peer: Option<SocketAddr>,
    certificate: Certificate,
    settings: Arc<HttpSettings>,
    transport: Transport,
    /// Told with the first response.
    connect_ms: u32,
}

/// A way to a server, ready for HTTP.
pub(crate) struct Opened {
    pub(crate) stream: Stream,
    pub(crate) peer: Option<SocketAddr>,
    pub(crate) certificate: Certificate,
    /// What the TLS handshake agreed on.
    pub(crate) speaks_http2: bool,
    /// The stream ends at a proxy, which is given requests whole.
    pub(crate) forward: Option<Forward>,
}

enum Transport {
    Http1(Box<Http1>),
    Http2(Box<Http2>),
    Other(Box<Other>),
}

impl Connection {
    /// Over an open stream to `origin`.
    pub(crate) async fn over(
        opened: Opened,
        origin: Origin,
        settings: Arc<HttpSettings>,
        started: Instant,
    ) -> Result<Self, NetError> {
        let transport = if opened.speaks_http2 {
            Transport::Http2(Box::new(Http2::new(opened.stream, &settings).await?))
        } else {
            let h1 = Http1::new(opened.stream, &settings, opened.forward);
            Transport::Http1(Box::new(h1))
        };
        Ok(Self {
            origin,
            peer: opened.peer,
            certificate: opened.certificate,
            settings,
            transport,
            connect_ms: elapsed_ms(started),
        })
    }

    /// To what speaks no HTTP.
    pub(crate) fn other(
        other: Other,
        (origin, peer): (Origin, Option<SocketAddr>),
        settings: Arc<HttpSettings>,
        started: Instant,
    ) -> Self {
        Self {
            origin,
            peer,
            certificate: Certificate::None,
            settings,
            transport: Transport::Other(Box::new(other)),
            connect_ms: elapsed_ms(started),
        }
    }

    /// Send one request and take its answer. An error means that no head came; what broke off
    /// later is a truncated response. A future that is dropped half-way leaves a connection that
    /// is not reusable.
    pub async fn fetch(
        &mut self,
        request: &Request<'_>,
        sink: &mut dyn BodySink,
    ) -> Result<Response, NetError> {
        let mut response = match &mut self.transport {
            Transport::Http1(h1) => {
                h1.fetch(&self.origin, &self.settings, request, sink)
                    .await?
            }
            Transport::Http2(h2) => {
                h2.fetch(&self.origin, &self.settings, request, sink)
                    .await?
            }
            Transport::Other(other) => other.fetch(&self.settings, request, sink).await?,
        };
        response.timings.connect_ms = std::mem::take(&mut self.connect_ms);
        Ok(response)
    }

    /// May another request be sent on it?
    pub fn reusable(&self) -> bool {
        match &self.transport {
            Transport::Http1(h1) => h1.reusable(),
            Transport::Http2(h2) => h2.reusable(),
            Transport::Other(other) => other.reusable(),
        }
    }

    pub fn origin(&self) -> &Origin {
        &self.origin
    }

    /// The server's address; `None` if a proxy looked it up and nobody here knows it.
    pub fn peer(&self) -> Option<IpAddr> {
        self.peer.map(|peer| peer.ip())
    }

    pub fn peer_socket(&self) -> Option<SocketAddr> {
        self.peer
    }

    /// What the server's certificate was worth.
    pub fn certificate(&self) -> &Certificate {
        &self.certificate
    }

    pub fn is_http2(&self) -> bool {
        matches!(self.transport, Transport::Http2(_))
    }
}
