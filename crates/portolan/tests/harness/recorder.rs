//! A server of answers that a test writes itself, byte for byte, with a record of who was asked for what and when.

use super::portolan;
use std::cell::Cell;
use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// One request, as the server saw it.
#[derive(Debug, Clone)]
pub struct Seen {
    pub host: String,
    pub path: String,
    /// The whole head of the request.
    pub head: String,
    pub begun: Instant,
    /// Just before the last byte of the answer was written.
    pub ended: Instant,
}

/// What is asked for, and how often it was before.
pub struct Asked<'a> {
    pub host: &'a str,
    pub path: &'a str,
    /// The whole head of the request.
    pub head: &'a str,
    pub before: usize,
    /// The connection stays open for so long after the answer, as if more was to come.
    pub hold_open: Cell<Duration>,
}

/// Serves on 127.0.0.1 until the test ends.
pub struct Recorder {
    pub addr: SocketAddr,
    seen: Arc<Mutex<Vec<Seen>>>,
}

pub fn record(answer: impl Fn(&Asked) -> Vec<u8> + Send + Sync + 'static) -> Recorder {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let addr = listener.local_addr().expect("it is bound");
    let seen = Arc::new(Mutex::new(Vec::new()));
    let record = Arc::clone(&seen);
    let answer = Arc::new(answer);
    std::thread::spawn(move || {
        let counts = Arc::new(Mutex::new(HashMap::new()));
        for stream in listener.incoming().flatten() {
            let (answer, record) = (Arc::clone(&answer), Arc::clone(&record));
            let counts = Arc::clone(&counts);
            std::thread::spawn(move || serve_one(stream, &*answer, &counts, &record));
        }
    });
    Recorder { addr, seen }
}

fn serve_one(
    mut stream: TcpStream,
    answer: &dyn Fn(&Asked) -> Vec<u8>,
    counts: &Mutex<HashMap<(String, String), usize>>,
    record: &Mutex<Vec<Seen>>,
) {
    let mut request = Vec::new();
    while !request.ends_with(b"\r\n\r\n") {
        let mut piece = [0; 4096];
        match stream.read(&mut piece) {
            Ok(read) if read > 0 => request.extend_from_slice(&piece[..read]),
            _ => return,
        }
    }
    let begun = Instant::now();
    let head = String::from_utf8_lossy(&request).into_owned();
    let path = head.split(' ').nth(1).unwrap_or("/").to_owned();
    let host = head
        .lines()
        .find_map(|line| line.strip_prefix("Host: "))
        .map(|host| host.split(':').next().unwrap_or_default().to_owned())
        .unwrap_or_default();
    let before = {
        let mut counts = counts.lock().expect("no test panics with it");
        let count = counts.entry((host.clone(), path.clone())).or_default();
        *count += 1;
        *count - 1
    };
    let asked = Asked {
        host: &host,
        path: &path,
        head: &head,
        before,
        hold_open: Cell::default(),
    };
    let bytes = answer(&asked);
    let hold_open = asked.hold_open.get();
    let mut record = record.lock().expect("no test panics with it");
    record.push(Seen {
        host,
        path,
        head,
        begun,
        ended: Instant::now(),
    });
    drop(record);
    let _ = stream.write_all(&bytes);
    std::thread::sleep(hold_open);
}

impl Recorder {
    pub fn seen(&self) -> Vec<Seen> {
        self.seen.lock().expect("no test panics with it").clone()
    }

    pub fn of(&self, host: &str) -> Vec<Seen> {
        let mut seen = self.seen();
        seen.retain(|request| request.host == host);
        seen
    }

    pub fn count(&self, host: &str, path: &str) -> usize {
        self.of(host)
            .iter()
            .filter(|seen| seen.path == path)
            .count()
    }
}

/// A directory for a crawl of a recorder's hosts, which are those under `.test`.
pub struct Place {
    dir: TempDir,
}

impl Place {
    pub fn new() -> Place {
        Place {
            dir: TempDir::new().expect("a temporary directory"),
        }
    }

    /// With short pauses; settings begin in `[politeness]`.
    pub fn crawl(&self, server: &Recorder, seeds: &[&str], settings: &str) -> Command {
        let config = self.dir.path().join("settings.toml");
        let settings = format!(
            "[politeness]\nresponse_time_factor = 0.0\nip_delay_ms = 1\nbackoff_ms = 100\nkeep_alive_ms = 0\n{settings}"
        );
        std::fs::write(&config, settings).expect("a settings file");
        let mut command = portolan();
        command
            .arg("crawl")
            .args(seeds)
            .args(["--delay", "200ms", "--json", "--resolve"])
            .arg(format!("*.test={}", server.addr))
            .arg("--config")
            .arg(config)
            .arg("--out")
            .arg(self.dir.path().join("crawl"));
        command
    }

    /// The crawl's directory.
    pub fn out(&self) -> PathBuf {
        self.dir.path().join("crawl")
    }

    /// A file beside it.
    pub fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.dir.path().join(name);
        std::fs::write(&path, text).expect("a file");
        path
    }

    /// `portolan crawl --out …`: go on.
    pub fn resume(&self) -> Command {
        let mut command = portolan();
        command
            .args(["crawl", "--json", "--out"])
            .arg(self.dir.path().join("crawl"));
        command
    }

    pub fn change_settings(&self, from: &str, to: &str) {
        let config = self.dir.path().join("settings.toml");
        let settings = std::fs::read_to_string(&config).expect("it was written");
        std::fs::write(&config, settings.replace(from, to)).expect("a settings file");
    }
}

/// The pauses between the requests, each from the end of an answer to the next request.
pub fn gaps(seen: &[Seen]) -> Vec<Duration> {
    seen.windows(2)
        .map(|pair| pair[1].begun.saturating_duration_since(pair[0].ended))
        .collect()
}

/// `200 OK` with what follows the status line but for the length: headers, each with its line's end, and a body.
pub fn ok(headers: &str, body: &[u8]) -> Vec<u8> {
    status("200 OK", headers, body)
}

pub fn status(line: &str, headers: &str, body: &[u8]) -> Vec<u8> {
    let length = body.len();
    let mut answer = format!(
        "HTTP/1.1 {line}\r\nConnection: close\r\nContent-Length: {length}\r\n{headers}\r\n"
    )
    .into_bytes();
    answer.extend_from_slice(body);
    answer
}
