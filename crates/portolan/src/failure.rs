//! How a command fails: one clear sentence on stderr, and an exit code that scripts can rely on.

use std::fmt;
use std::process::ExitCode;

use crate::advice;
use crate::output::noteln;
use portolan_archive::ArchiveError;
use portolan_crawl::CrawlError;
use portolan_fleet::FleetError;

/// The person has to change something.
pub(crate) const EXIT_USAGE: u8 = 2;
/// It is not complete: URLs wait for hosts that do not answer.
pub(crate) const EXIT_WAITING: u8 = 3;
/// It could not be done.
pub(crate) const EXIT_FAILED: u8 = 1;

#[derive(Debug)]
pub(crate) struct Failure {
    code: u8,
    sentence: String,
}

impl Failure {
    /// Bad input: names the argument, file and line, or URL, and what to do.
    pub(crate) fn usage(sentence: impl fmt::Display) -> Self {
        Self {
            code: EXIT_USAGE,
            sentence: sentence.to_string(),
        }
    }

    pub(crate) fn failed(sentence: impl fmt::Display) -> Self {
        Self {
            code: EXIT_FAILED,
            sentence: sentence.to_string(),
        }
    }

    /// The same, after what else is to be known.
    pub(crate) fn about(self, what: &str) -> Self {
        Self {
            sentence: format!("{what}; {}", self.sentence),
            ..self
        }
    }

    pub(crate) fn report(self) -> ExitCode {
        noteln!("portolan: {}", advice::with_options(&self.sentence));
        ExitCode::from(self.code)
    }

    /// Ends the program, where nobody is left to return to.
    pub(crate) fn exit(self) -> ! {
        let code = self.code.into();
        self.report();
        std::process::exit(code)
    }
}

impl From<CrawlError> for Failure {
    fn from(error: CrawlError) -> Self {
        match error {
            CrawlError::NoFleet(error) => Failure::from(error),
            CrawlError::Input(_)
            | CrawlError::OtherThings(_)
            | CrawlError::NoCrawl(_)
            | CrawlError::NotBegun(_)
            | CrawlError::NothingFetched(_)
            | CrawlError::BrokenPayload(_) => Failure::usage(advice::on(&error)),
            CrawlError::HalfDivided(_) => Failure::failed(advice::on(&error)),
            // Whoever reads what is printed has seen enough.
            CrawlError::Archive(ArchiveError::Io { source, .. })
            | CrawlError::File { source, .. }
                if source.kind() == std::io::ErrorKind::BrokenPipe =>
            {
                Failure::from(source)
            }
            other => Failure::failed(other),
        }
    }
}

/// What a person can change about it is bad input.
impl From<FleetError> for Failure {
    fn from(error: FleetError) -> Self {
        let sentence = advice::on_fleet(&error);
        match error {
            FleetError::Refused(_)
            | FleetError::Unavailable(_)
            | FleetError::Damaged(_)
            | FleetError::Cut { .. }
            | FleetError::NoHub { .. }
            | FleetError::NoServer { .. } => Failure::failed(sentence),
            _ => Failure::usage(sentence),
        }
    }
}

/// Writing to a closed pipe (`portolan urls | head`) is no failure; anything else is.
impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Self {
        if error.kind() == std::io::ErrorKind::BrokenPipe {
            std::process::exit(0);
        }
        Failure::failed(error)
    }
}
