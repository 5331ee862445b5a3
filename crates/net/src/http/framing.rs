//! Where a body ends, and whether the connection can serve again after it. Read from the head
//! alone; nothing is read from the connection here.

use super::head::{Head, Version};
use super::oddity::{Oddities, Oddity};
use super::request::Method;
use crate::decode::Decoder;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Framing {
    Empty,
    Length(u64),
    Chunked,
    /// Until the server closes.
    Close,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct BodyPlan {
    pub(crate) framing: Framing,
    pub(crate) keep_alive: bool,
}

pub(crate) fn plan(head: &Head, method: Method, oddities: &mut Oddities) -> BodyPlan {
    if head.version() == Version::Http09 {
        return BodyPlan {
            framing: Framing::Close,
            keep_alive: false,
        };
    }
    let mut keep_alive = wants_keep_alive(head);
    if method == Method::Head || matches!(head.status(), 100..200 | 204 | 304) {
        return BodyPlan {
            framing: Framing::Empty,
            // After 101 the connection speaks something else.
            keep_alive: keep_alive && head.status() >= 200,
        };
    }
    let length = content_length(head, oddities, &mut keep_alive);
    let framing = match transfer_encoding(head, oddities) {
        Some(framing) => {
            if length.is_some() {
                oddities.add(Oddity::LengthAndChunked);
                keep_alive = false;
            }
            // By the book such a body ends with the connection. Who names a length may not close it.
            match (framing, length) {
                (Framing::Close, Some(length)) => Framing::Length(length),
                _ => framing,
            }
        }
        None => length.map_or(Framing::Close, Framing::Length),
    };
    BodyPlan {
        framing,
        keep_alive: keep_alive && framing != Framing::Close,
    }
}

fn wants_keep_alive(head: &Head) -> bool {
    let mut keep = head.version() == Version::Http11;
    for value in head.get_all("connection") {
        for token in tokens(value) {
            if token.eq_ignore_ascii_case(b"close") {
                return false;
            }
            keep |= token.eq_ignore_ascii_case(b"keep-alive");
        }
    }
    keep
}

/// The promised length. Of several the largest: cutting a body that the server meant to send loses
/// more than waiting for its end does. A body that ends with a smaller one is whole (`promises_length`).
fn content_length(head: &Head, oddities: &mut Oddities, keep_alive: &mut bool) -> Option<u64> {
    let mut length = None;
    for value in head.get_all("content-length").flat_map(tokens) {
        let Some(number) = decimal(value) else {
            oddities.add(Oddity::BadContentLength);
            *keep_alive = false;
            continue;
        };
        match length {
            None => length = Some(number),
            Some(before) if before == number => oddities.add(Oddity::RepeatedContentLength),
            Some(before) => {
                oddities.add(Oddity::ConflictingContentLength);
                *keep_alive = false;
                length = Some(before.max(number));
            }
        }
    }
    length
}

fn transfer_encoding(head: &Head, oddities: &mut Oddities) -> Option<Framing> {
    let mut framing = None;
    for token in head.get_all("transfer-encoding").flat_map(tokens) {
        if token.eq_ignore_ascii_case(b"chunked") {
            framing = Some(Framing::Chunked);
        } else if !token.eq_ignore_ascii_case(b"identity") {
            oddities.add(if Decoder::knows(token) {
                Oddity::CompressedTransfer
            } else {
                Oddity::UnknownTransferEncoding
            });
            framing = framing.or(Some(Framing::Close));
        }
    }
    framing
}

/// What undoes the compression of the transfer, where there is one: `Transfer-Encoding: gzip, chunked`.
pub(crate) fn transfer_decoder(head: &Head, max_bytes: u64) -> Option<Decoder> {
    let mut codings = String::new();
    for token in head.get_all("transfer-encoding").flat_map(tokens) {
        if !token.eq_ignore_ascii_case(b"chunked") {
            codings.push_str(&String::from_utf8_lossy(token));
            codings.push(',');
        }
    }
    Decoder::for_encoding(&codings, max_bytes)
}

/// Is this one of the lengths that the head promises? Of several that differ, one may come true.
pub(crate) fn promises_length(head: &Head, bytes: usize) -> bool {
    head.get_all("content-length")
        .flat_map(tokens)
        .any(|value| decimal(value) == Some(bytes as u64))
}

fn tokens(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    value
        .split(|&b| b == b',')
        .map(<[u8]>::trim_ascii)
        .filter(|token| !token.is_empty())
}

fn decimal(text: &[u8]) -> Option<u64> {
    text.iter().try_fold(0u64, |sum, &digit| {
        let digit = char::from(digit).to_digit(10)?;
        sum.checked_mul(10)?.checked_add(u64::from(digit))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn planned(head: &str, method: Method) -> (Framing, bool, Vec<Oddity>) {
        let mut oddities = Oddities::default();
        let head = Head::parse(head.replace('\n', "\r\n").as_bytes(), &mut oddities).unwrap();
        let plan = plan(&head, method, &mut oddities);
        (plan.framing, plan.keep_alive, oddities.iter().collect())
    }

    #[test]
    fn every_way_to_end_a_body() {
        use Framing::*;
        let cases: &[(&str, Framing, bool, &[Oddity])] = &[
            ("HTTP/1.1 200 OK\n", Close, false, &[]),
            ("HTTP/1.1 200 OK\nContent-Length: 5\n", Length(5), true, &[]),
            (
                "HTTP/1.1 200 OK\nContent-Length: 5\nConnection: Close\n",
                Length(5),
                false,
                &[],
            ),
            (
                "HTTP/1.0 200 OK\nContent-Length: 5\n",
                Length(5),
                false,
                &[],
            ),
            (
                "HTTP/1.0 200 OK\nContent-Length: 5\nConnection: foo, Keep-Alive\n",
                Length(5),
                true,
                &[],
            ),
            (
                "HTTP/1.1 200 OK\nTransfer-Encoding: Chunked\n",
                Chunked,
                true,
                &[],
            ),
            (
                "HTTP/1.1 200 OK\nTransfer-Encoding: identity\nContent-Length: 1\n",
                Length(1),
                true,
                &[],
            ),
            (
                "HTTP/1.1 200 OK\nTransfer-Encoding: chunked\nContent-Length: 1\n",
                Chunked,
                false,
                &[Oddity::LengthAndChunked],
            ),
            (
                "HTTP/1.1 200 OK\nTransfer-Encoding: snappy\n",
                Close,
                false,
                &[Oddity::UnknownTransferEncoding],
            ),
            (
                "HTTP/1.1 200 OK\nTransfer-Encoding: gzip\n",
                Close,
                false,
                &[Oddity::CompressedTransfer],
            ),
            (
                "HTTP/1.1 200 OK\nTransfer-Encoding: x-gzip, chunked\n",
                Chunked,
                true,
                &[Oddity::CompressedTransfer],
            ),
            (
                "HTTP/1.1 200 OK\nTransfer-Encoding: gzip\nContent-Length: 5\n",
                Length(5),
                false,
                &[Oddity::LengthAndChunked, Oddity::CompressedTransfer],
            ),
            (
                "HTTP/1.1 200 OK\nContent-Length: 5, 5\n",
                Length(5),
                true,
                &[Oddity::RepeatedContentLength],
            ),
            (
                "HTTP/1.1 200 OK\nContent-Length: 5\nContent-Length: 7\n",
                Length(7),
                false,
                &[Oddity::ConflictingContentLength],
            ),
            (
                "HTTP/1.1 200 OK\nContent-Length: -5\n",
                Close,
                false,
                &[Oddity::BadContentLength],
            ),
            (
                "HTTP/1.1 200 OK\nContent-Length: 99999999999999999999999\n",
                Close,
                false,
                &[Oddity::BadContentLength],
            ),
            ("HTTP/1.1 204 No\nContent-Length: 5\n", Empty, true, &[]),
            ("HTTP/1.1 304 No\nContent-Length: 5\n", Empty, true, &[]),
            ("HTTP/1.1 101 Up\n", Empty, false, &[]),
        ];
        for (head, framing, keep_alive, oddities) in cases {
            let found = planned(&format!("{head}\n"), Method::Get);
            assert_eq!(found, (*framing, *keep_alive, oddities.to_vec()), "{head}");
        }
        let head = "HTTP/1.1 200 OK\nContent-Length: 5\n\n";
        assert_eq!(planned(head, Method::Head), (Empty, true, vec![]));
    }
}
