//! Records in RAM, found by document: one array in order of documents with gaps in between, so that
//! a record is one cache line away, and writing all of them to a table needs no sorting. Says which
//! have changed since they were last written; not when that is done.

use crate::record::{Mark, Record, UrlState};
use portolan_model::Order;

/// RAM of one slot: two in a cache line.
pub(crate) const SLOT_BYTES: usize = size_of::<Slot>();
/// At least this share of the slots stays empty.
const FREE_ONE_IN: usize = 4;
const FIRST_SLOTS: usize = 64;
/// Slots after the last home, for those that home is too crowded for; more are added if need be.
const SPARE_SLOTS: usize = 64;
/// Offsets and arrivals take 5 bytes.
pub(crate) const MAX_NUMBER: u64 = (1 << 40) - 1;

const STATE: u8 = 3;
const OCCUPIED: u8 = 4;
const CHANGED: u8 = 8;
/// `mark` is a score.
const SCORED: u8 = 16;
/// How many times changes were taken after its own last one, in the upper bits.
const AGE: u8 = 7 << AGE_SHIFT;
const AGE_SHIFT: u32 = 5;
/// Fewer links than this do not keep a record in RAM that has not changed.
const LEAST_LINKS_TO_STAY: u32 = 2;

/// A record and its document in 32 bytes.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C, align(32))]
pub(crate) struct Slot {
    doc: u64,
    count: u32,
    arrival: [u8; 5],
    text: [u8; 5],
    /// A visit or a score.
    mark: [u8; 5],
    reason: u8,
    priority: i8,
    attempts: u8,
    host_tag: u8,
    flags: u8,
}

impl Slot {
    fn new(doc: u64, record: &Record, flags: u8) -> Self {
        let (mark, scored) = match record.mark {
            Mark::Visit(visit) => (visit, 0),
            Mark::Score(score) => (u64::from(score), SCORED),
        };
        Self {
            doc,
            count: record.count,
            arrival: narrow(record.arrival),
            text: narrow(record.text),
            mark: narrow(mark),
            reason: record.reason,
            priority: record.priority,
            attempts: record.attempts,
            host_tag: record.host_tag,
            flags: flags | scored | record.state as u8,
        }
    }

    pub(crate) fn doc(&self) -> u64 {
        self.doc
    }

    pub(crate) fn state(&self) -> UrlState {
        UrlState::ALL[usize::from(self.flags & STATE)]
    }

    /// 0 for none.
    pub(crate) fn reason(&self) -> u8 {
        self.reason
    }

    pub(crate) fn record(&self) -> Record {
        Record {
            arrival: widen(self.arrival),
            text: widen(self.text),
            mark: if self.flags & SCORED == 0 {
                Mark::Visit(widen(self.mark))
            } else {
                Mark::Score(widen(self.mark) as u32)
            },
            count: self.count,
            state: self.state(),
            reason: self.reason,
            priority: self.priority,
            attempts: self.attempts,
            host_tag: self.host_tag,
        }
    }

    /// One more back-link, in an order that keeps no score. Has the class changed? Only counts matter then,
    /// and they at powers of two.
    #[inline]
    pub(crate) fn count_up(&mut self, order: Order) -> bool {
        self.count = self.count.saturating_add(1);
        self.count.is_power_of_two() && {
            let class = |count| {
                let class = order.class_of(count, 0, self.priority);
                class.saturating_sub(self.attempts)
            };
            class(self.count - 1) != class(self.count)
        }
    }

    /// Changes have not been taken too often since its own last one.
    fn is_young(&self) -> bool {
        self.flags & AGE != AGE
    }

    pub(crate) fn put(&mut self, record: &Record) {
        *self = Self::new(self.doc, record, self.flags & !(STATE | SCORED));
    }
}

/// The least number of links, a power of two, that no more than `spare` records reach. `with_bits[n]` is the number of
/// records whose number of links has `n` bits.
fn links_to_stay(with_bits: &[usize; u32::BITS as usize + 1], spare: usize) -> u32 {
    let (mut staying, mut least) = (0, u32::MAX);
    for bits in (LEAST_LINKS_TO_STAY.ilog2() + 1..=u32::BITS).rev() {
        staying += with_bits[bits as usize];
        if staying > spare {
            break;
        }
        least = 1 << (bits - 1);
    }
    least
}

fn narrow(number: u64) -> [u8; 5] {
    debug_assert!(number <= MAX_NUMBER);
    let [a, b, c, d, e, ..] = number.to_le_bytes();
    [a, b, c, d, e]
}

fn widen([a, b, c, d, e]: [u8; 5]) -> u64 {
    u64::from_le_bytes([a, b, c, d, e, 0, 0, 0])
}

/// Slots in ascending order of documents. A document is at its home, which grows with it, or as few
/// slots after that as those before it leave, without an empty one in between.
#[derive(Debug, Default)]
pub(crate) struct Recent {
    slots: Vec<Slot>,
    /// Homes; a few more slots follow the last.
    homes: usize,
    /// Doubling ends here, so that RAM does not pass what it was planned to be.
    planned_homes: usize,
    /// Records that may stay when changes are taken, so that there is room for new ones.
    planned_stay: usize,
    records: usize,
    changed: usize,
    sweeping: Option<Sweeping>,
    /// Empty slots for the next growth.
    room: Vec<Slot>,
    /// For the next changes to be taken.
    buffer: Vec<Slot>,
}

/// Dropping what need not stay, slot by slot.
#[derive(Debug)]
struct Sweeping {
    next: usize,
    /// Of the records that have not changed the last two times, this many more may stay.
    spare: usize,
    /// Such a record stays only if it has at least this many links.
    links: u32,
}

impl Sweeping {
    fn keeps(&mut self, slot: &Slot) -> bool {
        if slot.flags & CHANGED != 0 || slot.flags & AGE == 0 {
            return true;
        }
        let stays = slot.is_young() && slot.count >= self.links && self.spare > 0;
        self.spare -= usize::from(stays);
        stays
    }
}

impl Recent {
    /// Grows as needed, and beyond `records` as well. When changes are taken, `stay` records may stay, and
    /// more only where more have changed.
    pub(crate) fn planned_for(records: usize, stay: usize) -> Self {
        Self {
            planned_homes: Self::slots_for(records),
            planned_stay: stay,
            ..Self::default()
        }
    }

    /// Slots for `records` records.
    pub(crate) fn slots_for(records: usize) -> usize {
        records.saturating_add(records / (FREE_ONE_IN - 1))
    }

    pub(crate) fn records(&self) -> usize {
        self.records
    }

    pub(crate) fn changed(&self) -> usize {
        self.changed
    }

    pub(crate) fn ram_bytes(&self) -> usize {
        let slots = [&self.slots, &self.room, &self.buffer];
        slots
            .iter()
            .map(|slots| slots.capacity() * SLOT_BYTES)
            .sum()
    }

    /// The number of empty slots that the table will need when it grows next, if that is soon. They are made beforehand,
    /// because memory that nobody has used yet takes its time: in a virtual machine up to ten milliseconds for a megabyte.
    pub(crate) fn wanted_room(&self) -> Option<usize> {
        let soon = Self::slots_for(self.records + self.records / 2) > self.homes;
        let wanted = soon && self.homes < self.planned_homes && self.room.is_empty();
        wanted.then(|| self.next_homes() + SPARE_SLOTS)
    }

    /// Whoever is not in a hurry makes what `wanted_room` asks for.
    pub(crate) fn make_room(slots: usize) -> Vec<Slot> {
        vec![Slot::default(); slots]
    }

    /// Takes it, unless it grew meanwhile.
    pub(crate) fn take_room(&mut self, room: Vec<Slot>) {
        if self.wanted_room() == Some(room.len()) {
            self.room = room;
        }
    }

    /// What was taken is written: the next time needs as much memory.
    pub(crate) fn give_back(&mut self, mut taken: Vec<Slot>) {
        taken.clear();
        self.buffer = taken;
    }

    pub(crate) fn get(&self, doc: u64) -> Option<&Slot> {
        let at = self.find(doc)?;
        Some(&self.slots[at])
    }

    /// The record, to be changed.
    #[inline(always)]
    pub(crate) fn touch(&mut self, doc: u64) -> Option<&mut Slot> {
        let at = self.find(doc)?;
        let slot = &mut self.slots[at];
        if slot.flags & CHANGED == 0 {
            slot.flags |= CHANGED;
            self.changed += 1;
        }
        Some(slot)
    }

    /// Some word of the document's home: who reads those of several documents in a row waits for
    /// RAM once.
    #[inline]
    pub(crate) fn touch_home(&self, doc: u64) -> u64 {
        self.slots.get(self.home(doc)).map_or(0, |slot| slot.doc)
    }

    pub(crate) fn insert(&mut self, doc: u64, record: &Record) {
        match self.touch(doc) {
            Some(known) => *known = Slot::new(doc, record, OCCUPIED | CHANGED),
            None => self.insert_new(doc, record),
        }
    }

    /// The document must not be there.
    pub(crate) fn insert_new(&mut self, doc: u64, record: &Record) {
        debug_assert!(self.get(doc).is_none());
        let slot = Slot::new(doc, record, OCCUPIED | CHANGED);
        if Self::slots_for(self.records + 1) > self.homes {
            self.grow();
        }
        self.changed += 1;
        self.records += 1;
        self.place(slot);
    }

    /// All that changed since the last time, in order of documents. They stay, as unchanged, at least until the next
    /// time; others go as `sweep` comes to them.
    pub(crate) fn take_changed(&mut self) -> Vec<Slot> {
        let mut changed = std::mem::take(&mut self.buffer);
        if changed.capacity() < self.changed {
            changed = Vec::with_capacity(self.changed + self.changed / 8);
        }
        let mut with_bits = [0; u32::BITS as usize + 1];
        for slot in &mut self.slots {
            if slot.flags & CHANGED != 0 {
                changed.push(*slot);
                slot.flags &= !(CHANGED | AGE);
            } else if slot.flags & OCCUPIED != 0 && slot.is_young() {
                slot.flags += 1 << AGE_SHIFT;
                with_bits[(u32::BITS - slot.count.leading_zeros()) as usize] += 1;
            }
        }
        self.changed = 0;
        let spare = self.planned_stay.saturating_sub(changed.len());
        self.sweeping = Some(Sweeping {
            next: 0,
            spare,
            links: links_to_stay(&with_bits, spare),
        });
        changed
    }

    /// Looks at the next `slots` slots, or a few more, and drops records that have not changed the last two times. Those
    /// with the most links stay for some further sweeps, as far as there is room.
    pub(crate) fn sweep(&mut self, slots: usize) {
        let Some(mut sweeping) = self.sweeping.take() else {
            return;
        };
        let stop = sweeping.next.saturating_add(slots);
        // Where others have gone, those that stay come closer to their homes, and never pass one that is still to be
        // looked at. Before an empty slot nobody waits for room.
        let (mut at, mut next) = (sweeping.next, sweeping.next);
        while at < self.slots.len() {
            let slot = self.slots[at];
            if slot.flags & OCCUPIED == 0 {
                if at >= stop {
                    break;
                }
            } else if sweeping.keeps(&slot) {
                let to = self.home(slot.doc).max(next);
                debug_assert!(to <= at);
                if to < at {
                    self.slots[to] = slot;
                    self.slots[at] = Slot::default();
                }
                next = to + 1;
            } else {
                self.slots[at] = Slot::default();
                self.records -= 1;
            }
            at += 1;
        }
        if at < self.slots.len() {
            sweeping.next = at;
            self.sweeping = Some(sweeping);
        } else {
            self.slots.truncate(next.max(self.homes + SPARE_SLOTS));
        }
    }

    /// All records, in order of documents.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Slot> {
        let slots = self.slots.iter();
        slots.filter(|slot| slot.flags & OCCUPIED != 0)
    }

    #[inline]
    fn home(&self, doc: u64) -> usize {
        ((u128::from(doc) * self.homes as u128) >> 64) as usize
    }

    #[inline]
    fn find(&self, doc: u64) -> Option<usize> {
        let home = self.home(doc);
        let slots = self.slots.get(home..)?;
        for (step, slot) in slots.iter().enumerate() {
            if slot.doc >= doc || slot.flags & OCCUPIED == 0 {
                let found = slot.doc == doc && slot.flags & OCCUPIED != 0;
                return found.then_some(home + step);
            }
        }
        None
    }

    /// Puts a new document where it belongs; later ones up to the next empty slot move on.
    fn place(&mut self, slot: Slot) {
        let is_empty = |slot: &Slot| slot.flags & OCCUPIED == 0;
        let mut at = self.home(slot.doc);
        while at < self.slots.len() && !is_empty(&self.slots[at]) && self.slots[at].doc < slot.doc {
            at += 1;
        }
        let rest = self.slots.get(at..).unwrap_or_default();
        match rest.iter().position(is_empty) {
            Some(gap) => {
                self.slots.copy_within(at..at + gap, at + 1);
                self.slots[at] = slot;
            }
            None => self.slots.insert(at, slot),
        }
    }

    fn grow(&mut self) {
        let homes_before = self.homes.max(1);
        self.homes = self.next_homes();
        if let Some(sweeping) = &mut self.sweeping {
            sweeping.next = sweeping.next * self.homes / homes_before;
        }
        let mut room = std::mem::take(&mut self.room);
        let slots = self.homes + SPARE_SLOTS;
        if room.len() != slots {
            room = Self::make_room(slots);
        }
        let old = std::mem::replace(&mut self.slots, room);
        let records = old.iter().filter(|slot| slot.flags & OCCUPIED != 0);
        self.lay_out(records.copied());
    }

    fn next_homes(&self) -> usize {
        let doubled = (self.homes * 2).max(FIRST_SLOTS);
        if self.homes < self.planned_homes {
            doubled.min(self.planned_homes.max(FIRST_SLOTS))
        } else {
            doubled
        }
    }

    /// Fills empty slots, in order.
    fn lay_out(&mut self, records: impl Iterator<Item = Slot>) {
        let mut next = 0;
        for slot in records {
            let at = self.home(slot.doc).max(next);
            if at < self.slots.len() {
                self.slots[at] = slot;
            } else {
                self.slots.push(slot);
            }
            next = at + 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    fn record(n: u64) -> Record {
        Record {
            arrival: n,
            text: MAX_NUMBER - n,
            mark: if n.is_multiple_of(3) {
                Mark::Score(n as u32 / 2)
            } else {
                Mark::Visit(n / 2)
            },
            count: n as u32,
            state: UrlState::ALL[n as usize % 4],
            reason: n as u8,
            priority: n as i8,
            attempts: 7,
            host_tag: 9,
        }
    }

    #[test]
    fn slots_hold_all_of_a_record_in_32_bytes() {
        assert_eq!(SLOT_BYTES, 32);
        for n in [0, 1, 77, 40_000] {
            assert_eq!(Slot::new(5, &record(n), OCCUPIED).record(), record(n));
        }
    }

    #[test]
    fn behaves_like_a_sorted_map_with_generations() {
        let mut recent = Recent::planned_for(3_000, 0);
        // With whether it has changed, and whether it may be gone.
        let mut model: BTreeMap<u64, (Record, bool, bool)> = BTreeMap::new();
        let (mut dropped, mut rooms) = (0, 0);
        let mut random = 1u64;
        for round in 0..40_000u64 {
            random = random.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(7);
            // Crowded at both ends, as hashes never are, so that slots run over.
            let doc = match random >> 61 {
                0 => (random >> 20) % 200,
                1 => u64::MAX - (random >> 20) % 200,
                _ => (random >> 20) % 5_000 * 0x000d_1b71_758e_2196,
            };
            if recent.get(doc).is_none()
                && let Some((_, _, true)) = model.get(&doc)
            {
                model.remove(&doc);
                dropped += 1;
            }
            match (random >> 8) % 3 {
                0 => {
                    recent.insert(doc, &record(round));
                    model.insert(doc, (record(round), true, false));
                }
                1 => {
                    let found = recent.touch(doc).map(|slot| {
                        slot.count_up(Order::Backlinks);
                        slot.record()
                    });
                    let expected = model.get_mut(&doc).map(|(record, changed, may_go)| {
                        record.count += 1;
                        (*changed, *may_go) = (true, false);
                        *record
                    });
                    assert_eq!(found, expected);
                }
                _ => {
                    let found = recent.get(doc).map(Slot::record);
                    assert_eq!(found, model.get(&doc).map(|(record, ..)| *record));
                }
            }
            if let Some(slots) = recent.wanted_room()
                && round % 5 == 0
            {
                recent.take_room(Recent::make_room(slots));
                assert_eq!(recent.wanted_room(), None);
                rooms += 1;
            }
            if (random >> 12).is_multiple_of(64) {
                recent.sweep((random >> 20) as usize % 300);
            }
            if round % 4_001 == 4_000 {
                recent.sweep(usize::MAX);
                model.retain(|_, (_, _, may_go)| !*may_go);
                assert_eq!(recent.records(), model.len());
                let changed = model.iter().filter(|(_, (_, changed, _))| *changed);
                let changed: Vec<u64> = changed.map(|(&doc, _)| doc).collect();
                assert_eq!(recent.changed(), changed.len());
                let taken = recent.take_changed();
                assert!(taken.iter().map(Slot::doc).eq(changed));
                if round % 2 == 0 {
                    recent.give_back(taken);
                }
                for (_, changed, may_go) in model.values_mut() {
                    (*changed, *may_go) = (false, !*changed);
                }
            }
        }
        assert!(dropped > 1_000, "only {dropped} went before all had to");
        assert!(rooms > 2, "memory was made ready {rooms} times");
        recent.sweep(usize::MAX);
        model.retain(|_, (_, _, may_go)| !*may_go);
        let all = recent.iter().map(|slot| (slot.doc(), slot.record()));
        assert!(all.eq(model.iter().map(|(&doc, (record, ..))| (doc, *record))));
    }

    #[test]
    fn what_is_much_linked_stays_for_some_time() {
        const STAY: u64 = 600;
        let mut recent = Recent::planned_for(3_000, STAY as usize);
        let doc = |n: u64| n * 0x000d_1b71_758e_2196;
        let linked = |n: u64| Record {
            count: 1 << (n % 8),
            ..record(n)
        };
        (0..1_000).for_each(|n| recent.insert(doc(n), &linked(n)));
        assert_eq!(recent.take_changed().len(), 1_000);
        recent.sweep(usize::MAX);
        // Some change, the others are there as long as they are linked to, and there is room.
        let mut random = 1u64;
        for round in 1..20 {
            for n in (0..1_000).filter(|n| n % 50 == round % 50) {
                let slot = recent.touch(doc(n));
                assert!(slot.is_some() || n % 8 < 7 || round > 1);
            }
            let changed = recent.changed();
            assert_eq!(recent.take_changed().len(), changed);
            recent.sweep(usize::MAX);
            assert!(recent.iter().count() <= STAY as usize);
            random = random.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(7);
            let n = random % 1_000;
            if let Some(slot) = recent.get(doc(n)) {
                assert_eq!(slot.record(), linked(n));
            }
            let kept = (0..1_000).filter(|&n| recent.get(doc(n)).is_some());
            let most_linked = kept.filter(|n| n % 8 == 7).count();
            match round {
                1..7 => assert!(most_linked >= 120, "{most_linked} in round {round}"),
                9.. => assert!(recent.iter().count() <= 200, "nothing is dropped"),
                _ => {}
            }
        }
    }
}
