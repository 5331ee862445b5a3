//! What should be fetched sooner: one trait for every order, and the orders that the registry's frontier
//! folds from its log. An order keeps a count and [`SCORE_BITS`] bits of each URL and nothing else, so memory
//! and replay are as bounded and as exact as without it.

use serde::{Deserialize, Serialize};

use crate::{DocId, HostId};

/// A page as a ranker knows it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Known {
    pub doc: DocId,
    pub host: HostId,
}

/// The highest class.
pub const MAX_CLASS: u8 = 63;

/// What a frontier keeps of each URL for its ranker, beside the count of back-links.
pub const SCORE_BITS: u32 = 24;

/// Gives each page its class: the frontier takes better classes first and, within a class, what came
/// first.
pub trait Ranker: Send + Sync {
    /// A class that is known before the page is. It travels with the links to the page, so that folding
    /// a log needs no file. `url` is empty where only the page's identity is known.
    fn given(&self, _page: Known, _url: &str) -> Option<u8> {
        None
    }

    /// What each of a page's `links` brings to where it leads; `None` for seeds, which no page links
    /// to. It is in the log with the links. 0 is nothing.
    fn vote(&self, _from: Option<(Known, u32)>, _links: usize) -> u32 {
        0
    }

    /// The score of a page of this host once a link with this vote is counted.
    fn credit(&self, _host: HostId, score: u32, _vote: u32) -> u32 {
        score
    }

    /// From 0 to [`MAX_CLASS`]; `back_links` is how many pages fetched so far point at it.
    fn class(&self, back_links: u32, score: u32) -> u8;
}

/// The orders in which pages may be fetched. That of a registry's frontier is fixed when the registry is made.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Order {
    /// The logarithm of the back-links.
    #[default]
    Backlinks,
    /// First come, first served.
    Breadth,
    /// Online page importance, after Abiteboul, Preda and Cobena: a page that is fetched gives what
    /// it has to its links, the richest is fetched next.
    Opic,
    /// How many other sites link to the page, by linear counting (Whang and others) in
    /// [`SCORE_BITS`] bits: a site that links twice counts once.
    SiteIndegree,
    /// From a rank table, as of an earlier session: the class that came with the first link (see [`Ranker::given`]);
    /// pages without one go by back-links.
    Pagerank,
    /// PageRank of what has been fetched so far. Only for replays of a known graph: a frontier would have to hold the
    /// graph.
    LivePagerank,
}

impl Order {
    pub const ALL: [Order; 6] = [
        Order::Backlinks,
        Order::Breadth,
        Order::Opic,
        Order::SiteIndegree,
        Order::Pagerank,
        Order::LivePagerank,
    ];

    /// As people type it, and as it is written to disk.
    pub fn name(self) -> &'static str {
        match self {
            Order::Backlinks => "backlinks",
            Order::Breadth => "breadth",
            Order::Opic => "opic",
            Order::SiteIndegree => "site-indegree",
            Order::Pagerank => "pagerank",
            Order::LivePagerank => "live-pagerank",
        }
    }

    /// May a crawl have it? The others are for replays.
    pub fn is_for_crawls(self) -> bool {
        self != Order::LivePagerank
    }

    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|order| order.name() == name)
    }

    /// Does it look at more of a URL than the count of its back-links?
    #[inline]
    pub fn keeps_score(self) -> bool {
        matches!(self, Order::Opic | Order::SiteIndegree)
    }

    /// The class of a URL with the priority that its first link came with.
    #[inline]
    pub fn class_of(self, back_links: u32, score: u32, priority: i8) -> u8 {
        if self == Order::Pagerank && priority >= GIVEN {
            return (priority - GIVEN) as u8;
        }
        let class = i32::from(self.class(back_links, score));
        (class + i32::from(priority)).clamp(0, i32::from(MAX_CLASS)) as u8
    }
}

impl Ranker for Order {
    fn vote(&self, from: Option<(Known, u32)>, links: usize) -> u32 {
        match (self, from) {
            (Order::Opic, None) => cash_code(SEED_CASH),
            (Order::Opic, Some((_, score))) => cash_code(cash(score) / links.max(1) as f32),
            (Order::SiteIndegree, Some((page, _))) => site_mark(page.host),
            _ => 0,
        }
    }

    #[inline]
    fn credit(&self, host: HostId, score: u32, vote: u32) -> u32 {
        match self {
            Order::Opic => cash_code(cash(score) + cash(vote)),
            Order::SiteIndegree if vote != 0 && vote != site_mark(host) => {
                score | 1 << (vote % SCORE_BITS)
            }
            _ => score,
        }
    }

    #[inline]
    fn class(&self, back_links: u32, score: u32) -> u8 {
        match self {
            Order::Backlinks | Order::Pagerank | Order::LivePagerank => {
                back_links.checked_ilog2().unwrap_or(0) as u8
            }
            Order::Breadth => 0,
            Order::Opic => class_of_cash(score),
            Order::SiteIndegree => score.count_ones() as u8,
        }
    }
}

/// Priorities from here on are classes that were given.
const GIVEN: i8 = 64;

/// The priority by which a given class travels, with the one that the scope's rules found.
pub fn given_priority(class: u8, priority: i8) -> i8 {
    let moved = i32::from(class) + i32::from(priority);
    GIVEN + moved.clamp(0, i32::from(MAX_CLASS)) as i8
}

/// A priority that is not mistaken for a given class.
pub fn plain_priority(priority: i8) -> i8 {
    priority.min(GIVEN - 1)
}

/// What a seed has.
const SEED_CASH: f32 = 1.0;
/// The class of a seed's cash. Two classes a doubling: 27 halvings below, 4 doublings above.
const SEED_CASH_CLASS: i32 = 55;
/// Cash is kept as the upper bits of a positive `f32`: 8 of exponent, 16 of mantissa.
const CASH_SHIFT: u32 = 31 - SCORE_BITS;
const CASH_MANTISSA_BITS: u32 = 16;
/// The root of two, as such a mantissa.
const HALF_DOUBLING: u32 = 27_146;

fn cash(code: u32) -> f32 {
    f32::from_bits((code << CASH_SHIFT) & 0x7fff_ffff)
}

fn cash_code(cash: f32) -> u32 {
    cash.clamp(0.0, f32::MAX).to_bits() >> CASH_SHIFT
}

/// By whole numbers alone: logarithms need not be the same on all machines, and replays must be.
fn class_of_cash(code: u32) -> u8 {
    if code == 0 {
        return 0;
    }
    let exponent = (code >> CASH_MANTISSA_BITS) as i32 - 127;
    let upper_half = (code & ((1 << CASH_MANTISSA_BITS) - 1)) >= HALF_DOUBLING;
    (SEED_CASH_CLASS + 2 * exponent + i32::from(upper_half)).clamp(0, i32::from(MAX_CLASS)) as u8
}

/// Says which site voted, never 0.
fn site_mark(host: HostId) -> u32 {
    ((host.0 >> 32) as u32).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(host: u64) -> Known {
        Known {
            doc: DocId(1),
            host: HostId(host << 32),
        }
    }

    #[test]
    fn more_back_links_are_a_better_class() {
        let classes: Vec<u8> = [0, 1, 2, 3, 4, 1_000, u32::MAX]
            .map(|count| Order::Backlinks.class_of(count, 0, 0))
            .into();
        assert_eq!(classes, [0, 0, 1, 1, 2, 9, 31]);
        assert_eq!(Order::Breadth.class_of(1_000, 0, 0), 0);
        assert_eq!(Order::Breadth.class_of(1_000, 0, 3), 3);
    }

    #[test]
    fn cash_is_given_away_in_equal_shares() {
        let opic = Order::Opic;
        let seed = opic.credit(HostId(1), 0, opic.vote(None, 7));
        assert_eq!(opic.class(1, seed), 55);
        let share = opic.vote(Some((page(1), seed)), 4);
        let once = opic.credit(HostId(2), 0, share);
        assert_eq!(opic.class(1, once), 51);
        let twice = opic.credit(HostId(2), once, share);
        assert_eq!(opic.class(2, twice), 53);
        let thrice = opic.credit(HostId(2), twice, share);
        assert_eq!(opic.class(3, thrice), 54);
        assert!(thrice < 1 << SCORE_BITS);
    }

    #[test]
    fn cash_never_leaves_its_bits_however_much_there_is() {
        let opic = Order::Opic;
        let all = (1 << SCORE_BITS) - 1;
        let mut score = opic.credit(HostId(1), 0, all);
        for _ in 0..100 {
            score = opic.credit(HostId(1), score, score);
            assert!(score < 1 << SCORE_BITS);
            assert!(opic.class(1, score) <= MAX_CLASS);
        }
        assert_eq!(opic.class(1, 1), 0);
    }

    #[test]
    fn a_site_counts_once_and_never_for_itself() {
        let order = Order::SiteIndegree;
        let vote = |host| order.vote(Some((page(host), 0)), 9);
        let mut score = order.credit(HostId(7 << 32), 0, vote(7));
        assert_eq!(order.class(1, score), 0);
        for _ in 0..3 {
            score = order.credit(HostId(7 << 32), score, vote(8));
        }
        assert_eq!(order.class(4, score), 1);
        score = order.credit(HostId(7 << 32), score, vote(9));
        assert_eq!(order.class(5, score), 2);
    }

    #[test]
    fn given_classes_win_over_back_links_and_survive_the_journey() {
        let order = Order::Pagerank;
        assert_eq!(order.class_of(1 << 20, 0, given_priority(16, 0)), 16);
        assert_eq!(
            order.class_of(1 << 20, 0, given_priority(63, 100)),
            MAX_CLASS
        );
        assert_eq!(order.class_of(1, 0, given_priority(2, -9)), 0);
        assert_eq!(order.class_of(16, 0, plain_priority(2)), 6);
        assert_eq!(order.class_of(1, 0, plain_priority(i8::MAX)), MAX_CLASS);
    }

    #[test]
    fn names_round_trip() {
        for order in Order::ALL {
            assert_eq!(Order::from_name(order.name()), Some(order));
        }
    }
}
