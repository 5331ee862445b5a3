//! Tables of links (`.tol`): the links of a document, kept beside it in a file of their own, so that a crawler knows them before the document has
//! come. Bytes in, links out; who fetches the table and whether it is believed is not known here.
//!
//! A table is text in UTF-8, one link a line, written as in the document: `internal page.html`, `external https://other.example/`. Its
//! first line is `tol 1`. `docs/tol.md` tells the format to people who build sites.

use std::collections::HashSet;
use std::fmt;

use encoding_rs::Encoding;
use url::Url;

use crate::charset::query_in_charset;
use crate::html::{Found, PageScanner, ScanOptions};
use crate::{FeedLimits, parse_feed};

#[cfg(test)]
mod tests;

/// The first line of every table.
const FIRST_LINE: &str = "tol 1";

/// Links beyond this many are left out, when a table is written and when it is read.
const MAX_LINKS: usize = 20_000;

/// A longer link is left out.
const MAX_HREF_BYTES: usize = 8 * 1024;

/// What is longer of a table is not read.
const MAX_TOL_BYTES: usize = 4 << 20;

/// Stands for the site's host where nobody named it. No link can lead to it: RFC 2606 keeps the name free.
const UNKNOWN_SITE: &str = "http://site.invalid/";

/// Where a folder of documents is served, so that links into the site can be told from links that leave it.
#[derive(Clone, Debug)]
pub struct Site {
    base: Url,
}

/// Why a site's URL cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SiteError {
    NoUrl,
    Scheme,
}

impl fmt::Display for SiteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            SiteError::NoUrl => "this is no URL; write it as https://example.org/docs/",
            SiteError::Scheme => "only http and https URLs can be a site's",
        })
    }
}

impl Site {
    /// The site whose folder is served at `base`; the last segment is a folder with or without a slash behind it.
    pub fn at(base: &str) -> Result<Site, SiteError> {
        let mut base = Url::parse(base).map_err(|_| SiteError::NoUrl)?;
        if !is_http(&base) {
            return Err(SiteError::Scheme);
        }
        base.set_query(None);
        base.set_fragment(None);
        if !base.path().ends_with('/') {
            let folder = format!("{}/", base.path());
            base.set_path(&folder);
        }
        Ok(Site { base })
    }

    /// A site whose host is not known: all links that name a host are external.
    pub fn unknown() -> Site {
        // The constant is a URL.
        Site::at(UNKNOWN_SITE).expect("a constant")
    }

    /// The document's URL, by the folders and the name that lead to it.
    fn url_of(&self, path: &[&str]) -> Url {
        let mut url = self.base.clone();
        if let Ok(mut segments) = url.path_segments_mut() {
            segments.pop_if_empty().extend(path);
        }
        url
    }
}

/// The links of one document.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tol {
    base: Option<String>,
    links: Vec<TolLink>,
    left_out: usize,
}

/// A link as the document writes it: relative to the table's base, or else to the document's URL. No fragment.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TolLink {
    pub href: String,
    /// Leads to another host.
    pub external: bool,
    /// The document asks not to follow it.
    pub nofollow: bool,
}

impl Tol {
    /// The links of an HTML page that is found at `path` (folders, then the name) of `site`. Distinct, in the page's order.
    pub fn of_page(page: &[u8], site: &Site, path: &[&str]) -> Tol {
        let options = ScanOptions {
            max_links: u32::MAX,
            ..ScanOptions::default()
        };
        let mut raw = Vec::new();
        let summary =
            PageScanner::new(&options, None).finish_with(page, &mut |found: Found<'_>| {
                if let Found::Link { href, nofollow, .. } = found {
                    raw.push((href.to_owned(), nofollow));
                }
            });
        let mut url = site.url_of(path);
        let site_url = url.clone();
        let encoding = summary.charset.encoding;
        let base = summary.base.as_deref().and_then(|base| {
            let base = clean(base, encoding)?;
            url = url.join(&base).ok().filter(is_http)?;
            Some(base)
        });
        let mut table = Builder::new(site_url, url, encoding);
        for (href, nofollow) in raw {
            table.add(&href, nofollow || summary.robots.nofollow);
        }
        table.finish(base)
    }

    /// The links of a feed's items; `None` if it is no feed.
    pub fn of_feed(feed: &[u8], site: &Site, path: &[&str]) -> Option<Tol> {
        let url = site.url_of(path);
        let mut table = Builder::new(url.clone(), url.clone(), encoding_rs::UTF_8);
        let summary = parse_feed(feed, url.as_str(), FeedLimits::default(), &mut |link| {
            // What was joined with a site that is not known has to become relative again.
            let href = link.href;
            table.add(
                href.strip_prefix(UNKNOWN_SITE.trim_end_matches('/'))
                    .unwrap_or(href),
                false,
            );
        });
        summary.is_feed.then(|| table.finish(None))
    }

    /// Reads a table; `None` if it is none. Lines that say nothing known are passed over, links that are too long or too many are counted.
    pub fn parse(bytes: &[u8]) -> Option<Tol> {
        let is_cut = bytes.len() > MAX_TOL_BYTES;
        let mut bytes = &bytes[..bytes.len().min(MAX_TOL_BYTES)];
        if is_cut {
            // The last line may be half a link, which would be another link.
            let end = bytes.iter().rposition(|&byte| byte == b'\n').unwrap_or(0);
            bytes = &bytes[..end];
        }
        let mut lines = bytes.split(|&byte| byte == b'\n').map(line);
        if lines.next()? != Some(FIRST_LINE) {
            return None;
        }
        let mut table = Tol::default();
        let mut seen = HashSet::new();
        for line in lines {
            let Some(line) = line else {
                table.left_out += 1;
                continue;
            };
            table.take(line, &mut seen);
        }
        Some(table)
    }

    fn take(&mut self, line: &str, seen: &mut HashSet<TolLink>) {
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        let (nofollow, href) = match rest.split_once(' ') {
            Some(("nofollow", href)) => (true, href),
            _ => (false, rest),
        };
        let external = match word {
            "base" if self.base.is_none() && is_href(rest) => {
                self.base = Some(rest.to_owned());
                return;
            }
            "internal" => false,
            "external" => true,
            _ => return,
        };
        let link = TolLink {
            href: href.to_owned(),
            external,
            nofollow,
        };
        if !is_href(href) || self.links.len() == MAX_LINKS {
            self.left_out += 1;
        } else if seen.insert(link.clone()) {
            self.links.push(link);
        }
    }

    /// The table as it is stored in a file.
    pub fn write(&self) -> String {
        let mut out = format!("{FIRST_LINE}\n");
        if let Some(base) = &self.base {
            out.push_str(&format!("base {base}\n"));
        }
        for link in &self.links {
            out.push_str(if link.external {
                "external "
            } else {
                "internal "
            });
            out.push_str(if link.nofollow { "nofollow " } else { "" });
            out.push_str(&link.href);
            out.push('\n');
        }
        out
    }

    /// What links are relative to, itself relative to the document's URL.
    pub fn base(&self) -> Option<&str> {
        self.base.as_deref()
    }

    pub fn links(&self) -> &[TolLink] {
        &self.links
    }

    /// Links to the document's own host.
    pub fn internal(&self) -> impl Iterator<Item = &TolLink> {
        self.links.iter().filter(|link| !link.external)
    }

    /// Links to other hosts.
    pub fn external(&self) -> impl Iterator<Item = &TolLink> {
        self.links.iter().filter(|link| link.external)
    }

    /// Links that were too long, too many or not readable. A table with such links is not complete.
    pub fn left_out(&self) -> usize {
        self.left_out
    }
}

/// Gathers the links of a document that is read.
struct Builder {
    site: Url,
    base: Url,
    encoding: &'static Encoding,
    links: Vec<TolLink>,
    seen: HashSet<TolLink>,
    left_out: usize,
}

impl Builder {
    fn new(site: Url, base: Url, encoding: &'static Encoding) -> Builder {
        Builder {
            site,
            base,
            encoding,
            links: Vec::new(),
            seen: HashSet::new(),
            left_out: 0,
        }
    }

    /// Takes what leads to an http or https document; places on the same page, mail and scripts do not.
    fn add(&mut self, href: &str, nofollow: bool) {
        let Some(href) = clean(href, self.encoding) else {
            return;
        };
        let Ok(target) = self.base.join(&href) else {
            return;
        };
        if !is_http(&target) {
            return;
        }
        if href.len() > MAX_HREF_BYTES || self.links.len() == MAX_LINKS {
            self.left_out += 1;
            return;
        }
        let link = TolLink {
            href,
            external: !is_same_host(&target, &self.site),
            nofollow,
        };
        if self.seen.insert(link.clone()) {
            self.links.push(link);
        }
    }

    fn finish(self, base: Option<String>) -> Tol {
        Tol {
            base: base.filter(|base| is_href(base)),
            links: self.links,
            left_out: self.left_out,
        }
    }
}

/// A link without space, line ends and fragment, its query in the document's charset; `None` if nothing is left.
fn clean(href: &str, encoding: &'static Encoding) -> Option<String> {
    let href = href.trim_matches(|c| c <= ' ');
    let href = query_in_charset(href, encoding);
    let mut out = String::with_capacity(href.len());
    for c in href.chars().take_while(|&c| c != '#') {
        match c {
            // The URL standard drops them, wherever they stand.
            '\t' | '\n' | '\r' => {}
            ' ' | '\0'..='\x1f' | '\x7f' => out.push_str(&format!("%{:02X}", u32::from(c))),
            _ => out.push(c),
        }
    }
    (!out.is_empty()).then_some(out)
}

/// One line of a table; `None` if it is no UTF-8.
fn line(bytes: &[u8]) -> Option<&str> {
    let text = std::str::from_utf8(bytes).ok()?;
    Some(text.strip_suffix('\r').unwrap_or(text))
}

/// Could `clean` have made it?
fn is_href(href: &str) -> bool {
    let is_plain = |c: char| c > ' ' && c != '\x7f' && c != '#';
    !href.is_empty() && href.len() <= MAX_HREF_BYTES && href.chars().all(is_plain)
}

fn is_http(url: &Url) -> bool {
    matches!(url.scheme(), "http" | "https") && url.has_host()
}

/// http and https of one host are one site; another port is another server.
fn is_same_host(a: &Url, b: &Url) -> bool {
    a.host_str() == b.host_str() && a.port() == b.port()
}
