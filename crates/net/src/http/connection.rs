//! One connection to one origin, whichever HTTP it speaks.

use super::h1::Http1;
use super::h2::Http2;
use super::{BodySink, HttpSettings, Origin, Request, Response, Stream, elapsed_ms};
use crate::NetError;
use crate::tls::Certificate;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use tokio::time::Instant;

pub struct Connection {
    origin: Origin,
    peer: SocketAddr,
    certificate: Certificate,
    settings: Arc<HttpSettings>,
    transport: Transport,
    /// Told with the first response.
    connect_ms: u32,
}

enum Transport {
    Http1(Box<Http1>),
    Http2(Box<Http2>),
}

impl Connection {
    /// Over an open stream; `speaks_http2` is what the TLS handshake agreed on.
    pub(crate) async fn over(
        stream: Stream,
        origin: Origin,
        peer: SocketAddr,
        certificate: Certificate,
        settings: Arc<HttpSettings>,
        speaks_http2: bool,
        started: Instant,
    ) -> Result<Self, NetError> {
        let transport = if speaks_http2 {
            Transport::Http2(Box::new(Http2::new(stream, &settings).await?))
        } else {
            Transport::Http1(Box::new(Http1::new(stream, &settings)))
        };
        Ok(Self {
            origin,
            peer,
            certificate,
            settings,
            transport,
            connect_ms: elapsed_ms(started),
        })
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
        };
        response.timings.connect_ms = std::mem::take(&mut self.connect_ms);
        Ok(response)
    }

    /// May another request be sent on it?
    pub fn reusable(&self) -> bool {
        match &self.transport {
            Transport::Http1(h1) => h1.reusable(),
            Transport::Http2(h2) => h2.reusable(),
        }
    }

    pub fn origin(&self) -> &Origin {
        &self.origin
    }

    /// The address that it is connected to.
    pub fn peer(&self) -> IpAddr {
        self.peer.ip()
    }

    pub fn peer_socket(&self) -> SocketAddr {
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
