//! Who fetches what in this crawl: the partitioner that the settings name, and what the crawl's directory
//! remembers of it. Whatever the method, a site belongs to one partition until a
//! new session is divided anew (`redivide`), which is what `once` and `polite` rest on.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use portolan_graph::{DSets, PartVector, Unit, Unlisted, VectorPartitioner};
use portolan_model::{FixedSiteHash, Identities, PartitionId, Partitioner, UrlKey};
use portolan_registry::{Entry, Homes};

use crate::assembly;
use crate::claims::{self, ClaimFile};
use crate::directory::{make_dir, replace};

use crate::error::CrawlError;
use crate::sealed::seal;
use crate::settings::{
    ExchangeMode, MAX_PARTITIONS, PartitionMethod, PartitionSettings, Settings, UnlistedSites,
};
use homes::FoundSites;
use remembered::{is_usual, must_agree, remembered};
pub use traffic::Exchanged;
use traffic::Traffic;

mod homes;
mod remembered;
mod traffic;

/// In the crawl's directory, unless sites are shared out by hash.
pub(crate) const DIVISION_DIR: &str = "partition";
const REMEMBERED_FILE: &str = "settings.toml";
const VECTOR_FILE: &str = "parts.pv";
const DSETS_FILE: &str = "dsets.txt";
const CLAIMS_FILE: &str = "claims";
/// What is said of a setting that a method needs and that is empty.
const NO_FILE: &str = "it names no file, and this method needs one";

/// What the settings ask for, checked; nothing is written yet.
pub(crate) struct Chosen {
    settings: PartitionSettings,
    partitions: u16,
    source: Source,
}

enum Source {
    Hash,
    Dsets { sets: DSets, text: String },
    Vector { path: PathBuf, checksum: u64 },
}

/// The partitioner at work.
pub(crate) struct Division {
    partitioner: Arc<dyn Partitioner>,
    mode: ExchangeMode,
    traffic: Traffic,
    /// Where discoverers keep what they find, on one machine.
    claiming: Option<Claiming>,
    /// In a fleet, the homes of sites decide.
    found: Option<Arc<FoundSites>>,
}

struct Claiming {
    partitioner: Arc<VectorPartitioner>,
    file: Mutex<ClaimFile>,
}

impl Chosen {
    /// `dir` is the crawl that goes on, if one does: it goes on as it began.
    pub(crate) fn of(settings: &Settings, dir: Option<&PathBuf>) -> Result<Self, CrawlError> {
        let wanted = &settings.sharing();
        if let Some(dir) = dir {
            must_agree(wanted, remembered(dir)?.as_ref(), dir)?;
        }
        let kept = |name: &str| dir.map(|dir| dir.join(DIVISION_DIR).join(name));
        let (source, partitions) = match wanted.method {
            PartitionMethod::Hash => (Source::Hash, assembly::partitions(settings)),
            PartitionMethod::Dset => {
                let partitions = assembly::partitions(settings).max(settings.dset.len() as u16);
                let (sets, text) = match settings.dset.is_empty() {
                    true => read_dsets(&kept_or_named(wanted, kept(DSETS_FILE))?)?,
                    false => {
                        let text = settings.dsets_text();
                        (DSets::of(&text).map_err(|e| wrong("dsets", &e))?, text)
                    }
                };
                if dir.is_none() {
                    sets.partitioner(partitions)
                        .map_err(|e| wrong("dsets", &e))?;
                }
                if let Some(kept) = kept(DSETS_FILE).filter(|_| !settings.dset.is_empty())
                    && std::fs::read_to_string(kept).is_ok_and(|kept| kept != text)
                {
                    return Err(CrawlError::Input(
                        "[[dset]]: blocks are fixed when a crawl begins; put them back as they were, or begin another crawl"
                            .to_owned(),
                    ));
                }
                (Source::Dsets { sets, text }, partitions)
            }
            PartitionMethod::Vector => {
                let path = kept_or_named(wanted, kept(VECTOR_FILE))?;
                let vector = open_vector(&path)?;
                let parts = vector.parts();
                fits(settings, &path, parts)?;
                let checksum = vector.checksum();
                (Source::Vector { path, checksum }, parts)
            }
        };
        let chosen = Self {
            settings: wanted.clone(),
            partitions,
            source,
        };
        if let Some(dir) = dir {
            chosen.must_be_the_same_file(dir)?;
        }
        Ok(chosen)
    }

    /// What a crawl is divided by anew. `cut` is the part vector, where these settings say that there is one.
    pub(crate) fn anew(settings: &Settings, cut: &Path) -> Result<Self, CrawlError> {
        let source = match settings.partition.method {
            PartitionMethod::Vector => Source::Vector {
                path: cut.to_owned(),
                checksum: open_vector(cut)?.checksum(),
            },
            PartitionMethod::Hash | PartitionMethod::Dset => Source::Hash,
        };
        Ok(Self {
            settings: settings.partition.clone(),
            partitions: settings.registry.partitions,
            source,
        })
    }

    /// How many a new crawl gets.
    pub(crate) fn partitions(&self) -> u16 {
        self.partitions
    }

    /// Before the crawl begins: what it needs to go on after the files that were named are gone.
    pub(crate) fn remember(&self, dir: &Path) -> Result<(), CrawlError> {
        let dir = dir.join(DIVISION_DIR);
        // A crawl that never began may have left its own.
        match std::fs::remove_dir_all(&dir) {
            Err(source) if source.kind() != std::io::ErrorKind::NotFound => {
                return Err(CrawlError::File { path: dir, source });
            }
            _ => {}
        }
        if is_usual(&self.settings) {
            return Ok(());
        }
        make_dir(&dir).map_err(|source| CrawlError::File {
            path: dir.clone(),
            source,
        })?;
        match &self.source {
            Source::Hash => {}
            Source::Dsets { text, .. } => replace(&dir, DSETS_FILE, text.as_bytes())?,
            Source::Vector { path, .. } => {
                let bytes = std::fs::read(path).map_err(|source| CrawlError::File {
                    path: path.clone(),
                    source,
                })?;
                replace(&dir, VECTOR_FILE, &bytes)?;
            }
        }
        let text =
            toml::to_string(&self.settings).map_err(|e| CrawlError::Internal(e.to_string()))?;
        replace(&dir, REMEMBERED_FILE, seal(&text).as_bytes())
    }

    /// `partitions` is how many the registry has, `begun` whether anything is in its logs: then claims may be, too.
    pub(crate) fn open(
        &self,
        dir: &Path,
        partitions: u16,
        begun: bool,
    ) -> Result<Division, CrawlError> {
        let division = self.open_partitioner(dir, partitions, begun)?;
        Ok(Division {
            mode: self.settings.mode,
            ..division
        })
    }

    /// The same on a node of a fleet.
    pub(crate) fn open_in_fleet(
        &self,
        dir: &Path,
        partitions: u16,
        ids: Identities,
    ) -> Result<Division, CrawlError> {
        if self.unlisted() != Some(UnlistedSites::Discoverer) {
            return self.open(dir, partitions, false);
        }
        let vector = self.open_own_vector(&dir.join(DIVISION_DIR), partitions)?;
        let found = Arc::new(FoundSites::new(vector, ids, self.settings.max_claims));
        Ok(Division {
            partitioner: Arc::clone(&found) as Arc<dyn Partitioner>,
            mode: self.settings.mode,
            traffic: Traffic::default(),
            claiming: None,
            found: Some(found),
        })
    }

    /// Who gets what a part vector does not list; `None` without one.
    fn unlisted(&self) -> Option<UnlistedSites> {
        matches!(self.source, Source::Vector { .. }).then_some(self.settings.unlisted)
    }

    /// The crawl's own copy of its part vector. `dir` is where the division is kept.
    fn open_own_vector(&self, dir: &Path, partitions: u16) -> Result<PartVector, CrawlError> {
        let path = dir.join(VECTOR_FILE);
        let vector = open_vector(&path)?;
        let is_ours =
            matches!(self.source, Source::Vector { checksum, .. } if checksum == vector.checksum());
        if is_ours && vector.parts() == partitions {
            return Ok(vector);
        }
        Err(CrawlError::Input(format!(
            "{}: it changed while the crawl began; start again",
            path.display()
        )))
    }

    fn open_partitioner(
        &self,
        dir: &Path,
        partitions: u16,
        begun: bool,
    ) -> Result<Division, CrawlError> {
        let dir = dir.join(DIVISION_DIR);
        let unlisted = match &self.source {
            Source::Hash => {
                return Ok(Division::by_hash(partitions));
            }
            Source::Dsets { sets, .. } => {
                let placed = sets
                    .partitioner(partitions)
                    .map_err(|e| wrong("dsets", &e))?;
                return Ok(Division::of(placed));
            }
            Source::Vector { .. } => match self.settings.unlisted {
                UnlistedSites::SiteHash => Unlisted::SiteHash,
                UnlistedSites::Discoverer => Unlisted::Discoverer,
            },
        };
        let vector = self.open_own_vector(&dir, partitions)?;
        let max_claims = self.settings.max_claims as usize;
        let partitioner = VectorPartitioner::new(vector, unlisted, max_claims);
        if unlisted == Unlisted::SiteHash {
            return Ok(Division::of(partitioner));
        }
        let path = dir.join(CLAIMS_FILE);
        if begun && !path.exists() {
            return Err(CrawlError::Input(format!(
                "{} is missing; restore the file from a copy",
                path.display()
            )));
        }
        let (file, claims) = ClaimFile::open(path)?;
        let partitioner = Arc::new(partitioner.with_claims(claims.into_iter()));
        Ok(Division {
            partitioner: Arc::clone(&partitioner) as Arc<dyn Partitioner>,
            mode: ExchangeMode::default(),
            traffic: Traffic::default(),
            claiming: Some(Claiming {
                partitioner,
                file: Mutex::new(file),
            }),
            found: None,
        })
    }

    /// A file that is still there under the name that the settings give it must be the one that the
    /// crawl began with.
    fn must_be_the_same_file(&self, dir: &Path) -> Result<(), CrawlError> {
        let (setting, named) = match self.source {
            Source::Hash => return Ok(()),
            Source::Dsets { .. } => ("dsets", &self.settings.dsets),
            Source::Vector { .. } => ("vector", &self.settings.vector),
        };
        let named = Path::new(named);
        if named.as_os_str().is_empty() || !named.exists() {
            return Ok(());
        }
        let same = match &self.source {
            Source::Hash => true,
            Source::Dsets { text, .. } => {
                std::fs::read_to_string(named).is_ok_and(|found| found == *text)
            }
            Source::Vector { checksum, .. } => open_vector(named)?.checksum() == *checksum,
        };
        if same {
            return Ok(());
        }
        Err(CrawlError::Input(format!(
            "partition.{setting}: {} is not the file that the crawl in {} began with; leave it out to go on with the crawl's own copy, or begin another crawl",
            named.display(),
            dir.display()
        )))
    }
}

impl Division {
    /// By hash of the site.
    pub(crate) fn by_hash(parts: u16) -> Self {
        Self::of(FixedSiteHash { parts })
    }

    fn of(partitioner: impl Partitioner + 'static) -> Self {
        Self {
            partitioner: Arc::new(partitioner),
            mode: ExchangeMode::default(),
            traffic: Traffic::default(),
            claiming: None,
            found: None,
        }
    }

    /// Who decides about sites as their links reach the journal; in a fleet, where the part vector leaves some to whoever finds
    /// them.
    pub(crate) fn homes(&self) -> Option<Arc<dyn Homes>> {
        let found = self.found.as_ref()?;
        Some(Arc::clone(found) as Arc<dyn Homes>)
    }

    /// May a link that `discoverer` found go to the log of `owner`? If not, it is counted as thrown away.
    pub(crate) fn lets_through(&self, discoverer: PartitionId, owner: PartitionId) -> bool {
        let through = owner == discoverer || self.mode != ExchangeMode::Firewall;
        if !through {
            self.traffic.note_discarded();
        }
        through
    }

    /// Counts what a commit sends from partition to partition.
    pub(crate) fn note_commit(&self, entries: &[(PartitionId, Entry)]) {
        self.traffic.note_commit(self.mode, entries);
    }

    /// What went between partitions in this run.
    pub(crate) fn exchanged(&self) -> Exchanged {
        self.traffic.read(self.mode)
    }

    pub(crate) fn partitions(&self) -> u16 {
        self.partitioner.parts()
    }

    /// The partition that fetches this URL, and every other of its site. `found_by`: whose page names it; `None` for what a
    /// person named.
    pub(crate) fn owner_of(&self, url: UrlKey<'_>, found_by: Option<PartitionId>) -> PartitionId {
        match found_by {
            Some(discoverer) if self.mode == ExchangeMode::CrossOver => discoverer,
            Some(discoverer) => self.part_of(url, discoverer),
            // What nobody discovered goes where its name's hash says.
            None => self.part_of(url, PartitionId::of(url.host, self.partitions())),
        }
    }

    /// The partition that fetches this URL, if that is known here: links may go to the home of a site that another has.
    pub(crate) fn known_owner_of(
        &self,
        url: UrlKey<'_>,
        found_by: PartitionId,
    ) -> Option<PartitionId> {
        match &self.found {
            Some(found) => found.owner_of(url),
            None => Some(self.owner_of(url, Some(found_by))),
        }
    }

    /// The same, whatever the mode.
    pub(crate) fn part_of(&self, url: UrlKey<'_>, discoverer: PartitionId) -> PartitionId {
        self.partitioner.part_of(url, discoverer)
    }

    /// What `part_of` has decided so far holds after a crash, too. To be called before anything that relies
    /// on it is written to a log.
    pub(crate) fn make_durable(&self) -> Result<(), CrawlError> {
        let Some(claiming) = &self.claiming else {
            return Ok(());
        };
        let claims = claiming.partitioner.take_claims();
        if claims.is_empty() {
            return Ok(());
        }
        claiming
            .file
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
            .append(&claims)
    }
}

fn read_dsets(path: &Path) -> Result<(DSets, String), CrawlError> {
    let sets = DSets::read(path).map_err(|e| wrong("dsets", &e))?;
    let text = std::fs::read_to_string(path).map_err(|e| wrong("dsets", &e))?;
    Ok((sets, text))
}

/// The extensions of the DSets that the crawl in `dir` is divided by, the first of partition 0; empty if it is divided
/// in another way.
pub fn dsets(dir: &Path) -> Result<Vec<Vec<String>>, CrawlError> {
    match std::fs::read_to_string(dir.join(DIVISION_DIR).join(DSETS_FILE)) {
        Ok(text) => Ok(DSets::lines(&text)),
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(source) => Err(CrawlError::File {
            path: dir.join(DIVISION_DIR).join(DSETS_FILE),
            source,
        }),
    }
}

/// The crawl's own copy, or the file that the settings name.
fn kept_or_named(
    settings: &PartitionSettings,
    kept: Option<PathBuf>,
) -> Result<PathBuf, CrawlError> {
    let (setting, named) = match settings.method {
        PartitionMethod::Dset => ("dsets", &settings.dsets),
        _ => ("vector", &settings.vector),
    };
    match kept {
        Some(kept) => Ok(kept),
        None if named.is_empty() => Err(wrong(setting, &NO_FILE)),
        None => Ok(PathBuf::from(named)),
    }
}

pub(crate) fn open_vector(path: &Path) -> Result<PartVector, CrawlError> {
    if path.as_os_str().is_empty() {
        return Err(wrong("vector", &NO_FILE));
    }
    let vector = PartVector::open(path).map_err(|e| wrong("vector", &e))?;
    if vector.unit() == Unit::Page {
        return Err(wrong(
            "vector",
            &format!(
                "{} lists pages, and a crawl needs sites, because a host's pauses are kept by one partition; cut the graph by site",
                path.display()
            ),
        ));
    }
    Ok(vector)
}

fn fits(settings: &Settings, path: &Path, parts: u16) -> Result<(), CrawlError> {
    let asked = settings.registry.partitions;
    if asked != 0 && asked != parts {
        return Err(wrong(
            "vector",
            &format!(
                "{} has {parts} parts, but registry.partitions is {asked}; set that to {parts} or 0",
                path.display()
            ),
        ));
    }
    if parts > MAX_PARTITIONS {
        return Err(wrong(
            "vector",
            &format!(
                "{} has {parts} parts; a crawl has at most {MAX_PARTITIONS} partitions",
                path.display()
            ),
        ));
    }
    Ok(())
}

/// Looks at each file that the division of the crawl in `dir` is kept in.
pub(crate) fn check(settings: &Settings, dir: &Path) -> Vec<(PathBuf, Result<(), CrawlError>)> {
    let home = dir.join(DIVISION_DIR);
    if is_usual(&settings.sharing()) {
        return Vec::new();
    }
    let chosen = Chosen::of(settings, Some(&dir.to_owned()));
    let mut found = vec![(home.join(REMEMBERED_FILE), chosen.map(|_| ()))];
    let claims = home.join(CLAIMS_FILE);
    // A fleet's are in the logs.
    let is_alone = settings.archive.node.is_empty();
    if settings.partition.unlisted == UnlistedSites::Discoverer
        && settings.partition.method == PartitionMethod::Vector
        && is_alone
    {
        found.push((claims.clone(), claims::check(&claims)));
    }
    found
}

fn wrong(setting: &str, what: &dyn std::fmt::Display) -> CrawlError {
    CrawlError::Input(format!("partition.{setting}: {what}"))
}

#[cfg(test)]
mod tests;
