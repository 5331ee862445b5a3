//! The one way to ask a host for anything: a page, its head, a robots.txt, in the host's own turn or as a
//! guest of a host that another turn's robots.txt redirects to.
//!
//! An `Asker` exists while the host's door is held. It resolves the name, holds the door of the address, keeps
//! the connection, and after each request sets how long the host is left alone (`pulse`). What the asker has
//! not told to an entry is noted when it goes, also when it is dropped half-way (`promise.rs`).

use std::net::IpAddr;
use std::rc::Rc;
use std::sync::Arc;

use portolan_model::{CanonicalUrl, HostId, Pulse, Reason};
use portolan_net::{
    BodySink, Certificate, Connection, Head, Method, NetError, Origin, Request, Resolved, Response,
};
use portolan_registry::{Grant, Rest};

use crate::access::HostAccess;
use crate::address::AddressDoor;
use crate::client::Client;
use crate::gate::Door;
use crate::politeness::{Delays, Mood};
use crate::pools::{Seat, SeatedSink};
use crate::promise::{Asking, Heed};
use crate::rate::{Metered, MeteredSink};
use crate::retry_after;
use crate::revisit::Validators;
use crate::shared::Shared;

/// A host is left alone this long when this machine or its network could not ask it.
const EXHAUSTED_REST_MS: u64 = 1_000;
/// A node without a lease looks again after this time.
const LEASE_REST_MS: u64 = 1_000;

/// What came of a request.
pub(crate) enum Asked {
    Answer(Answer),
    /// Another host at the same address has its turn, or the answer could not be told from what was
    /// left on a kept connection. The pulse says when to come back.
    Later,
}

pub(crate) struct Answer {
    pub(crate) response: Response,
    /// `None` where a proxy looked the address up.
    pub(crate) peer: Option<IpAddr>,
}

/// How an origin is reached: by a connection that was kept, or by addresses.
struct Way {
    kept: Option<Connection>,
    resolved: Option<Arc<Resolved>>,
}

impl Way {
    /// The address whose door is to be held; `None` if it is not known here.
    fn ip(&self) -> Option<IpAddr> {
        match (&self.kept, &self.resolved) {
            (Some(connection), _) => connection.peer(),
            (None, Some(resolved)) => resolved.addresses.first().copied(),
            (None, None) => None,
        }
    }
}

/// Holds a host's door, asks, and leaves the host alone afterwards.
pub(crate) struct Asker {
    pub(crate) client: Rc<Client>,
    pub(crate) shared: Arc<Shared>,
    pub(crate) host: HostId,
    /// What is particular about asking this host.
    pub(crate) access: Arc<HostAccess>,
    /// How the host is, and when it may be asked again.
    pub(crate) pulse: Pulse,
    /// The host had not failed before the last request. Whoever asks says so first.
    pub(crate) was_well: bool,
    /// The last request got no answer, but through no fault of the host's.
    pub(crate) blameless: bool,
    pub(crate) connection: Option<Connection>,
    /// What the next request is conditional on.
    pub(crate) validators: Option<Validators>,
    /// The request that is under way.
    pub(crate) asking: Option<Asking>,
    /// The host was asked, and no entry that was handed over tells of it.
    pub(crate) unrecorded: bool,
    /// No request begins from then on, because it might not have ended when the grant expires.
    pub(crate) begins_before_ms: u64,
    /// After a crash the host is left alone for this time in any case.
    pub(crate) sure_pause_ms: u64,
    pub(crate) is_over: bool,
    /// Files were asked for, which need no rest.
    pub(crate) is_this_machine: bool,
    /// What the turn takes of the client's places.
    pub(crate) seat: Rc<Seat>,
}

impl Asker {
    /// For the host's own turn. `Err`: the door is shut until then.
    pub(crate) fn in_turn(client: &Rc<Client>, grant: &Grant, seat: Seat) -> Result<Self, u64> {
        let shared = Arc::clone(&client.shared);
        let turn = &grant.turn;
        let now_ms = shared.now_ms();
        shared.gate.enter(Door::Host(turn.host), now_ms)?;
        let unknown_ms = shared.politeness.unknown_delay_ms();
        Ok(Self {
            host: turn.host,
            access: shared.access.of(&turn.name),
            pulse: turn.pulse,
            was_well: true,
            blameless: false,
            connection: client.parking.borrow_mut().take(turn.host, now_ms),
            validators: None,
            asking: None,
            unrecorded: false,
            begins_before_ms: grant
                .expires_ms
                .saturating_sub(shared.settings.http.request_timeout_ms),
            sure_pause_ms: u64::from(turn.recorded_delay_ms.unwrap_or(unknown_ms)),
            is_over: false,
            is_this_machine: false,
            seat: Rc::new(seat),
            client: Rc::clone(client),
            shared,
        })
    }

    /// For a request outside of the host's turns, which is followed by the pause that the host's own requests
    /// are followed by. `Err`: the host is to be left alone until then.
    pub(crate) fn as_guest(
        client: &Rc<Client>,
        (host, name): (HostId, &str),
        rest: Rest,
        seat: &Rc<Seat>,
    ) -> Result<Self, u64> {
        let shared = Arc::clone(&client.shared);
        let now_ms = shared.now_ms();
        shared.gate.enter_as_guest(Door::Host(host), now_ms)?;
        let asker = Self {
            host,
            access: shared.access.of(name),
            pulse: Pulse {
                not_before_ms: rest.not_before_ms,
                ..Pulse::default()
            },
            was_well: true,
            blameless: false,
            connection: None,
            validators: None,
            asking: None,
            unrecorded: false,
            begins_before_ms: u64::MAX,
            // No entry will tell of the request, so every pause is noted.
            sure_pause_ms: 0,
            is_over: false,
            is_this_machine: false,
            seat: Rc::clone(seat),
            client: Rc::clone(client),
            shared,
        };
        if rest.not_before_ms > now_ms {
            return Err(rest.not_before_ms);
        }
        Ok(asker)
    }

    /// For how long the host is left alone from now on.
    pub(crate) fn rest_ms(&self) -> u64 {
        self.pulse
            .not_before_ms
            .saturating_sub(self.shared.now_ms())
    }

    pub(crate) fn must_wait(&self) -> bool {
        self.pulse.not_before_ms > self.shared.now_ms()
    }

    /// One request on the host's connection, with its address's door held. Sets the pulse: the host is left
    /// alone for at least `crawl_delay_ms`.
    pub(crate) async fn ask(
        &mut self,
        url: &CanonicalUrl,
        method: Method,
        sink: &mut dyn BodySink,
        crawl_delay_ms: Option<u64>,
    ) -> Result<Asked, NetError> {
        let shared = Arc::clone(&self.shared);
        let origin = origin_of(url);
        self.is_this_machine = origin.scheme.is_of_this_machine();
        let metered = match Metered::begin(&shared, self.access.bytes_per_s) {
            Ok(metered) => metered,
            Err(at_ms) => {
                self.not_before(at_ms);
                return Ok(Asked::Later);
            }
        };
        let way = match self.way_to(&origin).await {
            Ok(way) => way,
            Err(error) => {
                self.no_answer(&error, crawl_delay_ms, 0);
                tracing::debug!(%url, %error, "its host's name was not resolved");
                self.tell_trouble(url);
                return Err(error);
            }
        };
        let mut door = match AddressDoor::enter(&shared, way.ip()) {
            Ok(door) => door,
            Err(at_ms) => {
                self.connection = way.kept;
                self.not_before(at_ms);
                self.client.put_off_by_address(at_ms);
                return Ok(Asked::Later);
            }
        };
        let begun_ms = shared.now_ms();
        if !shared.may_ask() || begun_ms >= self.begins_before_ms {
            // The host may be another node's by now, or another client's soon.
            self.connection = way.kept;
            self.not_before(begun_ms + LEASE_REST_MS);
            return Ok(Asked::Later);
        }
        self.asking = Some(Asking {
            begun_ms,
            crawl_delay_ms,
        });
        let request = (url.path_and_query(), method);
        let result = self
            .send(&origin, request, way, (sink, metered.as_ref()), &mut door)
            .await;
        self.asking = None;
        drop(door);
        let metered = metered.as_ref();
        self.settle(url, &origin, result, (begun_ms, crawl_delay_ms, metered))
    }

    /// A kept connection to the origin, or the addresses to connect to.
    async fn way_to(&mut self, origin: &Origin) -> Result<Way, NetError> {
        let kept = self
            .connection
            .take()
            .filter(|c| c.reusable() && c.origin() == origin);
        let resolved = match &kept {
            Some(_) => None,
            // Files are at no address.
            None if origin.scheme.is_of_this_machine() => Some(Arc::new(Resolved::elsewhere())),
            None => {
                let shared = Arc::clone(&self.shared);
                Some(self.seat.resolve(shared.address_of(origin)).await?)
            }
        };
        Ok(Way { kept, resolved })
    }

    /// The request itself, conditional if there are validators, with the connection's bytes counted and its place kept.
    async fn send(
        &mut self,
        origin: &Origin,
        (path, method): (&str, Method),
        way: Way,
        (sink, metered): (&mut dyn BodySink, Option<&Metered>),
        door: &mut AddressDoor,
    ) -> Result<Answer, NetError> {
        let shared = Arc::clone(&self.shared);
        let access = Arc::clone(&self.access);
        let extra = shared.access.fields(&access, origin, path, &*shared.clock);
        let validators = self.validators.take().unwrap_or_default();
        let request = Request {
            method,
            if_none_match: validators.etag.as_deref(),
            if_modified_since: validators.last_modified.as_deref(),
            user_agent: access.user_agent.as_deref(),
            extra: &extra,
            ..Request::get(path)
        };
        let mut heed = Heed {
            sink,
            shared: &shared,
            host: self.host,
            sure_pause_ms: self.sure_pause_ms,
        };
        let seat = Rc::clone(&self.seat);
        let mut sink = MeteredSink {
            metered,
            seat: &seat,
            sink: &mut heed,
        };
        let mut sink = SeatedSink {
            seat: &seat,
            sink: &mut sink,
        };
        let exchange = self.exchange(origin, way, &request, &mut sink, door);
        let answer = seat.wait_for(exchange).await;
        answer.unwrap_or_else(|given_up| Err(given_up.into()))
    }

    /// What a request and its answer mean for the host, for what is counted, and for the log.
    fn settle(
        &mut self,
        url: &CanonicalUrl,
        origin: &Origin,
        result: Result<Answer, NetError>,
        (begun_ms, crawl_delay_ms, metered): (u64, Option<u64>, Option<&Metered>),
    ) -> Result<Asked, NetError> {
        let shared = Arc::clone(&self.shared);
        let now_ms = shared.now_ms();
        if let Err(NetError::PrivateAddress(_) | NetError::Port(_)) = &result {
            // Nothing was asked, so nobody needs a rest, and the host is not down.
            return result.map(Asked::Answer);
        }
        shared.metrics.add(&shared.metrics.requests, 1);
        // What we put off is no sign that the host is slow.
        let paused_ms = metered.map_or(0, Metered::paused_ms);
        let took_ms = now_ms.saturating_sub(begun_ms + paused_ms);
        match &result {
            Ok(answer) => {
                let response = &answer.response;
                shared
                    .metrics
                    .add(&shared.metrics.wire_bytes, response.wire_bytes);
                shared.network.answered(self.host, now_ms);
                let cookies = shared.access.cookies.as_ref();
                if let Some(cookies) = cookies.filter(|_| self.access.keeps_cookies) {
                    let path = url.path_and_query();
                    cookies.set_by(&response.head, origin, path, shared.wall_ms());
                }
                let mood = mood_of(&response.head, shared.wall_ms());
                self.rest(now_ms, took_ms, crawl_delay_ms, mood);
                if let Some(metered) = metered {
                    let owed_ms = metered.end(response.wire_bytes);
                    self.not_before(now_ms + owed_ms);
                }
                tracing::debug!(
                    %url,
                    status = response.status(),
                    bytes = response.wire_bytes,
                    took_ms,
                    address = answer.peer.map(tracing::field::display),
                    "answered"
                );
            }
            Err(NetError::OutOfStep) => {
                // The kept connection is gone, so this happens once for a URL.
                self.rest(now_ms, took_ms, crawl_delay_ms, Mood::Content);
                return Ok(Asked::Later);
            }
            Err(error) => {
                shared.metrics.add(&shared.metrics.errors, 1);
                self.no_answer(error, crawl_delay_ms, took_ms);
                tracing::debug!(%url, %error, took_ms, "no answer");
            }
        }
        self.tell_trouble(url);
        result.map(Asked::Answer)
    }

    /// For the log, if the host fails.
    fn tell_trouble(&self, url: &CanonicalUrl) {
        if let Some(trouble) = self.pulse.trouble
            && !self.blameless
        {
            tracing::info!(
                host = url.host(),
                reason = trouble.name(),
                tries = self.pulse.failures,
                rest_ms = self.rest_ms(),
                given_up = self.pulse.given_up_by != 0,
                "the host fails and rests"
            );
        }
    }

    pub(crate) fn delays(&self, crawl_ms: Option<u64>) -> Delays {
        Delays {
            own_ms: self.access.delay_ms,
            crawl_ms,
        }
    }

    /// The host was asked, or could not be: from here on it is left alone.
    fn rest(&mut self, now_ms: u64, took_ms: u64, crawl_delay_ms: Option<u64>, mood: Mood) {
        if self.is_this_machine {
            return;
        }
        let (polite, delays) = (&self.shared.politeness, self.delays(crawl_delay_ms));
        self.pulse = polite.after(&self.pulse, now_ms, took_ms, delays, mood);
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
            self.client.exhausted(now_ms);
            self.not_before(now_ms + EXHAUSTED_REST_MS);
            return;
        }
        let was_well = self.was_well && self.pulse.last_ms > 0;
        if shared.network.failed(self.host, was_well, now_ms) {
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

    /// Leave the host alone as after a failure. What it asked for stays.
    pub(crate) fn back_off(&mut self, trouble: Reason) {
        let asked_ms = self.pulse.not_before_ms;
        self.strained(trouble, None, 0);
        self.not_before(asked_ms);
    }

    /// Nothing is asked of the host before `at_ms`.
    pub(crate) fn not_before(&mut self, at_ms: u64) {
        self.pulse.not_before_ms = self.pulse.not_before_ms.max(at_ms);
    }

    /// Send the request, on a new connection if there is none or the kept one had ended unnoticed.
    async fn exchange(
        &mut self,
        origin: &Origin,
        way: Way,
        request: &Request<'_>,
        sink: &mut dyn BodySink,
        door: &mut AddressDoor,
    ) -> Result<Answer, NetError> {
        if let Some(mut connection) = way.kept {
            match connection.fetch(request, sink).await {
                Err(error) if error.retry_on_new_connection() => {}
                result => return result.map(|response| self.keep(connection, response)),
            }
        }
        let resolved = match way.resolved {
            Some(resolved) => resolved,
            None => self.shared.address_of(origin).await?,
        };
        let mut connection = door.connect(origin, &resolved).await?;
        if let Certificate::Invalid(why) = connection.certificate() {
            tracing::info!(
                host = origin.host(),
                why,
                "its certificate is not valid, which the settings accept"
            );
        }
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
}

pub(crate) fn origin_of(url: &CanonicalUrl) -> Origin {
    Origin::new(url.scheme(), url.host(), url.port())
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

#[cfg(test)]
mod tests;
