//! What each entry of the log does to the state. Depends on the log alone: not on the clock, not on
//! when merges run.

use crate::error::{RegistryError, Result};
use crate::files::put_piece;
use crate::hosts::HostCounts;
use crate::log::{Arrival, Entry, Origin, put_claims, put_visit};
use crate::record::{Record, UrlState};
use crate::sieve::{Act, Op};
use crate::state::{Keeper, LINKS_TOGETHER, State};
use crate::stats::is_request;
use crate::texts::Finding;
use crate::wire::put_u64;
use portolan_model::url::politeness_key;
use portolan_model::{DocId, Link, LinkBatch, LinkKind, Outcome, Pulse, Reason, Verdict, Visit};

impl State {
    /// `docs` are those of the entry's links.
    pub(super) fn fold(
        &mut self,
        entry: &Entry,
        docs: &[u64],
        keeper: &mut impl Keeper,
    ) -> Result<()> {
        match entry {
            Entry::Links { source, links } => {
                if let Some(origin) = source
                    && !self.is_next(origin)?
                {
                    return Ok(());
                }
                self.fold_links(links, docs, keeper)
            }
            Entry::Heard { origin, pages } => {
                if !self.is_next(origin)? {
                    return Ok(());
                }
                let mut docs = docs;
                for links in pages {
                    let (own, others) = docs.split_at(links.len());
                    docs = others;
                    self.fold_links(links, own, keeper)?;
                }
                Ok(())
            }
            Entry::Visit {
                url,
                visit,
                pulse,
                links,
                targets,
                ..
            } => {
                self.fold_visit(url, visit, pulse, !targets.is_empty(), keeper)?;
                self.fold_links(links, docs, keeper)?;
                self.fold_graph(self.ids.doc(url), targets)
            }
            Entry::Host {
                host,
                pulse,
                robots,
                archive,
                links,
                ..
            } => {
                if let Some(archive) = archive {
                    self.stats.archived(archive);
                }
                let id = self.ids.host(host).0;
                self.hosts.news_of(id, host).pulse = Some(*pulse);
                self.latest_ms = self.latest_ms.max(pulse.last_ms);
                if let Some(robots) = robots {
                    self.hosts.set_robots(id, host, robots.clone());
                }
                self.fold_links(links, docs, keeper)
            }
            Entry::Again { urls } => urls.iter().try_for_each(|url| self.fold_again(url, keeper)),
            Entry::Judged { links } => {
                let vote = links.vote();
                let judge = |verdict| Act::Judge { verdict, vote };
                self.fold_verdicts(links, docs, judge, keeper)
            }
            Entry::Session {
                number,
                begun_ms,
                urls,
            } => self.fold_session(*number, *begun_ms, urls, keeper),
            Entry::Refresh { docs } => docs
                .iter()
                .try_for_each(|doc| self.fold_refresh(*doc, keeper)),
            Entry::Sent { forwards } => {
                let number = self.applied + 1;
                let to = forwards.iter().map(|forward| forward.to);
                to.for_each(|to| self.exchanged.send(to, number));
                Ok(())
            }
            Entry::Moved(moved) => self.fold_moved(moved, keeper),
            Entry::Claims { claims } => {
                let mut piece = Vec::with_capacity(8 + 10 * claims.len());
                put_claims(&mut piece, claims);
                self.claims
                    .append(|out| put_piece(out, piece.len() as u64, &piece))?;
                Ok(())
            }
        }
    }

    /// Is it the next of its stream? False if it was heard before.
    fn is_next(&mut self, origin: &Origin) -> Result<bool> {
        match self.heard.hear(origin) {
            Arrival::Next => {
                self.exchanged.heard += 1;
                Ok(true)
            }
            Arrival::Known => Ok(false),
            Arrival::Gap | Arrival::Astray => Err(RegistryError::Stream {
                partition: self.id.0,
                from: origin.source.0,
                number: origin.number,
                heard: self.heard.last(origin.source),
            }),
        }
    }

    /// What an act on the URL of a link needs to know of the link.
    #[inline(always)]
    pub(super) fn op<'l>(
        &self,
        link: &Link<'l>,
        doc: u64,
        from: Option<DocId>,
        act: Act,
    ) -> Op<'l> {
        Op {
            doc,
            arrival: self.arrivals,
            url: link.url,
            finding: Finding {
                kind: link.kind,
                depth: link.depth,
                hops: link.hops,
                from,
                early: matches!(act, Act::Announce { .. }),
            },
            act,
        }
    }

    fn fold_again(&mut self, url: &str, keeper: &mut impl Keeper) -> Result<()> {
        self.arrivals += 1;
        let op = Op {
            doc: self.ids.doc(url).0,
            arrival: self.arrivals,
            url,
            // Where it was found is known already.
            finding: Finding {
                kind: LinkKind::Anchor,
                depth: 0,
                hops: 0,
                from: None,
                early: false,
            },
            act: Act::Again,
        };
        self.act_or_wait(&op, keeper)
    }

    /// The first links have been seen to by `warm`.
    fn fold_links(
        &mut self,
        links: &LinkBatch,
        docs: &[u64],
        keeper: &mut impl Keeper,
    ) -> Result<()> {
        if links.is_early() {
            return self.fold_verdicts(links, docs, |verdict| Act::Announce { verdict }, keeper);
        }
        for (at, (link, &doc)) in links.iter().zip(docs).enumerate() {
            if at > 0 && at.is_multiple_of(LINKS_TOGETHER) {
                let next = &docs[at..];
                self.sieve.warm(&next[..next.len().min(LINKS_TOGETHER)]);
            }
            self.fold_link(&link, doc, links, keeper)?;
        }
        Ok(())
    }

    /// Links of which the verdict alone matters: those that are early, and those that are judged again.
    fn fold_verdicts(
        &mut self,
        links: &LinkBatch,
        docs: &[u64],
        act: impl Fn(Verdict) -> Act,
        keeper: &mut impl Keeper,
    ) -> Result<()> {
        for (link, &doc) in links.iter().zip(docs) {
            self.arrivals += 1;
            let op = self.op(&link, doc, links.from(), act(link.verdict));
            self.act_or_wait(&op, keeper)?;
        }
        Ok(())
    }

    #[inline(always)]
    fn fold_link(
        &mut self,
        link: &Link<'_>,
        doc: u64,
        batch: &LinkBatch,
        keeper: &mut impl Keeper,
    ) -> Result<()> {
        self.arrivals += 1;
        self.stats.observations += 1;
        if link.kind.is_seed() {
            let url = link.url.as_bytes();
            self.seeds
                .append(|out| put_piece(out, url.len() as u64, url))?;
        }
        let act = Act::Observe {
            verdict: link.verdict,
            vote: batch.vote(),
        };
        let op = self.op(link, doc, batch.from(), act);
        self.act_or_wait(&op, keeper)
    }

    /// `has_links`: they are appended to the link graph next.
    fn fold_visit(
        &mut self,
        url: &str,
        visit: &Visit,
        pulse: &Pulse,
        has_links: bool,
        keeper: &mut impl Keeper,
    ) -> Result<()> {
        let links_at = match has_links {
            true => self.graph.len() + 1,
            false => visit.history.links_at,
        };
        let at = self.visits.append(|out| {
            let mut body = Vec::with_capacity(160);
            put_visit(&mut body, visit, links_at);
            put_piece(out, body.len() as u64, &body);
        })?;
        self.stats.visit(visit);
        let host = self.host_of(url);
        let news = self.hosts.news_of(host.id, host.name);
        news.pulse = Some(*pulse);
        self.latest_ms = self.latest_ms.max(pulse.last_ms);
        let counts = &mut news.counts;
        counts.requests += i64::from(is_request(visit));
        counts.pages += i64::from(visit.is_document());
        counts.failures += i64::from(matches!(visit.outcome, Outcome::Failed(_)));
        counts.body_bytes += visit.received_body_bytes() as i64;
        if matches!(visit.outcome, Outcome::Retry(_)) {
            self.arrivals += 1;
        }
        let op = Op {
            doc: self.ids.doc(url).0,
            arrival: self.arrivals,
            url,
            finding: Finding {
                kind: LinkKind::Anchor,
                depth: visit.depth,
                hops: 0,
                from: None,
                early: false,
            },
            act: Act::Visit {
                outcome: visit.outcome,
                at,
            },
        };
        self.act_or_wait(&op, keeper)
    }

    pub(super) fn fold_graph(&mut self, from: DocId, targets: &[DocId]) -> Result<()> {
        if targets.is_empty() {
            return Ok(());
        }
        self.graph.append(|out| {
            let mut body = Vec::with_capacity(16 + 8 * targets.len());
            put_u64(&mut body, from.0);
            for target in targets {
                put_u64(&mut body, target.0);
            }
            put_piece(out, targets.len() as u64, &body);
        })?;
        Ok(())
    }

    /// Not asked for a link to a URL in RAM, which are most, unless it moves in its queue.
    #[inline(always)]
    pub(super) fn host_of<'u>(&mut self, url: &'u str) -> Host<'u> {
        let name = politeness_key(url);
        if self.last_host.0 != name {
            self.last_host.0.clear();
            self.last_host.0.push_str(name);
            self.last_host.1 = self.ids.host(name).0;
        }
        let id = self.last_host.1;
        Host { id, name }
    }

    /// Acts at once if the URL's record is in RAM, or surely nowhere; else it waits to be looked up
    /// together with others.
    pub(super) fn act_or_wait(&mut self, op: &Op<'_>, keeper: &mut impl Keeper) -> Result<()> {
        if self.act(op, true, keeper)? {
            return Ok(());
        }
        self.sieve.pending.push(op);
        if self.sieve.pending.len() >= self.limits.pending_ops
            || self.sieve.pending.bytes() >= self.limits.pending_bytes
        {
            keeper.relieve(self)?;
        }
        Ok(())
    }

    /// Carries an operation out; false if the record is not in RAM but `may_be_on_disk`.
    pub(super) fn act(
        &mut self,
        op: &Op<'_>,
        may_be_on_disk: bool,
        keeper: &mut impl Keeper,
    ) -> Result<bool> {
        let order = self.order;
        let host = match order.keeps_score() {
            true => self.host_of(op.url).id,
            false => 0,
        };
        let Some(slot) = self.sieve.touch(op.doc) else {
            if may_be_on_disk && self.sieve.may_be_on_disk(op.doc) {
                return Ok(false);
            }
            return self.admit(op, keeper).map(|()| true);
        };
        match op.act {
            Act::Observe { verdict, vote } => {
                let moved = if order.keeps_score() {
                    let mut record = slot.record();
                    let moved = record.observe(order, host, vote);
                    slot.put(&record);
                    moved
                } else {
                    slot.count_up(order)
                };
                match (slot.state(), verdict) {
                    (UrlState::Excluded, Verdict::Crawl { priority }) => {
                        let record = slot.record();
                        if record.is_liftable() || is_wanted_as_sitemap(op, &record) {
                            self.lift(op, record, priority, keeper)?;
                        }
                    }
                    (UrlState::Due, Verdict::Crawl { .. })
                        if op.finding.kind == LinkKind::Sitemap =>
                    {
                        let record = slot.record();
                        self.become_sitemap(op, record, moved, keeper)?;
                    }
                    (UrlState::Due, _) if moved => {
                        let record = slot.record();
                        self.raise(op, record, keeper)?;
                    }
                    (UrlState::Excluded, Verdict::Exclude(reason))
                        if slot.reason() == Reason::NoFollow as u8
                            || (reason == Reason::WaitsForItsShare
                                && slot.record().is_liftable()) =>
                    {
                        // A link without the mark, or one that would lift the exclusion but for its share: from now on the
                        // URL is kept out by something else.
                        let before = slot.record();
                        slot.put(&Record {
                            reason: reason as u8,
                            ..before
                        });
                        self.stats.leave(before.state, before.reason);
                        self.stats.enter(before.state, reason as u8);
                    }
                    _ => {}
                }
            }
            Act::Announce { verdict } => {
                let before = slot.record();
                self.announce(op, before, verdict, keeper)?;
            }
            Act::Visit { outcome, at } => {
                let before = slot.record();
                let mut after = before;
                (after.state, after.reason) = Record::after(outcome);
                after.set_visit(order, at);
                if after.state == UrlState::Due {
                    after.attempts = after.attempts.saturating_add(1);
                    after.arrival = op.arrival;
                }
                slot.put(&after);
                let host = self.host_of(op.url);
                self.settle_visit(op, host, Some(before), after, keeper)?;
            }
            Act::Again => {
                let before = slot.record();
                if matches!(before.state, UrlState::Failed | UrlState::Excluded) {
                    let after = Record {
                        state: UrlState::Due,
                        reason: 0,
                        attempts: 0,
                        arrival: op.arrival,
                        ..before
                    };
                    slot.put(&after);
                    let host = self.host_of(op.url);
                    self.settle_visit(op, host, Some(before), after, keeper)?;
                }
            }
            Act::Judge { verdict, .. } => {
                let before = slot.record();
                self.judge(op, before, verdict, keeper)?;
            }
            Act::Renew { was, from, class } => {
                let before = slot.record();
                self.renew(op, before, (was, class), from, keeper)?;
            }
            Act::Refresh => {
                let before = slot.record();
                self.refresh(op, before, keeper)?;
            }
        }
        Ok(true)
    }

    /// A URL that was not known.
    fn admit(&mut self, op: &Op<'_>, keeper: &mut impl Keeper) -> Result<()> {
        let is_old = match op.act {
            Act::Again | Act::Renew { .. } | Act::Refresh => true,
            Act::Judge { .. } => op.finding.from.is_none(),
            Act::Observe { .. } | Act::Announce { .. } | Act::Visit { .. } => false,
        };
        if is_old {
            // Only what is known can be tried again, or judged again.
            return Ok(());
        }
        let host = self.host_of(op.url);
        let text = self.texts.append(op.url, op.finding)?;
        let mut record = Record::new(host.id, op.arrival, text);
        self.stats.known += 1;
        match op.act {
            Act::Observe { verdict, vote } => {
                record.observe(self.order, host.id, vote);
                self.admit_link(op, host, record, verdict, keeper)
            }
            Act::Announce { verdict } => self.admit_link(op, host, record, verdict, keeper),
            Act::Judge { verdict, vote } => {
                let is_due = matches!(verdict, Verdict::Crawl { .. });
                self.stats.judged_due += u64::from(is_due);
                record.observe(self.order, host.id, vote);
                self.admit_link(op, host, record, verdict, keeper)
            }
            Act::Visit { outcome, at } => {
                (record.state, record.reason) = Record::after(outcome);
                record.attempts = u8::from(record.state == UrlState::Due);
                record.set_visit(self.order, at);
                self.sieve.insert_new(op.doc, &record);
                self.settle_visit(op, host, None, record, keeper)
            }
            Act::Again | Act::Renew { .. } | Act::Refresh => Ok(()),
        }
    }

    fn admit_link(
        &mut self,
        op: &Op<'_>,
        host: Host<'_>,
        mut record: Record,
        verdict: Verdict,
        keeper: &mut impl Keeper,
    ) -> Result<()> {
        match verdict {
            Verdict::Crawl { priority } => record.priority = priority,
            Verdict::Exclude(reason) => {
                (record.state, record.reason) = (UrlState::Excluded, reason as u8);
            }
        }
        self.sieve.insert_new(op.doc, &record);
        self.stats.enter(record.state, record.reason);
        if record.state == UrlState::Due {
            self.count_due(host, 1);
            self.enqueue(op.doc, host, record, keeper)?;
        }
        Ok(())
    }

    /// An access condition that excluded the URL does not hold for this link.
    pub(super) fn lift(
        &mut self,
        op: &Op<'_>,
        record: Record,
        priority: i8,
        keeper: &mut impl Keeper,
    ) -> Result<()> {
        let (_, first) = self.texts.read(record.text, op.doc)?;
        let finding = Finding {
            depth: op.finding.depth.min(first.depth),
            ..op.finding
        };
        let lifted = Record {
            text: self.texts.append(op.url, finding)?,
            state: UrlState::Due,
            reason: 0,
            priority,
            arrival: op.arrival,
            ..record
        };
        self.sieve.insert(op.doc, &lifted);
        self.stats.leave(record.state, record.reason);
        self.stats.enter(UrlState::Due, 0);
        let host = self.host_of(op.url);
        self.count_due(host, 1);
        self.enqueue(op.doc, host, lifted, keeper)
    }

    /// A due URL that a page links to is named as a sitemap, too: from now on it is asked for as one.
    fn become_sitemap(
        &mut self,
        op: &Op<'_>,
        record: Record,
        moved: bool,
        keeper: &mut impl Keeper,
    ) -> Result<()> {
        let (_, first) = self.texts.read(record.text, op.doc)?;
        let mut record = record;
        if first.kind != LinkKind::Sitemap && !first.kind.is_seed() {
            record.text = self.texts.append(op.url, op.finding)?;
            self.sieve.insert(op.doc, &record);
        }
        if moved {
            self.raise(op, record, keeper)
        } else {
            Ok(())
        }
    }

    /// Its class is another one now.
    pub(super) fn raise(
        &mut self,
        op: &Op<'_>,
        record: Record,
        keeper: &mut impl Keeper,
    ) -> Result<()> {
        if keeper.takes_back_at(op.doc, record.place(self.order)) {
            return Ok(());
        }
        let host = self.host_of(op.url);
        self.enqueue(op.doc, host, record, keeper)
    }

    pub(super) fn settle_visit(
        &mut self,
        op: &Op<'_>,
        host: Host<'_>,
        before: Option<Record>,
        after: Record,
        keeper: &mut impl Keeper,
    ) -> Result<()> {
        let was_due = before.is_some_and(|record| record.state == UrlState::Due);
        if let Some(before) = before {
            self.stats.leave(before.state, before.reason);
        }
        self.stats.enter(after.state, after.reason);
        let is_due = after.state == UrlState::Due;
        self.count_due(host, i64::from(is_due) - i64::from(was_due));
        keeper.landed(op.doc, &self.hosts);
        if is_due {
            self.enqueue(op.doc, host, after, keeper)?;
        }
        Ok(())
    }

    pub(super) fn count_due(&mut self, host: Host<'_>, by: i64) {
        if by != 0 {
            let counts: &mut HostCounts = &mut self.hosts.news_of(host.id, host.name).counts;
            counts.due += by;
        }
    }

    /// Puts a due URL into its host's queue.
    pub(super) fn enqueue(
        &mut self,
        doc: u64,
        host: Host<'_>,
        record: Record,
        keeper: &mut impl Keeper,
    ) -> Result<()> {
        let place = record.place(self.order);
        let first = self.frontier.push(host.id, place, doc);
        match first {
            true => keeper.has_due(host.id),
            false => Ok(()),
        }
    }
}

/// A page linked to it, and its type was not wanted of a page.
fn is_wanted_as_sitemap(op: &Op<'_>, record: &Record) -> bool {
    op.finding.kind == LinkKind::Sitemap && record.reason == Reason::ContentType as u8
}

/// The host that a URL names.
#[derive(Clone, Copy)]
pub(super) struct Host<'u> {
    pub(super) id: u64,
    pub(super) name: &'u str,
}
