//! A file that only grows: its length is in the manifest, and what lies beyond is cut at opening. Writing is another
//! thread's, because the operating system may take its time; what is on its way is read from RAM.

use crate::error::{At, RegistryError, Result};
use crate::files::kept::KeptFile;
use crate::files::paced::PacedFile;
use crate::merger::{Mergers, Promise};
use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

/// Handed over when this much has gathered.
const BUFFER_BYTES: usize = 256 << 10;
/// Buffers on their way to the file; whoever has more waits.
const MAX_ON_THEIR_WAY: usize = 6;

#[derive(Debug)]
pub(crate) struct AppendFile {
    path: PathBuf,
    /// `None` for a reader's copy of a file that does not exist yet.
    target: Option<Arc<Target>>,
    /// Known to be in the file.
    file_bytes: u64,
    /// Handed over: what follows the file's bytes, oldest first.
    on_their_way: VecDeque<Sent>,
    /// What was appended last.
    buffer: Vec<u8>,
    /// Empty, for the next buffer.
    spare: Vec<u8>,
    /// Where `buffer` begins.
    buffer_start: u64,
    /// Those who write; a reader's copy has none, and keeps what it appends in RAM.
    mergers: Option<Mergers>,
    /// Ends each buffer that goes on its way.
    seal: Option<Seal>,
}

/// Appends a piece to a buffer that tells whether what is before it in the buffer is whole.
pub(crate) type Seal = fn(&mut Vec<u8>);

#[derive(Debug)]
struct Sent {
    start: u64,
    bytes: Arc<Vec<u8>>,
    written: Promise<()>,
}

/// The file as those see it who write.
#[derive(Debug)]
struct Target {
    path: PathBuf,
    file: PacedFile,
    /// After a failure nothing more is written, and nothing synced: there would be a hole.
    failed: OnceLock<io::ErrorKind>,
}

impl Target {
    fn check(&self) -> Result<()> {
        match self.failed.get() {
            Some(&kind) => Err(io::Error::from(kind)).at(&self.path),
            None => Ok(()),
        }
    }

    fn write(&self, bytes: &[u8], offset: u64) -> Result<()> {
        self.check()?;
        let written = self.file.write_all_at(bytes, offset);
        if let Err(error) = &written {
            let _ = self.failed.set(error.kind());
        }
        written.at(&self.path)
    }
}

/// All that had been appended to a file at some moment, to be made durable by another thread.
#[derive(Debug)]
pub(crate) struct Unsynced {
    target: Arc<Target>,
    written: Promise<()>,
}

impl Unsynced {
    pub(crate) fn sync(self) -> Result<()> {
        self.written.wait()?;
        self.target.file.sync().at(&self.target.path)
    }
}

impl AppendFile {
    /// Without `mergers`, a reader's copy.
    pub(crate) fn open(path: PathBuf, length: u64, mergers: Option<Mergers>) -> Result<Self> {
        let file = match &mergers {
            None => match File::open(&path) {
                Ok(file) => Some(file),
                Err(_) if length == 0 => None,
                Err(source) => return Err(source).at(&path),
            },
            Some(_) => {
                let mut options = super::no_links();
                options.read(true).write(true).create(true).truncate(false);
                Some(options.open(&path).at(&path)?)
            }
        };
        if let Some(file) = &file {
            let found = file.metadata().at(&path)?.len();
            if found < length {
                return Err(RegistryError::corrupt(
                    &path,
                    found,
                    format!("it ends {} bytes early", length - found),
                ));
            }
            if mergers.is_some() {
                file.set_len(length).at(&path)?;
            }
        }
        let target = file.map(|file| {
            Arc::new(Target {
                path: path.clone(),
                file: PacedFile::new(KeptFile::new(path.clone(), file, mergers.is_some())),
                failed: OnceLock::new(),
            })
        });
        Ok(Self {
            path,
            target,
            file_bytes: length,
            on_their_way: VecDeque::new(),
            buffer: Vec::new(),
            spare: Vec::new(),
            buffer_start: length,
            mergers,
            seal: None,
        })
    }

    /// For pieces without checksums of their own: whoever reads the file from end to end finds one at the end of
    /// each buffer's worth, and at the end of what a manifest knows.
    pub(crate) fn sealed_by(self, seal: Seal) -> Self {
        Self {
            seal: Some(seal),
            ..self
        }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn len(&self) -> u64 {
        self.buffer_start + self.buffer.len() as u64
    }

    pub(crate) fn ram_bytes(&self) -> usize {
        let sent = self.on_their_way.iter().map(|sent| sent.bytes.capacity());
        self.buffer.capacity() + self.spare.capacity() + sent.sum::<usize>()
    }

    /// After this, and before anything is appended, `len` is where the next piece starts.
    pub(crate) fn make_room(&mut self) -> Result<()> {
        if self.buffer.len() >= BUFFER_BYTES {
            self.hand_over()?;
        }
        Ok(())
    }

    /// Appends one piece, written by `write`, and returns where it starts. A piece is never split
    /// between buffers, or buffer and file.
    pub(crate) fn append(&mut self, write: impl FnOnce(&mut Vec<u8>)) -> Result<u64> {
        self.make_room()?;
        let offset = self.len();
        write(&mut self.buffer);
        Ok(offset)
    }

    /// Everything appended so far goes on its way. What comes back makes it durable; a reader's copy has nothing
    /// to make durable.
    pub(crate) fn start_sync(&mut self) -> Result<Option<Unsynced>> {
        self.hand_over()?;
        let (Some(mergers), Some(target)) = (&self.mergers, &self.target) else {
            return Ok(None);
        };
        let target = target.clone();
        let checked = target.clone();
        // Behind all that is on its way.
        let written = mergers.appender.start_job(move || checked.check())?;
        Ok(Some(Unsynced { target, written }))
    }

    /// Would a buffer be taken now without waiting, and one more?
    pub(crate) fn is_ready(&self) -> bool {
        self.on_their_way.len() + 1 < MAX_ON_THEIR_WAY
    }

    /// Notes what has been written.
    pub(crate) fn settle(&mut self) -> Result<()> {
        while let Some(sent) = self.on_their_way.front()
            && let Some(written) = sent.written.poll()
        {
            written?;
            self.note_written();
        }
        Ok(())
    }

    /// The first buffer is in the file. Its memory is used again.
    fn note_written(&mut self) {
        if let Some(sent) = self.on_their_way.pop_front() {
            self.file_bytes += sent.bytes.len() as u64;
            if let Some(mut bytes) = Arc::into_inner(sent.bytes) {
                bytes.clear();
                self.spare = bytes;
            }
        }
    }

    fn hand_over(&mut self) -> Result<()> {
        self.settle()?;
        if let Some(sent) = self.on_their_way.front()
            && self.on_their_way.len() >= MAX_ON_THEIR_WAY
        {
            sent.written.wait()?;
            self.note_written();
        }
        let (Some(mergers), Some(target)) = (&self.mergers, &self.target) else {
            return Ok(());
        };
        if self.buffer.is_empty() {
            return Ok(());
        }
        if let Some(seal) = self.seal {
            seal(&mut self.buffer);
        }
        let spare = std::mem::take(&mut self.spare);
        let start = self.buffer_start;
        let bytes = Arc::new(std::mem::replace(&mut self.buffer, spare));
        self.buffer_start += bytes.len() as u64;
        let (target, sent) = (target.clone(), bytes.clone());
        let written = mergers
            .appender
            .start_job(move || target.write(&sent, start))?;
        self.on_their_way.push_back(Sent {
            start,
            bytes,
            written,
        });
        Ok(())
    }

    /// Up to `length` bytes from `offset` on; fewer at the end of a piece's home.
    pub(crate) fn read(&self, offset: u64, length: usize, into: &mut Vec<u8>) -> Result<()> {
        into.clear();
        if offset >= self.file_bytes {
            let (start, home) = self.home_in_ram(offset);
            let from = ((offset - start) as usize).min(home.len());
            let to = from.saturating_add(length).min(home.len());
            into.extend_from_slice(&home[from..to]);
            return Ok(());
        }
        let length = (self.file_bytes - offset).min(length as u64) as usize;
        into.resize(length, 0);
        match &self.target {
            Some(target) => {
                let file = target.file.file();
                file.with(|file| file.read_exact_at(into, offset))
                    .at(&self.path)
            }
            None => {
                into.clear();
                Ok(())
            }
        }
    }

    /// The buffer that holds `offset`, which is not in the file, and where it begins.
    fn home_in_ram(&self, offset: u64) -> (u64, &[u8]) {
        if offset < self.buffer_start
            && let Some(sent) = self.on_their_way.iter().rfind(|sent| sent.start <= offset)
        {
            return (sent.start, &sent.bytes);
        }
        (self.buffer_start, &self.buffer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PIECE_BYTES: usize = 1000;

    fn piece(number: usize) -> Vec<u8> {
        (0..PIECE_BYTES).map(|n| (n * 7 + number) as u8).collect()
    }

    fn append(file: &mut AppendFile, numbers: std::ops::Range<usize>) {
        for number in numbers {
            let offset = file.append(|out| out.extend(piece(number))).unwrap();
            assert_eq!(offset, (number * PIECE_BYTES) as u64);
        }
    }

    fn check(file: &AppendFile, pieces: usize) {
        assert_eq!(file.len(), (pieces * PIECE_BYTES) as u64);
        let mut read = Vec::new();
        for number in 0..pieces {
            let offset = (number * PIECE_BYTES) as u64;
            file.read(offset, PIECE_BYTES, &mut read).unwrap();
            assert_eq!(read, piece(number), "{number}");
        }
        file.read(file.len(), 1, &mut read).unwrap();
        assert!(read.is_empty());
    }

    #[test]
    fn everything_appended_is_read_wherever_it_is() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("pieces");
        let mergers = Mergers::start(1, None).unwrap();
        let mut file = AppendFile::open(path.clone(), 0, Some(mergers.clone())).unwrap();
        // The thread that writes is held up: buffers pile up, as many as may.
        let (go_on, held) = std::sync::mpsc::channel::<()>();
        mergers
            .appender
            .start_job(move || {
                let _ = held.recv();
                Ok(())
            })
            .unwrap();
        let room = MAX_ON_THEIR_WAY * (BUFFER_BYTES / PIECE_BYTES);
        assert!(file.is_ready());
        append(&mut file, 0..room);
        assert!(file.on_their_way.len() >= MAX_ON_THEIR_WAY - 1);
        file.settle().unwrap();
        assert!(!file.is_ready());
        assert_eq!(std::fs::metadata(&path).unwrap().len(), 0);
        check(&file, room);
        let late = std::thread::spawn(move || drop(go_on));
        append(&mut file, room..3 * room);
        late.join().unwrap();
        check(&file, 3 * room);
        file.start_sync().unwrap().unwrap().sync().unwrap();
        file.settle().unwrap();
        assert!(file.is_ready() && file.on_their_way.is_empty());
        assert_eq!(std::fs::metadata(&path).unwrap().len(), file.len());
        let length = file.len();
        append(&mut file, 3 * room..3 * room + 5);
        check(&file, 3 * room + 5);
        drop(file);
        // What is beyond the length is cut, and a reader appends in RAM.
        let mut file = AppendFile::open(path.clone(), length, Some(mergers)).unwrap();
        check(&file, 3 * room);
        append(&mut file, 3 * room..3 * room + 1);
        drop(file);
        let mut copy = AppendFile::open(path.clone(), length, None).unwrap();
        append(&mut copy, 3 * room..4 * room);
        check(&copy, 4 * room);
        assert!(copy.start_sync().unwrap().is_none());
        assert_eq!(std::fs::metadata(&path).unwrap().len(), length);
    }

    #[test]
    fn after_a_failed_write_nothing_is_written_or_synced() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("pieces");
        let mergers = Mergers::start(1, None).unwrap();
        let mut file = AppendFile::open(path.clone(), 0, Some(mergers)).unwrap();
        append(&mut file, 0..1);
        // A handle that cannot be written by stands for a disk that is full for a while.
        let target = file.target.take().unwrap();
        file.target = Some(Arc::new(Target {
            path: path.clone(),
            file: PacedFile::new(KeptFile::held(File::open(&path).unwrap())),
            failed: OnceLock::new(),
        }));
        let unsynced = file.start_sync().unwrap().unwrap();
        assert!(unsynced.sync().unwrap_err().to_string().contains("pieces"));
        assert!(file.start_sync().is_err());
        drop(target);
        assert_eq!(std::fs::metadata(&path).unwrap().len(), 0);
    }
}
