//! The machine's own resolver: /etc/hosts, nsswitch and all. It does not say how long answers hold.

use super::{Answer, Lookup, NotResolved, Resolver};

#[derive(Debug, Clone, Copy, Default)]
pub struct SystemResolver;

impl Resolver for SystemResolver {
    fn lookup<'a>(&'a self, host: &'a str) -> Lookup<'a> {
        Box::pin(async move {
            // Runs getaddrinfo on the calling runtime's pool of blocking threads.
            let found = tokio::net::lookup_host((host, 0)).await;
            let mut addresses = Vec::new();
            for address in found.map_err(|error| not_resolved(error.to_string()))? {
                if !addresses.contains(&address.ip()) {
                    addresses.push(address.ip());
                }
            }
            Ok(Answer {
                addresses,
                port_override: None,
                ttl_ms: None,
                named: false,
            })
        })
    }
}

fn not_resolved(detail: String) -> NotResolved {
    NotResolved {
        detail,
        ttl_ms: None,
    }
}
