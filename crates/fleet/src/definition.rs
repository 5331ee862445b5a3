//! What a fleet is: written once by `portolan fleet new`, read by each node that joins.

use crate::error::FleetError;
use crate::group::{Group, check_owners};
use crate::hub::CrawlDefinition;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// The format of everything that the fleet keeps in NATS and in the store. A program that knows another one does not
/// join.
pub const FORMAT: u32 = 1;

/// The format of what groups under a hub keep: a program that knows no groups would take one for a whole fleet.
pub(crate) const FORMAT_OF_GROUPS: u32 = 2;

/// How long a node may go without renewing its lease, where a fleet says nothing else.
pub const LEASE_MS: u64 = 30_000;

/// What a person decides about a fleet.
#[derive(Clone, Debug)]
pub struct NewFleet {
    /// Letters, digits and '-'.
    pub name: String,
    /// The settings file, as every node uses it.
    pub settings: String,
    pub seeds: Vec<String>,
    pub partitions: u16,
    /// Where WARC files, journals and checkpoints go: a directory, `file:///…` or `s3://bucket/prefix`.
    pub blobs: String,
    pub lease_ms: u64,
    /// Pages that the whole fleet may fetch; `None` for no limit.
    pub max_pages: Option<u64>,
    /// What links that wait may take on each server's disk; NATS reserves it.
    pub link_bytes: u64,
    /// What the ship log may take there. It only grows; where it is full, nothing is settled any more.
    pub log_bytes: u64,
}

/// What a person decides about a group: the rest is what the hub says.
#[derive(Clone, Debug)]
pub struct NewGroup {
    /// The crawl, as the hub knows it; and which of its groups.
    pub crawl: String,
    pub group: String,
    /// The hub's JetStream domain.
    pub hub_domain: String,
    /// As `NewFleet` has them; the store is the group's own.
    pub blobs: String,
    pub lease_ms: u64,
    pub max_pages: Option<u64>,
    pub link_bytes: u64,
    pub log_bytes: u64,
    /// What links for other groups may take on each server's disk while the hub or these are away.
    pub up_bytes: u64,
}

/// What all nodes of a fleet have in common; it never changes.
#[derive(Clone, Serialize, Deserialize)]
pub struct Definition {
    pub format: u32,
    /// The version of the program that made it.
    pub program: String,
    pub name: String,
    pub settings: String,
    pub seeds: Vec<String>,
    /// The crawl's secret, 32 bytes as 64 hexadecimal digits; see `portolan_model::Identities`.
    secret: String,
    pub partitions: u16,
    pub blobs: String,
    pub lease_ms: u64,
    pub max_pages: Option<u64>,
    /// Tells this fleet from an earlier one of the same name.
    pub id: String,
    /// A fleet that is a group under a hub: which.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<Group>,
}

impl Definition {
    pub(crate) fn new(fleet: NewFleet) -> Result<Self, FleetError> {
        check_name("a fleet", &fleet.name)?;
        let mut seeds = BTreeSet::new();
        Ok(Self {
            format: FORMAT,
            program: env!("CARGO_PKG_VERSION").to_owned(),
            name: fleet.name,
            settings: fleet.settings,
            seeds: fleet
                .seeds
                .into_iter()
                .filter(|seed| seeds.insert(seed.clone()))
                .collect(),
            secret: random_hex::<32>()?,
            partitions: fleet.partitions.max(1),
            blobs: fleet.blobs,
            lease_ms: fleet.lease_ms.max(1_000),
            max_pages: fleet.max_pages,
            id: random_hex::<8>()?,
            group: None,
        })
    }

    /// A group's: what all groups must agree on comes from the hub.
    pub(crate) fn of_group(new: &NewGroup, crawl: &CrawlDefinition) -> Result<Self, FleetError> {
        let group = Group {
            name: new.group.clone(),
            crawl: crawl.name.clone(),
            crawl_id: crawl.id.clone(),
            crawl_checksum: crawl.checksum(),
            hub_domain: new.hub_domain.clone(),
            groups: crawl.groups.clone(),
            owners: crawl.owners.clone(),
        };
        if !group.groups.contains(&group.name) {
            return Err(FleetError::Groups(format!(
                "'{}' is none of them: {}",
                group.name,
                group.groups.join(", ")
            )));
        }
        Ok(Self {
            format: FORMAT_OF_GROUPS,
            program: env!("CARGO_PKG_VERSION").to_owned(),
            name: group.fleet_of(&group.name),
            settings: crawl.settings.clone(),
            seeds: crawl.seeds.clone(),
            secret: crawl.secret.clone(),
            partitions: crawl.partitions,
            blobs: new.blobs.clone(),
            lease_ms: new.lease_ms.max(1_000),
            max_pages: new.max_pages,
            id: random_hex::<8>()?,
            group: Some(group),
        })
    }

    /// How many partitions its nodes share: of a group, those that are its own.
    pub fn own_partitions(&self) -> u16 {
        self.group
            .as_ref()
            .map_or(self.partitions, Group::partitions)
    }

    /// What documents and hosts are identified by.
    pub fn secret(&self) -> [u8; 32] {
        let bytes = data_encoding::HEXLOWER.decode(self.secret.as_bytes());
        // `read` has checked it.
        bytes
            .ok()
            .and_then(|bytes| bytes.try_into().ok())
            .unwrap_or([0; 32])
    }

    /// Of all that nodes must agree on. A node keeps it in its directory, and `Fleet::join` compares it.
    pub fn checksum(&self) -> String {
        let text = serde_json::to_vec(self).unwrap_or_default();
        format!("{:016x}", xxhash_rust::xxh3::xxh3_64(&text))
    }

    pub(crate) fn to_json(&self) -> Vec<u8> {
        serde_json::to_vec(self).unwrap_or_default()
    }

    pub(crate) fn read(json: &[u8]) -> Result<Self, FleetError> {
        #[derive(Deserialize)]
        struct Format {
            format: u32,
        }
        let damaged = |error: serde_json::Error| FleetError::Damaged(error.to_string());
        let Format { format } = serde_json::from_slice(json).map_err(damaged)?;
        if !matches!(format, FORMAT | FORMAT_OF_GROUPS) {
            return Err(FleetError::OtherFormat {
                theirs: format,
                ours: FORMAT,
            });
        }
        let definition: Self = serde_json::from_slice(json).map_err(damaged)?;
        let secret = data_encoding::HEXLOWER.decode(definition.secret.as_bytes());
        let is_group = definition.group.is_some();
        if secret.map_or(true, |bytes| bytes.len() != 32)
            || definition.partitions == 0
            || is_group != (format == FORMAT_OF_GROUPS)
        {
            return Err(FleetError::Damaged(
                "its secret or its partitions".to_owned(),
            ));
        }
        if let Some(group) = &definition.group {
            check_owners(&group.groups, &group.owners, definition.partitions)?;
        }
        Ok(definition)
    }
}

/// A secret is not for logs.
impl std::fmt::Debug for Definition {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Definition({}, {})", self.name, self.id)
    }
}

/// Names of fleets and nodes become parts of subjects, of keys and of file names.
pub fn check_name(what: &'static str, name: &str) -> Result<(), FleetError> {
    let good = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
    match (1..=48).contains(&name.len()) && name.bytes().all(good) {
        true => Ok(()),
        false => Err(FleetError::BadName {
            what,
            name: name.to_owned(),
        }),
    }
}

pub(crate) fn random_hex<const BYTES: usize>() -> Result<String, FleetError> {
    Ok(data_encoding::HEXLOWER.encode(&random::<BYTES>()?))
}

pub(crate) fn random<const BYTES: usize>() -> Result<[u8; BYTES], FleetError> {
    let mut bytes = [0; BYTES];
    let provider = rustls::crypto::ring::default_provider();
    let filled = provider.secure_random.fill(&mut bytes);
    filled.map_err(|_| FleetError::Refused("this machine gives no random bytes".to_owned()))?;
    Ok(bytes)
}
