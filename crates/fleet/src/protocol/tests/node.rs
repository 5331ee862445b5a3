//! A simulated node: what `crate::node` does with the same decisions, on the simulated servers.

use super::super::{
    Action, Coordinator, Duties, Holder, Keeper, KeeperAction, LeaseRecord, LogEvent, Patience,
    Renewal,
};
use super::coordinating::coordinated;
use super::keeping::{Adopting, Trimming};
use super::world::{Ask, LEASE_MS, News, Op, Outcome, Record, Value, What, World};
use crate::instructions::Instruction;
use crate::records::Checkpoint;
use crate::status::{NodeStatus, PartitionStatus, Reported, Wish};
use std::collections::BTreeMap;

#[derive(Debug, Default)]
pub struct SimNode {
    pub(super) number: usize,
    pub name: String,
    /// How fast its clock goes.
    pub(super) pace: f64,
    pub(super) incarnation: u64,
    /// Has this incarnation never joined?
    pub(super) fresh: bool,
    pub(super) place: u64,
    pub paused_until_ms: u64,
    pub cut_off_until_ms: u64,
    pub(super) down_until_ms: u64,
    pub(super) session: u64,
    pub(super) life: Option<Life>,
    pub(super) joining: Joining,
    /// By partition and epoch: the last entry when it came.
    pub(super) disk: BTreeMap<(u16, u32), u64>,
    pub(super) trimming: Trimming,
}

#[derive(Debug, Default)]
pub struct Joining {
    watched: Option<(u64, u64)>,
    under_way: Option<u64>,
    lease: Option<(u64, u64)>,
}

#[derive(Debug)]
pub struct Life {
    pub(super) keeper: Keeper,
    pub(super) renewing: Option<u64>,
    pub(super) renewed: u64,
    pub(super) until_ms: u64,
    pub(super) duties: Duties,
    pub(super) held: BTreeMap<u16, Held>,
    pub(super) heard: usize,
    pub(super) look: u64,
    pub(super) wish: Wish,
    pub(super) last: u64,
    pub(super) shipping: Option<(u64, Record)>,
    pub(super) reported_ms: u64,
    pub(super) coordinating: Coordinating,
}

#[derive(Debug)]
pub struct Held {
    pub(super) epoch: u32,
    releasing: bool,
    /// The last entry that is shipped.
    pub(super) applied: u64,
    pub(super) adopting: Option<Adopting>,
    /// Of its newest checkpoint.
    pub(super) pieces: Vec<String>,
    /// A checkpoint that is in the store and was not told of yet, and the one that was told of last.
    pub(super) putting: Option<Checkpoint>,
    pub(super) told: Option<Checkpoint>,
}

impl Held {
    pub(super) fn new(epoch: u32) -> Self {
        Self {
            epoch,
            releasing: false,
            applied: 0,
            adopting: None,
            pieces: Vec::new(),
            putting: None,
            told: None,
        }
    }
}

#[derive(Debug, Default)]
pub struct Coordinating {
    pub(super) watched: (u64, u64),
    pub(super) taking: Option<(u64, u64)>,
    pub(super) machine: Option<(Keeper, u64, Coordinator, usize)>,
    pub(super) renewing: Option<u64>,
    pub(super) renewed: u64,
    pub(super) doing: BTreeMap<u64, Action>,
    /// Told to the machine at the next step.
    pub(super) done: Vec<Action>,
}

impl SimNode {
    pub fn new(number: usize, pace: f64, incarnation: u64) -> Self {
        let name = format!("n{number}");
        Self {
            number,
            name,
            pace,
            incarnation,
            fresh: true,
            place: incarnation,
            ..Self::default()
        }
    }

    pub fn take(&mut self) -> Self {
        let kept = Self {
            name: self.name.clone(),
            paused_until_ms: self.paused_until_ms,
            cut_off_until_ms: self.cut_off_until_ms,
            ..Self::default()
        };
        std::mem::replace(self, kept)
    }

    /// The process dies, and perhaps its disk.
    pub fn fall(&mut self, until_ms: u64, keeps_disk: bool, incarnation: u64) {
        self.life = None;
        self.joining = Joining::default();
        self.session = 0;
        self.trimming.stop();
        self.down_until_ms = until_ms;
        if !keeps_disk {
            self.begin_anew(incarnation);
            self.place = incarnation;
        }
    }

    fn begin_anew(&mut self, incarnation: u64) {
        self.life = None;
        self.joining = Joining::default();
        self.session = 0;
        self.disk.clear();
        self.incarnation = incarnation;
        self.fresh = true;
    }

    pub(super) fn clock(&self, world: &World) -> u64 {
        (world.now_ms as f64 * self.pace) as u64 + 1_000_000 * self.number as u64
    }

    pub(super) fn cut_off(&self, world: &World) -> bool {
        world.now_ms < self.cut_off_until_ms
    }

    pub(super) fn send(&self, world: &mut World, op: Op) -> u64 {
        world.send(self.number, self.session, op, self.cut_off(world))
    }

    pub(super) fn record(&self, world: &mut World, what: What) -> Record {
        Record {
            node: self.name.clone(),
            incarnation: self.incarnation,
            session: self.session,
            id: world.next(),
            what,
        }
    }

    pub fn step(&mut self, world: &mut World) {
        if world.now_ms < self.down_until_ms {
            return;
        }
        match self.life.take() {
            None => self.join(world),
            Some(mut life) => {
                let fenced = self.live(&mut life, world);
                match fenced {
                    true => {
                        let incarnation = world.next();
                        self.begin_anew(incarnation);
                    }
                    false => self.life = Some(life),
                }
            }
        }
    }

    fn lease(&self, renewed: u64) -> Value {
        Value::Lease(LeaseRecord {
            incarnation: self.incarnation,
            session: self.session,
            place: self.place.to_string(),
            weight: 1.0,
            renewed,
            program: String::new(),
        })
    }

    fn join(&mut self, world: &mut World) {
        if self.joining.under_way.is_some() || self.cut_off(world) {
            return;
        }
        if self.session == 0 {
            self.session = world.next();
        }
        let key = format!("lease.{}", self.name);
        let now_ms = self.clock(world);
        let (revision, value) = world.keys.get(&key).cloned().unwrap_or_default();
        let others =
            matches!(&value, Some(Value::Lease(held)) if held.place != self.place.to_string());
        if others {
            let (watched, since_ms) = *self.joining.watched.get_or_insert((revision, now_ms));
            let patience = Patience::of(LEASE_MS);
            if watched != revision {
                self.joining.watched = None;
                return;
            }
            if now_ms <= since_ms + patience.lease_ms + patience.margin_ms {
                return;
            }
        }
        self.joining.lease = Some((0, now_ms));
        let op = Op::Swap {
            key,
            value: Some(self.lease(0)),
            revision,
        };
        self.joining.under_way = Some(self.send(world, op));
    }

    /// The lease is taken: `Joined` comes next, after the last record of the subject.
    fn append_joined(&mut self, world: &mut World) {
        let last = world.last_of(&self.name);
        let before = last.checked_sub(1).map(|at| world.log[at as usize].clone());
        let known = before
            .as_ref()
            .is_some_and(|record| record.incarnation == self.incarnation);
        let sealed = before
            .is_some_and(|record| matches!(record.what, What::Event(LogEvent::Sealed { .. })));
        if known && sealed || !known && !self.fresh {
            let incarnation = world.next();
            self.begin_anew(incarnation);
            return;
        }
        let incarnation = self.incarnation;
        let record = self.record(world, What::Event(LogEvent::Joined { incarnation }));
        self.joining.under_way = Some(self.send(
            world,
            Op::Append {
                record,
                expected: last,
            },
        ));
    }

    fn joined(&mut self, seq: u64) {
        let (revision, sent_ms) = self.joining.lease.expect("the lease was taken");
        self.joining = Joining::default();
        self.fresh = false;
        let keeper = Keeper::new(LEASE_MS, revision, sent_ms);
        let me = Holder {
            node: self.name.clone(),
            incarnation: self.incarnation,
        };
        self.life = Some(Life {
            until_ms: keeper.first_deadline_ms(),
            keeper,
            renewing: None,
            renewed: 1,
            duties: Duties::new(me, seq),
            held: BTreeMap::new(),
            heard: 0,
            look: 0,
            wish: Wish::Run,
            last: seq,
            shipping: None,
            reported_ms: 0,
            coordinating: Coordinating::default(),
        });
    }

    /// Is this life over?
    fn live(&mut self, life: &mut Life, world: &mut World) -> bool {
        let now_ms = self.clock(world);
        if !self.cut_off(world) && self.hear(life, world) {
            return true;
        }
        if let Some(KeeperAction::Renew { revision }) = life.keeper.tick(now_ms) {
            let key = format!("lease.{}", self.name);
            let value = Some(self.lease(life.renewed));
            life.renewing = Some(self.send(
                world,
                Op::Swap {
                    key,
                    value,
                    revision,
                },
            ));
        }
        if !self.cut_off(world) && self.finish_adopting(life, world) {
            return true;
        }
        if now_ms < life.until_ms {
            for (&partition, held) in &life.held {
                let (node, session, epoch) = (self.name.clone(), self.session, held.epoch);
                if !held.releasing && held.adopting.is_none() {
                    world.asks.push(Ask {
                        at_ms: world.now_ms,
                        node,
                        session,
                        partition,
                        epoch,
                    });
                }
            }
        }
        self.ship(life, world);
        self.report(life, world);
        self.coordinate(life, world);
        false
    }

    /// Followers lag: each step some of the news is read.
    fn hear(&mut self, life: &mut Life, world: &mut World) -> bool {
        let most = if world.quiet() {
            1_000
        } else {
            world.below(12) as usize
        };
        let end = world.news.len().min(life.heard + most);
        for at in life.heard..end {
            let News::Key {
                value: Some(value), ..
            } = &world.news[at]
            else {
                continue;
            };
            match value {
                Value::Control(control) => (life.look, life.wish) = (control.look, control.wish),
                Value::Assignment(assignment) => {
                    let orders = life.duties.read(assignment);
                    for order in orders {
                        match order {
                            Instruction::Adopt {
                                partition,
                                epoch,
                                log_end,
                            } => self.adopt(life, world, (partition.0, epoch, log_end)),
                            Instruction::Release { partition, .. } => {
                                if let Some(held) = life.held.get_mut(&partition.0) {
                                    held.releasing = true;
                                }
                            }
                            Instruction::Fenced(_) => return true,
                            _ => {}
                        }
                    }
                }
                _ => {}
            }
        }
        life.heard = end;
        false
    }

    /// A commit of all that is held, or, where something is to be released, that it is.
    fn ship(&mut self, life: &mut Life, world: &mut World) {
        if life.shipping.is_some() || life.held.is_empty() || world.below(6) != 0 {
            return;
        }
        let mut held = life.held.iter();
        let releasing = held.find(|(_, held)| held.releasing && held.adopting.is_none());
        let what = match releasing {
            Some((&partition, held)) => {
                let (incarnation, epoch) = (self.incarnation, held.epoch);
                What::Event(LogEvent::Released {
                    incarnation,
                    partition,
                    epoch,
                })
            }
            None if world.below(3) == 0 => match self.checkpoint(life, world) {
                Some(what) => what,
                None => return,
            },
            None => self.commit(life, world),
        };
        let record = self.record(world, what);
        let op = Op::Append {
            record: record.clone(),
            expected: life.last,
        };
        life.shipping = Some((self.send(world, op), record));
    }

    fn report(&mut self, life: &mut Life, world: &mut World) {
        if world.now_ms < life.reported_ms + 1_000 || self.cut_off(world) {
            return;
        }
        life.reported_ms = world.now_ms;
        // While faults happen there is always something due.
        let exhausted = world.quiet();
        let of = |(&partition, held): (&u16, &Held)| PartitionStatus {
            partition,
            epoch: held.epoch,
            sent: 5,
            heard: 5,
            exhausted,
            settled: true,
            ..PartitionStatus::default()
        };
        let held = life.held.iter();
        let adopted = held.filter(|(_, held)| held.adopting.is_none());
        let partitions = adopted.map(of).collect();
        let status = NodeStatus {
            look: life.look,
            partitions,
            ..NodeStatus::default()
        };
        let reported = Reported {
            incarnation: self.incarnation,
            session: self.session,
            status,
            ..Reported::default()
        };
        world.news.push(News::Reported {
            node: self.name.clone(),
            reported,
        });
    }

    /// A request has come to an end.
    pub fn answered(
        &mut self,
        world: &mut World,
        session: u64,
        request: u64,
        op: &Op,
        outcome: Outcome,
    ) {
        if session != self.session {
            return;
        }
        let now_ms = self.clock(world);
        self.noted(request, outcome);
        if self.joining.under_way == Some(request) {
            self.joining.under_way = None;
            match (op, outcome) {
                (Op::Swap { .. }, Outcome::Done(revision)) => {
                    self.joining.lease = self.joining.lease.map(|(_, sent_ms)| (revision, sent_ms));
                    self.append_joined(world);
                }
                (Op::Append { .. }, Outcome::Done(seq)) => self.joined(seq),
                (Op::Append { .. }, _) => self.append_joined(world),
                (Op::Swap { .. }, _) => {}
            }
            return;
        }
        let Some(mut life) = self.life.take() else {
            return;
        };
        let over = self.concluded(&mut life, world, request, outcome, now_ms);
        match over {
            true => {
                let incarnation = world.next();
                self.begin_anew(incarnation);
            }
            false => self.life = Some(life),
        }
    }

    /// Is this life over?
    fn concluded(
        &mut self,
        life: &mut Life,
        world: &mut World,
        request: u64,
        outcome: Outcome,
        now_ms: u64,
    ) -> bool {
        let renewal = match outcome {
            Outcome::Done(revision) => Renewal::Done { revision },
            Outcome::Lost => Renewal::Refused,
            Outcome::Unknown => Renewal::Unknown,
        };
        if life.renewing == Some(request) {
            life.renewing = None;
            life.renewed += u64::from(matches!(outcome, Outcome::Done(_)));
            match life.keeper.renewed(renewal, now_ms) {
                Some(KeeperAction::Holds { until_ms }) => life.until_ms = until_ms,
                Some(KeeperAction::Lost) => return true,
                _ => {}
            }
        } else if life.shipping.as_ref().is_some_and(|(id, _)| *id == request) {
            return self.shipped(life, world, outcome);
        } else {
            coordinated(&mut life.coordinating, request, outcome, renewal, now_ms);
        }
        false
    }

    fn shipped(&mut self, life: &mut Life, world: &mut World, outcome: Outcome) -> bool {
        let Some((_, record)) = life.shipping.take() else {
            return false;
        };
        match outcome {
            Outcome::Done(seq) => {
                life.last = seq;
                for part in record.parts() {
                    let held = life.held.get_mut(&part.partition);
                    let held = held.filter(|held| held.epoch == part.epoch);
                    held.into_iter()
                        .for_each(|held| held.applied = part.to.max(held.applied));
                }
                if let What::Event(LogEvent::Released {
                    partition, epoch, ..
                }) = record.what
                {
                    // It may have come back under another epoch before this was heard.
                    life.held
                        .retain(|number, held| *number != partition || held.epoch != epoch);
                }
                false
            }
            // The same record again.
            Outcome::Unknown => {
                let op = Op::Append {
                    record: record.clone(),
                    expected: life.last,
                };
                life.shipping = Some((self.send(world, op), record));
                false
            }
            Outcome::Lost => {
                world.refused_commits += 1;
                true
            }
        }
    }
}
