//! A bounded cache in two generations: what was not used for a whole generation is forgotten.

use std::borrow::Borrow;
use std::collections::HashMap;
use std::hash::Hash;

#[derive(Debug)]
pub(crate) struct Generations<K, V> {
    young: HashMap<K, V>,
    old: HashMap<K, V>,
    /// Entries of one generation.
    bound: usize,
}

impl<K: Hash + Eq, V> Generations<K, V> {
    pub(crate) fn with_bound(bound: usize) -> Self {
        Self {
            young: HashMap::new(),
            old: HashMap::new(),
            bound: bound.max(1),
        }
    }

    pub(crate) fn get<Q>(&mut self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        if !self.young.contains_key(key) {
            let (key, value) = self.old.remove_entry(key)?;
            self.insert(key, value);
        }
        self.young.get(key)
    }

    pub(crate) fn insert(&mut self, key: K, value: V) {
        if self.young.len() >= self.bound && !self.young.contains_key(&key) {
            self.old = std::mem::take(&mut self.young);
        }
        self.old.remove(&key);
        self.young.insert(key, value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn used_entries_stay_and_unused_ones_go() {
        let mut cache = Generations::with_bound(2);
        cache.insert("kept", 1);
        for n in 0..20 {
            cache.insert("x", n);
            cache.insert(["a", "b", "c", "d"][n % 4], n);
            assert_eq!(cache.get(&"kept"), Some(&1));
        }
        assert!(cache.young.len() + cache.old.len() <= 4);
    }
}
