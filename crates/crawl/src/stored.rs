//! An answer as it is archived, read back from its WARC file: for links that nobody looked for when it came, and for its volatile parts.

use portolan_archive::Message;
use portolan_content::{Directives, MimeType};
use portolan_net::Decoder;

use crate::error::CrawlError;
use crate::settings::Settings;

pub(crate) struct Stored {
    /// The record's, as WARC-Record-ID has it.
    pub(crate) id: String,
    /// `response`, or what else it is.
    pub(crate) kind: String,
    pub(crate) mime: Option<MimeType>,
    pub(crate) directives: Directives,
    /// The values of all Link headers.
    pub(crate) links: Vec<String>,
    /// Without transfer coding and content encoding.
    pub(crate) body: Vec<u8>,
}

impl Stored {
    /// Reads the whole payload, up to the sizes that an answer may have.
    pub(crate) fn read(message: Message, settings: &Settings) -> Result<Self, CrawlError> {
        let mime = message.values("content-type");
        let mime = mime.first().and_then(|value| MimeType::parse_header(value));
        let mut directives = Directives::default();
        for value in message.values("x-robots-tag") {
            directives |= Directives::from_header(&value, &settings.identity.product);
        }
        let links = message.values("link");
        let links = links.iter().map(|value| String::from_utf8_lossy(value));
        let links = links.map(String::from).collect();
        let values = message.values("content-encoding");
        let names = values.iter().map(|value| String::from_utf8_lossy(value));
        let mut encodings: Vec<String> = names.map(String::from).collect();
        encodings.extend(message.transfer_encodings());
        let id = message.record.header("WARC-Record-ID").unwrap_or_default();
        let (id, kind) = (id.to_owned(), message.record.kind().to_owned());
        let most = settings.http.max_body_bytes as usize;
        let mut bytes = Vec::new();
        message.read_payload(true, &mut |piece| {
            let room = most.saturating_sub(bytes.len());
            bytes.extend_from_slice(&piece[..piece.len().min(room)]);
            Ok(())
        })?;
        let most = settings.http.max_decoded_bytes;
        let body = Decoder::decode_body(&encodings.join(","), &bytes, most).0;
        Ok(Self {
            id,
            kind,
            mime,
            directives,
            links,
            body: body.into_owned(),
        })
    }
}
