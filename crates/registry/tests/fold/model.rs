//! The registry as plain maps: what the real thing must agree with. Also random entries.

use portolan_model::{
    DocId, HostId, Identities, Link, LinkBatch, LinkKind, Order, Outcome, PartitionId, Pulse,
    Ranker, Reason, RobotsRecord, RobotsStatus, SCORE_BITS, SiteTables, Standing, Verdict, Visit,
    given_priority,
};
use portolan_registry::{Entry, Renewed, Snapshot, UrlFilter, UrlState, Was};
use std::collections::{BTreeMap, BTreeSet};

/// A small generator of random numbers; the same seed gives the same stream.
#[derive(Clone)]
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    pub fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    /// Small numbers often, large ones seldom.
    pub fn skewed(&mut self, bound: u64) -> u64 {
        let bound = 1 + self.below(bound);
        let bound = 1 + self.below(bound);
        self.below(bound)
    }
}

pub const PARTITIONS: u16 = 3;

/// A directory in RAM where there is one: these tests sync thousands of times.
pub fn scratch() -> tempfile::TempDir {
    let ram = std::path::Path::new("/dev/shm");
    if ram.is_dir() {
        return tempfile::tempdir_in(ram).unwrap();
    }
    tempfile::tempdir().unwrap()
}

pub fn host_of(url: &str) -> HostId {
    Identities::PUBLIC.host(url.split('/').nth(2).unwrap())
}

pub fn home(url: &str) -> PartitionId {
    PartitionId::of(host_of(url), PARTITIONS)
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Known {
    pub url: String,
    pub state: UrlState,
    pub reason: Option<Reason>,
    pub count: u32,
    pub score: u32,
    pub priority: i8,
    pub depth: u16,
    pub hops: u8,
    pub kind: LinkKind,
    pub from: Option<DocId>,
    pub early: bool,
    pub arrival: u64,
    pub attempts: u8,
    pub visit: Option<Visit>,
}

impl Known {
    pub fn class(&self, order: Order) -> u8 {
        let class = order.class_of(self.count, self.score, self.priority);
        class.saturating_sub(self.attempts)
    }
}

#[derive(Clone, Default)]
pub struct ModelPartition {
    pub order: Order,
    pub urls: BTreeMap<u64, Known>,
    pub heard: BTreeMap<u16, u64>,
    pub arrivals: u64,
    pub graph: Vec<(DocId, Vec<DocId>)>,
    pub pulses: BTreeMap<HostId, Pulse>,
    pub robots: BTreeMap<(HostId, String), RobotsRecord>,
    pub requests: u64,
    pub pages: u64,
    /// The session that has begun; 0 and 1 are the first.
    pub session: u32,
    /// Which of the graph's entries has the links of each URL's last visit.
    pub links_of: BTreeMap<u64, usize>,
    /// The session of each URL's last visit.
    pub visited_in: BTreeMap<u64, u32>,
}

impl ModelPartition {
    pub fn fold(&mut self, entry: &Entry) {
        match entry {
            Entry::Links { source, links } => {
                if let Some(origin) = source {
                    let heard = self.heard.entry(origin.source.0).or_default();
                    assert_eq!(origin.predecessor, *heard, "a gap");
                    *heard = origin.number;
                }
                self.fold_links(links);
            }
            Entry::Visit {
                url,
                visit,
                pulse,
                links,
                targets,
                ..
            } => {
                self.fold_visit(url, visit);
                self.pulses.insert(host_of(url), *pulse);
                self.fold_links(links);
                let doc = Identities::PUBLIC.doc(url).0;
                let keeps = matches!(visit.outcome, Outcome::Retry(_)) && self.order.keeps_score();
                if !targets.is_empty() && !keeps {
                    self.links_of.insert(doc, self.graph.len());
                } else if !keeps {
                    self.links_of.remove(&doc);
                }
                if !targets.is_empty() {
                    self.graph
                        .push((Identities::PUBLIC.doc(url), targets.clone()));
                }
            }
            Entry::Host {
                host,
                pulse,
                robots,
                links,
                ..
            } => {
                let id = Identities::PUBLIC.host(host);
                self.pulses.insert(id, *pulse);
                if let Some(robots) = robots {
                    self.robots
                        .insert((id, robots.origin.clone()), robots.clone());
                }
                self.fold_links(links);
            }
            Entry::Again { urls } => urls.iter().for_each(|url| self.fold_again(url)),
            Entry::Judged { links } => self.fold_judged(links),
            Entry::Session { number, urls, .. } => {
                self.session = self.session.max(*number);
                urls.iter().for_each(|renewed| self.fold_renewed(renewed));
            }
            Entry::Refresh { docs } => docs.iter().for_each(|doc| self.fold_refresh(doc.0)),
            Entry::Sent { .. } | Entry::Heard { .. } | Entry::Claims { .. } => {
                panic!("there is no fleet")
            }
            Entry::Moved(_) => panic!("nothing is divided otherwise"),
        }
    }

    fn fold_links(&mut self, links: &LinkBatch) {
        if links.is_early() {
            return self.fold_early(links);
        }
        links.iter().for_each(|link| self.fold_link(link, links));
    }

    /// Links of a page that is not there yet are as others, but count for nothing, and change nothing of what is due.
    fn fold_early(&mut self, links: &LinkBatch) {
        for link in links.iter() {
            let doc = Identities::PUBLIC.doc(link.url).0;
            let known = self.urls.get(&doc);
            let before = known.map_or((0, 0), |known| (known.count, known.score));
            let liftable = |known: &Known| known.reason.is_some_and(Reason::is_liftable);
            let crawl = matches!(link.verdict, Verdict::Crawl { .. });
            if known.is_none_or(|known| crawl && liftable(known)) {
                self.fold_link(link, links);
                if let Some(known) = self.urls.get_mut(&doc) {
                    (known.count, known.score) = before;
                }
            } else {
                self.arrivals += 1;
            }
        }
    }

    fn fold_link(&mut self, link: Link<'_>, links: &LinkBatch) {
        self.arrivals += 1;
        let arrival = self.arrivals;
        let known = self
            .urls
            .entry(Identities::PUBLIC.doc(link.url).0)
            .or_insert_with(|| Known {
                url: link.url.to_owned(),
                state: UrlState::Due,
                reason: None,
                count: 0,
                score: 0,
                priority: 0,
                depth: link.depth,
                hops: link.hops,
                kind: link.kind,
                from: links.from(),
                early: links.is_early(),
                arrival,
                attempts: 0,
                visit: None,
            });
        known.count += 1;
        let order = self.order;
        if known.visit.is_none() {
            known.score = order.credit(host_of(link.url), known.score, links.vote());
        }
        match link.verdict {
            Verdict::Crawl { priority } if known.arrival == arrival => {
                known.priority = priority;
            }
            Verdict::Exclude(reason) if known.arrival == arrival => {
                known.state = UrlState::Excluded;
                known.reason = Some(reason);
            }
            Verdict::Crawl { .. }
                if known.state == UrlState::Due
                    && link.kind == LinkKind::Sitemap
                    && known.kind != LinkKind::Sitemap
                    && !known.kind.is_seed() =>
            {
                known.kind = link.kind;
                known.depth = link.depth;
                known.hops = link.hops;
                (known.from, known.early) = (links.from(), false);
            }
            Verdict::Exclude(reason)
                if known.reason == Some(Reason::NoFollow)
                    || (reason == Reason::WaitsForItsShare
                        && known.state == UrlState::Excluded
                        && known.reason.is_some_and(Reason::is_liftable)) =>
            {
                known.reason = Some(reason);
            }
            Verdict::Crawl { priority }
                if known.state == UrlState::Excluded
                    && known.reason.is_some_and(Reason::is_liftable) =>
            {
                known.state = UrlState::Due;
                known.reason = None;
                known.priority = priority;
                known.arrival = arrival;
                known.depth = known.depth.min(link.depth);
                known.hops = link.hops;
                known.kind = link.kind;
                (known.from, known.early) = (links.from(), links.is_early());
            }
            _ => {}
        }
    }

    fn fold_visit(&mut self, url: &str, visit: &Visit) {
        let asked = visit.status != 0 || !matches!(visit.outcome, Outcome::Excluded(_));
        self.requests += u64::from(asked);
        self.pages += u64::from(visit.is_document());
        if matches!(visit.outcome, Outcome::Retry(_)) {
            self.arrivals += 1;
        }
        let arrival = self.arrivals;
        let known = self
            .urls
            .entry(Identities::PUBLIC.doc(url).0)
            .or_insert_with(|| Known {
                url: url.to_owned(),
                state: UrlState::Due,
                reason: None,
                count: 0,
                score: 0,
                priority: 0,
                depth: visit.depth,
                hops: 0,
                kind: LinkKind::Anchor,
                from: None,
                early: false,
                arrival,
                attempts: 0,
                visit: None,
            });
        // A record has room for one of the two: what is due again goes on with its score.
        if !matches!(visit.outcome, Outcome::Retry(_)) || !self.order.keeps_score() {
            known.visit = Some(visit.clone());
            known.score = 0;
            let doc = Identities::PUBLIC.doc(url).0;
            self.visited_in.insert(doc, self.session.max(1));
        }
        (known.state, known.reason) = match visit.outcome {
            Outcome::Fetched => (UrlState::Visited, None),
            Outcome::Failed(reason) => (UrlState::Failed, Some(reason)),
            Outcome::Excluded(reason) => (UrlState::Excluded, Some(reason)),
            Outcome::Retry(_) => {
                known.arrival = arrival;
                known.attempts += 1;
                (UrlState::Due, None)
            }
        };
    }

    fn fold_again(&mut self, url: &str) {
        self.arrivals += 1;
        let arrival = self.arrivals;
        if let Some(known) = self.urls.get_mut(&Identities::PUBLIC.doc(url).0)
            && matches!(known.state, UrlState::Failed | UrlState::Excluded)
        {
            (known.state, known.reason) = (UrlState::Due, None);
            (known.attempts, known.arrival) = (0, arrival);
        }
    }

    /// Due again, unless it was visited in this session.
    fn fold_renewed(&mut self, renewed: &Renewed) {
        self.arrivals += 1;
        let doc = Identities::PUBLIC.doc(&renewed.url).0;
        let is_done = self.visited_in.get(&doc) == Some(&self.session.max(1));
        let Some(known) = self.urls.get_mut(&doc) else {
            return;
        };
        if known.state == UrlState::Due || is_done {
            return;
        }
        if known.state == UrlState::Visited {
            self.pages -= u64::from(renewed.was.document);
        }
        if let Some(class) = renewed.class {
            let score = if known.visit.is_some() {
                0
            } else {
                known.score
            };
            known.priority = self.order.priority_for(class, known.count, score);
        }
        (known.state, known.reason) = (UrlState::Due, None);
        (known.attempts, known.arrival) = (0, self.arrivals);
    }

    fn fold_refresh(&mut self, doc: u64) {
        self.arrivals += 1;
        let Some(known) = self.urls.get_mut(&doc) else {
            return;
        };
        let is_shut_out = known.state == UrlState::Excluded
            && known
                .reason
                .is_some_and(|reason| (reason as u8) < 32 && reason != Reason::WaitsForItsShare);
        if known.state == UrlState::Due || is_shut_out {
            return;
        }
        if known.state == UrlState::Visited {
            let was_document = known.visit.as_ref().is_some_and(Visit::is_document);
            self.pages -= u64::from(was_document);
        }
        (known.state, known.reason) = (UrlState::Due, None);
        (known.attempts, known.arrival) = (0, self.arrivals);
    }

    /// Links of a page that was read again are as new ones, but count no URL twice. Without a page, what is known is
    /// judged anew.
    fn fold_judged(&mut self, links: &LinkBatch) {
        for link in links.iter() {
            let doc = Identities::PUBLIC.doc(link.url).0;
            let known = self.urls.get_mut(&doc);
            let as_link = match (&known, links.from()) {
                (None, None) => None,
                (None, Some(_)) => Some(true),
                (Some(known), Some(_)) => {
                    let liftable = known.reason.is_some_and(Reason::is_liftable);
                    let crawl = matches!(link.verdict, Verdict::Crawl { .. });
                    Some(known.state == UrlState::Excluded && liftable && crawl)
                }
                (Some(_), None) => Some(false),
            };
            let mut one = LinkBatch::new(links.from());
            one.set_vote(links.vote());
            one.push(link);
            match (as_link, known) {
                (Some(true), known) => {
                    let before = known.map(|known| (known.count, known.score));
                    self.fold_links(&one);
                    if let (Some(before), Some(known)) = (before, self.urls.get_mut(&doc)) {
                        (known.count, known.score) = before;
                    }
                    continue;
                }
                (Some(false), Some(known)) if links.from().is_none() => {
                    match (known.state, link.verdict) {
                        (UrlState::Due, Verdict::Crawl { priority }) => known.priority = priority,
                        (UrlState::Due | UrlState::Excluded, Verdict::Exclude(reason)) => {
                            if known.state == UrlState::Due {
                                (known.priority, known.attempts) = (0, 0);
                            }
                            (known.state, known.reason) = (UrlState::Excluded, Some(reason));
                        }
                        (UrlState::Excluded, Verdict::Crawl { priority }) => {
                            (known.state, known.reason) = (UrlState::Due, None);
                            (known.attempts, known.priority) = (0, priority);
                            known.arrival = self.arrivals + 1;
                        }
                        (UrlState::Visited | UrlState::Failed, _) => {}
                    }
                }
                _ => {}
            }
            self.arrivals += 1;
        }
    }

    /// In a second session, pages have the links of their last checks alone.
    fn last_graph(&self) -> Vec<(DocId, Vec<DocId>)> {
        let mut graph = self.graph.clone();
        if self.session > 1 {
            let is_last = |at: usize, doc: DocId| {
                let known = self.urls.get(&doc.0).and_then(|known| known.visit.as_ref());
                known.is_none() || self.links_of.get(&doc.0) == Some(&at)
            };
            let mut at = 0..;
            graph.retain(|(doc, _)| at.next().is_some_and(|at| is_last(at, *doc)));
        }
        graph
    }

    /// The host's due URLs in order.
    pub fn queue(&self, host: HostId) -> Vec<DocId> {
        let mut queue: Vec<_> = self
            .urls
            .iter()
            .filter(|(_, known)| known.state == UrlState::Due && host_of(&known.url) == host)
            .map(|(&doc, known)| (u8::MAX - known.class(self.order), known.arrival, DocId(doc)))
            .collect();
        queue.sort();
        queue.into_iter().map(|(_, _, doc)| doc).collect()
    }
}

/// Every known URL is counted in one state, and every failed or excluded one by one reason.
fn parts_make_up_the_whole(snapshot: &Snapshot) {
    let stats = snapshot.stats();
    assert_eq!(
        stats.known,
        stats.visited + stats.due + stats.failed + stats.excluded
    );
    let reasons: u64 = Reason::ALL.iter().map(|&r| stats.by_reason(r)).sum();
    assert_eq!(reasons, stats.failed + stats.excluded);
}

/// Only the registry knows where links are.
fn without_links_at(mut visit: Visit) -> Visit {
    visit.history.links_at = 0;
    visit
}

/// Everything that tools can read agrees with the model.
pub fn compare(snapshot: &Snapshot, model: &[ModelPartition]) {
    let mut found = BTreeMap::new();
    for url in snapshot.urls(UrlFilter::default()) {
        let url = url.unwrap();
        let known = Known {
            visit: snapshot.visit(&url).unwrap().map(without_links_at),
            url: url.url,
            state: url.state,
            reason: url.reason,
            count: url.count,
            score: url.score,
            priority: url.priority,
            depth: url.depth,
            hops: url.hops,
            kind: url.kind,
            from: url.from,
            early: url.early,
            arrival: url.arrival,
            attempts: url.attempts,
        };
        assert_eq!(known.class(model[0].order), url.class);
        assert!(found.insert(url.doc.0, known).is_none(), "a URL twice");
    }
    let scattered: Vec<u64> = snapshot
        .scattered(&UrlState::ALL)
        .map(|url| url.unwrap().doc.0)
        .collect();
    let distinct: BTreeSet<u64> = scattered.iter().copied().collect();
    assert_eq!(scattered.len(), distinct.len(), "a URL twice");
    assert!(distinct.iter().eq(found.keys()), "not the same URLs");
    let expected: BTreeMap<u64, Known> = model
        .iter()
        .flat_map(|partition| partition.urls.clone())
        .collect();
    for (doc, known) in &expected {
        assert_eq!(found.get(doc), Some(known));
    }
    assert_eq!(found.len(), expected.len());
    parts_make_up_the_whole(snapshot);

    let hosts: BTreeSet<HostId> = expected.values().map(|known| host_of(&known.url)).collect();
    let mut due = BTreeMap::new();
    for &host in &hosts {
        let queue: Vec<DocId> = model.iter().flat_map(|p| p.queue(host)).collect();
        assert_eq!(snapshot.queue(host).unwrap(), queue, "queue of {host:?}");
        due.insert(host, queue.len() as i64);
        if let Some(&doc) = queue.get(queue.len() / 2) {
            let position = snapshot.queue_position(doc).unwrap().unwrap();
            assert_eq!(position.place as usize, queue.len() / 2 + 1);
            assert_eq!(position.queued as usize, queue.len());
        }
    }
    for (host, state) in snapshot.hosts().unwrap() {
        assert_eq!(host, Identities::PUBLIC.host(&state.name));
        assert_eq!(state.counts.due, due.remove(&host).unwrap_or(0));
        let pulse = model.iter().find_map(|p| p.pulses.get(&host));
        assert_eq!(state.pulse.as_ref(), pulse);
        for robots in &state.robots {
            let key = (host, robots.origin.clone());
            let expected = model.iter().find_map(|p| p.robots.get(&key));
            assert_eq!(Some(robots), expected);
        }
    }
    assert!(due.values().all(|&n| n == 0), "hosts with due URLs missing");

    let stats = snapshot.stats();
    let count = |state| expected.values().filter(|k| k.state == state).count() as u64;
    assert_eq!(stats.known, expected.len() as u64);
    assert_eq!(stats.due, count(UrlState::Due));
    assert_eq!(stats.visited, count(UrlState::Visited));
    assert_eq!(stats.failed, count(UrlState::Failed));
    assert_eq!(stats.excluded, count(UrlState::Excluded));
    for &reason in Reason::ALL {
        let expected = expected.values().filter(|k| k.reason == Some(reason));
        assert_eq!(stats.by_reason(reason), expected.count() as u64);
    }
    let sum = |number: fn(&ModelPartition) -> u64| model.iter().map(number).sum::<u64>();
    assert_eq!(stats.requests, sum(|p| p.requests));
    assert_eq!(stats.pages, sum(|p| p.pages));
    let links: Vec<_> = snapshot.links().map(|item| item.unwrap()).collect();
    let graph: Vec<_> = model.iter().flat_map(ModelPartition::last_graph).collect();
    assert_eq!(links, graph);
    for session in &stats.sessions {
        let in_it = |p: &&ModelPartition| p.session.max(1) >= session.number;
        assert!(model.iter().any(|p| in_it(&p)), "{session:?}");
        assert_eq!(
            session.pages,
            session.new + session.changed + session.unchanged
        );
    }
    let asked: u64 = stats.sessions.iter().map(|session| session.requests).sum();
    assert_eq!(asked, stats.requests);
}

/// Random entries over a small Web.
pub struct Web {
    pub random: Random,
    pub hosts: u64,
    pub pages: u64,
    pub order: Order,
}

impl Web {
    pub fn url(&mut self) -> String {
        let host = self.random.skewed(self.hosts);
        let page = self.random.skewed(self.pages);
        format!("http://host-{host}.test/page/{page}")
    }

    fn push_link(&mut self, batch: &mut LinkBatch, url: &str) {
        let verdict = match self.random.below(8) {
            0 => Verdict::Exclude(Reason::OutOfScope),
            1 => Verdict::Exclude(Reason::LinkDepth),
            4 => Verdict::Exclude(Reason::WaitsForItsShare),
            2 => Verdict::Crawl {
                priority: self.random.below(7) as i8 - 3,
            },
            3 if self.order == Order::Pagerank => Verdict::Crawl {
                priority: given_priority(self.random.below(40) as u8, 0),
            },
            _ => Verdict::Crawl { priority: 0 },
        };
        batch.push(Link {
            url,
            kind: LinkKind::from_u8(self.random.below(12) as u8).unwrap(),
            depth: self.random.below(20) as u16,
            hops: self.random.below(3) as u8,
            verdict,
        });
    }

    /// Links of one page, by partition.
    fn links(&mut self, from: Option<DocId>, most: u64) -> Vec<(PartitionId, LinkBatch)> {
        let mut batches: BTreeMap<PartitionId, LinkBatch> = BTreeMap::new();
        for _ in 0..self.random.below(most) {
            let url = self.url();
            let batch = batches
                .entry(home(&url))
                .or_insert_with(|| LinkBatch::new(from));
            self.push_link(batch, &url);
        }
        let page = from.map(|doc| {
            let host =
                Identities::PUBLIC.host(&format!("host-{}.test", self.random.skewed(self.hosts)));
            let score = self.random.below(1 << SCORE_BITS) as u32;
            (portolan_model::Known { doc, host }, score)
        });
        let vote = self.order.vote(page, most as usize);
        batches.values_mut().for_each(|batch| batch.set_vote(vote));
        batches.into_iter().collect()
    }

    pub fn seeds(&mut self) -> Vec<(PartitionId, Entry)> {
        self.links(None, 30)
            .into_iter()
            .map(|(partition, links)| {
                let source = None;
                (partition, Entry::Links { source, links })
            })
            .collect()
    }

    pub fn pulse(&mut self, now_ms: u64) -> Pulse {
        Pulse {
            last_ms: now_ms,
            not_before_ms: now_ms + self.random.below(300),
            delay_ms: self.random.below(300) as u32,
            failures: self.random.below(3) as u16,
            ..Pulse::default()
        }
    }

    pub fn host_facts(&mut self, now_ms: u64) -> (PartitionId, Entry) {
        let url = self.url();
        let host = url.split('/').nth(2).unwrap().to_owned();
        let robots = RobotsRecord {
            origin: format!("http://{host}:{}", self.random.below(3)),
            status: RobotsStatus::Rules,
            fetched_ms: now_ms,
            expires_ms: now_ms + 1,
            rules: "Disallow: /x\n".repeat(self.random.below(30) as usize),
            tables: SiteTables {
                tol: Standing::from_u8(self.random.below(4) as u8).unwrap(),
                tvi: Standing::from_u8(self.random.below(4) as u8).unwrap(),
            },
        };
        let at = home(&url);
        let mut links = LinkBatch::new(None);
        let mut forwards = Vec::new();
        // A page that is coming, or what robots.txt names.
        let page = self.random.one_in(2).then(|| DocId(self.random.next()));
        for (partition, mut batch) in self.links(page, 6) {
            batch.set_early(page.is_some());
            if partition == at {
                links = batch;
            } else {
                forwards.push((partition, batch));
            }
        }
        let entry = Entry::Host {
            pulse: self.pulse(now_ms),
            robots: (!self.random.one_in(3)).then_some(robots),
            host,
            archive: None,
            links,
            forwards,
        };
        (at, entry)
    }

    /// Some URLs of one partition, known or not, whatever their state.
    pub fn again(&mut self) -> (PartitionId, Entry) {
        let first = self.url();
        let at = home(&first);
        let others = (0..10).map(|_| self.url());
        let others: Vec<String> = others.filter(|url| home(url) == at).collect();
        let urls = std::iter::once(first).chain(others).collect();
        (at, Entry::Again { urls })
    }

    /// Some URLs of one partition, known or not, whatever their state.
    pub fn refresh(&mut self) -> (PartitionId, Entry) {
        let first = self.url();
        let at = home(&first);
        let others = (0..10).map(|_| self.url());
        let others: Vec<String> = others.filter(|url| home(url) == at).collect();
        let urls = std::iter::once(first).chain(others);
        let docs = urls.map(|url| Identities::PUBLIC.doc(&url)).collect();
        (at, Entry::Refresh { docs })
    }

    /// Some URLs of one partition, in the session that has begun or in the next one.
    pub fn session(&mut self, model: &[ModelPartition]) -> (PartitionId, Entry) {
        let first = self.url();
        let at = home(&first);
        let partition = &model[usize::from(at.0)];
        let others = (0..20).map(|_| self.url()).collect::<Vec<_>>();
        let urls = std::iter::once(first).chain(others.into_iter().filter(|url| home(url) == at));
        let class = match self.random.below(4) {
            0 => Some(self.random.below(64) as u8),
            _ => None,
        };
        let renewed = |url: String| {
            let known = partition.urls.get(&Identities::PUBLIC.doc(&url).0);
            let visit = known.and_then(|known| known.visit.as_ref());
            let was = visit.map(Was::of).unwrap_or_default();
            Renewed { url, was, class }
        };
        let number = partition.session.max(1) + u32::from(self.random.one_in(3));
        let entry = Entry::Session {
            number,
            begun_ms: u64::from(number),
            urls: urls.map(renewed).collect(),
        };
        (at, entry)
    }

    /// Some URLs of one partition, known or not, by other settings; or links of a page that is read again.
    pub fn judged(&mut self) -> (PartitionId, Entry) {
        let from = self.random.one_in(2).then(|| DocId(self.random.next()));
        let first = self.url();
        let at = home(&first);
        let mut links = LinkBatch::new(from);
        links.set_vote(self.random.below(1 << 20) as u32);
        for url in std::iter::once(first).chain((0..10).map(|_| self.url()).collect::<Vec<_>>()) {
            if home(&url) == at {
                let verdict = match self.random.below(4) {
                    0 => Verdict::Exclude(Reason::OutOfScope),
                    1 => Verdict::Exclude(Reason::NoFollow),
                    2 => Verdict::Crawl { priority: 0 },
                    _ => Verdict::Crawl { priority: 2 },
                };
                links.push(Link {
                    url: &url,
                    kind: LinkKind::Embed,
                    depth: self.random.below(9) as u16,
                    hops: 0,
                    verdict,
                });
            }
        }
        (at, Entry::Judged { links })
    }

    pub fn visit(&mut self, url: &str, pulse: Pulse) -> (PartitionId, Entry) {
        let outcome = match self.random.below(10) {
            0 | 1 => Outcome::Retry(Reason::Timeout),
            2 => Outcome::Failed(Reason::Dns),
            3 => Outcome::Excluded(Reason::Robots),
            4 => Outcome::Excluded(Reason::HostBudget),
            _ => Outcome::Fetched,
        };
        let mut visit = Visit::without_answer(pulse.last_ms, outcome);
        if outcome == Outcome::Fetched {
            visit.status = [200, 200, 301, 404][self.random.below(4) as usize];
            visit.body_bytes = self.random.below(1000);
            visit.title = "t".repeat(self.random.below(20) as usize);
            visit.fingerprint = self.random.next();
        }
        let doc = Identities::PUBLIC.doc(url);
        let at = home(url);
        let mut links = LinkBatch::new(Some(doc));
        let mut forwards = Vec::new();
        let mut targets = Vec::new();
        for (partition, batch) in self.links(Some(doc), 25) {
            targets.extend(batch.iter().map(|link| Identities::PUBLIC.doc(link.url)));
            if partition == at {
                links = batch;
            } else {
                forwards.push((partition, batch));
            }
        }
        let entry = Entry::Visit {
            url: url.to_owned(),
            visit,
            pulse,
            links,
            forwards,
            targets,
        };
        (at, entry)
    }
}
