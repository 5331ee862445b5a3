//! Canonical forms against those of other crawlers (crawler-commons, Apache Nutch) and the public
//! suffix list. Other crawlers normalise by other rules: each difference is a decision, with its
//! reason in a table.

use crate::comparison::{self, Comparison};
use portolan_model::url::{CanonicalUrl, Canonicalizer};

const SCHEME: &str = "only http and https are crawled";
const NO_HOST: &str = "a URL without a host is an error, not a URL";
const EMPTY_SEGMENTS: &str = "empty segments are kept: a server may give them a meaning, and a \
    browser asks for them";
const ORDER: &str = "the order of parameters is kept: a server may give it a meaning";
const EMPTY_VALUE: &str = "'b' and 'b=' are kept apart: a server may see the difference";
const EMPTY_PARAMETERS: &str = "empty parameters are kept, and so is the order";
const DEFAULT_PAGE: &str = "index.html and the like are kept: only the server knows its default \
    page (Nutch ships this rule switched off)";
const FRAGMENT: &str = "a fragment ends with the URL, a '?' within it starts no query";
const SHORT_SID: &str =
    "'sid' may be a story or a section; it is dropped only with a session's value";
const CANONICAL: &str = "ours is resolved and canonical: no user, no fragment, upper-case escapes";

const CRAWLER_COMMONS: &[(&str, &str)] = &[
    ("http://foo.com//aa/bb/foo.html", EMPTY_SEGMENTS),
    ("http://foo.com/aa//bb/foo.html", EMPTY_SEGMENTS),
    ("http://foo.com/aa/bb//foo.html", EMPTY_SEGMENTS),
    ("http://foo.com//aa//bb//foo.html", EMPTY_SEGMENTS),
    ("http://foo.com////aa////bb//foo.html", EMPTY_SEGMENTS),
    ("http://foo.com////aa////bb////foo.html", EMPTY_SEGMENTS),
    ("file:///foo/bar.txt", SCHEME),
    ("ftp:/", SCHEME),
    ("http:////", NO_HOST),
    ("http:///////", NO_HOST),
    ("ftp://foo.com/index.html", SCHEME),
    ("file:/path/index.html", SCHEME),
    ("file:/var/www/html/////./bar/index.html", SCHEME),
    ("file:/var/www/html/foo/../bar/index.html", SCHEME),
    ("http://example.com/?b=1&a=1", ORDER),
    ("http://foo.com/foo.html?b=1&a=1", ORDER),
    ("http://foo.com/index?b=2&a=1", ORDER),
    ("http://foo.com/index?b=2&a=1#c", ORDER),
    ("http://foo.com/index?a=1&b=", EMPTY_VALUE),
    ("http://foo.com/index?b&a=1", ORDER),
    ("http://foo.com/index?b=&a=1", ORDER),
    ("http://foo.com/index?b=1&a=1&", EMPTY_PARAMETERS),
    ("http://foo.com/index?&b=1&a=1", EMPTY_PARAMETERS),
    ("http://foo.com/index?&=1&a=1", EMPTY_PARAMETERS),
    ("http://foo.com/index?=1&b=1&a=1", EMPTY_PARAMETERS),
];

const RESOLVE: &[(&str, &str)] = &[
    ("http://user:pass@foo:21/bar;par?b#c", CANONICAL),
    ("/a%2fc", CANONICAL),
    ("/a/%2f/c", CANONICAL),
    ("//server/file", SCHEME),
    ("#right-menu", CANONICAL),
];

const NUTCH: &[(&str, &str)] = &[
    (
        "http://www.foo.com/foo.php?&x=1&sid=xyz&something=1",
        SHORT_SID,
    ),
    ("http://www.foo.com/home/index.html", DEFAULT_PAGE),
    ("http://www.foo.com/index.html", DEFAULT_PAGE),
    ("http://www.foo.com/index.htm", DEFAULT_PAGE),
    ("http://www.foo.com/index.asp", DEFAULT_PAGE),
    ("http://www.foo.com/index.aspx", DEFAULT_PAGE),
    ("http://www.foo.com/index.php", DEFAULT_PAGE),
    ("http://www.foo.com/index.php3", DEFAULT_PAGE),
    ("http://www.foo.com/default.html", DEFAULT_PAGE),
    ("http://www.foo.com/default.htm", DEFAULT_PAGE),
    ("http://www.foo.com/default.asp", DEFAULT_PAGE),
    ("http://www.foo.com/default.aspx", DEFAULT_PAGE),
    ("http://www.foo.com/default.php", DEFAULT_PAGE),
    ("http://www.foo.com/default.php3", DEFAULT_PAGE),
    ("http://www.foo.com/index.phtml", DEFAULT_PAGE),
    ("http://www.foo.com/index.cfm", DEFAULT_PAGE),
    ("http://www.foo.com/index.cgi", DEFAULT_PAGE),
    ("http://www.foo.com/index.HTML", DEFAULT_PAGE),
    ("http://www.foo.com/index.Htm", DEFAULT_PAGE),
    ("http://www.foo.com/index.ASP", DEFAULT_PAGE),
    ("http://www.foo.com/index.jsp", DEFAULT_PAGE),
    ("http://www.foo.com/index.jsf", DEFAULT_PAGE),
    ("http://www.foo.com/index.jspx", DEFAULT_PAGE),
    ("http://www.foo.com/index.jspa", DEFAULT_PAGE),
    ("http://www.foo.com/index.aspX", DEFAULT_PAGE),
    ("http://www.foo.com/index.PhP", DEFAULT_PAGE),
    ("http://www.foo.com/index.PhP4", DEFAULT_PAGE),
    ("http://www.foo.com/default.HTml", DEFAULT_PAGE),
    ("http://www.foo.com/default.HTm", DEFAULT_PAGE),
    ("http://www.foo.com/default.ASp", DEFAULT_PAGE),
    ("http://www.foo.com/default.AspX", DEFAULT_PAGE),
    ("http://www.foo.com/default.PHP", DEFAULT_PAGE),
    ("http://www.foo.com/default.PHP3", DEFAULT_PAGE),
    ("http://www.foo.com/foo.html#something?x=y", FRAGMENT),
    ("http://www.foo.com/foo.html?&x=y", EMPTY_PARAMETERS),
    ("http://www.foo.com/foo.html?x=y&&&z=a", EMPTY_PARAMETERS),
    ("http://www.foo.com//path//foo.html", EMPTY_SEGMENTS),
    ("https://www.foo.com//path//foo.html", EMPTY_SEGMENTS),
    ("file:///path//foo.html", SCHEME),
    ("file:/path//foo.html", SCHEME),
];

#[test]
fn crawler_commons_normalizer() {
    const FILE: &str = "crawler-commons/normalizer/weirdToNormalizedUrls.csv";
    let Some(rows) = csv(FILE) else { return };
    let mut comparison = Comparison::new(FILE, CRAWLER_COMMONS);
    for row in &rows {
        let [weird, normalized] = &row[..] else {
            panic!("{FILE}: a row has two fields: {row:?}")
        };
        comparison.case(weird, Some(normalized), canonical(weird).as_deref());
    }
    comparison.finish(112);
}

#[test]
fn crawler_commons_invalid_urls() {
    const FILE: &str = "crawler-commons/normalizer/invalidUrls.csv";
    let Some(rows) = csv(FILE) else { return };
    let mut comparison = Comparison::new(FILE, &[]);
    for row in &rows {
        comparison.case(&row[0], None, canonical(&row[0]).as_deref());
    }
    comparison.finish(2);
}

#[test]
fn crawler_commons_resolve() {
    const FILE: &str = "crawler-commons/url-utils/url-resolve.csv";
    let Some(rows) = csv(FILE) else { return };
    let canonicalizer = Canonicalizer::default();
    let mut comparison = Comparison::new(FILE, RESOLVE);
    for row in &rows {
        let [href, base, resolved] = &row[..] else {
            panic!("{FILE}: a row has three fields: {row:?}")
        };
        let ours = match canonicalizer.parse(base) {
            Ok(base) => canonicalizer.resolve(&base, href),
            Err(_) => canonicalizer.parse(href),
        };
        comparison.case(
            href,
            Some(resolved),
            ours.ok().as_ref().map(CanonicalUrl::as_str),
        );
    }
    comparison.finish(22);
}

#[test]
fn nutch_regex_normalize() {
    // The other file, regex-normalize-scope1.test, does not apply: it reduces URLs to their site,
    // which is no canonical form.
    const FILE: &str = "nutch/normalize/regex-normalize-default.test";
    let Some(text) = comparison::read(FILE) else {
        return;
    };
    let mut comparison = Comparison::new(FILE, NUTCH);
    for line in text.lines().filter(|line| !is_comment(line)) {
        let (url, normalized) = line.split_once(' ').expect("a row has two fields");
        comparison.case(url, Some(normalized.trim()), canonical(url).as_deref());
    }
    comparison.finish(68);
}

#[test]
fn public_suffix_list() {
    const FILE: &str = "psl/test_psl.txt";
    let Some(text) = comparison::read(FILE) else {
        return;
    };
    let mut comparison = Comparison::new(FILE, &[]);
    for line in text.lines().filter(|line| !line.starts_with("//")) {
        let Some(arguments) = line
            .strip_prefix("checkPublicSuffix(")
            .and_then(|rest| rest.strip_suffix(");"))
        else {
            continue;
        };
        let (domain, expected) = arguments.split_once(", ").expect("two arguments");
        let unquoted = |text: &str| {
            let inner = text.strip_prefix('\'').and_then(|t| t.strip_suffix('\''));
            inner.map(str::to_owned)
        };
        // No name at all is not a question that can be put here.
        let Some(domain) = unquoted(domain) else {
            continue;
        };
        let Ok(url) = Canonicalizer::default().parse(&format!("http://{domain}/")) else {
            comparison.case(&domain, unquoted(expected).as_deref(), None);
            continue;
        };
        // Ours never says that there is none: the host stands for itself. The list's answers are
        // Unicode where its questions are; ours are always ASCII.
        let expected = match unquoted(expected) {
            None => url.host().to_owned(),
            Some(domain) => {
                let domain = Canonicalizer::default().parse(&format!("http://{domain}/"));
                domain.expect("a domain is a host").host().to_owned()
            }
        };
        comparison.case(&domain, Some(&expected), Some(url.registrable_domain()));
    }
    comparison.finish(77);
}

fn canonical(text: &str) -> Option<String> {
    let url = Canonicalizer::default().parse_seed(text).ok()?;
    Some(url.into_string())
}

fn is_comment(line: &str) -> bool {
    line.trim().is_empty() || line.starts_with('#')
}

/// Fields between commas, each possibly in quotes, with space around it.
fn csv(file: &str) -> Option<Vec<Vec<String>>> {
    let text = comparison::read(file)?;
    let rows = text.split('\n').filter(|line| !is_comment(line));
    Some(rows.map(fields).collect())
}

fn fields(line: &str) -> Vec<String> {
    let mut fields = vec![String::new()];
    let mut quoted = false;
    let mut characters = line.chars().peekable();
    while let Some(c) = characters.next() {
        let field = fields.last_mut().expect("there is always a field");
        match c {
            '"' if quoted && characters.peek() == Some(&'"') => {
                characters.next();
                field.push('"');
            }
            '"' if quoted => quoted = false,
            '"' if field.trim().is_empty() => {
                field.clear();
                quoted = true;
            }
            ',' if !quoted => fields.push(String::new()),
            _ => field.push(c),
        }
    }
    fields
        .iter()
        .map(|field| field.trim_matches(' ').to_owned())
        .collect()
}
