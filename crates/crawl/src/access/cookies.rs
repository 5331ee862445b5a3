//! The crawl's cookies: a jar that all workers share, filled from a person's file and, where the settings say so, by servers. What
//! servers set is in the file `cookies` of the crawl's directory before the visit that brought it is logged, for that page will not be
//! asked for again.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard};

use portolan_net::{CookieJar, Head, Origin};
use xxhash_rust::xxh3::xxh3_64;

use crate::directory::replace;
use crate::error::CrawlError;
use crate::sealed::{seal, unseal};
use crate::settings::Settings;

/// In the crawl's directory, for its owner's eyes alone.
pub(crate) const COOKIES_FILE: &str = "cookies";
/// Begins the file; behind it stands the digest of the person's file that the jar began with.
const HEAD: &str = "# portolan cookies 1, in Netscape's format; from a file with digest ";
/// A file of cookies that is larger is a mistake.
const MAX_FILE_BYTES: u64 = 64 << 20;

#[derive(Debug)]
pub(crate) struct Cookies {
    jar: Mutex<Jar>,
    /// Of the person's file; 0 if there is none.
    digest: u64,
    /// Servers may set some, so they are kept.
    are_kept: bool,
}

#[derive(Debug)]
struct Jar {
    cookies: CookieJar,
    dir: PathBuf,
    /// `changes()` of what is on disk.
    saved: u64,
}

impl Cookies {
    /// With what the person's file holds. `None` where nobody wants cookies.
    pub(crate) fn new(settings: &Settings, wall_ms: u64) -> Result<Option<Self>, CrawlError> {
        let are_kept = settings.access.keep_cookies
            || settings
                .host
                .iter()
                .any(|block| block.keep_cookies == Some(true));
        let path = &settings.access.cookies;
        if path.is_empty() && !are_kept {
            return Ok(None);
        }
        let wrong = |e: String| CrawlError::Input(format!("access.cookies: {path}: {e}"));
        let mut text = String::new();
        if !path.is_empty() {
            let is_huge = std::fs::metadata(path).is_ok_and(|file| file.len() > MAX_FILE_BYTES);
            if is_huge {
                return Err(wrong(
                    "that is no file of cookies: it is too large".to_owned(),
                ));
            }
            text = std::fs::read_to_string(path).map_err(|e| wrong(e.to_string()))?;
        }
        let cookies = CookieJar::from_netscape(&text, wall_ms).map_err(|e| wrong(e.to_string()))?;
        Ok(Some(Self {
            jar: Mutex::new(Jar {
                cookies,
                dir: PathBuf::new(),
                saved: 0,
            }),
            digest: if text.is_empty() {
                0
            } else {
                xxh3_64(text.as_bytes())
            },
            are_kept,
        }))
    }

    /// Go on with what earlier runs kept in `dir`. A person's file that they did not know wins over it.
    pub(crate) fn open(&self, dir: &Path, wall_ms: u64) -> Result<(), CrawlError> {
        let mut jar = self.lock();
        jar.dir = dir.to_owned();
        let path = dir.join(COOKIES_FILE);
        if !self.are_kept || !path.exists() {
            return Ok(());
        }
        let bytes = std::fs::read(&path).map_err(|source| CrawlError::File {
            path: path.clone(),
            source,
        })?;
        // What is not text is told by the checksum.
        let sealed = String::from_utf8_lossy(&bytes);
        let text = unseal(&sealed, &path, ", or remove it to forget the cookies")?;
        let damaged = || {
            CrawlError::Input(format!(
                "{} is of another version of Portolan; remove it to forget the cookies",
                path.display()
            ))
        };
        let digest = text.strip_prefix(HEAD).and_then(|rest| rest.lines().next());
        let digest = digest.and_then(|digits| u64::from_str_radix(digits, 16).ok());
        let digest = digest.ok_or_else(damaged)?;
        let kept = CookieJar::from_netscape(text, wall_ms).map_err(|_| damaged())?;
        let given = std::mem::replace(&mut jar.cookies, kept);
        if digest != self.digest {
            jar.cookies.add_all(given, wall_ms);
        }
        Ok(())
    }

    /// The value of the Cookie field that goes with a request.
    pub(crate) fn sent_to(&self, origin: &Origin, path: &str, wall_ms: u64) -> Option<String> {
        self.lock().cookies.sent_to(origin, path, wall_ms)
    }

    /// What a server's answer sets.
    pub(crate) fn set_by(&self, head: &Head, origin: &Origin, path: &str, wall_ms: u64) {
        let mut jar = None;
        for field in head.get_all("set-cookie") {
            let jar = jar.get_or_insert_with(|| self.lock());
            if let Ok(field) = std::str::from_utf8(field) {
                jar.cookies.set(field, origin, path, wall_ms);
            }
        }
    }

    /// Make durable what servers have set since the last time.
    pub(crate) fn save(&self, wall_ms: u64) -> Result<(), CrawlError> {
        if !self.are_kept {
            return Ok(());
        }
        let mut jar = self.lock();
        let changes = jar.cookies.changes();
        if jar.saved == changes {
            return Ok(());
        }
        let cookies = jar.cookies.to_netscape(wall_ms);
        let text = format!("{HEAD}{:016x}\n{cookies}", self.digest);
        replace(&jar.dir, COOKIES_FILE, seal(&text).as_bytes())?;
        jar.saved = changes;
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, Jar> {
        self.jar
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}
