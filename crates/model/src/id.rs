//! Identities: a document and a host are known by a 64-bit keyed hash of their canonical text, a
//! partition by its number.

use std::fmt;
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// Keys differ so that a document and a host of the same text never share an identity.
const DOC_KEY: u64 = 0x706f_7274_6f6c_616e;
const HOST_KEY: u64 = 0x6368_6172_7473_2131;

/// A document: the hash of its canonical URL.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct DocId(pub u64);

impl DocId {
    pub fn of(canonical_url: &str) -> Self {
        Self(xxh3_64_with_seed(canonical_url.as_bytes(), DOC_KEY))
    }
}

/// A host: the hash of its canonical name, without scheme and port. One host has one sub-queue and
/// is asked for one thing at a time.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct HostId(pub u64);

impl HostId {
    pub fn of(host_name: &str) -> Self {
        Self(xxh3_64_with_seed(host_name.as_bytes(), HOST_KEY))
    }
}

/// One share of the Web, owned by one worker at a time.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct PartitionId(pub u16);

impl PartitionId {
    /// The site hash: all URLs of a host are in one partition. The owner of a URL is computed,
    /// never asked for.
    pub fn of(host: HostId, partitions: u16) -> Self {
        debug_assert!(partitions > 0);
        // Multiply-shift uses the hash's top bits and needs no division.
        Self(((u128::from(host.0) * u128::from(partitions)) >> 64) as u16)
    }
}

impl fmt::Debug for DocId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "doc:{:016x}", self.0)
    }
}

impl fmt::Debug for HostId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "host:{:016x}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_and_hosts_of_the_same_text_differ() {
        assert_ne!(DocId::of("example.org").0, HostId::of("example.org").0);
    }

    #[test]
    fn hosts_spread_over_all_partitions() {
        let mut seen = [0u32; 7];
        for n in 0..7_000 {
            seen[PartitionId::of(HostId::of(&format!("h{n}.test")), 7).0 as usize] += 1;
        }
        assert!(seen.iter().all(|&n| (800..1200).contains(&n)), "{seen:?}");
    }
}
