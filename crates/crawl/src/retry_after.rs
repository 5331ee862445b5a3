//! Retry-After: seconds, or a date.

/// Milliseconds to wait from `now_ms` on; `None` if the text says neither.
pub(crate) fn parse_ms(text: &str, now_ms: u64) -> Option<u64> {
    let text = text.trim();
    if !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit()) {
        return Some(
            text.parse::<u64>()
                .unwrap_or(u64::MAX)
                .saturating_mul(1_000),
        );
    }
    let date = httpdate::parse_http_date(text).ok()?;
    let at_ms = date.duration_since(std::time::UNIX_EPOCH).ok()?.as_millis() as u64;
    Some(at_ms.saturating_sub(now_ms))
}

#[cfg(test)]
mod tests {
    use super::parse_ms;

    #[test]
    fn seconds_dates_and_nonsense() {
        assert_eq!(parse_ms(" 120 ", 0), Some(120_000));
        assert_eq!(parse_ms("99999999999999999999", 0), Some(u64::MAX));
        assert_eq!(
            parse_ms("Thu, 01 Jan 1970 00:01:00 GMT", 10_000),
            Some(50_000)
        );
        assert_eq!(parse_ms("Thu, 01 Jan 1970 00:01:00 GMT", 90_000), Some(0));
        assert_eq!(parse_ms("soon", 0), None);
        assert_eq!(parse_ms("", 0), None);
    }
}
