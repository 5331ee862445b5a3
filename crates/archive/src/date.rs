//! Dates as WARC and CDXJ write them. Not a calendar library: UTC only.

/// Appends `2026-01-31T23:59:59.123Z`.
pub(crate) fn push_warc_date(out: &mut Vec<u8>, at_ms: u64) {
    let t = Civil::of(at_ms);
    push_digits(out, t.year, 4);
    out.push(b'-');
    push_digits(out, t.month, 2);
    out.push(b'-');
    push_digits(out, t.day, 2);
    out.push(b'T');
    push_digits(out, t.hour, 2);
    out.push(b':');
    push_digits(out, t.minute, 2);
    out.push(b':');
    push_digits(out, t.second, 2);
    out.push(b'.');
    push_digits(out, t.milli, 3);
    out.push(b'Z');
}

/// `2026-01-31T23:59:59.123Z`, as records have it. Such texts sort as the times do.
pub fn warc_date(at_ms: u64) -> String {
    let mut date = Vec::with_capacity(24);
    push_warc_date(&mut date, at_ms);
    // Digits and punctuation.
    String::from_utf8_lossy(&date).into_owned()
}

/// `20260131235959`, the timestamp of CDXJ lines and file names.
pub(crate) fn timestamp14(at_ms: u64) -> String {
    let t = Civil::of(at_ms);
    format!(
        "{:04}{:02}{:02}{:02}{:02}{:02}",
        t.year, t.month, t.day, t.hour, t.minute, t.second
    )
}

/// The 14-digit timestamp of a WARC-Date, or `None` if it is not one. WARC 1.1 allows a date to end
/// after any part, and fractions of up to nine digits.
pub(crate) fn timestamp_of_warc_date(date: &str) -> Option<String> {
    let mut rest = date.as_bytes();
    let mut stamp = String::with_capacity(14);
    // Separator before the part, its width, its smallest and largest value.
    const PARTS: [(u8, usize, u32, u32); 6] = [
        (b' ', 4, 0, 9999),
        (b'-', 2, 1, 12),
        (b'-', 2, 1, 31),
        (b'T', 2, 0, 23),
        (b':', 2, 0, 59),
        (b':', 2, 0, 60),
    ];
    let mut parts = 0;
    for (separator, width, least, most) in PARTS {
        if parts > 0 {
            match rest.first() {
                Some(&byte) if byte == separator => rest = &rest[1..],
                _ => break,
            }
        }
        let (digits, after) = rest.split_at_checked(width)?;
        let text = std::str::from_utf8(digits).ok()?;
        if !digits.iter().all(u8::is_ascii_digit) {
            return None;
        }
        let value: u32 = text.parse().ok()?;
        if !(least..=most).contains(&value) {
            return None;
        }
        stamp.push_str(text);
        rest = after;
        parts += 1;
    }
    if parts == 6 && rest.first() == Some(&b'.') {
        let digits = rest[1..].iter().take_while(|b| b.is_ascii_digit()).count();
        if !(1..=9).contains(&digits) {
            return None;
        }
        rest = &rest[1 + digits..];
    }
    // Dates without a time have no zone.
    let zone_right = if parts > 3 {
        rest == b"Z"
    } else {
        rest.is_empty()
    };
    if !zone_right || parts == 4 {
        return None;
    }
    const WHOLE: &str = "00000101000000";
    stamp.push_str(&WHOLE[stamp.len()..]);
    Some(stamp)
}

/// Is this the 14 (or fewer, or more) digits of an ARC date? Milliseconds are tolerated.
pub(crate) fn is_arc_date(date: &str) -> bool {
    (4..=17).contains(&date.len()) && date.bytes().all(|b| b.is_ascii_digit())
}

struct Civil {
    year: u32,
    month: u32,
    day: u32,
    hour: u32,
    minute: u32,
    second: u32,
    milli: u32,
}

impl Civil {
    /// Days are counted in eras of 400 years that start on 1 March, so that the leap day is last.
    fn of(at_ms: u64) -> Self {
        let seconds = at_ms / 1000;
        let day_of_era_zero = seconds / 86_400 + 719_468;
        let era = day_of_era_zero / 146_097;
        let day_of_era = day_of_era_zero % 146_097;
        let year_of_era =
            (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
        let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let shifted_month = (5 * day_of_year + 2) / 153;
        let month = if shifted_month < 10 {
            shifted_month + 3
        } else {
            shifted_month - 9
        };
        let year = year_of_era + era * 400 + u64::from(month <= 2);
        let of_day = seconds % 86_400;
        Self {
            // A clock beyond the year 9999 is broken; the format has four digits.
            year: year.min(9999) as u32,
            month: month as u32,
            day: (day_of_year - (153 * shifted_month + 2) / 5 + 1) as u32,
            hour: (of_day / 3600) as u32,
            minute: (of_day / 60 % 60) as u32,
            second: (of_day % 60) as u32,
            milli: (at_ms % 1000) as u32,
        }
    }
}

fn push_digits(out: &mut Vec<u8>, value: u32, width: u32) {
    for place in (0..width).rev() {
        out.push(b'0' + (value / 10u32.pow(place) % 10) as u8);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_dates() {
        assert_eq!(warc_date(0), "1970-01-01T00:00:00.000Z");
        assert_eq!(warc_date(951_782_400_000), "2000-02-29T00:00:00.000Z");
        assert_eq!(warc_date(1_488_772_926_007), "2017-03-06T04:02:06.007Z");
        assert_eq!(warc_date(4_107_542_399_999), "2100-02-28T23:59:59.999Z");
        assert_eq!(warc_date(4_107_542_400_000), "2100-03-01T00:00:00.000Z");
        assert_eq!(timestamp14(1_488_772_926_007), "20170306040206");
        assert_eq!(warc_date(u64::MAX / 2).len(), 24);
    }

    #[test]
    fn warc_dates_are_read_back_at_every_precision() {
        for (date, stamp) in [
            ("2017-03-06T04:02:06Z", Some("20170306040206")),
            ("2017-03-06T04:02:06.1Z", Some("20170306040206")),
            ("2017-03-06T04:02:06.123456789Z", Some("20170306040206")),
            ("2017-03-06T04:02Z", Some("20170306040200")),
            ("2017-03-06", Some("20170306000000")),
            ("2017-03", Some("20170301000000")),
            ("2017", Some("20170101000000")),
            ("2017-03-06T04:02:06.1234567890Z", None),
            ("2017-03-06T04:02:06", None),
            ("2017-03-06T04Z", None),
            ("2017-13-06T04:02:06Z", None),
            ("2017-03-06 04:02:06Z", None),
            ("2017-03-06T04:02:06+01:00", None),
            ("20170306040206", None),
            ("", None),
        ] {
            assert_eq!(timestamp_of_warc_date(date).as_deref(), stamp, "{date}");
        }
        for at_ms in (0..4_000_000_000_000).step_by(86_399_999 * 31) {
            assert_eq!(
                timestamp_of_warc_date(&warc_date(at_ms)),
                Some(timestamp14(at_ms))
            );
        }
    }
}
