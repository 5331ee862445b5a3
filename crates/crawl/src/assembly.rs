//! From settings to the rooms' own settings and parts. The one place where parts are made.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use portolan_archive::ArchiveSettings;
use portolan_graph::RankTable;
use portolan_model::{CanonicalUrl, Clock, Identities, Order, Ranker};
use portolan_net::{
    Agent, Connector, DnsResolver, DnsSettings, Guard, HttpSettings, Mapping, Network, Proxies,
    ProxyError, ResolveRule, Resolver, StaticResolver, SystemResolver,
};
use portolan_registry::RegistrySettings;

use crate::directory::RANKS_FILE;
use crate::error::CrawlError;
use crate::machine::{self, Bounds};
use crate::pools::PoolSizes;
use crate::scope::Scope;
use crate::settings::{MAX_PARTITIONS, Settings};

/// Tries of one DNS query.
const DNS_ATTEMPTS: usize = 2;

/// Partitions for each core, where the settings leave it open: enough to spread hosts evenly.
const PARTITIONS_PER_CORE: usize = 4;

/// Where the crawl may go, seen from its roots.
pub(crate) fn scope<'a>(
    settings: &Settings,
    roots: impl IntoIterator<Item = &'a CanonicalUrl>,
) -> Result<Scope, CrawlError> {
    Ok(Scope::new(&settings.scope, roots)?.with_hosts(&settings.host)?)
}

pub(crate) fn threads(settings: &Settings) -> usize {
    match settings.limits.threads {
        0 => std::thread::available_parallelism().map_or(1, |cores| cores.get()),
        threads => threads,
    }
}

/// Where neither the settings nor a part vector say how many.
pub(crate) fn partitions(settings: &Settings) -> u16 {
    match settings.registry.partitions {
        0 => (threads(settings) * PARTITIONS_PER_CORE).min(usize::from(MAX_PARTITIONS)) as u16,
        partitions => partitions,
    }
}

/// How many connections, and of which kinds, this machine and these settings allow.
pub(crate) fn bounds(settings: &Settings) -> Bounds {
    let (files, memory_bytes) = (machine::raise_open_files(), machine::memory_bytes());
    Bounds::of(settings, partitions(settings), files, memory_bytes)
}

/// A worker's share of them.
pub(crate) fn pool_sizes(settings: &Settings, bounds: &Bounds, workers: usize) -> PoolSizes {
    PoolSizes {
        quick: bounds.connections.div_ceil(workers),
        waiting: bounds.waiting.div_ceil(workers),
        slow: bounds.slow.div_ceil(workers),
        patience: Duration::from_millis(settings.limits.patience_ms),
    }
}

pub(crate) fn registry(
    settings: &Settings,
    partitions: u16,
    (ids, crawl_id): (Identities, u64),
) -> RegistrySettings {
    let politeness = &settings.politeness;
    let host_delays_ms = settings.host.iter().filter_map(|host| host.delay_ms);
    RegistrySettings {
        crawl_id,
        partitions,
        order: settings.frontier.order,
        ids,
        unknown_delay_ms: politeness.unknown_delay_ms(),
        longest_pause_ms: host_delays_ms.fold(politeness.longest_pause_ms(), u64::max),
        ..settings.registry.clone()
    }
}

/// What pages' links are worth to the frontier. `dir` is the crawl that goes on, if one does: with its own
/// copy of the ranks.
pub(crate) fn ranker(
    settings: &Settings,
    dir: Option<&Path>,
) -> Result<Arc<dyn Ranker>, CrawlError> {
    let wrong = |error| CrawlError::Input(format!("frontier.ranks: {error}"));
    match settings.frontier.order {
        Order::Pagerank => {
            let kept = dir.map(|dir| dir.join(RANKS_FILE)).filter(|p| p.exists());
            let path = kept.unwrap_or_else(|| PathBuf::from(&settings.frontier.ranks));
            let table = RankTable::open(&path).map_err(wrong)?;
            Ok(Arc::new(table))
        }
        order => Ok(Arc::new(order)),
    }
}

pub(crate) fn archive(settings: &Settings) -> ArchiveSettings {
    // The archive itself says `software` and `format`.
    let mut info = vec![
        (
            "http-header-user-agent".to_owned(),
            settings.user_agent_header(),
        ),
        ("robots".to_owned(), "obey".to_owned()),
    ];
    for (name, value) in [
        ("operator", &settings.archive.operator),
        ("http-header-from", &settings.identity.contact),
    ] {
        if !value.is_empty() {
            info.push((name.to_owned(), value.clone()));
        }
    }
    ArchiveSettings {
        info,
        ..settings.archive.clone()
    }
}

/// Connections that may go to public addresses, and to networks that the settings name.
pub(crate) fn connector(settings: &Settings) -> Result<Connector, CrawlError> {
    let networks = settings
        .dns
        .allow_networks
        .iter()
        .map(|text| text.parse::<Network>())
        .collect::<Result<Vec<_>, _>>()
        .map_err(|e| CrawlError::Input(format!("dns.allow_networks: {e}")))?;
    let scope = &settings.scope;
    let ports = scope.allowed_ports.iter().chain(&scope.also_ports);
    let guard = Guard::new(settings.dns.allow_private, networks, []).with_ports(ports.copied());
    let connector =
        Connector::new(http(settings), guard).map_err(|e| CrawlError::Input(e.to_string()))?;
    let connector = connector.with_folders(&settings.files.folders);
    Ok(connector.through(proxies(settings)?))
}

/// How servers are asked, and by whom.
fn http(settings: &Settings) -> HttpSettings {
    HttpSettings {
        agent: Agent {
            user_agent: settings.user_agent_header(),
            contact: from_header(&settings.identity.contact),
            keep_alive_ms: settings.politeness.keep_alive_ms,
        },
        ..settings.http.clone()
    }
}

/// Through whom servers are asked: as the settings say, or the environment.
pub(crate) fn proxies(settings: &Settings) -> Result<Proxies, CrawlError> {
    let access = &settings.access;
    let wrong = |e: String| CrawlError::Input(format!("access.proxy: {e}"));
    let told = |e: ProxyError| wrong(e.to_string());
    let variable = |name: &str| std::env::var(name).ok().filter(|text| !text.is_empty());
    let proxies = if !access.proxy.0.is_empty() {
        Proxies::of_url(&access.proxy.read().map_err(wrong)?).map_err(told)?
    } else if access.proxy_from_environment {
        Proxies::from_environment(variable).map_err(told)?
    } else {
        Proxies::default()
    };
    // As in curl, the environment's list holds for any proxy, unless a person gave another.
    let listed = (access.no_proxy.is_empty() && access.proxy_from_environment)
        .then(|| variable("no_proxy").or_else(|| variable("NO_PROXY")));
    let listed = listed.flatten().unwrap_or_else(|| access.no_proxy.clone());
    let proxies = proxies.without(&listed);
    proxies
        .resolving(access.proxy_resolves)
        .located()
        .map_err(told)
}

pub(crate) fn mapping(
    settings: &Settings,
    bounds: &Bounds,
    clock: Arc<dyn Clock>,
    outside: Option<Arc<dyn Resolver>>,
) -> Result<Arc<Mapping>, CrawlError> {
    let dns = &settings.dns;
    let rules = dns
        .resolve
        .iter()
        .map(|text| ResolveRule::parse(text))
        .collect::<Result<Vec<_>, _>>()
        .map_err(|e| CrawlError::Input(e.to_string()))?;
    let resolver: Arc<dyn Resolver> = if let Some(outside) = outside {
        outside
    } else if dns.servers.is_empty() {
        Arc::new(SystemResolver)
    } else {
        let resolver = DnsResolver::new(&dns.servers, dns.timeout_ms, DNS_ATTEMPTS)
            .map_err(|e| CrawlError::Input(format!("dns.servers: {e}")))?;
        Arc::new(resolver)
    };
    let settings = DnsSettings {
        at_once: bounds.lookups,
        slow_at_once: bounds.slow_lookups,
        ..dns.clone()
    };
    Ok(Arc::new(Mapping::new(
        StaticResolver::new(rules),
        resolver,
        settings,
        clock,
    )))
}

/// From takes an e-mail address; a contact of another kind is in User-Agent alone.
fn from_header(contact: &str) -> String {
    let address = contact.strip_prefix("mailto:").unwrap_or(contact);
    if address.contains('@') && !address.contains("://") {
        address.to_owned()
    } else {
        String::new()
    }
}
