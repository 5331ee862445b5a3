//! A crawl in a test's hands: a Web of answers that the test writes, without a socket, in one thread, on a clock that jumps to
//! the next thing that is to happen.

use std::future::Future;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use portolan_model::{Clock, Identities};
use portolan_net::{Addresses, Dialed, Dialer, Lookup, NotResolved, NotResolvedBy, Pipe, Resolver};
use portolan_registry::{Snapshot, UrlRecord};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio::runtime::Runtime;
use tokio::task::LocalSet;
use tokio::time::Instant;

use crate::crawl::{Crawl, Plan, Prepared, REGISTRY_DIR};
use crate::error::CrawlError;
use crate::outside::Outside;
use crate::report::Report;
use crate::scope::ScopeKind;
use crate::settings::Settings;

/// When the clock begins.
const BEGINNING_MS: u64 = 1_767_225_600_000;

/// A request as its server saw it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Seen {
    /// Since the rig was made.
    pub(crate) at_ms: u64,
    pub(crate) host: String,
    pub(crate) method: String,
    pub(crate) path: String,
    /// Connections that were opened so far, this one included.
    pub(crate) connection: usize,
    /// How often this had been asked for before.
    pub(crate) before: usize,
    pub(crate) head: String,
}

/// What a server does.
#[derive(Debug, Clone)]
pub(crate) enum Says {
    /// Status, header lines, body.
    This(u16, String, String),
    /// The same, after this number of milliseconds.
    Later(u64, Box<Says>),
    /// The connection is closed without a word.
    Nothing,
    /// Not HTTP.
    Noise,
}

impl Says {
    pub(crate) fn page(body: &str) -> Self {
        Self::This(
            200,
            "Content-Type: text/html\r\n".to_owned(),
            body.to_owned(),
        )
    }

    pub(crate) fn robots(body: &str) -> Self {
        Self::This(
            200,
            "Content-Type: text/plain\r\n".to_owned(),
            body.to_owned(),
        )
    }

    pub(crate) fn status(status: u16) -> Self {
        Self::This(status, String::new(), String::new())
    }

    pub(crate) fn to(target: &str) -> Self {
        Self::This(302, format!("Location: {target}\r\n"), String::new())
    }
}

/// A page with links to these.
pub(crate) fn links_to(targets: &[&str]) -> Says {
    let links = targets.iter().map(|to| format!("<a href=\"{to}\">x</a>"));
    Says::page(&links.collect::<String>())
}

type Script = dyn Fn(&Seen) -> Says + Send + Sync;

struct Web {
    script: Box<Script>,
    begun: Instant,
    seen: Mutex<Vec<Seen>>,
    connections: Mutex<usize>,
    /// Hosts and their addresses, in the order in which they were asked for.
    hosts: Mutex<Vec<(String, IpAddr)>>,
    /// All hosts have one address.
    one_address: bool,
    /// Nothing can be reached from the first to the second, in milliseconds.
    gone: Mutex<(u64, u64)>,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Web {
    fn now_ms(&self) -> u64 {
        self.begun.elapsed().as_millis() as u64
    }

    fn is_gone(&self) -> bool {
        let (from, to) = *locked(&self.gone);
        (from..to).contains(&self.now_ms())
    }

    /// Notes a request, and says what becomes of it.
    fn hear(&self, head: &str, connection: usize) -> Says {
        let mut words = head.split(' ');
        let (method, path) = (words.next().unwrap_or(""), words.next().unwrap_or(""));
        let host = head.lines().find_map(|line| line.strip_prefix("Host: "));
        let mut seen = Seen {
            at_ms: self.now_ms(),
            host: host.unwrap_or("").to_owned(),
            method: method.to_owned(),
            path: path.to_owned(),
            connection,
            before: 0,
            head: head.to_owned(),
        };
        let mut all = locked(&self.seen);
        let is_same = |other: &&Seen| {
            (&other.host, &other.path, &other.method) == (&seen.host, &seen.path, &seen.method)
        };
        seen.before = all.iter().filter(is_same).count();
        all.push(seen.clone());
        drop(all);
        (self.script)(&seen)
    }
}

async fn serve(web: Arc<Web>, mut pipe: DuplexStream, connection: usize) -> io::Result<()> {
    let mut bytes = Vec::new();
    loop {
        let end = loop {
            if let Some(at) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
                break at + 4;
            }
            if pipe.read_buf(&mut bytes).await? == 0 {
                return Ok(());
            }
        };
        let head = String::from_utf8_lossy(&bytes[..end]).into_owned();
        bytes.drain(..end);
        if web.is_gone() {
            return Ok(());
        }
        let mut says = web.hear(&head, connection);
        while let Says::Later(ms, then) = says {
            tokio::time::sleep(Duration::from_millis(ms)).await;
            says = *then;
        }
        match says {
            Says::This(status, headers, body) => {
                let length = body.len();
                let answer =
                    format!("HTTP/1.1 {status} .\r\nContent-Length: {length}\r\n{headers}\r\n");
                pipe.write_all(answer.as_bytes()).await?;
                if !head.starts_with("HEAD ") {
                    pipe.write_all(body.as_bytes()).await?;
                }
            }
            Says::Noise => return pipe.write_all(b"\x00\x01\x02 no HTTP\r\n\r\n").await,
            Says::Nothing | Says::Later(..) => return Ok(()),
        }
    }
}

/// How a crawl gets there.
struct Reach(Arc<Web>);

impl Dialer for Reach {
    fn dial(&self, _: SocketAddr) -> Dialed<'_> {
        Box::pin(async move {
            let web = &self.0;
            if web.is_gone() {
                return Err(io::ErrorKind::NetworkUnreachable.into());
            }
            let (ours, theirs) = tokio::io::duplex(1 << 16);
            let mut connections = locked(&web.connections);
            *connections += 1;
            let served = serve(Arc::clone(web), theirs, *connections);
            tokio::spawn(served);
            Ok(Box::new(ours) as Box<dyn Pipe>)
        })
    }
}

impl Resolver for Reach {
    fn lookup<'a>(&'a self, host: &'a str) -> Lookup<'a> {
        Box::pin(async move {
            if host.ends_with(".nowhere.test") {
                return Err(NotResolved {
                    detail: "there is no such host".to_owned(),
                    cause: NotResolvedBy::NoSuchName,
                    ttl_ms: None,
                });
            }
            let mut hosts = locked(&self.0.hosts);
            let known = hosts.iter().find(|(name, _)| name == host);
            let address = known.map(|(_, address)| *address).unwrap_or_else(|| {
                let last = if self.0.one_address {
                    1
                } else {
                    hosts.len() as u8 + 1
                };
                let address = IpAddr::V4(Ipv4Addr::new(127, 0, 0, last));
                hosts.push((host.to_owned(), address));
                address
            });
            Ok(Addresses {
                addresses: vec![address],
                port_override: None,
                ttl_ms: None,
                named: true,
            })
        })
    }
}

#[derive(Debug)]
struct RuntimeClock {
    begun: Instant,
    ahead_ms: AtomicU64,
}

impl Clock for RuntimeClock {
    fn now_ms(&self) -> u64 {
        self.wall_ms() + self.ahead_ms.load(Ordering::Relaxed)
    }

    fn wall_ms(&self) -> u64 {
        BEGINNING_MS + self.begun.elapsed().as_millis() as u64
    }

    fn go_on_from(&self, then_ms: u64) {
        let ahead_ms = then_ms.saturating_sub(self.wall_ms());
        self.ahead_ms.fetch_max(ahead_ms, Ordering::Relaxed);
    }
}

pub(crate) struct Rig {
    runtime: Runtime,
    web: Arc<Web>,
    clock: Arc<RuntimeClock>,
    home: TempDir,
    lives: usize,
    pub(crate) settings: Settings,
    /// Those who decide and those who fetch are as two processes.
    pub(crate) wired: bool,
}

impl Rig {
    /// A Web whose servers answer so.
    pub(crate) fn new(script: impl Fn(&Seen) -> Says + Send + Sync + 'static) -> Self {
        Self::made(script, false)
    }

    /// The same, with all hosts at one address.
    pub(crate) fn at_one_address(script: impl Fn(&Seen) -> Says + Send + Sync + 'static) -> Self {
        Self::made(script, true)
    }

    fn made(script: impl Fn(&Seen) -> Says + Send + Sync + 'static, one_address: bool) -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .expect("a runtime");
        let begun = {
            let _inside = runtime.enter();
            Instant::now()
        };
        let mut settings = Settings::default();
        settings.access.proxy_from_environment = false;
        settings.scope.scope = ScopeKind::Any;
        settings.dns.allow_private = true;
        settings.limits.threads = 1;
        settings.registry.partitions = 2;
        settings.registry.memory_bytes = 16 << 20;
        settings.politeness.ip_delay_ms = 1;
        settings.politeness.response_time_factor = 0.0;
        Self {
            web: Arc::new(Web {
                script: Box::new(script),
                begun,
                seen: Mutex::default(),
                connections: Mutex::default(),
                hosts: Mutex::default(),
                one_address,
                gone: Mutex::default(),
            }),
            clock: Arc::new(RuntimeClock {
                begun,
                ahead_ms: AtomicU64::new(0),
            }),
            runtime,
            home: tempfile::tempdir().expect("a directory"),
            lives: 0,
            settings,
            wired: false,
        }
    }

    pub(crate) fn dir(&self) -> PathBuf {
        self.home.path().join(format!("life-{}", self.lives))
    }

    /// Our own network is gone for a while.
    pub(crate) fn network_gone(&self, from_ms: u64, to_ms: u64) {
        *locked(&self.web.gone) = (from_ms, to_ms);
    }

    fn prepare(&self, seeds: &[&str]) -> Result<Prepared, CrawlError> {
        // The runtime's time is told only within it.
        let _inside = self.runtime.enter();
        Crawl::prepare(self.plan(seeds))
    }

    fn plan(&self, seeds: &[&str]) -> Plan {
        Plan {
            outside: Outside {
                clock: Some(Arc::clone(&self.clock) as _),
                dialer: Some(Arc::new(Reach(Arc::clone(&self.web))) as _),
                resolver: Some(Arc::new(Reach(Arc::clone(&self.web))) as _),
                chance: Some(1),
                steps: None,
                wired: self.wired,
            },
            ..Plan::new(self.dir(), seeds.iter().copied(), self.settings.clone())
        }
    }

    /// Lets a crawl run to its end, or the one that is there go on.
    pub(crate) fn crawl(&self, seeds: &[&str]) -> Report {
        self.try_crawl(seeds).expect("a crawl that ends")
    }

    pub(crate) fn try_crawl(&self, seeds: &[&str]) -> Result<Report, CrawlError> {
        let prepared = self.prepare(seeds)?;
        self.within(async move { Some(prepared.run_here().await) })
            .expect("an end")
    }

    /// The same, but its machine dies after this number of milliseconds. What is on disk then is what goes on.
    pub(crate) fn crawl_until(&mut self, seeds: &[&str], ms: u64) {
        let prepared = self.prepare(seeds).expect("a crawl");
        let (from, to) = (
            self.dir(),
            self.home.path().join(format!("life-{}", self.lives + 1)),
        );
        self.within(async move {
            tokio::select! {
                _ = prepared.run_here() => panic!("the crawl ended before it was killed"),
                () = tokio::time::sleep(Duration::from_millis(ms)) => copy(&from, &to).expect("a copy"),
            }
        });
        self.lives += 1;
    }

    fn within<T>(&self, work: impl Future<Output = T>) -> T {
        let tasks = LocalSet::new();
        self.runtime.block_on(tasks.run_until(work))
    }

    /// All requests so far, in order.
    pub(crate) fn seen(&self) -> Vec<Seen> {
        locked(&self.web.seen).clone()
    }

    /// Those for pages: robots.txt left out.
    pub(crate) fn pages(&self) -> Vec<Seen> {
        let mut seen = self.seen();
        seen.retain(|request| request.path != "/robots.txt");
        seen
    }

    /// The paths of `pages`.
    pub(crate) fn paths(&self) -> Vec<String> {
        self.pages().into_iter().map(|seen| seen.path).collect()
    }

    /// What the registry says of a URL.
    pub(crate) fn url(&self, url: &str) -> Option<UrlRecord> {
        let dir = self.dir();
        let ids: Identities = Crawl::identities(&dir).expect("a crawl");
        let snapshot = Snapshot::open(&dir.join(REGISTRY_DIR), ids).expect("a registry");
        snapshot.find(ids.doc(url)).expect("a registry")
    }
}

/// Milliseconds between each request and the next.
pub(crate) fn gaps_ms(seen: &[Seen]) -> Vec<u64> {
    let pairs = seen.windows(2);
    pairs.map(|two| two[1].at_ms - two[0].at_ms).collect()
}

fn copy(from: &Path, to: &Path) -> io::Result<()> {
    std::fs::create_dir_all(to)?;
    for entry in std::fs::read_dir(from)? {
        let entry = entry?;
        let (path, to) = (entry.path(), to.join(entry.file_name()));
        match entry.file_type()?.is_dir() {
            true => copy(&path, &to)?,
            false => std::fs::copy(&path, &to).map(|_| ())?,
        }
    }
    Ok(())
}
