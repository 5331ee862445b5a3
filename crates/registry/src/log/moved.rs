//! What is known already, on its way into a registry that divides the same crawl otherwise. Such entries are the first of
//! their partitions' logs, so that each partition is a fold of its log there, too.

use crate::hosts::HostState;
use crate::log::visit_codec::{put_visit, read_visit};
use crate::record::UrlState;
use crate::stats::Stats;
use crate::wire::{Reader, put_bytes, put_u64, put_varint};
use portolan_model::{DocId, LinkKind, Visit};

/// One piece of what another partition knew. Each comes once.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Moved {
    /// Comes first: the session that runs, and counters that belong to no URL that is known.
    Counts {
        session: u32,
        stats: Stats,
    },
    /// Seeds, in their order.
    Seeds {
        urls: Vec<String>,
    },
    /// A host, but for its queue: each URL that is due counts up that.
    Host {
        state: HostState,
    },
    Url(Box<MovedUrl>),
}

/// A URL, with all that its record, its text and its visits say.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MovedUrl {
    pub url: String,
    pub kind: LinkKind,
    pub depth: u16,
    pub hops: u8,
    pub from: Option<DocId>,
    pub early: bool,
    pub arrival: u64,
    pub count: u32,
    pub score: u32,
    pub state: UrlState,
    pub reason: u8,
    pub priority: i8,
    pub attempts: u8,
    /// Oldest first; the last one is what its record names. Those that have `links_at` have the links in `targets`. What
    /// comes before each is told by their order alone.
    pub visits: Vec<Visit>,
    /// Where the links of its last check lead.
    pub targets: Vec<DocId>,
}

const COUNTS: u8 = 0;
const SEEDS: u8 = 1;
const HOST: u8 = 2;
const URL: u8 = 3;

impl Moved {
    /// About how many bytes of log it takes.
    pub(super) fn size_hint(&self) -> usize {
        const A_VISIT: usize = 160;
        match self {
            Moved::Counts { .. } => 512,
            Moved::Seeds { urls } => urls.iter().map(|url| 8 + url.len()).sum(),
            Moved::Host { state } => {
                let rules = state.robots.iter().map(|robots| 64 + robots.rules.len());
                64 + state.name.len() + rules.sum::<usize>()
            }
            Moved::Url(url) => {
                40 + url.url.len() + A_VISIT * url.visits.len() + 8 * url.targets.len()
            }
        }
    }

    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Moved::Counts { session, stats } => {
                out.push(COUNTS);
                put_varint(out, u64::from(*session));
                stats.encode(out);
            }
            Moved::Seeds { urls } => {
                out.push(SEEDS);
                put_varint(out, urls.len() as u64);
                urls.iter().for_each(|url| put_bytes(out, url.as_bytes()));
            }
            Moved::Host { state } => {
                out.push(HOST);
                let mut body = Vec::new();
                state.encode(&mut body);
                put_bytes(out, &body);
            }
            Moved::Url(url) => {
                out.push(URL);
                url.encode(out);
            }
        }
    }

    pub(super) fn decode(reader: &mut Reader<'_>) -> Option<Self> {
        Some(match reader.byte()? {
            COUNTS => Moved::Counts {
                session: reader.narrow()?,
                stats: Stats::decode(reader)?,
            },
            SEEDS => {
                let count: usize = reader.narrow()?;
                Moved::Seeds {
                    urls: (0..count).map(|_| reader.string()).collect::<Option<_>>()?,
                }
            }
            HOST => Moved::Host {
                state: HostState::decode(reader.bytes()?)?,
            },
            URL => Moved::Url(Box::new(MovedUrl::decode(reader)?)),
            _ => return None,
        })
    }
}

impl MovedUrl {
    fn encode(&self, out: &mut Vec<u8>) {
        put_bytes(out, self.url.as_bytes());
        let flags = u8::from(self.from.is_some()) | u8::from(self.early) << 1;
        out.extend_from_slice(&[flags, self.kind as u8, self.hops]);
        if let Some(from) = self.from {
            put_u64(out, from.0);
        }
        put_varint(out, u64::from(self.depth));
        put_varint(out, self.arrival);
        put_varint(out, u64::from(self.count));
        put_varint(out, u64::from(self.score));
        let (state, priority) = (self.state as u8, self.priority as u8);
        out.extend_from_slice(&[state, self.reason, priority, self.attempts]);
        put_visits(out, &self.visits);
        put_varint(out, self.targets.len() as u64);
        self.targets.iter().for_each(|doc| put_u64(out, doc.0));
    }

    fn decode(reader: &mut Reader<'_>) -> Option<Self> {
        let url = reader.string()?;
        let flags = reader.byte().filter(|&flags| flags < 4)?;
        let kind = LinkKind::from_u8(reader.byte()?)?;
        let hops = reader.byte()?;
        Some(Self {
            url,
            kind,
            hops,
            from: match flags & 1 {
                0 => None,
                _ => Some(DocId(reader.u64()?)),
            },
            early: flags & 2 != 0,
            depth: reader.narrow()?,
            arrival: reader.varint()?,
            count: reader.narrow()?,
            score: reader.narrow()?,
            state: UrlState::from_u8(reader.byte()?)?,
            reason: reader.byte()?,
            priority: reader.byte()? as i8,
            attempts: reader.byte()?,
            visits: read_visits(reader)?,
            targets: {
                let count: usize = reader.narrow()?;
                (0..count)
                    .map(|_| reader.u64().map(DocId))
                    .collect::<Option<_>>()?
            },
        })
    }
}

fn put_visits(out: &mut Vec<u8>, visits: &[Visit]) {
    put_varint(out, visits.len() as u64);
    for visit in visits {
        let mut body = Vec::with_capacity(160);
        put_visit(&mut body, visit, visit.history.links_at);
        put_bytes(out, &body);
    }
}

fn read_visits(reader: &mut Reader<'_>) -> Option<Vec<Visit>> {
    let count: usize = reader.narrow()?;
    let read = |_| {
        let body = &mut Reader::new(reader.bytes()?);
        read_visit(body).filter(|_| body.is_empty())
    };
    (0..count).map(read).collect()
}
