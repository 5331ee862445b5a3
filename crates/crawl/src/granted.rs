//! A crawl that takes its work from a URLFrontier server (`docs/urlfrontier.md`): the server says which URLs are fetched, and is told what
//! became of them and what they link to. Politeness, robots.txt, scope and the archive stay this crawl's own.
//!
//! URLs come under lease and become due here if the scope allows, once each (`asking`). What pages link to is known here but waits, by a reason of its
//! own, until the server grants it. A visit that is durable is told to the server: first its links, then that it is done (`returning`). So a
//! link of a durable visit is at the server, or waits here and is told again at the next start; and a URL that was visited here is not fetched
//! again if the server grants it once more.

mod asking;
mod left;
mod returning;

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use portolan_model::{LinkBatch, LinkKind, Outcome, Reason, Verdict};
use portolan_registry::Entry;
use portolan_urlfrontier::api::UrlInfo;
use portolan_urlfrontier::{FrontierError, ServerAddress};
use tokio::runtime::Runtime;
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;
use tonic::Status;

pub(crate) use asking::Asking;
pub(crate) use returning::Returning;

use left::LeftToOthers;

use crate::error::CrawlError;
use crate::settings::FrontierServerSettings;

/// What waits to be told to the server; more of it makes the archivist wait.
const UNTOLD: usize = 4_096;

/// How long the server is waited for at the end. What it is not told then, it is told when the crawl goes on.
const FAREWELL: Duration = Duration::from_secs(30);

/// A call that brings nothing for this time has failed.
const PATIENCE: Duration = Duration::from_secs(60);

/// A URL that the server granted.
#[derive(Debug)]
struct Grant {
    /// As the server knows it.
    info: UrlInfo,
    /// When the lease ends, in seconds since 1970.
    until: u64,
}

/// Granted URLs that have not been settled, by their canonical form.
type Outstanding = HashMap<String, Vec<Grant>>;

/// A URL whose way ends here.
#[derive(Debug)]
struct Settled {
    url: String,
    /// Others may fetch it: only this crawl's settings or its machine kept it from it.
    for_others: bool,
}

/// What the server is to hear.
#[derive(Debug)]
enum News {
    /// A visit is durable: where it led, and what was visited, unless it stays due.
    Visit {
        settled: Option<Settled>,
        links: Vec<String>,
    },
    /// Granted URLs that are not fetched here, or were fetched before.
    Done(Vec<UrlInfo>),
    /// Granted URLs that are not for this crawl. They are for others, a little later.
    Others(Vec<UrlInfo>, Why),
    /// Granted URLs, with their canonical form, that are still to be fetched here: not to be given to others before this date. A visit that
    /// was told meanwhile counts more.
    Renew(Vec<(String, UrlInfo)>, u64),
    /// Nothing comes any more. Says when all has been told.
    End(oneshot::Sender<()>),
}

/// Why a granted URL is for others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Why {
    /// The scope leaves it out, as it is now.
    Scope,
    /// It was settled here.
    Settled,
}

/// The crawl's side of its server.
#[derive(Debug)]
pub(crate) struct Granted {
    news: mpsc::Sender<News>,
    outstanding: Mutex<Outstanding>,
    left_to_others: Mutex<LeftToOthers>,
    /// What seeds redirected to in this run, and after how many redirects in a row. Earlier runs' are roots of the crawl.
    seed_redirects: Mutex<HashMap<String, u8>>,
    /// News on their way.
    untold: AtomicU64,
    /// Since when the crawl ends.
    ending: OnceLock<Instant>,
}

impl Granted {
    /// The crawl's side, and what the two threads that talk with the server need.
    pub(crate) fn begin(
        settings: &FrontierServerSettings,
    ) -> Result<(Arc<Self>, Returning), CrawlError> {
        let address = address(settings)?;
        {
            // What is wrong with it is said before anything begins.
            let runtime = runtime()?;
            let _inside = runtime.enter();
            address.client().map_err(of_frontier)?;
        }
        let (news, inbox) = mpsc::channel(UNTOLD);
        let granted = Arc::new(Self {
            news,
            outstanding: Mutex::default(),
            left_to_others: Mutex::default(),
            seed_redirects: Mutex::default(),
            untold: AtomicU64::new(0),
            ending: OnceLock::new(),
        });
        let returning = Returning::new(Arc::clone(&granted), address, inbox, settings);
        Ok((granted, returning))
    }

    fn outstanding(&self) -> MutexGuard<'_, Outstanding> {
        self.outstanding
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn left_to_others(&self) -> MutexGuard<'_, LeftToOthers> {
        self.left_to_others
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn seed_redirects(&self) -> MutexGuard<'_, HashMap<String, u8>> {
        self.seed_redirects
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    async fn tell(&self, news: News) {
        self.untold.fetch_add(1, Ordering::SeqCst);
        // Nobody hears any more only at the very end.
        let _ = self.news.send(news).await;
    }

    /// What was committed is told, in order.
    pub(crate) async fn tell_all(&self, committed: Vec<Committed>) {
        for committed in committed {
            let Committed {
                settled,
                links,
                seed_redirects,
            } = committed;
            if !seed_redirects.is_empty() {
                self.seed_redirects().extend(seed_redirects);
            }
            self.tell(News::Visit { settled, links }).await;
        }
    }

    /// The crawl ends: from now on a server that does not answer is waited for only so long.
    pub(crate) fn note_ending(&self) {
        self.ending.get_or_init(Instant::now);
    }

    /// Does the crawl end, and has it waited long enough for a server that has not answered since?
    fn has_waited(&self, since: Instant) -> bool {
        let ending = self.ending.get();
        ending.is_some_and(|ending| since.max(*ending).elapsed() > FAREWELL)
    }

    /// Everything has been committed: returns when the server knows, or cannot be reached.
    pub(crate) async fn finish(&self) {
        let (end, told) = oneshot::channel();
        let tell = async {
            self.tell(News::End(end)).await;
            told.await
        };
        if !matches!(tokio::time::timeout(FAREWELL * 2, tell).await, Ok(Ok(()))) {
            tracing::warn!(
                "the frontier server does not answer; it is told the rest when the crawl goes on"
            );
        }
    }
}

/// What a committed entry has for the server.
pub(crate) struct Committed {
    settled: Option<Settled>,
    links: Vec<String>,
    seed_redirects: Vec<(String, u8)>,
}

impl Committed {
    /// None: nothing. Before the commit takes the links for other partitions away.
    pub(crate) fn of(entry: &Entry) -> Option<Self> {
        let mut committed = Self {
            settled: None,
            links: Vec::new(),
            seed_redirects: Vec::new(),
        };
        committed.take(entry.links());
        match entry {
            Entry::Visit {
                url,
                visit,
                forwards,
                ..
            } => {
                forwards.iter().for_each(|(_, links)| committed.take(links));
                committed.settled = Settled::of(url, visit.outcome);
            }
            Entry::Host { forwards, .. } => {
                forwards.iter().for_each(|(_, links)| committed.take(links));
            }
            _ => {}
        }
        (committed.settled.is_some() || !committed.links.is_empty()).then_some(committed)
    }

    /// Those of the links that are for the server to grant.
    fn take(&mut self, links: &LinkBatch) {
        for link in links.iter() {
            if link.verdict != Verdict::Exclude(Reason::WaitsForItsShare) {
                continue;
            }
            if link.kind == LinkKind::SeedRedirect {
                self.seed_redirects.push((link.url.to_owned(), link.hops));
            }
            self.links.push(link.url.to_owned());
        }
    }
}

impl Settled {
    /// None: it stays due.
    fn of(url: &str, outcome: Outcome) -> Option<Self> {
        let for_others = match outcome {
            Outcome::Retry(_) => return None,
            Outcome::Excluded(reason) => is_ours_alone(reason),
            _ => false,
        };
        Some(Self {
            url: url.to_owned(),
            for_others,
        })
    }
}

/// Is it our own matter that a URL was excluded, as with a budget of pages that is used up, or redirects that led us to it?
fn is_ours_alone(reason: Reason) -> bool {
    reason.is_liftable() || matches!(reason, Reason::PrivateAddress | Reason::TooManyRedirects)
}

fn address(settings: &FrontierServerSettings) -> Result<ServerAddress, CrawlError> {
    let read = |name: &str, file: &std::path::Path| {
        std::fs::read(file).map_err(|e| {
            CrawlError::Input(format!("frontier_server.{name} {}: {e}", file.display()))
        })
    };
    let given = |file: &std::path::PathBuf| !file.as_os_str().is_empty();
    let ca = given(&settings.ca_file).then(|| read("ca_file", &settings.ca_file));
    let token = given(&settings.token_file).then(|| read("token_file", &settings.token_file));
    let token = token.transpose()?;
    Ok(ServerAddress {
        url: settings.url.clone(),
        ca: ca.transpose()?,
        token: token.map(|bytes| String::from_utf8_lossy(&bytes).trim().to_owned()),
        insecure: settings.insecure,
    })
}

/// What a server answers, unless it takes too long or it is no longer to be waited for.
async fn answered<T>(
    answer: impl Future<Output = Result<T, Status>>,
    is_in_vain: impl Fn() -> bool,
) -> Result<T, Status> {
    const LOOK_EVERY: Duration = Duration::from_millis(100);
    let begun = Instant::now();
    let mut answer = std::pin::pin!(answer);
    loop {
        match tokio::time::timeout(LOOK_EVERY, &mut answer).await {
            Ok(answer) => return answer,
            Err(_) if begun.elapsed() > PATIENCE || is_in_vain() => {
                return Err(Status::deadline_exceeded("no answer in time"));
            }
            Err(_) => {}
        }
    }
}

/// A runtime for one thread's talk with the server.
fn runtime() -> Result<Runtime, CrawlError> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|e| CrawlError::Internal(format!("no runtime for the frontier: {e}")))
}

fn of_frontier(error: FrontierError) -> CrawlError {
    CrawlError::Input(format!("the frontier server: {error}"))
}

#[cfg(test)]
mod tests;
