//! What crawl-clients and seed-servers say to each other: a client asks a server for work, and hands in what came of it.
//! Grants and returns are bytes here; nothing looks into them. Both ways go through NATS: a client has one connection, and
//! none to another client.
//!
//! Clocks of two machines differ, so each message carries its sender's, and the receiver reckons from that. A message that is
//! under way for long makes pauses longer, never shorter.

use bytes::Bytes;
use serde::{Deserialize, Serialize};

const VERSION: u8 = 1;
/// What follows is the key of an object in the store: it was too large for a message.
const KEY: u8 = 2;
/// As for links: more work than this brings little.
const LEVEL: i32 = 1;
/// Refuses what grows beyond this when unpacked.
const MOST_UNPACKED: usize = 512 << 20;

/// A client asks for work.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Want {
    pub client: String,
    /// Grants that it can begin at once.
    pub slots: u32,
    /// Turns of this server's grants that it has under way.
    pub running: u32,
    /// Connections that it may have for this server at the very most, and those that it begins with.
    pub most: u32,
    pub first: u32,
}

/// What a server tells a client about its number of connections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Pace {
    #[default]
    Steady,
    /// Much is due: have more connections.
    HurryUp,
    /// Little is due: have fewer.
    SlowDown,
}

impl Pace {
    /// In the paper's words; empty if nothing changes.
    pub fn name(self) -> &'static str {
        match self {
            Self::Steady => "",
            Self::HurryUp => "hurry up",
            Self::SlowDown => "slow down",
        }
    }
}

/// What a server answers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Work {
    /// By the server's clock.
    pub now_ms: u64,
    /// Connections that the client is to have for this server.
    pub target: u32,
    pub pace: Pace,
    pub grants: Vec<Bytes>,
}

/// What came of a grant, and when it was sent by the client's clock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Brought {
    pub now_ms: u64,
    pub back: Bytes,
}

impl Work {
    pub(crate) fn pack(&self) -> std::io::Result<Vec<u8>> {
        let mut raw = Vec::new();
        raw.extend_from_slice(&self.now_ms.to_le_bytes());
        raw.extend_from_slice(&self.target.to_le_bytes());
        raw.push(self.pace as u8);
        for grant in &self.grants {
            raw.extend_from_slice(&(grant.len() as u32).to_le_bytes());
            raw.extend_from_slice(grant);
        }
        packed(&raw)
    }

    pub(crate) fn unpack(bytes: &[u8]) -> Option<Self> {
        let raw = unpacked(bytes)?;
        let (now_ms, rest) = raw.split_first_chunk::<8>()?;
        let (target, rest) = rest.split_first_chunk::<4>()?;
        let (pace, rest) = rest.split_first()?;
        let mut work = Self {
            now_ms: u64::from_le_bytes(*now_ms),
            target: u32::from_le_bytes(*target),
            pace: match pace {
                0 => Pace::Steady,
                1 => Pace::HurryUp,
                2 => Pace::SlowDown,
                _ => return None,
            },
            grants: Vec::new(),
        };
        let mut at = raw.len() - rest.len();
        while at < raw.len() {
            let (length, rest) = raw[at..].split_first_chunk::<4>()?;
            let length = u32::from_le_bytes(*length) as usize;
            rest.get(..length)?;
            at += 4;
            work.grants.push(raw.slice(at..at + length));
            at += length;
        }
        Some(work)
    }
}

/// An answer, or where in the store it is.
pub(crate) enum Answer {
    Here(Work),
    Key(String),
}

pub(crate) fn unpack_answer(bytes: &[u8]) -> Option<Answer> {
    match bytes.split_first()? {
        (&KEY, key) => Some(Answer::Key(String::from_utf8(key.to_vec()).ok()?)),
        _ => Some(Answer::Here(Work::unpack(bytes)?)),
    }
}

/// A message of a client that hands something in: its clock, then the return, or where in the store that is.
pub(crate) enum HandIn {
    Here(Brought),
    Key { now_ms: u64, key: String },
}

pub(crate) fn pack_back(back: &[u8]) -> std::io::Result<Vec<u8>> {
    packed(back)
}

/// Says where in the store something is.
pub(crate) fn pack_key(key: &str) -> Vec<u8> {
    [&[KEY], key.as_bytes()].concat()
}

/// `body` is what `pack_back` or `pack_key` made.
pub(crate) fn with_time(now_ms: u64, body: &[u8]) -> Bytes {
    [&now_ms.to_le_bytes(), body].concat().into()
}

pub(crate) fn unpack_back(bytes: &[u8]) -> Option<HandIn> {
    let (now_ms, body) = bytes.split_first_chunk::<8>()?;
    let now_ms = u64::from_le_bytes(*now_ms);
    match body.split_first()? {
        (&KEY, key) => Some(HandIn::Key {
            now_ms,
            key: String::from_utf8(key.to_vec()).ok()?,
        }),
        _ => Some(HandIn::Here(Brought {
            now_ms,
            back: unpacked(body)?,
        })),
    }
}

fn packed(raw: &[u8]) -> std::io::Result<Vec<u8>> {
    let mut bytes = vec![VERSION];
    bytes.extend_from_slice(&(raw.len() as u32).to_le_bytes());
    bytes.extend(zstd::bulk::compress(raw, LEVEL)?);
    Ok(bytes)
}

pub(crate) fn unpacked(bytes: &[u8]) -> Option<Bytes> {
    let (&version, rest) = bytes.split_first()?;
    let (length, rest) = rest.split_first_chunk::<4>()?;
    let length = u32::from_le_bytes(*length) as usize;
    if version != VERSION || length > MOST_UNPACKED {
        return None;
    }
    let raw = zstd::bulk::decompress(rest, length).ok()?;
    (raw.len() == length).then(|| raw.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_and_returns_come_as_they_left() {
        let work = Work {
            now_ms: 7_000,
            target: 25,
            pace: Pace::HurryUp,
            grants: vec![Bytes::from_static(b"one"), Bytes::from_static(b"")],
        };
        let bytes = work.pack().expect("packs");
        assert_eq!(Work::unpack(&bytes), Some(work));
        for cut in 0..bytes.len() {
            assert_eq!(Work::unpack(&bytes[..cut]), None, "{cut}");
        }
        let by_key = unpack_answer(&pack_key("grants/x"));
        assert!(matches!(by_key, Some(Answer::Key(key)) if key == "grants/x"));
        assert!(matches!(unpack_answer(&bytes), Some(Answer::Here(_))));
        let message = with_time(9, &pack_back(b"entries").expect("packs"));
        let Some(HandIn::Here(brought)) = unpack_back(&message) else {
            panic!("it was packed");
        };
        assert_eq!((brought.now_ms, &brought.back[..]), (9, &b"entries"[..]));
        let by_key = with_time(3, &pack_key("returns/x"));
        assert!(matches!(
            unpack_back(&by_key),
            Some(HandIn::Key { now_ms: 3, key }) if key == "returns/x"
        ));
        assert!(unpack_back(b"short").is_none());
    }
}
