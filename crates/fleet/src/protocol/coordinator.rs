//! The coordinator: judges leases, seals nodes that are lost, assigns partitions, sees the end. It holds nothing that a
//! successor would miss: what it decides is in the assignment, and every write of it is a compare-and-swap, so that two
//! coordinators at once do no harm.

mod answering;

use self::answering::Answering;
use super::assignment::{Assignment, Holder, LogEvent, Moving};
use super::balance::{Loads, Weight, weights};
use super::ending::{Ending, Verdict, only_failing_left};
use super::speeds::{Seen, Speeds};
use super::words::{Action, Control, Event, LeaseRecord, Patience};
use crate::status::{Reported, Wish};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Past this number of unaccounted messages, and one more for each partition, the assignment is written though nothing else
/// has changed: what it does not account for stays in the log.
const MOST_UNACCOUNTED: usize = 30;

/// A coordinator from when it got its lease until it loses it.
#[derive(Debug)]
pub struct Coordinator {
    patience: Patience,
    begun_ms: u64,
    caught_up: bool,
    assignment: Option<(u64, Assignment)>,
    /// Messages of the log after those that the assignment accounts for.
    log: VecDeque<(u64, String, LogEvent)>,
    leases: BTreeMap<String, Lease>,
    /// When the set of live nodes last changed.
    gathered_ms: u64,
    nodes: BTreeMap<String, Reported>,
    control: Option<(u64, Control)>,
    /// When each partition last changed hands, as far as this coordinator knows.
    changed_ms: BTreeMap<usize, u64>,
    ending: Ending,
    /// A group's, under a hub.
    answering: Option<Answering>,
    speeds: Speeds,
    under_way: Vec<Action>,
}

#[derive(Debug)]
struct Lease {
    revision: u64,
    record: Option<LeaseRecord>,
    /// When its revision was last seen to change.
    seen_ms: u64,
}

impl Coordinator {
    pub fn new(patience: Patience, now_ms: u64) -> Self {
        Self {
            patience,
            begun_ms: now_ms,
            caught_up: false,
            assignment: None,
            log: VecDeque::new(),
            leases: BTreeMap::new(),
            gathered_ms: now_ms,
            nodes: BTreeMap::new(),
            control: None,
            changed_ms: BTreeMap::new(),
            ending: Ending::default(),
            answering: None,
            speeds: Speeds::default(),
            under_way: Vec::new(),
        }
    }

    /// Of a group under a hub: its end is not found here.
    pub fn of_group(patience: Patience, now_ms: u64) -> Self {
        Self {
            answering: Some(Answering::default()),
            ..Self::new(patience, now_ms)
        }
    }

    /// Something has happened; what is to be done?
    pub fn handle(&mut self, event: Event, now_ms: u64) -> Vec<Action> {
        self.hear(event, now_ms);
        let mut actions = Vec::new();
        if self.caught_up {
            self.look_at_speeds(now_ms);
            self.judge(now_ms, &mut actions);
            self.assign(now_ms, &mut actions);
            match self.answering {
                Some(_) => self.answer(&mut actions),
                None => self.end(&mut actions),
            }
        }
        actions.retain(|action| !self.under_way.iter().any(|other| other.is_like(action)));
        self.under_way.extend_from_slice(&actions);
        actions
    }

    fn hear(&mut self, event: Event, now_ms: u64) {
        match event {
            Event::Assignment {
                revision,
                assignment,
            } => self.hear_assignment(revision, assignment, now_ms),
            Event::Lease {
                node,
                revision,
                lease,
            } => self.hear_lease(node, revision, lease, now_ms),
            Event::Log { seq, node, event } => {
                let accounted = self
                    .assignment
                    .as_ref()
                    .map_or(0, |(_, assignment)| assignment.log);
                let last = self.log.back().map_or(accounted, |(last, ..)| *last);
                if seq > last {
                    self.log.push_back((seq, node, event));
                }
            }
            Event::Reported { node, reported } => drop(self.nodes.insert(node, reported)),
            Event::Control { revision, control } => {
                if self
                    .control
                    .as_ref()
                    .is_none_or(|(known, _)| *known < revision)
                {
                    self.control = Some((revision, control));
                }
            }
            Event::CaughtUp => self.caught_up = true,
            Event::Above { revision, above } => {
                if let Some(answering) = &mut self.answering {
                    answering.hear(revision, above);
                }
            }
            Event::Done(action) => {
                self.under_way.retain(|other| *other != action);
                if let Action::Answer(answer) = action {
                    self.note_answer(answer);
                }
            }
            Event::Tick => {}
        }
    }

    fn hear_assignment(&mut self, revision: u64, assignment: Assignment, now_ms: u64) {
        if self
            .assignment
            .as_ref()
            .is_some_and(|(known, _)| *known >= revision)
        {
            return;
        }
        while self
            .log
            .front()
            .is_some_and(|(seq, ..)| *seq <= assignment.log)
        {
            self.log.pop_front();
        }
        let before = self
            .assignment
            .take()
            .map(|(_, before)| before.shares)
            .unwrap_or_default();
        for (partition, share) in assignment.shares.iter().enumerate() {
            if before
                .get(partition)
                .is_none_or(|before| before.epoch != share.epoch)
            {
                self.changed_ms.insert(partition, now_ms);
            }
        }
        self.assignment = Some((revision, assignment));
    }

    fn hear_lease(
        &mut self,
        node: String,
        revision: u64,
        record: Option<LeaseRecord>,
        now_ms: u64,
    ) {
        let known = self.leases.get(&node);
        if known.is_some_and(|known| known.revision >= revision) {
            return;
        }
        let life = |record: &Option<LeaseRecord>| record.as_ref().map(|record| record.incarnation);
        if known.map(|known| life(&known.record)) != Some(life(&record)) {
            self.gathered_ms = now_ms;
        }
        self.leases.insert(
            node,
            Lease {
                revision,
                record,
                seen_ms: now_ms,
            },
        );
    }

    /// Takes leases away that were not renewed, and seals who has none.
    fn judge(&self, now_ms: u64, actions: &mut Vec<Action>) {
        let patience_ms = self.patience.lease_ms + self.patience.margin_ms;
        for (node, lease) in &self.leases {
            // What was seen before this coordinator began says nothing of how long ago that was.
            let seen_ms = lease.seen_ms.max(self.begun_ms);
            if lease.record.is_some() && now_ms > seen_ms + patience_ms {
                actions.push(Action::Kill {
                    node: node.clone(),
                    revision: lease.revision,
                });
            }
        }
        let Some(assignment) = self.accounted() else {
            return;
        };
        let holders: BTreeSet<&Holder> = assignment
            .shares
            .iter()
            .filter_map(|share| share.holder.as_ref())
            .collect();
        for holder in holders {
            let lease = self
                .leases
                .get(&holder.node)
                .and_then(|lease| lease.record.as_ref());
            // Another life of the node says `Joined`, which seals this one.
            if lease.is_none() {
                actions.push(Action::Seal {
                    holder: holder.clone(),
                });
            }
        }
    }

    /// The assignment with all that the log says.
    fn accounted(&self) -> Option<Assignment> {
        let (_, assignment) = self.assignment.as_ref()?;
        let mut assignment = assignment.clone();
        for (seq, node, event) in &self.log {
            assignment.account(*seq, node, event);
        }
        Some(assignment)
    }

    fn assign(&self, now_ms: u64, actions: &mut Vec<Action>) {
        let (Some((revision, old)), Some((_, control))) = (&self.assignment, &self.control) else {
            return;
        };
        let Some(mut new) = self.accounted() else {
            return;
        };
        let alive = |(node, lease): (&String, &Lease)| {
            let record = lease.record.as_ref()?;
            let holder = Holder {
                node: node.clone(),
                incarnation: record.incarnation,
            };
            Some((holder, record.weight))
        };
        let alive: BTreeMap<Holder, f64> = self.leases.iter().filter_map(alive).collect();
        new.members = alive.keys().cloned().collect();
        let begun = new.shares.iter().any(|share| share.epoch > 0);
        let gathered = now_ms >= self.gathered_ms + self.patience.gather_ms;
        if matches!(control.wish, Wish::Run | Wish::Stop) && (begun || gathered) {
            // A crawl-client holds no partitions.
            let targets = alive.into_iter().filter(|(holder, weight)| {
                *weight != 0.0 && !control.draining.contains(&holder.node)
            });
            self.share_out(&mut new, &targets.collect(), control, now_ms);
        }
        let log = new.log;
        new.log = old.log;
        // Who joins waits for that, and so does the crawl's end: a life without partitions may be sealed, too.
        let awaited = !self.log_is_quiet();
        if new != *old || awaited || self.log.len() > MOST_UNACCOUNTED + old.shares.len() {
            new.log = log;
            new.version = old.version + 1;
            actions.push(Action::Assign {
                revision: *revision,
                assignment: new,
            });
        }
    }

    fn share_out(
        &self,
        new: &mut Assignment,
        targets: &BTreeMap<Holder, f64>,
        control: &Control,
        now_ms: u64,
    ) {
        let weights = weights(&self.measured(new));
        // Who is slow is given less, whatever it says of itself.
        let targets = targets
            .iter()
            .map(|(holder, weight)| (holder.clone(), weight * self.speeds.of(&holder.node)));
        let targets = &targets.collect::<BTreeMap<_, _>>();
        // Who was to get a partition may be gone.
        for share in &mut new.shares {
            if let Some(moving) = share.moving.as_mut() {
                moving.to.take_if(|to| !targets.contains_key(to));
            }
        }
        let mut loads = Loads::new(new, targets, &weights);
        let unplaced = |new: &Assignment| {
            let shares = new.shares.iter().enumerate();
            let unplaced = shares.filter(|(_, share)| match &share.moving {
                Some(Moving { to: Some(_) }) => false,
                Some(Moving { to: None }) => true,
                None if share.elsewhere => false,
                None => share
                    .holder
                    .as_ref()
                    .is_none_or(|holder| control.draining.contains(&holder.node)),
            });
            unplaced.map(|(partition, _)| partition).collect::<Vec<_>>()
        };
        for partition in loads.heaviest_first(unplaced(new)) {
            new.shares[partition].moving = Some(Moving {
                to: loads.place(partition),
            });
        }
        for share in &mut new.shares {
            if share.holder.is_none()
                && let Some(Moving { to: Some(to) }) = share.moving.take()
            {
                share.holder = Some(to);
                share.epoch += 1;
            }
        }
        let moving = new
            .shares
            .iter()
            .filter(|share| share.moving.is_some())
            .count();
        let own = new.shares.iter().filter(|share| !share.elsewhere).count();
        let most = (own / 8).max(4).saturating_sub(moving);
        let rested = |partition: &usize| {
            let changed_ms = self
                .changed_ms
                .get(partition)
                .copied()
                .unwrap_or(self.begun_ms);
            now_ms >= changed_ms + self.patience.rest_ms
        };
        let rested = (0..new.shares.len()).filter(rested).collect();
        loads.even_out(new, most, &rested);
    }

    /// Who fetches how much of what it carries.
    fn look_at_speeds(&mut self, now_ms: u64) {
        let Some((_, assignment)) = &self.assignment else {
            return;
        };
        let weights = weights(&self.measured(assignment));
        let mut seen: BTreeMap<String, Seen> = BTreeMap::new();
        for (partition, share) in assignment.shares.iter().enumerate() {
            let Some(holder) = &share.holder else {
                continue;
            };
            let Some(reported) = self.nodes.get(&holder.node) else {
                continue;
            };
            let status = &reported.status;
            // A seed-server has others fetch.
            if status.role == "seed-server" || reported.incarnation != holder.incarnation {
                continue;
            }
            let Weight { bytes, requests } = weights[partition];
            let seen = seen.entry(holder.node.clone()).or_insert(Seen {
                pages: status.pages,
                share: 0.0,
                is_busy: status.partitions.iter().any(|of| of.due > 0),
            });
            seen.share += (bytes + requests) / 2.0;
        }
        self.speeds.look(now_ms, self.patience.window_ms, &seen);
    }

    /// What the holders of partitions say of their bytes and requests; `None` of another group's.
    fn measured(&self, assignment: &Assignment) -> Vec<Option<(f64, f64)>> {
        let reported = |(partition, share): (usize, &super::assignment::Share)| {
            let holder = share.holder.as_ref()?;
            let partitions = &self.nodes.get(&holder.node)?.status.partitions;
            let of = partitions
                .iter()
                .find(|of| usize::from(of.partition) == partition)?;
            Some((of.bytes, of.requests))
        };
        let shares = assignment.shares.iter().enumerate();
        shares
            .map(|share| (!share.1.elsewhere).then(|| reported(share).unwrap_or((0.0, 0.0))))
            .collect()
    }

    fn end(&mut self, actions: &mut Vec<Action>) {
        let (Some((_, assignment)), Some((revision, control))) = (&self.assignment, &self.control)
        else {
            return;
        };
        if control.wish != Wish::Run || !self.log_is_quiet() {
            return;
        }
        let mut wanted = control.clone();
        wanted.quiet = only_failing_left(assignment, &self.nodes);
        match self.ending.look(control.look, assignment, &self.nodes) {
            Verdict::Wait => {}
            Verdict::LookAgain => wanted.look += 1,
            Verdict::Ended => wanted.wish = Wish::Complete,
        }
        if wanted != *control {
            actions.push(Action::Command {
                revision: *revision,
                control: wanted,
            });
        }
    }

    /// Nothing in the log changes who holds what.
    fn log_is_quiet(&self) -> bool {
        self.log.iter().all(|(.., event)| *event == LogEvent::Other)
    }
}
