//! Cookies (RFC 6265): which are known, and which go with a request. Plain data, no files and no clock.
//!
//! `Set-Cookie` is read by the `cookie` crate; the jar is our own, because it has to be bounded in number and size whatever servers
//! send, is read and written in the Netscape format that curl and browsers' add-ons share, and must cost nothing where it is empty.
//! The public suffix list says whose cookies may be shared between hosts.

mod netscape;

pub use netscape::NotCookies;

use crate::http::{Origin, Scheme};
use cookie::{Cookie as Parsed, Expiration};
use portolan_model::is_public_suffix;
use std::collections::HashMap;
use std::net::IpAddr;

/// Name and value together; a longer cookie is not taken.
const MAX_COOKIE_BYTES: usize = 4096;
/// A domain or a path; a cookie with a longer one is not taken.
const MAX_ATTRIBUTE_BYTES: usize = 1024;
/// The oldest of a domain go when there are more.
const MAX_OF_DOMAIN: usize = 50;
/// The oldest of all go when there are more, a tenth at once.
const MAX_OF_ALL: usize = 10_000;
/// A request carries no more bytes of cookies: those with the longest paths, and of those the oldest.
const MAX_SENT_BYTES: usize = 8192;

#[derive(Debug, Clone, PartialEq, Eq)]
struct Cookie {
    name: String,
    value: String,
    path: String,
    /// For the domain alone, not for hosts below it.
    host_only: bool,
    secure: bool,
    http_only: bool,
    /// By the time of day; `None`: as long as the crawl.
    expires_ms: Option<u64>,
    /// In the order in which they were first set.
    order: u64,
}

/// What servers and a person's file asked to be sent.
#[derive(Debug, Clone, Default)]
pub struct CookieJar {
    domains: HashMap<String, Vec<Cookie>>,
    count: usize,
    next_order: u64,
    changes: u64,
}

impl CookieJar {
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Grows with every change, so that a copy on disk can be told from a newer jar.
    pub fn changes(&self) -> u64 {
        self.changes
    }

    /// The value of a Cookie field for a request, if any goes with it.
    pub fn sent_to(&self, origin: &Origin, path_and_query: &str, now_ms: u64) -> Option<String> {
        if self.is_empty() {
            return None;
        }
        let path = path_and_query.split('?').next().unwrap_or("/");
        let host = bare(origin.host());
        let mut found: Vec<&Cookie> = Vec::new();
        for domain in domains_of(host) {
            let own = self.domains.get(domain).map_or(&[][..], Vec::as_slice);
            found.extend(own.iter().filter(|cookie| {
                (!cookie.host_only || domain == host)
                    && (!cookie.secure || origin.scheme == Scheme::Https)
                    && !cookie.is_over(now_ms)
                    && path_matches(path, &cookie.path)
            }));
        }
        found.sort_by_key(|cookie| (std::cmp::Reverse(cookie.path.len()), cookie.order));
        let mut sent = String::new();
        for cookie in found {
            if sent.len() + cookie.name.len() + cookie.value.len() + 3 > MAX_SENT_BYTES {
                break;
            }
            let before = if sent.is_empty() { "" } else { "; " };
            sent.push_str(&format!("{before}{}={}", cookie.name, cookie.value));
        }
        (!sent.is_empty()).then_some(sent)
    }

    /// A server's Set-Cookie field, in the answer to a request for `path_and_query`. What it may not set is left out.
    pub fn set(&mut self, field: &str, origin: &Origin, path_and_query: &str, now_ms: u64) {
        let Ok(parsed) = Parsed::parse(field) else {
            return;
        };
        let host = bare(origin.host());
        let Some((domain, host_only)) = domain_for(host, parsed.domain()) else {
            return;
        };
        let is_https = origin.scheme == Scheme::Https;
        let secure = parsed.secure() == Some(true);
        let path = match parsed.path() {
            Some(path) if path.starts_with('/') => path.to_owned(),
            _ => default_path(path_and_query),
        };
        let name = parsed.name();
        let is_promised = match name {
            _ if name.starts_with("__Secure-") => secure,
            _ if name.starts_with("__Host-") => secure && host_only && parsed.path() == Some("/"),
            _ => true,
        };
        if !is_promised || (secure && !is_https) {
            return;
        }
        let cookie = Cookie {
            name: name.to_owned(),
            value: parsed.value().to_owned(),
            path,
            host_only,
            secure,
            http_only: parsed.http_only() == Some(true),
            expires_ms: expiry(&parsed, now_ms),
            order: 0,
        };
        self.insert(domain, cookie, now_ms);
    }

    /// All cookies of `other` that are not over, in place of such as are here.
    pub fn add_all(&mut self, other: CookieJar, now_ms: u64) {
        let mut all: Vec<(String, Cookie)> = other
            .domains
            .into_iter()
            .flat_map(|(domain, cookies)| cookies.into_iter().map(move |c| (domain.clone(), c)))
            .collect();
        all.sort_by_key(|(_, cookie)| cookie.order);
        for (domain, cookie) in all {
            self.insert(domain, cookie, now_ms);
        }
    }

    fn insert(&mut self, domain: String, mut cookie: Cookie, now_ms: u64) {
        let is_too_long = cookie.name.len() + cookie.value.len() > MAX_COOKIE_BYTES
            || domain.len().max(cookie.path.len()) > MAX_ATTRIBUTE_BYTES;
        let is_odd = |text: &str| text.bytes().any(|b| b < 0x20 || b == 0x7f || b == b';');
        if is_too_long
            || cookie.name.is_empty()
            || is_odd(&cookie.name)
            || is_odd(&cookie.value)
            || is_odd(&cookie.path)
        {
            return;
        }
        let cookies = self.domains.entry(domain.clone()).or_default();
        let old = cookies.iter().position(|c| {
            c.name == cookie.name && c.path == cookie.path && c.host_only == cookie.host_only
        });
        cookie.order = self.next_order;
        if let Some(at) = old {
            cookie.order = cookies[at].order;
            if cookies[at] == cookie {
                return;
            }
            cookies.remove(at);
            self.count -= 1;
        }
        if !cookie.is_over(now_ms) {
            cookies.push(cookie);
            self.count += 1;
            self.next_order += 1;
            if cookies.len() > MAX_OF_DOMAIN {
                let before = cookies.len();
                cookies.retain(|cookie| !cookie.is_over(now_ms));
                if cookies.len() > MAX_OF_DOMAIN {
                    let oldest = (0..cookies.len()).min_by_key(|&at| cookies[at].order);
                    oldest.map(|at| cookies.remove(at));
                }
                self.count -= before - cookies.len();
            }
        } else if old.is_none() {
            // To take back what is not there changes nothing.
            if cookies.is_empty() {
                self.domains.remove(&domain);
            }
            return;
        }
        if self.domains.get(&domain).is_some_and(Vec::is_empty) {
            self.domains.remove(&domain);
        }
        self.changes += 1;
        if self.count > MAX_OF_ALL {
            self.forget_oldest(now_ms);
        }
    }

    fn forget_oldest(&mut self, now_ms: u64) {
        let mut orders: Vec<u64> = self.domains.values().flatten().map(|c| c.order).collect();
        orders.sort_unstable();
        let from = orders[orders.len() / 10];
        self.domains.retain(|_, cookies| {
            cookies.retain(|cookie| cookie.order >= from && !cookie.is_over(now_ms));
            !cookies.is_empty()
        });
        self.count = self.domains.values().map(Vec::len).sum();
    }
}

impl Cookie {
    fn is_over(&self, now_ms: u64) -> bool {
        self.expires_ms
            .is_some_and(|expires_ms| expires_ms <= now_ms)
    }
}

/// Without the dot that ends a fully qualified name.
fn bare(host: &str) -> &str {
    host.strip_suffix('.').unwrap_or(host)
}

/// The host's own name, then each name above it; an address has none above it.
fn domains_of(host: &str) -> impl Iterator<Item = &str> {
    let is_address = host.parse::<IpAddr>().is_ok();
    std::iter::successors(Some(host), move |name| {
        let above = name.split_once('.').map(|(_, above)| above);
        above.filter(|_| !is_address)
    })
}

/// Whose the cookie is that `host` set, and whether it is for that host alone. `None`: it may not be set.
fn domain_for(host: &str, wanted: Option<&str>) -> Option<(String, bool)> {
    let wanted = wanted.map(|domain| domain.trim_start_matches('.').to_ascii_lowercase());
    let Some(domain) = wanted.filter(|domain| !domain.is_empty()) else {
        return Some((host.to_owned(), true));
    };
    if domain == host {
        // Nobody is below an address or a public suffix.
        let alone = host.parse::<IpAddr>().is_ok() || is_public_suffix(host);
        return Some((domain, alone));
    }
    let is_above = host
        .strip_suffix(&domain)
        .is_some_and(|rest| rest.ends_with('.'));
    let is_address = host.parse::<IpAddr>().is_ok();
    (is_above && !is_address && !is_public_suffix(&domain)).then_some((domain, false))
}

/// Max-Age comes before Expires. 0: it is over.
fn expiry(parsed: &Parsed<'_>, now_ms: u64) -> Option<u64> {
    if let Some(age) = parsed.max_age() {
        let age_ms = u64::try_from(age.whole_milliseconds()).unwrap_or(0);
        return Some(if age_ms == 0 {
            0
        } else {
            now_ms.saturating_add(age_ms)
        });
    }
    match parsed.expires() {
        Some(Expiration::DateTime(date)) => {
            let ms = date.unix_timestamp_nanos() / 1_000_000;
            Some(u64::try_from(ms).unwrap_or(0))
        }
        _ => None,
    }
}

/// RFC 6265, 5.1.4: the directory of what was asked for.
fn default_path(path_and_query: &str) -> String {
    let path = path_and_query.split('?').next().unwrap_or("/");
    match path.rfind('/') {
        Some(0) | None => "/".to_owned(),
        Some(end) => path[..end].to_owned(),
    }
}

fn path_matches(path: &str, of_cookie: &str) -> bool {
    path.strip_prefix(of_cookie)
        .is_some_and(|rest| rest.is_empty() || of_cookie.ends_with('/') || rest.starts_with('/'))
}

#[cfg(test)]
mod tests;
