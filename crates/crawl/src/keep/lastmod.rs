//! What sitemaps say of when pages changed, on its way to the keeper.

use portolan_model::{CanonicalUrl, Identities};
use xxhash_rust::xxh3::xxh3_64;

use super::notes::Signal;

/// What the sitemap that is being read says. Empty unless pages are kept fresh.
#[derive(Debug, Default)]
pub(crate) struct Lastmods {
    wanted: bool,
    found: Vec<(String, u16, Option<u64>)>,
}

impl Lastmods {
    pub(crate) fn wanted(wanted: bool) -> Self {
        Self {
            wanted,
            found: Vec::new(),
        }
    }

    pub(crate) fn push(&mut self, loc: &str, lastmod: Option<&str>) {
        if let (true, Some(text)) = (self.wanted, lastmod) {
            self.found
                .push((loc.to_owned(), mark_of(text), date_ms(text)));
        }
    }

    /// What was said, by document. `resolve` makes a URL of what stands in the sitemap.
    pub(crate) fn take(
        &mut self,
        ids: &Identities,
        resolve: impl Fn(&str) -> Option<CanonicalUrl>,
    ) -> Vec<Signal> {
        let found = std::mem::take(&mut self.found);
        let signals = found.into_iter().filter_map(|(loc, mark, changed_ms)| {
            Some(Signal {
                doc: resolve(&loc)?.doc_id(ids),
                mark,
                changed_ms,
            })
        });
        signals.collect()
    }
}

/// Tells one text from another; never 0.
fn mark_of(text: &str) -> u16 {
    (xxh3_64(text.trim().as_bytes()) as u16).max(1)
}

/// The time of a W3C date: `2026`, `2026-11`, `2026-11-18`, `2026-11-18T10:00Z`, with seconds, fractions and offsets.
fn date_ms(text: &str) -> Option<u64> {
    let (date, time) = match text.trim().split_once(['T', ' ']) {
        Some((date, time)) => (date, Some(time)),
        None => (text.trim(), None),
    };
    let mut parts = date.splitn(3, '-').map(|part| part.parse::<i64>().ok());
    let year = parts.next()??;
    let month = parts.next().unwrap_or(Some(1))?;
    let day = parts.next().unwrap_or(Some(1))?;
    let is_date = (1970..=9999).contains(&year) && (1..=12).contains(&month);
    if !is_date || !(1..=31).contains(&day) {
        return None;
    }
    let day_s = days_from_epoch(year, month, day) * 86_400;
    let seconds = day_s + time.map_or(Some(0), seconds_of_day)?;
    u64::try_from(seconds).ok().map(|s| s * 1000)
}

fn seconds_of_day(text: &str) -> Option<i64> {
    let at = text.find(['Z', 'z', '+', '-']).unwrap_or(text.len());
    let (clock, zone) = text.split_at(at);
    let mut parts = clock.splitn(3, ':');
    let mut next = || parts.next().map_or(Some(0.0), |p| p.parse::<f64>().ok());
    let (hours, minutes, seconds) = (next()?, next()?, next()?);
    let sum = hours * 3600.0 + minutes * 60.0 + seconds;
    if !(0.0..=90_000.0).contains(&sum) {
        return None;
    }
    let offset_s = match zone.split_at_checked(1) {
        Some((sign @ ("+" | "-"), offset)) => {
            let digits = offset.replace(':', "");
            let (hours, minutes) = digits.split_at_checked(2)?;
            let hours = hours.parse::<i64>().ok()?;
            let minutes = minutes.parse::<i64>().unwrap_or(0);
            (hours * 3600 + minutes * 60) * if sign == "+" { 1 } else { -1 }
        }
        _ => 0,
    };
    Some(sum as i64 - offset_s)
}

/// By the Gregorian calendar (Howard Hinnant's `days_from_civil`).
fn days_from_epoch(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let of_era = year.rem_euclid(400);
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let day_of_era = of_era * 365 + of_era / 4 - of_era / 100 + of_year;
    era * 146_097 + day_of_era - 719_468
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_of_every_precision_are_read_and_nonsense_is_not() {
        for (text, seconds) in [
            ("1970", 0),
            ("1970-01-02", 86_400),
            ("2026-11-18", 1_794_960_000),
            ("2026-11-18T10:00Z", 1_794_996_000),
            ("2026-11-18T10:00:30.5+02:00", 1_794_988_830),
            (" 2024-02-29T00:00:00-05:00 ", 1_709_182_800),
        ] {
            assert_eq!(date_ms(text), Some(seconds * 1000), "{text}");
        }
        for text in [
            "",
            "now",
            "2026-13-01",
            "2026-1-x",
            "2026-01-01Tnoon",
            "99999999999999999999",
        ] {
            assert_eq!(date_ms(text), None, "{text}");
        }
    }

    #[test]
    fn other_texts_have_other_marks() {
        assert_ne!(mark_of("2026-11-18"), mark_of("2026-11-19"));
        assert_eq!(mark_of("2026-11-18"), mark_of(" 2026-11-18 "));
    }
}
