//! A fleet's crawl, looked into from this machine: by the fleet's name, or by its store's URL where a command wants a
//! directory. What is read from the store is kept in a folder, to be read again.

use std::cell::RefCell;
use std::collections::{BTreeSet, HashSet};
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::time::Duration;

use portolan_content::Table;
use portolan_crawl::fleet::Mirror;
use portolan_fleet::{Blobs, Fleet, Stored};
use portolan_model::Canonicalizer;
use serde::Deserialize;
use tokio::runtime::Runtime;

use crate::arguments_fleet_commands::NamedArguments;
use crate::failure::Failure;
use crate::output::noteln;

/// Names the folder, and says what WARC files may take in it, in GB.
const CACHE: &str = "PORTOLAN_CACHE";
const CACHE_GB: &str = "PORTOLAN_CACHE_GB";
const DEFAULT_GB: u64 = 20;
const LOOK_EVERY: Duration = Duration::from_secs(2);
/// A directory that has it is a fleet's store.
const DEFINITION: &str = "fleet.json";

pub(crate) struct FleetCrawl {
    runtime: Runtime,
    mirror: RefCell<Mirror>,
}

impl FleetCrawl {
    /// The crawl whose store `path` is; `None` if it is none.
    pub(crate) fn at(path: &Path) -> Result<Option<Self>, Failure> {
        if !is_store(path) {
            return Ok(None);
        }
        let runtime = runtime()?;
        let place = path.to_string_lossy();
        let stored = runtime.block_on(Stored::open(&place))?;
        let crawl = Self::open(runtime, stored)?;
        noteln!(
            "note: {place} is read through {}",
            crawl.mirror.borrow().dir().display()
        );
        Ok(Some(crawl))
    }

    /// The crawl of a fleet that is made, at work or over.
    pub(crate) fn of(fleet: &NamedArguments) -> Result<(Self, Fleet), Failure> {
        let runtime = runtime()?;
        let (opened, stored) = runtime.block_on(async {
            let opened = super::fleet::open(fleet).await?;
            let stored = Stored::of(opened.clone()).await?;
            Ok::<_, Failure>((opened, stored))
        })?;
        Ok((Self::open(runtime, stored)?, opened))
    }

    fn open(runtime: Runtime, stored: Stored) -> Result<Self, Failure> {
        let (cache, max_bytes) = (cache()?, cache_bytes()?);
        runtime.spawn(tell_trouble(stored.blobs().clone()));
        let mirror = Mirror::open(stored, &cache, max_bytes)?;
        Ok(Self {
            runtime,
            mirror: RefCell::new(mirror),
        })
    }

    /// The directory in which the crawl is read on this machine, with its registry as of now.
    pub(crate) fn updated(&self) -> Result<PathBuf, Failure> {
        let mirror = self.mirror.borrow();
        self.runtime.block_on(mirror.update())?;
        Ok(mirror.dir().to_owned())
    }

    /// See `portolan_crawl::dsets`.
    pub(crate) fn dsets(&self) -> Vec<Vec<String>> {
        self.mirror.borrow().dsets()
    }

    pub(crate) fn block_on<T>(&self, work: impl Future<Output = T>) -> T {
        self.runtime.block_on(work)
    }

    /// The names of all WARC files.
    pub(crate) fn warcs(&self) -> Result<Vec<String>, Failure> {
        let mut mirror = self.mirror.borrow_mut();
        Ok(self.runtime.block_on(mirror.list_warcs())?)
    }

    /// Bytes of all WARC files, after `warcs`.
    pub(crate) fn warc_bytes(&self) -> u64 {
        self.mirror.borrow().warc_bytes()
    }

    /// Fetches one WARC file, after `warcs`.
    pub(crate) fn warc(&self, name: &str) -> Result<PathBuf, Failure> {
        let mut fetched = self.together(std::slice::from_ref(&name.to_owned()))?;
        fetched
            .pop()
            .ok_or_else(|| Failure::failed(format!("{name} is not there")))
    }

    /// Fetches WARC files that are wanted at once, after `warcs`.
    pub(crate) fn together(&self, names: &[String]) -> Result<Vec<PathBuf>, Failure> {
        Ok(self
            .runtime
            .block_on(self.mirror.borrow().together(names))?)
    }

    /// The name of the WARC file of a number.
    pub(crate) fn warc_of(&self, number: u32) -> Result<Option<String>, Failure> {
        self.warcs()?;
        Ok(self.mirror.borrow().warc_of(number).map(str::to_owned))
    }

    /// Fetches the WARC files that have something of a URL, and those that its copies stand for.
    pub(crate) fn warcs_with(&self, url: &str) -> Result<Vec<PathBuf>, Failure> {
        self.warcs()?;
        let index = self.runtime.block_on(self.mirror.borrow().index())?;
        let wanted = spellings(url);
        let (mut names, mut digests) = (BTreeSet::new(), HashSet::new());
        for_each_line(&index, |line| {
            if wanted.contains(&line.url) {
                digests.insert(line.digest);
                names.insert(line.filename);
            }
        })?;
        for_each_line(&index, |line| {
            if digests.contains(&line.digest) {
                names.insert(line.filename);
            }
        })?;
        let names: Vec<String> = names.into_iter().collect();
        self.together(&names)
    }
}

/// What is wrong with the store is tried again without end: whoever waits is told why.
async fn tell_trouble(blobs: Blobs) {
    let mut told = None;
    loop {
        tokio::time::sleep(LOOK_EVERY).await;
        let trouble = blobs.trouble();
        if let Some(why) = trouble.as_ref().filter(|_| told != trouble) {
            noteln!("note: {why}; trying again");
        }
        told = trouble;
    }
}

/// A URL as typed and as a crawl writes it, and the table of its volatile parts.
fn spellings(typed: &str) -> HashSet<String> {
    let mut spellings = HashSet::from([typed.to_owned()]);
    if let Ok(url) = Canonicalizer::default().parse_seed(typed) {
        let table = Table::Tvi.path_of(url.path_and_query());
        spellings.extend(table.map(|path| format!("{}{path}", url.origin())));
        spellings.insert(url.as_str().to_owned());
    }
    spellings
}

/// What is wanted of a line of an index.
#[derive(Deserialize)]
struct Line {
    url: String,
    #[serde(default)]
    digest: String,
    filename: String,
}

fn for_each_line(index: &Path, mut take: impl FnMut(Line)) -> Result<(), Failure> {
    let file = BufReader::new(File::open(index)?);
    for line in file.lines() {
        let line = line?;
        if let Some(at) = line.find(" {")
            && let Ok(line) = serde_json::from_str(&line[at..])
        {
            take(line);
        }
    }
    Ok(())
}

fn runtime() -> Result<Runtime, Failure> {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    let built = builder.worker_threads(1).enable_all().build();
    built.map_err(Failure::failed)
}

/// Is it a URL of a store, or a directory that is one?
pub(crate) fn is_store(path: &Path) -> bool {
    let text = path.to_string_lossy();
    text.starts_with("s3://") || text.starts_with("file://") || path.join(DEFINITION).is_file()
}

fn cache() -> Result<PathBuf, Failure> {
    let of = |name| {
        std::env::var_os(name)
            .filter(|value| !value.is_empty())
            .map(PathBuf::from)
    };
    let known = of(CACHE)
        .or_else(|| Some(of("XDG_CACHE_HOME")?.join("portolan")))
        .or_else(|| Some(of("HOME")?.join(".cache/portolan")));
    known.ok_or_else(|| {
        Failure::usage(format!(
            "{CACHE} is to name a folder for what is read from the store"
        ))
    })
}

fn cache_bytes() -> Result<u64, Failure> {
    let Ok(text) = std::env::var(CACHE_GB) else {
        return Ok(DEFAULT_GB << 30);
    };
    let gb: Option<f64> = text
        .parse()
        .ok()
        .filter(|gb: &f64| *gb >= 0.0 && gb.is_finite());
    let gb =
        gb.ok_or_else(|| Failure::usage(format!("{CACHE_GB}={text}: a number of GB is wanted")))?;
    Ok((gb * (1_u64 << 30) as f64) as u64)
}
