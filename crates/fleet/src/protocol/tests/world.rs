//! The servers, the network, the time, and what befalls the nodes.

use super::super::{Assignment, Control, LeaseRecord, Ledger, LogEvent};
use super::node::SimNode;
use crate::records::Checkpoint;
use crate::status::Reported;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};

pub const PARTITIONS: u16 = 6;
pub const LEASE_MS: u64 = 6_000;

/// Faults happen until then; afterwards there is time to come to rest.
const FAULTS_MS: u64 = 90_000;
const END_MS: u64 = 180_000;

/// A request without an answer is read back after this.
const REQUEST_MS: u64 = 2_000;

#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    Lease(LeaseRecord),
    Coordinator { session: u64, renewed: u64 },
    Assignment(Assignment),
    Control(Control),
    Summary(Ledger),
}

/// A record of the ship log.
#[derive(Clone, Debug, PartialEq)]
pub struct Record {
    pub node: String,
    pub incarnation: u64,
    pub session: u64,
    /// Unique in the log.
    pub id: u64,
    pub what: What,
}

#[derive(Clone, Debug, PartialEq)]
pub enum What {
    Event(LogEvent),
    Commit { frame: u64, parts: Vec<Part> },
    Checkpoint(Checkpoint),
}

/// What a commit says of a partition.
#[derive(Clone, Debug, PartialEq)]
pub struct Part {
    pub partition: u16,
    pub epoch: u32,
    pub from: u64,
    pub to: u64,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Op {
    Swap {
        key: String,
        value: Option<Value>,
        revision: u64,
    },
    Append {
        record: Record,
        expected: u64,
    },
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Outcome {
    Done(u64),
    Lost,
    Unknown,
}

/// What nodes follow, in the order in which it happened.
#[expect(clippy::large_enum_variant, reason = "there are few of them at a time")]
#[derive(Clone, Debug)]
pub enum News {
    Key {
        key: String,
        revision: u64,
        value: Option<Value>,
    },
    Log {
        seq: u64,
        record: Record,
    },
    Reported {
        node: String,
        reported: Reported,
    },
}

/// A request to the Web.
#[derive(Clone, Debug)]
pub struct Ask {
    pub at_ms: u64,
    pub node: String,
    pub session: u64,
    pub partition: u16,
    pub epoch: u32,
}

#[derive(Debug)]
enum Due {
    Step(usize),
    Execute { request: u64 },
    Answer { request: u64 },
    ReadBack { request: u64 },
    Fault,
}

struct Request {
    node: usize,
    session: u64,
    op: Op,
    outcome: Option<Outcome>,
    answered: bool,
}

pub struct World {
    pub seed: u64,
    random: u64,
    pub now_ms: u64,
    pub keys: BTreeMap<String, (u64, Option<Value>)>,
    revision: u64,
    pub log: Vec<Record>,
    pub news: Vec<News>,
    pub asks: Vec<Ask>,
    pub refused_commits: u64,
    /// Messages of the log that were trimmed. The judge reads them all the same.
    pub gone: BTreeSet<u64>,
    /// The store: by key, what an object names.
    pub objects: BTreeMap<String, Vec<String>>,
    pub from_checkpoints: u64,
    pub late_adopters: u64,
    pub deleted: u64,
    queue: BinaryHeap<Reverse<(u64, u64)>>,
    due: BTreeMap<u64, Due>,
    requests: BTreeMap<u64, Request>,
    serial: u64,
    pub nodes: Vec<SimNode>,
}

impl World {
    pub fn new(seed: u64) -> Self {
        let mut world = Self {
            seed,
            random: seed,
            now_ms: 0,
            keys: BTreeMap::new(),
            revision: 0,
            log: Vec::new(),
            news: Vec::new(),
            asks: Vec::new(),
            refused_commits: 0,
            gone: BTreeSet::new(),
            objects: BTreeMap::new(),
            from_checkpoints: 0,
            late_adopters: 0,
            deleted: 0,
            queue: BinaryHeap::new(),
            due: BTreeMap::new(),
            requests: BTreeMap::new(),
            serial: 0,
            nodes: Vec::new(),
        };
        world.write(
            "assignment",
            Some(Value::Assignment(Assignment::new(PARTITIONS))),
        );
        world.write("control", Some(Value::Control(Control::default())));
        let nodes = 2 + world.below(3) as usize;
        for number in 0..nodes {
            let pace = 0.99 + world.below(20) as f64 / 1_000.0;
            let node = SimNode::new(number, pace, world.next());
            world.nodes.push(node);
            let at_ms = world.below(5_000);
            world.schedule(at_ms, Due::Step(number));
        }
        world.schedule(3_000, Due::Fault);
        world
    }

    /// SplitMix64.
    pub fn next(&mut self) -> u64 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.random;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    fn chance(&mut self, of: u64) -> bool {
        self.below(of) == 0
    }

    fn schedule(&mut self, at_ms: u64, due: Due) {
        self.serial += 1;
        self.queue.push(Reverse((at_ms, self.serial)));
        self.due.insert(self.serial, due);
    }

    pub fn run(&mut self) {
        while let Some(Reverse((at_ms, serial))) = self.queue.pop() {
            if at_ms > END_MS {
                return;
            }
            self.now_ms = at_ms;
            match self.due.remove(&serial).expect("it was scheduled") {
                Due::Step(number) => self.step(number),
                Due::Execute { request } => self.execute(request),
                Due::Answer { request } => self.answer(request),
                Due::ReadBack { request } => self.read_back(request),
                Due::Fault => self.fault(),
            }
        }
    }

    pub fn quiet(&self) -> bool {
        self.now_ms > FAULTS_MS
    }

    fn step(&mut self, number: usize) {
        let mut node = self.nodes[number].take();
        if self.now_ms >= node.paused_until_ms {
            node.step(self);
        }
        self.nodes[number] = node;
        let pause_ms = 50 + self.below(100);
        self.schedule(self.now_ms + pause_ms, Due::Step(number));
    }

    fn cut_off(&self, number: usize) -> bool {
        self.now_ms < self.nodes[number].cut_off_until_ms
    }

    /// Sends a request; its outcome comes to `SimNode::answered`.
    pub fn send(&mut self, number: usize, session: u64, op: Op, cut_off: bool) -> u64 {
        self.serial += 1;
        let request = self.serial;
        self.requests.insert(
            request,
            Request {
                node: number,
                session,
                op,
                outcome: None,
                answered: false,
            },
        );
        let calm = self.quiet();
        let lost = cut_off || !calm && self.chance(40);
        if !lost {
            // Some are very late: what was sent again may overtake them.
            let late = !calm && self.chance(60);
            let delay_ms = if late {
                self.below(15_000)
            } else {
                1 + self.below(40)
            };
            self.schedule(self.now_ms + delay_ms, Due::Execute { request });
        }
        self.schedule(self.now_ms + REQUEST_MS, Due::ReadBack { request });
        request
    }

    fn execute(&mut self, request: u64) {
        let Some(op) = self
            .requests
            .get(&request)
            .map(|request| request.op.clone())
        else {
            return;
        };
        let outcome = match &op {
            Op::Swap {
                key,
                value,
                revision,
            } if self.revision_of(key) == *revision => {
                Outcome::Done(self.write(key, value.clone()))
            }
            Op::Append { record, expected } if self.last_of(&record.node) == *expected => {
                self.log.push(record.clone());
                let seq = self.log.len() as u64;
                self.news.push(News::Log {
                    seq,
                    record: record.clone(),
                });
                Outcome::Done(seq)
            }
            op => self.found(op),
        };
        if let Some(request) = self.requests.get_mut(&request) {
            request.outcome = Some(outcome);
        }
        if self.quiet() || !self.chance(40) {
            let delay_ms = 1 + self.below(40);
            self.schedule(self.now_ms + delay_ms, Due::Answer { request });
        }
    }

    /// What somebody reads who does not know what became of a request.
    fn found(&self, op: &Op) -> Outcome {
        match op {
            Op::Swap {
                key,
                value,
                revision,
            } => match self.keys.get(key) {
                Some((now, there)) if now > revision && there == value => Outcome::Done(*now),
                found if found.map_or(0, |(now, _)| *now) != *revision => Outcome::Lost,
                _ => Outcome::Unknown,
            },
            Op::Append { record, expected } => {
                let there = self.log.iter().position(|other| other.id == record.id);
                match there {
                    Some(at) => Outcome::Done(at as u64 + 1),
                    None if self.last_of(&record.node) != *expected => Outcome::Lost,
                    None => Outcome::Unknown,
                }
            }
        }
    }

    fn answer(&mut self, request: u64) {
        let Some(outcome) = self
            .requests
            .get(&request)
            .and_then(|request| request.outcome)
        else {
            return;
        };
        self.deliver(request, outcome);
    }

    fn read_back(&mut self, request: u64) {
        let Some(known) = self.requests.get(&request) else {
            return;
        };
        if known.answered {
            return;
        }
        if self.cut_off(known.node) {
            self.schedule(self.now_ms + REQUEST_MS, Due::ReadBack { request });
            return;
        }
        let outcome = self.found(&known.op);
        self.deliver(request, outcome);
    }

    fn deliver(&mut self, number: u64, outcome: Outcome) {
        let Some(request) = self.requests.get_mut(&number) else {
            return;
        };
        if request.answered {
            return;
        }
        let at = request.node;
        // Who is stopped or cut off hears it afterwards.
        let later_ms = self.nodes[at]
            .paused_until_ms
            .max(self.nodes[at].cut_off_until_ms);
        if later_ms > self.now_ms {
            request.outcome.get_or_insert(outcome);
            self.schedule(later_ms + 1, Due::Answer { request: number });
            return;
        }
        request.answered = true;
        let (session, op) = (request.session, request.op.clone());
        let mut node = self.nodes[at].take();
        node.answered(self, session, number, &op, outcome);
        self.nodes[at] = node;
    }

    pub fn revision_of(&self, key: &str) -> u64 {
        self.keys.get(key).map_or(0, |(revision, _)| *revision)
    }

    /// The number of the last record of a node's subject.
    pub fn last_of(&self, node: &str) -> u64 {
        let last = self.log.iter().rposition(|record| record.node == node);
        last.map_or(0, |at| at as u64 + 1)
    }

    fn write(&mut self, key: &str, value: Option<Value>) -> u64 {
        self.revision += 1;
        let revision = self.revision;
        self.keys.insert(key.to_owned(), (revision, value.clone()));
        self.news.push(News::Key {
            key: key.to_owned(),
            revision,
            value,
        });
        revision
    }

    fn fault(&mut self) {
        if self.quiet() {
            return;
        }
        let at = self.below(self.nodes.len() as u64) as usize;
        let now_ms = self.now_ms;
        let long_ms = 500 + self.below(4 * LEASE_MS);
        match self.below(6) {
            0 => self.nodes[at].paused_until_ms = now_ms + long_ms,
            1 => self.nodes[at].cut_off_until_ms = now_ms + long_ms,
            2 | 3 => {
                let keeps_disk = self.chance(2);
                let incarnation = self.next();
                self.nodes[at].fall(now_ms + long_ms / 2, keeps_disk, incarnation);
            }
            4 => {
                let name = self.nodes[at].name.clone();
                self.drain(&name);
            }
            _ => {}
        }
        let pause_ms = 1_000 + self.below(12_000);
        self.schedule(now_ms + pause_ms, Due::Fault);
    }

    /// A person has a node drained, or takes it back.
    fn drain(&mut self, node: &str) {
        if let Some((_, Some(Value::Control(control)))) = self.keys.get("control").cloned() {
            let mut control = control;
            if !control.draining.remove(node) {
                control.draining.insert(node.to_owned());
            }
            self.write("control", Some(Value::Control(control)));
        }
    }
}
