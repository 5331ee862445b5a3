//! The journal, written by one thread: numbers entries, makes them durable with one sync a commit, says what is settled.

use crate::error::{RegistryError, Result};
use crate::held::write_held;
use crate::lock::DirLock;
use crate::log::exchange::{Exchange, Leaving, Streams};
use crate::log::frame::{Tag, put_place};
use crate::log::homes::Homes;
use crate::log::outgoing::Outgoing;
use crate::log::reader::{ArchiveEnd, JournalEnd};
use crate::log::segment::Positions;
use crate::log::segments::Segments;
use crate::log::stream::Origin;
use crate::log::{Entry, Forward};
use crate::partition::Partition;
use portolan_model::{LinkBatch, PartitionId};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Links of several pages leave together until they take this much.
const TOGETHER_BYTES: usize = 64 << 10;

/// The links for other partitions of an entry: its partition, its number and what is for whom.
type Page = (PartitionId, u64, Vec<(PartitionId, LinkBatch)>);

/// An entry that is in the journal, for its partition's owner to fold.
#[derive(Debug)]
pub struct Delivery {
    pub partition: PartitionId,
    pub seq: u64,
    pub entry: Entry,
}

/// How far a partition's entries are safe, shared between the thread that commits and the one that checkpoints.
#[derive(Debug)]
pub(crate) struct Durable {
    /// Entries up to here are synced, and so are all forwards that they caused.
    settled: AtomicU64,
    /// Entries up to here are in a committed checkpoint.
    checkpointed: AtomicU64,
    /// A checkpoint is wanted though nothing here needs one.
    asked: AtomicBool,
    /// How long the journal has become, of all partitions.
    journal_bytes: Arc<AtomicU64>,
}

impl Durable {
    pub(crate) fn new(checkpointed: u64, journal_bytes: Arc<AtomicU64>) -> Self {
        Self {
            settled: AtomicU64::new(checkpointed),
            checkpointed: AtomicU64::new(checkpointed),
            asked: AtomicBool::new(false),
            journal_bytes,
        }
    }

    pub(crate) fn settled(&self) -> u64 {
        self.settled.load(Ordering::Acquire)
    }

    /// Entries up to `seq` are settled.
    pub(crate) fn settle(&self, seq: u64) {
        self.settled.fetch_max(seq, Ordering::AcqRel);
    }

    pub(crate) fn note_checkpoint(&self, seq: u64) {
        self.checkpointed.store(seq, Ordering::Release);
    }

    pub(crate) fn journal_bytes(&self) -> u64 {
        self.journal_bytes.load(Ordering::Relaxed)
    }

    pub(super) fn ask_for_checkpoint(&self) {
        self.asked.store(true, Ordering::Release);
    }

    pub(crate) fn is_checkpoint_asked_for(&self) -> bool {
        self.asked.load(Ordering::Relaxed)
    }

    /// A checkpoint begins, with all that is folded so far.
    pub(crate) fn note_checkpoint_begun(&self) {
        self.asked.store(false, Ordering::Release);
    }

    pub(super) fn checkpointed(&self) -> u64 {
        self.checkpointed.load(Ordering::Acquire)
    }
}

/// The journal of all partitions. Used by one thread.
#[derive(Debug)]
pub struct Journal {
    segments: Segments,
    partitions: BTreeMap<PartitionId, Lane>,
    exchange: Exchange,
    archive_end: ArchiveEnd,
    journal_bytes: Arc<AtomicU64>,
    keep_log: bool,
    lock: Arc<DirLock>,
    /// In a fleet: what is settled is told from outside.
    outgoing: Option<Arc<Outgoing>>,
    /// In a fleet: how far the forwards to a partition have been read, to be committed with them.
    cursors: BTreeMap<PartitionId, u64>,
    /// In a fleet where sites that nobody was given go to who finds them first.
    homes: Option<Arc<dyn Homes>>,
}

/// What the journal knows of one partition.
#[derive(Debug)]
struct Lane {
    /// Its last entry.
    seq: u64,
    durable: Arc<Durable>,
}

/// What `Journal::open` is told.
pub(crate) struct JournalPlan {
    pub(crate) dir: PathBuf,
    /// What follows the whole commits is cut.
    pub(crate) end: JournalEnd,
    pub(crate) durables: BTreeMap<PartitionId, Arc<Durable>>,
    /// What each partition has heard of the others, and sent them.
    pub(crate) streams: Vec<Streams>,
    pub(crate) outgoing: Option<Arc<Outgoing>>,
    pub(crate) journal_bytes: Arc<AtomicU64>,
    pub(crate) segment_bytes: u64,
    pub(crate) keep_log: bool,
    pub(crate) lock: Arc<DirLock>,
}

impl Journal {
    pub(crate) fn open(plan: JournalPlan) -> Result<Self> {
        let positions = &plan.end.positions;
        let lanes = plan.durables.into_iter().map(|(id, durable)| {
            let seq = positions.of(id.0);
            (id, Lane { seq, durable })
        });
        let partitions = lanes.collect();
        plan.journal_bytes
            .store(plan.end.read_bytes, Ordering::Relaxed);
        let journal = Self {
            partitions,
            exchange: Exchange::new(plan.streams.into_iter(), plan.outgoing.is_some()),
            archive_end: plan.end.archive_end,
            segments: Segments::open(plan.dir, plan.end, plan.segment_bytes)?,
            journal_bytes: plan.journal_bytes,
            keep_log: plan.keep_log,
            lock: plan.lock,
            outgoing: plan.outgoing,
            cursors: BTreeMap::new(),
            homes: None,
        };
        journal.note_committed();
        Ok(journal)
    }

    /// The archive is durable up to here, and what is committed from now on may name its records.
    pub fn note_archive_end(&mut self, file: u32, end: u64) {
        self.archive_end = Some((file, end));
    }

    /// In a fleet: who is asked whose the sites are that links lead to. `partitions` are all that are held; to be called before
    /// the first commit.
    pub fn set_homes(&mut self, homes: Arc<dyn Homes>, partitions: &[Partition]) -> Result<()> {
        for partition in partitions {
            homes.begin(partition.id(), partition.claims()?);
        }
        self.homes = Some(homes);
        Ok(())
    }

    /// Appends the entries, and one `Links` entry for each forward to its destination, and makes them durable with one
    /// sync. Returns all of them, each partition's in order. All of a commit is in the journal or nothing of it, so a page is
    /// there with all its links or not at all.
    ///
    /// After an error nothing more may be committed: open the registry again.
    pub fn commit(&mut self, batch: Vec<(PartitionId, Entry)>) -> Result<Vec<Delivery>> {
        let mut deliveries = Vec::with_capacity(batch.len());
        if batch.is_empty() {
            return Ok(deliveries);
        }
        // Before this commit may begin a segment: if that is torn, the one before it says how far each partition is.
        self.trim()?;
        let partitions = &self.partitions;
        self.segments.begin(|| positions(partitions));
        let mut leaving = Vec::new();
        for (partition, mut entry) in batch {
            if let Some((origin, pages)) = take_heard(&mut entry) {
                for entry in self.arrive(partition, origin, pages)? {
                    self.take_in(partition, entry, &mut deliveries, &mut leaving)?;
                }
                continue;
            }
            self.take_in(partition, entry, &mut deliveries, &mut leaving)?;
        }
        // What arrives at the home of a site may go on from there.
        while !leaving.is_empty() {
            let mut passed_on = Vec::new();
            for (source, seq, leaving) in self.forwards_of(std::mem::take(&mut leaving)) {
                let number = match self.exchange.in_fleet() {
                    true => self.last_seq(source) + 1,
                    false => seq,
                };
                let entries = |partition, entry| passed_on.push((partition, entry));
                let forwards = leaving.into_forwards();
                let sent = self.exchange.pass_on(source, number, forwards, entries)?;
                if !sent.is_empty() {
                    deliveries.push(self.append_sent(source, sent)?);
                }
            }
            for (partition, entry) in passed_on {
                self.take_in(partition, entry, &mut deliveries, &mut leaving)?;
            }
        }
        self.put_cursors();
        let written = self.segments.end(self.archive_end)?;
        self.journal_bytes.fetch_add(written, Ordering::Relaxed);
        self.note_committed();
        Ok(deliveries)
    }

    /// Each visit's links are a forward of their own. In a fleet, where forwards travel, those of one source in a commit
    /// go together, as long as they are not many.
    fn forwards_of(&self, forwards: Vec<Page>) -> Vec<(PartitionId, u64, Leaving)> {
        let mut all: Vec<(PartitionId, u64, Leaving)> = Vec::new();
        for (source, seq, page) in forwards {
            let mut open = all.iter_mut().rev();
            let open = open.find(|(of, ..)| self.exchange.in_fleet() && *of == source);
            match open.filter(|(.., leaving)| leaving.bytes() < TOGETHER_BYTES) {
                Some((.., leaving)) => leaving.add(page),
                None => {
                    let mut leaving = Leaving::default();
                    leaving.add(page);
                    all.push((source, seq, leaving));
                }
            }
        }
        all
    }

    /// In a fleet: the forwards of the next commit that arrive at this partition have been read up to `cursor`. The commit says
    /// so, once nothing of them is held back for what comes before it.
    pub fn note_cursor(&mut self, partition: PartitionId, cursor: u64) {
        if self.partitions.contains_key(&partition) {
            self.cursors.insert(partition, cursor);
        }
    }

    /// In a fleet: did forwards find no room at this partition since the last call? They are to be read again from its
    /// last cursor that was committed.
    pub fn has_dropped(&mut self, partition: PartitionId) -> bool {
        let dropped = self.exchange.take_dropped(partition);
        if dropped {
            self.cursors.remove(&partition);
        }
        dropped
    }

    /// In a fleet: has everything that came for this partition become entries of it?
    pub fn has_heard_all(&self, partition: PartitionId) -> bool {
        self.exchange.has_heard_all(partition)
    }

    /// In a fleet: does the registry hold this partition?
    pub fn holds(&self, partition: PartitionId) -> bool {
        self.partitions.contains_key(&partition)
    }

    /// What has come from another node makes the next entries of a partition, or none.
    fn arrive(
        &mut self,
        partition: PartitionId,
        origin: Origin,
        pages: Vec<LinkBatch>,
    ) -> Result<Vec<Entry>> {
        let mut entries = Vec::new();
        let next = |entry| entries.push(entry);
        self.exchange.arrive(partition, origin, pages, next)?;
        Ok(entries)
    }

    /// Appends the next entry of a partition, without its links for others: those are `leaving`.
    #[inline]
    fn take_in(
        &mut self,
        partition: PartitionId,
        mut entry: Entry,
        deliveries: &mut Vec<Delivery>,
        leaving: &mut Vec<Page>,
    ) -> Result<()> {
        let forwards = entry.take_forwards();
        if self.homes.is_none() {
            let seq = self.append(partition, &entry)?;
            if !forwards.is_empty() {
                leaving.push((partition, seq, forwards));
            }
            deliveries.push(Delivery {
                partition,
                seq,
                entry,
            });
            return Ok(());
        }
        let mut pages = vec![forwards];
        if let Some(claims) = self.sort(partition, &mut entry, &mut pages) {
            deliveries.push(self.append_entry(partition, claims)?);
        }
        let delivery = self.append_entry(partition, entry)?;
        for links in pages {
            if !links.is_empty() {
                leaving.push((partition, delivery.seq, links));
            }
        }
        deliveries.push(delivery);
        Ok(())
    }

    /// Has the homes of sites say whose the entry's links are; those of others go to `leaving`, each page's by themselves. Returns
    /// what they have decided for the first time.
    fn sort(
        &self,
        partition: PartitionId,
        entry: &mut Entry,
        leaving: &mut Vec<Vec<(PartitionId, LinkBatch)>>,
    ) -> Option<Entry> {
        let homes = self.homes.as_ref()?;
        let by = match entry {
            Entry::Links { source, .. } => source.map_or(partition, |origin| origin.source),
            Entry::Heard { origin, .. } => origin.source,
            _ => partition,
        };
        let mut claims = Vec::new();
        for links in entry.sorted_links() {
            if links.is_empty() {
                continue;
            }
            let sorted = homes.sort(partition, by, std::mem::take(links));
            *links = sorted.own;
            leaving.push(sorted.leaving);
            claims.extend(sorted.claims);
        }
        (!claims.is_empty()).then_some(Entry::Claims { claims })
    }

    /// Who folds it needs to know where to and not what.
    fn append_sent(&mut self, partition: PartitionId, forwards: Vec<Forward>) -> Result<Delivery> {
        let mut entry = Entry::Sent { forwards };
        let seq = self.append(partition, &entry)?;
        if let Entry::Sent { forwards } = &mut entry {
            forwards
                .iter_mut()
                .for_each(|forward| forward.pages = Vec::new());
        }
        Ok(Delivery {
            partition,
            seq,
            entry,
        })
    }

    fn put_cursors(&mut self) {
        let (exchange, segments) = (&self.exchange, &mut self.segments);
        self.cursors.retain(|&partition, &mut cursor| {
            let clear = exchange.has_heard_all(partition);
            if clear {
                segments.put(Tag::Cursor, 0, |out| put_place(out, partition, cursor));
            }
            !clear
        });
    }

    /// In a fleet: takes in a partition that `Adoption::finish` has made. From now on its entries are committed here.
    pub fn adopt(&mut self, partition: &Partition) -> Result<()> {
        let (id, seq) = (partition.id(), partition.applied());
        let partitions = &self.partitions;
        self.segments.begin(|| positions(partitions));
        self.segments
            .put(Tag::Adopted, 0, |out| put_place(out, id, seq));
        self.segments.end(self.archive_end)?;
        let durable = partition.durable();
        if let Some(outgoing) = &self.outgoing {
            outgoing.add(id, durable.clone());
        }
        self.partitions.insert(id, Lane { seq, durable });
        self.exchange.add(partition.streams());
        if let Some(homes) = &self.homes {
            homes.begin(id, partition.claims()?);
        }
        self.note_committed();
        self.write_held()
    }

    /// In a fleet: lets a partition go. All its entries must be settled; nothing is committed for it any longer. Returns its
    /// last entry.
    pub fn release(&mut self, id: PartitionId) -> Result<u64> {
        let lane = self.partitions.remove(&id);
        let seq = lane.ok_or(RegistryError::NoPartition(id.0))?.seq;
        self.exchange.remove(id);
        self.cursors.remove(&id);
        if let Some(homes) = &self.homes {
            homes.end(id);
        }
        if let Some(outgoing) = &self.outgoing {
            outgoing.remove(id);
        }
        self.write_held()?;
        Ok(seq)
    }

    fn write_held(&self) -> Result<()> {
        let ids: Vec<_> = self.partitions.keys().copied().collect();
        write_held(&self.segments.dir, &ids)
    }

    /// Deletes what checkpoints of all partitions have made superfluous, unless the log is to be kept.
    pub fn trim(&mut self) -> Result<()> {
        if self.keep_log || self.segments.on_disk.len() < 2 {
            return Ok(());
        }
        let lanes = self.partitions.iter();
        let checkpointed = lanes.map(|(id, lane)| (id.0, lane.durable.checkpointed()));
        let outgoing = self.outgoing.as_ref();
        let shipped = outgoing.map_or(u64::MAX, |outgoing| outgoing.shipped());
        self.segments.drop_before(&checkpointed.collect(), shipped)
    }

    /// The last entry of a partition.
    pub fn last_seq(&self, partition: PartitionId) -> u64 {
        self.partitions.get(&partition).map_or(0, |lane| lane.seq)
    }

    /// How often the journal was synced since it was opened.
    pub fn syncs(&self) -> u64 {
        self.segments.syncs
    }

    /// Ends a crawl in order: the next opening does not count as one after a crash. The partitions, all of
    /// them, must have been flushed; nothing is written for them any longer when they are gone.
    pub fn close(mut self, partitions: Vec<Partition>) -> Result<()> {
        drop(partitions);
        self.trim()?;
        self.lock.release_clean()
    }

    fn append_entry(&mut self, partition: PartitionId, entry: Entry) -> Result<Delivery> {
        let seq = self.append(partition, &entry)?;
        Ok(Delivery {
            partition,
            seq,
            entry,
        })
    }

    /// Entries of one partition are numbered without gaps. Returns this one's number.
    fn append(&mut self, partition: PartitionId, entry: &Entry) -> Result<u64> {
        let lane = self.partitions.get_mut(&partition);
        let lane = lane.ok_or(RegistryError::NoPartition(partition.0))?;
        lane.seq += 1;
        let seq = lane.seq;
        self.segments
            .put(Tag::Entry(partition), seq, |out| entry.encode(out));
        Ok(seq)
    }

    /// Everything that has been appended is durable. On a single machine it is settled with that.
    fn note_committed(&self) {
        if let Some(outgoing) = &self.outgoing {
            let segment = self.segments.on_disk.back().map_or(0, |(first, _)| *first);
            let last = self.segments.next_number.saturating_sub(1);
            outgoing.note_commit(last, segment, self.segments.file_bytes);
            return;
        }
        for lane in self.partitions.values() {
            lane.durable.settled.store(lane.seq, Ordering::Release);
        }
    }
}

/// What came by a forward.
fn take_heard(entry: &mut Entry) -> Option<(Origin, Vec<LinkBatch>)> {
    match entry {
        Entry::Links {
            source: Some(origin),
            links,
        } => Some((*origin, vec![std::mem::take(links)])),
        Entry::Heard { origin, pages } => Some((*origin, std::mem::take(pages))),
        _ => None,
    }
}

fn positions(partitions: &BTreeMap<PartitionId, Lane>) -> Positions {
    let lanes = partitions.iter();
    lanes.map(|(id, lane)| (id.0, lane.seq)).collect()
}
