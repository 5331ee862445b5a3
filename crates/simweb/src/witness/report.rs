//! What the witness says: plain data for programs, a page of words and figures for people.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;

/// Violations shown one by one to a person.
const SHOWN: usize = 10;

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct WitnessReport {
    pub epoch: u32,
    pub hosts_asked: u64,
    pub requests: u64,
    /// Answers that went out whole.
    pub served: u64,
    /// Requests whose client was gone before the answer was out.
    pub aborted: u64,
    /// Requests that were no HTTP/1 or named no host of this Web.
    pub bad_requests: u64,
    pub bytes: u64,
    /// From the first request to the end of the last answer.
    pub seconds: f64,
    pub distinct_urls: u64,
    pub statuses: BTreeMap<u16, u64>,
    pub robots_fetches: u64,
    pub heads: u64,
    pub conditionals: u64,
    /// Requests for a page by another spelling of its URL.
    pub aliases: u64,
    /// Requests for pages of endless places.
    pub traps: u64,
    /// Requests again for what had refused or had been cut before.
    pub retries: u64,
    /// Requests for what had already been answered for good.
    pub repeats: u64,
    /// Those of the repeats (as far as kept one by one) with no epoch between both requests.
    pub repeats_in_one_epoch: u64,
    pub forbidden: u64,
    pub before_robots: u64,
    /// Requests for URLs that stand only in comments, scripts and the like.
    pub decoys: u64,
    pub overlaps: u64,
    pub most_at_once: u32,
    pub short_gaps: u64,
    /// Those of the short gaps that followed robots.txt.
    pub short_gaps_after_robots: u64,
    pub min_gap_ms: Option<f64>,
    pub min_gap_host: String,
    pub gaps: Vec<GapClass>,
    pub connections: u64,
    pub most_connections_on_a_host: u32,
    pub user_agents: Vec<(String, u64)>,
    pub ips: Vec<IpReport>,
    pub violations: Vec<Violation>,
    pub repeated: Vec<Repeat>,
}

/// Gaps below `below_ms` and not below half of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GapClass {
    pub below_ms: u64,
    pub count: u64,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HostReport {
    pub host: String,
    pub requests: u64,
    pub robots_fetches: u64,
    pub repeats: u64,
    pub forbidden: u64,
    pub before_robots: u64,
    pub overlaps: u64,
    pub most_at_once: u32,
    pub short_gaps: u64,
    pub min_gap_ms: Option<f64>,
    pub most_connections: u32,
    pub aborted: u64,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct IpReport {
    pub ip: String,
    pub requests: u64,
    pub most_at_once: u32,
    pub min_gap_ms: Option<f64>,
    pub short_gaps: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ViolationKind {
    Forbidden,
    BeforeRobots,
    Overlap,
    TooSoon,
    Decoy,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Violation {
    pub kind: ViolationKind,
    pub url: String,
    /// Since the server started.
    pub at_ms: u64,
    pub epoch: u32,
    pub detail: String,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Repeat {
    pub url: String,
    /// The epoch of the last answer before this one.
    pub first_epoch: u32,
    pub epoch: u32,
    pub at_ms: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UrlCount {
    pub requests: u32,
    /// Answers for good, sent whole.
    pub served: u32,
    /// Answers that asked to come again, or were cut.
    pub refused: u32,
    pub first_epoch: u32,
    pub last_epoch: u32,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RequestRecord {
    pub url: String,
    pub head: bool,
    /// 0 where the client was gone.
    pub status: u16,
    pub begin_us: u64,
    pub end_us: u64,
    pub epoch: u32,
}

impl WitnessReport {
    /// Whether the crawler did nothing that a host could complain about. Repeats across epochs are for the caller to judge.
    pub fn is_clean(&self) -> bool {
        let sins = [
            self.forbidden,
            self.before_robots,
            self.overlaps,
            self.short_gaps,
            self.repeats_in_one_epoch,
            self.decoys,
            self.bad_requests,
        ];
        sins.iter().all(|n| *n == 0) && self.ips.iter().all(|ip| ip.short_gaps == 0)
    }
}

impl fmt::Display for WitnessReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut row = |what: &str, value: String| writeln!(f, "  {what:<44} {value:>14}");
        row("hosts asked", self.hosts_asked.to_string())?;
        row("requests", self.requests.to_string())?;
        row("  answered whole", self.served.to_string())?;
        row("  client gone before the answer", self.aborted.to_string())?;
        row("distinct URLs", self.distinct_urls.to_string())?;
        row("bytes sent", self.bytes.to_string())?;
        row("robots.txt requests", self.robots_fetches.to_string())?;
        for (status, count) in &self.statuses {
            row(&format!("answers {status}"), count.to_string())?;
        }
        row(
            "URLs asked for again after an answer",
            self.repeats.to_string(),
        )?;
        row("  within one epoch", self.repeats_in_one_epoch.to_string())?;
        row(
            "asked for again after a refusal or a cut",
            self.retries.to_string(),
        )?;
        row("requests by another spelling", self.aliases.to_string())?;
        row("requests into endless places", self.traps.to_string())?;
        row("HEAD requests", self.heads.to_string())?;
        row("conditional requests", self.conditionals.to_string())?;
        row(
            "forbidden by robots.txt, requested",
            self.forbidden.to_string(),
        )?;
        row(
            "pages requested before robots.txt",
            self.before_robots.to_string(),
        )?;
        row(
            "links taken from comments and scripts",
            self.decoys.to_string(),
        )?;
        row(
            "requests that overlapped on a host",
            self.overlaps.to_string(),
        )?;
        row(
            "most requests at once on a host",
            self.most_at_once.to_string(),
        )?;
        row(
            "most connections at once on a host",
            self.most_connections_on_a_host.to_string(),
        )?;
        row("connections", self.connections.to_string())?;
        row(
            "requests sooner than the host asked",
            self.short_gaps.to_string(),
        )?;
        let gap = self
            .min_gap_ms
            .map_or("-".to_owned(), |gap| format!("{gap:.3} ms"));
        row("shortest gap on a host", gap)?;
        row("not understood", self.bad_requests.to_string())?;
        for ip in &self.ips {
            let gap = ip
                .min_gap_ms
                .map_or("-".to_owned(), |gap| format!("{gap:.3} ms"));
            row(&format!("{}: requests", ip.ip), ip.requests.to_string())?;
            row(&format!("{}: shortest gap", ip.ip), gap)?;
        }
        for (agent, count) in &self.user_agents {
            writeln!(f, "  user agent `{agent}` on {count} connections")?;
        }
        for violation in self.violations.iter().take(SHOWN) {
            let Violation {
                kind,
                url,
                at_ms,
                detail,
                ..
            } = violation;
            writeln!(f, "  at {at_ms} ms: {} {url} {detail}", kind.words())?;
        }
        if self.violations.len() > SHOWN {
            writeln!(f, "  and {} more", self.violations.len() - SHOWN)?;
        }
        let verdict = if self.is_clean() {
            "Nothing to complain of."
        } else {
            "There is cause for complaint."
        };
        writeln!(f, "  {verdict}")
    }
}

impl ViolationKind {
    fn words(self) -> &'static str {
        match self {
            ViolationKind::Forbidden => "forbidden by robots.txt:",
            ViolationKind::BeforeRobots => "before robots.txt:",
            ViolationKind::Overlap => "while another request was in progress:",
            ViolationKind::TooSoon => "too soon:",
            ViolationKind::Decoy => "no link:",
        }
    }
}
