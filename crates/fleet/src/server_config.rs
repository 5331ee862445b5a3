//! A configuration of nats-server that a fleet can rely on.

use crate::certs::USER;
use crate::error::FleetError;
use std::path::PathBuf;

/// What differs from server to server, and from fleet to fleet.
#[derive(Clone, Debug)]
pub struct ServerConfig {
    /// All servers, by the names that others reach them by: one, or three.
    pub hosts: Vec<String>,
    /// Which of them this configuration is for.
    pub host: String,
    /// Where `portolan fleet certs` wrote its files, on the server.
    pub certs: PathBuf,
    /// Where JetStream keeps its files.
    pub store: PathBuf,
    /// How much of its disk JetStream may use, in GB.
    pub disk_gb: u64,
    /// Sync each message: a power cut of most servers at once loses nothing then. Slower.
    pub sync_always: bool,
    pub port: u16,
    pub cluster_port: u16,
    pub tier: Tier,
}

/// Where servers stand among those of other groups.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Tier {
    /// There are no others.
    Alone,
    /// Leaves connect to these.
    Hub { domain: String, leaf_port: u16 },
    /// These connect to the hub's servers.
    Leaf {
        domain: String,
        hub: Vec<String>,
        leaf_port: u16,
    },
}

impl Tier {
    fn domain(&self) -> Option<&str> {
        match self {
            Self::Alone => None,
            Self::Hub { domain, .. } | Self::Leaf { domain, .. } => Some(domain),
        }
    }
}

impl ServerConfig {
    /// The configuration's text.
    pub fn text(&self) -> Result<String, FleetError> {
        let hubs: &[String] = match &self.tier {
            Tier::Leaf { hub, .. } => hub,
            Tier::Alone | Tier::Hub { .. } => &[],
        };
        if let Some(domain) = self.tier.domain() {
            crate::check_name("a JetStream domain", domain)?;
        }
        for host in self.hosts.iter().chain(hubs) {
            let good = |byte: u8| byte.is_ascii_alphanumeric() || b".-:".contains(&byte);
            if host.is_empty() || !host.bytes().all(good) {
                return Err(FleetError::BadServer(host.clone()));
            }
        }
        if !self.hosts.contains(&self.host) {
            return Err(FleetError::Refused(format!(
                "'{}' is none of the servers named",
                self.host
            )));
        }
        let file = |suffix: &str| self.certs.join(format!("{}{suffix}.pem", self.host));
        let (cert, key, ca) = (file(""), file("-key"), self.certs.join("ca.pem"));
        let sync = if self.sync_always { "always" } else { "\"2m\"" };
        let domain = self.tier.domain().map_or(String::new(), |domain| {
            format!(
                "  # Another one than the hub's and the other groups'.\n  domain: \"{domain}\"\n"
            )
        });
        let cluster = match self.hosts.len() {
            1 => String::new(),
            _ => self.cluster(),
        };
        Ok(format!(
            r#"# nats-server -c FILE    (2.10 or later), on {host}
server_name: "{host}"
listen: "0.0.0.0:{port}"
max_payload: 1MB

# Who has a certificate of the fleet's authority is let in, nobody else.
tls {{
  cert_file: "{cert}"
  key_file: "{key}"
  ca_file: "{ca}"
  verify_and_map: true
}}

jetstream {{
  store_dir: "{store}"
  max_memory_store: 1GB
  max_file_store: {disk_gb}GB
{domain}  # With a time here, a power cut of most servers at once may lose what they acknowledged within it.
  sync_interval: {sync}
}}

accounts {{
  PORTOLAN {{
    jetstream: {{ max_file: {disk_gb}GB, max_mem: 1GB, max_streams: 1000, max_consumers: 100000 }}
    users: [ {{ user: "{USER}" }} ]
  }}
  SYS {{ users: [] }}
}}
system_account: SYS
{cluster}{leafnodes}"#,
            host = self.host,
            port = self.port,
            cert = cert.display(),
            key = key.display(),
            ca = ca.display(),
            store = self.store.display(),
            disk_gb = self.disk_gb,
            domain = domain,
            leafnodes = self.leafnodes(),
        ))
    }

    fn leafnodes(&self) -> String {
        let file = |suffix: &str| self.certs.join(format!("{}{suffix}.pem", self.host));
        let tls = |verify: &str, indent: &str| {
            format!(
                "{indent}tls {{\n{indent}  cert_file: \"{}\"\n{indent}  key_file: \"{}\"\n{indent}  ca_file: \"{}\"\n{verify}{indent}}}\n",
                file("").display(),
                file("-key").display(),
                self.certs.join("ca.pem").display(),
            )
        };
        match &self.tier {
            Tier::Alone => String::new(),
            Tier::Hub { leaf_port, .. } => format!(
                "\n# Where the groups' servers connect.\nleafnodes {{\n  listen: \"0.0.0.0:{leaf_port}\"\n{}  \
                 authorization {{ users: [ {{ user: \"portolan-node\", account: \"PORTOLAN\" }} ] }}\n}}\n",
                tls("    verify_and_map: true\n", "  "),
            ),
            Tier::Leaf { hub, leaf_port, .. } => {
                let urls = hub
                    .iter()
                    .map(|host| format!("\"tls://{host}:{leaf_port}\""));
                format!(
                    "\n# The way to the hub, and by it to the other groups.\nleafnodes {{\n  remotes: [\n    {{\n      \
                     urls: [{}]\n      account: \"PORTOLAN\"\n{}    }}\n  ]\n}}\n",
                    urls.collect::<Vec<_>>().join(", "),
                    tls("", "      "),
                )
            }
        }
    }

    fn cluster(&self) -> String {
        let route = |host: &String| format!("    \"nats-route://{host}:{}\"", self.cluster_port);
        let routes: Vec<_> = self.hosts.iter().map(route).collect();
        let file = |suffix: &str| self.certs.join(format!("{}{suffix}.pem", self.host));
        format!(
            r#"
cluster {{
  name: "{name}"
  listen: "0.0.0.0:{port}"
  tls {{
    cert_file: "{cert}"
    key_file: "{key}"
    ca_file: "{ca}"
    verify: true
  }}
  routes: [
{routes}
  ]
}}
"#,
            // A leaf's must differ from the hub's.
            name = match self.tier.domain() {
                None => "portolan".to_owned(),
                Some(domain) => format!("portolan-{domain}"),
            },
            port = self.cluster_port,
            cert = file("").display(),
            key = file("-key").display(),
            ca = self.certs.join("ca.pem").display(),
            routes = routes.join("\n"),
        )
    }
}
