//! Signals from people and their programs: files of URLs in the crawl's directory. Whoever leaves one needs no connection to the
//! crawl, and one that is left while no crawl runs is heeded by the next that keeps fresh.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use portolan_model::CanonicalUrl;

use crate::crawl::Crawl;
use crate::directory;
use crate::error::CrawlError;

const SIGNALS_DIR: &str = "signals";
/// Ends the name of a file that is whole.
const WHOLE: &str = ".urls";
/// Of a larger file only this much is read.
const MAX_FILE_BYTES: u64 = 64 << 20;

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
    let mut lines = String::new();
    let mut urls = 0;
    for text in texts {
        let url = canonicalizer
            .parse_seed(text)
            .map_err(|error| CrawlError::Input(format!("'{text}' is no URL of a page: {error}")))?;
        lines.push_str(url.as_str());
        lines.push('\n');
        urls += 1;
    }
    if urls == 0 {
        return Err(CrawlError::Input(
            "no URL given; name the pages that have changed".to_owned(),
        ));
    }
    let spool = dir.join(SIGNALS_DIR);
    directory::make_dir(&spool).map_err(|source| CrawlError::File {
        path: spool.clone(),
        source,
    })?;
    let since_epoch = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let nanos = since_epoch.map_or(0, |since| since.as_nanos());
    let name = format!("{nanos:024}-{}{WHOLE}", std::process::id());
    directory::replace(&spool, &name, lines.as_bytes())?;
    Ok(urls)
}

/// The crawl's end of it.
pub(crate) struct Spool {
    dir: PathBuf,
    /// Files that were read, and whose URLs are not all due yet.
    read: Vec<PathBuf>,
}

impl Spool {
    pub(crate) fn of(crawl: &Path) -> Self {
        Self {
            dir: crawl.join(SIGNALS_DIR),
            read: Vec::new(),
        }
    }

    /// The URLs of files that have come since, in the order in which they were left. What is no URL is passed over.
    pub(crate) fn look(&mut self) -> Vec<CanonicalUrl> {
        let Ok(entries) = fs::read_dir(&self.dir) else {
            return Vec::new();
        };
        let mut files: Vec<PathBuf> = entries
            .filter_map(|entry| Some(entry.ok()?.path()))
            .filter(|path| path.to_string_lossy().ends_with(WHOLE) && !self.read.contains(path))
            .collect();
        files.sort();
        let mut urls = Vec::new();
        for path in files {
            let mut text = String::new();
            let read = fs::File::open(&path)
                .and_then(|file| file.take(MAX_FILE_BYTES).read_to_string(&mut text));
            if let Err(error) = read {
                tracing::warn!(path = %path.display(), %error, "signals cannot be read");
            }
            let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
            urls.extend(lines.filter_map(|l| CanonicalUrl::from_canonical(l.to_owned()).ok()));
            self.read.push(path);
        }
        urls
    }

    /// What was read is in the journal: it need not be read again.
    pub(crate) fn forget(&mut self) {
        for path in self.read.drain(..) {
            // One that stays is read again by the next run, which does no harm.
            let _ = fs::remove_file(path);
        }
    }

    pub(crate) fn has_read(&self) -> bool {
        !self.read.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_left_is_read_once_and_then_gone() {
        let dir = tempfile::tempdir().expect("a directory");
        let spool = dir.path().join(SIGNALS_DIR);
        fs::create_dir(&spool).expect("made");
        fs::write(spool.join("2.urls"), "http://b.test/\nnonsense\n\n").expect("written");
        fs::write(spool.join("1.urls"), "http://a.test/\n").expect("written");
        fs::write(spool.join("3.urls.new"), "http://c.test/\n").expect("written");
        let mut ours = Spool::of(dir.path());
        let told: Vec<String> = ours.look().iter().map(|url| url.to_string()).collect();
        assert_eq!(told, ["http://a.test/", "http://b.test/"]);
        assert!(ours.look().is_empty() && ours.has_read());
        ours.forget();
        assert!(!ours.has_read() && !spool.join("1.urls").exists());
        assert!(leave_signals(dir.path(), ["http://a.test/"].into_iter()).is_err());
    }
}
