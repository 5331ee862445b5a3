//! A raw HTTP client for tests: says exactly what it is told to, and shows exactly what came back.
#![allow(dead_code)] // each test file uses its own part

use portolan_simweb::{Server, Web, WebSpec};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

const READ_LIMIT: Duration = Duration::from_secs(20);

pub struct Reply {
    pub raw: Vec<u8>,
    pub status: u16,
    pub version: String,
    pub headers: Vec<(String, String)>,
    /// As sent, chunks taken apart.
    pub body: Vec<u8>,
}

impl Reply {
    pub fn header(&self, name: &str) -> Option<&str> {
        let found = self
            .headers
            .iter()
            .find(|(n, _)| n.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.as_str())
    }

    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

pub fn serve(spec: WebSpec) -> Server {
    let web = Arc::new(Web::new(spec).expect("a sound spec"));
    Server::start(web, SocketAddr::from(([127, 0, 0, 1], 0))).expect("a free port")
}

/// A whole request on a connection of its own, read to the end of the connection.
pub fn get(addr: SocketAddr, host: &str, target: &str) -> Reply {
    ask(addr, host, target, "")
}

/// The same with further header lines, each ended by CRLF.
pub fn ask(addr: SocketAddr, host: &str, target: &str, lines: &str) -> Reply {
    let text = format!("GET {target} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n{lines}\r\n");
    exchange(addr, &text)
}

pub fn exchange(addr: SocketAddr, request: &str) -> Reply {
    let mut stream = connect(addr);
    stream.write_all(request.as_bytes()).expect("sent");
    let mut raw = Vec::new();
    // A reset at the end is one of the things that odd servers do.
    let _ = stream.read_to_end(&mut raw);
    parse(raw)
}

pub fn connect(addr: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(addr).expect("connected");
    stream
        .set_read_timeout(Some(READ_LIMIT))
        .expect("a timeout");
    stream.set_nodelay(true).expect("no delay");
    stream
}

/// Sends a GET on a kept connection.
pub fn send(stream: &mut TcpStream, host: &str, target: &str) {
    let text = format!("GET {target} HTTP/1.1\r\nHost: {host}\r\nUser-Agent: raw-test/1\r\n\r\n");
    stream.write_all(text.as_bytes()).expect("sent");
}

/// Reads one answer with a Content-Length from a kept connection.
pub fn receive(stream: &mut TcpStream) -> Reply {
    let mut raw = Vec::new();
    let mut block = [0; 16 * 1024];
    loop {
        let n = stream.read(&mut block).expect("an answer");
        assert!(
            n > 0,
            "closed in the middle: {}",
            String::from_utf8_lossy(&raw)
        );
        raw.extend_from_slice(&block[..n]);
        if let Some(end) = find(&raw, b"\r\n\r\n") {
            let head = parse(raw[..end + 4].to_vec());
            let length: usize = head
                .header("content-length")
                .map_or(0, |l| l.parse().expect("a number"));
            if raw.len() >= end + 4 + length {
                assert_eq!(raw.len(), end + 4 + length, "more than one answer");
                return parse(raw);
            }
        }
    }
}

pub fn parse(raw: Vec<u8>) -> Reply {
    let mut reply = Reply {
        raw,
        status: 200,
        version: "HTTP/0.9".into(),
        headers: Vec::new(),
        body: Vec::new(),
    };
    if !reply.raw.starts_with(b"HTTP/") {
        reply.body = reply.raw.clone();
        return reply;
    }
    let (head_end, body_start) = match (find(&reply.raw, b"\r\n\r\n"), find(&reply.raw, b"\n\n")) {
        (Some(end), _) => (end, end + 4),
        (None, Some(end)) => (end, end + 2),
        (None, None) => (reply.raw.len(), reply.raw.len()),
    };
    let head = String::from_utf8_lossy(&reply.raw[..head_end]).replace("\r\n", "\n");
    let unfolded = head.replace("\n ", " ").replace("\n\t", " ");
    let mut lines = unfolded.lines();
    let status_line = lines.next().unwrap_or_default();
    reply.version = status_line.split(' ').next().unwrap_or_default().into();
    reply.status = status_line
        .split(' ')
        .nth(1)
        .and_then(|s| s.parse().ok())
        .unwrap_or(0);
    reply.headers = lines
        .filter_map(|l| {
            l.split_once(':')
                .map(|(n, v)| (n.to_owned(), v.trim().to_owned()))
        })
        .collect();
    let body = &reply.raw[body_start..];
    reply.body = match (
        reply.header("transfer-encoding"),
        reply.header("content-length"),
    ) {
        (Some(_), _) => unchunk(body),
        (None, Some(length)) => body[..body.len().min(length.parse().unwrap_or(0))].to_vec(),
        (None, None) => body.to_vec(),
    };
    reply
}

/// Takes chunks apart as far as they are sound.
fn unchunk(mut rest: &[u8]) -> Vec<u8> {
    let mut body = Vec::new();
    while let Some(end) = find(rest, b"\r\n") {
        let line = String::from_utf8_lossy(&rest[..end]).into_owned();
        let Ok(size) = usize::from_str_radix(line.split(';').next().unwrap_or_default(), 16) else {
            break;
        };
        let data = &rest[end + 2..];
        if size == 0 || data.len() < size + 2 {
            break;
        }
        body.extend_from_slice(&data[..size]);
        rest = &data[size + 2..];
    }
    body
}

pub fn find(haystack: &[u8], needle: &[u8]) -> Option<usize> {
    haystack.windows(needle.len()).position(|w| w == needle)
}
