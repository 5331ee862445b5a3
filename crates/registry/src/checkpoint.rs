//! A partition's newest checkpoint as files, for whoever copies it elsewhere while the crawl goes on: the files of a
//! manifest, held open, so that what the partition deletes meanwhile can still be read. And laying such files out again,
//! for whoever takes the partition over. Where the copies are kept is not known here.

use crate::error::{At, RegistryError, Result};
use crate::files::replace_file;
use crate::manifest::{Manifest, NAME};
use crate::registry::partition_dir;
use portolan_model::PartitionId;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// A crawl that runs may replace files while they are being opened.
const OPEN_ATTEMPTS: usize = 20;

/// A checkpoint of a partition, all its files open.
#[derive(Debug)]
pub struct CheckpointFiles {
    /// The last entry of the partition's log that is folded in it.
    pub seq: u64,
    /// The manifest's bytes, for `lay_manifest`.
    pub manifest: Vec<u8>,
    pub files: Vec<CheckpointFile>,
}

/// A file of a checkpoint. What it says up to `bytes` never changes; a file that grows has more after that.
#[derive(Debug)]
pub struct CheckpointFile {
    /// Its name in the partition's directory.
    pub name: String,
    /// How much of it belongs to the checkpoint.
    pub bytes: u64,
    path: PathBuf,
    file: File,
}

impl CheckpointFile {
    /// Reads `bytes` bytes from `offset` on, which must be in it.
    pub fn read(&self, offset: u64, bytes: usize) -> Result<Vec<u8>> {
        let mut read = vec![0; bytes];
        self.file.read_exact_at(&mut read, offset).at(&self.path)?;
        Ok(read)
    }
}

/// Opens the files of a partition's newest checkpoint. `registry` is the registry's directory. `None` if the partition
/// has no checkpoint there.
pub fn checkpoint_files(registry: &Path, id: PartitionId) -> Result<Option<CheckpointFiles>> {
    let dir = partition_dir(registry, id.0);
    let mut attempt = 1;
    loop {
        let Some(bytes) = manifest_bytes(&dir)? else {
            return Ok(None);
        };
        let opened = open_files(&dir, &bytes);
        // What was opened belongs together only if no other checkpoint has taken this one's place meanwhile.
        let same = manifest_bytes(&dir)?.is_some_and(|now| now == bytes);
        match opened {
            Ok((seq, files)) if same => {
                return Ok(Some(CheckpointFiles {
                    seq,
                    manifest: bytes,
                    files,
                }));
            }
            Err(error) if same || attempt >= OPEN_ATTEMPTS => return Err(error),
            Ok(_) if attempt >= OPEN_ATTEMPTS => return Ok(None),
            _ => attempt += 1,
        }
    }
}

/// Writes a checkpoint's manifest into `dir`, where its other files are already and are durable. From then on the
/// directory holds that checkpoint.
pub fn lay_manifest(dir: &Path, bytes: &[u8]) -> Result<()> {
    if Manifest::parse(bytes).is_none() {
        return Err(RegistryError::corrupt(
            &dir.join(NAME),
            0,
            "it is not a sound manifest",
        ));
    }
    replace_file(dir, NAME, bytes)
}

fn manifest_bytes(dir: &Path) -> Result<Option<Vec<u8>>> {
    let path = dir.join(NAME);
    match fs::read(&path) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error).at(&path),
    }
}

fn open_files(dir: &Path, manifest: &[u8]) -> Result<(u64, Vec<CheckpointFile>)> {
    let corrupt =
        || RegistryError::corrupt(&dir.join(NAME), 0, "it is not a sound manifest".to_owned());
    let manifest = Manifest::parse(manifest).ok_or_else(corrupt)?;
    let mut files = Vec::new();
    for (name, length) in manifest.files() {
        let path = dir.join(&name);
        let file = File::open(&path).at(&path)?;
        let found = file.metadata().at(&path)?.len();
        let bytes = length.unwrap_or(found);
        if found < bytes {
            let what = format!("it ends {} bytes early", bytes - found);
            return Err(RegistryError::corrupt(&path, found, what));
        }
        files.push(CheckpointFile {
            name,
            bytes,
            path,
            file,
        });
    }
    Ok((manifest.seq, files))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_manifest_is_not_laid() {
        let dir = tempfile::tempdir().unwrap();
        let error = lay_manifest(dir.path(), b"PORTMAN2 but no more").unwrap_err();
        assert!(error.to_string().contains("manifest"), "{error}");
        assert!(
            checkpoint_files(dir.path(), PartitionId(3))
                .unwrap()
                .is_none()
        );
        Manifest::default().write(dir.path()).unwrap();
        let bytes = fs::read(dir.path().join(NAME)).unwrap();
        lay_manifest(dir.path(), &bytes).unwrap();
    }

    #[test]
    fn the_files_stay_readable_when_their_names_are_gone() {
        let registry = tempfile::tempdir().unwrap();
        let dir = partition_dir(registry.path(), 5);
        fs::create_dir(&dir).unwrap();
        fs::write(dir.join("known-00000002.tbl"), b"a table").unwrap();
        fs::write(dir.join("urls"), b"texts and what came later").unwrap();
        let manifest = Manifest {
            seq: 9,
            known_runs: vec![2],
            texts_bytes: 5,
            ..Manifest::default()
        };
        manifest.write(&dir).unwrap();
        let opened = checkpoint_files(registry.path(), PartitionId(5))
            .unwrap()
            .unwrap();
        fs::remove_dir_all(&dir).unwrap();
        let read: Vec<_> = opened
            .files
            .iter()
            .map(|file| {
                (
                    file.name.as_str(),
                    file.read(0, file.bytes as usize).unwrap(),
                )
            })
            .collect();
        assert_eq!(
            read,
            [
                ("known-00000002.tbl", b"a table".to_vec()),
                ("urls", b"texts".to_vec())
            ]
        );
        assert_eq!(opened.seq, 9);
        fs::create_dir(&dir).unwrap();
        manifest.write(&dir).unwrap();
        let error = checkpoint_files(registry.path(), PartitionId(5)).unwrap_err();
        assert!(error.to_string().contains("known-00000002.tbl"), "{error}");
    }
}
