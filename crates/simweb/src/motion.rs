//! A Web in motion: pages change while it is served, by seeded rates, in bursts, by day. It is still until it is set in motion. Like
//! everything else what happens is a function of the seed: which change comes when is known beforehand.

use crate::changes::Version;
use crate::plan::{Role, SitemapKind};
use crate::seed::Draw;
use crate::web::{Web, push_number};
use serde::{Deserialize, Serialize};
use std::sync::OnceLock;
use std::time::{SystemTime, UNIX_EPOCH};
use tokio::time::Instant;

/// Changes of a burst, and how far they are apart, in days.
const BURST: u32 = 3;
const WITHIN_BURST_DAYS: f64 = 0.01;
/// Changes of a page beyond this many are not told apart.
const MAX_CHANGES: usize = 100_000;
/// Of a page's size, this share is what a change replaces.
const NEWS_SHARE: u32 = 3;

/// How pages change in time, and what their servers say of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct MotionSpec {
    /// Median over all pages of how often a page changes in a day; 0: nothing moves.
    pub changes_a_day: f64,
    /// How far pages differ: the standard deviation of the logarithm of their rates.
    pub spread: f64,
    /// How long a day lasts, in seconds.
    pub day_s: f64,
    /// The share of pages whose changes come three in a row.
    pub burst_share: f64,
    /// The share of pages that change in the first half of each day only.
    pub daily_share: f64,
    /// The share of pages that show what time it is: other bytes in each answer, and no change.
    pub clock_share: f64,
    /// The share of pages that show another advertisement in each answer.
    pub advert_share: f64,
    /// The share of hosts that lie: half of them say that nothing ever changes (the same ETag, Last-Modified and `lastmod`), half
    /// that everything always does.
    pub lying_share: f64,
    /// The share of hosts whose sitemaps have no `lastmod`.
    pub no_lastmod_share: f64,
}

impl Default for MotionSpec {
    fn default() -> Self {
        MotionSpec {
            changes_a_day: 0.0,
            spread: 1.7,
            day_s: 86_400.0,
            burst_share: 0.0,
            daily_share: 0.0,
            clock_share: 0.0,
            advert_share: 0.0,
            lying_share: 0.0,
            no_lastmod_share: 0.0,
        }
    }
}

/// When the Web was set in motion.
#[derive(Debug, Default)]
pub(crate) struct Motion {
    since: OnceLock<(Instant, u64)>,
}

/// What a host's server says of changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Candour {
    Honest,
    /// Nothing ever changes.
    Denies,
    /// Everything always changes.
    Boasts,
}

impl Web {
    /// From now on pages change. A second time does nothing.
    pub fn set_in_motion(&self) {
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH);
        let wall_ms = since_epoch.map_or(0, |since| since.as_millis() as u64);
        let _ = self.motion.since.set((Instant::now(), wall_ms));
    }

    /// Since it was set in motion; `None` while it is still.
    pub fn motion_ms(&self) -> Option<u64> {
        let (since, _) = self.motion.since.get()?;
        (self.spec.motion.changes_a_day > 0.0).then(|| since.elapsed().as_millis() as u64)
    }

    /// How often a page changes in one of this Web's days; 0 where nothing is served that could change.
    pub fn change_rate(&self, host: u32, page: u32) -> f64 {
        let spec = &self.spec.motion;
        if matches!(
            self.plan(host, page).role,
            Role::Error(_) | Role::Redirect(_)
        ) {
            return 0.0;
        }
        let mut draw = Draw::at(self.spec.seed, u64::from(host), u64::from(page), 0x70);
        // The sum of twelve is near enough to a normal distribution.
        let normal = (0..12).map(|_| draw.unit()).sum::<f64>() - 6.0;
        spec.changes_a_day * (spec.spread * normal).exp()
    }

    /// When a page changes, in milliseconds since the Web was set in motion, up to a time.
    pub fn change_times(&self, host: u32, page: u32, until_ms: u64) -> Vec<u64> {
        let spec = &self.spec.motion;
        let rate = self.change_rate(host, page);
        if rate <= 0.0 {
            return Vec::new();
        }
        let mut draw = Draw::at(self.spec.seed, u64::from(host), u64::from(page), 0x71);
        let in_bursts = draw.chance(spec.burst_share);
        let by_day = draw.chance(spec.daily_share);
        let at_once = if in_bursts { BURST } else { 1 };
        let until_days = until_ms as f64 / 1e3 / spec.day_s;
        let mut times = Vec::new();
        let mut awake_days = 0.0;
        loop {
            awake_days -= (1.0 - draw.unit()).ln() / rate * f64::from(at_once);
            let days = match by_day {
                // Twice as often for half of the time.
                true => (awake_days / 2.0 / 0.5).floor() + (awake_days / 2.0) % 0.5,
                false => awake_days,
            };
            if days > until_days || times.len() >= MAX_CHANGES {
                break;
            }
            let burst = (0..at_once).map(|n| days + f64::from(n) * WITHIN_BURST_DAYS);
            let burst = burst.filter(|days| *days <= until_days);
            times.extend(burst.map(|days| (days * spec.day_s * 1e3) as u64));
        }
        times.sort_unstable();
        times
    }

    /// Changes up to now.
    pub(crate) fn moved(&self, host: u32, page: u32) -> u32 {
        self.motion_ms().map_or(0, |now_ms| {
            self.change_times(host, page, now_ms).len() as u32
        })
    }

    /// What the host's server says of changes; honest while the Web is still.
    pub fn candour(&self, host: u32) -> Candour {
        let share = self.spec.motion.lying_share;
        let drawn = Draw::at(self.spec.seed, u64::from(host), 0, 0x72).unit();
        match drawn {
            _ if self.motion_ms().is_none() || drawn >= share => Candour::Honest,
            _ if drawn < share / 2.0 => Candour::Denies,
            _ => Candour::Boasts,
        }
    }

    /// What is written instead of `lastmod`'s fixed date: the last change as a W3C date. `None`: the element is left out.
    pub(crate) fn lastmod(&self, host: u32, page: u32) -> Option<String> {
        const STILL: &str = "2026-01-01";
        let Some(now_ms) = self.motion_ms() else {
            return Some(STILL.to_owned());
        };
        let drawn = Draw::at(self.spec.seed, u64::from(host), 0, 0x73).unit();
        if drawn < self.spec.motion.no_lastmod_share {
            return None;
        }
        let began_ms = self.motion.since.get().map_or(0, |(_, wall_ms)| *wall_ms);
        match self.candour(host) {
            Candour::Denies => Some(STILL.to_owned()),
            Candour::Boasts => Some(w3c_date(began_ms + now_ms)),
            Candour::Honest => match self.change_times(host, page, now_ms).last() {
                Some(changed_ms) => Some(w3c_date(began_ms + changed_ms)),
                None => Some(STILL.to_owned()),
            },
        }
    }

    /// Does the host's sitemap tell when its pages changed, and rightly? One that is plain text has no dates.
    pub fn announces(&self, host: u32) -> bool {
        self.has_dates(host) && self.candour(host) == Candour::Honest
    }

    /// Does the host's sitemap say when pages changed?
    pub fn has_dates(&self, host: u32) -> bool {
        let sitemap = self.hosts[host as usize].sitemap;
        let drawn = Draw::at(self.spec.seed, u64::from(host), 0, 0x73).unit();
        sitemap.is_some_and(|kind| kind != SitemapKind::Text)
            && drawn >= self.spec.motion.no_lastmod_share
    }

    /// What differs from answer to answer: a clock, an advertisement. True if something does.
    pub(crate) fn write_fickle(&self, host: u32, page: u32, body: &mut Vec<u8>) -> bool {
        let Some(now_ms) = self.motion_ms() else {
            return false;
        };
        let spec = &self.spec.motion;
        let mut draw = Draw::at(self.spec.seed, u64::from(host), u64::from(page), 0x74);
        let (clock, advert) = (
            draw.chance(spec.clock_share),
            draw.chance(spec.advert_share),
        );
        if clock {
            body.extend_from_slice(b"<p>It is ");
            push_number(body, now_ms);
            body.extend_from_slice(b"</p>\n");
        }
        if advert {
            let mut draw = Draw::at(now_ms, u64::from(host), u64::from(page), 0x75);
            body.extend_from_slice(b"<p>");
            body.extend_from_slice(self.words.slice(draw.bits(), 24));
            body.extend_from_slice(b"</p>\n");
        }
        clock || advert
    }

    /// The text that a change brings, in place of the one before.
    pub(crate) fn write_news(&self, host: u32, page: u32, version: Version, body: &mut Vec<u8>) {
        if self.motion_ms().is_none() || version.number == 0 {
            return;
        }
        let at = self.spec.seed ^ u64::from(version.number) << 20;
        let mut draw = Draw::at(at, u64::from(host), u64::from(page), 0x76);
        let mut left = (self.spec.content.page_bytes / NEWS_SHARE) as usize;
        body.extend_from_slice(b"<div>");
        while left > 0 {
            let piece = left.min(64);
            body.extend_from_slice(self.words.slice(draw.bits(), piece));
            body.push(b' ');
            left -= piece;
        }
        body.extend_from_slice(b"</div>\n");
    }
}

/// `2026-11-18T10:00:00.123Z`.
fn w3c_date(at_ms: u64) -> String {
    let days = (at_ms / 86_400_000) as i64;
    let ms = at_ms % 86_400_000;
    // Howard Hinnant's `civil_from_days`.
    let shifted = days + 719_468;
    let era = shifted.div_euclid(146_097);
    let of_era = shifted.rem_euclid(146_097);
    let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 {
        shifted_month + 3
    } else {
        shifted_month - 9
    };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    let (seconds, ms) = (ms / 1000, ms % 1000);
    let (hour, minute, second) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{ms:03}Z")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::WebSpec;

    fn web(motion: MotionSpec) -> Web {
        let spec = WebSpec {
            hosts: 2,
            pages_per_host: 500,
            motion,
            ..WebSpec::default()
        };
        Web::new(spec).expect("a sound spec")
    }

    #[test]
    fn pages_change_as_often_as_their_rates_say_whatever_their_rhythm() {
        for (burst_share, daily_share) in [(0.0, 0.0), (1.0, 0.0), (0.0, 1.0)] {
            let web = web(MotionSpec {
                changes_a_day: 2.0,
                spread: 0.5,
                day_s: 10.0,
                burst_share,
                daily_share,
                ..MotionSpec::default()
            });
            let pages = || (0..500).map(|page| (1, page));
            let expected: f64 = pages().map(|(h, p)| 20.0 * web.change_rate(h, p)).sum();
            let times = |(h, p)| web.change_times(h, p, 200_000);
            let all: Vec<u64> = pages().flat_map(times).collect();
            let share = all.len() as f64 / expected;
            assert!((0.9..1.1).contains(&share), "{share}");
            let by_night = all.iter().filter(|ms| **ms % 10_000 >= 5_000).count();
            assert_eq!(by_night == 0, daily_share == 1.0);
        }
    }

    #[test]
    fn a_web_is_still_until_it_is_set_in_motion() {
        let web = web(MotionSpec {
            changes_a_day: 1e6,
            day_s: 1.0,
            clock_share: 1.0,
            ..MotionSpec::default()
        });
        assert_eq!(web.moved(0, 1), 0);
        assert!(!web.write_fickle(0, 1, &mut Vec::new()));
        web.set_in_motion();
        std::thread::sleep(std::time::Duration::from_millis(20));
        assert!(web.moved(0, 1) > 0 && web.write_fickle(0, 1, &mut Vec::new()));
    }

    #[test]
    fn dates_are_those_of_the_calendar() {
        assert_eq!(w3c_date(1_794_996_000_123), "2026-11-18T10:00:00.123Z");
        assert_eq!(w3c_date(1_709_164_800_000), "2024-02-29T00:00:00.000Z");
    }
}
