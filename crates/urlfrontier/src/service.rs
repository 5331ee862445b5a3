//! The calls of the API, each carried out by the clerk or by looking at the store. docs/urlfrontier.md says what they mean.

mod looking;
mod streams;

use std::pin::Pin;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use futures_util::Stream;
use tonic::{Request, Response, Status, Streaming};

use crate::api::url_frontier_server::UrlFrontier;
use crate::api::{
    AckMessage, Active, BatchAck, BlockQueueParams, Boolean, CountUrlParams, CrawlLimitParams,
    DeleteCrawlMessage, DiscoveredBatch, Empty, GetParams, ListUrlParams, Local, LogLevelParams,
    Long, Pagination, PurgeUrlParams, QueueDelayParams, QueueList, QueueWithinCrawlParams, Stats,
    StringList, UrlInfo, UrlItem, UrlStatusRequest,
};
use crate::clerk::Clerk;
use crate::crawls::crawl_name;
use crate::error::FrontierError;
use crate::ledger::Ledger;
use crate::queue::Queue;

pub use crate::api::log_level_params::Level;

/// What ListQueues and ListURLs give where a call does not say how many.
const PAGE: usize = 100;

/// Hears what SetLogLevel asks for: a package, and the level.
pub type LogLevels = Arc<dyn Fn(&str, Level) + Send + Sync>;

/// The service, for one server.
pub(crate) struct Service {
    pub(crate) clerk: Clerk,
    /// What ListNodes tells.
    pub(crate) address: String,
    pub(crate) log_levels: LogLevels,
}

type Answer<T> = Result<Response<T>, Status>;
type Answers<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

/// Milliseconds since 1970.
pub(crate) fn now_ms() -> u64 {
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    now.as_millis() as u64
}

impl From<FrontierError> for Status {
    fn from(error: FrontierError) -> Self {
        match error {
            FrontierError::Stopped => Status::unavailable(error.to_string()),
            _ => Status::internal(error.to_string()),
        }
    }
}

impl Service {
    async fn do_it<T: Send + 'static>(
        &self,
        call: impl FnOnce(&mut Ledger) -> T + Send + 'static,
    ) -> Result<T, Status> {
        Ok(self.clerk.carry_out(call).await?)
    }
}

#[tonic::async_trait]
impl UrlFrontier for Service {
    async fn list_nodes(&self, _: Request<Empty>) -> Answer<StringList> {
        let values = vec![self.address.clone()];
        Ok(Response::new(StringList { values }))
    }

    async fn list_crawls(&self, _: Request<Local>) -> Answer<StringList> {
        let names = self.do_it(|ledger| ledger.crawls.names()).await?;
        let values = names.iter().map(ToString::to_string).collect();
        Ok(Response::new(StringList { values }))
    }

    async fn delete_crawl(&self, request: Request<DeleteCrawlMessage>) -> Answer<Long> {
        let crawl = request.into_inner().value;
        tracing::info!(crawl = crawl_name(&crawl), "a crawl is deleted");
        let delete = move |ledger: &mut Ledger| ledger.delete_crawl(&crawl);
        let Ok(Ok(value)) = self.clerk.hand_over(delete).await?.await else {
            return Err(FrontierError::Stopped.into());
        };
        Ok(Response::new(Long { value }))
    }

    async fn get_stats(&self, request: Request<QueueWithinCrawlParams>) -> Answer<Stats> {
        let asked = request.into_inner();
        let now = now_ms();
        let stats = self.do_it(move |ledger| stats(ledger, &asked, now)).await?;
        Ok(Response::new(stats))
    }

    async fn set_active(&self, request: Request<Active>) -> Answer<Empty> {
        let state = request.into_inner().state;
        tracing::info!(active = state, "URLs are given, or none at all");
        self.do_it(move |ledger| ledger.set_active(state)).await?;
        Ok(Response::new(Empty {}))
    }

    async fn get_active(&self, _: Request<Local>) -> Answer<Boolean> {
        let state = self.do_it(|ledger| ledger.is_active()).await?;
        Ok(Response::new(Boolean { state }))
    }

    async fn set_log_level(&self, request: Request<LogLevelParams>) -> Answer<Empty> {
        let asked = request.into_inner();
        (self.log_levels)(&asked.package, asked.level());
        Ok(Response::new(Empty {}))
    }

    async fn list_queues(&self, request: Request<Pagination>) -> Answer<QueueList> {
        let asked = request.into_inner();
        let now = now_ms();
        let list = self
            .do_it(move |ledger| list_queues(ledger, &asked, now))
            .await?;
        Ok(Response::new(list))
    }

    async fn delete_queue(&self, request: Request<QueueWithinCrawlParams>) -> Answer<Long> {
        let asked = request.into_inner();
        tracing::info!(
            crawl = crawl_name(&asked.crawl_id),
            queue = asked.key,
            "a queue is deleted"
        );
        let value = self
            .do_it(move |ledger| ledger.delete_queue(&asked.crawl_id, &asked.key))
            .await?;
        Ok(Response::new(Long { value }))
    }

    async fn block_queue_until(&self, request: Request<BlockQueueParams>) -> Answer<Empty> {
        let asked = request.into_inner();
        tracing::info!(
            crawl = crawl_name(&asked.crawl_id),
            queue = asked.key,
            until = asked.time,
            "a queue is blocked"
        );
        self.do_it(move |ledger| ledger.block(&asked.crawl_id, &asked.key, asked.time))
            .await?;
        Ok(Response::new(Empty {}))
    }

    async fn set_delay(&self, request: Request<QueueDelayParams>) -> Answer<Empty> {
        let asked = request.into_inner();
        tracing::info!(
            crawl = crawl_name(&asked.crawl_id),
            queue = asked.key,
            seconds = asked.delay_requestable,
            "a queue has another delay"
        );
        self.do_it(move |ledger| match asked.key.as_str() {
            "" => ledger.set_default_delay(asked.delay_requestable),
            key => {
                ledger.set_delay(&asked.crawl_id, key, asked.delay_requestable);
            }
        })
        .await?;
        Ok(Response::new(Empty {}))
    }

    async fn set_crawl_limit(&self, request: Request<CrawlLimitParams>) -> Answer<Empty> {
        let asked = request.into_inner();
        tracing::info!(
            crawl = crawl_name(&asked.crawl_id),
            queue = asked.key,
            limit = asked.limit,
            "a queue has a limit"
        );
        let missing = format!(
            "there is no queue '{}' in the crawl '{}'; a queue begins with its first URL",
            asked.key,
            crawl_name(&asked.crawl_id)
        );
        let was_there = self
            .do_it(move |ledger| ledger.set_limit(&asked.crawl_id, &asked.key, asked.limit))
            .await?;
        match was_there {
            true => Ok(Response::new(Empty {})),
            false => Err(Status::not_found(missing)),
        }
    }

    type GetURLsStream = Answers<UrlInfo>;

    async fn get_ur_ls(&self, request: Request<GetParams>) -> Answer<Self::GetURLsStream> {
        Ok(Response::new(streams::get(
            self.clerk.clone(),
            request.into_inner(),
        )))
    }

    type PutURLsStream = Answers<AckMessage>;

    async fn put_ur_ls(&self, request: Request<Streaming<UrlItem>>) -> Answer<Self::PutURLsStream> {
        Ok(Response::new(streams::put(
            self.clerk.clone(),
            request.into_inner(),
        )))
    }

    type PutDiscoveredStream = Answers<BatchAck>;

    async fn put_discovered(
        &self,
        request: Request<Streaming<DiscoveredBatch>>,
    ) -> Answer<Self::PutDiscoveredStream> {
        Ok(Response::new(streams::put_discovered(
            self.clerk.clone(),
            request.into_inner(),
        )))
    }

    async fn get_url_status(&self, request: Request<UrlStatusRequest>) -> Answer<UrlItem> {
        let item = looking::status(&self.clerk, request.into_inner()).await?;
        Ok(Response::new(item))
    }

    type ListURLsStream = Answers<UrlItem>;

    async fn list_ur_ls(&self, request: Request<ListUrlParams>) -> Answer<Self::ListURLsStream> {
        let list = looking::list(self.clerk.clone(), request.into_inner());
        Ok(Response::new(list))
    }

    async fn count_ur_ls(&self, request: Request<CountUrlParams>) -> Answer<Long> {
        let value = looking::count(&self.clerk, request.into_inner()).await?;
        Ok(Response::new(Long { value }))
    }

    async fn purge_ur_ls(&self, request: Request<PurgeUrlParams>) -> Answer<Long> {
        let value = looking::purge(&self.clerk, request.into_inner()).await?;
        Ok(Response::new(Long { value }))
    }
}

/// The queues that a message means: one, or all of a crawl.
fn meant<'a>(
    ledger: &'a Ledger,
    crawl: &str,
    key: &str,
) -> Box<dyn Iterator<Item = &'a Queue> + 'a> {
    let crawl = crawl_name(crawl);
    if key.is_empty() {
        return Box::new(ledger.crawls.queues_after(crawl, None));
    }
    let found = ledger.crawls.find(crawl, key);
    Box::new(found.and_then(|id| ledger.crawls.queue(id)).into_iter())
}

fn stats(ledger: &Ledger, asked: &QueueWithinCrawlParams, now_ms: u64) -> Stats {
    let mut stats = Stats {
        crawl_id: crawl_name(&asked.crawl_id).to_owned(),
        ..Stats::default()
    };
    let (mut in_process, mut completed, mut active_queues) = (0, 0, 0);
    for queue in meant(ledger, &asked.crawl_id, &asked.key) {
        in_process += queue.in_process(now_ms);
        completed += queue.completed;
        // What is leased is among the active ones.
        active_queues += u64::from(queue.active > 0);
        stats.size += queue.active;
        stats.number_of_queues += 1;
    }
    stats.in_process = u32::try_from(in_process).unwrap_or(u32::MAX);
    stats.counts = [("completed", completed), ("active_queues", active_queues)]
        .map(|(name, count)| (name.to_owned(), count))
        .into();
    stats
}

fn list_queues(ledger: &Ledger, asked: &Pagination, now_ms: u64) -> QueueList {
    let crawl = crawl_name(&asked.crawl_id);
    let is_meant =
        |queue: &&Queue| asked.include_inactive || (queue.active > 0 && !queue.is_blocked(now_ms));
    let queues = ledger.crawls.queues_after(crawl, None).filter(is_meant);
    let size = match asked.size {
        0 => PAGE,
        size => size as usize,
    };
    let page = queues.skip(asked.start as usize).take(size);
    let values: Vec<String> = page.map(|queue| queue.name.to_string()).collect();
    QueueList {
        total: 0,
        start: asked.start,
        size: values.len() as u32,
        crawl_id: crawl.to_owned(),
        values,
    }
}
