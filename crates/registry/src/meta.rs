//! The file that says what a registry is: its format, and what was settled when it was made.

use crate::error::{At, RegistryError, Result};
use crate::files::replace_file;
use crate::registry::partition_dir;
use crate::settings::RegistrySettings;
use portolan_model::{Identities, Order};
use std::fs;
use std::path::Path;

const META: &str = "meta";
/// Of all files; another one cannot be read.
pub(crate) const FORMAT: u32 = 8;
const META_HEAD: &str = "portolan registry ";
const META_PARTITIONS: &str = ", partitions ";
/// Follows: the mark of the secret that its documents and hosts are known by.
const META_MARK: &str = ", mark ";
const META_ORDER: &str = ", order ";
const META_CRAWL: &str = ", crawl ";
const META_CHECKSUM: &str = ", checksum ";

/// What is settled when a registry is made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Meta {
    pub(crate) partitions: u16,
    pub(crate) order: Order,
    pub(crate) crawl_id: u64,
    mark: u64,
}

impl Meta {
    pub(crate) fn read(dir: &Path) -> Result<Self> {
        let path = dir.join(META);
        let bytes = fs::read(&path).at(&path)?;
        let text = std::str::from_utf8(&bytes).ok();
        let text = text.unwrap_or_default();
        if let Some(found) = format_of(text).filter(|&found| found != FORMAT) {
            let path = dir.to_path_buf();
            return Err(RegistryError::Format { path, found });
        }
        Self::parse(text).ok_or_else(|| {
            let what = "it does not describe a registry";
            RegistryError::corrupt(&path, 0, what)
        })
    }

    /// What the registry in `dir` was made with, if these are its identities.
    pub(crate) fn of(dir: &Path, ids: Identities) -> Result<Self> {
        let meta = Self::read(dir)?;
        if meta.mark != ids.mark() {
            let what = "the crawl's secret is not the one that this registry was made with";
            return Err(RegistryError::corrupt(&dir.join(META), 0, what));
        }
        Ok(meta)
    }

    fn text(&self) -> String {
        let (partitions, mark, order) = (self.partitions, self.mark, self.order.name());
        let id = self.crawl_id;
        let text = format!(
            "{META_HEAD}{FORMAT}{META_PARTITIONS}{partitions}{META_MARK}{mark:016x}{META_ORDER}{order}{META_CRAWL}{id:016x}"
        );
        let crc = crc32fast::hash(text.as_bytes());
        format!("{text}{META_CHECKSUM}{crc:08x}\n")
    }

    fn parse(text: &str) -> Option<Self> {
        let (said, _) = text.split_once(META_CHECKSUM)?;
        let (_, said) = said.split_once(META_PARTITIONS)?;
        let (rest, id) = said.split_once(META_CRAWL)?;
        let (rest, order) = rest.split_once(META_ORDER)?;
        let (number, mark) = rest.split_once(META_MARK)?;
        let meta = Self {
            partitions: number.parse().ok().filter(|&number| number > 0)?,
            order: Order::from_name(order).filter(|order| order.is_for_crawls())?,
            crawl_id: u64::from_str_radix(id, 16).ok()?,
            mark: u64::from_str_radix(mark, 16).ok()?,
        };
        (meta.text() == text).then_some(meta)
    }
}

/// The format that a registry says it has.
fn format_of(text: &str) -> Option<u32> {
    let (format, _) = text.strip_prefix(META_HEAD)?.split_once(',')?;
    format.parse().ok()
}

/// The number of partitions and the order of queues are settled when a registry is made.
pub(crate) fn settle_meta(dir: &Path, settings: &RegistrySettings) -> Result<Meta> {
    let path = dir.join(META);
    if path.exists() {
        let known = Meta::of(dir, settings.ids)?;
        if known.order != settings.order {
            return Err(RegistryError::Settings {
                path: dir.to_path_buf(),
                what: format!(
                    "its queues are sorted by {}, and cannot go on sorted by {}",
                    known.order.name(),
                    settings.order.name()
                ),
            });
        }
        return Ok(known);
    }
    if partition_dir(dir, 0).exists() {
        // It is durable before there is any partition.
        return Err(RegistryError::corrupt(&path, 0, "the file is missing"));
    }
    if settings.partitions == 0 {
        return Err(RegistryError::Settings {
            path,
            what: "a registry needs at least one partition".to_owned(),
        });
    }
    let meta = Meta {
        partitions: settings.partitions,
        order: settings.order,
        crawl_id: settings.crawl_id,
        mark: settings.ids.mark(),
    };
    replace_file(dir, META, meta.text().as_bytes())?;
    Ok(meta)
}
