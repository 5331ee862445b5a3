//! URLs come in: discovered ones only if they are new, known ones always.

use prost::Message;

use super::Ledger;
use crate::api::UrlInfo;
use crate::crawls::crawl_name;
use crate::error::FrontierError;
use crate::keys::{URL_MAX_BYTES, UrlRecord, timed_key, url_key};
use crate::queue::missing_key;
use crate::stage::Table;

/// Keys of queues and IDs of crawls may have as many characters, as with the reference.
const NAME_MAX_CHARS: usize = 255;

/// Metadata of a URL, in bytes as they are stored. What comes out has names around it, and clients take messages of 4 MiB.
const METADATA_MAX_BYTES: usize = 1 << 20;

/// A URL as it comes.
pub(crate) struct Put {
    pub(crate) info: UrlInfo,
    /// None: it was discovered. Otherwise it is known, and may be fetched again from this date on; 0: never.
    pub(crate) refetch: Option<u64>,
}

/// What became of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PutStatus {
    Ok,
    /// It was discovered again, or can be in no queue.
    Skipped,
}

impl Ledger {
    /// Stages one URL. `now` is in seconds since 1970.
    pub(crate) fn put(&mut self, put: Put, now: u64) -> Result<PutStatus, FrontierError> {
        let Put { mut info, refetch } = put;
        let name = match info.key.as_str() {
            "" => missing_key(&info.url),
            key => Some(key),
        };
        let crawl = crawl_name(&info.crawl_id);
        let is_short = |name: &str| name.len() <= NAME_MAX_CHARS || is_short_in_chars(name);
        let Some(name) = name.filter(|name| is_short(name) && is_short(crawl)) else {
            return Ok(PutStatus::Skipped);
        };
        if info.url.is_empty() || info.url.len() > URL_MAX_BYTES {
            return Ok(PutStatus::Skipped);
        }
        if info.encoded_len() > METADATA_MAX_BYTES + URL_MAX_BYTES {
            tracing::debug!(url = info.url, "a URL has too many metadata");
            return Ok(PutStatus::Skipped);
        }
        let known_queue = self.crawls.find(crawl, name);
        let known = match known_queue {
            Some(queue) => self.record(&url_key(queue, &info.url))?,
            None => None,
        };
        if known.is_some() && refetch.is_none() {
            return Ok(PutStatus::Skipped);
        }
        let id = match known_queue {
            Some(id) => id,
            None => self.queue_for(crawl, name),
        };
        if let Some(known) = &known {
            self.forget_waiting(id, &info.url, known);
        }
        let metadata = encode_metadata(&mut info);
        let record = UrlRecord {
            created: known.map_or(now, |known| known.created),
            due: match refetch {
                None => Some(now),
                Some(0) => None,
                Some(date) => Some(date),
            },
            lease: None,
            has_metadata: !metadata.is_empty(),
        };
        self.let_wait(id, &info.url, &record, metadata);
        Ok(PutStatus::Ok)
    }

    /// Takes a URL from where it waits, and from its queue's counts. Its record stays.
    pub(super) fn forget_waiting(&mut self, id: u64, url: &str, record: &UrlRecord) {
        let Some(queue) = self.crawls.queue_mut(id) else {
            return;
        };
        match record.due {
            None => queue.completed -= 1,
            Some(due) => {
                queue.active -= 1;
                self.stage.remove(Table::Due, timed_key(id, due, url));
            }
        }
        if let Some(until_ms) = record.lease {
            queue.end_lease(until_ms);
            self.stage
                .remove(Table::Leased, timed_key(id, until_ms, url));
        }
        self.touched.insert(id);
    }

    /// Writes a URL's record, and puts the URL where it waits, if it is to be fetched at all.
    fn let_wait(&mut self, id: u64, url: &str, record: &UrlRecord, metadata: Vec<u8>) {
        self.stage
            .put(Table::Urls, url_key(id, url), record.encode());
        let Some(queue) = self.crawls.queue_mut(id) else {
            return;
        };
        match record.due {
            None => queue.completed += 1,
            Some(due) => {
                let key = timed_key(id, due, url);
                queue.active += 1;
                queue.waits(due, &key);
                self.stage.put(Table::Due, key, metadata);
            }
        }
        self.touched.insert(id);
        self.crawls.settle(id, false);
    }
}

fn is_short_in_chars(name: &str) -> bool {
    // The store counts the bytes of a name in 16 bits.
    name.len() <= 4 * NAME_MAX_CHARS && name.chars().count() <= NAME_MAX_CHARS
}

/// Only the metadata, in the form of a message; empty if there are none.
fn encode_metadata(info: &mut UrlInfo) -> Vec<u8> {
    if info.metadata.is_empty() {
        return Vec::new();
    }
    let only = UrlInfo {
        metadata: std::mem::take(&mut info.metadata),
        ..UrlInfo::default()
    };
    only.encode_to_vec()
}
