//! Settling robots.txt of an origin before any of its pages: from what is remembered, or by reading
//! it, one request a turn like any other request to the host.

use std::borrow::Cow;
use std::ops::ControlFlow;
use std::rc::Rc;

use portolan_content::{MAX_ROBOTS_BYTES, Robots, RobotsAnswer};
use portolan_model::{
    CanonicalUrl, PartitionId, Reason, RobotsRecord, RobotsStatus, SiteTables, Truncation, UrlKey,
};
use portolan_net::{BodySink, DecodeEnd, Decoder, Method, NetError, Response};
use portolan_registry::Entry;

use crate::answered::VisitRecords;
use crate::asker::{Answer, Asked, Asker};
use crate::generations::Generations;
use crate::links::PageLinks;
use crate::turn::Visitor;

/// Origins whose parsed rules a worker keeps, twice over; others are parsed again from the record.
const CACHED_ORIGINS: usize = 4_096;

/// What robots.txt says to us.
#[derive(Debug)]
pub(crate) struct Rules {
    pub(crate) robots: Robots,
    pub(crate) crawl_delay_ms: Option<u64>,
    read: Read,
}

/// When and how robots.txt was read.
#[derive(Debug, Clone, Copy)]
struct Read {
    status: RobotsStatus,
    fetched_ms: u64,
    expires_ms: u64,
}

pub(crate) enum RobotsStep {
    Settled(Rc<Rules>),
    /// The host could not be asked at all.
    Failed(NetError),
    /// A request was made, and the host wants a pause before the next. Or robots.txt could not be read,
    /// so that nothing may be fetched, and the host rests as after a failure.
    Later,
}

/// What a worker knows of robots.txt files, ahead of what is folded.
pub(crate) struct RobotsCache {
    origins: Generations<String, Standing>,
}

#[derive(Clone)]
enum Standing {
    Settled {
        rules: Rc<Rules>,
        expires_ms: u64,
        /// When it was read in this run; 0 if it was not.
        answered_ms: u64,
    },
    Reading(Reading),
}

/// A robots.txt on its way: redirects followed so far, and tries in vain with the time of the first.
#[derive(Clone)]
struct Reading {
    next: CanonicalUrl,
    hops: u8,
    attempts: u16,
    failing_since_ms: u64,
}

impl Default for RobotsCache {
    fn default() -> Self {
        Self {
            origins: Generations::with_bound(CACHED_ORIGINS),
        }
    }
}

impl Visitor {
    /// Settle robots.txt of `url`'s origin, with a request if need be.
    pub(crate) async fn robots(&mut self, url: &CanonicalUrl) -> RobotsStep {
        let origin = url.origin().to_owned();
        // Every pass makes one request; redirects and tries are bounded, so the passes are too.
        loop {
            if let Some(step) = self.known_robots(&origin) {
                return step;
            }
            if self.asker.must_wait() {
                return RobotsStep::Later;
            }
            let Some(reading) = self.reading(&origin) else {
                let read = Read {
                    status: RobotsStatus::Rules,
                    fetched_ms: 0,
                    expires_ms: 0,
                };
                return RobotsStep::Settled(Rc::new(Rules::new(Robots::disallow_all(), read)));
            };
            let at_ms = self.shared.wall_ms();
            let _counted = self.client.reading_robots();
            let asked = if reading.next.politeness_key() == url.politeness_key() {
                self.ask(&reading.next, Method::Get, &mut FirstBytes::default(), None)
                    .await
            } else {
                self.ask_elsewhere(&reading.next).await
            };
            match asked {
                Ok(Asked::Answer(answer)) => {
                    if self.judge(&origin, reading, answer, at_ms).await.is_break() {
                        return RobotsStep::Later;
                    }
                }
                Ok(Asked::Later) => return RobotsStep::Later,
                Err(error) if reading.hops == 0 => return RobotsStep::Failed(error),
                // Where a redirect led cannot be reached: as good as a server error.
                Err(_) => {
                    self.unreachable(&origin, reading).await;
                    return RobotsStep::Later;
                }
            }
        }
    }

    /// Ask another host than the turn's own for the robots.txt that a redirect led to. That host is left alone
    /// before and afterwards as its own turns would leave it alone: its partition's owner says how.
    async fn ask_elsewhere(&mut self, url: &CanonicalUrl) -> Result<Asked, NetError> {
        let shared = &self.shared;
        let key = UrlKey::of(url, &shared.ids);
        let owner = shared.division.known_owner_of(key, self.partition);
        let is_here = |owner: &PartitionId| {
            let membership = shared.membership.as_ref();
            membership.is_none_or(|membership| membership.holds(*owner))
        };
        let Some(owner) = owner.filter(is_here) else {
            // Only the node that has the host knows how it is to be left alone.
            return Err(NetError::Connect {
                address: url.host().to_owned(),
                detail: "another node of the fleet looks after it".to_owned(),
            });
        };
        let rest = shared.neighbours.rest_of(&shared.routes, owner, key.host);
        let Some(rest) = self.asker.seat.wait_for(rest).await? else {
            // Nobody is there to answer: the crawl ends.
            return Ok(Asked::Later);
        };
        let mut guest =
            match Asker::as_guest(&self.client, (key.host, url.host()), rest, &self.asker.seat) {
                Ok(guest) => guest,
                Err(at_ms) => {
                    self.asker.not_before(at_ms);
                    return Ok(Asked::Later);
                }
            };
        let delay_ms = rest.delay_ms.map(u64::from);
        let asked = guest
            .ask(url, Method::Get, &mut FirstBytes::default(), delay_ms)
            .await;
        if matches!(asked, Ok(Asked::Later)) {
            self.asker.not_before(guest.pulse.not_before_ms);
        }
        asked
    }

    /// From the cache, or from the host's record.
    fn known_robots(&mut self, origin: &str) -> Option<RobotsStep> {
        let now_ms = self.shared.now_ms();
        let mut cache = self.client.robots.borrow_mut();
        match cache.origins.get(origin) {
            Some(Standing::Settled {
                rules, expires_ms, ..
            }) if *expires_ms > now_ms => {
                return Some(RobotsStep::Settled(Rc::clone(rules)));
            }
            Some(Standing::Reading(_)) => return None,
            _ => {}
        }
        // One that expires later than any may was written by a clock that was set back since.
        let cache_ms = self.shared.settings.robots.cache_ms;
        // A new session reads it anew.
        let begun_ms = self.shared.session_begun_ms;
        let holds = |r: &RobotsRecord| {
            r.fetched_ms >= begun_ms && (now_ms + 1..=now_ms + cache_ms).contains(&r.expires_ms)
        };
        let record = self
            .turn
            .robots
            .iter()
            .find(|r| r.origin == origin && holds(r))?;
        let expires_ms = record.expires_ms;
        let robots = match record.status {
            RobotsStatus::Absent => Robots::allow_all(),
            RobotsStatus::Rules => Robots::parse(record.rules.as_bytes(), "*"),
        };
        let read = Read {
            status: record.status,
            fetched_ms: record.fetched_ms,
            expires_ms,
        };
        let rules = Rc::new(Rules::new(robots, read));
        cache.origins.insert(
            origin.to_owned(),
            Standing::Settled {
                rules: Rc::clone(&rules),
                expires_ms,
                answered_ms: 0,
            },
        );
        Some(RobotsStep::Settled(rules))
    }

    /// The request that is next for this origin's robots.txt.
    fn reading(&mut self, origin: &str) -> Option<Reading> {
        let mut cache = self.client.robots.borrow_mut();
        if let Some(Standing::Reading(reading)) = cache.origins.get(origin) {
            return Some(reading.clone());
        }
        let next = CanonicalUrl::from_canonical(format!("{origin}/robots.txt")).ok()?;
        Some(Reading {
            next,
            hops: 0,
            attempts: 0,
            failing_since_ms: 0,
        })
    }

    /// Ask for robots.txt of `url`'s origin again, whatever is remembered of it.
    pub(crate) fn read_robots_anew(&mut self, url: &CanonicalUrl) {
        if let Some(reading) = self.reading(url.origin()) {
            let mut cache = self.client.robots.borrow_mut();
            cache
                .origins
                .insert(url.origin().to_owned(), Standing::Reading(reading));
        }
    }

    /// Was robots.txt of `origin` the last that the host was asked for, and did it answer? Then the host
    /// is well, whatever pages made of it before.
    pub(crate) fn is_vouched_for(&self, origin: &str) -> bool {
        let mut cache = self.client.robots.borrow_mut();
        match cache.origins.get(origin) {
            Some(Standing::Settled { answered_ms, .. }) => {
                *answered_ms > 0 && *answered_ms >= self.asker.pulse.last_ms
            }
            _ => false,
        }
    }

    /// What the answer means. `Break`: robots.txt cannot be read for now.
    async fn judge(
        &mut self,
        origin: &str,
        mut reading: Reading,
        answer: Answer,
        at_ms: u64,
    ) -> ControlFlow<()> {
        let response = &answer.response;
        match RobotsAnswer::from_status(response.status()) {
            RobotsAnswer::Parse => {
                let Some(body) = whole_lines(response) else {
                    // Half of the rules are no rules.
                    self.unreachable(origin, reading).await;
                    return ControlFlow::Break(());
                };
                let product = &self.asker.access.product;
                let robots = Robots::parse_for(&body, product, origin);
                self.settle_robots(origin, &reading, RobotsStatus::Rules, robots, answer, at_ms)
                    .await;
            }
            RobotsAnswer::AllowAll => {
                let robots = Robots::allow_all();
                self.settle_robots(
                    origin,
                    &reading,
                    RobotsStatus::Absent,
                    robots,
                    answer,
                    at_ms,
                )
                .await;
            }
            RobotsAnswer::DisallowAll => {
                self.unreachable(origin, reading).await;
                return ControlFlow::Break(());
            }
            RobotsAnswer::Redirect => {
                let target = response
                    .header_url("location")
                    .and_then(|to| self.client.bench.borrow().resolve(&reading.next, &to));
                match target {
                    Some(next) if reading.hops < self.shared.settings.robots.max_redirects => {
                        reading.next = next;
                        reading.hops += 1;
                        self.client
                            .robots
                            .borrow_mut()
                            .origins
                            .insert(origin.to_owned(), Standing::Reading(reading));
                    }
                    // RFC 9309: after that many redirects it may count as unavailable.
                    _ => {
                        let robots = Robots::allow_all();
                        let status = RobotsStatus::Absent;
                        self.settle_robots(origin, &reading, status, robots, answer, at_ms)
                            .await;
                    }
                }
            }
        }
        ControlFlow::Continue(())
    }

    async fn settle_robots(
        &mut self,
        origin: &str,
        reading: &Reading,
        status: RobotsStatus,
        robots: Robots,
        answer: Answer,
        at_ms: u64,
    ) {
        let now_ms = self.shared.now_ms();
        let expires_ms = now_ms + self.shared.settings.robots.cache_ms;
        let sitemaps = robots.sitemaps().to_vec();
        let read = Read {
            status,
            fetched_ms: now_ms,
            expires_ms,
        };
        let rules = Rc::new(Rules::new(robots, read));
        let record = rules.record(origin, self.tables_of(origin));
        tracing::debug!(
            origin,
            status = answer.response.status(),
            crawl_delay_ms = rules.crawl_delay_ms,
            sitemaps = sitemaps.len(),
            "robots.txt read"
        );
        // The delay that it asks for already holds for what comes after it.
        if let Some(delay_ms) = rules.crawl_delay_ms {
            let pulse = &mut self.asker.pulse;
            pulse.not_before_ms = pulse.not_before_ms.max(pulse.last_ms + delay_ms + 1);
            let delay_ms = u32::try_from(delay_ms).unwrap_or(u32::MAX);
            pulse.delay_ms = pulse.delay_ms.max(delay_ms);
        }
        self.client.robots.borrow_mut().origins.insert(
            origin.to_owned(),
            Standing::Settled {
                rules,
                expires_ms,
                answered_ms: now_ms,
            },
        );
        self.asker.promise();
        let archived = self.client.bench.borrow_mut().record_plain(
            &reading.next,
            answer.response,
            answer.peer,
            at_ms,
        );
        let links = if self.shared.settings.robots.sitemaps {
            let mut bench = self.client.bench.borrow_mut();
            bench.sitemap_links(&self.shared, &reading.next, self.partition, &sitemaps)
        } else {
            PageLinks::none(None)
        };
        self.log_host(record, links, archived).await;
    }

    /// robots.txt could not be read, so nothing may be fetched: the host rests as after a failure, and
    /// its URLs stay due. The next try begins at the origin again.
    async fn unreachable(&mut self, origin: &str, mut reading: Reading) {
        if !self.asker.pulse.is_failing() {
            // The host itself answered, with a redirect to nowhere, perhaps: the tries add up all the same.
            self.asker.pulse.failures = reading.attempts;
            self.asker.pulse.failing_since_ms = reading.failing_since_ms;
            self.asker.back_off(Reason::RobotsUnreachable);
        }
        tracing::info!(
            origin,
            tries = self.asker.pulse.failures,
            rest_ms = self.asker.rest_ms(),
            "robots.txt cannot be read, so nothing is fetched there"
        );
        reading.attempts = self.asker.pulse.failures;
        reading.failing_since_ms = self.asker.pulse.failing_since_ms;
        reading.hops = 0;
        if let Ok(next) = CanonicalUrl::from_canonical(format!("{origin}/robots.txt")) {
            reading.next = next;
        }
        self.client
            .robots
            .borrow_mut()
            .origins
            .insert(origin.to_owned(), Standing::Reading(reading));
        self.log_pulse().await;
    }

    /// What was learnt of the host, with the sitemaps that it names: all of it, or nothing.
    async fn log_host(
        &mut self,
        robots: RobotsRecord,
        links: PageLinks,
        record: Option<VisitRecords>,
    ) {
        let entry = Entry::Host {
            host: self.turn.name.clone(),
            pulse: self.asker.pulse,
            robots: Some(robots),
            archive: None,
            links: links.own,
            forwards: links.forwards,
        };
        self.hand_over(self.partition, entry, record).await;
    }
}

impl Rules {
    /// Does robots.txt name a URL as a sitemap? Only one that was read in this run knows.
    pub(crate) fn names_sitemap(&self, url: &CanonicalUrl) -> bool {
        let mut sitemaps = self.robots.sitemaps().iter();
        sitemaps.any(|sitemap| sitemap == url.as_str())
    }

    /// As the host's record keeps them.
    pub(crate) fn record(&self, origin: &str, tables: SiteTables) -> RobotsRecord {
        RobotsRecord {
            origin: origin.to_owned(),
            status: self.read.status,
            fetched_ms: self.read.fetched_ms,
            expires_ms: self.read.expires_ms,
            rules: match self.read.status {
                RobotsStatus::Rules => self.robots.to_compact(),
                RobotsStatus::Absent => String::new(),
            },
            tables,
        }
    }

    fn new(robots: Robots, read: Read) -> Self {
        let crawl_delay_ms = robots.crawl_delay().map(|delay| delay.as_millis() as u64);
        Self {
            robots,
            crawl_delay_ms,
            read,
        }
    }
}

/// A robots.txt as far as it is read, without a last line that a bound cut. `None` if it broke off: it was
/// shorter than promised, or its encoding has no end.
pub(crate) fn whole_lines(response: &Response) -> Option<Cow<'_, [u8]>> {
    if let Some(Truncation::Disconnect | Truncation::Time) = response.truncated {
        return None;
    }
    // One byte more than counts, so that the parser sees that there was more.
    let most_bytes = MAX_ROBOTS_BYTES as u64 + 1;
    let (mut body, end) = Decoder::decode_answer(&response.head, &response.body, most_bytes);
    if end == Err(DecodeEnd::Broken) && response.truncated.is_none() {
        let is_plain = body.is_empty() && std::str::from_utf8(&response.body).is_ok();
        // An encoding was named and not used.
        return is_plain.then_some(Cow::Borrowed(&response.body));
    }
    if response.truncated == Some(Truncation::Length) && body.len() <= MAX_ROBOTS_BYTES {
        // It was cut before it was decoded.
        let end = memchr::memrchr2(b'\n', b'\r', &body).map_or(0, |at| at + 1);
        body.to_mut().truncate(end);
    }
    Some(body)
}

/// Bytes of a robots.txt that are read; the rest doesn't count.
#[derive(Default)]
pub(crate) struct FirstBytes {
    bytes: usize,
}

impl BodySink for FirstBytes {
    fn body(&mut self, bytes: &[u8]) -> ControlFlow<()> {
        self.bytes += bytes.len();
        if self.bytes > MAX_ROBOTS_BYTES {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    }
}

#[cfg(test)]
mod tests;
