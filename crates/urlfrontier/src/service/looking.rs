//! GetURLStatus, ListURLs, CountURLs and PurgeURLs: they read the store on threads that may block, and go through a crawl's queues page by
//! page, so that they keep nobody waiting.

use std::sync::Arc;

use futures_util::{TryStreamExt, stream};
use prost::Message;
use tokio::sync::mpsc;
use tonic::Status;

use super::{Answers, PAGE, meant, now_ms};
use crate::api::{
    CountUrlParams, KnownUrlItem, ListUrlParams, PurgeUrlParams, UrlInfo, UrlItem,
    UrlStatusRequest, url_item,
};
use crate::clerk::Clerk;
use crate::crawls::crawl_name;
use crate::error::FrontierError;
use crate::keys::{QueueId, UrlRecord};
use crate::ledger::{Filter, Reader};
use crate::queue::missing_key;

/// Queues that are asked for at once.
const QUEUES_AT_ONCE: usize = 256;
/// URLs, and their bytes, that are listed at once and wait until the client has read them.
const LISTED_AT_ONCE: usize = 256;
const LISTED_BYTES: usize = 1 << 20;
/// URLs that are looked at before others have their turn.
const LOOKED_AT_ONCE: usize = 10_000;
/// URLs that are purged at once.
const PURGED_AT_ONCE: usize = 500;

/// One of a crawl's queues.
struct Listed {
    id: QueueId,
    name: Arc<str>,
    urls: u64,
}

/// Goes through the queues that a call means, by name.
struct Queues {
    clerk: Clerk,
    crawl: String,
    key: String,
    after: Option<Arc<str>>,
    is_over: bool,
}

impl Queues {
    fn new(clerk: Clerk, crawl: &str, key: String) -> Self {
        Self {
            clerk,
            crawl: crawl_name(crawl).to_owned(),
            key,
            after: None,
            is_over: false,
        }
    }

    /// The next ones; none when all have been seen.
    async fn page(&mut self) -> Result<Vec<Listed>, FrontierError> {
        if self.is_over {
            return Ok(Vec::new());
        }
        let (crawl, key, after) = (self.crawl.clone(), self.key.clone(), self.after.take());
        let page = self.clerk.carry_out(move |ledger| {
            let queues: Box<dyn Iterator<Item = _>> = match key.is_empty() {
                true => Box::new(ledger.crawls.queues_after(&crawl, after.as_deref())),
                false => meant(ledger, &crawl, &key),
            };
            let listed = queues.map(|queue| Listed {
                id: queue.id,
                name: queue.name.clone(),
                urls: queue.active + queue.completed,
            });
            listed.take(QUEUES_AT_ONCE).collect::<Vec<_>>()
        });
        let page = page.await?;
        self.is_over = page.len() < QUEUES_AT_ONCE || !self.key.is_empty();
        self.after = page.last().map(|queue| queue.name.clone());
        Ok(page)
    }
}

fn item(
    reader: &Reader,
    crawl: &str,
    queue: (QueueId, &str),
    url: &str,
    record: &UrlRecord,
) -> Result<UrlItem, FrontierError> {
    let info = UrlInfo {
        url: url.to_owned(),
        key: queue.1.to_owned(),
        metadata: reader.metadata(queue.0, url, record)?,
        crawl_id: crawl.to_owned(),
    };
    Ok(UrlItem {
        item: Some(url_item::Item::Known(KnownUrlItem {
            info: Some(info),
            refetchable_from_date: record.due.unwrap_or(0),
        })),
        id: String::new(),
        creation_date: record.created,
    })
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, FrontierError> + Send + 'static,
) -> Result<T, Status> {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => Ok(done?),
        Err(_) => Err(Status::internal("the thread that read the store has ended")),
    }
}

pub(super) async fn status(clerk: &Clerk, asked: UrlStatusRequest) -> Result<UrlItem, Status> {
    let key = match asked.key.as_str() {
        "" => missing_key(&asked.url),
        key => Some(key),
    };
    let Some(key) = key.map(ToOwned::to_owned) else {
        return Err(Status::invalid_argument(
            "the URL has no host; give the key of its queue",
        ));
    };
    let crawl = crawl_name(&asked.crawl_id).to_owned();
    let unknown = || Status::not_found(format!("the frontier does not know {}", asked.url));
    let (in_crawl, name) = (crawl.clone(), key.clone());
    let queue = clerk
        .carry_out(move |ledger| ledger.crawls.find(&in_crawl, &name))
        .await?;
    let queue = queue.ok_or_else(unknown)?;
    let (reader, url) = (clerk.reader.clone(), asked.url.clone());
    let found = blocking(move || match reader.record(queue, &url)? {
        Some(record) => item(&reader, &crawl, (queue, &key), &url, &record).map(Some),
        None => Ok(None),
    });
    found.await?.ok_or_else(unknown)
}

/// A list that is on its way. Its reader pulls it page by page, and between two pages no thread is kept from others.
struct Listing {
    queues: Queues,
    filter: Filter,
    skip: u64,
    left: u64,
    /// Queues of the page of queues that is gone through, the last one first.
    page: Vec<Listed>,
    /// In the middle of the next queue: the last URL that was looked at.
    after: Option<String>,
}

pub(super) fn list(clerk: Clerk, asked: ListUrlParams) -> Answers<UrlItem> {
    let listing = Listing {
        filter: Filter::new(asked.filter.as_deref(), asked.ignore_case()),
        skip: u64::from(asked.start),
        left: match asked.size {
            0 => PAGE as u64,
            size => u64::from(size),
        },
        queues: Queues::new(clerk, &asked.crawl_id, asked.key),
        page: Vec::new(),
        after: None,
    };
    let pages = stream::try_unfold(listing, |mut listing| async move {
        let items = listing.next_page().await?;
        let items = items.map(|items| stream::iter(items.into_iter().map(Ok)));
        Ok::<_, Status>(items.map(|items| (items, listing)))
    });
    Box::pin(pages.try_flatten())
}

impl Listing {
    /// The next URLs, if there are any: perhaps none of them is let through.
    async fn next_page(&mut self) -> Result<Option<Vec<UrlItem>>, Status> {
        if self.left == 0 {
            return Ok(None);
        }
        let Some(queue) = self.next_queue().await? else {
            return Ok(None);
        };
        let (id, name) = (queue.id, queue.name.clone());
        let (reader, filter) = (self.queues.clerk.reader.clone(), self.filter.clone());
        let (crawl, after) = (self.queues.crawl.clone(), self.after.take());
        let (mut skip, mut left) = (self.skip, self.left);
        let read = blocking(move || {
            let (mut items, mut bytes) = (Vec::new(), 0);
            let see = |url: &str, record| {
                if skip > 0 {
                    skip -= 1;
                    return Ok(true);
                }
                let item = item(&reader, &crawl, (id, &name), url, &record)?;
                bytes += item.encoded_len();
                items.push(item);
                left -= 1;
                Ok(left > 0 && items.len() < LISTED_AT_ONCE && bytes < LISTED_BYTES)
            };
            let last = reader.each_url(id, after.as_deref(), &filter, LOOKED_AT_ONCE, see)?;
            Ok((items, last, skip, left))
        });
        let (items, last, skip, left) = read.await?;
        if last.is_none() {
            self.page.pop();
        }
        (self.after, self.skip, self.left) = (last, skip, left);
        Ok(Some(items))
    }

    /// The queue to look at next. Those that are skipped as a whole are not looked at.
    async fn next_queue(&mut self) -> Result<Option<&Listed>, FrontierError> {
        loop {
            if self.page.is_empty() {
                self.page = self.queues.page().await?;
                self.page.reverse();
            }
            let Some(queue) = self.page.last() else {
                return Ok(None);
            };
            let is_skipped =
                self.after.is_none() && self.filter.lets_all_through() && queue.urls <= self.skip;
            if !is_skipped {
                return Ok(self.page.last());
            }
            self.skip -= queue.urls;
            self.page.pop();
        }
    }
}

pub(super) async fn count(clerk: &Clerk, asked: CountUrlParams) -> Result<u64, Status> {
    let filter = Filter::new(asked.filter.as_deref(), asked.ignore_case());
    let mut queues = Queues::new(clerk.clone(), &asked.crawl_id, asked.key);
    let mut count = 0;
    loop {
        let page = queues.page().await?;
        if page.is_empty() {
            return Ok(count);
        }
        if filter.lets_all_through() {
            count += page.iter().map(|queue| queue.urls).sum::<u64>();
            continue;
        }
        let (reader, filter) = (clerk.reader.clone(), filter.clone());
        count += blocking(move || {
            let mut count = 0;
            for queue in page {
                reader.each_url(queue.id, None, &filter, usize::MAX, |_, _| {
                    count += 1;
                    Ok(true)
                })?;
            }
            Ok(count)
        })
        .await?;
    }
}

pub(super) async fn purge(clerk: &Clerk, asked: PurgeUrlParams) -> Result<u64, Status> {
    let before = (now_ms() / 1000).saturating_sub(u64::from(asked.days) * 24 * 60 * 60);
    let mut queues = Queues::new(clerk.clone(), &asked.crawl_id, asked.key);
    let mut count = 0;
    loop {
        let page = queues.page().await?;
        if page.is_empty() {
            return Ok(count);
        }
        let (send, mut old) = mpsc::channel(2);
        let reader = clerk.reader.clone();
        let search = tokio::task::spawn_blocking(move || find_old(&reader, &page, before, &send));
        while let Some(urls) = old.recv().await {
            let purge = move |ledger: &mut crate::ledger::Ledger| ledger.purge(&urls, before);
            let answer = clerk.hand_over(purge).await?.await;
            let Ok(Ok(purged)) = answer else {
                return Err(FrontierError::Stopped.into());
            };
            count += purged;
        }
        match search.await {
            Ok(done) => done?,
            Err(_) => return Err(Status::internal("the search for old URLs has ended")),
        }
    }
}

type Old = Vec<(QueueId, String)>;

/// Sends URLs that became known before a moment.
fn find_old(
    reader: &Reader,
    queues: &[Listed],
    before: u64,
    send: &mpsc::Sender<Old>,
) -> Result<(), FrontierError> {
    let mut old = Vec::new();
    let all = Filter::new(None, false);
    for queue in queues {
        let stopped_at = reader.each_url(queue.id, None, &all, usize::MAX, |url, record| {
            if record.created < before {
                old.push((queue.id, url.to_owned()));
            }
            if old.len() < PURGED_AT_ONCE {
                return Ok(true);
            }
            Ok(send.blocking_send(std::mem::take(&mut old)).is_ok())
        })?;
        if stopped_at.is_some() {
            return Ok(());
        }
    }
    let _ = send.blocking_send(old);
    Ok(())
}
