//! Addresses that a person named: `PATTERN=ADDR[:PORT]`.

use super::{Addresses, Lookup, NotResolved, NotResolvedBy, Resolver};
use crate::network::Network;
use thiserror::Error;
use xxhash_rust::xxh3::xxh3_64;

/// One rule: hosts that match a pattern are at an address, or each at one address of a block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResolveRule {
    pattern: Pattern,
    network: Network,
    port: Option<u16>,
}

#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error(
    "'{text}': {problem}; write it as in '*.example.test=127.0.0.1:8080', 'example.test=[::1]' or '*=127.0.0.0/16:8080'"
)]
pub struct ResolveRuleError {
    text: String,
    problem: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Pattern {
    Any,
    /// Everything under a name, with the dot in front.
    Under(String),
    Exact(String),
}

impl ResolveRule {
    pub fn parse(text: &str) -> Result<Self, ResolveRuleError> {
        let bad = |problem: &str| ResolveRuleError {
            text: text.to_owned(),
            problem: problem.to_owned(),
        };
        let (pattern, address) = text
            .split_once('=')
            .ok_or_else(|| bad("there is no '=' in it"))?;
        let pattern = Pattern::parse(pattern).map_err(bad)?;
        let (network, port) = split_port(address)
            .ok_or_else(|| bad(&format!("'{address}' is not an address with its port")))?;
        let network = network.parse().map_err(|e| bad(&format!("{e}")))?;
        let port = match port.map(str::parse::<u16>) {
            None => None,
            Some(Ok(port)) if port > 0 => Some(port),
            Some(_) => return Err(bad("the port is not a number from 1 to 65535")),
        };
        Ok(Self {
            pattern,
            network,
            port,
        })
    }

    /// The answer for a host, if the rule is about it.
    pub fn answer(&self, host: &str) -> Option<Addresses> {
        let host = host.strip_suffix('.').unwrap_or(host);
        if !self.pattern.matches(host) {
            return None;
        }
        // In lower case, so that a host has one address however it is spelt.
        let hash = xxh3_64(host.to_ascii_lowercase().as_bytes());
        Some(Addresses {
            addresses: vec![self.network.address(hash)],
            port_override: self.port,
            ttl_ms: Some(u64::MAX),
            named: true,
        })
    }
}

impl Pattern {
    fn parse(text: &str) -> Result<Self, &'static str> {
        let text = text
            .strip_prefix('[')
            .and_then(|inner| inner.strip_suffix(']'))
            .unwrap_or(text);
        if text == "*" {
            return Ok(Pattern::Any);
        }
        let text = text.strip_suffix('.').unwrap_or(text).to_ascii_lowercase();
        let (under, name) = match text.strip_prefix('*') {
            Some(rest) if rest.starts_with('.') => (true, &rest[1..]),
            Some(_) => return Err("a '*' stands alone or before a dot"),
            None => (false, text.as_str()),
        };
        if name.is_empty() {
            return Err("there is no host before the '='");
        }
        if name.contains('*') {
            return Err("a '*' can only be at the start");
        }
        if !name.is_ascii() {
            return Err("a host with other letters than ASCII is written in its xn-- form");
        }
        if name.contains(['/', ' ', '@']) || name.split('.').any(str::is_empty) {
            return Err("the part before the '=' is not a host name");
        }
        Ok(if under {
            Pattern::Under(format!(".{name}"))
        } else {
            Pattern::Exact(name.to_owned())
        })
    }

    fn matches(&self, host: &str) -> bool {
        match self {
            Pattern::Any => true,
            Pattern::Exact(name) => host.eq_ignore_ascii_case(name),
            Pattern::Under(end) => host
                .len()
                .checked_sub(end.len())
                .filter(|&at| at > 0)
                .and_then(|at| host.get(at..))
                .is_some_and(|tail| tail.eq_ignore_ascii_case(end)),
        }
    }
}

/// Address (or block) and port. An IPv6 address with a port has brackets, as in a URL.
fn split_port(text: &str) -> Option<(String, Option<&str>)> {
    if let Some(rest) = text.strip_prefix('[') {
        let (address, rest) = rest.split_once(']')?;
        return match rest.split_once(':') {
            Some((prefix, port)) => Some((format!("{address}{prefix}"), Some(port))),
            None => Some((format!("{address}{rest}"), None)),
        };
    }
    Some(match text.split_once(':') {
        // More than one colon without brackets: an IPv6 address without port.
        Some((_, rest)) if rest.contains(':') => (text.to_owned(), None),
        Some((address, port)) => (address.to_owned(), Some(port)),
        None => (text.to_owned(), None),
    })
}

/// Rules alone, the first that matches wins.
#[derive(Debug, Clone, Default)]
pub struct StaticResolver {
    rules: Vec<ResolveRule>,
}

impl StaticResolver {
    pub fn new(rules: Vec<ResolveRule>) -> Self {
        Self { rules }
    }

    pub fn answer(&self, host: &str) -> Option<Addresses> {
        self.rules.iter().find_map(|rule| rule.answer(host))
    }
}

impl Resolver for StaticResolver {
    fn lookup<'a>(&'a self, host: &'a str) -> Lookup<'a> {
        let answer = self.answer(host).ok_or_else(|| NotResolved {
            detail: "no rule names it".to_owned(),
            cause: NotResolvedBy::NoSuchName,
            ttl_ms: Some(u64::MAX),
        });
        Box::pin(std::future::ready(answer))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(rule: &str, host: &str) -> Option<(String, Option<u16>)> {
        let answer = ResolveRule::parse(rule).unwrap().answer(host)?;
        Some((answer.addresses[0].to_string(), answer.port_override))
    }

    #[test]
    fn patterns_match_what_they_say() {
        let local = |port| Some(("127.0.0.1".to_owned(), port));
        assert_eq!(answer("*=127.0.0.1", "any.test"), local(None));
        assert_eq!(answer("A.test=127.0.0.1:80", "a.TEST."), local(Some(80)));
        assert_eq!(answer("a.test=127.0.0.1", "b.a.test"), None);
        assert_eq!(answer("*.a.test=127.0.0.1", "c.b.A.test"), local(None));
        assert_eq!(answer("*.a.test=127.0.0.1", "a.test"), None);
        assert_eq!(answer("*.a.test=127.0.0.1", ".a.test"), None);
        assert_eq!(answer("*.a.test=127.0.0.1", "ba.test"), None);
        assert_eq!(answer("*.a.test=127.0.0.1", "日本.a.test"), local(None));
        assert_eq!(answer("*.a.test=127.0.0.1", "日本"), None);
        assert_eq!(answer("[::2]=127.0.0.1", "::2"), local(None));
    }

    #[test]
    fn addresses_of_all_forms() {
        for (rule, ip, port) in [
            ("*=::1", "::1", None),
            ("*=[::1]", "::1", None),
            ("*=[::1]:8080", "::1", Some(8080)),
            ("*=[::1]/128:8080", "::1", Some(8080)),
            ("*=10.0.0.1/32:1", "10.0.0.1", Some(1)),
        ] {
            assert_eq!(
                answer(rule, "x.test"),
                Some((ip.to_owned(), port)),
                "{rule}"
            );
        }
    }

    #[test]
    fn hosts_of_a_block_differ_and_stay() {
        let rule = ResolveRule::parse("*=127.0.0.0/16:8080").unwrap();
        let mut seen = std::collections::HashSet::new();
        for n in 0..200 {
            let host = format!("h{n}.test");
            let ip = rule.answer(&host).unwrap().addresses[0];
            assert_eq!(rule.answer(&host.to_uppercase()).unwrap().addresses[0], ip);
            assert!(ip.to_string().starts_with("127.0."));
            seen.insert(ip);
        }
        assert!(seen.len() > 190, "{}", seen.len());
    }

    #[test]
    fn bad_rules_get_one_sentence_that_names_them() {
        for bad in [
            "",
            "a.test",
            "=127.0.0.1",
            "a.test=",
            "a.test=b.test",
            "*a.test=127.0.0.1",
            "a.*.test=127.0.0.1",
            "*.=127.0.0.1",
            "a.test=127.0.0.1:0",
            "a.test=127.0.0.1:99999",
            "a.test=127.0.0.1:",
            "a.test=127.0.0.0/40",
            "a..test=127.0.0.1",
            "é.test=127.0.0.1",
            "http://a.test/=127.0.0.1",
            "a.test=[::1",
            "a.test=[::1]x:80",
        ] {
            let sentence = ResolveRule::parse(bad).expect_err(bad).to_string();
            assert!(sentence.starts_with(&format!("'{bad}': ")), "{sentence}");
        }
    }
}
