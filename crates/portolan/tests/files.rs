//! The files of a crawl: who may read them, and that none is written through a symbolic link.

mod harness;

use harness::{QUICK, Site, portolan, run};
use portolan_simweb::WebSpec;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

fn begun(more: &str) -> Site {
    let mut spec = WebSpec::small().with_hosts(2).with_pages_per_host(30);
    spec.faults.retry_after_s = 0;
    let site = Site::serve(spec);
    let config = site.config(&format!("{QUICK}[registry]\npartitions = 1\n{more}"));
    run(site
        .crawl()
        .arg("--config")
        .arg(config)
        .arg("--max-pages=8"))
    .succeeded();
    site
}

#[test]
fn what_may_hold_secrets_is_for_its_owner_alone() {
    let site = begun("");
    for name in ["crawl.toml", "seeds.txt", "secret", "named", "report.json"] {
        let path = site.out().join(name);
        let mode = fs::metadata(&path).expect(name).permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{name}: {mode:o}");
    }
}

/// All files below `dir`, by their names relative to it.
fn files(dir: &Path, below: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir.join(below)).expect("a directory") {
        let entry = entry.expect("an entry");
        let name = below.join(entry.file_name());
        match entry.file_type().expect("a type").is_dir() {
            true => files(dir, &name, found),
            false => found.push(name),
        }
    }
}

fn copy(from: &Path, to: &Path) {
    let mut names = Vec::new();
    files(from, Path::new(""), &mut names);
    for name in names {
        let path = to.join(&name);
        fs::create_dir_all(path.parent().expect("it is below")).expect("a directory");
        fs::copy(from.join(&name), path).expect("copied");
    }
}

/// Somebody moves a file of a stopped crawl elsewhere, or leaves a link where the crawl will make one. Whether the
/// crawl goes on or refuses to: what the link leads to stays as it is.
#[test]
fn nothing_is_written_through_a_symbolic_link() {
    let site = begun("[archive]\ncommit_ms = 20\n");
    let mut names = Vec::new();
    files(&site.out(), Path::new(""), &mut names);
    assert!(names.len() > 12, "{names:?}");
    for unfinished in [
        "crawl.toml.new",
        "seeds.txt.new",
        "secret.new",
        "named.new",
        "report.json.new",
        "registry/lock",
        "registry/meta.new",
        "registry/p00/manifest.new",
        "registry/p00/spill",
        "seen/MANIFEST.tmp",
    ] {
        names.push(unfinished.into());
    }
    let (mut went_on, mut refused) = (0, 0);
    for (number, name) in names.iter().enumerate() {
        let (dir, victim) = (site.path(&format!("crawl-{number}")), site.path("victim"));
        copy(&site.out(), &dir);
        let path = dir.join(name);
        match path.exists() {
            true => {
                fs::copy(&path, &victim).expect("moved");
                fs::remove_file(&path).expect("moved");
            }
            false => fs::write(&victim, "precious").expect("written"),
        }
        let before = fs::read(&victim).expect("its bytes");
        symlink(&victim, &path).expect("a link");
        let mut command = portolan();
        command.args(["crawl", "--json", "--quiet", "--max-pages=16", "--out"]);
        let ran = run(command.arg(&dir));
        assert!(!ran.err.contains("panicked"), "{}", ran.err);
        let after = fs::read(&victim).expect("its bytes");
        assert!(before == after, "{name:?} was written through: {}", ran.err);
        match ran.code {
            Some(0) => went_on += 1,
            _ => {
                assert_eq!(
                    ran.err.trim_end().lines().count(),
                    1,
                    "{name:?}: {}",
                    ran.err
                );
                refused += 1;
            }
        }
        fs::remove_dir_all(&dir).expect("removed");
    }
    println!("{went_on} went on, {refused} were refused");
    assert!(went_on > 5 && refused > 2, "{went_on} {refused}");
}
