//! A file of sorted 64-bit keys with a 16-bit value each: what part vectors and rank tables are kept in.
//! Read through a memory map; keys are hashes, so a small index by their top bits finds any of them
//! in a probe or two.
//!
//! ```text
//! magic 8 | version u32 | kind u32 | values u32 (all are below) | index bits u32 | keys u64 | seed u64
//! index: 2^bits + 1 x u32, first key of each bucket | keys: u64 sorted | values: u16 | checksum u64
//! ```
//! A key is the public identity of a URL or of a site's name (`Identities::PUBLIC`), so that a table serves
//! every crawl. A URL that was made to share another one's key would share its part or its rank and
//! nothing else.
//!
//! Numbers are little-endian. The checksum (xxh3) covers everything before it.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use memmap2::Mmap;
use portolan_model::Identities;
use xxhash_rust::xxh3::{Xxh3, xxh3_64};

use crate::error::{GraphError, Result};

const MAGIC: &[u8; 8] = b"PORTOLPV";
const VERSION: u32 = 2;
const HEAD_BYTES: usize = 40;
const CHECKSUM_BYTES: usize = 8;
/// Keys in a bucket, on average.
const BUCKET_KEYS: usize = 8;

/// What the keys and values are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    PartsOfPages = 1,
    PartsOfSites = 2,
    Ranks = 3,
}

#[derive(Debug)]
pub(crate) struct Table {
    map: Mmap,
    pub(crate) kind: Kind,
    pub(crate) values: u32,
    pub(crate) seed: u64,
    bits: u32,
    keys: usize,
}

/// The key of a page in any table.
pub(crate) fn page_key(canonical_url: &str) -> u64 {
    Identities::PUBLIC.doc(canonical_url).0
}

/// The key of a site in any table.
pub(crate) fn site_key(host_name: &str) -> u64 {
    Identities::PUBLIC.host(host_name).0
}

impl Table {
    /// `entries` are sorted by key, each key once, each value below `values`.
    pub(crate) fn write(
        path: &Path,
        kind: Kind,
        values: u32,
        seed: u64,
        entries: &[(u64, u16)],
    ) -> Result<()> {
        debug_assert!(entries.windows(2).all(|pair| pair[0].0 < pair[1].0));
        let count = u32::try_from(entries.len())
            .map_err(|_| GraphError::Request("more than 4,294,967,295 entries".to_owned()))?;
        let bits = (entries.len() / BUCKET_KEYS).checked_ilog2().unwrap_or(0);
        // Where the name is a link, what it leads to is replaced, not the link.
        let path = &path.canonicalize().unwrap_or_else(|_| path.to_owned());
        let (partial, file) = beside(path)?;
        let mut out = Summed {
            out: BufWriter::with_capacity(1 << 18, file),
            sum: Xxh3::new(),
        };
        let written: std::io::Result<()> = (|| {
            out.put(MAGIC)?;
            for number in [VERSION, kind as u32, values, bits] {
                out.put(&number.to_le_bytes())?;
            }
            out.put(&u64::from(count).to_le_bytes())?;
            out.put(&seed.to_le_bytes())?;
            let mut at = 0_usize;
            for bucket in 0..=(1_u64 << bits) {
                while at < entries.len() && bucket_of(entries[at].0, bits) < bucket {
                    at += 1;
                }
                out.put(&(at as u32).to_le_bytes())?;
            }
            for (key, _) in entries {
                out.put(&key.to_le_bytes())?;
            }
            for (_, value) in entries {
                out.put(&value.to_le_bytes())?;
            }
            let sum = out.sum.digest();
            out.out.write_all(&sum.to_le_bytes())?;
            out.out.flush()?;
            out.out.get_ref().sync_all()?;
            // Whole or not at all: a reader never sees half of it under its name.
            std::fs::rename(&partial, path)
        })();
        if written.is_err() {
            let _ = std::fs::remove_file(&partial);
        }
        written.map_err(GraphError::io(path))
    }

    /// Reads the whole file once, to check it.
    pub(crate) fn open(path: &Path) -> Result<Self> {
        let file = File::open(path).map_err(GraphError::io(path))?;
        let map = map(&file).map_err(GraphError::io(path))?;
        let damaged = |what: &str| GraphError::damaged(path, what);
        if !map.starts_with(&MAGIC[..map.len().min(8)]) || map.is_empty() {
            return Err(damaged("this is no part vector or rank table"));
        }
        if map.len() < HEAD_BYTES + CHECKSUM_BYTES {
            return Err(damaged("the file is cut off"));
        }
        let version = u32_at(&map, 8);
        if version != VERSION {
            return Err(damaged(&format!(
                "it has format {version}; this program reads format {VERSION}: make it again"
            )));
        }
        let (values, bits) = (u32_at(&map, 16), u32_at(&map, 20));
        let keys = u64_at(&map, 24);
        let wanted = (bits < 32)
            .then(|| 4 * ((1_u64 << bits) + 1))
            .and_then(|index| keys.checked_mul(10)?.checked_add(index))
            .and_then(|body| body.checked_add((HEAD_BYTES + CHECKSUM_BYTES) as u64));
        if wanted != Some(map.len() as u64) {
            return Err(damaged("the file is cut off or has something added"));
        }
        let body = map.len() - CHECKSUM_BYTES;
        if xxh3_64(&map[..body]) != u64_at(&map, body) {
            return Err(damaged("its checksum is wrong: the file was changed"));
        }
        let kind = match u32_at(&map, 12) {
            1 => Kind::PartsOfPages,
            2 => Kind::PartsOfSites,
            3 => Kind::Ranks,
            _ => return Err(damaged("it holds something this program does not know")),
        };
        let table = Self {
            kind,
            values,
            seed: u64_at(&map, 32),
            bits,
            keys: keys as usize,
            map,
        };
        table.check_order().map_err(damaged)?;
        Ok(table)
    }

    /// A right checksum only says that the file is as it was written.
    fn check_order(&self) -> std::result::Result<(), &'static str> {
        let mut previous = 0;
        for at in 0..=(1_usize << self.bits) {
            let start = self.index(at);
            if start < previous || start > self.keys {
                return Err("its index is out of order");
            }
            previous = start;
        }
        if previous != self.keys && self.index(1 << self.bits) != self.keys {
            return Err("its index does not cover its keys");
        }
        for at in 0..self.keys {
            if at > 0 && self.key(at - 1) >= self.key(at) {
                return Err("its keys are out of order");
            }
            if u32::from(self.value(at)) >= self.values {
                return Err("a value is above its limit");
            }
        }
        Ok(())
    }

    pub(crate) fn len(&self) -> usize {
        self.keys
    }

    pub(crate) fn checksum(&self) -> u64 {
        u64_at(&self.map, self.map.len() - CHECKSUM_BYTES)
    }

    #[inline]
    pub(crate) fn find(&self, key: u64) -> Option<u16> {
        let bucket = bucket_of(key, self.bits) as usize;
        let (start, end) = (self.index(bucket), self.index(bucket + 1));
        (start..end)
            .map(|at| (at, self.key(at)))
            .take_while(|&(_, found)| found <= key)
            .find(|&(_, found)| found == key)
            .map(|(at, _)| self.value(at))
    }

    fn index(&self, bucket: usize) -> usize {
        u32_at(&self.map, HEAD_BYTES + 4 * bucket) as usize
    }

    fn keys_start(&self) -> usize {
        HEAD_BYTES + 4 * ((1 << self.bits) + 1)
    }

    fn key(&self, at: usize) -> u64 {
        u64_at(&self.map, self.keys_start() + 8 * at)
    }

    fn value(&self, at: usize) -> u16 {
        let place = self.keys_start() + 8 * self.keys + 2 * at;
        u16::from_le_bytes([self.map[place], self.map[place + 1]])
    }
}

/// A new file of its own name beside `path`, which must be a file or nothing yet.
fn beside(path: &Path) -> Result<(PathBuf, File)> {
    let name = path
        .file_name()
        .filter(|_| !path.exists() || path.is_file());
    let name = name.ok_or_else(|| {
        GraphError::Request(format!(
            "{} is no file that can be replaced",
            path.display()
        ))
    })?;
    let mut unique = name.to_os_string();
    unique.push(format!(".{}.partial", std::process::id()));
    let partial = path.with_file_name(unique);
    let file = File::create_new(&partial).map_err(GraphError::io(&partial))?;
    Ok((partial, file))
}

struct Summed {
    out: BufWriter<File>,
    sum: Xxh3,
}

impl Summed {
    fn put(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        self.sum.update(bytes);
        self.out.write_all(bytes)
    }
}

fn bucket_of(key: u64, bits: u32) -> u64 {
    // A shift by 64 is an overflow.
    key.checked_shr(64 - bits).unwrap_or(0)
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    let mut word = [0; 4];
    word.copy_from_slice(&bytes[at..at + 4]);
    u32::from_le_bytes(word)
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    let mut word = [0; 8];
    word.copy_from_slice(&bytes[at..at + 8]);
    u64::from_le_bytes(word)
}

#[expect(
    unsafe_code,
    reason = "memory maps are unsafe because another process may change the file under the reader. Tables \
              are written under another name and renamed, never changed in place, so the bytes stay as \
              they are while they are mapped; and no byte is ever taken for anything but a number \
              whose range is checked, so even a changed file gives a wrong part or a panic, not \
              undefined behaviour through a reference to something else. A file that is cut while it is \
              mapped ends the process (SIGBUS), as for every mapped file."
)]
fn map(file: &File) -> std::io::Result<Mmap> {
    // SAFETY: see the reason above.
    unsafe { Mmap::map(file) }
}
