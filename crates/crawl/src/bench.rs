//! The way of a page through scanning and link sorting, without a crawl around it: what the benchmarks of
//! extracting and archiving measure.

use encoding_rs::UTF_8;
use portolan_content::Fingerprint;
use portolan_model::{CanonicalUrl, Canonicalizer, Identities, LinkKind, PartitionId};
use std::sync::{Arc, RwLock};
use tokio::sync::mpsc;

use crate::admission::{Admission, Page};
use crate::assembly;
use crate::division::Division;
use crate::error::CrawlError;
use crate::links::{PageLinks, RawLinks};
use crate::mapper::{self, NameDrop};
use crate::metrics::thread_cpu_ns;
use crate::modules::{HtmlScan, Learned};
use crate::scope::Scope;
use crate::settings::Settings;

/// A worker's tools for reading a page.
pub struct Extractor {
    scan: HtmlScan,
    raw: RawLinks,
    max_links: usize,
    admission: Admission,
    names: NameDrop,
    scope: RwLock<Scope>,
    partitions: u16,
    facts: Learned,
    links: PageLinks,
    /// Nobody resolves the names; they are only offered.
    _names: mpsc::Receiver<String>,
}

/// CPU time that a page took, by stage.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ExtractCost {
    pub fingerprint_ns: u64,
    /// Charset, links, and text for the simhash where the settings ask for it.
    pub scan_ns: u64,
    /// Distinct, canonical, judged, packed for their partitions.
    pub links_ns: u64,
    /// Distinct targets.
    pub links: u64,
}

impl Extractor {
    /// `seeds` are what the scope is measured from.
    pub fn new(settings: &Settings, seeds: &[CanonicalUrl]) -> Result<Self, CrawlError> {
        let partitions = assembly::partitions(settings);
        let (names, _names) = mapper::queue();
        Ok(Self {
            scan: HtmlScan::new(settings),
            raw: RawLinks::default(),
            max_links: settings.content.max_links,
            admission: Admission::new(
                settings,
                Canonicalizer::new(&settings.urls),
                Arc::new(Division::by_hash(partitions)),
                assembly::ranker(settings, None)?,
                Identities::PUBLIC,
            ),
            names: NameDrop::new(names),
            scope: RwLock::new(assembly::scope(settings, seeds)?),
            partitions,
            facts: Learned::default(),
            links: PageLinks::none(None),
            _names,
        })
    }

    /// Reads an HTML page as a worker does.
    pub fn read(&mut self, url: &CanonicalUrl, body: &[u8]) -> ExtractCost {
        let begun_ns = thread_cpu_ns();
        std::hint::black_box(Fingerprint::of(body));
        let fingerprinted_ns = thread_cpu_ns();
        self.raw.clear(self.max_links);
        self.facts = self.scan.read(&mut self.raw, url, None, body);
        let scanned_ns = thread_cpu_ns();
        let base = self.facts.base.as_deref();
        let base = base.and_then(|href| self.admission.resolve(url, href));
        let host = url.host_id(&Identities::PUBLIC);
        let page = Page {
            base: base.as_ref().unwrap_or(url),
            doc: url.doc_id(&Identities::PUBLIC),
            host,
            partition: PartitionId::of(host, self.partitions),
            kind: LinkKind::Seed,
            depth: 0,
            score: 0,
            charset: self.facts.charset.unwrap_or(UTF_8),
            nofollow: self.facts.directives.nofollow,
            hops: 0,
        };
        let scope = self
            .scope
            .read()
            .unwrap_or_else(|poisoned| poisoned.into_inner());
        self.links = self
            .admission
            .links(&scope, &page, &self.raw, &mut self.names);
        ExtractCost {
            fingerprint_ns: fingerprinted_ns - begun_ns,
            scan_ns: scanned_ns - fingerprinted_ns,
            links_ns: thread_cpu_ns() - scanned_ns,
            links: self.links.targets.len() as u64,
        }
    }

    /// The links of the last page.
    pub fn links(&self) -> impl Iterator<Item = (&str, LinkKind)> {
        self.links.iter().map(|link| (link.url, link.kind))
    }

    pub fn title(&self) -> &str {
        &self.facts.title
    }

    pub fn simhash(&self) -> u64 {
        self.facts.simhash
    }

    pub fn charset(&self) -> &'static str {
        self.facts.charset.map_or("", |charset| charset.name())
    }
}
