//! The seam between deciding and fetching. Whoever decides has the partitions: it says in a [`Grant`] which host may be
//! asked now, for which of its URLs, and what is known of both. Whoever fetches asks, archives, and says in a [`Return`]
//! what came of it. Neither looks into the other: a whole turn needs its grant and nothing of the partition.
//!
//! In one process the two halves are a worker and its client (`portolan-crawl`): the grant moves to the turn's task, what
//! the turn finds goes to the archivist as it comes, and the return ends the turn. Nothing is encoded.
//!
//! # In two processes
//!
//! Whoever grants
//! - sets `Terms::with_links`, because the other side cannot read the link graph, and `Terms::expires_ms`;
//! - sends `Grant::encode`, and keeps the host and its URLs to itself until the return comes or the grant has expired
//!   ([`Partition::take_back_expired`](crate::Partition::take_back_expired): only after that and the host's delay is the host granted again);
//! - commits the entries of a return to the journal first, and then calls
//!   [`Partition::take_back`](crate::Partition::take_back). That refuses a return of a grant that has expired: its URLs may be
//!   somebody else's by now.
//!
//! Whoever fetches
//! - asks nothing of the host after `expires_ms`, by a clock that may differ from the other side's by no more than the
//!   margin that both allow for;
//! - starts from the grant's pulse, obeys what it says of robots.txt while that holds, and reads it anew otherwise; what it reads it
//!   returns as [`Entry::Host`];
//! - archives each answer, makes the archive durable (in a fleet: ships it), and only then sends one `Return::encode` for
//!   the grant, with the archive's positions in the visits;
//! - treats what a grant does not have as unknown: older checks of a document, for one, so that a document with volatile parts is
//!   fetched whole.
//!
//! What is the same for all grants is no part of them: the settings, the secret that DocIds are keyed with, the session,
//! and the pages that may still be fetched.
//!
//! # How large they are
//!
//! A grant has at least one URL, with the links of that URL's last check: `content.max_links` of 8 bytes each at most.
//! Others follow while it stays below `Terms::max_bytes`. The rules of robots.txt come on top: half a megabyte for each origin of the
//! host at the very most, some hundred bytes as a rule. A return is as large as the entries in it.

use portolan_model::{DocId, HostId, LinkKind, PartitionId, Pulse};

use crate::log::{
    Entry, put_docs, put_pulse, put_robots, put_visit, read_docs, read_pulse, read_robots,
    read_visit,
};
use crate::partition::{Due, Turn};
use crate::state::LastCheck;
use crate::wire::{Reader, put_bytes, put_u64, put_varint};

/// The first byte of both; another one is of another version of the program.
const FORMAT: u8 = 1;

/// Which grant it is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct GrantId {
    pub partition: PartitionId,
    /// Of the partition's assignment to whoever grants; 0 where there is one process.
    pub epoch: u64,
    /// No two grants of a partition have the same, even if its registry was opened anew between them.
    pub number: u64,
}

/// One host to be asked, and for which of its URLs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Grant {
    pub id: GrantId,
    /// Nothing is asked of the host for this grant from then on; `u64::MAX` if it ends with its process.
    pub expires_ms: u64,
    /// The host, and what is known of it.
    pub turn: Turn,
    /// In the order in which they are to be asked for.
    pub urls: Vec<Granted>,
}

/// A URL to be asked for, and what is known of it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Granted {
    pub due: Due,
    /// Where the links of its last check led. `None`: there was no check, or whoever fetches can look it up.
    pub known_links: Option<Vec<DocId>>,
}

/// On which terms a turn is granted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Terms {
    pub epoch: u64,
    pub expires_ms: u64,
    /// At most this many URLs.
    pub urls: usize,
    /// Beyond about this many bytes no other URL is added.
    pub max_bytes: usize,
    /// With the links of each URL's last check, for who cannot look them up.
    pub with_links: bool,
}

impl Terms {
    /// In one process: as many URLs as a turn may have, until it ends.
    pub fn here(urls: usize) -> Self {
        Self {
            epoch: 0,
            expires_ms: u64::MAX,
            urls,
            max_bytes: usize::MAX,
            with_links: false,
        }
    }
}

/// What came of a grant.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Return {
    pub id: GrantId,
    pub host: HostId,
    /// How the host is, and when it may be asked again.
    pub pulse: Pulse,
    /// Granted and not asked for: they are due as before.
    pub unused: Vec<DocId>,
    /// What was found, in order, archived. Empty in one process, where it has gone to the archivist as it came.
    pub entries: Vec<Entry>,
}

impl Granted {
    /// About how many bytes it takes.
    pub(crate) fn bytes(&self) -> usize {
        let visit = self.due.last.as_deref().map_or(0, |last| {
            let visit = &last.visit;
            let texts = visit.mime.len() + visit.title.len() + visit.etag.len();
            let facts: usize = visit.facts.iter().map(|fact| 8 + fact.bytes()).sum();
            120 + texts + facts
        });
        let links = self.known_links.as_ref().map_or(0, Vec::len);
        32 + self.due.url.len() + visit + 8 * links
    }
}

impl Grant {
    /// What comes of it if nobody asks for anything.
    pub fn unused(&self, pulse: Pulse) -> Return {
        Return {
            id: self.id,
            host: self.turn.host,
            pulse,
            unused: self.urls.iter().map(|url| url.due.doc).collect(),
            entries: Vec::new(),
        }
    }

    /// For a process that fetches.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = vec![FORMAT];
        put_id(&mut out, self.id);
        put_varint(&mut out, self.expires_ms);
        put_turn(&mut out, &self.turn);
        put_varint(&mut out, self.urls.len() as u64);
        for url in &self.urls {
            put_due(&mut out, &url.due);
            put_option(&mut out, url.known_links.as_ref(), |out, links| {
                put_docs(out, links);
            });
        }
        out
    }

    /// The reverse of `encode`; `None` if the bytes are not one grant.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let reader = &mut Reader::new(bytes);
        if reader.byte()? != FORMAT {
            return None;
        }
        let grant = Self {
            id: read_id(reader)?,
            expires_ms: reader.varint()?,
            turn: read_turn(reader)?,
            urls: read_many(reader, |reader| {
                Some(Granted {
                    due: read_due(reader)?,
                    known_links: read_option(reader, read_docs)?,
                })
            })?,
        };
        reader.is_empty().then_some(grant)
    }
}

impl Return {
    /// For whoever granted.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = vec![FORMAT];
        put_id(&mut out, self.id);
        put_u64(&mut out, self.host.0);
        put_pulse(&mut out, &self.pulse);
        put_docs(&mut out, &self.unused);
        put_varint(&mut out, self.entries.len() as u64);
        let mut bytes = Vec::new();
        for entry in &self.entries {
            bytes.clear();
            entry.encode(&mut bytes);
            put_bytes(&mut out, &bytes);
        }
        out
    }

    /// The reverse of `encode`; `None` if the bytes are not one return.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let reader = &mut Reader::new(bytes);
        if reader.byte()? != FORMAT {
            return None;
        }
        let back = Self {
            id: read_id(reader)?,
            host: HostId(reader.u64()?),
            pulse: read_pulse(reader)?,
            unused: read_docs(reader)?,
            entries: read_many(reader, |reader| Entry::decode(reader.bytes()?))?,
        };
        reader.is_empty().then_some(back)
    }
}

fn put_id(out: &mut Vec<u8>, id: GrantId) {
    put_varint(out, u64::from(id.partition.0));
    put_varint(out, id.epoch);
    put_varint(out, id.number);
}

fn read_id(reader: &mut Reader<'_>) -> Option<GrantId> {
    Some(GrantId {
        partition: PartitionId(reader.narrow()?),
        epoch: reader.varint()?,
        number: reader.varint()?,
    })
}

fn put_turn(out: &mut Vec<u8>, turn: &Turn) {
    put_u64(out, turn.host.0);
    put_bytes(out, turn.name.as_bytes());
    put_pulse(out, &turn.pulse);
    put_varint(out, turn.robots.len() as u64);
    for robots in &turn.robots {
        put_robots(out, robots);
    }
    put_varint(out, turn.pages);
    put_varint(out, turn.in_flight);
    put_option(out, turn.recorded_delay_ms, |out, delay_ms| {
        put_varint(out, u64::from(delay_ms));
    });
}

fn read_turn(reader: &mut Reader<'_>) -> Option<Turn> {
    Some(Turn {
        host: HostId(reader.u64()?),
        name: reader.string()?,
        pulse: read_pulse(reader)?,
        robots: read_many(reader, read_robots)?,
        pages: reader.varint()?,
        in_flight: reader.varint()?,
        recorded_delay_ms: read_option(reader, |reader| reader.narrow())?,
    })
}

fn put_due(out: &mut Vec<u8>, due: &Due) {
    put_u64(out, due.doc.0);
    put_bytes(out, due.url.as_bytes());
    out.extend_from_slice(&[due.class, due.hops, due.kind as u8, due.attempts]);
    put_varint(out, u64::from(due.depth));
    put_varint(out, u64::from(due.score));
    put_option(out, due.last.as_deref(), |out, last| {
        put_varint(out, last.at);
        put_visit(out, &last.visit, last.visit.history.links_at);
    });
}

fn read_due(reader: &mut Reader<'_>) -> Option<Due> {
    Some(Due {
        doc: DocId(reader.u64()?),
        url: reader.string()?,
        class: reader.byte()?,
        hops: reader.byte()?,
        kind: LinkKind::from_u8(reader.byte()?)?,
        attempts: reader.byte()?,
        depth: reader.narrow()?,
        score: reader.narrow()?,
        last: read_option(reader, |reader| {
            Some(Box::new(LastCheck {
                at: reader.varint()?,
                visit: read_visit(reader)?,
            }))
        })?,
    })
}

fn put_option<T>(out: &mut Vec<u8>, value: Option<T>, put: impl FnOnce(&mut Vec<u8>, T)) {
    out.push(u8::from(value.is_some()));
    if let Some(value) = value {
        put(out, value);
    }
}

fn read_option<'b, T>(
    reader: &mut Reader<'b>,
    read: impl FnOnce(&mut Reader<'b>) -> Option<T>,
) -> Option<Option<T>> {
    match reader.byte()? {
        0 => Some(None),
        1 => read(reader).map(Some),
        _ => None,
    }
}

/// A count that the bytes cannot hold ends in `None`, before it takes memory.
fn read_many<'b, T>(
    reader: &mut Reader<'b>,
    mut read: impl FnMut(&mut Reader<'b>) -> Option<T>,
) -> Option<Vec<T>> {
    let count = reader.varint()?;
    (0..count).map(|_| read(reader)).collect()
}

#[cfg(test)]
mod tests;
