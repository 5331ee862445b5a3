//! `portolan config`: every setting, its default, unit and meaning.

use std::io::Write;
use std::process::ExitCode;

use portolan_crawl::Settings;
use portolan_crawl::settings::DEFAULT_TOML;

use super::crawl::read_settings;
use crate::arguments::ConfigArguments;
use crate::failure::Failure;

pub(crate) fn run(arguments: &ConfigArguments) -> Result<ExitCode, Failure> {
    let text = match &arguments.config {
        None => DEFAULT_TOML.to_string(),
        Some(file) => toml::to_string(&read_settings(Some(file), Settings::default())?)
            .map_err(Failure::failed)?,
    };
    std::io::stdout().write_all(text.as_bytes())?;
    Ok(ExitCode::SUCCESS)
}
