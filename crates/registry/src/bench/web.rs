//! A made-up Web for the benchmarks: URLs by number, whose host and text follow from the number, so
//! that nothing need be remembered; and what a registry must make of them, counted beside it.

use crate::error::Result;
use crate::record::UrlState;
use crate::snapshot::{Snapshot, UrlFilter};
use portolan_model::{
    DocId, HostId, Identities, Link, LinkBatch, LinkKind, Order, PartitionId, Verdict,
};
use std::collections::HashMap;

/// Links of one page.
const PAGE_LINKS: usize = 20;
/// URLs of a host.
const HOST_URLS: u64 = 200;
/// One observation in this many is of a new URL.
const NEW_ONE_IN: u64 = 4;
/// Every host with a number that this divides has its whole queue compared.
const QUEUES_ONE_IN: u64 = 100;

pub(super) struct SyntheticWeb {
    random: u64,
    pub(super) known: u64,
    partitions: u16,
    text: String,
    /// Of the host that URLs were made for last: its number and partition.
    last_home: Option<(u64, PartitionId)>,
}

impl SyntheticWeb {
    pub(super) fn new(seed: u64, partitions: u16) -> Self {
        Self {
            random: seed,
            known: 0,
            partitions,
            text: String::new(),
            last_home: None,
        }
    }

    fn next(&mut self) -> u64 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.random ^ (self.random >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Numbers near 0 come often, as a zipf law with exponent 1 has it.
    fn zipf(&mut self, bound: u64) -> u64 {
        let uniform = (self.next() >> 11) as f64 / (1u64 << 53) as f64;
        (((bound + 1) as f64).powf(uniform) as u64 - 1).min(bound - 1)
    }

    /// Links of one page, by partition. New URLs of a page are of one host; known ones are
    /// anywhere.
    pub(super) fn page(&mut self, mut model: Option<&mut Model>) -> Vec<(PartitionId, LinkBatch)> {
        let from = DocId(self.next());
        let mut batches: Vec<(PartitionId, LinkBatch)> = Vec::new();
        for _ in 0..PAGE_LINKS {
            let number = if self.known == 0 || self.next().is_multiple_of(NEW_ONE_IN) {
                self.known += 1;
                self.known - 1
            } else {
                self.zipf(self.known)
            };
            let mut text = std::mem::take(&mut self.text);
            let host = write_url(&mut text, number);
            let at = self.home(number / HOST_URLS, &text[host]);
            if let Some(model) = model.as_deref_mut() {
                model.observe(number, at);
            }
            let index = batches
                .iter()
                .position(|(partition, _)| *partition == at)
                .unwrap_or_else(|| {
                    batches.push((at, LinkBatch::new(Some(from))));
                    batches.len() - 1
                });
            batches[index].1.push(Link {
                url: &text,
                kind: LinkKind::Anchor,
                depth: 3,
                hops: 0,
                verdict: Verdict::Crawl { priority: 0 },
            });
            self.text = text;
        }
        batches
    }

    fn home(&mut self, host: u64, name: &str) -> PartitionId {
        if let Some((last, home)) = self.last_home
            && last == host
        {
            return home;
        }
        let home = PartitionId::of(Identities::PUBLIC.host(name), self.partitions);
        self.last_home = Some((host, home));
        home
    }
}

/// The URL of a number; returns where its host name stands.
fn write_url(text: &mut String, number: u64) -> std::ops::Range<usize> {
    text.clear();
    text.push_str("https://www.site-");
    put_decimal(text, number / HOST_URLS);
    text.push_str(".example");
    let host = 8..text.len();
    text.push_str("/section-");
    put_decimal(text, number % 7);
    text.push_str("/article-");
    put_decimal(text, number);
    text.push_str(".html");
    host
}

fn put_decimal(text: &mut String, mut number: u64) {
    let mut tens = 1;
    while number / tens >= 10 {
        tens *= 10;
    }
    while tens > 0 {
        text.push(char::from(b'0' + (number / tens) as u8));
        number %= tens;
        tens /= 10;
    }
}

fn number_of(url: &str) -> Option<usize> {
    let tail = url.rsplit("article-").next()?;
    tail.strip_suffix(".html")?.parse().ok()
}

/// What the registry must know, by number of the URL.
#[derive(Default)]
pub(super) struct Model {
    urls: Vec<Expected>,
    /// Observations of each partition so far.
    arrivals: Vec<u64>,
}

#[derive(Clone, Copy, Default)]
struct Expected {
    count: u32,
    visited: bool,
    /// Its partition's observation that made it known.
    arrival: u64,
}

impl Model {
    fn observe(&mut self, number: u64, at: PartitionId) {
        let (number, at) = (number as usize, usize::from(at.0));
        self.arrivals.resize(self.arrivals.len().max(at + 1), 0);
        self.arrivals[at] += 1;
        self.urls
            .resize(self.urls.len().max(number + 1), Expected::default());
        let url = &mut self.urls[number];
        url.count += 1;
        if url.count == 1 {
            url.arrival = self.arrivals[at];
        }
    }

    pub(super) fn visit(&mut self, url: &str) {
        let known = number_of(url).and_then(|number| self.urls.get_mut(number));
        let known = known.expect("a URL was handed out that was never observed");
        assert!(!known.visited, "{url} was handed out twice");
        known.visited = true;
    }

    /// Compares all URLs, and the queues of some hosts; says what was found to agree. A difference is
    /// a panic: the figures would be worth nothing.
    pub(super) fn check(&self, snapshot: &Snapshot) -> Result<Vec<String>> {
        let mut found = 0;
        for url in snapshot.urls(UrlFilter::default()) {
            let url = url?;
            let number = number_of(&url.url).unwrap_or(usize::MAX);
            let known = self.urls.get(number).filter(|known| known.count > 0);
            let known = known.unwrap_or_else(|| panic!("{} was never observed", url.url));
            assert_eq!(url.count, known.count, "count of {}", url.url);
            assert_eq!(
                url.class,
                Order::Backlinks.class_of(known.count, 0, 0),
                "class of {}",
                url.url
            );
            assert_eq!(url.arrival, known.arrival, "arrival of {}", url.url);
            assert_eq!(url.state == UrlState::Visited, known.visited, "{}", url.url);
            found += 1;
        }
        assert_eq!(found, self.urls.len(), "URLs known");
        let mut queues: HashMap<u64, Vec<_>> = HashMap::new();
        for (number, known) in (0..).zip(&self.urls) {
            let host = number / HOST_URLS;
            if !known.visited && host.is_multiple_of(QUEUES_ONE_IN) {
                let class = Order::Backlinks.class_of(known.count, 0, 0);
                let place = (u8::MAX - class, known.arrival, doc_of(number));
                queues.entry(host).or_default().push(place);
            }
        }
        for (host, queue) in &mut queues {
            queue.sort();
            let order: Vec<DocId> = queue.iter().map(|(_, _, doc)| *doc).collect();
            assert_eq!(snapshot.queue(host_of(*host))?, order, "queue of {host}");
        }
        Ok(vec![
            format!("counts, classes, arrivals and states of {found} URLs"),
            format!("order of {} queues", queues.len()),
        ])
    }
}

fn doc_of(number: u64) -> DocId {
    let mut text = String::new();
    write_url(&mut text, number);
    Identities::PUBLIC.doc(&text)
}

fn host_of(host: u64) -> HostId {
    Identities::PUBLIC.host(&format!("www.site-{host}.example"))
}
