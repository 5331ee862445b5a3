use super::*;
use crate::Draw;
use proptest::prelude::*;

/// Rates and importance that differ, but for those of one class.
fn class(draw: &mut Draw) -> PageClass {
    PageClass::of(
        (10.0 * draw.share() - 6.0).exp2(),
        (8.0 * draw.share() - 4.0).exp2(),
    )
}

fn filled(pages: u32, seed: u64) -> (Scheduler, Draw) {
    let mut draw = Draw::new(seed);
    let mut scheduler = Scheduler::new(3.0);
    for i in 0..pages {
        scheduler.insert(class(&mut draw), i * 1_000);
    }
    (scheduler, draw)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// The page that is picked is worth as much as the best that waits, whatever was fetched and put aside before. With signals, a queue
    /// is in the order of the signals, so its head need not be its best.
    #[test]
    fn nothing_better_waits(pages in 1u32..200, seed in any::<u64>(), step_s in 1u32..100_000) {
        let (mut scheduler, mut draw) = filled(pages, seed);
        let mut now_s = pages * 1_000;
        for _ in 0..300 {
            now_s += step_s;
            let id = scheduler.pick(now_s, |_| 0).expect("a page");
            let picked = scheduler.value(id, now_s);
            for other in 0..pages {
                let worth = scheduler.value(PageId(other), now_s);
                prop_assert!(other == id.0 || worth <= picked * 1.002, "{} is worth {worth}, not {picked}", other);
            }
            scheduler.fetched(id, now_s, Fetched { changed: draw.share() < 0.5, told: false, prior: 0.1 });
        }
    }

    /// No page is lost or picked twice, whoever may be asked and whatever signals come.
    #[test]
    fn every_page_comes_once(pages in 1u32..100, seed in any::<u64>()) {
        let (mut scheduler, mut draw) = filled(pages, seed);
        let mut now_s = 1_000_000;
        let mut seen = std::collections::HashSet::new();
        for _ in 0..500 + 100 * pages {
            now_s += 10;
            if draw.share() < 0.3 {
                scheduler.signal(PageId((draw.share() * f64::from(pages)) as u32));
            }
            // A third of the hosts may be asked.
            let rest_s = 1 + (draw.share() * 100.0) as u32;
            if let Some(id) = scheduler.pick(now_s, |id| if (id.0 + now_s / 10) % 3 == 0 { 0 } else { now_s + rest_s }) {
                prop_assert!((id.0 + now_s / 10) % 3 == 0);
                prop_assert!(seen.insert(id), "{id:?} is picked twice");
            }
        }
        prop_assert_eq!(seen.len() as u32, pages);
        prop_assert_eq!(scheduler.pick(now_s + 1_000, |_| 0), None);
    }
}

#[test]
fn a_host_that_may_not_be_asked_is_skipped_until_it_may() {
    let mut scheduler = Scheduler::new(0.0);
    let class = PageClass::of(1.0, 1.0);
    let first = scheduler.insert(class, 0);
    let second = scheduler.insert(class, 10);
    let busy = |id| if id == first { 5_000 } else { 0 };
    assert_eq!(scheduler.pick(1_000, busy), Some(second));
    assert_eq!(scheduler.pick(1_001, busy), None);
    assert_eq!(scheduler.pick(5_000, busy), Some(first));
}

#[test]
fn a_signal_makes_a_page_worth_more() {
    let mut scheduler = Scheduler::new(30.0);
    let class = PageClass::of(0.1, 1.0);
    let pages: Vec<PageId> = (0..10).map(|i| scheduler.insert(class, i)).collect();
    scheduler.signal(pages[7]);
    assert_eq!(scheduler.pick(100_000, |_| 0), Some(pages[7]));
    assert_eq!(scheduler.pick(100_000, |_| 0), Some(pages[0]));
}

#[test]
fn nobody_waits_in_an_empty_scheduler() {
    let mut scheduler = Scheduler::new(0.0);
    assert!(scheduler.is_empty());
    assert_eq!(scheduler.pick(5, |_| 0), None);
    // Worth nothing yet, but there is nothing else.
    let page = scheduler.insert(PageClass::of(1.0, 1.0), 5);
    assert_eq!(scheduler.pick(5, |_| 0), Some(page));
}
