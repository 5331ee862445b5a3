//! The handshake with a SOCKS5 proxy (RFC 1928), with user and password where it asks for them (RFC 1929).

use super::Target;
use std::net::{IpAddr, SocketAddr};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

const VERSION: u8 = 5;
const NO_AUTHENTICATION: u8 = 0;
const USER_AND_PASSWORD: u8 = 2;
const NONE_OF_THEM: u8 = 0xff;
const CONNECT: u8 = 1;

pub(crate) async fn lead(
    stream: &mut (impl AsyncRead + AsyncWrite + Unpin),
    target: Target<'_>,
    credentials: Option<&(String, String)>,
) -> Result<(), String> {
    let methods: &[u8] = match credentials {
        Some(_) => &[VERSION, 2, NO_AUTHENTICATION, USER_AND_PASSWORD],
        None => &[VERSION, 1, NO_AUTHENTICATION],
    };
    send(stream, methods).await?;
    let [version, method] = read(stream).await?;
    if version != VERSION {
        return Err("it does not speak SOCKS5".to_owned());
    }
    match (method, credentials) {
        (NO_AUTHENTICATION, _) => {}
        (USER_AND_PASSWORD, Some((user, password))) => {
            // Neither is longer than 255 bytes: that was checked when they were read.
            let mut message = vec![1, user.len() as u8];
            message.extend_from_slice(user.as_bytes());
            message.push(password.len() as u8);
            message.extend_from_slice(password.as_bytes());
            send(stream, &message).await?;
            let [_, status] = read(stream).await?;
            if status != 0 {
                return Err("it refused our user and password".to_owned());
            }
        }
        (NONE_OF_THEM, None) => return Err("it wants a user and a password".to_owned()),
        _ => return Err("it wants an authentication that we do not have".to_owned()),
    }
    send(stream, &request(target)?).await?;
    let [_, reply, _, kind] = read(stream).await?;
    if reply != 0 {
        return Err(said(reply).to_owned());
    }
    // The address that it connected from is of no use, but it must be read.
    match kind {
        1 => read::<{ 4 + 2 }>(stream).await.map(|_| ()),
        4 => read::<{ 16 + 2 }>(stream).await.map(|_| ()),
        3 => {
            let [length] = read(stream).await?;
            let mut rest = vec![0; usize::from(length) + 2];
            let read = stream.read_exact(&mut rest).await;
            read.map(|_| ()).map_err(lost)
        }
        _ => Err("its answer is not SOCKS5".to_owned()),
    }
}

fn request(target: Target<'_>) -> Result<Vec<u8>, String> {
    let mut message = vec![VERSION, CONNECT, 0];
    let port = match target {
        Target::Address(SocketAddr::V4(v4)) => {
            message.push(1);
            message.extend_from_slice(&v4.ip().octets());
            v4.port()
        }
        Target::Address(SocketAddr::V6(v6)) => {
            message.push(4);
            message.extend_from_slice(&v6.ip().octets());
            v6.port()
        }
        Target::Name(host, port) => {
            if let Ok(ip) = host.parse::<IpAddr>() {
                return request(Target::Address(SocketAddr::new(ip, port)));
            }
            let length = u8::try_from(host.len()).map_err(|_| "the name is too long".to_owned())?;
            message.extend_from_slice(&[3, length]);
            message.extend_from_slice(host.as_bytes());
            port
        }
    };
    message.extend_from_slice(&port.to_be_bytes());
    Ok(message)
}

fn said(reply: u8) -> &'static str {
    match reply {
        1 => "it failed",
        2 => "its rules do not allow it",
        3 => "the network is unreachable from there",
        4 => "the host is unreachable from there",
        5 => "the connection was refused there",
        6 => "the way there was too long",
        7 => "it cannot connect",
        8 => "it does not know such addresses",
        _ => "it gave an unknown answer",
    }
}

async fn send(stream: &mut (impl AsyncWrite + Unpin), bytes: &[u8]) -> Result<(), String> {
    stream.write_all(bytes).await.map_err(lost)?;
    stream.flush().await.map_err(lost)
}

async fn read<const N: usize>(stream: &mut (impl AsyncRead + Unpin)) -> Result<[u8; N], String> {
    let mut bytes = [0; N];
    stream.read_exact(&mut bytes).await.map_err(lost)?;
    Ok(bytes)
}

fn lost(error: std::io::Error) -> String {
    format!("the connection to it was lost: {error}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::duplex;

    /// What the proxy read, and what came of it, when it says `replies` one after the other.
    async fn talk(
        target: Target<'_>,
        credentials: Option<&(String, String)>,
        replies: &[&[u8]],
    ) -> (Vec<u8>, Result<(), String>) {
        let (mut ours, mut theirs) = duplex(1024);
        theirs.write_all(&replies.concat()).await.expect("room");
        let result = lead(&mut ours, target, credentials).await;
        drop(ours);
        let mut heard = Vec::new();
        theirs.read_to_end(&mut heard).await.expect("all of it");
        (heard, result)
    }

    const DONE: &[u8] = &[5, 0, 0, 1, 0, 0, 0, 0, 0, 0];

    #[tokio::test]
    async fn an_address_a_name_and_a_password_are_sent_as_the_standard_says() {
        let v4 = Target::Address("192.0.2.1:80".parse().expect("an address"));
        let (heard, result) = talk(v4, None, &[&[5, 0], DONE]).await;
        assert_eq!(result, Ok(()));
        assert_eq!(heard, [5, 1, 0, 5, 1, 0, 1, 192, 0, 2, 1, 0, 80]);
        let user = ("u".to_owned(), "pw".to_owned());
        let name = Target::Name("a.test", 443);
        let by_name: &[u8] = &[5, 0, 0, 3, 2, b'x', b'y', 1, 2];
        let (heard, result) = talk(name, Some(&user), &[&[5, 2], &[1, 0], by_name]).await;
        assert_eq!(result, Ok(()));
        let expected = [
            &[5, 2, 0, 2, 1, 1, b'u', 2, b'p', b'w', 5, 1, 0, 3, 6],
            &b"a.test"[..],
            &[1, 187],
        ];
        assert_eq!(heard, expected.concat());
    }

    #[tokio::test]
    async fn refusals_and_nonsense_are_told() {
        let target = Target::Name("a.test", 80);
        let user = ("u".to_owned(), "p".to_owned());
        for (credentials, replies, told) in [
            (None, &[&[5u8, 0][..], &[5, 5, 0, 1]][..], "refused there"),
            (None, &[&[5, 0xff]], "wants a user"),
            (Some(&user), &[&[5, 2], &[1, 1]], "refused our user"),
            (None, &[b"HTTP/1.1 400"], "does not speak SOCKS5"),
            (None, &[&[5, 0], &[5, 0, 0, 9]], "not SOCKS5"),
        ] {
            let said = talk(target, credentials, replies).await.1.expect_err(told);
            assert!(said.contains(told), "{said}");
        }
    }
}
