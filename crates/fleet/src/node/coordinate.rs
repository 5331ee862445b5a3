//! Coordinates the fleet while this node has the coordinator's lease, and waits for it otherwise.

use super::Inner;
use crate::error::FleetError;
use crate::nats::{Followed, Follower, Kv, Swap};
use crate::protocol::{
    Action, Assignment, Coordinator, Event, Keeper, KeeperAction, LeaseRecord, LogEvent, Patience,
    Renewal,
};
use crate::records::{Incarnation, ShipRecord};
use crate::ship::Ship;
use crate::{boottime_ms, budget, names};
use async_nats::jetstream::stream::Info;
use bytes::Bytes;
use std::sync::{Arc, PoisonError};
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

/// The coordinator decides at least this often.
const TICK: Duration = Duration::from_millis(250);

/// How often those that wait look at the coordinator's lease.
const LOOK: Duration = Duration::from_millis(500);

impl Inner {
    pub(super) async fn coordinate(self: Arc<Self>) {
        loop {
            match self.become_coordinator().await {
                Ok(keeper) => {
                    tracing::info!("coordinates the fleet");
                    if let Err(error) = self.clone().be_coordinator(keeper).await {
                        tracing::debug!(%error, "coordinates no more");
                    }
                }
                Err(error) => tracing::debug!(%error, "the coordinator's lease was not read"),
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    /// The coordinator's lease is short: nobody's pages wait for it, and a lost node is judged only once it is held.
    fn coordinator_lease_ms(&self) -> u64 {
        self.fleet.definition().lease_ms / 3
    }

    fn lease_record(&self, renewed: u64) -> Bytes {
        let record = LeaseRecord {
            incarnation: self.me.incarnation,
            session: self.session,
            place: self.me.node.clone(),
            weight: 0.0,
            renewed,
            program: String::new(),
        };
        serde_json::to_vec(&record).unwrap_or_default().into()
    }

    /// Waits until the lease is this node's.
    async fn become_coordinator(&self) -> Result<Keeper, FleetError> {
        let lease_ms = self.coordinator_lease_ms();
        let patience = Patience::of(lease_ms);
        let mut watched = (0, 0);
        loop {
            let entry = self.fleet.main().get(names::COORDINATOR).await?;
            let now_ms = boottime_ms();
            if watched.0 != entry.revision {
                watched = (entry.revision, now_ms);
            }
            let over = entry.value.is_none()
                || self.was_this_node(entry.value.as_deref())
                || now_ms > watched.1 + lease_ms + patience.margin_ms;
            if over && self.lease.may_ask() {
                let sent_ms = boottime_ms();
                let record = self.lease_record(0);
                let swap = self
                    .fleet
                    .main()
                    .swap(names::COORDINATOR, Some(record), entry.revision)
                    .await?;
                if let Swap::Done(revision) = swap {
                    return Ok(Keeper::new(lease_ms, revision, sent_ms));
                }
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    /// A process that went by this node's name before is gone: this one has the node's lease.
    fn was_this_node(&self, json: Option<&[u8]>) -> bool {
        let record = json.and_then(|json| serde_json::from_slice::<LeaseRecord>(json).ok());
        record.is_some_and(|record| record.place == self.me.node && record.session != self.session)
    }

    /// Ends when the lease is lost, or could not be renewed in time.
    async fn be_coordinator(self: Arc<Self>, mut keeper: Keeper) -> Result<(), FleetError> {
        let fleet = &self.fleet;
        let now_ms = boottime_ms();
        let patience = Patience::of(fleet.definition().lease_ms);
        let mut coordinator = match fleet.group() {
            Some(_) => Coordinator::of_group(patience, now_ms),
            None => Coordinator::new(patience, now_ms),
        };
        let mut sources = Sources::open(self.clone()).await?;
        let mut helpers = JoinSet::new();
        helpers.spawn(self.clone().copy_and_trim());
        let (done, mut doing) = mpsc::unbounded_channel::<Vec<Event>>();
        if let Some(group) = fleet.group() {
            let group = Arc::new(group.clone());
            helpers.spawn(self.clone().ascend(group.clone(), done.clone()));
            helpers.spawn(self.clone().exchange_roots(group.clone()));
            for other in group.others() {
                helpers.spawn(self.clone().carry(group.clone(), other.to_owned()));
            }
        }
        let mut holds_ms = keeper.first_deadline_ms();
        let mut renewed = 0;
        let mut tick = tokio::time::interval(TICK);
        tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        for event in sources.first.drain(..) {
            coordinator.handle(event, now_ms);
        }
        loop {
            let events = tokio::select! {
                biased;
                _ = tick.tick() => {
                    if let Some(until_ms) = self.keep_coordinating(&mut keeper, &mut renewed).await? {
                        holds_ms = until_ms;
                    }
                    vec![Event::Tick]
                }
                Some(events) = doing.recv() => events,
                events = sources.next() => events,
            };
            let now_ms = boottime_ms();
            // A coordinator that was stopped meanwhile has seen nothing of the time between.
            if now_ms >= holds_ms {
                return Err(FleetError::Unavailable(
                    "the coordinator's lease ran out".to_owned(),
                ));
            }
            for event in events {
                for action in coordinator.handle(event, now_ms) {
                    let (inner, done) = (self.clone(), done.clone());
                    tokio::spawn(async move {
                        let events = inner.carry_out(action).await;
                        let _ = done.send(events);
                    });
                }
            }
        }
    }

    async fn keep_coordinating(
        &self,
        keeper: &mut Keeper,
        renewed: &mut u64,
    ) -> Result<Option<u64>, FleetError> {
        let Some(KeeperAction::Renew { revision }) = keeper.tick(boottime_ms()) else {
            return Ok(None);
        };
        let record = self.lease_record(*renewed + 1);
        let renewal = match self
            .fleet
            .main()
            .swap(names::COORDINATOR, Some(record), revision)
            .await
        {
            Ok(Swap::Done(revision)) => {
                *renewed += 1;
                Renewal::Done { revision }
            }
            Ok(Swap::Lost(_)) => Renewal::Refused,
            Err(_) => Renewal::Unknown,
        };
        match keeper.renewed(renewal, boottime_ms()) {
            Some(KeeperAction::Holds { until_ms }) => Ok(Some(until_ms)),
            Some(KeeperAction::Lost) => {
                Err(FleetError::Refused("another node coordinates".to_owned()))
            }
            _ => Ok(None),
        }
    }

    /// Does what was decided, and says what came of it.
    async fn carry_out(&self, action: Action) -> Vec<Event> {
        let done = Event::Done(action.clone());
        let news = match action {
            Action::Assign {
                revision,
                assignment,
            } => self.write_assignment(revision, assignment).await,
            Action::Kill { node, revision } => self.kill(node, revision).await,
            Action::Seal { holder } => self.seal(&holder).await.map(|()| None),
            Action::Answer(answer) => {
                let mut given = self.answer.lock().unwrap_or_else(PoisonError::into_inner);
                *given = Some(answer);
                Ok(None)
            }
            Action::Command { revision, control } => {
                let json = serde_json::to_vec(&control).unwrap_or_default();
                let swap = self
                    .fleet
                    .main()
                    .swap(names::CONTROL, Some(json.into()), revision)
                    .await;
                swap.map(|swap| match swap {
                    Swap::Done(revision) => Some(Event::Control { revision, control }),
                    Swap::Lost(_) => None,
                })
            }
        };
        match news {
            Ok(news) => news.into_iter().chain([done]).collect(),
            Err(error) => {
                tracing::debug!(%error, "the coordinator tries again");
                tokio::time::sleep(LOOK).await;
                vec![done]
            }
        }
    }

    async fn write_assignment(
        &self,
        revision: u64,
        assignment: Assignment,
    ) -> Result<Option<Event>, FleetError> {
        let json = serde_json::to_vec(&assignment).unwrap_or_default();
        let swap = self
            .fleet
            .main()
            .swap(names::ASSIGNMENT, Some(json.into()), revision)
            .await?;
        Ok(match swap {
            Swap::Done(revision) => Some(Event::Assignment {
                revision,
                assignment,
            }),
            Swap::Lost(entry) => {
                let assignment = entry
                    .value
                    .and_then(|json| serde_json::from_slice(&json).ok());
                assignment.map(|assignment| Event::Assignment {
                    revision: entry.revision,
                    assignment,
                })
            }
        })
    }

    async fn kill(&self, node: String, revision: u64) -> Result<Option<Event>, FleetError> {
        let lease = self.fleet.leases().get(&names::lease_key(&node)).await?;
        let swap = self
            .fleet
            .leases()
            .swap(&names::lease_key(&node), None, revision)
            .await?;
        Ok(match swap {
            Swap::Done(revision) => {
                tracing::warn!(node, "the lease was not renewed, and is taken away");
                let record: Option<LeaseRecord> = lease
                    .value
                    .and_then(|json| serde_json::from_slice(&json).ok());
                if let Some(client) = record.filter(|record| record.weight <= 0.0) {
                    // It has no partition that somebody would seal it for.
                    self.seal_life(&node, client.incarnation).await?;
                }
                Some(Event::Lease {
                    node,
                    revision,
                    lease: None,
                })
            }
            Swap::Lost(entry) => {
                let lease = entry
                    .value
                    .and_then(|json| serde_json::from_slice(&json).ok());
                Some(Event::Lease {
                    node,
                    revision: entry.revision,
                    lease,
                })
            }
        })
    }

    async fn seal(&self, holder: &crate::protocol::Holder) -> Result<(), FleetError> {
        let lease = self
            .fleet
            .leases()
            .get(&names::lease_key(&holder.node))
            .await?;
        if lease.value.is_some() {
            return Ok(());
        }
        self.seal_life(&holder.node, holder.incarnation).await
    }

    async fn seal_life(&self, node: &str, incarnation: Incarnation) -> Result<(), FleetError> {
        let ship = Ship::open(self.fleet.bus(), node).await?;
        if let Some(pages) = ship.seal(incarnation, &self.me.node).await? {
            tracing::warn!(node, "sealed");
            budget::settle(self.fleet.main(), [(incarnation, pages)]).await?;
        }
        Ok(())
    }
}

/// Where the coordinator's events come from.
struct Sources {
    first: Vec<Event>,
    main: Follower,
    leases: Follower,
    log: Follower,
    /// What the streams ended with when this began; once all of it was heard, the coordinator may decide.
    leases_end: u64,
    log_end: u64,
    caught_up: bool,
}

impl Sources {
    async fn open(inner: Arc<Inner>) -> Result<Self, FleetError> {
        let fleet = &inner.fleet;
        let bus = fleet.bus();
        let (main_stream, leases_stream) = (
            Kv::stream_name(&bus.names.bucket()),
            Kv::stream_name(&bus.names.leases()),
        );
        let control = fleet.control().await?;
        let (revision, assignment) = fleet.assignment().await?;
        let log_from = assignment.log + 1;
        let leases_end = end(bus.js.get_stream(&leases_stream).await)?;
        let log_end = end(bus.js.get_stream(bus.names.ship_stream()).await)?;
        let kv = fleet.main();
        let keys = [names::ASSIGNMENT, names::CONTROL, "status.*"].map(|key| kv.subject(key));
        let all_leases = fleet.leases().subject(">");
        let mut first = vec![Event::Assignment {
            revision,
            assignment,
        }];
        first.push(Event::Control {
            revision: control.0,
            control: control.1,
        });
        Ok(Self {
            first,
            main: Follower::new(&bus.js, main_stream, keys.to_vec(), 1, 64),
            leases: Follower::new(&bus.js, leases_stream, vec![all_leases], 1, 64),
            log: Follower::new(
                &bus.js,
                bus.names.ship_stream(),
                vec![bus.names.ship_subjects()],
                log_from,
                256,
            ),
            leases_end,
            log_end: if log_end < log_from { 0 } else { log_end },
            caught_up: false,
        })
    }

    async fn next(&mut self) -> Vec<Event> {
        if !self.caught_up && self.leases_end == 0 && self.log_end == 0 {
            self.caught_up = true;
            return vec![Event::CaughtUp];
        }
        tokio::select! {
            message = self.leases.next() => {
                if message.seq >= self.leases_end {
                    self.leases_end = 0;
                }
                let lease = message.value.and_then(|json| serde_json::from_slice(&json).ok());
                let node = names::last_token(&message.subject).to_owned();
                vec![Event::Lease { node, revision: message.seq, lease }]
            }
            message = self.log.next() => {
                if message.seq >= self.log_end {
                    self.log_end = 0;
                }
                let record = ShipRecord::from_message(&message.payload);
                let event = record.as_ref().map_or(LogEvent::Other, LogEvent::from);
                let node = names::last_token(&message.subject).to_owned();
                vec![Event::Log { seq: message.seq, node, event }]
            }
            message = self.main.next() => main_event(message).into_iter().collect(),
        }
    }
}

fn end(
    stream: Result<async_nats::jetstream::stream::Stream<Info>, impl std::fmt::Display>,
) -> Result<u64, FleetError> {
    let stream = stream.map_err(|error| FleetError::Unavailable(error.to_string()))?;
    Ok(stream.cached_info().state.last_sequence)
}

fn main_event(message: Followed) -> Option<Event> {
    let json = message.value?;
    let revision = message.seq;
    let key = names::last_token(&message.subject);
    // `status.<node>` has one more part than the other keys.
    let is_status = message.subject.rsplit('.').nth(1) == Some("status");
    match key {
        node if is_status => {
            let reported = serde_json::from_slice(&json).ok()?;
            Some(Event::Reported {
                node: node.to_owned(),
                reported,
            })
        }
        names::ASSIGNMENT => Some(Event::Assignment {
            revision,
            assignment: serde_json::from_slice(&json).ok()?,
        }),
        names::CONTROL => Some(Event::Control {
            revision,
            control: serde_json::from_slice(&json).ok()?,
        }),
        _ => None,
    }
}
