//! DNS servers that a person named, asked directly; answers say how long they hold.

use super::{Addresses, Lookup, NotResolved, NotResolvedBy, Resolver};
use crate::error::is_exhaustion;
use crate::tls::SetupError;
use hickory_resolver::TokioResolver;
use hickory_resolver::config::{LookupIpStrategy, NameServerConfig, ResolveHosts, ResolverConfig};
use hickory_resolver::net::runtime::TokioRuntimeProvider;
use hickory_resolver::net::{DnsError, NetError};
use hickory_resolver::proto::op::ResponseCode;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;
use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

const DNS_PORT: u16 = 53;
/// Queries to a server that may be under way on one TCP connection: two for each look-up.
const MAX_ACTIVE_QUERIES: usize = 1024;

/// Lives on a thread of its own, because its connections to servers serve all workers and may not
/// end with the runtime of the worker that happened to ask first.
pub struct DnsResolver {
    resolver: TokioResolver,
    runtime: Handle,
    /// Dropped with the resolver, which ends its thread.
    _stop: oneshot::Sender<()>,
}

impl DnsResolver {
    /// `servers` as in `9.9.9.9`, `9.9.9.9:5353` or `[2620:fe::fe]:53`.
    pub fn new(
        servers: &[String],
        query_timeout_ms: u64,
        attempts: usize,
    ) -> Result<Self, SetupError> {
        let servers = servers
            .iter()
            .map(|text| name_server(text))
            .collect::<Result<Vec<_>, _>>()?;
        if servers.is_empty() {
            return Err(SetupError::new("no DNS server is named"));
        }
        let mut builder = TokioResolver::builder_with_config(
            ResolverConfig::from_name_servers(servers),
            TokioRuntimeProvider::default(),
        );
        let options = builder.options_mut();
        options.timeout = Duration::from_millis(query_timeout_ms);
        options.attempts = attempts;
        options.ip_strategy = LookupIpStrategy::Ipv4AndIpv6;
        options.use_hosts_file = ResolveHosts::Never;
        options.max_active_requests = MAX_ACTIVE_QUERIES;
        options.try_tcp_on_error = true;
        // The mapping has its own cache, by host.
        options.cache_size = 0;
        let failed = |error: String| SetupError::new(&format!("DNS cannot be used: {error}"));
        let resolver = builder.build().map_err(|e| failed(e.to_string()))?;
        let runtime = Builder::new_current_thread()
            .enable_io()
            .enable_time()
            .build()
            .map_err(|e| failed(e.to_string()))?;
        let handle = runtime.handle().clone();
        let (stop, stopped) = oneshot::channel::<()>();
        std::thread::Builder::new()
            .name("dns".to_owned())
            .spawn(move || runtime.block_on(stopped))
            .map_err(|e| failed(e.to_string()))?;
        Ok(Self {
            resolver,
            runtime: handle,
            _stop: stop,
        })
    }
}

impl Resolver for DnsResolver {
    fn lookup<'a>(&'a self, host: &'a str) -> Lookup<'a> {
        let resolver = self.resolver.clone();
        // With a dot at its end the name is whole: no search domain is tried.
        let name = format!("{}.", host.strip_suffix('.').unwrap_or(host));
        let mut task = Task(
            self.runtime
                .spawn(async move { resolver.lookup_ip(name).await }),
        );
        Box::pin(async move {
            let found = (&mut task.0).await.map_err(|error| NotResolved {
                detail: error.to_string(),
                cause: NotResolvedBy::NoAnswer,
                ttl_ms: None,
            })?;
            let found = found.map_err(|error| not_resolved(&error))?;
            let ttl_ms = found
                .as_lookup()
                .answers()
                .iter()
                .map(|record| u64::from(record.ttl) * 1_000)
                .min();
            Ok(Addresses {
                addresses: found.iter().collect(),
                port_override: None,
                ttl_ms,
                named: false,
            })
        })
    }
}

/// A look-up on the resolver's thread. It ends with who asked for it: its sockets are not kept for an answer that nobody
/// waits for.
struct Task<T>(JoinHandle<T>);

impl<T> Drop for Task<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Can `text` be one of a [`DnsResolver`]'s servers?
pub fn check_name_server(text: &str) -> Result<(), SetupError> {
    name_server(text).map(|_| ())
}

fn name_server(text: &str) -> Result<NameServerConfig, SetupError> {
    let address = text
        .parse::<IpAddr>()
        .map(|ip| SocketAddr::new(ip, DNS_PORT))
        .or_else(|_| text.parse::<SocketAddr>())
        .map_err(|_| {
            SetupError::new(&format!(
                "DNS server '{text}': write its address as in 9.9.9.9 or [2620:fe::fe]:53"
            ))
        })?;
    let mut server = NameServerConfig::udp_and_tcp(address.ip());
    for connection in &mut server.connections {
        connection.port = address.port();
    }
    Ok(server)
}

fn not_resolved(error: &NetError) -> NotResolved {
    let ttl = match error {
        NetError::Dns(DnsError::NoRecordsFound(none)) => none.negative_ttl,
        _ => None,
    };
    NotResolved {
        cause: match error {
            NetError::Dns(DnsError::NoRecordsFound(none))
                if matches!(
                    none.response_code,
                    ResponseCode::NXDomain | ResponseCode::NoError
                ) =>
            {
                NotResolvedBy::NoSuchName
            }
            NetError::Io(error) if is_exhaustion(error) => NotResolvedBy::OurLimits,
            _ => NotResolvedBy::NoAnswer,
        },
        detail: match error {
            NetError::Dns(DnsError::NoRecordsFound(none)) => {
                format!("the DNS has no address for it ({})", none.response_code)
            }
            other => other.to_string(),
        },
        ttl_ms: ttl.map(|seconds| u64::from(seconds) * 1_000),
    }
}
