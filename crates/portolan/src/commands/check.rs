//! `portolan check`: is everything in a crawl's directory as it was written?

use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

use portolan_crawl::report::{bytes, counted};
use portolan_crawl::{CheckedKind, Crawl};
use serde_json::json;

use super::inspect;
use crate::arguments::CheckArguments;
use crate::failure::Failure;

/// Damage of one kind that is told a line each; the rest is counted.
const TOLD: usize = 20;

pub(crate) fn run(arguments: &CheckArguments) -> Result<ExitCode, Failure> {
    let dir = &arguments.dir;
    if !Crawl::exists(dir) {
        return Err(Failure::usage(format!(
            "{} holds no crawl: it has no crawl.toml",
            dir.display()
        )));
    }
    let mut out = inspect::lines();
    let (mut sound, mut failed) = (true, None);
    portolan_crawl::check(dir, &mut |kind| {
        sound &= kind.is_sound();
        let written = match arguments.json {
            true => inspect::write_json(&mut out, &as_json(&kind)),
            false => tell(&mut out, dir, &kind),
        };
        // A large archive takes a while: each line is shown when it is known.
        if let Err(error) = written.and_then(|()| out.flush()) {
            failed.get_or_insert(error);
        }
    })?;
    if let Some(error) = failed {
        return Err(error.into());
    }
    if !arguments.json {
        let verdict = match sound {
            true => "Everything is as it was written.",
            false => "Some files are damaged.",
        };
        writeln!(out, "{verdict}")?;
    }
    out.flush()?;
    Ok(ExitCode::from(u8::from(!sound)))
}

fn as_json(kind: &CheckedKind) -> serde_json::Value {
    let meaning = (!kind.is_sound()).then_some(kind.meaning);
    json!({
        "kind": kind.kind, "sound": kind.is_sound(), "files": kind.files, "stored_bytes": kind.bytes,
        "torn_bytes": kind.torn_bytes, "damage": kind.damage, "meaning": meaning,
    })
}

fn tell(out: &mut impl Write, dir: &Path, kind: &CheckedKind) -> std::io::Result<()> {
    let verdict = if kind.is_sound() { "sound" } else { "DAMAGED" };
    let size = bytes(kind.bytes);
    let files = counted(kind.files, "file");
    let (name, about) = (kind.kind, kind.about);
    writeln!(out, "{name:<9} {verdict:<8} {about}: {files}, {size}")?;
    if kind.torn_bytes > 0 {
        let torn = bytes(kind.torn_bytes);
        writeln!(
            out,
            "          A crash left {torn} at the end that were not yet logged. Going on with the crawl sees to them."
        )?;
    }
    for damage in kind.damage.iter().take(TOLD) {
        let file = damage.file.strip_prefix(dir).unwrap_or(&damage.file);
        let (file, offset, what) = (file.display(), damage.offset, &damage.what);
        writeln!(out, "          {file}, byte {offset}: {what}")?;
    }
    if let Some(more) = kind.damage.len().checked_sub(TOLD).filter(|&more| more > 0) {
        writeln!(out, "          and {more} more")?;
    }
    if !kind.is_sound() {
        writeln!(out, "          {}", kind.meaning)?;
    }
    Ok(())
}
