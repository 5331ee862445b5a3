//! The many spellings of one URL: how links write them, and how a request target is brought back to the canonical one.

use crate::seed::Draw;
use crate::web::{Web, hex_digit};

/// The canonical form of a request target: fragment and tracking parameters gone, dot segments resolved, unreserved characters
/// unescaped, escapes in capitals.
pub(crate) fn canonical_target(target: &str) -> String {
    let target = target.split('#').next().unwrap_or_default();
    let (path, query) = match target.split_once('?') {
        Some((path, query)) => (path, query),
        None => (target, ""),
    };
    let mut out = resolve_dots(&unescape_unreserved(path));
    let kept: Vec<&str> = query
        .split('&')
        .filter(|p| !p.is_empty() && !is_tracking(p))
        .collect();
    if !kept.is_empty() {
        out.push('?');
        out.push_str(&kept.join("&"));
    }
    out
}

fn is_tracking(parameter: &str) -> bool {
    parameter
        .get(..4)
        .is_some_and(|p| p.eq_ignore_ascii_case("utm_"))
}

fn unescape_unreserved(path: &str) -> String {
    let bytes = path.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let digit = |n: usize| bytes.get(at + n).and_then(|b| char::from(*b).to_digit(16));
        if bytes[at] == b'%'
            && let (Some(high), Some(low)) = (digit(1), digit(2))
        {
            let byte = (high * 16 + low) as u8;
            if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
                out.push(byte);
            } else {
                out.extend_from_slice(&[b'%', hex_digit(byte >> 4), hex_digit(byte & 15)]);
            }
            at += 3;
        } else {
            out.push(bytes[at]);
            at += 1;
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

fn resolve_dots(path: &str) -> String {
    if !path.contains("/.") {
        return path.to_owned();
    }
    let mut segments: Vec<&str> = Vec::new();
    let mut rest = path.split('/').skip(1).peekable();
    while let Some(segment) = rest.next() {
        let last = rest.peek().is_none();
        match segment {
            "." if last => segments.push(""),
            "." => {}
            ".." => {
                segments.pop();
                if last {
                    segments.push("");
                }
            }
            other => segments.push(other),
        }
    }
    format!("/{}", segments.join("/"))
}

/// Where a link stands, as far as its spelling depends on it.
pub(crate) struct Place {
    pub(crate) host: u32,
    /// Slashes in the page's path after the first: how often `../` leads to the root.
    pub(crate) depth: u32,
    /// Relative spellings are out of the question (another base, or a body that several URLs share).
    pub(crate) rooted: bool,
}

impl Web {
    /// Writes an href that means the page, in one of many ways.
    pub(crate) fn write_href(
        &self,
        place: &Place,
        host: u32,
        page: u32,
        draw: &mut Draw,
        out: &mut Vec<u8>,
    ) {
        if draw.chance(self.spec.links.alias_share) {
            return self.write_alias(host, page, draw, out);
        }
        let style = draw.bits() & 15;
        if host != place.host || style == 0 {
            if style == 1 && !place.rooted {
                out.extend_from_slice(b"//");
            } else {
                out.extend_from_slice(self.scheme.as_bytes());
                out.extend_from_slice(b"://");
            }
            self.write_authority(host, out);
            self.write_path(host, page, out);
        } else if style < 4 && !place.rooted {
            for _ in 0..place.depth {
                out.extend_from_slice(b"../");
            }
            let start = out.len();
            self.write_path(host, page, out);
            // The path's own leading slash would make it absolute.
            out.remove(start);
            if out.len() == start && place.depth == 0 {
                out.extend_from_slice(b"./");
            }
        } else {
            self.write_path(host, page, out);
        }
    }

    pub(crate) fn write_authority(&self, host: u32, out: &mut Vec<u8>) {
        out.push(b'h');
        crate::web::push_number(out, u64::from(host));
        out.push(b'.');
        out.extend_from_slice(self.spec.suffix.as_bytes());
        out.extend_from_slice(self.port_part.as_bytes());
    }

    fn write_alias(&self, host: u32, page: u32, draw: &mut Draw, out: &mut Vec<u8>) {
        let path = self.path(host, page);
        let name = self.host_name(host);
        let (scheme, port) = (self.scheme, &self.port_part);
        let default_port = if self.spec.tls { 443 } else { 80 };
        let second = path
            .as_bytes()
            .get(1)
            .copied()
            .filter(u8::is_ascii_alphanumeric);
        let join = if path.contains('?') { '&' } else { '?' };
        let text = match (draw.below(8), second) {
            (0, _) => format!(
                "{}://{}{port}{path}",
                scheme.to_uppercase(),
                name.to_uppercase()
            ),
            (1, _) if port.is_empty() => format!("{scheme}://{name}:{default_port}{path}"),
            (2, _) => format!("{scheme}://{name}{port}/.{path}"),
            (3, _) => format!("{scheme}://{name}{port}/gone/..{path}"),
            (4, Some(letter)) => {
                let (high, low) = (
                    hex_digit(letter >> 4) as char,
                    hex_digit(letter & 15) as char,
                );
                format!("{scheme}://{name}{port}/%{high}{low}{}", &path[2..])
            }
            (5, _) => {
                format!("{scheme}://{name}{port}{path}{join}utm_source=chart&amp;utm_medium=link")
            }
            (6, _) if join == '?' => format!("{scheme}://{name}{port}{path}?"),
            _ => format!("{scheme}://{name}{port}{path}#part{}", draw.below(9)),
        };
        out.extend_from_slice(text.as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::canonical_target;

    #[test]
    fn spellings_come_back_to_one() {
        for (spelled, plain) in [
            ("/d0/p1.html", "/d0/p1.html"),
            ("/./d0/p1.html", "/d0/p1.html"),
            ("/gone/../d0/p1.html", "/d0/p1.html"),
            ("/%640/p1.html", "/d0/p1.html"),
            ("/caf%c3%a9/p1.html", "/caf%C3%A9/p1.html"),
            ("/view?id=3&utm_source=a&UTM_medium=b", "/view?id=3"),
            ("/p1.html?utm_source=a", "/p1.html"),
            ("/p1.html?", "/p1.html"),
            ("/section3/#x", "/section3/"),
            ("/a/..", "/"),
            ("/a/.", "/a/"),
            ("/%", "/%"),
        ] {
            assert_eq!(canonical_target(spelled), plain, "{spelled}");
        }
    }
}
