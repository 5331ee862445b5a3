//! Keys as the Python package `surt` 0.3.1 writes them (through `cdxj-indexer` 1.5.0), made by
//! running it over the left-hand side.

use crate::url::{CanonicalSettings, Canonicalizer};

#[test]
fn keys_are_those_of_the_python_package() {
    // All parameters kept: the package does its own cutting.
    let canonicalizer = Canonicalizer::new(&CanonicalSettings::keep_all_parameters());
    for (url, expected) in CASES {
        let parsed = canonicalizer.parse(url).expect(url);
        assert_eq!(parsed.surt(), *expected, "{url}");
    }
}

#[test]
fn deeply_nested_escapes_take_no_time() {
    let url = format!("http://example.org/%{}41", "25".repeat(20_000));
    let parsed = Canonicalizer::default().parse(&url).expect("a URL");
    assert_eq!(parsed.surt(), "org,example)/a");
}

const CASES: &[(&str, &str)] = &[
    (r#"http://example.org/"#, r#"org,example)/"#),
    (
        r#"https://www.example.com/path?query"#,
        r#"com,example)/path?query"#,
    ),
    (
        r#"http://www2.Example.com/a/B/c.HTML"#,
        r#"com,example)/a/b/c.html"#,
    ),
    (r#"http://www.com/"#, r#"com)/"#),
    (r#"http://wwwx.example.com/"#, r#"com,example,wwwx)/"#),
    (r#"http://www12x.example.com/"#, r#"com,example,www12x)/"#),
    (r#"https://example.com:8443/x/"#, r#"com,example:8443)/x"#),
    (r#"http://example.com:443/"#, r#"com,example:443)/"#),
    (r#"http://192.0.2.7/a"#, r#"7,2,0,192)/a"#),
    (r#"http://[2001:db8::1]:8080/a"#, r#"2001:db8::1:8080)/a"#),
    (r#"http://[::1]/"#, r#"::1)/"#),
    (r#"http://localhost/"#, r#"localhost)/"#),
    (
        r#"http://xn--bcher-kva.de/%C3%A4"#,
        r#"de,xn--bcher-kva)/%c3%a4"#,
    ),
    (
        r#"http://example.com/a%20b?x=%26&a=1"#,
        r#"com,example)/a%20b?&a=1&x="#,
    ),
    (r#"http://example.com/a%252520b"#, r#"com,example)/a%20b"#),
    (
        r#"http://example.com/a%2Fb//c///d//"#,
        r#"com,example)/a/b/c/d"#,
    ),
    (r#"http://example.com/%252e%252e/x"#, r#"com,example)/../x"#),
    (
        r#"http://example.com/x/%252e/y/%252e%252e/z"#,
        r#"com,example)/x/z"#,
    ),
    (
        r#"http://example.com/x?b=2&a=1&B=1&a&a="#,
        r#"com,example)/x?a&a=&a=1&b=1&b=2"#,
    ),
    (
        r#"http://example.com/x?Q=Some+Text%20More"#,
        r#"com,example)/x?q=some+text%20more"#,
    ),
    (
        r#"http://example.com/x?a=1&&b=2"#,
        r#"com,example)/x?&a=1&b=2"#,
    ),
    (r#"http://example.com/x?y"#, r#"com,example)/x?y"#),
    (r#"http://example.com/x?%26"#, r#"com,example)/x?&"#),
    (r#"http://example.com/x?a%23b"#, r#"com,example)/x?a%23b"#),
    (r#"http://example.com/x;y=1/z"#, r#"com,example)/x;y=1/z"#),
    (
        r#"http://example.com/x?a=1&sid=0123456789abcdef0123456789ABCDEF"#,
        r#"com,example)/x?&a=1"#,
    ),
    (
        r#"http://example.com/x?jsessionid=0123456789abcdef0123456789abcdef&a=1"#,
        r#"com,example)/x?a=1"#,
    ),
    (
        r#"http://example.com/x?PHPSESSID=0123456789abcdef0123456789abcdef"#,
        r#"com,example)/x"#,
    ),
    (
        r#"http://example.com/x?sid=0123456789abcdef0123456789abcdef0"#,
        r#"com,example)/x?sid=0123456789abcdef0123456789abcdef0"#,
    ),
    (
        r#"http://example.com/x?ASPSESSIONIDABCDEFGH=ABCDEFGHIJKLMNOPQRSTUVWX&b=1&a=2"#,
        r#"com,example)/x?a=2&b=1"#,
    ),
    (
        r#"http://example.com/x?b=1&cfid=12&cftoken=34&a=2"#,
        r#"com,example)/x?a=2&b=1"#,
    ),
    (
        r#"http://example.com/x?cfid=&cftoken=34"#,
        r#"com,example)/x?cfid=&cftoken=34"#,
    ),
    (
        r#"http://example.com/(S(hkfzwj45nwvvrr45wfgnpd55))/a/b.aspx"#,
        r#"com,example)/a/b.aspx"#,
    ),
    (
        r#"http://example.com/z/(hkfzwj45nwvvrr45wfgnpd55)/b.aspx?x"#,
        r#"com,example)/z/b.aspx?x"#,
    ),
    (
        r#"http://example.com/(hkfzwj45nwvvrr45wfgnpd55)/b.html"#,
        r#"com,example)/(hkfzwj45nwvvrr45wfgnpd55)/b.html"#,
    ),
    (
        r#"http://example.com/(S(hkfzwj45nwvvrr45wfgnpd55)F(hkfzwj45nwvvrr45wfgnpd55))/b.aspx"#,
        r#"com,example)/b.aspx"#,
    ),
    (
        r#"http://example.com/(hkfzwj45nwvvrr45wfgnpd55)/.aspx"#,
        r#"com,example)/(hkfzwj45nwvvrr45wfgnpd55)/.aspx"#,
    ),
    (
        r#"http://example.com/a.b.C/~user/index.php?id=%E3%81%82"#,
        r#"com,example)/a.b.c/~user/index.php?id=%e3%81%82"#,
    ),
    (r#"http://a..b.example/x"#, r#"example,b,a)/x"#),
    (
        r#"http://example.com/%7Bx%7D%5E%60%22"#,
        r#"com,example)/{x}^`""#,
    ),
];
