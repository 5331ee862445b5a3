//! The second step: everything that the crawl keeps on disk is made, opened or recovered, and what was found is told.
//! What the crawl is to be is durable before anything else: killed at any later moment, it can go on.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use portolan_archive::{
    ContentSeen, DurableEnd, FILES_A_NODE, WarcWriter, check_files, claim_archive, file_prefix,
};
use portolan_model::{CanonicalUrl, Identities, PartitionId, Reason};
use portolan_registry::{
    InFleet, Journal, Opened, Partition, Registry, RegistryError, RegistrySettings, Snapshot,
};

use super::Checked;
use crate::assembly;
use crate::check::surt;
use crate::crawl::{ARCHIVE_DIR, Plan, REGISTRY_DIR, SEEN_DIR};
use crate::directory;
use crate::division::Division;
use crate::error::CrawlError;
use crate::gate::{Door, Gate};
use crate::judging::{Criteria, Judged, Judging};
use crate::named::Named;
use crate::pauses::Pauses;
use crate::politeness::Politeness;
use crate::recovery::Recovered;
use crate::redivide::Divided;
use crate::retry::Retry;
use crate::scope::ScopeKind;
use crate::secret;
use crate::session::{self, Asked, Beginning};

/// What the crawl keeps, open, and how it was found.
pub(crate) struct Books {
    pub(super) checked: Checked,
    pub(super) dir: PathBuf,
    pub(super) ids: Identities,
    pub(super) named: Named,
    pub(super) journal: Journal,
    pub(super) partitions: Vec<Partition>,
    /// A node's ends of its registry.
    pub(crate) in_fleet: Option<InFleet>,
    /// When the registry was opened; tells this run from others.
    pub(super) run_ms: u64,
    /// Seeds and what they redirected to: where the scope begins.
    pub(super) roots: Vec<CanonicalUrl>,
    /// Seeds that no log knows yet.
    pub(super) new_seeds: Vec<CanonicalUrl>,
    pub(super) archive: Archive,
    pub(super) division: Division,
    pub(super) politeness: Politeness,
    pub(super) pauses: Pauses,
    pub(super) gate: Gate,
    /// Settings have changed: what is known is judged again.
    pub(super) judging: Option<Judging>,
    /// The crawl was divided anew.
    pub(crate) divided: Option<Divided>,
    /// A new session begins.
    pub(super) beginning: Option<Beginning>,
    /// The number of the session, and when it began.
    pub(super) session: (u32, u64),
    /// New URLs wait for their share of a rate that this run does not have.
    pub(super) some_wait: bool,
    /// What is to be asked for again, and what was known before this run.
    pub(super) retry: Option<(Retry, Snapshot)>,
}

/// The archive, and how it was found.
pub(super) struct Archive {
    pub(super) warc: WarcWriter,
    pub(super) seen: ContentSeen,
    pub(super) recovered: Recovered,
}

impl Books {
    /// The partitions that were found.
    pub(crate) fn held(&self) -> Vec<PartitionId> {
        self.partitions.iter().map(Partition::id).collect()
    }

    /// The crawl may go where this lives, too: other nodes found it.
    pub(crate) fn widen(&mut self, root: &CanonicalUrl) {
        self.checked.scope.add_root(root);
    }
}

impl Checked {
    /// Make, open or recover the crawl's directory.
    pub(crate) fn open(mut self) -> Result<Books, CrawlError> {
        let settings = &self.plan.settings;
        let resumed = self.resumed;
        let dir = directory::prepare(&self.plan.dir, resumed)?;
        // What a person named is what this run was given and what earlier runs were given, and nothing that a
        // server said.
        let (ids, mut named) = match resumed {
            true => (secret::read(&dir)?, Named::read(&dir)?),
            false => (self.make_secret(&dir)?, Named::default()),
        };
        if !settings.dns.allow_private {
            // What a name stands for is then for the proxy to know, but not what an address does.
            let is_known = |seed: &&CanonicalUrl| !self.proxy_resolves || is_address(seed.host());
            let known: Vec<CanonicalUrl> = self.seeds.iter().filter(is_known).cloned().collect();
            named.name(&known, &self.mapping)?;
        }
        if resumed {
            let given: HashSet<CanonicalUrl> = self.seeds.iter().cloned().collect();
            let earlier = directory::remembered_seeds(&dir)?;
            let earlier = earlier.into_iter().filter(|s| !given.contains(s));
            self.seeds.extend(earlier);
        } else {
            self.chosen.remember(&dir)?;
            directory::remember_ranks(&dir, settings)?;
            named.remember(&dir)?;
            Judged::remember(&dir, &Criteria::of(settings, &self.scope)?)?;
            directory::remember(&dir, &self.seeds, settings)?;
        }
        let retry_now = self.plan.retry.is_some();
        let retry = match self.plan.retry.take() {
            Some(retry) if resumed => Some((retry, Snapshot::open(&dir.join(REGISTRY_DIR), ids)?)),
            _ => None,
        };
        let registry = self.open_registry(&dir, ids, retry_now)?;
        // The machine's clock may have been set back since.
        self.clock.go_on_from(registry.opened_ms);
        let (roots, new_seeds) = self.take_known_seeds(&registry.seeds);
        let archive = self.open_archive(&dir, &registry)?;
        if resumed {
            // Only now is it certain that no other process is at work here, and that all can be opened.
            named.remember(&dir)?;
            directory::remember(&dir, &self.seeds, &self.plan.settings)?;
        }
        let judging = match resumed {
            true => Judging::wanted(&dir, &self.plan.settings, &self.scope)?,
            false => None,
        };
        let keep_fresh = self.plan.keep_fresh;
        if self.plan.settings.frontier_server.is_used() {
            refuse_beside_server(&self.plan, !self.seeds.is_empty())?;
        }
        if keep_fresh {
            refuse_nothing_known(&dir, &registry.partitions)?;
        }
        let some_wait = !keep_fresh
            && registry
                .partitions
                .iter()
                .any(|p| p.stats().by_reason(Reason::WaitsForItsShare) > 0);
        let beginning = match resumed {
            true => {
                let asked_for = Asked {
                    new_session: self.plan.new_session,
                    keep_fresh,
                    ranked: self.plan.ranked_session,
                };
                let now_ms = self.clock.now_ms();
                Beginning::wanted(&dir, &registry.partitions, asked_for, now_ms)?
            }
            false => None,
        };
        let session = session::of(&registry.partitions, beginning.as_ref());
        // Nothing is remembered from here on.
        self.plan.this_run.apply(&mut self.plan.settings);
        if keep_fresh {
            // There is no next run that would ask a host again that this one gave up.
            self.plan.settings.outages.never_give_up();
        }
        let begun_before = registry.partitions.iter().any(|p| p.applied() > 0);
        let division = match registry.in_fleet {
            Some(_) => {
                let partitions = self.chosen.partitions();
                self.chosen.open_in_fleet(&dir, partitions, ids)?
            }
            None => {
                let partitions = registry.partitions.len() as u16;
                self.chosen.open(&dir, partitions, begun_before)?
            }
        };
        let mut journal = registry.journal;
        if let Some(homes) = division.homes() {
            journal.set_homes(homes, &registry.partitions)?;
        }
        let settings = &self.plan.settings;
        let politeness = Politeness::new(
            settings.politeness.clone(),
            settings.outages.clone(),
            registry.opened_ms,
        );
        let (pauses, gate) = self.open_gate(&dir, politeness.ip_delay_ms())?;
        Ok(Books {
            dir,
            ids,
            named,
            journal,
            partitions: registry.partitions,
            in_fleet: registry.in_fleet,
            run_ms: registry.opened_ms,
            roots,
            new_seeds,
            archive,
            division,
            politeness,
            pauses,
            gate,
            judging,
            divided: None,
            beginning,
            session,
            some_wait,
            retry,
            checked: self,
        })
    }

    fn make_secret(&self, dir: &Path) -> Result<Identities, CrawlError> {
        match &self.plan.part {
            Some(part) => secret::put(dir, part.secret),
            None => secret::make(dir, &self.plan.outside),
        }
    }

    fn open_registry(
        &self,
        dir: &Path,
        ids: Identities,
        retry_now: bool,
    ) -> Result<Opened, CrawlError> {
        let part = self.plan.part.as_ref();
        let crawl_id = match part {
            Some(part) => part.crawl_id,
            None => directory::new_crawl_id(&self.plan.outside)?,
        };
        let identity = (ids, crawl_id);
        let partitions = self.chosen.partitions();
        let settings = RegistrySettings {
            retry_now,
            merge_inline: self.plan.outside.chance.is_some(),
            shipped_frames: part.map(|part| part.shipped_frames),
            ..assembly::registry(&self.plan.settings, partitions, identity)
        };
        let dir = dir.join(REGISTRY_DIR);
        Registry::open(&dir, &settings, self.clock.now_ms()).map_err(|error| match error {
            RegistryError::Settings { .. } => CrawlError::Input(error.to_string()),
            other => other.into(),
        })
    }

    /// What seeds redirected to, as the logs know it, widens the scope as seeds do. Returns all roots of the scope, and
    /// the seeds that no log knows.
    fn take_known_seeds(&mut self, known: &[String]) -> (Vec<CanonicalUrl>, Vec<CanonicalUrl>) {
        let planted: HashSet<&str> = known.iter().map(String::as_str).collect();
        let is_new = |seed: &&CanonicalUrl| !planted.contains(seed.as_str());
        let new_seeds = self.seeds.iter().filter(is_new).cloned().collect();
        let known = known.iter().cloned().map(CanonicalUrl::from_canonical);
        let mut roots = self.seeds.clone();
        roots.extend(known.filter_map(Result::ok));
        for root in &roots {
            self.scope.add_root(root);
        }
        (roots, new_seeds)
    }

    fn open_archive(&self, dir: &Path, registry: &Opened) -> Result<Archive, CrawlError> {
        // Partitions that have come from other nodes name those nodes' files.
        let ours = u32::from(self.archive.node_number);
        let mut files = registry.archive_files.clone();
        files.retain(|(number, _)| number / FILES_A_NODE == ours);
        let end = registry.archive_end;
        let durable = end.map(|(file, end)| DurableEnd { file, end });
        if durable.is_none() || dir.join(ARCHIVE_DIR).is_dir() {
            claim_archive(dir, &directory::archive_id(registry.crawl_id))?;
        }
        let faults = check_files(
            dir,
            &file_prefix(&self.archive.prefix, &self.archive.node),
            &files,
        )?;
        let (warc, recovery) = WarcWriter::recover(
            dir,
            self.archive.clone(),
            durable,
            &surt,
            self.clock.clone(),
            self.plan.outside.record_seed(self.clock.wall_ms(), 0),
        )?;
        let crash = (registry.after_crash, registry.torn_log_bytes);
        let recovered = Recovered::new(crash, &recovery, &faults);
        let ram_bytes = self.archive.seen_ram_bytes;
        let seen = ContentSeen::open(&dir.join(SEEN_DIR), ram_bytes, durable)?;
        Ok(Archive {
            warc,
            seen,
            recovered,
        })
    }

    /// What earlier runs owe to hosts and addresses, and the cookies that they were given.
    fn open_gate(&self, dir: &Path, ip_delay_ms: u64) -> Result<(Pauses, Gate), CrawlError> {
        if let Some(cookies) = &self.access.cookies {
            cookies.open(dir, self.clock.wall_ms())?;
        }
        let (pauses, resting) = Pauses::open(dir, self.clock.clone())?;
        let addresses_from_ms = self.clock.now_ms() + ip_delay_ms + 1;
        let gate = Gate::new(if self.resumed { addresses_from_ms } else { 0 });
        for (host, not_before_ms) in resting {
            gate.shut_until(Door::Host(host), not_before_ms);
        }
        Ok((pauses, gate))
    }
}

/// What a server grants is its own affair: what makes known URLs due here does not go with it.
fn refuse_beside_server(plan: &Plan, has_seeds: bool) -> Result<(), CrawlError> {
    let has_scope = plan.settings.scope.scope == ScopeKind::Any || has_seeds;
    if !has_scope {
        return Err(CrawlError::Input(
            "frontier_server.url: without a seed nothing is in scope, so nothing that the server grants would be fetched; name a seed, or set scope.scope to \"any\""
                .to_owned(),
        ));
    }
    let other = match plan {
        Plan {
            keep_fresh: true, ..
        } => "keep-fresh",
        Plan {
            new_session: true, ..
        } => "a new session",
        Plan { part: Some(_), .. } => "a fleet",
        _ => return Ok(()),
    };
    Err(CrawlError::Input(format!(
        "frontier_server.url: where a server grants what is fetched, there is no {other}; set it to \"\" or leave that out"
    )))
}

/// Where no page was fetched there is none to keep fresh.
fn refuse_nothing_known(dir: &Path, partitions: &[Partition]) -> Result<(), CrawlError> {
    let sessions = partitions.iter().flat_map(|p| &p.stats().sessions);
    if sessions.map(|session| session.pages).sum::<u64>() > 0 {
        return Ok(());
    }
    Err(CrawlError::NothingFetched(dir.to_owned()))
}

/// Is it an address, or a name that is always this machine's?
pub(crate) fn is_address(host: &str) -> bool {
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    bare.parse::<std::net::IpAddr>().is_ok() || bare == "localhost"
}
