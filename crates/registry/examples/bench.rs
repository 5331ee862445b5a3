//! `cargo run --release -p portolan-registry --example bench -- DIR OBSERVATIONS`

use std::path::Path;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let (dir, observations) = match (args.next(), args.next()) {
        (Some(dir), Some(number)) => (dir, number.parse()?),
        _ => return Err("give a directory and a number of observations".into()),
    };
    portolan_registry::bench::run(Path::new(&dir), observations, 1, |row| println!("{row:#?}"))?;
    Ok(())
}
