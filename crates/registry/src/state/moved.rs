//! What was known before the crawl was divided otherwise, folded from the log of the partition that has it now.

use crate::error::Result;
use crate::files::put_piece;
use crate::hosts::HostState;
use crate::log::{Moved, MovedUrl, Was, put_visit};
use crate::record::{Mark, Record, UrlState, host_tag};
use crate::state::{Keeper, State};
use crate::texts::Finding;
use portolan_model::Visit;

impl State {
    pub(super) fn fold_moved(&mut self, moved: &Moved, keeper: &mut impl Keeper) -> Result<()> {
        match moved {
            Moved::Counts { session, stats } => {
                self.session = self.session.max(*session);
                self.stats.add(stats);
                Ok(())
            }
            Moved::Seeds { urls } => urls.iter().try_for_each(|url| {
                let url = url.as_bytes();
                let seeds = &mut self.seeds;
                seeds
                    .append(|out| put_piece(out, url.len() as u64, url))
                    .map(|_| ())
            }),
            Moved::Host { state } => {
                self.move_host(state);
                Ok(())
            }
            Moved::Url(url) => self.move_url(url, keeper),
        }
    }

    fn move_host(&mut self, state: &HostState) {
        let id = self.ids.host(&state.name).0;
        let news = self.hosts.news_of(id, &state.name);
        news.pulse = state.pulse;
        let counts = &mut news.counts;
        counts.requests += state.counts.requests;
        counts.pages += state.counts.pages;
        counts.failures += state.counts.failures;
        counts.body_bytes += state.counts.body_bytes;
        if let Some(pulse) = state.pulse {
            self.latest_ms = self.latest_ms.max(pulse.last_ms);
        }
        for robots in &state.robots {
            self.hosts.set_robots(id, &state.name, robots.clone());
        }
    }

    /// Returns where the last of the visits is, plus one; 0 if there are none.
    fn move_visits(&mut self, visits: &[Visit], links_at: u64) -> Result<u64> {
        let mut before = 0;
        for visit in visits {
            let mut visit = visit.clone();
            visit.history.before = before;
            let links_at = match visit.history.links_at {
                0 => 0,
                _ => links_at,
            };
            let at = self.visits.append(|out| {
                let mut body = Vec::with_capacity(160);
                put_visit(&mut body, &visit, links_at);
                put_piece(out, body.len() as u64, &body);
            })?;
            before = at + 1;
            self.latest_ms = self.latest_ms.max(visit.at_ms);
            if visit.history.session < self.session {
                self.session_from = self.visits.len();
            }
        }
        Ok(before)
    }

    fn move_url(&mut self, moved: &MovedUrl, keeper: &mut impl Keeper) -> Result<()> {
        let doc = self.ids.doc(&moved.url);
        let finding = Finding {
            kind: moved.kind,
            depth: moved.depth,
            hops: moved.hops,
            from: moved.from,
            early: moved.early,
        };
        let host = self.host_of(&moved.url);
        let text = self.texts.append(&moved.url, finding)?;
        let links_at = match moved.targets.is_empty() {
            true => 0,
            false => self.graph.len() + 1,
        };
        let visit = self.move_visits(&moved.visits, links_at)?;
        self.fold_graph(doc, &moved.targets)?;
        let keeps_score = self.order.keeps_score() && visit == 0;
        let record = Record {
            arrival: moved.arrival,
            text,
            mark: match keeps_score {
                true => Mark::Score(moved.score),
                false => Mark::Visit(visit),
            },
            count: moved.count,
            state: moved.state,
            reason: moved.reason,
            priority: moved.priority,
            attempts: moved.attempts,
            host_tag: host_tag(host.id),
        };
        self.arrivals = self.arrivals.max(moved.arrival);
        self.stats.known += 1;
        self.stats.enter(record.state, record.reason);
        if record.state == UrlState::Visited
            && let Some(last) = moved.visits.last()
        {
            self.stats.move_in(Was::of(last));
        }
        self.sieve.insert_new(doc.0, &record);
        if record.state == UrlState::Due {
            self.count_due(host, 1);
            self.enqueue(doc.0, host, record, keeper)?;
        }
        Ok(())
    }
}
