//! Reads the ship log, of which the beginning may be gone: a summary of that is in the store, and a key says where.

use crate::error::FleetError;
use crate::fleet::{Fleet, ShipLog};
use crate::names;
use crate::nats::{PAUSE, Swap};
use crate::protocol::Ledger;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Where summaries are in the store.
pub(crate) const SUMMARIES: &str = "log/";

/// Who waits for a message of the log looks this often whether it was trimmed meanwhile.
const LOOK: Duration = Duration::from_secs(1);

/// A summary that is larger than this when unpacked is none.
const MOST_UNPACKED: usize = 1 << 30;

/// The newest summary. Messages up to and with `to` may be gone from the log.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SummaryPlace {
    pub(crate) to: u64,
    pub(crate) key: String,
}

impl Fleet {
    /// The revision of its key, and what that says. Waits until the servers answer.
    pub(crate) async fn summary_place(&self) -> (u64, SummaryPlace) {
        loop {
            match self.main().get(names::SUMMARY).await {
                Ok(entry) => {
                    let place = entry.value.map(|json| serde_json::from_slice(&json));
                    match place {
                        None => return (entry.revision, SummaryPlace::default()),
                        Some(Ok(place)) => return (entry.revision, place),
                        Some(Err(error)) => {
                            tracing::error!(%error, "the key of the log's summary cannot be read")
                        }
                    }
                }
                Err(error) => tracing::debug!(%error, "the log's summary was not found"),
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// Says where the newest summary is; false if another one came first.
    pub(crate) async fn note_summary(
        &self,
        place: &SummaryPlace,
        revision: u64,
    ) -> Result<bool, FleetError> {
        let json = serde_json::to_vec(place).unwrap_or_default();
        let swap = self
            .main()
            .swap(names::SUMMARY, Some(json.into()), revision)
            .await?;
        Ok(matches!(swap, Swap::Done(_)))
    }

    /// What the log said up to the newest summary; nothing if there is none. An error if the store has lost it.
    pub(crate) async fn summary(&self) -> Result<(u64, SummaryPlace, Ledger), FleetError> {
        loop {
            let (revision, place) = self.summary_place().await;
            if place.to == 0 {
                return Ok((revision, place, Ledger::default()));
            }
            let Some(packed) = self.blobs().get(&place.key).await else {
                // Another one may have taken its place.
                if self.summary_place().await.1 == place {
                    return Err(FleetError::Damaged(format!(
                        "{} is missing from {}; put it back from a copy",
                        place.key,
                        self.blobs().place()
                    )));
                }
                continue;
            };
            return Ok((revision, place.clone(), unpack(&packed, &place.key)?));
        }
    }

    /// A reader that has read nothing yet.
    pub fn log_reader(&self) -> LogReader {
        LogReader {
            fleet: self.clone(),
            log: self.ship_log(1),
            ledger: Ledger::default(),
        }
    }
}

pub(crate) fn pack(ledger: &Ledger) -> Vec<u8> {
    let json = serde_json::to_vec(ledger).unwrap_or_default();
    zstd::bulk::compress(&json, 3).unwrap_or_default()
}

fn unpack(packed: &[u8], key: &str) -> Result<Ledger, FleetError> {
    let damaged =
        |why: &dyn std::fmt::Display| FleetError::Damaged(format!("{key} in the store: {why}"));
    let json = zstd::bulk::decompress(packed, MOST_UNPACKED).map_err(|error| damaged(&error))?;
    serde_json::from_slice(&json).map_err(|error| damaged(&error))
}

/// Reads the ship log on and on, and keeps what it comes to.
pub struct LogReader {
    fleet: Fleet,
    log: ShipLog,
    ledger: Ledger,
}

impl LogReader {
    /// What was read so far.
    pub fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    /// Reads on until message `end`, which was written, is accounted for.
    pub async fn read_to(&mut self, end: u64) -> Result<(), FleetError> {
        loop {
            let from = self.ledger.to();
            while self.ledger.to() < end {
                match tokio::time::timeout(LOOK, self.log.next()).await {
                    Ok(shipped) => self.ledger.fold(&shipped),
                    Err(_) if self.fleet.summary_place().await.1.to > from => break,
                    Err(_) => {}
                }
            }
            // Messages go only once they are in a summary. If there is none of what came after `from`, nothing was
            // missed on the way here.
            if self.fleet.summary_place().await.1.to <= from {
                return Ok(());
            }
            self.ledger = self.fleet.summary().await?.2;
            self.log = self.fleet.ship_log(self.ledger.to() + 1);
        }
    }

    /// Reads on until all that is in the log now is accounted for.
    pub async fn read_all(&mut self) -> Result<(), FleetError> {
        let end = self.fleet.ship_log_end().await?;
        self.read_to(end).await
    }
}
