//! The Web's own DNS server, on loopback: it knows all hosts of the Web, says nothing of those that are lost, and that there are no
//! others. Over TCP it accepts and says nothing at all.

use crate::server::ServerError;
use crate::sick::SickKind;
use crate::web::Web;
use std::collections::VecDeque;
use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// How often the thread looks whether it is to end.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// TCP connections that are held open, in silence.
const MAX_HELD: usize = 256;
const TTL_S: u32 = 300;
const PORT_TRIES: usize = 16;

const HEADER_BYTES: usize = 12;
const TYPE_A: u16 = 1;
const TYPE_AAAA: u16 = 28;
const NXDOMAIN: u8 = 3;

/// A running DNS server; dropping it stops it.
pub(crate) struct DnsServer {
    addr: SocketAddr,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl DnsServer {
    /// Hosts are at `ip`, and so is the server, on a port that is free.
    pub(crate) fn start(web: Arc<Web>, ip: IpAddr) -> Result<Self, ServerError> {
        let open = || -> io::Result<_> {
            let (socket, listener, addr) = bind(ip)?;
            listener.set_nonblocking(true)?;
            socket.set_read_timeout(Some(LOOK_EVERY))?;
            Ok((socket, listener, addr))
        };
        let (socket, listener, addr) = open().map_err(|source| ServerError::Listen {
            addr: SocketAddr::new(ip, 0),
            source,
        })?;
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = std::thread::Builder::new()
            .name("simweb-dns".to_owned())
            .spawn(move || serve(&web, ip, &socket, &listener, &stopped))
            .map_err(ServerError::Thread)?;
        Ok(DnsServer {
            addr,
            stop,
            thread: Some(thread),
        })
    }

    pub(crate) fn addr(&self) -> SocketAddr {
        self.addr
    }
}

impl Drop for DnsServer {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// The same port for UDP and TCP. One that is free for the one may be taken for the other.
fn bind(ip: IpAddr) -> io::Result<(UdpSocket, TcpListener, SocketAddr)> {
    let mut tries = 0;
    loop {
        tries += 1;
        let socket = UdpSocket::bind(SocketAddr::new(ip, 0))?;
        let addr = socket.local_addr()?;
        match TcpListener::bind(addr) {
            Ok(listener) => return Ok((socket, listener, addr)),
            Err(error) if tries >= PORT_TRIES => return Err(error),
            Err(_) => {}
        }
    }
}

fn serve(web: &Web, ip: IpAddr, socket: &UdpSocket, listener: &TcpListener, stop: &AtomicBool) {
    let mut held: VecDeque<TcpStream> = VecDeque::new();
    let mut query = [0; 1500];
    while !stop.load(Ordering::Relaxed) {
        while let Ok((stream, _)) = listener.accept() {
            held.push_back(stream);
            if held.len() > MAX_HELD {
                held.pop_front();
            }
        }
        // An error is a pause without a question, or a client that is gone.
        if let Ok((bytes, from)) = socket.recv_from(&mut query)
            && let Some(answer) = answer(web, ip, &query[..bytes])
        {
            let _ = socket.send_to(&answer, from);
        }
    }
}

/// The answer to a query with one question; nothing for a lost host, and nothing for what is no query.
fn answer(web: &Web, ip: IpAddr, query: &[u8]) -> Option<Vec<u8>> {
    let (name, end) = question_name(query)?;
    let kind = u16::from_be_bytes([*query.get(end)?, *query.get(end + 1)?]);
    let question = query.get(HEADER_BYTES..end + 4)?;
    let sick = web.sick_named(&name);
    if sick.is_some_and(|sick| sick.kind == SickKind::Lost) {
        return None;
    }
    let known = sick.is_some() || web.host_named(&name).is_some();
    let address = match (ip, kind) {
        (IpAddr::V4(ip), TYPE_A) => Some(ip.octets().to_vec()),
        (IpAddr::V6(ip), TYPE_AAAA) => Some(ip.octets().to_vec()),
        _ => None,
    }
    .filter(|_| known);
    let mut out = query[..2].to_vec();
    // An answer, by one who knows, recursion desired and available.
    out.extend_from_slice(&[0x85, if known { 0x80 } else { 0x80 | NXDOMAIN }]);
    out.extend_from_slice(&[0, 1, 0, u8::from(address.is_some()), 0, 0, 0, 0]);
    out.extend_from_slice(question);
    if let Some(address) = address {
        // The name is the question's.
        out.extend_from_slice(&[0xc0, HEADER_BYTES as u8]);
        out.extend_from_slice(&kind.to_be_bytes());
        out.extend_from_slice(&1u16.to_be_bytes());
        out.extend_from_slice(&TTL_S.to_be_bytes());
        out.extend_from_slice(&(address.len() as u16).to_be_bytes());
        out.extend_from_slice(&address);
    }
    Some(out)
}

/// The name that is asked for, and where it ends.
fn question_name(query: &[u8]) -> Option<(String, usize)> {
    let mut name = String::new();
    let mut at = HEADER_BYTES;
    loop {
        let length = usize::from(*query.get(at)?);
        at += 1;
        match length {
            0 => return Some((name, at)),
            1..64 => {
                let label = query.get(at..at + length)?;
                if !name.is_empty() {
                    name.push('.');
                }
                name.push_str(std::str::from_utf8(label).ok()?);
                at += length;
            }
            // A pointer has no place in a question.
            _ => return None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::WebSpec;

    fn ask(server: &DnsServer, name: &str, kind: u16) -> Option<Vec<u8>> {
        let mut query = vec![0x12, 0x34, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
        for label in name.split('.') {
            query.push(label.len() as u8);
            query.extend_from_slice(label.as_bytes());
        }
        query.push(0);
        query.extend_from_slice(&kind.to_be_bytes());
        query.extend_from_slice(&1u16.to_be_bytes());
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket
            .set_read_timeout(Some(Duration::from_millis(300)))
            .unwrap();
        socket.send_to(&query, server.addr()).unwrap();
        let mut answer = [0; 512];
        let bytes = socket.recv(&mut answer).ok()?;
        assert_eq!(answer[..2], query[..2]);
        Some(answer[..bytes].to_vec())
    }

    #[test]
    fn hosts_are_known_others_are_not_and_of_lost_ones_nothing_is_said() {
        let mut spec = WebSpec::small();
        spec.sick.lost = 1;
        let web = Arc::new(Web::new(spec).unwrap());
        let server = DnsServer::start(web, "127.0.0.1".parse().unwrap()).unwrap();
        let known = ask(&server, "h1.sim.test", TYPE_A).unwrap();
        assert!(known.ends_with(&[0, 4, 127, 0, 0, 1]), "{known:?}");
        let other_kind = ask(&server, "h1.sim.test", TYPE_AAAA).unwrap();
        assert_eq!((other_kind[3] & 15, other_kind[7]), (0, 0));
        let unknown = ask(&server, "x.sim.test", TYPE_A).unwrap();
        assert_eq!((unknown[3] & 15, unknown[7]), (NXDOMAIN, 0));
        assert_eq!(ask(&server, "lost0.sim.test", TYPE_A), None);
    }
}
