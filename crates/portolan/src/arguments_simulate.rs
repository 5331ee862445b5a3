//! The command line of `portolan simulate`.

use std::ops::Range;

use clap::Args;

/// Run whole crawls of a simulated Web in one thread, with outages, kills and clock steps by seed, and check the invariants.
#[derive(Args)]
#[command(after_help = "Examples:\n  \
    portolan simulate                    seeds 0 to 99\n  \
    portolan simulate --seeds 5000       seeds 0 to 4999\n  \
    portolan simulate --seeds 100..200   seeds 100 to 199\n  \
    portolan simulate --seed 17 -vv      one of them again, with every turn and every request\n\n\
    No network is needed. A seed is the same crawl each time: the same requests at the same simulated times.\n\n\
    Exit code: 0 if all invariants held, 1 if one was broken, 2 for bad input.")]
pub(crate) struct SimulateArguments {
    /// How many seeds, from 0 on, or which: FIRST..END, without END
    #[arg(long, value_name = "N|FIRST..END", value_parser = parse_seeds, default_value = "100", conflicts_with = "seed")]
    pub(crate) seeds: Range<u64>,
    /// This seed alone
    #[arg(long, value_name = "N")]
    pub(crate) seed: Option<u64>,
    /// Tell of hosts that fail, kills and recovery. -vv: of every turn and every request, too
    #[arg(short, long, action = clap::ArgAction::Count)]
    pub(crate) verbose: u8,
}

fn parse_seeds(text: &str) -> Result<Range<u64>, String> {
    let (first, end) = text.split_once("..").unwrap_or(("0", text));
    match (first.parse(), end.parse()) {
        (Ok(first), Ok(end)) if first < end => Ok(first..end),
        _ => Err("write a number of seeds, or FIRST..END: 500 or 100..200".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeds_are_a_number_or_a_range() {
        assert_eq!(parse_seeds("5"), Ok(0..5));
        assert_eq!(parse_seeds("5..9"), Ok(5..9));
        for wrong in ["", "0", "9..5", "5..", "a", "-1"] {
            assert!(parse_seeds(wrong).is_err(), "{wrong}");
        }
    }
}
