//! A group's coordinator and the hub: tells it how the group is and what it answers to a look, hears what all groups are to
//! do, and takes the next step for all of them where it is due. While the hub is away the group goes on; it says since when.

use super::Inner;
use crate::error::FleetError;
use crate::group::Group;
use crate::hub::{GroupFigures, GroupReport, Hub};
use crate::names;
use crate::nats::{Follower, Kv};
use crate::protocol::Event;
use crate::status::{HubContact, Wish};
use std::collections::{BTreeMap, HashSet};
use std::sync::{Arc, PoisonError};
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::Instant;

/// How often the hub is met.
const ROUND: Duration = Duration::from_secs(1);

/// How often it hears the group's figures: they take the servers some work.
const FIGURES: Duration = Duration::from_secs(5);

/// How often this group's store is looked into for redirects of seeds.
const ROOTS: Duration = Duration::from_secs(5);

/// Where nodes put redirects of seeds, which widen the scope of the whole crawl, in their store.
const ROOTS_PREFIX: &str = "roots/";

/// What is known of the hub.
struct Met {
    hub: Option<Hub>,
    figures: GroupFigures,
    counted: Option<Instant>,
    /// When it last answered, or this began.
    last: Instant,
}

impl Inner {
    /// For as long as this node coordinates; the coordinator hears of the hub by `events`.
    pub(super) async fn ascend(
        self: Arc<Self>,
        group: Arc<Group>,
        events: mpsc::UnboundedSender<Vec<Event>>,
    ) {
        let mut met = Met {
            hub: None,
            figures: GroupFigures::default(),
            counted: None,
            last: Instant::now(),
        };
        loop {
            let mut contact = HubContact {
                not_taken: self.not_taken().clone(),
                ..HubContact::default()
            };
            match self.meet(&group, &mut met, &events).await {
                Ok(()) => met.last = Instant::now(),
                Err(error) => {
                    // When it comes back, it may be another one.
                    met.hub = None;
                    contact.away_s = met.last.elapsed().as_secs_f64();
                    contact.trouble = error.to_string();
                }
            }
            if let Ok(json) = serde_json::to_vec(&contact)
                && let Err(error) = self.fleet.main().put(names::HUB, json.into()).await
            {
                tracing::debug!(%error, "what is known of the hub was not written");
            }
            tokio::time::sleep(ROUND).await;
        }
    }

    async fn meet(
        &self,
        group: &Group,
        met: &mut Met,
        events: &mpsc::UnboundedSender<Vec<Event>>,
    ) -> Result<(), FleetError> {
        let hub = match &met.hub {
            Some(hub) => hub.clone(),
            None => met.hub.insert(self.reach(group).await?).clone(),
        };
        let (revision, above) = hub.above().await?;
        let heard = Event::Above {
            revision,
            above: above.clone(),
        };
        // The coordinator may have come to its end.
        let _ = events.send(vec![heard]);
        if met
            .counted
            .is_none_or(|counted| counted.elapsed() >= FIGURES)
        {
            met.figures = self.figures(group).await?;
            met.counted = Some(Instant::now());
        }
        let answer = *self.answer.lock().unwrap_or_else(PoisonError::into_inner);
        let report = GroupReport {
            answer,
            figures: met.figures.clone(),
        };
        let json = serde_json::to_vec(&report).unwrap_or_default();
        let key = names::group_key(&group.name);
        hub.kv().put(&key, json.into()).await?;
        // Others may be the last to answer; each group looks.
        if above.wish != Wish::Run || answer.is_none_or(|answer| answer.look != above.look) {
            return Ok(());
        }
        let mut answers = BTreeMap::new();
        for name in &group.groups {
            let (report, _) = hub.report_of(name).await?;
            if let Some(answer) = report.and_then(|report| report.answer) {
                answers.insert(name.clone(), answer);
            }
        }
        if let Some(next) = above.next(&group.groups, &answers) {
            tracing::debug!(look = next.look, wish = ?next.wish, "the groups agree");
            hub.agree(&next, revision).await?;
        }
        Ok(())
    }

    async fn reach(&self, group: &Group) -> Result<Hub, FleetError> {
        let hub = Hub::reach(self.fleet.bus(), &group.hub_domain, &group.crawl).await?;
        let crawl = hub.definition();
        if crawl.id != group.crawl_id || crawl.checksum() != group.crawl_checksum {
            return Err(FleetError::Refused(format!(
                "the hub has another crawl '{}' than the one that this group was made for",
                group.crawl
            )));
        }
        Ok(hub)
    }

    async fn figures(&self, group: &Group) -> Result<GroupFigures, FleetError> {
        let status = self.fleet.status().await?;
        let (up, up_bytes) = self.fleet.up_waiting(group).await?;
        let mut figures = GroupFigures {
            wish: status.wish,
            up,
            up_bytes,
            ..GroupFigures::default()
        };
        for node in status.nodes.values().filter(|node| node.alive) {
            figures.nodes += 1;
            let Some(reported) = &node.reported else {
                continue;
            };
            figures.pages_per_s += reported.status.pages_per_s;
            for of in &reported.status.partitions {
                figures.known += of.known;
                figures.due += of.due;
                figures.visited += of.visited;
            }
        }
        Ok(figures)
    }

    /// Tells other groups of redirects of seeds that this one met, and hears of theirs. What a group learns is put where its
    /// nodes look.
    pub(super) async fn exchange_roots(self: Arc<Self>, group: Arc<Group>) {
        let hub = loop {
            match self.reach(&group).await {
                Ok(hub) => break hub,
                Err(error) => {
                    tracing::debug!(%error, "the hub is not reached");
                    tokio::time::sleep(ROOTS).await;
                }
            }
        };
        let bus = self.fleet.bus();
        let stream = Kv::stream_name(&names::Names(group.crawl.clone()).hub_bucket());
        let filter = hub.kv().subject(&names::root_key("*"));
        let js = bus.domain(&group.hub_domain);
        let mut theirs = Follower::new(&js, stream, vec![filter], 1, 16);
        let mut known = HashSet::new();
        let mut tick = tokio::time::interval(ROOTS);
        let blobs = self.fleet.blobs();
        loop {
            tokio::select! {
                root = theirs.next() => {
                    let hash = names::last_token(&root.subject).to_owned();
                    if let Some(url) = root.value && known.insert(hash.clone()) {
                        blobs.put(&format!("{ROOTS_PREFIX}{hash}"), url).await;
                    }
                }
                _ = tick.tick() => {
                    for object in blobs.list(ROOTS_PREFIX).await {
                        let Some(hash) = object.key.strip_prefix(ROOTS_PREFIX) else {
                            continue;
                        };
                        if known.contains(hash) {
                            continue;
                        }
                        let Some(url) = blobs.get(&object.key).await else {
                            continue;
                        };
                        if hub.kv().put(&names::root_key(hash), url).await.is_ok() {
                            known.insert(hash.to_owned());
                        }
                    }
                }
            }
        }
    }
}
