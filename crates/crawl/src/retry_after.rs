//! Retry-After: seconds, or a date.

/// Milliseconds to wait; `None` if the text says neither. A date counts from `sent`, the answer's own
/// Date, so that nobody's clock needs to be right; without one, from `wall_ms`.
pub(crate) fn parse_ms(text: &str, sent: Option<&str>, wall_ms: u64) -> Option<u64> {
    let text = text.trim();
    if !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit()) {
        return Some(
            text.parse::<u64>()
                .unwrap_or(u64::MAX)
                .saturating_mul(1_000),
        );
    }
    let sent_ms = sent.and_then(date_ms).unwrap_or(wall_ms);
    Some(date_ms(text)?.saturating_sub(sent_ms))
}

fn date_ms(text: &str) -> Option<u64> {
    let date = httpdate::parse_http_date(text.trim()).ok()?;
    Some(date.duration_since(std::time::UNIX_EPOCH).ok()?.as_millis() as u64)
}

#[cfg(test)]
mod tests {
    use super::parse_ms;

    #[test]
    fn seconds_dates_and_nonsense() {
        let parse = |text, wall_ms| parse_ms(text, None, wall_ms);
        assert_eq!(parse(" 120 ", 0), Some(120_000));
        assert_eq!(parse("99999999999999999999", 0), Some(u64::MAX));
        assert_eq!(parse("Thu, 01 Jan 1970 00:01:00 GMT", 10_000), Some(50_000));
        assert_eq!(parse("Thu, 01 Jan 1970 00:01:00 GMT", 90_000), Some(0));
        assert_eq!(parse("soon", 0), None);
        assert_eq!(parse("", 0), None);
    }

    #[test]
    fn a_date_counts_from_the_servers_own_clock() {
        let (until, sent) = (
            "Fri, 02 Jan 1970 00:01:00 GMT",
            "Fri, 02 Jan 1970 00:00:00 GMT",
        );
        for wall_ms in [0, 86_400_000, 864_000_000] {
            assert_eq!(parse_ms(until, Some(sent), wall_ms), Some(60_000));
        }
        assert_eq!(parse_ms(until, Some("today"), 86_430_000), Some(30_000));
    }
}
