//! Which commit the program is made from, for `portolan --version`: told by git, by the file `commit` where the sources came as
//! an archive that git made, or by nobody. A build never fails for want of it.

use std::path::Path;
use std::process::Command;

/// Filled in by `git archive` (see .gitattributes).
const COMMIT_FILE: &str = "commit";

fn main() {
    let version = env!("CARGO_PKG_VERSION");
    let version = match commit() {
        Some(commit) => format!("{version} ({commit})"),
        None => version.to_owned(),
    };
    println!("cargo::rustc-env=PORTOLAN_VERSION={version}");
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed={COMMIT_FILE}");
}

/// Its short name and its date.
fn commit() -> Option<String> {
    let written = std::fs::read_to_string(COMMIT_FILE).ok()?;
    if !written.contains("$Format") {
        return Some(written.trim().to_owned()).filter(|commit| !commit.is_empty());
    }
    // The sources may lie in somebody else's repository.
    let ours = Path::new(&git(&["rev-parse", "--show-toplevel"])?)
        .canonicalize()
        .ok()?;
    if ours != Path::new("../..").canonicalize().ok()? {
        return None;
    }
    // The log of HEAD grows with every commit and every change of branch.
    let log = git(&["rev-parse", "--git-path", "logs/HEAD"])?;
    println!("cargo::rerun-if-changed={log}");
    git(&["log", "-1", "--date=short", "--format=%h %cd"])
}

fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim().to_owned())
}
