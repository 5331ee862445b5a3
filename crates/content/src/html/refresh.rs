//! `<meta http-equiv=refresh>` and the `Refresh` header: the URL in them, found as browsers find it.

/// The URL that `content` leads to: `5; url='x'`, also `0,x`. `None` if it only reloads the page.
pub fn refresh_target(content: &str) -> Option<&str> {
    let rest = content.trim_start_matches(is_space);
    let digits = rest.trim_start_matches(|c: char| c.is_ascii_digit());
    if digits.len() == rest.len() && !rest.starts_with('.') {
        return None;
    }
    let rest = digits.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.');
    if !rest.starts_with(|c| c == ';' || c == ',' || is_space(c)) {
        return None;
    }
    let rest = rest.trim_start_matches(is_space);
    let rest = rest
        .strip_prefix([';', ','])
        .unwrap_or(rest)
        .trim_start_matches(is_space);
    let url = match after_url_equals(rest) {
        Some(url) => url,
        None => rest,
    };
    // A quote that opens the URL ends it too, or runs to the end.
    let url = match url.chars().next() {
        Some(quote @ ('"' | '\'')) => url[1..].split(quote).next().unwrap_or_default(),
        _ => url,
    };
    let url = url.trim_matches(is_space);
    (!url.is_empty()).then_some(url)
}

/// What follows `url =`, if `text` begins so.
fn after_url_equals(text: &str) -> Option<&str> {
    let prefix = text
        .get(..3)
        .filter(|prefix| prefix.eq_ignore_ascii_case("url"))?;
    let rest = text[prefix.len()..]
        .trim_start_matches(is_space)
        .strip_prefix('=')?;
    Some(rest.trim_start_matches(is_space))
}

fn is_space(c: char) -> bool {
    matches!(c, '\t' | '\n' | '\x0c' | '\r' | ' ')
}

#[cfg(test)]
mod tests {
    use super::refresh_target;

    #[test]
    fn as_browsers_take_it() {
        for content in [
            "5; url=x",
            "0;URL='x'",
            "0,\"x",
            " .5 , Url = x ",
            "1 x",
            "3;x",
            "0;url='x'y",
        ] {
            assert_eq!(refresh_target(content), Some("x"), "{content}");
        }
        for content in [
            "5",
            "",
            "url=x",
            "5url=x",
            "; url=x",
            "0; url=",
            "-1; url=x",
        ] {
            assert_eq!(refresh_target(content), None, "{content}");
        }
        assert_eq!(refresh_target("0; urlx"), Some("urlx"));
        assert_eq!(refresh_target("0; url x"), Some("url x"));
    }
}
