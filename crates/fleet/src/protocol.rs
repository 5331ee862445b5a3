//! What the nodes of a fleet decide, without IO and without a clock: events go in with the time, actions come out.
//!
//! `keeper` keeps a lease, `coordinator` judges leases and assigns partitions (`balance` says which to whom, `speeds` who is slow, `ending` when
//! the crawl is over), `follower` reads from the assignment what a node is to do, `homes` hands out addresses,
//! `ledger` folds the ship log and says what of it may go. Several groups under a hub: `above` is what they agree on, `ferry` takes
//! links from one to another.

mod above;
mod assignment;
mod balance;
mod coordinator;
mod ending;
mod ferry;
mod follower;
mod homes;
mod keeper;
mod ledger;
mod speeds;
mod words;

#[cfg(test)]
mod tests;

pub use above::{Above, Answer};
pub use assignment::{Assignment, Holder, LogEvent, Moving, Share};
pub use coordinator::Coordinator;
pub use ferry::Ferry;
pub use follower::Duties;
pub use homes::{Grant, Homes, LONGEST_SLICE_MS, SHORTEST_SLICE_MS, home};
pub use keeper::{Keeper, KeeperAction, Renewal};
pub use ledger::Ledger;
pub use words::{Action, Control, Event, LeaseRecord, Patience};
