//! Gopher (RFC 1436): a selector goes out, bytes come back, and the connection ends.

use super::transfer::Transfer;
use super::{MENU, decoded};
use crate::NetError;
use crate::http::{BodySink, HttpSettings, Request, Response, Scheme, Stream};
use tokio::io::AsyncWriteExt;
use tokio::time::timeout_at;

pub(crate) struct Gopher {
    stream: Stream,
}

impl Gopher {
    pub(super) fn new(stream: Stream) -> Self {
        Self { stream }
    }

    pub(super) async fn fetch(
        &mut self,
        settings: &HttpSettings,
        request: &Request<'_>,
        sink: &mut dyn BodySink,
    ) -> Result<Response, NetError> {
        let mut transfer = Transfer::new(Scheme::Gopher, settings, sink);
        let (item, selector) = item_of(request.path_and_query);
        let Some(mut line) = decoded(selector) else {
            return Ok(transfer.status(400));
        };
        let media_type = type_of(item);
        let (head, is_wanted) = transfer.begin(media_type, request.method);
        if !is_wanted {
            return Ok(transfer.end(head));
        }
        line.extend_from_slice(b"\r\n");
        let sent = timeout_at(transfer.request_end(), self.stream.write_all(&line)).await;
        if !matches!(sent, Ok(Ok(()))) {
            return Err(NetError::ConnectionLost {
                detail: "it took no selector".to_owned(),
                retry_on_new_connection: false,
            });
        }
        transfer.read(&mut self.stream).await;
        if transfer.bytes().is_empty() {
            return Err(NetError::ConnectionLost {
                detail: "it ended without an answer".to_owned(),
                retry_on_new_connection: false,
            });
        }
        // Gopher has no status. What is not there is answered with a menu of one error.
        if is_error(transfer.bytes()) {
            return Ok(Transfer::new(Scheme::Gopher, settings, &mut |_: &[u8]| {
                std::ops::ControlFlow::Continue(())
            })
            .status(404));
        }
        Ok(transfer.end(head))
    }
}

/// The type of an item and its selector, by the path of its URL (RFC 4266). A robots.txt is where it is on the Web.
fn item_of(path: &str) -> (u8, &str) {
    match path.as_bytes() {
        b"" | b"/" => (b'1', ""),
        b"/robots.txt" => (b'0', path),
        [_, item, ..] if item.is_ascii_graphic() => (*item, path.get(2..).unwrap_or("")),
        _ => (b'1', ""),
    }
}

fn type_of(item: u8) -> Option<&'static str> {
    match item {
        b'0' => Some("text/plain"),
        b'1' | b'7' => Some(MENU),
        b'h' => Some("text/html"),
        b'g' => Some("image/gif"),
        b'p' => Some("image/png"),
        b'd' => Some("application/pdf"),
        b'4' | b'5' | b'6' | b'9' => Some("application/octet-stream"),
        _ => None,
    }
}

/// A menu whose first line says that something went wrong.
fn is_error(bytes: &[u8]) -> bool {
    let line = bytes.split(|&b| b == b'\n').next().unwrap_or_default();
    line.first() == Some(&b'3') && line.iter().filter(|&&b| b == b'\t').count() >= 2
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_name_items() {
        assert_eq!(item_of("/"), (b'1', ""));
        assert_eq!(item_of("/1/docs"), (b'1', "/docs"));
        assert_eq!(item_of("/0a.txt"), (b'0', "a.txt"));
        assert_eq!(item_of("/robots.txt"), (b'0', "/robots.txt"));
    }

    #[test]
    fn a_menu_of_an_error_is_one() {
        assert!(is_error(b"3'/x' does not exist\t\terror.host\t1\r\n.\r\n"));
        assert!(!is_error(b"3 blind mice\r\n"));
        assert!(!is_error(b"1Docs\t/docs\thost\t70\r\n"));
    }
}
