//! A change of mind: what other settings say of URLs that are known, and of links on pages that are archived. Folded
//! from the log like everything else, so that a crash in the middle, or a second judging, ends the same.

use crate::error::Result;
use crate::record::{Record, UrlState};
use crate::sieve::Op;
use crate::state::{Keeper, State};
use portolan_model::Verdict;

impl State {
    /// A URL whose record is `before` is judged again.
    pub(super) fn judge(
        &mut self,
        op: &Op<'_>,
        before: Record,
        verdict: Verdict,
        keeper: &mut impl Keeper,
    ) -> Result<()> {
        let is_new_link = op.finding.from.is_some();
        match (before.state, verdict) {
            (UrlState::Excluded, Verdict::Crawl { priority }) if is_new_link => {
                if before.is_liftable() {
                    self.stats.judged_due += 1;
                    self.lift(op, before, priority, keeper)?;
                }
                Ok(())
            }
            _ if is_new_link => Ok(()),
            (UrlState::Excluded, Verdict::Crawl { priority }) => {
                self.stats.judged_due += 1;
                let after = Record {
                    state: UrlState::Due,
                    reason: 0,
                    priority,
                    attempts: 0,
                    arrival: op.arrival,
                    ..before
                };
                self.change(op, before, after, keeper)
            }
            (UrlState::Excluded, Verdict::Exclude(reason)) => {
                let reason = reason as u8;
                self.change(op, before, Record { reason, ..before }, keeper)
            }
            (UrlState::Due, Verdict::Exclude(reason)) => {
                self.stats.judged_out += 1;
                let after = Record {
                    state: UrlState::Excluded,
                    reason: reason as u8,
                    priority: 0,
                    attempts: 0,
                    ..before
                };
                self.change(op, before, after, keeper)
            }
            (UrlState::Due, Verdict::Crawl { priority }) if priority != before.priority => {
                let after = Record { priority, ..before };
                self.sieve.insert(op.doc, &after);
                self.raise(op, after, keeper)
            }
            _ => Ok(()),
        }
    }

    /// What was taken out leaves its queue when its turn comes: an entry of a URL that is not due is stale.
    fn change(
        &mut self,
        op: &Op<'_>,
        before: Record,
        after: Record,
        keeper: &mut impl Keeper,
    ) -> Result<()> {
        self.sieve.insert(op.doc, &after);
        self.stats.leave(before.state, before.reason);
        self.stats.enter(after.state, after.reason);
        let (was_due, is_due) = (before.state == UrlState::Due, after.state == UrlState::Due);
        let host = self.host_of(op.url);
        self.count_due(host, i64::from(is_due) - i64::from(was_due));
        if is_due {
            self.raise(op, after, keeper)
        } else {
            Ok(())
        }
    }
}
