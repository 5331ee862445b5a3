//! The machine's clock, as somebody sets it while a crawl runs: only for the processes that a test starts.

use std::path::PathBuf;
use std::process::Command;
use tempfile::TempDir;

pub struct ClockSet {
    dir: TempDir,
}

impl ClockSet {
    pub fn new() -> ClockSet {
        let dir = TempDir::new().expect("a temporary directory");
        let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/harness/clock_set.c");
        // Portolan itself is not built without a C compiler.
        let built = Command::new(std::env::var("CC").unwrap_or("cc".to_owned()))
            .args(["-shared", "-fPIC", "-O1", "-o"])
            .arg(dir.path().join("clock_set.so"))
            .arg(source)
            .status();
        assert!(built.is_ok_and(|status| status.success()), "cc {source}");
        let clock = ClockSet { dir };
        clock.set(0);
        clock
    }

    /// From now on the time of day is so many seconds from the true one.
    pub fn set(&self, seconds: i64) {
        std::fs::write(self.offset(), seconds.to_le_bytes()).expect("it can be written");
    }

    /// The process goes by this clock.
    pub fn govern<'a>(&self, command: &'a mut Command) -> &'a mut Command {
        command
            .env("LD_PRELOAD", self.dir.path().join("clock_set.so"))
            .env("CLOCK_SET", self.offset())
    }

    fn offset(&self) -> PathBuf {
        self.dir.path().join("seconds")
    }
}
