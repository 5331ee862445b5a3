//! Registries that hold some of the partitions each, and exchange links over a list that repeats and reorders what it
//! carries, while nodes come, go, die with and without their disks, and hand partitions over; partitions are taken over from
//! checkpoints and the chunks after them, and what nobody needs any more is thrown away. In the end all URLs, states and
//! back-link counts are those of one registry that holds all partitions, and no URL that was shipped was fetched again.

use crate::model::{Random, host_of, scratch};
use portolan_model::{
    DocId, Identities, Link, LinkBatch, LinkKind, Order, Outcome, PartitionId, Pulse, Verdict,
    Visit,
};
use portolan_registry::{
    Chunk, Claim, Entry, Exporter, Forwarded, Homes, InFleet, Journal, Opened, Outbound, Partition,
    Registry, RegistrySettings, Snapshot, Sorted, UrlFilter, UrlState, checkpoint_files,
    lay_manifest,
};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::sync::{Arc, Mutex};
use tempfile::TempDir;

const PARTITIONS: u16 = 7;
const HOSTS: u64 = 40;
const PAGES: u64 = 12;
const CHUNK_BYTES: usize = 20_000;

fn settings(shipped_frames: Option<u64>) -> RegistrySettings {
    RegistrySettings {
        ids: Identities::PUBLIC,
        crawl_id: 7,
        partitions: PARTITIONS,
        order: Order::default(),
        memory_bytes: 200_000,
        checkpoint_log_bytes: 8_000,
        keep_log: false,
        hosts_in_ram: 64,
        prefetch_urls: 3,
        unknown_delay_ms: 10,
        retry_now: false,
        longest_pause_ms: 86_400_000,
        shipped_frames,
        merge_inline: false,
    }
}

fn home(url: &str) -> PartitionId {
    PartitionId::of(host_of(url), PARTITIONS)
}

fn push(
    batches: &mut BTreeMap<PartitionId, LinkBatch>,
    from: Option<DocId>,
    to: PartitionId,
    url: &str,
) {
    let batch = batches.entry(to);
    batch.or_insert_with(|| LinkBatch::new(from)).push(Link {
        url,
        kind: if from.is_none() {
            LinkKind::Seed
        } else {
            LinkKind::Anchor
        },
        depth: 1,
        hops: 0,
        verdict: Verdict::Crawl { priority: 0 },
    });
}

/// A page's links follow from its URL. `at`: where it is due, and so are the other pages of its host.
fn visit(at: PartitionId, url: &str, pulse: Pulse) -> (PartitionId, Entry) {
    let doc = Identities::PUBLIC.doc(url);
    let mut random = Random(doc.0);
    let mut batches = BTreeMap::new();
    for _ in 0..random.below(9) {
        let (host, page) = (random.skewed(HOSTS), random.below(PAGES));
        let target = format!("http://host-{host}.test/page/{page}");
        let to = match host_of(&target) == host_of(url) {
            true => at,
            false => home(&target),
        };
        push(&mut batches, Some(doc), to, &target);
    }
    let links = batches.remove(&at).unwrap_or_default();
    let entry = Entry::Visit {
        url: url.to_owned(),
        visit: Visit::without_answer(pulse.last_ms, Outcome::Fetched),
        pulse,
        links,
        forwards: batches.into_iter().collect(),
        targets: Vec::new(),
    };
    (at, entry)
}

/// The seeds of a partition; there is one for each of the first `hosts` hosts.
fn seeds_of(id: PartitionId, hosts: u64) -> Vec<(PartitionId, Entry)> {
    let mut batches = BTreeMap::new();
    for host in 0..hosts {
        let seed = format!("http://host-{host}.test/page/0");
        push(&mut batches, None, home(&seed), &seed);
    }
    let links = batches.remove(&id).into_iter();
    links
        .map(|links| {
            let source = None;
            (id, Entry::Links { source, links })
        })
        .collect()
}

/// All hosts go to who finds them first.
#[derive(Debug, Default)]
struct ToFinders(Mutex<BTreeMap<PartitionId, BTreeMap<u64, PartitionId>>>);

impl Homes for ToFinders {
    fn begin(&self, home: PartitionId, claims: Vec<Claim>) {
        let known: BTreeMap<_, _> = claims.iter().copied().collect();
        assert_eq!(known.len(), claims.len(), "a host was claimed twice");
        self.0.lock().unwrap().insert(home, known);
    }

    fn end(&self, home: PartitionId) {
        self.0.lock().unwrap().remove(&home);
    }

    fn sort(&self, at: PartitionId, by: PartitionId, links: LinkBatch) -> Sorted {
        let mut homes = self.0.lock().unwrap();
        let known = homes.get_mut(&at).expect("it is held");
        let mut claims = Vec::new();
        let sorted = Sorted::by(at, &links, |url| {
            if home(url) != at {
                return at;
            }
            *known.entry(host_of(url).0).or_insert_with(|| {
                claims.push((host_of(url).0, by));
                by
            })
        });
        Sorted { claims, ..sorted }
    }
}

/// What the fleet has in common: the ship log with its chunks, and the links on their way.
#[derive(Default)]
struct Outside {
    /// What is left of it, by place.
    ship_log: BTreeMap<usize, Chunk>,
    /// How many chunks were ever shipped, and up to which frame by each node.
    shipped: usize,
    frames: BTreeMap<usize, u64>,
    cursors: BTreeMap<PartitionId, u64>,
    /// Oldest first.
    checkpoints: BTreeMap<PartitionId, Vec<Copied>>,
    from_checkpoints: u64,
    thrown_away: u64,
    /// By destination.
    links: BTreeMap<PartitionId, Vec<Forwarded>>,
    /// Published by the loss of messages: sent again by who has not been acknowledged.
    repeated: u64,
    shipped_visits: BTreeSet<String>,
    /// Hosts go to who finds them first, and not by hash.
    to_finders: bool,
    seeds: u64,
}

/// A checkpoint where the loss of its node does not reach it.
#[derive(Clone)]
struct Copied {
    seq: u64,
    manifest: Vec<u8>,
    files: Vec<(String, Vec<u8>)>,
    /// The first chunk that has entries which are not in it.
    replay_from: usize,
}

impl Copied {
    fn lay(&self, dir: &Path) {
        for (name, bytes) in &self.files {
            fs::write(dir.join(name), bytes).unwrap();
        }
        lay_manifest(dir, &self.manifest).unwrap();
    }
}

impl Outside {
    /// In any order, some of them twice.
    fn publish(&mut self, outbound: Vec<Outbound>, random: &mut Random) {
        let mut forwards: Vec<_> = outbound
            .iter()
            .map(|outbound| outbound.decode().expect("links"))
            .collect();
        while !forwards.is_empty() {
            let any = random.below(forwards.len() as u64) as usize;
            let forward = match random.one_in(6) {
                true => {
                    self.repeated += 1;
                    forwards[any].clone()
                }
                false => forwards.swap_remove(any),
            };
            self.links.entry(forward.to).or_default().push(forward);
        }
    }

    fn ship(&mut self, node: usize, chunk: &Chunk) {
        for &id in chunk.entries.keys() {
            for item in chunk.entries_of(id, 0) {
                if let (_, Entry::Visit { url, .. }) = item.unwrap() {
                    assert!(self.shipped_visits.insert(url.clone()), "{url} again");
                }
            }
        }
        // What arrives is what was sent.
        let bytes = chunk.clone().into_bytes();
        let chunk = Chunk::read(bytes, Path::new("a chunk")).unwrap();
        self.frames.insert(node, chunk.frames.1);
        for (&id, &cursor) in &chunk.cursors {
            let known = self.cursors.entry(id).or_default();
            *known = cursor.max(*known);
        }
        self.ship_log.insert(self.shipped, chunk);
        self.shipped += 1;
    }

    /// The frame up to which a node has shipped.
    fn shipped_by(&self, node: usize) -> u64 {
        self.frames.get(&node).copied().unwrap_or(0)
    }

    fn cursor(&self, id: PartitionId) -> u64 {
        self.cursors.get(&id).copied().unwrap_or(0)
    }

    fn note_checkpoint(&mut self, id: PartitionId, mut copied: Copied) {
        let has_later = |chunk: &Chunk| {
            let entries = chunk.entries.get(&id);
            entries.is_some_and(|(_, to)| *to > copied.seq)
        };
        let first = self.ship_log.iter().find(|(_, chunk)| has_later(chunk));
        copied.replay_from = first.map_or(self.shipped, |(&place, _)| place);
        self.checkpoints.entry(id).or_default().push(copied);
    }

    /// Chunks and checkpoints go that no partition's newest two checkpoints need.
    fn throw_away(&mut self) {
        let mut ground = self.shipped;
        for id in (0..PARTITIONS).map(PartitionId) {
            let known = self.checkpoints.entry(id).or_default();
            known.drain(..known.len().saturating_sub(2));
            ground = ground.min(match &known[..] {
                [older, _] => older.replay_from,
                _ => 0,
            });
        }
        let kept = self.ship_log.split_off(&ground);
        self.thrown_away += self.ship_log.len() as u64;
        self.ship_log = kept;
    }
}

struct Node {
    /// Which one in the ship log; another one after its loss.
    number: usize,
    dir: TempDir,
    journal: Journal,
    in_fleet: InFleet,
    /// Reads what is shipped, some time after it was.
    sender: Exporter,
    held: BTreeMap<PartitionId, Partition>,
    /// How far it has read the links for each partition that it holds.
    read: BTreeMap<PartitionId, u64>,
}

impl Node {
    fn start(number: usize, outside: &Outside, now_ms: u64) -> Self {
        Self::open(number, scratch(), outside, now_ms)
    }

    fn open(number: usize, dir: TempDir, outside: &Outside, now_ms: u64) -> Self {
        let shipped = outside.shipped_by(number);
        let Opened {
            mut journal,
            partitions,
            in_fleet,
            ..
        } = Registry::open(dir.path(), &settings(Some(shipped)), now_ms).unwrap();
        let in_fleet = in_fleet.unwrap();
        if outside.to_finders {
            let homes = Arc::new(ToFinders::default());
            journal.set_homes(homes, &partitions).unwrap();
        }
        Self {
            number,
            dir,
            journal,
            sender: in_fleet.exporter.of_shipped(),
            in_fleet,
            held: partitions.into_iter().map(|p| (p.id(), p)).collect(),
            read: BTreeMap::new(),
        }
    }

    /// Killed: what was committed stays, what is in RAM does not.
    fn restart(self, outside: &Outside, now_ms: u64) -> Self {
        let Self { number, dir, .. } = self;
        drop((self.journal, self.held, self.in_fleet));
        let mut node = Self::open(number, dir, outside, now_ms);
        for &id in node.held.keys() {
            node.read.insert(id, outside.cursor(id));
        }
        node
    }

    fn commit(&mut self, batch: Vec<(PartitionId, Entry)>) {
        for delivery in self.journal.commit(batch).unwrap() {
            let partition = self.held.get_mut(&delivery.partition).unwrap();
            partition.apply(delivery.seq, &delivery.entry).unwrap();
        }
    }

    fn crawl(&mut self, now_ms: u64, random: &mut Random) {
        let mut batch = Vec::new();
        for partition in self.held.values_mut() {
            while let Some(turn) = partition.begin_turn(now_ms).unwrap() {
                let pulse = Pulse {
                    last_ms: now_ms,
                    not_before_ms: now_ms + random.below(40),
                    ..Pulse::default()
                };
                if let Some(due) = partition.next_url(turn.host).unwrap() {
                    batch.push(visit(partition.id(), &due.url, pulse));
                }
                partition.end_turn(turn.host, pulse).unwrap();
            }
            partition.tend(true).unwrap();
        }
        self.commit(batch);
    }

    /// Some of the links that are there for it, sometimes from a bit earlier.
    fn hear(&mut self, outside: &Outside, random: &mut Random) {
        let mut batch = Vec::new();
        for (&id, read) in &mut self.read {
            let all = outside.links.get(&id).map_or(&[][..], Vec::as_slice);
            let from = read.saturating_sub(random.below(4));
            let to = (from + random.below(30)).min(all.len() as u64).max(*read);
            let news = all[from as usize..to as usize].iter().cloned();
            batch.extend(news.map(Forwarded::into_entry));
            self.journal.note_cursor(id, to);
            *read = to;
        }
        self.commit(batch);
        for (&id, read) in &mut self.read {
            if self.journal.has_dropped(id) {
                *read = outside.cursor(id);
            }
        }
    }

    /// Ships what it has committed. `dies`: after the first chunk.
    fn ship(&mut self, outside: &mut Outside, dies: bool) {
        while let Some(chunk) = self.in_fleet.exporter.next(CHUNK_BYTES).unwrap() {
            if chunk.frames.1 > outside.shipped_by(self.number) {
                outside.ship(self.number, &chunk);
                self.in_fleet.settler.note_shipped(chunk.frames.1);
                if dies {
                    return;
                }
            }
        }
        assert_eq!(self.in_fleet.exporter.behind().bytes(), 0);
    }

    /// The links that it has shipped leave.
    fn send(&mut self, outside: &mut Outside, random: &mut Random) {
        while let Some(chunk) = self.sender.next(CHUNK_BYTES).unwrap() {
            assert!(chunk.frames.1 <= outside.shipped_by(self.number));
            outside.publish(chunk.forwards(|_| Some(0)).unwrap(), random);
            for (&id, &(_, to)) in &chunk.entries {
                self.in_fleet.settler.settle(id, to);
            }
        }
    }

    fn adopt(&mut self, id: PartitionId, outside: &mut Outside, random: &mut Random, now_ms: u64) {
        let known = outside.checkpoints.get(&id).map_or(&[][..], Vec::as_slice);
        // The newest one, or one before it where that is lost.
        let back = usize::from(known.len() > 1 && random.one_in(4));
        let from = known.iter().rev().nth(back);
        match from {
            // Gathered beforehand, or laid out now.
            Some(copied) if random.one_in(2) => {
                let gathering = self.in_fleet.adopter.gathering(id);
                let _ = fs::remove_dir_all(&gathering);
                fs::create_dir_all(&gathering).unwrap();
                copied.lay(&gathering);
                self.in_fleet.adopter.take(id).unwrap();
            }
            Some(copied) => copied.lay(&self.in_fleet.adopter.prepare(id).unwrap()),
            None => drop(self.in_fleet.adopter.prepare(id).unwrap()),
        }
        let mut adoption = self.in_fleet.adopter.begin(id, now_ms).unwrap();
        let replay_from = from.map_or(0, |copied| copied.replay_from);
        if let Some(copied) = from {
            assert_eq!(adoption.applied(), copied.seq);
        }
        let mut again = Vec::new();
        for (_, chunk) in outside.ship_log.range(replay_from..) {
            again.extend(adoption.fold(chunk).unwrap());
        }
        outside.from_checkpoints += u64::from(replay_from > 0);
        outside.publish(again, random);
        let partition = adoption.finish().unwrap();
        self.journal.adopt(&partition).unwrap();
        let is_new = partition.applied() == 0;
        self.held.insert(id, partition);
        self.read.insert(id, outside.cursor(id));
        if is_new {
            self.commit(seeds_of(id, outside.seeds));
        }
    }

    /// Copies a partition's newest checkpoint, which holds nothing that was not shipped.
    fn copy_checkpoint(&self, id: PartitionId, outside: &mut Outside) {
        let Some(opened) = checkpoint_files(self.dir.path(), id).unwrap() else {
            return;
        };
        let known = outside.checkpoints.get(&id).and_then(|known| known.last());
        if known.is_some_and(|known| known.seq >= opened.seq) {
            return;
        }
        let shipped = self.in_fleet.settler.settled(id);
        assert!(opened.seq <= shipped, "{} of {shipped}", opened.seq);
        let files = opened.files.iter();
        let read = files.map(|file| {
            let bytes = file.read(0, file.bytes as usize).unwrap();
            (file.name.clone(), bytes)
        });
        let copied = Copied {
            seq: opened.seq,
            manifest: opened.manifest.clone(),
            files: read.collect(),
            replay_from: 0,
        };
        outside.note_checkpoint(id, copied);
    }

    /// Everything is shipped and acknowledged.
    fn release(&mut self, id: PartitionId) {
        let mut partition = self.held.remove(&id).unwrap();
        self.read.remove(&id);
        partition.flush().unwrap();
        let seq = self.journal.release(id).unwrap();
        assert_eq!(seq, partition.applied());
        // It may come back before a merge under way has ended.
        partition.delete().unwrap();
    }

    fn is_idle(&self, outside: &Outside) -> bool {
        let heard = |(id, read): (&PartitionId, &u64)| {
            outside.links.get(id).map_or(0, Vec::len) as u64 <= *read
        };
        self.held.values().all(Partition::is_exhausted) && self.read.iter().all(heard)
    }
}

struct Fleet {
    nodes: Vec<Node>,
    outside: Outside,
    random: Random,
    now_ms: u64,
    lives: usize,
}

impl Fleet {
    fn new(seed: u64, to_finders: bool, seeds: u64) -> Self {
        let outside = Outside {
            to_finders,
            seeds,
            ..Outside::default()
        };
        let mut fleet = Self {
            nodes: (0..3)
                .map(|number| Node::start(number, &outside, 1))
                .collect(),
            outside,
            random: Random(seed),
            now_ms: 1,
            lives: 3,
        };
        for id in (0..PARTITIONS).map(PartitionId) {
            fleet.give(id);
        }
        fleet
    }

    fn give(&mut self, id: PartitionId) {
        let any = self.random.below(self.nodes.len() as u64) as usize;
        self.nodes[any].adopt(id, &mut self.outside, &mut self.random, self.now_ms);
    }

    fn step(&mut self) {
        self.now_ms += self.random.below(30);
        for node in &mut self.nodes {
            if !self.random.one_in(3) {
                node.crawl(self.now_ms, &mut self.random);
            }
            if self.random.one_in(2) {
                node.hear(&self.outside, &mut self.random);
            }
            if self.random.one_in(4) {
                node.ship(&mut self.outside, false);
            }
            if self.random.one_in(6) {
                node.send(&mut self.outside, &mut self.random);
            }
            for &id in node.held.keys() {
                if self.random.one_in(6) {
                    node.in_fleet.settler.ask_for_checkpoint(id);
                }
                if self.random.one_in(6) {
                    node.copy_checkpoint(id, &mut self.outside);
                }
            }
        }
        if self.random.one_in(4) {
            self.outside.throw_away();
        }
        match self.random.below(24) {
            0 => self.lose(),
            1 | 2 => self.restart(),
            3 | 4 => self.hand_over(),
            _ => {}
        }
    }

    fn any(&mut self) -> usize {
        self.random.below(self.nodes.len() as u64) as usize
    }

    /// A node is gone with its disk: its partitions go to others, or to the node that takes its place.
    fn lose(&mut self) {
        let lost = self.any();
        if self.random.one_in(2) {
            self.nodes[lost].ship(&mut self.outside, true);
        }
        let node = Node::start(self.lives, &self.outside, self.now_ms);
        self.lives += 1;
        let lost = std::mem::replace(&mut self.nodes[lost], node);
        let orphans: Vec<_> = lost.held.keys().copied().collect();
        drop(lost);
        orphans.into_iter().for_each(|id| self.give(id));
    }

    /// A node is killed and comes back with its disk.
    fn restart(&mut self) {
        let killed = self.any();
        if self.random.one_in(2) {
            self.nodes[killed].ship(&mut self.outside, true);
        }
        let node = self.nodes.remove(killed);
        let held: Vec<_> = node.held.keys().copied().collect();
        let node = node.restart(&self.outside, self.now_ms);
        assert!(node.held.keys().copied().eq(held));
        self.nodes.push(node);
    }

    fn hand_over(&mut self) {
        let from = self.any();
        let node = &mut self.nodes[from];
        let Some(&id) = node.held.keys().next() else {
            return;
        };
        node.ship(&mut self.outside, false);
        node.send(&mut self.outside, &mut self.random);
        assert_eq!(node.sender.behind().bytes(), 0);
        node.release(id);
        self.give(id);
    }

    fn finish(&mut self) {
        for _ in 0..5_000 {
            self.now_ms += 50;
            for node in &mut self.nodes {
                node.crawl(self.now_ms, &mut self.random);
                node.hear(&self.outside, &mut self.random);
                node.ship(&mut self.outside, false);
                node.send(&mut self.outside, &mut self.random);
            }
            let outside = &self.outside;
            if self.nodes.iter().all(|node| node.is_idle(outside)) {
                return;
            }
        }
        panic!("it never ends");
    }
}

type Ends = BTreeMap<String, (UrlState, u32)>;

fn ends(dir: &Path, into: &mut Ends) {
    let snapshot = Snapshot::open(dir, Identities::PUBLIC).unwrap();
    for url in snapshot.urls(UrlFilter::default()) {
        let url = url.unwrap();
        let twice = into.insert(url.url, (url.state, url.count));
        assert!(twice.is_none(), "a URL of two nodes");
    }
}

/// One registry that holds all partitions.
fn alone(seeds: u64) -> Ends {
    let dir = scratch();
    let mut opened = Registry::open(dir.path(), &settings(None), 1).unwrap();
    let mut now_ms = 1;
    let mut batch: Vec<_> = (0..PARTITIONS)
        .map(PartitionId)
        .flat_map(|id| seeds_of(id, seeds))
        .collect();
    while !batch.is_empty() || !opened.partitions.iter().all(Partition::is_exhausted) {
        for delivery in opened.journal.commit(std::mem::take(&mut batch)).unwrap() {
            let partition = &mut opened.partitions[usize::from(delivery.partition.0)];
            partition.apply(delivery.seq, &delivery.entry).unwrap();
        }
        now_ms += 50;
        for partition in &mut opened.partitions {
            while let Some(turn) = partition.begin_turn(now_ms).unwrap() {
                let pulse = Pulse::default();
                while let Some(due) = partition.next_url(turn.host).unwrap() {
                    batch.push(visit(partition.id(), &due.url, pulse));
                }
                partition.end_turn(turn.host, pulse).unwrap();
            }
            partition.tend(true).unwrap();
        }
    }
    let mut found = Ends::new();
    ends(dir.path(), &mut found);
    found
}

/// Fleets that lose, get and hand over what they may, to their ends. Returns where each host of the last one was.
fn fleets_end_as_one_registry_does(to_finders: bool, seeds: u64) -> BTreeMap<u64, PartitionId> {
    let expected = alone(seeds);
    assert!(expected.len() > 150, "{}", expected.len());
    let (mut lives, mut repeated, mut from_checkpoints, mut thrown_away) = (0, 0, 0, 0);
    let mut owners = BTreeMap::new();
    for seed in 0..12 {
        println!("seed {seed}");
        let mut fleet = Fleet::new(seed, to_finders, seeds);
        for _ in 0..120 {
            fleet.step();
        }
        fleet.finish();
        let (mut sent, mut heard) = (0, 0);
        owners.clear();
        for partition in fleet.nodes.iter().flat_map(|node| node.held.values()) {
            sent += partition.exchanged().sent;
            heard += partition.exchanged().heard;
            owners.extend(partition.claims().unwrap());
        }
        assert_eq!(sent, heard, "links are on their way");
        let mut found = Ends::new();
        for node in fleet.nodes {
            let dir = node.dir;
            drop((node.journal, node.held, node.in_fleet));
            ends(dir.path(), &mut found);
        }
        assert!(found == expected, "not the same URLs, states and counts");
        lives += fleet.lives - 3;
        repeated += fleet.outside.repeated;
        from_checkpoints += fleet.outside.from_checkpoints;
        thrown_away += fleet.outside.thrown_away;
    }
    assert!(lives > 10 && repeated > 100, "{lives} {repeated}");
    println!("{from_checkpoints} partitions from checkpoints, {thrown_away} chunks thrown away");
    assert!(from_checkpoints > 50 && thrown_away > 50);
    owners
}

#[test]
fn a_fleet_ends_as_one_registry_does() {
    let claims = fleets_end_as_one_registry_does(false, HOSTS);
    assert!(claims.is_empty());
}

#[test]
fn so_does_one_whose_hosts_go_to_who_finds_them() {
    let owners = fleets_end_as_one_registry_does(true, 4);
    let hosts = (0..HOSTS).map(|host| format!("http://host-{host}.test/"));
    let found: Vec<_> = hosts
        .filter_map(|url| Some((home(&url), *owners.get(&host_of(&url).0)?)))
        .collect();
    assert!(found.len() as u64 > HOSTS / 2, "{found:?}");
    let away = found.iter().filter(|(home, owner)| home != owner);
    assert!(2 * away.count() > found.len(), "{found:?}");
}

/// A run knows whom it has given up, also in a partition that came long after the run had begun.
#[test]
fn a_host_that_is_given_up_gets_no_turn_in_a_partition_that_came_later() {
    const RUN_MS: u64 = 1_000;
    let mut outside = Outside {
        seeds: HOSTS,
        ..Outside::default()
    };
    let mut node = Node::start(0, &outside, RUN_MS);
    let mut random = Random(1);
    let id = PartitionId(0);
    node.adopt(id, &mut outside, &mut random, RUN_MS + 500);
    let mut now_ms = RUN_MS + 10_000;
    let partition = node.held.get_mut(&id).unwrap();
    let mut given_up = BTreeSet::new();
    while let Some(turn) = partition.begin_turn(now_ms).unwrap() {
        let due = partition.next_url(turn.host).unwrap().unwrap();
        partition.put_back(turn.host, due.doc).unwrap();
        let pulse = Pulse {
            last_ms: now_ms,
            not_before_ms: now_ms + 10,
            failures: 3,
            failing_since_ms: RUN_MS,
            given_up_by: RUN_MS,
            ..Pulse::default()
        };
        partition.end_turn(turn.host, pulse).unwrap();
        assert!(given_up.insert(turn.host), "it was given up");
        now_ms += 100;
    }
    assert!(!given_up.is_empty());
}
