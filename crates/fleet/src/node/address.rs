//! Addresses are shared out by slices: asked for here, granted by their homes.

use super::ferry::QUEUE;
use super::{Inner, Slice};
use crate::boottime_ms;
use crate::names::Names;
use crate::nats::PAUSE;
use crate::protocol::{Grant, home};
use async_nats::{Message, Request};
use futures_util::StreamExt;
use serde::{Deserialize, Serialize};
use std::net::IpAddr;
use std::sync::{Arc, PoisonError};
use std::time::Duration;
use tokio::sync::Semaphore;

/// A home that does not answer within this time is not there.
const ANSWER: Duration = Duration::from_secs(2);

/// What is left of a slice when it counts as over: a request takes its time.
const TAIL_MS: u64 = 200;

/// Questions of other groups that are passed on at once.
const RELAYED: usize = 256;

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
        let grant = match self.other_group(address) {
            Some(group) => self.ask_group(address, &group).await,
            None => self.ask_here(address, &self.me.node, now_ms).await,
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

    /// The group that has the address's home, if it is another one than this node's. It is the same for all groups for
    /// ever, so that no change in one of them can give an address two homes.
    fn other_group(&self, address: IpAddr) -> Option<String> {
        let group = self.fleet.group()?;
        let at_home = home(address, group.groups.iter().map(String::as_str))?;
        (at_home != group.name).then(|| at_home.to_owned())
    }

    /// An address that is at home in this group, for a node of this or of another group.
    async fn ask_here(&self, address: IpAddr, node: &str, now_ms: u64) -> Grant {
        let home = self.homes().home(address).map(str::to_owned);
        match home {
            Some(home) if home == self.me.node => self.homes().ask(address, node, now_ms),
            Some(home) => {
                let subject = self.fleet.bus().names.address_subject(&home);
                self.ask_at(subject, address, node.to_owned()).await
            }
            None => Grant::Wait { ms: 1_000 },
        }
    }

    /// Any node of the other group passes the question on to the address's home.
    async fn ask_group(&self, address: IpAddr, group: &str) -> Grant {
        let Some(own) = self.fleet.group() else {
            return Grant::Wait { ms: 1_000 };
        };
        let subject = Names(own.fleet_of(group)).addresses_subject();
        // No node's name has a '/': nobody there goes by this one.
        let node = format!("{}/{}", own.name, self.me.node);
        self.ask_at(subject, address, node).await
    }

    async fn ask_at(&self, subject: String, address: IpAddr, node: String) -> Grant {
        let question = Question { address, node };
        let json = serde_json::to_vec(&question).unwrap_or_default();
        let request = Request::new().payload(json.into()).timeout(Some(ANSWER));
        let answer = self.fleet.bus().client.send_request(subject, request).await;
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

    /// Answers nodes of other groups that ask for addresses that are at home in this one.
    pub(super) async fn serve_other_groups(self: Arc<Self>) {
        let bus = self.fleet.bus();
        let relayed = Arc::new(Semaphore::new(RELAYED));
        loop {
            let subject = bus.names.addresses_subject();
            let subscribed = bus.client.queue_subscribe(subject, QUEUE.to_owned()).await;
            if let Ok(mut questions) = subscribed {
                while let Some(question) = questions.next().await {
                    // Who gets no answer asks again.
                    if let Ok(place) = Arc::clone(&relayed).try_acquire_owned() {
                        let inner = Arc::clone(&self);
                        tokio::spawn(async move {
                            inner.answer_other_group(question).await;
                            drop(place);
                        });
                    }
                }
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    async fn answer_other_group(&self, message: Message) {
        let Some(reply) = message.reply else {
            return;
        };
        let Ok(Question { address, node }) = serde_json::from_slice(&message.payload) else {
            return;
        };
        let is_here = self.other_group(address).is_none();
        let grant = match is_here && self.lease.may_ask() {
            true => self.ask_here(address, &node, boottime_ms()).await,
            false => Grant::Wait { ms: 1_000 },
        };
        if let Ok(json) = serde_json::to_vec(&grant) {
            let _ = self.fleet.bus().client.publish(reply, json.into()).await;
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
