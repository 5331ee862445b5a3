//! What the fleet's things are called in NATS.

use portolan_model::PartitionId;

/// Streams that link subjects are spread over.
pub(crate) const LINK_STREAMS: u16 = 16;

/// Keys of the fleet's bucket.
pub(crate) const FLEET: &str = "fleet";
pub(crate) const ASSIGNMENT: &str = "assignment";
pub(crate) const CONTROL: &str = "control";
pub(crate) const COORDINATOR: &str = "coordinator";
pub(crate) const BUDGET: &str = "budget";
pub(crate) const SETTINGS: &str = "settings";
pub(crate) const SUMMARY: &str = "summary";
/// What a group's coordinator knows of the hub.
pub(crate) const HUB: &str = "hub";

/// Keys of the hub's bucket.
pub(crate) const CRAWL: &str = "crawl";
pub(crate) const ABOVE: &str = "above";

/// The name of a fleet, and what follows from it.
#[derive(Clone, Debug)]
pub(crate) struct Names(pub(crate) String);

impl Names {
    pub(crate) fn bucket(&self) -> String {
        format!("portolan_{}", self.0)
    }

    pub(crate) fn leases(&self) -> String {
        format!("portolan_{}_leases", self.0)
    }

    pub(crate) fn ship_stream(&self) -> String {
        format!("portolan_{}_ship", self.0)
    }

    pub(crate) fn ship_subjects(&self) -> String {
        format!("portolan.{}.ship.*", self.0)
    }

    pub(crate) fn ship_subject(&self, node: &str) -> String {
        format!("portolan.{}.ship.{node}", self.0)
    }

    pub(crate) fn links_stream(&self, stream: u16) -> String {
        format!("portolan_{}_links_{stream}", self.0)
    }

    pub(crate) fn links_subjects(&self, stream: u16) -> String {
        format!("portolan.{}.links.{stream}.*", self.0)
    }

    pub(crate) fn links_stream_of(&self, partition: PartitionId) -> String {
        self.links_stream(partition.0 % LINK_STREAMS)
    }

    pub(crate) fn links_subject(&self, partition: PartitionId) -> String {
        format!(
            "portolan.{}.links.{}.{}",
            self.0,
            partition.0 % LINK_STREAMS,
            partition.0
        )
    }

    /// Where crawl-clients ask a seed-server for work.
    pub(crate) fn work_subject(&self, node: &str) -> String {
        format!("portolan.{}.work.{node}", self.0)
    }

    /// Where they hand in what came of it.
    pub(crate) fn back_subject(&self, node: &str) -> String {
        format!("portolan.{}.back.{node}", self.0)
    }

    /// Links for the partitions of other groups, until they have arrived there.
    pub(crate) fn up_stream(&self) -> String {
        format!("portolan_{}_up", self.0)
    }

    pub(crate) fn up_subjects(&self) -> String {
        format!("portolan.{}.up.*.*", self.0)
    }

    /// Those for one group.
    pub(crate) fn up_subjects_to(&self, group: &str) -> String {
        format!("portolan.{}.up.{group}.*", self.0)
    }

    pub(crate) fn up_subject(&self, group: &str, partition: PartitionId) -> String {
        format!("portolan.{}.up.{group}.{}", self.0, partition.0)
    }

    /// Where other groups put what is too large for a message of links.
    pub(crate) fn pieces_subject(&self) -> String {
        format!("portolan.{}.pieces", self.0)
    }

    /// Where other groups ask for addresses that are at home in this one.
    pub(crate) fn addresses_subject(&self) -> String {
        format!("portolan.{}.addresses", self.0)
    }

    /// The bucket of a crawl of several groups, in the hub's domain.
    pub(crate) fn hub_bucket(&self) -> String {
        format!("portolan_{}_hub", self.0)
    }

    pub(crate) fn address_subject(&self, node: &str) -> String {
        format!("portolan.{}.address.{node}", self.0)
    }
}

pub(crate) fn status_key(node: &str) -> String {
    format!("status.{node}")
}

/// What a group says of itself, in the hub's bucket.
pub(crate) fn group_key(group: &str) -> String {
    format!("group.{group}")
}

/// A redirect of a seed, in the hub's bucket, by the hash of its URL.
pub(crate) fn root_key(hash: &str) -> String {
    format!("root.{hash}")
}

pub(crate) fn lease_key(node: &str) -> String {
    format!("lease.{node}")
}

/// The last part of a subject or a key: the node's name.
pub(crate) fn last_token(subject: &str) -> &str {
    subject.rsplit('.').next().unwrap_or(subject)
}
