//! From host names to addresses: the mapping stage, apart from crawling. Whether an address may be
//! reached is the guard's business.

mod dns;
mod mapping;
mod patience;
mod rule;
mod system;

pub use dns::{DnsResolver, check_name_server};
pub use mapping::{DnsSettings, Mapping, MappingCounters};
pub use rule::{ResolveRule, ResolveRuleError, StaticResolver};
pub use system::SystemResolver;

use std::future::Future;
use std::net::IpAddr;
use std::pin::Pin;

/// Where a host is, and until when that holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resolved {
    /// In the order in which they are to be tried. Empty only for a host whose name a proxy resolves.
    pub addresses: Vec<IpAddr>,
    /// Connect to this port instead of the URL's.
    pub port_override: Option<u16>,
    pub expires_ms: u64,
    /// A person named this address ([`ResolveRule`]).
    pub named: bool,
}

impl Resolved {
    /// Of a host whose name a proxy resolves: nothing is known here.
    pub fn elsewhere() -> Self {
        Self {
            addresses: Vec::new(),
            port_override: None,
            expires_ms: 0,
            named: false,
        }
    }
}

/// What a resolver found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Addresses {
    pub addresses: Vec<IpAddr>,
    pub port_override: Option<u16>,
    /// How long it holds, if the source says so.
    pub ttl_ms: Option<u64>,
    pub named: bool,
}

/// There is no address, or none could be found out; a sentence for a person.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{detail}")]
pub struct NotResolved {
    pub detail: String,
    pub cause: NotResolvedBy,
    /// How long that holds, if the source says so.
    pub ttl_ms: Option<u64>,
}

/// Who is to blame that a name has no address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NotResolvedBy {
    /// The DNS: there is no such name, or it has no address.
    NoSuchName,
    /// Nobody knows: no answer came, or one that says nothing of the name.
    NoAnswer,
    /// This machine, which has no descriptor or port left to ask with.
    OurLimits,
}

pub type Lookup<'a> = Pin<Box<dyn Future<Output = Result<Addresses, NotResolved>> + Send + 'a>>;

/// A source of addresses, shared between threads. It need not cache.
pub trait Resolver: Send + Sync {
    fn lookup<'a>(&'a self, host: &'a str) -> Lookup<'a>;
}
