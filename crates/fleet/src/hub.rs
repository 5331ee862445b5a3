//! A crawl of several groups, as the hub above them knows it: one bucket in the hub's JetStream domain. It holds the crawl's
//! definition, which each group copies when it is made; what each group says of itself; and what all of them are to do. No
//! link is kept there: a group's links wait in the group until the other one has them.

use crate::definition::{self, FORMAT_OF_GROUPS};
use crate::error::FleetError;
use crate::group::check_owners;
use crate::names::{self, Names};
use crate::nats::{Bus, Kv, Swap};
use crate::protocol::{Above, Answer};
use crate::status::Wish;
use crate::{Servers, check_name};
use async_nats::jetstream::context::GetStreamErrorKind;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::time::SystemTime;

/// What a person decides about a crawl of several groups.
#[derive(Clone, Debug)]
pub struct NewCrawl {
    /// Letters, digits and '-'. The groups' fleets are called `NAME-GROUP`.
    pub name: String,
    /// The settings file, as every node of every group uses it.
    pub settings: String,
    pub seeds: Vec<String>,
    pub partitions: u16,
    pub groups: Vec<String>,
    /// By partition: which of the groups it belongs to.
    pub owners: Vec<u16>,
}

/// What all groups of a crawl have in common; it never changes.
#[derive(Clone, Serialize, Deserialize)]
pub struct CrawlDefinition {
    pub format: u32,
    /// The version of the program that made it.
    pub program: String,
    pub name: String,
    pub settings: String,
    pub seeds: Vec<String>,
    /// As a fleet's: documents have the same identities in all groups.
    pub(crate) secret: String,
    pub partitions: u16,
    pub groups: Vec<String>,
    pub(crate) owners: Vec<u16>,
    /// Tells this crawl from an earlier one of the same name.
    pub id: String,
}

impl CrawlDefinition {
    /// Of all that groups must agree on.
    pub fn checksum(&self) -> String {
        let text = serde_json::to_vec(self).unwrap_or_default();
        format!("{:016x}", xxhash_rust::xxh3::xxh3_64(&text))
    }

    fn read(json: &[u8]) -> Result<Self, FleetError> {
        let definition: Self =
            serde_json::from_slice(json).map_err(|error| FleetError::Damaged(error.to_string()))?;
        if definition.format != FORMAT_OF_GROUPS {
            return Err(FleetError::OtherFormat {
                theirs: definition.format,
                ours: FORMAT_OF_GROUPS,
            });
        }
        Ok(definition)
    }
}

/// What a group says of itself at the hub, some times a minute.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct GroupReport {
    /// To the last look that it answered.
    pub answer: Option<Answer>,
    pub figures: GroupFigures,
}

/// How a group is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct GroupFigures {
    pub wish: Wish,
    pub nodes: usize,
    pub known: u64,
    pub due: u64,
    pub visited: u64,
    pub pages_per_s: f64,
    /// Messages of links that wait to go up, by the group that they are for.
    pub up: BTreeMap<String, u64>,
    pub up_bytes: u64,
}

/// A crawl of several groups as one who looks at the hub sees it.
#[derive(Clone, Debug, Serialize)]
pub struct HubStatus {
    pub name: String,
    pub wish: Wish,
    pub partitions: u16,
    /// How often the groups were asked whether the crawl has ended.
    pub looks: u64,
    pub groups: BTreeMap<String, GroupView>,
}

/// A group as one who looks at the hub sees it.
#[derive(Clone, Debug, Serialize)]
pub struct GroupView {
    pub partitions: usize,
    /// `None`: the hub has never heard of it.
    pub reported: Option<GroupReport>,
    /// How long ago it reported, in seconds, by this machine's clock and the server's.
    pub silent_s: f64,
    /// Messages of links that wait in other groups to come down to this one, as these say.
    pub down: u64,
}

/// The hub, as one who is connected to its servers or to a leaf's sees it. Cheap to clone.
#[derive(Clone)]
pub struct Hub {
    kv: Kv,
    definition: CrawlDefinition,
}

impl Hub {
    /// Makes a crawl of several groups, on the hub's own servers. Refuses a name that is taken.
    pub async fn create(servers: &Servers, new: NewCrawl) -> Result<Self, FleetError> {
        check_name("a crawl", &new.name)?;
        check_owners(&new.groups, &new.owners, new.partitions)?;
        for group in &new.groups {
            check_name(
                "a group's fleet",
                &crate::group::fleet_name(&new.name, group),
            )?;
        }
        let bus = Bus::connect(servers, &new.name).await?;
        let mut seeds = BTreeSet::new();
        let definition = CrawlDefinition {
            format: FORMAT_OF_GROUPS,
            program: env!("CARGO_PKG_VERSION").to_owned(),
            name: new.name.clone(),
            settings: new.settings,
            seeds: new
                .seeds
                .into_iter()
                .filter(|seed| seeds.insert(seed.clone()))
                .collect(),
            secret: definition::random_hex::<32>()?,
            partitions: new.partitions,
            groups: new.groups,
            owners: new.owners,
            id: definition::random_hex::<8>()?,
        };
        let kv = Kv::create(&bus.js, &bus.names.hub_bucket(), bus.replicas).await?;
        let json = serde_json::to_vec(&definition).unwrap_or_default();
        match kv.swap(names::CRAWL, Some(json.into()), 0).await? {
            Swap::Done(_) => Ok(Self { kv, definition }),
            Swap::Lost(_) => Err(FleetError::CrawlTaken(new.name)),
        }
    }

    /// Finds a crawl on the hub's own servers.
    pub async fn open(servers: &Servers, name: &str) -> Result<Self, FleetError> {
        let bus = Bus::connect(servers, name).await?;
        let unknown = || FleetError::Unknown(name.to_owned());
        let stream = Kv::stream_name(&bus.names.hub_bucket());
        match bus.js.get_stream(stream).await {
            Ok(_) => {}
            Err(error) => match error.kind() {
                GetStreamErrorKind::JetStream(error) if error.code() == 404 => {
                    return Err(unknown());
                }
                _ => return Err(FleetError::Unavailable(error.to_string())),
            },
        }
        let kv = Kv::open(&bus.js, &bus.names.hub_bucket()).await?;
        let json = kv.get(names::CRAWL).await?.value;
        let definition = CrawlDefinition::read(&json.ok_or_else(unknown)?)?;
        Ok(Self { kv, definition })
    }

    /// Finds a crawl from a leaf's servers.
    pub(crate) async fn reach(bus: &Bus, domain: &str, crawl: &str) -> Result<Self, FleetError> {
        check_name("a JetStream domain", domain)?;
        let bucket = Names(crawl.to_owned()).hub_bucket();
        let kv = Kv::open_in(&bus.domain(domain), &bucket, domain).await?;
        let json = kv.get_once(names::CRAWL).await?.value;
        let json = json.ok_or_else(|| FleetError::Unknown(crawl.to_owned()))?;
        let definition = CrawlDefinition::read(&json)?;
        Ok(Self { kv, definition })
    }

    pub fn definition(&self) -> &CrawlDefinition {
        &self.definition
    }

    pub(crate) fn kv(&self) -> &Kv {
        &self.kv
    }

    /// What the groups agree on, and its revision.
    pub(crate) async fn above(&self) -> Result<(u64, Above), FleetError> {
        let entry = self.kv.get_once(names::ABOVE).await?;
        let Some(json) = entry.value else {
            return Ok((entry.revision, Above::default()));
        };
        let above = serde_json::from_slice(&json);
        let above =
            above.map_err(|error| FleetError::Damaged(format!("the hub's key: {error}")))?;
        Ok((entry.revision, above))
    }

    /// False if another one was faster.
    pub(crate) async fn agree(&self, above: &Above, revision: u64) -> Result<bool, FleetError> {
        let json = serde_json::to_vec(above).unwrap_or_default();
        let swap = self
            .kv
            .swap(names::ABOVE, Some(json.into()), revision)
            .await?;
        Ok(matches!(swap, Swap::Done(_)))
    }

    /// What a group said last, and when, in milliseconds of the hub's time of day.
    pub(crate) async fn report_of(
        &self,
        group: &str,
    ) -> Result<(Option<GroupReport>, u64), FleetError> {
        let entry = self.kv.get_once(&names::group_key(group)).await?;
        let report = entry
            .value
            .and_then(|json| serde_json::from_slice(&json).ok());
        Ok((report, entry.written_ms))
    }

    /// What all groups are to do from now on.
    pub async fn wish(&self, wish: Wish) -> Result<(), FleetError> {
        loop {
            let (revision, above) = self.above().await?;
            if above.wish == wish || self.agree(&above.wished(wish), revision).await? {
                return Ok(());
            }
        }
    }

    /// How the crawl is now. Nothing of it is kept up to date.
    pub async fn status(&self) -> Result<HubStatus, FleetError> {
        let definition = &self.definition;
        let (_, above) = self.above().await?;
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        let now_ms = now.map_or(0, |now| now.as_millis() as u64);
        let mut groups = BTreeMap::new();
        for (number, group) in definition.groups.iter().enumerate() {
            let (reported, written_ms) = self.report_of(group).await?;
            let own = |owner: &&u16| usize::from(**owner) == number;
            let view = GroupView {
                partitions: definition.owners.iter().filter(own).count(),
                reported,
                silent_s: now_ms.saturating_sub(written_ms) as f64 / 1e3,
                down: 0,
            };
            groups.insert(group.clone(), view);
        }
        let mut down: BTreeMap<String, u64> = BTreeMap::new();
        for report in groups.values().filter_map(|view| view.reported.as_ref()) {
            for (group, messages) in &report.figures.up {
                *down.entry(group.clone()).or_default() += messages;
            }
        }
        for (group, view) in &mut groups {
            view.down = down.get(group).copied().unwrap_or(0);
        }
        Ok(HubStatus {
            name: definition.name.clone(),
            wish: above.wish,
            partitions: definition.partitions,
            looks: above.look,
            groups,
        })
    }
}
