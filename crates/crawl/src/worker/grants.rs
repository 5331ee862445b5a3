//! Granting: a turn becomes a `Grant`, which is all that the fetching half is given, and ends with its `Return`.

use std::cell::RefCell;
use std::rc::Rc;

use portolan_model::url::Scheme;
use portolan_model::{DocId, PartitionId, Visit};
use portolan_registry::{Grant, RegistryError, Return, Terms, Turn};

use super::Worker;
use super::held::Partitions;
use crate::client::Recall;
use crate::error::CrawlError;
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

    fn through_bytes<T>(&self, bytes: Vec<u8>, decode: fn(&[u8]) -> Option<T>) -> Option<T> {
        let decoded = decode(&bytes);
        if decoded.is_none() {
            let what = "a grant or its return cannot be read".to_owned();
            self.shared.fail(CrawlError::Internal(what));
        }
        decoded
    }

    /// A host that rests after each request is asked for one URL; others for as many as a turn may have.
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
