//! The thread that tells the server what became of its URLs. It never waits for anyone but the server.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use portolan_urlfrontier::api::ack_message::Status as AckStatus;
use portolan_urlfrontier::api::{DiscoveredUrlItem, KnownUrlItem, UrlInfo, UrlItem, url_item};
use portolan_urlfrontier::{Client, ServerAddress};
use tokio::sync::mpsc;
use tokio::time::Instant;
use tonic::Status;

use super::{Granted, News, Settled, Why, answered, of_frontier, runtime};
use crate::error::CrawlError;
use crate::settings::FrontierServerSettings;

/// News that are told together, at most.
const TOGETHER: usize = 256;
/// Between two attempts to tell: from, to.
const PAUSE: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(5));

pub(crate) struct Returning {
    granted: Arc<Granted>,
    address: ServerAddress,
    inbox: mpsc::Receiver<News>,
    crawl_id: String,
    refetch_after_s: u64,
    /// The crawl ends, and the server did not answer for too long: it is told nothing more.
    has_given_up: bool,
}

impl Returning {
    pub(super) fn new(
        granted: Arc<Granted>,
        address: ServerAddress,
        inbox: mpsc::Receiver<News>,
        settings: &FrontierServerSettings,
    ) -> Self {
        Self {
            granted,
            address,
            inbox,
            crawl_id: settings.crawl.clone(),
            refetch_after_s: settings.refetch_after_s,
            has_given_up: false,
        }
    }

    /// The body of the thread.
    pub(crate) fn run(mut self) -> Result<(), CrawlError> {
        runtime()?.block_on(self.live())
    }

    pub(super) async fn live(&mut self) -> Result<(), CrawlError> {
        let mut client = self.address.client().map_err(of_frontier)?;
        let mut news = Vec::new();
        while self.inbox.recv_many(&mut news, TOGETHER).await > 0 {
            let count = news.len() as u64;
            let ends = self.pass_on(&mut client, std::mem::take(&mut news)).await;
            self.granted.untold.fetch_sub(count, Ordering::SeqCst);
            if let Some(ends) = ends {
                let _ = ends.send(());
                break;
            }
        }
        Ok(())
    }

    /// Links first: what a URL led to is at the server before the URL is done there.
    async fn pass_on(
        &mut self,
        client: &mut Client,
        news: Vec<News>,
    ) -> Option<tokio::sync::oneshot::Sender<()>> {
        let (mut discovered, mut known) = (Vec::new(), Vec::new());
        let mut end = None;
        for one in news {
            match one {
                News::Visit { settled, links } => {
                    discovered.extend(links.into_iter().map(|url| self.discovered(url)));
                    let Some(Settled { url, for_others }) = settled else {
                        continue;
                    };
                    let date = self.refetch_date();
                    let grants = self.granted.outstanding().remove(&url);
                    let infos = grants.into_iter().flatten().map(|grant| grant.info);
                    known.extend(infos.map(|info| match for_others {
                        true => self.given_back(info, Why::Settled),
                        false => as_known(info, date),
                    }));
                }
                News::Done(infos) => {
                    let date = self.refetch_date();
                    known.extend(infos.into_iter().map(|info| as_known(info, date)));
                }
                News::Others(infos, why) => {
                    known.extend(infos.into_iter().map(|info| self.given_back(info, why)));
                }
                News::Renew(renewed, date) => {
                    // What was settled since has been taken out, and nothing but a visit or the asking thread itself does so.
                    let outstanding = self.granted.outstanding();
                    let is_open = |(url, info): &(String, UrlInfo)| {
                        let grants = outstanding.get(url);
                        grants.is_some_and(|grants| grants.iter().any(|g| g.info.url == info.url))
                    };
                    let open = renewed.into_iter().filter(is_open);
                    known.extend(open.map(|(_, info)| as_known(info, date)));
                }
                News::End(sender) => end = Some(sender),
            }
        }
        keep_last(&mut known);
        self.put(client, discovered).await;
        self.put(client, known).await;
        end
    }

    /// 0: never again.
    fn refetch_date(&self) -> u64 {
        match self.refetch_after_s {
            0 => 0,
            after => super::asking::now_s() + after,
        }
    }

    /// For others, and not at once: they would hardly get it if we were always first.
    fn given_back(&self, info: UrlInfo, why: Why) -> UrlItem {
        let after = self.granted.left_to_others().give_back(&info, why);
        as_known(info, super::asking::now_s() + after)
    }

    fn discovered(&self, url: String) -> UrlItem {
        let info = UrlInfo {
            url,
            crawl_id: self.crawl_id.clone(),
            ..UrlInfo::default()
        };
        UrlItem {
            item: Some(url_item::Item::Discovered(DiscoveredUrlItem {
                info: Some(info),
            })),
            ..UrlItem::default()
        }
    }

    /// Until the server has all of them, or the crawl ends and the server has not answered for too long.
    async fn put(&mut self, client: &mut Client, mut items: Vec<UrlItem>) {
        for (number, item) in items.iter_mut().enumerate() {
            item.id = number.to_string();
        }
        let mut pause = PAUSE.0;
        let mut silent_since = Instant::now();
        while !items.is_empty() && !self.has_given_up {
            let before = items.len();
            match self.try_put(client, &mut items).await {
                Ok(()) if items.is_empty() => return,
                Ok(()) => {
                    tracing::debug!(left = items.len(), "the frontier server could not take all")
                }
                Err(error) => tracing::warn!(%error, "the frontier server does not answer"),
            }
            if items.len() < before {
                silent_since = Instant::now();
            }
            // What is given up now is told when the crawl goes on.
            self.has_given_up = self.granted.has_waited(silent_since);
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(PAUSE.1);
        }
    }

    /// Takes out of `items` what the server has acknowledged.
    async fn try_put(&self, client: &mut Client, items: &mut Vec<UrlItem>) -> Result<(), Status> {
        let begun = Instant::now();
        let is_in_vain = || self.granted.has_waited(begun);
        let sent = tokio_stream::iter(items.clone());
        let acks = answered(client.put_ur_ls(sent), is_in_vain).await?;
        let mut acks = acks.into_inner();
        let mut taken = HashSet::new();
        let ended = loop {
            let heard = Instant::now();
            let is_in_vain = || self.granted.has_waited(heard);
            match answered(acks.message(), is_in_vain).await {
                Ok(Some(ack)) if ack.status() == AckStatus::Fail => {}
                Ok(Some(ack)) => {
                    taken.insert(ack.id);
                }
                Ok(None) => break Ok(()),
                Err(error) => break Err(error),
            }
        };
        items.retain(|item| !taken.contains(&item.id));
        ended
    }
}

/// Of what is told of one URL the last counts. What the server did not take is told again, so nothing else may be among it.
fn keep_last(known: &mut Vec<UrlItem>) {
    let mut seen = HashSet::new();
    known.reverse();
    known.retain(|item| match &item.item {
        Some(url_item::Item::Known(KnownUrlItem {
            info: Some(info), ..
        })) => seen.insert((info.key.clone(), info.url.clone())),
        _ => true,
    });
    known.reverse();
}

fn as_known(info: UrlInfo, date: u64) -> UrlItem {
    UrlItem {
        item: Some(url_item::Item::Known(KnownUrlItem {
            info: Some(info),
            refetchable_from_date: date,
        })),
        ..UrlItem::default()
    }
}
