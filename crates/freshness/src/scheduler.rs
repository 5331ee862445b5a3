//! Always the page that is worth most now, at a cost that does not grow with the number of pages.
//!
//! Pages of a class share rate and importance, so the one that waits longest is worth most: only the heads of the queues are compared. Of
//! these only a few can be the best. A threshold stands a little below the best value; a head below it is not looked at before the
//! time at which it reaches the threshold, which `age_of_value` tells and a heap keeps. The heads above it are compared one by one. So the answer is
//! exact for the quantised values. Where too many heads are above the threshold, it is raised; where none is, it is lowered, and all queues are
//! looked at. That is once in hundreds of picks.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::DAY_S;
use crate::page::{NOBODY, PageClass, PageState};
use crate::queues::{QUEUES, Queues, queue_of};
use crate::rate::History;
use crate::value::{age_of_value, value};

/// More heads above the threshold than this, and it is raised.
const MAX_AWAKE: usize = 64;

/// A head below this share of the threshold is no longer awake.
const SLEEPS_BELOW: f64 = 0.999;

/// Pages whose hosts may not be asked are put aside while one page is picked, up to this many.
const MAX_PUT_ASIDE: usize = 256;

/// Before a page was found changed this often, it is not given up for changing too often.
const GIVEN_UP_AFTER: u16 = 8;

/// A page that is not given up yet is taken to be worth up to this many times the threshold.
const CHANCE: f64 = 3.0;

/// But not to change less often than this share of what was learned.
const LEAST_CHANCE: f64 = 0.3;

/// No time is set at which a queue is to be looked at.
const NEVER: u32 = u32::MAX;

/// A page, numbered in the order of insertion.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PageId(pub u32);

/// What became of a fetch.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Fetched {
    pub changed: bool,
    /// It was fetched because somebody told that it has changed.
    pub told: bool,
    /// Changes a day of a page of this host of which nothing is known.
    pub prior: f64,
}

/// Knows all pages and names the one that is worth most. Times are seconds since a moment that the caller chooses, and never go back.
pub struct Scheduler {
    pages: Vec<PageState>,
    queues: Queues,
    /// Rate and importance of each class, which are powers of two with fractions and take long to compute.
    classes: Vec<(f64, f64)>,
    /// Changes that a signal is as good as: a signal makes a page older by this number times the mean time between changes.
    signal_changes: f64,
    threshold: f64,
    /// Queues whose heads may be worth more than the threshold.
    awake: Vec<u16>,
    is_awake: Vec<bool>,
    /// When a queue is to be looked at: (second, queue).
    alarms: BinaryHeap<Reverse<(u32, u16)>>,
    /// The alarm of each queue that counts; others of the same queue are void.
    alarm_s: Vec<u32>,
    /// Pages whose hosts may not be asked before a second.
    aside: BinaryHeap<Reverse<(u32, u32)>>,
    lowered: u64,
    now_s: u32,
}

impl Scheduler {
    /// `signal_changes` is what a signal adds to the changes to be expected since the last fetch
    /// ([`crate::Signals::changes_of_signal`]).
    pub fn new(signal_changes: f64) -> Scheduler {
        Scheduler {
            pages: Vec::new(),
            queues: Queues::new(),
            classes: PageClass::all()
                .map(|class| (class.rate(), class.importance()))
                .collect(),
            signal_changes,
            threshold: f64::INFINITY,
            awake: Vec::new(),
            is_awake: vec![false; QUEUES],
            alarms: BinaryHeap::new(),
            alarm_s: vec![NEVER; QUEUES],
            aside: BinaryHeap::new(),
            lowered: 0,
            now_s: 0,
        }
    }

    /// As `new`, with room for this many pages.
    pub fn with_capacity(signal_changes: f64, pages: usize) -> Scheduler {
        let mut scheduler = Scheduler::new(signal_changes);
        scheduler.pages.reserve_exact(pages);
        scheduler
    }

    /// A page that was last fetched at `fetched_s`. Pages come in the order of these times; there is room for 2^32 − 1 of them.
    pub fn insert(&mut self, class: PageClass, fetched_s: u32) -> PageId {
        let id = self.pages.len() as u32;
        self.pages.push(PageState::new(class, fetched_s));
        self.enqueue(id);
        PageId(id)
    }

    /// The same for a page of which something is known already.
    pub fn insert_known(&mut self, class: PageClass, fetched_s: u32, history: History) -> PageId {
        let id = self.insert(class, fetched_s);
        self.pages[id.0 as usize].set_history(history);
        id
    }

    /// Takes a page out as if it had been picked, whatever it is worth. One that is out already stays out; one that is put
    /// aside until its host may be asked may be picked all the same.
    pub fn take(&mut self, id: PageId) {
        self.dequeue(id.0);
    }

    pub fn len(&self) -> usize {
        self.pages.len()
    }

    pub fn is_empty(&self) -> bool {
        self.pages.is_empty()
    }

    /// What a fetch of the page is worth at `now_s`.
    pub fn value(&self, id: PageId, now_s: u32) -> f64 {
        let page = &self.pages[id.0 as usize];
        let (rate, importance) = self.classes[page.class().number()];
        value(rate, importance, self.age(page, now_s))
    }

    /// Rate and importance by which the page is scheduled.
    pub fn class(&self, id: PageId) -> PageClass {
        self.pages[id.0 as usize].class()
    }

    /// What checks of the page found.
    pub fn history(&self, id: PageId) -> History {
        self.pages[id.0 as usize].history()
    }

    /// When it was fetched last.
    pub fn fetched_s(&self, id: PageId) -> u32 {
        self.pages[id.0 as usize].fetched_s
    }

    /// Signals since then.
    pub fn signals(&self, id: PageId) -> u32 {
        self.pages[id.0 as usize].signals().into()
    }

    /// How often the threshold was lowered, for which all queues are looked at.
    pub fn thresholds_set(&self) -> u64 {
        self.lowered
    }

    /// The page that is worth most among those whose hosts may be asked now, taken out until [`Scheduler::fetched`] brings it back.
    /// `not_before_s` tells when a page's host may be asked; a page whose host may not is put aside until then. `None` if there is none,
    /// or if `MAX_PUT_ASIDE` pages had to be put aside first: then ask again.
    pub fn pick(
        &mut self,
        now_s: u32,
        mut not_before_s: impl FnMut(PageId) -> u32,
    ) -> Option<PageId> {
        self.now_s = self.now_s.max(now_s);
        self.bring_back();
        self.wake();
        for _ in 0..MAX_PUT_ASIDE {
            let id = self.best()?;
            let queue = queue_of(&self.pages[id as usize]);
            self.queues.remove(&mut self.pages, id);
            self.look_at(queue);
            let not_before = not_before_s(PageId(id));
            if not_before <= self.now_s {
                return Some(PageId(id));
            }
            self.aside.push(Reverse((not_before, id)));
        }
        None
    }

    /// A page that was picked has been fetched. What was found goes into its history, and it waits again, in the class of its new rate.
    pub fn fetched(&mut self, id: PageId, now_s: u32, found: Fetched) {
        self.now_s = self.now_s.max(now_s);
        let page = &mut self.pages[id.0 as usize];
        let days = f64::from(now_s.saturating_sub(page.fetched_s)) / DAY_S;
        let mut history = page.history();
        match found.changed && found.told {
            true => history.add_told(days),
            false => history.add(days, found.changed),
        }
        page.set_history(history);
        let mut rate = history.rate(found.prior);
        // A page that seems to change too often to be worth a fetch would never be checked again, even if a few unlucky checks made it seem so.
        let worthwhile = page.class().importance() / (CHANCE * self.threshold);
        if history.changes < GIVEN_UP_AFTER && rate > worthwhile {
            rate = worthwhile.max(rate * LEAST_CHANCE);
        }
        let class = page.class().with_rate(rate);
        self.fetched_as(id, now_s, class);
    }

    /// As `fetched`, for a page whose class is known: nothing is learned.
    pub fn fetched_as(&mut self, id: PageId, now_s: u32, class: PageClass) {
        self.dequeue(id.0);
        let page = &mut self.pages[id.0 as usize];
        page.fetched_s = now_s;
        page.set(class, 0, false);
        self.enqueue(id.0);
    }

    /// A sitemap, a feed or a ping says that the page has changed. Counts for pages that wait, not for one that is being fetched.
    pub fn signal(&mut self, id: PageId) {
        if self.pages[id.0 as usize].is_queued() {
            self.signal_waiting(id);
        }
    }

    /// As `signal`, also for a page that is put aside until its host may be asked: it waits in its queue again. The caller knows that
    /// the page is not being fetched.
    pub fn signal_waiting(&mut self, id: PageId) {
        self.dequeue(id.0);
        let page = &mut self.pages[id.0 as usize];
        page.set(page.class(), page.signals() + 1, false);
        self.enqueue(id.0);
    }

    fn enqueue(&mut self, id: u32) {
        self.queues.push_back(&mut self.pages, id);
        let queue = queue_of(&self.pages[id as usize]);
        if self.queues.head(queue) == id {
            self.look_at(queue);
        }
    }

    fn dequeue(&mut self, id: u32) {
        let page = &self.pages[id as usize];
        if page.is_queued() {
            let queue = queue_of(page);
            self.queues.remove(&mut self.pages, id);
            self.look_at(queue);
        }
    }

    /// Days since the last fetch, and what signals add.
    fn age(&self, page: &PageState, now_s: u32) -> f64 {
        f64::from(now_s.saturating_sub(page.fetched_s)) / DAY_S + self.signalled_days(page)
    }

    fn signalled_days(&self, page: &PageState) -> f64 {
        let (rate, _) = self.classes[page.class().number()];
        f64::from(page.signals()) * self.signal_changes / rate
    }

    /// Pages that were put aside and whose hosts may be asked again wait at the heads of their queues: they are the oldest.
    fn bring_back(&mut self) {
        while let Some(&Reverse((second, id))) = self.aside.peek()
            && second <= self.now_s
        {
            self.aside.pop();
            if !self.pages[id as usize].is_queued() {
                self.queues.push_front(&mut self.pages, id);
                self.look_at(queue_of(&self.pages[id as usize]));
            }
        }
    }

    fn wake(&mut self) {
        while let Some(&Reverse((second, queue))) = self.alarms.peek()
            && second <= self.now_s
        {
            self.alarms.pop();
            if self.alarm_s[usize::from(queue)] == second {
                self.alarm_s[usize::from(queue)] = NEVER;
                self.look_at(usize::from(queue));
            }
        }
    }

    /// A queue has a new head, or its time has come: it is awake, or is given the time at which it will be.
    fn look_at(&mut self, queue: usize) {
        let head = self.queues.head(queue);
        if head == NOBODY || self.is_awake[queue] {
            return;
        }
        let second = self.reaches_threshold_s(&self.pages[head as usize]);
        if second <= self.now_s {
            self.is_awake[queue] = true;
            self.awake.push(queue as u16);
        } else {
            self.set_alarm(queue, second);
        }
    }

    /// The second at which a page is worth as much as the threshold. What is too late for the clock is taken to its end, where no
    /// alarm rings.
    fn reaches_threshold_s(&self, page: &PageState) -> u32 {
        let (rate, importance) = self.classes[page.class().number()];
        let age = age_of_value(rate, importance, self.threshold);
        let days = age - self.signalled_days(page);
        (f64::from(page.fetched_s) + (days * DAY_S).max(0.0)) as u32
    }

    /// A queue whose head is below the threshold is looked at again in a second, or when its head reaches the threshold.
    fn sleep(&mut self, queue: usize) {
        self.is_awake[queue] = false;
        let head = self.queues.head(queue);
        if head != NOBODY {
            let second = self.reaches_threshold_s(&self.pages[head as usize]);
            self.set_alarm(queue, second.max(self.now_s + 1));
        }
    }

    fn set_alarm(&mut self, queue: usize, second: u32) {
        if second < self.alarm_s[queue] {
            self.alarm_s[queue] = second;
            self.alarms.push(Reverse((second, queue as u16)));
        }
    }

    /// The head that is worth most.
    fn best(&mut self) -> Option<u32> {
        if self.awake.len() > MAX_AWAKE {
            self.raise();
        }
        if let Some(id) = self.best_awake() {
            return Some(id);
        }
        self.lower()?;
        self.best_awake()
    }

    /// Compares the heads that are awake; queues whose heads have fallen below the threshold sleep again.
    fn best_awake(&mut self) -> Option<u32> {
        let (mut best, mut best_worth) = (NOBODY, 0.0);
        let mut i = 0;
        while let Some(&queue) = self.awake.get(i) {
            let queue = usize::from(queue);
            let head = self.queues.head(queue);
            let worth = match head {
                NOBODY => -1.0,
                _ => self.value(PageId(head), self.now_s),
            };
            // Alarms ring at whole seconds, so a head may be a little below the threshold and still awake.
            if worth < self.threshold * SLEEPS_BELOW {
                self.awake.swap_remove(i);
                self.sleep(queue);
                continue;
            }
            if best == NOBODY || worth > best_worth {
                (best, best_worth) = (head, worth);
            }
            i += 1;
        }
        (best != NOBODY).then_some(best)
    }

    /// The threshold goes up, so that about half of the heads that are awake stay so. Alarms of the others ring too early from now on,
    /// which costs a look at each.
    fn raise(&mut self) {
        let awake = self.awake.iter().map(|&queue| usize::from(queue));
        let mut values = self.values(awake);
        if let Some(threshold) = nth_largest(&mut values, MAX_AWAKE / 2) {
            self.threshold = self.threshold.max(threshold);
        }
    }

    /// The threshold goes down below the best of all heads, as many of them as half of those that may be awake; `None` if there are no heads.
    fn lower(&mut self) -> Option<()> {
        let mut values = self.values(0..QUEUES);
        let threshold = nth_largest(&mut values, MAX_AWAKE / 2)?;
        // A little lower still: a page that is worth all that it can be worth would reach the value itself never.
        self.set_threshold(threshold * (1.0 - 1e-7));
        Some(())
    }

    /// What the heads of these queues are worth.
    fn values(&self, queues: impl Iterator<Item = usize>) -> Vec<f64> {
        queues
            .map(|queue| self.queues.head(queue))
            .filter(|&head| head != NOBODY)
            .map(|head| self.value(PageId(head), self.now_s))
            .collect()
    }

    /// Alarms would ring too late for a threshold that is lower: all queues are looked at.
    fn set_threshold(&mut self, threshold: f64) {
        self.threshold = threshold;
        self.lowered += 1;
        self.awake.clear();
        self.alarms.clear();
        self.is_awake.fill(false);
        self.alarm_s.fill(NEVER);
        for queue in 0..QUEUES {
            self.look_at(queue);
        }
    }
}

/// The value that `n` others are not below, or the least; `None` of nothing.
fn nth_largest(values: &mut [f64], n: usize) -> Option<f64> {
    let n = n.min(values.len().checked_sub(1)?);
    let (_, value, _) = values.select_nth_unstable_by(n, |a, b| b.total_cmp(a));
    Some(*value)
}

#[cfg(test)]
mod tests;
