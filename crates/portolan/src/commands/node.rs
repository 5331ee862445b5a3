//! `portolan node`: a machine's part of a crawl that many machines share.

use std::process::ExitCode;
use std::sync::atomic::Ordering;
use std::time::Duration;

use portolan_crawl::CrawlError;
use portolan_crawl::fleet::{Leave, NodeEvent, NodePlan, Quit, quitting, run_node};
use portolan_crawl::report::counted;

use crate::advice;
use crate::arguments_fleet::NodeArguments;
use crate::commands::crawl::Heard;
use crate::failure::Failure;
use crate::log;
use crate::output::{noteln, say, sayln};

const POLL: Duration = Duration::from_millis(50);

pub(crate) fn run(arguments: &NodeArguments) -> Result<ExitCode, Failure> {
    log::begin(arguments.verbose, arguments.log.as_deref())?;
    if !(arguments.weight > 0.0 && arguments.weight.is_finite()) {
        return Err(Failure::usage("--weight must be more than 0"));
    }
    let plan = NodePlan {
        servers: arguments.servers.servers(),
        fleet: arguments.fleet.clone(),
        node: arguments.node_name()?,
        dir: arguments.dir.clone(),
        threads: arguments.threads,
        weight: arguments.weight,
        role: arguments.role,
        connections: arguments.connections,
        max_connections: arguments.max_connections,
    };
    let quiet = arguments.quiet;
    let heard = Heard::listen()?;
    let (asked, quit) = quitting();
    std::thread::spawn(move || {
        let mut heeded = 0;
        loop {
            std::thread::sleep(POLL);
            let interrupts = heard.interrupts.load(Ordering::SeqCst);
            if interrupts == heeded {
                continue;
            }
            heeded = interrupts;
            let wanted = match interrupts {
                1 => {
                    tell(quiet, "Leaving. Once more to stop at once.");
                    Quit::Drain
                }
                _ => {
                    tell(quiet, "Stopping at once.");
                    Quit::Now
                }
            };
            asked.send_replace(wanted);
        }
    });
    let (name, fleet) = (plan.node.clone(), plan.fleet.clone());
    let report = run_node(&plan, quit, |event| match event {
        NodeEvent::Joined { resumed: false } => {
            tell(quiet, &format!("Node {name} has joined fleet {fleet}."));
        }
        NodeEvent::Joined { resumed: true } => {
            tell(quiet, &format!("Node {name} goes on in fleet {fleet}."));
        }
        NodeEvent::NewSettings => tell(
            quiet,
            "The fleet's settings have changed: going on with these.",
        ),
        NodeEvent::Fenced(why) => noteln!("Node {name} joins anew: {why}"),
        NodeEvent::Leaves(leave) => tell(quiet, &sentence(leave)),
    })
    .map_err(|error| match error {
        CrawlError::Input(sentence) => Failure::usage(advice::for_node(&sentence)),
        error => error.into(),
    })?;
    if arguments.json {
        sayln!(
            "{}",
            serde_json::to_string(&report).map_err(Failure::failed)?
        );
    } else if !quiet {
        say!("{report}");
    }
    Ok(ExitCode::SUCCESS)
}

fn sentence(leave: Leave) -> String {
    let of = |partitions| counted(partitions as u64, "partition");
    match leave {
        Leave::HandsOver {
            partitions,
            at_most,
        } => format!(
            "Other nodes take {} over; this node crawls on meanwhile, for {} s at most.",
            of(partitions),
            at_most.as_secs()
        ),
        Leave::Left { partitions } => format!("{} left to hand over.", of(partitions)),
        Leave::HandedOver => "Everything is with other nodes.".to_owned(),
        Leave::Alone { partitions } => format!(
            "No other node is there to take {} over: what is under way is finished and shipped.",
            of(partitions)
        ),
        Leave::TookTooLong {
            partitions: Some(partitions),
        } => format!(
            "{} could not be handed over in time; others get them from what is shipped.",
            of(partitions)
        ),
        Leave::TookTooLong { partitions: None } => {
            "NATS does not say who could have the partitions; what is under way is finished and shipped.".to_owned()
        }
    }
}

fn tell(quiet: bool, sentence: &str) {
    if !quiet {
        noteln!("{sentence}");
    }
}
