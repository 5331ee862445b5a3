//! A fleet's crawl as its store has it: read without NATS, also when the servers are gone for ever. Where NATS is there, too,
//! what was told since the store's copy of the ship log is read from the log itself.

use crate::blobs::Blobs;
use crate::definition::Definition;
use crate::error::FleetError;
use crate::fleet::{Fleet, ShipLog};
use crate::records::{ShipRecord, Shipped, WarcChunk};
use crate::told::{self, Segment};
use std::collections::{BTreeMap, VecDeque};

/// The fleet's definition, in the store.
pub(crate) const DEFINITION: &str = "fleet.json";

/// The chunks of WARC files, by file and place.
pub type WarcChunks = BTreeMap<String, BTreeMap<u64, WarcChunk>>;

/// See the module.
#[derive(Clone)]
pub struct Stored {
    definition: Definition,
    blobs: Blobs,
    fleet: Option<Fleet>,
}

impl Stored {
    /// The crawl in a store: a directory, `file:///DIRECTORY` or `s3://BUCKET/PREFIX`. What nodes have shipped is seen
    /// here once the ship log was copied, half a minute later or when the crawl ends.
    pub async fn open(place: &str) -> Result<Self, FleetError> {
        let nothing = || FleetError::NothingStored(place.to_owned());
        // To open a directory is to make it.
        let dir = place.strip_prefix("file://").unwrap_or(place);
        if !dir.contains("://") && !std::path::Path::new(dir).is_dir() {
            return Err(nothing());
        }
        let blobs = Blobs::open(place)?;
        let json = blobs.get_once(DEFINITION).await?;
        let json = json.ok_or_else(nothing)?;
        Ok(Self {
            definition: Definition::read(&json)?,
            blobs,
            fleet: None,
        })
    }

    /// The same, up to what was told just now.
    pub async fn of(fleet: Fleet) -> Result<Self, FleetError> {
        // Is the store there at all?
        fleet.blobs().get_once(DEFINITION).await?;
        Ok(Self {
            definition: fleet.definition().clone(),
            blobs: fleet.blobs().clone(),
            fleet: Some(fleet),
        })
    }

    pub fn definition(&self) -> &Definition {
        &self.definition
    }

    pub fn blobs(&self) -> &Blobs {
        &self.blobs
    }

    /// The records of the ship log after number `after` up to now, in its order.
    pub async fn records(&self, after: u64) -> Result<Records, FleetError> {
        let (segments, copied) = told::segments(&self.blobs, after).await;
        let mut records = Records {
            blobs: self.blobs.clone(),
            segments: segments.into(),
            ready: VecDeque::new(),
            at: after,
            end: copied,
            fleet: self.fleet.clone(),
            log: None,
        };
        if let Some(fleet) = &self.fleet {
            let end = fleet.ship_log_end().await?;
            if end > copied {
                records.end = end;
                records.log = Some(fleet.ship_log(copied.max(after).saturating_add(1)));
            }
        }
        Ok(records)
    }

    /// The WARC chunks that were told of, by file and place, and the last record of the ship log that was read. What is in the store besides was never told of: its node was
    /// lost before it could be.
    pub async fn warc_chunks(&self) -> Result<(WarcChunks, u64), FleetError> {
        let mut files = WarcChunks::new();
        let mut records = self.records(0).await?;
        while let Some(shipped) = records.next().await? {
            let ShipRecord::Commit(commit) = shipped.record else {
                continue;
            };
            for chunk in commit.warc {
                // Names come from other machines.
                if chunk.file.contains(['/', '\\', '\0']) || chunk.file.starts_with('.') {
                    return Err(FleetError::Damaged(format!(
                        "'{}' is no name of a WARC file",
                        chunk.file
                    )));
                }
                files
                    .entry(chunk.file.clone())
                    .or_default()
                    .insert(chunk.offset, chunk);
            }
        }
        Ok((files, records.end()))
    }
}

/// See `Stored::records`.
pub struct Records {
    blobs: Blobs,
    segments: VecDeque<Segment>,
    ready: VecDeque<Shipped>,
    /// The last record that was given out.
    at: u64,
    end: u64,
    fleet: Option<Fleet>,
    /// What the store's copy does not have.
    log: Option<ShipLog>,
}

impl Records {
    /// The number of the last record that `next` will give.
    pub fn end(&self) -> u64 {
        self.end.max(self.at)
    }

    /// The number of the last record of the log.
    pub fn log_end(&self) -> u64 {
        self.end
    }

    /// The next record; `None` when all are read that were there at the beginning.
    pub async fn next(&mut self) -> Result<Option<Shipped>, FleetError> {
        loop {
            while let Some(shipped) = self.ready.pop_front() {
                if shipped.seq > self.at {
                    self.at = shipped.seq;
                    return Ok(Some(shipped));
                }
            }
            if let Some(segment) = self.segments.pop_front() {
                self.ready = told::read(&self.blobs, &segment).await?.into();
                continue;
            }
            let Some(log) = self.log.as_mut().filter(|_| self.at < self.end) else {
                return Ok(None);
            };
            let shipped = log.next().await;
            if shipped.seq > self.at.saturating_add(1) {
                self.read_copy_again(shipped.seq).await?;
                continue;
            }
            self.at = shipped.seq;
            return Ok(Some(shipped));
        }
    }

    /// The log was trimmed between the last record that was given out and `next`, while the one before was worked on.
    /// What is trimmed was copied first.
    async fn read_copy_again(&mut self, next: u64) -> Result<(), FleetError> {
        let (segments, copied) = told::segments(&self.blobs, self.at).await;
        if copied + 1 < next {
            return Err(FleetError::Damaged(format!(
                "records {} to {} of the ship log are neither in it nor in the store",
                self.at + 1,
                next - 1
            )));
        }
        self.segments = segments.into();
        self.end = self.end.max(copied);
        self.log = self.fleet.as_ref().map(|fleet| fleet.ship_log(copied + 1));
        Ok(())
    }
}
