//! A name server on loopback whose answers a test writes itself.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};

const A: u16 = 1;

/// What it says of a name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Says {
    At(Ipv4Addr),
    NoAddress,
    /// It does not answer.
    Nothing,
}

/// Answers for ever with addresses that hold for no time at all: the answer is `answer(name, n)` for the
/// name's `n`th query for an IPv4 address, from 0; there are no IPv6 addresses. Ends with the test.
pub fn serve(answer: impl Fn(&str, usize) -> Says + Send + 'static) -> SocketAddr {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a free port");
    let addr = socket.local_addr().expect("it is bound");
    std::thread::spawn(move || {
        let mut asked: BTreeMap<String, usize> = BTreeMap::new();
        let mut query = [0; 1500];
        while let Ok((length, from)) = socket.recv_from(&mut query) {
            let Some((name, kind, end)) = question(&query[..length]) else {
                continue;
            };
            let mut says = Says::NoAddress;
            if kind == A {
                let count = asked.entry(name.clone()).or_default();
                *count += 1;
                says = answer(&name, *count - 1);
            }
            let reply = match says {
                Says::At(address) => reply(&query[..end], Some(address)),
                Says::NoAddress => reply(&query[..end], None),
                Says::Nothing => continue,
            };
            let _ = socket.send_to(&reply, from);
        }
    });
    addr
}

/// The name that is asked for, what of it, and where the question ends.
fn question(query: &[u8]) -> Option<(String, u16, usize)> {
    let mut labels = Vec::new();
    let mut at = 12;
    loop {
        let length = usize::from(*query.get(at)?);
        at += 1;
        if length == 0 {
            break;
        }
        labels.push(String::from_utf8_lossy(query.get(at..at + length)?).to_lowercase());
        at += length;
    }
    let kind = query.get(at..at + 2)?;
    Some((
        labels.join("."),
        u16::from_be_bytes([kind[0], kind[1]]),
        at + 4,
    ))
}

fn reply(question: &[u8], address: Option<Ipv4Addr>) -> Vec<u8> {
    let mut reply = question.to_vec();
    // An answer without error, from a server that asks others; one question, an answer or none.
    reply[2..12].copy_from_slice(&[0x81, 0x80, 0, 1, 0, u8::from(address.is_some()), 0, 0, 0, 0]);
    if let Some(address) = address {
        // The name of the question, type A, class IN, a time to live of 0.
        reply.extend_from_slice(&[0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 0, 0, 4]);
        reply.extend_from_slice(&address.octets());
    }
    reply
}
