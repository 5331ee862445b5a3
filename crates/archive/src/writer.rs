//! The archivist: the one place that appends to WARC files. Opens them when there is something to
//! write, rotates them by size and age, closes and merges their indexes. Builds no records of pages.

use crate::append_file::{AppendFile, sync_dir};
use crate::capture::Built;
use crate::cdxj::{PartIndex, close_index};
use crate::date::timestamp14;
use crate::error::ArchiveError;
use crate::member::{GzipMembers, Packing};
use crate::merge::merge_sorted;
use crate::record::warcinfo;
use crate::recover::{Recovery, recover_files};
use crate::settings::{ArchiveSettings, Compression, DurableEnd, FILES_A_NODE, file_prefix};
use portolan_model::{ArchivePosition, Clock};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub struct WarcWriter {
    settings: ArchiveSettings,
    places: Places,
    clock: Arc<dyn Clock>,
    seed: u64,
    next_number: u32,
    open: Option<OpenWarc>,
}

/// What `finish` leaves behind.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ClosedArchive {
    /// The merged index of all files.
    pub index: PathBuf,
    /// Lines in it: responses and revisits.
    pub entries: u64,
    pub files: usize,
    /// Of all files together.
    pub bytes: u64,
}

impl WarcWriter {
    /// Makes files and index agree with what was logged, then goes on in a new file. For a new
    /// crawl `durable` is `None`. `root` gets `archive/`, `index/` and, in the end, `index.cdxj`.
    /// `surt` is asked for the key of a URL whose index line was lost. `seed` is for record ids.
    pub fn recover(
        root: &Path,
        settings: ArchiveSettings,
        durable: Option<DurableEnd>,
        surt: &dyn Fn(&str) -> String,
        clock: Arc<dyn Clock>,
        seed: u64,
    ) -> Result<(Self, Recovery), ArchiveError> {
        let places = Places::new(root, &file_prefix(&settings.prefix, &settings.node))?;
        GzipMembers::new(&settings)?;
        for dir in [&places.archive, &places.index] {
            fs::create_dir_all(dir).map_err(ArchiveError::io("create", dir))?;
        }
        sync_dir(root)?;
        let recovery = recover_files(&places, durable, surt)?;
        let writer = Self {
            next_number: match durable {
                Some(durable) => durable.file.saturating_add(1),
                None => u32::from(settings.node_number) * FILES_A_NODE,
            },
            settings,
            places,
            clock,
            seed,
            open: None,
        };
        Ok((writer, recovery))
    }

    /// Takes the records of a visit. They are durable after the next `sync`. On an error they were
    /// not taken, and the call may be made again.
    pub fn append(&mut self, built: &Built) -> Result<ArchivePosition, ArchiveError> {
        if self.open.as_ref().is_some_and(|open| self.is_full(open)) {
            self.close_file()?;
        }
        let open = match &mut self.open {
            Some(open) => open,
            none => none.insert(OpenWarc::create(
                &self.places,
                &self.settings,
                self.next_number,
                self.clock.as_ref(),
                self.seed,
            )?),
        };
        open.warc.make_room(built.members.len())?;
        open.part.make_room(&built.index_start)?;
        let offset = open.warc.len();
        open.warc.push(&built.members);
        let length = u64::from(built.response_length);
        open.part
            .push(&built.index_start, length, offset, &open.name);
        Ok(ArchivePosition {
            file: open.number,
            offset,
            length: built.response_length,
            end: open.warc.len(),
        })
    }

    /// Is it large or old enough for the next file to be begun?
    fn is_full(&self, open: &OpenWarc) -> bool {
        let ArchiveSettings {
            file_bytes,
            file_age_s,
            ..
        } = self.settings;
        open.warc.len() >= file_bytes
            || (file_age_s > 0
                && self.clock.now_ms().saturating_sub(open.begun_ms) / 1000 >= file_age_s)
    }

    /// Everything appended so far survives a power cut once this returns. Returns its end; `None`
    /// if nothing was appended since the last file was closed.
    pub fn sync(&mut self) -> Result<Option<DurableEnd>, ArchiveError> {
        let Some(open) = &mut self.open else {
            return Ok(None);
        };
        open.warc.sync()?;
        open.part.flush()?;
        Ok(Some(DurableEnd {
            file: open.number,
            end: open.warc.len(),
        }))
    }

    /// Closes the open file, whatever its size. The next append begins a new one.
    pub fn close_file(&mut self) -> Result<(), ArchiveError> {
        let Some(open) = &mut self.open else {
            return Ok(());
        };
        open.warc.sync()?;
        open.part.flush()?;
        tracing::info!(
            file = open.name,
            bytes = open.warc.len(),
            "WARC file closed"
        );
        let part = self.places.part(&open.name);
        close_index(&part, &self.places.sorted(&open.name))?;
        self.next_number = open.number + 1;
        self.open = None;
        Ok(())
    }

    /// Closes the open file and writes the merged index.
    pub fn finish(mut self) -> Result<ClosedArchive, ArchiveError> {
        self.close_file()?;
        let warcs = self.places.warcs()?;
        let inputs: Vec<PathBuf> = warcs
            .iter()
            .map(|(_, name)| self.places.sorted(name))
            .collect();
        let entries = merge_sorted(&inputs, &self.places.merged)?;
        let mut bytes = 0;
        for (_, name) in &warcs {
            let path = self.places.archive.join(name);
            bytes += fs::metadata(&path)
                .map_err(ArchiveError::io("look at", &path))?
                .len();
        }
        Ok(ClosedArchive {
            index: self.places.merged,
            entries,
            files: inputs.len(),
            bytes,
        })
    }
}

struct OpenWarc {
    number: u32,
    name: String,
    /// By the crawl's own time, which nobody sets.
    begun_ms: u64,
    warc: AppendFile,
    part: PartIndex,
}

impl OpenWarc {
    fn create(
        places: &Places,
        settings: &ArchiveSettings,
        number: u32,
        clock: &dyn Clock,
        seed: u64,
    ) -> Result<Self, ArchiveError> {
        let now_ms = clock.wall_ms();
        if number / FILES_A_NODE != u32::from(settings.node_number) {
            return Err(ArchiveError::Setting(format!(
                "file number {number} is not one of archive.node_number = {}: a node has {FILES_A_NODE} numbers",
                settings.node_number
            )));
        }
        let name = format!(
            "{}-{}-{number:05}{}",
            places.prefix,
            timestamp14(now_ms),
            settings.compression.suffix()
        );
        let mut first = Vec::new();
        GzipMembers::new(settings)?.append(
            &mut first,
            &warcinfo(settings, &name, now_ms, seed),
            Packing::Deflate,
        );
        let path = places.archive.join(&name);
        let mut warc = AppendFile::create(&path)?;
        warc.push(&first);
        let part = PartIndex::open_at(&places.part(&name), 0)
            .and_then(|part| sync_dir(&places.archive).map(|()| part));
        match part {
            Ok(part) => Ok(Self {
                number,
                name,
                begun_ms: clock.now_ms(),
                warc,
                part,
            }),
            Err(error) => {
                // Half a file would be in the way of the next attempt.
                let _ = fs::remove_file(&path);
                Err(error)
            }
        }
    }
}

/// Number and name of every WARC file below `root` whose name begins with `prefix`, by number; see `file_prefix`. None
/// where there is no archive yet.
pub fn numbered_warcs(root: &Path, prefix: &str) -> Result<Vec<(u32, String)>, ArchiveError> {
    let places = Places::new(root, prefix)?;
    match places.archive.is_dir() {
        true => places.warcs(),
        false => Ok(Vec::new()),
    }
}

/// Where the archive's files are.
pub(crate) struct Places {
    /// With the node's name, if it has one.
    pub prefix: String,
    /// WARC files.
    pub archive: PathBuf,
    /// Indexes of single WARC files.
    pub index: PathBuf,
    pub merged: PathBuf,
}

impl Places {
    pub fn new(root: &Path, prefix: &str) -> Result<Self, ArchiveError> {
        check_prefix(prefix).map_err(|what| {
            ArchiveError::Setting(format!("the archive prefix '{prefix}' {what}"))
        })?;
        Ok(Self {
            prefix: prefix.to_owned(),
            archive: root.join("archive"),
            index: root.join("index"),
            merged: root.join("index.cdxj"),
        })
    }

    pub fn sorted(&self, warc_name: &str) -> PathBuf {
        self.index.join(format!("{}.cdxj", stem(warc_name)))
    }

    pub fn part(&self, warc_name: &str) -> PathBuf {
        self.index.join(format!("{}.cdxj.part", stem(warc_name)))
    }

    /// Number and name of every WARC file of this crawl, by number.
    pub fn warcs(&self) -> Result<Vec<(u32, String)>, ArchiveError> {
        let mut warcs = Vec::new();
        let entries =
            fs::read_dir(&self.archive).map_err(ArchiveError::io("list", &self.archive))?;
        for entry in entries {
            let entry = entry.map_err(ArchiveError::io("list", &self.archive))?;
            if let Some(name) = entry.file_name().to_str()
                && let Some(number) = self.number_of(name)
            {
                warcs.push((number, name.to_owned()));
            }
        }
        warcs.sort();
        if let Some(twice) = warcs.windows(2).find(|pair| pair[0].0 == pair[1].0) {
            return Err(ArchiveError::NumberTwice {
                dir: self.archive.clone(),
                number: twice[0].0,
            });
        }
        Ok(warcs)
    }

    /// `prefix[-node]-timestamp-number.warc.gz` or `.warc`; anything else is none of ours.
    fn number_of(&self, name: &str) -> Option<u32> {
        let rest = name.strip_prefix(&self.prefix)?.strip_prefix('-')?;
        let (timestamp, number) = rest
            .strip_suffix(Compression::of_name(name)?.suffix())?
            .split_once('-')?;
        let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
        if timestamp.len() != 14 || !digits(timestamp) || number.len() < 5 || !digits(number) {
            return None;
        }
        number.parse().ok()
    }
}

/// The number of a WARC file that a crawl has written, whatever it begins with. `None` if its name is of another form.
pub fn number_of_warc(name: &str) -> Option<u32> {
    let (prefix, number) = stem_of(name)?.rsplit_once('-')?;
    let (prefix, _) = prefix.rsplit_once('-')?;
    let places = Places::new(Path::new(""), prefix).ok()?;
    places.number_of(name).filter(|_| number.len() >= 5)
}

/// Can names of files begin with it? Otherwise what it has to be.
pub fn check_prefix(prefix: &str) -> Result<(), &'static str> {
    let fits = |b: u8| b.is_ascii_alphanumeric() || b"._-".contains(&b);
    // A timestamp, a number and an extension come behind it.
    if (1..=100).contains(&prefix.len()) && !prefix.starts_with('.') && prefix.bytes().all(fits) {
        Ok(())
    } else {
        Err("must be 1 to 100 letters, digits, '.', '_' and '-', and not start with '.'")
    }
}

/// Can a machine be called so in names of files? Otherwise what the name has to be.
pub fn check_node(node: &str) -> Result<(), &'static str> {
    let fits = |b: u8| b.is_ascii_alphanumeric() || b"._-".contains(&b);
    if node.len() <= 63 && node.bytes().all(fits) {
        Ok(())
    } else {
        Err("must be at most 63 letters, digits, '.', '_' and '-'")
    }
}

/// The name without its extension, `None` if it has another one.
pub(crate) fn stem_of(warc_name: &str) -> Option<&str> {
    warc_name.strip_suffix(Compression::of_name(warc_name)?.suffix())
}

fn stem(warc_name: &str) -> &str {
    stem_of(warc_name).unwrap_or(warc_name)
}
