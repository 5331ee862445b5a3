//! A group is a fleet of its own under a hub: it has some of a crawl's partitions, and sends links of the others up.

use crate::error::FleetError;
use portolan_model::PartitionId;
use serde::{Deserialize, Serialize};

/// A group's place in a crawl of several groups. It never changes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Group {
    pub name: String,
    /// The crawl, as the hub knows it.
    pub crawl: String,
    /// `CrawlDefinition::id` and its checksum: another crawl of the same name is none of this group's.
    pub crawl_id: String,
    pub crawl_checksum: String,
    /// The hub's JetStream domain.
    pub hub_domain: String,
    /// All groups of the crawl.
    pub groups: Vec<String>,
    /// By partition: which of the groups it belongs to.
    pub(crate) owners: Vec<u16>,
}

impl Group {
    /// The group that a partition belongs to.
    pub fn owner(&self, partition: PartitionId) -> &str {
        let owner = self.owners.get(usize::from(partition.0));
        let owner = owner.and_then(|owner| self.groups.get(usize::from(*owner)));
        // `check_owners` has seen to it that there is one.
        owner.map_or(&self.name, |owner| owner)
    }

    pub fn is_mine(&self, partition: PartitionId) -> bool {
        self.owner(partition) == self.name
    }

    /// How many partitions it has.
    pub fn partitions(&self) -> u16 {
        let all = 0..u16::try_from(self.owners.len()).unwrap_or(u16::MAX);
        all.filter(|partition| self.is_mine(PartitionId(*partition)))
            .count() as u16
    }

    /// The other groups of the crawl.
    pub fn others(&self) -> impl Iterator<Item = &str> {
        let others = self.groups.iter().map(String::as_str);
        others.filter(|group| *group != self.name)
    }

    /// The name of another group's fleet.
    pub(crate) fn fleet_of(&self, group: &str) -> String {
        fleet_name(&self.crawl, group)
    }
}

/// What the fleet of a crawl's group is called: `portolan node CRAWL-GROUP` joins it.
pub fn fleet_name(crawl: &str, group: &str) -> String {
    format!("{crawl}-{group}")
}

/// Is each partition one group's, and has each group one?
pub(crate) fn check_owners(
    groups: &[String],
    owners: &[u16],
    partitions: u16,
) -> Result<(), FleetError> {
    let wrong = |what: String| Err(FleetError::Groups(what));
    if groups.len() < 2 {
        return wrong("a crawl under a hub has two groups or more".to_owned());
    }
    if owners.len() != usize::from(partitions)
        || owners
            .iter()
            .any(|owner| usize::from(*owner) >= groups.len())
    {
        return wrong("not every partition belongs to one of them".to_owned());
    }
    for (number, group) in groups.iter().enumerate() {
        crate::check_name("a group", group)?;
        if groups[..number].contains(group) {
            return wrong(format!("'{group}' is named twice"));
        }
        if !owners.iter().any(|owner| usize::from(*owner) == number) {
            return wrong(format!(
                "'{group}' would have no partition: give more partitions, or fewer groups"
            ));
        }
    }
    Ok(())
}
