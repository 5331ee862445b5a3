//! How requests are made and where they end. Plain data; the defaults are the ones that ship.

use serde::{Deserialize, Serialize};
use std::path::PathBuf;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct HttpSettings {
    /// Who asks, and how long connections to whom are kept: said by whoever connects, not in a file's table.
    #[serde(skip)]
    pub agent: Agent,
    /// From the first connection attempt to a usable connection, TLS handshake included.
    pub connect_timeout_ms: u64,
    /// From sending the request to the end of the answer's head.
    pub first_byte_timeout_ms: u64,
    /// Longest silence within a body.
    pub read_timeout_ms: u64,
    /// A body that brings fewer bytes a second than this, over a stretch of `read_timeout_ms`, is cut; 0: any pace will do.
    pub min_bytes_per_s: u64,
    /// From sending the request to the end of the body.
    pub request_timeout_ms: u64,
    pub max_head_bytes: usize,
    /// Body as received, transfer-decoded; longer ones are cut. What it is packed in may take as much again:
    /// see `max_wire_bytes`.
    pub max_body_bytes: u64,
    /// Body after content decoding; longer ones are cut.
    pub max_decoded_bytes: u64,
    /// Ask for compressed answers (gzip, deflate, br, zstd).
    pub compression: bool,
    /// Offer HTTP/2 in TLS handshakes.
    pub http2: bool,
    /// Take an answer without a status line as a body (HTTP/0.9).
    pub http09: bool,
    /// Fetch from servers whose certificate is not valid; what was wrong with it is recorded.
    pub accept_invalid_certificates: bool,
    /// A PEM file with certificate authorities to trust besides the built-in ones; empty: none.
    pub ca_file: PathBuf,
    /// Sent as Accept. Empty: not sent.
    pub accept: String,
    /// Sent as Accept-Language. Empty: not sent.
    pub accept_language: String,
    /// For whoever asks: a connection sends what it is told to.
    pub head_first: HeadFirst,
}

/// Who asks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Agent {
    /// Sent as User-Agent.
    pub user_agent: String,
    /// Sent as From: whom a webmaster can write to. Empty: not sent.
    pub contact: String,
    /// How long a connection may idle and still be used again.
    pub keep_alive_ms: u64,
}

impl Default for Agent {
    fn default() -> Self {
        Self {
            user_agent: concat!("portolan/", env!("CARGO_PKG_VERSION")).to_owned(),
            contact: String::new(),
            keep_alive_ms: 5_000,
        }
    }
}

/// When to ask with HEAD before GET.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum HeadFirst {
    Never,
    /// Where the URL's look says that it may be something unwanted and large.
    ByLook,
    Always,
}

impl Default for HttpSettings {
    fn default() -> Self {
        Self {
            agent: Agent::default(),
            accept: "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8".to_owned(),
            accept_language: String::new(),
            compression: true,
            connect_timeout_ms: 10_000,
            first_byte_timeout_ms: 30_000,
            read_timeout_ms: 20_000,
            min_bytes_per_s: 64,
            request_timeout_ms: 120_000,
            max_head_bytes: 128 * 1024,
            max_body_bytes: 16 * 1024 * 1024,
            max_decoded_bytes: 32 * 1024 * 1024,
            http2: true,
            http09: true,
            accept_invalid_certificates: false,
            ca_file: PathBuf::new(),
            head_first: HeadFirst::ByLook,
        }
    }
}

impl HttpSettings {
    /// An answer that takes more bytes on the wire, whatever they are, is cut.
    pub(crate) fn max_wire_bytes(&self) -> u64 {
        self.max_body_bytes
            .saturating_mul(2)
            .saturating_add(self.max_head_bytes as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_have_defaults_and_refuse_what_they_do_not_know() {
        let defaults: HttpSettings = serde_json::from_str("{}").unwrap();
        assert_eq!(defaults, HttpSettings::default());
        let one: HttpSettings = serde_json::from_str(r#"{"http2": false}"#).unwrap();
        assert!(!one.http2 && one.http09);
        let error = serde_json::from_str::<HttpSettings>(r#"{"htp2": false}"#).unwrap_err();
        assert!(error.to_string().contains("htp2"), "{error}");
    }
}
