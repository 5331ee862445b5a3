//! From a resolved name to an open connection, through a proxy where a person wants one. Every address passes the guard at the
//! moment when it is connected to; nothing is resolved here.

use crate::NetError;
use crate::dial::Dialer;
use crate::error::is_exhaustion;
use crate::guard::Guard;
use crate::http::{Connection, HttpSettings, Opened, Origin, Scheme, Stream};
use crate::other::{Other, Speaker};
use crate::proxy::{Forward, Kind, Proxies, Proxy, Target};
use crate::resolve::Resolved;
use crate::tls::{BadCertificate, Certificate, SetupError, Tls};
use rustls::pki_types::ServerName;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
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
    proxies: Proxies,
    /// `file` URLs are read below these alone.
    folders: Arc<[PathBuf]>,
    tls: Tls,
    /// Opens connections instead of this machine's network.
    dialer: Option<Arc<dyn Dialer>>,
}

/// Where a connection ends, and what it is to be used as.
struct Reached {
    stream: Stream,
    peer: Option<SocketAddr>,
    forward: Option<Forward>,
}

impl Connector {
    pub fn new(settings: HttpSettings, guard: Guard) -> Result<Self, SetupError> {
        Ok(Self {
            tls: Tls::new(&settings)?,
            settings: Arc::new(settings),
            guard,
            proxies: Proxies::default(),
            dialer: None,
            folders: Arc::default(),
        })
    }

    /// Through these proxies, which were located.
    #[must_use]
    pub fn through(mut self, proxies: Proxies) -> Self {
        self.proxies = proxies;
        self
    }

    /// The same, but `dialer` opens the connections that go through no proxy.
    #[must_use]
    pub fn dialled_by(mut self, dialer: Arc<dyn Dialer>) -> Self {
        self.dialer = Some(dialer);
        self
    }

    /// The same, but files below these folders may be read.
    #[must_use]
    pub fn with_folders(mut self, folders: &[PathBuf]) -> Self {
        self.folders = folders.into();
        self
    }

    /// The same, but these hosts, which a person named, may also be at addresses of the kind that they had then.
    #[must_use]
    pub fn with_named_hosts(
        mut self,
        hosts: impl IntoIterator<Item = (String, Vec<IpAddr>)>,
    ) -> Self {
        self.guard.name_hosts(hosts);
        self
    }

    pub fn settings(&self) -> &HttpSettings {
        &self.settings
    }

    /// Does a proxy resolve the origin's name? Then it is connected to without an address.
    pub fn resolves_elsewhere(&self, origin: &Origin) -> bool {
        self.proxies.resolves(origin)
    }

    /// A connection to `origin` at one of the addresses that its host was resolved to.
    pub async fn connect(
        &self,
        origin: &Origin,
        resolved: &Resolved,
    ) -> Result<Connection, NetError> {
        let started = Instant::now();
        let deadline = started + Duration::from_millis(self.settings.connect_timeout_ms);
        match Speaker::of(origin.scheme) {
            Speaker::Http => self.connect_http(origin, resolved, started, deadline).await,
            Speaker::Over(speak) => {
                let reached = self.reach_other(origin, resolved, deadline).await?;
                let place = (origin.clone(), reached.peer);
                let other = speak(reached.stream, reached.peer);
                Ok(self.connection(other, place, started))
            }
            Speaker::Here(speak) => {
                let other = speak(self.folders.clone());
                Ok(self.connection(other, (origin.clone(), None), started))
            }
        }
    }

    async fn connect_http(
        &self,
        origin: &Origin,
        resolved: &Resolved,
        started: Instant,
        deadline: Instant,
    ) -> Result<Connection, NetError> {
        let reached = if self.resolves_elsewhere(origin) {
            self.reach_by_name(origin, deadline).await?
        } else {
            self.reach(origin, resolved, deadline).await?
        };
        let rest = async {
            let (stream, certificate, speaks_http2) = match origin.scheme {
                Scheme::Https => self.secure(origin, reached.stream).await?,
                _ => (reached.stream, Certificate::None, false),
            };
            let opened = Opened {
                stream,
                peer: reached.peer,
                certificate,
                speaks_http2,
                forward: reached.forward,
            };
            Connection::over(opened, origin.clone(), self.settings.clone(), started).await
        };
        match timeout_at(deadline, rest).await {
            Ok(connection) => connection,
            Err(_) => Err(self.too_slow("the TLS handshake")),
        }
    }

    async fn open(&self, address: SocketAddr) -> Result<Stream, NetError> {
        let Some(dialer) = &self.dialer else {
            return open(address).await.map(Stream::Tcp);
        };
        let dialled = dialer.dial(address).await;
        dialled
            .map(Stream::Outside)
            .map_err(|error| not_open(address, &error))
    }

    /// To what speaks no HTTP. No proxy leads there: who wants one for it gets no connection past it.
    async fn reach_other(
        &self,
        origin: &Origin,
        resolved: &Resolved,
        deadline: Instant,
    ) -> Result<Reached, NetError> {
        if self.proxies.of(origin).is_some() {
            return Err(NetError::Connect {
                address: origin.to_string(),
                detail: format!("no proxy leads to {} servers", origin.scheme),
            });
        }
        self.reach(origin, resolved, deadline).await
    }

    fn connection(
        &self,
        other: Other,
        place: (Origin, Option<SocketAddr>),
        started: Instant,
    ) -> Connection {
        Connection::other(other, place, self.settings.clone(), started)
    }

    /// The first address that takes a connection. Each gets an equal share of the time that is left.
    async fn reach(
        &self,
        origin: &Origin,
        resolved: &Resolved,
        deadline: Instant,
    ) -> Result<Reached, NetError> {
        let port = match resolved.port_override {
            // A person's rule says so.
            Some(port) => port,
            // The port that its protocol has by right.
            None if origin.port == origin.scheme.default_port() => origin.port,
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
            let stream = async {
                match self.proxies.of(origin) {
                    Some(proxy) => self.open_through(proxy, Target::Address(address)).await,
                    None => self.open(address).await,
                }
            };
            match timeout_at(now + share, stream).await {
                Ok(Ok(stream)) => {
                    return Ok(Reached {
                        stream,
                        peer: Some(address),
                        forward: None,
                    });
                }
                Ok(Err(error)) if error.is_our_own() => return Err(error),
                Ok(Err(error)) => failure = error,
                Err(_) => failure = self.too_slow("a connection"),
            }
        }
        Err(failure)
    }

    /// Through a proxy that resolves names. What the name stands for is not known here; an address in its place is judged.
    async fn reach_by_name(&self, origin: &Origin, deadline: Instant) -> Result<Reached, NetError> {
        let Some(proxy) = self.proxies.of(origin) else {
            return Err(NetError::Connect {
                address: origin.to_string(),
                detail: "it has no proxy".to_owned(),
            });
        };
        self.guard.check_port(origin.port)?;
        let host = origin.host().trim_end_matches('.');
        let is_local = host == "localhost" || host.ends_with(".localhost");
        let ip = match is_local {
            true => Some(IpAddr::V4(Ipv4Addr::LOCALHOST)),
            false => host.parse::<IpAddr>().ok(),
        };
        if let Some(ip) = ip {
            self.guard.check(origin.host(), ip, false)?;
        }
        // An HTTP proxy may allow CONNECT for https alone, so plain http is given to it whole.
        let is_forwarded = proxy.kind != Kind::Socks5 && origin.scheme == Scheme::Http;
        let stream = async {
            if is_forwarded {
                self.open_to(proxy).await
            } else {
                let target = Target::Name(origin.host(), origin.port);
                self.open_through(proxy, target).await
            }
        };
        match timeout_at(deadline, stream).await {
            Ok(stream) => Ok(Reached {
                stream: stream?,
                peer: None,
                forward: is_forwarded.then(|| Forward {
                    origin: origin.to_string(),
                    authorization: proxy.authorization(),
                }),
            }),
            Err(_) => Err(self.too_slow("a connection")),
        }
    }

    /// A connection to `target` that a proxy made.
    async fn open_through(&self, proxy: &Proxy, target: Target<'_>) -> Result<Stream, NetError> {
        let mut stream = self.open_to(proxy).await?;
        let agent = &self.settings.agent.user_agent;
        match proxy.lead(&mut stream, target, agent).await {
            Ok(()) => Ok(stream),
            Err(detail) => Err(NetError::Connect {
                address: target.to_string(),
                detail: format!("the proxy {proxy}: {detail}"),
            }),
        }
    }

    /// A connection to the proxy itself.
    async fn open_to(&self, proxy: &Proxy) -> Result<Stream, NetError> {
        let mut failure = NetError::Connect {
            address: proxy.to_string(),
            detail: "the proxy has no address".to_owned(),
        };
        for &address in proxy.addresses.iter().take(MAX_ADDRESSES_TRIED) {
            match open(address).await {
                Ok(stream) if proxy.kind != Kind::Https => return Ok(Stream::Tcp(stream)),
                Ok(stream) => {
                    let failed = |detail: String| NetError::Connect {
                        address: proxy.to_string(),
                        detail,
                    };
                    let name = ServerName::try_from(proxy.host.clone())
                        .map_err(|error| failed(error.to_string()))?;
                    let stream = TlsConnector::from(self.tls.for_proxies.clone())
                        .connect(name, stream)
                        .await
                        .map_err(|error| failed(error.to_string()))?;
                    return Ok(Stream::Tls(Box::new(stream)));
                }
                Err(error) if error.is_our_own() => return Err(error),
                Err(error) => failure = error,
            }
        }
        Err(failure)
    }

    async fn secure(
        &self,
        origin: &Origin,
        stream: Stream,
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
        let connector = TlsConnector::from(self.tls.config.clone());
        let lost = |error: std::io::Error| failed(error.to_string(), BadCertificate::of(&error));
        let judged = |session: &rustls::ClientConnection| {
            let speaks_http2 = session.alpn_protocol() == Some(b"h2".as_slice());
            (self.tls.judge(session, &name), speaks_http2)
        };
        match stream {
            Stream::Tcp(stream) => {
                let stream = connector
                    .connect(name.clone(), stream)
                    .await
                    .map_err(lost)?;
                let (certificate, speaks_http2) = judged(stream.get_ref().1);
                Ok((Stream::Tls(Box::new(stream)), certificate, speaks_http2))
            }
            Stream::Tls(stream) => {
                let stream = connector
                    .connect(name.clone(), *stream)
                    .await
                    .map_err(lost)?;
                let (certificate, speaks_http2) = judged(stream.get_ref().1);
                Ok((
                    Stream::TlsInTls(Box::new(stream)),
                    certificate,
                    speaks_http2,
                ))
            }
            // No way to a server begins so.
            Stream::TlsInTls(_) => Err(failed("there is TLS in TLS already".to_owned(), None)),
            Stream::Outside(_) => Err(failed(
                "it is dialled from outside, without TLS".to_owned(),
                None,
            )),
        }
    }

    fn too_slow(&self, waiting_for: &'static str) -> NetError {
        NetError::Timeout {
            waiting_for,
            after_ms: self.settings.connect_timeout_ms,
        }
    }
}

pub(crate) async fn open(address: SocketAddr) -> Result<TcpStream, NetError> {
    match TcpStream::connect(address).await {
        Ok(stream) => {
            // Requests are written whole, so waiting for more to send only delays them.
            stream.set_nodelay(true).ok();
            Ok(stream)
        }
        Err(error) => Err(not_open(address, &error)),
    }
}

fn not_open(address: SocketAddr, error: &std::io::Error) -> NetError {
    let detail = error.to_string();
    match is_exhaustion(error) {
        true => NetError::Exhausted { detail },
        false => NetError::Connect {
            address: address.to_string(),
            detail,
        },
    }
}
