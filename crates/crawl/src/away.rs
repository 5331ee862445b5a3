//! A crawl-client's worker: a thread that fetches what seed-servers far away grant. It has connections and no partition.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use portolan_registry::Partition;
use tokio::task::LocalSet;

use crate::client::Client;
use crate::error::CrawlError;
use crate::fleet::{Booth, Job};
use crate::turn;
use crate::worker::{Gauges, WorkerPlan};

/// How often it shows how it is, and looks for connections that have idled too long.
const TICK: Duration = Duration::from_millis(20);

/// The body of the thread. It has no partitions to give back.
pub(crate) fn run(plan: WorkerPlan, booth: Arc<Booth>) -> Vec<Partition> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    match runtime {
        Ok(runtime) => LocalSet::new().block_on(&runtime, live(plan, booth)),
        Err(error) => plan.shared.fail(CrawlError::Internal(format!(
            "no runtime for a worker: {error}"
        ))),
    }
    Vec::new()
}

async fn live(plan: WorkerPlan, booth: Arc<Booth>) {
    let WorkerPlan {
        shared,
        bench,
        mut ends,
        pools,
        max_idle,
        gauges,
        ..
    } = plan;
    let client = Rc::new(Client::new(
        Arc::clone(&shared),
        bench,
        pools,
        max_idle,
        None,
    ));
    let turns = Rc::new(Cell::new(0));
    loop {
        show(&client, &gauges, turns.get());
        if turns.get() == 0 && shared.outstanding.load(Ordering::Relaxed) > 0 {
            shared.commit_now.notify_one();
        }
        tokio::select! {
            biased;
            // Nothing is ever delivered here: it ends with the archivist.
            parcel = ends.inbox.recv() => if parcel.is_none() { return },
            job = booth.next() => begin(&client, &turns, job),
            () = tokio::time::sleep(TICK) => client.sweep(shared.now_ms()),
        }
        if shared.budget.is_stopping_now() {
            // What is under way is given up: its grants expire.
            gauges.idle.store(true, Ordering::SeqCst);
            return wait_for_end(&mut ends.inbox).await;
        }
    }
}

async fn wait_for_end<T>(inbox: &mut tokio::sync::mpsc::Receiver<T>) {
    while inbox.recv().await.is_some() {}
}

fn begin(client: &Rc<Client>, turns: &Rc<Cell<usize>>, job: Job) {
    let Job { grant, back } = job;
    let now_ms = client.shared.now_ms();
    let turn = &grant.turn;
    let seat = match client.pools.seat(turn.host, turn.pulse.failures, now_ms) {
        Ok(seat) => seat,
        Err(at_ms) => {
            let mut pulse = turn.pulse;
            pulse.not_before_ms = pulse.not_before_ms.max(at_ms);
            // Its server may have gone.
            let _ = back.send(grant.unused(pulse));
            return;
        }
    };
    turns.set(turns.get() + 1);
    let (client, turns) = (Rc::clone(client), Rc::clone(turns));
    tokio::task::spawn_local(async move {
        let came = turn::run(client, grant, seat).await;
        turns.set(turns.get() - 1);
        let _ = back.send(came);
    });
}

/// Tells the watcher and the progress display how things stand.
fn show(client: &Client, gauges: &Gauges, turns: usize) {
    let now_ms = client.shared.now_ms();
    gauges.turns.store(turns as u64, Ordering::Relaxed);
    gauges
        .by_address
        .store(client.waiting_for_address(now_ms), Ordering::Relaxed);
    gauges
        .robots
        .store(client.robots_being_read(), Ordering::Relaxed);
    let idle = turns == 0 && client.shared.budget.is_stopping();
    gauges.idle.store(idle, Ordering::SeqCst);
    gauges.looked.store(true, Ordering::SeqCst);
}
