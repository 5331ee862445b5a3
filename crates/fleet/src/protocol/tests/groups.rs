//! Groups under a hub under random schedules: coordinators that are late or replaced while they go on, ferries that begin
//! anew beside each other, acknowledgements that are lost, a hub that goes away, a person who stops and goes on. The crawl must
//! not be found to have ended before every link was heard, links must not overtake each other, and in the end it must
//! end. A schedule is one number: `FLEET_SEED=n cargo test -p portolan-fleet groups_end` runs it alone.

mod leading;

use self::leading::Chair;
use super::super::{Above, Answer, Assignment, Control, Event};
use super::number;
use crate::status::{NodeStatus, PartitionStatus, Reported, Wish};
use std::collections::{BTreeMap, VecDeque};

const SEEDS: u64 = 150;
const STEP_MS: u64 = 50;
/// Faults happen until then; afterwards there is time to come to rest.
const FAULTS_MS: u64 = 60_000;
const END_MS: u64 = 180_000;

/// A link on its way; a message holds one.
#[derive(Clone, Copy, Debug)]
struct Link {
    source: u16,
    to: u16,
    number: u64,
    predecessor: u64,
}

#[derive(Debug, Default)]
struct Partition {
    /// What is to be fetched.
    due: u64,
    sent: u64,
    heard: u64,
    /// The last number for each destination, and from each source.
    last_to: BTreeMap<u16, u64>,
    last_from: BTreeMap<u16, u64>,
    /// Journalled and not published yet.
    outbox: VecDeque<Link>,
    /// The link stream, and how far it was read.
    inbox: Vec<Link>,
    read: usize,
}

struct Group {
    assignment: (u64, Assignment),
    control: (u64, Control),
    chairs: Vec<Chair>,
    /// Messages for other groups, by their numbers; `None`: removed.
    up: Vec<Option<Link>>,
    reported: u64,
    reported_ms: u64,
    /// The control as its node knows it.
    heard: Control,
}

#[derive(Debug, Default)]
struct Seen {
    links: u64,
    across: u64,
    twice: u64,
    looks: u64,
    replaced: u64,
    away_ms: u64,
    wishes: u64,
}

struct World {
    seed: u64,
    random: u64,
    now_ms: u64,
    names: Vec<String>,
    owners: Vec<usize>,
    groups: Vec<Group>,
    partitions: Vec<Partition>,
    above: (u64, Above),
    reports: BTreeMap<String, Option<Answer>>,
    away_until_ms: u64,
    /// Links that may still be found.
    left: u64,
    /// All messages that were ever in `up` streams, by group and number.
    read: BTreeMap<(usize, u64), Link>,
    seen: Seen,
}

impl World {
    fn new(seed: u64) -> Self {
        let mut world = Self {
            seed,
            random: seed ^ 0x5eed,
            now_ms: 0,
            names: Vec::new(),
            owners: Vec::new(),
            groups: Vec::new(),
            partitions: Vec::new(),
            above: (0, Above::default()),
            reports: BTreeMap::new(),
            away_until_ms: 0,
            left: 0,
            read: BTreeMap::new(),
            seen: Seen::default(),
        };
        let groups = 2 + world.below(2) as usize;
        world.left = 100 + world.below(600);
        world.names = (0..groups).map(|number| format!("s{number}")).collect();
        world.owners = (0..2 * groups)
            .map(|partition| partition % groups)
            .collect();
        world.partitions = world.owners.iter().map(|_| Partition::default()).collect();
        world.partitions[0].due = 3;
        let partitions = world.owners.len() as u16;
        for number in 0..groups {
            let is_mine = |partition: u16| world.owners[usize::from(partition)] == number;
            world.groups.push(Group {
                assignment: (1, Assignment::of_group(partitions, is_mine)),
                control: (1, Control::default()),
                chairs: Vec::new(),
                up: Vec::new(),
                reported: 0,
                reported_ms: 0,
                heard: Control::default(),
            });
        }
        (0..groups).for_each(|group| world.take_the_chair(group));
        world
    }

    fn below(&mut self, end: u64) -> u64 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.random;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % end
    }

    fn chance(&mut self, of: u64) -> bool {
        self.below(of) == 0
    }

    fn calm(&self) -> bool {
        self.now_ms > FAULTS_MS
    }

    fn is_away(&self) -> bool {
        self.now_ms < self.away_until_ms
    }

    fn run(&mut self) {
        while self.now_ms < END_MS {
            self.now_ms += STEP_MS;
            self.fault();
            for partition in 0..self.partitions.len() {
                self.work(partition);
            }
            for group in 0..self.groups.len() {
                self.report(group);
                let mut chairs = std::mem::take(&mut self.groups[group].chairs);
                chairs.retain(|chair| chair.until_ms > self.now_ms);
                for chair in &mut chairs {
                    if self.calm() || !self.chance(4) {
                        self.chair(group, chair);
                    }
                }
                chairs.append(&mut self.groups[group].chairs);
                self.groups[group].chairs = chairs;
            }
            let over = |group: &Group| group.control.1.wish == Wish::Complete;
            if self.groups.iter().all(over) {
                return;
            }
        }
        panic!(
            "seed {}: no end: {:?} {:?}",
            self.seed, self.above, self.reports
        );
    }

    fn fault(&mut self) {
        if self.calm() {
            if self.above.1.wish == Wish::Stop {
                self.wish(Wish::Run);
            }
            return;
        }
        if self.chance(150) {
            let long_ms = self.below(15_000);
            self.away_until_ms = self.now_ms + long_ms;
            self.seen.away_ms += long_ms;
        }
        if self.chance(200) {
            let group = self.below(self.groups.len() as u64) as usize;
            self.take_the_chair(group);
            self.seen.replaced += 1;
        }
        if self.chance(300) && !self.is_away() {
            let wish = match self.above.1.wish {
                Wish::Run => Wish::Stop,
                _ => Wish::Run,
            };
            self.wish(wish);
        }
    }

    fn wish(&mut self, wish: Wish) {
        if matches!(self.above.1.wish, Wish::Run | Wish::Stop) {
            self.above = (self.above.0 + 1, self.above.1.wished(wish));
            self.seen.wishes += 1;
        }
    }

    /// Fetches, publishes, hears.
    fn work(&mut self, at: usize) {
        let group = self.owners[at];
        let runs = self.groups[group].heard.wish == Wish::Run;
        if runs && self.partitions[at].due > 0 && self.chance(3) {
            self.partitions[at].due -= 1;
            let links = self.below(5).min(self.left);
            self.left -= links;
            for _ in 0..links {
                let to = self.below(self.partitions.len() as u64) as u16;
                self.find(at as u16, to);
            }
        }
        if self.chance(2)
            && let Some(link) = self.partitions[at].outbox.pop_front()
        {
            let to = usize::from(link.to);
            match self.owners[to] == group {
                true => self.partitions[to].inbox.push(link),
                false => {
                    self.groups[group].up.push(Some(link));
                    let seq = self.groups[group].up.len() as u64;
                    self.read.insert((group, seq), link);
                }
            }
        }
        let read = self.partitions[at].read;
        if let Some(link) = self.partitions[at].inbox.get(read).copied()
            && self.chance(2)
        {
            self.partitions[at].read += 1;
            self.hear(at, link);
        }
    }

    fn find(&mut self, source: u16, to: u16) {
        self.seen.links += 1;
        self.seen.across +=
            u64::from(self.owners[usize::from(source)] != self.owners[usize::from(to)]);
        let from = &mut self.partitions[usize::from(source)];
        if source == to {
            from.due += 1;
            return;
        }
        from.sent += 1;
        let (number, last) = (from.sent, from.last_to.entry(to).or_default());
        let predecessor = std::mem::replace(last, number);
        from.outbox.push_back(Link {
            source,
            to,
            number,
            predecessor,
        });
    }

    fn hear(&mut self, at: usize, link: Link) {
        let partition = &mut self.partitions[at];
        let last = partition.last_from.entry(link.source).or_default();
        if link.number <= *last {
            self.seen.twice += 1;
            return;
        }
        assert_eq!(
            link.predecessor, *last,
            "seed {}: {link:?} has overtaken another one",
            self.seed
        );
        *last = link.number;
        partition.heard += 1;
        partition.due += 1;
    }

    /// What the group's node says of itself, each second.
    fn report(&mut self, group: usize) {
        if self.calm() || self.chance(10) {
            self.groups[group].heard = self.groups[group].control.1.clone();
        }
        if self.now_ms < self.groups[group].reported_ms + 1_000 {
            return;
        }
        let mut status = NodeStatus {
            look: self.groups[group].heard.look,
            ..NodeStatus::default()
        };
        for (number, partition) in (0_u16..).zip(&self.partitions) {
            let share = &self.groups[group].assignment.1.shares[usize::from(number)];
            if self.owners[usize::from(number)] == group && share.holder.is_some() {
                status.partitions.push(PartitionStatus {
                    partition: number,
                    epoch: share.epoch,
                    sent: partition.sent,
                    heard: partition.heard,
                    exhausted: partition.due == 0,
                    settled: partition.outbox.is_empty(),
                    ..PartitionStatus::default()
                });
            }
        }
        let of = &mut self.groups[group];
        of.reported_ms = self.now_ms;
        of.reported += 1;
        let reported = Reported {
            incarnation: 1,
            session: 1,
            number: of.reported,
            status,
            ..Reported::default()
        };
        for chair in &mut of.chairs {
            let event = Event::Reported {
                node: "n".to_owned(),
                reported: reported.clone(),
            };
            let actions = chair.machine.handle(event, self.now_ms);
            let at_ms = self.now_ms;
            chair
                .late
                .extend(actions.into_iter().map(|action| (at_ms, action)));
        }
    }

    /// Nobody may say that the crawl has ended while anything is left to be done.
    fn judge_the_end(&self) {
        let seed = self.seed;
        for (number, partition) in self.partitions.iter().enumerate() {
            let rest = partition.due + partition.outbox.len() as u64;
            assert_eq!(rest, 0, "seed {seed}: partition {number} has not ended");
        }
        let sum = |of: fn(&Partition) -> u64| self.partitions.iter().map(of).sum::<u64>();
        assert_eq!(
            sum(|of| of.sent),
            sum(|of| of.heard),
            "seed {seed}: links are on their way"
        );
    }
}

#[test]
fn groups_end_together_and_links_keep_their_order() {
    let seeds = match number("FLEET_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("FLEET_SEEDS").unwrap_or(SEEDS),
    };
    let mut sum = Seen::default();
    for seed in seeds.clone() {
        let mut world = World::new(seed);
        world.run();
        let seen = &world.seen;
        sum.links += seen.links;
        sum.across += seen.across;
        sum.twice += seen.twice;
        sum.looks += world.above.1.look;
        sum.replaced += seen.replaced;
        sum.away_ms += seen.away_ms;
        sum.wishes += seen.wishes;
    }
    println!("{} schedules: {sum:?}", seeds.end - seeds.start);
    // A schedule in which nothing happens would prove nothing.
    if seeds.end - seeds.start >= SEEDS {
        assert!(sum.across > 20 * SEEDS && sum.twice > 5 * SEEDS, "{sum:?}");
        assert!(sum.looks > 2 * SEEDS && sum.replaced > SEEDS, "{sum:?}");
    }
}
