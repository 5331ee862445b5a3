//! Links from the stream: a page whose body is slow or large is read for links while it is still coming, so that what it
//! names is fetched meanwhile. `BodyWatch` shows it the body; batches of links go to the archivist like those of a visit.
//!
//! They are early links (`LinkBatch::is_early`): they make URLs known and due and count for nothing. The page's visit has
//! them again, from its own reading of the whole body. A body that is small and fast costs a look at its head.

use std::rc::Rc;
use std::time::Duration;

use portolan_content::html::{Element, Found, PageScanner};
use portolan_content::{Directives, DocumentKind, MimeType, kind_of};
use portolan_model::{CanonicalUrl, PartitionId, Pulse};
use portolan_net::{Decoder, Head, Wait};
use portolan_registry::{Due, Entry};
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::Instant;

use crate::client::Client;
use crate::commit::Finished;
use crate::links::RawLinks;
use crate::modules::{HtmlScan, link_kind};
use crate::shared::Shared;

/// A body that has been coming for this long is read while it comes, ...
const SLOW: Duration = Duration::from_secs(1);
/// ... and so is one that has grown past this.
const LARGE_BYTES: usize = 256 * 1024;
/// Links leave together: this many, ...
const BATCH_LINKS: usize = 64;
/// ... or what there is after this time.
const BATCH_EVERY: Duration = Duration::from_millis(500);
/// A packed body is unpacked in pieces of this many bytes, so that little is in memory of what it unpacks to.
const PACKED_PIECE_BYTES: usize = 4 * 1024;
/// Pages that are read while they come, over all workers. Others are read when they are there.
pub(crate) const EARLY_PLACES: usize = 64;

/// The page that is asked for.
pub(crate) struct Source<'a> {
    pub(crate) client: &'a Rc<Client>,
    pub(crate) due: &'a Due,
    pub(crate) url: &'a CanonicalUrl,
    pub(crate) partition: PartitionId,
    /// Its host's, as of before the request.
    pub(crate) pulse: Pulse,
}

/// The links of one page while it comes.
pub(crate) struct EarlyLinks<'a> {
    source: Source<'a>,
    progress: Progress,
}

enum Progress {
    Off,
    /// It is a page, and so far neither slow nor large.
    Waiting(Told, Option<Instant>),
    Reading(Box<Reading>),
}

/// What the head says of how to read the page.
struct Told {
    mime: MimeType,
    encodings: String,
    directives: Directives,
}

struct Reading {
    scanner: PageScanner,
    decoder: Option<Decoder>,
    /// The kind of document is known, and it is HTML.
    is_html: bool,
    mime: MimeType,
    /// Bytes of the body that were read.
    read_bytes: usize,
    /// Found and not handed over. Those that were are remembered, so that each leaves once.
    raw: RawLinks,
    base: Option<CanonicalUrl>,
    directives: Directives,
    /// A BASE counts for links in front of it, too: none leave before the text has begun.
    in_text: bool,
    left_at: Option<Instant>,
    _place: OwnedSemaphorePermit,
}

impl<'a> EarlyLinks<'a> {
    pub(crate) fn new(source: Source<'a>) -> Self {
        let progress = Progress::Off;
        Self { source, progress }
    }

    pub(crate) fn head(&mut self, head: &Head) {
        let settings = &self.source.client.shared.settings;
        let mime = head.get("content-type").and_then(MimeType::parse_header);
        let Some(mime) = mime.filter(|mime| mime.essence().contains("html")) else {
            return;
        };
        if !settings.content.early_links || !(200..300).contains(&head.status()) {
            return;
        }
        let mut directives = Directives::default();
        for value in head.get_all("x-robots-tag") {
            directives |= Directives::from_header(value, &settings.identity.product);
        }
        let told = Told {
            mime,
            encodings: Decoder::encodings_of(head).into_owned(),
            directives,
        };
        self.progress = Progress::Waiting(told, None);
    }

    /// More of the body is about to be read: what is there of it may have links that can leave now.
    pub(crate) fn look(&mut self, so_far: &[u8]) -> Option<Wait> {
        if let Progress::Waiting(_, since) = &mut self.progress {
            let since = *since.get_or_insert_with(Instant::now);
            if so_far.len() < LARGE_BYTES && (so_far.is_empty() || since.elapsed() < SLOW) {
                return None;
            }
            self.begin();
        }
        let Progress::Reading(reading) = &mut self.progress else {
            return None;
        };
        let base = |href: &str| {
            let bench = self.source.client.bench.borrow();
            bench.resolve(self.source.url, href)
        };
        if !reading.read(so_far, base) {
            self.progress = Progress::Off;
            return None;
        }
        let has_waited = |at: Instant| at.elapsed() >= BATCH_EVERY;
        let is_time = reading.raw.len() >= BATCH_LINKS || reading.left_at.is_none_or(has_waited);
        if !is_time || !reading.in_text || reading.raw.len() == 0 {
            return None;
        }
        reading.left_at = Some(Instant::now());
        self.source.leave(reading)
    }

    fn begin(&mut self) {
        let shared = &self.source.client.shared;
        let Ok(place) = shared.early_places.clone().try_acquire_owned() else {
            return;
        };
        if let Progress::Waiting(told, _) = std::mem::replace(&mut self.progress, Progress::Off) {
            let reading = Reading::new(shared, self.source.url, told, place);
            self.progress = Progress::Reading(Box::new(reading));
        }
    }
}

impl Source<'_> {
    /// What was found goes to the owners of what it leads to.
    fn leave(&self, reading: &mut Reading) -> Option<Wait> {
        let shared = &self.client.shared;
        let base = reading.base.as_ref().unwrap_or(self.url);
        let mut bench = self.client.bench.borrow_mut();
        let nofollow = shared.settings.robots.meta && reading.directives.nofollow;
        let page = (self.due, self.url, self.partition);
        let charset = reading.scanner.charset().encoding;
        let told = (base, charset, nofollow);
        let links = bench.early_links(shared, page, told, &reading.raw);
        drop(bench);
        reading.raw.forget_text();
        let left = links.len();
        if left == 0 {
            return None;
        }
        tracing::debug!(url = %self.url, links = left, bytes = reading.read_bytes, "links leave early");
        shared.metrics.add(&shared.metrics.early_links, left as u64);
        let finished = Finished {
            partition: self.partition,
            entry: Entry::Host {
                host: self.url.host().to_owned(),
                pulse: self.pulse,
                robots: None,
                archive: None,
                links: links.own,
                forwards: links.forwards,
            },
            record: None,
            haul: None,
            room: None,
        };
        let shared = std::sync::Arc::clone(shared);
        Some(Box::pin(async move { shared.hand_over(finished).await }))
    }
}

impl Reading {
    fn new(shared: &Shared, url: &CanonicalUrl, told: Told, place: OwnedSemaphorePermit) -> Self {
        let settings = &shared.settings;
        let mut raw = RawLinks::default();
        raw.clear(settings.content.max_links);
        Self {
            scanner: HtmlScan::links_only(settings).scanner(url, Some(&told.mime)),
            decoder: Decoder::for_encoding(&told.encodings, settings.http.max_decoded_bytes),
            is_html: false,
            mime: told.mime,
            read_bytes: 0,
            raw,
            base: None,
            directives: told.directives,
            in_text: false,
            left_at: None,
            _place: place,
        }
    }

    /// Reads what is new of the body. `false`: there is nothing to be found in it.
    fn read(&mut self, so_far: &[u8], base: impl Fn(&str) -> Option<CanonicalUrl>) -> bool {
        let fresh = so_far.get(self.read_bytes..).unwrap_or_default();
        self.read_bytes = so_far.len().max(self.read_bytes);
        let Some(mut decoder) = self.decoder.take() else {
            return self.scan(fresh, &base);
        };
        let mut plain = Vec::new();
        for piece in fresh.chunks(PACKED_PIECE_BYTES) {
            plain.clear();
            if decoder.push(piece, &mut plain).is_err() || !self.scan(&plain, &base) {
                return false;
            }
        }
        self.decoder = Some(decoder);
        true
    }

    fn scan(&mut self, plain: &[u8], base: &impl Fn(&str) -> Option<CanonicalUrl>) -> bool {
        if plain.is_empty() {
            return true;
        }
        if !self.is_html && kind_of(Some(&self.mime), plain) != DocumentKind::Html {
            return false;
        }
        self.is_html = true;
        let Self {
            scanner,
            raw,
            directives,
            in_text,
            base: known_base,
            ..
        } = self;
        scanner.feed(plain, &mut |found: Found<'_>| match found {
            Found::Link {
                element,
                role,
                href,
                nofollow,
            } => {
                *in_text |= matches!(element, Element::A | Element::Area);
                raw.push(href, link_kind(element, role), nofollow);
            }
            Found::Base(href) => *known_base = base(href),
            Found::Robots(more) => *directives |= more,
            Found::Title(_) | Found::Text(_) | Found::TextBreak => {}
        });
        true
    }
}
