//! Redirects of seeds widen the scope of the whole crawl. A node tells all others of those that it meets before anything of
//! them is shipped: by a message, for those that are there, and in the store, for those that come later or did not hear it.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::PoisonError;
use std::time::Duration;

use portolan_fleet::{Blobs, Node};
use portolan_model::CanonicalUrl;
use tokio::sync::mpsc;

use super::agent::Agent;

const PREFIX: &str = "roots/";
/// How often it is looked for others' that were not heard of.
const LOOK_EVERY: Duration = Duration::from_secs(5);

/// What a node knows of the roots that others met.
pub(super) struct Roots {
    /// Their keys in the store.
    known: HashSet<String>,
    told: mpsc::UnboundedReceiver<String>,
}

impl Roots {
    /// From now on nothing that others tell is missed.
    pub(super) async fn listen(node: &Node) -> Self {
        Self {
            known: HashSet::new(),
            told: node.hear_roots().await,
        }
    }

    /// Those that are in the store, and have not been given out before.
    pub(super) async fn look(&mut self, blobs: &Blobs) -> Vec<CanonicalUrl> {
        let mut roots = Vec::new();
        for object in blobs.list(PREFIX).await {
            if !self.known.insert(object.key.clone()) {
                continue;
            }
            let text = blobs.get(&object.key).await;
            let text = text.map(|text| String::from_utf8_lossy(&text).into_owned());
            roots.extend(text.and_then(|text| CanonicalUrl::from_canonical(text).ok()));
        }
        roots
    }

    /// Tells others of the redirects that this node meets, and hears of theirs.
    pub(super) async fn exchange(
        mut self,
        agent: Arc<Agent>,
        mut found: mpsc::UnboundedReceiver<CanonicalUrl>,
    ) {
        loop {
            tokio::select! {
                Some(root) = found.recv() => {
                    let key = key_of(&agent, &root);
                    if self.known.insert(key.clone()) {
                        agent.node.tell_root(root.as_str()).await;
                        agent.fleet.blobs().put(&key, root.as_str().to_owned().into()).await;
                    }
                    agent.membership.note_root_told();
                }
                Some(text) = self.told.recv() => {
                    if let Ok(root) = CanonicalUrl::from_canonical(text) {
                        widen(&agent, &root);
                    }
                }
                () = tokio::time::sleep(LOOK_EVERY) => {
                    for root in self.look(agent.fleet.blobs()).await {
                        widen(&agent, &root);
                    }
                }
            }
        }
    }
}

fn widen(agent: &Agent, root: &CanonicalUrl) {
    let scope = agent.shared.scope.write();
    scope.unwrap_or_else(PoisonError::into_inner).add_root(root);
}

fn key_of(agent: &Agent, root: &CanonicalUrl) -> String {
    format!("{PREFIX}{:016x}", root.doc_id(&agent.shared.ids).0)
}
