//! What every end-to-end test needs: a simulated Web that outlives the crawler, and the real binary run against it.
//! Judgement is left to the tests.

// Each test file is a program of its own and uses a part of this.
#![allow(dead_code)]

pub mod clock_set;
pub mod dns;
pub mod fixed;
pub mod link;
pub mod proxy;
pub mod recorder;
pub mod small;

use portolan_archive::WarcReader;
use portolan_simweb::{Server, ServerOptions, Truth, TruthQuery, Web, WebSpec, Witness};
use serde_json::Value;
use sha1::{Digest, Sha1};
use std::collections::BTreeMap;
use std::io::Read;
use std::net::{IpAddr, Ipv4Addr};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Longer than any run here takes on a busy machine: a crawl that stands still fails the test instead of hanging it.
const RUN_LIMIT: Duration = Duration::from_secs(120);
const POLL: Duration = Duration::from_millis(5);

/// A simulated Web and an empty directory for a crawl of it.
pub struct Site {
    pub web: Arc<Web>,
    pub server: Server,
    dir: TempDir,
}

impl Site {
    pub fn serve(spec: WebSpec) -> Site {
        Site::serve_on(spec, 1)
    }

    /// On 127.0.0.1, 127.0.0.2, …
    pub fn serve_on(spec: WebSpec, addresses: u8) -> Site {
        let web = Arc::new(Web::new(spec).expect("a sound spec"));
        let options = ServerOptions {
            ips: (1..=addresses)
                .map(|last| IpAddr::V4(Ipv4Addr::new(127, 0, 0, last)))
                .collect(),
            tls: web.spec().tls,
            ..ServerOptions::default()
        };
        let server = Server::start_with(Arc::clone(&web), &options).expect("a free port");
        Site {
            web,
            server,
            dir: TempDir::new().expect("a temporary directory"),
        }
    }

    pub fn witness(&self) -> &Witness {
        self.server.witness()
    }

    pub fn truth(&self, query: &TruthQuery) -> Truth {
        self.web.truth(query)
    }

    /// A file or directory beside the crawl.
    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// The crawl's directory, unless a test uses several.
    pub fn out(&self) -> PathBuf {
        self.path("crawl")
    }

    /// Every host of this Web lives at the first address.
    pub fn resolve(&self) -> String {
        format!("*.{}={}", self.web.spec().suffix, self.server.addr())
    }

    /// A settings file with quick back-off, so that tests do not wait for it, and with `more`.
    pub fn config(&self, more: &str) -> PathBuf {
        let path = self.path("settings.toml");
        std::fs::write(&path, more).expect("a settings file");
        path
    }

    /// `portolan crawl HOME --out … --resolve … --json`: a whole crawl of everything, without delay.
    pub fn crawl(&self) -> Command {
        let mut command = self.crawl_politely();
        command.args(["--scope", "any", "--delay", "0s"]);
        command
    }

    /// The same with the defaults of scope and delay.
    pub fn crawl_politely(&self) -> Command {
        let mut command = portolan();
        command
            .arg("crawl")
            .arg(self.web.spec().home_url())
            .arg("--out")
            .arg(self.out())
            .arg("--resolve")
            .arg(self.resolve())
            // Some pages of some Webs ask for a rest for ever.
            .args(["--wait", "3s"])
            .arg("--json");
        command
    }

    /// `portolan crawl --out …`: go on.
    pub fn resume(&self) -> Command {
        let mut command = portolan();
        command
            .arg("crawl")
            .arg("--out")
            .arg(self.out())
            .arg("--json");
        command
    }

    /// Goes on if there is a crawl to go on with, else starts one: a kill may come before anything was written.
    pub fn again(&self) -> Command {
        if self.out().join("crawl.toml").exists() {
            self.resume()
        } else {
            let mut command = self.crawl();
            command.arg("--config").arg(self.path("settings.toml"));
            command
        }
    }

    /// `portolan NAME DIR …`, which must succeed.
    pub fn ask(&self, arguments: &[&str]) -> Ran {
        ask(&self.out(), arguments)
    }

    /// What `portolan urls` tells, by URL.
    pub fn urls(&self) -> BTreeMap<String, Value> {
        self.ask(&["urls", "--json"])
            .json_lines()
            .into_iter()
            .map(|line| (text(&line, "url").to_owned(), line))
            .collect()
    }

    /// The fields of every metadata record, the last one of each name.
    pub fn metadata(&self) -> Vec<BTreeMap<String, String>> {
        let mut files: Vec<String> = self
            .records()
            .iter()
            .map(|r| text(r, "file").to_owned())
            .collect();
        files.dedup();
        let mut all = Vec::new();
        for file in files {
            let mut reader = WarcReader::open(Path::new(&file)).expect("a WARC file");
            while let Some(record) = reader.next_record().expect("a sound record") {
                let mut block = String::new();
                if record.kind() == "metadata" {
                    reader.block().read_to_string(&mut block).expect("text");
                    let fields = block.lines().filter_map(|line| line.split_once(": "));
                    all.push(
                        fields
                            .map(|(name, value)| (name.to_owned(), value.to_owned()))
                            .collect(),
                    );
                }
            }
        }
        all
    }

    /// Every record of the archive.
    pub fn records(&self) -> Vec<Value> {
        self.ask(&["warc list", "--json"]).json_lines()
    }
}

/// The binary under test.
pub fn portolan() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_portolan"));
    command
        .stdin(Stdio::null())
        .env("RUST_BACKTRACE", "1")
        .env_remove("PORTOLAN_CONFIG");
    for proxy in ["http_proxy", "https_proxy", "all_proxy", "no_proxy"] {
        command.env_remove(proxy);
        command.env_remove(proxy.to_uppercase());
    }
    command
}

/// `portolan WORDS… DIR OPTIONS…`, which must succeed. The first argument may be two words.
pub fn ask(dir: &Path, arguments: &[&str]) -> Ran {
    let mut command = portolan();
    command.args(arguments[0].split(' ')).arg(dir);
    command.args(&arguments[1..]);
    run(&mut command).succeeded()
}

/// What a run of the binary came to.
#[derive(Debug)]
pub struct Ran {
    pub code: Option<i32>,
    pub out: String,
    pub raw_out: Vec<u8>,
    pub err: String,
    pub took: Duration,
}

impl Ran {
    #[track_caller]
    pub fn succeeded(self) -> Ran {
        assert_eq!(self.code, Some(0), "{}\n{}", self.out, self.err);
        assert!(!self.err.contains("panicked"), "{}", self.err);
        self
    }

    /// Standard output as one JSON object.
    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.out)
            .unwrap_or_else(|e| panic!("not one JSON object: {e}\n{}\n{}", self.out, self.err))
    }

    /// Standard output as a JSON object a line.
    #[track_caller]
    pub fn json_lines(&self) -> Vec<Value> {
        self.out
            .lines()
            .map(|line| {
                serde_json::from_str(line).unwrap_or_else(|e| panic!("not JSON: {e}\n{line}"))
            })
            .collect()
    }
}

/// Runs to the end, within a limit.
#[track_caller]
pub fn run(command: &mut Command) -> Ran {
    let begun = Instant::now();
    finish(start(command), begun)
}

#[track_caller]
pub fn start(command: &mut Command) -> Child {
    command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary runs")
}

/// Waits for the end, within a limit, and reads what was said meanwhile.
#[track_caller]
pub fn finish(child: Child, begun: Instant) -> Ran {
    let id = child.id();
    let reader = std::thread::spawn(move || child.wait_with_output());
    while !reader.is_finished() {
        if begun.elapsed() > RUN_LIMIT {
            signal(id, "KILL");
            let said = reader.join();
            panic!("the run did not end within {RUN_LIMIT:?}: {said:?}");
        }
        std::thread::sleep(POLL);
    }
    let took = begun.elapsed();
    let Output {
        status,
        stdout,
        stderr,
    } = reader
        .join()
        .expect("the reader does not panic")
        .expect("the output can be read");
    Ran {
        code: status.code(),
        out: String::from_utf8_lossy(&stdout).into_owned(),
        raw_out: stdout,
        err: String::from_utf8_lossy(&stderr).into_owned(),
        took,
    }
}

/// Sends a signal to a process that the test started.
pub fn signal(id: u32, name: &str) {
    let sent = Command::new("kill")
        .args(["-s", name, &id.to_string()])
        .stderr(Stdio::null())
        .status();
    assert!(sent.is_ok(), "kill can be run");
}

/// Waits until `done` holds; whether it did within the limit.
pub fn wait_until(limit: Duration, mut done: impl FnMut() -> bool) -> bool {
    let begun = Instant::now();
    while begun.elapsed() < limit {
        if done() {
            return true;
        }
        std::thread::sleep(POLL);
    }
    done()
}

#[track_caller]
pub fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key]
        .as_str()
        .unwrap_or_else(|| panic!("no text '{key}' in {value}"))
}

#[track_caller]
pub fn number(value: &Value, key: &str) -> u64 {
    value[key]
        .as_u64()
        .unwrap_or_else(|| panic!("no number '{key}' in {value}"))
}

/// Lower-case hexadecimal, as the truth writes digests.
pub fn sha1_hex(bytes: &[u8]) -> String {
    let hash = Sha1::digest(bytes);
    hash.iter().map(|b| format!("{b:02x}")).collect()
}

/// Settings that make refusals quick to get over; what servers ask for is kept all the same.
pub const QUICK: &str =
    "[politeness]\nbackoff_ms = 50\nbackoff_max_ms = 400\n[http]\nrequest_timeout_ms = 10000\n";
