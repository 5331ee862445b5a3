//! Content types: a header's value parsed as WHATWG mimesniff says, a guess from the first bytes of a body
//! (`sniff`), and which of our parsers a body gets (`kind`). Decoding text is not done here.

mod kind;
mod sniff;
#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::fmt;

pub use kind::{DocumentKind, kind_of};
pub(crate) use sniff::utf8_by_bom;
pub use sniff::{SNIFF_BYTES, is_gzip, sniff};

/// More parameters than any sender means; a header is not allowed to make us search a longer list.
const MAX_PARAMETERS: usize = 64;

/// A parsed MIME type.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MimeType {
    essence: String,
    slash: usize,
    parameters: Vec<(String, String)>,
}

impl MimeType {
    /// Parses a MIME type; `None` where the standard says failure.
    pub fn parse(input: &str) -> Option<MimeType> {
        let input = trim(input, is_http_whitespace);
        let (kind, rest) = input.split_once('/')?;
        let (subtype, mut rest) = match rest.split_once(';') {
            Some((subtype, rest)) => (subtype, Some(rest)),
            None => (rest, None),
        };
        let subtype = subtype.trim_end_matches(is_http_whitespace);
        if !is_token(kind) || !is_token(subtype) {
            return None;
        }
        let mut mime = MimeType {
            essence: format!("{kind}/{subtype}").to_ascii_lowercase(),
            slash: kind.len(),
            parameters: Vec::new(),
        };
        while let Some(text) = rest {
            rest = mime.take_parameter(text);
        }
        Some(mime)
    }

    /// Parses a header's value as it came, octet for octet.
    pub fn parse_header(value: &[u8]) -> Option<MimeType> {
        if value.is_ascii() {
            // ASCII is UTF-8, so nothing is lost.
            return MimeType::parse(&String::from_utf8_lossy(value));
        }
        let isomorphic: String = value.iter().map(|&b| char::from(b)).collect();
        MimeType::parse(&isomorphic)
    }

    /// `text/html`, lower-case.
    pub fn essence(&self) -> &str {
        &self.essence
    }

    /// `text` of `text/html`.
    pub fn kind(&self) -> &str {
        &self.essence[..self.slash]
    }

    /// `html` of `text/html`.
    pub fn subtype(&self) -> &str {
        &self.essence[self.slash + 1..]
    }

    pub fn parameter(&self, name: &str) -> Option<&str> {
        let mut parameters = self.parameters.iter();
        let (_, value) = parameters.find(|(n, _)| n.eq_ignore_ascii_case(name))?;
        Some(value)
    }

    /// The `charset` parameter, as written: a label, not yet an encoding.
    pub fn charset(&self) -> Option<&str> {
        self.parameter("charset")
    }

    pub fn is_html(&self) -> bool {
        self.essence == "text/html"
    }

    pub fn is_xml(&self) -> bool {
        matches!(&*self.essence, "text/xml" | "application/xml") || self.subtype().ends_with("+xml")
    }

    /// Reads one parameter and returns what follows its `;`.
    fn take_parameter<'a>(&mut self, text: &'a str) -> Option<&'a str> {
        let text = text.trim_start_matches(is_http_whitespace);
        let name_end = text.find([';', '='])?;
        let (name, rest) = text.split_at(name_end);
        let rest = match rest.strip_prefix('=') {
            Some(rest) => rest,
            None => return rest.strip_prefix(';'),
        };
        let (value, rest) = if let Some(quoted) = rest.strip_prefix('"') {
            let (value, rest) = quoted_string(quoted);
            (value, rest.split_once(';').map(|(_, rest)| rest))
        } else {
            let (value, rest) = match rest.split_once(';') {
                Some((value, rest)) => (value, Some(rest)),
                None => (rest, None),
            };
            let value = value.trim_end_matches(is_http_whitespace);
            if value.is_empty() {
                return rest;
            }
            (Cow::Borrowed(value), rest)
        };
        if is_token(name)
            && value.chars().all(is_quoted_string_char)
            && self.parameter(name).is_none()
            && self.parameters.len() < MAX_PARAMETERS
        {
            self.parameters
                .push((name.to_ascii_lowercase(), value.into_owned()));
        }
        rest
    }
}

/// The standard's serialisation.
impl fmt::Display for MimeType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.essence)?;
        for (name, value) in &self.parameters {
            write!(f, ";{name}=")?;
            if is_token(value) {
                f.write_str(value)?;
            } else {
                let escaped = value.replace('\\', "\\\\").replace('"', "\\\"");
                write!(f, "\"{escaped}\"")?;
            }
        }
        Ok(())
    }
}

/// The value of a quoted string that started before `text`, and what follows its closing quote.
fn quoted_string(text: &str) -> (Cow<'_, str>, &str) {
    let mut value = String::new();
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match c {
            '"' => break,
            // A backslash at the very end stands for itself.
            '\\' => value.push(chars.next().unwrap_or('\\')),
            c => value.push(c),
        }
    }
    (Cow::Owned(value), chars.as_str())
}

fn trim(text: &str, unwanted: fn(char) -> bool) -> &str {
    text.trim_start_matches(unwanted).trim_end_matches(unwanted)
}

fn is_http_whitespace(c: char) -> bool {
    matches!(c, '\t' | '\n' | '\r' | ' ')
}

fn is_token(text: &str) -> bool {
    !text.is_empty()
        && text
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c))
}

fn is_quoted_string_char(c: char) -> bool {
    matches!(c, '\t' | ' '..='~' | '\u{80}'..='\u{FF}')
}
