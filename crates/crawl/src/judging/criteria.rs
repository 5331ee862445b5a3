//! What decides whether a URL is fetched: the settings that have a say, and the roots of the scope. The file `judged`
//! says by which of them the verdicts in the registry were made, so that a run with others sees that it has to judge
//! again.

use std::collections::BTreeMap;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::directory;
use crate::error::CrawlError;
use crate::scope::Scope;
use crate::sealed::{seal, unseal};
use crate::settings::Settings;

/// By what the URLs in the registry were judged.
pub(crate) const JUDGED_FILE: &str = "judged";

/// Settings that decide about URLs, by the start of their names.
const DECIDING: [&str; 10] = [
    "scope.",
    "content.",
    "robots.meta",
    "robots.sitemaps",
    "robots.max_sitemap_depth",
    "limits.max_pages_per_host",
    "limits.max_redirects",
    "dns.allow_",
    "dns.resolve",
    "host",
];
/// Of those, what decides nothing.
const NOT_DECIDING: [&str; 1] = ["content.simhash"];

/// Stands for the roots where changes are listed.
const ROOTS: &str = "the seeds";

/// All that decides, comparable.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Criteria {
    /// A digest of the scope's roots: seeds, and what they redirected to.
    roots: String,
    settings: BTreeMap<String, toml::Value>,
}

/// The file's content.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Judged {
    /// Judging by other criteria began and did not end: some verdicts are by these, some by others.
    unfinished: bool,
    criteria: Criteria,
}

/// What differs between the verdicts in the registry and the criteria that hold now. Names of settings, in order.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Changes {
    names: Vec<String>,
    /// Nobody knows by what the registry was judged.
    unknown: bool,
}

impl Criteria {
    pub(crate) fn of(settings: &Settings, scope: &Scope) -> Result<Self, CrawlError> {
        let table =
            toml::Table::try_from(settings).map_err(|e| CrawlError::Internal(e.to_string()))?;
        let mut flat = BTreeMap::new();
        for (section, value) in table {
            match value {
                toml::Value::Table(inner) => flat.extend(
                    inner
                        .into_iter()
                        .map(|(name, value)| (format!("{section}.{name}"), value)),
                ),
                toml::Value::Array(blocks) if section == "host" => {
                    flat.insert(section, host_rules(blocks));
                }
                _ => {}
            }
        }
        flat.retain(|name, _| {
            DECIDING.iter().any(|start| name.starts_with(start))
                && !NOT_DECIDING.contains(&name.as_str())
        });
        Ok(Self {
            roots: format!("{:016x}", scope.roots_digest()),
            settings: flat,
        })
    }
}

/// What `[[host]]` blocks decide about URLs, and nothing of what they keep secret.
fn host_rules(blocks: Vec<toml::Value>) -> toml::Value {
    let rules = blocks.into_iter().filter_map(|block| match block {
        toml::Value::Table(mut block) => {
            block.retain(|name, _| ["match", "max_pages", "include", "exclude"].contains(&name));
            // A block that only says whom it is for decides nothing.
            (block.len() > 1).then_some(toml::Value::Table(block))
        }
        _ => None,
    });
    toml::Value::Array(rules.collect())
}

impl Criteria {
    /// Names of what is not the same, in order.
    pub(crate) fn differs(&self, now: &Self) -> Vec<String> {
        let names = self.settings.keys().chain(now.settings.keys());
        let mut names: Vec<String> = names
            .filter(|name| self.settings.get(*name) != now.settings.get(*name))
            .cloned()
            .collect();
        names.sort();
        names.dedup();
        if self.roots != now.roots {
            names.push(ROOTS.to_owned());
        }
        names
    }
}

impl Judged {
    /// `None` where no file says it.
    pub(crate) fn read(dir: &Path) -> Result<Option<Self>, CrawlError> {
        let path = dir.join(JUDGED_FILE);
        if !path.exists() {
            return Ok(None);
        }
        let sealed = directory::read(&path)?;
        let text = unseal(
            &sealed,
            &path,
            ", or delete it: then all URLs are judged again",
        )?;
        toml::from_str(text)
            .map(Some)
            .map_err(|e| CrawlError::Input(format!("{}: {e}", path.display())))
    }

    /// All URLs in the registry are judged by `criteria`.
    pub(crate) fn remember(dir: &Path, criteria: &Criteria) -> Result<(), CrawlError> {
        Self {
            unfinished: false,
            criteria: criteria.clone(),
        }
        .write(dir)
    }

    /// From now on some verdicts may be by other criteria than these.
    pub(crate) fn begin(self, dir: &Path) -> Result<(), CrawlError> {
        Self {
            unfinished: true,
            ..self
        }
        .write(dir)
    }

    fn write(&self, dir: &Path) -> Result<(), CrawlError> {
        let text = toml::to_string(self).map_err(|e| CrawlError::Internal(e.to_string()))?;
        directory::replace(dir, JUDGED_FILE, seal(&text).as_bytes())
    }

    /// What has changed since the URLs were judged; `None` if nothing has, and all of them were.
    pub(crate) fn changes(judged: Option<&Self>, now: &Criteria) -> Option<Changes> {
        let Some(Self {
            unfinished,
            criteria: before,
        }) = judged
        else {
            return Some(Changes {
                names: Vec::new(),
                unknown: true,
            });
        };
        let names = before.differs(now);
        let none = names.is_empty() && !unfinished;
        (!none).then_some(Changes {
            names,
            unknown: false,
        })
    }

    pub(crate) fn is_unfinished(&self) -> bool {
        self.unfinished
    }

    /// Was a setting on when the URLs were judged?
    pub(crate) fn was_on(&self, name: &str) -> bool {
        self.criteria.settings.get(name) == Some(&toml::Value::Boolean(true))
    }

    /// The number that a setting had when the URLs were judged.
    pub(crate) fn number(&self, name: &str) -> Option<u64> {
        let value = self.criteria.settings.get(name)?.as_integer()?;
        u64::try_from(value).ok()
    }
}

impl Changes {
    /// Has a setting changed whose name starts so?
    pub(crate) fn touch(&self, start: &str) -> bool {
        self.unknown || self.names.iter().any(|name| name.starts_with(start))
    }

    /// Have the scope's roots changed?
    pub(crate) fn touch_roots(&self) -> bool {
        self.touch(ROOTS)
    }

    /// For a sentence: which settings changed.
    pub(crate) fn names(&self) -> &[String] {
        &self.names
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use portolan_model::CanonicalUrl;

    fn criteria(settings: &str, seeds: &[&str]) -> Criteria {
        let settings = Settings::with_overrides(settings).unwrap();
        let roots: Vec<CanonicalUrl> = seeds
            .iter()
            .map(|seed| CanonicalUrl::from_canonical((*seed).to_owned()).unwrap())
            .collect();
        let scope = crate::assembly::scope(&settings, &roots).unwrap();
        Criteria::of(&settings, &scope).unwrap()
    }

    #[test]
    fn only_what_decides_is_compared() {
        let before = criteria("", &["http://a.test/"]);
        let changes = |settings: &str, seeds: &[&str]| {
            let judged = Judged {
                unfinished: false,
                criteria: before.clone(),
            };
            let changes = Judged::changes(Some(&judged), &criteria(settings, seeds));
            changes.map(|changes| changes.names)
        };
        let same = ["http://a.test/"];
        assert_eq!(changes("", &same), None);
        // A seed on a host that is in scope already changes nothing, and in any order.
        assert_eq!(changes("", &["https://a.test/x", "http://a.test/"]), None);
        for other in [
            "[limits]\nmax_pages = 5\ntime_limit_s = 3.0",
            "[content]\nsimhash = false",
            "[politeness]\ndelay_ms = 0",
            "[[host]]\nmatch = \"*\"\nauth = \"me:hunter2\"",
        ] {
            assert_eq!(changes(other, &same), None, "{other}");
        }
        let told = changes(
            "[scope]\nscope = \"any\"\n[content]\ntypes = [\"text/html\"]",
            &same,
        );
        let by_host = changes("[[host]]\nmatch = \"*\"\nmax_pages = 3", &same);
        assert_eq!(by_host.unwrap(), ["host"]);
        let secret = criteria(
            "[[host]]\nmatch = \"*\"\nmax_pages = 3\nauth = \"me:hunter2\"",
            &same,
        );
        assert!(!format!("{secret:?}").contains("hunter2"));
        // The roots of the whole Web are others.
        assert_eq!(told.unwrap(), ["content.types", "scope.scope", ROOTS]);
        let told = changes("", &["http://a.test/", "http://b.test/"]);
        assert_eq!(told.unwrap(), [ROOTS]);
    }

    #[test]
    fn what_was_begun_or_is_unknown_is_judged_again() {
        let dir = tempfile::tempdir().unwrap();
        let now = criteria("", &["http://a.test/"]);
        let unknown = Judged::changes(Judged::read(dir.path()).unwrap().as_ref(), &now);
        assert!(unknown.unwrap().touch("content.types"));
        Judged::remember(dir.path(), &now).unwrap();
        let judged = Judged::read(dir.path()).unwrap().unwrap();
        assert_eq!(Judged::changes(Some(&judged), &now), None);
        judged.begin(dir.path()).unwrap();
        let judged = Judged::read(dir.path()).unwrap().unwrap();
        assert_eq!(
            Judged::changes(Some(&judged), &now),
            Some(Changes::default())
        );
        assert!(judged.is_unfinished());
        assert!(!judged.was_on("content.embeds") && judged.was_on("content.feeds"));
        assert_eq!(judged.number("content.max_links"), Some(10_000));
        std::fs::write(dir.path().join(JUDGED_FILE), "").unwrap();
        let said = Judged::read(dir.path()).unwrap_err().to_string();
        assert!(said.contains("judged is empty"), "{said}");
    }
}
