//! What a crawl came to: one JSON object for programs, words and figures for people.

use std::collections::BTreeMap;
use std::fmt::{self, Write as _};

use serde::Serialize;

pub use crate::division::Exchanged;
use crate::modules::ModuleCounts;
pub use crate::outages::{Waiting, WaitingHost};
use crate::recovery::Recovered;

/// Totals over all runs of a crawl directory, unless said otherwise. The parts add up: `urls_known` is `pages`,
/// `redirects`, `sitemaps`, `urls_due`, `failed` and `excluded` together, and `reasons` are `failed` and `excluded` together.
///
/// There are three kinds of bytes. `wire_bytes` came from the network, with heads, framing and encodings. `body_bytes`
/// are what bodies hold once they are unpacked. `stored_bytes` are in WARC files, compressed.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Report {
    /// The number of the session; the first is 1. What follows is of all sessions, but for what is of this run.
    pub session: u32,
    /// Documents archived (answers 2xx), copies included.
    pub pages: u64,
    /// Requests for URLs of the queue that were answered or given up; robots.txt not counted.
    pub requests: u64,
    /// Bytes on the wire of the answers to these requests.
    pub wire_bytes: u64,
    /// Bytes of their bodies, unpacked.
    pub body_bytes: u64,
    pub urls_known: u64,
    pub urls_due: u64,
    pub failed: u64,
    pub excluded: u64,
    /// Documents whose payload was archived before, under another URL.
    pub duplicates: u64,
    /// URLs that redirect to another one. Those that redirect to nowhere count as failed.
    pub redirects: u64,
    /// Sitemaps read for their links. They are archived, and are no documents.
    pub sitemaps: u64,
    /// Documents with more links than `content.max_links`, and how many links of theirs were left out.
    pub pages_over_links: u64,
    pub links_left_out: u64,
    pub hosts: u64,
    /// Of this run.
    pub seconds: f64,
    /// Of this run, user and system.
    pub cpu_seconds: f64,
    /// Of this run.
    pub peak_rss_bytes: u64,
    /// Of this run: the longest that a worker did one thing, entries or a page, and did not look after its connections.
    pub longest_pause_ms: f64,
    /// Of this run, over all workers: how long entries waited until the registry could fold them.
    pub held_back_seconds: f64,
    pub stopped_by: &'static str,
    /// Due URLs whose hosts fail: the crawl is not complete.
    pub waiting: Waiting,
    /// Due URLs whose hosts failed for so long that this run gave them up. The next run asks again.
    pub given_up: Waiting,
    /// Of this run: how often our own network was gone, and for how many seconds in all.
    pub network_outages: u64,
    pub network_gone_seconds: f64,
    /// Of this run: URLs that failed before and were made due again.
    pub retried: u64,
    /// Of this run: URLs that became due to keep pages fresh, and new ones that had their share of the rate.
    pub refreshed: u64,
    /// Of this run: URLs that were judged again because settings or seeds changed, those that became due by that, and
    /// those that were taken out of the queue.
    pub judged: u64,
    pub judged_due: u64,
    pub judged_out: u64,
    /// Of this run: archived documents that were read again for links that were not looked for before.
    pub reread: u64,
    /// Of this run: links that left before their pages were there as a whole.
    pub early_links: u64,
    /// Of this run: what partitions told each other.
    pub exchanged: Exchanged,
    /// Of this run: tables of links (`.tol`) that were asked for and read before their documents, links to be crawled in them, and tables that lied.
    /// The site of such a one is not believed any longer.
    pub tables_asked: u64,
    pub tables_read: u64,
    pub table_links: u64,
    pub tables_lied: u64,
    /// Of this run: tables of volatile parts (`.tvi`) that were asked for, documents that they refreshed, and bytes that fetching those documents
    /// again would have taken more.
    pub parts_asked: u64,
    pub parts_refreshed: u64,
    pub parts_saved_bytes: u64,
    /// Documents archived in this run.
    pub pages_this_run: u64,
    /// Requests sent in this run, robots.txt included.
    pub requests_this_run: u64,
    /// Bytes on the wire in this run, robots.txt included.
    pub wire_bytes_this_run: u64,
    pub archive_files: u64,
    pub stored_bytes: u64,
    /// Why URLs failed or were excluded, by reason.
    pub reasons: BTreeMap<String, u64>,
    /// CPU seconds of this run by stage.
    pub stages: BTreeMap<String, f64>,
    /// Of this run: what modules did that were added, by name.
    pub modules: BTreeMap<String, ModuleCounts>,
    /// What this run found and did before it went on.
    pub recovered: Recovered,
    /// Reasons in words, for people.
    #[serde(skip)]
    pub sentences: BTreeMap<String, &'static str>,
}

/// A pause that is worth a word.
pub const LONG_PAUSE_MS: f64 = 100.0;
/// All waits of a crawl together, from which on they are worth a word.
const LONG_WAIT_SECONDS: f64 = 1.0;

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let why = match self.stopped_by {
            "done" => "nothing in scope is left to fetch",
            "max-pages" => "the limit of pages was reached",
            "time-limit" => "the time was up",
            "signal" => "it was asked to stop",
            "waiting" => "all that is left waits for hosts that fail or ask for a rest",
            _ => "an error stopped it",
        };
        writeln!(f, "The crawl ended because {why}.")?;
        writeln!(
            f,
            "  {} archived ({}) from {}; {} on the wire, {} of bodies.",
            counted(self.pages, "document"),
            copies(self.duplicates),
            counted(self.hosts, "host"),
            bytes(self.wire_bytes),
            bytes(self.body_bytes),
        )?;
        writeln!(
            f,
            "  {} known: {}, {}, {}{} due, {} failed, {} excluded.",
            counted(self.urls_known, "URL"),
            counted(self.pages, "document"),
            counted(self.redirects, "redirect"),
            sitemaps(self.sitemaps),
            thousands(self.urls_due),
            thousands(self.failed),
            thousands(self.excluded),
        )?;
        for (reason, count) in &self.reasons {
            let sentence = self.sentences.get(reason).copied().unwrap_or("");
            writeln!(f, "    {:>10}  {reason}: {sentence}", thousands(*count))?;
        }
        if self.links_left_out > 0 {
            writeln!(
                f,
                "  {} beyond content.max_links, on {}, left out.",
                counted(self.links_left_out, "link"),
                counted(self.pages_over_links, "page"),
            )?;
        }
        if self.judged > 0 {
            let judged = JudgedAgain {
                urls: self.judged,
                due: self.judged_due,
                out: self.judged_out,
            };
            writeln!(f, "  {judged}")?;
        }
        if self.reread > 0 {
            let pages = counted(self.reread, "archived document");
            writeln!(
                f,
                "  {pages} read again for links that were not looked for before."
            )?;
        }
        self.tell_exchange(f)?;
        if self.early_links > 0 {
            let links = counted(self.early_links, "link");
            writeln!(f, "  {links} followed while their pages were still coming.")?;
        }
        if self.tables_asked > 0 {
            let lied = match self.tables_lied {
                0 => String::new(),
                _ => format!(
                    "; {} lied, and {} believed any longer",
                    self.tables_lied,
                    if self.tables_lied == 1 {
                        "its site is not"
                    } else {
                        "their sites are not"
                    },
                ),
            };
            writeln!(
                f,
                "  {} of links read before their documents ({} asked for), with {}{lied}.",
                counted(self.tables_read, "table"),
                thousands(self.tables_asked),
                counted(self.table_links, "link"),
            )?;
        }
        if self.parts_asked > 0 {
            writeln!(
                f,
                "  {} refreshed by their volatile parts alone ({} of parts asked for): {} less than to fetch them again.",
                counted(self.parts_refreshed, "document"),
                counted(self.parts_asked, "table"),
                bytes(self.parts_saved_bytes),
            )?;
        }
        self.tell_outages(f)?;
        let files = counted(self.archive_files, "WARC file");
        writeln!(f, "  {files}, {} stored.", bytes(self.stored_bytes))?;
        write!(f, "{}", self.recovered)?;
        let rate = self.pages_this_run as f64 / self.seconds.max(0.001);
        writeln!(
            f,
            "  This run: {} with {} in {} ({rate:.1} pages/s); {:.1} s CPU, at most {} of memory.",
            counted(self.pages_this_run, "document"),
            counted(self.requests_this_run, "request"),
            duration(self.seconds),
            self.cpu_seconds,
            bytes(self.peak_rss_bytes),
        )?;
        self.tell_modules(f)?;
        self.tell_waits(f)?;
        self.tell_stages(f)
    }
}

impl Report {
    /// What partitions told each other; said only where they do it in an unusual way.
    fn tell_exchange(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Exchanged {
            mode,
            messages,
            urls,
            url_bytes,
            discarded,
        } = &self.exchanged;
        match *mode {
            "firewall" => writeln!(
                f,
                "  Mode firewall: {} to other partitions thrown away. Not complete: other modes follow them.",
                counted(*discarded, "link")
            ),
            "cross-over" => writeln!(
                f,
                "  Mode cross-over: each partition fetched for itself what it found, so that pages were fetched several times."
            ),
            "server" => writeln!(
                f,
                "  Mode server: {} in {} between partitions and their server, {} of URLs.",
                counted(*urls, "URL"),
                counted(*messages, "message"),
                bytes(*url_bytes)
            ),
            _ => Ok(()),
        }
    }

    /// Who does not answer, and when to ask again.
    fn tell_outages(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.retried > 0 {
            let urls = counted(self.retried, "URL");
            writeln!(f, "  {urls} that had failed became due again in this run.")?;
        }
        if self.refreshed > 0 {
            let urls = counted(self.refreshed, "URL");
            writeln!(f, "  {urls} became due in this run to keep pages fresh.")?;
        }
        if self.network_outages > 0 {
            let gone = duration(self.network_gone_seconds);
            let times = counted(self.network_outages, "time");
            writeln!(f, "  There was no network for {gone} in all ({times}).")?;
        }
        let Waiting { urls, hosts, .. } = self.waiting;
        if urls > 0 {
            let (urls, hosts) = (counted(urls, "URL"), counted(hosts, "host"));
            writeln!(f, "  Of those due, {urls} wait for {hosts} that fail:")?;
            self.waiting.tell(f)?;
            let when = date(self.waiting.come_back_ms);
            writeln!(
                f,
                "  Not complete. Go on with the crawl after {when}, or at once with --retry-failed."
            )?;
        }
        let Waiting { urls, hosts, .. } = self.given_up;
        if urls > 0 {
            let (urls, hosts) = (counted(urls, "URL"), counted(hosts, "host"));
            writeln!(
                f,
                "  Of those due, {urls} of {hosts} were given up; the next run asks again:"
            )?;
            self.given_up.tell(f)?;
        }
        Ok(())
    }

    /// What modules read, and how often they failed.
    fn tell_modules(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, counts) in &self.modules {
            let documents = counted(counts.documents, "document");
            let failed = match counts.failed {
                0 => String::new(),
                failed => format!(", failed with {}", thousands(failed)),
            };
            writeln!(f, "  Module {name}: read {documents}{failed}.")?;
        }
        Ok(())
    }

    /// Whether the disk could keep up, or the processors; said only where they could not.
    fn tell_waits(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.longest_pause_ms >= LONG_PAUSE_MS {
            let pause = duration(self.longest_pause_ms / 1e3);
            writeln!(
                f,
                "  Connections were left alone for {pause} once, or more often."
            )?;
        }
        if self.held_back_seconds >= LONG_WAIT_SECONDS {
            let wait = duration(self.held_back_seconds);
            writeln!(f, "  Links waited {wait} for the registry's disk.")?;
        }
        Ok(())
    }

    /// What the CPU time was for, largest first. Of a moment nothing can be said: not every page is timed.
    fn tell_stages(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const LEAST_SECONDS: f64 = 0.5;
        let all: f64 = self.stages.values().sum();
        if all < LEAST_SECONDS {
            return Ok(());
        }
        let mut stages: Vec<_> = self.stages.iter().collect();
        stages.sort_by(|a, b| b.1.total_cmp(a.1));
        let shares = stages
            .iter()
            .map(|(name, seconds)| format!("{name} {:.0} %", 100.0 * *seconds / all));
        let shares: Vec<String> = shares.collect();
        writeln!(f, "  CPU by stage: {}.", shares.join(", "))
    }
}

/// Among the parts of what is known; empty where there is none.
pub fn sitemaps(number: u64) -> String {
    match number {
        0 => String::new(),
        number => format!("{}, ", counted(number, "sitemap")),
    }
}

/// What came of judging URLs by settings that changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JudgedAgain {
    /// Those that were looked at.
    pub urls: u64,
    /// Those that became due.
    pub due: u64,
    /// Those that left the queue.
    pub out: u64,
}

impl fmt::Display for JudgedAgain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "Settings changed: {} judged again, {} became due, {} left the queue.",
            counted(self.urls, "URL"),
            thousands(self.due),
            thousands(self.out),
        )
    }
}

/// 1 -> 1 host, 2 -> 2 hosts
pub fn counted(number: u64, thing: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{} {thing}{plural}", thousands(number))
}

/// 1 -> 1 of them a copy, 2 -> 2 of them copies
pub fn copies(number: u64) -> String {
    match number {
        1 => "1 of them a copy".to_owned(),
        number => format!("{} of them copies", thousands(number)),
    }
}

/// 1234567 -> 1,234,567
pub fn thousands(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// 1536 -> 1.5 KB
pub fn bytes(number: u64) -> String {
    const UNITS: [&str; 5] = ["bytes", "KB", "MB", "GB", "TB"];
    let mut value = number as f64;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    if unit == 0 {
        format!("{number} bytes")
    } else {
        format!("{value:.1} {}", UNITS[unit])
    }
}

/// 3725.0 -> 1 h 2 min 5 s
pub fn duration(seconds: f64) -> String {
    if seconds < 60.0 {
        return format!("{seconds:.1} s");
    }
    let whole = seconds.round() as u64;
    let mut text = String::new();
    for (unit, per_larger, name) in [
        (86_400, u64::MAX, "d"),
        (3_600, 24, "h"),
        (60, 60, "min"),
        (1, 60, "s"),
    ] {
        let amount = whole / unit % per_larger;
        if amount > 0 {
            let space = if text.is_empty() { "" } else { " " };
            let _ = write!(text, "{space}{amount} {name}");
        }
    }
    text
}

/// `2026-11-15 20:24:38` in UTC.
pub fn date(at_ms: u64) -> String {
    let days = (at_ms / 86_400_000) as i64;
    let seconds = at_ms / 1_000 % 86_400;
    // Days since 1970-01-01 to a date of the Gregorian calendar, in eras of 400 years.
    let z = days + 719_468;
    let era = z.div_euclid(146_097);
    let day_of_era = z.rem_euclid(146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_index = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_index + 2) / 5 + 1;
    let month = if month_index < 10 {
        month_index + 3
    } else {
        month_index - 9
    };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    format!(
        "{year:04}-{month:02}-{day:02} {:02}:{:02}:{:02} UTC",
        seconds / 3_600,
        seconds / 60 % 60,
        seconds % 60
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_follow_the_calendar() {
        assert_eq!(date(0), "1970-01-01 00:00:00 UTC");
        assert_eq!(date(951_782_400_000), "2000-02-29 00:00:00 UTC");
        assert_eq!(date(1_794_774_278_000), "2026-11-15 20:24:38 UTC");
    }

    #[test]
    fn figures_read_well() {
        assert_eq!(thousands(0), "0");
        assert_eq!(thousands(999), "999");
        assert_eq!(thousands(1_234_567), "1,234,567");
        assert_eq!(counted(1, "host"), "1 host");
        assert_eq!(counted(1_000, "host"), "1,000 hosts");
        assert_eq!(bytes(1_536), "1.5 KB");
        assert_eq!(duration(3_725.0), "1 h 2 min 5 s");
        assert_eq!(duration(59.94), "59.9 s");
        assert_eq!(duration(90_000.0), "1 d 1 h");
    }

    #[test]
    fn stages_are_told_by_their_size_where_there_is_something_to_tell() {
        let of = |scale: f64| {
            let stages = [("fetch", 1.0), ("record", 2.5), ("scan", 1.5)];
            Report {
                stages: stages
                    .map(|(name, share)| (name.to_owned(), scale * share))
                    .into(),
                ..Report::default()
            }
        };
        let told = of(1.0).to_string();
        assert!(
            told.ends_with("\n  CPU by stage: record 50 %, scan 30 %, fetch 20 %.\n"),
            "{told}"
        );
        assert!(!of(0.01).to_string().contains("stage"));
    }

    #[test]
    fn links_left_out_are_told() {
        let report = Report {
            pages_over_links: 2,
            links_left_out: 1_234,
            ..Report::default()
        };
        let told = report.to_string();
        assert!(
            told.contains("1,234 links beyond content.max_links, on 2 pages, left out"),
            "{told}"
        );
        assert!(!Report::default().to_string().contains("left out"));
    }

    #[test]
    fn waits_are_told_where_they_are_long() {
        let of = |longest_pause_ms, held_back_seconds| {
            let report = Report {
                longest_pause_ms,
                held_back_seconds,
                ..Report::default()
            };
            report.to_string()
        };
        assert!(!of(99.0, 0.9).contains("Connections"));
        assert!(!of(99.0, 0.9).contains("waited"));
        assert!(of(2_500.0, 0.0).contains("left alone for 2.5 s once"));
        assert!(of(0.0, 61.0).contains("waited 1 min 1 s for"));
    }
}
