//! What should be fetched sooner: one trait for every order, and the order by back-links. Orders that
//! keep figures of the whole graph are in the `partition` room.

use crate::{DocId, HostId};

/// A page as a ranker knows it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Known {
    pub doc: DocId,
    pub host: HostId,
}

/// Gives each page its class: the frontier takes better classes first and, within a class, what came
/// first.
pub trait Ranker: Send {
    /// `page` was fetched and has these links. Pages whose class may be another one now are added to
    /// `changed`; whoever keeps the frontier asks for their class again.
    fn fetched(&mut self, page: Known, links: &[Known], changed: &mut Vec<DocId>);

    /// From 0 to [`MAX_CLASS`]; `back_links` is how many pages fetched so far point at it.
    fn class(&self, page: Known, back_links: u32) -> u8;
}

/// The highest class.
pub const MAX_CLASS: u8 = 63;

/// First come, first served.
#[derive(Clone, Copy, Debug, Default)]
pub struct BreadthRanker;

impl Ranker for BreadthRanker {
    fn fetched(&mut self, _: Known, _: &[Known], _: &mut Vec<DocId>) {}

    fn class(&self, _: Known, _: u32) -> u8 {
        0
    }
}

/// The logarithm of the back-links, as in the registry.
#[derive(Clone, Copy, Debug, Default)]
pub struct BacklinkRanker;

impl Ranker for BacklinkRanker {
    fn fetched(&mut self, _: Known, links: &[Known], changed: &mut Vec<DocId>) {
        changed.extend(links.iter().map(|link| link.doc));
    }

    fn class(&self, _: Known, back_links: u32) -> u8 {
        back_links.checked_ilog2().unwrap_or(0) as u8
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_back_links_are_a_better_class() {
        let page = Known {
            doc: DocId(1),
            host: HostId(1),
        };
        let classes: Vec<u8> = [0, 1, 2, 3, 4, 1_000, u32::MAX]
            .map(|count| BacklinkRanker.class(page, count))
            .into();
        assert_eq!(classes, [0, 0, 1, 1, 2, 9, 31]);
    }
}
