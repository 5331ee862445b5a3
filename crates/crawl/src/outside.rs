//! What comes into a crawl from outside: time, connections, addresses and chance. Left alone, all of them are the
//! machine's. A test or a simulator puts its own in their place, and the crawl is the same.

use std::fmt;
use std::sync::Arc;

use portolan_model::{Clock, SystemClock};
use portolan_net::{Dialer, Resolver};
use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::error::CrawlError;

/// What a commit does next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// A record is appended to the WARC file.
    Record,
    /// The WARC file is synced.
    Archive,
    /// What else must be durable before the journal names it: pauses, cookies, claims.
    Promises,
    /// The journal's entries are written and synced.
    Journal,
    /// The table of payloads is maintained.
    Payloads,
    /// The entries are on their way to their owners.
    Delivery,
}

/// Whoever hears of each step of a commit before it is made: a simulator that ends the process there, or lets the disk
/// refuse.
pub trait Steps: Send + Sync {
    /// An error is the disk's: the step is not made.
    fn before(&self, step: Step) -> std::io::Result<()>;
}

/// In the place of the machine's clock, network, name service and random numbers.
#[derive(Clone, Default)]
pub struct Outside {
    /// `None`: the machine's clock.
    pub clock: Option<Arc<dyn Clock>>,
    /// `None`: connections are sockets.
    pub dialer: Option<Arc<dyn Dialer>>,
    /// `None`: names are resolved as the settings say. Rules in the settings come first in any case.
    pub resolver: Option<Arc<dyn Resolver>>,
    /// The crawl's secret, its id and its records' ids are drawn from this number, and the registry starts no threads,
    /// so that a crawl can be repeated exactly. `None`: the system's random numbers.
    pub chance: Option<u64>,
    /// `None`: nobody hears of a commit's steps.
    pub steps: Option<Arc<dyn Steps>>,
    /// Grants and returns go through their bytes, and nothing but a grant is known to whoever fetches: as if those who decide
    /// and those who fetch were two processes.
    pub wired: bool,
}

impl fmt::Debug for Outside {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Outside")
            .field("clock", &self.clock.is_some())
            .field("dialer", &self.dialer.is_some())
            .field("resolver", &self.resolver.is_some())
            .field("chance", &self.chance)
            .field("steps", &self.steps.is_some())
            .field("wired", &self.wired)
            .finish()
    }
}

impl Outside {
    pub(crate) fn clock(&self) -> Arc<dyn Clock> {
        match &self.clock {
            Some(clock) => Arc::clone(clock),
            None => Arc::new(SystemClock::start()),
        }
    }

    /// Random bytes for `purpose`, which tells draws from the same number apart.
    pub(crate) fn fill(&self, bytes: &mut [u8], purpose: &str) -> Result<(), CrawlError> {
        let Some(number) = self.chance else {
            return getrandom::fill(bytes).map_err(|e| {
                CrawlError::Internal(format!(
                    "the system gives no random numbers for {purpose}: {e}"
                ))
            });
        };
        for (count, piece) in (0u64..).zip(bytes.chunks_mut(8)) {
            let drawn = xxh3_64_with_seed(purpose.as_bytes(), number.wrapping_add(count));
            piece.copy_from_slice(&drawn.to_le_bytes()[..piece.len()]);
        }
        Ok(())
    }

    /// Record ids must differ between threads and between runs.
    pub(crate) fn record_seed(&self, now_ms: u64, thread: u64) -> u64 {
        let process = self.chance.unwrap_or(u64::from(std::process::id()));
        now_ms ^ (process << 44) ^ (thread << 34)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_number_draws_the_same_bytes_and_each_purpose_its_own() {
        let draw = |chance, purpose| {
            let outside = Outside {
                chance,
                ..Outside::default()
            };
            let mut bytes = [0; 20];
            outside.fill(&mut bytes, purpose).expect("bytes");
            bytes
        };
        assert_eq!(draw(Some(7), "a"), draw(Some(7), "a"));
        assert_ne!(draw(Some(7), "a"), draw(Some(8), "a"));
        assert_ne!(draw(Some(7), "a"), draw(Some(7), "b"));
        assert_ne!(draw(None, "a"), draw(None, "a"));
    }
}
