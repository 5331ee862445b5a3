//! Keeping fresh: a thread that makes known URLs due again, always the one that is worth most, at the rate that a person set,
//! until the crawl is stopped. It writes entries of the partitions' logs (`Entry::Refresh`) and nothing else, so that the
//! registry stays a fold of its log and a crawl that is killed goes on: what is due is in the registry, and what was
//! learned of each page is in its last visit, from which the schedule is made anew at the start.
//!
//! Layout: `schedule` (which page is next, pure) with `hosts` (who may be asked, and whose signals are believed), `scan` (the schedule from a
//! registry), `notes` (what workers tell), `lastmod` (what sitemaps tell), `spool` (what people tell), `keeper` (the thread), `survey` (what
//! `portolan freshness` shows).

mod hosts;
mod keeper;
mod lastmod;
mod notes;
mod rival;
mod scan;
mod schedule;
mod spool;
mod survey;

pub(crate) use keeper::{Keeper, release_waiting};
pub(crate) use lastmod::Lastmods;
pub(crate) use notes::{Note, NoteBox, Signal};
pub use spool::leave_signals;
pub(crate) use spool::{Teller, leave, waiting_files};
pub use survey::{Forecast, HostFreshness, NextFetch, Survey, survey};

use portolan_model::{LinkKind, Order, Reason, Verdict};

use crate::settings::{FreshnessSettings, Importance};

/// What a page of this class is worth beside others: the reverse of how the order makes a class.
pub(crate) fn weight_of(settings: &FreshnessSettings, order: Order, class: u8) -> f64 {
    if settings.importance == Importance::Equal {
        return 1.0;
    }
    let class = f64::from(class);
    match order {
        Order::Breadth => 1.0,
        Order::Backlinks => class.exp2(),
        Order::Opic => (class / 2.0).exp2(),
        // Three classes for each doubling of a score.
        Order::Pagerank | Order::LivePagerank => (class / 3.0).exp2(),
        // Sites by linear counting in 24 bits; one more than counted, so that no page is worth nothing.
        Order::SiteIndegree => 1.0 - 24.0 * (1.0 - class.min(23.0) / 24.0).ln(),
    }
}

/// Where a server grants what is fetched, everything that was found waits for it, but for sitemaps: others are found by them.
pub(crate) fn leave_to_server(kind: LinkKind, verdict: Verdict) -> Verdict {
    match verdict {
        Verdict::Crawl { .. } if kind != LinkKind::Sitemap => {
            Verdict::Exclude(Reason::WaitsForItsShare)
        }
        verdict => verdict,
    }
}

/// While pages are kept fresh, a new one waits for its share of the rate. Sitemaps and seeds do not: others are found by them.
pub(crate) fn put_off(kind: LinkKind, verdict: Verdict) -> Verdict {
    let is_source = kind == LinkKind::Sitemap || kind.is_seed() || kind == LinkKind::SeedRedirect;
    match verdict {
        Verdict::Crawl { .. } if !is_source => Verdict::Exclude(Reason::WaitsForItsShare),
        verdict => verdict,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_better_class_is_worth_more_unless_all_are_equal() {
        let mut settings = crate::Settings::default().freshness;
        for order in Order::ALL {
            let weights: Vec<f64> = (0..=63).map(|c| weight_of(&settings, order, c)).collect();
            assert!(weights.is_sorted() && weights[0] > 0.0, "{order:?}");
        }
        assert_eq!(weight_of(&settings, Order::Backlinks, 3), 8.0);
        settings.importance = Importance::Equal;
        assert_eq!(weight_of(&settings, Order::Backlinks, 3), 1.0);
    }
}
