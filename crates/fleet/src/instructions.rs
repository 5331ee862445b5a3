//! What a node is told to do.

use crate::records::Epoch;
use portolan_model::PartitionId;

/// What a node is told to do, in the order in which it is to be done. An instruction is told once; it stands until another
/// one takes it back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Instruction {
    /// Take the partition over: its newest checkpoint in the ship log, then the commits after it up to message
    /// `log_end`, then its inbox. Then call `Node::adopted`. `log_end` is 0 if nobody had it before: its seeds are to be
    /// put into it.
    ///
    /// A process that starts again on its own directory gets this order for each partition that it still holds; if
    /// its directory has the partition under the same epoch, there is nothing to fetch.
    Adopt {
        partition: PartitionId,
        epoch: Epoch,
        log_end: u64,
    },
    /// End the turns of its hosts, ship what is left, then call `Node::released`. `to`: who is to have it, and has been told to
    /// prepare.
    Release {
        partition: PartitionId,
        epoch: Epoch,
        to: Option<String>,
    },
    /// It may soon be this node's: what can be fetched of it beforehand saves time.
    Prepare {
        partition: PartitionId,
    },
    /// Ask nothing of the Web until `GoOn`. Go on to renew, to ship and to fold.
    Stop,
    GoOn,
    /// The crawl is over: ship everything, then call `Node::leave`. `complete` if all that was found has been crawled;
    /// otherwise a person ended it.
    End {
        complete: bool,
    },
    /// This life of the node is over: what was not shipped has never happened, and nothing may be asked or shipped
    /// any more. Join anew with another incarnation. It is the last order.
    Fenced(String),
}
