//! Addresses are shared out by slices: asked for here, granted by their homes.

use super::{Inner, Slice};
use crate::boottime_ms;
use crate::nats::PAUSE;
use crate::protocol::Grant;
use async_nats::{Message, Request};
use futures_util::StreamExt;
use serde::{Deserialize, Serialize};
use std::net::IpAddr;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

/// A home that does not answer within this time is not there.
const ANSWER: Duration = Duration::from_secs(2);

/// What is left of a slice when it counts as over: a request takes its time.
const TAIL_MS: u64 = 200;

/// Past this many slices those that are over are forgotten.
const MANY_SLICES: usize = 50_000;

#[derive(Serialize, Deserialize)]
struct Question {
    address: IpAddr,
    node: String,
}

impl Inner {
    pub(super) async fn address_slice(&self, address: IpAddr) -> Slice {
        let now_ms = boottime_ms();
        if let Some(until_ms) = self
            .slice(address)
            .filter(|until_ms| now_ms + TAIL_MS < *until_ms)
        {
            return Slice::Granted { until_ms };
        }
        let home = self.homes().home(address).map(str::to_owned);
        let grant = match home {
            Some(home) if home == self.me.node => self.homes().ask(address, &home, now_ms),
            Some(home) => self.ask_home(address, &home).await,
            None => Grant::Wait { ms: 1_000 },
        };
        match grant {
            Grant::Wait { ms } => Slice::Wait { ms },
            Grant::For { ms } => {
                let until_ms = now_ms + ms;
                self.keep_slice(address, until_ms, now_ms);
                Slice::Granted { until_ms }
            }
        }
    }

    async fn ask_home(&self, address: IpAddr, home: &str) -> Grant {
        let question = Question {
            address,
            node: self.me.node.clone(),
        };
        let json = serde_json::to_vec(&question).unwrap_or_default();
        let request = Request::new().payload(json.into()).timeout(Some(ANSWER));
        let bus = self.fleet.bus();
        let answer = bus
            .client
            .send_request(bus.names.address_subject(home), request)
            .await;
        let grant = answer
            .ok()
            .and_then(|message| serde_json::from_slice(&message.payload).ok());
        // An address whose home cannot be reached is not asked.
        grant.unwrap_or(Grant::Wait { ms: 1_000 })
    }

    fn slice(&self, address: IpAddr) -> Option<u64> {
        let slices = self.slices.lock().unwrap_or_else(PoisonError::into_inner);
        slices.get(&address).copied()
    }

    fn keep_slice(&self, address: IpAddr, until_ms: u64, now_ms: u64) {
        let mut slices = self.slices.lock().unwrap_or_else(PoisonError::into_inner);
        if slices.len() >= MANY_SLICES {
            slices.retain(|_, until_ms| *until_ms > now_ms);
        }
        slices.insert(address, until_ms);
    }

    /// Answers those that ask for addresses that are at home here.
    pub(super) async fn serve_addresses(self: Arc<Self>) {
        let bus = self.fleet.bus();
        loop {
            let subscribed = bus
                .client
                .subscribe(bus.names.address_subject(&self.me.node))
                .await;
            if let Ok(mut questions) = subscribed {
                while let Some(question) = questions.next().await {
                    self.answer(question).await;
                }
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    async fn answer(&self, message: Message) {
        let Some(reply) = message.reply else {
            return;
        };
        let Ok(question) = serde_json::from_slice::<Question>(&message.payload) else {
            return;
        };
        // Another one may be the home of everything of a node whose lease has ended.
        let grant = match self.lease.may_ask() {
            true => self
                .homes()
                .ask(question.address, &question.node, boottime_ms()),
            false => Grant::Wait { ms: 1_000 },
        };
        if let Ok(json) = serde_json::to_vec(&grant) {
            let _ = self.fleet.bus().client.publish(reply, json.into()).await;
        }
    }
}
