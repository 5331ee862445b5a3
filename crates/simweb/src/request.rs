//! Reads the head of an HTTP/1 request from a buffer. Takes what real clients send and refuses the rest; no answers here.

/// Bytes a request head may have.
pub(crate) const MAX_HEAD_BYTES: usize = 32 * 1024;

#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Request {
    pub(crate) method: Method,
    /// `/path?query`, as sent.
    pub(crate) target: String,
    pub(crate) host: Option<String>,
    pub(crate) http10: bool,
    pub(crate) close: bool,
    pub(crate) user_agent: String,
    pub(crate) accept_encoding: String,
    pub(crate) if_none_match: Option<String>,
    pub(crate) if_modified_since: Option<String>,
    pub(crate) content_length: u64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Method {
    #[default]
    Get,
    Head,
    Other,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Parsed {
    /// The request and the length of its head.
    Whole(Box<Request>, usize),
    NeedMore,
    Bad,
}

pub(crate) fn parse(buffer: &[u8]) -> Parsed {
    let Some(end) = buffer.windows(4).position(|w| w == b"\r\n\r\n") else {
        return if buffer.len() >= MAX_HEAD_BYTES {
            Parsed::Bad
        } else {
            Parsed::NeedMore
        };
    };
    let Ok(head) = std::str::from_utf8(&buffer[..end]) else {
        return Parsed::Bad;
    };
    match parse_head(head) {
        Some(request) => Parsed::Whole(Box::new(request), end + 4),
        None => Parsed::Bad,
    }
}

fn parse_head(head: &str) -> Option<Request> {
    let mut lines = head.split("\r\n");
    let mut words = lines.next()?.split(' ');
    let (method, target, version) = (words.next()?, words.next()?, words.next()?);
    if words.next().is_some() || !version.starts_with("HTTP/1.") {
        return None;
    }
    let http10 = version == "HTTP/1.0";
    let mut request = Request {
        method: match method {
            "GET" => Method::Get,
            "HEAD" => Method::Head,
            _ => Method::Other,
        },
        http10,
        close: http10,
        ..Request::default()
    };
    for line in lines {
        let (name, value) = line.split_once(':')?;
        read_header(&mut request, name, value.trim());
    }
    take_target(&mut request, target)?;
    Some(request)
}

fn read_header(request: &mut Request, name: &str, value: &str) {
    let is = |wanted: &str| name.eq_ignore_ascii_case(wanted);
    if is("host") {
        request.host = Some(value.to_owned());
    } else if is("user-agent") {
        request.user_agent = value.to_owned();
    } else if is("accept-encoding") {
        request.accept_encoding = value.to_ascii_lowercase();
    } else if is("connection") {
        if value.eq_ignore_ascii_case("close") {
            request.close = true;
        } else if value.eq_ignore_ascii_case("keep-alive") {
            request.close = false;
        }
    } else if is("if-none-match") {
        request.if_none_match = Some(value.to_owned());
    } else if is("if-modified-since") {
        request.if_modified_since = Some(value.to_owned());
    } else if is("content-length") {
        request.content_length = value.parse().unwrap_or(u64::MAX);
    } else if is("transfer-encoding") {
        request.content_length = u64::MAX;
    }
}

/// Origin form as it is; absolute form names the host too, and wins over the header.
fn take_target(request: &mut Request, target: &str) -> Option<()> {
    if target.starts_with('/') {
        request.target = target.to_owned();
        return Some(());
    }
    let rest = target
        .strip_prefix("http://")
        .or_else(|| target.strip_prefix("https://"))?;
    let cut = rest.find('/').unwrap_or(rest.len());
    request.host = Some(rest[..cut].to_owned());
    request.target = if cut == rest.len() {
        "/".to_owned()
    } else {
        rest[cut..].to_owned()
    };
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_are_read_one_at_a_time() {
        let two =
            b"GET /a?b HTTP/1.1\r\nHost: H1.x\r\nuser-agent: t\r\n\r\nHEAD / HTTP/1.0\r\n\r\n";
        let Parsed::Whole(first, used) = parse(two) else {
            panic!("first")
        };
        assert_eq!(
            (first.target.as_str(), first.host.as_deref()),
            ("/a?b", Some("H1.x"))
        );
        assert!(!first.close);
        let Parsed::Whole(second, rest) = parse(&two[used..]) else {
            panic!("second")
        };
        assert_eq!(
            (second.method, second.close, used + rest),
            (Method::Head, true, two.len())
        );
        assert_eq!(parse(b"GET / HTTP/1.1\r\n"), Parsed::NeedMore);
        for bad in [
            &b"GET /\r\n\r\n"[..],
            b"GET x HTTP/1.1\r\n\r\n",
            b"\xff\xfe\r\n\r\n",
            b"GET / HTTP/1.1\r\nx\r\n\r\n",
        ] {
            assert_eq!(parse(bad), Parsed::Bad);
        }
        assert_eq!(parse(&vec![b'a'; MAX_HEAD_BYTES]), Parsed::Bad);
        let Parsed::Whole(absolute, _) = parse(b"GET http://h2.x/q HTTP/1.1\r\nHost: h1\r\n\r\n")
        else {
            panic!("absolute")
        };
        assert_eq!(
            (absolute.host.as_deref(), absolute.target.as_str()),
            (Some("h2.x"), "/q")
        );
    }
}
