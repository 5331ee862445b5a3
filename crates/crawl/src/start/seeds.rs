//! Seeds as people write them: what is wrong with one is told at once, with the place where it was written.

use std::collections::HashSet;
use std::fmt::Display;

use portolan_model::{CanonicalUrl, Canonicalizer, service_of_port};

use crate::crawl::Seed;
use crate::error::CrawlError;
use crate::settings::Settings;

/// The seeds' canonical URLs, each once, in the order in which they were given.
pub(crate) fn parse_seeds(
    canonicalizer: &Canonicalizer,
    seeds: &[Seed],
) -> Result<Vec<CanonicalUrl>, CrawlError> {
    let mut urls: Vec<CanonicalUrl> = Vec::new();
    let mut distinct = HashSet::new();
    for seed in seeds {
        let wrong = |what: &dyn Display| {
            let (text, place) = (without_user(&seed.text), &seed.place);
            CrawlError::Input(format!("seed '{text}' ({place}): {what}"))
        };
        if seed.text.trim().is_empty() {
            return Err(wrong(
                &"it is empty; name a URL such as https://example.org/",
            ));
        }
        let parsed = canonicalizer.parse_seed(&seed.text);
        let url = parsed.map_err(|e| wrong(&e))?;
        if names_a_user(&seed.text) {
            return Err(wrong(
                &"user names and passwords are not sent; leave them out",
            ));
        }
        if distinct.insert(url.clone()) {
            urls.push(url);
        }
    }
    Ok(urls)
}

/// A seed on a port that will not be asked is a mistake worth telling at once.
pub(crate) fn check_ports(settings: &Settings, seeds: &[CanonicalUrl]) -> Result<(), CrawlError> {
    let scope = &settings.scope;
    for seed in seeds {
        let port = seed.port();
        let allowed = scope.allowed_ports.contains(&port) || scope.also_ports.contains(&port);
        if let Some(service) = service_of_port(port)
            && port != seed.scheme().default_port()
            && !allowed
        {
            return Err(CrawlError::Input(format!(
                "seed '{seed}': port {port} is that of {service}, not of a Web server; scope.also_ports = [{port}] in the settings would allow it"
            )));
        }
    }
    Ok(())
}

/// Is there an `@` before the host? Slashes may be missing, or too many, or turned round: they are put right
/// as browsers do.
fn names_a_user(url: &str) -> bool {
    let url = url.trim();
    let scheme = ["http:", "https:"].into_iter().find(|scheme| {
        url.get(..scheme.len())
            .is_some_and(|s| s.eq_ignore_ascii_case(scheme))
    });
    let rest = &url[scheme.map_or(0, str::len)..];
    let rest = rest.trim_start_matches(['/', '\\']);
    let authority = rest.split(['/', '\\', '?', '#']).next();
    authority.is_some_and(|authority| authority.contains('@'))
}

/// A seed for messages: a password is not for terminals and logs. What is refused may be so wrong that nobody
/// can say where the password ends, so everything before the last `@` goes. Mail addresses have none.
fn without_user(url: &str) -> String {
    if url.starts_with("mailto:") {
        return url.to_owned();
    }
    let start = url.find("://").map_or(0, |at| at + 3);
    match url[start..].rfind('@') {
        Some(at) => format!("{}…{}", &url[..start], &url[start + at..]),
        None => url.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refused_seed_keeps_its_password_to_itself() {
        let canonicalizer = Canonicalizer::default();
        for text in [
            "http://user:hunter2@example.org/",
            "https://user:hunter2@/x",
            "http://user:hun/hunter2@example.org/",
            "http://user:hunter2@exa mple.org/@me",
            "user:hunter2@example.org",
            "ftp://user:hunter2@example.org/",
            "http:\\\\user:hunter2@example.org/",
            "http:/user:hunter2@example.org/",
            " HTTP:user:hunter2@example.org/",
        ] {
            let seed = Seed {
                text: text.to_owned(),
                place: "seeds.txt line 3".to_owned(),
            };
            let refused = parse_seeds(&canonicalizer, &[seed]);
            let error = refused.expect_err(text).to_string();
            assert!(!error.contains("hunter2"), "{error}");
            assert!(error.contains("seeds.txt line 3"), "{error}");
        }
    }
}
