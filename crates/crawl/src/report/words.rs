//! Numbers, sizes and times as people read them.

use std::fmt::Write as _;

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

/// Among the parts of what is known; empty where there is none.
pub fn sitemaps(number: u64) -> String {
    match number {
        0 => String::new(),
        number => format!("{}, ", counted(number, "sitemap")),
    }
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
}
