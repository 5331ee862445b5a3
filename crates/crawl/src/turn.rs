//! A host's turn: one host, one connection, a few URLs. Never two turns of a host at once, never a
//! page before its origin's robots.txt is settled, never sooner than the host and its address allow.

use std::cell::RefCell;
use std::net::IpAddr;
use std::ops::ControlFlow;
use std::rc::Rc;
use std::sync::Arc;

use portolan_content::MimeType;
use portolan_model::{CanonicalUrl, Outcome, PartitionId, Pulse, Reason, Visit};
use portolan_net::{
    BodySink, Connection, Head, Method, NetError, Origin, Request, Response, Scheme, Wait,
};
use portolan_registry::{Due, Entry, RegistryError, Turn};

use tokio::sync::OwnedSemaphorePermit;

use crate::commit::{Finished, Record};
use crate::gate::Door;
use crate::links::PageLinks;
use crate::metrics::Stage;
use crate::page::{Fetched, Processed};
use crate::politeness::Mood;
use crate::robots::{RobotsStep, Rules};
use crate::shared::Shared;
use crate::worker::Worker;

/// How soon a host is looked at again when the budget of pages is claimed by others.
const BUDGET_RETRY_MS: u64 = 50;

/// Give `turn.host` its turn and queue it again.
pub(crate) async fn run(worker: Rc<Worker>, slot: usize, turn: Turn) {
    let shared = Arc::clone(&worker.shared);
    let host = turn.host;
    let door = Door::Host(host);
    if let Err(at_ms) = shared.gate.enter(door, shared.now_ms()) {
        let not_before_ms = turn.pulse.not_before_ms.max(at_ms);
        worker.end_turn(
            slot,
            host,
            Pulse {
                not_before_ms,
                ..turn.pulse
            },
        );
        return;
    }
    let mut visitor = Visitor::new(Rc::clone(&worker), slot, turn);
    if let Err(error) = visitor.work().await {
        shared.fail(error.into());
    }
    let now_ms = shared.now_ms();
    shared.gate.leave(door, visitor.pulse.not_before_ms, now_ms);
    if let Some(connection) = visitor.connection.take() {
        let stay_ms = shared.politeness.keep_alive_ms();
        worker
            .parking
            .borrow_mut()
            .park(host, connection, now_ms, stay_ms);
    }
    worker.end_turn(slot, host, visitor.pulse);
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
    pub(crate) worker: Rc<Worker>,
    pub(crate) shared: Arc<Shared>,
    slot: usize,
    pub(crate) partition: PartitionId,
    pub(crate) turn: Turn,
    pub(crate) pulse: Pulse,
    /// Pages asked for in this turn.
    asked: u64,
    connection: Option<Connection>,
}

/// Whether `limits.max_pages_per_host` lets a host go on.
enum HostBudget {
    Open,
    /// What is under way may use up the rest.
    Claimed,
    Spent,
}

impl Visitor {
    fn new(worker: Rc<Worker>, slot: usize, turn: Turn) -> Self {
        let shared = Arc::clone(&worker.shared);
        let connection = worker.parking.borrow_mut().take(turn.host, shared.now_ms());
        Self {
            slot,
            partition: worker.partition_id(slot),
            pulse: turn.pulse,
            asked: 0,
            connection,
            worker,
            shared,
            turn,
        }
    }

    async fn work(&mut self) -> Result<(), RegistryError> {
        for _ in 0..self.shared.settings.limits.turn_urls {
            if self.shared.budget.is_stopping() {
                break;
            }
            let host = self.turn.host;
            let due = self.shared.metrics.timed(Stage::Choose, || {
                self.worker.with(self.slot, |p| p.next_url(host))
            })?;
            let Some(due) = due else { break };
            if self.visit(due).await == Next::Rest || self.must_wait() {
                break;
            }
        }
        Ok(())
    }

    pub(crate) fn must_wait(&self) -> bool {
        self.pulse.not_before_ms > self.shared.now_ms()
    }

    async fn visit(&mut self, due: Due) -> Next {
        let Ok(url) = CanonicalUrl::from_canonical(due.url.clone()) else {
            self.settle(due, Outcome::Failed(Reason::NotFetchable))
                .await;
            return Next::Go;
        };
        if self.shared.politeness.is_host_down(&self.pulse) {
            self.settle(due, Outcome::Failed(Reason::HostDown)).await;
            return Next::Go;
        }
        match self.host_budget() {
            HostBudget::Open => {}
            HostBudget::Claimed => return self.put_back_for_now(due),
            HostBudget::Spent => {
                self.settle(due, Outcome::Excluded(Reason::HostBudget))
                    .await;
                return Next::Go;
            }
        }
        let rules = match self.robots(&url).await {
            RobotsStep::Settled(rules) => rules,
            RobotsStep::Unreachable => {
                self.settle(due, Outcome::Excluded(Reason::RobotsUnreachable))
                    .await;
                return Next::Go;
            }
            RobotsStep::Failed(error) => {
                self.fail(due, &error).await;
                return Next::Rest;
            }
            RobotsStep::Later => return self.put_back(due),
        };
        if !rules.robots.allows(url.path_and_query()) {
            self.settle(due, Outcome::Excluded(Reason::Robots)).await;
            return Next::Go;
        }
        // Reading robots.txt was a request, too.
        if self.must_wait() {
            return self.put_back(due);
        }
        if !self.shared.budget.claim() {
            return self.put_back_for_now(due);
        }
        self.fetch(due, &url, &rules).await
    }

    /// Ask for the page and hand over what came of it. The budget's claim is settled here.
    async fn fetch(&mut self, due: Due, url: &CanonicalUrl, rules: &Rules) -> Next {
        let at_ms = self.shared.now_ms();
        self.asked += 1;
        let mut watch = Watch::new(&self.shared);
        if self
            .worker
            .bench
            .borrow_mut()
            .wants_head_first(&self.shared.settings, url, due.doc)
        {
            match self
                .request(url, Method::Head, &mut watch, rules.crawl_delay_ms)
                .await
            {
                Ok(Asked::Answer(_)) if watch.refused.is_none() => {
                    self.worker.bench.borrow_mut().head_was_fine(due.doc);
                    if self.must_wait() {
                        self.shared.budget.give_back();
                        return self.put_back(due);
                    }
                }
                Ok(Asked::Answer(_)) => {
                    self.shared.budget.give_back();
                    let reason = watch.refused.unwrap_or(Reason::ContentType);
                    self.settle(due, Outcome::Excluded(reason)).await;
                    return Next::Go;
                }
                Ok(Asked::Later) => {
                    self.shared.budget.give_back();
                    return self.put_back(due);
                }
                Err(error) => {
                    self.shared.budget.give_back();
                    self.fail(due, &error).await;
                    return Next::Rest;
                }
            }
        }
        match self
            .request(url, Method::Get, &mut watch, rules.crawl_delay_ms)
            .await
        {
            Ok(Asked::Answer(answer)) => {
                let fetched = Fetched {
                    due: &due,
                    url,
                    partition: self.partition,
                    at_ms,
                    ip: answer.peer,
                    refused: watch.refused,
                };
                let processed =
                    self.worker
                        .bench
                        .borrow_mut()
                        .process(&self.shared, &fetched, answer.response);
                if !processed.visit.is_document() {
                    self.shared.budget.give_back();
                }
                self.finish(due.url, processed).await;
                Next::Go
            }
            Ok(Asked::Later) => {
                self.shared.budget.give_back();
                self.put_back(due)
            }
            Err(error) => {
                self.shared.budget.give_back();
                self.fail(due, &error).await;
                Next::Rest
            }
        }
    }

    /// One request on the host's connection, with its address's door held. Sets the pulse.
    pub(crate) async fn request(
        &mut self,
        url: &CanonicalUrl,
        method: Method,
        sink: &mut dyn BodySink,
        crawl_delay_ms: Option<u64>,
    ) -> Result<Asked, NetError> {
        let shared = Arc::clone(&self.shared);
        let scheme = if url.is_https() {
            Scheme::Https
        } else {
            Scheme::Http
        };
        let origin = Origin::new(scheme, url.host(), url.port());
        let kept = self
            .connection
            .take()
            .filter(|c| c.reusable() && *c.origin() == origin);
        let resolved = match &kept {
            Some(_) => None,
            None => match shared.mapping.resolve(origin.host()).await {
                Ok(resolved) => Some(resolved),
                Err(error) => {
                    self.strained(crawl_delay_ms, None, 0);
                    return Err(error);
                }
            },
        };
        let ip = match (&kept, &resolved) {
            (Some(connection), _) => Some(connection.peer()),
            (None, Some(resolved)) => resolved.addresses.first().copied(),
            (None, None) => None,
        };
        let door = ip
            .filter(|_| shared.politeness.ip_delay_ms() > 0)
            .map(Door::Address);
        if let Some(door) = door
            && let Err(at_ms) = shared.gate.enter(door, shared.now_ms())
        {
            self.pulse.not_before_ms = self.pulse.not_before_ms.max(at_ms);
            self.connection = kept;
            return Ok(Asked::Later);
        }
        let begun_ms = shared.now_ms();
        let result = self
            .exchange(&origin, kept, resolved.as_deref(), url, method, sink)
            .await;
        let now_ms = shared.now_ms();
        if let Some(door) = door {
            shared
                .gate
                .leave(door, now_ms + shared.politeness.ip_delay_ms() + 1, now_ms);
        }
        if let Err(NetError::PrivateAddress(_)) = &result {
            // Nothing was asked, so nobody needs a rest, and the host is not down.
            return result.map(Asked::Answer);
        }
        shared.metrics.add(&shared.metrics.requests, 1);
        let took_ms = now_ms.saturating_sub(begun_ms);
        match &result {
            Ok(answer) => {
                shared
                    .metrics
                    .add(&shared.metrics.wire_bytes, answer.response.wire_bytes);
                let mood = mood_of(&answer.response, now_ms);
                self.pulse =
                    shared
                        .politeness
                        .after(&self.pulse, now_ms, took_ms, crawl_delay_ms, mood);
            }
            Err(NetError::OutOfStep) => {
                // The kept connection is gone, so this happens once for a URL.
                self.pulse = shared.politeness.after(
                    &self.pulse,
                    now_ms,
                    took_ms,
                    crawl_delay_ms,
                    Mood::Content,
                );
                return Ok(Asked::Later);
            }
            Err(_) => {
                shared.metrics.add(&shared.metrics.errors, 1);
                self.strained(crawl_delay_ms, None, took_ms);
            }
        }
        result.map(Asked::Answer)
    }

    fn strained(&mut self, crawl_delay_ms: Option<u64>, retry_after_ms: Option<u64>, took_ms: u64) {
        self.pulse = self.shared.politeness.after(
            &self.pulse,
            self.shared.now_ms(),
            took_ms,
            crawl_delay_ms,
            Mood::Strained { retry_after_ms },
        );
    }

    /// Send the request, on a new connection if there is none or the kept one had ended unnoticed.
    async fn exchange(
        &mut self,
        origin: &Origin,
        kept: Option<Connection>,
        resolved: Option<&portolan_net::Resolved>,
        url: &CanonicalUrl,
        method: Method,
        sink: &mut dyn BodySink,
    ) -> Result<Answer, NetError> {
        let shared = Arc::clone(&self.shared);
        let request = Request {
            method,
            ..Request::get(url.path_and_query())
        };
        if let Some(mut connection) = kept {
            match connection.fetch(&request, sink).await {
                Err(error) if error.retry_on_new_connection() => {}
                result => return result.map(|response| self.keep(connection, response)),
            }
        }
        let fresh;
        let resolved = match resolved {
            Some(resolved) => resolved,
            None => {
                fresh = shared.mapping.resolve(origin.host()).await?;
                &*fresh
            }
        };
        let mut connection = shared.connector.connect(origin, resolved).await?;
        let response = connection.fetch(&request, sink).await?;
        Ok(self.keep(connection, response))
    }

    fn keep(&mut self, connection: Connection, response: Response) -> Answer {
        let peer = connection.peer();
        if connection.reusable() {
            self.connection = Some(connection);
        }
        Answer { response, peer }
    }

    /// May another document of this host be asked for?
    fn host_budget(&self) -> HostBudget {
        let max = self.shared.settings.limits.max_pages_per_host;
        if max == 0 {
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
        self.pulse.not_before_ms = self.pulse.not_before_ms.max(soon_ms);
        self.put_back(due)
    }

    /// Leave the host alone as after a failure.
    pub(crate) fn back_off(&mut self) {
        self.strained(None, None, 0);
    }

    fn put_back(&mut self, due: Due) -> Next {
        let host = self.turn.host;
        if let Err(error) = self.worker.with(self.slot, |p| p.put_back(host, due)) {
            self.shared.fail(error.into());
        }
        Next::Rest
    }

    /// No answer came: try again later, or give up.
    async fn fail(&mut self, due: Due, error: &NetError) {
        let reason = error.reason();
        let outcome = if reason == Reason::PrivateAddress {
            Outcome::Excluded(reason)
        } else if due.attempts + 1 >= self.shared.settings.limits.max_attempts {
            Outcome::Failed(reason)
        } else {
            Outcome::Retry(reason)
        };
        self.settle(due, outcome).await;
    }

    /// The URL's way ends here, or starts again, without an answer.
    async fn settle(&mut self, due: Due, outcome: Outcome) {
        let mut visit = Visit::without_answer(self.shared.now_ms(), outcome);
        visit.depth = due.depth;
        visit.attempt = due.attempts.saturating_add(1);
        let links = PageLinks::none(Some(due.doc));
        self.finish(
            due.url,
            Processed {
                visit,
                links,
                record: None,
            },
        )
        .await;
    }

    async fn finish(&mut self, url: String, processed: Processed) {
        let Processed {
            visit,
            links,
            record,
        } = processed;
        let entry = Entry::Visit {
            url,
            visit,
            pulse: self.pulse,
            links: links.own,
            forwards: links.forwards,
            targets: links.targets,
        };
        self.hand_over(self.partition, entry, record).await;
    }

    pub(crate) async fn hand_over(
        &self,
        partition: PartitionId,
        entry: Entry,
        record: Option<Record>,
    ) {
        self.shared
            .hand_over(Finished {
                partition,
                entry,
                record,
                room: None,
            })
            .await;
    }
}

/// What came of a request.
pub(crate) enum Asked {
    Answer(Answer),
    /// Another host at the same address has its turn, or the answer could not be told from what was
    /// left on a kept connection. The pulse says when to come back.
    Later,
}

pub(crate) struct Answer {
    pub(crate) response: Response,
    pub(crate) peer: IpAddr,
}

/// A body that grows past this must have one of the few places for large bodies: whatever servers
/// send, at most `connections` small bodies and `LARGE_BODIES` large ones are in memory.
const LARGE_BODY_BYTES: usize = 256 * 1024;

/// Looks at the head of an answer and refuses bodies that nobody wants; makes large ones wait for
/// their turn.
struct Watch {
    shared: Arc<Shared>,
    refused: Option<Reason>,
    /// Held until the answer is processed.
    place: Rc<RefCell<Option<OwnedSemaphorePermit>>>,
}

impl Watch {
    fn new(shared: &Arc<Shared>) -> Self {
        Self {
            shared: Arc::clone(shared),
            refused: None,
            place: Rc::default(),
        }
    }
}

impl BodySink for Watch {
    fn head(&mut self, head: &Head) -> ControlFlow<()> {
        let wanted = &self.shared.settings.content.types;
        if wanted.is_empty() || !(200..300).contains(&head.status()) {
            return ControlFlow::Continue(());
        }
        let mime = head.get("content-type").and_then(MimeType::parse_header);
        match mime {
            Some(mime) if !is_wanted(mime.essence(), wanted) => {
                self.refused = Some(Reason::ContentType);
                ControlFlow::Break(())
            }
            _ => ControlFlow::Continue(()),
        }
    }

    fn body(&mut self, _bytes: &[u8]) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }

    fn wait_before_more(&mut self, so_far_bytes: usize) -> Option<Wait> {
        if so_far_bytes < LARGE_BODY_BYTES || self.place.borrow().is_some() {
            return None;
        }
        let (places, place) = (
            Arc::clone(&self.shared.large_bodies),
            Rc::clone(&self.place),
        );
        Some(Box::pin(async move {
            *place.borrow_mut() = places.acquire_owned().await.ok();
        }))
    }
}

/// `text/html` is itself, `text/*` all of a kind.
fn is_wanted(mime: &str, wanted: &[String]) -> bool {
    wanted
        .iter()
        .any(|pattern| match pattern.strip_suffix("/*") {
            Some(kind) => mime.split('/').next() == Some(kind),
            None => mime.eq_ignore_ascii_case(pattern),
        })
}

fn mood_of(response: &Response, now_ms: u64) -> Mood {
    match response.status() {
        429 | 503 => Mood::Strained {
            retry_after_ms: response
                .header_str("retry-after")
                .and_then(|text| crate::retry_after::parse_ms(text, now_ms)),
        },
        _ => Mood::Content,
    }
}
