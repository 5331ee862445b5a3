//! Settings that a person changes while a fleet is at work: which may be changed, and how a node notices.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use portolan_model::CanonicalUrl;
use toml::{Table, Value};

use super::agent::Agent;
use crate::assembly;
use crate::budget::StoppedBy;
use crate::crawl::Seed;
use crate::error::CrawlError;
use crate::judging::Criteria;
use crate::settings::Settings;
use crate::start;

const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Beginnings of the names of those that may be changed, unless they decide which URLs are crawled.
const MAY_CHANGE: [&str; 9] = [
    "identity.",
    "access.",
    "limits.",
    "politeness.",
    "outages.",
    "dns.",
    "http.",
    "fleet.",
    "registry.memory_mb",
];
/// Those have their own way.
const NOT_SO: [(&str, &str); 2] = [
    (
        "limits.max_pages",
        "the fleet has a limit of its own for all nodes together",
    ),
    ("limits.time_limit_s", "a fleet ends when a person ends it"),
];

/// The settings `text` with some changed, each written `NAME=VALUE`. An error names the one that cannot be changed while
/// the fleet is at work.
pub fn change_settings(text: &str, changes: &[String]) -> Result<String, CrawlError> {
    let old = Settings::with_overrides(text)
        .map_err(|e| CrawlError::Input(e.in_file("the fleet's settings")))?;
    let internal = |e: toml::ser::Error| CrawlError::Internal(e.to_string());
    let mut table = Table::try_from(&old).map_err(internal)?;
    for change in changes {
        let wrong = |what: &str| CrawlError::Input(format!("{change}: {what}"));
        let (name, value) = change
            .split_once('=')
            .ok_or_else(|| wrong("NAME=VALUE is wanted"))?;
        let (name, value) = (name.trim(), value.trim());
        if let Some((_, why)) = NOT_SO.iter().find(|(not_so, _)| *not_so == name) {
            return Err(wrong(why));
        }
        if !MAY_CHANGE.iter().any(|start| name.starts_with(start)) {
            return Err(wrong(
                "this cannot be changed while a fleet is at work; make a new fleet with it",
            ));
        }
        let place = name.split_once('.').and_then(|(section, name)| {
            let Value::Table(section) = table.get_mut(section)? else {
                return None;
            };
            section.get_mut(name)
        });
        let place = place.ok_or_else(|| wrong("there is no such setting"))?;
        *place = parsed(value);
    }
    let changed = toml::to_string(&table).map_err(internal)?;
    let new = Settings::with_overrides(&changed)
        .map_err(|e| CrawlError::Input(e.in_file("the changed settings")))?;
    new.check()?;
    check_for_nodes(&new, &[])?;
    refuse_other_verdicts(&old, &new)?;
    toml::to_string(&new).map_err(internal)
}

/// Finds what every node would refuse to begin with, for whoever makes a fleet.
pub fn check_for_nodes(settings: &Settings, seeds: &[Seed]) -> Result<(), CrawlError> {
    start::check_for_nodes(settings, seeds)
}

/// As TOML, or as a text that was not put into quotes.
fn parsed(value: &str) -> Value {
    let read: Option<Table> = toml::from_str(&format!("value = {value}")).ok();
    let read = read.and_then(|mut table| table.remove("value"));
    read.unwrap_or_else(|| Value::String(value.to_owned()))
}

/// A partition that comes from a lost node is not judged again.
fn refuse_other_verdicts(old: &Settings, new: &Settings) -> Result<(), CrawlError> {
    let criteria = |settings| {
        let scope = assembly::scope(settings, std::iter::empty::<&CanonicalUrl>())?;
        Criteria::of(settings, &scope)
    };
    let changes = criteria(old)?.differs(&criteria(new)?);
    match changes.first() {
        None => Ok(()),
        Some(name) => Err(CrawlError::Input(format!(
            "{name} decides which URLs are crawled. It cannot be changed while a fleet is at work; make a new fleet \
             with it"
        ))),
    }
}

/// Ends the crawl on this node when there are newer settings, and says so: it goes on with them at once.
pub(super) async fn watch(agent: Arc<Agent>, version: u64, changed: Arc<AtomicBool>) {
    loop {
        tokio::time::sleep(LOOK_EVERY).await;
        if agent
            .fleet
            .settings()
            .await
            .is_ok_and(|(now, _)| now != version)
        {
            changed.store(true, Ordering::Release);
            agent.shared.budget.stop(StoppedBy::Signal);
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(changes: &[&str]) -> Result<Settings, String> {
        let changes: Vec<String> = changes.iter().map(|&change| change.to_owned()).collect();
        let text = change_settings("[politeness]\ndelay_ms = 500\n", &changes);
        let text = text.map_err(|error| error.to_string())?;
        Settings::with_overrides(&text).map_err(|error| error.to_string())
    }

    #[test]
    fn what_may_be_changed_is_and_the_rest_is_refused_by_name() {
        let changed =
            change(&["politeness.delay_ms=2000", "identity.contact=a@b.test"]).expect("changed");
        assert_eq!(changed.politeness.delay_ms, 2_000);
        assert_eq!(changed.identity.contact, "a@b.test");
        for (refused, why) in [
            ("scope.max_depth=3", "make a new fleet"),
            ("limits.max_redirects=3", "decides which URLs"),
            ("limits.max_pages=3", "a limit of its own"),
            ("politeness.delay_ms", "NAME=VALUE"),
            ("politeness.nothing=3", "no such setting"),
            ("politeness.delay_ms=soon", "delay_ms"),
        ] {
            let error = change(&[refused]).expect_err(refused);
            assert!(error.contains(why), "{refused}: {error}");
        }
    }
}
