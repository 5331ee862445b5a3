//! The fleet as a person sees it from outside.

use super::Fleet;
use crate::error::FleetError;
use crate::nats::{Kv, patiently};
use crate::protocol::{Assignment, Control, Holder, LeaseRecord};
use crate::status::{FleetStatus, HubContact, HubView, NodeView, Reported};
use crate::{Group, Incarnation, names};
use async_nats::jetstream::Context;
use futures_util::TryStreamExt;
use std::collections::{BTreeMap, BTreeSet};
use std::time::SystemTime;

impl Fleet {
    /// How the fleet is now. Nothing of it is kept up to date.
    pub async fn status(&self) -> Result<FleetStatus, FleetError> {
        let (_, control) = self.control().await?;
        let (_, assignment) = self.assignment().await?;
        let leases = self.lease_records().await?;
        let mut names: BTreeSet<&str> = leases.keys().map(String::as_str).collect();
        let holders = assignment
            .shares
            .iter()
            .filter_map(|share| share.holder.as_ref());
        names.extend(holders.map(|holder| holder.node.as_str()));
        let mut nodes = BTreeMap::new();
        for name in names {
            let view = self
                .view(name, leases.get(name), &assignment, &control)
                .await?;
            nodes.insert(name.to_owned(), view);
        }
        let coordinator = self.main().get(names::COORDINATOR).await?.value;
        let coordinator =
            coordinator.and_then(|json| serde_json::from_slice::<LeaseRecord>(&json).ok());
        let (links_waiting, links_waiting_bytes) = self.links_waiting().await?;
        let (ship_records, ..) = state(&self.bus().js, &self.bus().names.ship_stream()).await?;
        Ok(FleetStatus {
            name: self.definition().name.clone(),
            wish: control.wish,
            partitions: self.definition().own_partitions(),
            hub: self.hub_view().await?,
            coordinator: coordinator.map(|record| record.place),
            free: assignment.free(),
            assignment,
            nodes,
            links_waiting,
            links_waiting_bytes,
            ship_records,
            pages_left: self.budget().await?.left(),
        })
    }

    /// The partitions whose checkpoints a node has fetched beforehand, with the last entries that are in these. Nothing if
    /// that cannot be found out now.
    pub async fn prepared_by(&self, node: &str) -> BTreeMap<u16, u64> {
        let entry = self.main().get(&names::status_key(node)).await;
        let json = entry.ok().and_then(|entry| entry.value);
        let reported = json.and_then(|json| serde_json::from_slice::<Reported>(&json).ok());
        reported.map_or_else(BTreeMap::new, |reported| {
            reported.status.prepared.into_iter().collect()
        })
    }

    /// Has one of the nodes a lease that carries nothing, as crawl-clients do? One whose lease has ended asks nothing any more.
    pub async fn has_clients(&self) -> Result<bool, FleetError> {
        let records = patiently(|| self.lease_records()).await?;
        Ok(records.values().any(|record| record.weight <= 0.0))
    }

    async fn view(
        &self,
        node: &str,
        lease: Option<&LeaseRecord>,
        assignment: &Assignment,
        control: &Control,
    ) -> Result<NodeView, FleetError> {
        let entry = self.main().get(&names::status_key(node)).await?;
        let reported: Option<Reported> = entry
            .value
            .and_then(|json| serde_json::from_slice(&json).ok());
        let of = |share: &&crate::protocol::Share| {
            share
                .holder
                .as_ref()
                .is_some_and(|holder| holder.node == node)
        };
        let life = || {
            assignment
                .shares
                .iter()
                .filter_map(|share| share.holder.as_ref())
                .find(|h| h.node == node)
        };
        let incarnation = |holder: &Holder| -> Incarnation { holder.incarnation };
        Ok(NodeView {
            incarnation: lease
                .map(|lease| lease.incarnation)
                .or(life().map(incarnation))
                .unwrap_or(0),
            alive: lease.is_some(),
            draining: control.draining.contains(node),
            holds: assignment.shares.iter().filter(of).count(),
            reported,
            silent_s: silent_s(entry.written_ms),
        })
    }

    /// What each node said of itself last, also those that have left or are lost.
    pub async fn reports(&self) -> Result<BTreeMap<String, Reported>, FleetError> {
        let unavailable =
            |error: &dyn std::fmt::Display| FleetError::Unavailable(error.to_string());
        let bucket = Kv::stream_name(&self.bus().names.bucket());
        let stream = self.bus().js.get_stream_no_info(bucket).await;
        let stream = stream.map_err(|error| unavailable(&error))?;
        let of_all = self.main().subject(&names::status_key("*"));
        let subjects = stream.info_with_subjects(of_all).await;
        let subjects: Vec<_> = subjects
            .map_err(|error| unavailable(&error))?
            .try_collect()
            .await
            .map_err(|error| unavailable(&error))?;
        let mut reports = BTreeMap::new();
        for (subject, _) in subjects {
            let node = names::last_token(&subject).to_owned();
            let json = self.main().get(&names::status_key(&node)).await?.value;
            let reported = json.and_then(|json| serde_json::from_slice(&json).ok());
            reports.extend(reported.map(|reported| (node, reported)));
        }
        Ok(reports)
    }

    /// The leases that are held now, by the names of their nodes.
    pub(crate) async fn lease_records(&self) -> Result<BTreeMap<String, LeaseRecord>, FleetError> {
        let unavailable =
            |error: &dyn std::fmt::Display| FleetError::Unavailable(error.to_string());
        let bucket = Kv::stream_name(&self.bus().names.leases());
        let stream = self
            .bus()
            .js
            .get_stream_no_info(bucket)
            .await
            .map_err(|error| unavailable(&error))?;
        let subjects = stream.info_with_subjects(self.leases().subject(">")).await;
        let subjects: Vec<_> = subjects
            .map_err(|error| unavailable(&error))?
            .try_collect()
            .await
            .map_err(|error| unavailable(&error))?;
        let mut records = BTreeMap::new();
        for (subject, _) in subjects {
            let node = names::last_token(&subject).to_owned();
            let entry = self.leases().get(&names::lease_key(&node)).await?;
            if let Some(record) = entry
                .value
                .and_then(|json| serde_json::from_slice(&json).ok())
            {
                records.insert(node, record);
            }
        }
        Ok(records)
    }

    /// What the group's coordinator said last of the hub.
    async fn hub_view(&self) -> Result<Option<HubView>, FleetError> {
        let Some(group) = self.group() else {
            return Ok(None);
        };
        let entry = self.main().get(names::HUB).await?;
        let said: Option<HubContact> = entry
            .value
            .and_then(|json| serde_json::from_slice(&json).ok());
        let (up, up_bytes) = self.up_waiting(group).await?;
        Ok(Some(HubView {
            crawl: group.crawl.clone(),
            group: group.name.clone(),
            domain: group.hub_domain.clone(),
            contact: said,
            silent_s: silent_s(entry.written_ms),
            up,
            up_bytes,
        }))
    }

    /// Messages of links that wait to go up, by group, and the bytes of all of them.
    pub(crate) async fn up_waiting(
        &self,
        group: &Group,
    ) -> Result<(BTreeMap<String, u64>, u64), FleetError> {
        let unavailable =
            |error: &dyn std::fmt::Display| FleetError::Unavailable(error.to_string());
        let bus = self.bus();
        let stream = patiently(|| async {
            let found = bus.js.get_stream(bus.names.up_stream()).await;
            found.map_err(|error| unavailable(&error))
        })
        .await?;
        let mut waiting: BTreeMap<String, u64> =
            group.others().map(|other| (other.to_owned(), 0)).collect();
        let subjects = stream.info_with_subjects(bus.names.up_subjects()).await;
        let subjects: Vec<_> = subjects
            .map_err(|error| unavailable(&error))?
            .try_collect()
            .await
            .map_err(|error| unavailable(&error))?;
        for (subject, messages) in subjects {
            if let Some(group) = subject.rsplit('.').nth(1) {
                *waiting.entry(group.to_owned()).or_default() += messages as u64;
            }
        }
        Ok((waiting, stream.cached_info().state.bytes))
    }

    /// Messages and bytes of all link streams.
    async fn links_waiting(&self) -> Result<(u64, u64), FleetError> {
        let (mut messages, mut bytes) = (0, 0);
        for stream in 0..names::LINK_STREAMS {
            let (more, more_bytes) =
                state(&self.bus().js, &self.bus().names.links_stream(stream)).await?;
            messages += more;
            bytes += more_bytes;
        }
        Ok((messages, bytes))
    }
}

/// Clocks that differ may say less than nothing.
fn silent_s(written_ms: u64) -> f64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let now_ms = now.map_or(0, |now| now.as_millis() as u64);
    now_ms.saturating_sub(written_ms) as f64 / 1e3
}

async fn state(js: &Context, stream: &str) -> Result<(u64, u64), FleetError> {
    patiently(|| async {
        let found = js.get_stream(stream).await;
        let found = found.map_err(|error| FleetError::Unavailable(error.to_string()))?;
        let state = &found.cached_info().state;
        Ok((state.messages, state.bytes))
    })
    .await
}
