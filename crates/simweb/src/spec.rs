//! What a simulated Web is made of: plain data with a seed. Two equal specs give the same Web, byte for byte.

use crate::changes::ChangeSpec;
use crate::motion::MotionSpec;
use crate::oddity::{Fault, Oddity};
use crate::tables::TablesSpec;
use serde::{Deserialize, Serialize};

/// Hosts a Web may have at most; a host costs some hundred bytes of RAM.
pub const MAX_HOSTS: u32 = 1_000_000;
/// Pages a host may have at most; a page costs some twenty bytes of RAM.
pub const MAX_PAGES_PER_HOST: u32 = 5_000_000;

/// Every parameter of a simulated Web. Shares are between 0 and 1.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct WebSpec {
    pub seed: u64,
    /// Host names are `h0.<suffix>`, `h1.<suffix>`, …
    pub suffix: String,
    /// URLs in pages say `https`.
    pub tls: bool,
    /// A port to write into every URL; without it URLs have the default port and the crawler has to be told its addresses.
    pub url_port: Option<u16>,
    /// A connection is closed, and its last answer says so, after this many requests; 0: never.
    pub requests_per_connection: u32,
    /// A folder of HTML files to serve as pages instead of made-up text; their own links lead out of
    /// this Web.
    pub pages_from: Option<String>,
    /// The robots product token the witness judges by.
    pub product_token: String,
    pub hosts: u32,
    /// Mean number of pages of a host.
    pub pages_per_host: u32,
    /// 0: all hosts are of one size; towards 0.9: few huge ones and many small ones (a power law).
    pub skew: f64,
    pub links: LinkSpec,
    pub content: ContentSpec,
    pub latency: LatencySpec,
    pub faults: FaultSpec,
    pub robots: RobotsSpec,
    pub discovery: DiscoverySpec,
    pub traps: TrapSpec,
    pub odd: OddSpec,
    pub sick: SickSpec,
    pub changes: ChangeSpec,
    pub motion: MotionSpec,
    pub tables: TablesSpec,
}

/// Hosts beside the others that never get an answer out. No page links to them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SickSpec {
    /// `silent0.<suffix>`, …: they accept connections and say nothing.
    pub silent: u32,
    /// `drip0.<suffix>`, …: a byte every `drip_pause_ms`; hosts of even numbers begin with the head, those of odd ones with the body.
    pub drip: u32,
    pub drip_pause_ms: u32,
    /// `lost0.<suffix>`, …: the Web has a DNS server that does not answer for them.
    pub lost: u32,
}

impl Default for SickSpec {
    fn default() -> Self {
        SickSpec {
            silent: 0,
            drip: 0,
            drip_pause_ms: 1_000,
            lost: 0,
        }
    }
}

/// How pages link to each other.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LinkSpec {
    /// Mean number of links on a page.
    pub per_page: u32,
    /// Share of links that leave the host.
    pub off_host_share: f64,
    /// Share of links that stay near: a page of the neighbourhood, a neighbouring host.
    pub locality: f64,
    /// Share of links spelled in another way than the canonical URL.
    pub alias_share: f64,
}

/// What pages hold.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ContentSpec {
    pub page_bytes: u32,
    /// How far sizes stray from the mean, as a share of it.
    pub page_bytes_spread: f64,
    pub duplicate_share: f64,
    pub near_duplicate_share: f64,
    pub text_share: f64,
    pub binary_share: f64,
    pub wrong_type_share: f64,
    pub no_type_share: f64,
    pub noindex_share: f64,
    pub japanese_share: f64,
    pub gzip_share: f64,
    pub deflate_share: f64,
    pub brotli_share: f64,
    pub zstd_share: f64,
}

/// How long a host thinks before it answers, and how slowly its pages come then.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LatencySpec {
    pub mean_ms: f64,
    /// How far hosts differ from each other, as a share of the mean.
    pub host_spread: f64,
    /// How far the answers of one host differ.
    pub answer_spread: f64,
    /// Over this time the body of a slow page comes, in even pieces; 0: bodies come at once.
    pub body_ms: f64,
    /// Share of pages that are slow. The home page of the first host always is.
    pub body_share: f64,
}

/// Redirects and errors.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct FaultSpec {
    pub redirect_share: f64,
    pub error_share: f64,
    /// Which errors; all when empty.
    pub errors: Vec<Fault>,
    /// What 429 and 503 ask for.
    pub retry_after_s: u32,
    /// A recovering page answers 200 after this many refusals.
    pub recover_after: u32,
}

/// robots.txt files.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RobotsSpec {
    /// Share of pages that a host's rules forbid.
    pub forbidden_share: f64,
    /// Share of pages that only an Allow rule or a `$` keeps open.
    pub allowed_exception_share: f64,
    /// Share of hosts whose robots.txt is unusual (missing, 5xx, redirected, huge, all forbidden, …).
    pub odd_share: f64,
    pub crawl_delay_share: f64,
    pub crawl_delay_s: f64,
}

/// Pages that are found by other means than a plain anchor.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct DiscoverySpec {
    /// Share of hosts with a sitemap.
    pub sitemap_share: f64,
    /// Share of pages that only a sitemap names.
    pub sitemap_only_share: f64,
    pub feed_share: f64,
    pub feed_only_share: f64,
    /// Share of pages with a base, meta refresh, frame, area or link element that alone leads to a further page.
    pub gate_share: f64,
    /// Share of pages that lead to a further page only by a link one should not follow.
    pub nofollow_share: f64,
    pub image_share: f64,
    /// Share of pages with URLs in comments and scripts that nobody may take for links.
    pub decoy_share: f64,
}

/// Places without an end.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TrapSpec {
    /// Share of hosts that have the traps below.
    pub host_share: f64,
    pub calendar: bool,
    /// Months the calendar goes on for; 0: without end.
    pub calendar_months: u32,
    pub growing_path: bool,
    pub session_ids: bool,
}

/// Servers that do not speak HTTP as written.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct OddSpec {
    /// Share of hosts that have one oddity throughout.
    pub host_share: f64,
    /// Share of pages (on other hosts) with an oddity.
    pub page_share: f64,
    /// Which oddities; all when empty.
    pub kinds: Vec<Oddity>,
    pub drip_pause_ms: u32,
    /// Where an endless body ends all the same.
    pub endless_bytes: u64,
    /// Requests after which a closing host closes a kept connection unannounced.
    pub close_after: u32,
}

impl Default for WebSpec {
    fn default() -> Self {
        WebSpec {
            seed: 1,
            suffix: "sim.test".into(),
            tls: false,
            url_port: None,
            requests_per_connection: 0,
            pages_from: None,
            product_token: "portolan".into(),
            hosts: 10,
            pages_per_host: 50,
            skew: 0.0,
            links: LinkSpec::default(),
            content: ContentSpec::default(),
            latency: LatencySpec::default(),
            faults: FaultSpec::default(),
            robots: RobotsSpec::default(),
            discovery: DiscoverySpec::default(),
            traps: TrapSpec::default(),
            odd: OddSpec::default(),
            sick: SickSpec::default(),
            changes: ChangeSpec::default(),
            motion: MotionSpec::default(),
            tables: TablesSpec::default(),
        }
    }
}

impl Default for LinkSpec {
    fn default() -> Self {
        LinkSpec {
            per_page: 12,
            off_host_share: 0.2,
            locality: 0.5,
            alias_share: 0.0,
        }
    }
}

impl Default for ContentSpec {
    fn default() -> Self {
        ContentSpec {
            page_bytes: 4_000,
            page_bytes_spread: 0.5,
            duplicate_share: 0.0,
            near_duplicate_share: 0.0,
            text_share: 0.0,
            binary_share: 0.0,
            wrong_type_share: 0.0,
            no_type_share: 0.0,
            noindex_share: 0.0,
            japanese_share: 0.0,
            gzip_share: 0.0,
            deflate_share: 0.0,
            brotli_share: 0.0,
            zstd_share: 0.0,
        }
    }
}

impl Default for FaultSpec {
    fn default() -> Self {
        FaultSpec {
            redirect_share: 0.0,
            error_share: 0.0,
            errors: Vec::new(),
            retry_after_s: 1,
            recover_after: 1,
        }
    }
}

impl Default for RobotsSpec {
    fn default() -> Self {
        RobotsSpec {
            forbidden_share: 0.0,
            allowed_exception_share: 0.0,
            odd_share: 0.0,
            crawl_delay_share: 0.0,
            crawl_delay_s: 1.0,
        }
    }
}

impl Default for OddSpec {
    fn default() -> Self {
        OddSpec {
            host_share: 0.0,
            page_share: 0.0,
            kinds: Vec::new(),
            drip_pause_ms: 10,
            endless_bytes: 64 << 20,
            close_after: 3,
        }
    }
}

/// Why a spec cannot become a Web.
#[derive(Debug, thiserror::Error, PartialEq)]
pub enum SpecError {
    #[error("there is no preset `{0}`; choose one of small, demo, bench, odd")]
    NoSuchPreset(String),
    #[error("{name} is {value}, it must be between {low} and {high}")]
    OutOfRange {
        name: &'static str,
        value: String,
        low: String,
        high: String,
    },
    #[error("pages_from {0}")]
    PagesFrom(String),
    #[error("the host suffix `{0}` is not a lower-case domain name")]
    BadSuffix(String),
}

impl WebSpec {
    pub fn with_seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    pub fn with_hosts(mut self, hosts: u32) -> Self {
        self.hosts = hosts;
        self
    }

    pub fn with_pages_per_host(mut self, pages: u32) -> Self {
        self.pages_per_host = pages;
        self
    }

    pub fn with_latency_ms(mut self, mean_ms: f64) -> Self {
        self.latency.mean_ms = mean_ms;
        self
    }

    pub fn with_product_token(mut self, token: &str) -> Self {
        self.product_token = token.to_ascii_lowercase();
        self
    }

    /// `http://h0.<suffix>/`: from here everything is reachable.
    pub fn home_url(&self) -> String {
        let scheme = if self.tls { "https" } else { "http" };
        match self.url_port {
            Some(port) => format!("{scheme}://h0.{}:{port}/", self.suffix),
            None => format!("{scheme}://h0.{}/", self.suffix),
        }
    }

    /// Finds the first value out of range.
    pub fn check(&self) -> Result<(), SpecError> {
        let label = |l: &str| {
            !l.is_empty()
                && l.bytes()
                    .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
        };
        if self.suffix.len() > 200 || !self.suffix.split('.').all(label) {
            return Err(SpecError::BadSuffix(self.suffix.clone()));
        }
        range("hosts", self.hosts, 1, MAX_HOSTS)?;
        range("pages_per_host", self.pages_per_host, 1, MAX_PAGES_PER_HOST)?;
        range("skew", self.skew, 0.0, 0.9)?;
        range("links.per_page", self.links.per_page, 1, 10_000)?;
        range(
            "content.page_bytes",
            self.content.page_bytes,
            200,
            50_000_000,
        )?;
        range("latency.mean_ms", self.latency.mean_ms, 0.0, 600_000.0)?;
        range("latency.body_ms", self.latency.body_ms, 0.0, 100_000.0)?;
        range(
            "robots.crawl_delay_s",
            self.robots.crawl_delay_s,
            0.0,
            3_600.0,
        )?;
        range("faults.retry_after_s", self.faults.retry_after_s, 0, 86_400)?;
        for (name, count) in [
            ("sick.silent", self.sick.silent),
            ("sick.drip", self.sick.drip),
            ("sick.lost", self.sick.lost),
        ] {
            range(name, count, 0, MAX_HOSTS)?;
        }
        range("sick.drip_pause_ms", self.sick.drip_pause_ms, 1, 600_000)?;
        range("motion.changes_a_day", self.motion.changes_a_day, 0.0, 1e6)?;
        range("motion.spread", self.motion.spread, 0.0, 5.0)?;
        range("motion.day_s", self.motion.day_s, 0.001, 1e9)?;
        range("odd.close_after", self.odd.close_after, 1, u32::MAX)?;
        for (name, share) in self.shares() {
            range(name, share, 0.0, 1.0)?;
        }
        // Shares are decimal fractions: added up they may miss 1 by a hair.
        range(
            "the sum of all shares of special pages",
            crate::plan::special_share(self),
            0.0,
            1.0 + 1e-9,
        )
    }

    fn shares(&self) -> [(&'static str, f64); 43] {
        let (l, c, f, r, d) = (
            &self.links,
            &self.content,
            &self.faults,
            &self.robots,
            &self.discovery,
        );
        [
            ("links.off_host_share", l.off_host_share),
            ("links.locality", l.locality),
            ("links.alias_share", l.alias_share),
            ("content.page_bytes_spread", c.page_bytes_spread),
            ("content.duplicate_share", c.duplicate_share),
            ("content.near_duplicate_share", c.near_duplicate_share),
            ("content.text_share", c.text_share),
            ("content.binary_share", c.binary_share),
            ("content.wrong_type_share", c.wrong_type_share),
            ("content.no_type_share", c.no_type_share),
            ("content.noindex_share", c.noindex_share),
            ("content.japanese_share", c.japanese_share),
            ("content.gzip_share", c.gzip_share),
            ("content.deflate_share", c.deflate_share),
            ("content.brotli_share", c.brotli_share),
            ("content.zstd_share", c.zstd_share),
            ("faults.redirect_share", f.redirect_share),
            ("faults.error_share", f.error_share),
            ("robots.forbidden_share", r.forbidden_share),
            ("robots.allowed_exception_share", r.allowed_exception_share),
            ("robots.odd_share", r.odd_share),
            ("robots.crawl_delay_share", r.crawl_delay_share),
            ("discovery.sitemap_share", d.sitemap_share),
            ("discovery.sitemap_only_share", d.sitemap_only_share),
            ("discovery.feed_share", d.feed_share),
            ("discovery.feed_only_share", d.feed_only_share),
            ("discovery.gate_share", d.gate_share),
            ("discovery.nofollow_share", d.nofollow_share),
            ("discovery.image_share", d.image_share),
            ("discovery.decoy_share", d.decoy_share),
            ("motion.burst_share", self.motion.burst_share),
            ("motion.daily_share", self.motion.daily_share),
            ("motion.clock_share", self.motion.clock_share),
            ("motion.advert_share", self.motion.advert_share),
            ("motion.lying_share", self.motion.lying_share),
            ("motion.no_lastmod_share", self.motion.no_lastmod_share),
            ("latency.body_share", self.latency.body_share),
            ("odd.host_share", self.odd.host_share),
            ("odd.page_share", self.odd.page_share),
            ("tables.tol_share", self.tables.tol_share),
            ("tables.lying_share", self.tables.lying_share),
            ("tables.tvi_share", self.tables.tvi_share),
            ("tables.misfit_share", self.tables.misfit_share),
        ]
    }
}

fn range<T: PartialOrd + ToString>(
    name: &'static str,
    value: T,
    low: T,
    high: T,
) -> Result<(), SpecError> {
    // Written so that a NaN is out of range too.
    if value >= low && value <= high {
        return Ok(());
    }
    Err(SpecError::OutOfRange {
        name,
        value: value.to_string(),
        low: low.to_string(),
        high: high.to_string(),
    })
}
