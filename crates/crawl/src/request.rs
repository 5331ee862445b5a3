//! One request of a turn: on the host's connection, with its address's door held, and what it means
//! for the host's next one.

use std::net::IpAddr;
use std::rc::Rc;
use std::sync::Arc;

use portolan_model::{CanonicalUrl, Pulse, Reason};
use portolan_net::{
    BodySink, Connection, Head, Method, NetError, Origin, Request, Resolved, Response, Scheme,
};

use crate::address::AddressDoor;
use crate::politeness::Mood;
use crate::pools::SeatedSink;
use crate::promise::{Asking, Heed};
use crate::retry_after;
use crate::turn::Visitor;

/// A host is left alone this long when this machine or its network could not ask it.
const EXHAUSTED_REST_MS: u64 = 1_000;

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

impl Visitor {
    /// One request on the host's connection, with its address's door held. Sets the pulse.
    pub(crate) async fn request(
        &mut self,
        url: &CanonicalUrl,
        method: Method,
        sink: &mut dyn BodySink,
        crawl_delay_ms: Option<u64>,
    ) -> Result<Asked, NetError> {
        let shared = Arc::clone(&self.shared);
        self.was_well = !self.pulse.is_failing() || self.is_vouched_for(url.origin());
        let origin = origin_of(url);
        let kept = self
            .connection
            .take()
            .filter(|c| c.reusable() && *c.origin() == origin);
        let resolved = match &kept {
            Some(_) => None,
            None => match self
                .seat
                .resolve(shared.mapping.resolve(origin.host()))
                .await
            {
                Ok(resolved) => Some(resolved),
                Err(error) => {
                    self.no_answer(&error, crawl_delay_ms, 0);
                    return Err(error);
                }
            },
        };
        let ip = match (&kept, &resolved) {
            (Some(connection), _) => Some(connection.peer()),
            (None, Some(resolved)) => resolved.addresses.first().copied(),
            (None, None) => None,
        };
        let mut door = match AddressDoor::enter(&shared, ip) {
            Ok(door) => door,
            Err(at_ms) => {
                self.connection = kept;
                return Ok(self.later(at_ms));
            }
        };
        let begun_ms = shared.now_ms();
        self.asking = Some(Asking {
            begun_ms,
            crawl_delay_ms,
        });
        let request = Request {
            method,
            ..Request::get(url.path_and_query())
        };
        let mut heed = Heed {
            sink,
            shared: &shared,
            host: self.turn.host,
            sure_pause_ms: self.sure_pause_ms(),
        };
        let seat = Rc::clone(&self.seat);
        let mut sink = SeatedSink {
            seat: &seat,
            sink: &mut heed,
        };
        let exchange = self.exchange(
            &origin,
            kept,
            resolved.as_deref(),
            &request,
            &mut sink,
            &mut door,
        );
        let answer = seat.wait_for(exchange).await;
        let result = answer.unwrap_or_else(|given_up| Err(given_up.into()));
        let now_ms = shared.now_ms();
        self.asking = None;
        drop(door);
        if let Err(NetError::PrivateAddress(_) | NetError::Port(_)) = &result {
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
                shared.network.answered(self.turn.host, now_ms);
                let mood = mood_of(&answer.response.head, shared.wall_ms());
                self.rest(now_ms, took_ms, crawl_delay_ms, mood);
            }
            Err(NetError::OutOfStep) => {
                // The kept connection is gone, so this happens once for a URL.
                self.rest(now_ms, took_ms, crawl_delay_ms, Mood::Content);
                return Ok(Asked::Later);
            }
            Err(error) => {
                shared.metrics.add(&shared.metrics.errors, 1);
                self.no_answer(error, crawl_delay_ms, took_ms);
            }
        }
        result.map(Asked::Answer)
    }

    /// The host was asked, or could not be: from here on it is left alone.
    fn rest(&mut self, now_ms: u64, took_ms: u64, crawl_delay_ms: Option<u64>, mood: Mood) {
        let polite = &self.shared.politeness;
        self.pulse = polite.after(&self.pulse, now_ms, took_ms, crawl_delay_ms, mood);
        self.unrecorded = true;
        self.promise();
    }

    /// The host did not answer. It rests as after a failure only if it is to blame, not if this
    /// machine or its network is.
    fn no_answer(&mut self, error: &NetError, crawl_delay_ms: Option<u64>, took_ms: u64) {
        let shared = Arc::clone(&self.shared);
        let now_ms = shared.now_ms();
        self.blameless = false;
        if error.is_our_own() {
            self.blameless = true;
            self.worker.exhausted(now_ms);
            self.pulse.not_before_ms = self.pulse.not_before_ms.max(now_ms + EXHAUSTED_REST_MS);
            return;
        }
        let was_well = self.was_well && self.pulse.last_ms > 0;
        if shared.network.failed(self.turn.host, was_well, now_ms) {
            self.blameless = true;
            let before = self.pulse;
            self.rest(now_ms, took_ms, crawl_delay_ms, Mood::Content);
            self.pulse = Pulse {
                last_ms: self.pulse.last_ms,
                not_before_ms: self.pulse.not_before_ms.max(now_ms + EXHAUSTED_REST_MS),
                ..before
            };
            return;
        }
        self.strained(error.reason(), crawl_delay_ms, took_ms);
    }

    fn strained(&mut self, trouble: Reason, crawl_delay_ms: Option<u64>, took_ms: u64) {
        let mood = Mood::Strained {
            trouble,
            retry_after_ms: None,
        };
        self.rest(self.shared.now_ms(), took_ms, crawl_delay_ms, mood);
    }

    /// Nothing was asked: come back at `at_ms`.
    pub(crate) fn later(&mut self, at_ms: u64) -> Asked {
        self.pulse.not_before_ms = self.pulse.not_before_ms.max(at_ms);
        Asked::Later
    }

    /// Send the request, on a new connection if there is none or the kept one had ended unnoticed.
    async fn exchange(
        &mut self,
        origin: &Origin,
        kept: Option<Connection>,
        resolved: Option<&Resolved>,
        request: &Request<'_>,
        sink: &mut dyn BodySink,
        door: &mut AddressDoor,
    ) -> Result<Answer, NetError> {
        if let Some(mut connection) = kept {
            match connection.fetch(request, sink).await {
                Err(error) if error.retry_on_new_connection() => {}
                result => return result.map(|response| self.keep(connection, response)),
            }
        }
        let fresh;
        let resolved = match resolved {
            Some(resolved) => resolved,
            None => {
                fresh = self.shared.mapping.resolve(origin.host()).await?;
                &*fresh
            }
        };
        let mut connection = door.connect(origin, resolved).await?;
        let response = connection.fetch(request, sink).await?;
        Ok(self.keep(connection, response))
    }

    fn keep(&mut self, connection: Connection, response: Response) -> Answer {
        let peer = connection.peer();
        if connection.reusable() {
            self.connection = Some(connection);
        }
        Answer { response, peer }
    }

    /// Leave the host alone as after a failure. What it asked for stays.
    pub(crate) fn back_off(&mut self, trouble: Reason) {
        let asked_ms = self.pulse.not_before_ms;
        self.strained(trouble, None, 0);
        self.pulse.not_before_ms = self.pulse.not_before_ms.max(asked_ms);
    }
}

pub(crate) fn origin_of(url: &CanonicalUrl) -> Origin {
    let scheme = if url.is_https() {
        Scheme::Https
    } else {
        Scheme::Http
    };
    Origin::new(scheme, url.host(), url.port())
}

/// What an answer's head says of the host.
pub(crate) fn mood_of(head: &Head, wall_ms: u64) -> Mood {
    let trouble = match head.status() {
        429 => Reason::TooManyRequests,
        503 => Reason::Unavailable,
        500 | 502 | 504 => Reason::HttpServerError,
        _ => return Mood::Content,
    };
    Mood::Strained {
        trouble,
        retry_after_ms: head
            .get_str("retry-after")
            .and_then(|text| retry_after::parse_ms(text, head.get_str("date"), wall_ms)),
    }
}
