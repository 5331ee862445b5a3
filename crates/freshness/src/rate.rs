//! How often a page changes, learned from checks. What counts as a change is the caller's business.

/// How much the prior counts: as much as this many changes that were seen.
const PRIOR_CHANGES: f64 = 1.5;

/// When this many changes were seen, all that is known counts half from then on: rates drift.
const FORGET_AT: u16 = 64;

/// What checks of a page found, in ten bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct History {
    /// Days between checks at whose end nothing had changed, summed.
    pub unchanged_days: f32,
    /// Days between checks at whose end something had changed, summed.
    pub changed_days: f32,
    /// Checks that found a change.
    pub changes: u16,
}

impl History {
    /// Notes a check that came `days` after the one before.
    pub fn add(&mut self, days: f64, changed: bool) {
        let days = if days.is_finite() {
            days.max(0.0) as f32
        } else {
            0.0
        };
        if !changed {
            self.unchanged_days += days;
            return;
        }
        self.changed_days += days;
        self.changes += 1;
        if self.changes == FORGET_AT {
            self.changes /= 2;
            self.changed_days /= 2.0;
            self.unchanged_days /= 2.0;
        }
    }

    /// Notes a check that came `days` after the one before, as soon as somebody had told of a change that it found: until then nothing had
    /// changed, and the moment of the change is known.
    pub fn add_told(&mut self, days: f64) {
        self.add(days, false);
        self.add(0.0, true);
    }

    /// The likeliest rate, in changes a day, with `prior` as the rate of a page of which nothing is known.
    pub fn rate(&self, prior: f64) -> f64 {
        likeliest(
            f64::from(self.changes),
            f64::from(self.changed_days),
            f64::from(self.unchanged_days),
            prior,
        )
    }
}

/// What checks of a whole host found: the prior for its pages.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct PooledHistory {
    changes: f64,
    changed_days: f64,
    unchanged_days: f64,
}

impl PooledHistory {
    /// Notes a check of any of the host's pages.
    pub fn add(&mut self, days: f64, changed: bool) {
        if !days.is_finite() || days < 0.0 {
            return;
        }
        if changed {
            self.changes += 1.0;
            self.changed_days += days;
        } else {
            self.unchanged_days += days;
        }
    }

    /// Notes all that is known of one of the host's pages.
    pub fn add_page(&mut self, page: &History) {
        self.changes += f64::from(page.changes);
        self.changed_days += f64::from(page.changed_days);
        self.unchanged_days += f64::from(page.unchanged_days);
    }

    /// The rate of a page of this host of which nothing is known; `prior` is the rate of a page of any host.
    pub fn rate(&self, prior: f64) -> f64 {
        likeliest(self.changes, self.changed_days, self.unchanged_days, prior)
    }
}

/// Solves Σ τ/(e^(Δτ) − 1) over checks that found a change = Σ τ over those that did not, for Δ. The checks that found a change are taken to
/// have had the same τ, their mean; a page is visited at regular intervals, so that they nearly do. The prior is that of a gamma distribution:
/// it adds `PRIOR_CHANGES`/Δ on the left and `PRIOR_CHANGES`/`prior` on the right, so that there is a solution even where all checks found a change.
fn likeliest(changes: f64, changed_days: f64, unchanged_days: f64, prior: f64) -> f64 {
    let quiet_days = unchanged_days + PRIOR_CHANGES / prior;
    let days = changed_days / changes.max(1.0);
    // Times Δ: changes · x/(e^x − 1) + PRIOR_CHANGES − Δ · quiet_days = 0 with x = Δ · days. The left side falls and is convex, so Newton's steps
    // from the left of the root stay there.
    let mut rate = PRIOR_CHANGES / quiet_days;
    if changes == 0.0 {
        return rate;
    }
    for _ in 0..50 {
        let (share, slope) = bernoulli(rate * days);
        let left = changes * share + PRIOR_CHANGES - rate * quiet_days;
        let step = left / (quiet_days - changes * slope * days);
        rate += step;
        if step.abs() <= 1e-4 * rate {
            break;
        }
    }
    rate
}

/// x/(e^x − 1) and its derivative.
fn bernoulli(x: f64) -> (f64, f64) {
    if x < 1e-3 {
        return (1.0 - x / 2.0, -0.5 + x / 6.0);
    }
    if x > 500.0 {
        return (0.0, 0.0);
    }
    let e = x.exp_m1();
    (x / e, (e - x * (e + 1.0)) / (e * e))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn nothing_known_is_the_prior() {
        assert!((History::default().rate(0.3) - 0.3).abs() < 1e-9);
        assert!((PooledHistory::default().rate(0.3) - 0.3).abs() < 1e-9);
    }

    #[test]
    fn many_checks_give_the_true_rate() {
        // Half of the checks a day apart found a change: 1 − e^(−Δ) = 1/2.
        let mut pooled = PooledHistory::default();
        for i in 0..10_000 {
            pooled.add(1.0, i % 2 == 0);
        }
        assert!(
            (pooled.rate(5.0) - 2f64.ln()).abs() < 1e-3,
            "{}",
            pooled.rate(5.0)
        );
    }

    #[test]
    fn it_is_a_page_s_lately_that_counts() {
        let mut history = History::default();
        for _ in 0..1_000 {
            history.add(1.0, true);
        }
        let fast = history.rate(0.1);
        for _ in 0..200 {
            history.add(1.0, false);
        }
        assert!(fast > 1.0 && history.rate(0.1) < 0.3, "{fast}");
        assert!(history.changes < FORGET_AT);
    }

    /// A page is checked as soon as it has changed, and never otherwise: its rate is what it is, where checks that just find a change
    /// would make it as great as can be.
    #[test]
    fn checks_that_somebody_told_of_give_the_true_rate() {
        let (mut told, mut found) = (History::default(), History::default());
        for n in 0..60 {
            // Two changes a day, on average.
            let days = 0.1 + 0.8 * f64::from(n % 3) / 2.0;
            told.add_told(days);
            found.add(days, true);
        }
        let rate = told.rate(0.5);
        assert!((1.7..2.3).contains(&rate), "{rate}");
        assert!(found.rate(0.5) > 4.0);
    }

    proptest! {
        /// Whatever was found, a rate is a positive number, and a change makes it greater, no change smaller.
        #[test]
        fn rates_follow_what_was_found(
            checks in prop::collection::vec((0f64..1e4, any::<bool>()), 0..100), prior in 1e-4f64..1e3, days in 1e-3f64..1e3,
        ) {
            let mut history = History::default();
            for (days, changed) in checks {
                history.add(days, changed);
            }
            let rate = history.rate(prior);
            prop_assert!(rate.is_finite() && rate > 0.0, "{rate}");
            let mut quiet = history;
            quiet.add(days, false);
            prop_assert!(quiet.rate(prior) <= rate * 1.001);
        }
    }
}
