//! `portolan completions` and `portolan man`: what the command line is, for shells and for `man`.

use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

use clap::{Command, CommandFactory};

use crate::arguments::{Arguments, CompletionsArguments, ManArguments};
use crate::failure::Failure;

pub(crate) fn completions(arguments: &CompletionsArguments) -> Result<ExitCode, Failure> {
    let mut command = Arguments::command();
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, &mut command, "portolan", &mut script);
    std::io::stdout().write_all(&script)?;
    Ok(ExitCode::SUCCESS)
}

pub(crate) fn man(arguments: &ManArguments) -> Result<ExitCode, Failure> {
    let mut command = Arguments::command().disable_help_subcommand(true);
    command.build();
    if let Some(dir) = &arguments.out {
        std::fs::create_dir_all(dir).map_err(|e| at(dir, &e))?;
        write_all(dir, &command, "portolan")?;
        return Ok(ExitCode::SUCCESS);
    }
    let (mut page, mut name) = (&command, "portolan".to_owned());
    for word in &arguments.command {
        page = page.find_subcommand(word).ok_or_else(|| {
            Failure::usage(format!(
                "'{name}' has no command '{word}'; '{name} --help' lists them"
            ))
        })?;
        name = format!("{name} {word}");
    }
    std::io::stdout().write_all(&rendered(page, &name)?)?;
    Ok(ExitCode::SUCCESS)
}

/// A page for a command and each one below it: portolan.1, portolan-crawl.1, portolan-warc-cat.1, …
fn write_all(dir: &Path, command: &Command, name: &str) -> Result<(), Failure> {
    let file = dir.join(format!("{}.1", name.replace(' ', "-")));
    std::fs::write(&file, rendered(command, name)?).map_err(|e| at(&file, &e))?;
    for below in command.get_subcommands() {
        write_all(dir, below, &format!("{name} {}", below.get_name()))?;
    }
    Ok(())
}

fn rendered(command: &Command, name: &str) -> Result<Vec<u8>, Failure> {
    let mut page = Vec::new();
    let command = command
        .clone()
        .display_name(name.replace(' ', "-"))
        .bin_name(name);
    clap_mangen::Man::new(command).render(&mut page)?;
    Ok(page)
}

fn at(path: &Path, error: &std::io::Error) -> Failure {
    Failure::usage(format!("--out {}: {error}", path.display()))
}
