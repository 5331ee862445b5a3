//! Dependencies between the rooms point one way: the pipeline joins them, they don't know each
//! other, and whoever judges the crawler shares no code with it.

use std::path::Path;

/// Each room and the rooms that it may import.
const ALLOWED: &[(&str, &[&str])] = &[
    ("model", &[]),
    ("content", &[]),
    ("net", &["model"]),
    ("registry", &["model"]),
    ("archive", &["model"]),
    ("graph", &["model", "registry"]),
    ("freshness", &["model"]),
    ("fleet", &["model"]),
    ("urlfrontier", &[]),
    ("simweb", &[]),
    (
        "crawl",
        &[
            "model",
            "content",
            "net",
            "registry",
            "archive",
            "graph",
            "freshness",
            "fleet",
            "urlfrontier",
        ],
    ),
    ("simulate", &["model", "net", "registry", "crawl", "simweb"]),
    (
        "portolan",
        &[
            "model",
            "content",
            "registry",
            "archive",
            "graph",
            "simweb",
            "simulate",
            "freshness",
            "fleet",
            "crawl",
            "urlfrontier",
        ],
    ),
];

#[test]
fn rooms_import_only_what_they_may() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut checked = 0;
    for entry in std::fs::read_dir(&crates).expect("the crates") {
        let dir = entry.expect("an entry").path();
        let name = dir
            .file_name()
            .expect("a name")
            .to_string_lossy()
            .into_owned();
        let Ok(manifest) = std::fs::read_to_string(dir.join("Cargo.toml")) else {
            continue;
        };
        let (_, allowed) = ALLOWED
            .iter()
            .find(|(room, _)| *room == name)
            .unwrap_or_else(|| panic!("the room '{name}' is not in the plan"));
        // Tests may look at anything; the rule is about what ships.
        let shipped = manifest
            .split("[dev-dependencies]")
            .next()
            .expect("a first part");
        for line in shipped.lines() {
            let Some(rest) = line.strip_prefix("portolan-") else {
                continue;
            };
            let imported = rest.split(['.', ' ', '=']).next().expect("a first word");
            assert!(
                allowed.contains(&imported),
                "{name} may not import {imported}"
            );
        }
        checked += 1;
    }
    assert!(checked >= 8, "only {checked} rooms were found");
}
