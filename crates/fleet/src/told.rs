//! The ship log's copy in the store: what was told stays known when NATS is gone, and when the log was cut. The coordinator
//! copies while the crawl runs, and each node once more when it ends.
//!
//! A segment is an object `told/FROM-TO` with the records of these numbers, packed. Two who copy at once write segments that
//! overlap and agree, because the log has one order.

use crate::blobs::Blobs;
use crate::error::FleetError;
use crate::fleet::Fleet;
use crate::records::{ShipRecord, Shipped};
use bytes::Bytes;
use serde::{Deserialize, Serialize};

const DIR: &str = "told/";

/// A segment has at most this many records.
const RECORDS: usize = 2_000;

/// A segment that is larger than this when unpacked is none.
const MOST_UNPACKED: usize = 256 << 20;

/// A segment of the copy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Segment {
    from: u64,
    to: u64,
    key: String,
}

#[derive(Serialize, Deserialize)]
struct Line {
    seq: u64,
    node: String,
    record: ShipRecord,
}

/// The segments that have records after number `after`, by their beginnings, and the last record that is in the copy
/// without a hole before it.
pub(crate) async fn segments(blobs: &Blobs, after: u64) -> (Vec<Segment>, u64) {
    let mut segments: Vec<_> = blobs
        .list(DIR)
        .await
        .iter()
        .filter_map(|object| of(&object.key))
        .collect();
    segments.sort_by_key(|segment| (segment.from, segment.to));
    let mut end = 0;
    segments.retain(|segment| {
        let joins = segment.from <= end + 1;
        if joins {
            end = end.max(segment.to);
        }
        joins && segment.to > after
    });
    (segments, end)
}

fn of(key: &str) -> Option<Segment> {
    let (from, to) = key.strip_prefix(DIR)?.split_once('-')?;
    let (from, to) = (from.parse().ok()?, to.parse().ok()?);
    Some(Segment {
        from,
        to,
        key: key.to_owned(),
    })
}

pub(crate) async fn read(blobs: &Blobs, segment: &Segment) -> Result<Vec<Shipped>, FleetError> {
    let damaged =
        || FleetError::Damaged(format!("the store's copy of the ship log: {}", segment.key));
    let packed = blobs.get(&segment.key).await.ok_or_else(damaged)?;
    let bytes = zstd::bulk::decompress(&packed, MOST_UNPACKED).map_err(|_| damaged())?;
    let lines = bytes
        .split(|byte| *byte == b'\n')
        .filter(|line| !line.is_empty());
    let records = lines.map(|line| {
        let Line { seq, node, record } = serde_json::from_slice(line).map_err(|_| damaged())?;
        Ok(Shipped { seq, node, record })
    });
    records.collect()
}

async fn write(blobs: &Blobs, from: u64, records: &[Shipped]) -> Result<u64, FleetError> {
    let mut text = Vec::new();
    let mut to = from;
    for Shipped { seq, node, record } in records {
        let line = Line {
            seq: *seq,
            node: node.clone(),
            record: record.clone(),
        };
        serde_json::to_writer(&mut text, &line)
            .map_err(|error| FleetError::Refused(error.to_string()))?;
        text.push(b'\n');
        to = *seq;
    }
    let packed =
        zstd::bulk::compress(&text, 3).map_err(|error| FleetError::Refused(error.to_string()))?;
    blobs
        .put(&format!("{DIR}{from:020}-{to:020}"), Bytes::from(packed))
        .await;
    Ok(to)
}

/// Copies the ship log, again and again from where it was.
pub(crate) struct Copier {
    fleet: Fleet,
    /// The last record that is in the copy; `None` before the first look.
    copied: Option<u64>,
}

impl Copier {
    pub(crate) fn new(fleet: Fleet) -> Self {
        Self {
            fleet,
            copied: None,
        }
    }

    /// Copies what is in the log now. Returns the number of the last record that is in the copy.
    pub(crate) async fn copy(&mut self) -> Result<u64, FleetError> {
        let end = self.fleet.ship_log_end().await?;
        loop {
            let at = match self.copied {
                Some(at) => at,
                None => segments(self.fleet.blobs(), 0).await.1,
            };
            if at >= end {
                self.copied = Some(at);
                return Ok(at);
            }
            let mut records = Vec::new();
            let mut last = at;
            let mut log = self.fleet.ship_log(at + 1);
            while last < end && records.len() < RECORDS {
                let shipped = log.next().await;
                last = shipped.seq;
                records.push(shipped);
            }
            // What is trimmed was copied by another one before; what was read here has a hole.
            self.copied = match self.fleet.summary_place().await.1.to > at {
                true => None,
                false => Some(write(self.fleet.blobs(), at + 1, &records).await?),
            };
        }
    }
}

impl Fleet {
    /// Copies the ship log to the store as far as it goes now. Returns the number of the last record that is in the copy:
    /// up to there the log may be cut.
    pub async fn copy_log(&self) -> Result<u64, FleetError> {
        Copier::new(self.clone()).copy().await
    }

    /// The number of the last record of the ship log that is in the store's copy.
    pub async fn copied_log_end(&self) -> u64 {
        segments(self.blobs(), 0).await.1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sealed(seq: u64) -> Shipped {
        Shipped {
            seq,
            node: format!("node-{seq}"),
            record: ShipRecord::Sealed {
                incarnation: seq,
                by: "a".to_owned(),
            },
        }
    }

    #[tokio::test]
    async fn segments_that_overlap_are_one_log_and_a_hole_ends_it() {
        let dir = tempfile::tempdir().expect("a directory");
        let blobs = Blobs::open(&dir.path().display().to_string()).expect("a store");
        for range in [1..=3, 1..=2, 3..=5, 7..=8] {
            let from = *range.start();
            let records: Vec<_> = range.map(sealed).collect();
            write(&blobs, from, &records).await.expect("written");
        }
        let (found, end) = segments(&blobs, 0).await;
        assert_eq!(end, 5);
        let mut at = 0;
        for segment in &found {
            for shipped in read(&blobs, segment).await.expect("read") {
                if shipped.seq > at {
                    assert_eq!(shipped, sealed(at + 1));
                    at += 1;
                }
            }
        }
        assert_eq!(at, 5);
        let (late, end) = segments(&blobs, 3).await;
        assert_eq!((late.len(), end), (1, 5));
        blobs
            .put(
                "told/00000000000000000001-00000000000000000003",
                "no".into(),
            )
            .await;
        assert!(read(&blobs, &found[1]).await.is_err());
    }
}
