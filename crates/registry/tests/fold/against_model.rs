//! Random crawls with hardly any RAM, so that merges, spills and checkpoints happen all the time,
//! against plain maps: the same state, the same order, nothing twice, nothing lost, also after a
//! crash at any moment and after replaying the whole log.

use crate::model::{ModelPartition, PARTITIONS, Random, Web, compare, home, host_of, scratch};
use portolan_model::{HostId, Identities, LinkKind, Order, PartitionId};
use portolan_registry::{
    Due, Entry, Opened, Partition, Registry, RegistrySettings, Snapshot, UrlState,
};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

pub(crate) fn tiny(keep_log: bool, order: Order) -> RegistrySettings {
    RegistrySettings {
        ids: Identities::PUBLIC,
        crawl_id: 7,
        partitions: PARTITIONS,
        order,
        memory_bytes: 60_000,
        checkpoint_log_bytes: 40_000,
        keep_log,
        hosts_in_ram: 24,
        prefetch_urls: 3,
        unknown_delay_ms: 10,
        retry_now: false,
        longest_pause_ms: 86_400_000,
        shipped_frames: None,
        merge_inline: false,
    }
}

pub(crate) struct Crawl {
    dir: PathBuf,
    opened: Opened,
    model: Vec<ModelPartition>,
    /// All entries of each partition's log, with the forwards that they caused.
    history: Vec<Vec<Entry>>,
    in_flight: BTreeSet<u64>,
    web: Web,
    now_ms: u64,
    exact_checks: usize,
}

impl Crawl {
    pub(crate) fn start(dir: &Path, settings: &RegistrySettings, seed: u64) -> Self {
        Self {
            dir: dir.to_path_buf(),
            opened: Registry::open(dir, settings, 0).unwrap(),
            model: new_model(settings.order),
            history: vec![Vec::new(); PARTITIONS.into()],
            in_flight: BTreeSet::new(),
            web: Web {
                random: Random(seed),
                hosts: 60,
                pages: 400,
                order: settings.order,
            },
            now_ms: 1,
            exact_checks: 0,
        }
    }

    /// Commits without folding: what is in the logs and what is in the partitions may differ when
    /// a crash comes.
    pub(crate) fn commit(
        &mut self,
        batch: Vec<(PartitionId, Entry)>,
    ) -> Vec<(PartitionId, u64, Entry)> {
        let mut originals: Vec<Entry> = batch.iter().map(|(_, entry)| entry.clone()).collect();
        originals.reverse();
        let deliveries = self.opened.journal.commit(batch).unwrap();
        deliveries
            .into_iter()
            .map(|delivery| {
                // Delivered entries come without their forwards; the log has them.
                let logged = originals.pop().unwrap_or_else(|| delivery.entry.clone());
                self.history[delivery.partition.0 as usize].push(logged);
                (delivery.partition, delivery.seq, delivery.entry)
            })
            .collect()
    }

    pub(crate) fn fold(&mut self, deliveries: Vec<(PartitionId, u64, Entry)>) {
        let patient = self.web.random.one_in(2);
        for partition in &mut self.opened.partitions {
            if patient {
                until_ready(partition);
            }
            let id = partition.id();
            let own = deliveries.iter().filter(|delivery| delivery.0 == id);
            let own = own.map(|(_, seq, entry)| (*seq, entry));
            partition.apply_all(own).unwrap();
        }
        for (partition, _, entry) in deliveries {
            self.model[partition.0 as usize].fold(&entry);
            if let Entry::Visit { url, .. } = &entry {
                self.in_flight.remove(&Identities::PUBLIC.doc(url).0);
            }
        }
    }

    /// Turns on all partitions; returns the visits to be committed.
    fn turns(&mut self) -> Vec<(PartitionId, Entry)> {
        let mut batch = Vec::new();
        for index in 0..usize::from(PARTITIONS) {
            for _ in 0..self.web.random.below(6) {
                let turn = self.opened.partitions[index].begin_turn(self.now_ms);
                let Some(turn) = turn.unwrap() else { break };
                assert!(turn.pulse.not_before_ms <= self.now_ms, "too early");
                let pulse = self.web.pulse(self.now_ms);
                for _ in 0..=self.web.random.below(3) {
                    let Some(due) = self.take(index, turn.host) else {
                        break;
                    };
                    if self.web.random.one_in(5) {
                        self.in_flight.remove(&due.doc.0);
                        let partition = &mut self.opened.partitions[index];
                        partition.put_back(turn.host, due.doc).unwrap();
                    } else {
                        batch.push(self.web.visit(&due.url, pulse));
                    }
                }
                self.opened.partitions[index]
                    .end_turn(turn.host, pulse)
                    .unwrap();
            }
        }
        batch
    }

    fn take(&mut self, index: usize, host: HostId) -> Option<Due> {
        let partition = &mut self.opened.partitions[index];
        let due = partition.next_url(host).unwrap();
        let merged = partition.backlog().pending == 0;
        let best = || {
            let queue = self.model[index].queue(host);
            queue
                .into_iter()
                .find(|doc| !self.in_flight.contains(&doc.0))
        };
        if merged {
            assert_eq!(due.as_ref().map(|due| due.doc), best(), "not the best");
            self.exact_checks += 1;
        }
        let due = due?;
        let known = &self.model[index].urls[&due.doc.0];
        // A judgement that waits to be looked up has not taken it out yet.
        let taken_out = !merged && known.state == UrlState::Excluded;
        assert!(known.state == UrlState::Due || taken_out, "{known:?}");
        assert_eq!(known.url, due.url);
        assert_eq!(host_of(&due.url), host);
        // Nor has one that waits made a sitemap of it.
        if merged || known.kind != LinkKind::Sitemap {
            assert_eq!(
                (due.depth, due.hops, due.kind),
                (known.depth, known.hops, known.kind)
            );
        }
        assert!(self.in_flight.insert(due.doc.0), "handed out twice");
        Some(due)
    }

    pub(crate) fn step(&mut self) -> Vec<(PartitionId, Entry)> {
        self.now_ms += self.web.random.below(120);
        let mut batch = Vec::new();
        if self.web.random.one_in(12) {
            batch.push(self.web.session(&self.model));
        }
        if self.web.random.one_in(8) {
            batch.push(self.web.refresh());
        }
        batch.extend(self.turns());
        if self.web.random.one_in(3) {
            batch.extend(self.web.seeds());
        }
        if self.web.random.one_in(4) {
            batch.push(self.web.host_facts(self.now_ms));
        }
        if self.web.random.one_in(6) {
            batch.push(self.web.again());
        }
        if self.web.random.one_in(6) {
            batch.push(self.web.judged());
        }
        if self.web.random.one_in(10) {
            // A visit that nobody was sent on, of a URL that is not due.
            let url = self.web.url();
            let known = self.model[home(&url).0 as usize]
                .urls
                .get(&Identities::PUBLIC.doc(&url).0);
            if known.is_none_or(|known| known.state != UrlState::Due)
                && !batch.iter().any(|(_, entry)| mentions(entry, &url))
                && self
                    .opened
                    .partitions
                    .iter()
                    .all(|p| p.backlog().pending == 0)
            {
                let pulse = self.web.pulse(self.now_ms);
                batch.push(self.web.visit(&url, pulse));
            }
        }
        batch
    }

    pub(crate) fn tend(&mut self) {
        for partition in &mut self.opened.partitions {
            let hungry = self.web.random.one_in(3);
            partition.tend(hungry).unwrap();
        }
    }

    /// Waits for the merge thread; true once it has nothing to do.
    fn settle(&mut self) -> bool {
        for _ in 0..2_000 {
            let partitions = &mut self.opened.partitions;
            if partitions.iter().all(|p| !p.backlog().merging) {
                return true;
            }
            for partition in partitions {
                partition.tend(false).unwrap();
            }
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        false
    }

    /// Until nothing is due any more; new links are no longer found.
    fn drain(&mut self) {
        self.web.pages = 1;
        self.web.hosts = 1;
        for round in 0.. {
            assert!(round < 100_000, "never exhausted");
            if self.opened.partitions.iter().all(Partition::is_exhausted) {
                return;
            }
            self.now_ms += 100;
            let batch = self.turns();
            let deliveries = self.commit(batch);
            self.fold(deliveries);
            for partition in &mut self.opened.partitions {
                partition.tend(true).unwrap();
            }
        }
    }
}

/// What an owner does that does not want to wait for the disk. Tells how often it was not ready.
pub(crate) fn until_ready(partition: &mut Partition) -> usize {
    const LOOKS: usize = 100_000;
    for looks in 0..LOOKS {
        if partition.is_ready() {
            return looks;
        }
        partition.tend(false).unwrap();
        thread::sleep(Duration::from_micros(100));
    }
    panic!("it never becomes ready: {:?}", partition.backlog());
}

fn new_model(order: Order) -> Vec<ModelPartition> {
    let partition = ModelPartition {
        order,
        ..ModelPartition::default()
    };
    vec![partition; PARTITIONS.into()]
}

/// Those that a crawl can have.
pub(crate) fn orders() -> impl Iterator<Item = Order> {
    Order::ALL.into_iter().filter(|order| order.is_for_crawls())
}

fn mentions(entry: &Entry, wanted: &str) -> bool {
    match entry {
        Entry::Visit { url, .. } => url == wanted,
        Entry::Links { links, .. } | Entry::Host { links, .. } | Entry::Judged { links } => {
            links.iter().any(|link| link.url == wanted)
        }
        Entry::Again { urls } => urls.iter().any(|url| url == wanted),
        Entry::Session { urls, .. } => urls.iter().any(|renewed| renewed.url == wanted),
        Entry::Refresh { docs } => docs.contains(&Identities::PUBLIC.doc(wanted)),
        Entry::Sent { .. } | Entry::Heard { .. } | Entry::Moved(_) | Entry::Claims { .. } => false,
    }
}

#[test]
fn random_crawls_agree_with_the_model_to_the_end() {
    for (seed, order) in (0..).zip(orders()) {
        println!("seed {seed}, {order:?}");
        let dir = scratch();
        let mut crawl = Crawl::start(dir.path(), &tiny(false, order), seed);
        for round in 0..400 {
            let batch = crawl.step();
            let deliveries = crawl.commit(batch);
            crawl.fold(deliveries);
            crawl.tend();
            if round % 50 == 49 {
                compare(
                    &Snapshot::open(&crawl.dir, Identities::PUBLIC).unwrap(),
                    &crawl.model,
                );
            }
        }
        assert!(crawl.exact_checks > 100, "order was hardly checked");
        crawl.drain();
        let due: usize = crawl.model.iter().map(due_urls).sum();
        assert_eq!(due, 0, "URLs were lost");
        for partition in &mut crawl.opened.partitions {
            partition.flush().unwrap();
        }
        compare(
            &Snapshot::open(&crawl.dir, Identities::PUBLIC).unwrap(),
            &crawl.model,
        );
    }
}

#[test]
fn tables_stay_few_however_often_a_crawl_is_stopped() {
    let dir = scratch();
    let mut most = 0;
    for seed in 0..40 {
        let settings = tiny(false, Order::default());
        let mut crawl = Crawl::start(dir.path(), &settings, seed);
        assert!(!crawl.opened.after_crash);
        let batch = (0..20).flat_map(|_| crawl.web.seeds()).collect();
        let deliveries = crawl.commit(batch);
        for (partition, seq, entry) in deliveries {
            let partition = &mut crawl.opened.partitions[usize::from(partition.0)];
            partition.apply(seq, &entry).unwrap();
        }
        for partition in &mut crawl.opened.partitions {
            partition.flush().unwrap();
        }
        let opened = crawl.opened;
        opened.journal.close(opened.partitions).unwrap();
        most = most.max(count_files(dir.path(), ".tbl"));
    }
    // Up to eight of each kind, and what a merge had begun or made superfluous.
    println!("at most {most} tables");
    assert!(most <= 3 * 10 * usize::from(PARTITIONS), "{most} tables");
}

fn due_urls(partition: &ModelPartition) -> usize {
    let urls = partition.urls.values();
    urls.filter(|known| known.state == UrlState::Due).count()
}

fn count_files(dir: &Path, suffix: &str) -> usize {
    let mut count = 0;
    for item in fs::read_dir(dir).unwrap() {
        let path = item.unwrap().path();
        if path.is_dir() {
            count += count_files(&path, suffix);
        } else if path.to_str().unwrap().ends_with(suffix) {
            count += 1;
        }
    }
    count
}

#[test]
fn a_kept_log_replays_to_the_same_state() {
    orders().for_each(replays_to_the_same_state);
}

fn replays_to_the_same_state(order: Order) {
    let dir = scratch();
    let mut crawl = Crawl::start(dir.path(), &tiny(true, order), 77);
    for _ in 0..400 {
        let batch = crawl.step();
        let deliveries = crawl.commit(batch);
        crawl.fold(deliveries);
        crawl.tend();
    }
    let replayed = scratch();
    copy_dir(&crawl.dir, replayed.path(), &|path| {
        path.to_str().unwrap().contains("/journal/") || path.ends_with("meta")
    });
    let opened = Registry::open(replayed.path(), &tiny(true, order), 0).unwrap();
    for (live, replayed) in crawl.opened.partitions.iter().zip(&opened.partitions) {
        assert_eq!(live.applied(), replayed.applied());
    }
    compare(
        &Snapshot::open(replayed.path(), Identities::PUBLIC).unwrap(),
        &crawl.model,
    );
    compare(
        &Snapshot::open(&crawl.dir, Identities::PUBLIC).unwrap(),
        &crawl.model,
    );
}

#[test]
fn a_crash_at_any_moment_loses_nothing_that_was_logged() {
    let (mut crashes, mut torn) = (0, 0);
    for (seed, order) in (100..).zip(orders()) {
        let dir = scratch();
        let mut crawl = Crawl::start(dir.path(), &tiny(false, order), seed);
        for round in 0..250 {
            let batch = crawl.step();
            // A moment at which no file is being written, so that a copy is a state that was.
            let crash = round % 8 == 7 && crawl.settle();
            let before = journal_lengths(&crawl.dir);
            let entries_before: Vec<usize> = crawl.history.iter().map(Vec::len).collect();
            let deliveries = crawl.commit(batch);
            if crash {
                let copy = scratch();
                copy_dir(&crawl.dir, copy.path(), &|_| true);
                let is_torn = tear_tail(copy.path(), &before, &mut crawl.web.random);
                let entries_now = crawl.history.iter().map(Vec::len).collect();
                check_crashed(
                    &crawl,
                    copy.path(),
                    if is_torn { entries_before } else { entries_now },
                );
                crashes += 1;
                torn += usize::from(is_torn);
            }
            crawl.fold(deliveries);
            crawl.tend();
        }
    }
    println!("{crashes} crashes, {torn} of them in the midst of a commit");
    assert!(crashes > 50 && torn > 30 && crashes - torn > 10);
}

/// Opens what a crash left and compares it with the model folded over what survived of the journal: all entries of a
/// commit, with the links that they forwarded, or none.
fn check_crashed(crawl: &Crawl, dir: &Path, survived: Vec<usize>) {
    fs::write(dir.join("p00/known-99999999.tbl"), b"half a table").unwrap();
    let mut opened = Registry::open(dir, &tiny(false, crawl.web.order), 0).unwrap();
    assert!(opened.after_crash);
    let mut model = new_model(crawl.web.order);
    for (id, survived) in survived.into_iter().enumerate() {
        for entry in &crawl.history[id][..survived] {
            model[id].fold(entry);
        }
        let partition = PartitionId(id as u16);
        assert_eq!(opened.journal.last_seq(partition), survived as u64);
    }
    hands_out_what_is_due(&mut opened.partitions, &model);
    drop(opened);
    compare(&Snapshot::open(dir, Identities::PUBLIC).unwrap(), &model);
    // Opening once more finds nothing left to recover.
    let again = Registry::open(dir, &tiny(false, crawl.web.order), 0).unwrap();
    assert_eq!(again.torn_log_bytes, 0);
    drop(again);
    compare(&Snapshot::open(dir, Identities::PUBLIC).unwrap(), &model);
}

/// From the first turn on: each URL that is due, once, and no other.
fn hands_out_what_is_due(partitions: &mut [Partition], model: &[ModelPartition]) {
    const LATE_MS: u64 = 1 << 50;
    for (partition, model) in partitions.iter_mut().zip(model) {
        let mut handed_out = 0;
        while let Some(turn) = partition.begin_turn(LATE_MS).unwrap() {
            while let Some(due) = partition.next_url(turn.host).unwrap() {
                let state = model.urls[&due.doc.0].state;
                assert_eq!(state, UrlState::Due, "{} was handed out again", due.url);
                handed_out += 1;
            }
            partition.end_turn(turn.host, turn.pulse).unwrap();
        }
        assert_eq!(handed_out, due_urls(model), "due URLs were not handed out");
    }
}

fn journal_lengths(dir: &Path) -> BTreeMap<PathBuf, u64> {
    let mut lengths = BTreeMap::new();
    for item in fs::read_dir(dir.join("journal")).unwrap() {
        let item = item.unwrap();
        let length = item.metadata().unwrap().len();
        lengths.insert(Path::new("journal").join(item.file_name()), length);
    }
    lengths
}

/// Cuts what the last commit wrote at an arbitrary byte, but one time in four. Is anything of it missing?
fn tear_tail(dir: &Path, before: &BTreeMap<PathBuf, u64>, random: &mut Random) -> bool {
    let lengths = journal_lengths(dir);
    let (path, length) = lengths.last_key_value().unwrap();
    let synced = before.get(path).copied().unwrap_or(0);
    if *length == synced || random.one_in(4) {
        return false;
    }
    let keep = synced + random.below(length - synced);
    let file = fs::OpenOptions::new().write(true).open(dir.join(path));
    file.unwrap().set_len(keep).unwrap();
    true
}

fn copy_dir(from: &Path, to: &Path, wanted: &dyn Fn(&Path) -> bool) {
    fs::create_dir_all(to).unwrap();
    for item in fs::read_dir(from).unwrap() {
        let path = item.unwrap().path();
        let target = to.join(path.file_name().unwrap());
        if path.is_dir() {
            copy_dir(&path, &target, wanted);
        } else if wanted(&path) {
            fs::copy(&path, &target).unwrap();
        }
    }
}
