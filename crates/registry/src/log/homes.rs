//! Who fetches a site that nobody has given away beforehand, in a fleet: each such site has a home, a partition that is
//! computed from its name. Links to the site go there first, and the home gives the site to whose page named it first. What it
//! decides is in its own log (`Entry::Claims`), in the commit of the links that led to it: before anything relies on it.

use portolan_model::{LinkBatch, PartitionId};

/// A site, by a hash of its name, and the partition that fetches it.
pub type Claim = (u64, PartitionId);

/// Decides about sites for the partitions that the journal holds. Asked by the journal alone, in the order of the logs.
pub trait Homes: Send + Sync + std::fmt::Debug {
    /// The partition is held from now on; `claims` are those of its log so far.
    fn begin(&self, home: PartitionId, claims: Vec<Claim>);

    /// It is held no longer.
    fn end(&self, home: PartitionId);

    /// Which of `links`, which are to stand in the log of `at`, are for others? A site that nobody has becomes `by`'s. What is
    /// decided about a site never changes.
    fn sort(&self, at: PartitionId, by: PartitionId, links: LinkBatch) -> Sorted;
}

/// Links by who fetches what they lead to.
#[derive(Debug, Default)]
pub struct Sorted {
    pub own: LinkBatch,
    pub leaving: Vec<(PartitionId, LinkBatch)>,
    /// What was decided just now.
    pub claims: Vec<Claim>,
}

impl Sorted {
    /// Links for the log of `at`, each to who `owner_of` says.
    pub fn by(
        at: PartitionId,
        links: &LinkBatch,
        mut owner_of: impl FnMut(&str) -> PartitionId,
    ) -> Self {
        let like = || {
            let mut batch = LinkBatch::new(links.from());
            batch.set_vote(links.vote());
            batch.set_early(links.is_early());
            batch
        };
        let mut sorted = Self {
            own: like(),
            ..Self::default()
        };
        let docs = links.docs();
        for (number, link) in links.iter().enumerate() {
            let owner = owner_of(link.url);
            let batch = if owner == at {
                &mut sorted.own
            } else {
                let leaving = &mut sorted.leaving;
                let known = leaving.iter().position(|(to, _)| *to == owner);
                let place = known.unwrap_or_else(|| {
                    leaving.push((owner, like()));
                    leaving.len() - 1
                });
                &mut leaving[place].1
            };
            match docs.and_then(|docs| docs.get(number)) {
                Some(&doc) => batch.push_known(doc, link),
                None => batch.push(link),
            }
        }
        sorted
    }
}
