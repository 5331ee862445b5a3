//! How fast nodes really are: who fetches less than others of what it carries is given less to carry. A node's own word of its
//! weight is where this begins.
//!
//! Where hosts' pauses set the pace, every node fetches in proportion to what it carries, and nothing changes.

use std::collections::BTreeMap;

/// A window with fewer pages over all nodes says nothing.
const LEAST_PAGES: u64 = 200;
/// Within this part of the others' pace a node is as fast as they are.
const SAME: f64 = 0.25;
/// A window changes what is known of a node by this factor at most.
const STEP: f64 = 1.25;
/// No node counts as slower than this.
const SLOWEST: f64 = 0.2;

/// What a node did and carried.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Seen {
    /// Fetched since the node's process began.
    pub(super) pages: u64,
    /// Its part of all that is to be done; all parts sum up to 1.
    pub(super) share: f64,
    /// It has URLs that are due.
    pub(super) is_busy: bool,
}

/// How fast each node is beside the fastest, from 0 to 1.
#[derive(Debug, Default)]
pub(super) struct Speeds {
    since_ms: Option<u64>,
    before: BTreeMap<String, u64>,
    known: BTreeMap<String, f64>,
}

impl Speeds {
    /// 1 for a node that nothing is known of.
    pub(super) fn of(&self, node: &str) -> f64 {
        self.known.get(node).copied().unwrap_or(1.0)
    }

    /// To be called often; it looks once in a window of `window_ms`, over which rates are taken.
    pub(super) fn look(&mut self, now_ms: u64, window_ms: u64, seen: &BTreeMap<String, Seen>) {
        let since_ms = *self.since_ms.get_or_insert(now_ms);
        if now_ms < since_ms + window_ms && !self.before.is_empty() {
            return;
        }
        let before = std::mem::replace(
            &mut self.before,
            seen.iter().map(|(n, s)| (n.clone(), s.pages)).collect(),
        );
        self.since_ms = Some(now_ms);
        self.known.retain(|node, _| seen.contains_key(node));
        // Of those that were at work in the whole window.
        let at_work = |(node, seen): (&String, &Seen)| {
            let pages = seen.pages.checked_sub(*before.get(node)?)?;
            let counts = seen.is_busy && seen.share > 0.0;
            counts.then(|| (node.clone(), pages, seen.share))
        };
        let at_work: Vec<_> = seen.iter().filter_map(at_work).collect();
        let pages: u64 = at_work.iter().map(|(_, pages, _)| pages).sum();
        if at_work.len() < 2 || pages < LEAST_PAGES {
            return;
        }
        let share: f64 = at_work.iter().map(|(.., share)| share).sum();
        let usual = pages as f64 / share;
        for (node, pages, share) in at_work {
            let pace = pages as f64 / share / usual;
            if (pace - 1.0).abs() > SAME {
                let known = self.of(&node) * pace.clamp(1.0 / STEP, STEP);
                self.known.insert(node, known);
            }
        }
        let fastest = seen.keys().map(|node| self.of(node)).fold(0.0, f64::max);
        // Also of those that nothing was known of: where one is faster than 1, they are slower.
        for node in seen.keys() {
            let speed = (self.of(node) / fastest.max(SLOWEST)).clamp(SLOWEST, 1.0);
            self.known.insert(node.clone(), speed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WINDOW_MS: u64 = 10_000;

    /// Two nodes fetch as fast as they can; the shares follow what is known of them. Returns the share of the second.
    fn settle(second: f64, windows: u64) -> Vec<f64> {
        let (mut speeds, mut pages) = (Speeds::default(), [0.0, 0.0]);
        let mut shares = Vec::new();
        for window in 0..windows {
            let (one, other) = (speeds.of("a"), speeds.of("b"));
            let share = [one / (one + other), other / (one + other)];
            shares.push(share[1]);
            pages[0] += 1_000.0;
            pages[1] += 1_000.0 * second;
            let seen = |at: usize| Seen {
                pages: pages[at] as u64,
                share: share[at],
                is_busy: true,
            };
            let both = BTreeMap::from([("a".to_owned(), seen(0)), ("b".to_owned(), seen(1))]);
            speeds.look(window * WINDOW_MS, WINDOW_MS, &both);
        }
        shares
    }

    #[test]
    fn a_node_at_half_speed_gets_about_a_third_and_that_stays() {
        let shares = settle(0.5, 40);
        assert_eq!(shares[0], 0.5);
        let last = &shares[20..];
        assert!(
            last.iter().all(|share| (0.25..0.42).contains(share)),
            "{shares:?}"
        );
        let (least, most) = (
            last.iter().copied().fold(1.0, f64::min),
            last.iter().copied().fold(0.0, f64::max),
        );
        assert!(most - least < 0.05, "it goes up and down: {shares:?}");
    }

    #[test]
    fn who_is_slower_than_one_that_is_fast_counts_for_less() {
        let mut speeds = Speeds::default();
        for window in 0..2 {
            // The slow one is within what counts as the same pace, the fast one is not.
            let seen = |pages: u64, share| Seen {
                pages: pages * window,
                share,
                is_busy: true,
            };
            let both = BTreeMap::from([
                ("a".to_owned(), seen(590, 0.46)),
                ("b".to_owned(), seen(410, 0.54)),
            ]);
            speeds.look(window * WINDOW_MS, WINDOW_MS, &both);
        }
        assert_eq!(speeds.of("a"), 1.0);
        assert!(speeds.of("b") < 0.85, "{speeds:?}");
    }

    #[test]
    fn nodes_that_are_alike_stay_so() {
        assert!(settle(0.9, 40).iter().all(|share| *share == 0.5));
    }

    #[test]
    fn a_slow_node_that_recovers_gets_its_share_back() {
        let mut speeds = Speeds::default();
        speeds.known.insert("b".to_owned(), 0.4);
        let mut pages = [0.0, 0.0];
        for window in 0..30 {
            let other = speeds.of("b");
            let share = [1.0 / (1.0 + other), other / (1.0 + other)];
            pages = [pages[0] + 1_000.0, pages[1] + 1_000.0];
            let seen = |at: usize| Seen {
                pages: pages[at] as u64,
                share: share[at],
                is_busy: true,
            };
            let both = BTreeMap::from([("a".to_owned(), seen(0)), ("b".to_owned(), seen(1))]);
            speeds.look(window * WINDOW_MS, WINDOW_MS, &both);
        }
        assert!(speeds.of("b") > 0.7, "{speeds:?}");
    }

    #[test]
    fn few_pages_and_idle_nodes_say_nothing() {
        let mut speeds = Speeds::default();
        for window in 0..20 {
            let seen = |pages: u64, is_busy| Seen {
                pages: pages * window,
                share: 0.5,
                is_busy,
            };
            let both = BTreeMap::from([
                ("a".to_owned(), seen(50, true)),
                ("b".to_owned(), seen(5, true)),
                ("c".to_owned(), seen(0, false)),
            ]);
            speeds.look(window * WINDOW_MS, WINDOW_MS, &both);
        }
        assert_eq!(
            (speeds.of("a"), speeds.of("b"), speeds.of("c")),
            (1.0, 1.0, 1.0)
        );
    }
}
