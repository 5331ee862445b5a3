//! SURT: the sort-friendly key of a URL in a CDXJ index, equal to what the Python package `surt`
//! 0.3 gives `cdxj-indexer` and `pywb`. That canonicalisation is older and coarser than ours (it
//! folds letter case, sorts parameters and forgets `www.`) and is for looking things up only.

use super::CanonicalUrl;
use super::escape::{escaped_byte, push_escape};

pub(super) fn surt(url: &CanonicalUrl) -> String {
    let mut out = String::with_capacity(url.as_str().len() + 1);
    push_host(&mut out, url.host());
    // The authority holds a port only where it is not the scheme's own.
    out.push_str(&url.authority()[url.host().len()..]);
    out.push(')');
    out.push_str(&path_key(url.path()));
    if let Some(query) = url.query() {
        let query = query_key(query);
        if !query.is_empty() {
            out.push('?');
            out.push_str(&query);
        }
    }
    out
}

/// Labels from the right, IPv4 addresses too; an IPv6 address loses its brackets.
fn push_host(out: &mut String, host: &str) {
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let mut labels = without_www(host)
        .split('.')
        .rev()
        .filter(|label| !label.is_empty());
    if let Some(first) = labels.next() {
        out.push_str(first);
    }
    for label in labels {
        out.push(',');
        out.push_str(label);
    }
}

/// Without a first label of `www` or `www` and digits.
fn without_www(host: &str) -> &str {
    host.strip_prefix("www")
        .map(|rest| rest.trim_start_matches(|c: char| c.is_ascii_digit()))
        .and_then(|rest| rest.strip_prefix('.'))
        .unwrap_or(host)
}

fn path_key(path: &str) -> String {
    let decoded = unescaped(path);
    let mut path = escaped_lower(&without_dots_and_empty_segments(&decoded));
    cut_aspx_session(&mut path, is_labelled_aspx_session);
    cut_aspx_session(&mut path, is_bare_aspx_session);
    if path.len() > 1 && path.ends_with('/') {
        path.pop();
    }
    path
}

fn query_key(query: &str) -> String {
    let mut query = escaped_lower(&unescaped(query));
    for name in ["jsessionid=", "phpsessid=", "sid="] {
        cut_last(&mut query, |text| {
            last_of(text, name, |value| {
                run(value, u8::is_ascii_alphanumeric, 32)
            })
        });
    }
    cut_last(&mut query, |text| {
        last_of(text, "aspsessionid", |rest| {
            let name = run(rest, u8::is_ascii_alphabetic, 8)?;
            let value = rest[name..].strip_prefix('=')?;
            Some(name + 1 + run(value, u8::is_ascii_alphabetic, 24)?)
        })
    });
    cut_last(&mut query, last_cold_fusion_session);
    sorted_parameters(&query)
}

/// Decoded until no escape is left. One pass: a byte that completes an escape is folded into it at
/// once, so that nested escapes (`%252525…`) cost no more than plain ones.
fn unescaped(text: &str) -> Vec<u8> {
    let mut out: Vec<u8> = Vec::with_capacity(text.len());
    for byte in text.bytes() {
        out.push(byte);
        while let Some(start) = out.len().checked_sub(3) {
            let Some(decoded) = escaped_byte(&out[start..]) else {
                break;
            };
            out.truncate(start);
            out.push(decoded);
        }
    }
    out
}

/// Everything but printable ASCII is escaped, and `#` and `%`; all in lower case.
fn escaped_lower(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len());
    for &byte in bytes {
        if byte.is_ascii_graphic() && byte != b'#' && byte != b'%' {
            out.push(char::from(byte));
        } else {
            push_escape(&mut out, byte);
        }
    }
    out.make_ascii_lowercase();
    out
}

/// Dots may have appeared by decoding. `..` above the root stays, as it does in the original.
fn without_dots_and_empty_segments(path: &[u8]) -> Vec<u8> {
    let mut kept: Vec<&[u8]> = Vec::new();
    for segment in path.split(|&b| b == b'/').skip(1) {
        match segment {
            b"." => {}
            b".." if !kept.is_empty() => {
                kept.pop();
            }
            _ => kept.push(segment),
        }
    }
    let last = kept.pop().unwrap_or_default();
    let mut out = vec![b'/'];
    for segment in kept.into_iter().filter(|segment| !segment.is_empty()) {
        out.extend_from_slice(segment);
        out.push(b'/');
    }
    out.extend_from_slice(last);
    out
}

/// Cuts the last directory that holds an ASP.NET session id, if an `.aspx` page follows.
fn cut_aspx_session(path: &mut String, is_session: fn(&str) -> bool) {
    // Behind the last `.aspx` no page follows, and a `?` (decoded from its escape) hides it.
    let mut segment_end = path.len();
    while let Some(slash) = path[..segment_end].rfind('/') {
        let segment = &path[slash + 1..segment_end];
        if is_session(segment) && segment_end < path.len() {
            let rest = &path[segment_end + 1..];
            let page = rest.find('?').map_or(rest, |at| &rest[..at]);
            if page.rfind(".aspx").is_some_and(|at| at > 0) {
                path.replace_range(slash + 1..segment_end + 1, "");
                return;
            }
        }
        segment_end = slash;
    }
}

/// As in `(24 characters)`.
fn is_bare_aspx_session(segment: &str) -> bool {
    segment
        .strip_prefix('(')
        .and_then(|rest| rest.strip_suffix(')'))
        .is_some_and(|id| run(id, u8::is_ascii_alphanumeric, 24) == Some(id.len()))
}

/// As in `(s(24 characters)f(24 characters))`.
fn is_labelled_aspx_session(segment: &str) -> bool {
    let Some(mut rest) = segment
        .strip_prefix('(')
        .and_then(|rest| rest.strip_suffix(')'))
    else {
        return false;
    };
    while !rest.is_empty() {
        let after = rest
            .strip_prefix(|c: char| c.is_ascii_alphabetic())
            .and_then(|rest| rest.strip_prefix('('))
            .and_then(|id| run(id, u8::is_ascii_alphanumeric, 24).map(|end| &id[end..]))
            .and_then(|rest| rest.strip_prefix(')'));
        match after {
            Some(after) => rest = after,
            None => return false,
        }
    }
    segment.len() > 2
}

/// Cuts the range that `find` names, and the `&` behind it.
fn cut_last(query: &mut String, find: impl Fn(&str) -> Option<(usize, usize)>) {
    if let Some((start, end)) = find(query) {
        let end = (end + 1).min(query.len());
        query.replace_range(start..end, "");
    }
}

/// The last place where `name` is followed by what `value_bytes` accepts, and then by `&` or the
/// end.
fn last_of(
    text: &str,
    name: &str,
    value_bytes: impl Fn(&str) -> Option<usize>,
) -> Option<(usize, usize)> {
    text.rmatch_indices(name).find_map(|(start, _)| {
        let value_start = start + name.len();
        let end = value_start + value_bytes(&text[value_start..])?;
        ends_parameter(text, end).then_some((start, end))
    })
}

/// ColdFusion's pair: `cfid=…&cftoken=…`.
fn last_cold_fusion_session(text: &str) -> Option<(usize, usize)> {
    text.rmatch_indices("&cftoken=").find_map(|(amp, token)| {
        let value_start = amp + token.len();
        let end = text[value_start..]
            .find('&')
            .map_or(text.len(), |at| value_start + at);
        let parameter_start = text[..amp].rfind('&').map_or(0, |at| at + 1);
        let start = parameter_start
            + text[parameter_start..amp]
                .rmatch_indices("cfid=")
                .map(|(at, name)| (at, at + name.len()))
                .find(|&(_, id_start)| parameter_start + id_start < amp)?
                .0;
        (end > value_start).then_some((start, end))
    })
}

fn ends_parameter(text: &str, at: usize) -> bool {
    matches!(text.as_bytes().get(at), None | Some(b'&'))
}

/// `count`, if the text starts with that many bytes of the kind.
fn run(text: &str, is_kind: fn(&u8) -> bool, count: usize) -> Option<usize> {
    let bytes = text.as_bytes().get(..count)?;
    bytes.iter().all(is_kind).then_some(count)
}

fn sorted_parameters(query: &str) -> String {
    // By name, then by value; a name without `=` comes before the same name with one.
    let mut parameters: Vec<(&str, Option<&str>)> = query
        .split('&')
        .map(|parameter| match parameter.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (parameter, None),
        })
        .collect();
    parameters.sort_unstable();
    let mut out = String::with_capacity(query.len());
    for (n, (name, value)) in parameters.into_iter().enumerate() {
        if n > 0 {
            out.push('&');
        }
        out.push_str(name);
        if let Some(value) = value {
            out.push('=');
            out.push_str(value);
        }
    }
    out
}

#[cfg(test)]
mod tests;
