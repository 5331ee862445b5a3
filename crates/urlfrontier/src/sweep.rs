//! Takes what deleted queues held out of the store, little by little, on a thread of its own. Nobody else looks at the number of a deleted
//! queue, so nothing has to wait for it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};

use fjall::{Database, Keyspace};

use crate::keys::QueueId;
use crate::stage::Tables;

/// Keys that are removed with one commit.
const AT_ONCE: usize = 1_000;

/// Sweeps queues whose numbers come, until nobody can send one any more or `stop` is set. What is left then is found again at the next start.
pub(crate) fn sweep(
    numbers: &mpsc::Receiver<QueueId>,
    database: &Database,
    tables: &Tables,
    stop: &Arc<AtomicBool>,
) {
    for queue in numbers {
        let swept = [&tables.due, &tables.leased, &tables.urls]
            .into_iter()
            .try_for_each(|space| remove_all(queue, space, database, stop))
            .and_then(|()| match stop.load(Ordering::Relaxed) {
                true => Ok(()),
                false => tables.dead.remove(queue.to_be_bytes()),
            });
        if let Err(error) = swept {
            // The writer meets the same error and stops the service.
            tracing::error!(%error, "what a deleted queue held cannot be removed");
            return;
        }
        if stop.load(Ordering::Relaxed) {
            return;
        }
    }
}

fn remove_all(
    queue: QueueId,
    space: &Keyspace,
    database: &Database,
    stop: &AtomicBool,
) -> fjall::Result<()> {
    let mut batch = fjall::OwnedWriteBatch::with_capacity(database.clone(), AT_ONCE);
    for entry in space.prefix(queue.to_be_bytes()) {
        batch.remove(space, entry.key()?);
        if batch.len() == AT_ONCE {
            batch.commit()?;
            batch = fjall::OwnedWriteBatch::with_capacity(database.clone(), AT_ONCE);
            if stop.load(Ordering::Relaxed) {
                return Ok(());
            }
        }
    }
    batch.commit()
}
