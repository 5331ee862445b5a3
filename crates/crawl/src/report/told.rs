//! The report in words and figures for people.

use std::fmt;

use super::words::{bytes, copies, counted, date, duration, sitemaps, thousands};
use super::{JudgedAgain, Report};
use crate::division::Exchanged;
use crate::outages::Waiting;

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
        self.tell_known(f)?;
        self.tell_judged(f)?;
        self.tell_exchange(f)?;
        self.tell_early(f)?;
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
    /// What is known adds up to these.
    fn tell_known(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
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
        Ok(())
    }

    /// What was left out, and what was judged or read again.
    fn tell_judged(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
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
        Ok(())
    }

    /// What was known before its page had come, or without its coming again.
    fn tell_early(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
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
        Ok(())
    }

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
            writeln!(f, "  Not complete. Go on with the crawl after {when}.")?;
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

    /// What the CPU time was for, largest first. A run that is too short states no shares, because not every page is timed.
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

#[cfg(test)]
mod tests {
    use super::*;

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
