//! A request to a host outside of its turns: where a robots.txt redirects to. That host's door is
//! held, and it is left alone before and afterwards as its own turns would leave it alone.

use std::sync::Arc;

use portolan_model::{CanonicalUrl, HostId, Pulse, UrlKey};
use portolan_net::{BodySink, NetError, Origin, Request, Resolved};
use portolan_registry::Rest;

use crate::address::AddressDoor;
use crate::gate::Door;
use crate::politeness::Mood;
use crate::promise::Heed;
use crate::request::{Answer, Asked, mood_of, origin_of};
use crate::shared::Shared;
use crate::turn::Visitor;

impl Visitor {
    /// One request to another host than the turn's own. If that host or its address must be left alone
    /// now, the pulse says when to come back.
    pub(crate) async fn request_as_guest(
        &mut self,
        url: &CanonicalUrl,
        sink: &mut dyn BodySink,
    ) -> Result<Asked, NetError> {
        let shared = Arc::clone(&self.shared);
        let key = UrlKey::of(url, &shared.ids);
        let host = key.host;
        let owner = shared.division.part_of(key, self.partition);
        let Some(rest) = shared.neighbours.rest_of(owner, host).await else {
            // Nobody is there to answer: the crawl ends.
            return Ok(Asked::Later);
        };
        let mut guest = match Guest::enter(&shared, host, rest) {
            Ok(guest) => guest,
            Err(at_ms) => return Ok(self.later(at_ms)),
        };
        let origin = origin_of(url);
        let resolved = shared.mapping.resolve(origin.host()).await?;
        let first = resolved.addresses.first().copied();
        let mut door = match AddressDoor::enter(&shared, first) {
            Ok(door) => door,
            Err(at_ms) => return Ok(self.later(at_ms)),
        };
        let result = guest
            .exchange(url, &origin, &resolved, &mut door, sink)
            .await;
        shared.metrics.add(&shared.metrics.requests, 1);
        guest.mood = match &result {
            Ok(answer) => mood_of(&answer.response.head, shared.wall_ms()),
            Err(error) => Mood::Strained {
                trouble: error.reason(),
                retry_after_ms: None,
            },
        };
        result.map(Asked::Answer)
    }
}

/// Who holds the door of a host that is not the turn's. Given back when it is dropped: with a pause if
/// the host was asked, also if the request was given up half-way.
struct Guest {
    shared: Arc<Shared>,
    host: HostId,
    rest: Rest,
    begun_ms: Option<u64>,
    mood: Mood,
}

impl Guest {
    fn enter(shared: &Arc<Shared>, host: HostId, rest: Rest) -> Result<Self, u64> {
        let now_ms = shared.now_ms();
        shared.gate.enter_as_guest(Door::Host(host), now_ms)?;
        let guest = Self {
            shared: Arc::clone(shared),
            host,
            rest,
            begun_ms: None,
            mood: Mood::Content,
        };
        if rest.not_before_ms > now_ms {
            return Err(rest.not_before_ms);
        }
        Ok(guest)
    }

    async fn exchange(
        &mut self,
        url: &CanonicalUrl,
        origin: &Origin,
        resolved: &Resolved,
        door: &mut AddressDoor,
        sink: &mut dyn BodySink,
    ) -> Result<Answer, NetError> {
        self.begun_ms = Some(self.shared.now_ms());
        let mut connection = door.connect(origin, resolved).await?;
        let shared = Arc::clone(&self.shared);
        let mut heed = Heed {
            sink,
            shared: &shared,
            host: self.host,
            sure_pause_ms: 0,
        };
        let request = Request::get(url.path_and_query());
        let response = connection.fetch(&request, &mut heed).await?;
        Ok(Answer {
            response,
            peer: connection.peer(),
        })
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        let shared = &self.shared;
        let now_ms = shared.now_ms();
        let door = Door::Host(self.host);
        let Some(begun_ms) = self.begun_ms else {
            shared.gate.leave(door, self.rest.not_before_ms, now_ms);
            return;
        };
        let took_ms = now_ms.saturating_sub(begun_ms);
        let delay_ms = self.rest.delay_ms.map(u64::from);
        let before = Pulse::default();
        let polite = &shared.politeness;
        let pulse = polite.after(&before, now_ms, took_ms, delay_ms, self.mood);
        if pulse.not_before_ms > now_ms {
            // Nothing else records this request.
            shared.note_pause(self.host, pulse.not_before_ms - now_ms);
        }
        shared.gate.leave(door, pulse.not_before_ms, now_ms);
    }
}
