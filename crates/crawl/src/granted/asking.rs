//! Asks the server for URLs, and admits them. It works on the thread that judges, so the crawl does not end before it does.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use portolan_model::{
    CanonicalUrl, Canonicalizer, Link, LinkBatch, LinkKind, PartitionId, Reason, Verdict,
};
use portolan_registry::{Entry, Snapshot, UrlState};
use portolan_urlfrontier::Client;
use portolan_urlfrontier::api::{
    GetParams, QueueWithinCrawlParams, UrlInfo, UrlItem, get_params, url_item,
};
use tokio::runtime::Runtime;
use tonic::{Code, Status};

use super::{Grant, Granted, News, Why, address, answered, is_ours_alone, of_frontier, runtime};
use crate::admission::Sighting;
use crate::crawl::REGISTRY_DIR;
use crate::error::CrawlError;
use crate::judging::{Hand, Judge, wait_until_folded};
use crate::settings::FrontierServerSettings;
use crate::shared::Shared;
use crate::worker::Gauges;

/// Between two looks at what there is to do.
const NAP: Duration = Duration::from_millis(20);
/// Between two calls where the last one brought nothing.
const NOTHING_CAME: Duration = Duration::from_millis(500);
/// Between two calls where the server did not answer.
const NO_ANSWER: Duration = Duration::from_secs(2);
/// Links and verdicts that are handed over together.
const TOGETHER: usize = 500;
/// The server has nothing left, and nobody here has anything to do, for so many calls in a row: that is the end.
const EMPTY_CALLS: u32 = 3;

/// So often in the time of a lease it is looked which of them are half over. It takes a snapshot of the registry.
const RENEWALS: u32 = 8;

/// Seconds since 1970, as the server counts them.
pub(super) fn now_s() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.unwrap_or_default().as_secs()
}

pub(crate) struct Asking {
    granted: Arc<Granted>,
    settings: FrontierServerSettings,
    canonicalizer: Canonicalizer,
    registry: PathBuf,
    gauges: Vec<Arc<Gauges>>,
    /// Seeds of this run: the server decides when they are fetched, too.
    seeds: Vec<CanonicalUrl>,
    resumed: bool,
    /// The scope has left a granted URL out.
    has_given_back: bool,
}

impl Asking {
    pub(crate) fn new(
        granted: Arc<Granted>,
        settings: FrontierServerSettings,
        canonicalizer: Canonicalizer,
        dir: &Path,
        seeds: Vec<CanonicalUrl>,
        resumed: bool,
    ) -> Self {
        Self {
            granted,
            settings,
            canonicalizer,
            registry: dir.join(REGISTRY_DIR),
            gauges: Vec::new(),
            seeds,
            resumed,
            has_given_back: false,
        }
    }

    /// Who else may have something to do.
    pub(crate) fn beside(mut self, gauges: Vec<Arc<Gauges>>) -> Self {
        self.gauges = gauges;
        self
    }

    /// Before any turn: what an earlier run had under lease waits again, since the lease may have ended, and what waits is told to the server
    /// once more, since the run may have been killed before it told.
    pub(crate) fn prepare(&self, hand: &Hand<'_>) -> Result<(), CrawlError> {
        let shared = hand.shared;
        let runtime = runtime()?;
        let tell = |links: Vec<String>| {
            let news = News::Visit {
                settled: None,
                links,
            };
            runtime.block_on(self.granted.tell(news));
        };
        let seeds: Vec<String> = self
            .seeds
            .iter()
            .map(|url| url.as_str().to_owned())
            .collect();
        tell(seeds);
        if !self.resumed {
            return Ok(());
        }
        for id in 0..shared.division.partitions() {
            let snapshot = Snapshot::open_one(&self.registry, shared.ids, id)?;
            let (mut taken, mut waiting) = (LinkBatch::new(None), Vec::new());
            for url in snapshot.scattered(&[UrlState::Due, UrlState::Excluded]) {
                let url = url?;
                if shared.budget.is_stopping() {
                    return Ok(());
                }
                let is_due = url.state == UrlState::Due && url.kind != LinkKind::Sitemap;
                if !is_due && url.reason != Some(Reason::WaitsForItsShare) {
                    continue;
                }
                if is_due {
                    let link = Link {
                        url: &url.url,
                        kind: url.kind,
                        depth: url.depth,
                        hops: url.hops,
                        verdict: Verdict::Exclude(Reason::WaitsForItsShare),
                    };
                    taken.push_known(url.doc, link);
                }
                waiting.push(url.url);
                if waiting.len() >= TOGETHER {
                    hand.verdicts(
                        PartitionId(id),
                        std::mem::replace(&mut taken, LinkBatch::new(None)),
                    );
                    tell(std::mem::take(&mut waiting));
                }
            }
            hand.verdicts(PartitionId(id), taken);
            tell(waiting);
        }
        wait_until_folded(shared);
        Ok(())
    }

    /// Until the server has nothing left, or the crawl is to stop.
    pub(crate) fn run(mut self, hand: &Hand<'_>, judge: &mut Judge<'_>) -> Result<(), CrawlError> {
        let shared = hand.shared;
        let runtime = runtime()?;
        let mut client = {
            let _inside = runtime.enter();
            address(&self.settings)?.client().map_err(of_frontier)?
        };
        let most = self.settings.hosts as usize * self.settings.urls_per_host as usize;
        let mut next_call = Instant::now();
        let mut empty_calls = 0;
        let mut waiting_since: Option<Instant> = None;
        let renew_every = Duration::from_secs(u64::from(self.settings.lease_s)) / RENEWALS;
        let mut next_renewal = Instant::now();
        let patience = Duration::from_millis(shared.settings.outages.wait_ms);
        while !shared.budget.is_stopping() {
            if Instant::now() >= next_renewal {
                self.renew(shared, &runtime);
                next_renewal = Instant::now() + renew_every;
            }
            // Then the watcher decides how long it waits for them.
            if !self.only_failing_left() {
                waiting_since = None;
            } else if waiting_since.get_or_insert_with(Instant::now).elapsed() >= patience {
                return Ok(());
            }
            let outstanding = self.granted.outstanding().len();
            if outstanding * 2 >= most.max(2) || Instant::now() < next_call {
                std::thread::sleep(NAP);
                continue;
            }
            match runtime.block_on(self.ask(shared, &mut client)) {
                Ok(infos) => {
                    tracing::debug!(urls = infos.len(), "granted by the frontier server");
                    if self.admit(hand, judge, infos, &runtime) {
                        empty_calls = 0;
                        // Queues that opened meanwhile come with the next call, but not at any price.
                        next_call = Instant::now() + NAP;
                        continue;
                    }
                    next_call = Instant::now() + NOTHING_CAME;
                    self.wait_until_told(shared);
                    let is_over =
                        self.is_quiet(shared) && self.is_empty(shared, &runtime, &mut client);
                    empty_calls = if is_over { empty_calls + 1 } else { 0 };
                    if empty_calls >= EMPTY_CALLS {
                        return Ok(());
                    }
                }
                Err(_) if shared.budget.is_stopping() => {}
                Err(error) => {
                    tracing::warn!(%error, "the frontier server does not answer");
                    next_call = Instant::now() + NO_ANSWER;
                }
            }
        }
        Ok(())
    }

    async fn ask(&self, shared: &Shared, client: &mut Client) -> Result<Vec<UrlInfo>, Status> {
        let asked = GetParams {
            max_urls_per_queue: self.settings.urls_per_host,
            max_queues: self.settings.hosts,
            key: String::new(),
            delay_requestable: self.settings.lease_s,
            item: Some(get_params::Item::CrawlId(self.crawl_id())),
        };
        let ask = async {
            let mut stream = client.get_ur_ls(asked).await?.into_inner();
            let mut infos = Vec::new();
            while let Some(info) = stream.message().await? {
                infos.push(info);
            }
            Ok(infos)
        };
        answered(ask, || shared.budget.is_stopping()).await
    }

    /// Not every server takes an empty name for the default.
    fn crawl_id(&self) -> String {
        match self.settings.crawl.as_str() {
            "" => "DEFAULT".to_owned(),
            crawl => crawl.to_owned(),
        }
    }

    /// Has the server no URL of this crawl that may still be fetched, by us or by others, but for those that we gave back?
    fn is_empty(&self, shared: &Shared, runtime: &Runtime, client: &mut Client) -> bool {
        let asked = QueueWithinCrawlParams {
            crawl_id: self.crawl_id(),
            ..QueueWithinCrawlParams::default()
        };
        let told = answered(client.get_stats(asked), || shared.budget.is_stopping());
        let Ok(stats) = runtime.block_on(told) else {
            return false;
        };
        let (stats, left) = (stats.get_ref(), self.granted.left_to_others().count());
        // Who has URLs under lease may find more.
        stats.size == 0
            || (left.is_some_and(|left| stats.size <= left)
                && stats.in_process == 0
                && self.still_wait(shared, runtime, client))
    }

    /// Do the URLs that were given back still wait, as far as some of them tell? If not, there may be others in their place.
    fn still_wait(&self, shared: &Shared, runtime: &Runtime, client: &mut Client) -> bool {
        let sample = self.granted.left_to_others().sample();
        for mut asked in sample {
            asked.crawl_id = self.crawl_id();
            let status = answered(client.get_url_status(asked), || shared.budget.is_stopping());
            match runtime.block_on(status) {
                Ok(item) if is_done(item.get_ref()) => {}
                Ok(_) => continue,
                // Not every server can tell.
                Err(error) if error.code() == Code::Unimplemented => return true,
                Err(error) if error.code() == Code::NotFound => {}
                Err(_) => return false,
            }
            self.granted.left_to_others().forget_all();
            return false;
        }
        true
    }

    /// Until the server knows all that it is to hear, or the crawl is to stop.
    fn wait_until_told(&self, shared: &Shared) {
        while self.granted.untold.load(Ordering::SeqCst) > 0 && !shared.budget.is_stopping() {
            std::thread::sleep(NAP);
        }
    }

    /// Is nothing under way here, and nothing on its way to the server?
    fn is_quiet(&self, shared: &Shared) -> bool {
        self.granted.untold.load(Ordering::SeqCst) == 0
            && self.granted.outstanding().is_empty()
            && shared.outstanding.load(Ordering::SeqCst) <= 1
            && self.gauges.iter().all(|g| g.idle.load(Ordering::SeqCst))
    }

    /// Is nothing due here but URLs of hosts that fail?
    fn only_failing_left(&self) -> bool {
        self.gauges.iter().all(|g| g.waits.load(Ordering::SeqCst))
            && self
                .gauges
                .iter()
                .any(|g| g.failing.load(Ordering::SeqCst) > 0)
    }

    /// Granted URLs become due here, unless they have been visited. What is no URL is done; what the scope leaves out is given back. False if
    /// nothing came but what was given back before.
    fn admit(
        &mut self,
        hand: &Hand<'_>,
        judge: &mut Judge<'_>,
        infos: Vec<UrlInfo>,
        runtime: &Runtime,
    ) -> bool {
        let shared = hand.shared;
        let mut has_news = false;
        let until = now_s() + u64::from(self.settings.lease_s);
        let mut batches: BTreeMap<u16, LinkBatch> = BTreeMap::new();
        let (mut refused, mut others, mut settled) = (Vec::new(), Vec::new(), Vec::new());
        for info in infos {
            if self.granted.left_to_others().is_settled(&info) {
                settled.push(info);
                continue;
            }
            let Ok(url) = self.canonicalizer.parse(&info.url) else {
                has_news = true;
                refused.push(info);
                continue;
            };
            let doc = url.doc_id(&shared.ids);
            let (kind, hops) = self.kind_of(&url, judge.roots.get(&doc));
            let found = Sighting {
                kind,
                depth: 0,
                hops,
                nofollow: false,
                discoverer: None,
            };
            let admitted = judge.admission.admit(&shared.scope(), &url, doc, found);
            let is_left = self.granted.left_to_others().holds(&info);
            has_news |= !is_left;
            if matches!(admitted.link.verdict, Verdict::Exclude(_)) {
                others.push(info);
                continue;
            }
            if is_left {
                self.granted.left_to_others().take_back(&info);
                has_news = true;
            }
            // A link: it makes due what is new or waits, and not what was excluded for what its server said.
            let links = batches.entry(admitted.owner.0).or_default();
            links.push_known(admitted.doc, admitted.link);
            let mut outstanding = self.granted.outstanding();
            let grants = outstanding.entry(url.as_str().to_owned()).or_default();
            grants.retain(|grant| grant.info.url != info.url);
            grants.push(Grant { info, until });
        }
        for (partition, links) in batches {
            let docs = links.docs().unwrap_or_default().to_vec();
            let links = Entry::Links {
                source: None,
                links,
            };
            hand.over(PartitionId(partition), links);
            if self.settings.refetch_after_s > 0 {
                hand.over(PartitionId(partition), Entry::Refresh { docs });
            }
        }
        if !refused.is_empty() {
            runtime.block_on(self.granted.tell(News::Done(refused)));
        }
        if !others.is_empty() {
            if !std::mem::replace(&mut self.has_given_back, true) {
                tracing::warn!(
                    url = others[0].url,
                    "the frontier server grants URLs that this crawl's scope leaves out; they are given back for others"
                );
            }
            runtime.block_on(self.granted.tell(News::Others(others, Why::Scope)));
        }
        if !settled.is_empty() {
            runtime.block_on(self.granted.tell(News::Others(settled, Why::Settled)));
        }
        has_news
    }

    /// A seed stays one, and so does what it redirects to: they pass the scope, and where they lead to is in it.
    fn kind_of(&self, url: &CanonicalUrl, root: Option<&LinkKind>) -> (LinkKind, u8) {
        let redirected = || self.granted.seed_redirects().get(url.as_str()).copied();
        match root {
            Some(kind) => (*kind, 0),
            None => match redirected() {
                Some(hops) => (LinkKind::SeedRedirect, hops),
                None => (LinkKind::SitemapPage, 0),
            },
        }
    }

    /// Leases that are half over are looked after: what was settled before it was granted is done, and what is still due here is not to be
    /// given to others.
    fn renew(&self, shared: &Shared, runtime: &Runtime) {
        let now = now_s();
        let half = u64::from(self.settings.lease_s / 2);
        let until = now + u64::from(self.settings.lease_s);
        let old: Vec<String> = {
            let outstanding = self.granted.outstanding();
            let is_old = |grants: &Vec<Grant>| grants.iter().any(|g| g.until < now + half);
            let old = outstanding.iter().filter(|(_, grants)| is_old(grants));
            old.map(|(url, _)| url.clone()).collect()
        };
        if old.is_empty() {
            return;
        }
        // Who cannot look makes the lease longer: the next look is soon.
        let snapshot = Snapshot::open(&self.registry, shared.ids)
            .inspect_err(|error| tracing::warn!(%error, "leases are renewed unseen"))
            .ok();
        let (mut done, mut others, mut renewed) = (Vec::new(), Vec::new(), Vec::new());
        for url in old {
            let find = |snapshot: &Snapshot| snapshot.find(shared.ids.doc(&url)).ok().flatten();
            let known = snapshot.as_ref().and_then(find);
            // What is not in the registry yet is on its way there.
            let is_to_come = known.as_ref().is_none_or(|known| {
                known.state == UrlState::Due || known.reason == Some(Reason::WaitsForItsShare)
            });
            let mut outstanding = self.granted.outstanding();
            if is_to_come {
                for grant in outstanding.get_mut(&url).into_iter().flatten() {
                    grant.until = until;
                    renewed.push((url.clone(), grant.info.clone()));
                }
                continue;
            }
            let for_others = known
                .and_then(|known| known.reason)
                .is_some_and(is_ours_alone);
            let infos = outstanding.remove(&url).into_iter().flatten();
            let infos = infos.map(|grant| grant.info);
            match for_others {
                true => others.extend(infos),
                false => done.extend(infos),
            }
        }
        tracing::debug!(
            done = done.len(),
            others = others.len(),
            renewed = renewed.len(),
            "leases are half over"
        );
        runtime.block_on(async {
            self.granted.tell(News::Done(done)).await;
            self.granted.tell(News::Others(others, Why::Settled)).await;
            self.granted.tell(News::Renew(renewed, until)).await;
        });
    }
}

/// Is a URL not to be fetched again, as its server says?
fn is_done(item: &UrlItem) -> bool {
    matches!(&item.item, Some(url_item::Item::Known(known)) if known.refetchable_from_date == 0)
}
