//! How a crawl was divided when it began, as its directory has it: it goes on as it began.

use std::path::Path;

use super::{DIVISION_DIR, REMEMBERED_FILE};
use crate::error::CrawlError;
use crate::sealed::unseal;
use crate::settings::{ExchangeMode, PartitionMethod, PartitionSettings};

/// By hash, with links exchanged: nothing needs to be remembered of that.
pub(super) fn is_usual(settings: &PartitionSettings) -> bool {
    settings.method == PartitionMethod::Hash && settings.mode == ExchangeMode::Exchange
}

/// What the crawl in `dir` began with; `None` is by hash, with links exchanged.
pub(super) fn remembered(dir: &Path) -> Result<Option<PartitionSettings>, CrawlError> {
    let path = dir.join(DIVISION_DIR).join(REMEMBERED_FILE);
    match std::fs::read(&path) {
        Ok(bytes) => {
            let sealed = String::from_utf8_lossy(&bytes);
            let text = unseal(&sealed, &path, "")?;
            toml::from_str(text).map(Some).map_err(|_| {
                CrawlError::Input(format!(
                    "{} is damaged; restore the file from a copy",
                    path.display()
                ))
            })
        }
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(CrawlError::File { path, source }),
    }
}

pub(super) fn must_agree(
    wanted: &PartitionSettings,
    began: Option<&PartitionSettings>,
    dir: &Path,
) -> Result<(), CrawlError> {
    let differs = |setting: &str| {
        Err(CrawlError::Input(format!(
            "partition.{setting}: it is fixed when a crawl begins, and the one in {} began with another; a new session can be divided anew",
            dir.display()
        )))
    };
    let method = began.map_or(PartitionMethod::Hash, |began| began.method);
    if wanted.method != method {
        return differs("method");
    }
    if wanted.mode != began.map_or(ExchangeMode::Exchange, |began| began.mode) {
        return differs("mode");
    }
    match began {
        Some(began) if method == PartitionMethod::Vector => {
            if wanted.unlisted != began.unlisted {
                return differs("unlisted");
            }
            if wanted.max_claims != began.max_claims {
                return differs("max_claims");
            }
            Ok(())
        }
        _ => Ok(()),
    }
}
