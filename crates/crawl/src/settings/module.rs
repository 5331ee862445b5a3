//! Programs that read documents of some media types: plain data and its check. `modules` makes something of it.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::check::is_media_range;
use super::{Settings, SettingsError};

/// A program gets this long for a document at most: an hour.
const MAX_TIMEOUT_MS: u64 = 3_600_000;
/// With less, hardly a program starts.
const MIN_MEMORY_MB: u64 = 16;
/// What a program writes is held in memory.
const MAX_OUTPUT_BYTES: u64 = 64 << 20;
const MAX_AT_ONCE: usize = 256;
const MAX_NAME_BYTES: usize = 32;

/// A program that reads documents.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ModuleSettings {
    /// What its facts begin with; empty: the name of the program's file, without an extension.
    pub name: String,
    /// Media types of the documents that it gets: `application/pdf`, `image/*`, `*/*`.
    pub types: Vec<String>,
    /// The program and its arguments.
    pub command: Vec<String>,
    pub output: ModuleOutput,
    pub timeout_ms: u64,
    pub memory_mb: u64,
    pub max_output_bytes: u64,
    /// Runs of it under way at once; 0: one for each core.
    pub at_once: usize,
}

/// How a program tells what it found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ModuleOutput {
    /// All that it writes is the document's text.
    Text,
    /// Each line is a JSON object: a fact, a link, a title or a text.
    Json,
}

impl Default for ModuleSettings {
    fn default() -> Self {
        Self {
            name: String::new(),
            types: Vec::new(),
            command: Vec::new(),
            output: ModuleOutput::Text,
            timeout_ms: 10_000,
            memory_mb: 512,
            max_output_bytes: 1 << 20,
            at_once: 0,
        }
    }
}

impl ModuleSettings {
    /// What its facts begin with.
    pub fn own_name(&self) -> &str {
        if !self.name.is_empty() {
            return &self.name;
        }
        let program = self.command.first().map_or("", String::as_str);
        let file = program.rsplit('/').next().unwrap_or_default();
        match file.split_once('.') {
            Some((stem, _)) if !stem.is_empty() => stem,
            _ => file,
        }
    }

    /// What is wrong with it, in words that follow "module".
    fn fault(&self) -> Option<String> {
        if self.command.first().is_none_or(String::is_empty) {
            return Some("must have a command: the program and its arguments".to_owned());
        }
        if self.command.iter().any(|word| word.contains('\0')) {
            return Some("must not have a NUL in its command".to_owned());
        }
        let name = self.own_name();
        if !is_name(name) {
            return Some(format!(
                "must have a name of at most {MAX_NAME_BYTES} letters, digits, '-' and '_', not '{name}'"
            ));
        }
        let named = |what: String| Some(format!("'{name}' {what}"));
        if self.types.is_empty() {
            return named("must have types, such as [\"application/pdf\"]".to_owned());
        }
        let is_range = |t: &&String| t.as_str() == "*/*" || is_media_range(t);
        if let Some(strange) = self.types.iter().find(|t| !is_range(t)) {
            return named(format!(
                "must have media types such as \"application/pdf\" or \"image/*\", not '{strange}'"
            ));
        }
        for (setting, value, least, most) in [
            ("timeout_ms", self.timeout_ms, 1, MAX_TIMEOUT_MS),
            ("memory_mb", self.memory_mb, MIN_MEMORY_MB, u64::MAX >> 20),
            (
                "max_output_bytes",
                self.max_output_bytes,
                1,
                MAX_OUTPUT_BYTES,
            ),
            ("at_once", self.at_once as u64, 0, MAX_AT_ONCE as u64),
        ] {
            if !(least..=most).contains(&value) {
                return named(format!("must have {setting} from {least} to {most}"));
            }
        }
        None
    }
}

/// May facts begin with it?
pub(crate) fn is_name(name: &str) -> bool {
    let fits = |b: u8| b.is_ascii_alphanumeric() || b"-_".contains(&b);
    !name.is_empty() && name.len() <= MAX_NAME_BYTES && name.bytes().all(fits)
}

impl Settings {
    pub(super) fn check_modules(&self) -> Result<(), SettingsError> {
        let mut names = BTreeSet::new();
        for module in &self.module {
            if let Some(fault) = module.fault() {
                return Err(SettingsError::of("module", &fault));
            }
            let name = module.own_name();
            if !names.insert(name) {
                let what = format!("'{name}' stands twice; give one of them another name");
                return Err(SettingsError::of("module", &what));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mistakes_in_modules_are_told_in_one_sentence() {
        let told = |block: &str| {
            let settings = Settings::with_overrides(&format!("[[module]]\n{block}"));
            settings.map(|_| ()).expect_err(block).to_string()
        };
        let pdf = "types = [\"application/pdf\"]\ncommand = [\"pdftotext\", \"-\", \"-\"]\n";
        for (block, what) in [
            ("types = [\"a/b\"]".to_owned(), "must have a command"),
            ("command = [\"x\"]".to_owned(), "'x' must have types"),
            (
                "command = [\"x\"]\ntypes = [\"pdf\"]".to_owned(),
                "not 'pdf'",
            ),
            (format!("{pdf}name = \"a b\""), "not 'a b'"),
            (format!("{pdf}timeout_ms = 0"), "have timeout_ms from 1 to"),
            (format!("{pdf}memory_mb = 1"), "have memory_mb from 16 to"),
            (format!("{pdf}at_once = 1000"), "have at_once from 0 to 256"),
            (
                format!("{pdf}[[module]]\n{pdf}"),
                "'pdftotext' stands twice",
            ),
            (
                format!("{pdf}output = \"xml\""),
                "must be \"text\" or \"json\", not \"xml\"",
            ),
            (format!("{pdf}timeout = 3"), "did you mean 'timeout_ms'?"),
        ] {
            let told = told(&block);
            assert!(told.contains(what) && !told.contains('\n'), "{told}");
        }
        let settings = Settings::with_overrides(&format!("[[module]]\n{pdf}")).expect("right");
        assert_eq!(settings.module[0].own_name(), "pdftotext");
        assert_eq!(settings.module[0].output, ModuleOutput::Text);
        let again = toml::to_string(&settings).expect("TOML");
        let again = Settings::with_overrides(&again).expect("what is written can be read");
        assert_eq!(again.module, settings.module);
    }

    #[test]
    fn a_module_without_a_name_has_its_programs() {
        for (program, name) in [
            ("/usr/bin/pdftotext", "pdftotext"),
            ("./links.sh", "links"),
            ("tool.v2.py", "tool"),
            (".hidden", ".hidden"),
        ] {
            let module = ModuleSettings {
                command: vec![program.to_owned()],
                ..ModuleSettings::default()
            };
            assert_eq!(module.own_name(), name);
        }
    }
}
