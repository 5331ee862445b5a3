//! The machine's own resolver: /etc/hosts, nsswitch and all. It does not say how long answers hold.

use super::{Addresses, Lookup, NotResolved, NotResolvedBy, Resolver};
use crate::error::is_exhaustion;

#[derive(Debug, Clone, Copy, Default)]
pub struct SystemResolver;

impl Resolver for SystemResolver {
    fn lookup<'a>(&'a self, host: &'a str) -> Lookup<'a> {
        Box::pin(async move {
            // Runs getaddrinfo on the calling runtime's pool of blocking threads.
            let found = tokio::net::lookup_host((host, 0)).await;
            let mut addresses = Vec::new();
            for address in found.map_err(|error| not_resolved(&error))? {
                if !addresses.contains(&address.ip()) {
                    addresses.push(address.ip());
                }
            }
            Ok(Addresses {
                addresses,
                port_override: None,
                ttl_ms: None,
                named: false,
            })
        })
    }
}

fn not_resolved(error: &std::io::Error) -> NotResolved {
    let detail = error.to_string();
    // getaddrinfo's code is lost on the way; its words (glibc's, musl's, BSD's) are all there is.
    const NO_SUCH_NAME: [&str; 4] = [
        "Name or service not known",
        "No address associated with hostname",
        "Name does not resolve",
        "nodename nor servname provided",
    ];
    let cause = if is_exhaustion(error) {
        NotResolvedBy::OurLimits
    } else if NO_SUCH_NAME.iter().any(|words| detail.contains(words)) {
        NotResolvedBy::NoSuchName
    } else {
        NotResolvedBy::NoAnswer
    };
    NotResolved {
        detail,
        cause,
        ttl_ms: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_name_a_silent_resolver_and_our_own_limits_are_told_apart() {
        let words = |text: &str| not_resolved(&std::io::Error::other(text)).cause;
        assert_eq!(
            words("failed to lookup address information: Name or service not known"),
            NotResolvedBy::NoSuchName
        );
        assert_eq!(
            words("failed to lookup address information: Temporary failure in name resolution"),
            NotResolvedBy::NoAnswer
        );
        let full = std::io::Error::from_raw_os_error(24);
        assert_eq!(not_resolved(&full).cause, NotResolvedBy::OurLimits);
    }
}
