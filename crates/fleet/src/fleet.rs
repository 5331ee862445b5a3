//! What all nodes of a fleet have in common, and what a person does to a fleet from outside.

mod look;

use crate::budget::{self, Budget};
use crate::error::FleetError;
use crate::group::fleet_name;
use crate::hub::Hub;
use crate::links::{self, Keys, Message};
use crate::nats::{Bus, Follower, Kv, Swap, patiently, stream_config};
use crate::pieces;
use crate::protocol::{Assignment, Control};
use crate::records::ShipRecord;
use crate::ship::Ship;
use crate::stored::DEFINITION;
use crate::{
    Blobs, Definition, Delivery, Group, NewFleet, NewGroup, Servers, Shipped, Wish, names,
};
use bytes::Bytes;
use portolan_model::PartitionId;
use std::sync::Arc;

/// A fleet, opened. Cheap to clone.
#[derive(Clone)]
pub struct Fleet {
    inner: Arc<Inner>,
}

struct Inner {
    bus: Bus,
    main: Kv,
    leases: Kv,
    definition: Definition,
    blobs: Blobs,
}

impl Fleet {
    /// Makes a fleet: checks that the store can be written, makes its streams, writes its definition. Refuses a name that
    /// is taken.
    pub async fn create(servers: &Servers, new: NewFleet) -> Result<Self, FleetError> {
        let bus = Bus::connect(servers, &new.name).await?;
        let disk = Disk {
            links: new.link_bytes,
            log: new.log_bytes,
            up: 0,
        };
        Self::make(bus, Definition::new(new)?, disk).await
    }

    /// Makes a group's fleet, on the group's own servers, which reach the hub by leaf connections.
    pub async fn create_group(servers: &Servers, new: NewGroup) -> Result<Self, FleetError> {
        let name = fleet_name(&new.crawl, &new.group);
        let bus = Bus::connect(servers, &name).await?;
        let no_hub = |error: FleetError| match error {
            FleetError::Unavailable(why) => FleetError::NoHub {
                domain: new.hub_domain.clone(),
                why,
            },
            error => error,
        };
        let hub = Hub::reach(&bus, &new.hub_domain, &new.crawl).await;
        let hub = hub.map_err(no_hub)?;
        let definition = Definition::of_group(&new, hub.definition())?;
        let disk = Disk {
            links: new.link_bytes,
            log: new.log_bytes,
            up: new.up_bytes,
        };
        Self::make(bus, definition, disk).await
    }

    async fn make(bus: Bus, definition: Definition, disk: Disk) -> Result<Self, FleetError> {
        let blobs = Blobs::open(&definition.blobs)?;
        if exists(&bus).await? {
            return Err(FleetError::Taken(definition.name));
        }
        blobs.check_writable().await?;
        if let Some(json) = blobs.get_once(DEFINITION).await? {
            let fleet = Definition::read(&json).map_or_else(|_| String::new(), |other| other.name);
            let store = blobs.place().to_owned();
            return Err(FleetError::StoreTaken { store, fleet });
        }
        let main = Kv::create(&bus.js, &bus.names.bucket(), bus.replicas).await?;
        Kv::create(&bus.js, &bus.names.leases(), bus.replicas).await?;
        if let Err(error) = create_streams(&bus, &disk).await {
            // What was made sets disk aside.
            remove_streams(&bus).await;
            return Err(error);
        }
        match main
            .swap(names::FLEET, Some(definition.to_json().into()), 0)
            .await?
        {
            Swap::Done(_) => {
                // For those who read the store without NATS.
                blobs.put(DEFINITION, definition.to_json().into()).await;
                Self::complete(bus, main, definition, blobs).await
            }
            Swap::Lost(_) => Err(FleetError::Taken(definition.name)),
        }
    }

    /// Finds a fleet that was made.
    pub async fn open(servers: &Servers, name: &str) -> Result<Self, FleetError> {
        let bus = Bus::connect(servers, name).await?;
        if !exists(&bus).await? {
            return Err(FleetError::Unknown(name.to_owned()));
        }
        let main = Kv::open(&bus.js, &bus.names.bucket()).await?;
        let json = main.get(names::FLEET).await?.value;
        let definition =
            Definition::read(&json.ok_or_else(|| FleetError::Unknown(name.to_owned()))?)?;
        let blobs = Blobs::open(&definition.blobs)?;
        Self::complete(bus, main, definition, blobs).await
    }

    /// Whoever made the fleet may have gone before its first keys were written.
    async fn complete(
        bus: Bus,
        main: Kv,
        definition: Definition,
        blobs: Blobs,
    ) -> Result<Self, FleetError> {
        let first = |value: Result<Vec<u8>, _>| value.map(Bytes::from).unwrap_or_default();
        let firsts = [
            (
                names::ASSIGNMENT,
                first(serde_json::to_vec(&unassigned(&definition))),
            ),
            (
                names::CONTROL,
                first(serde_json::to_vec(&Control::default())),
            ),
            (
                names::BUDGET,
                first(serde_json::to_vec(&Budget::new(definition.max_pages))),
            ),
        ];
        for (key, value) in firsts {
            if main.get(key).await?.revision == 0 {
                main.swap(key, Some(value), 0).await?;
            }
        }
        let leases = Kv::open(&bus.js, &bus.names.leases()).await?;
        Ok(Self {
            inner: Arc::new(Inner {
                bus,
                main,
                leases,
                definition,
                blobs,
            }),
        })
    }

    pub fn definition(&self) -> &Definition {
        &self.inner.definition
    }

    /// Which group it is, if it is one under a hub.
    pub fn group(&self) -> Option<&Group> {
        self.inner.definition.group.as_ref()
    }

    /// The fleet's store.
    pub fn blobs(&self) -> &Blobs {
        &self.inner.blobs
    }

    pub(crate) fn bus(&self) -> &Bus {
        &self.inner.bus
    }

    pub(crate) fn main(&self) -> &Kv {
        &self.inner.main
    }

    pub(crate) fn leases(&self) -> &Kv {
        &self.inner.leases
    }

    /// The records of the ship log from message `from` on, in the log's order, as they come. To be called in a tokio
    /// runtime.
    pub fn ship_log(&self, from: u64) -> ShipLog {
        let bus = self.bus();
        let (stream, subjects) = (bus.names.ship_stream(), bus.names.ship_subjects());
        ShipLog {
            follower: Follower::new(&bus.js, stream, vec![subjects], from, 256),
        }
    }

    /// The last record that a node wrote.
    pub async fn last_shipped(&self, node: &str) -> Result<Option<Shipped>, FleetError> {
        let last = Ship::open(self.bus(), node).await?.last().await?;
        Ok(last.map(|last| last.shipped))
    }

    /// The number of the ship log's last message; 0 if there is none.
    pub async fn ship_log_end(&self) -> Result<u64, FleetError> {
        self.stream_end(&self.bus().names.ship_stream()).await
    }

    async fn stream_end(&self, stream: &str) -> Result<u64, FleetError> {
        patiently(|| async {
            let found = self.bus().js.get_stream(stream).await;
            let found = found.map_err(|error| FleetError::Unavailable(error.to_string()))?;
            Ok(found.cached_info().state.last_sequence)
        })
        .await
    }

    /// A partition's links from the message after `cursor` on, in order, as they come. A stream that ends before
    /// `cursor` is refused: the servers have lost what they had acknowledged.
    pub async fn inbox(&self, partition: PartitionId, cursor: u64) -> Result<Inbox, FleetError> {
        let bus = self.bus();
        let stream = bus.names.links_stream_of(partition);
        let end = self.stream_end(&stream).await?;
        if end < cursor {
            return Err(FleetError::Cut {
                stream,
                end,
                cursor,
            });
        }
        let subject = bus.names.links_subject(partition);
        Ok(Inbox {
            follower: Follower::new(&bus.js, stream, vec![subject], cursor + 1, 8),
            blobs: self.blobs().clone(),
            waiting: None,
        })
    }

    /// Throws away a partition's links up to and with message `cursor`: they are settled.
    pub async fn purge(&self, partition: PartitionId, cursor: u64) -> Result<(), FleetError> {
        let bus = self.bus();
        let unavailable =
            |error: &dyn std::fmt::Display| FleetError::Unavailable(error.to_string());
        let stream = bus
            .js
            .get_stream_no_info(bus.names.links_stream_of(partition))
            .await;
        let stream = stream.map_err(|error| unavailable(&error))?;
        patiently(|| async {
            let purge = stream
                .purge()
                .filter(bus.names.links_subject(partition))
                .sequence(cursor + 1);
            purge.await.map_err(|error| unavailable(&error)).map(drop)
        })
        .await
    }

    /// What everybody is to do from now on.
    pub async fn wish(&self, wish: Wish) -> Result<(), FleetError> {
        self.change_control(|control| control.wish = wish).await
    }

    /// The settings that hold now, and their version: those of the definition, or what a person made of them since.
    pub async fn settings(&self) -> Result<(u64, String), FleetError> {
        let entry = self.main().get(names::SETTINGS).await?;
        let text = match entry.value {
            Some(text) => String::from_utf8_lossy(&text).into_owned(),
            None => self.definition().settings.clone(),
        };
        Ok((entry.revision, text))
    }

    /// Has all nodes take over other settings. `Overtaken` if they are not of `version` any more.
    pub async fn change_settings(&self, version: u64, text: &str) -> Result<(), FleetError> {
        let text = Bytes::copy_from_slice(text.as_bytes());
        match self
            .main()
            .swap(names::SETTINGS, Some(text), version)
            .await?
        {
            Swap::Done(_) => Ok(()),
            Swap::Lost(_) => Err(FleetError::Overtaken),
        }
    }

    /// Sets how many pages the whole fleet may fetch. False if it was made without such a limit, and counts none.
    pub async fn set_max_pages(&self, pages: u64) -> Result<bool, FleetError> {
        budget::set_limit(self.main(), pages).await
    }

    /// Is the crawl over, by itself or because a person ended it? It never goes on.
    pub async fn has_ended(&self) -> Result<bool, FleetError> {
        let wish = self.control().await?.1.wish;
        Ok(matches!(wish, Wish::End | Wish::Complete))
    }

    /// Has a node's partitions go to others, or takes that back.
    pub async fn set_draining(&self, node: &str, draining: bool) -> Result<(), FleetError> {
        self.change_control(|control| match draining {
            true => drop(control.draining.insert(node.to_owned())),
            false => drop(control.draining.remove(node)),
        })
        .await
    }

    async fn change_control(&self, change: impl Fn(&mut Control)) -> Result<(), FleetError> {
        loop {
            let (revision, old) = self.control().await?;
            let mut new = old.clone();
            change(&mut new);
            if new == old {
                return Ok(());
            }
            let json = serde_json::to_vec(&new).unwrap_or_default();
            if let Swap::Done(_) = self
                .main()
                .swap(names::CONTROL, Some(json.into()), revision)
                .await?
            {
                return Ok(());
            }
        }
    }

    pub(crate) async fn control(&self) -> Result<(u64, Control), FleetError> {
        self.read_key(names::CONTROL).await
    }

    pub(crate) async fn assignment(&self) -> Result<(u64, Assignment), FleetError> {
        self.read_key(names::ASSIGNMENT).await
    }

    async fn read_key<T: serde::de::DeserializeOwned>(
        &self,
        key: &str,
    ) -> Result<(u64, T), FleetError> {
        let entry = self.main().get(key).await?;
        let missing = || FleetError::Damaged(format!("its key '{key}' is missing"));
        let value = serde_json::from_slice(&entry.value.ok_or_else(missing)?);
        let value =
            value.map_err(|error| FleetError::Damaged(format!("its key '{key}': {error}")))?;
        Ok((entry.revision, value))
    }

    pub(crate) async fn budget(&self) -> Result<Budget, FleetError> {
        budget::read(self.main()).await
    }
}

/// Before the first node.
fn unassigned(definition: &Definition) -> Assignment {
    match &definition.group {
        None => Assignment::new(definition.partitions),
        Some(group) => Assignment::of_group(definition.partitions, |partition| {
            group.is_mine(PartitionId(partition))
        }),
    }
}

/// Is there a fleet of this name?
async fn exists(bus: &Bus) -> Result<bool, FleetError> {
    use async_nats::jetstream::context::GetStreamErrorKind;
    match bus
        .js
        .get_stream(Kv::stream_name(&bus.names.bucket()))
        .await
    {
        Ok(_) => {
            let main = Kv::open(&bus.js, &bus.names.bucket()).await?;
            Ok(main.get(names::FLEET).await?.value.is_some())
        }
        Err(error) => match error.kind() {
            GetStreamErrorKind::JetStream(error) if error.code() == 404 => Ok(false),
            _ => Err(FleetError::Unavailable(error.to_string())),
        },
    }
}

/// Of a fleet that was never made.
async fn remove_streams(bus: &Bus) {
    let names = &bus.names;
    let buckets = [names.bucket(), names.leases()].map(|bucket| Kv::stream_name(&bucket));
    let links = (0..names::LINK_STREAMS).map(|stream| names.links_stream(stream));
    for stream in links
        .chain(buckets)
        .chain([names.ship_stream(), names.up_stream()])
    {
        // It may never have been there.
        let _ = bus.js.delete_stream(stream).await;
    }
}

/// What streams may take on each server's disk, in bytes.
struct Disk {
    links: u64,
    log: u64,
    /// 0 if there is no such stream.
    up: u64,
}

async fn create_streams(bus: &Bus, disk: &Disk) -> Result<(), FleetError> {
    let ship = stream_config(
        bus.names.ship_stream(),
        bus.names.ship_subjects(),
        bus.replicas,
        disk.log.max(1 << 20) as i64,
    );
    let up = (disk.up > 0).then(|| {
        let (name, subjects) = (bus.names.up_stream(), bus.names.up_subjects());
        stream_config(name, subjects, bus.replicas, disk.up.max(1 << 20) as i64)
    });
    let each = (disk.links / u64::from(names::LINK_STREAMS)).max(1 << 20) as i64;
    let links = (0..names::LINK_STREAMS).map(|stream| {
        let (name, subjects) = (
            bus.names.links_stream(stream),
            bus.names.links_subjects(stream),
        );
        stream_config(name, subjects, bus.replicas, each)
    });
    for config in links.chain([ship]).chain(up) {
        let name = config.name.clone();
        let made = bus.js.get_or_create_stream(config).await;
        made.map_err(|error| match error.to_string() {
            full if full.contains("10047") => FleetError::NoRoom,
            other => FleetError::Refused(format!("the stream {name}: {other}")),
        })?;
    }
    Ok(())
}

/// See `Fleet::ship_log`.
pub struct ShipLog {
    follower: Follower,
}

impl ShipLog {
    /// The next record; waits until there is one, however long that takes. Drop the future to give up: nothing is lost.
    pub async fn next(&mut self) -> Shipped {
        loop {
            let message = self.follower.next().await;
            match ShipRecord::from_message(&message.payload) {
                Ok(record) => {
                    let node = names::last_token(&message.subject).to_owned();
                    return Shipped {
                        seq: message.seq,
                        node,
                        record,
                    };
                }
                // No record of this format: nobody could have relied on it.
                Err(error) => {
                    tracing::error!(seq = message.seq, %error, "a record of the ship log cannot be read")
                }
            }
        }
    }
}

/// See `Fleet::inbox`.
pub struct Inbox {
    follower: Follower,
    blobs: Blobs,
    /// A message whose links are fetched from the store.
    waiting: Option<(u64, Keys)>,
}

impl Inbox {
    /// The next message; waits until there is one, however long that takes. Drop the future to give up: nothing is
    /// lost.
    pub async fn next(&mut self) -> Delivery {
        loop {
            if let Some((cursor, key)) = &self.waiting {
                let (cursor, bytes) = (*cursor, pieces::get(&self.blobs, key).await);
                self.waiting = None;
                match bytes.as_deref().and_then(links::unpack) {
                    Some(Message::Forwards(forwards)) => return Delivery { cursor, forwards },
                    _ => tracing::error!(cursor, "links in the store cannot be read"),
                }
            }
            let message = self.follower.next().await;
            match links::unpack(&message.payload) {
                Some(Message::Forwards(forwards)) => {
                    return Delivery {
                        cursor: message.seq,
                        forwards,
                    };
                }
                Some(Message::Key(keys)) => self.waiting = Some((message.seq, keys)),
                None => tracing::error!(seq = message.seq, "a message of links cannot be read"),
            }
        }
    }
}
