//! The agent's part of a seed-server: answers crawl-clients that ask for work, and takes what they bring to the desk.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use portolan_fleet::{Asked, HandedIn, Work};
use portolan_registry::Return;
use tokio::sync::mpsc;

use super::agent::Agent;
use super::desk::Desk;

/// A client waits this long before it asks a server again that may not decide now.
const STILL: Duration = Duration::from_millis(200);

/// As long as the node lives.
pub(super) async fn serve(
    agent: Arc<Agent>,
    desk: Arc<Desk>,
    mut asked: mpsc::Receiver<Asked>,
    mut handed_in: mpsc::Receiver<HandedIn>,
) {
    loop {
        tokio::select! {
            Some(asked) = asked.recv() => {
                tokio::spawn(answer(Arc::clone(&agent), Arc::clone(&desk), asked));
            }
            Some(handed_in) = handed_in.recv() => {
                tokio::spawn(take(Arc::clone(&desk), handed_in));
            }
            else => return,
        }
    }
}

async fn answer(agent: Arc<Agent>, desk: Arc<Desk>, asked: Asked) {
    let (work, grants) = if agent.membership.may_ask() && !agent.shared.budget.is_stopping() {
        let looks = agent.membership.looks();
        let its = looks
            .iter()
            .filter(|look| desk.may_have(&asked.want.client, look.partition));
        let due = its.map(|look| look.due).sum();
        desk.serve(&asked.want, due, || agent.shared.now_ms()).await
    } else {
        // Without a lease nothing is granted.
        tokio::time::sleep(STILL).await;
        (Work::default(), Vec::new())
    };
    let client = asked.want.client.clone();
    match asked.answer(&work).await {
        Ok(bytes) => {
            let counter = &desk.counts.grant_bytes;
            counter.fetch_add(bytes as u64, Ordering::Relaxed);
        }
        Err(why) => {
            tracing::error!(client, grants = grants.len(), why, "grants did not leave");
            desk.take_again(&grants);
        }
    }
}

async fn take(desk: Arc<Desk>, handed_in: HandedIn) {
    let brought = &handed_in.brought;
    desk.counts
        .return_bytes
        .fetch_add(brought.back.len() as u64, Ordering::Relaxed);
    let taken = match Return::decode(&brought.back) {
        Some(back) => desk.take(back, brought.now_ms).await,
        None => {
            tracing::error!("what a crawl-client brought cannot be read");
            false
        }
    };
    handed_in.answer(taken).await;
}
