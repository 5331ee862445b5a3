//! Listens and serves: plain threads, each with its own event loop, all accepting from the same sockets.

use crate::connection::Connection;
use crate::dns::DnsServer;
use crate::tls::self_signed;
use crate::web::Web;
use crate::witness::Witness;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::net::{TcpListener as AsyncListener, TcpSocket, TcpStream};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::watch;
use tokio_rustls::TlsAcceptor;

/// Connections that may wait to be accepted: more than any crawler opens at once.
const BACKLOG: u32 = 4_096;
const MAX_THREADS: usize = 64;
/// With port 0 and several addresses, the port the first one got may be taken on another.
const PORT_TRIES: usize = 16;
/// Pause after a failed accept (out of files), so that it does not spin.
const ACCEPT_PAUSE: Duration = Duration::from_millis(10);
/// A client has this long for its TLS handshake.
const HANDSHAKE_LIMIT: Duration = Duration::from_secs(10);

#[derive(Clone, Debug)]
pub struct ServerOptions {
    /// Addresses to listen on, all loopback.
    pub ips: Vec<IpAddr>,
    /// 0: any free one.
    pub port: u16,
    pub threads: usize,
    /// Speak TLS with a certificate made at start. Set the spec's `tls` too, for URLs to say `https`.
    pub tls: bool,
}

impl Default for ServerOptions {
    fn default() -> Self {
        ServerOptions {
            ips: vec![IpAddr::V4(Ipv4Addr::LOCALHOST)],
            port: 0,
            threads: 1,
            tls: false,
        }
    }
}

#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    #[error("cannot listen on {addr}: {source}; choose another port or address")]
    Listen { addr: SocketAddr, source: io::Error },
    #[error("{0} is not a loopback address; the simulated Web is served on this machine only")]
    NotLoopback(IpAddr),
    #[error("there is no address to listen on")]
    NoAddress,
    #[error("cannot start a server thread: {0}")]
    Thread(io::Error),
    #[error("cannot make a certificate: {0}")]
    Tls(String),
}

/// A running server; dropping it stops it.
pub struct Server {
    addrs: Vec<SocketAddr>,
    web: Arc<Web>,
    witness: Arc<Witness>,
    certificate_pem: Option<String>,
    stop: watch::Sender<bool>,
    threads: Vec<JoinHandle<()>>,
    dns: Option<DnsServer>,
}

impl Server {
    /// Serves `web` on one loopback address; TLS if the spec says so.
    pub fn start(web: Arc<Web>, addr: SocketAddr) -> Result<Server, ServerError> {
        let tls = web.spec.tls;
        let options = ServerOptions {
            ips: vec![addr.ip()],
            port: addr.port(),
            tls,
            ..ServerOptions::default()
        };
        Server::start_with(web, &options)
    }

    pub fn start_with(web: Arc<Web>, options: &ServerOptions) -> Result<Server, ServerError> {
        if let Some(ip) = options.ips.iter().find(|ip| !ip.is_loopback()) {
            return Err(ServerError::NotLoopback(*ip));
        }
        let listeners = listen(options)?;
        let addrs: Vec<SocketAddr> = listeners
            .iter()
            .filter_map(|l| l.local_addr().ok())
            .collect();
        let (acceptor, certificate_pem) = if options.tls {
            let (acceptor, pem) =
                self_signed(&web.spec.suffix, &options.ips).map_err(ServerError::Tls)?;
            (Some(acceptor), Some(pem))
        } else {
            (None, None)
        };
        let witness = Arc::new(Witness::new(web.clone(), &options.ips));
        let (stop, stopped) = watch::channel(false);
        let dns = match web.spec.sick.lost {
            0 => None,
            _ => Some(DnsServer::start(Arc::clone(&web), options.ips[0])?),
        };
        let mut server = Server {
            addrs,
            web,
            witness,
            certificate_pem,
            stop,
            threads: Vec::new(),
            dns,
        };
        for n in 0..options.threads.clamp(1, MAX_THREADS) {
            let own: Result<Vec<_>, _> = listeners.iter().map(TcpListener::try_clone).collect();
            let own = own.map_err(ServerError::Thread)?;
            let runtime = event_loop().map_err(ServerError::Thread)?;
            let room = Room {
                web: server.web.clone(),
                witness: server.witness.clone(),
                acceptor: acceptor.clone(),
            };
            let stopped = stopped.clone();
            let thread = std::thread::Builder::new()
                .name(format!("simweb-{n}"))
                .spawn(move || runtime.block_on(room.serve(own, stopped)))
                .map_err(ServerError::Thread)?;
            server.threads.push(thread);
        }
        Ok(server)
    }

    /// The first address; all have the same port.
    pub fn addr(&self) -> SocketAddr {
        self.addrs[0]
    }

    pub fn addrs(&self) -> &[SocketAddr] {
        &self.addrs
    }

    /// Where the Web's DNS server is, if it has one: it has where the spec says that hosts are lost.
    pub fn dns_addr(&self) -> Option<SocketAddr> {
        self.dns.as_ref().map(DnsServer::addr)
    }

    pub fn web(&self) -> &Arc<Web> {
        &self.web
    }

    pub fn witness(&self) -> &Arc<Witness> {
        &self.witness
    }

    /// The certificate that clients must trust, where TLS is spoken.
    pub fn certificate_pem(&self) -> Option<&str> {
        self.certificate_pem.as_deref()
    }

    /// Closes every connection and waits for the threads to end. The witness can be asked afterwards.
    pub fn shutdown(mut self) -> Arc<Witness> {
        self.stop_threads();
        self.witness.clone()
    }

    fn stop_threads(&mut self) {
        // Fails only when every thread has ended already.
        let _ = self.stop.send(true);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop_threads();
    }
}

/// What each thread serves.
#[derive(Clone)]
struct Room {
    web: Arc<Web>,
    witness: Arc<Witness>,
    acceptor: Option<TlsAcceptor>,
}

impl Room {
    async fn serve(self, listeners: Vec<TcpListener>, mut stopped: watch::Receiver<bool>) {
        for listener in listeners {
            let Ok(listener) = AsyncListener::from_std(listener) else {
                continue;
            };
            tokio::spawn(self.clone().accept(listener));
        }
        // An error means that the server is gone: time to end as well. Leaving drops every connection.
        let _ = stopped.wait_for(|stop| *stop).await;
    }

    async fn accept(self, listener: AsyncListener) {
        loop {
            match listener.accept().await {
                Ok((stream, _)) => {
                    tokio::spawn(self.clone().connection(stream));
                }
                Err(_) => tokio::time::sleep(ACCEPT_PAUSE).await,
            }
        }
    }

    async fn connection(self, stream: TcpStream) {
        let _ = stream.set_nodelay(true);
        let ip = stream
            .local_addr()
            .map(|a| self.witness.ip_slot(a.ip()))
            .unwrap_or(0);
        self.witness.connected();
        match &self.acceptor {
            None => {
                Connection::new(self.web, self.witness, stream, ip)
                    .serve()
                    .await
            }
            // The witness can be asked without TLS, by who has no TLS at hand.
            Some(_) if !speaks_tls(&stream).await => {
                Connection::new(self.web, self.witness, stream, ip)
                    .for_control()
                    .serve()
                    .await
            }
            Some(acceptor) => {
                if let Ok(Ok(stream)) =
                    tokio::time::timeout(HANDSHAKE_LIMIT, acceptor.accept(stream)).await
                {
                    Connection::new(self.web, self.witness, stream, ip)
                        .serve()
                        .await;
                }
            }
        }
    }
}

/// Whether what a client sends first is a TLS handshake, and not a line of text.
async fn speaks_tls(stream: &TcpStream) -> bool {
    const HANDSHAKE_RECORD: u8 = 0x16;
    let mut first = [HANDSHAKE_RECORD];
    // A client that says nothing is left to the handshake, which has a time limit.
    let _ = tokio::time::timeout(HANDSHAKE_LIMIT, stream.peek(&mut first)).await;
    first[0] == HANDSHAKE_RECORD
}

fn event_loop() -> io::Result<Runtime> {
    Builder::new_current_thread().enable_all().build()
}

fn listen(options: &ServerOptions) -> Result<Vec<TcpListener>, ServerError> {
    let first = *options.ips.first().ok_or(ServerError::NoAddress)?;
    let runtime = event_loop().map_err(ServerError::Thread)?;
    let _inside = runtime.enter();
    let mut tries = 0;
    loop {
        tries += 1;
        let mut listeners = vec![bind(SocketAddr::new(first, options.port))?];
        let port = listeners[0].local_addr().map_or(options.port, |a| a.port());
        let others: Result<Vec<_>, _> = options.ips[1..]
            .iter()
            .map(|ip| bind(SocketAddr::new(*ip, port)))
            .collect();
        match others {
            Ok(others) => {
                listeners.extend(others);
                return Ok(listeners);
            }
            Err(error) if options.port != 0 || tries >= PORT_TRIES => return Err(error),
            Err(_) => {}
        }
    }
}

fn bind(addr: SocketAddr) -> Result<TcpListener, ServerError> {
    let open = || {
        let socket = if addr.is_ipv4() {
            TcpSocket::new_v4()?
        } else {
            TcpSocket::new_v6()?
        };
        socket.set_reuseaddr(true)?;
        socket.bind(addr)?;
        socket.listen(BACKLOG)?.into_std()
    };
    open().map_err(|source| ServerError::Listen { addr, source })
}
