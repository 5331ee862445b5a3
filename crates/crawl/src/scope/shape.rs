//! What can be refused by the form of a URL alone: length, depth, repetition, query, extension.

use super::ScopeSettings;
use portolan_model::{CanonicalUrl, Reason};
use std::fmt::Write;

/// Segments of a path that are looked at for repetition: a trap shows long before, and comparing
/// each with each stays cheap.
const MAX_SEGMENTS_COMPARED: usize = 32;

#[derive(Debug, Clone)]
pub(super) struct Shape {
    max_url_bytes: usize,
    max_directory_depth: Option<u32>,
    max_repeated_segments: usize,
    allow_query: bool,
    max_query_bytes: Option<usize>,
    max_query_parameters: Option<usize>,
    unwanted_extensions: Vec<String>,
}

impl Shape {
    pub(super) fn new(settings: &ScopeSettings) -> Self {
        Self {
            max_url_bytes: settings.max_url_bytes,
            max_directory_depth: settings.max_directory_depth,
            max_repeated_segments: settings.max_repeated_segments,
            allow_query: settings.allow_query,
            max_query_bytes: settings.max_query_bytes,
            max_query_parameters: settings.max_query_parameters,
            unwanted_extensions: settings
                .unwanted_extensions
                .iter()
                .map(|extension| extension.trim().trim_start_matches('.').to_owned())
                .collect(),
        }
    }

    pub(super) fn refuses(&self, url: &CanonicalUrl) -> Option<Reason> {
        if let Some(reason) = self.refuses_length(url) {
            return Some(reason);
        }
        let path = url.path();
        let deepest = self.max_directory_depth;
        if deepest.is_some_and(|max| url.directory_depth() > max as usize) {
            return Some(Reason::DirectoryDepth);
        }
        if self.max_repeated_segments > 0 && repeats(path, self.max_repeated_segments) {
            return Some(Reason::RepeatedSegments);
        }
        if url.query().is_some_and(|query| self.refuses_query(query)) {
            return Some(Reason::QueryRule);
        }
        if !self.unwanted_extensions.is_empty() && self.is_unwanted(extension(path)) {
            return Some(Reason::ContentTypeByName);
        }
        None
    }

    pub(super) fn refuses_length(&self, url: &CanonicalUrl) -> Option<Reason> {
        (url.as_str().len() > self.max_url_bytes).then_some(Reason::UrlLength)
    }

    fn refuses_query(&self, query: &str) -> bool {
        !self.allow_query
            || self.max_query_bytes.is_some_and(|max| query.len() > max)
            || self
                .max_query_parameters
                .is_some_and(|max| query.split('&').count() > max)
    }

    fn is_unwanted(&self, extension: Option<&str>) -> bool {
        extension.is_some_and(|extension| {
            self.unwanted_extensions
                .iter()
                .any(|unwanted| unwanted.eq_ignore_ascii_case(extension))
        })
    }
}

/// The texts as they may stand in a canonical URL: as given, and with escapes where a URL has them.
pub(super) fn reserved_spellings(texts: &[String]) -> Vec<String> {
    let mut spellings = Vec::new();
    for text in texts.iter().filter(|text| !text.is_empty()) {
        let mut escaped = String::new();
        for byte in text.bytes() {
            if byte.is_ascii_graphic() && !b"\"<>[\\]^`{|}".contains(&byte) {
                escaped.push(char::from(byte));
            } else {
                // Writing to a String cannot fail.
                let _ = write!(escaped, "%{byte:02X}");
            }
        }
        if escaped != *text {
            spellings.push(escaped);
        }
        spellings.push(text.clone());
    }
    spellings
}

fn extension(path: &str) -> Option<&str> {
    let name = path.rsplit('/').next()?;
    name.rsplit_once('.').map(|(_, extension)| extension)
}

/// Does a segment stand in the path more than `max` times, or a group of segments `max` times in a
/// row?
fn repeats(path: &str, max: usize) -> bool {
    // Most paths have too few segments to repeat anything.
    if path.bytes().filter(|&b| b == b'/').count() < max {
        return false;
    }
    let mut segments = [""; MAX_SEGMENTS_COMPARED];
    let mut count = 0;
    for segment in path.split('/').filter(|segment| !segment.is_empty()) {
        if count == MAX_SEGMENTS_COMPARED {
            break;
        }
        segments[count] = segment;
        count += 1;
    }
    let segments = &segments[..count];
    if count < max {
        return false;
    }
    let mut most = 0;
    for (n, segment) in segments.iter().enumerate() {
        // Fewer are left than would be needed.
        if count - n < max {
            break;
        }
        most = most.max(segments[n..].iter().filter(|s| *s == segment).count());
    }
    // A group can stand `max` times only if its segments do.
    most > max
        || (most == max && (2..=count / max).any(|group| group_repeats(segments, group, max)))
}

/// Does a group of `group` segments stand `max` times in a row?
fn group_repeats(segments: &[&str], group: usize, max: usize) -> bool {
    // Each segment that equals the one a group further on is one more step of repetition.
    let wanted = group * (max - 1);
    let mut run = 0;
    for (segment, further) in segments.iter().zip(&segments[group..]) {
        run = if segment == further { run + 1 } else { 0 };
        if run >= wanted && wanted > 0 {
            return true;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn traps_repeat_and_documents_do_not() {
        for path in [
            "/x/x/x/x",
            "/x/x/x/x/",
            "/a/b/a/b/a/b",
            "/q/a/b/a/b/a/b/z.html",
            "/a/b/c/a/b/c/a/b/c/",
            "/en/1/en/2/en/3/en/4",
            "/x//x//x//x",
        ] {
            assert!(repeats(path, 3), "{path}");
        }
        for path in [
            "/",
            "/x/x/x",
            "/a/b/a/b",
            "/a/b/a/b/a/c",
            "/a/b/c/d/e/f",
            "////////",
            "/2024/01/01/01.html",
        ] {
            assert!(!repeats(path, 3), "{path}");
        }
        assert!(repeats("/x/x", 1));
        assert!(!repeats("/x/y", 1));
        assert!(repeats("/x/y/x/y", 2));
        let long = "/a".repeat(1000);
        assert!(repeats(&long, 3));
        // Only the first segments are compared.
        let mut distinct: String = (0..MAX_SEGMENTS_COMPARED)
            .map(|n| format!("/{n}"))
            .collect();
        distinct.push_str(&long);
        assert!(!repeats(&distinct, 3));
    }

    #[test]
    fn reserved_text_is_found_in_its_escapes() {
        assert_eq!(
            reserved_spellings(&["~".into(), "ä b".into(), "".into(), "|".into()]),
            ["~", "%C3%A4%20b", "ä b", "%7C", "|"]
        );
    }

    #[test]
    fn extensions_are_those_of_the_last_segment() {
        for (path, expected) in [
            ("/a.html", Some("html")),
            ("/a.tar.gz", Some("gz")),
            ("/a.b/c", None),
            ("/", None),
            ("/a.", Some("")),
        ] {
            assert_eq!(extension(path), expected, "{path}");
        }
    }
}
