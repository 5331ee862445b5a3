//! Those who coordinate groups in a schedule, or believe so, and their ferries: what `crate::node` does with the same decisions.

use super::super::super::{
    Above, Action, Answer, Coordinator, Event, Ferry, LeaseRecord, LogEvent, Patience,
};
use super::{Link, World};
use crate::status::Wish;

/// A ferry to one other group: a stream position, what is under way with the time at which it arrives, and its state.
pub(super) struct Carrier {
    to: usize,
    ferry: Ferry,
    next: u64,
    under_way: Vec<(u64, u64)>,
}

/// A process that coordinates, or believes so.
pub(super) struct Chair {
    pub(super) machine: Coordinator,
    /// It goes on until then, although another one has taken its place.
    pub(super) until_ms: u64,
    answer: Option<Answer>,
    carriers: Vec<Carrier>,
    /// Actions that are carried out later.
    pub(super) late: Vec<(u64, Action)>,
    /// A step for all groups that it will write.
    agrees: Option<(u64, u64, Above)>,
    met_ms: u64,
}

impl World {
    /// Another process coordinates the group from now on; the one before may not have noticed yet.
    pub(super) fn take_the_chair(&mut self, group: usize) {
        let until_ms = self.now_ms + self.below(8_000);
        for chair in &mut self.groups[group].chairs {
            chair.until_ms = chair.until_ms.min(until_ms);
        }
        let patience = Patience {
            lease_ms: 1_000_000,
            margin_ms: 0,
            gather_ms: 500,
            rest_ms: 60_000,
            window_ms: 10_000,
        };
        let others = (0..self.groups.len()).filter(|to| *to != group);
        let carriers = others.map(|to| Carrier {
            to,
            ferry: Ferry::default(),
            next: 1,
            under_way: Vec::new(),
        });
        let mut chair = Chair {
            machine: Coordinator::of_group(patience, self.now_ms),
            until_ms: u64::MAX,
            answer: None,
            carriers: carriers.collect(),
            late: Vec::new(),
            agrees: None,
            met_ms: 0,
        };
        let lease = LeaseRecord {
            incarnation: 1,
            session: 1,
            place: "here".to_owned(),
            weight: 1.0,
            renewed: 0,
            program: String::new(),
        };
        let (node, joined) = ("n".to_owned(), LogEvent::Joined { incarnation: 1 });
        let lease = Event::Lease {
            node: node.clone(),
            revision: 1,
            lease: Some(lease),
        };
        let log = Event::Log {
            seq: 1,
            node,
            event: joined,
        };
        for event in [lease, log, Event::CaughtUp] {
            chair.machine.handle(event, self.now_ms);
        }
        self.groups[group].chairs.push(chair);
    }

    pub(super) fn chair(&mut self, group: usize, chair: &mut Chair) {
        let (assignment, control) = {
            let of = &self.groups[group];
            (of.assignment.clone(), of.control.clone())
        };
        let events = [
            Event::Assignment {
                revision: assignment.0,
                assignment: assignment.1,
            },
            Event::Control {
                revision: control.0,
                control: control.1,
            },
            Event::Tick,
        ];
        for event in events {
            for action in chair.machine.handle(event, self.now_ms) {
                let late = !self.calm() && self.chance(10);
                let at_ms = self.now_ms + if late { self.below(6_000) } else { 0 };
                chair.late.push((at_ms, action));
            }
        }
        let now_ms = self.now_ms;
        let (due, late) = std::mem::take(&mut chair.late)
            .into_iter()
            .partition(|(at_ms, _)| *at_ms <= now_ms);
        chair.late = late;
        for (_, action) in due {
            let done = Event::Done(action.clone());
            self.carry_out(group, chair, action);
            // What follows from it is done at the next step: the machine waits until it is.
            let more = chair.machine.handle(done, now_ms);
            chair
                .late
                .extend(more.into_iter().map(|action| (now_ms, action)));
        }
        if !self.is_away() {
            self.meet(group, chair);
        }
        for at in 0..chair.carriers.len() {
            self.carry(group, &mut chair.carriers[at]);
        }
    }

    fn carry_out(&mut self, group: usize, chair: &mut Chair, action: Action) {
        // Some are lost on the way; an answer has none before the process itself sends it each second.
        let is_local = matches!(action, Action::Answer(_));
        if !is_local && !self.calm() && self.chance(20) {
            return;
        }
        let of = &mut self.groups[group];
        match action {
            Action::Assign {
                revision,
                assignment,
            } if of.assignment.0 == revision => of.assignment = (revision + 1, assignment),
            Action::Command { revision, control } if of.control.0 == revision => {
                of.control = (revision + 1, control);
            }
            Action::Answer(answer) => chair.answer = Some(answer),
            _ => {}
        }
    }

    /// As `node::ascend` does.
    fn meet(&mut self, group: usize, chair: &mut Chair) {
        if let Some((at_ms, revision, next)) = chair.agrees.take() {
            if at_ms > self.now_ms {
                chair.agrees = Some((at_ms, revision, next));
                return;
            }
            if self.above.0 == revision {
                if next.wish == Wish::Complete {
                    self.judge_the_end();
                }
                self.above = (revision + 1, next);
            }
        }
        if self.now_ms < chair.met_ms + 1_000 {
            return;
        }
        chair.met_ms = self.now_ms;
        let (revision, above) = self.above.clone();
        let event = Event::Above {
            revision,
            above: above.clone(),
        };
        let actions = chair.machine.handle(event, self.now_ms);
        let at_ms = self.now_ms;
        chair
            .late
            .extend(actions.into_iter().map(|action| (at_ms, action)));
        self.reports.insert(self.names[group].clone(), chair.answer);
        let answers = self.reports.iter();
        let answers = answers.filter_map(|(name, answer)| Some((name.clone(), (*answer)?)));
        if let Some(next) = above.next(&self.names, &answers.collect()) {
            let late_ms = if self.calm() { 0 } else { self.below(4_000) };
            chair.agrees = Some((self.now_ms + late_ms, revision, next));
        }
    }

    /// As `node::ferry` does.
    fn carry(&mut self, group: usize, carrier: &mut Carrier) {
        while carrier.ferry.outstanding() < 8 {
            let Some(found) = self.groups[group].up.get(carrier.next as usize - 1) else {
                break;
            };
            let seq = carrier.next;
            carrier.next += 1;
            if let Some(link) = *found
                && self.owners[usize::from(link.to)] == carrier.to
                && carrier.ferry.came(seq, link.to)
            {
                let at_ms = self.now_ms + self.below(400);
                carrier.under_way.push((at_ms, seq));
            }
        }
        let now_ms = self.now_ms;
        let (due, later) = std::mem::take(&mut carrier.under_way)
            .into_iter()
            .partition::<Vec<_>, _>(|(at_ms, _)| *at_ms <= now_ms);
        carrier.under_way = later;
        for (_, seq) in due {
            // Who came first may have removed it: it is brought once more all the same, as it was read before.
            let link = self.link(group, seq);
            let arrives = !self.is_away() && (self.calm() || !self.chance(5));
            if arrives {
                self.partitions[usize::from(link.to)].inbox.push(link);
            }
            let acknowledged = arrives && (self.calm() || !self.chance(5));
            let next = match acknowledged {
                true => carrier.ferry.arrived(seq, link.to),
                false => Some(seq),
            };
            if let Some(next) = next {
                let again_ms = if acknowledged { 0 } else { 500 };
                let at_ms = now_ms + again_ms + self.below(200);
                carrier.under_way.push((at_ms, next));
            }
        }
        if self.chance(10) {
            let done = carrier.ferry.done();
            for seq in 1..=done {
                let to = self.owners[usize::from(self.link(group, seq).to)];
                if to == carrier.to {
                    self.groups[group].up[seq as usize - 1] = None;
                }
            }
        }
    }

    /// A message of the stream, also one that was removed after a ferry had read it.
    fn link(&self, group: usize, seq: u64) -> Link {
        self.read[&(group, seq)]
    }
}
