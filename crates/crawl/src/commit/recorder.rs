//! The recorder: appends records to the archive, as revisits where the payload is known, and makes them durable.

use portolan_archive::{Built, ContentSeen, RecordBuilder, SeenRecord, WarcWriter};
use portolan_model::{ArchivePosition, Identities};
use portolan_registry::Entry;

use crate::answered::{Answered, VisitRecords};
use crate::error::CrawlError;

pub(crate) struct Recorder {
    pub(crate) warc: WarcWriter,
    pub(crate) seen: ContentSeen,
    builder: RecordBuilder,
    ids: Identities,
    /// Where the last record ends, if it is not durable yet.
    unsynced: Option<ArchivePosition>,
}

impl Recorder {
    pub(crate) fn new(
        warc: WarcWriter,
        seen: ContentSeen,
        builder: RecordBuilder,
        ids: Identities,
    ) -> Self {
        Self {
            warc,
            seen,
            builder,
            ids,
            unsynced: None,
        }
    }

    /// Makes durable what was stored since the last time. Returns where the archive ends now, if anything was.
    pub(crate) fn sync(&mut self) -> Result<Option<ArchivePosition>, CrawlError> {
        let stored = self.unsynced.take();
        if stored.is_some() {
            self.warc.sync()?;
            // Whatever the journal says is archived is known as a copy after a kill. A power cut may take what is known
            // since the table was last synced: those payloads are stored in full once more.
            self.seen.flush()?;
        }
        Ok(stored)
    }

    fn append(&mut self, built: &Built) -> Result<ArchivePosition, CrawlError> {
        let position = self.warc.append(built)?;
        self.unsynced = Some(position);
        Ok(position)
    }

    /// Appends the record that the entry tells of, and says in the entry where it is.
    pub(crate) fn store(
        &mut self,
        entry: &mut Entry,
        record: VisitRecords,
    ) -> Result<(), CrawlError> {
        match (entry, record) {
            (entry @ Entry::Visit { .. }, VisitRecords::Answer { built, copy }) => {
                self.store_answer(entry, built, copy.as_deref())
            }
            (Entry::Visit { url, visit, .. }, VisitRecords::NotModified { answered, since_ms }) => {
                let known = self.seen.lookup(visit.fingerprint, &visit.sha1)?;
                let first = known.unwrap_or_else(|| SeenRecord {
                    url: url.clone(),
                    at_ms: since_ms,
                });
                let capture = answered.capture(url, visit, None);
                let built = self.builder.build_not_modified(&capture, &first);
                visit.archive = Some(self.append(&built)?);
                Ok(())
            }
            (Entry::Host { archive, .. }, VisitRecords::Answer { built, .. }) => {
                *archive = Some(self.append(&built)?);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// The payload is stored once. A page that is what it was in an earlier session refers to what is stored of it.
    fn store_answer(
        &mut self,
        entry: &mut Entry,
        mut built: Built,
        copy: Option<&Answered>,
    ) -> Result<(), CrawlError> {
        let Entry::Visit {
            url,
            visit,
            links,
            forwards,
            ..
        } = entry
        else {
            return Ok(());
        };
        visit.sha1 = built.payload_sha1();
        let first = match copy {
            Some(_) => self.seen.lookup(visit.fingerprint, &visit.sha1)?,
            None => None,
        };
        if let (Some(first), Some(copy)) = (&first, copy)
            && (first.url != *url || visit.history.before != 0)
        {
            let capture = copy.capture(url, visit, None);
            let outlinks = links
                .iter()
                .chain(forwards.iter().flat_map(|(_, batch)| batch.iter()))
                .map(|link| (link.url, link.kind));
            let payload_bytes = built.payload_bytes();
            built = self
                .builder
                .build_revisit(&capture, payload_bytes, first, outlinks);
            if first.url != *url {
                visit.duplicate_of = Some(self.ids.doc(&first.url));
            }
        }
        let position = self.append(&built)?;
        if first.is_none() && copy.is_some() {
            let (fingerprint, sha1) = (visit.fingerprint, &visit.sha1);
            self.seen
                .insert(fingerprint, sha1, url, visit.at_ms, &position)?;
        }
        visit.archive = Some(position);
        Ok(())
    }
}
