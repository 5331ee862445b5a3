//! Roots of the crawl's scope that a node found are told to all nodes at once. Who is not there then finds them in the store.

use super::{Inner, Node};
use crate::nats::PAUSE;
use futures_util::StreamExt;
use std::sync::Arc;
use tokio::sync::mpsc;

impl Node {
    /// Tells all nodes of a root. What this node sends afterwards to somebody of them is later there.
    pub async fn tell_root(&self, root: &str) {
        let bus = self.inner.fleet.bus();
        let told = bus
            .client
            .publish(bus.names.roots_subject(), root.to_owned().into())
            .await;
        if let Err(error) = told {
            tracing::debug!(%error, "a root was not told");
        }
    }

    /// The roots that nodes tell of from now on, its own among them.
    pub async fn hear_roots(&self) -> mpsc::UnboundedReceiver<String> {
        let (told, hears) = mpsc::unbounded_channel();
        let inner = Arc::clone(&self.inner);
        let bus = inner.fleet.bus();
        let first = bus.client.subscribe(bus.names.roots_subject()).await.ok();
        // Then the server has it.
        let _ = bus.client.flush().await;
        tokio::spawn(inner.hear_of_roots(first, told));
        hears
    }
}

impl Inner {
    async fn hear_of_roots(
        self: Arc<Self>,
        mut first: Option<async_nats::Subscriber>,
        told: mpsc::UnboundedSender<String>,
    ) {
        let bus = self.fleet.bus();
        loop {
            let messages = match first.take() {
                Some(messages) => Some(messages),
                None => bus.client.subscribe(bus.names.roots_subject()).await.ok(),
            };
            if let Some(mut messages) = messages {
                loop {
                    let message = tokio::select! {
                        () = self.end.cancelled() => return,
                        message = messages.next() => message,
                    };
                    let Some(message) = message else { break };
                    let root = String::from_utf8_lossy(&message.payload).into_owned();
                    if told.send(root).is_err() {
                        return;
                    }
                }
            }
            tokio::time::sleep(PAUSE).await;
        }
    }
}
