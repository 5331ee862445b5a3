//! Links that left before the page that they are on was there as a whole. They make URLs known and due at once; the
//! page's visit, which comes later or never, has them again and counts them. So they may be folded twice, and a page that
//! is cut counts for nothing.

use crate::error::Result;
use crate::record::Record;
use crate::sieve::Op;
use crate::state::{Keeper, State};
use portolan_model::Verdict;

impl State {
    /// A URL that is known already, with `before` as its record, is named early: that lifts an access condition.
    pub(super) fn announce(
        &mut self,
        op: &Op<'_>,
        before: Record,
        verdict: Verdict,
        keeper: &mut impl Keeper,
    ) -> Result<()> {
        match verdict {
            Verdict::Crawl { priority } if before.is_liftable() => {
                self.lift(op, before, priority, keeper)
            }
            _ => Ok(()),
        }
    }
}
