//! robots.txt of the simulated hosts, and the judge of who kept to it. Written apart from the crawler's own parser on purpose:
//! it knows only the rules that this Web writes.

use crate::plan::HostPlan;

/// A robots.txt larger than what a crawler must read.
const HUGE_BYTES: usize = 600 * 1024;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RobotsKind {
    Rules,
    /// Everybody else is shut out, our token has rules of its own.
    OwnGroup,
    Missing,
    Denied,
    ServerError,
    RedirectToPath,
    RedirectToHost,
    Huge,
    Empty,
    DisallowAll,
}

impl RobotsKind {
    pub(crate) const ODD: [RobotsKind; 9] = [
        RobotsKind::OwnGroup,
        RobotsKind::Missing,
        RobotsKind::Denied,
        RobotsKind::ServerError,
        RobotsKind::RedirectToPath,
        RobotsKind::RedirectToHost,
        RobotsKind::Huge,
        RobotsKind::Empty,
        RobotsKind::DisallowAll,
    ];

    pub(crate) fn has_rules(self) -> bool {
        matches!(
            self,
            RobotsKind::Rules
                | RobotsKind::OwnGroup
                | RobotsKind::RedirectToPath
                | RobotsKind::Huge
        )
    }

    /// Whether a Sitemap line can stand in it. The file of another host names no sitemap of this one.
    pub(crate) fn names_sitemaps(self) -> bool {
        self.has_rules() || self == RobotsKind::Empty
    }

    /// Whether `path` (with its query) may be requested from a host of this kind.
    pub(crate) fn allows(self, path: &str) -> bool {
        match self {
            RobotsKind::Missing | RobotsKind::Denied | RobotsKind::Empty => true,
            RobotsKind::ServerError | RobotsKind::DisallowAll => false,
            _ => rules_allow(&RULES, path),
        }
    }
}

struct Rule {
    allow: bool,
    pattern: &'static str,
}

const RULES: [Rule; 4] = [
    Rule {
        allow: false,
        pattern: "/private/",
    },
    Rule {
        allow: true,
        pattern: "/private/open/",
    },
    Rule {
        allow: false,
        pattern: "/*/secret/",
    },
    Rule {
        allow: false,
        pattern: "/*.tmp$",
    },
];

/// The rules as text; `sitemap` is the whole URL for a Sitemap line.
pub(crate) fn robots_text(
    plan: &HostPlan,
    kind: RobotsKind,
    token: &str,
    sitemap: Option<&str>,
) -> String {
    let mut text = String::new();
    if kind == RobotsKind::OwnGroup {
        text.push_str("User-agent: *\nDisallow: /\n\n");
        text.push_str(&format!("User-agent: {token}\n"));
    } else {
        text.push_str("# a simulated host\nUser-agent: *\n");
    }
    match kind {
        RobotsKind::DisallowAll => text.push_str("Disallow: /\n"),
        RobotsKind::Empty => text.push_str("Disallow:\n"),
        _ => {
            for rule in &RULES {
                text.push_str(if rule.allow { "Allow: " } else { "Disallow: " });
                text.push_str(rule.pattern);
                text.push('\n');
            }
        }
    }
    if plan.crawl_delay_ms > 0 {
        text.push_str(&format!(
            "Crawl-delay: {}\n",
            f64::from(plan.crawl_delay_ms) / 1000.0
        ));
    }
    if let Some(url) = sitemap {
        text.push_str(&format!("\nSitemap: {url}\n"));
    }
    if kind == RobotsKind::Huge {
        while text.len() < HUGE_BYTES {
            text.push_str("# this line says nothing, as do the thousands after it, and is there to be read past\n");
        }
    }
    text
}

/// The longest matching pattern decides; Allow wins between equals; nothing matching allows.
fn rules_allow(rules: &[Rule], path: &str) -> bool {
    let mut best = (0, true);
    for rule in rules {
        if matches(rule.pattern.as_bytes(), path.as_bytes()) {
            let rank = (rule.pattern.len(), rule.allow);
            if rank > best {
                best = rank;
            }
        }
    }
    best.1
}

fn matches(pattern: &[u8], path: &[u8]) -> bool {
    match pattern {
        [] => true,
        [b'$'] => path.is_empty(),
        [b'*', rest @ ..] => (0..=path.len()).any(|skip| matches(rest, &path[skip..])),
        [first, rest @ ..] => path.first() == Some(first) && matches(rest, &path[1..]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_forbid_what_they_say() {
        let kind = RobotsKind::Rules;
        for path in [
            "/private/p1.html",
            "/d0/secret/p1.html",
            "/d0/p1.tmp",
            "/p.tmp",
            "/a/secret/?x",
        ] {
            assert!(!kind.allows(path), "{path}");
        }
        for path in [
            "/",
            "/private/open/p1.html",
            "/p1.tmp.html",
            "/secret/p1.html",
            "/p1.tmp?x=1",
            "/privat",
        ] {
            assert!(kind.allows(path), "{path}");
        }
        assert!(RobotsKind::Missing.allows("/private/x"));
        assert!(!RobotsKind::ServerError.allows("/"));
    }
}
