//! The agent's part of guests: a robots.txt may redirect to a host that another node looks after. Only that node knows how
//! the host is to be left alone, and sees to it that nobody else asks it meanwhile.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use portolan_fleet::{Guest, GuestSays, HostSays};
use portolan_model::{HostId, PartitionId};
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

use super::agent::Agent;

/// Who has to wait for less than this waits here, for the second of these times in all: a turn that ended for it would come
/// back when somebody else has the host.
const SHORT: Duration = Duration::from_secs(1);
const PATIENCE: Duration = Duration::from_secs(8);
/// Between two questions, at least.
const ASK_AGAIN: Duration = Duration::from_millis(50);
/// How soon a node is asked again that may not say now, or is not there.
const AWAY_MS: u64 = 1_000;

/// A worker wants to send one request to a host of a partition that is not here.
pub(crate) struct Wish {
    pub(crate) partition: PartitionId,
    pub(crate) host: HostId,
    pub(crate) answer: oneshot::Sender<Result<Pass, Refused>>,
}

/// Why there is no pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    /// It is to be asked for again after these milliseconds.
    For(u64),
    /// The host is another group's, whose nodes are asked for none.
    ForGood,
}

/// Leave to send one request to a host that another node looks after.
pub(crate) struct Pass {
    /// The pause that the host asks for, if it is known.
    pub(crate) delay_ms: Option<u32>,
    /// When leave was asked for: the request begins at once, or not at all.
    asked: Instant,
    done: oneshot::Sender<u64>,
}

/// A request of a guest begins within this time after it asked for leave.
const BEGINS: Duration = Duration::from_secs(2);

impl Pass {
    /// How long it holds: no request begins later.
    pub(crate) fn left(&self) -> Duration {
        BEGINS.saturating_sub(self.asked.elapsed())
    }

    /// The visit is over: the host is left alone for this time. A pass that is dropped keeps the host waiting until nobody
    /// can be asking it.
    pub(crate) fn done(self, rest_ms: u64) {
        let _ = self.done.send(rest_ms);
    }
}

/// How long a visit may take at most, if a request may take `request_ms`.
pub(crate) fn longest_ms(request_ms: u64) -> u64 {
    request_ms + BEGINS.as_millis() as u64 + super::desk::MARGIN_MS
}

/// Asks other nodes for what workers wish.
pub(super) async fn ask(agent: Arc<Agent>, mut wishes: mpsc::UnboundedReceiver<Wish>) {
    while let Some(wish) = wishes.recv().await {
        tokio::spawn(visit(Arc::clone(&agent), wish));
    }
}

async fn visit(agent: Arc<Agent>, wish: Wish) {
    let begun = Instant::now();
    let Wish {
        partition,
        host,
        answer,
    } = wish;
    let group = agent.fleet.group();
    if group.is_some_and(|group| !group.is_mine(partition)) {
        let _ = answer.send(Err(Refused::ForGood));
        return;
    }
    let (holder, visit, delay_ms, asked) = loop {
        let asked = Instant::now();
        let holder = agent.fleet.holder_of(partition).await;
        let says = match &holder {
            Some(holder) => agent.node.ask_as_guest(holder, partition, host).await,
            None => None,
        };
        let ms = match (holder, says) {
            (Some(holder), Some(HostSays::Come { visit, delay_ms })) => {
                break (holder, visit, delay_ms, asked);
            }
            (_, Some(HostSays::Later { ms })) => ms,
            _ => AWAY_MS,
        };
        let wait = Duration::from_millis(ms).max(ASK_AGAIN);
        let is_over = agent.shared.budget.is_stopping() || answer.is_closed();
        if wait > SHORT || begun.elapsed() + wait > PATIENCE || is_over {
            let _ = answer.send(Err(Refused::For(ms)));
            return;
        }
        tokio::time::sleep(wait).await;
    };
    let (done, is_done) = oneshot::channel();
    let pass = Pass {
        delay_ms,
        asked,
        done,
    };
    let rest_ms = match answer.send(Ok(pass)) {
        Ok(()) => is_done.await.ok(),
        // Nobody has asked.
        Err(_) => Some(0),
    };
    if let Some(rest_ms) = rest_ms {
        agent.node.leave_as_guest(&holder, visit, rest_ms).await;
    }
}

/// The guests that are at hosts of this node.
pub(super) struct Guests {
    next: AtomicU64,
    visits: Mutex<HashMap<u64, oneshot::Sender<u64>>>,
}

impl Guests {
    /// `now_ms`: no visit has the number of one of the process before.
    pub(super) fn new(now_ms: u64) -> Self {
        Self {
            next: AtomicU64::new(now_ms << 16),
            visits: Mutex::default(),
        }
    }

    fn begin(&self, done: oneshot::Sender<u64>) -> u64 {
        let visit = self.next.fetch_add(1, Ordering::Relaxed);
        let mut visits = self.visits.lock().unwrap_or_else(PoisonError::into_inner);
        // Those that nobody waits for any more.
        visits.retain(|_, done| !done.is_closed());
        visits.insert(visit, done);
        visit
    }

    fn end(&self, visit: u64, rest_ms: u64) {
        let mut visits = self.visits.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(done) = visits.remove(&visit) {
            let _ = done.send(rest_ms);
        }
    }
}

/// Answers other nodes' guests, as long as the node lives.
pub(super) async fn serve(agent: Arc<Agent>, mut guests: mpsc::Receiver<Guest>) {
    let visits = Arc::new(Guests::new(agent.shared.now_ms()));
    while let Some(guest) = guests.recv().await {
        let (agent, visits) = (Arc::clone(&agent), Arc::clone(&visits));
        tokio::spawn(async move {
            let says = match guest.says {
                GuestSays::MayI { partition, host } => {
                    admit(&agent, &visits, PartitionId(partition), HostId(host)).await
                }
                GuestSays::Done { visit, rest_ms } => {
                    visits.end(visit, rest_ms);
                    HostSays::Farewell
                }
            };
            guest.answer(says).await;
        });
    }
}

async fn admit(agent: &Agent, visits: &Guests, partition: PartitionId, host: HostId) -> HostSays {
    let (membership, shared) = (&agent.membership, &agent.shared);
    let later = HostSays::Later { ms: AWAY_MS };
    let is_held = membership
        .desk()
        .is_none_or(|desk| !desk.lets_ask(partition));
    if is_held || !membership.may_ask() || !membership.holds(partition) {
        return later;
    }
    let (done, is_done) = oneshot::channel();
    let neighbours = &shared.neighbours;
    let admitted = neighbours.admit(&shared.routes, partition, host, is_done);
    match admitted.await {
        Some(Ok(delay_ms)) => HostSays::Come {
            visit: visits.begin(done),
            delay_ms,
        },
        Some(Err(at_ms)) => HostSays::Later {
            ms: at_ms.saturating_sub(shared.now_ms()),
        },
        None => later,
    }
}
