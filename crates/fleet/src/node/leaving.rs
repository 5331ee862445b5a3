//! A node that is to leave: what it still has, and whether another node could have it.

use super::Node;
use crate::error::FleetError;

/// How far a node is that leaves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Leaving {
    /// Partitions that are assigned to it.
    pub holds: usize,
    /// Nodes that live, may have partitions, and do not leave themselves.
    pub successors: usize,
    /// The crawl is over: partitions move no more.
    pub is_over: bool,
}

impl Node {
    /// Has this node's partitions go to others: `Instruction::Release` comes for each of them. `leaving` says how far that is; then
    /// call `leave`.
    pub async fn drain(&self) -> Result<(), FleetError> {
        let inner = &self.inner;
        inner.fleet.set_draining(&inner.me.node, true).await
    }

    /// What there is left to hand over, as the servers have it now.
    pub async fn leaving(&self) -> Result<Leaving, FleetError> {
        let fleet = &self.inner.fleet;
        let (_, control) = fleet.control().await?;
        let (_, assignment) = fleet.assignment().await?;
        let leases = fleet.lease_records().await?;
        let may_have = |node: &str, weight: f64| {
            node != self.inner.me.node && weight != 0.0 && !control.draining.contains(node)
        };
        let others = leases.iter();
        Ok(Leaving {
            holds: assignment.held_by(&self.inner.me).count(),
            successors: others
                .filter(|(node, lease)| may_have(node, lease.weight))
                .count(),
            is_over: control.wish.is_over(),
        })
    }
}
