//! DSets: sets of domain extensions, as plain data. `division` makes partitions of them.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::{PartitionMethod, PartitionSettings, Settings, SettingsError};

/// A set of domain extensions, which has a URL-Registry of its own.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct DsetSettings {
    /// With or without their dots: `.edu`, `ac.uk`.
    pub extensions: Vec<String>,
    /// The crawl-client that fetches it; empty: any.
    pub client: String,
    /// The group under a hub that has it; empty: the groups take turns.
    pub group: String,
}

impl DsetSettings {
    /// Its extensions, each with one dot before it.
    pub fn names(&self) -> Vec<String> {
        let named = |extension: &String| {
            let name = extension.trim_start_matches('.').to_ascii_lowercase();
            format!(".{name}")
        };
        self.extensions.iter().map(named).collect()
    }
}

impl Settings {
    /// What says how sites are shared out: `[[dset]]` blocks choose their method.
    pub(crate) fn sharing(&self) -> PartitionSettings {
        let mut sharing = self.partition.clone();
        if !self.dset.is_empty() {
            sharing.method = PartitionMethod::Dset;
        }
        sharing
    }

    /// The sets as a file of `partition.dsets` has them.
    pub(crate) fn dsets_text(&self) -> String {
        let lines = self.dset.iter().map(|set| set.names().join(" ") + "\n");
        lines.collect()
    }

    pub(super) fn check_dsets(&self) -> Result<(), SettingsError> {
        let wrong = |what: &str| Err(SettingsError::of("dset", what));
        let mut known = BTreeSet::new();
        for set in &self.dset {
            if set.extensions.is_empty() {
                return wrong("must have extensions, such as [\".edu\", \".org\"]");
            }
            for name in set.names() {
                let is_label = |label: &str| {
                    let fits = |b: u8| b.is_ascii_alphanumeric() || b == b'-' || !b.is_ascii();
                    !label.is_empty() && label.bytes().all(fits)
                };
                if !name[1..].split('.').all(is_label) {
                    return wrong(&format!("must have domain extensions, not '{name}'"));
                }
                if !known.insert(name.clone()) {
                    return wrong(&format!("must have '{name}' once, and not in two blocks"));
                }
            }
        }
        if self.dset.is_empty() {
            return Ok(());
        }
        if self.partition.method == PartitionMethod::Vector || !self.partition.dsets.is_empty() {
            return wrong(
                "blocks say how sites are shared out, and so does [partition]; take one of the two out",
            );
        }
        let partitions = usize::from(self.registry.partitions);
        if partitions != 0 && partitions < self.dset.len() {
            let what = format!(
                "has {} blocks, but registry.partitions is {partitions}; set that to {0} or more, or to 0",
                self.dset.len()
            );
            return wrong(&what);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_read_and_mistakes_told_in_one_sentence() {
        let text = "[[dset]]\nextensions = [\".EDU\", \"ac.uk\"]\nclient = \"one\"\n[[dset]]\nextensions = [\"com\"]\n";
        let settings = Settings::with_overrides(text).expect("right");
        assert_eq!(settings.dsets_text(), ".edu .ac.uk\n.com\n");
        assert_eq!(settings.sharing().method, PartitionMethod::Dset);
        assert_eq!(settings.partition.method, PartitionMethod::Hash);
        for (wrong, words) in [
            ("[[dset]]\n", "must have extensions"),
            ("[[dset]]\nextensions = [\"a/b\"]", "'.a/b'"),
            ("[[dset]]\nextensions = [\"\"]", "'.'"),
            ("[[dset]]\nextensions = [\"a\", \".A\"]", "'.a' once"),
            (
                "[[dset]]\nextensions = [\"a\"]\n[partition]\nmethod = \"vector\"",
                "take one of the two out",
            ),
            (
                "[[dset]]\nextensions = [\"a\"]\n[[dset]]\nextensions = [\"b\"]\n[registry]\npartitions = 1",
                "registry.partitions is 1",
            ),
        ] {
            let error = Settings::with_overrides(wrong)
                .expect_err(wrong)
                .to_string();
            assert!(error.contains(words), "{wrong}: {error}");
        }
    }
}
