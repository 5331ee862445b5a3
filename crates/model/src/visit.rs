//! What became of a request.

use crate::{DocId, Reason};

/// The end of a URL's way through the crawl, or of one attempt at it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// The server answered and the answer is archived: a document, a redirect, or an error page
    /// that counts as an answer. `Visit::status` says which.
    Fetched,
    /// It did not work this time; the URL stays due and goes back in its queue, a class lower.
    Retry(Reason),
    /// It did not work and is given up.
    Failed(Reason),
    /// It may not or need not be fetched.
    Excluded(Reason),
}

/// Why a body is shorter than what the server meant to send.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Truncation {
    /// Over the configured size.
    Length = 1,
    /// Over the configured time.
    Time = 2,
    /// The connection ended early, or the framing broke.
    Disconnect = 3,
}

impl Truncation {
    pub fn from_u8(value: u8) -> Option<Self> {
        [Truncation::Length, Truncation::Time, Truncation::Disconnect]
            .into_iter()
            .find(|t| *t as u8 == value)
    }

    /// The word of WARC-Truncated.
    pub fn name(self) -> &'static str {
        match self {
            Truncation::Length => "length",
            Truncation::Time => "time",
            Truncation::Disconnect => "disconnect",
        }
    }
}

/// Where a response (or revisit) record starts, and how long the visit's records are together.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ArchivePosition {
    /// Number of the WARC file within the crawl.
    pub file: u32,
    pub offset: u64,
    /// Compressed length of the response record.
    pub length: u32,
    /// End of the last record of this visit: the archive is whole up to here.
    pub end: u64,
}

/// What earlier sessions know of a URL, as of a visit. It is in the visit, so the last visit of a URL tells all.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct History {
    /// The session of the visit; the first is 1.
    pub session: u32,
    /// Answers that told what is there (a document, a redirect, that it is gone), this visit's included.
    pub checks: u32,
    /// How many of them told something else than the one before.
    pub changes: u32,
    /// When that was the last time; 0 for never.
    pub changed_ms: u64,
    /// Since when the server says that it is gone (404 or 410); 0 if it does not.
    pub gone_ms: u64,
    /// Where the last visit before this one that was a check is, plus one; 0 for none.
    pub before: u64,
    /// Where the links that are on the page are in the link graph, plus one; 0 for none. The registry sets it
    /// for a visit that brings links; one that found the page unchanged says what the check before said.
    pub links_at: u64,
    /// Bytes that were not sent because the page was not modified, or because its volatile parts alone were asked for; 0
    /// if it was sent.
    pub saved_bytes: u64,
    /// How many of the checks told news: another text than the one before, where `changes` counts every other byte.
    pub news: u32,
    /// Time between checks at whose end there were no news, summed.
    pub quiet_ms: u64,
    /// Time between checks at whose end there were news, summed; without those that somebody told of.
    pub news_after_ms: u64,
    /// How many of the news somebody told of (a sitemap, a feed, a person): the check was made because of them.
    pub told: u32,
    /// Time between these checks and the ones before, summed.
    pub told_after_ms: u64,
}

/// Texts whose near-duplicate digests differ in at most this many of 64 bits are the same to a reader: a clock or an
/// advertisement is another one.
pub const SAME_TEXT_BITS: u32 = 3;

impl Default for History {
    fn default() -> Self {
        Self {
            session: 1,
            checks: 0,
            changes: 0,
            changed_ms: 0,
            gone_ms: 0,
            before: 0,
            links_at: 0,
            saved_bytes: 0,
            news: 0,
            quiet_ms: 0,
            news_after_ms: 0,
            told: 0,
            told_after_ms: 0,
        }
    }
}

/// What a check found, beside the check before it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Change {
    /// No check came before.
    New,
    Changed,
    Unchanged,
    /// It was there, and is not there any longer.
    Gone,
    /// It was gone before, and still is.
    StillGone,
}

/// One request and what came of it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Visit {
    pub at_ms: u64,
    pub outcome: Outcome,
    /// HTTP status; 0 where no answer came.
    pub status: u16,
    /// How many attempts it took, this one included.
    pub attempt: u8,
    pub depth: u16,
    /// From sending the request to the end of the body.
    pub fetch_ms: u32,
    /// Bytes on the wire: all that was received for this answer, head, framing and encodings included.
    pub wire_bytes: u64,
    /// Bytes of the body without content and transfer encoding.
    pub body_bytes: u64,
    pub truncated: Option<Truncation>,
    /// Media type without parameters, lower case.
    pub mime: String,
    pub charset: String,
    pub title: String,
    pub etag: String,
    pub last_modified: String,
    /// SHA-1 of the payload as archived.
    pub sha1: [u8; 20],
    /// 64-bit document fingerprint (xxh3 of the payload); 0 for an empty body.
    pub fingerprint: u64,
    /// Simhash of the text, for near-duplicates; 0 where there is no text.
    pub simhash: u64,
    /// The first document with the same payload, if this is a copy.
    pub duplicate_of: Option<DocId>,
    /// Distinct links found.
    pub links: u32,
    /// Links beyond `content.max_links`, which were not taken. Those that the page repeats may count more
    /// than once.
    pub links_left_out: u32,
    /// It was asked for as a sitemap: a source of links, and no document.
    pub is_sitemap: bool,
    pub archive: Option<ArchivePosition>,
    pub history: History,
    /// What processing modules said of the document, in their order. A name stands once.
    pub facts: Vec<Fact>,
}

/// What a processing module says of a document.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Fact {
    /// The module's name, a dot, and the fact's own: `pdf.pages`.
    pub name: String,
    pub value: String,
}

impl Fact {
    /// About how many bytes it takes.
    pub fn bytes(&self) -> usize {
        self.name.len() + self.value.len()
    }
}

impl Visit {
    /// A visit in which nothing was received.
    pub fn without_answer(at_ms: u64, outcome: Outcome) -> Self {
        Self {
            at_ms,
            outcome,
            status: 0,
            attempt: 1,
            depth: 0,
            fetch_ms: 0,
            wire_bytes: 0,
            body_bytes: 0,
            truncated: None,
            mime: String::new(),
            charset: String::new(),
            title: String::new(),
            etag: String::new(),
            last_modified: String::new(),
            sha1: [0; 20],
            fingerprint: 0,
            simhash: 0,
            duplicate_of: None,
            links: 0,
            links_left_out: 0,
            is_sitemap: false,
            archive: None,
            history: History::default(),
            facts: Vec::new(),
        }
    }

    /// Has this visit found out what is there, or that nothing is?
    pub fn is_check(&self) -> bool {
        self.outcome == Outcome::Fetched || self.is_gone()
    }

    /// The server says that there is no such page (any more).
    pub fn is_gone(&self) -> bool {
        matches!(self.outcome, Outcome::Failed(_)) && matches!(self.status, 404 | 410)
    }

    /// The server was asked whether the page is still the one of the last check, and said yes. What is known of the
    /// page was taken over from there.
    pub fn is_not_modified(&self) -> bool {
        self.status == 304 && self.history.before != 0
    }

    /// Were the page's volatile parts alone fetched? The rest of it was taken over from an earlier check, and so is where it is
    /// archived.
    pub fn is_refreshed(&self) -> bool {
        self.status == 200 && self.history.before != 0 && self.history.saved_bytes > 0
    }

    /// Bytes of the body that this visit received.
    pub fn received_body_bytes(&self) -> u64 {
        if self.is_not_modified() || self.is_refreshed() {
            return 0;
        }
        self.body_bytes
    }

    /// What this visit found; `None` if it is no check.
    pub fn change(&self) -> Option<Change> {
        let history = &self.history;
        if !self.is_check() {
            None
        } else if history.before == 0 {
            Some(Change::New)
        } else if self.is_gone() {
            let is_news = history.gone_ms == self.at_ms;
            Some(if is_news {
                Change::Gone
            } else {
                Change::StillGone
            })
        } else if history.changed_ms == self.at_ms {
            Some(Change::Changed)
        } else {
            Some(Change::Unchanged)
        }
    }

    /// Sets the history of a visit in `session` that comes after `before`, the last check of its URL and where that is.
    /// `same`: what came is what was there at the last check.
    pub fn follow(&mut self, session: u32, before: Option<(u64, &Visit)>, same: bool) {
        let mut history = History {
            session,
            ..before.map(|(_, visit)| visit.history).unwrap_or_default()
        };
        history.before = before.map_or(0, |(at, _)| at + 1);
        history.saved_bytes = 0;
        if self.is_check() {
            history.checks = history.checks.saturating_add(1);
            let is_change = before.is_some() && !same;
            if is_change {
                history.changes = history.changes.saturating_add(1);
                history.changed_ms = self.at_ms;
            }
            if let Some((_, before)) = before {
                let between_ms = self.at_ms.saturating_sub(before.at_ms);
                if is_change && !self.has_text_of(before) {
                    history.news = history.news.saturating_add(1);
                    history.news_after_ms = history.news_after_ms.saturating_add(between_ms);
                } else {
                    history.quiet_ms = history.quiet_ms.saturating_add(between_ms);
                }
            }
            history.gone_ms = match (self.is_gone(), history.gone_ms) {
                (false, _) => 0,
                (true, 0) => self.at_ms,
                (true, since) => since,
            };
            if !same {
                history.links_at = 0;
            }
        }
        self.history = history;
        if let (Some((_, before)), true) = (before, self.is_not_modified()) {
            let whole = before.wire_bytes + before.history.saved_bytes;
            self.history.saved_bytes = whole.saturating_sub(self.wire_bytes);
        }
    }

    /// The check was made because somebody had told that the page has changed. `before` is the check before. To be called after `follow`.
    pub fn was_told_of(&mut self, before: Option<&Visit>) {
        let Some(before) = before else {
            return;
        };
        if self.history.news > before.history.news {
            let between_ms = self.at_ms.saturating_sub(before.at_ms);
            self.history.news_after_ms = self.history.news_after_ms.saturating_sub(between_ms);
            self.history.told = self.history.told.saturating_add(1);
            self.history.told_after_ms = self.history.told_after_ms.saturating_add(between_ms);
        }
    }

    /// Would a reader take both for the same page? What has no text is never the same.
    fn has_text_of(&self, other: &Visit) -> bool {
        self.has_content()
            && other.has_content()
            && self.simhash != 0
            && other.simhash != 0
            && (self.simhash ^ other.simhash).count_ones() <= SAME_TEXT_BITS
    }

    /// Is this a document: a page or file that the crawl was after?
    pub fn is_document(&self) -> bool {
        self.has_content() && !self.is_sitemap
    }

    /// Is this a sitemap that was read for its links?
    pub fn is_source(&self) -> bool {
        self.has_content() && self.is_sitemap
    }

    fn has_content(&self) -> bool {
        self.outcome == Outcome::Fetched
            && ((200..300).contains(&self.status) || self.is_not_modified())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(at_ms: u64, status: u16) -> Visit {
        let outcome = match status {
            404 => Outcome::Failed(Reason::HttpClientError),
            _ => Outcome::Fetched,
        };
        Visit {
            status,
            ..Visit::without_answer(at_ms, outcome)
        }
    }

    #[test]
    fn history_counts_checks_and_changes_and_says_since_when_a_page_is_gone() {
        let steps: [(u16, bool, Change, [u64; 4]); 6] = [
            // status, same, what was found; checks, changes, changed, gone
            (200, false, Change::New, [1, 0, 0, 0]),
            (304, true, Change::Unchanged, [2, 0, 0, 0]),
            (200, false, Change::Changed, [3, 1, 30, 0]),
            (404, false, Change::Gone, [4, 2, 40, 40]),
            (404, true, Change::StillGone, [5, 2, 40, 40]),
            (200, false, Change::Changed, [6, 3, 60, 0]),
        ];
        let mut last: Option<Visit> = None;
        for (at, (status, same, change, counts)) in (1..).zip(steps) {
            let mut visit = check(10 * at, status);
            visit.follow(at as u32, last.as_ref().map(|last| (at, last)), same);
            let history = visit.history;
            let found = [
                u64::from(history.checks),
                u64::from(history.changes),
                history.changed_ms,
                history.gone_ms,
            ];
            assert_eq!((visit.change(), found), (Some(change), counts));
            assert_eq!(history.session, at as u32);
            assert_eq!(visit.is_document(), status != 404);
            last = Some(visit);
        }
    }

    #[test]
    fn a_clock_on_a_page_is_a_change_and_no_news() {
        let with_text = |at_ms: u64, simhash: u64, before: Option<(u64, &Visit)>| {
            let mut visit = check(at_ms, 200);
            visit.simhash = simhash;
            visit.follow(1, before, false);
            visit
        };
        let first = with_text(100, 0xffff, None);
        let clock = with_text(150, 0xfffe, Some((1, &first)));
        let news = with_text(250, 0x00fe, Some((2, &clock)));
        let counted = |visit: &Visit| {
            let history = visit.history;
            let counts = (history.changes, history.news);
            (counts, history.quiet_ms, history.news_after_ms)
        };
        assert_eq!(counted(&clock), ((1, 0), 50, 0));
        assert_eq!(counted(&news), ((2, 1), 50, 100));
        // The same where a sitemap had told of it; of the clock it cannot have told.
        let mut told = news.clone();
        told.was_told_of(Some(&clock));
        assert_eq!(counted(&told), ((2, 1), 50, 0));
        assert_eq!((told.history.told, told.history.told_after_ms), (1, 100));
        let mut clock_again = clock.clone();
        clock_again.was_told_of(Some(&first));
        assert_eq!(clock_again, clock);
    }

    #[test]
    fn an_attempt_without_an_answer_is_no_check() {
        let mut first = check(1, 200);
        first.follow(1, None, false);
        let mut attempt = Visit::without_answer(2, Outcome::Retry(Reason::Timeout));
        attempt.follow(2, Some((70, &first)), false);
        assert_eq!(attempt.change(), None);
        assert_eq!((attempt.history.checks, attempt.history.before), (1, 71));
    }
}
