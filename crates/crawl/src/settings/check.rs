//! What types cannot say of settings: values that would fetch nothing, never end, or be impolite.

use portolan_archive::MAX_NODE_NUMBER;
use portolan_model::Order;
use portolan_model::url::Scheme;
use portolan_net::{Network, ResolveRule, check_name_server};

use super::{MAX_PARTITIONS, Settings, SettingsError};
use crate::scope::Scope;

/// RFC 9309: robots.txt is not believed for longer than a day. Asked for more often than this, it would
/// be most of what is asked for.
const ROBOTS_CACHE_MS: std::ops::RangeInclusive<u64> = 60_000..=86_400_000;
/// Less is no waiting at all, and more is what time-outs are for.
const PATIENCE_MS: std::ops::RangeInclusive<u64> = 10..=10_000;
/// Whoever asks for more of every server fetches nothing from most.
const MAX_MIN_BYTES_PER_S: u64 = 1 << 20;
/// Each thread has a stack and a share of everything; no machine has this many cores to spare.
const MAX_THREADS: usize = 1024;
/// A month.
pub(super) const MAX_DELAY_MS: u64 = 30 * 86_400_000;

impl Settings {
    /// The first setting that cannot be, in one sentence.
    pub fn check(&self) -> Result<(), SettingsError> {
        self.check_amounts()?;
        self.check_politeness()?;
        self.check_texts()?;
        self.check_patterns()?;
        self.check_access()?;
        self.check_modules()?;
        self.check_dsets()?;
        self.check_freshness()?;
        self.check_frontier_server()?;
        if !self.frontier.order.is_for_crawls() {
            return wrong(
                "frontier.order",
                "is an order for replays of a known graph; no crawl can have it",
            );
        }
        if self.frontier.order == Order::Pagerank && self.frontier.ranks.is_empty() {
            return wrong(
                "frontier.ranks",
                "must name a rank table for frontier.order = \"pagerank\", which is made from an earlier crawl's graph",
            );
        }
        Ok(())
    }

    fn check_amounts(&self) -> Result<(), SettingsError> {
        let limits = &self.limits;
        for (setting, value, least) in [
            ("limits.max_attempts", usize::from(limits.max_attempts), 1),
            ("limits.turn_urls", limits.turn_urls, 1),
            ("scope.max_url_bytes", self.scope.max_url_bytes, 16),
            ("http.max_head_bytes", self.http.max_head_bytes, 1024),
            (
                "http.max_body_bytes",
                self.http.max_body_bytes as usize,
                1024,
            ),
            ("dns.at_once", self.dns.at_once, 1),
        ] {
            if value < least {
                return wrong(setting, &format!("must be at least {least}"));
            }
        }
        if limits.threads > MAX_THREADS {
            let what = format!("must be at most {MAX_THREADS}; 0 is one for each core");
            return wrong("limits.threads", &what);
        }
        if !PATIENCE_MS.contains(&limits.patience_ms) {
            let (least, most) = PATIENCE_MS.into_inner();
            let what = format!("must be from {least} to {most}");
            return wrong("limits.patience_ms", &what);
        }
        if self.http.min_bytes_per_s > MAX_MIN_BYTES_PER_S {
            let what = format!("must be at most {MAX_MIN_BYTES_PER_S}; 0 is no limit");
            return wrong("http.min_bytes_per_s", &what);
        }
        if !(limits.time_limit_s.is_finite() && limits.time_limit_s >= 0.0) {
            return wrong(
                "limits.time_limit_s",
                "must be a number of seconds; 0 is no limit",
            );
        }
        if self.registry.partitions > MAX_PARTITIONS {
            return wrong("registry.partitions", "must be at most 1024");
        }
        if !(100..=60_000).contains(&self.fleet.ship_ms) {
            return wrong("fleet.ship_ms", "must be 100 to 60000");
        }
        if self.fleet.max_unshipped_mb == 0 {
            return wrong("fleet.max_unshipped_mb", "must be at least 1");
        }
        if self.fleet.checkpoint_s == 0 {
            return wrong("fleet.checkpoint_s", "must be at least 1");
        }
        if self.fleet.checkpoint_entries == 0 {
            return wrong("fleet.checkpoint_entries", "must be at least 1");
        }
        if self.registry.memory_bytes < 16 << 20 {
            return wrong("registry.memory_mb", "must be at least 16");
        }
        if self.archive.compression_level > 12 {
            return wrong("archive.compression_level", "must be from 0 to 12");
        }
        if self.dns.ttl_min_ms > self.dns.ttl_max_ms {
            return wrong("dns.ttl_min_ms", "must not be more than dns.ttl_max_ms");
        }
        let is_file = self.urls.also_schemes.contains(&Scheme::File);
        if is_file && self.files.folders.is_empty() {
            return wrong(
                "files.folders",
                "must name the folders that may be read where urls.also_schemes has \"file\"",
            );
        }
        if self
            .files
            .folders
            .iter()
            .any(|folder| !folder.is_absolute())
        {
            return wrong("files.folders", "must hold absolute paths");
        }
        for (setting, ports) in [
            ("scope.allowed_ports", &self.scope.allowed_ports),
            ("scope.also_ports", &self.scope.also_ports),
        ] {
            if ports.contains(&0) {
                return wrong(setting, "must not hold 0, which is no port");
            }
        }
        Ok(())
    }

    fn check_politeness(&self) -> Result<(), SettingsError> {
        let politeness = &self.politeness;
        if !(0.0..=1000.0).contains(&politeness.response_time_factor) {
            return wrong("politeness.response_time_factor", "must be from 0 to 1000");
        }
        if politeness.delay_ms > MAX_DELAY_MS {
            return wrong(
                "politeness.delay_ms",
                &format!("must be at most {MAX_DELAY_MS}, which is 30 days"),
            );
        }
        if !ROBOTS_CACHE_MS.contains(&self.robots.cache_ms) {
            let (least, most) = ROBOTS_CACHE_MS.into_inner();
            let what = format!("must be from {least} to {most}: a minute to a day");
            return wrong("robots.cache_ms", &what);
        }
        Ok(())
    }

    fn check_freshness(&self) -> Result<(), SettingsError> {
        let freshness = &self.freshness;
        // NaN is in no range.
        if !(1e-6..=1e6).contains(&freshness.fetches_per_s) {
            return wrong(
                "freshness.fetches_per_s",
                "must be from 0.000001 to 1000000",
            );
        }
        if !(0.0..=1.0).contains(&freshness.new_share) {
            return wrong("freshness.new_share", "must be from 0 to 1");
        }
        if !(1e-4..=1e6).contains(&freshness.first_guess_per_day) {
            return wrong(
                "freshness.first_guess_per_day",
                "must be from 0.0001 to 1000000",
            );
        }
        if !(1..=60_000).contains(&freshness.tick_ms) {
            return wrong("freshness.tick_ms", "must be from 1 to 60000");
        }
        if !(1..=1 << 20).contains(&freshness.memory_mb) {
            return wrong("freshness.memory_mb", "must be from 1 to 1048576");
        }
        Ok(())
    }

    fn check_frontier_server(&self) -> Result<(), SettingsError> {
        let server = &self.frontier_server;
        for (setting, value, range) in [
            ("frontier_server.lease_s", server.lease_s, 10..=86_400),
            ("frontier_server.hosts", server.hosts, 1..=100_000),
            (
                "frontier_server.urls_per_host",
                server.urls_per_host,
                1..=1_000,
            ),
        ] {
            if !range.contains(&value) {
                let (from, to) = (range.start(), range.end());
                return wrong(setting, &format!("must be from {from} to {to}"));
            }
        }
        Ok(())
    }

    fn check_texts(&self) -> Result<(), SettingsError> {
        if !is_product(&self.identity.product) {
            return wrong(
                "identity.product",
                "must be a robots.txt product token: letters, '-' and '_' only",
            );
        }
        for (setting, text) in [
            ("identity.user_agent", &self.identity.user_agent),
            ("identity.contact", &self.identity.contact),
            ("http.accept", &self.http.accept),
            ("http.accept_language", &self.http.accept_language),
            ("archive.operator", &self.archive.operator),
        ] {
            if text.bytes().any(|b| b < 0x20 || b == 0x7f) {
                return wrong(setting, "must not contain control characters");
            }
        }
        for (setting, texts) in [
            ("scope.reserved_url_text", &self.scope.reserved_url_text),
            ("content.reserved_texts", &self.content.reserved_texts),
        ] {
            if texts.iter().any(String::is_empty) {
                return wrong(
                    setting,
                    "must not hold an empty text, which is in everything",
                );
            }
        }
        if let Some(strange) = self.content.types.iter().find(|t| !is_media_range(t)) {
            let what = format!(
                "must hold media types such as \"text/html\" or \"image/*\", not '{strange}'"
            );
            return wrong("content.types", &what);
        }
        self.check_archive()
    }

    fn check_archive(&self) -> Result<(), SettingsError> {
        let archive = &self.archive;
        if let Err(what) = portolan_archive::check_prefix(&archive.prefix) {
            return wrong("archive.prefix", what);
        }
        if let Err(what) = portolan_archive::check_node(&archive.node) {
            return wrong("archive.node", what);
        }
        if archive.node_number > MAX_NODE_NUMBER {
            let what = format!("must be at most {MAX_NODE_NUMBER}");
            return wrong("archive.node_number", &what);
        }
        Ok(())
    }

    /// Texts with a form of their own: patterns, networks, addresses.
    fn check_patterns(&self) -> Result<(), SettingsError> {
        let scope = Scope::new(&self.scope, []).map_err(|error| {
            let setting = format!("scope.{}", error.setting());
            SettingsError::about(&setting, &error.to_string())
        })?;
        scope
            .with_hosts(&self.host)
            .map_err(|error| SettingsError::about("host", &error.to_string()))?;
        let dns = &self.dns;
        for rule in &dns.resolve {
            if let Err(error) = ResolveRule::parse(rule) {
                return Err(SettingsError::about(
                    "dns.resolve",
                    &format!("dns.resolve {error}"),
                ));
            }
        }
        for network in &dns.allow_networks {
            if let Err(error) = network.parse::<Network>() {
                return wrong("dns.allow_networks", &format!("holds no network: {error}"));
            }
        }
        for server in &dns.servers {
            if let Err(error) = check_name_server(server) {
                return wrong("dns.servers", &format!("cannot be used: {error}"));
            }
        }
        Ok(())
    }

    /// What is settled when a crawl begins must be the same when it goes on.
    pub(crate) fn check_fixed(&self, begun: &Settings) -> Result<(), SettingsError> {
        for (setting, now, then) in [
            (
                "archive.prefix",
                &self.archive.prefix,
                &begun.archive.prefix,
            ),
            ("archive.node", &self.archive.node, &begun.archive.node),
            (
                "archive.node_number",
                &self.archive.node_number.to_string(),
                &begun.archive.node_number.to_string(),
            ),
            (
                "registry.partitions",
                &self.registry.partitions.to_string(),
                &begun.registry.partitions.to_string(),
            ),
        ] {
            if now != then {
                let what = format!(
                    "is settled when a crawl begins; this one began with '{then}', not '{now}'"
                );
                return wrong(setting, &what);
            }
        }
        Ok(())
    }
}

/// May robots.txt name a crawler so?
pub(super) fn is_product(text: &str) -> bool {
    let is_token = |b: u8| b.is_ascii_alphabetic() || b"-_".contains(&b);
    !text.is_empty() && text.bytes().all(is_token)
}

fn wrong(setting: &str, what: &str) -> Result<(), SettingsError> {
    Err(SettingsError::of(setting, what))
}

/// `type/subtype` or `type/*`, without parameters.
pub(super) fn is_media_range(text: &str) -> bool {
    let is_token = |part: &str| {
        !part.is_empty()
            && part
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || b"!#$&-^_.+".contains(&b))
    };
    text.split_once('/')
        .is_some_and(|(kind, sub)| is_token(kind) && (sub == "*" || is_token(sub)))
}
