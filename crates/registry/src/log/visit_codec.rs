//! The bytes of a visit, in the log and in the partition's record of visits.

use crate::wire::{Reader, put_bytes, put_u64, put_varint};
use portolan_model::{ArchivePosition, DocId, Fact, History, Outcome, Reason, Truncation, Visit};

const FETCHED: u8 = 0;
const RETRY: u8 = 1;
const FAILED: u8 = 2;
const EXCLUDED: u8 = 3;

/// In the byte of the truncation: facts follow at the end. All other flags are taken.
const HAS_FACTS: u8 = 0x80;

/// `links_at` is written instead of the one in the visit's history.
pub(crate) fn put_visit(out: &mut Vec<u8>, visit: &Visit, links_at: u64) {
    let history = History {
        links_at,
        ..visit.history
    };
    let (outcome, reason) = match visit.outcome {
        Outcome::Fetched => (FETCHED, 0),
        Outcome::Retry(reason) => (RETRY, reason as u8),
        Outcome::Failed(reason) => (FAILED, reason as u8),
        Outcome::Excluded(reason) => (EXCLUDED, reason as u8),
    };
    out.extend_from_slice(&[outcome, reason]);
    put_varint(out, visit.at_ms);
    put_varint(out, u64::from(visit.status));
    out.push(visit.attempt);
    put_varint(out, u64::from(visit.depth));
    put_varint(out, u64::from(visit.fetch_ms));
    put_varint(out, visit.wire_bytes);
    put_varint(out, visit.body_bytes);
    let has_facts = if visit.facts.is_empty() { 0 } else { HAS_FACTS };
    out.push(visit.truncated.map_or(0, |t| t as u8) | has_facts);
    for text in [
        &visit.mime,
        &visit.charset,
        &visit.title,
        &visit.etag,
        &visit.last_modified,
    ] {
        put_bytes(out, text.as_bytes());
    }
    // What is mostly absent takes one bit.
    let flags = u8::from(visit.sha1 != [0; 20])
        | u8::from(visit.fingerprint != 0) << 1
        | u8::from(visit.simhash != 0) << 2
        | u8::from(visit.duplicate_of.is_some()) << 3
        | u8::from(visit.archive.is_some()) << 4
        | u8::from(visit.links_left_out != 0) << 5
        | u8::from(visit.is_sitemap) << 6
        | u8::from(history != History::default()) << 7;
    out.push(flags);
    if visit.sha1 != [0; 20] {
        out.extend_from_slice(&visit.sha1);
    }
    if visit.fingerprint != 0 {
        put_u64(out, visit.fingerprint);
    }
    if visit.simhash != 0 {
        put_u64(out, visit.simhash);
    }
    if let Some(original) = visit.duplicate_of {
        put_u64(out, original.0);
    }
    put_varint(out, u64::from(visit.links));
    if visit.links_left_out != 0 {
        put_varint(out, u64::from(visit.links_left_out));
    }
    if let Some(archive) = &visit.archive {
        put_position(out, archive);
    }
    if history != History::default() {
        put_history(out, &history);
    }
    if !visit.facts.is_empty() {
        put_varint(out, visit.facts.len() as u64);
        for fact in &visit.facts {
            put_bytes(out, fact.name.as_bytes());
            put_bytes(out, fact.value.as_bytes());
        }
    }
}

fn read_facts(reader: &mut Reader<'_>) -> Option<Vec<Fact>> {
    let count = reader.varint()?;
    // A count that the bytes cannot hold ends in `None`, before it takes memory.
    (0..count)
        .map(|_| {
            Some(Fact {
                name: reader.string()?,
                value: reader.string()?,
            })
        })
        .collect()
}

/// What is as in a first visit takes no byte.
fn put_history(out: &mut Vec<u8>, history: &History) {
    let numbers = numbers_of(history);
    let usual = numbers_of(&History::default());
    let mut flags = 0;
    for (at, (number, usual)) in numbers.iter().zip(usual).enumerate() {
        flags |= u64::from(*number != usual) << at;
    }
    put_varint(out, flags);
    for (number, usual) in numbers.into_iter().zip(usual) {
        if number != usual {
            put_varint(out, number);
        }
    }
}

/// The last of them are rare in first visits, which have one byte of flags.
fn numbers_of(history: &History) -> [u64; 13] {
    [
        u64::from(history.session),
        u64::from(history.checks),
        u64::from(history.changes),
        history.changed_ms,
        history.gone_ms,
        history.before,
        history.links_at,
        history.saved_bytes,
        u64::from(history.news),
        history.quiet_ms,
        history.news_after_ms,
        u64::from(history.told),
        history.told_after_ms,
    ]
}

fn read_history(reader: &mut Reader<'_>) -> Option<History> {
    let flags = reader.varint()?;
    let mut numbers = numbers_of(&History::default());
    for (at, number) in numbers.iter_mut().enumerate() {
        if flags & 1 << at != 0 {
            *number = reader.varint()?;
        }
    }
    let [
        session,
        checks,
        changes,
        changed_ms,
        gone_ms,
        before,
        links_at,
        saved_bytes,
        news,
        quiet_ms,
        news_after_ms,
        told,
        told_after_ms,
    ] = numbers;
    Some(History {
        session: session.try_into().ok()?,
        checks: checks.try_into().ok()?,
        changes: changes.try_into().ok()?,
        changed_ms,
        gone_ms,
        before,
        links_at,
        saved_bytes,
        news: news.try_into().ok()?,
        quiet_ms,
        news_after_ms,
        told: told.try_into().ok()?,
        told_after_ms,
    })
}

pub(crate) fn put_position(out: &mut Vec<u8>, archive: &ArchivePosition) {
    put_varint(out, u64::from(archive.file));
    put_varint(out, archive.offset);
    put_varint(out, u64::from(archive.length));
    put_varint(out, archive.end);
}

pub(crate) fn read_position(reader: &mut Reader<'_>) -> Option<ArchivePosition> {
    Some(ArchivePosition {
        file: reader.narrow()?,
        offset: reader.varint()?,
        length: reader.narrow()?,
        end: reader.varint()?,
    })
}

pub(crate) fn read_visit(reader: &mut Reader<'_>) -> Option<Visit> {
    let (outcome, reason) = (reader.byte()?, Reason::from_u8(reader.byte()?));
    let mut visit = Visit::without_answer(
        reader.varint()?,
        match outcome {
            FETCHED => Outcome::Fetched,
            RETRY => Outcome::Retry(reason?),
            FAILED => Outcome::Failed(reason?),
            EXCLUDED => Outcome::Excluded(reason?),
            _ => return None,
        },
    );
    visit.status = reader.narrow()?;
    visit.attempt = reader.byte()?;
    visit.depth = reader.narrow()?;
    visit.fetch_ms = reader.narrow()?;
    visit.wire_bytes = reader.varint()?;
    visit.body_bytes = reader.varint()?;
    let truncated = reader.byte()?;
    visit.truncated = match truncated & !HAS_FACTS {
        0 => None,
        value => Some(Truncation::from_u8(value)?),
    };
    visit.mime = reader.string()?;
    visit.charset = reader.string()?;
    visit.title = reader.string()?;
    visit.etag = reader.string()?;
    visit.last_modified = reader.string()?;
    let flags = reader.byte()?;
    if flags & 1 != 0 {
        visit.sha1 = reader.take(20)?.try_into().ok()?;
    }
    if flags & 2 != 0 {
        visit.fingerprint = reader.u64()?;
    }
    if flags & 4 != 0 {
        visit.simhash = reader.u64()?;
    }
    if flags & 8 != 0 {
        visit.duplicate_of = Some(DocId(reader.u64()?));
    }
    visit.is_sitemap = flags & 64 != 0;
    visit.links = reader.narrow()?;
    if flags & 32 != 0 {
        visit.links_left_out = reader.narrow()?;
    }
    if flags & 16 != 0 {
        visit.archive = Some(read_position(reader)?);
    }
    if flags & 128 != 0 {
        visit.history = read_history(reader)?;
    }
    if truncated & HAS_FACTS != 0 {
        visit.facts = read_facts(reader)?;
    }
    Some(visit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn history_comes_back() {
        for number in [0, 1, 300, u32::MAX] {
            let history = History {
                session: number,
                checks: number / 2,
                changes: number / 3,
                changed_ms: u64::from(number) << 20,
                gone_ms: u64::from(number % 2),
                before: u64::from(number) << 8,
                links_at: u64::from(number) << 7,
                saved_bytes: u64::from(number / 5),
                news: number / 4,
                quiet_ms: u64::from(number) << 9,
                news_after_ms: u64::from(number / 6),
                told: number / 7,
                told_after_ms: u64::from(number) << 6,
            };
            let visit = Visit {
                history,
                ..Visit::without_answer(7, Outcome::Fetched)
            };
            let mut bytes = Vec::new();
            put_visit(&mut bytes, &visit, visit.history.links_at);
            assert_eq!(read_visit(&mut Reader::new(&bytes)), Some(visit));
            let cut = &bytes[..bytes.len() - 1];
            assert_eq!(read_visit(&mut Reader::new(cut)), None);
        }
    }

    #[test]
    fn facts_come_back_with_or_without_a_truncation() {
        let fact = |name: &str, value: &str| Fact {
            name: name.to_owned(),
            value: value.to_owned(),
        };
        for truncated in [None, Some(Truncation::Length)] {
            let visit = Visit {
                truncated,
                facts: vec![fact("pdf.pages", "12"), fact("pdf.text", "ä, ö")],
                ..Visit::without_answer(7, Outcome::Fetched)
            };
            let mut bytes = Vec::new();
            put_visit(&mut bytes, &visit, 0);
            assert_eq!(read_visit(&mut Reader::new(&bytes)), Some(visit));
            for end in 0..bytes.len() {
                assert_eq!(read_visit(&mut Reader::new(&bytes[..end])), None);
            }
        }
    }

    #[test]
    fn links_left_out_come_back() {
        for links_left_out in [0, 1, u32::MAX] {
            let visit = Visit {
                links: 10,
                links_left_out,
                is_sitemap: links_left_out == 1,
                archive: Some(ArchivePosition::default()),
                ..Visit::without_answer(7, Outcome::Fetched)
            };
            let mut bytes = Vec::new();
            put_visit(&mut bytes, &visit, visit.history.links_at);
            let mut reader = Reader::new(&bytes);
            assert_eq!(read_visit(&mut reader), Some(visit));
            assert!(reader.is_empty());
        }
    }
}
