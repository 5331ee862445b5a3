//! What a person may set about scope and access, with defaults; and what is said when it is wrong.

use serde::{Deserialize, Serialize};
use thiserror::Error;

/// Where a crawl may go, seen from its roots (seeds, and what seeds redirected to).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ScopeKind {
    /// The roots' hosts, whatever scheme and port.
    #[default]
    Host,
    /// All hosts of the roots' registrable domains.
    Domain,
    /// The roots' hosts, at or below the roots' directories.
    Prefix,
    /// Everywhere.
    Any,
}

/// Scope and access conditions. A list that is empty and a limit that is absent say nothing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ScopeSettings {
    pub scope: ScopeKind,
    /// Regular expressions over the canonical URL; one of them must match.
    pub include: Vec<String>,
    /// Regular expressions over the canonical URL; none of them may match.
    pub exclude: Vec<String>,
    /// Hosts to keep to, within the scope: `www.example.org` is that host, `*.example.org` is
    /// `example.org` and every name below it.
    pub sites: Vec<String>,
    /// Hosts to stay away from, written as in `sites`.
    pub sites_shut_out: Vec<String>,
    /// Directories above a document: 1 allows `/a/b.html`, not `/a/b/c.html`.
    #[serde(with = "no_limit")]
    pub max_directory_depth: Option<u32>,
    /// Links from the nearest seed; 0 keeps to the seeds.
    #[serde(with = "no_limit")]
    pub max_link_depth: Option<u16>,
    pub max_url_bytes: usize,
    /// How often the same segment may stand in a path. A group of two or more segments may stand
    /// in a row one time less, so that 3 refuses both `/x/x/x/x` and `/a/b/a/b/a/b`. 0: no limit.
    pub max_repeated_segments: usize,
    pub allow_query: bool,
    #[serde(with = "no_limit")]
    pub max_query_bytes: Option<usize>,
    #[serde(with = "no_limit")]
    pub max_query_parameters: Option<usize>,
    /// Characters or strings that no URL may contain.
    pub reserved_url_text: Vec<String>,
    /// Extensions of names that need not be asked for, as in `["iso", "zip"]`; any letter case.
    pub unwanted_extensions: Vec<String>,
    /// Ports that may be asked, and no others; an empty list allows all that a Web server may have.
    pub allowed_ports: Vec<u16>,
    /// Ports that may be asked, too, although another service usually has them.
    pub also_ports: Vec<u16>,
    /// Rules that raise or lower a URL's class; those that match add up.
    pub priorities: Vec<PriorityRule>,
    /// Do not follow links that are marked `nofollow`.
    pub respect_nofollow: bool,
    /// Fetch what pages embed (images, scripts, frames) also from outside the scope.
    pub embeds_off_scope: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PriorityRule {
    /// A regular expression over the canonical URL.
    pub pattern: String,
    /// Classes up, or down where negative.
    pub priority: i8,
}

/// A limit that may be absent, which settings files write as -1.
mod no_limit {
    use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error};

    pub(super) fn serialize<T, S>(limit: &Option<T>, out: S) -> Result<S::Ok, S::Error>
    where
        T: Copy + TryInto<i64>,
        S: Serializer,
    {
        limit
            .and_then(|limit| limit.try_into().ok())
            .unwrap_or(-1)
            .serialize(out)
    }

    pub(super) fn deserialize<'de, T, D>(input: D) -> Result<Option<T>, D::Error>
    where
        T: TryFrom<i64>,
        D: Deserializer<'de>,
    {
        match i64::deserialize(input)? {
            -1 => Ok(None),
            limit => T::try_from(limit)
                .map(Some)
                .map_err(|_| D::Error::custom(format!("{limit} is out of range; -1 is no limit"))),
        }
    }
}

impl Default for ScopeSettings {
    fn default() -> Self {
        Self {
            scope: ScopeKind::default(),
            include: Vec::new(),
            exclude: Vec::new(),
            sites: Vec::new(),
            sites_shut_out: Vec::new(),
            max_directory_depth: None,
            max_link_depth: None,
            max_url_bytes: 2000,
            max_repeated_segments: 3,
            allow_query: true,
            max_query_bytes: None,
            max_query_parameters: None,
            reserved_url_text: Vec::new(),
            unwanted_extensions: Vec::new(),
            allowed_ports: Vec::new(),
            also_ports: Vec::new(),
            priorities: Vec::new(),
            respect_nofollow: true,
            embeds_off_scope: false,
        }
    }
}

/// A setting that cannot be used.
#[derive(Debug, Error, Clone, PartialEq, Eq)]
pub enum ScopeError {
    #[error("{} '{text}' is not a regular expression: {problem}", as_typed(.setting))]
    Pattern {
        setting: &'static str,
        text: String,
        problem: String,
    },
    #[error(
        "the setting '{setting}' holds '{text}', which is not a host name; write it as in \
         'www.example.org' or '*.example.org'"
    )]
    Site { setting: &'static str, text: String },
}

/// How a person writes a setting: some have an option on the command line.
fn as_typed(setting: &str) -> String {
    match setting {
        "host.include" => "[[host]] include".to_owned(),
        "host.exclude" => "[[host]] exclude".to_owned(),
        _ => format!("setting scope.{setting}"),
    }
}

impl ScopeError {
    /// The name of the setting within `[scope]`.
    pub fn setting(&self) -> &'static str {
        match self {
            Self::Pattern { setting, .. } | Self::Site { setting, .. } => setting,
        }
    }

    pub(super) fn pattern(setting: &'static str, text: &str, error: &regex::Error) -> Self {
        // A syntax error draws the pattern on several lines; the last one says what is wrong.
        let told = error.to_string();
        let last = told.lines().last().unwrap_or_default().trim();
        Self::Pattern {
            setting,
            text: text.to_owned(),
            problem: last.trim_start_matches("error: ").to_owned(),
        }
    }
}
