//! Which node hands out slices of an address, and to whom. Every address has a home, computed from the live nodes; the
//! home keeps who has it in RAM only. A new home waits until what others may have granted is over.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::hash::Hasher;
use std::net::IpAddr;
use xxhash_rust::xxh3::Xxh3Default;

/// The longest that a slice lasts, and the shortest when several nodes want an address.
pub const LONGEST_SLICE_MS: u64 = 10_000;
pub const SHORTEST_SLICE_MS: u64 = 2_000;

/// What a slice has beside the pause after a request: the request itself begins a second before that at the latest.
const ROOM_MS: u64 = 2_000;

/// How much later than this node another one may hear of a change of the live nodes.
const SPREAD_MS: u64 = 10_000;

/// A node that has not asked for this long does not wait for its turn.
const FORGOTTEN_MS: u64 = 5_000;

/// More addresses than this are not kept; who asks for one waits.
const MOST_ADDRESSES: usize = 200_000;

/// The node that hands out an address: of all live nodes the one with the highest hash of both names.
pub fn home<'a>(address: IpAddr, members: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    members.into_iter().max_by_key(|node| {
        let mut hasher = Xxh3Default::new();
        hasher.write(node.as_bytes());
        hasher.write_u8(0);
        match address {
            IpAddr::V4(address) => hasher.write(&address.octets()),
            IpAddr::V6(address) => hasher.write(&address.octets()),
        }
        (hasher.finish(), *node)
    })
}

/// What a home answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Grant {
    /// It is the asker's for this time, counted from before it sent its question.
    For {
        ms: u64,
    },
    Wait {
        ms: u64,
    },
}

/// The addresses that this node is the home of.
#[derive(Debug)]
pub struct Homes {
    me: String,
    /// The live nodes and since when; the newest is last.
    members: VecDeque<(u64, Vec<String>)>,
    slices: BTreeMap<IpAddr, Holding>,
    swept_ms: u64,
    lengths: Lengths,
}

/// How long slices are.
#[derive(Clone, Copy, Debug)]
struct Lengths {
    longest_ms: u64,
    shortest_ms: u64,
}

impl Lengths {
    /// A slice has room for a request, the pause after it, and the way of the grant.
    fn with_room_for(pause_ms: u64) -> Self {
        let least_ms = pause_ms.saturating_add(ROOM_MS);
        Self {
            longest_ms: LONGEST_SLICE_MS.max(least_ms),
            shortest_ms: SHORTEST_SLICE_MS.max(least_ms),
        }
    }
}

#[derive(Debug)]
struct Holding {
    node: String,
    until_ms: u64,
    /// Those that wait for it in the order in which they first asked, and when they last did.
    waiting: VecDeque<(String, u64)>,
}

impl Homes {
    pub fn new(me: &str) -> Self {
        Self {
            me: me.to_owned(),
            members: VecDeque::new(),
            slices: BTreeMap::new(),
            swept_ms: 0,
            lengths: Lengths::with_room_for(0),
        }
    }

    /// Addresses are left alone for `pause_ms` after a request: slices get room for that. All nodes are to be told the same.
    pub fn leave_alone(&mut self, pause_ms: u64) {
        self.lengths = Lengths::with_room_for(pause_ms);
    }

    /// The live nodes are these, since `since_ms`: 0 if nobody can have asked for an address before.
    pub fn set_members(&mut self, members: Vec<String>, since_ms: u64, now_ms: u64) {
        if self
            .members
            .back()
            .is_some_and(|(_, last)| *last == members)
        {
            return;
        }
        self.members.push_back((since_ms, members));
        // What was before the last change that is long past is of no use.
        let settled = |since: u64| since + self.lengths.longest_ms + SPREAD_MS <= now_ms;
        while self
            .members
            .get(1)
            .is_some_and(|(since, _)| settled(*since))
        {
            self.members.pop_front();
        }
    }

    /// The node to be asked for an address.
    pub fn home(&self, address: IpAddr) -> Option<&str> {
        let (_, members) = self.members.back()?;
        home(address, members.iter().map(String::as_str))
    }

    /// `node` asks for an address.
    pub fn ask(&mut self, address: IpAddr, node: &str, now_ms: u64) -> Grant {
        if self.home(address) != Some(&self.me) {
            return Grant::Wait { ms: 1_000 };
        }
        if let Some(ms) = self.new_here(address, now_ms) {
            return Grant::Wait { ms };
        }
        self.sweep(now_ms);
        if self.slices.len() >= MOST_ADDRESSES && !self.slices.contains_key(&address) {
            return Grant::Wait {
                ms: SHORTEST_SLICE_MS,
            };
        }
        let holding = self.slices.entry(address).or_insert_with(|| Holding {
            node: String::new(),
            until_ms: 0,
            waiting: VecDeque::new(),
        });
        holding.ask(node, now_ms, self.lengths)
    }

    /// How long to wait if another node was the home of this address lately.
    fn new_here(&self, address: IpAddr, now_ms: u64) -> Option<u64> {
        let was_mine = |members: &[String]| {
            home(address, members.iter().map(String::as_str)) == Some(&self.me)
        };
        let mut changes = self
            .members
            .iter()
            .rev()
            .take_while(|(_, members)| was_mine(members));
        let since = changes.by_ref().last().map_or(now_ms, |(since, _)| *since);
        // Of the first members that this node has seen, nobody knows who came before.
        let free_ms = match since {
            0 => 0,
            since => since + self.lengths.longest_ms + SPREAD_MS,
        };
        (now_ms < free_ms).then(|| (free_ms - now_ms).min(SHORTEST_SLICE_MS))
    }

    fn sweep(&mut self, now_ms: u64) {
        if now_ms >= self.swept_ms + self.lengths.longest_ms {
            self.swept_ms = now_ms;
            self.slices
                .retain(|_, holding| holding.until_ms > now_ms || !holding.waiting.is_empty());
        }
    }
}

impl Holding {
    fn ask(&mut self, node: &str, now_ms: u64, lengths: Lengths) -> Grant {
        self.waiting
            .retain(|(_, asked_ms)| asked_ms + FORGOTTEN_MS > now_ms);
        let others: BTreeSet<&str> = self
            .waiting
            .iter()
            .map(|(other, _)| other.as_str())
            .collect();
        let alone = others.iter().all(|other| *other == node);
        let mine = self.node == node && self.until_ms > now_ms;
        let first = self.waiting.front().is_none_or(|(other, _)| other == node);
        if (self.until_ms <= now_ms && first) || (mine && alone) {
            self.waiting.retain(|(other, _)| other != node);
            let ms = match self.waiting.is_empty() {
                true => lengths.longest_ms,
                false => lengths.shortest_ms,
            };
            self.node = node.to_owned();
            self.until_ms = now_ms + ms;
            return Grant::For { ms };
        }
        match self.waiting.iter_mut().find(|(other, _)| other == node) {
            Some((_, asked_ms)) => *asked_ms = now_ms,
            None => self.waiting.push_back((node.to_owned(), now_ms)),
        }
        let ms = self
            .until_ms
            .saturating_sub(now_ms)
            .clamp(100, SHORTEST_SLICE_MS);
        Grant::Wait { ms }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ADDRESS: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 1));
    const SETTLED: u64 = LONGEST_SLICE_MS + SPREAD_MS;

    #[test]
    fn a_slice_has_room_for_the_pause_after_a_request() {
        const PAUSE_MS: u64 = 15_000;
        let mut homes = Homes::new("a");
        homes.leave_alone(PAUSE_MS);
        homes.set_members(vec!["a".to_owned()], 0, 1);
        let begun = 100_000;
        let given = |grant| match grant {
            Grant::For { ms } => ms,
            Grant::Wait { .. } => 0,
        };
        assert!(given(homes.ask(ADDRESS, "b", begun)) > PAUSE_MS + 1_000);
        assert_eq!(given(homes.ask(ADDRESS, "c", begun + 16_000)), 0);
        let next = begun + PAUSE_MS + ROOM_MS;
        assert_eq!(given(homes.ask(ADDRESS, "b", next - 1_000)), 0);
        // Somebody else waits, and it is enough all the same.
        assert!(given(homes.ask(ADDRESS, "c", next)) > PAUSE_MS + 1_000);
    }

    #[test]
    fn nodes_that_want_the_same_address_take_turns() {
        let mut homes = Homes::new("a");
        homes.set_members(vec!["a".to_owned()], 1, 1);
        assert!(matches!(
            homes.ask(ADDRESS, "b", SETTLED),
            Grant::Wait { .. }
        ));
        let begun = SETTLED + 1;
        assert_eq!(
            homes.ask(ADDRESS, "b", begun),
            Grant::For {
                ms: LONGEST_SLICE_MS
            }
        );
        assert!(matches!(
            homes.ask(ADDRESS, "c", begun + 1_000),
            Grant::Wait { .. }
        ));
        // c waits: b is not given more.
        assert!(matches!(
            homes.ask(ADDRESS, "b", begun + 2_000),
            Grant::Wait { .. }
        ));
        assert!(matches!(
            homes.ask(ADDRESS, "c", begun + 6_000),
            Grant::Wait { .. }
        ));
        let over = begun + LONGEST_SLICE_MS;
        assert!(matches!(
            homes.ask(ADDRESS, "b", over - 500),
            Grant::Wait { .. }
        ));
        assert_eq!(
            homes.ask(ADDRESS, "c", over),
            Grant::For {
                ms: SHORTEST_SLICE_MS
            }
        );
        let next = over + SHORTEST_SLICE_MS;
        assert_eq!(
            homes.ask(ADDRESS, "b", next),
            Grant::For {
                ms: LONGEST_SLICE_MS
            }
        );
    }

    /// Of many addresses each has one home; a node that joins takes some over, and leaves the others where they are.
    #[test]
    fn a_node_that_joins_moves_only_what_becomes_its_own() {
        let before = ["a", "b", "c"];
        let after = ["a", "b", "c", "d"];
        let mut moved = 0;
        for n in 0..4_000_u32 {
            let address = IpAddr::V4(n.into());
            let (was, is) = (home(address, before), home(address, after));
            assert!(was == is || is == Some("d"));
            moved += u32::from(was != is);
        }
        assert!((800..1_200).contains(&moved), "{moved}");
    }
}
