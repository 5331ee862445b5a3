//! The mapping stage: rules first, then a cache by host, then a resolver that is asked once for a
//! name however many want it.

use super::patience::WaitingRoom;
use super::{Addresses, NotResolved, NotResolvedBy, Resolved, Resolver, StaticResolver};
use crate::NetError;
use portolan_model::Clock;
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout_at};

/// Who asks for a name again this soon after the DNS did not answer gets the same answer.
const NO_ANSWER_TTL_MS: u64 = 1_000;

/// How names are looked up and remembered, and where they may lead.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct DnsSettings {
    /// Name servers to ask, see [`DnsResolver::new`](crate::DnsResolver::new); empty: the system's resolver.
    pub servers: Vec<String>,
    /// Answers given here, see [`ResolveRule`](crate::ResolveRule).
    pub resolve: Vec<String>,
    /// Names that are asked for at once, ...
    pub at_once: usize,
    /// ... but for those that have been for longer than this, ...
    #[serde(skip)]
    pub slow_ms: u64,
    /// ... and at most this many of those wait at once. Beyond that, the one that has waited longest is given up.
    #[serde(skip)]
    pub slow_at_once: usize,
    /// Hosts kept in the cache.
    pub cache_entries: usize,
    /// The shortest and the longest time that an answer holds, whatever its source says.
    pub ttl_min_ms: u64,
    pub ttl_max_ms: u64,
    /// How long an answer holds whose source does not say.
    pub ttl_unknown_ms: u64,
    /// A name that does not exist is asked for again after this time; sooner if the DNS says so.
    pub ttl_negative_ms: u64,
    /// The longest that one name may take, waiting for its turn not counted.
    pub timeout_ms: u64,
    /// For the guard: names may lead to private addresses, all of them or those of these networks.
    pub allow_private: bool,
    pub allow_networks: Vec<String>,
}

impl Default for DnsSettings {
    fn default() -> Self {
        Self {
            servers: Vec::new(),
            resolve: Vec::new(),
            at_once: 64,
            slow_ms: 100,
            slow_at_once: 192,
            cache_entries: 100_000,
            ttl_min_ms: 60_000,
            ttl_max_ms: 86_400_000,
            ttl_unknown_ms: 3_600_000,
            ttl_negative_ms: 5_000,
            timeout_ms: 10_000,
            allow_private: false,
            allow_networks: Vec::new(),
        }
    }
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct MappingCounters {
    /// Answered by a rule, or an IP literal.
    pub named: u64,
    /// Answered by the cache, failures too.
    pub hits: u64,
    /// Asked of the resolver.
    pub lookups: u64,
    /// Of those, without success.
    pub failures: u64,
}

/// Nobody is given up for others before it has waited for this many times `slow_ms`.
const LEAST_WAIT: u32 = 5;

/// Shared between workers.
pub struct Mapping {
    rules: StaticResolver,
    resolver: Arc<dyn Resolver>,
    settings: DnsSettings,
    clock: Arc<dyn Clock>,
    cache: Mutex<Cache>,
    /// One lock for each name that is being asked for: who holds it asks, the others wait for it and
    /// then find the answer in the cache.
    flights: Mutex<HashMap<Box<str>, Arc<tokio::sync::Mutex<()>>>>,
    turns: Semaphore,
    slow: WaitingRoom,
    counters: Counters,
}

#[derive(Default)]
struct Counters {
    named: AtomicU64,
    hits: AtomicU64,
    lookups: AtomicU64,
    failures: AtomicU64,
}

impl Mapping {
    pub fn new(
        rules: StaticResolver,
        resolver: Arc<dyn Resolver>,
        settings: DnsSettings,
        clock: Arc<dyn Clock>,
    ) -> Self {
        Self {
            rules,
            resolver,
            turns: Semaphore::new(settings.at_once.max(1)),
            slow: WaitingRoom::new(
                settings.slow_at_once,
                Duration::from_millis(settings.slow_ms) * LEAST_WAIT,
            ),
            cache: Mutex::new(Cache::new(settings.cache_entries)),
            flights: Mutex::default(),
            settings,
            clock,
            counters: Counters::default(),
        }
    }

    /// Where `host` is: a name or an IP literal, with or without brackets.
    pub async fn resolve(&self, host: &str) -> Result<Arc<Resolved>, NetError> {
        let host = host
            .strip_prefix('[')
            .and_then(|inner| inner.strip_suffix(']'))
            .unwrap_or(host);
        if let Some(resolved) = self.without_asking(host) {
            count(&self.counters.named);
            return Ok(Arc::new(resolved));
        }
        if let Some(known) = self.cached(host) {
            count(&self.counters.hits);
            return known.into_result(host);
        }
        let flight = Flight::board(&self.flights, host);
        let _pilot = flight.lock.lock().await;
        if let Some(known) = self.cached(host) {
            count(&self.counters.hits);
            return known.into_result(host);
        }
        let known = self.ask(host).await;
        lock(&self.cache).insert(host, known.clone());
        known.into_result(host)
    }

    pub fn counters(&self) -> MappingCounters {
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        MappingCounters {
            named: get(&self.counters.named),
            hits: get(&self.counters.hits),
            lookups: get(&self.counters.lookups),
            failures: get(&self.counters.failures),
        }
    }

    fn without_asking(&self, host: &str) -> Option<Resolved> {
        let answer = self.rules.answer(host).or_else(|| {
            let literal: IpAddr = host.parse().ok()?;
            Some(Addresses {
                addresses: vec![literal],
                port_override: None,
                ttl_ms: None,
                named: false,
            })
        })?;
        Some(Resolved {
            addresses: answer.addresses,
            port_override: answer.port_override,
            expires_ms: u64::MAX,
            named: answer.named,
        })
    }

    fn cached(&self, host: &str) -> Option<Known> {
        let now_ms = self.clock.now_ms();
        lock(&self.cache)
            .get(host)
            .filter(|known| known.expires_ms() > now_ms)
    }

    async fn ask(&self, host: &str) -> Known {
        count(&self.counters.lookups);
        let answer = self.look_up(host).await.and_then(|answer| {
            if answer.addresses.is_empty() {
                return Err(NotResolved {
                    detail: "it has no address".to_owned(),
                    cause: NotResolvedBy::NoSuchName,
                    ttl_ms: answer.ttl_ms,
                });
            }
            Ok(answer)
        });
        let now_ms = self.clock.now_ms();
        match answer {
            Ok(answer) => Known::At(Arc::new(Resolved {
                addresses: answer.addresses,
                port_override: answer.port_override,
                expires_ms: now_ms.saturating_add(self.ttl_ms(answer.ttl_ms)),
                named: answer.named,
            })),
            Err(failure) => {
                count(&self.counters.failures);
                let ttl_ms = match failure.cause {
                    NotResolvedBy::NoSuchName => failure.ttl_ms.unwrap_or(u64::MAX),
                    // That no answer came says nothing of the name.
                    NotResolvedBy::NoAnswer => NO_ANSWER_TTL_MS,
                    NotResolvedBy::OurLimits => 0,
                };
                Known::Nowhere {
                    detail: failure.detail.into(),
                    cause: failure.cause,
                    expires_ms: now_ms.saturating_add(ttl_ms.min(self.settings.ttl_negative_ms)),
                }
            }
        }
    }

    /// Ask the resolver. Who waits for long leaves its turn to the next one.
    async fn look_up(&self, host: &str) -> Result<Addresses, NotResolved> {
        // The semaphore is never closed; were it, asking without a turn would be right.
        let turn = self.turns.acquire().await.ok();
        let begun = Instant::now();
        let limit = begun + Duration::from_millis(self.settings.timeout_ms);
        let mut patience = begun;
        let mut lookup = self.resolver.lookup(host);
        let mut place = loop {
            patience += Duration::from_millis(self.settings.slow_ms);
            if let Ok(answer) = timeout_at(patience.min(limit), &mut lookup).await {
                return answer;
            }
            if let Some(place) = self.slow.enter(begun) {
                break place;
            }
        };
        drop(turn);
        let (waited_ms, ttl_ms) = tokio::select! {
            biased;
            answer = timeout_at(limit, lookup) => match answer {
                Ok(answer) => return answer,
                Err(_) => (self.settings.timeout_ms, None),
            },
            // It did not have its whole time, so nothing is known of the name.
            _ = &mut place.given_up => (begun.elapsed().as_millis() as u64, Some(0)),
        };
        Err(NotResolved {
            detail: format!("no answer within {waited_ms} ms"),
            cause: NotResolvedBy::NoAnswer,
            ttl_ms,
        })
    }

    fn ttl_ms(&self, said_ms: Option<u64>) -> u64 {
        said_ms
            .unwrap_or(self.settings.ttl_unknown_ms)
            .max(self.settings.ttl_min_ms)
            .min(self.settings.ttl_max_ms)
    }
}

fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

/// Nothing in here can be left half-done by a panic, so a poisoned lock is as good as any.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[derive(Clone)]
enum Known {
    At(Arc<Resolved>),
    Nowhere {
        detail: Arc<str>,
        cause: NotResolvedBy,
        expires_ms: u64,
    },
}

impl Known {
    fn expires_ms(&self) -> u64 {
        match self {
            Known::At(resolved) => resolved.expires_ms,
            Known::Nowhere { expires_ms, .. } => *expires_ms,
        }
    }

    fn into_result(self, host: &str) -> Result<Arc<Resolved>, NetError> {
        match self {
            Known::At(resolved) => Ok(resolved),
            Known::Nowhere {
                detail,
                cause: NotResolvedBy::OurLimits,
                ..
            } => Err(NetError::Exhausted {
                detail: detail.to_string(),
            }),
            Known::Nowhere { detail, cause, .. } => Err(NetError::Dns {
                host: host.to_owned(),
                detail: detail.to_string(),
                no_such_name: cause == NotResolvedBy::NoSuchName,
            }),
        }
    }
}

type Flights = Mutex<HashMap<Box<str>, Arc<tokio::sync::Mutex<()>>>>;

/// Someone who wants a name that is being asked for, or is about to be. Also right when they give
/// up half-way: the next one in the queue then asks.
struct Flight<'a> {
    flights: &'a Flights,
    host: &'a str,
    lock: Arc<tokio::sync::Mutex<()>>,
}

impl<'a> Flight<'a> {
    fn board(flights: &'a Flights, host: &'a str) -> Self {
        let lock = lock(flights).entry(host.into()).or_default().clone();
        Self {
            flights,
            host,
            lock,
        }
    }
}

impl Drop for Flight<'_> {
    fn drop(&mut self) {
        let mut flights = lock(self.flights);
        // One reference here, one in the map: nobody else waits.
        if Arc::strong_count(&self.lock) <= 2 {
            flights.remove(self.host);
        }
    }
}

/// Two generations: when the young one is full it becomes the old one, and what was old and not
/// asked for since is forgotten. Bounded, and nothing is ever searched for a victim.
struct Cache {
    young: HashMap<Box<str>, Known>,
    old: HashMap<Box<str>, Known>,
    max_young: usize,
}

impl Cache {
    fn new(cache_entries: usize) -> Self {
        Self {
            young: HashMap::new(),
            old: HashMap::new(),
            max_young: (cache_entries / 2).max(1),
        }
    }

    fn get(&mut self, host: &str) -> Option<Known> {
        if let Some(known) = self.young.get(host) {
            return Some(known.clone());
        }
        let known = self.old.remove(host)?;
        self.insert(host, known.clone());
        Some(known)
    }

    fn insert(&mut self, host: &str, known: Known) {
        if self.young.len() >= self.max_young && !self.young.contains_key(host) {
            self.old = std::mem::take(&mut self.young);
        }
        self.young.insert(host.into(), known);
    }
}

#[cfg(test)]
mod tests;
