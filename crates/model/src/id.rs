//! Identities: a document and a host are known by a 64-bit keyed hash of their canonical text, a
//! partition by its number. The key is a secret of the crawl: who doesn't know it can't make a URL
//! that is taken for another one. See `docs/decisions/0006-secret-identities.md`.

use siphasher::sip::SipHasher13;
use std::fmt;

/// A document: the hash of its canonical URL.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct DocId(pub u64);

/// A host: the hash of its canonical name, without scheme and port. One host has one sub-queue and
/// is asked for one thing at a time.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct HostId(pub u64);

/// The secret by which one crawl gives documents and hosts their identities: SipHash-1-3, with a key of
/// 128 bits for documents and another for hosts. The same secret gives the same identities, for ever;
/// those of two secrets have nothing to do with each other.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Identities {
    doc_key: (u64, u64),
    host_key: (u64, u64),
}

impl Identities {
    /// Bytes of a secret.
    pub const SECRET_BYTES: usize = 32;

    /// Identities that anybody can compute. For graphs and tables that outlive a crawl, where nothing
    /// is lost if two names share one; and for tests. Never for a crawl's own documents.
    pub const PUBLIC: Self = Self::of_secret(*b"portolan: everybody knows this!\n");

    /// `secret` must be random, and kept where nobody on the Web can read it.
    pub const fn of_secret(secret: [u8; Self::SECRET_BYTES]) -> Self {
        Self {
            doc_key: (word(&secret, 0), word(&secret, 8)),
            host_key: (word(&secret, 16), word(&secret, 24)),
        }
    }

    #[inline]
    pub fn doc(&self, canonical_url: &str) -> DocId {
        let (k0, k1) = self.doc_key;
        DocId(SipHasher13::new_with_keys(k0, k1).hash(canonical_url.as_bytes()))
    }

    #[inline]
    pub fn host(&self, host_name: &str) -> HostId {
        let (k0, k1) = self.host_key;
        HostId(SipHasher13::new_with_keys(k0, k1).hash(host_name.as_bytes()))
    }

    /// Tells secrets apart without giving them away: kept with what was made by one, so that another is
    /// noticed.
    pub fn mark(&self) -> u64 {
        // Of both keys: each of them may be damaged. No host and no URL has a space in its name.
        let (of_hosts, of_docs) = (self.host("a secret's mark"), self.doc("a secret's mark"));
        of_hosts.0 ^ of_docs.0.rotate_left(32)
    }
}

const fn word(bytes: &[u8; Identities::SECRET_BYTES], at: usize) -> u64 {
    let mut word = 0;
    let mut byte = 8;
    while byte > 0 {
        byte -= 1;
        word = word << 8 | bytes[at + byte] as u64;
    }
    word
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

/// A secret is not for logs.
impl fmt::Debug for Identities {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Identities")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two secrets that differ in one bit of each key.
    fn two() -> [Identities; 2] {
        let mut secret = [0; Identities::SECRET_BYTES];
        (0..).zip(&mut secret).for_each(|(n, byte)| *byte = n);
        let first = Identities::of_secret(secret);
        secret[3] ^= 1;
        secret[30] ^= 1;
        [first, Identities::of_secret(secret)]
    }

    #[test]
    fn documents_and_hosts_of_the_same_text_differ() {
        for ids in two() {
            assert_ne!(ids.doc("example.org").0, ids.host("example.org").0);
        }
    }

    #[test]
    fn hosts_spread_over_all_partitions() {
        let mut seen = [0u32; 7];
        for n in 0..7_000 {
            let host = Identities::PUBLIC.host(&format!("h{n}.test"));
            seen[PartitionId::of(host, 7).0 as usize] += 1;
        }
        assert!(seen.iter().all(|&n| (800..1200).contains(&n)), "{seen:?}");
    }

    /// A secret is damaged if any byte of it is.
    #[test]
    fn every_byte_of_a_secret_counts_for_its_mark() {
        let secret = [7; Identities::SECRET_BYTES];
        for at in 0..secret.len() {
            let mut other = secret;
            other[at] ^= 4;
            let [one, other] = [secret, other].map(Identities::of_secret);
            assert_ne!(one.mark(), other.mark(), "{at}");
        }
    }

    /// The vectors of the reference implementation are of the key 00 01 .. 0f and the texts empty, 00,
    /// 00 01 and so on. These are for SipHash-1-3.
    #[test]
    fn the_hash_is_siphash_1_3() {
        let mut secret = [0; Identities::SECRET_BYTES];
        (0..).zip(&mut secret[..16]).for_each(|(n, byte)| *byte = n);
        let ids = Identities::of_secret(secret);
        let text: String = (0..63_u8).map(char::from).collect();
        for (length, hash) in [
            (0, 0xabac_0158_050f_c4dc_u64),
            (1, 0xc9f4_9bf3_7d57_ca93),
            (8, 0x3690_9511_8d29_9a8e),
            (63, 0x9d19_9062_b7bb_b3a8),
        ] {
            assert_eq!(ids.doc(&text[..length]).0, hash, "{length}");
        }
    }

    /// Whoever finds two URLs that collide under one secret has gained nothing under another: each bit
    /// of the difference of two identities is as good as random under every secret.
    #[test]
    fn what_holds_under_one_secret_says_nothing_about_another() {
        let [one, other] = two();
        const TEXTS: u32 = 4_000;
        let mut flipped = [0_u32; 64];
        let mut low_bits = [0_u32; 2];
        for n in 0..TEXTS {
            let (a, b) = (format!("http://a.test/{n}"), format!("http://b.test/{n}"));
            let [a_one, b_one, a_other, b_other] =
                [one.doc(&a), one.doc(&b), other.doc(&a), other.doc(&b)].map(|doc| doc.0);
            let between = (a_one ^ b_one) ^ (a_other ^ b_other);
            (0..64).for_each(|bit| flipped[bit] += (between >> bit & 1) as u32);
            // Collisions in eight bits under one secret,
            if (a_one ^ b_one) as u8 == 0 {
                low_bits[0] += 1;
                // and how many of them hold under the other.
                low_bits[1] += u32::from((a_other ^ b_other) as u8 == 0);
            }
            assert_ne!((a_one, one.host(&a)), (a_other, other.host(&a)));
        }
        let half = TEXTS / 2;
        assert!(
            flipped.iter().all(|&n| n.abs_diff(half) < half / 8),
            "{flipped:?}"
        );
        assert!(low_bits[0] > 0 && low_bits[1] <= 3, "{low_bits:?}");
    }

    #[test]
    fn the_mark_tells_secrets_apart_and_nothing_prints_them() {
        let [one, other] = two();
        assert_ne!(one.mark(), other.mark());
        assert_eq!(format!("{one:?}"), "Identities");
    }
}
