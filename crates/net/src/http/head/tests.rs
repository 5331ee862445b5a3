use super::*;

const STRANGE: &[Oddity] = &[Oddity::StrangeStatusLine];

fn parse(text: &[u8]) -> (Option<Head>, Vec<Oddity>) {
    let mut oddities = Oddities::default();
    let head = Head::parse(text, &mut oddities);
    (head, oddities.iter().collect())
}

#[test]
fn the_end_is_found_wherever_reading_stopped_before() {
    for text in [
        "A: b\r\n\r\nbody",
        "A: b\n\nbody",
        "A: b\r\n\nbody",
        "A: b\n\r\nbody",
    ] {
        let end = text.find("body").unwrap();
        for known in 0..=end {
            let found = Head::end(&text.as_bytes()[..known], 0);
            assert_eq!(found, (known == end).then_some(end), "{text:?} to {known}");
            // As when `known` bytes were searched before and the rest came now.
            if found.is_none() {
                assert_eq!(
                    Head::end(text.as_bytes(), known),
                    Some(end),
                    "{text:?} from {known}"
                );
            }
        }
    }
}

#[test]
fn status_lines_of_all_kinds() {
    use Version::{Http10, Http11};
    type Case = (&'static str, Option<(Version, u16)>, &'static [Oddity]);
    let cases: &[Case] = &[
        ("HTTP/1.1 200 OK", Some((Http11, 200)), &[]),
        ("HTTP/1.0 404 Not Found", Some((Http10, 404)), &[]),
        ("HTTP/1.1 200", Some((Http11, 200)), &[]),
        ("HTTP/1.1 200 ", Some((Http11, 200)), &[]),
        ("HTTP/1.1 999 Denied", Some((Http11, 999)), &[]),
        ("HTTP/1.1  200 OK", Some((Http11, 200)), STRANGE),
        ("http/1.1 200 OK", Some((Http10, 200)), STRANGE),
        ("HTTP/2 200 OK", Some((Http11, 200)), STRANGE),
        ("HTTP/1.2 200 OK", Some((Http11, 200)), STRANGE),
        ("HTTP/0.9 200 OK", Some((Http10, 200)), STRANGE),
        ("HTTP 200 OK", Some((Http10, 200)), STRANGE),
        ("HTTP/1.1 200OK", Some((Http11, 200)), STRANGE),
        ("HTTP/1.1 2000 OK", None, &[]),
        ("HTTP/1.1 20", None, &[]),
        ("HTTP/1.1 099 Low", None, &[]),
        ("HTTP/1.1 OK", None, &[]),
        ("HTTP/1.1", None, &[]),
        ("HTTP/1.1 ", None, &[]),
    ];
    for (line, expected, oddities) in cases {
        let (head, found) = parse(format!("{line}\r\n\r\n").as_bytes());
        assert_eq!(head.map(|h| (h.version(), h.status())), *expected, "{line}");
        if expected.is_some() {
            assert_eq!(found, *oddities, "{line}");
        }
    }
}

#[test]
fn what_looks_like_http() {
    for (bytes, expected) in [
        ("", None),
        ("H", None),
        ("HTTP", Some(true)),
        ("http/1.1 200", Some(true)),
        ("ICY", None),
        ("ICY 200", Some(true)),
        ("HTML", Some(false)),
        ("<html>", Some(false)),
    ] {
        assert_eq!(Head::looks_like_http(bytes.as_bytes()), expected, "{bytes}");
    }
}

/// What httparse takes, we read the same way.
fn compare_with_httparse(text: &[u8]) -> bool {
    let mut fields = [httparse::EMPTY_HEADER; 64];
    let mut theirs = httparse::Response::new(&mut fields);
    if !matches!(theirs.parse(text), Ok(httparse::Status::Complete(n)) if n == text.len()) {
        return false;
    }
    // A code below 100 is no status to us.
    if theirs.code.is_some_and(|code| code < 100) {
        return false;
    }
    let (ours, _) = parse(text);
    let ours = ours.unwrap_or_else(|| panic!("refused: {}", text.escape_ascii()));
    assert_eq!(Some(ours.status()), theirs.code);
    let minor = u8::from(ours.version() == Version::Http11);
    assert_eq!(Some(minor), theirs.version);
    let our_fields: Vec<_> = ours.fields().collect();
    let their_fields: Vec<_> = theirs
        .headers
        .iter()
        .map(|h| (h.name.as_bytes(), h.value))
        .collect();
    assert_eq!(our_fields, their_fields, "{}", text.escape_ascii());
    true
}

#[test]
fn agrees_with_httparse_on_ordinary_heads() {
    let heads = [
        "HTTP/1.1 200 OK\r\nServer: nginx\r\nContent-Type: text/html; charset=utf-8\r\nX-Empty:\r\nX-Space:   a b  \r\n\r\n",
        "HTTP/1.0 301 Moved Permanently\r\nLocation: http://a.test/\r\n\r\n",
        "HTTP/1.1 200\nA: b\n\n",
        "HTTP/1.1 200 \u{e9}t\u{e9}\r\nA: caf\u{e9}\r\n\r\n",
    ];
    for head in heads {
        assert!(compare_with_httparse(head.as_bytes()), "{head}");
    }
}

proptest::proptest! {
    #[test]
    fn agrees_with_httparse_on_what_it_takes(
        status in 100u16..999,
        fields in proptest::collection::vec(("[A-Za-z0-9!#$%&'*+.^_`|~-]{1,12}", "[ -~\t\u{80}-\u{ff}]{0,30}"), 0..12),
    ) {
        let mut text = format!("HTTP/1.1 {status} Fine\r\n");
        for (name, value) in &fields {
            text += &format!("{name}: {value}\r\n");
        }
        text += "\r\n";
        proptest::prop_assert!(compare_with_httparse(text.as_bytes()));
    }

    /// Any bytes at all: no panic, and what is read lies within the head.
    #[test]
    fn rubbish_is_survived(text in "HTTP/1\\.[01] [0-9]{3}[ -~]{0,5}\r?\n([ \t:a-c\r\n\u{0}\u{e9}]{0,60})\r\n\r\n") {
        let end = Head::end(text.as_bytes(), 0).expect("it has a blank line");
        let (head, _) = parse(&text.as_bytes()[..end]);
        if let Some(head) = head {
            for (name, value) in head.fields() {
                proptest::prop_assert!(name.len() + value.len() <= end);
                proptest::prop_assert!(!value.contains(&b'\n'));
            }
        }
        compare_with_httparse(&text.as_bytes()[..end]);
    }
}
