//! The HTTP side: one thread, and a bound for whatever somebody could have too much of.

use std::cell::{Cell, RefCell};
use std::convert::Infallible;
use std::future::Future;
use std::net::{IpAddr, SocketAddr};

use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper::body::{Body, Incoming};
use hyper::header::{ALLOW, CONTENT_TYPE, HeaderValue, RETRY_AFTER};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use portolan_model::{Canonicalizer, SystemClock};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, oneshot};
use tokio::task::LocalSet;

use super::allowance::Allowances;
use super::keys::{Keys, Verdict};
use super::message::{Fault, Key, Ping, Reader};
use super::{PingCounts, PingOptions};
use crate::assembly;
use crate::crawl::Crawl;
use crate::error::CrawlError;
use crate::keep::{Teller, leave, waiting_files};
use crate::named::Named;
use crate::shared::Shared;

/// Where pings are heard.
const PATH: &str = "/indexnow";
/// Ten thousand URLs of 800 bytes.
const MAX_BODY_BYTES: u64 = 8 << 20;
/// Of all bodies that are being read, in KiB.
const BODIES_KIB: u32 = 64 << 10;
const MAX_CONNECTIONS: u32 = 256;
/// A connection says something within this time, ...
const HEAD_LIMIT: Duration = Duration::from_secs(10);
const BODY_LIMIT: Duration = Duration::from_secs(30);
/// ... and is closed after this one.
const CONNECTION_LIMIT: Duration = Duration::from_secs(300);
/// For longer nobody waits until a key was looked for: the answer is 202.
const KEY_LIMIT: Duration = Duration::from_secs(5);
/// While this many files wait, no crawl takes them up.
const MOST_WAITING: usize = 20_000;
/// How often they are counted.
const COUNT_EVERY: Duration = Duration::from_secs(5);
/// What is under way may end within this time when it is to stop.
const GRACE: Duration = Duration::from_secs(2);
/// When to come back, in seconds.
const LATER_S: &str = "60";

/// Hears pings until `stop`. `begun` is told where.
pub fn receive_pings(
    options: PingOptions,
    stop: impl Future<Output = ()>,
    begun: impl FnOnce(SocketAddr),
) -> Result<PingCounts, CrawlError> {
    let dir = &options.dir;
    if !Crawl::exists(dir) {
        return Err(CrawlError::NoCrawl(dir.to_owned()));
    }
    let settings = Crawl::saved_settings(dir)?;
    let canonicalizer = Canonicalizer::new(&settings.urls);
    let clock = Arc::new(SystemClock::start());
    let mapping = assembly::mapping(&settings, &assembly::bounds(&settings), clock.clone(), None)?;
    let named = Named::read(dir)?;
    let shared = Shared::alone(settings, &Crawl::seeds(dir)?, &named, mapping, clock)?;
    let office = Rc::new(Office {
        keys: Keys::new(dir.clone(), shared),
        canonicalizer,
        clients: RefCell::new(Allowances::new()),
        hosts: RefCell::new(Allowances::new()),
        bodies: Semaphore::new(BODIES_KIB as usize),
        waiting: Cell::new((waiting_files(dir), Instant::now())),
        counts: Cell::default(),
        options: options.clone(),
    });
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|e| CrawlError::Internal(format!("nothing can be heard: {e}")))?;
    let hearing = LocalSet::new();
    let heard = hearing.block_on(&runtime, async {
        let listener = TcpListener::bind(options.listen).await;
        let listener = listener.map_err(|e| {
            CrawlError::Input(format!("{} cannot be listened on: {e}", options.listen))
        })?;
        begun(listener.local_addr().unwrap_or(options.listen));
        hear(&office, listener, stop).await;
        Ok(office.counts.get())
    });
    drop(hearing);
    runtime.shutdown_background();
    heard
}

async fn hear(office: &Rc<Office>, listener: TcpListener, stop: impl Future<Output = ()>) {
    let places = Arc::new(Semaphore::new(MAX_CONNECTIONS as usize));
    let accepting = async {
        loop {
            // The rest waits in the system's queue.
            let Ok(place) = Arc::clone(&places).acquire_owned().await else {
                return;
            };
            match listener.accept().await {
                Ok((stream, peer)) => {
                    let office = Rc::clone(office);
                    tokio::task::spawn_local(async move {
                        office.serve(stream, peer.ip()).await;
                        drop(place);
                    });
                }
                Err(error) => {
                    tracing::warn!(%error, "a connection was not taken");
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
            }
        }
    };
    tokio::select! {
        () = accepting => {}
        () = stop => {}
    }
    let _ = tokio::time::timeout(GRACE, places.acquire_many(MAX_CONNECTIONS)).await;
}

/// What all connections share.
struct Office {
    options: PingOptions,
    canonicalizer: Canonicalizer,
    keys: Keys,
    /// What each client may still say before it is known whether it may say anything, ...
    clients: RefCell<Allowances<IpAddr>>,
    /// ... and what may still be said in the name of each host.
    hosts: RefCell<Allowances<String>>,
    bodies: Semaphore,
    /// Files that waited for the crawl, and when that was.
    waiting: Cell<(usize, Instant)>,
    counts: Cell<PingCounts>,
}

/// A status, and a sentence.
type Answer = (StatusCode, String);

impl Office {
    async fn serve(self: Rc<Self>, stream: TcpStream, peer: IpAddr) {
        let service = service_fn(|request| {
            let office = Rc::clone(&self);
            async move {
                let answer = office.answer(request, peer.to_canonical()).await;
                Ok::<_, Infallible>(in_http(answer))
            }
        });
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(HEAD_LIMIT)
            .max_buf_size(64 << 10)
            .serve_connection(TokioIo::new(stream), service);
        // What a client does wrong is its own affair.
        let _ = tokio::time::timeout(CONNECTION_LIMIT, connection).await;
    }

    async fn answer(self: &Rc<Self>, request: Request<Incoming>, peer: IpAddr) -> Answer {
        if request.uri().path() != PATH {
            let told = format!("pings are heard at {PATH}");
            return (StatusCode::NOT_FOUND, told);
        }
        self.count(|counts| counts.pings += 1);
        let is_trusted = self.options.trusted.iter().any(|net| net.contains(peer));
        let reader = Reader {
            canonicalizer: &self.canonicalizer,
            is_trusted,
        };
        let read = match *request.method() {
            Method::GET => reader.query(request.uri().query().unwrap_or_default()),
            Method::POST => match self.body_of(request).await {
                Ok(body) => reader.json(&body),
                Err(answer) => return answer,
            },
            _ => {
                let told = "a ping is a GET or a POST".to_owned();
                return (StatusCode::METHOD_NOT_ALLOWED, told);
            }
        };
        let ping = match read {
            Ok(ping) => ping,
            Err(Fault::Malformed(why)) => return (StatusCode::BAD_REQUEST, why),
            Err(Fault::Unfit(why)) => return (StatusCode::UNPROCESSABLE_ENTITY, why),
        };
        let told = ping.urls.len();
        let may = is_trusted || self.clients.borrow_mut().take(peer, told, Instant::now());
        if !may || self.too_many_wait() {
            return too_many("too many pings; come back later");
        }
        match ping.key.clone() {
            None => self.take(&ping),
            Some(key) => self.judge(ping, key).await,
        }
    }

    /// The body, in bounded time and memory.
    async fn body_of(&self, request: Request<Incoming>) -> Result<Bytes, Answer> {
        let too_large = || {
            let told = format!("a ping has up to {MAX_BODY_BYTES} bytes");
            (StatusCode::PAYLOAD_TOO_LARGE, told)
        };
        let said = request.body().size_hint();
        if said.lower() > MAX_BODY_BYTES {
            return Err(too_large());
        }
        let bytes = said.exact().unwrap_or(MAX_BODY_BYTES);
        let kib = u32::try_from(bytes.div_ceil(1024)).unwrap_or(BODIES_KIB);
        let Ok(_room) = self.bodies.try_acquire_many(kib) else {
            return Err(too_many("too many pings at once; come back later"));
        };
        let body = Limited::new(request.into_body(), MAX_BODY_BYTES as usize).collect();
        match tokio::time::timeout(BODY_LIMIT, body).await {
            Ok(Ok(body)) => Ok(body.to_bytes()),
            Ok(Err(error)) if error.is::<LengthLimitError>() => Err(too_large()),
            Ok(Err(_)) => Err((StatusCode::BAD_REQUEST, "the body breaks off".to_owned())),
            Err(_) => Err((
                StatusCode::REQUEST_TIMEOUT,
                "the body did not come in time".to_owned(),
            )),
        }
    }

    /// Takes the ping if its key is right; looks for it as long as it needs, and lets the client wait for a while.
    async fn judge(self: &Rc<Self>, ping: Ping, key: Key) -> Answer {
        let (send, receive) = oneshot::channel();
        let office = Rc::clone(self);
        tokio::task::spawn_local(async move {
            let answer = match office.keys.judge(&key).await {
                Ok(Verdict::Right) => office.take(&ping),
                Ok(Verdict::Wrong(why)) => (StatusCode::FORBIDDEN, why),
                Ok(Verdict::Unknown) => (
                    StatusCode::UNPROCESSABLE_ENTITY,
                    format!("this crawl knows no page of {}", key.at.host()),
                ),
                Ok(Verdict::Busy) => too_many("other keys are being looked for; come back later"),
                Err(error) => office.trouble(&error),
            };
            tracing::info!(key = %key.at, status = answer.0.as_u16(), said = %answer.1, "a ping");
            let _ = send.send(answer);
        });
        match tokio::time::timeout(KEY_LIMIT, receive).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(_)) => (
                StatusCode::INTERNAL_SERVER_ERROR,
                "the key was not looked for".to_owned(),
            ),
            Err(_) => (
                StatusCode::ACCEPTED,
                "received; the key is still being looked for".to_owned(),
            ),
        }
    }

    /// Leaves what was said for the crawl.
    fn take(&self, ping: &Ping) -> Answer {
        let (told, host) = (ping.urls.len(), ping.urls.first().map(|url| url.host()));
        let host = host.unwrap_or_default().to_owned();
        if !(self.hosts.borrow_mut()).take(host, told, Instant::now()) {
            return too_many("too many pings for this host; come back later");
        }
        if let Err(error) = leave(&self.options.dir, Teller::Site, &ping.urls) {
            return self.trouble(&error);
        }
        self.count(|counts| {
            counts.taken += 1;
            counts.urls += told as u64;
        });
        let (waiting, at) = self.waiting.get();
        self.waiting.set((waiting + 1, at));
        (StatusCode::OK, "received".to_owned())
    }

    fn trouble(&self, error: &CrawlError) -> Answer {
        tracing::warn!(%error, "a ping was not taken");
        (
            StatusCode::INTERNAL_SERVER_ERROR,
            "it could not be written down".to_owned(),
        )
    }

    fn too_many_wait(&self) -> bool {
        let (waiting, at) = self.waiting.get();
        if at.elapsed() < COUNT_EVERY {
            return waiting >= MOST_WAITING;
        }
        let waiting = waiting_files(&self.options.dir);
        self.waiting.set((waiting, Instant::now()));
        waiting >= MOST_WAITING
    }

    fn count(&self, add: impl FnOnce(&mut PingCounts)) {
        let mut counts = self.counts.get();
        add(&mut counts);
        self.counts.set(counts);
    }
}

fn too_many(why: &str) -> Answer {
    (StatusCode::TOO_MANY_REQUESTS, why.to_owned())
}

fn in_http((status, sentence): Answer) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::from(sentence + "\n"));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    let text = HeaderValue::from_static("text/plain; charset=utf-8");
    headers.insert(CONTENT_TYPE, text);
    match status {
        StatusCode::TOO_MANY_REQUESTS => {
            headers.insert(RETRY_AFTER, HeaderValue::from_static(LATER_S));
        }
        StatusCode::METHOD_NOT_ALLOWED => {
            headers.insert(ALLOW, HeaderValue::from_static("GET, POST"));
        }
        _ => {}
    }
    response
}
