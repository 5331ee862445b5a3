//! The hosts that a person named, and which special addresses (private, loopback and so on) they had
//! then. A link or a redirect names nobody, and a name that was public when a person typed it does not
//! become private later: whoever owns a name may point it anywhere.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use portolan_model::CanonicalUrl;
use portolan_net::{Mapping, special};
use tokio::task::JoinSet;

use crate::directory::replace;
use crate::error::CrawlError;
use crate::sealed::{seal, unseal};

/// In the crawl's directory.
pub(crate) const NAMED_FILE: &str = "named";
/// The number is that of the file's format.
const HEAD: &str = "# portolan named 1: hosts that were private when they were named";
/// Names that are asked for at once.
const AT_ONCE: usize = 64;
/// All names together may take this long. What is not known by then counts as public.
const NAMING_LIMIT: Duration = Duration::from_secs(20);

/// Only hosts with a special address are in it: the others need no leave.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Named {
    hosts: BTreeMap<String, Vec<IpAddr>>,
}

impl Named {
    /// What was kept of earlier runs.
    pub(crate) fn read(dir: &Path) -> Result<Self, CrawlError> {
        let path = dir.join(NAMED_FILE);
        let bytes = std::fs::read(&path).map_err(|source| CrawlError::File {
            path: path.clone(),
            source,
        })?;
        // What is not text is told by the checksum.
        let sealed = String::from_utf8_lossy(&bytes);
        let text = unseal(
            &sealed,
            &path,
            "; hosts are named as seeds on the command line",
        )?;
        let parse = |text: &str| {
            let lines = text.strip_prefix(HEAD)?.strip_prefix('\n')?;
            let hosts = lines.lines().map(|line| {
                let (host, addresses) = line.split_once(' ')?;
                let addresses = addresses.split(' ').map(|address| address.parse().ok());
                Some((host.to_owned(), addresses.collect::<Option<_>>()?))
            });
            Some(Self {
                hosts: hosts.collect::<Option<_>>()?,
            })
        };
        parse(text).ok_or_else(|| {
            CrawlError::Input(format!(
                "{} is of another version of Portolan; begin a new crawl in another directory",
                path.display()
            ))
        })
    }

    /// Durable when this returns.
    pub(crate) fn remember(&self, dir: &Path) -> Result<(), CrawlError> {
        let mut text = format!("{HEAD}\n");
        for (host, addresses) in &self.hosts {
            text += host;
            for address in addresses {
                text += &format!(" {address}");
            }
            text += "\n";
        }
        replace(dir, NAMED_FILE, seal(&text).as_bytes())
    }

    /// A person names these seeds now. A host that cannot be resolved keeps what it had when it was last
    /// named, which is nothing for a new one. Addresses from a rule in the settings need no leave: the rule is one.
    pub(crate) fn name(
        &mut self,
        seeds: &[CanonicalUrl],
        mapping: &Arc<Mapping>,
    ) -> Result<(), CrawlError> {
        let mut hosts: Vec<String> = seeds.iter().map(|seed| seed.host().to_owned()).collect();
        hosts.sort_unstable();
        hosts.dedup();
        if hosts.is_empty() {
            return Ok(());
        }
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|e| CrawlError::Internal(format!("the seeds cannot be resolved: {e}")))?;
        runtime.block_on(async {
            let asking = self.ask(hosts, mapping);
            // What is not known in time counts as public.
            let _ = tokio::time::timeout(NAMING_LIMIT, asking).await;
        });
        // The system's resolver may still be waiting for an answer that nobody wants any more.
        runtime.shutdown_background();
        Ok(())
    }

    async fn ask(&mut self, hosts: Vec<String>, mapping: &Arc<Mapping>) {
        let mut left = hosts.into_iter();
        let mut asked = JoinSet::new();
        loop {
            while asked.len() < AT_ONCE {
                let Some(host) = left.next() else { break };
                let mapping = Arc::clone(mapping);
                asked.spawn(async move {
                    let resolved = mapping.resolve(&host).await;
                    (host, resolved)
                });
            }
            let Some(answer) = asked.join_next().await else {
                return;
            };
            let Ok((host, Ok(resolved))) = answer else {
                continue;
            };
            let mut addresses = resolved.addresses.clone();
            addresses.retain(|&address| !resolved.named && special(address).is_some());
            if addresses.is_empty() {
                self.hosts.remove(&host);
            } else {
                self.hosts.insert(host, addresses);
            }
        }
    }

    pub(crate) fn hosts(&self) -> impl Iterator<Item = (String, Vec<IpAddr>)> + '_ {
        let hosts = self.hosts.iter();
        hosts.map(|(host, addresses)| (host.clone(), addresses.clone()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_named_is_kept_and_damage_is_seen() {
        let dir = std::env::temp_dir().join(format!("named-{}", std::process::id()));
        std::fs::create_dir_all(&dir).expect("a directory");
        let address = |text: &str| text.parse::<IpAddr>().expect("an address");
        let hosts = [
            (
                "intranet.test",
                vec![address("10.0.0.7"), address("fd00::1")],
            ),
            ("[::1]", vec![address("::1")]),
        ];
        for named in [
            Named::default(),
            Named {
                hosts: hosts.map(|(host, at)| (host.to_owned(), at)).into(),
            },
        ] {
            named.remember(&dir).expect("kept");
            assert_eq!(Named::read(&dir).expect("read"), named);
        }
        let path = dir.join(NAMED_FILE);
        let text = std::fs::read_to_string(&path).expect("its text");
        for damaged in ["", "x", &text[..20], &text[..text.len() - 3], &text[5..]] {
            std::fs::write(&path, damaged).expect("written");
            assert!(Named::read(&dir).is_err(), "{damaged}");
        }
        std::fs::remove_dir_all(&dir).expect("removed");
    }
}
