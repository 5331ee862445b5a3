//! Every setting of a crawl as plain data: what `portolan config` prints and a settings file may
//! hold. Defaults are not here but in `default.toml`, the one file that ships them.

mod check;

use serde::{Deserialize, Serialize};

use crate::scope::ScopeSettings;

/// The settings file that ships: every setting with its default, unit and meaning.
pub const DEFAULT_TOML: &str = include_str!("default.toml");

/// Each partition has its files and its threads' attention.
pub(crate) const MAX_PARTITIONS: u16 = 1024;

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    pub identity: IdentitySettings,
    pub limits: LimitSettings,
    pub politeness: PolitenessSettings,
    pub outages: OutageSettings,
    pub robots: RobotsSettings,
    pub scope: ScopeSettings,
    pub urls: UrlSettings,
    pub dns: DnsSettings,
    pub http: HttpSettings,
    pub content: ContentSettings,
    pub archive: ArchiveSettings,
    pub frontier: FrontierSettings,
    pub partition: PartitionSettings,
    pub registry: RegistrySettings,
}

/// Who we say we are.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct IdentitySettings {
    pub product: String,
    pub user_agent: String,
    pub contact: String,
}

/// When to stop, and how much to do at once.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LimitSettings {
    pub max_pages: u64,
    pub max_pages_per_host: u64,
    pub time_limit_s: f64,
    pub connections: usize,
    pub waiting_connections: usize,
    pub slow_connections: usize,
    pub idle_connections: usize,
    pub patience_ms: u64,
    pub threads: usize,
    pub turn_urls: usize,
    pub max_attempts: u8,
    pub max_redirects: u8,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PolitenessSettings {
    pub delay_ms: u64,
    pub ip_delay_ms: u64,
    pub response_time_factor: f64,
    pub response_time_delay_max_ms: u64,
    pub backoff_ms: u64,
    pub backoff_max_ms: u64,
    pub retry_after_max_ms: u64,
    pub keep_alive_ms: u64,
}

/// How long to wait for whom, when hosts or the network fail.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OutageSettings {
    pub give_up_ms: u64,
    pub unknown_host_give_up_ms: u64,
    pub wait_ms: u64,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RobotsSettings {
    pub cache_ms: u64,
    pub max_redirects: u8,
    pub meta: bool,
    pub sitemaps: bool,
    pub max_sitemap_depth: u8,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UrlSettings {
    pub drop_parameters: Vec<String>,
    pub drop_parameters_with_session_value: Vec<String>,
    pub drop_parameters_beside: Vec<(String, String)>,
    pub drop_session_segments: bool,
    pub drop_semicolon_parameters: Vec<String>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DnsSettings {
    pub servers: Vec<String>,
    pub resolve: Vec<String>,
    pub at_once: usize,
    pub cache_entries: usize,
    pub ttl_min_ms: u64,
    pub ttl_max_ms: u64,
    pub ttl_unknown_ms: u64,
    pub ttl_negative_ms: u64,
    pub timeout_ms: u64,
    pub allow_private: bool,
    pub allow_networks: Vec<String>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HttpSettings {
    pub connect_timeout_ms: u64,
    pub first_byte_timeout_ms: u64,
    pub read_timeout_ms: u64,
    pub min_bytes_per_s: u64,
    pub request_timeout_ms: u64,
    pub max_head_bytes: usize,
    pub max_body_bytes: usize,
    pub max_decoded_bytes: usize,
    pub compression: bool,
    pub http2: bool,
    pub accept_invalid_certificates: bool,
    pub ca_file: String,
    pub accept: String,
    pub accept_language: String,
    pub head_first: HeadFirst,
}

/// When to ask with HEAD before GET.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum HeadFirst {
    Never,
    /// Where the URL's look says that it may be something unwanted and large.
    ByLook,
    Always,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ContentSettings {
    pub types: Vec<String>,
    pub embeds: bool,
    pub feeds: bool,
    pub max_links: usize,
    pub reserved_texts: Vec<String>,
    pub simhash: bool,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ArchiveSettings {
    pub prefix: String,
    pub file_bytes: u64,
    pub compression: Compression,
    pub compression_level: u8,
    pub commit_ms: u64,
    pub commit_bytes: usize,
    pub deduplicate: bool,
    pub operator: String,
}

/// How records lie in the WARC files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Compression {
    Gzip,
    None,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FrontierSettings {
    pub order: FrontierOrder,
    pub ranks: String,
}

/// What comes sooner.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FrontierOrder {
    Backlinks,
    Breadth,
    Opic,
    SiteIndegree,
    Pagerank,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PartitionSettings {
    pub method: PartitionMethod,
    pub vector: String,
    pub unlisted: UnlistedSites,
    pub max_claims: u32,
    pub dsets: String,
}

/// How sites are shared out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PartitionMethod {
    Hash,
    Dset,
    Vector,
}

/// Who gets a site that the part vector does not list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum UnlistedSites {
    SiteHash,
    Discoverer,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RegistrySettings {
    pub partitions: u16,
    pub memory_mb: u64,
    pub checkpoint_log_mb: u64,
    pub keep_log: bool,
}

/// A settings file that cannot be used, in one sentence.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct SettingsError(pub String);

impl Settings {
    /// The defaults, with what `overrides` (a settings file's text) says instead.
    pub fn with_overrides(overrides: &str) -> Result<Self, SettingsError> {
        let table: toml::Table = DEFAULT_TOML
            .parse()
            .map_err(|e| SettingsError(format!("default.toml: {e}")))?;
        Self::overlaid(table, overrides)
    }

    /// These settings, with what `overrides` says instead.
    pub fn changed_by(&self, overrides: &str) -> Result<Self, SettingsError> {
        let table = toml::Table::try_from(self).map_err(|e| SettingsError(e.to_string()))?;
        Self::overlaid(table, overrides)
    }

    fn overlaid(mut table: toml::Table, overrides: &str) -> Result<Self, SettingsError> {
        let wanted: toml::Table = overrides.parse().map_err(|e| SettingsError(one_line(&e)))?;
        overlay(&mut table, wanted, "")?;
        let settings: Settings = table
            .try_into()
            .map_err(|e: toml::de::Error| SettingsError(one_line(&e)))?;
        settings.check()?;
        Ok(settings)
    }

    /// The User-Agent header: the product, its version, and how to reach whoever runs it.
    pub fn user_agent_header(&self) -> String {
        if !self.identity.user_agent.is_empty() {
            return self.identity.user_agent.clone();
        }
        let version = env!("CARGO_PKG_VERSION");
        match self.identity.contact.as_str() {
            "" => format!("{}/{version}", self.identity.product),
            contact => format!("{}/{version} (+{contact})", self.identity.product),
        }
    }
}

impl Default for Settings {
    fn default() -> Self {
        // The shipped file is checked by a test; a program whose own defaults don't parse can't run.
        Self::with_overrides("").expect("default.toml is valid")
    }
}

fn overlay(base: &mut toml::Table, over: toml::Table, path: &str) -> Result<(), SettingsError> {
    for (key, value) in over {
        let name = if path.is_empty() {
            key.clone()
        } else {
            format!("{path}.{key}")
        };
        match (base.get_mut(&key), value) {
            (Some(toml::Value::Table(inner)), toml::Value::Table(over)) => {
                overlay(inner, over, &name)?;
            }
            (Some(toml::Value::Float(slot)), toml::Value::Integer(number)) => *slot = number as f64,
            (Some(slot), value) => {
                if std::mem::discriminant(slot) != std::mem::discriminant(&value) {
                    return Err(SettingsError(format!(
                        "{name} should be {}, not {}; 'portolan config' shows every setting",
                        article(slot.type_str()),
                        article(value.type_str()),
                    )));
                }
                *slot = value;
            }
            (None, _) => {
                return Err(SettingsError(format!(
                    "there is no setting '{name}'; 'portolan config' lists them all"
                )));
            }
        }
    }
    Ok(())
}

fn article(type_name: &str) -> String {
    let an = matches!(
        type_name.as_bytes().first(),
        Some(b'a' | b'e' | b'i' | b'o' | b'u')
    );
    format!("{} {type_name}", if an { "an" } else { "a" })
}

/// A TOML error without its drawing of the line: the place and the reason are enough.
fn one_line(error: &toml::de::Error) -> String {
    let text = error.to_string();
    let mut lines = text
        .lines()
        .filter(|l| !l.trim_start().starts_with('|') && !l.contains(" | "));
    let place = lines
        .next()
        .unwrap_or_default()
        .replace("TOML parse error at ", "");
    let reason = lines.collect::<Vec<_>>().join(" ");
    if reason.is_empty() {
        place
    } else {
        format!("{place}: {}", reason.trim())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use portolan_model::url::CanonicalSettings;

    #[test]
    fn the_shipped_defaults_are_the_rooms_own() {
        let settings = Settings::default();
        assert_eq!(settings.scope, ScopeSettings::default());
        assert_eq!(
            crate::assembly::canonical(&settings),
            CanonicalSettings::default()
        );
    }

    #[test]
    fn every_setting_is_in_the_file_and_survives_a_round_trip() {
        let settings = Settings::default();
        let text = toml::to_string(&settings).expect("settings are TOML");
        let written: toml::Table = text.parse().expect("valid TOML");
        let shipped: toml::Table = DEFAULT_TOML.parse().expect("valid TOML");
        assert_eq!(written, shipped);
        Settings::with_overrides(&text).expect("what is written can be read");
    }

    #[test]
    fn a_file_changes_what_it_names_and_nothing_else() {
        let first = Settings::with_overrides("[politeness]\ndelay_ms = 7000").expect("settings");
        let second = first.changed_by("[limits]\nmax_redirects = 3");
        let second = second.expect("settings");
        assert_eq!(second.politeness.delay_ms, 7000);
        assert_eq!(second.limits.max_redirects, 3);
    }

    #[test]
    fn mistakes_are_named() {
        let wrong = |text: &str| match Settings::with_overrides(text) {
            Ok(_) => panic!("{text} was taken"),
            Err(error) => error.to_string(),
        };
        assert!(wrong("[politeness]\ndelay = 3").contains("politeness.delay"));
        assert!(
            wrong("[politeness]\ndelay_ms = \"3\"")
                .contains("politeness.delay_ms should be an integer")
        );
        assert!(wrong("[scope]\nscope = \"planet\"").contains("planet"));
        assert!(wrong("[limits]\npatience_ms = 0").contains("limits.patience_ms"));
        assert!(wrong("[http]\nmin_bytes_per_s = 1048577").contains("http.min_bytes_per_s"));
        for (text, setting) in [
            ("[limits]\ntime_limit_s = nan", "limits.time_limit_s"),
            (
                "[politeness]\ndelay_ms = 9999999999999",
                "politeness.delay_ms",
            ),
            ("[robots]\ncache_ms = 0", "robots.cache_ms"),
            ("[robots]\ncache_ms = 86400001", "robots.cache_ms"),
            ("[scope]\nmax_url_bytes = 0", "scope.max_url_bytes"),
            (
                "[scope]\nreserved_url_text = [\"\"]",
                "scope.reserved_url_text",
            ),
            ("[scope]\nallowed_ports = [0]", "scope.allowed_ports"),
            ("[scope]\nalso_ports = [8080, 0]", "scope.also_ports"),
            ("[dns]\nttl_min_ms = 90000000", "dns.ttl_min_ms"),
            ("[http]\nmax_head_bytes = 0", "http.max_head_bytes"),
            ("[http]\naccept = \"a\\nb: c\"", "http.accept"),
            (
                "[content]\ntypes = [\"text/html; charset=utf-8\"]",
                "content.types",
            ),
            ("[content]\ntypes = [\"html\"]", "content.types"),
            (
                "[content]\nreserved_texts = [\"\"]",
                "content.reserved_texts",
            ),
            ("[archive]\nprefix = \"a/b\"", "archive.prefix"),
        ] {
            assert!(wrong(text).contains(setting), "{text}: {}", wrong(text));
        }
        assert!(wrong("x = ").contains("line 1"));
        assert!(!wrong("[limits]\nmax_pages = -3").contains('\n'));
    }
}
