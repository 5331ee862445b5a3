//! Signals from people, their programs, and sites that ping: files of URLs in the crawl's directory. Whoever leaves one needs no connection
//! to the crawl, and one that is left while no crawl runs is heeded by the next that keeps fresh. A file stays until its pages were
//! fetched.

use std::collections::HashMap;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use portolan_model::{CanonicalUrl, DocId};

use crate::crawl::Crawl;
use crate::directory;
use crate::error::CrawlError;

const SIGNALS_DIR: &str = "signals";
/// Of a larger file only this much is read.
const MAX_FILE_BYTES: u64 = 64 << 20;
/// Of all files together, this much is read at one look.
const MAX_LOOK_BYTES: usize = 64 << 20;

/// Who says that pages have changed. It ends the name of a file that is whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Teller {
    /// Whoever may write into the crawl's directory: the pages are next.
    Person,
    /// The pages' own host, by a ping: it is believed as its sitemap is.
    Site,
}

impl Teller {
    const ALL: [Self; 2] = [Self::Person, Self::Site];

    fn suffix(self) -> &'static str {
        match self {
            Self::Person => ".urls",
            Self::Site => ".pinged",
        }
    }

    fn of(path: &Path) -> Option<Self> {
        let name = path.to_string_lossy();
        Self::ALL.into_iter().find(|t| name.ends_with(t.suffix()))
    }
}

/// Tells the crawl in `dir`, which may be running, that these pages have changed. All of them are checked first; then one file has
/// them. The number of URLs.
pub fn leave_signals<'t>(
    dir: &Path,
    texts: impl Iterator<Item = &'t str>,
) -> Result<usize, CrawlError> {
    if !Crawl::exists(dir) {
        return Err(CrawlError::NoCrawl(dir.to_owned()));
    }
    let canonicalizer = Crawl::canonicalizer(dir)?;
    let urls = texts
        .map(|text| {
            let wrong = |error| CrawlError::Input(format!("'{text}' is no URL of a page: {error}"));
            canonicalizer.parse_seed(text).map_err(wrong)
        })
        .collect::<Result<Vec<_>, _>>()?;
    if urls.is_empty() {
        return Err(CrawlError::Input(
            "no URL given; name the pages that have changed".to_owned(),
        ));
    }
    leave(dir, Teller::Person, &urls)?;
    Ok(urls.len())
}

/// One file with these URLs, durable when this returns.
pub(crate) fn leave(dir: &Path, teller: Teller, urls: &[CanonicalUrl]) -> Result<(), CrawlError> {
    static LEFT: AtomicU64 = AtomicU64::new(0);
    let lines: String = urls.iter().flat_map(|url| [url.as_str(), "\n"]).collect();
    let spool = dir.join(SIGNALS_DIR);
    directory::make_dir(&spool).map_err(|source| CrawlError::File {
        path: spool.clone(),
        source,
    })?;
    let since_epoch = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let nanos = since_epoch.map_or(0, |since| since.as_nanos());
    let number = LEFT.fetch_add(1, Ordering::Relaxed);
    let suffix = teller.suffix();
    let name = format!("{nanos:024}-{}-{number}{suffix}", std::process::id());
    directory::replace(&spool, &name, lines.as_bytes())
}

/// How many files wait in `dir`, among them those that were heard and whose pages were not fetched yet.
pub(crate) fn waiting_files(dir: &Path) -> usize {
    fs::read_dir(dir.join(SIGNALS_DIR)).map_or(0, Iterator::count)
}

/// A file that has come.
pub(crate) struct Message {
    pub(crate) path: PathBuf,
    pub(crate) teller: Teller,
    pub(crate) urls: Vec<CanonicalUrl>,
}

/// The crawl's end of it.
pub(crate) struct Spool {
    dir: PathBuf,
    /// Files that were read, when, and whose pages may not all be fetched yet.
    heard: HashMap<PathBuf, (Instant, Vec<DocId>)>,
}

impl Spool {
    pub(crate) fn of(crawl: &Path) -> Self {
        Self {
            dir: crawl.join(SIGNALS_DIR),
            heard: HashMap::new(),
        }
    }

    /// The files that have come since, in the order in which they were left. What is no URL is passed over.
    pub(crate) fn look(&self) -> Vec<Message> {
        let Ok(entries) = fs::read_dir(&self.dir) else {
            return Vec::new();
        };
        let mut files: Vec<(PathBuf, Teller)> = entries
            .filter_map(|entry| {
                let path = entry.ok()?.path();
                let teller = Teller::of(&path)?;
                Some((path, teller)).filter(|(path, _)| !self.heard.contains_key(path))
            })
            .collect();
        files.sort_by(|a, b| a.0.cmp(&b.0));
        let (mut messages, mut bytes) = (Vec::new(), 0);
        for (path, teller) in files {
            let mut text = String::new();
            let read = fs::File::open(&path)
                .and_then(|file| file.take(MAX_FILE_BYTES).read_to_string(&mut text));
            if let Err(error) = read {
                tracing::warn!(path = %path.display(), %error, "signals cannot be read");
            }
            let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
            let urls = lines.filter_map(|l| CanonicalUrl::from_canonical(l.to_owned()).ok());
            messages.push(Message {
                urls: urls.collect(),
                path,
                teller,
            });
            bytes += text.len();
            if bytes >= MAX_LOOK_BYTES {
                break;
            }
        }
        messages
    }

    /// The file was heeded; it stays until these pages were fetched.
    pub(crate) fn heard(&mut self, path: PathBuf, docs: Vec<DocId>) {
        self.heard.insert(path, (Instant::now(), docs));
    }

    /// Removes files that were heard long enough ago to be in the journal, and of which no page waits any longer.
    pub(crate) fn forget(&mut self, kept_for: Duration, waits: impl Fn(DocId) -> bool) {
        self.heard.retain(|path, (at, docs)| {
            docs.retain(|doc| waits(*doc));
            let is_done = docs.is_empty() && at.elapsed() >= kept_for;
            if is_done {
                // One that stays is read again by the next run, which does no harm.
                let _ = fs::remove_file(path);
            }
            !is_done
        });
    }

    /// Who was told has been forgotten: everything that is still there counts as new.
    pub(crate) fn hear_again(&mut self) {
        self.heard.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn urls(heard: &[Message]) -> Vec<(Teller, &str)> {
        let of = |message: &'_ Message| message.teller;
        (heard.iter())
            .flat_map(|message| {
                message
                    .urls
                    .iter()
                    .map(move |url| (of(message), url.as_str()))
            })
            .collect()
    }

    #[test]
    fn what_was_left_is_heard_once_and_gone_when_its_pages_were_fetched() {
        let dir = tempfile::tempdir().expect("a directory");
        let signals = dir.path().join(SIGNALS_DIR);
        fs::create_dir(&signals).expect("made");
        fs::write(signals.join("2.urls"), "http://b.test/\nnonsense\n\n").expect("written");
        fs::write(signals.join("1.urls"), "http://a.test/\n").expect("written");
        fs::write(signals.join("3.pinged"), "http://d.test/\n").expect("written");
        fs::write(signals.join("3.urls.new"), "http://c.test/\n").expect("written");
        let mut ours = Spool::of(dir.path());
        let heard = ours.look();
        let told = [
            (Teller::Person, "http://a.test/"),
            (Teller::Person, "http://b.test/"),
            (Teller::Site, "http://d.test/"),
        ];
        assert_eq!(urls(&heard), told);
        for (number, message) in (0..).zip(heard) {
            ours.heard(message.path, vec![DocId(number)]);
        }
        assert!(ours.look().is_empty());
        // Not at once, and not before its page was fetched.
        ours.forget(Duration::from_secs(60), |_| false);
        ours.forget(Duration::ZERO, |doc| doc != DocId(0));
        assert!(!signals.join("1.urls").exists() && signals.join("2.urls").exists());
        // By whom the schedule is made anew, what it did not come to is heard again.
        ours.hear_again();
        assert_eq!(urls(&ours.look()), told[1..]);
        assert!(leave_signals(dir.path(), ["http://a.test/"].into_iter()).is_err());
    }
}
