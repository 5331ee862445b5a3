//! The prefilter for links: drops what cannot be crawled before any URL is parsed. What passes may
//! still turn out not to be a URL.

/// Can this link lead to another document?
///
/// False for schemes that nobody crawls (`mailto:`, `javascript:`, `data:`), for places on the same page
/// (`#here`) and for empty links. Never false for a link that resolves to a document other than the
/// page itself.
pub fn is_crawlable_href(href: &str) -> bool {
    let bytes = href.as_bytes();
    // The WHATWG parser trims control characters and spaces, all of them at or below 0x20.
    let Some(start) = bytes.iter().position(|&b| b > b' ') else {
        return false;
    };
    let bytes = &bytes[start..];
    match bytes[0] {
        b'#' => false,
        first if first.is_ascii_alphabetic() => {
            match bytes.iter().position(|&b| !is_scheme_byte(b)) {
                Some(end) if bytes[end] == b':' => is_crawled(&bytes[..end]),
                // No colon behind the name: a relative link. A tab or line end within the name
                // is left to the parser, which skips it.
                _ => true,
            }
        }
        _ => true,
    }
}

fn is_scheme_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.')
}

/// Whether a crawl takes ftp, gopher and file is the canonicalizer's business.
fn is_crawled(scheme: &[u8]) -> bool {
    const OTHERS: [&[u8]; 3] = [b"ftp", b"gopher", b"file"];
    scheme.eq_ignore_ascii_case(b"http")
        || scheme.eq_ignore_ascii_case(b"https")
        || OTHERS
            .iter()
            .any(|other| scheme.eq_ignore_ascii_case(other))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drops_what_cannot_be_crawled_and_nothing_else() {
        for href in [
            "",
            " \n\t",
            "#",
            "  #top",
            "mailto:me@example.org",
            "MailTo:x",
            "javascript:void(0)",
            "\u{1} javascript:alert(1)",
            "data:text/html,x",
            "tel:+4930",
            "ftps://example.org/",
            "about:blank",
            "android-app://x/y",
            "localhost:8080",
        ] {
            assert!(!is_crawlable_href(href), "{href:?}");
        }
        for href in [
            "a",
            "a.html#x",
            "/",
            "//example.org",
            "?q",
            "http://x",
            "HTTPS://x",
            "http:x",
            "ftp://x/",
            "GOPHER://x/",
            "java\nscript:x",
            "ht\ttp://x/",
            ":x",
            "1:2",
            "a b:c",
            "./mailto:x",
            "ä:x",
            "\u{a0}#x",
        ] {
            assert!(is_crawlable_href(href), "{href:?}");
        }
    }
}
