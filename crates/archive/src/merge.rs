//! Many sorted text files into one: k-way, streamed, with a bounded number of open files.

use crate::error::ArchiveError;
use crate::open::create;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};

/// Files merged at once. More are merged in several rounds.
const FAN_IN: usize = 64;
const READ_BUFFER_BYTES: usize = 64 << 10;
const WRITE_BUFFER_BYTES: usize = 256 << 10;

/// Merges files whose lines are in byte order (`LC_ALL=C sort`) into `output`, which appears whole
/// or not at all. Returns the number of lines.
pub fn merge_sorted(inputs: &[PathBuf], output: &Path) -> Result<u64, ArchiveError> {
    let mut inputs = inputs.to_vec();
    let mut rounds: Vec<PathBuf> = Vec::new();
    // Take the first inputs, put their merge at the end, until one pass is enough.
    while inputs.len() > FAN_IN {
        let rest = inputs.split_off(FAN_IN);
        let between = output.with_extension(format!("round{}.tmp", rounds.len()));
        merge_pass(&inputs, &between)?;
        rounds.push(between.clone());
        inputs = rest;
        inputs.push(between);
    }
    let unfinished = output.with_extension("merge.tmp");
    let lines = merge_pass(&inputs, &unfinished)?;
    publish(&unfinished, output)?;
    for path in rounds {
        fs::remove_file(&path).map_err(ArchiveError::io("remove", &path))?;
    }
    Ok(lines)
}

/// Gives a finished and synced temporary file its name.
pub(crate) fn publish(unfinished: &Path, output: &Path) -> Result<(), ArchiveError> {
    fs::rename(unfinished, output).map_err(ArchiveError::io("rename to", output))?;
    match output.parent() {
        Some(dir) if !dir.as_os_str().is_empty() => crate::append_file::sync_dir(dir),
        _ => Ok(()),
    }
}

fn merge_pass(inputs: &[PathBuf], output: &Path) -> Result<u64, ArchiveError> {
    let mut sources = Vec::with_capacity(inputs.len());
    let mut heap = BinaryHeap::with_capacity(inputs.len());
    for (number, path) in inputs.iter().enumerate() {
        let file = File::open(path).map_err(ArchiveError::io("open", path))?;
        sources.push(BufReader::with_capacity(READ_BUFFER_BYTES, file));
        let mut line = Vec::new();
        if read_line(&mut sources[number], &mut line, path)? {
            heap.push(Reverse((line, number)));
        }
    }
    let file = create(output).map_err(ArchiveError::io("create", output))?;
    let mut out = BufWriter::with_capacity(WRITE_BUFFER_BYTES, file);
    let mut lines = 0;
    while let Some(mut top) = heap.peek_mut() {
        let Reverse((line, number)) = &mut *top;
        out.write_all(line)
            .map_err(ArchiveError::io("write to", output))?;
        lines += 1;
        line.clear();
        let number = *number;
        if !read_line(&mut sources[number], line, &inputs[number])? {
            std::collections::binary_heap::PeekMut::pop(top);
        }
    }
    let file = out
        .into_inner()
        .map_err(|error| ArchiveError::io("write to", output)(error.into_error()))?;
    file.sync_all().map_err(ArchiveError::io("sync", output))?;
    Ok(lines)
}

/// Reads a line with its end; a last line without one gets it.
fn read_line(
    source: &mut BufReader<File>,
    line: &mut Vec<u8>,
    path: &Path,
) -> Result<bool, ArchiveError> {
    let read = source
        .read_until(b'\n', line)
        .map_err(ArchiveError::io("read", path))?;
    if read > 0 && line.last() != Some(&b'\n') {
        line.push(b'\n');
    }
    Ok(read > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// More files than are merged at once, empty ones and repeated lines among them.
    #[test]
    fn merges_more_files_than_fit_in_one_pass() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let mut expected = Vec::new();
        let mut inputs = Vec::new();
        for file in 0..200u32 {
            let mut lines: Vec<String> = (0..file % 7)
                .map(|n| format!("{:05} {file}", (n * 7919 + file * 31) % 500))
                .collect();
            lines.push("same".to_owned());
            if file % 10 == 0 {
                lines.clear();
            }
            lines.sort();
            let path = dir.path().join(format!("in{file}"));
            fs::write(&path, lines.join("\n")).expect("write");
            inputs.push(path);
            expected.extend(lines);
        }
        expected.sort();
        let output = dir.path().join("all.cdxj");
        let lines = merge_sorted(&inputs, &output).expect("merge");
        assert_eq!(lines as usize, expected.len());
        let merged = fs::read_to_string(&output).expect("read");
        assert_eq!(merged.lines().collect::<Vec<_>>(), expected);
        let left = fs::read_dir(dir.path()).expect("list").count();
        assert_eq!(left, 201, "temporary files are gone");
    }

    #[test]
    fn nothing_merges_to_an_empty_file() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let output = dir.path().join("all.cdxj");
        assert_eq!(merge_sorted(&[], &output).expect("merge"), 0);
        assert_eq!(fs::read(&output).expect("read"), b"");
    }
}
