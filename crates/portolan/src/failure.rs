//! How a command fails: one clear sentence on stderr, and an exit code that scripts can rely on.

use std::fmt;
use std::process::ExitCode;

use crate::output::noteln;
use portolan_archive::ArchiveError;
use portolan_crawl::CrawlError;

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
        noteln!("portolan: {}", self.sentence);
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
            CrawlError::Input(sentence) => Failure::usage(sentence),
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

/// Writing to a closed pipe (`portolan urls | head`) is no failure; anything else is.
impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Self {
        if error.kind() == std::io::ErrorKind::BrokenPipe {
            std::process::exit(0);
        }
        Failure::failed(error)
    }
}
