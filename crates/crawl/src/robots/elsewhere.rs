//! A robots.txt that redirects to another host: that one is asked as a guest, by leave of whoever looks after it.

use portolan_model::{CanonicalUrl, HostId, UrlKey};
use portolan_net::{Method, NetError};
use portolan_registry::Rest;

use super::FirstBytes;
use crate::asker::{Asked, Asker};
use crate::fleet::{Pass, Refused};
use crate::turn::Visitor;

impl Visitor {
    /// Ask another host than the turn's own for the robots.txt that a redirect led to. That host is left alone
    /// before and afterwards as its own turns would leave it alone: its partition's owner says how.
    pub(super) async fn ask_elsewhere(&mut self, url: &CanonicalUrl) -> Result<Asked, NetError> {
        let shared = &self.shared;
        let key = UrlKey::of(url, &shared.ids);
        let Some(owner) = shared.division.known_owner_of(key, self.partition) else {
            // The home of its site knows who has it, and is elsewhere.
            return Err(NetError::Connect {
                address: url.host().to_owned(),
                detail: "another node of the fleet looks after it".to_owned(),
            });
        };
        let membership = shared.membership.as_ref();
        let is_here = || membership.is_none_or(|membership| membership.holds(owner));
        if let Some(membership) = membership
            && !is_here()
        {
            // Only the node that has the host knows how it is to be left alone.
            let pass = membership.pass_for(owner, key.host);
            return match self.asker.seat.hand_over(pass).await {
                Ok(pass) => self.ask_with_pass(url, key.host, pass).await,
                Err(Refused::For(ms)) => {
                    self.asker.not_before(self.shared.now_ms() + ms);
                    Ok(Asked::Later)
                }
                Err(Refused::ForGood) => Err(NetError::Connect {
                    address: url.host().to_owned(),
                    detail: "another group of the crawl looks after it".to_owned(),
                }),
            };
        }
        let neighbours = &shared.neighbours;
        let rest = neighbours.rest_of(&shared.routes, owner, key.host, is_here);
        let Some(rest) = self.asker.seat.wait_for(rest).await? else {
            // Nobody is there to answer: the crawl ends, or the partition has gone to another node.
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

    /// The same where another node looks after that host. It is told for how long the host is left alone afterwards.
    async fn ask_with_pass(
        &mut self,
        url: &CanonicalUrl,
        host: HostId,
        pass: Pass,
    ) -> Result<Asked, NetError> {
        let rest = Rest {
            not_before_ms: 0,
            delay_ms: pass.delay_ms,
        };
        let from = (host, url.host());
        let guest = Asker::as_guest(&self.client, from, rest, &self.asker.seat);
        let mut guest = match guest {
            Ok(guest) => guest,
            Err(at_ms) => {
                // Another turn of this machine was its guest just now.
                pass.done(0);
                self.asker.not_before(at_ms);
                return Ok(Asked::Later);
            }
        };
        guest.begins_before_ms = self.shared.now_ms() + pass.left().as_millis() as u64;
        let delay_ms = pass.delay_ms.map(u64::from);
        let asked = guest
            .ask(url, Method::Get, &mut FirstBytes::default(), delay_ms)
            .await;
        pass.done(guest.rest_ms());
        if matches!(asked, Ok(Asked::Later)) {
            self.asker.not_before(guest.pulse.not_before_ms);
        }
        asked
    }
}
