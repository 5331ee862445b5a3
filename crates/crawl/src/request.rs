//! One request of a turn: on the host's connection, with its address's door held, and what it means
//! for the host's next one.

use std::net::IpAddr;
use std::sync::Arc;

use portolan_model::CanonicalUrl;
use portolan_net::{
    BodySink, Connection, Method, NetError, Origin, Request, Resolved, Response, Scheme,
};

use crate::gate::Door;
use crate::politeness::Mood;
use crate::turn::Visitor;

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
        resolved: Option<&Resolved>,
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

    /// Leave the host alone as after a failure.
    pub(crate) fn back_off(&mut self) {
        self.strained(None, None, 0);
    }
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
