//! The registry's benchmarks without the rest of Portolan, for profiling:
//! `cargo run --release -p portolan-registry --example bench -- DIR OBSERVATIONS`, `… -- DIR reopen`
//! or `… -- DIR turns HOSTS`.

use portolan_registry::bench::{Filling, Stream, reopen, run, run_turns};
use std::path::Path;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match &args.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [dir, "turns", hosts] => {
            let filling = Filling {
                hosts: hosts.parse()?,
                urls_per_host: 10,
                visited_per_host: 0,
            };
            let row = run_turns(Path::new(dir), filling, 50_000)?;
            println!("{row:#?}");
        }
        [dir, "reopen"] => println!("{:#?}", reopen(Path::new(dir))?),
        [dir, observations] => {
            let stream = Stream {
                observations: observations.parse()?,
                seed: 1,
                per_second: None,
            };
            run(Path::new(dir), stream, |row| println!("{row:#?}"))?;
        }
        _ => return Err("give a directory and a number of observations".into()),
    }
    Ok(())
}
