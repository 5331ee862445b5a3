//! What a person may set about access: header fields, credentials, and what is particular to some hosts.
//! Here it is plain data and its check; `access` makes something of it.

use std::fmt;

use portolan_net::Scheme;
use serde::{Deserialize, Serialize};

use super::check::{MAX_DELAY_MS, is_product};
use super::{Settings, SettingsError};
use crate::scope::Sites;

/// How servers are asked, and what is sent along.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AccessSettings {
    pub headers: Vec<String>,
    pub withhold: Vec<String>,
    pub cookies: String,
    pub keep_cookies: bool,
    /// A URL, which may hold a password, or `env:NAME` or `file:PATH`.
    pub proxy: SecretText,
    pub no_proxy: String,
    pub proxy_from_environment: bool,
    pub proxy_resolves: bool,
}

/// What is particular to the hosts that `pattern` matches. Where several blocks match, each setting is that of the
/// first block that has it.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct HostSettings {
    /// `www.example.org` is that host, `*.example.org` is example.org and every name below it, `*` is every host.
    #[serde(rename = "match")]
    pub pattern: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delay_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_pages: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes_per_s: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user_agent: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub product: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub headers: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub include: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exclude: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub keep_cookies: Option<bool>,
    /// `user:password`, `env:NAME` or `file:PATH`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub auth: Option<SecretText>,
    /// A token, `env:NAME` or `file:PATH`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bearer: Option<SecretText>,
    /// Where secrets of this block go: `https`, `http`, `https:8443`. Empty: `https` alone.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub send_to: Vec<String>,
}

/// A password or a token, or where it is to be read. Not for printing.
#[derive(Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct SecretText(pub String);

impl fmt::Debug for SecretText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("withheld")
    }
}

impl SecretText {
    /// The secret itself: from the environment or a file, where the text says so. An error is one sentence.
    pub(crate) fn read(&self) -> Result<String, String> {
        let text = if let Some(name) = self.0.strip_prefix("env:") {
            std::env::var(name)
                .map_err(|_| format!("the environment has no variable '{name}' that is text"))?
        } else if let Some(path) = self.0.strip_prefix("file:") {
            let text = std::fs::read_to_string(path).map_err(|e| format!("{path}: {e}"))?;
            text.trim_end_matches(['\r', '\n']).to_owned()
        } else {
            self.0.clone()
        };
        if text.is_empty() {
            return Err("it is empty".to_owned());
        }
        if text.bytes().any(|b| b < 0x20 || b == 0x7f) {
            return Err("it holds a control character, such as the end of a line".to_owned());
        }
        Ok(text)
    }
}

/// A scheme and a port that secrets may be sent to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Entrance {
    pub(crate) scheme: Scheme,
    pub(crate) port: u16,
}

impl Entrance {
    pub(crate) const HTTPS: Entrance = Entrance {
        scheme: Scheme::Https,
        port: 443,
    };

    /// `https`, `http`, `https:8443`.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (name, port) = match text.split_once(':') {
            Some((name, port)) => (name, Some(port.parse().ok().filter(|&port| port != 0)?)),
            None => (text, None),
        };
        let scheme = match name {
            "http" => Scheme::Http,
            "https" => Scheme::Https,
            _ => return None,
        };
        let port = port.unwrap_or(scheme.default_port());
        Some(Self { scheme, port })
    }
}

impl HostSettings {
    /// From a line as a person types it: `[SCHEME://]HOST[:PORT]=SECRET`.
    pub fn with_secret(text: &str, is_bearer: bool) -> Result<Self, String> {
        const FORM: &str =
            "write it as HOST=SECRET, https://HOST:PORT=SECRET or http://HOST=SECRET";
        let (place, secret) = text.split_once('=').ok_or(FORM)?;
        let (scheme, place) = match place.split_once("://") {
            Some((scheme, rest)) => (scheme, rest.trim_end_matches('/')),
            None => ("https", place),
        };
        let (host, port) = match place.rsplit_once(':') {
            Some((host, port)) if !place.ends_with(']') => (host, format!(":{port}")),
            _ => (place, String::new()),
        };
        let entrance = format!("{scheme}{port}");
        if host.is_empty() || secret.is_empty() || Entrance::parse(&entrance).is_none() {
            return Err(FORM.to_owned());
        }
        let secret = Some(SecretText(secret.to_owned()));
        let (auth, bearer) = match is_bearer {
            true => (None, secret),
            false => (secret, None),
        };
        Ok(Self {
            pattern: host.to_owned(),
            send_to: vec![entrance],
            auth,
            bearer,
            ..Self::default()
        })
    }

    /// Is the block about the same hosts and entrances, with a secret of the same kind? Then a newer one takes its place.
    pub fn is_replaced_by(&self, newer: &Self) -> bool {
        self.pattern == newer.pattern
            && self.send_to == newer.send_to
            && self.auth.is_some() == newer.auth.is_some()
            && self.bearer.is_some() == newer.bearer.is_some()
    }
}

/// Name and value of `NAME: VALUE`.
pub(crate) fn split_field(text: &str) -> Option<(&str, &str)> {
    let (name, value) = text.split_once(':')?;
    let value = value.trim_matches([' ', '\t']);
    let is_token = |b: u8| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b);
    let is_sound = !name.is_empty()
        && name.bytes().all(is_token)
        && !value.is_empty()
        && !value.bytes().any(|b| b < 0x20 || b == 0x7f);
    is_sound.then_some((name, value))
}

/// The product token that a User-Agent begins with, as in `portolan` of `portolan/1.0 (…)`.
pub(crate) fn product_of(user_agent: &str) -> &str {
    let end = user_agent.find(['/', ' ', '(', ';']);
    &user_agent[..end.unwrap_or(user_agent.len())]
}

/// Fields that belong to the connection or the message, or that have a setting of their own.
const NOT_TO_BE_SET: [&str; 16] = [
    "host",
    "connection",
    "keep-alive",
    "proxy-connection",
    "proxy-authorization",
    "content-length",
    "transfer-encoding",
    "te",
    "trailer",
    "upgrade",
    "expect",
    "range",
    "if-range",
    "if-none-match",
    "if-modified-since",
    "user-agent",
];

impl Settings {
    pub(super) fn check_access(&self) -> Result<(), SettingsError> {
        for text in &self.access.headers {
            let name = check_field("access.headers", text)?;
            if self.is_withheld(name) || is_secret(name) {
                let what = format!(
                    "must not hold '{name}', which would go to every host; [[host]] blocks have headers for one"
                );
                return wrong("access.headers", &what);
            }
        }
        let limits = &self.limits;
        for (setting, bytes_per_s) in [
            ("limits.bytes_per_s", limits.bytes_per_s),
            ("limits.bytes_per_s_per_host", limits.bytes_per_s_per_host),
        ] {
            if is_too_slow(bytes_per_s) {
                return wrong(setting, TOO_SLOW);
            }
        }
        for host in &self.host {
            host.check()?;
        }
        Ok(())
    }

    /// Is a field of this name not written down with its value?
    pub(crate) fn is_withheld(&self, name: &str) -> bool {
        let mut names = self.access.withhold.iter();
        names.any(|withheld| withheld.eq_ignore_ascii_case(name))
    }
}

/// Goes only where `send_to` says, whether or not it is written down.
pub(crate) fn is_secret(name: &str) -> bool {
    ["authorization", "cookie"]
        .iter()
        .any(|n| name.eq_ignore_ascii_case(n))
}

impl HostSettings {
    fn check(&self) -> Result<(), SettingsError> {
        let pattern = &self.pattern;
        let setting = |name: &str| format!("[[host]] match = \"{pattern}\": {name}");
        if pattern.is_empty() {
            return wrong("[[host]]", "must have a match, such as \"*.example.org\"");
        }
        if pattern != "*" && Sites::new("host.match", std::slice::from_ref(pattern)).is_err() {
            let what = "is not a host name; write it as in \"www.example.org\", \"*.example.org\" or \"*\"";
            return wrong(&format!("[[host]] match = \"{pattern}\""), what);
        }
        if self
            .delay_ms
            .is_some_and(|delay_ms| delay_ms > MAX_DELAY_MS)
        {
            let what = format!("must be at most {MAX_DELAY_MS}, which is 30 days");
            return wrong(&setting("delay_ms"), &what);
        }
        if self.bytes_per_s.is_some_and(is_too_slow) {
            return wrong(&setting("bytes_per_s"), TOO_SLOW);
        }
        for text in &self.headers {
            check_field(&setting("headers"), text)?;
        }
        if let Some(entrance) = self.send_to.iter().find(|t| Entrance::parse(t).is_none()) {
            let what = format!(
                "must hold such as \"https\", \"http\" or \"https:8443\", not '{entrance}'"
            );
            return wrong(&setting("send_to"), &what);
        }
        let agent = self.user_agent.as_deref();
        if agent.is_some_and(|agent| agent.bytes().any(|b| b < 0x20 || b == 0x7f)) {
            return wrong(
                &setting("user_agent"),
                "must not contain control characters",
            );
        }
        let product = self.product.as_deref();
        match (product, agent) {
            (Some(product), _) if !is_product(product) => wrong(
                &setting("product"),
                "must be a robots.txt product token: letters, '-' and '_' only",
            ),
            (None, Some(agent)) if !is_product(product_of(agent)) => wrong(
                &setting("user_agent"),
                "must begin with a product token (letters, '-' and '_'), or the block must have a product",
            ),
            _ => Ok(()),
        }
    }
}

/// Blocks have their place in a file together.
fn misplaced(setting: &str, what: &str) -> SettingsError {
    match setting.starts_with("[[host]]") {
        true => SettingsError::about("host", &format!("{setting} {what}")),
        false => SettingsError::of(setting, what),
    }
}

fn wrong(setting: &str, what: &str) -> Result<(), SettingsError> {
    Err(misplaced(setting, what))
}

const TOO_SLOW: &str = "must be at least 1024, or 0 for no limit";

fn is_too_slow(bytes_per_s: u64) -> bool {
    (1..1024).contains(&bytes_per_s)
}

/// The field's name.
fn check_field<'t>(setting: &str, text: &'t str) -> Result<&'t str, SettingsError> {
    let Some((name, _)) = split_field(text) else {
        // What is wrong with it may be a secret: it is not repeated.
        let shown = text.split(':').next().unwrap_or_default();
        let shown = shown.escape_debug();
        let what = format!("must hold fields such as \"Name: value\"; see '{shown}'");
        return Err(misplaced(setting, &what));
    };
    if NOT_TO_BE_SET.iter().any(|n| name.eq_ignore_ascii_case(n)) {
        let what = match name.eq_ignore_ascii_case("user-agent") {
            true => "must not hold 'User-Agent', which is the setting user_agent".to_owned(),
            false => format!("must not hold '{name}', which the crawler sets itself"),
        };
        return Err(misplaced(setting, &what));
    }
    Ok(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_name_the_place_that_they_are_for() {
        let of = |text| HostSettings::with_secret(text, false).expect(text);
        let block = of("intranet.test=alice:a=b:c");
        assert_eq!(block.pattern, "intranet.test");
        assert_eq!(block.send_to, ["https"]);
        assert_eq!(block.auth, Some(SecretText("alice:a=b:c".into())));
        assert_eq!(of("http://a.test:8080/=x:y").send_to, ["http:8080"]);
        assert_eq!(of("a.test:8443=x:y").send_to, ["https:8443"]);
        assert_eq!(of("[::1]=x:y").pattern, "[::1]");
        for wrong in [
            "a.test",
            "=x:y",
            "a.test=",
            "ftp://a.test=x:y",
            "a.test:0=x:y",
        ] {
            assert!(HostSettings::with_secret(wrong, true).is_err(), "{wrong}");
        }
        assert!(!format!("{block:?}").contains("alice"));
    }

    #[test]
    fn a_secret_is_read_where_it_is_said_to_be() {
        let file = std::env::temp_dir().join(format!("secret-text-{}", std::process::id()));
        std::fs::write(&file, "alice:secret\n").expect("a file");
        let read = |text: &str| SecretText(text.to_owned()).read();
        assert_eq!(read("plain"), Ok("plain".to_owned()));
        assert_eq!(
            read(&format!("file:{}", file.display())),
            Ok("alice:secret".to_owned())
        );
        std::fs::write(&file, "two\nlines\n").expect("a file");
        assert!(read(&format!("file:{}", file.display())).is_err());
        std::fs::remove_file(&file).expect("it was there");
        assert!(read("env:PATH").is_ok());
        let said = read("env:NO_SUCH_NAME_FOR_A_TEST").expect_err("none");
        assert!(said.contains("NO_SUCH_NAME_FOR_A_TEST"), "{said}");
    }

    #[test]
    fn products_are_what_a_user_agent_begins_with() {
        assert_eq!(product_of("portolan/1.0 (+http://a.test)"), "portolan");
        assert_eq!(product_of("bot"), "bot");
        assert_eq!(product_of("(odd)"), "");
    }
}
