//! What goes over the wire: connecting, compare-and-swap, following a stream. Everything here may time out with nobody
//! knowing what became of it, and says so.

mod connect;
mod follow;
mod kv;

pub(crate) use connect::{Bus, stream_config};
pub(crate) use follow::{Followed, Follower};
pub(crate) use kv::{Kv, Swap};

use crate::error::FleetError;
use std::time::{Duration, Instant};

/// How long one request to a server may take.
pub(crate) const REQUEST: Duration = Duration::from_secs(5);

/// How long something is tried before it counts as not to be had now.
pub(crate) const PATIENCE: Duration = Duration::from_secs(15);

/// Between attempts.
pub(crate) const PAUSE: Duration = Duration::from_millis(250);

/// Asks until there is an answer: servers that elect a leader say nothing for some seconds. Only for what may be asked
/// twice.
pub(crate) async fn patiently<T, F>(mut ask: impl FnMut() -> F) -> Result<T, FleetError>
where
    F: Future<Output = Result<T, FleetError>>,
{
    let begun = Instant::now();
    loop {
        let answer = match tokio::time::timeout(REQUEST, ask()).await {
            Ok(answer) => answer,
            Err(_) => Err(FleetError::Unavailable(format!(
                "no answer in {} s",
                REQUEST.as_secs()
            ))),
        };
        match answer {
            Err(FleetError::Unavailable(_)) if begun.elapsed() < PATIENCE => {
                tokio::time::sleep(PAUSE).await
            }
            answer => return answer,
        }
    }
}
