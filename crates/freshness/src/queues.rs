//! Queues of pages, linked through the pages themselves: one for each class, and one for the pages of a class that have signals. Whoever
//! comes in goes to the end; within a queue the oldest is at the head.

use crate::page::{CLASSES, NOBODY, PageState};

/// A queue for each class without signals, then one for each with.
pub(crate) const QUEUES: usize = 2 * CLASSES as usize;

#[derive(Clone, Copy)]
struct Ends {
    head: u32,
    tail: u32,
}

pub(crate) struct Queues {
    ends: Vec<Ends>,
}

/// The queue that a page belongs in.
pub(crate) fn queue_of(page: &PageState) -> usize {
    page.class().number()
        + if page.signals() > 0 {
            CLASSES as usize
        } else {
            0
        }
}

impl Queues {
    pub(crate) fn new() -> Queues {
        let nobody = Ends {
            head: NOBODY,
            tail: NOBODY,
        };
        Queues {
            ends: vec![nobody; QUEUES],
        }
    }

    /// The page that has waited longest; `NOBODY` if there is none.
    pub(crate) fn head(&self, queue: usize) -> u32 {
        self.ends[queue].head
    }

    pub(crate) fn push_back(&mut self, pages: &mut [PageState], id: u32) {
        let queue = queue_of(&pages[id as usize]);
        let before = std::mem::replace(&mut self.ends[queue].tail, id);
        match pages.get_mut(before as usize) {
            Some(last) => last.next = id,
            None => self.ends[queue].head = id,
        }
        let page = &mut pages[id as usize];
        (page.before, page.next) = (before, NOBODY);
        page.set(page.class(), page.signals(), true);
    }

    pub(crate) fn push_front(&mut self, pages: &mut [PageState], id: u32) {
        let queue = queue_of(&pages[id as usize]);
        let next = std::mem::replace(&mut self.ends[queue].head, id);
        match pages.get_mut(next as usize) {
            Some(first) => first.before = id,
            None => self.ends[queue].tail = id,
        }
        let page = &mut pages[id as usize];
        (page.before, page.next) = (NOBODY, next);
        page.set(page.class(), page.signals(), true);
    }

    /// Takes a page out of its queue, wherever it stands.
    pub(crate) fn remove(&mut self, pages: &mut [PageState], id: u32) {
        let queue = queue_of(&pages[id as usize]);
        let PageState { before, next, .. } = pages[id as usize];
        match pages.get_mut(before as usize) {
            Some(page) => page.next = next,
            None => self.ends[queue].head = next,
        }
        match pages.get_mut(next as usize) {
            Some(page) => page.before = before,
            None => self.ends[queue].tail = before,
        }
        let page = &mut pages[id as usize];
        page.set(page.class(), page.signals(), false);
    }
}
