//! Where the conformance data is.

use std::path::PathBuf;

/// A folder of the conformance data; `None`, with a word about it, where there is none. In CI its absence
/// is a failure.
pub fn folder(name: &str) -> Option<PathBuf> {
    let root = match std::env::var_os("PORTOLAN_CONFORMANCE") {
        Some(path) => PathBuf::from(path),
        None => PathBuf::from(concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../../../shared/conformance"
        )),
    };
    let folder = root.join(name);
    if folder.is_dir() {
        return Some(folder);
    }
    assert!(
        std::env::var_os("CI").is_none(),
        "no conformance data at {}: set PORTOLAN_CONFORMANCE",
        folder.display()
    );
    println!("not run: no conformance data");
    None
}

pub fn read(folder: &std::path::Path, name: &str) -> Vec<u8> {
    let path = folder.join(name);
    std::fs::read(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// The names of a folder's files, sorted.
pub fn names(folder: &std::path::Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display()));
    let mut names: Vec<String> = entries
        .flatten()
        .filter(|entry| entry.path().is_file())
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}
