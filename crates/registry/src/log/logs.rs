//! Writing to all logs, by one thread: commit entries, pass their forwards on, say what is durable.

use crate::error::{At, Result};
use crate::files::sync_dir;
use crate::files::{Permit, no_links};
use crate::lock::DirLock;
use crate::log::Entry;
use crate::log::segment::{LogEnd, list_segments, put_frame, segment_path};
use crate::partition::Partition;
use portolan_model::{LinkBatch, PartitionId};
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// An entry that is in a log, for its partition's owner to fold.
#[derive(Debug)]
pub struct Delivery {
    pub partition: PartitionId,
    pub seq: u64,
    pub entry: Entry,
}

/// How far each log is safe, shared between the thread that commits and those that checkpoint.
#[derive(Debug)]
pub(crate) struct Durable {
    /// Entries up to here are synced, and so are all forwards that they caused.
    settled: Vec<AtomicU64>,
    /// Entries up to here are in a committed checkpoint.
    checkpointed: Vec<AtomicU64>,
}

impl Durable {
    pub(crate) fn new(checkpointed: &[u64]) -> Self {
        let atomics = || {
            checkpointed
                .iter()
                .map(|&seq| AtomicU64::new(seq))
                .collect()
        };
        Self {
            settled: atomics(),
            checkpointed: atomics(),
        }
    }

    pub(crate) fn settled(&self, partition: PartitionId) -> u64 {
        self.settled[partition.0 as usize].load(Ordering::Acquire)
    }

    pub(crate) fn note_checkpoint(&self, partition: PartitionId, seq: u64) {
        self.checkpointed[partition.0 as usize].store(seq, Ordering::Release);
    }

    fn checkpointed(&self, partition: usize) -> u64 {
        self.checkpointed[partition].load(Ordering::Acquire)
    }
}

/// The logs of all partitions. Used by one thread.
#[derive(Debug)]
pub struct Logs {
    logs: Vec<LogWriter>,
    durable: Arc<Durable>,
    keep_log: bool,
    lock: Arc<DirLock>,
}

impl Logs {
    /// `ends` says where each log's whole frames end; what follows is cut.
    pub(crate) fn open(
        dirs: Vec<PathBuf>,
        ends: Vec<LogEnd>,
        segment_bytes: u64,
        keep_log: bool,
        durable: Arc<Durable>,
        lock: Arc<DirLock>,
    ) -> Result<Self> {
        let logs = dirs
            .into_iter()
            .zip(ends)
            .map(|(dir, end)| LogWriter::open(dir, end, segment_bytes))
            .collect::<Result<_>>()?;
        Ok(Self {
            logs,
            durable,
            keep_log,
            lock,
        })
    }

    /// Appends the entries and syncs them, then appends one `Links` entry for each forward to its
    /// destination's log (synced with the next commit, or by `sync`). Returns all of them, each
    /// partition's in order. So a page is in the log with all its links or not at all.
    ///
    /// After an error nothing more may be committed: open the registry again.
    pub fn commit(&mut self, batch: Vec<(PartitionId, Entry)>) -> Result<Vec<Delivery>> {
        let mut deliveries = Vec::with_capacity(batch.len());
        for (partition, entry) in batch {
            let seq = self.logs[partition.0 as usize].append(&entry)?;
            deliveries.push(Delivery {
                partition,
                seq,
                entry,
            });
        }
        self.sync()?;
        for index in 0..deliveries.len() {
            let source = (deliveries[index].partition, deliveries[index].seq);
            let forwards = deliveries[index].entry.take_forwards();
            for (partition, links) in one_per_destination(forwards) {
                deliveries.push(self.forward(source, partition, links)?);
            }
        }
        self.note_forwarded();
        Ok(deliveries)
    }

    /// Makes everything appended durable, forwards included: one log after the other, by the
    /// partitions' numbers, on which the order of records in the archive relies.
    pub fn sync(&mut self) -> Result<()> {
        for log in &mut self.logs {
            log.sync()?;
        }
        for (index, log) in self.logs.iter_mut().enumerate() {
            self.durable.settled[index].store(log.forwarded, Ordering::Release);
            if !self.keep_log {
                log.drop_before(self.durable.checkpointed(index))?;
            }
        }
        Ok(())
    }

    /// The last entry of a partition's log.
    pub fn last_seq(&self, partition: PartitionId) -> u64 {
        self.logs[partition.0 as usize].next_seq - 1
    }

    /// Ends a crawl in order: the next opening does not count as one after a crash. The partitions, all of
    /// them, must have been flushed; nothing is written for them any longer when they are gone.
    pub fn close(mut self, partitions: Vec<Partition>) -> Result<()> {
        drop(partitions);
        self.sync()?;
        self.lock.release_clean()
    }

    pub(crate) fn forward(
        &mut self,
        source: (PartitionId, u64),
        partition: PartitionId,
        links: LinkBatch,
    ) -> Result<Delivery> {
        let entry = Entry::Links {
            source: Some(source),
            links,
        };
        let seq = self.logs[partition.0 as usize].append(&entry)?;
        Ok(Delivery {
            partition,
            seq,
            entry,
        })
    }

    /// All forwards of what has been appended so far are appended too.
    pub(crate) fn note_forwarded(&mut self) {
        for log in &mut self.logs {
            log.forwarded = log.next_seq - 1;
        }
    }
}

/// Destinations tell forwards apart by their source's number, so there may be one each.
pub(crate) fn one_per_destination(
    forwards: Vec<(PartitionId, LinkBatch)>,
) -> Vec<(PartitionId, LinkBatch)> {
    let mut merged: Vec<(PartitionId, LinkBatch)> = Vec::with_capacity(forwards.len());
    for (partition, batch) in forwards {
        match merged.iter_mut().find(|(known, _)| *known == partition) {
            None => merged.push((partition, batch)),
            Some((_, into)) => into.append(&batch),
        }
    }
    merged
}

/// One log, appended to. Frames wait in `buffer` until the next sync.
#[derive(Debug)]
struct LogWriter {
    dir: PathBuf,
    path: PathBuf,
    /// The segment that is written to, while it is open: with a permit, until it is full.
    file: Option<(File, Option<Permit>)>,
    file_bytes: u64,
    segment_bytes: u64,
    /// First sequence numbers of the segments on disk, oldest first; the last is written to.
    segments: Vec<u64>,
    buffer: Vec<u8>,
    next_seq: u64,
    /// Entries up to here have all their forwards appended.
    forwarded: u64,
}

impl LogWriter {
    fn open(dir: PathBuf, end: LogEnd, segment_bytes: u64) -> Result<Self> {
        let segments = list_segments(&dir)?;
        let mut writer = Self {
            path: dir.clone(),
            file: None,
            file_bytes: 0,
            segment_bytes,
            segments: segments.iter().map(|(first, _)| *first).collect(),
            buffer: Vec::new(),
            next_seq: end.seq + 1,
            forwarded: end.seq,
            dir,
        };
        if let Some((path, length)) = end.segment {
            let file = no_links().write(true).open(&path).at(&path)?;
            file.set_len(length).at(&path)?;
            // What was read as the log must still be there after the next crash.
            file.sync_data().at(&path)?;
            let permit = Permit::take();
            if permit.is_some() || length == 0 {
                let file = no_links().append(true).open(&path).at(&path)?;
                writer.file = Some((file, permit));
            }
            writer.path = path;
            writer.file_bytes = length;
        }
        Ok(writer)
    }

    fn append(&mut self, entry: &Entry) -> Result<u64> {
        let seq = self.next_seq;
        put_frame(&mut self.buffer, seq, self.file_bytes, entry);
        self.next_seq += 1;
        Ok(seq)
    }

    fn sync(&mut self) -> Result<()> {
        if self.buffer.is_empty() {
            return Ok(());
        }
        let (file, _) = match &mut self.file {
            Some(file) => file,
            // It was not kept open.
            none if self.file_bytes > 0 => {
                let file = no_links().append(true).open(&self.path);
                none.insert((file.at(&self.path)?, Permit::take()))
            }
            none => {
                let first = self.next_seq - count_frames(&self.buffer);
                self.path = segment_path(&self.dir, first);
                let file = OpenOptions::new()
                    .append(true)
                    .create_new(true)
                    .open(&self.path)
                    .at(&self.path)?;
                sync_dir(&self.dir)?;
                self.segments.push(first);
                none.insert((file, Permit::take()))
            }
        };
        file.write_all(&self.buffer).at(&self.path)?;
        file.sync_data().at(&self.path)?;
        self.file_bytes += self.buffer.len() as u64;
        self.buffer.clear();
        if self.file_bytes >= self.segment_bytes {
            self.file = None;
            self.file_bytes = 0;
        }
        self.file.take_if(|(_, permit)| permit.is_none());
        Ok(())
    }

    /// Deletes segments whose entries are all in a checkpoint.
    fn drop_before(&mut self, checkpointed: u64) -> Result<()> {
        while self.segments.len() > 1 && self.segments[1] <= checkpointed + 1 {
            let path = segment_path(&self.dir, self.segments[0]);
            fs::remove_file(&path).at(&path)?;
            self.segments.remove(0);
        }
        Ok(())
    }
}

fn count_frames(mut buffer: &[u8]) -> u64 {
    let mut count = 0;
    while let Some(length) = buffer.first_chunk::<4>() {
        let frame = super::segment::FRAME_HEADER_BYTES + u32::from_le_bytes(*length) as usize;
        buffer = &buffer[frame.min(buffer.len())..];
        count += 1;
    }
    count
}
