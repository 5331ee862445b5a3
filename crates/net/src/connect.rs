//! From a resolved name to an open connection. Every address passes the guard at the moment when it
//! is connected to; nothing is resolved here.

use crate::NetError;
use crate::error::is_exhaustion;
use crate::guard::Guard;
use crate::http::{Connection, HttpSettings, Origin, Scheme, Stream};
use crate::resolve::Resolved;
use crate::tls::{BadCertificate, Certificate, SetupError, Tls};
use rustls::pki_types::ServerName;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout_at};
use tokio_rustls::TlsConnector;

/// At most this many addresses of a host are tried.
const MAX_ADDRESSES_TRIED: usize = 4;

/// Makes connections. Shared between workers.
pub struct Connector {
    settings: Arc<HttpSettings>,
    guard: Guard,
    tls: Tls,
}

impl Connector {
    pub fn new(settings: HttpSettings, guard: Guard) -> Result<Self, SetupError> {
        Ok(Self {
            tls: Tls::new(&settings)?,
            settings: Arc::new(settings),
            guard,
        })
    }

    pub fn settings(&self) -> &HttpSettings {
        &self.settings
    }

    /// A connection to `origin` at one of the addresses that its host was resolved to.
    pub async fn connect(
        &self,
        origin: &Origin,
        resolved: &Resolved,
    ) -> Result<Connection, NetError> {
        let started = Instant::now();
        let deadline = started + Duration::from_millis(self.settings.connect_timeout_ms);
        let (stream, peer) = self.reach(origin, resolved, deadline).await?;
        let rest = async {
            let (stream, certificate, speaks_http2) = match origin.scheme {
                Scheme::Http => (Stream::Tcp(stream), Certificate::None, false),
                Scheme::Https => self.secure(origin, stream).await?,
            };
            Connection::over(
                stream,
                origin.clone(),
                peer,
                certificate,
                self.settings.clone(),
                speaks_http2,
                started,
            )
            .await
        };
        match timeout_at(deadline, rest).await {
            Ok(connection) => connection,
            Err(_) => Err(self.too_slow("the TLS handshake")),
        }
    }

    /// The first address that takes a connection. Each gets an equal share of the time that is left.
    async fn reach(
        &self,
        origin: &Origin,
        resolved: &Resolved,
        deadline: Instant,
    ) -> Result<(TcpStream, SocketAddr), NetError> {
        let port = match resolved.port_override {
            // A person's rule says so.
            Some(port) => port,
            None => {
                self.guard.check_port(origin.port)?;
                origin.port
            }
        };
        let mut failure = NetError::Dns {
            host: origin.host().to_owned(),
            detail: "it has no address".to_owned(),
            no_such_name: true,
        };
        let count = resolved.addresses.len().min(MAX_ADDRESSES_TRIED);
        for (tried, &ip) in resolved.addresses[..count].iter().enumerate() {
            if let Err(refused) = self.guard.check(origin.host(), ip, resolved.named) {
                failure = refused.into();
                continue;
            }
            let address = SocketAddr::new(ip, port);
            let now = Instant::now();
            let share = deadline.saturating_duration_since(now) / (count - tried) as u32;
            match timeout_at(now + share, TcpStream::connect(address)).await {
                Ok(Ok(stream)) => {
                    // Requests are written whole, so waiting for more to send only delays them.
                    stream.set_nodelay(true).ok();
                    return Ok((stream, address));
                }
                Ok(Err(error)) if is_exhaustion(&error) => {
                    return Err(NetError::Exhausted {
                        detail: error.to_string(),
                    });
                }
                Ok(Err(error)) => {
                    failure = NetError::Connect {
                        address: address.to_string(),
                        detail: error.to_string(),
                    };
                }
                Err(_) => failure = self.too_slow("a connection"),
            }
        }
        Err(failure)
    }

    async fn secure(
        &self,
        origin: &Origin,
        stream: TcpStream,
    ) -> Result<(Stream, Certificate, bool), NetError> {
        let failed = |detail: String, certificate| NetError::Tls {
            host: origin.host().to_owned(),
            detail,
            certificate,
        };
        let host = origin.host();
        let name = ServerName::try_from(host.strip_suffix('.').unwrap_or(host))
            .map_err(|_| {
                failed(
                    "the host's name cannot be in a certificate".to_owned(),
                    None,
                )
            })?
            .to_owned();
        let stream = TlsConnector::from(self.tls.config.clone())
            .connect(name.clone(), stream)
            .await
            .map_err(|error| failed(error.to_string(), BadCertificate::of(&error)))?;
        let (_, session) = stream.get_ref();
        let certificate = self.tls.judge(session, &name);
        let speaks_http2 = session.alpn_protocol() == Some(b"h2".as_slice());
        Ok((Stream::Tls(Box::new(stream)), certificate, speaks_http2))
    }

    fn too_slow(&self, waiting_for: &'static str) -> NetError {
        NetError::Timeout {
            waiting_for,
            after_ms: self.settings.connect_timeout_ms,
        }
    }
}
