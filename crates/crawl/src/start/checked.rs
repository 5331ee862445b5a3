//! The first step: the plan is compared with what is possible, and nothing is written. Whatever is wrong is the
//! person's to put right, and is told in one sentence.

use std::sync::Arc;
use std::time::Instant;

use portolan_archive::{ArchiveSettings, RecordBuilder};
use portolan_model::{CanonicalUrl, Canonicalizer, Clock, Ranker};
use portolan_net::{Connector, Mapping};

use super::seeds::{check_ports, parse_seeds};
use crate::access::Access;
use crate::assembly;
use crate::crawl::{Crawl, Plan, Seed};
use crate::directory;
use crate::division::Chosen;
use crate::error::CrawlError;
use crate::machine::{self, Bounds};
use crate::metrics::process_cpu_seconds;
use crate::modules::Modules;
use crate::scope::Scope;
use crate::settings::Settings;

/// A plan without mistakes, and the parts that were made to find out.
pub(crate) struct Checked {
    pub(super) plan: Plan,
    pub(super) begun: Instant,
    pub(super) cpu_before: f64,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) canonicalizer: Canonicalizer,
    /// What this run was given.
    pub(super) seeds: Vec<CanonicalUrl>,
    pub(super) bounds: Bounds,
    /// Files that this process may have open.
    pub(super) open_files: u64,
    pub(super) mapping: Arc<Mapping>,
    /// With this run's seeds as its roots.
    pub(super) scope: Scope,
    pub(super) access: Access,
    pub(super) modules: Modules,
    /// Names are resolved by a proxy, and not here.
    pub(super) proxy_resolves: bool,
    /// Knows no named hosts yet.
    pub(super) connector: Connector,
    pub(super) archive: ArchiveSettings,
    /// The directory has a crawl that goes on.
    pub(super) resumed: bool,
    pub(super) ranker: Arc<dyn Ranker>,
    pub(super) chosen: Chosen,
}

impl Checked {
    pub(crate) fn new(plan: Plan) -> Result<Self, CrawlError> {
        let begun = Instant::now();
        let cpu_before = process_cpu_seconds();
        let settings = &plan.settings;
        let clock = plan.outside.clock();
        let canonicalizer = Canonicalizer::new(&settings.urls);
        let seeds = parse_seeds(&canonicalizer, &plan.seeds)?;
        let open_files = machine::raise_open_files();
        let bounds = assembly::bounds(settings);
        let mapping = assembly::mapping(
            settings,
            &bounds,
            Arc::clone(&clock),
            plan.outside.resolver.clone(),
        )?;
        let scope = assembly::scope(settings, &seeds)?;
        let access = Access::new(settings, clock.wall_ms())?;
        let modules = Modules::new(settings, &plan.extensions)?;
        let proxy_resolves = assembly::proxies(settings)?.is_resolving();
        check_ports(settings, &seeds)?;
        let mut connector = assembly::connector(settings)?;
        if let Some(dialer) = &plan.outside.dialer {
            connector = connector.dialled_by(Arc::clone(dialer));
        }
        let archive = assembly::archive(settings);
        RecordBuilder::new(&archive, 0)?;
        let resumed = Crawl::exists(&plan.dir);
        if resumed {
            let began = Crawl::saved_settings(&plan.dir)?;
            let fixed = settings.check_fixed(&began);
            fixed.map_err(|e| CrawlError::Input(e.to_string()))?;
            directory::refuse_without_registry(&plan.dir)?;
        }
        let ranker = assembly::ranker(settings, resumed.then_some(&*plan.dir))?;
        let chosen = Chosen::of(settings, resumed.then_some(&plan.dir))?;
        Ok(Self {
            begun,
            cpu_before,
            clock,
            canonicalizer,
            seeds,
            bounds,
            open_files,
            mapping,
            scope,
            access,
            modules,
            proxy_resolves,
            connector,
            archive,
            resumed,
            ranker,
            chosen,
            plan,
        })
    }
}

/// Finds what every node of a fleet would refuse. What only the machine of a node can tell (its programs, its files) is not looked at.
pub(crate) fn check_for_nodes(settings: &Settings, seeds: &[Seed]) -> Result<(), CrawlError> {
    let seeds = parse_seeds(&Canonicalizer::new(&settings.urls), seeds)?;
    assembly::scope(settings, &seeds)?;
    check_ports(settings, &seeds)?;
    assembly::proxies(settings)?;
    RecordBuilder::new(&assembly::archive(settings), 0)?;
    Ok(())
}
