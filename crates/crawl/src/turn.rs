//! A host's turn: one host, one connection, a few URLs. Never two turns of a host at once, never a
//! page before its origin's robots.txt is settled, never sooner than the host and its address allow.

use std::rc::Rc;
use std::sync::Arc;

use portolan_model::{
    CanonicalUrl, DocId, LinkBatch, LinkKind, Outcome, PartitionId, Reason, Visit,
};
use portolan_net::{BodySink, Method, NetError};
use portolan_registry::{Due, Entry, Grant, Granted, Return, Turn};
use tokio::time::Instant;

use crate::answered::VisitRecords;
use crate::asker::{Answer, Asked, Asker};
use crate::body_watch::BodyWatch;
use crate::budget::Claim;
use crate::client::Client;
use crate::commit::Finished;
use crate::early::Source;
use crate::haul::Haul;
use crate::keep::{Note, Signal};
use crate::links::PageLinks;
use crate::page::{Fetched, Processed, ask_programs};
use crate::pools::Seat;
use crate::refresh::Refresh;
use crate::revisit::Validators;
use crate::robots::{RobotsStep, Rules};
use crate::shared::Shared;
use crate::tables::HeadTells;

/// How soon a host is looked at again when the budget of pages is claimed by others.
const BUDGET_RETRY_MS: u64 = 50;

/// Give the granted host its turn: nothing but the grant is known of it.
pub(crate) async fn run(client: Rc<Client>, grant: Grant, seat: Seat) -> Return {
    let shared = Arc::clone(&client.shared);
    let host = grant.turn.host;
    let mut back = Return {
        id: grant.id,
        host,
        pulse: grant.turn.pulse,
        unused: Vec::new(),
        // They go to the archivist as they come.
        entries: Vec::new(),
    };
    let asker = match Asker::in_turn(&client, &grant, seat) {
        Ok(asker) => asker,
        Err(at_ms) => {
            back.pulse.not_before_ms = back.pulse.not_before_ms.max(at_ms);
            back.unused = grant.urls.iter().map(|url| url.due.doc).collect();
            return back;
        }
    };
    let mut visitor = Visitor {
        partition: grant.id.partition,
        asked: 0,
        haul: shared.haul_of(grant.id),
        asker,
        client: Rc::clone(&client),
        shared: Arc::clone(&shared),
        turn: grant.turn,
        known_links: None,
        unused: Vec::new(),
    };
    tracing::debug!(host = visitor.turn.name, "turn begins");
    visitor.work(grant.urls).await;
    let asker = &mut visitor.asker;
    asker.end();
    tracing::debug!(
        host = visitor.turn.name,
        asked = visitor.asked,
        rest_ms = asker.rest_ms(),
        "turn ends"
    );
    if let Some(connection) = asker.connection.take() {
        let stay_ms = shared.politeness.keep_alive_ms();
        client
            .parking
            .borrow_mut()
            .park(host, connection, shared.now_ms(), stay_ms);
    }
    back.pulse = asker.pulse;
    back.unused = std::mem::take(&mut visitor.unused);
    // Its place is free when this returns, before the next turn is looked for.
    back
}

/// What to do after a URL.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Next {
    /// Take the host's next URL, if no delay lies before it.
    Go,
    /// End the turn.
    Rest,
}

pub(crate) struct Visitor {
    pub(crate) client: Rc<Client>,
    pub(crate) shared: Arc<Shared>,
    pub(crate) partition: PartitionId,
    pub(crate) turn: Turn,
    /// Of the URL that is asked for, as granted.
    known_links: Option<Vec<DocId>>,
    /// Granted, and not asked for.
    unused: Vec<DocId>,
    /// Pages asked for in this turn.
    asked: u64,
    /// On a crawl-client: what the grant brings.
    haul: Option<Arc<Haul>>,
    /// Holds the host's door for the turn.
    pub(crate) asker: Asker,
}

/// Whether `limits.max_pages_per_host`, or what a `[[host]]` block says instead, lets a host go on.
enum HostBudget {
    Open,
    /// What is under way may use up the rest.
    Claimed,
    Spent,
}

impl Visitor {
    async fn work(&mut self, urls: Vec<Granted>) {
        let mut urls = urls.into_iter();
        while !self.shared.budget.is_stopping()
            && let Some(url) = urls.next()
        {
            self.known_links = url.known_links;
            if self.visit(url.due).await == Next::Rest || self.asker.must_wait() {
                break;
            }
        }
        self.unused.extend(urls.map(|url| url.due.doc));
    }

    /// Ask the turn's own host.
    pub(crate) async fn ask(
        &mut self,
        url: &CanonicalUrl,
        method: Method,
        sink: &mut dyn BodySink,
        crawl_delay_ms: Option<u64>,
    ) -> Result<Asked, NetError> {
        self.asker.was_well = !self.asker.pulse.is_failing() || self.is_vouched_for(url.origin());
        self.asker.ask(url, method, sink, crawl_delay_ms).await
    }

    async fn visit(&mut self, mut due: Due) -> Next {
        let Ok(url) = CanonicalUrl::from_canonical(due.url.clone()) else {
            self.settle(due, Outcome::Failed(Reason::NotFetchable))
                .await;
            return Next::Go;
        };
        match self.host_budget(due.kind) {
            HostBudget::Open => {}
            HostBudget::Claimed => return self.put_back_for_now(due),
            HostBudget::Spent => {
                self.settle(due, Outcome::Excluded(Reason::HostBudget))
                    .await;
                return Next::Go;
            }
        }
        let before = self.asker.pulse;
        if self.must_ask_for_control(&due, &url) {
            self.read_robots_anew(&url);
        }
        let rules = match self.robots(&url).await {
            RobotsStep::Settled(rules) => {
                if before.trouble.is_some_and(Reason::is_wish_for_rest) {
                    // Its robots.txt answers, but the host asked for fewer requests: it goes on failing.
                    self.asker.pulse = before.with_pause_of(&self.asker.pulse);
                }
                rules
            }
            RobotsStep::Failed(error @ (NetError::PrivateAddress(_) | NetError::Port(_))) => {
                self.settle(due, Outcome::Excluded(error.reason())).await;
                return Next::Rest;
            }
            RobotsStep::Failed(_) => return self.leave_due(due).await,
            RobotsStep::Later => return self.put_back(due),
        };
        if self.shared.settings.robots.sitemaps && rules.names_sitemap(&url) {
            // A page linked to it before robots.txt was read.
            due.kind = LinkKind::Sitemap;
        }
        if !rules.robots.allows(url.path_and_query()) {
            tracing::debug!(%url, "robots.txt forbids it");
            self.settle(due, Outcome::Excluded(Reason::Robots)).await;
            return Next::Go;
        }
        // Reading robots.txt was a request, too.
        if self.asker.must_wait() {
            return self.put_back(due);
        }
        if !self.read_table(&due, &url, &rules).await {
            return self.put_back(due);
        }
        let Some(claim) = self.shared.budget.claim() else {
            return self.put_back_for_now(due);
        };
        self.fetch(due, &url, &rules, claim).await
    }

    /// Ask for the page and hand over what came of it. The claim is given back unless a document came.
    async fn fetch(&mut self, due: Due, url: &CanonicalUrl, rules: &Rules, claim: Claim) -> Next {
        match self.refresh_parts(&due, url, rules).await {
            Refresh::Whole => {}
            Refresh::Later => return self.put_back(due),
            Refresh::Done(processed) => {
                claim.spend();
                self.shared.metrics.add(&self.shared.metrics.settled, 1);
                self.finish(due, *processed, Vec::new()).await;
                return Next::Go;
            }
        }
        let at_ms = self.shared.wall_ms();
        self.asked += 1;
        let client = Rc::clone(&self.client);
        let mut watch = BodyWatch::new(&self.shared, due.kind).with_early_links(Source {
            client: &client,
            due: &due,
            url,
            partition: self.partition,
            pulse: self.asker.pulse,
        });
        watch.is_paced = self.asker.access.bytes_per_s > 0;
        if self
            .client
            .bench
            .borrow_mut()
            .wants_head_first(&self.shared.settings, url, &due)
        {
            match self
                .ask(url, Method::Head, &mut watch, rules.crawl_delay_ms)
                .await
            {
                Ok(Asked::Answer(_)) if watch.refused.is_none() => {
                    self.client.bench.borrow_mut().head_was_fine(due.doc);
                    if self.asker.must_wait() {
                        return self.put_back(due);
                    }
                }
                Ok(Asked::Answer(_)) => {
                    drop(claim);
                    let reason = watch.refused.unwrap_or(Reason::ContentType);
                    self.settle(due, Outcome::Excluded(reason)).await;
                    return Next::Go;
                }
                Ok(Asked::Later) => return self.put_back(due),
                Err(error) => {
                    drop(claim);
                    return self.fail(due, &error).await;
                }
            }
        }
        self.asker.validators = due.last.as_deref().and_then(Validators::of);
        let asked = self
            .ask(url, Method::Get, &mut watch, rules.crawl_delay_ms)
            .await;
        self.asker.validators = None;
        match asked {
            Ok(Asked::Answer(answer)) => {
                let refused = watch.refused;
                drop(watch);
                let page = (due, url, rules);
                self.take_answer(page, claim, answer, (at_ms, refused))
                    .await
            }
            Ok(Asked::Later) => self.put_back(due),
            Err(error) => {
                drop(claim);
                self.fail(due, &error).await
            }
        }
    }

    /// The answer becomes a visit with its links and records, and is handed over.
    async fn take_answer(
        &mut self,
        (due, url, rules): (Due, &CanonicalUrl, &Rules),
        claim: Claim,
        answer: Answer,
        (at_ms, refused): (u64, Option<Reason>),
    ) -> Next {
        let known_links = self.known_links(&due, answer.response.status());
        let head = HeadTells::of(self, url, &answer.response);
        let fetched = Fetched {
            due: &due,
            url,
            partition: self.partition,
            at_ms,
            ip: answer.peer,
            refused,
            host_was_well: self.asker.was_well,
            known_links,
        };
        // Others are asked meanwhile.
        let reports = ask_programs(&self.shared, &fetched, &answer.response);
        let reports = self.asker.seat.hand_over(reports).await;
        let begun = Instant::now();
        let response = answer.response;
        let processed = {
            let mut bench = self.client.bench.borrow_mut();
            bench.process(&self.shared, &fetched, response, reports)
        };
        let metrics = &self.shared.metrics;
        metrics.note_pause(begun.elapsed());
        if !matches!(processed.visit.outcome, Outcome::Retry(_)) {
            metrics.add(&metrics.settled, 1);
        }
        if processed.visit.is_document() {
            metrics.glimpse.offer(url.as_str());
            claim.spend();
        } else {
            drop(claim);
        }
        let signals = self.signals(url);
        self.compare_with_table((&due, url, rules), head, &processed)
            .await;
        self.finish(due, processed, signals).await;
        Next::Go
    }

    /// Where the links of the last check led; not wanted of a page that is not modified.
    pub(crate) fn known_links(&self, due: &Due, status: u16) -> Vec<DocId> {
        let Some(last) = due.last.as_deref().filter(|_| status != 304) else {
            return Vec::new();
        };
        let Some(recall) = self.client.recall() else {
            return self.known_links.clone().unwrap_or_default();
        };
        let read = recall.links_of(self.partition, &last.visit);
        read.unwrap_or_else(|error| {
            self.shared.fail(error.into());
            Vec::new()
        })
    }

    /// May the next failure be the page's fault or the host's, and is it time to know? Then robots.txt is asked
    /// for before the page: if that answers, the host is well. So it is when two requests in a row failed in a
    /// way that pages can cause, and before a page would fail for good.
    fn must_ask_for_control(&self, due: &Due, url: &CanonicalUrl) -> bool {
        const FAILURES: u16 = 2;
        let is_last = due.attempts.saturating_add(1) >= self.shared.settings.limits.max_attempts;
        let is_either = matches!(
            self.asker.pulse.trouble,
            Some(
                Reason::Timeout
                    | Reason::BrokenHttp
                    | Reason::ConnectionLost
                    | Reason::HttpServerError
            )
        );
        self.asker.pulse.is_failing()
            && (is_last || (is_either && self.asker.pulse.failures >= FAILURES))
            && !self.is_vouched_for(url.origin())
    }

    /// May another document of this host be asked for?
    fn host_budget(&self, kind: LinkKind) -> HostBudget {
        let max = self.asker.access.max_pages;
        // A sitemap is no document.
        if max == 0 || kind == LinkKind::Sitemap {
            HostBudget::Open
        } else if self.turn.pages >= max {
            HostBudget::Spent
        } else if self.turn.pages + self.turn.in_flight + self.asked >= max {
            HostBudget::Claimed
        } else {
            HostBudget::Open
        }
    }

    /// What is under way may use a budget up, or give some of it back.
    fn put_back_for_now(&mut self, due: Due) -> Next {
        let soon_ms = self.shared.now_ms() + BUDGET_RETRY_MS;
        self.asker.not_before(soon_ms);
        self.put_back(due)
    }

    fn put_back(&mut self, due: Due) -> Next {
        self.unused.push(due.doc);
        Next::Rest
    }

    /// No answer came. A URL that was never asked for stays where it is in its queue. One that was goes
    /// back a class, and fails for good only if it was tried often enough and the host answers others.
    async fn fail(&mut self, due: Due, error: &NetError) -> Next {
        let reason = error.reason();
        if matches!(reason, Reason::PrivateAddress | Reason::Port) {
            self.settle(due, Outcome::Excluded(reason)).await;
        } else if self.asker.blameless || reason.is_before_asking() {
            return self.leave_due(due).await;
        } else if self.asker.was_well
            && due.attempts.saturating_add(1) >= self.shared.settings.limits.max_attempts
        {
            self.settle(due, Outcome::Failed(reason)).await;
        } else {
            self.settle(due, Outcome::Retry(reason)).await;
        }
        Next::Rest
    }

    /// The URL was not asked for; its host may have failed, which is logged.
    async fn leave_due(&mut self, due: Due) -> Next {
        if !self.asker.blameless {
            self.log_pulse().await;
        }
        self.put_back(due)
    }

    /// What is known of the host's failures outlives a crash.
    pub(crate) async fn log_pulse(&mut self) {
        let entry = Entry::Host {
            host: self.turn.name.clone(),
            pulse: self.asker.pulse,
            robots: None,
            archive: None,
            links: LinkBatch::default(),
            forwards: Vec::new(),
        };
        self.hand_over(self.partition, entry, None).await;
    }

    /// The URL's way ends here, or starts again, without an answer.
    async fn settle(&mut self, due: Due, outcome: Outcome) {
        let mut visit = Visit::without_answer(self.shared.wall_ms(), outcome);
        visit.depth = due.depth;
        visit.attempt = due.attempts.saturating_add(1);
        let last = due.last.as_deref().map(|last| (last.at, &last.visit));
        visit.follow(self.shared.session, last, false);
        let processed = Processed {
            visit,
            links: PageLinks::none(Some(due.doc)),
            record: None,
        };
        self.finish(due, processed, Vec::new()).await;
    }

    /// What a sitemap says of other pages.
    fn signals(&self, url: &CanonicalUrl) -> Vec<Signal> {
        match self.shared.keeper {
            Some(_) => self
                .client
                .bench
                .borrow_mut()
                .take_lastmods(&self.shared, url),
            None => Vec::new(),
        }
    }

    async fn finish(&mut self, due: Due, processed: Processed, signals: Vec<Signal>) {
        let Processed {
            mut visit,
            links,
            record,
        } = processed;
        if let Some(keeper) = &self.shared.keeper
            && !matches!(visit.outcome, Outcome::Retry(_))
            && keeper.was_told_of(due.doc)
        {
            visit.was_told_of(due.last.as_deref().map(|last| &last.visit));
        }
        let pulse = self.asker.pulse;
        let note = self.shared.keeper.is_some().then(|| {
            let at = (self.turn.host, self.partition);
            let note = Note::of(&self.shared, at, &due, &visit, &links, signals);
            note.with_pulse(&pulse)
        });
        let entry = Entry::Visit {
            url: due.url,
            visit,
            pulse: self.asker.pulse,
            links: links.own,
            forwards: links.forwards,
            targets: links.targets,
        };
        self.hand_over(self.partition, entry, record).await;
        if let (Some(keeper), Some(note)) = (&self.shared.keeper, note) {
            keeper.leave(note).await;
        }
    }

    pub(crate) async fn hand_over(
        &mut self,
        partition: PartitionId,
        entry: Entry,
        record: Option<VisitRecords>,
    ) {
        if let Some(haul) = &self.haul {
            haul.note_handed_over();
        }
        let finished = Finished {
            partition,
            entry,
            record,
            haul: self.haul.clone(),
            room: None,
        };
        let handed_over = self.shared.hand_over(finished);
        self.asker.seat.hand_over(handed_over).await;
        self.asker.unrecorded = false;
    }
}

#[cfg(test)]
mod tests;
