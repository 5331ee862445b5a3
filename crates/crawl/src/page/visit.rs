//! What an answer means for its URL, before it is read.

use portolan_content::MimeType;
use portolan_model::{LinkKind, Outcome, Reason, Visit};
use portolan_net::Response;

use super::Fetched;

/// Longest validators and titles that are kept in a visit.
pub(crate) const MAX_FIELD_BYTES: usize = 512;

pub(crate) fn visit_of(
    fetched: &Fetched<'_>,
    response: &Response,
    mime: Option<&MimeType>,
) -> Visit {
    let field =
        |name: &str| shortened(response.header_str(name).unwrap_or(""), MAX_FIELD_BYTES).to_owned();
    Visit {
        status: response.status(),
        attempt: fetched.due.attempts.saturating_add(1),
        depth: fetched.due.depth,
        fetch_ms: response.timings.total_ms,
        wire_bytes: response.wire_bytes,
        body_bytes: response.body.len() as u64,
        truncated: response.truncated,
        mime: mime
            .map(|mime| mime.essence().to_owned())
            .unwrap_or_default(),
        etag: field("etag"),
        last_modified: field("last-modified"),
        is_sitemap: fetched.due.kind == LinkKind::Sitemap,
        ..Visit::without_answer(fetched.at_ms, Outcome::Fetched)
    }
}

/// What a status means for the URL.
/// `is_last`: the page was asked for as often as a page is. `is_to_blame`: so it was, and its host
/// answers others.
pub(super) fn outcome_of(status: u16, is_last: bool, is_to_blame: bool) -> Outcome {
    let unless = |enough: bool, reason| {
        if enough {
            Outcome::Failed(reason)
        } else {
            Outcome::Retry(reason)
        }
    };
    match status {
        // A server that asks for a rest says nothing of the page.
        429 => Outcome::Retry(Reason::TooManyRequests),
        503 => Outcome::Retry(Reason::Unavailable),
        408 | 425 => unless(is_last, Reason::HttpClientError),
        400..500 => Outcome::Failed(Reason::HttpClientError),
        500 | 502 | 504 => unless(is_to_blame, Reason::HttpServerError),
        500..600 => Outcome::Failed(Reason::HttpServerError),
        200..400 => Outcome::Fetched,
        _ => Outcome::Failed(Reason::BrokenHttp),
    }
}

/// At most `bytes` bytes of a text, cut between characters.
pub(crate) fn shortened(text: &str, bytes: usize) -> &str {
    if text.len() <= bytes {
        return text;
    }
    let mut end = bytes;
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statuses_become_outcomes() {
        let first = |status| outcome_of(status, false, false);
        assert_eq!(first(200), Outcome::Fetched);
        assert_eq!(first(301), Outcome::Fetched);
        assert_eq!(first(404), Outcome::Failed(Reason::HttpClientError));
        assert_eq!(first(500), Outcome::Retry(Reason::HttpServerError));
        assert_eq!(first(501), Outcome::Failed(Reason::HttpServerError));
        assert_eq!(first(999), Outcome::Failed(Reason::BrokenHttp));
        // Tried often enough, while the host failed for others, too.
        assert_eq!(
            outcome_of(500, true, false),
            Outcome::Retry(Reason::HttpServerError)
        );
        assert_eq!(
            outcome_of(500, true, true),
            Outcome::Failed(Reason::HttpServerError)
        );
        // A wish for rest is never a page's failure.
        assert_eq!(
            outcome_of(503, true, true),
            Outcome::Retry(Reason::Unavailable)
        );
        assert_eq!(
            outcome_of(429, true, true),
            Outcome::Retry(Reason::TooManyRequests)
        );
    }

    #[test]
    fn texts_are_cut_between_characters() {
        assert_eq!(shortened("añb", 2), "a");
        assert_eq!(shortened("añb", 3), "añ");
        assert_eq!(shortened("abc", 9), "abc");
    }
}
