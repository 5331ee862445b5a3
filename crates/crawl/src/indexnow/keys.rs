//! Does who pings speak for the host? A file on the host holds the key: it is looked for once, and what was found holds for a while.

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use portolan_model::CanonicalUrl;
use portolan_net::BodySink;

use super::message::Key;
use crate::directory;
use crate::error::CrawlError;
use crate::once::ask_once;
use crate::robots::whole_lines;
use crate::shared::Shared;

/// A key's file holds a key; more than this is something else.
const MAX_FILE_BYTES: usize = 4 << 10;
/// Looking for it takes no longer.
const LOOK_LIMIT: Duration = Duration::from_secs(20);
/// How long a key that was found is right, ...
const RIGHT_FOR: Duration = Duration::from_secs(3_600);
/// ... and one that was not found is wrong.
const WRONG_FOR: Duration = Duration::from_secs(60);
/// A host's files are looked at no more often.
const HOST_EVERY: Duration = Duration::from_secs(5);
/// Files that are looked for at once.
const AT_ONCE: usize = 16;
/// Keys and hosts that are remembered.
const MOST_REMEMBERED: usize = 10_000;

/// What is known of a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Verdict {
    Right,
    /// The reason, in a sentence.
    Wrong(String),
    /// The crawl knows no page of this host: nothing is asked of it.
    Unknown,
    /// The host was asked for another key just now, or too many are.
    Busy,
}

pub(super) struct Keys {
    dir: PathBuf,
    shared: Shared,
    known: RefCell<HashMap<Key, (Instant, Result<(), String>)>>,
    /// When hosts were asked last, ...
    asked: RefCell<HashMap<String, Instant>>,
    /// ... and where it is not answered yet.
    asking: RefCell<HashSet<String>>,
}

impl Keys {
    pub(super) fn new(dir: PathBuf, shared: Shared) -> Self {
        Self {
            dir,
            shared,
            known: RefCell::default(),
            asked: RefCell::default(),
            asking: RefCell::default(),
        }
    }

    pub(super) async fn judge(&self, key: &Key) -> Result<Verdict, CrawlError> {
        if let Some(found) = self.remembered(key) {
            return Ok(found);
        }
        let host = key.at.host();
        if !self.may_ask(host) {
            return Ok(Verdict::Busy);
        }
        let _asking = Asking::begin(&self.asking, host);
        if !self.knows_host(&key.at).await? {
            return Ok(Verdict::Unknown);
        }
        let found = self.look_for(key).await;
        let mut known = self.known.borrow_mut();
        if known.len() >= MOST_REMEMBERED {
            known.retain(|_, (at, found)| at.elapsed() < lifetime(found));
        }
        if known.len() >= MOST_REMEMBERED {
            known.clear();
        }
        known.insert(key.clone(), (Instant::now(), found.clone()));
        Ok(verdict(found))
    }

    fn remembered(&self, key: &Key) -> Option<Verdict> {
        let known = self.known.borrow();
        let (at, found) = known.get(key)?;
        (at.elapsed() < lifetime(found)).then(|| verdict(found.clone()))
    }

    fn may_ask(&self, host: &str) -> bool {
        let asking = self.asking.borrow();
        if asking.len() >= AT_ONCE || asking.contains(host) {
            return false;
        }
        let mut asked = self.asked.borrow_mut();
        if asked.get(host).is_some_and(|at| at.elapsed() < HOST_EVERY) {
            return false;
        }
        if asked.len() >= MOST_REMEMBERED {
            asked.retain(|_, at| at.elapsed() < HOST_EVERY);
        }
        if asked.len() >= MOST_REMEMBERED {
            return false;
        }
        asked.insert(host.to_owned(), Instant::now());
        true
    }

    /// Does the crawl know a page of it?
    async fn knows_host(&self, url: &CanonicalUrl) -> Result<bool, CrawlError> {
        let (dir, url) = (self.dir.clone(), url.clone());
        let look = move || -> Result<bool, CrawlError> {
            let snapshot = directory::snapshot(&dir)?;
            let host = url.host_id(snapshot.ids());
            Ok(snapshot.host(host)?.is_some())
        };
        let looked = tokio::task::spawn_blocking(look).await;
        looked.map_err(|e| CrawlError::Internal(format!("the registry was not read: {e}")))?
    }

    async fn look_for(&self, key: &Key) -> Result<(), String> {
        let mut few = FewBytes(0);
        let asked = ask_once(&self.shared, &key.at, &mut few);
        let answer = tokio::time::timeout(LOOK_LIMIT, asked).await;
        let (response, _) = match answer {
            Ok(answer) => answer.map_err(|e| format!("{} was not answered: {e}", key.at))?,
            Err(_) => return Err(format!("{} was not answered in time", key.at)),
        };
        if response.status() != 200 {
            let status = response.status();
            return Err(format!("{} is answered with status {status}", key.at));
        }
        let body = whole_lines(&response).unwrap_or_default();
        let text = String::from_utf8_lossy(&body);
        let mut lines = text.trim_start_matches('\u{feff}').lines();
        match lines.any(|line| line.trim() == key.text) {
            true => Ok(()),
            false => Err(format!("{} does not hold the key", key.at)),
        }
    }
}

/// A host that is being asked.
struct Asking<'k> {
    all: &'k RefCell<HashSet<String>>,
    host: String,
}

impl<'k> Asking<'k> {
    fn begin(all: &'k RefCell<HashSet<String>>, host: &str) -> Self {
        all.borrow_mut().insert(host.to_owned());
        Self {
            all,
            host: host.to_owned(),
        }
    }
}

impl Drop for Asking<'_> {
    fn drop(&mut self) {
        self.all.borrow_mut().remove(&self.host);
    }
}

struct FewBytes(usize);

impl BodySink for FewBytes {
    fn body(&mut self, bytes: &[u8]) -> ControlFlow<()> {
        self.0 += bytes.len();
        match self.0 > MAX_FILE_BYTES {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    }
}

fn lifetime(found: &Result<(), String>) -> Duration {
    match found {
        Ok(()) => RIGHT_FOR,
        Err(_) => WRONG_FOR,
    }
}

fn verdict(found: Result<(), String>) -> Verdict {
    match found {
        Ok(()) => Verdict::Right,
        Err(why) => Verdict::Wrong(why),
    }
}
