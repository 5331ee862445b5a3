//! `portolan bench adoption`: how long a node's partitions take to come to another node, from checkpoints in a store.

use std::process::ExitCode;

use clap::Args;
use portolan_crawl::fleet::{AdoptionCosts, bench_adoption};
use portolan_crawl::report::{bytes, thousands};
use serde_json::json;

use super::bench::{load_average, scratch};
use crate::failure::Failure;
use crate::output::sayln;

/// Take the partitions of a node over that knows many URLs, from checkpoints in a store that is a directory
#[derive(Args)]
#[command(after_help = "Examples:\n  \
    portolan bench adoption                             10 M URLs in 16 partitions, 2.4 M links after the checkpoints\n  \
    portolan bench adoption --urls 1000000 --links 100000\n\n\
    The code is that of nodes, without NATS, whose part is some messages. Needs some 400 bytes of disk a URL in TMPDIR.")]
pub(crate) struct BenchAdoptionArguments {
    #[arg(long, value_name = "N", default_value_t = 10_000_000)]
    pub(crate) urls: u64,
    #[arg(long, value_name = "N", default_value_t = 16)]
    pub(crate) partitions: u16,
    /// Found since the checkpoints: what a node finds in 5 minutes at 200 pages a second with 40 links each
    #[arg(long, value_name = "N", default_value_t = 2_400_000)]
    pub(crate) links: u64,
    #[arg(long)]
    pub(crate) json: bool,
}

pub(crate) fn run(arguments: &BenchAdoptionArguments) -> Result<ExitCode, Failure> {
    if arguments.partitions == 0 || arguments.partitions > 1024 {
        return Err(Failure::usage("--partitions must be 1 to 1024"));
    }
    let dir = scratch("bench-adoption")?;
    let measured = bench_adoption(&dir, arguments.partitions, arguments.urls, arguments.links);
    // A bench's files are nobody's.
    let _ = std::fs::remove_dir_all(&dir);
    tell(&measured?, arguments.json);
    Ok(ExitCode::SUCCESS)
}

fn tell(costs: &AdoptionCosts, as_json: bool) {
    let AdoptionCosts {
        partitions,
        urls,
        bytes: stored,
        objects,
        tail_bytes,
        put_s,
        fetch_s,
        open_s,
        fold_s,
        finish_s,
    } = *costs;
    let all_s = fetch_s + open_s + fold_s + finish_s;
    if as_json {
        let value = json!({
            "partitions": partitions, "urls": urls, "checkpoint_bytes": stored, "objects": objects,
            "tail_bytes": tail_bytes, "put_seconds": put_s, "fetch_seconds": fetch_s,
            "open_seconds": open_s, "fold_seconds": fold_s, "finish_seconds": finish_s,
            "adoption_seconds": all_s, "prepared_seconds": all_s - fetch_s,
            "load_average": load_average(),
        });
        sayln!("{value}");
        return;
    }
    sayln!(
        "{} URLs in {partitions} partitions: checkpoints of {} in {} objects, {} of journal after them; put in {put_s:.1} s",
        thousands(urls),
        bytes(stored),
        thousands(objects),
        bytes(tail_bytes)
    );
    sayln!(
        "taken over in {all_s:.1} s: {fetch_s:.1} s to fetch, {open_s:.1} s to open, {fold_s:.1} s to fold, {finish_s:.1} s to \
         write; {:.1} s where the checkpoints were fetched beforehand; load of the machine {}",
        all_s - fetch_s,
        load_average()
    );
}
