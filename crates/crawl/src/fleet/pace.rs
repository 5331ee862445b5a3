//! Hurry up, slow down: how many connections a crawl-client is to have follows the backlog of its DSets. Between the two
//! thresholds nothing changes, so that a client is not told the one and then the other.

use std::collections::BTreeMap;
use std::time::Duration;

use portolan_fleet::{Pace, Want};
use tokio::time::Instant;

/// With more URLs due than this for each connection, a client hurries up; with fewer than the other, it slows down.
const HURRY_ABOVE: u64 = 8;
const SLOW_BELOW: u64 = 2;
/// A client is told something at most this often: what it was told last must show first.
const PAUSE: Duration = Duration::from_secs(1);

/// What each client was told.
#[derive(Debug, Default)]
pub(super) struct Pacer {
    clients: BTreeMap<String, Told>,
}

#[derive(Debug, Clone, Copy)]
struct Told {
    target: u32,
    at: Option<Instant>,
}

impl Pacer {
    /// How many connections the client is to have, and what it is told. `due` are URLs that it may have.
    pub(super) fn look(&mut self, want: &Want, due: u64) -> (u32, Pace) {
        let most = want.most.max(1);
        let told = self.clients.entry(want.client.clone()).or_insert(Told {
            target: want.first.clamp(1, most),
            at: None,
        });
        told.target = told.target.min(most);
        if told.at.is_some_and(|at| at.elapsed() < PAUSE) {
            return (told.target, Pace::Steady);
        }
        let (target, pace) = step(told.target, most, due);
        if pace != Pace::Steady {
            tracing::info!(
                client = want.client,
                due,
                from = told.target,
                to = target,
                "{}",
                pace.name()
            );
        }
        *told = Told {
            target,
            at: Some(Instant::now()),
        };
        (target, pace)
    }
}

fn step(target: u32, most: u32, due: u64) -> (u32, Pace) {
    let now = u64::from(target);
    if due > HURRY_ABOVE * now && target < most {
        (most.min(target + target.div_ceil(2)), Pace::HurryUp)
    } else if due < SLOW_BELOW * now && target > 1 {
        (target - target.div_ceil(3).min(target - 1), Pace::SlowDown)
    } else {
        (target, Pace::Steady)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_follow_the_backlog_and_rest_between_the_thresholds() {
        assert_eq!(step(10, 40, 81), (15, Pace::HurryUp));
        assert_eq!(step(30, 40, 10_000), (40, Pace::HurryUp));
        assert_eq!(step(40, 40, 10_000), (40, Pace::Steady));
        assert_eq!(step(10, 40, 19), (6, Pace::SlowDown));
        assert_eq!(step(2, 40, 0), (1, Pace::SlowDown));
        assert_eq!(step(1, 40, 0), (1, Pace::Steady));
        for due in [20, 50, 80] {
            assert_eq!(step(10, 40, due), (10, Pace::Steady), "{due}");
        }
        // A step that was taken is not taken back for the backlog that it was taken for.
        for target in 1..200 {
            for due in 0..2_000 {
                let (next, pace) = step(target, 200, due);
                let back = match pace {
                    Pace::HurryUp => Pace::SlowDown,
                    Pace::SlowDown => Pace::HurryUp,
                    Pace::Steady => continue,
                };
                assert_ne!(step(next, 200, due).1, back, "{target} {due}");
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_begins_with_what_it_has_and_is_told_once_a_second() {
        let mut pacer = Pacer::default();
        let want = Want {
            client: "one".to_owned(),
            slots: 4,
            running: 0,
            most: 100,
            first: 4,
        };
        assert_eq!(pacer.look(&want, 1_000), (6, Pace::HurryUp));
        assert_eq!(pacer.look(&want, 1_000), (6, Pace::Steady));
        tokio::time::advance(PAUSE).await;
        assert_eq!(pacer.look(&want, 0), (4, Pace::SlowDown));
    }
}
