//! Work on all pages in blocks of fixed size by several threads. Sums are taken block by block in
//! order, so they do not depend on who did which.

use std::thread;

const BLOCK: usize = 1 << 14;
/// More threads than this wait for memory rather than compute.
const MAX_THREADS: usize = 16;

pub(super) fn threads() -> usize {
    thread::available_parallelism()
        .map_or(1, usize::from)
        .min(MAX_THREADS)
}

/// `work(first, block)` fills a block of `out` that starts at page `first`, and returns something to sum.
pub(super) fn fill<T: Send>(
    out: &mut [T],
    threads: usize,
    work: impl Fn(usize, &mut [T]) -> f64 + Sync,
) -> f64 {
    let blocks: Vec<(usize, &mut [T])> = out.chunks_mut(BLOCK).enumerate().collect();
    let mut sums = vec![0.0; blocks.len()];
    if threads <= 1 || blocks.len() <= 1 {
        for (number, block) in blocks {
            sums[number] = work(number * BLOCK, block);
        }
        return sums.iter().sum();
    }
    let mut shares: Vec<Vec<(usize, &mut [T])>> = (0..threads).map(|_| Vec::new()).collect();
    for (number, block) in blocks {
        shares[number % threads].push((number, block));
    }
    let work = &work;
    let done: Vec<(usize, f64)> = thread::scope(|scope| {
        let handles: Vec<_> = shares
            .into_iter()
            .map(|share| {
                scope.spawn(move || {
                    share
                        .into_iter()
                        .map(|(number, block)| (number, work(number * BLOCK, block)))
                        .collect::<Vec<_>>()
                })
            })
            .collect();
        handles
            .into_iter()
            .flat_map(|handle| match handle.join() {
                Ok(sums) => sums,
                Err(panic) => std::panic::resume_unwind(panic),
            })
            .collect()
    });
    for (number, sum) in done {
        sums[number] = sum;
    }
    sums.iter().sum()
}
