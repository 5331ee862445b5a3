//! What a partition's log is made of, and its bytes.

use crate::log::homes::Claim;
use crate::log::moved::Moved;
use crate::log::stream::Origin;
use crate::log::visit_codec::{put_position, put_visit, read_position, read_visit};
use crate::wire::{Reader, put_bytes, put_u64, put_varint};
use portolan_model::{
    ArchivePosition, DocId, LinkBatch, PartitionId, Pulse, Reason, RobotsRecord, RobotsStatus,
    SiteTables, Standing, Visit,
};

/// One step of a partition's history. The state of a partition is a function of these alone.
#[derive(Clone, PartialEq, Eq, Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "nearly every entry is a visit, and a box would cost an allocation a page"
)]
pub enum Entry {
    /// Seeds (`source` is `None`), or links forwarded from another partition's visit: folded
    /// exactly once, in the order of the stream that they come by.
    Links {
        source: Option<Origin>,
        links: LinkBatch,
    },
    /// One request and what came of it, with its links for this partition, those for others, and
    /// all distinct targets for the link graph.
    Visit {
        url: String,
        visit: Visit,
        pulse: Pulse,
        links: LinkBatch,
        /// Emptied by `Journal::commit`, which makes entries of their destinations of them.
        forwards: Vec<(PartitionId, LinkBatch)>,
        targets: Vec<DocId>,
    },
    /// Facts of a host that come without a visit of a queued URL, with the links that came along
    /// (sitemaps).
    Host {
        host: String,
        pulse: Pulse,
        robots: Option<RobotsRecord>,
        /// Where the answer that told them is archived.
        archive: Option<ArchivePosition>,
        links: LinkBatch,
        /// Emptied by `Journal::commit`, which makes entries of their destinations of them.
        forwards: Vec<(PartitionId, LinkBatch)>,
    },
    /// URLs that failed or were excluded become due again, as if they had never been tried. URLs
    /// that are due, visited or unknown are left as they are.
    Again { urls: Vec<String> },
    /// Verdicts by other settings than before. Without `links.from()` they are on URLs that are known: what was
    /// excluded becomes due, or keeps out for another reason; what is due is taken out, or moves. With it they are
    /// links of an archived page that was read again: what is unknown becomes known, an access condition is lifted
    /// where they lift it, and nothing else changes. Either way it may be folded twice, and no link counts twice.
    Judged { links: LinkBatch },
    /// A new session begins, unless it has begun already, and these URLs are due in it. A URL that was visited in it, or
    /// is due, or is unknown, is left as it is: so it may be folded twice, and no URL is due twice in a session.
    Session {
        number: u32,
        begun_ms: u64,
        urls: Vec<Renewed>,
    },
    /// The copies of these URLs have grown old: they are due again in the session that runs. So are URLs that only waited
    /// for their share of the rate. A URL that is due, is unknown or is kept out by settings is left as it is.
    Refresh { docs: Vec<DocId> },
    /// In a fleet: what the entries before it had for other partitions. It is an entry of the source, which has them until
    /// they have arrived. Its own number is theirs in the streams that it names.
    Sent { forwards: Vec<Forward> },
    /// In a fleet: the links of several pages that came with one forward. Folded like `Links`.
    Heard {
        origin: Origin,
        pages: Vec<LinkBatch>,
    },
    /// What was known before the crawl was divided otherwise. Such entries are the first of a log.
    Moved(Moved),
    /// In a fleet: sites of which this partition is the home, and who fetches them from now on. See `Homes`.
    Claims { claims: Vec<Claim> },
}

/// Links of one partition for another one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Forward {
    pub to: PartitionId,
    /// The number of the forward before it in the same stream; 0 for the first.
    pub predecessor: u64,
    /// Links of one page each. None where the same commit has made an entry of the destination of them.
    pub pages: Vec<LinkBatch>,
}

/// A URL that is due again in a new session.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Renewed {
    pub url: String,
    pub was: Was,
    /// The class that it has in the new session, where that goes by the ranks of the last one.
    pub class: Option<u8>,
}

/// What a URL was counted as before the new session.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Was {
    pub document: bool,
    pub sitemap: bool,
    pub duplicate: bool,
}

impl Was {
    /// As the visit counts it.
    pub fn of(visit: &Visit) -> Self {
        Self {
            document: visit.is_document(),
            sitemap: visit.is_source(),
            duplicate: visit.duplicate_of.is_some(),
        }
    }

    fn bits(self) -> u8 {
        u8::from(self.document) | u8::from(self.sitemap) << 1 | u8::from(self.duplicate) << 2
    }

    fn from_bits(bits: u8) -> Option<Self> {
        (bits < 8).then_some(Self {
            document: bits & 1 != 0,
            sitemap: bits & 2 != 0,
            duplicate: bits & 4 != 0,
        })
    }
}

const LINKS: u8 = 1;
const VISIT: u8 = 2;
const HOST: u8 = 3;
const AGAIN: u8 = 4;
const JUDGED: u8 = 5;
const SESSION: u8 = 6;
const REFRESH: u8 = 7;
pub(super) const SENT: u8 = 8;
const MOVED: u8 = 9;
const HEARD: u8 = 10;
const CLAIMS: u8 = 11;

/// What an entry without links has.
static NO_LINKS: std::sync::LazyLock<LinkBatch> = std::sync::LazyLock::new(LinkBatch::default);

impl Entry {
    /// The entry that a forward makes of its destination.
    pub(crate) fn heard(origin: Origin, mut pages: Vec<LinkBatch>) -> Self {
        match (pages.len(), pages.pop()) {
            (1, Some(links)) => Entry::Links {
                source: Some(origin),
                links,
            },
            (_, last) => {
                pages.extend(last);
                Entry::Heard { origin, pages }
            }
        }
    }

    /// The links for the entry's own partition, page by page.
    pub fn pages(&self) -> &[LinkBatch] {
        match self {
            Entry::Heard { pages, .. } => pages,
            other => std::slice::from_ref(other.links()),
        }
    }

    /// How many links are for the entry's own partition.
    pub fn links_len(&self) -> usize {
        self.pages().iter().map(LinkBatch::len).sum()
    }

    /// The links for the entry's own partition, where they are of one page at most.
    pub fn links(&self) -> &LinkBatch {
        match self {
            Entry::Links { links, .. }
            | Entry::Visit { links, .. }
            | Entry::Host { links, .. }
            | Entry::Judged { links } => links,
            Entry::Again { .. }
            | Entry::Session { .. }
            | Entry::Refresh { .. }
            | Entry::Sent { .. }
            | Entry::Heard { .. }
            | Entry::Moved(_)
            | Entry::Claims { .. } => &NO_LINKS,
        }
    }

    /// The same, where a fleet's homes say whose they are.
    pub(super) fn sorted_links(&mut self) -> &mut [LinkBatch] {
        match self {
            Entry::Links { links, .. } | Entry::Visit { links, .. } | Entry::Host { links, .. } => {
                std::slice::from_mut(links)
            }
            Entry::Heard { pages, .. } => pages,
            _ => &mut [],
        }
    }

    /// The links for other partitions, until a commit makes entries of them.
    pub fn forwards(&self) -> &[(PartitionId, LinkBatch)] {
        match self {
            Entry::Visit { forwards, .. } | Entry::Host { forwards, .. } => forwards,
            _ => &[],
        }
    }

    /// Takes out the links that are for other partitions.
    pub(crate) fn take_forwards(&mut self) -> Vec<(PartitionId, LinkBatch)> {
        match self {
            Entry::Visit { forwards, .. } | Entry::Host { forwards, .. } => {
                std::mem::take(forwards)
            }
            Entry::Links { .. }
            | Entry::Again { .. }
            | Entry::Judged { .. }
            | Entry::Session { .. }
            | Entry::Refresh { .. }
            | Entry::Sent { .. }
            | Entry::Heard { .. }
            | Entry::Moved(_)
            | Entry::Claims { .. } => Vec::new(),
        }
    }

    /// About how many bytes of log it takes.
    pub(crate) fn size_hint(&self) -> u64 {
        let bytes = match self {
            Entry::Links { links, .. } | Entry::Judged { links } => 32 + links.bytes(),
            Entry::Visit {
                url,
                visit,
                links,
                targets,
                ..
            } => {
                let facts: usize = visit.facts.iter().map(|fact| 8 + fact.bytes()).sum();
                200 + url.len() + facts + links.bytes() + 8 * targets.len()
            }
            Entry::Host {
                host,
                robots,
                links,
                ..
            } => {
                let rules = robots.as_ref().map_or(0, |robots| robots.rules.len());
                64 + host.len() + rules + links.bytes()
            }
            Entry::Again { urls } => urls.iter().map(|url| 8 + url.len()).sum(),
            Entry::Session { urls, .. } => {
                16 + urls
                    .iter()
                    .map(|renewed| 8 + renewed.url.len())
                    .sum::<usize>()
            }
            Entry::Refresh { docs } => 8 + 8 * docs.len(),
            Entry::Sent { forwards } => {
                let bytes = forwards
                    .iter()
                    .map(|forward| 16 + pages_hint(&forward.pages));
                16 + bytes.sum::<usize>()
            }
            Entry::Heard { pages, .. } => 32 + pages_hint(pages),
            Entry::Moved(moved) => moved.size_hint(),
            Entry::Claims { claims } => 8 + 10 * claims.len(),
        };
        bytes as u64
    }

    /// About how many bytes of RAM it takes.
    pub fn ram_bytes(&self) -> u64 {
        let forwards: &[(PartitionId, LinkBatch)] = match self {
            Entry::Visit { forwards, .. } | Entry::Host { forwards, .. } => forwards,
            Entry::Links { .. }
            | Entry::Again { .. }
            | Entry::Judged { .. }
            | Entry::Session { .. }
            | Entry::Refresh { .. }
            | Entry::Sent { .. }
            | Entry::Heard { .. }
            | Entry::Moved(_)
            | Entry::Claims { .. } => &[],
        };
        let forwards = forwards.iter().map(|(_, links)| links.ram_bytes());
        let pages = self.pages().iter();
        let docs: usize = pages.map(|links| links.ram_bytes() - links.bytes()).sum();
        self.size_hint() + (docs + forwards.sum::<usize>()) as u64
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Entry::Links { source, links } => {
                out.push(LINKS);
                match source {
                    None => out.push(0),
                    Some(origin) => {
                        out.push(1);
                        put_origin(out, origin);
                    }
                }
                put_batch(out, links);
            }
            Entry::Visit {
                url,
                visit,
                pulse,
                links,
                forwards,
                targets,
            } => {
                out.push(VISIT);
                put_bytes(out, url.as_bytes());
                put_visit(out, visit, visit.history.links_at);
                put_pulse(out, pulse);
                put_batch(out, links);
                put_forwards(out, forwards);
                put_docs(out, targets);
            }
            Entry::Host {
                host,
                pulse,
                robots,
                archive,
                links,
                forwards,
            } => {
                out.push(HOST);
                put_bytes(out, host.as_bytes());
                put_pulse(out, pulse);
                out.push(u8::from(robots.is_some()));
                if let Some(robots) = robots {
                    put_robots(out, robots);
                }
                out.push(u8::from(archive.is_some()));
                if let Some(archive) = archive {
                    put_position(out, archive);
                }
                put_batch(out, links);
                put_forwards(out, forwards);
            }
            Entry::Again { urls } => {
                out.push(AGAIN);
                put_varint(out, urls.len() as u64);
                for url in urls {
                    put_bytes(out, url.as_bytes());
                }
            }
            Entry::Judged { links } => {
                out.push(JUDGED);
                put_batch(out, links);
            }
            Entry::Session {
                number,
                begun_ms,
                urls,
            } => {
                out.push(SESSION);
                put_varint(out, u64::from(*number));
                put_varint(out, *begun_ms);
                put_varint(out, urls.len() as u64);
                for renewed in urls {
                    let has_class = u8::from(renewed.class.is_some()) << 3;
                    out.push(renewed.was.bits() | has_class);
                    out.extend(renewed.class);
                    put_bytes(out, renewed.url.as_bytes());
                }
            }
            Entry::Refresh { docs } => {
                out.push(REFRESH);
                put_docs(out, docs);
            }
            Entry::Sent { forwards } => {
                out.push(SENT);
                put_varint(out, forwards.len() as u64);
                for forward in forwards {
                    put_varint(out, u64::from(forward.to.0));
                    put_varint(out, forward.predecessor);
                    put_pages(out, &forward.pages);
                }
            }
            Entry::Heard { origin, pages } => {
                out.push(HEARD);
                put_origin(out, origin);
                put_pages(out, pages);
            }
            Entry::Moved(moved) => {
                out.push(MOVED);
                moved.encode(out);
            }
            Entry::Claims { claims } => {
                out.push(CLAIMS);
                put_claims(out, claims);
            }
        }
    }

    /// The reverse of `encode`; `None` if the bytes are not one entry.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let reader = &mut Reader::new(bytes);
        let entry = match reader.byte()? {
            LINKS => Entry::Links {
                source: match reader.byte()? {
                    0 => None,
                    1 => Some(read_origin(reader)?),
                    _ => return None,
                },
                links: read_batch(reader)?,
            },
            VISIT => Entry::Visit {
                url: reader.string()?,
                visit: read_visit(reader)?,
                pulse: read_pulse(reader)?,
                links: read_batch(reader)?,
                forwards: read_forwards(reader)?,
                targets: read_docs(reader)?,
            },
            HOST => Entry::Host {
                host: reader.string()?,
                pulse: read_pulse(reader)?,
                robots: match reader.byte()? {
                    0 => None,
                    1 => Some(read_robots(reader)?),
                    _ => return None,
                },
                archive: match reader.byte()? {
                    0 => None,
                    1 => Some(read_position(reader)?),
                    _ => return None,
                },
                links: read_batch(reader)?,
                forwards: read_forwards(reader)?,
            },
            AGAIN => Entry::Again {
                urls: {
                    let count: usize = reader.narrow()?;
                    (0..count).map(|_| reader.string()).collect::<Option<_>>()?
                },
            },
            JUDGED => Entry::Judged {
                links: read_batch(reader)?,
            },
            SESSION => Entry::Session {
                number: reader.narrow()?,
                begun_ms: reader.varint()?,
                urls: {
                    let count: usize = reader.narrow()?;
                    (0..count)
                        .map(|_| {
                            let bits = reader.byte()?;
                            Some(Renewed {
                                was: Was::from_bits(bits & !8)?,
                                class: match bits & 8 {
                                    0 => None,
                                    _ => Some(reader.byte()?),
                                },
                                url: reader.string()?,
                            })
                        })
                        .collect::<Option<_>>()?
                },
            },
            REFRESH => Entry::Refresh {
                docs: read_docs(reader)?,
            },
            SENT => Entry::Sent {
                forwards: read_sent(reader)?,
            },
            HEARD => Entry::Heard {
                origin: read_origin(reader)?,
                pages: read_pages(reader)?,
            },
            MOVED => Entry::Moved(Moved::decode(reader)?),
            CLAIMS => Entry::Claims {
                claims: read_claims(reader)?,
            },
            _ => return None,
        };
        reader.is_empty().then_some(entry)
    }
}

pub(crate) fn put_docs(out: &mut Vec<u8>, docs: &[DocId]) {
    put_varint(out, docs.len() as u64);
    for doc in docs {
        put_u64(out, doc.0);
    }
}

pub(crate) fn read_docs(reader: &mut Reader<'_>) -> Option<Vec<DocId>> {
    let count: usize = reader.narrow()?;
    (0..count).map(|_| reader.u64().map(DocId)).collect()
}

pub(crate) fn put_claims(out: &mut Vec<u8>, claims: &[Claim]) {
    put_varint(out, claims.len() as u64);
    for (site, owner) in claims {
        put_u64(out, *site);
        put_varint(out, u64::from(owner.0));
    }
}

pub(crate) fn read_claims(reader: &mut Reader<'_>) -> Option<Vec<Claim>> {
    let count: usize = reader.narrow()?;
    let read = |_| Some((reader.u64()?, PartitionId(reader.narrow()?)));
    (0..count).map(read).collect()
}

fn put_origin(out: &mut Vec<u8>, origin: &Origin) {
    put_varint(out, u64::from(origin.source.0));
    put_varint(out, origin.number);
    put_varint(out, origin.number.wrapping_sub(origin.predecessor));
}

fn read_origin(reader: &mut Reader<'_>) -> Option<Origin> {
    let (source, number) = (PartitionId(reader.narrow()?), reader.varint()?);
    let predecessor = number.checked_sub(reader.varint()?)?;
    Some(Origin {
        source,
        number,
        predecessor,
    })
}

fn put_batch(out: &mut Vec<u8>, batch: &LinkBatch) {
    let has_vote = u8::from(batch.vote() != 0) << 1;
    let is_early = u8::from(batch.is_early()) << 2;
    out.push(u8::from(batch.from().is_some()) | has_vote | is_early);
    if let Some(doc) = batch.from() {
        put_u64(out, doc.0);
    }
    if has_vote != 0 {
        put_varint(out, u64::from(batch.vote()));
    }
    put_bytes(out, batch.heads());
    put_bytes(out, batch.urls().as_bytes());
}

fn read_batch(reader: &mut Reader<'_>) -> Option<LinkBatch> {
    let flags = reader.byte()?;
    if flags > 7 {
        return None;
    }
    let from = match flags & 1 {
        0 => None,
        _ => Some(DocId(reader.u64()?)),
    };
    let vote = match flags & 2 {
        0 => 0,
        _ => reader.narrow()?,
    };
    let heads = reader.bytes()?.to_vec();
    let mut batch = LinkBatch::from_parts(from, heads, reader.string()?)?;
    batch.set_vote(vote);
    batch.set_early(flags & 4 != 0);
    Some(batch)
}

fn pages_hint(pages: &[LinkBatch]) -> usize {
    pages.iter().map(|links| 16 + links.bytes()).sum()
}

fn put_pages(out: &mut Vec<u8>, pages: &[LinkBatch]) {
    put_varint(out, pages.len() as u64);
    pages.iter().for_each(|links| put_batch(out, links));
}

pub(super) fn read_pages(reader: &mut Reader<'_>) -> Option<Vec<LinkBatch>> {
    let count: usize = reader.narrow()?;
    // A count that the bytes cannot hold ends in `None`, before it takes memory.
    (0..count).map(|_| read_batch(reader)).collect()
}

/// Pages of links that were not read.
pub(super) struct Unread<'a> {
    pub(super) bytes: &'a [u8],
    pub(super) url_bytes: usize,
}

/// Passes over what `put_pages` wrote. Its links are not looked at. `None` within: there are no pages.
fn pass_pages<'a>(reader: &mut Reader<'a>) -> Option<Option<Unread<'a>>> {
    let whole = reader.rest();
    let count: usize = reader.narrow()?;
    let mut url_bytes = 0;
    for _ in 0..count {
        url_bytes += pass_batch(reader)?;
    }
    let bytes = &whole[..whole.len() - reader.left()];
    Some((count > 0).then_some(Unread { bytes, url_bytes }))
}

/// Passes over what `put_batch` wrote; how many bytes its URLs have.
fn pass_batch(reader: &mut Reader<'_>) -> Option<usize> {
    let flags = reader.byte()?;
    if flags > 7 {
        return None;
    }
    if flags & 1 != 0 {
        reader.u64()?;
    }
    if flags & 2 != 0 {
        reader.varint()?;
    }
    reader.bytes()?;
    Some(reader.bytes()?.len())
}

/// The links that leave with an entry of the kind `SENT`: destination, predecessor and the links. `None` if the bytes are not
/// such an entry.
pub(super) fn read_outbound<'a>(
    payload: &'a [u8],
    mut each: impl FnMut(PartitionId, u64, Unread<'a>),
) -> Option<()> {
    let reader = &mut Reader::new(payload);
    let kind = reader.byte()?;
    let count: usize = reader.narrow()?;
    for _ in 0..count {
        let (to, predecessor) = (PartitionId(reader.narrow()?), reader.varint()?);
        if let Some(pages) = pass_pages(reader)? {
            each(to, predecessor, pages);
        }
    }
    (kind == SENT && reader.is_empty()).then_some(())
}

fn put_forwards(out: &mut Vec<u8>, forwards: &[(PartitionId, LinkBatch)]) {
    put_varint(out, forwards.len() as u64);
    for (partition, batch) in forwards {
        put_varint(out, u64::from(partition.0));
        put_batch(out, batch);
    }
}

fn read_forwards(reader: &mut Reader<'_>) -> Option<Vec<(PartitionId, LinkBatch)>> {
    let count: usize = reader.narrow()?;
    (0..count)
        .map(|_| Some((PartitionId(reader.narrow()?), read_batch(reader)?)))
        .collect()
}

fn read_sent(reader: &mut Reader<'_>) -> Option<Vec<Forward>> {
    let count: usize = reader.narrow()?;
    let read = |_| {
        Some(Forward {
            to: PartitionId(reader.narrow()?),
            predecessor: reader.varint()?,
            pages: read_pages(reader)?,
        })
    };
    (0..count).map(read).collect()
}

pub(crate) fn put_pulse(out: &mut Vec<u8>, pulse: &Pulse) {
    put_varint(out, pulse.last_ms);
    put_varint(out, pulse.not_before_ms);
    put_varint(out, u64::from(pulse.delay_ms));
    put_varint(out, u64::from(pulse.failures));
    if pulse.is_failing() {
        out.push(pulse.trouble.map_or(0, |reason| reason as u8));
        out.push(u8::from(pulse.demanded));
        put_varint(out, pulse.failing_since_ms);
        put_varint(out, pulse.given_up_by);
    }
}

pub(crate) fn read_pulse(reader: &mut Reader<'_>) -> Option<Pulse> {
    let mut pulse = Pulse {
        last_ms: reader.varint()?,
        not_before_ms: reader.varint()?,
        delay_ms: reader.narrow()?,
        failures: reader.narrow()?,
        ..Pulse::default()
    };
    if pulse.is_failing() {
        pulse.trouble = Reason::from_u8(reader.byte()?);
        pulse.demanded = reader.byte()? != 0;
        pulse.failing_since_ms = reader.varint()?;
        pulse.given_up_by = reader.varint()?;
    }
    Some(pulse)
}

pub(crate) fn put_robots(out: &mut Vec<u8>, robots: &RobotsRecord) {
    put_bytes(out, robots.origin.as_bytes());
    let tables = robots.tables;
    out.push(robots.status as u8 | (tables.tol as u8) << 4 | (tables.tvi as u8) << 6);
    put_varint(out, robots.fetched_ms);
    put_varint(out, robots.expires_ms);
    put_bytes(out, robots.rules.as_bytes());
}

pub(crate) fn read_robots(reader: &mut Reader<'_>) -> Option<RobotsRecord> {
    let origin = reader.string()?;
    let told = reader.byte()?;
    Some(RobotsRecord {
        origin,
        status: RobotsStatus::from_u8(told & 0x0f)?,
        fetched_ms: reader.varint()?,
        expires_ms: reader.varint()?,
        rules: reader.string()?,
        tables: SiteTables {
            tol: Standing::from_u8(told >> 4 & 3)?,
            tvi: Standing::from_u8(told >> 6)?,
        },
    })
}
