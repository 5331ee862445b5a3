//! robots.txt after RFC 9309: bytes to rules, and what the rules say of a path. Fetching it, following
//! its redirects and remembering it are not done here.
//!
//! Where the RFC leaves room or the Web does not keep to it:
//! - Lines end with CR, LF or CRLF; `#` starts a comment anywhere; a BOM is skipped, UTF-16 with a BOM
//!   is decoded. Of a file past [`MAX_ROBOTS_BYTES`] the last, cut line is dropped: half a path
//!   could forbid far more than the whole one.
//! - Common misspellings of the keys count as the keys (see `lines`), and a line of exactly two words
//!   needs no colon.
//! - The product token of a `User-agent` line ends at the first character that is not a letter, a
//!   digit, `-` or `_`, so `Foobot/2.1` names Foobot. (The RFC has no digits; real tokens do.)
//! - Records that are not `Allow` or `Disallow` never end a group's list of agents. `Crawl-delay` holds
//!   for the agents named above it in the group; of several that concern us the longest holds.
//! - A path without its leading `/` gets one. A whole URL counts by its path where it names the site that
//!   the file is for, and not at all where it names another one: `Disallow: https://other.example/` says
//!   nothing of our pages. The scheme does not matter, since sites that moved to https kept their lines.
//! - In a query `%3A` and `%2F` equal `:` and `/`, as in the RFC's second example of encodings; in a
//!   path they do not.
//! - Rules and delays above the first `User-agent` line concern nobody.

mod lines;
mod normal;
mod rules;
#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::time::Duration;

use crate::mime::utf8_by_bom;
use crate::table::Table;
use lines::{Line, records};
use rules::{RuleList, RuleSet};

/// RFC 9309 2.5: a crawler must read at least this much of a robots.txt; Portolan reads no more.
pub const MAX_ROBOTS_BYTES: usize = 500 * 1024;

/// Paths below which documents have tables; further ones do not count.
const MAX_TABLE_PATHS: usize = 100;

/// A compact form can be longer than the file it came from, since octets become `%XX`: at worst 4.5
/// times (UTF-16), and a few bytes a line. One that is longer than a robots.txt may be opens with this line.
const LONG_COMPACT_MARK: &[u8] = b"# long compact form\n";
const MAX_COMPACT_BYTES: usize = 6 * MAX_ROBOTS_BYTES;

/// What a robots.txt says to one crawler.
#[derive(Clone, Debug, Default)]
pub struct Robots {
    rules: RuleSet,
    crawl_delay: Option<Duration>,
    sitemaps: Vec<String>,
    /// Paths below which documents have tables.
    tables: Vec<(Table, String)>,
}

/// The decision on a path and the line that made it, as `Disallow: /private/`. The path in it is in the
/// normal form that was compared. No line: nothing matched, or `/robots.txt` itself.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RobotsVerdict {
    pub allowed: bool,
    pub line: Option<String>,
}

impl Robots {
    /// Reads the rules that concern `product_token`: those of all groups that name it, else those of
    /// all groups that name `*`, else none. `origin` (`https://example.org`, `http://[::1]:8080`) is the one
    /// that the rules are for, wherever a redirect led to: a rule that is a whole URL of another site is
    /// not taken.
    pub fn parse_for(bytes: &[u8], product_token: &str, origin: &str) -> Robots {
        Robots::read(bytes, product_token, Some(origin))
    }

    /// As [`Robots::parse_for`] where no origin is known, as with a compact form: of a whole URL the path
    /// counts, whatever site it names.
    pub fn parse(bytes: &[u8], product_token: &str) -> Robots {
        Robots::read(bytes, product_token, None)
    }

    fn read(bytes: &[u8], product_token: &str, origin: Option<&str>) -> Robots {
        let text = readable_text(bytes);
        let site = origin.and_then(|origin| normal::Site::of(origin.as_bytes()));
        let our_token = lines::product_token(product_token.as_bytes());

        let mut ours = Gathered::default();
        let mut everyones = Gathered::default();
        let mut sitemaps = Vec::new();
        let mut tables: Vec<(Table, String)> = Vec::new();
        let mut in_agents = false;
        for record in records(&text) {
            match record {
                Line::UserAgent(value) => {
                    if !in_agents {
                        ours.addressed = false;
                        everyones.addressed = false;
                        in_agents = true;
                    }
                    if lines::names_everyone(value) {
                        everyones.address();
                    } else if !our_token.is_empty()
                        && lines::product_token(value).eq_ignore_ascii_case(our_token)
                    {
                        ours.address();
                    }
                }
                Line::Rule { allow, path } => {
                    in_agents = false;
                    if site.as_ref().is_none_or(|site| site.is_meant_by(path)) {
                        ours.rule(allow, path);
                        everyones.rule(allow, path);
                    }
                }
                Line::CrawlDelay(value) => {
                    if let Some(delay) = lines::delay(value) {
                        ours.delay(delay);
                        everyones.delay(delay);
                    }
                }
                Line::Sitemap(value) => sitemaps.push(lines::sitemap_text(value)),
                Line::Table(table, path) => {
                    let path = (table, lines::sitemap_text(path).into_owned());
                    let is_path = path.1.starts_with('/');
                    if is_path && tables.len() < MAX_TABLE_PATHS && !tables.contains(&path) {
                        tables.push(path);
                    }
                }
            }
        }

        let chosen = if ours.named { ours } else { everyones };
        Robots {
            rules: RuleSet::build(chosen.rules),
            crawl_delay: chosen.crawl_delay,
            sitemaps: distinct(sitemaps),
            tables,
        }
    }

    /// Nothing is forbidden: what an absent robots.txt means.
    pub fn allow_all() -> Robots {
        Robots::default()
    }

    /// Nothing is allowed: what an unreachable robots.txt means.
    pub fn disallow_all() -> Robots {
        let mut rules = RuleList::default();
        rules.push(false, b"/");
        Robots {
            rules: RuleSet::build(rules),
            ..Robots::default()
        }
    }

    /// Whether a path with its query (`/a/b?c=d`) may be requested. Time is linear in the path's length
    /// for each rule, and most rules cost a few instructions.
    pub fn allows(&self, path_and_query: &str) -> bool {
        self.decide(path_and_query)
            .is_none_or(|rule| self.rules.is_allow(rule))
    }

    /// As [`Robots::allows`], with the line that decided.
    pub fn verdict(&self, path_and_query: &str) -> RobotsVerdict {
        match self.decide(path_and_query) {
            None => RobotsVerdict {
                allowed: true,
                line: None,
            },
            Some(rule) => RobotsVerdict {
                allowed: self.rules.is_allow(rule),
                line: Some(self.rules.line(rule)),
            },
        }
    }

    /// The delay asked for between two requests, as written: the caller caps it.
    pub fn crawl_delay(&self) -> Option<Duration> {
        self.crawl_delay
    }

    /// All `Sitemap` lines, whatever group they stand in; distinct, in order, absolute or relative as
    /// written.
    pub fn sitemaps(&self) -> &[String] {
        &self.sitemaps
    }

    /// Does a `TOL` or `TVI` line, whatever group it stands in, say that the document at `path` has such a table?
    pub fn tells_of(&self, table: Table, path: &str) -> bool {
        let mut paths = self.tables.iter();
        paths.any(|(told, below)| *told == table && path.starts_with(below.as_str()))
    }

    /// How many rules can decide anything.
    pub fn rule_count(&self) -> usize {
        self.rules.len()
    }

    /// Only what concerns us, as a robots.txt for everyone: parsing it, with any product token, gives
    /// the same decisions, delay, sitemaps and tables. Empty if there is nothing to say.
    pub fn to_compact(&self) -> String {
        let mut out = String::new();
        if self.rules.len() > 0 || self.crawl_delay.is_some() {
            out.push_str("User-agent: *\n");
        }
        if let Some(delay) = self.crawl_delay {
            let (seconds, millis) = (delay.as_secs(), delay.subsec_millis());
            out.push_str(&format!("Crawl-delay: {seconds}"));
            if millis > 0 {
                out.push_str(&format!(".{millis:03}"));
            }
            out.push('\n');
        }
        for rule in self.rules.iter() {
            out.push_str(&self.rules.line(rule));
            out.push('\n');
        }
        for sitemap in &self.sitemaps {
            out.push_str("Sitemap: ");
            out.push_str(sitemap);
            out.push('\n');
        }
        for (table, path) in &self.tables {
            out.push_str(&format!("{}: {path}\n", table.name().to_ascii_uppercase()));
        }
        if out.len() > MAX_ROBOTS_BYTES {
            let mark = String::from_utf8_lossy(LONG_COMPACT_MARK);
            out.insert_str(0, &mark);
        }
        out
    }

    fn decide(&self, path_and_query: &str) -> Option<rules::RuleId> {
        if self.rules.len() == 0 || is_robots_txt(path_and_query) {
            return None;
        }
        let path = normal::path(path_and_query);
        let plain = self.rules.best_match(&path);
        match normal::with_query_unescaped(&path) {
            None => plain,
            Some(unescaped) => self
                .rules
                .stronger(plain, self.rules.best_match(&unescaped)),
        }
    }
}

/// What the status of the answer for `/robots.txt` means (RFC 9309 2.3.1).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RobotsAnswer {
    /// The body holds the rules.
    Parse,
    /// Unavailable: everything may be requested.
    AllowAll,
    /// Unreachable: nothing may be requested until it can be read.
    DisallowAll,
    /// The rules are elsewhere: follow at least five hops, then treat it as unavailable.
    Redirect,
}

impl RobotsAnswer {
    /// 2xx is parsed, 3xx followed. 4xx, also 401 and 403, is "unavailable" in the RFC's words and
    /// allows all: a server that forbids its robots.txt still answers for each page. Only 429 is
    /// not read so: it says that there are too many requests, and answering it with the whole site's
    /// worth of them would be absurd; it counts as unreachable, as 5xx and anything unheard of does.
    /// A 304 to a conditional request means that the stored rules go on and is the caller's to see
    /// before it asks here; unasked for, it is an answer without rules and counts as unreachable.
    pub fn from_status(status: u16) -> RobotsAnswer {
        match status {
            200..=299 => RobotsAnswer::Parse,
            304 => RobotsAnswer::DisallowAll,
            300..=399 => RobotsAnswer::Redirect,
            429 => RobotsAnswer::DisallowAll,
            400..=499 => RobotsAnswer::AllowAll,
            _ => RobotsAnswer::DisallowAll,
        }
    }
}

/// What was found for one agent: us, or everyone.
#[derive(Default)]
struct Gathered {
    /// A group names the agent.
    named: bool,
    /// The group being read names the agent.
    addressed: bool,
    rules: RuleList,
    crawl_delay: Option<Duration>,
}

impl Gathered {
    fn address(&mut self) {
        self.named = true;
        self.addressed = true;
    }

    fn rule(&mut self, allow: bool, path: &[u8]) {
        if self.addressed
            && let Some(pattern) = normal::pattern(path)
        {
            self.rules.push(allow, &pattern);
        }
    }

    fn delay(&mut self, delay: Duration) {
        if self.addressed {
            self.crawl_delay = self.crawl_delay.max(Some(delay));
        }
    }
}

/// The part of the file that is read, as UTF-8: all of it, or whole lines up to the bound.
fn readable_text(bytes: &[u8]) -> Cow<'_, [u8]> {
    let bound = if bytes.starts_with(LONG_COMPACT_MARK) {
        MAX_COMPACT_BYTES
    } else {
        MAX_ROBOTS_BYTES
    };
    if bytes.len() <= bound {
        return utf8_by_bom(bytes);
    }
    let mut text = utf8_by_bom(&bytes[..bound]);
    let end = memchr::memrchr2(b'\n', b'\r', &text).map_or(0, |at| at + 1);
    match &mut text {
        Cow::Borrowed(text) => *text = &text[..end],
        Cow::Owned(text) => text.truncate(end),
    }
    text
}

fn is_robots_txt(path_and_query: &str) -> bool {
    let path = path_and_query
        .split(['?', '#'])
        .next()
        .unwrap_or(path_and_query);
    path == "/robots.txt"
}

fn distinct(texts: Vec<Cow<'_, str>>) -> Vec<String> {
    let mut seen = std::collections::HashSet::new();
    texts
        .into_iter()
        .filter(|text| !text.is_empty() && seen.insert(text.clone()))
        .map(Cow::into_owned)
        .collect()
}
