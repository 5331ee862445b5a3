//! The list of runs, replaced as a whole. A manifest that was damaged counts as none.

use super::run::RunMeta;
use crate::append_file::sync_dir;
use crate::error::ArchiveError;
use crate::open::create;
use crate::settings::DurableEnd;
use std::fmt::Write as _;
use std::fs;
use std::io::{self, Write as _};
use std::path::Path;

const NAME: &str = "MANIFEST";
const FIRST_LINE: &str = "portolan content-seen 2";

#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Manifest {
    /// Bytes of the text whose entries are in the runs.
    pub text_length: u64,
    /// Bytes that the text had when the table was last closed in order.
    pub closed_length: u64,
    /// Number for the next run's name.
    pub next_run: u64,
    /// Oldest first.
    pub runs: Vec<RunMeta>,
}

impl Manifest {
    pub fn load(dir: &Path) -> Result<Self, ArchiveError> {
        let stored = Self::stored(dir)?;
        Ok(stored.and_then(Result::ok).unwrap_or_default())
    }

    /// `None` if there is none, `Err` if it is damaged.
    pub fn stored(dir: &Path) -> Result<Option<Result<Self, ()>>, ArchiveError> {
        let path = dir.join(NAME);
        match fs::read_to_string(&path) {
            Ok(text) => Ok(Some(Self::parse(&text).ok_or(()))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) if error.kind() == io::ErrorKind::InvalidData => Ok(Some(Err(()))),
            Err(error) => Err(ArchiveError::io("read", &path)(error)),
        }
    }

    pub fn store(&self, dir: &Path) -> Result<(), ArchiveError> {
        let unfinished = dir.join("MANIFEST.tmp");
        let path = dir.join(NAME);
        let mut file = create(&unfinished).map_err(ArchiveError::io("create", &unfinished))?;
        file.write_all(self.text().as_bytes())
            .and_then(|()| file.sync_all())
            .and_then(|()| fs::rename(&unfinished, &path))
            .map_err(ArchiveError::io("write", &path))?;
        sync_dir(dir)
    }

    fn text(&self) -> String {
        let mut text = format!(
            "{FIRST_LINE}\ntext {}\nclosed {}\nnext {}\n",
            self.text_length, self.closed_length, self.next_run
        );
        for run in &self.runs {
            let _ = writeln!(
                text,
                "run {} {} {:08x} {} {} {}",
                run.name, run.count, run.checksum, run.text_from, run.last.file, run.last.end
            );
        }
        let checksum = crc32fast::hash(text.as_bytes());
        let _ = writeln!(text, "checksum {checksum:08x}");
        text
    }

    fn parse(text: &str) -> Option<Self> {
        let body_end = text.rfind("checksum ")?;
        let (body, checksum) = text.split_at(body_end);
        let checksum = checksum.strip_prefix("checksum ")?.strip_suffix('\n')?;
        if u32::from_str_radix(checksum, 16).ok()? != crc32fast::hash(body.as_bytes()) {
            return None;
        }
        let mut lines = body.lines();
        if lines.next()? != FIRST_LINE {
            return None;
        }
        let mut manifest = Self {
            text_length: lines.next()?.strip_prefix("text ")?.parse().ok()?,
            closed_length: lines.next()?.strip_prefix("closed ")?.parse().ok()?,
            next_run: lines.next()?.strip_prefix("next ")?.parse().ok()?,
            runs: Vec::new(),
        };
        for line in lines {
            let mut words = line.strip_prefix("run ")?.split(' ');
            manifest.runs.push(RunMeta {
                name: words.next()?.to_owned(),
                count: words.next()?.parse().ok()?,
                checksum: u32::from_str_radix(words.next()?, 16).ok()?,
                text_from: words.next()?.parse().ok()?,
                last: DurableEnd {
                    file: words.next()?.parse().ok()?,
                    end: words.next()?.parse().ok()?,
                },
            });
        }
        Some(manifest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_damage_is_seen() {
        let manifest = Manifest {
            text_length: 77,
            closed_length: 99,
            next_run: 3,
            runs: vec![RunMeta {
                name: "run-2".to_owned(),
                count: 5,
                checksum: 0xabc,
                text_from: 9,
                last: DurableEnd { file: 1, end: 2 },
            }],
        };
        let text = manifest.text();
        assert_eq!(Manifest::parse(&text), Some(manifest));
        for cut in 0..text.len() {
            assert_eq!(Manifest::parse(&text[..cut]), None, "{cut}");
        }
        for at in 0..text.len() - "checksum 00000000\n".len() {
            let mut bytes = text.clone().into_bytes();
            bytes[at] ^= 1;
            if let Ok(damaged) = String::from_utf8(bytes) {
                assert_eq!(Manifest::parse(&damaged), None, "{at}");
            }
        }
    }
}
