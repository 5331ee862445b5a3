//! Sessions: what was visited becomes due again, and what is known of the last check goes along. Folded from the log
//! like everything else; no URL becomes due twice in a session, however often it is said.

use crate::error::{RegistryError, Result};
use crate::files::read_piece;
use crate::log::{Renewed, Was, read_visit};
use crate::record::{Record, UrlState};
use crate::sieve::{Act, Op};
use crate::state::{Keeper, State};
use crate::texts::Finding;
use crate::wire::Reader;
use portolan_model::{DocId, LinkKind, Reason, Visit};

/// What the last check of a URL found.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LastCheck {
    /// Where it is recorded.
    pub at: u64,
    pub visit: Visit,
}

impl State {
    /// When the session began; 0 for the first.
    pub(crate) fn session_begun_ms(&self) -> u64 {
        let sessions = &self.stats.sessions;
        let own = sessions.iter().find(|s| s.number == self.session);
        own.map_or(0, |session| session.begun_ms)
    }

    pub(super) fn fold_session(
        &mut self,
        number: u32,
        begun_ms: u64,
        urls: &[Renewed],
        keeper: &mut impl Keeper,
    ) -> Result<()> {
        if number > self.session {
            self.session = number;
            self.session_from = self.visits.len();
            self.stats.session(number).begin(begun_ms);
        }
        for renewed in urls {
            self.arrivals += 1;
            let op = Op {
                doc: self.ids.doc(&renewed.url).0,
                arrival: self.arrivals,
                url: &renewed.url,
                // Where it was found is known already.
                finding: Finding {
                    kind: LinkKind::Anchor,
                    depth: 0,
                    hops: 0,
                    from: None,
                    early: false,
                },
                act: Act::Renew {
                    was: renewed.was,
                    from: self.session_from,
                },
            };
            self.act_or_wait(&op, keeper)?;
        }
        Ok(())
    }

    /// A URL whose record is `before` is due in the session whose visits begin at `from`.
    pub(super) fn renew(
        &mut self,
        op: &Op<'_>,
        before: Record,
        was: Was,
        from: u64,
        keeper: &mut impl Keeper,
    ) -> Result<()> {
        if before.state == UrlState::Due || before.visit() > from {
            return Ok(());
        }
        let after = Record {
            state: UrlState::Due,
            reason: 0,
            attempts: 0,
            arrival: op.arrival,
            ..before
        };
        self.sieve.insert(op.doc, &after);
        if before.state == UrlState::Visited {
            self.stats.renew(was);
            let host = self.host_of(op.url);
            let counts = &mut self.hosts.news_of(host.id, host.name).counts;
            counts.pages -= i64::from(was.document);
        }
        let host = self.host_of(op.url);
        self.settle_visit(op, host, Some(before), after, keeper)
    }

    pub(super) fn fold_refresh(&mut self, doc: DocId, keeper: &mut impl Keeper) -> Result<()> {
        self.arrivals += 1;
        let op = Op {
            doc: doc.0,
            arrival: self.arrivals,
            // It is read when it is known that there is such a URL.
            url: "",
            finding: Finding {
                kind: LinkKind::Anchor,
                depth: 0,
                hops: 0,
                from: None,
                early: false,
            },
            act: Act::Refresh,
        };
        self.act_or_wait(&op, keeper)
    }

    /// A URL whose record is `before` is due again. Reads the disk.
    pub(super) fn refresh(
        &mut self,
        op: &Op<'_>,
        before: Record,
        keeper: &mut impl Keeper,
    ) -> Result<()> {
        let is_shut_out = before.is_liftable() && before.reason() != Some(Reason::WaitsForItsShare);
        if before.state == UrlState::Due || is_shut_out {
            return Ok(());
        }
        let (url, _) = self.texts.read(before.text, op.doc)?;
        let was = match (before.state, before.visit().checked_sub(1)) {
            (UrlState::Visited, Some(at)) => Was::of(&self.visit_at(at)?),
            _ => Was::default(),
        };
        self.renew(&Op { url: &url, ..*op }, before, was, u64::MAX, keeper)
    }

    /// The last check of the URL with this record. Reads the disk.
    pub(crate) fn last_check(&self, record: &Record) -> Result<Option<Box<LastCheck>>> {
        let mut visit_at = record.visit();
        // What is no check says where the last one is.
        for _ in 0..2 {
            let Some(at) = visit_at.checked_sub(1) else {
                break;
            };
            let visit = self.visit_at(at)?;
            if visit.is_check() {
                return Ok(Some(Box::new(LastCheck { at, visit })));
            }
            visit_at = visit.history.before;
        }
        Ok(None)
    }

    pub(crate) fn visit_at(&self, at: u64) -> Result<Visit> {
        let damaged = || RegistryError::corrupt(self.visits.path(), at, "a visit cannot be read");
        if at >= self.visits.len() {
            return Err(damaged());
        }
        let (_, body) = read_piece(&self.visits, at, |length| length)?;
        read_visit(&mut Reader::new(&body)).ok_or_else(damaged)
    }

    /// Where the links of a check led; see `History::links_at`.
    pub(crate) fn links_of(&self, check: &Visit) -> Result<Vec<DocId>> {
        let Some(at) = check.history.links_at.checked_sub(1) else {
            return Ok(Vec::new());
        };
        if at >= self.graph.len() {
            let what = "links of a visit are missing";
            return Err(RegistryError::corrupt(self.graph.path(), at, what));
        }
        let (_, body) = read_piece(&self.graph, at, |targets| 8 * (targets + 1))?;
        let docs = body.chunks_exact(8).skip(1);
        Ok(docs
            .filter_map(|word| word.try_into().ok())
            .map(|word| DocId(u64::from_le_bytes(word)))
            .collect())
    }
}
