//! Who fetches a URL: one trait for every way to divide the Web, and the ways that need nothing but a
//! hash. Ways that need a file (part vectors, DSets) are in the `partition` room.

use crate::{CanonicalUrl, DocId, HostId, Identities, PartitionId};

/// What a partitioner may look at. Identities differ from crawl to crawl: what is to hold for another
/// crawl, too, goes by the texts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct UrlKey<'a> {
    pub doc: DocId,
    pub host: HostId,
    /// Empty where only its identity is known.
    pub url: &'a str,
    pub host_name: &'a str,
}

impl<'a> UrlKey<'a> {
    pub fn of(url: &'a CanonicalUrl, ids: &Identities) -> Self {
        Self {
            doc: url.doc_id(ids),
            host: url.host_id(ids),
            url: url.as_str(),
            host_name: url.host(),
        }
    }
}

/// Divides the Web among `parts`. For a given URL the answer never changes, whoever asks.
pub trait Partitioner: Send + Sync {
    fn parts(&self) -> u16;

    /// The part that fetches this URL. `discoverer` found it; that matters only to partitioners that
    /// give away what they do not know, and only the first time.
    fn part_of(&self, url: UrlKey<'_>, discoverer: PartitionId) -> PartitionId;
}

/// Every page by itself: balances best, sends nearly every link away.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PageHash {
    pub parts: u16,
    pub seed: u64,
}

impl Partitioner for PageHash {
    fn parts(&self) -> u16 {
        self.parts
    }

    fn part_of(&self, url: UrlKey<'_>, _: PartitionId) -> PartitionId {
        PartitionId(jump_hash(mixed(url.doc.0, self.seed), self.parts))
    }
}

/// Sites as a whole. One part more moves about `1 / (parts + 1)` of the sites, and only to the new part.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SiteHash {
    pub parts: u16,
    pub seed: u64,
}

impl Partitioner for SiteHash {
    fn parts(&self) -> u16 {
        self.parts
    }

    fn part_of(&self, url: UrlKey<'_>, _: PartitionId) -> PartitionId {
        PartitionId(jump_hash(mixed(url.host.0, self.seed), self.parts))
    }
}

/// The rule of the registry of one machine, whose number of partitions is fixed for a crawl.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FixedSiteHash {
    pub parts: u16,
}

impl Partitioner for FixedSiteHash {
    fn parts(&self) -> u16 {
        self.parts
    }

    fn part_of(&self, url: UrlKey<'_>, _: PartitionId) -> PartitionId {
        PartitionId::of(url.host, self.parts)
    }
}

/// Jump consistent hash, after Lamping and Veach (2014): no table, and a bucket more takes its share
/// evenly from all others. No buckets count as one.
pub fn jump_hash(mut key: u64, buckets: u16) -> u16 {
    let mut bucket = 0_u16;
    let mut next = 0_f64;
    while next < f64::from(buckets) {
        bucket = next as u16;
        key = key.wrapping_mul(2_862_933_555_777_941_757).wrapping_add(1);
        next =
            ((f64::from(bucket) + 1.0) * ((1_u64 << 31) as f64 / ((key >> 33) + 1) as f64)).floor();
    }
    bucket
}

/// The finaliser of splitmix64 over key and seed: another seed gives an independent hash.
fn mixed(key: u64, seed: u64) -> u64 {
    let mut x = key ^ seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(host_name: &str) -> UrlKey<'_> {
        UrlKey {
            doc: Identities::PUBLIC.doc(host_name),
            host: Identities::PUBLIC.host(host_name),
            url: "",
            host_name,
        }
    }

    #[test]
    fn one_part_more_moves_its_share_and_only_to_itself() {
        const SITES: u32 = 20_000;
        for parts in [1_u16, 2, 7, 32, 64] {
            let (before, after) = (
                SiteHash { parts, seed: 3 },
                SiteHash {
                    parts: parts + 1,
                    seed: 3,
                },
            );
            let mut moved = 0;
            for site in 0..SITES {
                let name = format!("h{site}.test");
                let from = before.part_of(key(&name), PartitionId(0));
                let to = after.part_of(key(&name), PartitionId(0));
                assert!(from.0 < parts);
                if from != to {
                    assert_eq!(to, PartitionId(parts), "moved to an old part");
                    moved += 1;
                }
            }
            let share = f64::from(moved) / f64::from(SITES);
            let wanted = 1.0 / f64::from(parts + 1);
            assert!(
                (share - wanted).abs() < 0.2 * wanted,
                "{parts}: {share} {wanted}"
            );
        }
    }

    #[test]
    fn a_site_stays_whole_and_pages_spread() {
        let sites = SiteHash { parts: 5, seed: 1 };
        let pages = PageHash { parts: 5, seed: 1 };
        let mut loads = [0_u32; 5];
        for page in 0..10_000_u64 {
            let key = UrlKey {
                doc: Identities::PUBLIC.doc(&format!("http://a.test/{page}")),
                host: Identities::PUBLIC.host("a.test"),
                url: "",
                host_name: "a.test",
            };
            assert_eq!(
                sites.part_of(key, PartitionId(0)),
                sites.part_of(key, PartitionId(4))
            );
            loads[usize::from(pages.part_of(key, PartitionId(0)).0)] += 1;
        }
        assert!(loads.iter().all(|&load| (1_800..2_200).contains(&load)));
    }

    #[test]
    fn no_bucket_and_one_bucket_are_the_first() {
        assert_eq!(jump_hash(77, 0), 0);
        assert_eq!(jump_hash(77, 1), 0);
    }
}
