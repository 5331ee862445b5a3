//! Grants: a host's turn with the URLs that go with it, for whoever fetches, and what comes back of it.

use crate::error::Result;
use crate::grant::{Grant, GrantId, Granted, Return, Terms};
use crate::partition::{Partition, Turn};
use portolan_model::{DocId, HostId, Pulse};

impl Partition {
    /// The turn that has begun, and URLs of its host. They are in flight until their visits are folded or they come back.
    pub fn grant(&mut self, turn: Turn, terms: &Terms) -> Result<Grant> {
        let host = turn.host;
        let live = self.turns.live.entry(host.0).or_default();
        live.expires_ms = terms.expires_ms;
        let id = GrantId {
            partition: self.state.id,
            epoch: terms.epoch,
            number: live.grant,
        };
        let (mut urls, mut bytes) = (Vec::new(), 0);
        while urls.len() < terms.urls && bytes < terms.max_bytes {
            let Some(due) = self.next_url(host)? else {
                break;
            };
            let last = due.last.as_deref().filter(|_| terms.with_links);
            let links = last.map(|last| self.links_of(&last.visit));
            let granted = Granted {
                known_links: links.transpose()?,
                due,
            };
            bytes = bytes.saturating_add(granted.bytes());
            urls.push(granted);
        }
        Ok(Grant {
            id,
            expires_ms: terms.expires_ms,
            turn,
            urls,
        })
    }

    /// Ends a grant: its unused URLs are due again, and its host when its pulse says. The entries of the return are
    /// committed before. False, and nothing is done, if the grant is over already: it has expired, or came back before.
    pub fn take_back(&mut self, back: &Return) -> Result<bool> {
        let live = self.turns.live.get(&back.host.0);
        let is_open = live.is_some_and(|live| live.grant != 0 && live.grant == back.id.number);
        if !is_open || back.id.partition != self.state.id {
            return Ok(false);
        }
        for &doc in &back.unused {
            self.put_back(back.host, doc)?;
        }
        self.end_turn(back.host, back.pulse)?;
        Ok(true)
    }

    /// Ends the grants that have expired: all their URLs are due again, and their hosts once the delay has passed that is
    /// recorded of them, or else `unknown_delay_ms`: somebody may have asked until the grant expired. Returns how many
    /// there were. It looks at all hosts in turn, so once a second is often enough.
    pub fn take_back_expired(&mut self, now_ms: u64, unknown_delay_ms: u32) -> Result<usize> {
        let granted = self.turns.live.iter();
        let granted = granted.filter(|(_, live)| live.is_taken() && live.expires_ms <= now_ms);
        let expired: Vec<_> = granted
            .map(|(&host, live)| (host, live.grant, live.expires_ms))
            .collect();
        for &(host, number, expires_ms) in &expired {
            let in_flight = self.turns.in_flight.iter();
            let its = in_flight.filter(|(_, taken)| (taken.host, taken.grant) == (host, number));
            let unused: Vec<DocId> = its.map(|(&doc, _)| DocId(doc)).collect();
            for doc in unused {
                self.put_back(HostId(host), doc)?;
            }
            let folded = self.state.hosts.load(host)?.and_then(|state| state.pulse);
            let live = self.turns.live.get(&host).and_then(|live| live.pulse);
            let known = live.or(folded);
            let delay_ms = known.map_or(unknown_delay_ms, |pulse| pulse.delay_ms);
            let known = known.unwrap_or_default();
            let pulse = Pulse {
                last_ms: expires_ms,
                not_before_ms: known
                    .not_before_ms
                    .max(expires_ms.saturating_add(u64::from(delay_ms) + 1)),
                delay_ms,
                ..known
            };
            self.end_turn(HostId(host), pulse)?;
        }
        Ok(expired.len())
    }
}
