//! The journal's segments as they are written: a commit is appended whole and synced, and segments go that nobody needs.

use crate::error::{At, Result};
use crate::files::{no_links, sync_dir};
use crate::log::frame::{Head, Tag, put_frame};
use crate::log::reader::{ArchiveEnd, JournalEnd, put_archive_end};
use crate::log::segment::{Positions, list_segments, positions_before, segment_path};
use std::collections::VecDeque;
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

/// The journal's files, appended to. A commit waits in `buffer` until it is whole.
#[derive(Debug)]
pub(super) struct Segments {
    pub(super) dir: PathBuf,
    path: PathBuf,
    /// The segment that is written to.
    file: Option<File>,
    pub(super) file_bytes: u64,
    segment_bytes: u64,
    /// The segments on disk, oldest first, and what came before each; the last is written to.
    pub(super) on_disk: VecDeque<(u64, Positions)>,
    buffer: Vec<u8>,
    pub(super) next_number: u64,
    pub(super) syncs: u64,
}

impl Segments {
    pub(super) fn open(dir: PathBuf, end: JournalEnd, segment_bytes: u64) -> Result<Self> {
        let mut on_disk = VecDeque::new();
        for (first, path) in list_segments(&dir)? {
            // Only the last one may have no sound beginning, and gets a new one then.
            let before = positions_before(first, &path)?;
            on_disk.push_back((first, before.unwrap_or_else(|| end.positions.clone())));
        }
        let mut segments = Self {
            path: dir.clone(),
            file: None,
            file_bytes: 0,
            segment_bytes,
            on_disk,
            buffer: Vec::new(),
            next_number: end.next_number,
            syncs: 0,
            dir,
        };
        if let Some((path, length)) = end.segment {
            let file = no_links().write(true).open(&path).at(&path)?;
            file.set_len(length).at(&path)?;
            // What was read as the journal must still be there after the next crash.
            file.sync_data().at(&path)?;
            segments.file = Some(no_links().append(true).open(&path).at(&path)?);
            segments.path = path;
            segments.file_bytes = length;
        }
        Ok(segments)
    }

    /// A commit begins. `positions`: where it begins.
    pub(super) fn begin(&mut self, positions: impl FnOnce() -> Positions) {
        if self.file.is_some() && self.file_bytes >= self.segment_bytes {
            self.file = None;
            self.file_bytes = 0;
        }
        if self.file_bytes == 0 {
            let positions = positions();
            if self.file.is_none() {
                self.on_disk
                    .push_back((self.next_number, positions.clone()));
            }
            self.put(Tag::Positions, 0, |out| positions.encode(out));
        }
    }

    pub(super) fn put(&mut self, tag: Tag, seq: u64, payload: impl FnOnce(&mut Vec<u8>)) {
        let head = Head {
            number: self.next_number,
            seq,
            synced: self.file_bytes,
            tag,
        };
        put_frame(&mut self.buffer, head, payload);
        self.next_number += 1;
    }

    /// The commit is whole: write and sync it. Returns its length.
    pub(super) fn end(&mut self, archive_end: ArchiveEnd) -> Result<u64> {
        self.put(Tag::Commit, 0, |out| put_archive_end(out, archive_end));
        let file = match &mut self.file {
            Some(file) => file,
            none => {
                let first = self.on_disk.back().map_or(1, |(first, _)| *first);
                self.path = segment_path(&self.dir, first);
                let file = new_file(&self.dir, &self.path)?;
                none.insert(file)
            }
        };
        file.write_all(&self.buffer).at(&self.path)?;
        file.sync_data().at(&self.path)?;
        self.syncs += 1;
        let written = self.buffer.len() as u64;
        self.file_bytes += written;
        self.buffer.clear();
        Ok(written)
    }

    /// Deletes segments whose entries are all in checkpoints. The last one stays: it says how far each partition is.
    /// None goes whose frames are not all `shipped`.
    pub(super) fn drop_before(&mut self, checkpointed: &Positions, shipped: u64) -> Result<()> {
        // One that is empty says nothing.
        while self.file_bytes > 0
            && let Some((next, ends)) = self.on_disk.get(1)
            && *next <= shipped.saturating_add(1)
            && checkpointed.reach(ends)
            && let Some((first, _)) = self.on_disk.pop_front()
        {
            let path = segment_path(&self.dir, first);
            fs::remove_file(&path).at(&path)?;
        }
        Ok(())
    }
}

fn new_file(dir: &Path, path: &Path) -> Result<File> {
    let file = OpenOptions::new()
        .append(true)
        .create_new(true)
        .open(path)
        .at(path)?;
    sync_dir(dir)?;
    Ok(file)
}
