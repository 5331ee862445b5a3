//! FTP (RFC 959, 2428, 3659): anonymous, passive, binary. A name that ends in a slash is listed, any other is retrieved.

use super::transfer::Transfer;
use super::{LISTING, decoded, type_of_name};
use crate::NetError;
use crate::connect::open;
use crate::http::{BodySink, HttpSettings, Request, Response, Scheme, Stream};
use portolan_model::Truncation;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout_at};

/// A reply of more bytes is no reply.
const MAX_REPLY_BYTES: usize = 64 * 1024;

pub(crate) struct Ftp {
    control: Stream,
    peer: Option<IpAddr>,
    /// What came and is not read.
    pending: Vec<u8>,
    is_logged_in: bool,
    has_mlsd: bool,
    has_epsv: bool,
    /// The last answer ended in order.
    is_usable: bool,
    /// Bytes of replies.
    replies: u64,
}

/// A server's word: its three digits, and its last line.
struct Reply {
    code: u16,
    text: String,
}

impl Reply {
    fn is_good(&self) -> bool {
        (200..300).contains(&self.code)
    }

    /// A command that the server does not have.
    fn is_unknown_command(&self) -> bool {
        matches!(self.code, 500 | 501 | 502 | 504)
    }

    /// What HTTP would have said.
    fn status(&self) -> u16 {
        match self.code {
            550 | 553 => 404,
            400..500 => 503,
            _ => 403,
        }
    }
}

impl Ftp {
    pub(super) fn new(control: Stream, peer: Option<SocketAddr>) -> Self {
        Self {
            control,
            peer: peer.map(|peer| peer.ip()),
            pending: Vec::new(),
            is_logged_in: false,
            has_mlsd: true,
            has_epsv: true,
            is_usable: false,
            replies: 0,
        }
    }

    pub(super) fn reusable(&self) -> bool {
        self.is_usable
    }

    pub(super) async fn fetch(
        &mut self,
        settings: &HttpSettings,
        request: &Request<'_>,
        sink: &mut dyn BodySink,
    ) -> Result<Response, NetError> {
        let was_used = std::mem::take(&mut self.is_usable);
        self.replies = 0;
        let mut transfer = Transfer::new(Scheme::Ftp, settings, sink);
        let url_path = request.path_and_query;
        let Some(path) = decoded(url_path) else {
            self.is_usable = was_used;
            return Ok(transfer.status(400));
        };
        let is_folder = url_path.ends_with('/');
        let result = async {
            if let Err(refused) = self.log_in(settings).await? {
                return Ok(Err(refused.status()));
            }
            if is_folder {
                let entered = self.command(settings, b"CWD ", &path).await?;
                if !entered.is_good() {
                    return Ok(Err(entered.status()));
                }
                return self.open_listing(settings).await;
            }
            let data = self.passive(settings).await?;
            let reply = self.command(settings, b"RETR ", &path).await?;
            match reply.code {
                125 | 150 => Ok(Ok(data)),
                _ => Ok(Err(reply.status())),
            }
        };
        let opened = match result.await {
            Err(NetError::ConnectionLost { detail, .. }) => {
                return Err(NetError::ConnectionLost {
                    detail,
                    // Servers end connections that idle.
                    retry_on_new_connection: was_used && self.replies == 0,
                });
            }
            other => other?,
        };
        transfer.other_bytes = self.replies;
        let mut data = match opened {
            Ok(data) => data,
            Err(404) if !is_folder => {
                let is_a_folder = self.command(settings, b"CWD ", &path).await?.is_good();
                self.is_usable = true;
                return Ok(match is_a_folder {
                    true => transfer.moved(&format!("{url_path}/")),
                    false => transfer.status(404),
                });
            }
            Err(status) => {
                self.is_usable = self.is_logged_in;
                return Ok(transfer.status(status));
            }
        };
        let media_type = match is_folder {
            true => Some(LISTING),
            false => type_of_name(url_path),
        };
        let (head, is_wanted) = transfer.begin(media_type, request.method);
        if !is_wanted || !transfer.read(&mut data).await {
            // The server is still sending. This connection is not used again.
            return Ok(transfer.end(head));
        }
        drop(data);
        match self.reply(settings).await {
            Ok(reply) if reply.is_good() => self.is_usable = true,
            // It said that it could not send all of it, or nothing.
            _ => transfer.cut(Truncation::Disconnect),
        }
        transfer.other_bytes = self.replies;
        Ok(transfer.end(head))
    }

    /// `Ok(Err(reply))`: the server wants no visitors, or not now.
    async fn log_in(&mut self, settings: &HttpSettings) -> Result<Result<(), Reply>, NetError> {
        if self.is_logged_in {
            return Ok(Ok(()));
        }
        let mut reply = self.reply(settings).await?;
        while reply.code == 120 {
            reply = self.reply(settings).await?;
        }
        if reply.code == 220 {
            reply = self.command(settings, b"USER ", b"anonymous").await?;
        }
        if reply.code == 331 {
            let contact = match settings.agent.contact.is_empty() {
                true => "anonymous@",
                false => &settings.agent.contact,
            };
            let contact: String = contact.chars().filter(|c| !c.is_control()).collect();
            reply = self.command(settings, b"PASS ", contact.as_bytes()).await?;
        }
        if reply.is_good() && reply.code != 220 {
            reply = self.command(settings, b"TYPE ", b"I").await?;
        }
        self.is_logged_in = reply.is_good();
        Ok(if self.is_logged_in {
            Ok(())
        } else {
            Err(reply)
        })
    }

    /// The listing of the folder that was entered: for machines, or else for people.
    async fn open_listing(
        &mut self,
        settings: &HttpSettings,
    ) -> Result<Result<TcpStream, u16>, NetError> {
        if self.has_mlsd {
            let data = self.passive(settings).await?;
            let reply = self.command(settings, b"MLSD", b"").await?;
            match reply.code {
                125 | 150 => return Ok(Ok(data)),
                _ if !reply.is_unknown_command() => return Ok(Err(reply.status())),
                _ => self.has_mlsd = false,
            }
        }
        let data = self.passive(settings).await?;
        let reply = self.command(settings, b"LIST", b"").await?;
        Ok(match reply.code {
            125 | 150 => Ok(data),
            _ => Err(reply.status()),
        })
    }

    /// A connection for data. It goes to the address that was asked, whatever the reply names: so no server can lead us elsewhere.
    async fn passive(&mut self, settings: &HttpSettings) -> Result<TcpStream, NetError> {
        let mut port = None;
        if self.has_epsv {
            let reply = self.command(settings, b"EPSV", b"").await?;
            port = (reply.code == 229)
                .then(|| port_of_epsv(&reply.text))
                .flatten();
            self.has_epsv = port.is_some();
        }
        if port.is_none() {
            let reply = self.command(settings, b"PASV", b"").await?;
            port = (reply.code == 227)
                .then(|| port_of_pasv(&reply.text))
                .flatten();
        }
        // Ports below belong to services that are not FTP's.
        let (Some(ip), Some(port)) = (self.peer, port.filter(|&port| port >= 1024)) else {
            return Err(broken("it names no port for data"));
        };
        let address = SocketAddr::new(ip, port);
        let deadline = Instant::now() + Duration::from_millis(settings.connect_timeout_ms);
        match timeout_at(deadline, open(address)).await {
            Ok(stream) => stream,
            Err(_) => Err(NetError::Timeout {
                waiting_for: "a connection for data",
                after_ms: settings.connect_timeout_ms,
            }),
        }
    }

    async fn command(
        &mut self,
        settings: &HttpSettings,
        name: &[u8],
        argument: &[u8],
    ) -> Result<Reply, NetError> {
        let line = [name, argument, b"\r\n"].concat();
        self.control
            .write_all(&line)
            .await
            .map_err(|error| lost(&error.to_string()))?;
        self.reply(settings).await
    }

    /// The next reply; `123-` begins one of several lines, `123 ` ends it.
    async fn reply(&mut self, settings: &HttpSettings) -> Result<Reply, NetError> {
        let deadline = Instant::now() + Duration::from_millis(settings.first_byte_timeout_ms);
        let mut code = None;
        let mut bytes = 0;
        loop {
            let line = match timeout_at(deadline, self.line()).await {
                Ok(line) => line?,
                Err(_) => {
                    return Err(NetError::Timeout {
                        waiting_for: "a reply of the FTP server",
                        after_ms: settings.first_byte_timeout_ms,
                    });
                }
            };
            bytes += line.len();
            if bytes > MAX_REPLY_BYTES {
                return Err(broken("its reply has no end"));
            }
            let digits = line.get(..3).and_then(|digits| digits.parse().ok());
            let ends = line.as_bytes().get(3) != Some(&b'-');
            match (code, digits) {
                (None, None) => return Err(broken("its reply has no number")),
                (None, Some(first)) if ends => {
                    let (code, text) = (first, line);
                    return Ok(Reply { code, text });
                }
                (None, first) => code = first,
                (Some(first), Some(number)) if first == number && ends => {
                    let (code, text) = (first, line);
                    return Ok(Reply { code, text });
                }
                (Some(_), _) => {}
            }
        }
    }

    async fn line(&mut self) -> Result<String, NetError> {
        loop {
            if let Some(end) = self.pending.iter().position(|&b| b == b'\n') {
                let line: Vec<u8> = self.pending.drain(..=end).collect();
                return Ok(String::from_utf8_lossy(&line).trim_end().to_owned());
            }
            if self.pending.len() > MAX_REPLY_BYTES {
                return Err(broken("its reply has no end"));
            }
            let mut buffer = [0; 2048];
            let read = self.control.read(&mut buffer).await;
            match read.map_err(|error| lost(&error.to_string()))? {
                0 => return Err(lost("the server ended it")),
                read => {
                    self.replies += read as u64;
                    self.pending.extend_from_slice(&buffer[..read]);
                }
            }
        }
    }
}

fn broken(detail: &str) -> NetError {
    NetError::BrokenOther {
        protocol: "FTP",
        detail: detail.to_owned(),
    }
}

fn lost(detail: &str) -> NetError {
    NetError::ConnectionLost {
        detail: detail.to_owned(),
        retry_on_new_connection: false,
    }
}

/// `229 Entering Extended Passive Mode (|||6446|)`
fn port_of_epsv(text: &str) -> Option<u16> {
    let inside = text.split_once('(')?.1;
    let bar = inside.chars().next()?;
    inside.split(bar).nth(3)?.parse().ok()
}

/// `227 Entering Passive Mode (192,0,2,1,25,46)`; brackets are often left out.
fn port_of_pasv(text: &str) -> Option<u16> {
    let is_list = |c: char| c.is_ascii_digit() || c == ',';
    let list = text
        .get(3..)?
        .split(|c: char| !is_list(c))
        .find(|part| part.matches(',').count() == 5)?;
    let mut numbers = list.split(',').map(str::parse::<u8>);
    let high = numbers.nth(4)?.ok()?;
    let low = numbers.next()?.ok()?;
    Some(u16::from(high) << 8 | u16::from(low))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_for_data_are_read() {
        assert_eq!(port_of_epsv("229 Extended (|||6446|)"), Some(6446));
        assert_eq!(port_of_epsv("229 (|||x|)"), None);
        assert_eq!(port_of_pasv("227 Entering (192,0,2,1,25,46)."), Some(6446));
        assert_eq!(port_of_pasv("227 =192,0,2,1,25,46"), Some(6446));
        assert_eq!(port_of_pasv("227 (1,2,3)"), None);
        assert_eq!(port_of_pasv("227 (1,2,3,4,300,1)"), None);
    }
}
