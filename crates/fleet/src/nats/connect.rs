//! Connects to NATS, and refuses servers that a fleet cannot rely on.

use super::REQUEST;
use crate::error::FleetError;
use crate::names::Names;
use crate::servers::{Servers, TlsFiles};
use async_nats::jetstream::context::{AccountErrorKind, ContextBuilder};
use async_nats::jetstream::{Context, stream};
use async_nats::rustls::pki_types::pem::PemObject;
use async_nats::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use async_nats::rustls::{ClientConfig, RootCertStore, crypto};
use async_nats::{Client, ConnectOptions, Event, ServerAddr};
use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

const OLDEST_SERVER: (i64, i64, i64) = (2, 10, 0);

/// A connection to the servers, for one fleet. Comes back by itself when it is lost.
#[derive(Clone)]
pub(crate) struct Bus {
    pub(crate) client: Client,
    pub(crate) js: Context,
    pub(crate) names: Names,
    /// How many servers keep each thing.
    pub(crate) replicas: usize,
}

impl Bus {
    pub(crate) async fn connect(servers: &Servers, fleet: &str) -> Result<Self, FleetError> {
        crate::check_name("a fleet", fleet)?;
        let addresses = addresses(servers)?;
        let mut options = ConnectOptions::new()
            .name(format!("portolan {fleet}"))
            .connection_timeout(REQUEST)
            .ping_interval(Duration::from_secs(5))
            .reconnect_delay_callback(|attempts| {
                Duration::from_millis(100 * attempts.min(20) as u64)
            })
            .event_callback(|event| async move { tell(&event) });
        if let Some(files) = &servers.tls {
            options = options
                .require_tls(true)
                .tls_client_config(tls_config(files)?);
        }
        let named = servers.urls.join(", ");
        let no_server = |mut why: String| {
            if servers.tls.is_none() && why.contains("certificate") {
                why.push_str("; certificates are needed");
            }
            let servers = named.clone();
            FleetError::NoServer { servers, why }
        };
        let client = options
            .connect(addresses)
            .await
            .map_err(|error| no_server(reason(&error)))?;
        let info = client.server_info();
        let server = format!("{}:{}", info.host, info.port);
        let (major, minor, patch) = OLDEST_SERVER;
        if !client.is_server_compatible(major, minor, patch) {
            return Err(FleetError::OldServer {
                server,
                version: info.version,
            });
        }
        let js = ContextBuilder::new().timeout(REQUEST).build(client.clone());
        if let Err(error) = js.query_account().await {
            return Err(match error.kind() {
                AccountErrorKind::TimedOut => FleetError::Unavailable(format!(
                    "{server} has JetStream, but no leader of it is there; most of a cluster's servers must run"
                )),
                _ => FleetError::NoJetStream(server),
            });
        }
        Ok(Self {
            client,
            js,
            names: Names(fleet.to_owned()),
            replicas: replicas(&info),
        })
    }
}

impl Bus {
    /// JetStream of another domain, which leaf connections lead to.
    pub(crate) fn domain(&self, domain: &str) -> Context {
        let builder = ContextBuilder::new().timeout(REQUEST);
        builder.domain(domain).build(self.client.clone())
    }
}

/// Three of everything where there is a cluster. What a server knows of the others is what clients may connect to.
fn replicas(info: &async_nats::ServerInfo) -> usize {
    match info.cluster.is_some() && info.connect_urls.len() >= 3 {
        true => 3,
        false => 1,
    }
}

/// How the fleet's own streams are kept: nothing goes unless it is purged, and a full stream refuses.
pub(crate) fn stream_config(
    name: String,
    subjects: String,
    replicas: usize,
    max_bytes: i64,
) -> stream::Config {
    stream::Config {
        name,
        subjects: vec![subjects],
        num_replicas: replicas,
        max_bytes,
        discard: stream::DiscardPolicy::New,
        retention: stream::RetentionPolicy::Limits,
        storage: stream::StorageType::File,
        allow_direct: true,
        ..stream::Config::default()
    }
}

fn addresses(servers: &Servers) -> Result<Vec<ServerAddr>, FleetError> {
    let mut addresses = Vec::new();
    for url in servers
        .urls
        .iter()
        .flat_map(|urls| urls.split(','))
        .map(str::trim)
    {
        let bad = || FleetError::BadServer(url.to_owned());
        let address: ServerAddr = url.parse().map_err(|_| bad())?;
        if !matches!(address.scheme(), "nats" | "tls") || address.host().is_empty() {
            return Err(bad());
        }
        let protected = servers.tls.is_some() || address.scheme() == "tls";
        if !protected && !servers.insecure && !is_here(address.host()) {
            return Err(FleetError::PlainText(url.to_owned()));
        }
        addresses.push(address);
    }
    match addresses.is_empty() {
        true => Err(FleetError::BadServer(String::new())),
        false => Ok(addresses),
    }
}

fn is_here(host: &str) -> bool {
    let host = host.trim_start_matches('[').trim_end_matches(']');
    host == "localhost"
        || host
            .parse::<IpAddr>()
            .is_ok_and(|address| address.is_loopback())
}

fn tls_config(files: &TlsFiles) -> Result<ClientConfig, FleetError> {
    let wrong = |path: &Path, why: &dyn std::fmt::Display| {
        FleetError::Certificates(format!("{}: {why}", path.display()))
    };
    let mut roots = RootCertStore::empty();
    for authority in certificates(&files.ca)? {
        roots
            .add(authority)
            .map_err(|error| wrong(&files.ca, &error))?;
    }
    let key =
        PrivateKeyDer::from_pem_file(&files.key).map_err(|error| wrong(&files.key, &error))?;
    ClientConfig::builder_with_provider(Arc::new(crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| wrong(&files.ca, &error))?
        .with_root_certificates(roots)
        .with_client_auth_cert(certificates(&files.cert)?, key)
        .map_err(|error| wrong(&files.cert, &error))
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, FleetError> {
    let wrong = |why: &dyn std::fmt::Display| {
        FleetError::Certificates(format!("{}: {why}", path.display()))
    };
    let read = CertificateDer::pem_file_iter(path).map_err(|error| wrong(&error))?;
    let found: Vec<_> = read
        .collect::<Result<_, _>>()
        .map_err(|error| wrong(&error))?;
    match found.is_empty() {
        true => Err(wrong(&"no certificate is in it")),
        false => Ok(found),
    }
}

/// The last cause says most.
fn reason(error: &dyn std::error::Error) -> String {
    let mut cause = error;
    while let Some(next) = cause.source() {
        cause = next;
    }
    cause.to_string()
}

fn tell(event: &Event) {
    match event {
        Event::Connected => tracing::info!("connected to NATS"),
        Event::Disconnected => tracing::warn!("the connection to NATS is lost"),
        other => tracing::debug!(event = %other, "NATS"),
    }
}
