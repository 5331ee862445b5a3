use std::time::{Duration, Instant};

use proptest::prelude::*;

use super::*;

fn robots(text: &str) -> Robots {
    Robots::parse(text.as_bytes(), "portolan")
}

/// Asserts what one rule for everyone says of a path.
fn disallows(pattern: &str, path: &str) -> bool {
    !robots(&format!("User-agent: *\nDisallow: {pattern}\n")).allows(path)
}

#[test]
fn rfc_special_characters() {
    // RFC 9309 2.2.3.
    assert!(disallows("/this/path/exactly$", "/this/path/exactly"));
    assert!(!disallows("/this/path/exactly$", "/this/path/exactly/"));
    assert!(disallows("/this/*/exactly", "/this/longer/path/exactly/as"));
    assert!(disallows(
        "/path/file-with-a-%2A.html",
        "/path/file-with-a-*.html"
    ));
    assert!(!disallows(
        "/path/file-with-a-%2A.html",
        "/path/file-with-a-b.html"
    ));
    assert!(disallows("/path/foo-%24", "/path/foo-$"));
    assert!(disallows("/path/foo-%24", "/path/foo-$/more"));
    let text = "User-agent: *\nDisallow: /a # a comment\n# Disallow: /b\nDisallow: /c#d";
    assert!(!robots(text).allows("/a"));
    assert!(robots(text).allows("/b"));
    assert!(!robots(text).allows("/c"));
}

#[test]
fn rfc_percent_encoding() {
    // RFC 9309 2.2.2, table of examples: path, its encoded form; both spell the same thing.
    let same = [
        ("/foo/bar?baz=quz", "/foo/bar?baz=quz"),
        (
            "/foo/bar?baz=https://foo.bar",
            "/foo/bar?baz=https%3A%2F%2Ffoo.bar",
        ),
        ("/foo/bar/\u{30C4}", "/foo/bar/%E3%83%84"),
        ("/foo/bar/%E3%83%84", "/foo/bar/%e3%83%84"),
        ("/foo/bar/%62%61%7A", "/foo/bar/baz"),
    ];
    for (a, b) in same {
        for (pattern, path) in [(a, a), (a, b), (b, a), (b, b)] {
            assert!(disallows(pattern, path), "{pattern} {path}");
            assert!(disallows(&format!("{pattern}$"), path), "{pattern}$ {path}");
        }
    }
    // A reserved character in a path is not its escape.
    assert!(!disallows("/a%2Fb", "/a/b"));
    assert!(!disallows("/a/b", "/a%2Fb"));
    assert!(disallows("/a%2fb", "/a%2Fb"));
    // Characters that a URL cannot hold are their escapes.
    assert!(disallows("/b/*?*|", "/b/c?d=%7C"));
    assert!(disallows("/a b", "/a%20b"));
    // An escape cut short matches every one that starts so; elsewhere it is a percent sign.
    assert!(disallows("/itm/*/%", "/itm/1/%7B"));
    assert!(disallows("/talk%3Mediation/", "/talk%3Mediation/"));
    assert!(disallows("/100%/", "/100%25/"));
    assert!(!disallows("/%%36%31", "/a"));
    // Without a `?` of its own a pattern still matches in queries, as written.
    assert!(disallows(
        "/*url=http%3A%2F%2F",
        "/x?url=http%3A%2F%2Fexample.org"
    ));
    assert!(disallows("/*/print", "/a?b=/c/print"));
}

#[test]
fn groups() {
    let text = "Disallow: /nobody\n\
        User-agent: a\nUser-agent: PORTOLAN/1.0 (x)\nSitemap: /s.xml\n\n\
        Disallow: /one\n\
        User-agent: portolan-news\nDisallow: /news\n\
        User-agent: *\nDisallow: /\n\
        User-agent: b\nUser-agent: portolan\nDisallow: /two\nAllow: /two/ok\n";
    let r = robots(text);
    assert!(!r.allows("/one"));
    assert!(!r.allows("/two/x"));
    assert!(r.allows("/two/ok"));
    assert!(r.allows("/news"));
    assert!(r.allows("/nobody"));
    let other = Robots::parse(text.as_bytes(), "other");
    assert!(!other.allows("/anything"));
    assert!(other.allows("/robots.txt"));
    assert!(!Robots::parse(text.as_bytes(), "Portolan-News/3").allows("/news"));
    // A group without rules is a group: everything is allowed.
    assert!(robots("User-agent: *\nDisallow: /\nUser-agent: portolan").allows("/x"));
    // An empty value allows, and ends the list of agents.
    let empty = "User-agent: portolan\nDisallow:\nUser-agent: *\nDisallow: /";
    assert!(robots(empty).allows("/x"));
    // No token at all never matches a line without one.
    assert!(Robots::parse(b"User-agent: (x)\nDisallow: /", "").allows("/x"));
    assert!(!robots("User-agent: * and all\nDisallow: /").allows("/x"));
    assert!(robots("User-agent: *bot\nDisallow: /").allows("/x"));
}

#[test]
fn longest_match_and_ties() {
    let r = robots("User-agent: *\nAllow: /p\nDisallow: /\n");
    assert!(r.allows("/page"));
    assert!(!r.allows("/other"));
    let r = robots("User-agent: *\nDisallow: /folder\nAllow: /folder\n");
    assert!(r.allows("/folder/page"));
    let r = robots("User-agent: *\nAllow: /page\nDisallow: /*.htm\n");
    assert!(!r.allows("/page.htm"));
    let r = robots("User-agent: *\nAllow: /$\nDisallow: /\n");
    assert!(r.allows("/"));
    assert!(!r.allows("/page.htm"));
    assert!(r.allows(""), "an empty path is a slash");
}

#[test]
fn verdict_names_the_line() {
    let r = robots("User-agent: *\ndissallow: /a\u{e9}*z$\nAllow : /b\n");
    let verdict = r.verdict("/a%C3%A9/z");
    assert!(!verdict.allowed);
    assert_eq!(verdict.line.as_deref(), Some("Disallow: /a%C3%A9*z$"));
    let verdict = r.verdict("/b/c");
    assert!(verdict.allowed);
    assert_eq!(verdict.line.as_deref(), Some("Allow: /b"));
    assert_eq!(r.verdict("/c").line, None);
    assert!(!Robots::disallow_all().allows("/"));
    assert!(Robots::disallow_all().allows("/robots.txt"));
    assert!(Robots::allow_all().allows("/"));
}

#[test]
fn a_whole_url_counts_only_for_its_own_site() {
    let rules = |line: &str, origin: &str| {
        Robots::parse_for(
            format!("User-agent: *\n{line}\nDisallow: /own/\n").as_bytes(),
            "portolan",
            origin,
        )
    };
    for line in [
        "Disallow: https://other.example/",
        "Disallow: https://other.example",
        "Disallow: http://www.this.example/",
        "Disallow: https://this.example:8443/",
        "Disallow: https://this.example.other.example/",
        "Disallow: https://",
        "Disallow: https://[/",
        "Disallow: https://*.example/",
        "Allow: https://other.example/own/",
    ] {
        let r = rules(line, "https://this.example");
        assert!(r.allows("/") && r.allows("/x"), "{line}");
        assert!(!r.allows("/own/a"), "{line}");
    }
    for line in [
        "Disallow: https://this.example/x",
        "Disallow: http://this.example/x",
        "Disallow: HTTPS://This.Example:443/x",
        "Disallow: https://this.example./x",
        "Disallow: https://this.example/*x$",
    ] {
        let r = rules(line, "https://this.example");
        assert!(r.allows("/") && !r.allows("/x"), "{line}");
    }
    let whole = rules("Disallow: https://this.example", "https://this.example");
    assert!(!whole.allows("/"));
    let port = "Disallow: http://this.example:8080/x";
    assert!(!rules(port, "http://this.example:8080").allows("/x"));
    assert!(rules(port, "http://this.example").allows("/x"));
    let idn = "Disallow: http://bücher.example/x";
    assert!(!rules(idn, "https://xn--bcher-kva.example").allows("/x"));
    // The compact form holds paths alone, so that it can be read without its origin.
    let r = rules("Disallow: https://this.example/x", "https://this.example");
    let again = Robots::parse(r.to_compact().as_bytes(), "portolan");
    assert!(!again.allows("/x") && again.allows("/"));
}

#[test]
fn lenient_lines() {
    for line in [
        "Disallow: /x",
        "disallow:/x",
        "DISALLOW : /x",
        "Dissallow: /x",
        "Disalow: /x",
        "disallow /x",
        "\tDisallow:\t/x\t",
        "Disallow: x",
        "Disallow: http://example.org/x",
        "Disallow: HTTPS://h/x",
        "Disallow: *x",
        "Disallow /x:y",
    ] {
        let r = robots(&format!("User-agent: *\r{line}\r\n"));
        assert!(!r.allows("/x:y"), "{line}");
        assert!(r.allows("/y"), "{line}");
    }
    for line in [
        "Disallow",
        "Disallow:",
        "Disallow: $",
        "Disallow x y",
        "Dis allow: /x",
        ": /x",
        "<p>/x",
    ] {
        assert!(
            robots(&format!("User-agent: *\n{line}\n")).allows("/x"),
            "{line}"
        );
    }
    for line in [
        "User-agent: *",
        "useragent: *",
        "user agent: *",
        "User_Agent:*",
        "user-agent *",
    ] {
        assert!(
            !robots(&format!("{line}\nDisallow: /\n")).allows("/x"),
            "{line}"
        );
    }
}

#[test]
fn crawl_delays() {
    let of = |text: &str| robots(&format!("User-agent: *\nCrawl-delay: {text}")).crawl_delay();
    assert_eq!(of("1"), Some(Duration::from_secs(1)));
    assert_eq!(of("0"), Some(Duration::ZERO));
    assert_eq!(of("2.5 # seconds"), Some(Duration::from_millis(2500)));
    assert_eq!(of("0,25"), Some(Duration::from_millis(250)));
    assert_eq!(of(".0001"), Some(Duration::from_millis(1)));
    assert_eq!(of("10s"), Some(Duration::from_secs(10)));
    assert_eq!(
        of("99999999999999999999999"),
        Some(Duration::from_secs(1_000_000_000))
    );
    for text in ["", "-1", "soon", "."] {
        assert_eq!(of(text), None, "{text}");
    }
    let text = "Crawl-delay: 99\nUser-agent: a\nCrawl-delay: 7\nUser-agent: portolan\nCrawl-delay: 2\n\
        Disallow: /a\nUser-agent: *\nCrawl-delay: 50\nDisallow: /b\nUser-agent: portolan\nCrawl-delay: 3";
    assert_eq!(robots(text).crawl_delay(), Some(Duration::from_secs(3)));
    // Named above the delay: the delay holds; named below it: only the rules do.
    assert_eq!(
        Robots::parse(text.as_bytes(), "a").crawl_delay(),
        Some(Duration::from_secs(7))
    );
}

#[test]
fn sitemaps_are_distinct_and_in_order() {
    let r = Robots::parse(
        b"Sitemap: /b.xml\nUser-agent: x\nSITEMAP: https://h/a.xml#x\nsitemap:/b.xml\nSitemap:\nSitemap: /\xFF\nhttps://h/My-SiteMap.xml",
        "portolan",
    );
    assert_eq!(
        r.sitemaps(),
        [
            "/b.xml",
            "https://h/a.xml",
            "/%FF",
            "https://h/My-SiteMap.xml"
        ]
    );
}

#[test]
fn bounded_to_whole_lines() {
    let mut text = String::from("User-agent: *\nDisallow: /first\n");
    while text.len() < MAX_ROBOTS_BYTES - 100 {
        text.push_str("# filling filling filling filling\n");
    }
    text.push_str(&"#".repeat(MAX_ROBOTS_BYTES - "Disallow: /".len() - 1 - text.len()));
    text.push_str("\nDisallow: /late/but/read/in/part");
    assert_eq!(
        &text[..MAX_ROBOTS_BYTES][MAX_ROBOTS_BYTES - 11..],
        "Disallow: /"
    );
    let r = robots(&text);
    assert!(!r.allows("/first"));
    assert!(r.allows("/anything"));
    assert!(r.allows("/late/but/read/in/part"));
}

#[test]
fn long_compact_forms_keep_every_rule() {
    // Latin-1 triples in size when escaped.
    let mut text = b"User-agent: *\n".to_vec();
    let mut n = 0;
    while text.len() < MAX_ROBOTS_BYTES - 100 {
        text.extend(format!("Disallow: /{n}").bytes());
        text.extend([0xE9; 60]);
        text.push(b'\n');
        n += 1;
    }
    let r = Robots::parse(&text, "portolan");
    assert_eq!(r.rule_count(), n);
    let compact = r.to_compact();
    assert!(compact.len() > MAX_ROBOTS_BYTES);
    let again = Robots::parse(compact.as_bytes(), "anyone");
    assert_eq!(again.rule_count(), n);
    assert_eq!(again.to_compact(), compact);
}

#[test]
fn answers_by_status() {
    use RobotsAnswer::*;
    let cases = [
        (200, Parse),
        (204, Parse),
        (301, Redirect),
        (302, Redirect),
        (307, Redirect),
        (308, Redirect),
        (304, DisallowAll),
        (400, AllowAll),
        (401, AllowAll),
        (403, AllowAll),
        (404, AllowAll),
        (410, AllowAll),
        (429, DisallowAll),
        (451, AllowAll),
        (500, DisallowAll),
        (503, DisallowAll),
        (599, DisallowAll),
        (0, DisallowAll),
        (100, DisallowAll),
        (999, DisallowAll),
    ];
    for (status, expected) in cases {
        assert_eq!(RobotsAnswer::from_status(status), expected, "{status}");
    }
}

#[test]
fn stars_do_not_explode() {
    let mut text = String::from("User-agent: *\n");
    for i in 0..2000 {
        text.push_str(&format!("Disallow: /{}b{i}\n", "*a".repeat(60)));
    }
    let r = robots(&text);
    let path = format!("/{}", "a".repeat(8000));
    let start = Instant::now();
    assert!(r.allows(&path));
    // Backtracking would take ages of the universe; the bound only has to tell the two apart.
    assert!(start.elapsed() < Duration::from_secs(5));
}

/// The oracle: rules one by one, patterns by trying every way, normal forms by tokens.
mod naive {
    pub(super) struct Rule {
        pub allow: bool,
        pub pattern: String,
    }

    pub(super) fn allows(rules: &[Rule], path: &str) -> bool {
        let plain = normal(path.as_bytes(), false);
        let folded = fold(&plain);
        let mut best = (0, true);
        for rule in rules {
            let (body, anchored) = match rule.pattern.strip_suffix('$') {
                Some(body) => (body, true),
                None => (&*rule.pattern, false),
            };
            let literals: Vec<String> = body
                .split('*')
                .map(|l| normal(l.as_bytes(), true))
                .collect();
            let mut pattern = fold(&literals.join("*"));
            let length = pattern.len() + usize::from(anchored);
            if !anchored {
                pattern.push('*');
            }
            let matches = matches(pattern.as_bytes(), plain.as_bytes())
                || matches(pattern.as_bytes(), folded.as_bytes());
            if matches && (length, rule.allow) > best {
                best = (length, rule.allow);
            }
        }
        best.1
    }

    fn matches(pattern: &[u8], path: &[u8]) -> bool {
        match (pattern.split_first(), path.split_first()) {
            (None, _) => path.is_empty(),
            (Some((b'*', rest)), None) => matches(rest, path),
            (Some((b'*', rest)), Some((_, tail))) => matches(rest, path) || matches(pattern, tail),
            (Some(_), None) => false,
            (Some((p, rest)), Some((c, tail))) => p == c && matches(rest, tail),
        }
    }

    fn fold(text: &str) -> String {
        match text.split_once('?') {
            Some((path, query)) => {
                let query = query.replace("%3A", ":").replace("%2F", "/");
                format!("{path}?{query}")
            }
            None => text.to_owned(),
        }
    }

    fn normal(bytes: &[u8], of_pattern: bool) -> String {
        let mut out = String::new();
        let mut i = 0;
        while i < bytes.len() {
            let hex = |text: Option<&[u8]>| {
                let text = std::str::from_utf8(text?).ok()?;
                let ok = text.bytes().all(|b| b.is_ascii_hexdigit());
                ok.then(|| u8::from_str_radix(text, 16).ok()).flatten()
            };
            let escape = (bytes[i] == b'%')
                .then(|| hex(bytes.get(i + 1..i + 3)))
                .flatten();
            let rest = &bytes[i + 1..];
            match (bytes[i], escape) {
                (_, Some(b)) if b.is_ascii_alphanumeric() || b"-._~".contains(&b) => {
                    out.push(b as char)
                }
                (_, Some(b)) => out.push_str(&format!("%{b:02X}")),
                (b'%', None)
                    if of_pattern && rest.len() < 2 && rest.iter().all(u8::is_ascii_hexdigit) =>
                {
                    out.push('%');
                    out.push_str(&String::from_utf8_lossy(rest).to_ascii_uppercase());
                    break;
                }
                (b, _) if b.is_ascii_alphanumeric() || b"-._~:/?[]@!&'()+,;=".contains(&b) => {
                    out.push(b as char);
                }
                (b, _) => out.push_str(&format!("%{b:02X}")),
            }
            i += if escape.is_some() { 3 } else { 1 };
        }
        out
    }
}

fn rule() -> impl Strategy<Value = (bool, String)> {
    let piece = prop::sample::select(vec![
        "a", "b", "/", "*", "*", "$", "?", ":", "%3A", "%2f", "%61", "%2A", "%24", "%", "%3",
        "\u{e9}", "%C3%A9", "=",
    ]);
    let body = prop::collection::vec(piece, 0..8).prop_map(|p| p.concat());
    (
        any::<bool>(),
        prop::sample::select(vec!["/", "*"]),
        body,
        prop::sample::select(vec!["", "", "$", "*"]),
    )
        .prop_map(|(allow, start, body, end)| (allow, format!("{start}{body}{end}")))
}

fn path() -> impl Strategy<Value = String> {
    let piece = prop::sample::select(vec![
        "a", "b", "a", "b", "/", "*", "$", "?", ":", "%3a", "%2F", "%61", "%", "\u{e9}", "%c3%a9",
        "=", "3A",
    ]);
    prop::collection::vec(piece, 0..14).prop_map(|p| format!("/{}", p.concat()))
}

fn write_robots(rules: &[(bool, String)]) -> String {
    let mut text = String::from("User-agent: *\n");
    for (allow, pattern) in rules {
        let key = if *allow { "Allow" } else { "Disallow" };
        text.push_str(&format!("{key}: {pattern}\n"));
    }
    text
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4000))]

    #[test]
    fn decides_as_the_oracle(
        rules in prop::collection::vec(rule(), 0..8),
        paths in prop::collection::vec(path(), 1..6),
    ) {
        let r = robots(&write_robots(&rules));
        let again = Robots::parse(r.to_compact().as_bytes(), "someone");
        let oracle: Vec<naive::Rule> = rules
            .iter()
            .map(|(allow, pattern)| naive::Rule { allow: *allow, pattern: pattern.clone() })
            .collect();
        for path in &paths {
            let expected = naive::allows(&oracle, path);
            prop_assert_eq!(r.allows(path), expected, "{} on {:?}", path, rules);
            prop_assert_eq!(again.allows(path), expected, "compact: {} on {:?}", path, rules);
            prop_assert_eq!(&again.verdict(path), &r.verdict(path));
        }
    }

    #[test]
    fn any_bytes_are_taken(
        text in prop::collection::vec(any::<u8>(), 0..600),
        path: String,
        token in "[A-Za-z*/ -]{0,6}",
    ) {
        let mut bytes = b"User-agent: *\nDisallow: ".to_vec();
        bytes.extend(text);
        let r = Robots::parse(&bytes, &token);
        let compact = r.to_compact();
        let again = Robots::parse(compact.as_bytes(), "x");
        prop_assert_eq!(again.verdict(&path), r.verdict(&path));
        prop_assert_eq!(again.crawl_delay(), r.crawl_delay());
        prop_assert_eq!(again.sitemaps(), r.sitemaps());
        prop_assert_eq!(again.to_compact(), compact);
    }

    #[test]
    fn any_lines_are_taken(
        lines in prop::collection::vec(
            ("(User-agent|useragent|Disallow|Allow|Crawl-delay|Sitemap|http|x)", "[: ]{0,2}", "[*$/a-c0-9.%?#\u{e9} :]{0,12}", "[\r\n]{1,2}"),
            0..30,
        ),
        bom in prop::sample::select(vec!["", "\u{feff}"]),
        path in path(),
    ) {
        let text: String = lines.iter().map(|(k, s, v, e)| format!("{k}{s}{v}{e}")).collect();
        let r = robots(&format!("{bom}{text}"));
        let again = Robots::parse(r.to_compact().as_bytes(), "x");
        prop_assert_eq!(again.allows(&path), r.allows(&path));
        prop_assert_eq!(again.crawl_delay(), r.crawl_delay());
        prop_assert_eq!(again.sitemaps(), r.sitemaps());
    }
}

#[test]
fn tables_are_told_of_by_path_and_kept() {
    let text = b"TOL: /\nUser-agent: x\nTVI: /prices/\ntol: nowhere\nDisallow: /p\n";
    let robots = Robots::parse(text, "mybot");
    for robots in [&robots, &Robots::parse(robots.to_compact().as_bytes(), "*")] {
        assert!(robots.tells_of(Table::Tol, "/a.html"));
        assert!(robots.tells_of(Table::Tvi, "/prices/a.html"));
        assert!(!robots.tells_of(Table::Tvi, "/a.html"));
    }
    // They end no list of agents, and are no rules.
    assert_eq!(Robots::parse(text, "x").rule_count(), 1);
    let many: String = (0..1_000).map(|n| format!("TOL: /{n}\n")).collect();
    assert!(
        Robots::parse(many.as_bytes(), "x")
            .to_compact()
            .lines()
            .count()
            <= MAX_TABLE_PATHS
    );
}
