//! What a person sees while a crawl runs: one live line on a terminal, a plain line now and then in
//! a pipe, nothing when asked to be quiet. `line` (what fits), `pace` (how fast, how long still).

pub(crate) mod line;
mod pace;

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use crate::output::{clear_live, draw_live, noteln, terminal_columns};
use line::{Line, Style};
use pace::{Pace, roughly};
use portolan_crawl::Progress;
use portolan_crawl::report::{LONG_PAUSE_MS, bytes, counted, date, duration, thousands};
use unicode_width::UnicodeWidthStr;

const LIVE_EVERY: Duration = Duration::from_millis(250);
const PLAIN_EVERY: Duration = Duration::from_secs(10);

/// A rate is that of the last seconds.
const LIVE_RATE_S: f64 = 5.0;
const PLAIN_RATE_S: f64 = 10.0;

/// A URL stays for a while, so that it can be read.
const URL_STAYS: Duration = Duration::from_secs(1);
/// Where there is no room for a URL beside the figures, it has some for one second in this many.
const URL_TURN_S: u64 = 6;

/// A wait that is shorter is not worth a word.
const WORTH_SAYING: Duration = Duration::from_secs(3);
/// Turns that the pause by address must have put off before a word is said of it.
const PUT_OFF_WORTH_SAYING: u64 = 10;

pub(crate) struct Display {
    mode: Mode,
    colours: bool,
    shown: Option<Instant>,
    pace: Pace,
    url: Option<(String, Instant)>,
    /// The network is down since then, as was said.
    no_network_since_ms: Option<u64>,
    said_exhausted: bool,
    said_ip_delay: bool,
    /// Since when all that is left waits for hosts that fail, and whether that was said.
    waits_since: Option<(Instant, bool)>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    Quiet,
    Plain,
    Live,
}

impl Display {
    pub(crate) fn new(quiet: bool) -> Self {
        let says = |name: &str| std::env::var(name).unwrap_or_default();
        let live = std::io::stderr().is_terminal() && says("TERM") != "dumb";
        let mode = match (quiet, live) {
            (true, _) => Mode::Quiet,
            (false, true) => Mode::Live,
            (false, false) => Mode::Plain,
        };
        Self {
            mode,
            // https://no-color.org
            colours: live && says("NO_COLOR").is_empty(),
            shown: None,
            pace: Pace::default(),
            url: None,
            no_network_since_ms: None,
            said_exhausted: false,
            said_ip_delay: false,
            waits_since: None,
        }
    }

    /// A sentence for the person; the live line makes room for it.
    pub(crate) fn say(&self, sentence: &str) {
        match self.mode {
            Mode::Quiet => {}
            Mode::Plain => noteln!("{sentence}"),
            Mode::Live => noteln!("{}", wrapped(sentence, terminal_columns())),
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
        if let Some(ip_delay_ms) = now.ip_delay_rules_ms
            && now.turns_put_off >= PUT_OFF_WORTH_SAYING
            && !self.said_ip_delay
        {
            self.said_ip_delay = true;
            self.say(&format!(
                "Hosts share an address, which rests for {ip_delay_ms} ms after each answer: politeness.ip_delay_ms \
                 rules there, and not --delay."
            ));
        }
    }

    /// Shows how things stand, if it is time to, or at once if the terminal was `resized`.
    pub(crate) fn show(&mut self, now: &Progress, resized: bool) {
        self.tell_trouble(now);
        self.pace.note(now);
        self.note_url(now);
        let every = match self.mode {
            Mode::Quiet => return,
            Mode::Plain => PLAIN_EVERY,
            Mode::Live => LIVE_EVERY,
        };
        let is_time = self.shown.is_none_or(|shown| shown.elapsed() >= every);
        let must_redraw = resized && self.mode == Mode::Live;
        if !is_time && !must_redraw {
            return;
        }
        if self.mode == Mode::Live {
            // The last column stays free: some terminals wrap when it is written.
            let columns = terminal_columns().saturating_sub(1);
            let url = self.url.as_ref().map(|(url, _)| url.as_str());
            let url_first = now.seconds as u64 % URL_TURN_S == URL_TURN_S - 1;
            let line = line(now, &self.pace, LIVE_RATE_S).fitted(columns, url, url_first);
            draw_live(&line.text(self.colours), line.columns());
        } else {
            noteln!("{}", line(now, &self.pace, PLAIN_RATE_S).text(false));
        }
        self.shown = Some(Instant::now());
    }

    fn note_url(&mut self, now: &Progress) {
        let is_read = self
            .url
            .as_ref()
            .is_none_or(|(_, since)| since.elapsed() >= URL_STAYS);
        if let (Some(url), true) = (&now.url, is_read) {
            self.url = Some((url.clone(), Instant::now()));
        }
    }

    /// Clear the live line, so that the report starts on a clean one.
    pub(crate) fn end(&self) {
        clear_live();
    }
}

/// Broken between words, as far as there are words that fit.
fn wrapped(sentence: &str, columns: usize) -> String {
    let mut text = String::new();
    let mut used = 0;
    for word in sentence.split(' ') {
        let width = word.width();
        if used > 0 && used + 1 + width > columns {
            text.push('\n');
            used = 0;
        } else if used > 0 {
            text.push(' ');
            used += 1;
        }
        text.push_str(word);
        used += width;
    }
    text
}

/// Everything there is to say, the more telling with the lower rank.
fn line(now: &Progress, pace: &Pace, window_s: f64) -> Line {
    let mut line = Line::default();
    line.add(3, Style::Dim, duration(now.seconds));
    line.add(0, Style::Bold, counted(now.pages, "page"));
    if let Some(since_ms) = now.no_network_since_ms {
        line.add(
            1,
            Style::Warning,
            format!("no network since {}", date(since_ms)),
        );
        line.add(
            2,
            Style::Plain,
            format!("{} URLs wait", thousands(now.urls_due)),
        );
        return line;
    }
    let (pages, received) = pace.rates(window_s);
    let pages = match pages {
        few if few > 0.0 && few < 10.0 => format!("{few:.1}"),
        many => format!("{many:.0}"),
    };
    line.add(1, Style::Plain, format!("{pages}/s"));
    line.add(6, Style::Plain, format!("{}/s", bytes(received as u64)));
    line.add(2, Style::Plain, format!("{} due", thousands(now.urls_due)));
    if let Some(left) = pace.seconds_left(now).filter(|left| *left >= 1.0) {
        line.add(4, Style::Plain, format!("about {} left", roughly(left)));
    }
    let active = counted(now.hosts_active, "host");
    line.add(5, Style::Plain, format!("{active} active"));
    let resting = now
        .hosts_queued
        .saturating_sub(now.hosts_failing + now.hosts_waiting_for_address);
    for (rank, hosts, what, style) in [
        (
            11,
            now.hosts_reading_robots,
            "read robots.txt",
            Style::Plain,
        ),
        (8, resting, "pause", Style::Plain),
        (
            9,
            now.hosts_waiting_for_address,
            "wait for their address",
            Style::Plain,
        ),
        (7, now.hosts_failing, "failing", Style::Warning),
        (10, now.errors, "errors", Style::Warning),
    ] {
        if hosts > 0 {
            line.add(rank, style, format!("{} {what}", thousands(hosts)));
        }
    }
    if now.longest_pause_ms >= LONG_PAUSE_MS {
        let pause = format!("a pause of {:.1} s", now.longest_pause_ms / 1e3);
        line.add(12, Style::Warning, pause);
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sentences_break_between_words() {
        assert_eq!(wrapped("one two three", 7), "one two\nthree");
        assert_eq!(wrapped("one two three", 6), "one\ntwo\nthree");
        assert_eq!(wrapped("one two three", 0), "one\ntwo\nthree");
        assert_eq!(wrapped("one two three", 80), "one two three");
    }

    #[test]
    fn hosts_that_wait_are_told_with_what_they_wait_for() {
        let mut pace = Pace::default();
        let mut now = Progress {
            seconds: 61.0,
            pages: 1_204,
            urls_due: 3_401,
            hosts_active: 12,
            hosts_reading_robots: 2,
            hosts_queued: 152,
            hosts_waiting_for_address: 9,
            hosts_failing: 3,
            errors: 4,
            ..Progress::default()
        };
        pace.note(&now);
        now.seconds = 66.0;
        now.pages += 12;
        pace.note(&now);
        assert_eq!(
            line(&now, &pace, LIVE_RATE_S).text(false),
            "1 min 6 s  1,216 pages  2.4/s  0 bytes/s  3,401 due  12 hosts active  2 read robots.txt  140 pause  \
             9 wait for their address  3 failing  4 errors"
        );
        let narrow = line(&now, &pace, LIVE_RATE_S).fitted(49, None, false);
        assert_eq!(
            narrow.text(false),
            "1 min 6 s  1,216 pages  2.4/s  3,401 due"
        );
    }
}
