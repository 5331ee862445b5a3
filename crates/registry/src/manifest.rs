//! The one small file that says which files make up a partition's state, and up to which entry of
//! the log. Replaced as a whole: it is the checkpoint.

use crate::error::{At, RegistryError, Result};
use crate::files::replace_file;
use crate::log::{Exchanged, Heard};
use crate::stats::Stats;
use crate::wire::{Reader, put_varint};
use std::fs;
use std::io;
use std::path::Path;

pub(crate) const NAME: &str = "manifest";
const MAGIC: &[u8; 8] = b"PORTMAN2";

#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Manifest {
    /// The last entry that is folded into the files.
    pub(crate) seq: u64,
    pub(crate) arrivals: u64,
    pub(crate) next_file: u64,
    /// How far it has heard other partitions.
    pub(crate) heard: Heard,
    pub(crate) known_runs: Vec<u64>,
    pub(crate) due_runs: Vec<u64>,
    pub(crate) host_runs: Vec<u64>,
    pub(crate) texts_bytes: u64,
    pub(crate) visits_bytes: u64,
    pub(crate) graph_bytes: u64,
    pub(crate) seeds_bytes: u64,
    /// The session that has begun; 0 and 1 are the first.
    pub(crate) session: u32,
    /// Visits of the session are recorded from here on.
    pub(crate) session_from: u64,
    pub(crate) stats: Stats,
    /// `None` for a registry that is in no fleet.
    pub(crate) exchanged: Option<Exchanged>,
    /// Of sites of which it is the home; only in a fleet.
    pub(crate) claims_bytes: u64,
}

impl Manifest {
    pub(crate) fn write(&self, dir: &Path) -> Result<()> {
        let mut bytes = MAGIC.to_vec();
        for number in [
            self.seq,
            self.arrivals,
            self.next_file,
            self.texts_bytes,
            self.visits_bytes,
            self.graph_bytes,
            self.seeds_bytes,
        ] {
            put_varint(&mut bytes, number);
        }
        let heard = self.heard.iter();
        put_varint(&mut bytes, heard.len() as u64);
        for (source, number) in heard {
            put_varint(&mut bytes, u64::from(source));
            put_varint(&mut bytes, number);
        }
        for list in [&self.known_runs, &self.due_runs, &self.host_runs] {
            put_varint(&mut bytes, list.len() as u64);
            for &number in list {
                put_varint(&mut bytes, number);
            }
        }
        put_varint(&mut bytes, u64::from(self.session));
        put_varint(&mut bytes, self.session_from);
        self.stats.encode(&mut bytes);
        if let Some(exchanged) = &self.exchanged {
            exchanged.encode(&mut bytes);
            if self.claims_bytes > 0 {
                put_varint(&mut bytes, self.claims_bytes);
            }
        }
        let crc = crc32fast::hash(&bytes);
        bytes.extend_from_slice(&crc.to_le_bytes());
        replace_file(dir, NAME, &bytes)
    }

    /// `None` where no checkpoint was made yet.
    pub(crate) fn read(dir: &Path) -> Result<Option<Self>> {
        let path = dir.join(NAME);
        let bytes = match fs::read(&path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error).at(&path),
        };
        Self::parse(&bytes)
            .map(Some)
            .ok_or_else(|| RegistryError::corrupt(&path, 0, "it is not a sound manifest"))
    }

    /// From the bytes of its file; `None` if they are not sound.
    pub(crate) fn parse(bytes: &[u8]) -> Option<Self> {
        let (body, crc) = bytes.split_last_chunk::<4>()?;
        match crc32fast::hash(body) == u32::from_le_bytes(*crc) {
            true => Self::decode(body),
            false => None,
        }
    }

    /// The files that it is of, by name; with their lengths where they grow.
    pub(crate) fn files(&self) -> Vec<(String, Option<u64>)> {
        let tables = [
            ("known", &self.known_runs),
            ("due", &self.due_runs),
            ("hosts", &self.host_runs),
        ];
        let tables = tables.into_iter().flat_map(|(kind, ids)| {
            let named = ids.iter();
            named.map(move |id| (format!("{kind}-{id:08}.tbl"), None))
        });
        let growing = [
            ("urls", self.texts_bytes),
            ("visits", self.visits_bytes),
            ("links", self.graph_bytes),
            ("seeds", self.seeds_bytes),
            ("claims", self.claims_bytes),
        ];
        let growing = growing.into_iter().filter(|(_, bytes)| *bytes > 0);
        let growing = growing.map(|(name, bytes)| (name.to_owned(), Some(bytes)));
        tables.chain(growing).collect()
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        let reader = &mut Reader::new(bytes.strip_prefix(MAGIC)?);
        let mut manifest = Self {
            seq: reader.varint()?,
            arrivals: reader.varint()?,
            next_file: reader.varint()?,
            texts_bytes: reader.varint()?,
            visits_bytes: reader.varint()?,
            graph_bytes: reader.varint()?,
            seeds_bytes: reader.varint()?,
            ..Self::default()
        };
        let sources: usize = reader.narrow()?;
        let heard = (0..sources).map(|_| Some((reader.narrow()?, reader.varint()?)));
        manifest.heard = heard.collect::<Option<_>>()?;
        for list in [
            &mut manifest.known_runs,
            &mut manifest.due_runs,
            &mut manifest.host_runs,
        ] {
            let count = reader.varint()?;
            for _ in 0..count {
                list.push(reader.varint()?);
            }
        }
        manifest.session = reader.narrow()?;
        manifest.session_from = reader.varint()?;
        manifest.stats = Stats::decode(reader)?;
        if !reader.is_empty() {
            manifest.exchanged = Some(Exchanged::decode(reader)?);
        }
        if !reader.is_empty() {
            manifest.claims_bytes = reader.varint()?;
        }
        reader.is_empty().then_some(manifest)
    }
}
