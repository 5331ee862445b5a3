//! Where the conformance data is, and the bookkeeping of deliberate differences: an undeclared one
//! fails, and so does a declared one that no longer differs.

use std::collections::HashMap;
use std::path::PathBuf;

/// The text of a data file, or `None` (and a word about it) where there is no data. In CI the data
/// must be there.
pub fn read(file: &str) -> Option<String> {
    let folder = std::env::var_os("PORTOLAN_CONFORMANCE").map_or_else(
        || {
            PathBuf::from(concat!(
                env!("CARGO_MANIFEST_DIR"),
                "/../../../shared/conformance"
            ))
        },
        PathBuf::from,
    );
    if !folder.is_dir() {
        assert!(
            std::env::var_os("CI").is_none(),
            "no conformance data in {}; set PORTOLAN_CONFORMANCE to its folder",
            folder.display()
        );
        println!("not run: no conformance data");
        return None;
    }
    let path = folder.join(file);
    match std::fs::read_to_string(&path) {
        Ok(text) => Some(text),
        Err(error) => panic!("{}: {error}", path.display()),
    }
}

/// Is this difference of case, expected and ours one of a kind that is declared as a whole?
pub type Kind = fn(&str, Option<&str>, Option<&str>) -> bool;

/// Compares case by case and tells the outcome at the end.
pub struct Comparison {
    name: &'static str,
    /// Case and reason.
    declared: HashMap<&'static str, &'static str>,
    cases: usize,
    differing: HashMap<&'static str, usize>,
    /// Reason, kind and how many there are.
    rules: Vec<(&'static str, Kind, usize)>,
    by_rule: HashMap<&'static str, usize>,
    undeclared: Vec<String>,
}

impl Comparison {
    pub fn new(name: &'static str, declared: &[(&'static str, &'static str)]) -> Self {
        Self {
            name,
            declared: declared.iter().copied().collect(),
            cases: 0,
            differing: HashMap::new(),
            rules: Vec::new(),
            by_rule: HashMap::new(),
            undeclared: Vec::new(),
        }
    }

    /// Declares a kind of differences that would make too long a table, and their exact number.
    pub fn rule(mut self, reason: &'static str, kind: Kind, count: usize) -> Self {
        self.rules.push((reason, kind, count));
        self
    }

    /// `key` names the case, as in the table of declared differences.
    pub fn case(&mut self, key: &str, expected: Option<&str>, ours: Option<&str>) {
        self.cases += 1;
        if expected == ours {
            return;
        }
        let rule = self.rules.iter().find(|(_, is, _)| is(key, expected, ours));
        match (self.declared.get_key_value(key), rule) {
            (Some((declared, _)), _) => *self.differing.entry(declared).or_default() += 1,
            (None, Some((reason, ..))) => *self.by_rule.entry(reason).or_default() += 1,
            (None, None) => self
                .undeclared
                .push(format!("{key:?}: expected {expected:?}, ours {ours:?}")),
        }
    }

    pub fn finish(self, at_least: usize) {
        println!(
            "{}: {} cases run, {} deliberate differences",
            self.name,
            self.cases,
            self.differing
                .values()
                .chain(self.by_rule.values())
                .sum::<usize>()
        );
        let mut by_reason = self.by_rule.clone();
        for (case, count) in &self.differing {
            *by_reason.entry(self.declared[case]).or_default() += count;
        }
        for (reason, count) in by_reason {
            println!("  {count:3}  {reason}");
        }
        let no_longer: Vec<_> = self
            .declared
            .keys()
            .filter(|case| !self.differing.contains_key(*case))
            .collect();
        assert!(
            self.undeclared.is_empty(),
            "{}: undeclared differences:\n{}",
            self.name,
            self.undeclared.join("\n")
        );
        assert!(
            no_longer.is_empty(),
            "{}: declared, but not differing: {no_longer:#?}",
            self.name
        );
        for (reason, _, count) in &self.rules {
            let found = self.by_rule.get(reason).copied().unwrap_or(0);
            assert_eq!(found, *count, "{}: {reason}", self.name);
        }
        // A reader that silently finds nothing would agree with everything.
        assert!(
            self.cases >= at_least,
            "{}: only {} cases read, there should be {at_least}",
            self.name,
            self.cases
        );
    }
}
