//! How fast a crawl has been in the last seconds, and how long the rest may take.

use std::collections::VecDeque;

use portolan_crawl::Progress;

/// Moments are kept for this long.
const KEPT_S: f64 = 60.0;
/// Two moments that are closer tell no more than one.
const APART_S: f64 = 0.2;
/// No estimate is made from less.
const LEAST_S: f64 = 10.0;
/// Nobody plans with more.
const LONGEST_S: f64 = 60.0 * 86_400.0;

#[derive(Debug, Clone, Copy, PartialEq)]
struct Moment {
    at_s: f64,
    pages: u64,
    bytes: u64,
    due: u64,
}

/// What a crawl did lately.
#[derive(Debug, Default)]
pub(crate) struct Pace {
    moments: VecDeque<Moment>,
}

impl Pace {
    pub(crate) fn note(&mut self, now: &Progress) {
        let moment = Moment {
            at_s: now.seconds,
            pages: now.pages,
            bytes: now.wire_bytes,
            due: now.urls_due,
        };
        if let Some(last) = self.moments.back()
            && moment.at_s - last.at_s < APART_S
        {
            return;
        }
        self.moments.push_back(moment);
        while self
            .moments
            .front()
            .is_some_and(|first| moment.at_s - first.at_s > KEPT_S)
        {
            self.moments.pop_front();
        }
    }

    /// Pages and bytes a second, over the last `window_s`.
    pub(crate) fn rates(&self, window_s: f64) -> (f64, f64) {
        let Some((first, last)) = self.ends(window_s) else {
            return (0.0, 0.0);
        };
        let seconds = last.at_s - first.at_s;
        let rate = |last: u64, first: u64| last.saturating_sub(first) as f64 / seconds;
        (rate(last.pages, first.pages), rate(last.bytes, first.bytes))
    }

    /// How long the crawl may still take: until a limit, or until nothing is due, if what is due becomes less all the time.
    pub(crate) fn seconds_left(&self, now: &Progress) -> Option<f64> {
        let (first, last) = self.ends(KEPT_S)?;
        let span_s = last.at_s - first.at_s;
        let by_limit = now.seconds_left;
        if span_s < LEAST_S {
            return by_limit;
        }
        let (pages_per_s, _) = self.rates(KEPT_S);
        let by_pages = now
            .pages_left
            .filter(|_| pages_per_s > 0.0)
            .map(|left| left as f64 / pages_per_s);
        let middle = self.ends(span_s / 2.0).map(|(middle, _)| middle)?;
        let falls = first.due > middle.due && middle.due > last.due;
        let by_due = falls.then(|| last.due as f64 * span_s / (first.due - last.due) as f64);
        [by_limit, by_pages, by_due]
            .into_iter()
            .flatten()
            .min_by(f64::total_cmp)
            .filter(|left| *left < LONGEST_S)
    }

    /// The last moment, and the first of those within `window_s` of it.
    fn ends(&self, window_s: f64) -> Option<(Moment, Moment)> {
        let last = *self.moments.back()?;
        let within = |m: &&Moment| last.at_s - m.at_s <= window_s + APART_S / 2.0;
        let first = *self.moments.iter().find(within)?;
        (last.at_s > first.at_s).then_some((first, last))
    }
}

/// A time that is only known roughly: 35 s, 4 min, 2 h 10 min, 3 d 4 h.
pub(crate) fn roughly(seconds: f64) -> String {
    let whole = seconds.max(0.0).round() as u64;
    let minutes = whole.div_ceil(60);
    let pair = |large: u64, name: &str, small: u64, unit: &str| match small {
        0 => format!("{large} {name}"),
        small => format!("{large} {name} {small} {unit}"),
    };
    match whole {
        0..10 => format!("{whole} s"),
        10..60 => format!("{} s", whole.div_ceil(5) * 5),
        60..3_600 => format!("{minutes} min"),
        3_600..86_400 => pair(minutes / 60, "h", minutes % 60 / 10 * 10, "min"),
        _ => pair(whole / 86_400, "d", whole % 86_400 / 3_600, "h"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pace(due: impl Fn(u64) -> u64, seconds: u64) -> (Pace, Progress) {
        let mut pace = Pace::default();
        let mut now = Progress::default();
        for second in 0..=seconds {
            now = Progress {
                seconds: second as f64,
                pages: second * 10,
                wire_bytes: second * 1_000,
                urls_due: due(second),
                ..Progress::default()
            };
            pace.note(&now);
        }
        (pace, now)
    }

    #[test]
    fn the_rate_is_that_of_the_last_seconds() {
        let (mut pace, mut now) = pace(|_| 5, 100);
        assert_eq!(pace.rates(5.0), (10.0, 1_000.0));
        // Then nothing came for four seconds.
        for _ in 0..4 {
            now.seconds += 1.0;
            pace.note(&now);
        }
        assert_eq!(pace.rates(5.0), (2.0, 200.0));
        assert!(pace.moments.len() <= 62, "{}", pace.moments.len());
        assert_eq!(Pace::default().rates(5.0), (0.0, 0.0));
    }

    #[test]
    fn the_rest_is_estimated_only_where_it_becomes_less() {
        let left = |due: fn(u64) -> u64| {
            let (pace, now) = pace(due, 40);
            pace.seconds_left(&now)
        };
        assert_eq!(left(|second| 1_000 - 10 * second), Some(60.0));
        assert_eq!(left(|second| 1_000 + second), None);
        assert_eq!(left(|_| 1_000), None);
        // It fell, and now it rises.
        assert_eq!(
            left(|second| if second < 20 {
                1_000 - 10 * second
            } else {
                800 + second
            }),
            None
        );
        let (short, now) = pace(|second| 1_000 - second, 5);
        assert_eq!(short.seconds_left(&now), None);
    }

    #[test]
    fn limits_are_estimates_too() {
        let (pace, now) = pace(|second| 1_000 - 10 * second, 40);
        let limited = Progress {
            pages_left: Some(50),
            ..now.clone()
        };
        assert_eq!(pace.seconds_left(&limited), Some(5.0));
        let limited = Progress {
            seconds_left: Some(3.0),
            ..now
        };
        assert_eq!(pace.seconds_left(&limited), Some(3.0));
    }

    #[test]
    fn rough_times_have_no_more_digits_than_they_deserve() {
        for (seconds, text) in [
            (4.2, "4 s"),
            (33.0, "35 s"),
            (100.0, "2 min"),
            (3_500.0, "59 min"),
            (7_300.0, "2 h"),
            (8_000.0, "2 h 10 min"),
            (100_000.0, "1 d 3 h"),
        ] {
            assert_eq!(roughly(seconds), text);
        }
    }
}
