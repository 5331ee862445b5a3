//! Parameters that name a visitor or a campaign instead of a document: which ones, and cutting them
//! out of a path segment or a query.

use serde::{Deserialize, Serialize};

use super::Scheme;
use super::escape::{Met, QUERY};

/// Which parameters are no part of a document's name. Plain data, set once for a crawl. Names
/// count without regard to letter case; a name that ends in `*` stands for all that start with it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CanonicalSettings {
    /// Schemes that are crawled besides http and https.
    pub also_schemes: Vec<Scheme>,
    /// Dropped from the query whatever their value.
    pub drop_parameters: Vec<String>,
    /// Dropped from the query only where the value looks like a session's: at least 24 letters and
    /// digits, both among them. (`sid` may be a story or a section as well.)
    pub drop_parameters_with_session_value: Vec<String>,
    /// Dropped from the query only where the other one stands in it too, as `cfid` beside `cftoken`:
    /// alone it may be a document's number.
    pub drop_parameters_beside: Vec<(String, String)>,
    /// Path segments of ASP.NET's sessions without cookies are dropped, as in `/(S(1q2w3e))/page.aspx`.
    pub drop_session_segments: bool,
    /// Dropped where they hang on a path segment or a parameter behind a semicolon, as in
    /// `/page.do;jsessionid=1A2B`.
    pub drop_semicolon_parameters: Vec<String>,
}

/// A session's value is at least as long as ASP's 24 letters; PHP's are 26 to 48, MD5 is 32.
const SESSION_VALUE_MIN_BYTES: usize = 24;

const TRACKING_AND_SESSION: &[&str] = &[
    // Campaigns.
    "utm_*",
    "mtm_*",
    "pk_campaign",
    "pk_cid",
    "pk_content",
    "pk_keyword",
    "pk_kwd",
    "pk_medium",
    "pk_source",
    "_openstat",
    "mkt_tok",
    // Clicks, by the advertiser that counts them.
    "gclid",
    "gclsrc",
    "dclid",
    "gbraid",
    "wbraid",
    "fbclid",
    "msclkid",
    "yclid",
    "ysclid",
    "twclid",
    "ttclid",
    "li_fat_id",
    "igshid",
    "epik",
    "wickedid",
    "rb_clickid",
    // Visitors, by the tool that follows them.
    "_ga",
    "_gl",
    "_hsenc",
    "_hsmi",
    "__hsfp",
    "__hssc",
    "__hstc",
    "hsctatracking",
    "mc_cid",
    "mc_eid",
    "oly_anon_id",
    "oly_enc_id",
    "vero_conv",
    "vero_id",
    // Sessions.
    "phpsessid",
    "jsessionid",
    "aspsessionid*",
    "_sessionid",
    "bv_sessionid",
    "cftoken",
    "oscsid",
    "zenid",
];

const AMBIGUOUS_SESSION: &[&str] = &[
    "sid",
    "_sid",
    "lsid",
    "sess",
    "sessid",
    "session",
    "session_id",
    "sessionid",
];

/// ColdFusion's: a number for the visitor, and a secret that proves it.
const BESIDE: &[(&str, &str)] = &[("cfid", "cftoken")];

const SEMICOLON_SESSION: &[&str] = &["jsessionid", "phpsessid"];

impl Default for CanonicalSettings {
    fn default() -> Self {
        let owned = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
        Self {
            also_schemes: Vec::new(),
            drop_parameters: owned(TRACKING_AND_SESSION),
            drop_parameters_with_session_value: owned(AMBIGUOUS_SESSION),
            drop_parameters_beside: BESIDE
                .iter()
                .map(|&(name, beside)| (name.to_owned(), beside.to_owned()))
                .collect(),
            drop_session_segments: true,
            drop_semicolon_parameters: owned(SEMICOLON_SESSION),
        }
    }
}

impl CanonicalSettings {
    /// Every parameter counts.
    pub fn keep_all_parameters() -> Self {
        Self {
            also_schemes: Vec::new(),
            drop_parameters: Vec::new(),
            drop_parameters_with_session_value: Vec::new(),
            drop_parameters_beside: Vec::new(),
            drop_session_segments: false,
            drop_semicolon_parameters: Vec::new(),
        }
    }
}

/// The settings, ready to be asked once for each parameter.
#[derive(Debug, Clone)]
pub(super) struct DropRules {
    always: Names,
    with_session_value: Names,
    /// What may be dropped, and what must stand beside it.
    beside: Vec<(Names, Names)>,
    session_segments: bool,
    behind_semicolon: Names,
}

impl DropRules {
    pub(super) fn new(settings: &CanonicalSettings) -> Self {
        Self {
            always: Names::new(&settings.drop_parameters),
            with_session_value: Names::new(&settings.drop_parameters_with_session_value),
            beside: settings
                .drop_parameters_beside
                .iter()
                .map(|(name, beside)| {
                    let names = |name: &String| Names::new(std::slice::from_ref(name));
                    (names(name), names(beside))
                })
                .collect(),
            session_segments: settings.drop_session_segments,
            behind_semicolon: Names::new(&settings.drop_semicolon_parameters),
        }
    }

    /// Appends `?` and the query without what is dropped; nothing where nothing is left.
    ///
    /// The order of parameters is kept: servers may give it a meaning (the first or last of two
    /// equal names wins, a form's fields are an ordered list), so that sorting could name a
    /// document that nobody linked. An order costs at most a second fetch, which the fingerprint
    /// then finds to be a copy.
    pub(super) fn push_query(&self, out: &mut String, query: &str) -> Met {
        let mut all_met = Met::default();
        let start = out.len();
        out.push('?');
        let mut kept_any = false;
        // Nothing stands beside a parameter that is alone.
        let may_pair = !self.beside.is_empty() && query.contains('&');
        for parameter in query.split('&') {
            let parameter_start = out.len();
            if kept_any {
                out.push('&');
            }
            let text_start = out.len();
            let met = QUERY.push(out, parameter);
            all_met.parser_only |= met.parser_only;
            if met.semicolon {
                self.cut_semicolon_parameters(out, text_start);
            }
            if self.drops(&out[text_start..])
                || (may_pair && self.drops_beside(&out[text_start..], query))
            {
                out.truncate(parameter_start);
            } else {
                kept_any = true;
            }
        }
        if out.len() == start + 1 {
            out.truncate(start);
        }
        all_met
    }

    /// Is this a parameter that goes where another one stands in the same query, and does it?
    fn drops_beside(&self, parameter: &str, query: &str) -> bool {
        let (name, _) = split_parameter(parameter);
        self.beside.iter().any(|(dropped, beside)| {
            dropped.contains(name)
                && query
                    .split('&')
                    .any(|other| beside.contains(split_parameter(other).0))
        })
    }

    /// Is this path segment, in canonical escapes, no more than a session's name? ASP.NET writes
    /// `(S(…))`, with an anonymous visitor's `A(…)`, a login's `F(…)` and `X(1)` before or behind it.
    pub(super) fn drops_segment(&self, segment: &str) -> bool {
        if !self.session_segments || !segment.starts_with('(') {
            return false;
        }
        let Some(mut rest) = segment
            .strip_prefix('(')
            .and_then(|inner| inner.strip_suffix(')'))
        else {
            return false;
        };
        let mut names_session = false;
        while let Some((kind, value)) = rest.split_once('(') {
            let Some((value, after)) = value.split_once(')') else {
                return false;
            };
            let is_value = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_');
            if !matches!(kind, "A" | "F" | "S" | "X")
                || value.is_empty()
                || !value.bytes().all(is_value)
            {
                return false;
            }
            names_session |= kind == "S";
            rest = after;
        }
        names_session && rest.is_empty()
    }

    /// Cuts dropped parameters out of the text from `start` on, each with its semicolon.
    pub(super) fn cut_semicolon_parameters(&self, out: &mut String, start: usize) {
        let mut at = start;
        while let Some(semicolon) = out[at..].find(';').map(|found| at + found) {
            let end = out[semicolon + 1..]
                .find(';')
                .map_or(out.len(), |found| semicolon + 1 + found);
            let (name, _) = split_parameter(&out[semicolon + 1..end]);
            if self.behind_semicolon.contains(name) {
                out.replace_range(semicolon..end, "");
                at = semicolon;
            } else {
                at = end;
            }
        }
    }

    fn drops(&self, parameter: &str) -> bool {
        let (name, value) = split_parameter(parameter);
        self.always.contains(name)
            || (self.with_session_value.contains(name) && is_session_value(value))
    }
}

fn split_parameter(parameter: &str) -> (&str, &str) {
    parameter.split_once('=').unwrap_or((parameter, ""))
}

fn is_session_value(value: &str) -> bool {
    value.len() >= SESSION_VALUE_MIN_BYTES
        && value.bytes().all(|b| b.is_ascii_alphanumeric())
        && value.bytes().any(|b| b.is_ascii_digit())
        && value.bytes().any(|b| b.is_ascii_alphabetic())
}

/// A set of names, found by their first letter: most parameters meet no candidate or one.
#[derive(Debug, Clone)]
struct Names {
    /// Sorted by the first byte.
    names: Vec<Name>,
    /// `names[by_first[b]..by_first[b + 1]]` start with the byte `b`.
    by_first: Box<[u16; 257]>,
}

#[derive(Debug, Clone)]
struct Name {
    /// In canonical escapes, ASCII lower case.
    text: String,
    is_prefix: bool,
}

impl Names {
    fn new(settings: &[String]) -> Self {
        let mut names: Vec<Name> = settings.iter().filter_map(|s| Name::new(s)).collect();
        names.sort_by(|a, b| a.text.cmp(&b.text));
        names.dedup_by(|a, b| a.text == b.text && a.is_prefix == b.is_prefix);
        // The table counts in u16; no settings file comes near.
        names.truncate(usize::from(u16::MAX));
        let mut by_first = Box::new([0; 257]);
        for (byte, start) in by_first.iter_mut().enumerate() {
            *start = names.partition_point(|name| usize::from(name.first()) < byte) as u16;
        }
        Self { names, by_first }
    }

    fn contains(&self, name: &str) -> bool {
        let Some(first) = name.bytes().next() else {
            return false;
        };
        let first = usize::from(first.to_ascii_lowercase());
        let candidates = self.by_first[first]..self.by_first[first + 1];
        self.names[usize::from(candidates.start)..usize::from(candidates.end)]
            .iter()
            .any(|candidate| candidate.matches(name.as_bytes()))
    }
}

impl Name {
    /// `None` for a name without any letter: it would stand for every parameter, or for none.
    fn new(setting: &str) -> Option<Self> {
        let (text, is_prefix) = match setting.trim().strip_suffix('*') {
            Some(prefix) => (prefix, true),
            None => (setting.trim(), false),
        };
        let mut canonical = String::new();
        QUERY.push(&mut canonical, text);
        canonical.make_ascii_lowercase();
        (!canonical.is_empty()).then_some(Self {
            text: canonical,
            is_prefix,
        })
    }

    fn first(&self) -> u8 {
        self.text.as_bytes()[0]
    }

    fn matches(&self, name: &[u8]) -> bool {
        let text = self.text.as_bytes();
        if self.is_prefix {
            name.len() >= text.len() && name[..text.len()].eq_ignore_ascii_case(text)
        } else {
            name.eq_ignore_ascii_case(text)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(settings: &CanonicalSettings, query: &str) -> String {
        let mut out = String::new();
        DropRules::new(settings).push_query(&mut out, query);
        out
    }

    #[test]
    fn tracking_and_sessions_go_and_the_rest_stays_in_order() {
        let settings = CanonicalSettings::default();
        for (query, expected) in [
            ("b=2&a=1", "?b=2&a=1"),
            ("", ""),
            ("utm_source=x", ""),
            ("a=1&UTM_Medium=x&b=2", "?a=1&b=2"),
            ("utm_source=x&b=2", "?b=2"),
            ("utm%5fsource=x&b=2", "?b=2"),
            ("utm=1", "?utm=1"),
            ("a=1&fbclid=x&gclid=y", "?a=1"),
            ("PHPSESSID=cdc993a493e899bed04f4d0c8a462a03", ""),
            ("phpsessid", ""),
            ("sid=42", "?sid=42"),
            ("CFID=12&CFTOKEN=8675309&id=3", "?id=3"),
            ("id=3&cftoken=8675309&cfid=12", "?id=3"),
            ("cfid=12&id=3", "?cfid=12&id=3"),
            ("CFID=12", "?CFID=12"),
            ("cfid=12&cftokens=1", "?cfid=12&cftokens=1"),
            (
                "sid=internationalconferenceproceedings",
                "?sid=internationalconferenceproceedings",
            ),
            ("sid=587fba8f825b05844526519fdb7d75c8&b=35", "?b=35"),
            ("a=1;jsessionid=1E6FEC0D", "?a=1"),
            ("a=1;x=2;JSESSIONID=1;y=3", "?a=1;x=2;y=3"),
            ("a=1&&b=2&", "?a=1&&b=2&"),
            ("=1", "?=1"),
        ] {
            assert_eq!(kept(&settings, query), expected, "{query}");
        }
    }

    #[test]
    fn can_be_switched_off_and_extended() {
        let off = CanonicalSettings::keep_all_parameters();
        assert_eq!(kept(&off, "utm_source=x&a"), "?utm_source=x&a");
        assert_eq!(kept(&off, "cfid=1&cftoken=2"), "?cfid=1&cftoken=2");
        let own = CanonicalSettings {
            drop_parameters: vec!["x[]".into(), "ref_*".into(), "*".into(), " ".into()],
            ..off
        };
        assert_eq!(kept(&own, "X[]=1&ref_a=1&y=2&ref=3"), "?y=2&ref=3");
    }

    #[test]
    fn only_sessions_are_dropped_from_paths() {
        let rules = DropRules::new(&CanonicalSettings::default());
        for segment in [
            "(S(lit3py55t21z5v55vlm25s55))",
            "(X(1)S(lit3py55t21z5v55vlm25s55))",
            "(A(sCn_x-1)F(abc)S(lit3py55t21z5v55vlm25s55))",
        ] {
            assert!(rules.drops_segment(segment), "{segment}");
        }
        for segment in [
            "",
            "(",
            "()",
            "(S)",
            "(S())",
            "(S(a)",
            "S(a)",
            "(S(a))b",
            "(S(a)b)",
            "(S(a b))",
            "(s(a))",
            "(T(a)S(b))",
            "(X(1))",
            "(2024)",
            "((S(a)))",
        ] {
            assert!(!rules.drops_segment(segment), "{segment}");
        }
        let off = DropRules::new(&CanonicalSettings::keep_all_parameters());
        assert!(!off.drops_segment("(S(lit3py55t21z5v55vlm25s55))"));
    }
}
