//! Plain bytes out of a file that is plain or gzip, with the borders of gzip members kept visible.
//! Knows nothing about records.

use flate2::bufread::GzDecoder;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::os::unix::fs::FileExt;
use std::sync::Arc;

const BUFFER_BYTES: usize = 64 << 10;
pub(super) const GZIP_MAGIC: [u8; 3] = [0x1f, 0x8b, 8];

pub(super) struct Source {
    file: Arc<File>,
    input: Input,
    buffer: Box<[u8]>,
    start: usize,
    end: usize,
    /// Plain bytes taken since the member began, or since the file began if it is plain.
    taken: u64,
    /// Where the member began.
    member_start: u64,
}

enum Input {
    Plain(FileFrom),
    /// Inside a member; boxed because it is large.
    Member(Box<GzDecoder<FileFrom>>),
    /// Between members.
    Between(FileFrom),
    /// Only while one turns into another.
    Moving,
}

/// What stopped the bytes.
pub(super) enum Stop {
    /// The gzip data is not gzip data.
    Corrupt(String),
    /// The file ends inside a member.
    Truncated,
    Io(io::Error),
}

impl Source {
    pub fn plain(file: Arc<File>, offset: u64) -> Self {
        let input = Input::Plain(FileFrom::new(&file, offset));
        Self::over(file, input, offset)
    }

    pub fn gzip(file: Arc<File>, offset: u64) -> Self {
        let input = Input::Between(FileFrom::new(&file, offset));
        Self::over(file, input, offset)
    }

    fn over(file: Arc<File>, input: Input, offset: u64) -> Self {
        Self {
            file,
            input,
            buffer: vec![0; BUFFER_BYTES].into_boxed_slice(),
            start: 0,
            end: 0,
            taken: 0,
            member_start: offset,
        }
    }

    pub fn is_gzip(&self) -> bool {
        !matches!(self.input, Input::Plain(_))
    }

    /// In a plain file the offset of the next byte; in a gzip file that of the member it is in.
    pub fn offset(&self) -> u64 {
        match self.input {
            Input::Plain(_) => self.member_start + self.taken,
            _ => self.member_start,
        }
    }

    /// Offset in the file behind everything that was used up, for lengths of members.
    pub fn used_up_to(&self) -> u64 {
        match &self.input {
            Input::Plain(_) => self.member_start + self.taken,
            Input::Member(decoder) => decoder.get_ref().position,
            Input::Between(file) => file.position,
            Input::Moving => self.member_start,
        }
    }

    /// Plain bytes taken of this member (or of this plain file since it was opened).
    pub fn taken(&self) -> u64 {
        self.taken
    }

    /// The next plain bytes; empty at the end of the member or of the plain file.
    pub fn fill(&mut self) -> Result<&[u8], Stop> {
        if self.start == self.end {
            self.start = 0;
            self.end = 0;
            self.end = match &mut self.input {
                Input::Plain(file) => file.read(&mut self.buffer).map_err(Stop::Io)?,
                Input::Member(decoder) => match decoder.read(&mut self.buffer) {
                    Ok(0) => {
                        self.leave_member();
                        0
                    }
                    Ok(read) => read,
                    Err(error) => return Err(Stop::from(error)),
                },
                Input::Between(_) | Input::Moving => 0,
            };
        }
        Ok(&self.buffer[self.start..self.end])
    }

    pub fn consume(&mut self, bytes: usize) {
        debug_assert!(bytes <= self.end - self.start);
        self.start += bytes;
        self.taken += bytes as u64;
    }

    /// Enters the member that follows. `Ok(false)` at the end of the file, and where no member
    /// follows; `rest` tells these apart. Call it between members only.
    pub fn next_member(&mut self) -> Result<bool, Stop> {
        let Input::Between(file) = &mut self.input else {
            return Ok(false);
        };
        self.member_start = file.position;
        self.taken = 0;
        let mut magic = [0; 3];
        let found = read_at(&self.file, &mut magic, file.position).map_err(Stop::Io)?;
        if found == 0 || magic[..found] != GZIP_MAGIC[..found] {
            return Ok(false);
        }
        if let Input::Between(file) = std::mem::replace(&mut self.input, Input::Moving) {
            self.input = Input::Member(Box::new(GzDecoder::new(file)));
        }
        Ok(true)
    }

    /// Goes on between members at `offset`.
    pub fn go_to(&mut self, offset: u64) {
        self.input = Input::Between(FileFrom::new(&self.file, offset));
        self.start = 0;
        self.end = 0;
        self.taken = 0;
        self.member_start = offset;
    }

    /// Offset of the first member at or after `from` whose text starts with `opening`.
    pub fn find_member(&self, mut from: u64, opening: &[u8]) -> io::Result<Option<u64>> {
        let finder = memchr::memmem::Finder::new(&GZIP_MAGIC);
        let mut window = vec![0; BUFFER_BYTES];
        loop {
            let filled = read_at(&self.file, &mut window, from)?;
            if filled < GZIP_MAGIC.len() {
                return Ok(None);
            }
            for found in finder.find_iter(&window[..filled]) {
                let candidate = from + found as u64;
                let mut text = vec![0; opening.len()];
                let mut member = GzDecoder::new(FileFrom::new(&self.file, candidate));
                if member.read_exact(&mut text).is_ok() && text == opening {
                    return Ok(Some(candidate));
                }
            }
            // Keep what may be the start of a magic number that the window cut.
            from += (filled - (GZIP_MAGIC.len() - 1)) as u64;
        }
    }

    /// Bytes of the file from where reading stands to its end.
    pub fn rest(&self) -> io::Result<u64> {
        Ok(self
            .file
            .metadata()?
            .len()
            .saturating_sub(self.used_up_to()))
    }

    fn leave_member(&mut self) {
        if let Input::Member(decoder) = std::mem::replace(&mut self.input, Input::Moving) {
            self.input = Input::Between(decoder.into_inner());
        }
    }
}

impl From<io::Error> for Stop {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::UnexpectedEof => Stop::Truncated,
            io::ErrorKind::InvalidData | io::ErrorKind::InvalidInput => {
                Stop::Corrupt(error.to_string())
            }
            _ => Stop::Io(error),
        }
    }
}

/// A buffered reader that knows its offset.
struct FileFrom {
    reader: BufReader<At>,
    position: u64,
}

struct At {
    file: Arc<File>,
    offset: u64,
}

impl FileFrom {
    fn new(file: &Arc<File>, offset: u64) -> Self {
        let at = At {
            file: Arc::clone(file),
            offset,
        };
        Self {
            reader: BufReader::with_capacity(BUFFER_BYTES, at),
            position: offset,
        }
    }
}

impl Read for At {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.file.read_at(buffer, self.offset)?;
        self.offset += read as u64;
        Ok(read)
    }
}

impl Read for FileFrom {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.reader.read(buffer)?;
        self.position += read as u64;
        Ok(read)
    }
}

impl BufRead for FileFrom {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        self.reader.fill_buf()
    }

    fn consume(&mut self, bytes: usize) {
        self.position += bytes as u64;
        self.reader.consume(bytes);
    }
}

/// Reads until the buffer is full or the file ends.
pub(super) fn read_at(file: &File, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match file.read_at(&mut buffer[filled..], offset + filled as u64) {
            Ok(0) => break,
            Ok(read) => filled += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}
