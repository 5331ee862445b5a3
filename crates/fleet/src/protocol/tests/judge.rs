//! Judges what a schedule left: the log, and what was asked of the Web.

use super::super::LogEvent;
use super::world::{PARTITIONS, Part, Value, What, World};
use crate::status::Wish;
use std::collections::{BTreeMap, BTreeSet};

/// What happened, for people who wonder whether anything did.
#[derive(Debug, Default)]
pub struct Seen {
    pub commits: u64,
    pub refused_commits: u64,
    pub sealed: u64,
    pub released: u64,
    pub asks: u64,
    pub epochs: u64,
    pub from_checkpoints: u64,
    /// Who began to take a partition over and was lost before it had.
    pub late_adopters: u64,
    pub gone: u64,
    pub deleted: u64,
}

impl Seen {
    pub fn add(&mut self, other: &Self) {
        self.commits += other.commits;
        self.refused_commits += other.refused_commits;
        self.sealed += other.sealed;
        self.released += other.released;
        self.asks += other.asks;
        self.epochs += other.epochs;
        self.from_checkpoints += other.from_checkpoints;
        self.late_adopters += other.late_adopters;
        self.gone += other.gone;
        self.deleted += other.deleted;
    }
}

pub fn judge(world: &World) -> Seen {
    let mut seen = one_owner(world);
    asks_one_after_the_other(world);
    all_held(world);
    seen.asks = world.asks.len() as u64;
    seen.refused_commits = world.refused_commits;
    seen.from_checkpoints = world.from_checkpoints;
    seen.late_adopters = world.late_adopters;
    seen.gone = world.gone.len() as u64;
    seen.deleted = world.deleted;
    seen
}

/// In the log's order: each epoch of a partition has one owner, epochs follow each other, and nothing comes after its
/// owner's end.
fn one_owner(world: &World) -> Seen {
    let seed = world.seed;
    let mut seen = Seen::default();
    let mut owners: BTreeMap<u16, (u32, String, u64)> = BTreeMap::new();
    let mut over: BTreeSet<(String, u64)> = BTreeSet::new();
    let mut speaks: BTreeMap<String, (u64, u64)> = BTreeMap::new();
    let mut released: BTreeSet<(u16, u32)> = BTreeSet::new();
    for (at, record) in world.log.iter().enumerate() {
        let life = (record.node.clone(), record.incarnation);
        match &record.what {
            What::Event(LogEvent::Joined { .. }) => {
                assert!(
                    !over.contains(&life),
                    "seed {seed}, record {at}: {life:?} joins after its end"
                );
                if let Some((other, _)) =
                    speaks.insert(record.node.clone(), (record.incarnation, record.session))
                    && other != record.incarnation
                {
                    over.insert((record.node.clone(), other));
                }
            }
            What::Event(LogEvent::Sealed { .. }) => {
                over.insert(life);
                seen.sealed += 1;
            }
            What::Event(LogEvent::Released {
                partition, epoch, ..
            }) => {
                assert!(
                    !over.contains(&life),
                    "seed {seed}, record {at}: {life:?} releases after its end"
                );
                released.insert((*partition, *epoch));
                seen.released += 1;
            }
            What::Event(LogEvent::Other) => {}
            What::Checkpoint(told) => {
                assert!(
                    !over.contains(&life) && !released.contains(&(told.partition, told.epoch)),
                    "seed {seed}, record {at}: {told:?} comes too late"
                );
            }
            What::Commit { parts, .. } => {
                seen.commits += 1;
                assert!(
                    !over.contains(&life),
                    "seed {seed}, record {at}: {life:?} commits after its end"
                );
                assert_eq!(
                    speaks.get(&record.node),
                    Some(&(record.incarnation, record.session)),
                    "seed {seed}, record {at}: another process spoke for {life:?}"
                );
                for &Part {
                    partition, epoch, ..
                } in parts
                {
                    assert!(
                        !released.contains(&(partition, epoch)),
                        "seed {seed}, record {at}: {partition} was released"
                    );
                    let owner = (epoch, record.node.clone(), record.incarnation);
                    let before = owners.insert(partition, owner.clone());
                    let follows = before
                        .as_ref()
                        .is_none_or(|before| before.0 < epoch || *before == owner);
                    assert!(
                        follows,
                        "seed {seed}, record {at}: partition {partition}: {before:?}, then {owner:?}"
                    );
                }
            }
        }
    }
    seen.epochs = owners.values().map(|(epoch, ..)| u64::from(*epoch)).sum();
    seen
}

/// Nobody asks for an owner's hosts after a later owner has begun to.
fn asks_one_after_the_other(world: &World) {
    let mut newest: BTreeMap<u16, (u32, String, u64)> = BTreeMap::new();
    for ask in &world.asks {
        let owner = (ask.epoch, ask.node.clone(), ask.session);
        let before = newest.insert(ask.partition, owner.clone());
        let follows = before.as_ref().is_none_or(|before| {
            before.0 < ask.epoch || before.0 == ask.epoch && before.1 == ask.node
        });
        assert!(
            follows,
            "seed {}: at {} ms {before:?}, then {owner:?}",
            world.seed, ask.at_ms
        );
    }
}

/// Once faults are over, every partition comes to a node that is there: only then can the crawl be found to have ended. Where
/// all nodes are drained, nobody holds anything.
fn all_held(world: &World) {
    let seed = world.seed;
    let Some((_, Some(Value::Assignment(assignment)))) = world.keys.get("assignment") else {
        panic!("seed {seed}: no assignment");
    };
    let Some((_, Some(Value::Control(control)))) = world.keys.get("control") else {
        panic!("seed {seed}: no control");
    };
    let drained = |name: &String| control.draining.contains(name);
    let all_drained = world.nodes.iter().all(|node| drained(&node.name));
    let at_rest = match all_drained {
        true => assignment.free() == usize::from(PARTITIONS) || control.wish == Wish::Complete,
        false => control.wish == Wish::Complete,
    };
    assert!(at_rest, "seed {seed}: {control:?} {assignment:?}");
}
