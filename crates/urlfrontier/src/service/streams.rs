//! URLs out and in, as streams. Each stream is pulled by its reader: who does not read answers is not listened to either, and so many
//! URLs of a stream, and no more, are in memory.

use std::sync::{Arc, OnceLock};

use futures_util::{Stream, StreamExt, TryStreamExt, future, stream};
use tonic::{Status, Streaming};

use super::{Answers, now_ms};
use crate::api::ack_message::Status as AckStatus;
use crate::api::{AckMessage, BatchAck, DiscoveredBatch, GetParams, UrlInfo, UrlItem};
use crate::api::{get_params, url_item};
use crate::clerk::Clerk;
use crate::crawls::crawl_name;
use crate::error::FrontierError;
use crate::ledger::{Cursor, Ledger, Order, Put, PutStatus};

/// The lease in seconds where a call says 0.
const LEASE: u32 = 30;
/// URLs that a GetURLs call leases at once.
const GIVE_AT_ONCE: usize = 500;
/// Messages of one stream that are put at once, if as many have come.
const PUT_AT_ONCE: usize = 256;
/// Such groups that may wait for the disk.
const GROUPS_WAITING: usize = 8;

impl Order {
    /// None: the call means a queue, but not of which crawl.
    fn of(asked: GetParams) -> Option<Self> {
        let crawl = match asked.item {
            Some(get_params::Item::CrawlId(id)) => Some(crawl_name(&id).to_owned()),
            Some(get_params::Item::AnyCrawlId(_)) | None => None,
        };
        let key = Some(asked.key).filter(|key| !key.is_empty());
        if key.is_some() && crawl.is_none() {
            return None;
        }
        let or_all = |number: u32| match number {
            0 => u64::MAX,
            number => u64::from(number),
        };
        let lease = match asked.delay_requestable {
            0 => LEASE,
            seconds => seconds,
        };
        Some(Self {
            crawl,
            key,
            per_queue: or_all(asked.max_urls_per_queue),
            queues: or_all(asked.max_queues),
            lease_ms: u64::from(lease) * 1000,
        })
    }
}

pub(super) fn get(clerk: Clerk, asked: GetParams) -> Answers<UrlInfo> {
    let first = Order::of(asked).map(Cursor::new);
    let pieces = stream::try_unfold(first, move |cursor| {
        let clerk = clerk.clone();
        async move {
            let Some(cursor) = cursor else {
                return Ok(None);
            };
            let take = move |ledger: &mut Ledger| ledger.take(cursor, GIVE_AT_ONCE, now_ms());
            let answer = clerk.hand_over(take).await?;
            match answer.await {
                Ok(Ok((taken, cursor))) => {
                    tracing::debug!(urls = taken.len(), "URLs are leased");
                    let taken = stream::iter(taken.into_iter().map(Ok));
                    Ok(Some((taken, cursor)))
                }
                _ => Err(Status::from(FrontierError::Stopped)),
            }
        }
    });
    Box::pin(pieces.try_flatten())
}

pub(super) fn put(clerk: Clerk, items: Streaming<UrlItem>) -> Answers<AckMessage> {
    let (items, broken) = until_broken(items);
    let answered = items
        .ready_chunks(PUT_AT_ONCE)
        .then(move |group| {
            let (ids, puts): (Vec<_>, Vec<_>) = group.into_iter().map(as_put).unzip();
            hand_over(clerk.clone(), ids, puts)
        })
        .buffered(GROUPS_WAITING)
        .flat_map(|(ids, statuses)| {
            let acks = ids.into_iter().zip(statuses);
            stream::iter(acks.map(|(id, status)| {
                Ok(AckMessage {
                    id,
                    status: status.into(),
                })
            }))
        });
    Box::pin(answered.chain(broken.told()))
}

pub(super) fn put_discovered(
    clerk: Clerk,
    batches: Streaming<DiscoveredBatch>,
) -> Answers<BatchAck> {
    let (batches, broken) = until_broken(batches);
    let answered = batches
        .then(move |batch| {
            let puts = batch.items.into_iter().map(|info| Put {
                info,
                refetch: None,
            });
            hand_over(clerk.clone(), batch.id, puts.collect())
        })
        .buffered(GROUPS_WAITING)
        .map(|(id, statuses)| {
            Ok(BatchAck {
                id,
                statuses: statuses.into_iter().map(i32::from).collect(),
            })
        });
    Box::pin(answered.chain(broken.told()))
}

/// Why a stream of messages broke, if it did.
struct Broken(Arc<OnceLock<Status>>);

impl Broken {
    /// Told behind the last answer: who sent the message that could not be read learns it, and does not wait for its acknowledgement.
    fn told<T: Send>(self) -> impl Stream<Item = Result<T, Status>> + Send {
        stream::once(async move { self.0.get().cloned() })
            .filter_map(|status| future::ready(status.map(Err)))
    }
}

/// The messages of a stream, until it ends or breaks. What came before it broke is put all the same.
fn until_broken<T: Send + 'static>(
    messages: Streaming<T>,
) -> (impl Stream<Item = T> + Send, Broken) {
    let broken = Arc::new(OnceLock::new());
    let why = Arc::clone(&broken);
    let messages = messages
        .map_err(move |status| {
            let _ = why.set(status);
        })
        .take_while(|message| future::ready(message.is_ok()))
        .filter_map(|message| future::ready(message.ok()));
    (messages, Broken(broken))
}

/// The ID to answer with, and what to put.
fn as_put(item: UrlItem) -> (String, Put) {
    let (info, refetch) = match item.item {
        Some(url_item::Item::Discovered(discovered)) => (discovered.info, None),
        Some(url_item::Item::Known(known)) => (known.info, Some(known.refetchable_from_date)),
        None => (None, None),
    };
    let info = info.unwrap_or_default();
    let id = match item.id.is_empty() {
        true => info.url.clone(),
        false => item.id,
    };
    (id, Put { info, refetch })
}

/// Hands URLs to the clerk, in the order of the stream. What comes back waits for the disk.
async fn hand_over<I: Send + 'static>(
    clerk: Clerk,
    id: I,
    puts: Vec<Put>,
) -> impl Future<Output = (I, Vec<AckStatus>)> + Send {
    let count = puts.len();
    let put = move |ledger: &mut Ledger| {
        let now = now_ms() / 1000;
        puts.into_iter().map(|put| ledger.put(put, now)).collect()
    };
    let answer = clerk.hand_over::<Vec<PutStatus>>(put).await;
    async move {
        let put = match answer {
            Ok(answer) => answer.await.ok().and_then(Result::ok),
            Err(_) => None,
        };
        let statuses = match put {
            Some(statuses) => statuses.into_iter().map(AckStatus::from).collect(),
            None => vec![AckStatus::Fail; count],
        };
        (id, statuses)
    }
}

impl From<PutStatus> for AckStatus {
    fn from(status: PutStatus) -> Self {
        match status {
            PutStatus::Ok => AckStatus::Ok,
            PutStatus::Skipped => AckStatus::Skipped,
        }
    }
}
