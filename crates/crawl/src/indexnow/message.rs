//! What a ping says: URLs of one host, and where the key lies that shows that the host itself says so.

use portolan_model::{CanonicalUrl, Canonicalizer};
use serde::Deserialize;

/// As the protocol has it.
const MAX_URLS: usize = 10_000;
/// Letters, digits and dashes of a key.
const KEY_LENGTHS: std::ops::RangeInclusive<usize> = 8..=128;
/// Bytes of what came that are repeated in an answer.
const QUOTED_BYTES: usize = 200;

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Ping {
    /// At least one, all of one host.
    pub(super) urls: Vec<CanonicalUrl>,
    /// What the key's file has to hold, and where that is; `None` where no key is needed.
    pub(super) key: Option<Key>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Key {
    pub(super) text: String,
    pub(super) at: CanonicalUrl,
}

/// Why a ping is not taken, in a sentence.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// It is no ping.
    Malformed(String),
    /// It is one that nobody may send.
    Unfit(String),
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Body {
    host: String,
    key: Option<String>,
    key_location: Option<String>,
    url_list: Vec<String>,
}

/// What a ping is read with.
pub(super) struct Reader<'c> {
    pub(super) canonicalizer: &'c Canonicalizer,
    /// Who pings is trusted: a key is not needed, and not looked for.
    pub(super) is_trusted: bool,
}

impl Reader<'_> {
    /// `url=…&key=…&keyLocation=…`.
    pub(super) fn query(&self, query: &str) -> Result<Ping, Fault> {
        let value = |name: &str| {
            let mut pairs = form_urlencoded::parse(query.as_bytes());
            pairs.find_map(|(key, value)| (key == name).then(|| value.into_owned()))
        };
        let url = value("url").ok_or_else(|| malformed("the parameter 'url' is not there"))?;
        let url = self.url(&url)?;
        self.ping(vec![url], value("key"), value("keyLocation"))
    }

    /// `{"host": …, "key": …, "keyLocation": …, "urlList": […]}`.
    pub(super) fn json(&self, body: &[u8]) -> Result<Ping, Fault> {
        let body: Body =
            serde_json::from_slice(body).map_err(|e| malformed(&format!("the body is: {e}")))?;
        if body.url_list.is_empty() || body.url_list.len() > MAX_URLS {
            let found = body.url_list.len();
            return Err(malformed(&format!(
                "'urlList' has {found} URLs; 1 to {MAX_URLS} are allowed"
            )));
        }
        let host = self.url(&format!("http://{}/", body.host));
        let host = host.map_err(|_| malformed(&format!("'{}' is no host", quoted(&body.host))))?;
        let urls: Vec<CanonicalUrl> = (body.url_list.iter())
            .map(|text| self.url(text))
            .collect::<Result<_, _>>()?;
        if let Some(other) = urls.iter().find(|url| url.host() != host.host()) {
            return Err(Fault::Unfit(format!(
                "'{}' is not of the host '{}'",
                quoted(other.as_str()),
                quoted(&body.host)
            )));
        }
        self.ping(urls, body.key, body.key_location)
    }

    fn ping(
        &self,
        urls: Vec<CanonicalUrl>,
        key: Option<String>,
        location: Option<String>,
    ) -> Result<Ping, Fault> {
        if self.is_trusted {
            return Ok(Ping { urls, key: None });
        }
        let text = key.ok_or_else(|| malformed("'key' is not there"))?;
        let is_key = KEY_LENGTHS.contains(&text.len())
            && (text.bytes()).all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
        if !is_key {
            return Err(Fault::Unfit(
                "a key has 8 to 128 letters, digits and dashes".to_owned(),
            ));
        }
        let Some(first) = urls.first() else {
            return Err(malformed("no URL is there"));
        };
        let at = match location {
            Some(location) => self.url(&location)?,
            None => self.url(&format!("{}/{text}.txt", first.origin()))?,
        };
        let folder = at.path().rsplit_once('/').map_or("", |(folder, _)| folder);
        let below = format!("{folder}/");
        let speaks_for =
            |url: &CanonicalUrl| is_same_site(url, &at) && url.path().starts_with(&below);
        if let Some(other) = urls.iter().find(|url| !speaks_for(url)) {
            return Err(Fault::Unfit(format!(
                "a key at '{}' says nothing of '{}'",
                quoted(at.as_str()),
                quoted(other.as_str())
            )));
        }
        let key = Some(Key { text, at });
        Ok(Ping { urls, key })
    }

    fn url(&self, text: &str) -> Result<CanonicalUrl, Fault> {
        let wrong = || malformed(&format!("'{}' is no URL of a page", quoted(text)));
        let text = text.trim();
        let has_scheme = ["http://", "https://"].iter().any(|scheme| {
            let start = text.get(..scheme.len());
            start.is_some_and(|start| start.eq_ignore_ascii_case(scheme))
        });
        let url = has_scheme.then(|| self.canonicalizer.parse_seed(text).ok());
        url.flatten().ok_or_else(wrong)
    }
}

/// The same host, by the same port or both by their schemes' own.
fn is_same_site(a: &CanonicalUrl, b: &CanonicalUrl) -> bool {
    let is_usual = |url: &CanonicalUrl| url.port() == url.scheme().default_port();
    a.host() == b.host() && (a.port() == b.port() || is_usual(a) && is_usual(b))
}

fn malformed(why: &str) -> Fault {
    Fault::Malformed(why.to_owned())
}

/// Its beginning, without what would not be shown as it is.
fn quoted(text: &str) -> String {
    let mut end = text.len().min(QUOTED_BYTES);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    let shown = |c: char| if c.is_control() { '?' } else { c };
    text[..end].chars().map(shown).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const KEY: &str = "0123abcd-EF";

    fn read(text: &str, is_trusted: bool) -> Result<Ping, Fault> {
        let canonicalizer = Canonicalizer::new(&crate::Settings::default().urls);
        let reader = Reader {
            canonicalizer: &canonicalizer,
            is_trusted,
        };
        match text.starts_with('{') {
            true => reader.json(text.as_bytes()),
            false => reader.query(text),
        }
    }

    fn status(text: &str) -> u16 {
        match read(text, false) {
            Ok(_) => 200,
            Err(Fault::Malformed(_)) => 400,
            Err(Fault::Unfit(_)) => 422,
        }
    }

    #[test]
    fn one_url_or_many_are_read_with_where_their_key_lies() {
        let one = read(
            &format!("key={KEY}&url=https%3A%2F%2Fwww.a.test%2Fx%3Fq%3D1"),
            false,
        )
        .expect("a ping");
        assert_eq!(one.urls[0].as_str(), "https://www.a.test/x?q=1");
        let key = one.key.expect("a key");
        assert_eq!(key.at.as_str(), format!("https://www.a.test/{KEY}.txt"));
        let many = format!(
            r#"{{"host":"WWW.a.test","key":"{KEY}","keyLocation":"https://www.a.test/shop/k.txt",
                "urlList":["https://www.a.test/shop/1","http://www.a.test/shop/2"],"more":1}}"#
        );
        let many = read(&many, false).expect("a ping");
        assert_eq!(many.urls.len(), 2);
        let key = many.key.expect("a key");
        assert_eq!(key.at.as_str(), "https://www.a.test/shop/k.txt");
        let trusted = read("url=http://a.test/", true).expect("a ping");
        assert_eq!(trusted.key, None);
    }

    #[test]
    fn what_is_no_ping_and_what_nobody_may_say_is_told_apart() {
        let post = |host: &str, key: &str, at: &str, url: &str| {
            format!(r#"{{"host":"{host}","key":"{key}","keyLocation":"{at}","urlList":["{url}"]}}"#)
        };
        let at = "http://a.test/k.txt";
        for (text, expected) in [
            (String::new(), 400),
            (format!("url=http://a.test/&key={KEY}"), 200),
            (format!("url=a.test&key={KEY}"), 400),
            (format!("url=ftp://a.test/&key={KEY}"), 400),
            ("url=http://a.test/".to_owned(), 400),
            ("url=http://a.test/&key=short".to_owned(), 422),
            ("url=http://a.test/&key=12345678%2F..%2Fx".to_owned(), 422),
            (
                format!("url=http://a.test/&key={KEY}&keyLocation=http://b.test/k"),
                422,
            ),
            ("{".to_owned(), 400),
            (r#"{"host":"a.test"}"#.to_owned(), 400),
            (
                format!(r#"{{"host":"a.test","key":"{KEY}","urlList":[]}}"#),
                400,
            ),
            (post("a.test", KEY, at, "http://a.test/x"), 200),
            (post("a.test", KEY, at, "http://b.test/x"), 422),
            (post("", KEY, at, "http://a.test/x"), 400),
            (
                post("a.test", KEY, "http://a.test/in/k.txt", "http://a.test/x"),
                422,
            ),
            (post("a.test", KEY, at, "http://a.test:8080/x"), 422),
            (post("a.test", KEY, at, "https://a.test/x"), 200),
        ] {
            assert_eq!(status(&text), expected, "{text}");
        }
        let urls = vec!["\"http://a.test/\""; MAX_URLS + 1].join(",");
        let many = format!(r#"{{"host":"a.test","key":"{KEY}","urlList":[{urls}]}}"#);
        assert_eq!(status(&many), 400);
    }

    proptest! {
        #[test]
        fn any_text_is_an_answer(text in ".{0,300}") {
            let _ = read(&text, false);
            let _ = read(&format!("url=http://{text}"), true);
            prop_assert!(quoted(&text).len() <= QUOTED_BYTES);
        }
    }
}
