//! The crawl's directory: whose it is, and the small files that say what the crawl is to be. What it
//! knows and what it archived is kept by the rooms below.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use portolan_model::{CanonicalUrl, Order};
use portolan_registry::Snapshot;

use crate::crawl::{ARCHIVE_DIR, Crawl, REGISTRY_DIR};
use crate::division::DIVISION_DIR;
use crate::error::CrawlError;
use crate::judging::JUDGED_FILE;
use crate::named::NAMED_FILE;
use crate::outside::Outside;
use crate::report::counted;
use crate::sealed::{seal, unseal};
use crate::secret::SECRET_FILE;
use crate::settings::Settings;

/// The settings that a crawl runs with. A directory that has them holds a crawl.
pub(crate) const SETTINGS_FILE: &str = "crawl.toml";
/// Every seed that was ever given, one a line; the registry knows them once they are logged.
pub(crate) const SEEDS_FILE: &str = "seeds.txt";
/// The rank table that the crawl began with, where its order needs one.
pub(crate) const RANKS_FILE: &str = "ranks";
/// Where a crawl is divided anew: its new registry, until it takes the old one's place.
pub(crate) const DIVIDING_DIR: &str = "dividing";
/// In there: all of the new is whole, and counts from now on.
pub(crate) const READY_FILE: &str = "ready";
/// Ends the name of a file that is being written.
const UNFINISHED: &str = ".new";

/// The crawl's directory, made if need be. A directory with other things in it is left alone.
pub(crate) fn prepare(dir: &Path, resumed: bool) -> Result<PathBuf, CrawlError> {
    let at = |e| CrawlError::Input(format!("{}: {e}; name another directory", dir.display()));
    if dir.exists() && !dir.is_dir() {
        return Err(CrawlError::Input(format!(
            "{} is no directory; name another one",
            dir.display()
        )));
    }
    if !resumed && dir.exists() {
        // A crawl that was killed before it began leaves its secret, its seeds, its part vector, its ranks and what
        // decides about URLs at most.
        let is_foreign = |entry: std::io::Result<std::fs::DirEntry>| {
            entry.is_ok_and(|e| {
                let name = e.file_name();
                let name = name.to_string_lossy();
                ![SECRET_FILE, NAMED_FILE, SEEDS_FILE, RANKS_FILE, JUDGED_FILE]
                    .contains(&name.trim_end_matches(UNFINISHED))
                    && name != DIVISION_DIR
                    && name != format!("{SETTINGS_FILE}{UNFINISHED}")
            })
        };
        if std::fs::read_dir(dir).map_err(at)?.any(is_foreign) {
            return Err(CrawlError::OtherThings(dir.to_owned()));
        }
    }
    make_dir(dir).map_err(at)?;
    Ok(dir.to_owned())
}

/// Makes a directory and those above it, and each one's name durable in its parent before anything relies on it.
pub(crate) fn make_dir(dir: &Path) -> std::io::Result<()> {
    if dir.is_dir() {
        return Ok(());
    }
    let parent = match dir.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    make_dir(parent)?;
    match std::fs::create_dir(dir) {
        Err(e) if e.kind() != std::io::ErrorKind::AlreadyExists => return Err(e),
        _ => {}
    }
    std::fs::File::open(parent)?.sync_all()
}

/// A registry that is gone, with an archive that is there: a new one would know nothing of what is archived.
pub(crate) fn refuse_without_registry(dir: &Path) -> Result<(), CrawlError> {
    let registry = dir.join(REGISTRY_DIR);
    let warcs = portolan_archive::count_warcs(dir)?;
    if warcs == 0 || registry.join("meta").exists() {
        return Ok(());
    }
    if dir.join(DIVIDING_DIR).join(READY_FILE).exists() {
        return Err(CrawlError::HalfDivided(dir.to_owned()));
    }
    Err(CrawlError::Input(format!(
        "{} is missing, but {} holds {}; put the registry back from a copy, or start anew in another directory",
        registry.display(),
        dir.join(ARCHIVE_DIR).display(),
        counted(warcs as u64, "WARC file"),
    )))
}

/// The registry of the crawl in `dir` as of now; works while the crawl runs.
pub fn snapshot(dir: &Path) -> Result<Snapshot, CrawlError> {
    let registry = dir.join(REGISTRY_DIR);
    if !Crawl::exists(dir) {
        return Err(CrawlError::NoCrawl(dir.to_owned()));
    }
    let ids = Crawl::identities(dir)?;
    refuse_without_registry(dir)?;
    if !registry.join("meta").exists() {
        return Err(CrawlError::NotBegun(dir.to_owned()));
    }
    Ok(Snapshot::open(&registry, ids)?)
}

/// How an archive spells the id of its crawl.
pub(crate) fn archive_id(crawl_id: u64) -> String {
    format!("{crawl_id:016x}")
}

/// A number that no other registry has, by which registry and archive know that they belong together.
pub(crate) fn new_crawl_id(outside: &Outside) -> Result<u64, CrawlError> {
    let mut id = [0; 8];
    outside.fill(&mut id, "the crawl's id")?;
    Ok(u64::from_le_bytes(id))
}

/// Make seeds and settings durable; the settings last, for they say that there is a crawl.
pub(crate) fn remember(
    dir: &Path,
    seeds: &[CanonicalUrl],
    settings: &Settings,
) -> Result<(), CrawlError> {
    let list: String = seeds.iter().map(|seed| format!("{seed}\n")).collect();
    replace(dir, SEEDS_FILE, seal(&list).as_bytes())?;
    let text = toml::to_string(settings).map_err(|e| CrawlError::Internal(e.to_string()))?;
    replace(dir, SETTINGS_FILE, seal(&text).as_bytes())
}

/// The text of the settings that the crawl in `dir` ran with last.
pub(crate) fn remembered_settings(dir: &Path) -> Result<String, CrawlError> {
    let path = dir.join(SETTINGS_FILE);
    let sealed = read(&path)?;
    let text = unseal(
        &sealed,
        &path,
        "; settings are changed when the crawl goes on, and not in this file",
    )?;
    Ok(text.to_owned())
}

pub(crate) fn read(path: &Path) -> Result<String, CrawlError> {
    let bytes = std::fs::read(path).map_err(|source| CrawlError::File {
        path: path.to_owned(),
        source,
    })?;
    // What is not text is told by the checksum.
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

pub(crate) fn remembered_seeds(dir: &Path) -> Result<Vec<CanonicalUrl>, CrawlError> {
    let path = dir.join(SEEDS_FILE);
    let sealed = read(&path)?;
    let text = unseal(&sealed, &path, "; seeds are added on the command line")?;
    Ok(text
        .lines()
        .filter_map(|line| CanonicalUrl::from_canonical(line.to_owned()).ok())
        .collect())
}

/// Keep what the settings name beside them, so that the crawl can go on when it is gone.
pub(crate) fn remember_ranks(dir: &Path, settings: &Settings) -> Result<(), CrawlError> {
    if settings.frontier.order != Order::Pagerank {
        return Ok(());
    }
    let (path, new) = (
        dir.join(RANKS_FILE),
        dir.join(format!("{RANKS_FILE}{UNFINISHED}")),
    );
    let copy = || {
        let mut file = make(&new)?;
        std::io::copy(
            &mut std::fs::File::open(&settings.frontier.ranks)?,
            &mut file,
        )?;
        file.sync_all()?;
        std::fs::rename(&new, &path)?;
        std::fs::File::open(dir)?.sync_all()
    };
    copy().map_err(|source| CrawlError::File {
        path: path.clone(),
        source,
    })
}

/// Replace a small file as a whole: the old one or the new one is there, whatever happens. Its owner alone
/// may read it: settings and seeds may hold what others are not meant to see. No symbolic link is followed.
pub(crate) fn replace(dir: &Path, name: &str, bytes: &[u8]) -> Result<(), CrawlError> {
    let (path, new) = (dir.join(name), dir.join(format!("{name}{UNFINISHED}")));
    let write = || {
        let mut file = make(&new)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        std::fs::rename(&new, &path)?;
        std::fs::File::open(dir)?.sync_all()
    };
    write().map_err(|source| CrawlError::File {
        path: path.clone(),
        source,
    })
}

/// A new file that its owner alone may read, in place of what a crash left there.
fn make(path: &Path) -> std::io::Result<File> {
    match std::fs::remove_file(path) {
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => return Err(e),
        _ => {}
    }
    let mut options = no_links();
    options.write(true).create_new(true).mode(0o600);
    options.open(path)
}

/// For files that are written: never through a symbolic link. Who can put a link into a crawl's
/// directory could otherwise have another file overwritten in the crawler's name.
pub(crate) fn no_links() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.custom_flags(libc::O_NOFOLLOW);
    options
}
