//! What is known of each page: its URL, its size, its site. Some graphs come without URLs or sizes;
//! then the same is assumed for all, and said.

use std::collections::HashMap;

use portolan_model::{DocId, HostId, Identities, Known, UrlKey};

use super::Note;
use crate::error::{GraphError, Result};

/// Taken for the length of a URL where the graph has none.
pub const ASSUMED_URL_BYTES: u32 = 64;
/// Taken for a page's size where the graph knows none at all.
pub const ASSUMED_PAGE_BYTES: u64 = 16_384;
/// Larger sizes are taken for mistakes.
pub const MAX_PAGE_BYTES: u64 = 1 << 40;
const UNKNOWN_BYTES: u64 = u64::MAX;

#[derive(Debug)]
pub struct Pages {
    count: u32,
    /// All URLs in one piece, with where each ends; both empty where there are none.
    text: Vec<u8>,
    ends: Vec<u64>,
    bytes: Vec<u64>,
    known_bytes: u64,
    /// Number of the page's site; empty where there are no URLs.
    site: Vec<u32>,
    site_names: Vec<Box<str>>,
}

impl Pages {
    pub fn count(&self) -> u32 {
        self.count
    }

    pub fn have_urls(&self) -> bool {
        !self.ends.is_empty()
    }

    /// How many pages' sizes are known rather than assumed.
    pub fn known_bytes(&self) -> u64 {
        self.known_bytes
    }

    /// Its URL, or its number where the graph has no URLs.
    pub fn name(&self, page: u32) -> String {
        self.url(page)
            .map_or_else(|| format!("page {page}"), str::to_owned)
    }

    pub fn url(&self, page: u32) -> Option<&str> {
        let end = *self.ends.get(page as usize)? as usize;
        let start = match page {
            0 => 0,
            _ => self.ends[page as usize - 1] as usize,
        };
        std::str::from_utf8(&self.text[start..end]).ok()
    }

    /// What it costs to send a link to this page.
    pub fn url_bytes(&self, page: u32) -> u32 {
        let page = page as usize;
        match self.ends.get(page) {
            None => ASSUMED_URL_BYTES,
            Some(&end) if page == 0 => end as u32,
            // The builder refuses URLs that are longer than u32.
            Some(&end) => (end - self.ends[page - 1]) as u32,
        }
    }

    pub fn bytes(&self, page: u32) -> u64 {
        self.bytes[page as usize]
    }

    pub fn total_bytes(&self) -> u64 {
        self.bytes.iter().sum()
    }

    pub fn sites(&self) -> u32 {
        self.site_names.len() as u32
    }

    pub fn site(&self, page: u32) -> Option<u32> {
        self.site.get(page as usize).copied()
    }

    pub fn site_name(&self, site: u32) -> &str {
        &self.site_names[site as usize]
    }

    /// What a partitioner may know of it. A graph belongs to no crawl, so its identities are the public
    /// ones.
    pub fn key(&self, page: u32) -> UrlKey<'_> {
        let host_name = self.site(page).map_or("", |site| self.site_name(site));
        let url = self.url(page);
        let ids = Identities::PUBLIC;
        UrlKey {
            doc: url.map_or_else(|| ids.doc(&page.to_string()), |url| ids.doc(url)),
            host: ids.host(host_name),
            url: url.unwrap_or(""),
            host_name,
        }
    }

    /// For replays, where the number stands for the document and the site's number for its host.
    pub(crate) fn numbered(&self, page: u32) -> Known {
        Known {
            doc: DocId(u64::from(page)),
            // Spread as the hashes of names are: rankers count sites by their bits.
            host: HostId(
                u64::from(self.site(page).unwrap_or(page) + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15),
            ),
        }
    }

    /// Where sites are needed: a sentence instead, if there are none.
    pub(crate) fn require_sites(&self) -> Result<()> {
        if self.have_urls() {
            return Ok(());
        }
        Err(GraphError::Request(
            "this graph has no URLs, so its sites are not known; cut it by page, or put NAME.urls \
             (one URL a line) beside NAME.graph"
                .to_owned(),
        ))
    }
}

/// Takes pages in the order of their numbers.
#[derive(Debug, Default)]
pub struct PagesBuilder {
    text: Vec<u8>,
    ends: Vec<u64>,
    bytes: Vec<u64>,
    site: Vec<u32>,
    site_numbers: HashMap<Box<str>, u32>,
    site_names: Vec<Box<str>>,
    without_url: u32,
}

impl PagesBuilder {
    pub fn count(&self) -> usize {
        self.ends.len() + self.without_url as usize
    }

    /// `url` as it would be sent; `site` the canonical name of its host.
    pub fn push(&mut self, url: &str, site: &str, bytes: Option<u64>) {
        self.text.extend_from_slice(url.as_bytes());
        self.ends.push(self.text.len() as u64);
        self.bytes.push(bytes.unwrap_or(UNKNOWN_BYTES));
        let number = match self.site_numbers.get(site) {
            Some(&number) => number,
            None => {
                let number = self.site_names.len() as u32;
                self.site_names.push(site.into());
                self.site_numbers.insert(site.into(), number);
                number
            }
        };
        self.site.push(number);
    }

    /// A graph of `pages` pages of which nothing but their number is known.
    pub fn nameless(pages: u32) -> Self {
        Self {
            bytes: vec![UNKNOWN_BYTES; pages as usize],
            without_url: pages,
            ..Self::default()
        }
    }

    /// Pages without a known size get the mean of the known ones.
    pub fn finish(mut self, notes: &mut Vec<Note>) -> Result<Pages> {
        let count = u32::try_from(self.bytes.len()).map_err(|_| {
            GraphError::Request("the graph has more than 4,294,967,295 pages".to_owned())
        })?;
        let known: Vec<u64> = self
            .bytes
            .iter()
            .copied()
            .filter(|&bytes| bytes != UNKNOWN_BYTES)
            .collect();
        let mean = match known.len() as u64 {
            0 => ASSUMED_PAGE_BYTES,
            n => {
                (known.iter().map(|&bytes| u128::from(bytes)).sum::<u128>() / u128::from(n)) as u64
            }
        };
        let unknown = u64::from(count) - known.len() as u64;
        if unknown > 0 {
            let what = if known.is_empty() {
                format!(
                    "pages of unknown size; {mean} bytes are assumed for each, so bytes follow requests"
                )
            } else {
                format!("pages of unknown size; the mean of the others, {mean} bytes, is assumed")
            };
            notes.push(Note {
                count: unknown,
                what,
                first: None,
            });
        }
        if self.without_url > 0 {
            notes.push(Note {
                count: u64::from(self.without_url),
                what: format!(
                    "pages without a URL; {ASSUMED_URL_BYTES} bytes are assumed for each link, and sites are not known"
                ),
                first: None,
            });
        }
        let mut total = 0_u64;
        for bytes in &mut self.bytes {
            if *bytes == UNKNOWN_BYTES {
                *bytes = mean;
            }
            total = total.checked_add(*bytes).ok_or_else(|| {
                GraphError::Request("the sizes of all pages together overflow 64 bits".to_owned())
            })?;
        }
        self.text.shrink_to_fit();
        Ok(Pages {
            count,
            text: self.text,
            ends: self.ends,
            bytes: self.bytes,
            known_bytes: u64::from(count) - unknown,
            site: self.site,
            site_names: self.site_names,
        })
    }
}
