//! What a person sees while a crawl runs: one live line on a terminal, a plain line now and then in
//! a pipe, nothing when asked to be quiet.

use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

use crate::output::{clear_note_line, note, noteln};
use portolan_crawl::Progress;
use portolan_crawl::report::{LONG_PAUSE_MS, bytes, counted, date, duration, thousands};

const LIVE_EVERY: Duration = Duration::from_millis(250);
const PLAIN_EVERY: Duration = Duration::from_secs(10);

pub(crate) struct Display {
    mode: Mode,
    shown: Instant,
    last: Option<Progress>,
    /// The network is down since then, as was said.
    no_network_since_ms: Option<u64>,
    said_exhausted: bool,
    /// Since when all that is left waits for hosts that fail, and whether that was said.
    waits_since: Option<(Instant, bool)>,
}

/// A wait that is shorter is not worth a word.
const WORTH_SAYING: Duration = Duration::from_secs(3);

#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    Quiet,
    Plain,
    Live,
}

impl Display {
    pub(crate) fn new(quiet: bool) -> Self {
        let mode = match (quiet, std::io::stderr().is_terminal()) {
            (true, _) => Mode::Quiet,
            (false, true) => Mode::Live,
            (false, false) => Mode::Plain,
        };
        Self {
            mode,
            shown: Instant::now(),
            last: None,
            no_network_since_ms: None,
            said_exhausted: false,
            waits_since: None,
        }
    }

    /// A sentence for the person; the live line makes room for it.
    pub(crate) fn say(&self, sentence: &str) {
        match self.mode {
            Mode::Quiet => {}
            Mode::Plain => noteln!("{sentence}"),
            Mode::Live => {
                clear_note_line();
                noteln!("{sentence}");
            }
        }
    }

    /// What a person must know at once, each time it begins or ends.
    fn tell_trouble(&mut self, now: &Progress) {
        let waiting = thousands(now.urls_due);
        match (self.no_network_since_ms, now.no_network_since_ms) {
            (None, Some(since_ms)) => {
                let since = date(since_ms);
                self.say(&format!("No network since {since}; {waiting} URLs wait."));
            }
            (Some(_), None) => self.say("The network is back; the crawl goes on."),
            _ => {}
        }
        self.no_network_since_ms = now.no_network_since_ms;
        if !now.waits || now.no_network_since_ms.is_some() {
            self.waits_since = None;
        } else if let (since, false) = *self.waits_since.get_or_insert((Instant::now(), false))
            && since.elapsed() >= WORTH_SAYING
        {
            self.waits_since = Some((since, true));
            self.say(&format!(
                "All that is left waits for hosts that fail: {} due, {} failing. The crawl waits up to {} for an \
                 answer (--wait); Ctrl-C ends it, and nothing is lost.",
                counted(now.urls_due, "URL"),
                counted(now.hosts_failing, "host"),
                duration(now.patience_ms as f64 / 1e3),
            ));
        }
        if now.exhausted > 0 && !self.said_exhausted {
            self.said_exhausted = true;
            self.say(
                "This machine has no open files or ports left for more connections; the crawl goes on with fewer.",
            );
        }
    }

    pub(crate) fn show(&mut self, now: &Progress) {
        self.tell_trouble(now);
        let every = match self.mode {
            Mode::Quiet => return,
            Mode::Plain => PLAIN_EVERY,
            Mode::Live => LIVE_EVERY,
        };
        if self.last.is_some() && self.shown.elapsed() < every {
            return;
        }
        let line = line(now, self.last.as_ref());
        match self.mode {
            Mode::Live => {
                clear_note_line();
                note!("{line}");
            }
            _ => noteln!("{line}"),
        }
        let _ = std::io::stderr().flush();
        self.shown = Instant::now();
        self.last = Some(now.clone());
    }

    /// Clear the live line, so that the report starts on a clean one.
    pub(crate) fn end(&self) {
        if self.mode == Mode::Live {
            clear_note_line();
            let _ = std::io::stderr().flush();
        }
    }
}

fn line(now: &Progress, last: Option<&Progress>) -> String {
    let (pages, received, seconds) = match last {
        Some(last) => (
            now.pages - last.pages.min(now.pages),
            now.wire_bytes - last.wire_bytes.min(now.wire_bytes),
            (now.seconds - last.seconds).max(0.001),
        ),
        None => (0, 0, 1.0),
    };
    let pause = match now.longest_pause_ms {
        ms if ms < LONG_PAUSE_MS => String::new(),
        ms => format!("  a pause of {:.1} s", ms / 1e3),
    };
    if let Some(since_ms) = now.no_network_since_ms {
        return format!(
            "{}  {} pages  no network since {}; {} URLs wait",
            duration(now.seconds),
            thousands(now.pages),
            date(since_ms),
            thousands(now.urls_due),
        );
    }
    let failing = match now.hosts_failing {
        0 => String::new(),
        hosts => format!("  {} hosts failing", thousands(hosts)),
    };
    format!(
        "{}  {} pages  {:.0} pages/s  {}/s  {} due  {} hosts active  {} errors{failing}{pause}",
        duration(now.seconds),
        thousands(now.pages),
        pages as f64 / seconds,
        bytes((received as f64 / seconds) as u64),
        thousands(now.urls_due),
        thousands(now.hosts_active),
        thousands(now.errors),
    )
}
