//! What a start found and did before the crawl went on: for the terminal, the report, and `report.json`.

use std::fmt;

use portolan_archive::{FileFault, Recovery};
use serde::Serialize;

use crate::report::{bytes, counted};

/// All zero after a clean stop.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Recovered {
    /// The run before this one did not end in order.
    pub after_crash: bool,
    /// Bytes of a half-written commit at the journal's end, which were cut off.
    pub torn_log_bytes: u64,
    /// Bytes of half-written records at the archive's end, which were cut off.
    pub torn_archive_bytes: u64,
    /// Whole records that no logged visit names, now in `archive/set-aside/`.
    pub set_aside_records: u64,
    pub set_aside_bytes: u64,
    /// Indexes of WARC files that were missing, or not closed, and were written again.
    pub indexes_written: u64,
    /// WARC files that are not as the log knows them: sentences.
    pub archive_faults: Vec<String>,
}

impl Recovered {
    pub(crate) fn new(
        (after_crash, torn_log_bytes): (bool, u64),
        archive: &Recovery,
        faults: &[FileFault],
    ) -> Self {
        Self {
            after_crash,
            torn_log_bytes,
            torn_archive_bytes: archive.cut_bytes,
            set_aside_records: archive.set_aside_records,
            set_aside_bytes: archive.set_aside_bytes,
            indexes_written: archive.indexes_written as u64,
            archive_faults: faults.iter().map(FileFault::to_string).collect(),
        }
    }

    /// What is worth a line each.
    pub fn sentences(&self) -> Vec<String> {
        let mut said = Vec::new();
        if self.after_crash {
            said.push("The last run did not end in order; what it had logged is kept.".to_owned());
        }
        if self.torn_log_bytes > 0 {
            let torn = bytes(self.torn_log_bytes);
            said.push(format!(
                "The journal ended in half a commit, which was cut off ({torn}): its URLs are asked for again."
            ));
        }
        if self.torn_archive_bytes > 0 {
            let torn = bytes(self.torn_archive_bytes);
            said.push(format!(
                "The archive ended in half a record, which was cut off ({torn})."
            ));
        }
        if self.set_aside_records > 0 {
            said.push(format!(
                "{} that no log entry names ({}) are in archive/set-aside/ now; their URLs are asked for again.",
                counted(self.set_aside_records, "whole record"),
                bytes(self.set_aside_bytes)
            ));
        }
        if self.indexes_written > 0 {
            let indexes = counted(self.indexes_written, "index file");
            said.push(format!("Written again from the WARC files: {indexes}."));
        }
        said.extend(self.archive_faults.iter().cloned());
        said
    }
}

impl fmt::Display for Recovered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for sentence in self.sentences() {
            writeln!(f, "  {sentence}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_happened_is_told() {
        assert_eq!(Recovered::default().to_string(), "");
        let after = Recovered {
            after_crash: true,
            set_aside_records: 3,
            set_aside_bytes: 2048,
            ..Recovered::default()
        };
        let said = after.sentences();
        assert_eq!(said.len(), 2);
        assert!(said[1].starts_with(
            "3 whole records that no log entry names (2.0 KB) are in archive/set-aside/"
        ));
    }
}
