//! How fresh the copies of a client are: which answers it got when, beside when the Web changed. Counted by the Web, whatever the client
//! believes.

use crate::web::Web;
use serde::{Deserialize, Serialize};

/// Answers that are kept; a client that asks for more is judged by these.
const MAX_ANSWERS: usize = 4_000_000;
/// Points of time at which the share of fresh copies is told.
const SAMPLES: u64 = 20;

/// A page was asked for.
#[derive(Clone, Copy, Debug)]
struct Answer {
    host: u32,
    page: u32,
    /// Since the Web was set in motion.
    at_ms: u64,
    /// The page was sent, and not only that it is as it was.
    sent: bool,
}

/// Answers since the Web was set in motion.
#[derive(Debug, Default)]
pub(crate) struct Copies {
    answers: Vec<Answer>,
}

/// How fresh a client's copies were, from a time on to another.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct FreshnessReport {
    /// Pages that can change.
    pub pages: u64,
    pub seconds: f64,
    /// The share of pages whose copy was as the page, on average over time. Every page was fetched when the Web was set in motion.
    pub fresh: f64,
    /// The share of pages that were fresh at moments evenly apart.
    pub over_time: Vec<f64>,
    /// Requests for pages: those that brought another version, those that brought the same one, and those answered 304.
    pub requests: u64,
    pub news: u64,
    pub wasted: u64,
    pub not_modified: u64,
    /// All changes of pages.
    #[serde(flatten)]
    pub all: Seen,
    /// Those that the host's sitemap told of, with the right time.
    pub announced: Seen,
}

/// Changes, and when a client saw them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Seen {
    pub changes: u64,
    /// How many of them a later answer brought, ...
    pub seen: u64,
    /// ... and how long half and nineteen in twenty of all took, in seconds; `None` where fewer were seen.
    pub seen_after_s: Option<f64>,
    pub seen_after_s_95: Option<f64>,
}

impl Seen {
    fn of(changes: u64, mut delays: Vec<u64>) -> Self {
        delays.sort_unstable();
        let at = |share: f64| {
            let place = (changes as f64 * share) as usize;
            delays.get(place).map(|ms| *ms as f64 / 1e3)
        };
        Seen {
            changes,
            seen: delays.len() as u64,
            seen_after_s: at(0.5),
            seen_after_s_95: at(0.95),
        }
    }
}

impl Copies {
    pub(crate) fn note(&mut self, host: u32, page: u32, at_ms: u64, sent: bool) {
        if self.answers.len() < MAX_ANSWERS {
            self.answers.push(Answer {
                host,
                page,
                at_ms,
                sent,
            });
        }
    }

    /// Of the time from `from_ms` to `to_ms`; changes after `until_ms` do not count, so that those before had their time to be seen.
    pub(crate) fn report(
        &self,
        web: &Web,
        (from_ms, until_ms): (u64, u64),
        to_ms: u64,
    ) -> FreshnessReport {
        let mut answers = self.answers.clone();
        answers.sort_by_key(|answer| (answer.host, answer.page, answer.at_ms));
        let mut report = FreshnessReport {
            seconds: to_ms.saturating_sub(from_ms) as f64 / 1e3,
            ..FreshnessReport::default()
        };
        let mut tally = Tally {
            from_ms,
            until_ms,
            to_ms,
            fresh_ms: 0.0,
            samples: vec![0; SAMPLES as usize],
            all: Changes::default(),
            announced: Changes::default(),
        };
        let mut left = &answers[..];
        for host in 0..web.host_count() {
            for page in 0..web.pages_of(host) {
                let own = left.iter().take_while(|a| (a.host, a.page) == (host, page));
                let (own, others) = left.split_at(own.count());
                left = others;
                if web.change_rate(host, page) > 0.0 {
                    let changes = web.change_times(host, page, to_ms);
                    tally.page((&changes, web.announces(host)), own, &mut report);
                }
            }
        }
        let pages = report.pages.max(1) as f64;
        let span_ms = to_ms.saturating_sub(from_ms).max(1) as f64;
        report.fresh = tally.fresh_ms / span_ms / pages;
        report.over_time = tally.samples.iter().map(|n| *n as f64 / pages).collect();
        report.all = Seen::of(tally.all.count, tally.all.delays);
        report.announced = Seen::of(tally.announced.count, tally.announced.delays);
        report
    }
}

struct Tally {
    from_ms: u64,
    until_ms: u64,
    to_ms: u64,
    fresh_ms: f64,
    samples: Vec<u64>,
    all: Changes,
    announced: Changes,
}

#[derive(Default)]
struct Changes {
    count: u64,
    /// Of those that were seen.
    delays: Vec<u64>,
}

impl Tally {
    /// A page's changes, and whether its host's sitemap tells of them.
    fn page(
        &mut self,
        (changes, announced): (&[u64], bool),
        answers: &[Answer],
        report: &mut FreshnessReport,
    ) {
        let counts = self.from_ms..=self.until_ms;
        report.pages += 1;
        // Versions by the number of changes; the copy at the beginning is the first.
        let version_at = |ms: u64| changes.partition_point(|change| *change <= ms);
        let (mut copy, mut since_ms) = (0, 0);
        let to_ms = self.to_ms;
        for answer in answers.iter().filter(|answer| answer.at_ms <= to_ms) {
            self.held(changes, copy, (since_ms, answer.at_ms));
            since_ms = answer.at_ms;
            let is_counted = answer.at_ms >= self.from_ms;
            report.requests += u64::from(is_counted);
            if !answer.sent {
                report.not_modified += u64::from(is_counted);
                continue;
            }
            let version = version_at(answer.at_ms);
            let brought = changes[copy..version].iter();
            for change in brought.filter(|change| counts.contains(change)) {
                let delay_ms = answer.at_ms - change;
                self.all.delays.push(delay_ms);
                if announced {
                    self.announced.delays.push(delay_ms);
                }
            }
            report.news += u64::from(is_counted && version > copy);
            report.wasted += u64::from(is_counted && version == copy);
            copy = version;
        }
        self.held(changes, copy, (since_ms, self.to_ms));
        let counted = changes.iter().filter(|change| counts.contains(change));
        let count = counted.count() as u64;
        self.all.count += count;
        if announced {
            self.announced.count += count;
        }
    }

    /// The client had this copy for a while.
    fn held(&mut self, changes: &[u64], copy: usize, (start_ms, end_ms): (u64, u64)) {
        // It is fresh until the change that made the next version.
        let stale_ms = changes.get(copy).copied().unwrap_or(u64::MAX);
        let (start_ms, end_ms) = (start_ms.max(self.from_ms), end_ms.min(stale_ms));
        self.fresh_ms += end_ms.saturating_sub(start_ms) as f64;
        let span_ms = self.to_ms.saturating_sub(self.from_ms);
        for (number, count) in (0..).zip(&mut self.samples) {
            let at_ms = self.from_ms + span_ms * (2 * number + 1) / (2 * SAMPLES);
            *count += u64::from((start_ms..end_ms).contains(&at_ms));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_is_fresh_until_its_page_changes_and_again_once_it_was_sent() {
        let mut tally = Tally {
            from_ms: 0,
            until_ms: 800,
            to_ms: 1_000,
            fresh_ms: 0.0,
            samples: vec![0; 20],
            all: Changes::default(),
            announced: Changes::default(),
        };
        let answer = |at_ms, sent| Answer {
            host: 0,
            page: 0,
            at_ms,
            sent,
        };
        let mut report = FreshnessReport::default();
        // A server that lies says at 400 that nothing has changed.
        let answers = [
            answer(50, false),
            answer(400, false),
            answer(600, true),
            answer(700, true),
        ];
        tally.page((&[100, 300, 900], true), &answers, &mut report);
        assert_eq!(tally.fresh_ms, 100.0 + 300.0);
        assert_eq!(tally.all.delays, [500, 300]);
        assert_eq!(tally.announced.delays, [500, 300]);
        assert_eq!(tally.samples.iter().sum::<u64>(), 8);
        let counts = [
            report.requests,
            report.news,
            report.wasted,
            report.not_modified,
        ];
        assert_eq!((counts, tally.all.count), ([4, 1, 1, 2], 2));
    }
}
