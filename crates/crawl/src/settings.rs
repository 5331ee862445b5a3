//! Every setting of a crawl as plain data: what `portolan config` prints and a settings file may
//! hold. Defaults are not here but in `default.toml`, the one file that ships them.

mod access;
mod check;
mod dset;
mod file;
mod module;
mod nearest;

use std::fmt;
use std::ops::Range;
use std::path::PathBuf;

pub use access::{AccessSettings, HostSettings, SecretText};
pub(crate) use access::{Entrance, is_secret, product_of, split_field};
pub use dset::DsetSettings;
pub(crate) use module::is_name;
pub use module::{ModuleOutput, ModuleSettings};

pub use portolan_archive::{ArchiveSettings, Compression};
use portolan_model::Order;
use portolan_model::url::CanonicalSettings;
pub use portolan_net::{DnsSettings, HeadFirst, HttpSettings};
pub use portolan_registry::RegistrySettings;
use serde::{Deserialize, Serialize};

use crate::scope::ScopeSettings;

/// The settings file that ships: every setting with its default, unit and meaning.
pub const DEFAULT_TOML: &str = include_str!("default.toml");

/// Each partition has its files and its threads' attention.
pub(crate) const MAX_PARTITIONS: u16 = 1024;

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    /// Blocks in the order of the file, those of the command line first.
    pub host: Vec<HostSettings>,
    /// Programs that read documents.
    pub module: Vec<ModuleSettings>,
    /// Sets of domain extensions, the first for partition 0.
    #[serde(default)]
    pub dset: Vec<DsetSettings>,
    pub identity: IdentitySettings,
    pub access: AccessSettings,
    pub limits: LimitSettings,
    pub politeness: PolitenessSettings,
    pub outages: OutageSettings,
    pub robots: RobotsSettings,
    pub scope: ScopeSettings,
    pub urls: CanonicalSettings,
    pub files: FileSettings,
    pub dns: DnsSettings,
    pub http: HttpSettings,
    pub content: ContentSettings,
    pub archive: ArchiveSettings,
    pub frontier: FrontierSettings,
    pub freshness: FreshnessSettings,
    pub frontier_server: FrontierServerSettings,
    pub partition: PartitionSettings,
    pub registry: RegistrySettings,
    pub fleet: FleetSettings,
}

/// How a node of a fleet ships what it has done; see `docs/fleet.md`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FleetSettings {
    pub ship_ms: u64,
    pub max_unshipped_mb: u64,
    #[serde(default)]
    pub grant_ms: u64,
    pub checkpoint_s: u64,
    pub checkpoint_entries: u64,
    pub checkpoint_mb_per_s: u64,
}

/// Where the work comes from, if not from the crawl's own frontier; see `docs/urlfrontier.md`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FrontierServerSettings {
    pub url: String,
    pub crawl: String,
    pub ca_file: PathBuf,
    pub token_file: PathBuf,
    pub insecure: bool,
    pub lease_s: u32,
    pub hosts: u32,
    pub urls_per_host: u32,
    pub refetch_after_s: u64,
}

impl FrontierServerSettings {
    /// Does the crawl take its work from a server?
    pub fn is_used(&self) -> bool {
        !self.url.is_empty()
    }
}

/// Which files `file` URLs may name.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FileSettings {
    pub folders: Vec<PathBuf>,
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
    pub bytes_per_s: u64,
    pub bytes_per_s_per_host: u64,
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

impl OutageSettings {
    /// For a crawl without end: a host that fails rests for a growing time, and is asked again.
    pub(crate) fn never_give_up(&mut self) {
        const CENTURY_MS: u64 = 100 * 365 * 86_400_000;
        (self.give_up_ms, self.unknown_host_give_up_ms) = (CENTURY_MS, CENTURY_MS);
    }
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
pub struct ContentSettings {
    pub types: Vec<String>,
    pub embeds: bool,
    pub feeds: bool,
    pub early_links: bool,
    pub tol: TolUse,
    pub tvi: TolUse,
    pub max_links: usize,
    pub reserved_texts: Vec<String>,
    pub simhash: bool,
}

/// When to read a document's tables: of links before the document, of volatile parts instead of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TolUse {
    Never,
    /// Where a site says that it has such tables.
    Told,
    /// There, and where one request finds that a site has them.
    Probe,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FrontierSettings {
    /// What comes sooner.
    pub order: Order,
    pub ranks: String,
}

/// How known pages are kept fresh.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FreshnessSettings {
    pub fetches_per_s: f64,
    pub new_share: f64,
    pub importance: Importance,
    pub sources_every_s: u64,
    pub first_guess_per_day: f64,
    pub tick_ms: u32,
    pub memory_mb: u64,
    pub policy: FreshnessPolicy,
}

/// Who decides which page is fetched again next.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FreshnessPolicy {
    /// The page that is worth most.
    Worth,
    /// All pages in turn.
    Uniform,
    /// As often as a page changes.
    Proportional,
    /// The interval × 1.2 if nothing changed, × 0.8 if something did.
    Nutch,
    /// The interval × 1.5 if nothing changed, × 0.5 if something did.
    StormCrawler,
    /// LambdaCrawl (Kolobov et al. 2019), with the rates that are learned.
    LambdaCrawl,
}

/// What makes a page worth more than another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Importance {
    Rank,
    Equal,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PartitionSettings {
    pub method: PartitionMethod,
    #[serde(default)]
    pub mode: ExchangeMode,
    pub vector: String,
    pub unlisted: UnlistedSites,
    pub max_claims: u32,
    pub dsets: String,
}

/// What becomes of a link to another partition.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ExchangeMode {
    /// It is sent to the partition that owns it.
    #[default]
    Exchange,
    /// All links go to a seed-server, which owns every registry and says what to fetch.
    Server,
    /// It is thrown away.
    Firewall,
    /// The partition that found it follows it itself, whoever else does.
    CrossOver,
}

impl ExchangeMode {
    /// As in settings and on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Exchange => "exchange",
            Self::Server => "server",
            Self::Firewall => "firewall",
            Self::CrossOver => "cross-over",
        }
    }
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

/// Settings that cannot be used, in one sentence.
#[derive(Debug)]
pub struct SettingsError {
    sentence: String,
    /// The setting that is wrong, if it is one that there is.
    setting: Option<String>,
    /// Line and column in the settings file, from 1.
    place: Option<(usize, usize)>,
}

impl SettingsError {
    fn plain(sentence: &str) -> Self {
        Self {
            sentence: sentence.to_owned(),
            setting: None,
            place: None,
        }
    }

    /// A sentence that begins with the setting's name: "limits.threads must be at most 1024".
    fn of(setting: &str, what: &str) -> Self {
        Self::about(setting, &format!("{setting} {what}"))
    }

    /// A whole sentence about a setting.
    fn about(setting: &str, sentence: &str) -> Self {
        Self {
            setting: Some(setting.to_owned()),
            ..Self::plain(sentence)
        }
    }

    /// With the place in `text` where `span` begins.
    fn at(self, text: &str, span: Option<Range<usize>>) -> Self {
        let place = span.and_then(|span| {
            let before = text.get(..span.start)?;
            let line = before.rsplit('\n').next().unwrap_or_default();
            Some((before.matches('\n').count() + 1, line.chars().count() + 1))
        });
        Self { place, ..self }
    }

    /// The sentence, with the name of the file that the settings were read from.
    pub fn in_file(&self, name: &str) -> String {
        match self.place {
            Some(_) => format!("{name} {self}"),
            None => format!("{name}: {self}"),
        }
    }
}

impl fmt::Display for SettingsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some((line, column)) = self.place {
            write!(f, "line {line}, column {column}: ")?;
        }
        f.write_str(&self.sentence)
    }
}

impl std::error::Error for SettingsError {}

impl Settings {
    /// The defaults, with what `overrides` (a settings file's text) says instead.
    pub fn with_overrides(overrides: &str) -> Result<Self, SettingsError> {
        file::overlaid(DEFAULT_TOML, overrides)
    }

    /// These settings, with what `overrides` says instead.
    pub fn changed_by(&self, overrides: &str) -> Result<Self, SettingsError> {
        let text = toml::to_string(self).map_err(|e| SettingsError::plain(&e.to_string()))?;
        file::overlaid(&text, overrides)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shipped_defaults_are_the_rooms_own() {
        let settings = Settings::default();
        assert_eq!(settings.scope, ScopeSettings::default());
        assert_eq!(settings.urls, CanonicalSettings::default());
        assert_eq!(settings.http, HttpSettings::default());
        assert_eq!(settings.dns, DnsSettings::default());
        assert_eq!(
            settings.politeness.keep_alive_ms,
            settings.http.agent.keep_alive_ms
        );
        assert_eq!(settings.archive, ArchiveSettings::default());
        let ids = portolan_model::Identities::PUBLIC;
        let registry = crate::assembly::registry(&settings, 4, (ids, 0));
        assert_eq!(registry, RegistrySettings::default());
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
            ("[archive]\nnode = \"a/b\"", "archive.node"),
            ("[archive]\nnode_number = 4096", "archive.node_number"),
        ] {
            assert!(wrong(text).contains(setting), "{text}: {}", wrong(text));
        }
        assert!(wrong("x = ").contains("line 1"));
        assert!(!wrong("[limits]\nmax_pages = -3").contains('\n'));
    }

    #[test]
    fn mistakes_have_their_place_and_no_words_of_the_program() {
        for (text, sentence) in [
            (
                "[politenes]\ndelay_ms = 3",
                "line 1, column 2: there is no setting 'politenes'; did you mean 'politeness'?",
            ),
            (
                "\n[limits]\n  max_page = 3",
                "line 3, column 3: there is no setting 'limits.max_page'; did you mean 'limits.max_pages'?",
            ),
            (
                "[limits]\ndelay_ms = 3",
                "line 2, column 1: there is no setting 'limits.delay_ms'; did you mean 'politeness.delay_ms'?",
            ),
            (
                "max_pages = 3",
                "line 1, column 1: there is no setting 'max_pages'; did you mean 'limits.max_pages'?",
            ),
            (
                "[scope]\nzymurgy = 1",
                "line 2, column 1: there is no setting 'scope.zymurgy'",
            ),
            (
                "[politeness]\ndelay_ms = \"3\"",
                "line 2, column 12: politeness.delay_ms must be a whole number, not a text in quotes",
            ),
            (
                "limits = 3",
                "line 1, column 10: limits must be a table, not a whole number",
            ),
            (
                "[limits]\nmax_pages = -3",
                "line 2, column 13: limits.max_pages must be a whole number, 0 or more, not -3",
            ),
            (
                "[limits]\nmax_attempts = 300",
                "line 2, column 16: limits.max_attempts must be a whole number from 0 to 255, not 300",
            ),
            (
                "[scope]\nallowed_ports = [80,\n  \"http\"]",
                "line 3, column 3: scope.allowed_ports must be a whole number from 0 to 65535, not \"http\"",
            ),
            (
                "[scope]\nscope = \"hosts\"",
                "line 2, column 9: scope.scope must be \"host\", \"domain\", \"prefix\" or \"any\", not \"hosts\"; did you mean \"host\"?",
            ),
            (
                "[scope]\npriorities = [{ patern = \"x\", priority = 1 }]",
                "line 2, column 17: scope.priorities has no 'patern'; did you mean 'pattern'?",
            ),
            (
                "[scope]\npriorities = [{ pattern = \"x\" }]",
                "line 2, column 15: scope.priorities lacks 'priority'",
            ),
            (
                "[scope]\npriorities = [\"x\"]",
                "line 2, column 15: scope.priorities must be a table, not \"x\"",
            ),
            (
                "[urls]\ndrop_parameters_beside = [[\"x\"]]",
                "line 2, column 27: urls.drop_parameters_beside must be a pair, not a list of 1",
            ),
            (
                "# ü\n[limits]\nthreads = 100000",
                "line 3, column 1: limits.threads must be at most 1024; 0 is one for each core",
            ),
            (
                "[scope]\ninclude = [\"(\"]",
                "line 2, column 1: setting scope.include '(' is not a regular expression: unclosed group",
            ),
        ] {
            let told = Settings::with_overrides(text).map(|_| ()).expect_err(text);
            assert_eq!(told.to_string(), sentence);
        }
        for (text, place, setting) in [
            ("[dns]\nresolve = [\"x\"]", "line 2, column 1", "resolve"),
            (
                "[dns]\nservers = [\"x\"]",
                "line 2, column 1",
                "dns.servers",
            ),
            (
                "[dns]\nallow_networks = [\"x\"]",
                "line 2, column 1",
                "dns.allow_networks",
            ),
            ("[scope]\nsites = [\"a b\"]", "line 2, column 1", "sites"),
            ("[limits\n", "line 1, column 8", "TOML"),
            ("[limits]\nx = \"", "line 2, column 6", "TOML"),
        ] {
            let told = Settings::with_overrides(text)
                .map(|_| ())
                .expect_err(text)
                .to_string();
            assert!(told.starts_with(place) && told.contains(setting), "{told}");
        }
    }
}
