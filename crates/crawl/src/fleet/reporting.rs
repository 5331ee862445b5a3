//! What the agent of a node says of it: once a second while the crawl runs, and once more when everything is shipped.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use portolan_fleet::{NodeStatus, PartitionStatus};
use tokio::time::Instant;

use super::agent::Agent;
use super::membership::PartitionLook;

const REPORT_EVERY: Duration = Duration::from_secs(1);
/// Workers answer a look within this time, or what they would have shown counts as busy.
const LOOK_PATIENCE: Duration = Duration::from_millis(500);
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// What rates are taken from.
struct Before {
    at: Instant,
    pages: u64,
    bytes: u64,
}

impl Agent {
    /// Says once a second how the node is, for as long as it lives.
    pub(super) async fn report(self: Arc<Self>) {
        let mut before = Before {
            at: Instant::now(),
            pages: 0,
            bytes: 0,
        };
        loop {
            let fleet_look = self.node.look();
            self.membership.set_quiet(self.node.is_quiet());
            let look = self.membership.begin_look();
            let patience = Instant::now() + LOOK_PATIENCE;
            let mut looks = self.membership.looks();
            while looks.iter().any(|shown| shown.look < look) && Instant::now() < patience {
                tokio::time::sleep(LOOK_EVERY).await;
                looks = self.membership.looks();
            }
            let report = self.node_status((fleet_look, look), &looks, &mut before);
            self.node.report(report).await;
            self.take_pages().await;
            tokio::time::sleep(REPORT_EVERY).await;
        }
    }

    /// What the node has come to, once everything is shipped: this is what `fleet traffic` tells when the crawl has ended.
    pub(super) async fn report_last(&self) {
        let mut before = Before {
            at: Instant::now(),
            pages: u64::MAX,
            bytes: u64::MAX,
        };
        let looks = self.membership.looks();
        let last = self.node_status((self.node.look(), u64::MAX), &looks, &mut before);
        self.node.report(last).await;
    }

    /// `fleet_look` was under way, and workers were asked for `look`, before `looks` were taken.
    fn node_status(
        &self,
        (fleet_look, look): (u64, u64),
        looks: &[PartitionLook],
        before: &mut Before,
    ) -> NodeStatus {
        // After the looks: what was outstanding before them and is not now was folded, and the next look sees it.
        let still = self.shared.outstanding.load(Ordering::SeqCst) == 0
            && self.acknowledged.load(Ordering::Acquire) >= self.settler.committed();
        let waited = self.membership.has_waited();
        let status = |shown: &PartitionLook| PartitionStatus {
            partition: shown.partition.0,
            epoch: self.epoch_of(shown.partition).unwrap_or_default(),
            sent: shown.exchanged.0,
            heard: shown.exchanged.1,
            known: shown.known,
            due: shown.due,
            visited: shown.visited,
            exhausted: shown.look >= look && (shown.exhausted || (waited && shown.rests)),
            // Of a moment ago is good enough: nothing ends by it.
            waits: waited && (shown.waits || shown.exhausted),
            settled: still,
            bytes: shown.body_bytes as f64,
            requests: shown.requests as f64,
        };
        let metrics = &self.shared.metrics;
        // What clients brought, they have counted.
        let brought = self.membership.desk().map(|desk| &desk.counts.pages);
        let brought = brought.map_or(0, |pages| pages.load(Ordering::Relaxed));
        let pages = metrics
            .pages
            .load(Ordering::Relaxed)
            .saturating_sub(brought);
        let bytes = metrics.wire_bytes.load(Ordering::Relaxed);
        let now = Before {
            at: Instant::now(),
            pages,
            bytes,
        };
        let before = std::mem::replace(before, now);
        let seconds = before.at.elapsed().as_secs_f64().max(0.001);
        let turns = |gauges: &Arc<crate::worker::Gauges>| gauges.turns.load(Ordering::Relaxed);
        NodeStatus {
            look: fleet_look,
            partitions: looks.iter().map(status).collect(),
            pages,
            pages_per_s: pages.saturating_sub(before.pages) as f64 / seconds,
            bytes_per_s: bytes.saturating_sub(before.bytes) as f64 / seconds,
            unshipped_bytes: self.unshipped_bytes.load(Ordering::Relaxed),
            shipped_bytes: self.shipped_bytes.load(Ordering::Relaxed),
            checkpoint_bytes: self.checkpoints.bytes(),
            prepared: self.gathering.prepared(),
            links_sent: self.links.0.load(Ordering::Relaxed),
            links_heard: self.links.1.load(Ordering::Relaxed),
            connections: self.gauges.iter().map(turns).sum(),
            trouble: self.trouble_now(),
            stopped: self.membership.is_stopped(),
            ..self.role_status()
        }
    }

    /// What goes between seed-servers and crawl-clients, and between partitions.
    fn role_status(&self) -> NodeStatus {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let (link_messages, link_bytes) = self.node.links_sent();
        let mut status = NodeStatus {
            role: self.role.name().to_owned(),
            link_messages,
            link_bytes,
            link_url_bytes: read(&self.link_url_bytes),
            ..NodeStatus::default()
        };
        if let Some(desk) = self.membership.desk() {
            let counts = &desk.counts;
            status.grants = read(&counts.grants);
            status.returns = read(&counts.returns);
            status.expired = read(&counts.expired);
            status.grant_bytes = read(&counts.grant_bytes);
            status.return_bytes = read(&counts.return_bytes);
        }
        if let Some(side) = &self.client {
            status.target = side.target();
            status.hurries = read(&side.hurries);
            status.slows = read(&side.slows);
            status.pace = side.pace().to_owned();
            status.grants = read(&side.grants);
            status.returns = read(&side.returns);
            status.expired = read(&side.late);
            status.grant_bytes = read(&side.grant_bytes);
            status.return_bytes = read(&side.return_bytes);
        }
        status
    }

    fn trouble_now(&self) -> String {
        let mut words = vec![self.membership.why_still().to_owned()];
        words.extend(self.fleet.blobs().trouble());
        let matters = self.trouble.lock().unwrap_or_else(PoisonError::into_inner);
        words.extend(
            matters
                .iter()
                .map(|(matter, why)| format!("{}: {why}", matter.words())),
        );
        words.retain(|words| !words.is_empty());
        words.join("; ")
    }
}
