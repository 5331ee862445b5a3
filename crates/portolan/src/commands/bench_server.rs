//! `portolan simweb` as a second process for the benches, so that the server's CPU is not counted.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Duration;

use portolan_simweb::{Figures, Verdict};
use serde::de::DeserializeOwned;

use crate::failure::Failure;

/// The witness has this long for its verdict on a large Web.
const VERDICT_LIMIT: Duration = Duration::from_secs(120);

pub(super) struct BenchServer {
    process: Child,
    /// 127.0.0.1 and a port.
    pub(super) address: String,
    /// What a client must trust, where TLS is spoken.
    pub(super) certificate_pem: String,
    /// Where its DNS server is, if it has one.
    pub(super) dns_address: String,
    /// Kept open: the server goes on talking.
    _output: BufReader<ChildStdout>,
}

impl BenchServer {
    /// `options` are those of `portolan simweb`.
    pub(super) fn start(options: &[String]) -> Result<Self, Failure> {
        let program = std::env::current_exe().map_err(Failure::failed)?;
        let mut process = Command::new(program)
            .args(["simweb", "--preset", "bench"])
            .args(options)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|e| Failure::failed(format!("the simulated Web did not start: {e}")))?;
        let silent = || Failure::failed("the simulated Web did not say where it is");
        let mut output = BufReader::new(process.stdout.take().ok_or_else(silent)?);
        match introduction(&mut output)? {
            Some(introduction) => Ok(Self {
                process,
                address: introduction.address,
                certificate_pem: introduction.certificate_pem,
                dns_address: introduction.dns_address,
                _output: output,
            }),
            None => {
                // It ended, and said why.
                let mut why = String::new();
                if let Some(mut errors) = process.stderr.take() {
                    let _ = errors.read_to_string(&mut why);
                }
                let _ = process.kill();
                let _ = process.wait();
                let why = why.trim().trim_start_matches("portolan: ");
                Err(if why.is_empty() {
                    silent()
                } else {
                    Failure::usage(why)
                })
            }
        }
    }

    /// What the witness says of the crawl so far.
    pub(super) fn verdict(&self) -> Result<Verdict, Failure> {
        self.ask("verdict")
    }

    /// What it has counted so far.
    pub(super) fn figures(&self) -> Result<Figures, Failure> {
        self.ask("figures")
    }

    /// What one of its control pages says.
    pub(super) fn ask<T: DeserializeOwned>(&self, page: &str) -> Result<T, Failure> {
        serde_json::from_str(&self.answer(page)?)
            .map_err(|e| Failure::failed(format!("the witness was not understood: {e}")))
    }

    /// Asks for a control page that says nothing of use.
    pub(super) fn tell(&self, page: &str) -> Result<(), Failure> {
        self.answer(page).map(drop)
    }

    fn answer(&self, page: &str) -> Result<String, Failure> {
        let wrong = |e: std::io::Error| Failure::failed(format!("the witness was not heard: {e}"));
        let mut stream = TcpStream::connect(&self.address).map_err(wrong)?;
        stream
            .set_read_timeout(Some(VERDICT_LIMIT))
            .map_err(wrong)?;
        let request = format!("GET /-/{page} HTTP/1.0\r\nHost: {}\r\n\r\n", self.address);
        stream.write_all(request.as_bytes()).map_err(wrong)?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).map_err(wrong)?;
        let (_, body) = answer.split_once("\r\n\r\n").unwrap_or_default();
        Ok(body.to_owned())
    }
}

impl Drop for BenchServer {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// What the server says first.
#[derive(Default)]
struct Introduction {
    address: String,
    certificate_pem: String,
    dns_address: String,
}

/// `None` if the server ends instead.
fn introduction(output: &mut impl BufRead) -> Result<Option<Introduction>, Failure> {
    let (mut said, mut in_pem) = (Introduction::default(), false);
    for line in output.lines() {
        let line = line?;
        // "A Web of … is served on 127.0.0.1:40123."
        if let Some((_, place)) = line.split_once(" is served on ") {
            said.address = place.trim_end_matches('.').to_owned();
        }
        if let Some(place) = line.strip_prefix("Its DNS server: ") {
            said.dns_address = place.to_owned();
        }
        in_pem |= line.starts_with("-----BEGIN");
        if in_pem {
            said.certificate_pem.push_str(&line);
            said.certificate_pem.push('\n');
        }
        in_pem &= !line.starts_with("-----END");
        if line.starts_with("Ctrl-C") {
            return Ok((!said.address.is_empty()).then_some(said));
        }
    }
    Ok(None)
}
