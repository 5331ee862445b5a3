//! Links between partitions are streams, one from each source to each destination. Each forward names the one before it,
//! so that a destination can tell what comes next from what it has heard and from what comes after a gap.

use portolan_model::PartitionId;
use std::collections::BTreeMap;

/// Where a forward stands in the stream from its source to its destination.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Origin {
    pub source: PartitionId,
    /// The entry of the source that it was found in. Numbers of a stream increase, with holes: not every entry has links for
    /// every destination.
    pub number: u64,
    /// The number of the forward before it in the same stream; 0 for the first.
    pub predecessor: u64,
}

/// How far a destination has heard each source.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Heard(BTreeMap<u16, u64>);

/// What a forward is to who has heard so far.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Arrival {
    /// The next one; it counts as heard now.
    Next,
    /// It was heard before.
    Known,
    /// Others come before it that were not heard.
    Gap,
    /// It names a predecessor before the last that was heard, and is itself after it: the source has lost its end, and
    /// gives numbers a second time.
    Astray,
}

impl Heard {
    /// The last forward of a source; 0 for none.
    pub fn last(&self, source: PartitionId) -> u64 {
        self.0.get(&source.0).copied().unwrap_or(0)
    }

    pub fn hear(&mut self, origin: &Origin) -> Arrival {
        let last = self.0.entry(origin.source.0).or_default();
        if origin.number <= *last {
            return Arrival::Known;
        }
        if origin.predecessor == *last {
            *last = origin.number;
            return Arrival::Next;
        }
        match origin.predecessor > *last {
            true => Arrival::Gap,
            false => Arrival::Astray,
        }
    }

    pub(crate) fn iter(&self) -> impl ExactSizeIterator<Item = (u16, u64)> + '_ {
        self.0.iter().map(|(&source, &number)| (source, number))
    }
}

impl FromIterator<(u16, u64)> for Heard {
    fn from_iter<I: IntoIterator<Item = (u16, u64)>>(heard: I) -> Self {
        Self(heard.into_iter().collect())
    }
}

/// What a destination wants a source to send again: its forwards after `after`, up to `up_to`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ask {
    pub source: PartitionId,
    pub after: u64,
    pub up_to: u64,
}

/// What became of something that arrived.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Received<T> {
    /// It is the next one. Ask `Inbox::released` for what it was waited for by.
    Ready(T),
    /// It was heard before, or is held already.
    Known,
    /// It is held until what is asked for has come.
    Held(Ask),
    /// There is no room to hold it: it is to be sent again, after what is asked for.
    Dropped(Ask),
    /// See `Arrival::Astray`.
    Astray,
}

/// The forwards that arrive at one destination, in whatever order: hands them on in the order of their streams, each
/// once. Holds a bounded number of those that come after a gap.
#[derive(Debug)]
pub struct Inbox<T> {
    heard: Heard,
    /// By source and predecessor.
    held: BTreeMap<(u16, u64), (Origin, T)>,
    bound: usize,
}

impl<T> Inbox<T> {
    /// Goes on after `heard`, and holds at most `bound` forwards.
    pub fn new(heard: Heard, bound: usize) -> Self {
        Self {
            heard,
            held: BTreeMap::new(),
            bound,
        }
    }

    pub fn heard(&self) -> &Heard {
        &self.heard
    }

    /// Does nothing wait here for what comes before it?
    pub fn holds_nothing(&self) -> bool {
        self.held.is_empty()
    }

    pub fn arrive(&mut self, origin: Origin, item: T) -> Received<T> {
        match self.heard.hear(&origin) {
            Arrival::Next => Received::Ready(item),
            Arrival::Known => Received::Known,
            Arrival::Astray => Received::Astray,
            Arrival::Gap => self.hold(origin, item),
        }
    }

    /// What was held and is next now that a forward of `source` has arrived; to be called until there is nothing.
    pub fn released(&mut self, source: PartitionId) -> Option<(Origin, T)> {
        if self.held.is_empty() {
            return None;
        }
        let (origin, item) = self.held.remove(&(source.0, self.heard.last(source)))?;
        self.heard.hear(&origin);
        Some((origin, item))
    }

    /// What to ask a source for that says its last forward to this destination is `last`.
    pub fn missing(&self, source: PartitionId, last: u64) -> Option<Ask> {
        let after = self.heard.last(source);
        let stream = (source.0, after)..=(source.0, u64::MAX);
        let held = self.held.range(stream).next();
        let up_to = held.map_or(last, |((_, predecessor), _)| *predecessor);
        (after < up_to).then_some(Ask {
            source,
            after,
            up_to,
        })
    }

    fn hold(&mut self, origin: Origin, item: T) -> Received<T> {
        let ask = Ask {
            source: origin.source,
            after: self.heard.last(origin.source),
            up_to: origin.predecessor,
        };
        let place = (origin.source.0, origin.predecessor);
        if self.held.contains_key(&place) {
            return Received::Known;
        }
        if self.held.len() >= self.bound {
            return Received::Dropped(ask);
        }
        self.held.insert(place, (origin, item));
        Received::Held(ask)
    }
}

#[cfg(test)]
mod tests;
