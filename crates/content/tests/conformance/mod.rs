//! Finds the conformance data beside the repository; says so when it is not there.

use std::path::{Path, PathBuf};

/// The folder of one suite. `None`, with a line that says so, where there is no data; on a CI
/// machine that is a failure.
pub fn folder(suite: &str) -> Option<PathBuf> {
    let beside = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/conformance");
    let root = std::env::var_os("PORTOLAN_CONFORMANCE").map_or(beside.into(), PathBuf::from);
    let folder = root.join(suite);
    if folder.is_dir() {
        return Some(folder);
    }
    assert!(
        std::env::var_os("CI").is_none(),
        "no conformance data at {}",
        folder.display()
    );
    println!("not run: no conformance data");
    None
}

/// The files of a folder with this extension, sorted.
pub fn files(folder: &Path, extension: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let mut files: Vec<PathBuf> = entries
        .filter(|path| path.extension().is_some_and(|found| found == extension))
        .collect();
    files.sort();
    files
}
