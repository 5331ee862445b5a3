//! What the coordinator hears and does, and what the keys hold that it reads.

use super::above::{Above, Answer};
use super::assignment::{Assignment, Holder, LogEvent};
use crate::records::Incarnation;
use crate::status::{Reported, Wish};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

fn is_zero(value: &u64) -> bool {
    *value == 0
}

/// What a lease says.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LeaseRecord {
    pub incarnation: Incarnation,
    /// The process that holds it.
    pub session: u64,
    /// See `Joining::place`.
    pub place: String,
    pub weight: f64,
    /// Counts renewals.
    pub renewed: u64,
    pub program: String,
}

/// What everybody is to do, and what the coordinator asks of everybody.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Control {
    pub wish: Wish,
    /// See `ending`.
    pub look: u64,
    /// Nodes whose partitions are to go to others.
    pub draining: BTreeSet<String>,
    /// Nothing seems to be left but hosts that fail: they are left alone, so that a look can see that.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub quiet: bool,
    /// A group's: `Above::ordinal` of the wish of the hub that was obeyed last, and one more than the look of the hub that
    /// the nodes look for.
    #[serde(skip_serializing_if = "is_zero")]
    pub obeyed: u64,
    #[serde(skip_serializing_if = "is_zero")]
    pub answers: u64,
}

/// What the coordinator hears.
#[expect(
    clippy::large_enum_variant,
    reason = "an event lives as long as the call that hears it"
)]
#[derive(Clone, Debug)]
pub enum Event {
    Assignment {
        revision: u64,
        assignment: Assignment,
    },
    /// `None`: it was given up or taken away.
    Lease {
        node: String,
        revision: u64,
        lease: Option<LeaseRecord>,
    },
    Log {
        seq: u64,
        node: String,
        event: LogEvent,
    },
    Reported {
        node: String,
        reported: Reported,
    },
    Control {
        revision: u64,
        control: Control,
    },
    /// A group's: what the groups have agreed on at the hub.
    Above {
        revision: u64,
        above: Above,
    },
    /// All that was there when this coordinator began has been heard.
    CaughtUp,
    /// An action has come to an end, well or not: it may be taken again.
    Done(Action),
    Tick,
}

/// What the coordinator has others do for it. None of them is repeated before it is `Done`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Write the assignment if its revision is still this one.
    Assign {
        revision: u64,
        assignment: Assignment,
    },
    /// Take a lease away if its revision is still this one.
    Kill {
        node: String,
        revision: u64,
    },
    /// Unless the node has a lease: append `Sealed` to its subject, expecting its last record to be the one that is
    /// there now.
    Seal {
        holder: Holder,
    },
    Command {
        revision: u64,
        control: Control,
    },
    /// A group's: tell the hub.
    Answer(Answer),
}

/// How long things take.
#[derive(Clone, Copy, Debug)]
pub struct Patience {
    pub lease_ms: u64,
    /// How much longer than its lease a node that is not heard of is waited for.
    pub margin_ms: u64,
    /// Before the first assignment: how long nobody must have joined.
    pub gather_ms: u64,
    /// How long a partition stays where it is before it moves to even out loads.
    pub rest_ms: u64,
    /// How fast nodes are is looked at over this time.
    pub window_ms: u64,
}

impl Patience {
    pub fn of(lease_ms: u64) -> Self {
        Self {
            lease_ms,
            margin_ms: lease_ms / 10 + 500,
            gather_ms: 2_000,
            rest_ms: 60_000,
            window_ms: lease_ms.min(10_000),
        }
    }
}

impl Action {
    /// Would both do the same thing to the same thing?
    pub(super) fn is_like(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Assign { .. }, Self::Assign { .. })
            | (Self::Command { .. }, Self::Command { .. })
            | (Self::Answer(_), Self::Answer(_)) => true,
            (Self::Kill { node: a, .. }, Self::Kill { node: b, .. }) => a == b,
            (Self::Seal { holder: a }, Self::Seal { holder: b }) => a == b,
            _ => false,
        }
    }
}
