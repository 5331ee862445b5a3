//! Small proxies for tests, HTTP and SOCKS5 in one: the first byte tells. They connect to one server, whatever they are asked for,
//! and keep what they were asked.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

pub struct Proxy {
    pub addr: SocketAddr,
    asked: Arc<Mutex<Vec<String>>>,
}

/// Leads everybody to `server`. With `user` ("name:password") nobody else is let in.
pub fn lead_to(server: SocketAddr, user: Option<&'static str>) -> Proxy {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let addr = listener.local_addr().expect("it is bound");
    let asked = Arc::new(Mutex::new(Vec::new()));
    let record = Arc::clone(&asked);
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let record = Arc::clone(&record);
            std::thread::spawn(move || serve(stream, server, user, &record));
        }
    });
    Proxy { addr, asked }
}

impl Proxy {
    /// `CONNECT 192.0.2.1:80`, `SOCKS 192.0.2.1:80`, `SOCKS name:80` or the first line of a whole request.
    pub fn asked(&self) -> Vec<String> {
        self.asked.lock().expect("no test panics with it").clone()
    }
}

fn serve(
    mut client: TcpStream,
    server: SocketAddr,
    user: Option<&str>,
    record: &Mutex<Vec<String>>,
) -> Option<()> {
    let mut first = [0];
    client.read_exact(&mut first).ok()?;
    let note = |line: String| record.lock().expect("no test panics with it").push(line);
    let mut out = TcpStream::connect(server).ok()?;
    if first[0] == 5 {
        note(socks(&mut client, user)?);
    } else {
        let mut head = first.to_vec();
        while !head.ends_with(b"\r\n\r\n") {
            client.read_exact(&mut first).ok()?;
            head.push(first[0]);
        }
        let head = String::from_utf8_lossy(&head).into_owned();
        let line = head
            .lines()
            .next()?
            .trim_end_matches(" HTTP/1.1")
            .to_owned();
        let wanted = user.map(|user| format!("Proxy-Authorization: Basic {}", base64(user)));
        if wanted.is_some_and(|wanted| !head.lines().any(|line| line == wanted)) {
            note(format!("refused {line}"));
            client.write_all(b"HTTP/1.1 407 Who are you\r\n\r\n").ok()?;
            return None;
        }
        match line.strip_prefix("CONNECT ") {
            Some(_) => client.write_all(b"HTTP/1.1 200 OK\r\n\r\n").ok()?,
            // Given whole: the server gets it as it is.
            None => out.write_all(head.as_bytes()).ok()?,
        }
        note(line);
    }
    let (mut from, mut to) = (client.try_clone().ok()?, out.try_clone().ok()?);
    std::thread::spawn(move || std::io::copy(&mut from, &mut to));
    std::io::copy(&mut out, &mut client).ok()?;
    client.shutdown(std::net::Shutdown::Both).ok()
}

fn socks(client: &mut TcpStream, user: Option<&str>) -> Option<String> {
    let bytes = |client: &mut TcpStream, count: u8| {
        let mut bytes = vec![0; usize::from(count)];
        client.read_exact(&mut bytes).ok().map(|()| bytes)
    };
    let count = bytes(client, 1)?[0];
    bytes(client, count)?;
    if let Some(user) = user {
        client.write_all(&[5, 2]).ok()?;
        let length = bytes(client, 2)?[1];
        let name = bytes(client, length)?;
        let length = bytes(client, 1)?[0];
        let said = [&name[..], b":", &bytes(client, length)?].concat();
        client
            .write_all(&[1, u8::from(said != user.as_bytes())])
            .ok()?;
    } else {
        client.write_all(&[5, 0]).ok()?;
    }
    let host = match bytes(client, 4)?[3] {
        1 => Ipv4Addr::from(<[u8; 4]>::try_from(bytes(client, 4)?).ok()?).to_string(),
        3 => {
            let length = bytes(client, 1)?[0];
            String::from_utf8(bytes(client, length)?).ok()?
        }
        _ => return None,
    };
    let port = u16::from_be_bytes(bytes(client, 2)?.try_into().ok()?);
    client.write_all(&[5, 0, 0, 1, 0, 0, 0, 0, 0, 0]).ok()?;
    Some(format!("SOCKS {host}:{port}"))
}

fn base64(text: &str) -> String {
    data_encoding::BASE64.encode(text.as_bytes())
}
