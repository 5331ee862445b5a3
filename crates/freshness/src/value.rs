//! What a fetch is worth, by a page's rate of change Δ (changes a day), importance μ and age τ (days since its last fetch).

/// Expected share of the time τ in which a page that was fetched at its beginning is as it was: (1 − e^(−Δτ)) / (Δτ).
pub fn expected_freshness(rate: f64, age: f64) -> f64 {
    let x = rate * age;
    if x < 1e-9 {
        return 1.0;
    }
    -(-x).exp_m1() / x
}

/// What fetching a page now is worth: V = (μ/Δ) · (1 − (1 + Δτ) e^(−Δτ)). Grows with the age, up to μ/Δ.
pub fn value(rate: f64, importance: f64, age: f64) -> f64 {
    importance / rate * worth(rate * age)
}

/// The age at which a fetch becomes worth `wanted`; infinite if it never does.
pub fn age_of_value(rate: f64, importance: f64, wanted: f64) -> f64 {
    worth_inverse(wanted * rate / importance) / rate
}

/// 1 − (1 + x) e^(−x).
fn worth(x: f64) -> f64 {
    if x < 1e-4 {
        // The terms above cancel each other.
        return x * x * (0.5 - x / 3.0);
    }
    1.0 - (1.0 + x) * (-x).exp()
}

/// The x at which `worth` is `y`.
fn worth_inverse(y: f64) -> f64 {
    if y <= 0.0 {
        return 0.0;
    }
    if y >= 1.0 {
        return f64::INFINITY;
    }
    if y < 1e-8 {
        return (2.0 * y).sqrt();
    }
    // Newton's steps on ln(1 + x) − x = ln(1 − y), whose left side is concave and falls: after the first step all come from the right.
    let target = (-y).ln_1p();
    let mut x = (2.0 * y).sqrt().max(-target);
    for _ in 0..60 {
        let step = (x.ln_1p() - x - target) * (1.0 + x) / x;
        x += step;
        if step.abs() <= 1e-12 * x {
            break;
        }
    }
    x
}

/// What is known of signals that a page has changed: sitemap `lastmod`, feeds, IndexNow.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Signals {
    /// α: changes a day that no signal tells of.
    pub unseen_rate: f64,
    /// γ: signals a day.
    pub signal_rate: f64,
    /// ν: signals a day that tell of no change.
    pub false_rate: f64,
}

impl Signals {
    /// The age that one signal is worth, in days: ln(γ/ν)/α. Signals that are mostly false are worth nothing.
    pub fn days_of_signal(&self) -> f64 {
        if self.signal_rate <= self.false_rate || self.unseen_rate <= 0.0 {
            return 0.0;
        }
        (self.signal_rate / self.false_rate.max(1e-9)).ln() / self.unseen_rate
    }

    /// The same in changes to be expected, for pages of which this share of the changes comes without a signal: ln(γ/ν) · Δ/α.
    pub fn changes_of_signal(&self, unseen_share: f64) -> f64 {
        self.days_of_signal() * self.unseen_rate / unseen_share.max(1e-9)
    }

    /// The effective age of a page with this many signals since its last fetch: ι = τ + n · ln(γ/ν)/α.
    pub fn effective_age(&self, age: f64, signals: u32) -> f64 {
        age + f64::from(signals) * self.days_of_signal()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_ends_are_right() {
        assert_eq!(expected_freshness(1.0, 0.0), 1.0);
        assert!((expected_freshness(2.0, 1.0) - (1.0 - (-2f64).exp()) / 2.0).abs() < 1e-12);
        assert_eq!(value(1.0, 1.0, 0.0), 0.0);
        assert!((value(2.0, 3.0, 1e6) - 1.5).abs() < 1e-9);
        assert_eq!(age_of_value(2.0, 3.0, 1.5), f64::INFINITY);
        let signals = Signals {
            unseen_rate: 0.1,
            signal_rate: 1.0,
            false_rate: 0.5,
        };
        assert!((signals.effective_age(1.0, 2) - (1.0 + 20.0 * 2f64.ln())).abs() < 1e-9);
        assert!((signals.changes_of_signal(0.5) - 2.0 * 2f64.ln()).abs() < 1e-9);
        let noise = Signals {
            false_rate: 1.0,
            ..signals
        };
        assert_eq!(noise.effective_age(1.0, 2), 1.0);
    }

    proptest! {
        #[test]
        fn a_value_grows_with_age(rate in 1e-4f64..1e3, age in 0f64..1e4, more in 0f64..1e4) {
            let (now, later) = (value(rate, 1.0, age), value(rate, 1.0, age + more));
            prop_assert!(now >= 0.0 && later >= now * (1.0 - 1e-12) && later <= 1.0 / rate);
        }

        #[test]
        fn the_age_of_a_value_has_that_value(rate in 1e-4f64..1e3, importance in 1e-3f64..1e3, share in 1e-9f64..0.9999) {
            let wanted = share * importance / rate;
            let age = age_of_value(rate, importance, wanted);
            prop_assert!((value(rate, importance, age) / wanted - 1.0).abs() < 1e-5, "{age}");
        }
    }
}
