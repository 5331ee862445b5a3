//! Parsing and resolving against the web-platform-tests: what a browser makes of a URL, then our
//! canonical form. `setters_tests.json` does not apply: canonical URLs are not changed.

use crate::comparison::{self, Comparison};
use portolan_model::url::{CanonicalSettings, CanonicalUrl, Canonicalizer};
use serde_json::Value;

const PUNYCODE: &str = "the url crate refuses ASCII names whose Punycode is not valid, which a browser \
    takes as they are: nobody can register them";

const TABLES: &str = "the idna crate's tables take the unassigned U+3E8AC";
const EMPTY: &str = "a browser is not asked either: https:///x is the host x";

const NONE: &[(&str, &str)] = &[];

const IDNA_TEST_V2: &[(&str, &str)] = &[
    ("", EMPTY),
    ("\u{3e8ac}。\u{729}。\u{cbd9}5", TABLES),
    ("\u{3e8ac}。\u{729}。\u{110d}\u{1173}\u{11ac}5", TABLES),
];

/// Some 750 cases, all of one kind: an ASCII name with `xn--` that a browser takes and we do not.
fn is_undecodable_punycode(case: &str, expected: Option<&str>, ours: Option<&str>) -> bool {
    ours.is_none() && case.is_ascii() && expected.is_some_and(|name| name.contains("xn--"))
}

#[test]
fn urls_are_parsed_and_resolved_as_in_a_browser() {
    compare_urls("wpt/url/urltestdata.json", 7, 891);
}

#[test]
fn urls_with_lone_surrogates_are_parsed_as_in_a_browser() {
    compare_urls("wpt/url/urltestdata-javascript-only.json", 0, 1);
}

fn compare_urls(file: &'static str, undecodable: usize, at_least: usize) {
    let Some(cases) = cases(file) else { return };
    let canonicalizer = keeping_all();
    let mut comparison =
        Comparison::new(file, NONE).rule(PUNYCODE, is_undecodable_punycode, undecodable);
    for case in &cases {
        let input = text(case, "input").expect("a case has an input");
        let base = text(case, "base");
        // Other bases than http and https do not occur in a crawl; against them the result is
        // http or https only if the input is absolute.
        let ours = match base.and_then(|base| canonicalizer.parse(base).ok()) {
            Some(base) => canonicalizer.resolve(&base, input),
            None => canonicalizer.parse(input),
        };
        comparison.case(
            &format!("{input} @ {}", base.unwrap_or("")),
            canonical_of(case).as_deref(),
            ours.ok().as_ref().map(CanonicalUrl::as_str),
        );
    }
    comparison.finish(at_least);
}

#[test]
fn host_names_become_ascii() {
    compare_hosts("wpt/url/toascii.json", NONE, 7, 87);
}

#[test]
fn host_names_become_ascii_by_the_idna_tables() {
    compare_hosts("wpt/url/IdnaTestV2.json", IDNA_TEST_V2, 754, 2671);
}

#[test]
fn host_names_become_ascii_by_older_idna_tables() {
    compare_hosts("wpt/url/IdnaTestV2-removed.json", NONE, 0, 20);
}

fn compare_hosts(
    file: &'static str,
    declared: &[(&'static str, &'static str)],
    undecodable: usize,
    at_least: usize,
) {
    let Some(cases) = cases(file) else { return };
    let canonicalizer = keeping_all();
    let mut comparison =
        Comparison::new(file, declared).rule(PUNYCODE, is_undecodable_punycode, undecodable);
    for case in &cases {
        let input = text(case, "input").expect("a case has an input");
        let ours = canonicalizer
            .parse(&format!("https://{}/x", without_host_ends(input)))
            .ok();
        comparison.case(
            input,
            text(case, "output").and_then(without_root_dot),
            ours.as_ref().map(CanonicalUrl::host),
        );
    }
    comparison.finish(at_least);
}

#[test]
fn characters_are_encoded_as_utf_8() {
    // The other encodings of this file are those of queries on pages that are not UTF-8: whoever
    // reads such a page encodes the query before it is resolved.
    let Some(cases) = cases("wpt/url/percent-encoding.json") else {
        return;
    };
    let mut comparison = Comparison::new("wpt/url/percent-encoding.json", NONE);
    for case in &cases {
        let input = text(case, "input").expect("a case has an input");
        let ours = keeping_all()
            .parse(&format!("http://example.org/?{input}"))
            .expect("any query is allowed");
        let expected = canonical_escapes(
            case["output"]["utf-8"].as_str().expect("a UTF-8 output"),
            QUERY,
        );
        comparison.case(input, Some(&expected), ours.query());
    }
    comparison.finish(7);
}

/// Every parameter counts here: that they are dropped is ours alone, and tested elsewhere.
fn keeping_all() -> Canonicalizer {
    Canonicalizer::new(&CanonicalSettings::keep_all_parameters())
}

fn cases(file: &str) -> Option<Vec<Value>> {
    let json = without_lone_surrogates(&comparison::read(file)?);
    let all: Vec<Value> = serde_json::from_str(&json).expect("JSON");
    // Strings between the cases are comments.
    Some(all.into_iter().filter(Value::is_object).collect())
}

/// A browser replaces surrogates that lack their partner before it parses; Rust text cannot hold
/// them at all.
fn without_lone_surrogates(json: &str) -> String {
    let unit = |at: usize| {
        json.get(at..at + 6)
            .and_then(|escape| escape.strip_prefix("\\u"))
            .and_then(|digits| u16::from_str_radix(digits, 16).ok())
    };
    let mut out = String::with_capacity(json.len());
    let mut at = 0;
    while let Some(c) = json[at..].chars().next() {
        let length = match (c, unit(at)) {
            ('\\', Some(0xD800..=0xDBFF)) if matches!(unit(at + 6), Some(0xDC00..=0xDFFF)) => 12,
            ('\\', Some(0xD800..=0xDFFF)) => {
                out.push('\u{FFFD}');
                at += 6;
                continue;
            }
            // An escaped backslash starts no other escape.
            ('\\', _) => 2,
            _ => c.len_utf8(),
        };
        out.push_str(&json[at..at + length]);
        at += length;
    }
    out
}

fn text<'a>(case: &'a Value, key: &str) -> Option<&'a str> {
    case.get(key).and_then(Value::as_str)
}

/// The expected parts put together in canonical form, by other means than the code under test:
/// http and https only, no fragment, no user, no dot at the end of the host, no empty query, and
/// canonical escapes.
fn canonical_of(case: &Value) -> Option<String> {
    let scheme = text(case, "protocol")?;
    if !matches!(scheme, "http:" | "https:") {
        return None;
    }
    let host = without_root_dot(text(case, "hostname")?)?;
    let port = match text(case, "port")? {
        "" => String::new(),
        port => format!(":{port}"),
    };
    let path = canonical_escapes(text(case, "pathname")?, PATH);
    let query = canonical_escapes(text(case, "search")?, QUERY);
    Some(format!("{scheme}//{host}{port}{path}{query}"))
}

/// A name of dots alone, or with several dots at its end, cannot be resolved: we take it for no
/// host, where a browser takes it as it is.
fn without_root_dot(host: &str) -> Option<&str> {
    let host = host.strip_suffix('.').unwrap_or(host);
    (!host.is_empty() && !host.ends_with('.')).then_some(host)
}

/// What RFC 3986 allows, and what WHATWG leaves unescaped.
const PATH: &str = "-._~!$&'()*+,;=:@/";
const QUERY: &str = "-._~!$&()*+,;=:@/?";

fn canonical_escapes(text: &str, allowed: &str) -> String {
    let mut out = String::new();
    let mut rest = text.as_bytes();
    while let [first, after @ ..] = rest {
        let escape = std::str::from_utf8(&rest[1..rest.len().min(3)])
            .ok()
            .filter(|digits| *first == b'%' && digits.len() == 2)
            .and_then(|digits| u8::from_str_radix(digits, 16).ok());
        rest = if escape.is_some() { &after[2..] } else { after };
        let byte = escape.unwrap_or(*first);
        let kept = match escape {
            Some(byte) => byte.is_ascii_alphanumeric() || b"-._~".contains(&byte),
            None => byte.is_ascii_alphanumeric() || allowed.as_bytes().contains(&byte),
        };
        if kept {
            out.push(char::from(byte));
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
    out
}

/// The characters that end a host in a URL are escaped, as the web-platform-tests do it.
fn without_host_ends(input: &str) -> String {
    let mut out = String::new();
    for c in input.chars() {
        if matches!(c, ':' | '/' | '?' | '#' | '\\') {
            out.push_str(&format!("%{:02X}", u32::from(c)));
        } else {
            out.push(c);
        }
    }
    out
}
