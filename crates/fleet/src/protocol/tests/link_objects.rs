//! Links in the store under random schedules: senders that stand still between putting an object and naming it, answers that
//! come late, hearers that die before they ship what they heard, whoever throws away being late with everything, and clocks
//! of different pace. No forward that counts as sent may be lost with its object, and in the end no object is left.

use super::super::{LinkObjects, named_within_ms};
use super::number;
use portolan_model::PartitionId;
use std::collections::{BTreeMap, BTreeSet};

const SEEDS: u64 = 400;
const LEASE_MS: u64 = 1_000;
const TO: PartitionId = PartitionId(7);
const FORWARDS: u32 = 30;
const STEP_MS: u64 = 50;
/// Until then things go wrong; afterwards everything comes to its end.
const ROUGH_MS: u64 = 120_000;
const END_MS: u64 = 400_000;

#[derive(Default)]
struct Seen {
    thrown_away: u64,
    gone_before_read: u64,
    sent_again: u64,
}

struct World {
    seed: u64,
    random: u64,
    now_ms: u64,
    objects: BTreeMap<String, u32>,
    named: u64,
    /// What is in the stream: numbers, and the objects that are named.
    stream: Vec<(u64, String)>,
    last: u64,
    /// Forwards whose senders have been told that they are there.
    sent: BTreeSet<u32>,
    seen: Seen,
}

/// One forward on its way.
struct Sender {
    forward: u32,
    /// Its clock by the world's.
    pace: f64,
    begun_ms: u64,
    step: Step,
    ready_ms: u64,
}

enum Step {
    Begin,
    Put,
    Name(String),
    Answer,
}

/// Whoever holds the destination, one life after the other.
#[derive(Default)]
struct Hearer {
    cursor: u64,
    shipped: u64,
    /// What this life has heard, and what was shipped of that.
    heard: BTreeSet<u32>,
    kept: BTreeSet<u32>,
    /// A message that was read, and whose object is fetched.
    fetching: Option<(u64, String, u64)>,
}

/// Whoever throws away, one after the other.
struct Sweeper {
    objects: LinkObjects,
    pace: f64,
    wants: Vec<(PartitionId, u64)>,
    /// What its ledger knows to be heard.
    heard: u64,
    delete: Vec<String>,
    ready_ms: u64,
}

impl World {
    fn below(&mut self, bound: u64) -> u64 {
        self.random = self.random.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.random;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (z ^ (z >> 31)) % bound
    }

    /// Mostly short; while things go wrong, now and then longer than anybody waits.
    fn pause_ms(&mut self) -> u64 {
        match self.now_ms < ROUGH_MS && self.below(6) == 0 {
            true => self.below(2 * named_within_ms(LEASE_MS)),
            false => self.below(300),
        }
    }

    fn pace(&mut self) -> f64 {
        0.97 + self.below(60) as f64 / 1_000.0
    }
}

impl Sender {
    fn step(&mut self, world: &mut World) {
        if world.now_ms < self.ready_ms {
            return;
        }
        let now_ms = (world.now_ms as f64 * self.pace) as u64;
        match std::mem::replace(&mut self.step, Step::Answer) {
            Step::Begin => {
                self.begun_ms = now_ms;
                self.step = Step::Put;
            }
            Step::Put => {
                world.named += 1;
                let key = format!("{:05}", world.named);
                world.objects.insert(key.clone(), self.forward);
                self.step = Step::Name(key);
            }
            Step::Name(key) => {
                world.last += 1;
                world.stream.push((world.last, key));
            }
            Step::Answer => {
                self.step = Step::Begin;
                if now_ms > self.begun_ms + named_within_ms(LEASE_MS) {
                    world.seen.sent_again += 1;
                } else {
                    world.sent.insert(self.forward);
                }
            }
        }
        self.ready_ms = world.now_ms + world.pause_ms();
    }
}

impl Hearer {
    fn step(&mut self, world: &mut World) {
        if let Some((seq, key, _)) = self.fetching.take_if(|(.., ready)| *ready <= world.now_ms) {
            match world.objects.get(&key) {
                Some(forward) => drop(self.heard.insert(*forward)),
                None => world.seen.gone_before_read += 1,
            }
            self.cursor = seq;
        }
        if self.fetching.is_none() {
            let next = world.stream.iter().find(|(seq, _)| *seq > self.cursor);
            if let Some((seq, key)) = next.cloned() {
                self.fetching = Some((seq, key, world.now_ms + world.pause_ms()));
            }
        }
        match world.below(60) {
            0 | 1 => {
                (self.shipped, self.kept) = (self.cursor, self.heard.clone());
                let shipped = self.shipped;
                world.stream.retain(|(seq, _)| *seq > shipped);
            }
            2 if world.now_ms < ROUGH_MS => {
                // Another one goes on from what was shipped.
                (self.cursor, self.heard) = (self.shipped, self.kept.clone());
                self.fetching = None;
            }
            _ => {}
        }
    }
}

impl Sweeper {
    fn new(world: &mut World) -> Self {
        Self {
            objects: LinkObjects::new(LEASE_MS),
            pace: world.pace(),
            wants: Vec::new(),
            heard: 0,
            delete: Vec::new(),
            ready_ms: 0,
        }
    }

    fn step(&mut self, world: &mut World, hearer: &Hearer) {
        if world.now_ms < self.ready_ms {
            return;
        }
        let now_ms = (world.now_ms as f64 * self.pace) as u64;
        if let Some(key) = self.delete.pop() {
            world.seen.thrown_away += u64::from(world.objects.remove(&key).is_some());
        } else if let Some((partition, asked_ms)) = self.wants.pop() {
            let last = world.stream.last().map_or(0, |(seq, _)| *seq);
            self.objects.note_last(partition, last, asked_ms);
        } else {
            self.delete = self.objects.spent(|_| self.heard);
            let listed = world.objects.keys().map(|key| (key.clone(), TO));
            self.objects.list(listed.collect::<Vec<_>>(), now_ms);
            let wanted = self.objects.wanted(now_ms).into_iter();
            self.wants = wanted.map(|partition| (partition, now_ms)).collect();
            self.heard = hearer.shipped;
        }
        self.ready_ms = world.now_ms + world.pause_ms();
    }
}

fn run(seed: u64) -> Seen {
    let mut world = World {
        seed,
        random: seed,
        now_ms: 0,
        objects: BTreeMap::new(),
        named: 0,
        stream: Vec::new(),
        last: 0,
        sent: BTreeSet::new(),
        seen: Seen::default(),
    };
    let mut senders: Vec<Sender> = Vec::new();
    for forward in 0..FORWARDS {
        senders.push(Sender {
            forward,
            pace: world.pace(),
            begun_ms: 0,
            step: Step::Begin,
            ready_ms: world.below(ROUGH_MS),
        });
    }
    let mut hearer = Hearer::default();
    let mut sweepers = [Sweeper::new(&mut world), Sweeper::new(&mut world)];
    while world.now_ms < END_MS {
        for sender in &mut senders {
            sender.step(&mut world);
        }
        senders.retain(|sender| !world.sent.contains(&sender.forward));
        hearer.step(&mut world);
        for sweeper in &mut sweepers {
            sweeper.step(&mut world, &hearer);
            if world.now_ms < ROUGH_MS && world.below(4_000) == 0 {
                *sweeper = Sweeper::new(&mut world);
            }
        }
        world.now_ms += STEP_MS;
    }
    let seed = world.seed;
    assert!(senders.is_empty(), "seed {seed}: some were never sent");
    let lost: Vec<_> = world.sent.difference(&hearer.kept).collect();
    assert!(lost.is_empty(), "seed {seed}: {lost:?} are lost");
    let left: Vec<_> = world.objects.keys().collect();
    assert!(left.is_empty(), "seed {seed}: {left:?} are left");
    world.seen
}

#[test]
fn links_in_the_store_go_once_they_are_heard_and_no_sooner() {
    let seeds = match number("FLEET_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("FLEET_SEEDS").unwrap_or(SEEDS),
    };
    let count = seeds.end - seeds.start;
    let mut sum = Seen::default();
    for seed in seeds {
        let seen = run(seed);
        sum.thrown_away += seen.thrown_away;
        sum.gone_before_read += seen.gone_before_read;
        sum.sent_again += seen.sent_again;
    }
    let Seen {
        thrown_away,
        gone_before_read,
        sent_again,
    } = sum;
    println!(
        "{count} schedules: {thrown_away} objects thrown away, {gone_before_read} of them before they were read, {sent_again} sent again"
    );
    // A schedule in which nothing goes wrong would prove nothing.
    if count >= SEEDS {
        assert!(thrown_away >= count * u64::from(FORWARDS));
        assert!(gone_before_read > 0 && sent_again > count);
    }
}
