//! What is kept of a page: 24 bytes, among them its class, the quantised rate and importance that its worth is computed from.

use crate::rate::History;

/// Bytes of state a page.
pub const PAGE_BYTES: usize = 24;

const _: () = assert!(size_of::<PageState>() == PAGE_BYTES);

/// Stands for no page in `next` and `before`.
pub(crate) const NOBODY: u32 = u32::MAX;

const RATE_LEVELS: u16 = 64;
const IMPORTANCE_LEVELS: u16 = 32;
pub(crate) const CLASSES: u16 = RATE_LEVELS * IMPORTANCE_LEVELS;

/// log2 of the least rate that is told apart: once in eleven years.
const LEAST_RATE_LOG2: f64 = -12.0;
/// Levels of rate within a factor of two: the greatest is 243 changes a day.
const RATE_LEVELS_PER_OCTAVE: f64 = 3.15;
/// log2 of the least importance that is told apart; a page of mean importance has 1.
const LEAST_IMPORTANCE_LOG2: f64 = -6.0;
const IMPORTANCE_LEVELS_PER_OCTAVE: f64 = 2.0;

/// Signals beyond this many count no further.
const MAX_SIGNALS: u16 = 15;

/// A rate and an importance, quantised: 2,048 of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PageClass(u16);

impl PageClass {
    /// The class of a page that changes `rate` times a day; a page of mean importance has importance 1.
    pub fn of(rate: f64, importance: f64) -> PageClass {
        let rate_level = level(rate, LEAST_RATE_LOG2, RATE_LEVELS_PER_OCTAVE, RATE_LEVELS);
        PageClass(rate_level * IMPORTANCE_LEVELS + importance_level(importance))
    }

    /// The same importance with another rate.
    pub(crate) fn with_rate(self, rate: f64) -> PageClass {
        let rate_level = level(rate, LEAST_RATE_LOG2, RATE_LEVELS_PER_OCTAVE, RATE_LEVELS);
        PageClass(rate_level * IMPORTANCE_LEVELS + self.0 % IMPORTANCE_LEVELS)
    }

    pub(crate) fn number(self) -> usize {
        usize::from(self.0)
    }

    #[cfg(test)]
    pub(crate) fn from_number(number: usize) -> PageClass {
        PageClass((number % usize::from(CLASSES)) as u16)
    }

    /// All classes, by number.
    pub(crate) fn all() -> impl Iterator<Item = PageClass> {
        (0..CLASSES).map(PageClass)
    }

    /// Changes a day.
    pub fn rate(self) -> f64 {
        let level = f64::from(self.0 / IMPORTANCE_LEVELS);
        (LEAST_RATE_LOG2 + level / RATE_LEVELS_PER_OCTAVE).exp2()
    }

    pub fn importance(self) -> f64 {
        let level = f64::from(self.0 % IMPORTANCE_LEVELS);
        (LEAST_IMPORTANCE_LOG2 + level / IMPORTANCE_LEVELS_PER_OCTAVE).exp2()
    }
}

fn importance_level(importance: f64) -> u16 {
    level(
        importance,
        LEAST_IMPORTANCE_LOG2,
        IMPORTANCE_LEVELS_PER_OCTAVE,
        IMPORTANCE_LEVELS,
    )
}

fn level(value: f64, least_log2: f64, per_octave: f64, levels: u16) -> u16 {
    // A conversion to an integer takes what is no number, and what is below zero, to zero.
    let level = ((value.log2() - least_log2) * per_octave).round() as u16;
    level.min(levels - 1)
}

/// All that is kept of a page.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PageState {
    /// In seconds of the caller's time.
    pub(crate) fetched_s: u32,
    /// Neighbours in its queue.
    pub(crate) before: u32,
    pub(crate) next: u32,
    unchanged_days: f32,
    changed_days: f32,
    changes: u16,
    /// Eleven bits for the class, four for signals since the last fetch, the last for `is_queued`.
    class_and_signals: u16,
}

impl PageState {
    pub(crate) fn new(class: PageClass, fetched_s: u32) -> PageState {
        PageState {
            fetched_s,
            before: NOBODY,
            next: NOBODY,
            unchanged_days: 0.0,
            changed_days: 0.0,
            changes: 0,
            class_and_signals: class.0,
        }
    }

    pub(crate) fn class(&self) -> PageClass {
        PageClass(self.class_and_signals % CLASSES)
    }

    pub(crate) fn signals(&self) -> u16 {
        self.class_and_signals / CLASSES % (MAX_SIGNALS + 1)
    }

    pub(crate) fn is_queued(&self) -> bool {
        self.class_and_signals >> 15 == 1
    }

    pub(crate) fn set(&mut self, class: PageClass, signals: u16, is_queued: bool) {
        self.class_and_signals =
            class.0 + signals.min(MAX_SIGNALS) * CLASSES + (u16::from(is_queued) << 15);
    }

    pub(crate) fn history(&self) -> History {
        History {
            unchanged_days: self.unchanged_days,
            changed_days: self.changed_days,
            changes: self.changes,
        }
    }

    pub(crate) fn set_history(&mut self, history: History) {
        self.unchanged_days = history.unchanged_days;
        self.changed_days = history.changed_days;
        self.changes = history.changes;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_class_is_near_its_page(rate in 3e-4f64..2e2, importance in 0.02f64..5e2) {
            let class = PageClass::of(rate, importance);
            prop_assert!((class.rate() / rate).log2().abs() < 0.16);
            prop_assert!((class.importance() / importance).log2().abs() < 0.251);
            prop_assert_eq!(class, PageClass::of(class.rate(), class.importance()));
            prop_assert_eq!(class, PageClass::of(7.0, importance).with_rate(rate));
        }

        #[test]
        fn any_number_has_a_class(rate in any::<f64>(), importance in any::<f64>()) {
            let class = PageClass::of(rate, importance);
            prop_assert!(class.number() < usize::from(CLASSES));
            prop_assert!(class.rate() > 0.0 && class.importance() > 0.0);
        }

        #[test]
        fn the_bits_do_not_mix(number in 0usize..2048, signals in 0u16..16, is_queued in any::<bool>()) {
            let mut state = PageState::new(PageClass::of(1.0, 1.0), 5);
            state.set(PageClass::from_number(number), signals, is_queued);
            prop_assert_eq!((state.class().number(), state.signals(), state.is_queued()), (number, signals, is_queued));
        }
    }
}
