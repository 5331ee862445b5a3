use super::*;
use std::future::pending;
use tokio::task::LocalSet;

const PATIENCE: Duration = Duration::from_millis(20);

fn pools(quick: usize, waiting: usize, slow: usize) -> Rc<Pools> {
    Pools::new(PoolSizes {
        quick,
        waiting,
        slow,
        patience: PATIENCE,
    })
}

fn quick(pools: &Rc<Pools>, host: u64) -> Seat {
    assert!(pools.has_room(), "for {host}");
    pools.seat(HostId(host), 0, 0).expect("a place")
}

/// A turn whose server never says anything; ends when it is given up.
fn silent(pools: &Rc<Pools>, host: u64) -> tokio::task::JoinHandle<GivenUp> {
    let seat = quick(pools, host);
    tokio::task::spawn_local(async move {
        match seat.wait_for(pending::<()>()).await {
            Ok(()) => unreachable!("nothing comes"),
            Err(given_up) => given_up,
        }
    })
}

async fn run(test: impl Future<Output = ()>) {
    LocalSet::new().run_until(test).await;
}

#[tokio::test]
async fn who_waits_for_long_leaves_its_place_to_the_next() {
    run(async {
        let pools = pools(2, 10, 1);
        let _first = silent(&pools, 1);
        let _second = silent(&pools, 2);
        tokio::task::yield_now().await;
        assert!(!pools.has_room(), "they have only begun");
        tokio::time::sleep(PATIENCE * 2 + LOOK_EVERY).await;
        let healthy = quick(&pools, 3);
        assert_eq!(pools.waiting.borrow().len(), 2);
        drop(healthy);
        assert_eq!(pools.quick.available_permits(), 2);
    })
    .await;
}

#[tokio::test]
async fn who_works_or_receives_keeps_its_place() {
    run(async {
        let pools = pools(2, 10, 1);
        let working = quick(&pools, 1);
        let receiving = quick(&pools, 2);
        let task = tokio::task::spawn_local(async move {
            let body = async {
                // A megabyte accounts for a minute.
                receiving.note_bytes(1 << 20);
                pending::<()>().await;
            };
            receiving.wait_for(body).await
        });
        tokio::task::yield_now().await;
        tokio::time::sleep(PATIENCE * 3 + LOOK_EVERY).await;
        assert!(!pools.has_room());
        task.abort();
        assert!(task.await.is_err());
        drop(working);
        assert_eq!(pools.quick.available_permits(), 2);
    })
    .await;
}

#[tokio::test]
async fn with_no_room_to_wait_the_longest_is_given_up_and_remembered() {
    run(async {
        let pools = pools(1, 2, 1);
        let mut waiting = Vec::new();
        for host in 0..3 {
            waiting.push(silent(&pools, host));
            tokio::time::sleep(PATIENCE * 2 + LOOK_EVERY).await;
        }
        tokio::time::sleep(PATIENCE * LEAST_WAIT).await;
        let next = quick(&pools, 3);
        let GivenUp(after) = waiting.remove(0).await.expect("it ends");
        assert!(after >= PATIENCE * LEAST_WAIT, "{after:?}");
        assert!(waiting.iter().all(|other| !other.is_finished()));
        drop(next);
        // The next time it goes to the places of slow hosts.
        let again = pools.seat(HostId(0), 0, 0).expect("a slow place");
        assert_eq!(again.state.place.get(), Place::Slow);
        assert!(pools.has_room());
        // An answer in time, and it is as good as any.
        assert!(again.wait_for(async {}).await.is_ok());
        drop(again);
        assert_eq!(quick(&pools, 0).state.place.get(), Place::Quick);
    })
    .await;
}

#[test]
fn slow_hosts_come_back_one_by_one() {
    let pools = pools(8, 8, 2);
    let held: Vec<_> = (0..2).map(|n| pools.seat(HostId(n), 1, 1_000)).collect();
    assert!(held.iter().all(Result::is_ok));
    let times: Vec<u64> = (2..400)
        .map(|n| pools.seat(HostId(n), 1, 1_000).err().expect("no place"))
        .collect();
    // Two places, held for a second: one becomes free every half a second.
    assert!(times[0] >= 1_400 && times[0] <= 1_600, "{}", times[0]);
    assert!(times.windows(2).all(|pair| pair[1] >= pair[0]));
    assert!(times.iter().all(|&at| at <= 1_000 + LONGEST_WAIT_MS));
    // Healthy ones have room all the while.
    assert_eq!(quick(&pools, 500).state.place.get(), Place::Quick);
    drop(held);
    assert!(pools.seat(HostId(2), 1, 2_000).is_ok());
}

#[tokio::test]
async fn the_dns_is_waited_for_without_a_place() {
    run(async {
        let pools = pools(1, 1, 1);
        let (answer, asked) = tokio::sync::oneshot::channel();
        let seat = quick(&pools, 1);
        let resolving = tokio::task::spawn_local(async move {
            seat.resolve(asked).await.expect("an answer");
            seat
        });
        tokio::task::yield_now().await;
        let other = quick(&pools, 2);
        // One more than may: it keeps its place.
        let task = tokio::task::spawn_local(async move { other.resolve(pending::<()>()).await });
        tokio::task::yield_now().await;
        assert_eq!(pools.quick.available_permits(), 0);
        answer.send(()).expect("somebody waits");
        tokio::task::yield_now().await;
        assert!(!resolving.is_finished(), "there is no place for it yet");
        task.abort();
        assert!(task.await.is_err());
        let seat = resolving.await.expect("it goes on");
        assert_eq!(seat.state.place.get(), Place::Quick);
        assert_eq!((pools.resolving.get(), pools.seated.borrow().len()), (0, 1));
        drop(seat);
        assert_eq!(pools.quick.available_permits(), 1);
    })
    .await;
}

#[tokio::test]
async fn the_archivist_is_waited_for_without_a_place() {
    run(async {
        let pools = pools(1, 1, 1);
        let (room, full) = tokio::sync::oneshot::channel();
        let seat = quick(&pools, 1);
        let turn = tokio::task::spawn_local(async move {
            seat.hand_over(full).await.expect("room");
            // The next request of the same turn needs a place again.
            seat.wait_for(async {}).await.expect("an answer");
            seat
        });
        tokio::task::yield_now().await;
        let other = quick(&pools, 2);
        room.send(()).expect("somebody waits");
        tokio::task::yield_now().await;
        assert!(!turn.is_finished(), "there is no place for it yet");
        drop(other);
        let seat = turn.await.expect("it goes on");
        assert_eq!(seat.state.place.get(), Place::Quick);
        assert_eq!(pools.handing_over.get(), 0);
    })
    .await;
}

#[tokio::test]
async fn a_body_that_grows_needs_a_quick_place_again() {
    run(async {
        let pools = pools(1, 2, 1);
        let seat = Rc::new(quick(&pools, 1));
        let waits = Rc::clone(&seat);
        let task = tokio::task::spawn_local(async move { waits.wait_for(pending::<()>()).await });
        tokio::task::yield_now().await;
        tokio::time::sleep(PATIENCE * 2).await;
        let other = quick(&pools, 2);
        assert!(seat.wait_before_more(WAITING_BODY_BYTES - 1).is_none());
        let more = seat.wait_before_more(WAITING_BODY_BYTES).expect("it waits");
        let more = tokio::task::spawn_local(more);
        tokio::task::yield_now().await;
        assert!(!more.is_finished());
        drop(other);
        more.await.expect("a place");
        assert_eq!(seat.state.place.get(), Place::Quick);
        task.abort();
    })
    .await;
}
