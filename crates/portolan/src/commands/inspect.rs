//! What the commands that look into a crawl directory share: opening it and reading it.

use std::io::{self, Write};
use std::path::Path;

use portolan_crawl::{Crawl, REGISTRY_DIR};
use portolan_registry::{Snapshot, State, UrlRecord};

use crate::failure::Failure;
use crate::output::Lines;

/// The registry of the crawl in `dir`, as of now; works while the crawl runs.
pub(crate) fn open(dir: &Path) -> Result<Snapshot, Failure> {
    if !Crawl::exists(dir) {
        return Err(Failure::usage(format!(
            "{} holds no crawl; 'portolan crawl --out {0} URL' would start one there",
            dir.display()
        )));
    }
    Snapshot::open(&dir.join(REGISTRY_DIR), Crawl::identities(dir)?).map_err(Failure::failed)
}

/// Lines to stdout, in large pieces.
pub(crate) fn lines() -> Lines {
    Lines::new()
}

pub(crate) fn state_name(record: &UrlRecord) -> &'static str {
    match record.state {
        State::Due => "due",
        State::Visited => "visited",
        State::Failed => "failed",
        State::Excluded => "excluded",
    }
}

/// `2026-11-15 20:24:38` in UTC.
pub(crate) fn date(at_ms: u64) -> String {
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

pub(crate) fn write_json(out: &mut impl Write, value: &serde_json::Value) -> io::Result<()> {
    serde_json::to_writer(&mut *out, value)?;
    out.write_all(b"\n")
}

#[cfg(test)]
mod tests {
    use super::date;

    #[test]
    fn dates_follow_the_calendar() {
        assert_eq!(date(0), "1970-01-01 00:00:00 UTC");
        assert_eq!(date(951_782_400_000), "2000-02-29 00:00:00 UTC");
        assert_eq!(date(1_794_774_278_000), "2026-11-15 20:24:38 UTC");
    }
}
