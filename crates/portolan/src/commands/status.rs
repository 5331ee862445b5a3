//! `portolan status`: how far a crawl is, also while it runs.

use std::io::{IsTerminal, Write};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use portolan_crawl::Crawl;
use portolan_crawl::report::{bytes, copies, counted, sitemaps, thousands};
use portolan_model::Reason;
use portolan_registry::{Snapshot, Stats};
use serde_json::json;

use super::inspect;
use crate::arguments::StatusArguments;
use crate::failure::Failure;
use crate::output::field;
use crate::terminal::line::clipped;

/// Looking is work: it reads what the crawl has written.
const LEAST_PAUSE: Duration = Duration::from_millis(100);

pub(crate) fn run(arguments: &StatusArguments) -> Result<ExitCode, Failure> {
    let Some(every) = arguments.watch else {
        look(arguments, &mut inspect::lines())?;
        return Ok(ExitCode::SUCCESS);
    };
    let in_place = std::io::stdout().is_terminal() && !arguments.json;
    let mut drawn_rows = 0;
    let mut before: Option<(u64, Instant)> = None;
    loop {
        let mut text = Vec::new();
        let (pages, running) = look(arguments, &mut text)?;
        let now = Instant::now();
        if let Some((pages_before, then)) = before
            && !arguments.json
        {
            let (more, seconds) = (
                pages.saturating_sub(pages_before),
                (now - then).as_secs_f64(),
            );
            let (more, rate) = (counted(more, "document"), more as f64 / seconds);
            writeln!(text, "  {more} since the last look, {rate:.1} a second.")?;
        }
        before = Some((pages, now));
        if in_place {
            drawn_rows = draw(&text, drawn_rows)?;
        } else {
            let mut out = inspect::lines();
            out.write_all(&text)?;
        }
        if !running {
            return Ok(ExitCode::SUCCESS);
        }
        std::thread::sleep(every.max(LEAST_PAUSE));
    }
}

/// Draws lines in place of the `above` rows that were drawn before; returns how many there are now. None is wider than the
/// terminal, and there are fewer than it has rows.
pub(super) fn draw(text: &[u8], above: usize) -> Result<usize, Failure> {
    let size = terminal_size::terminal_size();
    let (columns, rows) = size.map_or((80, 24), |(w, h)| (usize::from(w.0), usize::from(h.0)));
    let text = String::from_utf8_lossy(text);
    let lines: Vec<&str> = text.lines().take(rows.saturating_sub(1)).collect();
    let mut out = match above {
        0 => String::new(),
        above => format!("\x1b[{above}A\r"),
    };
    for line in &lines {
        out.push_str(&clipped(&field(line).to_string(), columns));
        out.push_str("\x1b[K\n");
    }
    // Line by line, and then what is left below: some terminals keep what is cleared as a whole among what has scrolled away.
    out.push_str("\x1b[J");
    let mut stdout = std::io::stdout();
    stdout.write_all(out.as_bytes())?;
    stdout.flush()?;
    Ok(lines.len())
}

/// Writes how things stand. Returns the documents archived, and whether the crawl is running.
fn look(arguments: &StatusArguments, out: &mut impl Write) -> Result<(u64, bool), Failure> {
    let figures = Figures::of(&inspect::open(&arguments.dir)?)?;
    let running = Crawl::is_running(&arguments.dir);
    let pages = figures.stats.pages;
    if arguments.json {
        let mut value = figures.json();
        value["running"] = json!(running);
        inspect::write_json(out, &value)?;
        return Ok((pages, running));
    }
    let state = match (running, figures.stats.due) {
        (true, _) => "is running",
        (false, 0) => "is complete",
        (false, _) => "has stopped and can go on",
    };
    writeln!(out, "The crawl in {} {state}.", arguments.dir.display())?;
    figures.tell(out)?;
    Ok((pages, running))
}

/// What a registry comes to.
pub(super) struct Figures {
    pub(super) stats: Stats,
    hosts: u64,
    hosts_failing: u64,
    urls_waiting: u64,
}

impl Figures {
    pub(super) fn of(snapshot: &Snapshot) -> Result<Self, Failure> {
        let mut figures = Self {
            stats: snapshot.stats(),
            hosts: 0,
            hosts_failing: 0,
            urls_waiting: 0,
        };
        for (_, state) in snapshot.hosts().map_err(Failure::failed)? {
            figures.hosts += 1;
            if state.counts.due > 0 && state.pulse.is_some_and(|pulse| pulse.is_failing()) {
                figures.hosts_failing += 1;
                figures.urls_waiting += state.counts.due.unsigned_abs();
            }
        }
        Ok(figures)
    }

    /// Why URLs failed or were excluded.
    fn reasons(&self) -> impl Iterator<Item = (Reason, u64)> {
        let all = Reason::ALL
            .iter()
            .map(|&reason| (reason, self.stats.by_reason(reason)));
        all.filter(|(_, count)| *count > 0)
    }

    pub(super) fn json(&self) -> serde_json::Value {
        let stats = &self.stats;
        let reasons: serde_json::Map<String, serde_json::Value> = self
            .reasons()
            .map(|(reason, n)| (reason.name().to_owned(), json!(n)))
            .collect();
        json!({
            "pages": stats.pages,
            "requests": stats.requests,
            "wire_bytes": stats.wire_bytes,
            "body_bytes": stats.body_bytes,
            "urls_known": stats.known,
            "urls_due": stats.due,
            "visited": stats.visited,
            "failed": stats.failed,
            "excluded": stats.excluded,
            "duplicates": stats.duplicates,
            "redirects": stats.redirects(),
            "sitemaps": stats.sitemaps,
            "hosts": self.hosts,
            "hosts_failing": self.hosts_failing,
            "urls_waiting": self.urls_waiting,
            "back_links": stats.observations,
            "judged_due": stats.judged_due,
            "judged_out": stats.judged_out,
            "reasons": reasons,
        })
    }

    pub(super) fn tell(&self, out: &mut impl Write) -> std::io::Result<()> {
        let stats = &self.stats;
        writeln!(
            out,
            "  {} archived ({}) with {}; {} on the wire, {} of bodies.",
            counted(stats.pages, "document"),
            copies(stats.duplicates),
            counted(stats.requests, "request"),
            bytes(stats.wire_bytes),
            bytes(stats.body_bytes)
        )?;
        writeln!(
            out,
            "  {} known on {}: {}, {}, {}{} due, {} failed, {} excluded.",
            counted(stats.known, "URL"),
            counted(self.hosts, "host"),
            counted(stats.pages, "document"),
            counted(stats.redirects(), "redirect"),
            sitemaps(stats.sitemaps),
            thousands(stats.due),
            thousands(stats.failed),
            thousands(stats.excluded)
        )?;
        if stats.judged_due + stats.judged_out > 0 {
            writeln!(
                out,
                "  Changed settings made {} due and took {} out of the queue.",
                counted(stats.judged_due, "URL"),
                counted(stats.judged_out, "URL")
            )?;
        }
        if self.urls_waiting > 0 {
            writeln!(
                out,
                "  Of those due, {} wait for {} that fail.",
                counted(self.urls_waiting, "URL"),
                counted(self.hosts_failing, "host")
            )?;
        }
        for (reason, count) in self.reasons() {
            writeln!(
                out,
                "    {:>10}  {reason}: {}",
                thousands(count),
                reason.sentence()
            )?;
        }
        Ok(())
    }
}
