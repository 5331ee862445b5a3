//! The handshake with an HTTP proxy: `CONNECT`, after which the connection leads to the server (RFC 9110, 9.3.6). And requests that
//! such a proxy is given whole, for proxies that resolve names.

use super::Target;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

/// A proxy's answer to CONNECT may have this long a head.
const MAX_HEAD_BYTES: usize = 16 * 1024;

pub(crate) async fn lead(
    stream: &mut (impl AsyncRead + AsyncWrite + Unpin),
    target: Target<'_>,
    authorization: Option<&str>,
    user_agent: &str,
) -> Result<(), String> {
    let mut request = format!("CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n");
    let fields = [
        ("User-Agent", Some(user_agent)),
        ("Proxy-Authorization", authorization),
    ];
    for (name, value) in fields {
        if let Some(value) = value.filter(|value| !value.is_empty()) {
            request.push_str(&format!("{name}: {value}\r\n"));
        }
    }
    request.push_str("\r\n");
    let lost = |error: std::io::Error| format!("the connection to it was lost: {error}");
    stream.write_all(request.as_bytes()).await.map_err(lost)?;
    stream.flush().await.map_err(lost)?;
    let mut head = Vec::new();
    // Byte by byte: what comes after the head is the server's.
    while !head.ends_with(b"\r\n\r\n") && !head.ends_with(b"\n\n") {
        if head.len() >= MAX_HEAD_BYTES {
            return Err("its answer has no end".to_owned());
        }
        match stream.read_u8().await {
            Ok(byte) => head.push(byte),
            Err(error) => return Err(lost(error)),
        }
    }
    let line = head.split(|&b| b == b'\n').next().unwrap_or_default();
    let line = String::from_utf8_lossy(line)
        .trim()
        .escape_debug()
        .to_string();
    let status = line
        .split(' ')
        .nth(1)
        .and_then(|code| code.parse::<u16>().ok());
    match status {
        Some(200..=299) if line.starts_with("HTTP/1.") => Ok(()),
        Some(407) => Err(format!("it wants another user and password: '{line}'")),
        _ => Err(format!("it answered '{line}'")),
    }
}

/// How requests for plain http are written to a proxy that is given them whole.
#[derive(Clone)]
pub(crate) struct Forward {
    /// `http://example.org`
    pub(crate) origin: String,
    pub(crate) authorization: Option<String>,
}

impl Forward {
    /// The request for the proxy: with the whole URL, and with what is for the proxy alone.
    pub(crate) fn rewritten(&self, head: &[u8]) -> Vec<u8> {
        let mut out = Vec::with_capacity(head.len() + 128);
        let path = head.iter().position(|&b| b == b' ').map_or(0, |at| at + 1);
        out.extend_from_slice(&head[..path]);
        out.extend_from_slice(self.origin.as_bytes());
        let rest = &head[path..];
        out.extend_from_slice(rest.strip_suffix(b"\r\n").unwrap_or(rest));
        if let Some(authorization) = &self.authorization {
            out.extend_from_slice(format!("Proxy-Authorization: {authorization}\r\n").as_bytes());
        }
        out.extend_from_slice(b"\r\n");
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::duplex;

    async fn talk(reply: &str) -> (String, Result<(), String>, Vec<u8>) {
        let (mut ours, mut theirs) = duplex(64 * 1024);
        theirs.write_all(reply.as_bytes()).await.expect("room");
        theirs.shutdown().await.expect("closed");
        let target = Target::Address("[2001:db8::1]:443".parse().expect("an address"));
        let result = lead(&mut ours, target, Some("Basic eDp5"), "bot/1").await;
        let mut rest = Vec::new();
        ours.read_to_end(&mut rest).await.expect("the rest");
        drop(ours);
        let mut heard = String::new();
        theirs.read_to_string(&mut heard).await.expect("text");
        (heard, result, rest)
    }

    #[tokio::test]
    async fn after_the_proxys_head_the_connection_is_the_servers() {
        let (heard, result, rest) =
            talk("HTTP/1.1 200 Connection established\r\nVia: x\r\n\r\nhello").await;
        assert_eq!(result, Ok(()));
        assert_eq!(rest, b"hello");
        let expected = "CONNECT [2001:db8::1]:443 HTTP/1.1\r\nHost: [2001:db8::1]:443\r\nUser-Agent: bot/1\r\n\
                        Proxy-Authorization: Basic eDp5\r\n\r\n";
        assert_eq!(heard, expected);
    }

    #[tokio::test]
    async fn refusals_and_nonsense_are_told() {
        for (reply, told) in [
            ("HTTP/1.1 403 Forbidden\r\n\r\n", "403 Forbidden"),
            (
                "HTTP/1.1 407 Proxy Authentication Required\r\n\r\n",
                "user and password",
            ),
            ("SSH-2.0-OpenSSH\r\n\r\n", "SSH-2.0"),
            ("HTTP/1.1 200", "lost"),
            (&"x".repeat(20_000), "no end"),
        ] {
            let said = talk(reply).await.1.expect_err(told);
            assert!(said.contains(told), "{said}");
        }
    }

    #[test]
    fn a_request_is_given_whole_with_what_is_for_the_proxy() {
        let forward = Forward {
            origin: "http://a.test:8080".to_owned(),
            authorization: Some("Basic eDp5".to_owned()),
        };
        let sent = forward.rewritten(b"GET /x?y HTTP/1.1\r\nHost: a.test:8080\r\n\r\n");
        let expected = "GET http://a.test:8080/x?y HTTP/1.1\r\nHost: a.test:8080\r\nProxy-Authorization: Basic eDp5\r\n\r\n";
        assert_eq!(String::from_utf8(sent).expect("text"), expected);
    }
}
