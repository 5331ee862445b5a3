//! Counters of the fold: exact and cheap, the same however often the log is replayed.

use crate::log::Was;
use crate::record::UrlState;
use crate::sessions::SessionStats;
use crate::wire::{Reader, put_varint};
use portolan_model::{ArchivePosition, Outcome, Reason, Visit};

const REASONS: usize = 128;

/// What a partition (or several: `add`) has come to. Links that wait to be looked up are not yet
/// in the first five; `Partition::backlog` counts those.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Stats {
    pub known: u64,
    pub due: u64,
    pub visited: u64,
    pub failed: u64,
    pub excluded: u64,
    /// Observations of links, repeats included.
    pub observations: u64,
    /// Attempts at a URL, whatever came of them; not what was excluded without asking.
    pub requests: u64,
    pub retries: u64,
    /// Documents archived.
    pub pages: u64,
    /// Sitemaps read for their links, which are no documents.
    pub sitemaps: u64,
    pub duplicates: u64,
    /// Bytes on the wire of all answers, as [`Visit::wire_bytes`].
    pub wire_bytes: u64,
    /// Bytes of bodies without encodings, as [`Visit::body_bytes`].
    pub body_bytes: u64,
    /// Documents with more links than are taken, and how many links of theirs were left out.
    pub pages_over_links: u64,
    pub links_left_out: u64,
    /// URLs that became due because settings changed, and due ones that were taken out of their queues.
    pub judged_due: u64,
    pub judged_out: u64,
    /// Answers by hundreds of their status; 0 is none.
    pub by_status_class: [u64; 6],
    /// URLs by the reason that they are not due or visited, indexed by the reason's number.
    by_reason: Vec<u64>,
    /// How far answers were archived in each file of the archive that has some, by the file's number.
    pub archive_files: Vec<(u32, u64)>,
    /// Each session, the first one first.
    pub sessions: Vec<SessionStats>,
}

impl Default for Stats {
    fn default() -> Self {
        Self {
            known: 0,
            due: 0,
            visited: 0,
            failed: 0,
            excluded: 0,
            observations: 0,
            requests: 0,
            retries: 0,
            pages: 0,
            sitemaps: 0,
            duplicates: 0,
            wire_bytes: 0,
            body_bytes: 0,
            pages_over_links: 0,
            links_left_out: 0,
            judged_due: 0,
            judged_out: 0,
            by_status_class: [0; 6],
            by_reason: vec![0; REASONS],
            archive_files: Vec::new(),
            sessions: Vec::new(),
        }
    }
}

impl Stats {
    /// URLs that were fetched and are neither documents nor sitemaps: redirects that lead somewhere. A redirect that leads nowhere is
    /// among the failed.
    pub fn redirects(&self) -> u64 {
        self.visited.saturating_sub(self.pages + self.sitemaps)
    }

    pub fn by_reason(&self, reason: Reason) -> u64 {
        self.by_reason[reason as usize % REASONS]
    }

    pub fn add(&mut self, other: &Stats) {
        for (sum, number) in self.numbers_mut().into_iter().zip(other.numbers()) {
            *sum += number;
        }
        for &(file, end) in &other.archive_files {
            self.archived_up_to(file, end);
        }
        for session in &other.sessions {
            self.session(session.number).add(session);
        }
    }

    /// The furthest end of an archived answer: file and offset.
    pub fn archive_end(&self) -> Option<(u32, u64)> {
        self.archive_files.last().copied()
    }

    pub(crate) fn enter(&mut self, state: UrlState, reason: u8) {
        *self.in_state(state) += 1;
        if reason != 0 {
            self.by_reason[reason as usize % REASONS] += 1;
        }
    }

    pub(crate) fn leave(&mut self, state: UrlState, reason: u8) {
        *self.in_state(state) -= 1;
        if reason != 0 {
            self.by_reason[reason as usize % REASONS] -= 1;
        }
    }

    fn in_state(&mut self, state: UrlState) -> &mut u64 {
        match state {
            UrlState::Due => &mut self.due,
            UrlState::Visited => &mut self.visited,
            UrlState::Failed => &mut self.failed,
            UrlState::Excluded => &mut self.excluded,
        }
    }

    pub(crate) fn visit(&mut self, visit: &Visit) {
        self.requests += u64::from(is_request(visit));
        self.retries += u64::from(matches!(visit.outcome, Outcome::Retry(_)));
        self.pages += u64::from(visit.is_document());
        self.sitemaps += u64::from(visit.is_source());
        self.duplicates += u64::from(visit.duplicate_of.is_some());
        self.wire_bytes += visit.wire_bytes;
        self.body_bytes += visit.received_body_bytes();
        self.pages_over_links += u64::from(visit.links_left_out > 0);
        self.links_left_out += u64::from(visit.links_left_out);
        let class = usize::from(visit.status / 100);
        self.by_status_class[if class < 6 { class } else { 0 }] += 1;
        if let Some(archive) = &visit.archive {
            self.archived(archive);
        }
        self.session(visit.history.session).visit(visit);
    }

    /// What a URL was counted as is to be found out anew.
    pub(crate) fn renew(&mut self, was: Was) {
        self.pages -= u64::from(was.document);
        self.sitemaps -= u64::from(was.sitemap);
        self.duplicates -= u64::from(was.duplicate);
    }

    /// A visited URL has come from another partition.
    pub(crate) fn move_in(&mut self, was: Was) {
        self.pages += u64::from(was.document);
        self.sitemaps += u64::from(was.sitemap);
        self.duplicates += u64::from(was.duplicate);
    }

    /// What of it is no sum over the URLs that are known now.
    pub(crate) fn without_urls(&self) -> Self {
        Self {
            known: 0,
            due: 0,
            visited: 0,
            failed: 0,
            excluded: 0,
            pages: 0,
            sitemaps: 0,
            duplicates: 0,
            by_reason: vec![0; REASONS],
            ..self.clone()
        }
    }

    /// The counters of a session; the last one, mostly.
    pub(crate) fn session(&mut self, number: u32) -> &mut SessionStats {
        let at = match self.sessions.last() {
            Some(last) if last.number == number => self.sessions.len() - 1,
            _ => match self.sessions.binary_search_by_key(&number, |s| s.number) {
                Ok(at) => at,
                Err(at) => {
                    self.sessions.insert(at, SessionStats::new(number));
                    at
                }
            },
        };
        &mut self.sessions[at]
    }

    pub(crate) fn archived(&mut self, at: &ArchivePosition) {
        self.archived_up_to(at.file, at.end);
    }

    /// Mostly in the last file.
    fn archived_up_to(&mut self, file: u32, end: u64) {
        match self.archive_files.last_mut() {
            Some((last, known)) if *last == file => *known = end.max(*known),
            Some((last, _)) if *last > file => {
                let found = self
                    .archive_files
                    .binary_search_by_key(&file, |(file, _)| *file);
                match found {
                    Ok(at) => {
                        let known = &mut self.archive_files[at].1;
                        *known = end.max(*known);
                    }
                    Err(at) => self.archive_files.insert(at, (file, end)),
                }
            }
            _ => self.archive_files.push((file, end)),
        }
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        for number in self.numbers() {
            put_varint(out, number);
        }
        put_varint(out, self.archive_files.len() as u64);
        for &(file, end) in &self.archive_files {
            put_varint(out, u64::from(file));
            put_varint(out, end);
        }
        put_varint(out, self.sessions.len() as u64);
        for session in &self.sessions {
            session.encode(out);
        }
    }

    pub(crate) fn decode(reader: &mut Reader<'_>) -> Option<Self> {
        let mut stats = Self::default();
        for number in stats.numbers_mut() {
            *number = reader.varint()?;
        }
        for _ in 0..reader.varint()? {
            stats
                .archive_files
                .push((reader.narrow()?, reader.varint()?));
        }
        for _ in 0..reader.varint()? {
            stats.sessions.push(SessionStats::decode(reader)?);
        }
        Some(stats)
    }

    fn numbers(&self) -> Vec<u64> {
        self.clone().numbers_mut().into_iter().map(|n| *n).collect()
    }

    fn numbers_mut(&mut self) -> Vec<&mut u64> {
        let mut numbers = vec![
            &mut self.known,
            &mut self.due,
            &mut self.visited,
            &mut self.failed,
            &mut self.excluded,
            &mut self.observations,
            &mut self.requests,
            &mut self.retries,
            &mut self.pages,
            &mut self.sitemaps,
            &mut self.duplicates,
            &mut self.wire_bytes,
            &mut self.body_bytes,
            &mut self.pages_over_links,
            &mut self.links_left_out,
            &mut self.judged_due,
            &mut self.judged_out,
        ];
        numbers.extend(&mut self.by_status_class);
        numbers.extend(&mut self.by_reason);
        numbers
    }
}

/// Was the server (or the network) asked?
pub(crate) fn is_request(visit: &Visit) -> bool {
    visit.status != 0 || !matches!(visit.outcome, Outcome::Excluded(_))
}
