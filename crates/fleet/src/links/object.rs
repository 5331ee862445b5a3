//! Where links are in the store that are more than a message.

use crate::error::FleetError;
use portolan_model::PartitionId;

/// What their keys begin with.
pub(crate) const LINKS: &str = "links/";

/// The key of an object that was never there before: see `protocol::LinkObjects`.
pub(crate) fn object_key(destination: PartitionId) -> Result<String, FleetError> {
    let drawn = u128::from_le_bytes(crate::definition::random()?);
    Ok(format!("{LINKS}p{:05}/{drawn:032x}", destination.0))
}

/// Whom an object is for; `None` if it is none of links.
pub(crate) fn destination_of(key: &str) -> Option<PartitionId> {
    let (partition, _) = key.strip_prefix(LINKS)?.split_once('/')?;
    Some(PartitionId(partition.strip_prefix('p')?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_says_whom_it_is_for() {
        let key = object_key(PartitionId(12)).expect("randomness");
        assert_eq!(destination_of(&key), Some(PartitionId(12)));
        assert_ne!(object_key(PartitionId(12)).expect("randomness"), key);
        for other in ["links/", "links/12/a", "journal/p00012/a"] {
            assert_eq!(destination_of(other), None, "{other}");
        }
    }
}
