//! A node that a person asks to end: others take its partitions over first, as `fleet drain` would have them do, while the crawl
//! goes on here. That has a bound of time; what is still here then goes as a lost node's partitions do, after everything
//! was shipped.

use std::sync::Arc;
use std::time::Duration;

use portolan_fleet::{FleetError, Leaving};
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;

use super::agent::Agent;
use super::node::NodeEvent;
use crate::budget::StoppedBy;

/// A node that leaves waits at most this long for others to have its partitions.
const PATIENCE: Duration = Duration::from_secs(240);
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// How a node is asked to end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Quit {
    #[default]
    No,
    /// Have other nodes take the partitions over, finish what is under way, and ship it.
    Drain,
    /// Give up what is under way, and leave the partitions where they are.
    Now,
}

/// How a node is asked to end, and what hears it: for `run_node`.
pub fn quitting() -> (watch::Sender<Quit>, watch::Receiver<Quit>) {
    watch::channel(Quit::No)
}

/// What a node that was asked to end does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leave {
    /// Other nodes take over what it has, for this time at most.
    HandsOver {
        partitions: usize,
        at_most: Duration,
    },
    /// So many of them are still here.
    Left { partitions: usize },
    /// Nothing is here any more.
    HandedOver,
    /// No other node is there to have them.
    Alone { partitions: usize },
    /// Others did not have these in time. `None`: nobody answered at all.
    TookTooLong { partitions: Option<usize> },
}

/// Ends the crawl when a person asks for it.
pub(super) async fn heed(
    agent: Arc<Agent>,
    mut quit: watch::Receiver<Quit>,
    told: mpsc::UnboundedSender<NodeEvent>,
) {
    // Where nobody can ask any more, it goes on.
    if quit.wait_for(|quit| *quit != Quit::No).await.is_err() {
        return;
    }
    let mut at_once = quit.clone();
    tokio::select! {
        biased;
        Ok(_) = at_once.wait_for(|quit| *quit == Quit::Now) => {}
        () = agent.hand_over(&told) => {}
    }
    agent.shared.budget.stop(StoppedBy::Signal);
    if quit.wait_for(|quit| *quit == Quit::Now).await.is_ok() {
        agent.shared.budget.stop_now(StoppedBy::Signal);
    }
}

impl Agent {
    /// Waits until other nodes have this one's partitions, if there are any.
    async fn hand_over(&self, told: &mpsc::UnboundedSender<NodeEvent>) {
        let tell = |leave| {
            // Who listened may be gone with the crawl.
            let _ = told.send(NodeEvent::Leaves(leave));
        };
        let begun = Instant::now();
        // What was told last, once the others were asked.
        let mut left = None;
        while begun.elapsed() < PATIENCE {
            match self.hand_over_more(left.is_some()).await {
                Ok(Leaving { is_over: true, .. }) => return,
                Ok(Leaving { holds: 0, .. }) => {
                    if left.is_some() {
                        tell(Leave::HandedOver);
                    }
                    return;
                }
                Ok(Leaving {
                    holds: partitions,
                    successors: 0,
                    ..
                }) => return tell(Leave::Alone { partitions }),
                Ok(Leaving {
                    holds: partitions, ..
                }) if left != Some(partitions) => tell(match left.replace(partitions) {
                    None => Leave::HandsOver {
                        partitions,
                        at_most: PATIENCE,
                    },
                    Some(_) => Leave::Left { partitions },
                }),
                Ok(_) => {}
                Err(error) => tracing::debug!(%error, "nobody says who has which partition"),
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
        tell(Leave::TookTooLong { partitions: left });
    }

    /// Looks how far it is, and asks for it where that has not been done.
    async fn hand_over_more(&self, is_asked: bool) -> Result<Leaving, FleetError> {
        let leaving = self.node.leaving().await?;
        if !is_asked && !leaving.is_over && leaving.holds > 0 && leaving.successors > 0 {
            self.node.drain().await?;
        }
        Ok(leaving)
    }
}
