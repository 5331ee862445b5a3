//! URLs looked at (GetURLStatus, ListURLs, CountURLs, PurgeURLs), beside the thread that writes: what is read is what was committed when a
//! scan of a queue began.

use std::collections::HashMap;
use std::path::PathBuf;

use prost::Message;

use super::Ledger;
use crate::api::{StringList, UrlInfo};
use crate::error::FrontierError;
use crate::keys::{QueueId, UrlRecord, timed_key, url_key, url_of};
use crate::stage::Tables;

/// Which URLs are meant, by a text in them.
#[derive(Clone, Debug)]
pub(crate) struct Filter {
    text: Option<String>,
    ignore_case: bool,
}

impl Filter {
    /// A filter that is blank lets everything through.
    pub(crate) fn new(text: Option<&str>, ignore_case: bool) -> Self {
        let text = text.filter(|text| !text.trim().is_empty());
        Self {
            text: text.map(|text| match ignore_case {
                true => text.to_lowercase(),
                false => text.to_owned(),
            }),
            ignore_case,
        }
    }

    pub(crate) fn lets_all_through(&self) -> bool {
        self.text.is_none()
    }

    fn lets_through(&self, url: &str) -> bool {
        match &self.text {
            None => true,
            Some(text) if self.ignore_case => url.to_lowercase().contains(text),
            Some(text) => url.contains(text),
        }
    }
}

impl Ledger {
    /// Reads the store beside the writer.
    pub(crate) fn reader(&self) -> Reader {
        Reader {
            dir: self.dir.clone(),
            tables: self.tables.clone(),
        }
    }
}

/// Reads the store beside the writer, on any thread. It blocks.
#[derive(Clone)]
pub(crate) struct Reader {
    dir: PathBuf,
    tables: Tables,
}

impl Reader {
    /// What is known of one URL.
    pub(crate) fn record(
        &self,
        queue: QueueId,
        url: &str,
    ) -> Result<Option<UrlRecord>, FrontierError> {
        let found = self.tables.urls.get(url_key(queue, url));
        let found = found.map_err(|e| self.store(e))?;
        found.map(|bytes| self.decode(&bytes)).transpose()
    }

    /// A URL's metadata.
    pub(crate) fn metadata(
        &self,
        queue: QueueId,
        url: &str,
        record: &UrlRecord,
    ) -> Result<HashMap<String, StringList>, FrontierError> {
        let (true, Some(due)) = (record.has_metadata, record.due) else {
            return Ok(HashMap::new());
        };
        let leased = match record.lease {
            None => None,
            Some(until_ms) => {
                let key = timed_key(queue, until_ms, url);
                self.tables.leased.get(key).map_err(|e| self.store(e))?
            }
        };
        let bytes = match leased {
            Some(value) => value.get(8..).unwrap_or_default().to_vec(),
            None => {
                let found = self.tables.due.get(timed_key(queue, due, url));
                // It may have been leased, changed or deleted meanwhile.
                let found = found.map_err(|e| self.store(e))?;
                found.map(|value| value.to_vec()).unwrap_or_default()
            }
        };
        let info = UrlInfo::decode(&bytes[..]).map_err(|_| self.damaged("metadata"))?;
        Ok(info.metadata)
    }

    /// Calls `see` with each URL of a queue behind `after` that the filter lets through, by the URL, until it says to stop or `most` have been
    /// looked at. Then the last of them comes back; none if there are no more.
    pub(crate) fn each_url(
        &self,
        queue: QueueId,
        after: Option<&str>,
        filter: &Filter,
        most: usize,
        mut see: impl FnMut(&str, UrlRecord) -> Result<bool, FrontierError>,
    ) -> Result<Option<String>, FrontierError> {
        let mut from = url_key(queue, after.unwrap_or_default());
        if after.is_some() {
            // The next key that there can be.
            from.push(0);
        }
        let mut looked_at = 0;
        for entry in self.tables.urls.range(from..url_key(queue + 1, "")) {
            let (key, value) = entry.into_inner().map_err(|e| self.store(e))?;
            let url = url_of(&key).ok_or_else(|| self.damaged("a URL"))?;
            looked_at += 1;
            let goes_on = !filter.lets_through(url) || see(url, self.decode(&value)?)?;
            if !goes_on || looked_at >= most {
                return Ok(Some(url.to_owned()));
            }
        }
        Ok(None)
    }

    fn decode(&self, bytes: &[u8]) -> Result<UrlRecord, FrontierError> {
        UrlRecord::decode(bytes).ok_or_else(|| self.damaged("a URL"))
    }

    fn store(&self, source: fjall::Error) -> FrontierError {
        FrontierError::Store {
            dir: self.dir.clone(),
            source,
        }
    }

    fn damaged(&self, what: &'static str) -> FrontierError {
        FrontierError::Damaged {
            dir: self.dir.clone(),
            what,
        }
    }
}
