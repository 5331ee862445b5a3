//! How URLs lie in the store: keys that sort as they are read, and the record of a URL.
//!
//! A queue has a number that is never used again, and every key begins with it. So a queue is deleted by forgetting its number, and what
//! it held can be swept away later.

/// The number of a queue, as keys begin with it.
pub(crate) type QueueId = u64;

/// No key is longer than this, in bytes; the store's own limit is 65,535.
pub(crate) const URL_MAX_BYTES: usize = 32 * 1024;

/// Queue and URL: the key of a URL's record.
pub(crate) fn url_key(queue: QueueId, url: &str) -> Vec<u8> {
    let mut key = Vec::with_capacity(8 + url.len());
    key.extend_from_slice(&queue.to_be_bytes());
    key.extend_from_slice(url.as_bytes());
    key
}

/// Queue, moment and URL: sorts a queue's URLs by when they are due, or by when their lease ends.
pub(crate) fn timed_key(queue: QueueId, moment: u64, url: &str) -> Vec<u8> {
    let mut key = Vec::with_capacity(16 + url.len());
    key.extend_from_slice(&queue.to_be_bytes());
    key.extend_from_slice(&moment.to_be_bytes());
    key.extend_from_slice(url.as_bytes());
    key
}

/// Moment and URL of a `timed_key`; none if it is not one.
pub(crate) fn moment_and_url(key: &[u8]) -> Option<(u64, &str)> {
    let moment = u64::from_be_bytes(key.get(8..16)?.try_into().ok()?);
    Some((moment, std::str::from_utf8(&key[16..]).ok()?))
}

/// The URL of a `url_key`; none if it is not one.
pub(crate) fn url_of(key: &[u8]) -> Option<&str> {
    std::str::from_utf8(key.get(8..)?).ok()
}

/// What is known of a URL, but for its metadata, which lie where the URL waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct UrlRecord {
    /// Seconds since 1970: when it became known.
    pub(crate) created: u64,
    /// Seconds since 1970: from when on it may be fetched. None: never again.
    pub(crate) due: Option<u64>,
    /// Milliseconds since 1970: when the last lease of it ends or ended. None: never leased since it became due.
    pub(crate) lease: Option<u64>,
    /// Are there metadata where it waits?
    pub(crate) has_metadata: bool,
}

const HAS_DUE: u8 = 1;
const HAS_LEASE: u8 = 2;
const HAS_METADATA: u8 = 4;

impl UrlRecord {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut flags = 0;
        let mut bytes = Vec::with_capacity(25);
        bytes.push(0);
        bytes.extend_from_slice(&self.created.to_be_bytes());
        if let Some(due) = self.due {
            flags |= HAS_DUE;
            bytes.extend_from_slice(&due.to_be_bytes());
        }
        if let Some(lease) = self.lease {
            flags |= HAS_LEASE;
            bytes.extend_from_slice(&lease.to_be_bytes());
        }
        if self.has_metadata {
            flags |= HAS_METADATA;
        }
        bytes[0] = flags;
        bytes
    }

    /// None: it is damaged.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let (&flags, rest) = bytes.split_first()?;
        let mut numbers = rest
            .chunks_exact(8)
            .map(|eight| u64::from_be_bytes(eight.try_into().unwrap_or_default()));
        Some(Self {
            created: numbers.next()?,
            due: match flags & HAS_DUE {
                0 => None,
                _ => Some(numbers.next()?),
            },
            lease: match flags & HAS_LEASE {
                0 => None,
                _ => Some(numbers.next()?),
            },
            has_metadata: flags & HAS_METADATA != 0,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_sort_by_queue_then_moment_then_url() {
        let sorted = [
            timed_key(1, 5, "http://b/"),
            timed_key(1, 300, "http://a/"),
            timed_key(1, 300, "http://b/"),
            timed_key(2, 0, ""),
        ];
        assert!(sorted.is_sorted());
        assert_eq!(moment_and_url(&sorted[1]), Some((300, "http://a/")));
        assert_eq!(url_of(&url_key(7, "http://a/")), Some("http://a/"));
    }

    #[test]
    fn records_are_read_as_they_were_written() {
        for (due, lease, has_metadata) in [
            (None, None, false),
            (Some(5), None, true),
            (None, Some(7), false),
            (Some(u64::MAX), Some(0), true),
        ] {
            let record = UrlRecord {
                created: 1_700_000_000,
                due,
                lease,
                has_metadata,
            };
            assert_eq!(UrlRecord::decode(&record.encode()), Some(record));
        }
        assert_eq!(UrlRecord::decode(&[HAS_DUE, 0, 0]), None);
    }
}
