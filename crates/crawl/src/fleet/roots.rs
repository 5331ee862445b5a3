//! Redirects of seeds widen the scope of the whole crawl. A node learns of those that other nodes met from the store.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::PoisonError;
use std::time::Duration;

use portolan_model::CanonicalUrl;
use tokio::sync::mpsc;

use super::agent::Agent;

const PREFIX: &str = "roots/";
/// How often it is looked for others'.
const LOOK_EVERY: Duration = Duration::from_secs(5);

/// Tells others of the redirects that this node met, and hears of theirs.
pub(super) async fn exchange(agent: Arc<Agent>, mut found: mpsc::UnboundedReceiver<CanonicalUrl>) {
    let mut known = HashSet::new();
    loop {
        tokio::select! {
            Some(root) = found.recv() => {
                let key = key_of(&agent, &root);
                if known.insert(key.clone()) {
                    agent.fleet.blobs().put(&key, root.as_str().to_owned().into()).await;
                }
            }
            () = tokio::time::sleep(LOOK_EVERY) => look(&agent, &mut known).await,
        }
    }
}

/// Before the crawl begins: those that are known already.
pub(super) async fn look(agent: &Agent, known: &mut HashSet<String>) {
    for object in agent.fleet.blobs().list(PREFIX).await {
        if !known.insert(object.key.clone()) {
            continue;
        }
        let Some(text) = agent.fleet.blobs().get(&object.key).await else {
            continue;
        };
        let text = String::from_utf8_lossy(&text).into_owned();
        if let Ok(root) = CanonicalUrl::from_canonical(text) {
            let scope = &agent.shared.scope;
            let mut scope = scope.write().unwrap_or_else(PoisonError::into_inner);
            scope.add_root(&root);
        }
    }
}

fn key_of(agent: &Agent, root: &CanonicalUrl) -> String {
    format!("{PREFIX}{:016x}", root.doc_id(&agent.shared.ids).0)
}
