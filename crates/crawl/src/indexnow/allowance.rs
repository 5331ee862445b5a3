//! How many URLs each sender may name at once, and how many more with time. In bounded memory, whoever sends.

use std::collections::HashMap;
use std::hash::Hash;
use std::time::Instant;

/// What can be said at once.
const MOST: f64 = 20_000.0;
/// What is won back in a second.
const PER_S: f64 = 200.0;
/// A ping costs this much more than its URLs.
const OF_A_PING: f64 = 9.0;
/// Of more, all are forgotten who have won everything back; if none has, all.
const MOST_MET: usize = 50_000;

pub(super) struct Allowances<K> {
    left: HashMap<K, (f64, Instant)>,
}

impl<K: Hash + Eq> Allowances<K> {
    pub(super) fn new() -> Self {
        Self {
            left: HashMap::new(),
        }
    }

    /// May `who` say this much now? Then it is taken off.
    pub(super) fn take(&mut self, who: K, urls: usize, now: Instant) -> bool {
        if self.left.len() >= MOST_MET && !self.left.contains_key(&who) {
            self.left.retain(|_, known| by_now(*known, now) < MOST);
            if self.left.len() >= MOST_MET {
                self.left.clear();
            }
        }
        let known = self.left.entry(who).or_insert((MOST, now));
        let left = by_now(*known, now) - urls as f64 - OF_A_PING;
        if left < 0.0 {
            return false;
        }
        *known = (left, now);
        true
    }
}

fn by_now((left, at): (f64, Instant), now: Instant) -> f64 {
    let seconds = now.saturating_duration_since(at).as_secs_f64();
    (left + seconds * PER_S).min(MOST)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn who_says_much_has_to_wait_and_others_do_not() {
        let mut allowances = Allowances::new();
        let now = Instant::now();
        assert!(allowances.take("a", 10_000, now));
        assert!(!allowances.take("a", 10_000, now));
        assert!(allowances.take("b", 10_000, now));
        let single = (0..10_000).filter(|_| allowances.take("c", 1, now));
        assert_eq!(single.count(), 2_000);
        assert!(!allowances.take("c", 1, now));
        let later = now + Duration::from_secs(60);
        assert!(allowances.take("a", 10_000, later) && allowances.take("c", 1, later));
    }

    #[test]
    fn a_crowd_is_forgotten() {
        let mut allowances = Allowances::new();
        let now = Instant::now();
        for who in 0..2 * MOST_MET {
            assert!(allowances.take(who, 1, now));
        }
        assert!(allowances.left.len() <= MOST_MET);
    }
}
