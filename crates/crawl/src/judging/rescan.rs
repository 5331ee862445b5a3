//! Links that nobody looked for when a page was fetched, because settings said so: they are in the archive. When the
//! settings want them, archived pages are read again, from disk, and nothing is asked of their servers. What a page was
//! not kept for (`noarchive`, reserved texts) cannot be read again.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use portolan_archive::{Cat, Message, warc_path};
use portolan_model::{LinkBatch, LinkKind, PartitionId, Visit};
use portolan_registry::{Snapshot, UrlFilter, UrlState};

use super::{Hand, Judged};
use crate::error::CrawlError;
use crate::links::PageLinks;
use crate::page::Workbench;
use crate::settings::Settings;
use crate::stored::Stored;

/// What archived pages are to be read for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Rescan {
    embeds: bool,
    feeds: bool,
    /// Pages with more links than were taken of a page.
    left_out: bool,
}

impl Rescan {
    /// What pages were not read for before, and are now.
    pub(super) fn wanted(before: Option<&Judged>, now: &Settings) -> Option<Self> {
        let before = before?;
        let content = &now.content;
        let most_links = before.number("content.max_links").unwrap_or(0);
        let rescan = Self {
            embeds: content.embeds && !before.was_on("content.embeds"),
            feeds: content.feeds && !before.was_on("content.feeds"),
            left_out: content.max_links as u64 > most_links,
        };
        (rescan.embeds || rescan.feeds || rescan.left_out).then_some(rescan)
    }

    /// May this page have links that are wanted now?
    fn may_have_some(&self, visit: &Visit) -> bool {
        let mime = visit.mime.as_str();
        let is_xml = mime.contains("xml") || mime.contains("rss") || mime.contains("atom");
        (self.left_out && visit.links_left_out > 0)
            || (self.feeds && (is_xml || mime.starts_with("text/")))
            || (self.embeds && (mime.contains("html") || mime.contains("css") || mime.is_empty()))
    }

    fn takes(&self, kind: LinkKind, visit: &Visit) -> bool {
        match kind {
            LinkKind::Feed if self.feeds => true,
            LinkKind::Embed if self.embeds => true,
            _ => self.left_out && visit.links_left_out > 0,
        }
    }

    /// Reads all archived pages that may have such links, and puts those into the logs. Killed, it begins anew: a link
    /// that is there already changes nothing.
    pub(super) fn run(
        &self,
        hand: &Hand<'_>,
        dir: &Path,
        snapshot: &Snapshot,
        bench: &mut Workbench,
    ) -> Result<(), CrawlError> {
        let shared = hand.shared;
        let metrics = &shared.metrics;
        let mut files = Files::of(dir, &shared.settings);
        let visited = UrlFilter {
            state: Some(UrlState::Visited),
            ..UrlFilter::default()
        };
        for url in snapshot.urls(visited) {
            let url = url?;
            if shared.budget.is_stopping() {
                return Ok(());
            }
            let Some(visit) = snapshot.visit(&url)? else {
                continue;
            };
            if !(visit.is_document() && self.may_have_some(&visit)) {
                continue;
            }
            let Some(archived) = files.read(snapshot, &visit)? else {
                continue;
            };
            metrics.add(&metrics.reread, 1);
            let head = (archived.mime.as_ref(), archived.directives);
            if let Some(links) = bench.links_of_archived(shared, &url, head, &archived.body) {
                self.hand_over(hand, PartitionId(url.partition), links, &visit);
            }
        }
        Ok(())
    }

    fn hand_over(&self, hand: &Hand<'_>, partition: PartitionId, links: PageLinks, visit: &Visit) {
        let own = (partition, links.own);
        for (partition, batch) in std::iter::once(own).chain(links.forwards) {
            let mut wanted = LinkBatch::new(batch.from());
            wanted.set_vote(batch.vote());
            for link in batch.iter().filter(|link| self.takes(link.kind, visit)) {
                wanted.push(link);
            }
            hand.verdicts(partition, wanted);
        }
    }
}

/// The crawl's WARC files.
struct Files<'s> {
    dir: &'s Path,
    settings: &'s Settings,
    /// Those that were looked for, by number: as many as the archive has.
    known: HashMap<u32, Option<PathBuf>>,
}

impl<'s> Files<'s> {
    fn of(dir: &'s Path, settings: &'s Settings) -> Self {
        Self {
            dir,
            settings,
            known: HashMap::new(),
        }
    }

    /// The answer of a visit; of a copy, the one that it is a copy of. `None` if it is not there to be read.
    fn read(&mut self, snapshot: &Snapshot, visit: &Visit) -> Result<Option<Stored>, CrawlError> {
        let original = match visit.duplicate_of {
            None => None,
            Some(doc) => match snapshot.find(doc)? {
                Some(record) => snapshot.visit(&record)?,
                None => return Ok(None),
            },
        };
        let position = original.as_ref().unwrap_or(visit).archive;
        let Some(position) = position else {
            return Ok(None);
        };
        let Some(path) = self.path(position.file)? else {
            return Ok(None);
        };
        let Some(message) = Message::open(&path, Cat::Offset(position.offset))? else {
            return Ok(None);
        };
        Stored::read(message, self.settings).map(Some)
    }

    fn path(&mut self, number: u32) -> Result<Option<PathBuf>, CrawlError> {
        if let Some(path) = self.known.get(&number) {
            return Ok(path.clone());
        }
        let path = warc_path(self.dir, &self.settings.archive.file_prefix(), number)?;
        self.known.insert(number, path.clone());
        Ok(path)
    }
}
