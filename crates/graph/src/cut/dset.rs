//! DSets, after WEB-SAILOR: sets of domain extensions. What no set lists goes by a default rule: each
//! extension as a whole, by hash, or packed by load.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;

use portolan_model::{Identities, PartitionId, Partitioner, UrlKey, jump_hash};

use crate::error::{GraphError, Result};
use crate::graph::WebGraph;

/// More sets than parts can be; a longer file is a mistake.
const MAX_SETS: usize = u16::MAX as usize;

#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct DSets {
    /// Extension (without its dot) to the number of its set.
    listed: HashMap<String, u16>,
    /// Place whole sets and unlisted extensions by load: the heaviest first, each to the lightest part.
    packed: bool,
}

/// DSets with a part for each.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct PlacedDSets {
    parts: u16,
    /// In a crawl, sites of other extensions go to parts from here on, by hash; `None`: each extension as a whole to any part.
    others_from: Option<u16>,
    part_of: HashMap<String, u16>,
}

impl DSets {
    /// One set a line: extensions with spaces between, such as `.net .biz`. The first line is part 0.
    pub fn read(path: &Path) -> Result<Self> {
        let text = std::fs::read_to_string(path).map_err(GraphError::io(path))?;
        Self::parse(&text, path)
    }

    /// The same from the text of such a file.
    pub fn of(text: &str) -> Result<Self> {
        Self::parse(text, Path::new("DSets"))
    }

    /// The extensions of each set, as they are written.
    pub fn lines(text: &str) -> Vec<Vec<String>> {
        let lines = text.lines().map(without_comment);
        let words = |line: &str| words(line).map(str::to_owned).collect();
        lines.filter(|line| !line.is_empty()).map(words).collect()
    }

    fn parse(text: &str, path: &Path) -> Result<Self> {
        let mut listed = HashMap::new();
        let mut set = 0_usize;
        for (number, line) in text.lines().enumerate() {
            let line = without_comment(line);
            if line.is_empty() {
                continue;
            }
            let wrong = |what: String| GraphError::input(path, number as u64 + 1, what);
            if set >= MAX_SETS {
                return Err(wrong(format!("more than {MAX_SETS} sets")));
            }
            for extension in words(line) {
                let name = extension.trim_start_matches('.').to_ascii_lowercase();
                if name.is_empty() || name.contains('/') {
                    return Err(wrong(format!("'{extension}' is no domain extension")));
                }
                if listed.insert(name, set as u16).is_some() {
                    return Err(wrong(format!("{extension} is in two sets")));
                }
            }
            set += 1;
        }
        Ok(Self {
            listed,
            packed: false,
        })
    }

    #[must_use]
    pub fn packed(mut self) -> Self {
        self.packed = true;
        self
    }

    /// The longest listed extension that the host ends in.
    fn listed_extension<'a>(&self, host: &'a str) -> Option<&'a str> {
        let starts = host.match_indices('.').map(|(at, _)| at + 1);
        std::iter::once(0)
            .chain(starts)
            .map(|at| &host[at..])
            .find(|suffix| self.listed.contains_key(*suffix))
    }

    /// The partitioner of a crawl that knows no graph: a part for each set. Sites of other extensions go by hash to the
    /// parts that no set has, if there are any.
    pub fn partitioner(&self, parts: u16) -> Result<impl Partitioner + use<>> {
        self.require_room(parts)?;
        let sets = self.listed.values().max().map_or(0, |most| most + 1);
        Ok(PlacedDSets {
            parts,
            others_from: (sets > 0 && sets < parts).then_some(sets),
            part_of: self.listed.clone(),
        })
    }

    fn require_room(&self, parts: u16) -> Result<()> {
        match self.listed.values().max() {
            Some(&most) if most >= parts && !self.packed => Err(GraphError::Request(format!(
                "{} DSets do not fit into {parts} parts; ask for more parts or pack them",
                most + 1
            ))),
            _ => Ok(()),
        }
    }

    /// Each extension that the graph has gets its part.
    pub(super) fn for_graph(&self, graph: &WebGraph, parts: u16) -> Result<PlacedDSets> {
        self.require_room(parts)?;
        // A group is a listed set, or one unlisted extension; its load is the larger of its two shares.
        let pages = &graph.pages;
        let mut groups: BTreeMap<Group, [u64; 2]> = BTreeMap::new();
        for page in 0..pages.count() {
            let host = pages.site(page).map_or("", |site| pages.site_name(site));
            let load = groups.entry(self.group(host)).or_default();
            load[0] += pages.bytes(page);
            load[1] += 1;
        }
        let totals = [pages.total_bytes().max(1), u64::from(pages.count()).max(1)];
        let mut part_of_group: BTreeMap<Group, u16> = BTreeMap::new();
        if self.packed {
            let share = |load: &[u64; 2]| {
                (load[0] as f64 / totals[0] as f64).max(load[1] as f64 / totals[1] as f64)
            };
            let mut order: Vec<(&Group, &[u64; 2])> = groups.iter().collect();
            order.sort_by(|a, b| share(b.1).total_cmp(&share(a.1)).then(a.0.cmp(b.0)));
            let mut loads = vec![[0_u64; 2]; usize::from(parts)];
            for (group, load) in order {
                let lightest = (0..parts)
                    .min_by(|&a, &b| {
                        share(&loads[usize::from(a)]).total_cmp(&share(&loads[usize::from(b)]))
                    })
                    .unwrap_or(0);
                loads[usize::from(lightest)][0] += load[0];
                loads[usize::from(lightest)][1] += load[1];
                part_of_group.insert(group.clone(), lightest);
            }
        } else {
            for group in groups.keys() {
                let part = match group {
                    Group::Listed(set) => *set,
                    Group::Other(name) => by_name(name, parts),
                };
                part_of_group.insert(group.clone(), part);
            }
        }
        let mut part_of = HashMap::new();
        for (extension, set) in &self.listed {
            if let Some(&part) = part_of_group.get(&Group::Listed(*set)) {
                part_of.insert(extension.clone(), part);
            }
        }
        for (group, part) in part_of_group {
            if let Group::Other(name) = group {
                part_of.insert(name, part);
            }
        }
        Ok(PlacedDSets {
            parts,
            others_from: None,
            part_of,
        })
    }

    fn group(&self, host: &str) -> Group {
        match self
            .listed_extension(host)
            .and_then(|name| self.listed.get(name))
        {
            Some(&set) => Group::Listed(set),
            None => Group::Other(extension_of(host).to_owned()),
        }
    }
}

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Group {
    Listed(u16),
    Other(String),
}

impl Partitioner for PlacedDSets {
    fn parts(&self) -> u16 {
        self.parts
    }

    fn part_of(&self, url: UrlKey<'_>, _: PartitionId) -> PartitionId {
        let host = url.host_name;
        let starts = host.match_indices('.').map(|(at, _)| at + 1);
        let known = std::iter::once(0)
            .chain(starts)
            .find_map(|at| self.part_of.get(&host[at..]));
        PartitionId(match (known, self.others_from) {
            (Some(&part), _) => part,
            (None, Some(from)) => from + jump_hash(url.host.0, self.parts - from),
            (None, None) => by_name(extension_of(host), self.parts),
        })
    }
}

fn without_comment(line: &str) -> &str {
    line.split('#').next().unwrap_or_default().trim()
}

fn words(line: &str) -> impl Iterator<Item = &str> {
    line.split([' ', ',', '\t']).filter(|word| !word.is_empty())
}

/// An extension that no set lists goes the same way in every crawl.
fn by_name(extension: &str, parts: u16) -> u16 {
    jump_hash(Identities::PUBLIC.host(extension).0, parts)
}

/// The domain extension of a host: what follows its last dot; addresses have none, and share one name.
pub fn extension_of(host: &str) -> &str {
    let last = host.rsplit('.').next().unwrap_or(host);
    if host.starts_with('[') || last.bytes().all(|byte| byte.is_ascii_digit()) {
        return "(address)";
    }
    last
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extensions() {
        assert_eq!(extension_of("www.example.org"), "org");
        assert_eq!(extension_of("localhost"), "localhost");
        assert_eq!(extension_of("10.0.0.1"), "(address)");
        assert_eq!(extension_of("[::1]"), "(address)");
    }

    #[test]
    fn files_are_read_and_mistakes_named() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("dsets");
        std::fs::write(&path, "# who\n.com\n.net .biz, ac.uk # three\n").expect("written");
        let sets = DSets::read(&path).expect("sets");
        assert_eq!(sets.listed["com"], 0);
        assert_eq!(sets.listed["ac.uk"], 1);
        assert_eq!(sets.listed_extension("www.x.ac.uk"), Some("ac.uk"));
        assert_eq!(sets.listed_extension("x.uk"), None);
        std::fs::write(&path, ".com\n.net .com\n").expect("written");
        let error = DSets::read(&path).expect_err("twice").to_string();
        assert!(error.contains("line 2"), "{error}");
    }
}
