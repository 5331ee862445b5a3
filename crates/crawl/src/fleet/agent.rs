//! The agent of a node: does what the fleet orders.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use portolan_fleet::{
    Epoch, Fleet, Incarnation, Instruction, LogReader, Node, PartitionCommit, ShipError,
    StoredCheckpoint,
};
use portolan_model::{CanonicalUrl, Canonicalizer, PartitionId};
use portolan_registry::{Adopter, Chunk, Settler};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::AbortHandle;

use super::adoption::{Wanted, adopt, blocking};
use super::checkpoints::Checkpoints;
use super::client::ClientSide;
use super::gather::{Gathering, prepare};
use super::hearing;
use super::membership::{Membership, Phase};
use super::role::Role;
use crate::budget::StoppedBy;
use crate::error::CrawlError;
use crate::routes::{Command, Destination};
use crate::shared::Shared;
use crate::worker::Gauges;

const LOOK_EVERY: Duration = Duration::from_millis(10);
const TRY_AGAIN: Duration = Duration::from_millis(500);
/// Pages that a node takes from the fleet's budget at a time, at most.
const ALLOTMENT: u64 = 100;

/// What the tasks of a node's agent share.
pub(super) struct Agent {
    pub(super) fleet: Fleet,
    pub(super) node: Node,
    pub(super) incarnation: Incarnation,
    pub(super) membership: Arc<Membership>,
    pub(super) shared: Arc<Shared>,
    pub(super) gauges: Vec<Arc<Gauges>>,
    pub(super) settler: Settler,
    pub(super) canonicalizer: Canonicalizer,
    pub(super) seeds: Vec<CanonicalUrl>,
    /// Frames up to here are shipped, and what they forward is acknowledged.
    pub(super) acknowledged: AtomicU64,
    pub(super) unshipped_bytes: AtomicU64,
    pub(super) shipped_bytes: AtomicU64,
    pub(super) links: (AtomicU64, AtomicU64),
    /// Bytes of the URLs of the links that were sent.
    pub(super) link_url_bytes: AtomicU64,
    pub(super) role: Role,
    pub(super) client: Option<Arc<ClientSide>>,
    pub(super) held: Mutex<BTreeMap<PartitionId, Holding>>,
    pub(super) trouble: Mutex<BTreeMap<Matter, String>>,
    /// Too much waits to be shipped to hear more.
    pub(super) deaf: watch::Sender<bool>,
    pub(super) log: tokio::sync::Mutex<LogReader>,
    pub(super) checkpoints: Checkpoints,
    pub(super) gathering: Gathering,
}

/// What may be in trouble.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Matter {
    ShipLog,
    Links,
    /// What a crawl-client brings to seed-servers.
    Returns,
}

impl Matter {
    pub(super) fn words(self) -> &'static str {
        match self {
            Self::ShipLog => "the ship log does not answer",
            Self::Links => "links do not leave",
            Self::Returns => "what was fetched is not taken",
        }
    }
}

/// A partition of this node, as its agent knows it.
#[derive(Default)]
pub(super) struct Holding {
    epoch: Epoch,
    /// How far its inbox was heard, as the ship log knows.
    cursor: u64,
    listener: Option<AbortHandle>,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Agent {
    /// Under which epoch a partition is here.
    pub(super) fn epoch_of(&self, partition: PartitionId) -> Option<Epoch> {
        locked(&self.held)
            .get(&partition)
            .map(|holding| holding.epoch)
    }

    /// `stored`: the checkpoint in the store from which its files have come, and its key.
    pub(super) fn note_adopted(
        &self,
        partition: PartitionId,
        epoch: Epoch,
        cursor: u64,
        stored: Option<(StoredCheckpoint, String)>,
    ) {
        self.membership.add(partition);
        self.checkpoints.begin(partition, epoch, stored);
        let holding = Holding {
            epoch,
            cursor,
            listener: None,
        };
        locked(&self.held).insert(partition, holding);
    }

    pub(super) fn note_listener(&self, partition: PartitionId, listener: AbortHandle) {
        if let Some(holding) = locked(&self.held).get_mut(&partition) {
            holding.listener = Some(listener);
        }
    }

    pub(super) fn abort_listeners(&self) {
        for holding in locked(&self.held).values_mut() {
            if let Some(listener) = holding.listener.take() {
                listener.abort();
            }
        }
    }

    /// What a commit record says of the partitions in a chunk.
    pub(super) fn partitions_of(&self, chunk: &Chunk) -> Vec<PartitionCommit> {
        let mut held = locked(&self.held);
        let mut gone = Holding::default();
        let mut ids: Vec<_> = chunk
            .entries
            .keys()
            .chain(chunk.cursors.keys())
            .copied()
            .collect();
        ids.sort_unstable();
        ids.dedup();
        let says = ids.into_iter().map(|id| {
            let holding = held.get_mut(&id).unwrap_or(&mut gone);
            let cursor = chunk.cursors.get(&id).copied().unwrap_or(0);
            holding.cursor = holding.cursor.max(cursor);
            // Of one that was heard only, nothing was logged.
            let (from_seq, to_seq) = chunk.entries.get(&id).copied().unwrap_or((1, 0));
            PartitionCommit {
                partition: id.0,
                epoch: holding.epoch,
                from_seq,
                to_seq,
                inbox_cursor: holding.cursor,
            }
        });
        says.collect()
    }

    pub(super) fn note_sent(&self, forwards: usize) {
        self.links.0.fetch_add(forwards as u64, Ordering::Relaxed);
    }

    pub(super) fn note_heard(&self, forwards: usize) {
        self.links.1.fetch_add(forwards as u64, Ordering::Relaxed);
    }

    /// It is told until it is cleared.
    pub(super) fn set_trouble(&self, matter: Matter, why: String) {
        locked(&self.trouble).insert(matter, why);
    }

    pub(super) fn clear_trouble(&self, matter: Matter) {
        locked(&self.trouble).remove(&matter);
    }

    pub(super) fn set_deaf(&self, deaf: bool) {
        self.deaf
            .send_if_modified(|now| std::mem::replace(now, deaf) != deaf);
    }

    /// Waits until links may be heard.
    pub(super) async fn may_hear(&self) {
        // The sender is this agent's.
        let _ = self.deaf.subscribe().wait_for(|deaf| !deaf).await;
    }

    /// Do the workers wait for something to do?
    pub(super) fn is_idle(&self) -> bool {
        let idle = |gauges: &Arc<Gauges>| gauges.turns.load(Ordering::Relaxed) == 0;
        self.gauges.iter().all(idle)
    }

    /// The fleet's budget of pages is shared out in small parts.
    pub(super) async fn take_pages(&self) {
        // What who fetches nothing took would never be fetched.
        if self.role.fetches()
            && self.fleet.definition().max_pages.is_some()
            && self.shared.budget.unclaimed() < ALLOTMENT / 2
        {
            let pages = self.node.take_pages(ALLOTMENT).await;
            self.shared.budget.allot(pages);
        }
    }

    /// Does what it is told until the crawl is over. Returns what the last order was, if that ended it.
    pub(super) async fn obey(
        self: Arc<Self>,
        adopter: Arc<Adopter>,
        mut orders: mpsc::Receiver<Instruction>,
    ) -> Result<(), CrawlError> {
        let mut next = None;
        loop {
            let Some(order) = (match next.take() {
                Some(order) => Some(order),
                None => orders.recv().await,
            }) else {
                return Ok(());
            };
            match order {
                Instruction::Adopt {
                    partition,
                    epoch,
                    log_end,
                } => {
                    let mut wanted = vec![Wanted {
                        partition,
                        epoch,
                        log_end,
                    }];
                    // Those that come together are taken over together.
                    while let Ok(order) = orders.try_recv() {
                        match order {
                            Instruction::Adopt {
                                partition,
                                epoch,
                                log_end,
                            } => wanted.push(Wanted {
                                partition,
                                epoch,
                                log_end,
                            }),
                            other => {
                                next = Some(other);
                                break;
                            }
                        }
                    }
                    wanted.retain(|wanted| !self.goes_on(wanted));
                    adopt(&self, &adopter, wanted).await?;
                }
                Instruction::Release {
                    partition,
                    epoch,
                    to,
                } => {
                    let agent = Arc::clone(&self);
                    tokio::spawn(async move {
                        agent.make_ready(partition, epoch, to.as_deref()).await;
                        if let Err(error) = agent.release(partition, epoch).await {
                            agent.end(error);
                        }
                    });
                }
                Instruction::Prepare { partition } => prepare(&self, &adopter, partition),
                Instruction::Stop => self.membership.set_stopped(true),
                Instruction::GoOn => self.membership.set_stopped(false),
                Instruction::End { complete } => {
                    self.shared.budget.stop(match complete {
                        true => StoppedBy::Done,
                        false => StoppedBy::Signal,
                    });
                    return Ok(());
                }
                Instruction::Fenced(why) => return Err(CrawlError::Fenced(why)),
            }
        }
    }

    /// A partition that was here when the node began goes on from where it was.
    fn goes_on(self: &Arc<Self>, wanted: &Wanted) -> bool {
        let cursor = match locked(&self.held).get_mut(&wanted.partition) {
            Some(holding) => {
                holding.epoch = wanted.epoch;
                holding.listener.is_none().then_some(holding.cursor)
            }
            None => return false,
        };
        if let Some(cursor) = cursor {
            self.node.adopted(wanted.partition, wanted.epoch);
            hearing::begin(self, wanted.partition, cursor);
        }
        true
    }

    /// Ends a partition's turns, ships what is left of it, and says so.
    async fn release(&self, partition: PartitionId, epoch: Epoch) -> Result<(), CrawlError> {
        if let Some(holding) = locked(&self.held).get_mut(&partition)
            && let Some(listener) = holding.listener.take()
        {
            listener.abort();
        }
        let (gone, coming) = oneshot::channel();
        self.shared.outstanding.fetch_add(1, Ordering::SeqCst);
        let release = Command::Release {
            partition,
            to: Destination::Node(gone),
        };
        let owner = self.shared.routes.owner(partition);
        self.shared.routes.command(owner, release);
        let Ok(released) = coming.await else {
            // The crawl ends meanwhile.
            return Ok(());
        };
        self.membership.remove(partition);
        let (seq, committed) = (released.applied(), self.settler.committed());
        while self.acknowledged.load(Ordering::Acquire) < committed {
            tokio::time::sleep(LOOK_EVERY).await;
        }
        blocking(move || Ok(released.delete()?)).await?;
        // Before it is told: it may come back at once.
        let let_go = || drop(locked(&self.held).remove(&partition));
        self.checkpoints.end(partition, let_go).await;
        loop {
            match self.node.released(partition, epoch, seq).await {
                Ok(_) => {
                    self.clear_trouble(Matter::ShipLog);
                    break;
                }
                Err(ShipError::Fenced(why)) => return Err(CrawlError::Fenced(why)),
                Err(ShipError::Unavailable(why)) => {
                    self.set_trouble(Matter::ShipLog, why);
                    tokio::time::sleep(TRY_AGAIN).await;
                }
            }
        }
        tracing::info!(partition = partition.0, epoch, seq, "partition released");
        Ok(())
    }

    /// The crawl on this node cannot go on.
    pub(super) fn end(&self, error: CrawlError) {
        self.membership.set_phase(Phase::Lost(error.to_string()));
        self.shared.fail(error);
    }
}
