//! Granting: a turn becomes a `Grant`, which is all that the fetching half is given, and ends with its `Return`.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use portolan_model::url::Scheme;
use portolan_model::{DocId, Outcome, PartitionId, Pulse, Visit};
use portolan_registry::{Entry, Grant, RegistryError, Return, Terms, Turn};
use tokio::sync::oneshot;

use super::Worker;
use super::held::Partitions;
use super::turns::later;
use crate::client::Recall;
use crate::commit::Finished;
use crate::error::CrawlError;
use crate::fleet::{Came, Desk, Incoming, MARGIN_MS, Ticket, as_of_here};
use crate::gate::Door;
use crate::metrics::Stage;
use crate::pools::Seat;
use crate::turn;

/// As it may be on a wire, whatever the links of its URLs.
const WIRED_BYTES: usize = 256 * 1024;

impl Recall for RefCell<Partitions> {
    fn links_of(&self, at: PartitionId, check: &Visit) -> Result<Vec<DocId>, RegistryError> {
        self.borrow().of_turn(at).links_of(check)
    }

    fn visit_at(&self, at: PartitionId, place: u64) -> Result<Visit, RegistryError> {
        self.borrow().of_turn(at).visit_at(place)
    }
}

impl Worker {
    /// The client fetches what is granted; then the host is queued again.
    pub(super) fn grant(
        self: &Rc<Self>,
        id: PartitionId,
        turn: Turn,
        seat: Seat,
    ) -> Result<(), RegistryError> {
        let was_failing = turn.pulse.is_failing();
        let terms = self.terms(&turn);
        let metrics = &self.shared.metrics;
        let grant = metrics.sampled(Stage::Choose, || self.with(id, |p| p.grant(turn, &terms)))?;
        self.note_turn(id, was_failing);
        let worker = Rc::clone(self);
        let turn = async move {
            let grant = match worker.is_wired {
                true => worker.through_bytes(grant.encode(), Grant::decode),
                false => Some(grant),
            };
            let Some(grant) = grant else { return };
            let back = turn::run(Rc::clone(&worker.client), grant, seat).await;
            let back = match worker.is_wired {
                true => worker.through_bytes(back.encode(), Return::decode),
                false => Some(back),
            };
            let Some(back) = back else { return };
            worker.end_turn(&back, was_failing);
            worker.begin_next();
        };
        self.tasks.borrow_mut().spawn_local(turn);
        Ok(())
    }

    /// A crawl-client fetches what is granted. Its return is taken, or the grant expires.
    pub(super) fn grant_away(
        self: &Rc<Self>,
        id: PartitionId,
        turn: Turn,
        ticket: Ticket,
    ) -> Result<(), RegistryError> {
        let Some((desk, _)) = &self.desk else {
            return self.with(id, |p| p.end_turn(turn.host, turn.pulse));
        };
        let desk = Arc::clone(desk);
        // Nobody comes as a guest while a client asks the host.
        let door = Door::Host(turn.host);
        if let Err(at_ms) = self.shared.gate.enter(door, self.shared.now_ms()) {
            desk.put_back(ticket);
            return self.with(id, |p| p.end_turn(turn.host, later(turn.pulse, at_ms)));
        }
        let was_failing = turn.pulse.is_failing();
        let terms = Terms {
            expires_ms: self.shared.now_ms() + desk.grant_ms,
            max_bytes: WIRED_BYTES,
            with_links: true,
            ..self.terms(&turn)
        };
        let mut grant = self.with(id, |p| p.grant(turn, &terms))?;
        leave_out_other_origins(&mut grant);
        self.note_turn(id, was_failing);
        let coming = match grant.urls.is_empty() {
            true => {
                desk.put_back(ticket);
                None
            }
            false => desk.give(ticket, &grant),
        };
        let worker = Rc::clone(self);
        self.tasks.borrow_mut().spawn_local(async move {
            let back = match coming {
                Some(coming) => worker.await_return(&desk, &grant, coming).await,
                // Nobody has it.
                None => grant.unused(grant.turn.pulse),
            };
            let shared = &worker.shared;
            let (until_ms, now_ms) = (back.pulse.not_before_ms, shared.now_ms());
            shared.gate.leave(door, until_ms, now_ms);
            worker.end_turn(&back, was_failing);
            worker.begin_next();
        });
        Ok(())
    }

    async fn await_return(
        &self,
        desk: &Desk,
        grant: &Grant,
        mut coming: oneshot::Receiver<Came>,
    ) -> Return {
        let patience = Duration::from_millis(desk.grant_ms + MARGIN_MS);
        let came = match tokio::time::timeout(patience, &mut coming).await {
            Ok(came) => came.ok(),
            Err(_) if desk.expire(grant.id) => None,
            // It came in the very moment.
            Err(_) => coming.await.ok(),
        };
        let Incoming {
            mut back,
            sent_ms,
            taken,
        } = match came {
            Some(Came::Back(incoming)) => incoming,
            Some(Came::NotGiven) => return grant.unused(grant.turn.pulse),
            None => {
                tracing::info!(
                    host = grant.turn.name,
                    urls = grant.urls.len(),
                    "a grant has expired"
                );
                return grant.unused(self.after_expiry(grant));
            }
        };
        let shared = &self.shared;
        as_of_here(&mut back, sent_ms, shared.now_ms(), shared.run_ms);
        for entry in std::mem::take(&mut back.entries) {
            if let Entry::Visit { visit, .. } = &entry {
                let pages = u64::from(visit.is_document());
                desk.counts.pages.fetch_add(pages, Ordering::Relaxed);
                if !matches!(visit.outcome, Outcome::Retry(_)) {
                    shared.metrics.add(&shared.metrics.settled, 1);
                }
            }
            let finished = Finished {
                partition: back.id.partition,
                entry,
                record: None,
                haul: None,
                room: None,
            };
            shared.hand_over(finished).await;
        }
        // Who brought it may be gone.
        let _ = taken.send(true);
        back
    }

    /// Somebody may have asked the host until the grant expired.
    fn after_expiry(&self, grant: &Grant) -> Pulse {
        let turn = &grant.turn;
        let unknown_ms = self.shared.politeness.unknown_delay_ms();
        let delay_ms = turn.recorded_delay_ms.unwrap_or(unknown_ms);
        let expired_ms = grant.expires_ms + MARGIN_MS;
        Pulse {
            last_ms: expired_ms,
            not_before_ms: turn
                .pulse
                .not_before_ms
                .max(expired_ms + u64::from(delay_ms)),
            delay_ms,
            ..turn.pulse
        }
    }

    fn through_bytes<T>(&self, bytes: Vec<u8>, decode: fn(&[u8]) -> Option<T>) -> Option<T> {
        let decoded = decode(&bytes);
        if decoded.is_none() {
            let what = "a grant or its return cannot be read".to_owned();
            self.shared.fail(CrawlError::Internal(what));
        }
        decoded
    }

    /// A host that rests after each request is asked for one URL: to put back those that a turn did not come to would cost more
    /// than another turn. Others are asked for as many as a turn may have.
    fn terms(&self, turn: &Turn) -> Terms {
        let rests = match turn.pulse.last_ms {
            0 => {
                let scheme = turn.name.split_once("://");
                let scheme = scheme.and_then(|(scheme, _)| Scheme::from_name(scheme));
                !scheme.is_some_and(Scheme::is_of_this_machine)
                    && self.shared.access.of(&turn.name).delay_ms > 0
            }
            _ => turn.pulse.is_failing() || turn.pulse.delay_ms > 0,
        };
        let urls = match rests {
            true => 1,
            false => self.shared.settings.limits.turn_urls,
        };
        match self.is_wired {
            true => Terms {
                with_links: true,
                max_bytes: WIRED_BYTES,
                ..Terms::here(urls)
            },
            false => Terms::here(urls),
        }
    }
}

/// A robots.txt may be large, and that of an origin that is not asked is of no use.
fn leave_out_other_origins(grant: &mut Grant) {
    let urls = &grant.urls;
    let is_of = |url: &str, origin: &str| {
        let path = url.strip_prefix(origin);
        path.is_some_and(|path| path.starts_with('/'))
    };
    let robots = &mut grant.turn.robots;
    robots.retain(|robots| urls.iter().any(|url| is_of(&url.due.url, &robots.origin)));
}
