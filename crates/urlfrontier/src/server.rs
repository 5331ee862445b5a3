//! The server: where it listens, who may call it, and how it ends.

use std::future::Future;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use tokio::net::TcpListener;
use tonic::service::interceptor::InterceptedService;
use tonic::transport::server::TcpIncoming;
use tonic::transport::{Identity, Server, ServerTlsConfig};
use tonic::{Request, Status};

use crate::api::url_frontier_server::UrlFrontierServer;
use crate::clerk::{Clerk, Found};
use crate::error::FrontierError;
use crate::service::{LogLevels, Service};

/// How long calls that are under way have to end, once the server is told to.
const FAREWELL: Duration = Duration::from_secs(3);
/// A client that does not answer for twice as long is gone.
const KEEP_ALIVE: Duration = Duration::from_secs(30);

/// What a server needs to know.
pub struct ServerOptions {
    /// Where the frontier's store is, or is to be.
    pub dir: PathBuf,
    /// Where to listen; port 0 takes any.
    pub listen: SocketAddr,
    /// Memory for the store, in bytes: what was read and what was written lately. Queues come on top of it.
    pub memory: u64,
    /// Certificate and key, as PEM. None: plain text.
    pub tls: Option<(Vec<u8>, Vec<u8>)>,
    /// Calls have to bring this token. None: everyone may call.
    pub token: Option<String>,
    /// Speak plain text with other machines, too.
    pub insecure: bool,
    /// Who hears SetLogLevel.
    pub log_levels: LogLevels,
}

/// Serves until `stop` is there. `begun` hears where it listens and what the store had.
///
/// # Errors
///
/// What the person has to change, or what went wrong with the store or the network. What was acknowledged is on the disk in any case.
pub async fn serve(
    options: ServerOptions,
    stop: impl Future<Output = ()> + Send,
    begun: impl FnOnce(SocketAddr, Found),
) -> Result<(), FrontierError> {
    if options.tls.is_none() && !options.insecure && !options.listen.ip().is_loopback() {
        return Err(FrontierError::PlainText(options.listen));
    }
    let listener = TcpListener::bind(options.listen).await;
    let listener = listener
        .map_err(|e| FrontierError::Network(format!("cannot listen on {}: {e}", options.listen)))?;
    let network = |e: &dyn std::fmt::Display| FrontierError::Network(format!("the server: {e}"));
    let address = listener.local_addr().map_err(|e| network(&e))?;
    let mut server = Server::builder()
        .http2_keepalive_interval(Some(KEEP_ALIVE))
        .http2_keepalive_timeout(Some(KEEP_ALIVE));
    if let Some((certificate, key)) = &options.tls {
        let identity = Identity::from_pem(certificate, key);
        let tls = ServerTlsConfig::new().identity(identity);
        server = server.tls_config(tls).map_err(|e| {
            FrontierError::Input(format!("certificate and key: {}", told_whole(&e)))
        })?;
    }
    let (clerk, threads, found) = Clerk::begin(&options.dir, options.memory)?;
    let service = Service {
        clerk: clerk.clone(),
        address: address.to_string(),
        log_levels: options.log_levels,
    };
    let service = InterceptedService::new(UrlFrontierServer::new(service), gate(options.token));
    begun(address, found);
    let (stopping, told) = tokio::sync::oneshot::channel();
    let serving = server.serve_with_incoming_shutdown(
        service,
        TcpIncoming::from(listener).with_nodelay(Some(true)),
        async {
            let _ = told.await;
        },
    );
    let farewell = async {
        stop.await;
        let _ = stopping.send(());
        tokio::time::sleep(FAREWELL).await;
    };
    let ended = tokio::select! {
        served = serving => served.map_err(|e| network(&told_whole(&e))),
        () = farewell => Ok(()),
        reason = clerk.failed() => Err(FrontierError::Network(reason)),
    };
    drop(clerk);
    let finished = tokio::task::spawn_blocking(move || threads.finish());
    // Calls of clients that never end keep the threads; what they were told is on the disk.
    let _ = tokio::time::timeout(FAREWELL, finished).await;
    ended
}

/// An error with its causes: tonic's own words leave them out.
pub(crate) fn told_whole(error: &(dyn std::error::Error + 'static)) -> String {
    let mut told = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let more = error.to_string();
        if !told.contains(&more) {
            told = format!("{told}: {more}");
        }
        cause = error.source();
    }
    told
}

/// Lets calls in that bring the token.
fn gate(
    token: Option<String>,
) -> impl FnMut(Request<()>) -> Result<Request<()>, Status> + Clone + Send + Sync + 'static {
    move |request| {
        let Some(token) = &token else {
            return Ok(request);
        };
        let given = request.metadata().get("authorization");
        let given = given.and_then(|value| value.as_bytes().strip_prefix(b"Bearer "));
        match given {
            Some(given) if is_same(given, token.as_bytes()) => Ok(request),
            Some(_) => Err(Status::unauthenticated("the token is not this server's")),
            None => Err(Status::unauthenticated(
                "this server wants its token: 'authorization: Bearer TOKEN'",
            )),
        }
    }
}

/// Compares without telling by its time how much of it was right.
fn is_same(given: &[u8], token: &[u8]) -> bool {
    let difference = given.iter().zip(token).fold(0, |all, (a, b)| all | (a ^ b));
    given.len() == token.len() && difference == 0
}
