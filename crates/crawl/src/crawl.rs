//! A crawl as its caller sees it: what to crawl, a crawl in a directory, one that runs.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Instant;

use portolan_model::{CanonicalUrl, Canonicalizer, Identities};
use portolan_registry::Registry;

use crate::budget::StoppedBy;
use crate::directory::{self, SETTINGS_FILE};
use crate::error::CrawlError;
use crate::fleet::Part;
use crate::judging;
use crate::machine::TooFewFiles;
use crate::metrics::Progress;
use crate::modules::{Extensions, FinishedPage, Module};
use crate::outside::Outside;
use crate::recovery::Recovered;
use crate::redivide::{self, Divide, Divided};
use crate::report::{JudgedAgain, Report};
use crate::retry::Retry;
use crate::secret;
use crate::settings::Settings;
use crate::shared::Shared;
use crate::start::{Books, Checked};
use crate::worker::Gauges;

/// The WARC files of a crawl, in its directory.
pub const ARCHIVE_DIR: &str = "archive";
/// Which payloads are archived already.
pub(crate) const SEEN_DIR: &str = "seen";
/// What is known and what is due, in a crawl's directory.
pub const REGISTRY_DIR: &str = "registry";

/// A seed as a person wrote it.
#[derive(Debug, Clone)]
pub struct Seed {
    pub text: String,
    /// Where it was written, for messages: "the command line", "seeds.txt line 3".
    pub place: String,
}

/// What to crawl, where to, and how.
#[derive(Debug, Clone)]
pub struct Plan {
    pub dir: PathBuf,
    pub seeds: Vec<Seed>,
    pub settings: Settings,
    /// What failed earlier and is to be asked for again, now.
    pub retry: Option<Retry>,
    /// Begin a new session: what is known and in scope is due again. If the beginning of one was cut off, that one goes on.
    pub new_session: bool,
    /// With `new_session`: queues go by the PageRank of what was fetched so far, and no longer by what the crawl began with.
    pub ranked_session: bool,
    /// With `new_session`: the crawl is divided anew first. A division that was cut off is carried out also without it.
    pub divide: Option<Divide>,
    /// Set to true by another thread, it has [`Crawl::prepare`] give up what takes long there. Nothing is lost by it.
    pub give_up: Arc<AtomicBool>,
    /// Keep what is known fresh, at the rate of `settings.freshness`, until stopped.
    pub keep_fresh: bool,
    /// Limits that hold for this run alone. They win over the settings, and are not remembered.
    pub this_run: RunLimits,
    /// Time, connections, addresses and chance, where they are not the machine's.
    pub outside: Outside,
    /// The crawl is a node's part of one that many machines share; see [`crate::fleet`].
    pub part: Option<Part>,
    /// What is added in Rust: see [`Plan::module`] and [`Plan::on_page`].
    pub extensions: Extensions,
}

impl Plan {
    /// A crawl of `seeds` into `dir`, or the one that is there already with these seeds added.
    pub fn new<S: Into<String>>(
        dir: impl Into<PathBuf>,
        seeds: impl IntoIterator<Item = S>,
        settings: Settings,
    ) -> Self {
        let seed = |text: S| Seed {
            text: text.into(),
            place: "the plan".to_owned(),
        };
        Self {
            dir: dir.into(),
            seeds: seeds.into_iter().map(seed).collect(),
            settings,
            new_session: false,
            keep_fresh: false,
            ranked_session: false,
            divide: None,
            give_up: Arc::default(),
            retry: None,
            this_run: RunLimits::default(),
            outside: Outside::default(),
            part: None,
            extensions: Extensions::default(),
        }
    }

    /// The same with a module that reads documents of some media types. It holds for this run: a crawl that goes on needs it
    /// in its plan again.
    ///
    /// ```
    /// use portolan_crawl::{Document, Findings, Module, Plan, Settings};
    ///
    /// struct Words;
    ///
    /// impl Module for Words {
    ///     fn name(&self) -> &str {
    ///         "words"
    ///     }
    ///     fn types(&self) -> Vec<String> {
    ///         vec!["text/plain".to_owned()]
    ///     }
    ///     fn read(&self, document: &Document<'_>, findings: &mut Findings<'_>) {
    ///         findings.fact("count", document.text().split_whitespace().count());
    ///     }
    /// }
    ///
    /// let plan = Plan::new("crawl", ["https://example.org/"], Settings::default()).module(Words);
    /// ```
    #[must_use]
    pub fn module(mut self, module: impl Module + 'static) -> Self {
        self.extensions.modules.push(Arc::new(module));
        self
    }

    /// The same with a hook that is called with each finished page: a document, a redirect or an error page. Pages that are
    /// not kept and answers that will be asked for again are not shown. It runs on the thread that fetched the page and must
    /// not wait; if it panics, the crawl stops and can go on later. A page may come again if the machine dies before its
    /// visit is durable.
    ///
    /// ```
    /// use portolan_crawl::{Plan, Settings};
    ///
    /// let plan = Plan::new("crawl", ["https://example.org/"], Settings::default())
    ///     .on_page(|page| println!("{} {} {}", page.status(), page.url(), page.body().len()));
    /// ```
    #[must_use]
    pub fn on_page(mut self, hook: impl Fn(&FinishedPage<'_>) + Send + Sync + 'static) -> Self {
        self.extensions.hooks.push(Arc::new(hook));
        self
    }
}

/// When this run stops, whatever the settings say of the others.
#[derive(Debug, Clone, Copy, Default)]
pub struct RunLimits {
    /// Documents archived; 0 is no limit.
    pub max_pages: Option<u64>,
    /// Seconds; 0 is no limit.
    pub time_limit_s: Option<f64>,
}

impl RunLimits {
    pub(crate) fn apply(self, settings: &mut Settings) {
        let limits = &mut settings.limits;
        limits.max_pages = self.max_pages.unwrap_or(limits.max_pages);
        limits.time_limit_s = self.time_limit_s.unwrap_or(limits.time_limit_s);
    }
}

/// A crawl whose directory is open, and that does not run yet.
pub struct Prepared {
    pub(crate) books: Books,
}

impl Prepared {
    /// Let it run, on threads of its own.
    pub fn begin(self) -> Result<Crawl, CrawlError> {
        self.books.begin()
    }

    /// Let it run in this thread until its end, as tasks of the `LocalSet` in which this is polled: in the runtime's
    /// time, which a test or a simulator may own. Dropped half-way with its `LocalSet`, it ends without closing
    /// anything. A crawl that goes on with other settings, or with [`Plan::retry`], is refused: its URLs are judged by a
    /// thread.
    pub async fn run_here(self) -> Result<Report, CrawlError> {
        self.books.run_here().await
    }
}

/// A running crawl.
pub struct Crawl {
    pub(crate) shared: Arc<Shared>,
    pub(crate) gauges: Vec<Arc<Gauges>>,
    pub(crate) begun: Instant,
    pub(crate) resumed: bool,
    pub(crate) recovered: Recovered,
    pub(crate) too_few_files: Option<TooFewFiles>,
    pub(crate) judging_for: Option<Vec<String>>,
    pub(crate) divided: Option<Divided>,
    pub(crate) canonicalizer: Canonicalizer,
    /// Those that this run was given, and those of earlier runs.
    pub(crate) seeds: Vec<CanonicalUrl>,
    pub(crate) watcher: JoinHandle<Result<Report, CrawlError>>,
}

impl Crawl {
    /// Does `dir` hold a crawl that can go on?
    pub fn exists(dir: &Path) -> bool {
        dir.join(SETTINGS_FILE).is_file()
    }

    /// The settings that the crawl in `dir` ran with last.
    pub fn saved_settings(dir: &Path) -> Result<Settings, CrawlError> {
        let text = directory::remembered_settings(dir)?;
        let path = dir.join(SETTINGS_FILE);
        Settings::with_overrides(&text)
            .map_err(|e| CrawlError::Input(e.in_file(&path.display().to_string())))
    }

    /// Every seed that the crawl in `dir` was ever given.
    pub fn seeds(dir: &Path) -> Result<Vec<CanonicalUrl>, CrawlError> {
        directory::remembered_seeds(dir)
    }

    /// Is a process at work in `dir`?
    pub fn is_running(dir: &Path) -> bool {
        Registry::is_open(&dir.join(REGISTRY_DIR))
    }

    /// By what documents and hosts are known in the crawl in `dir`. A secret: it is not for printing.
    pub fn identities(dir: &Path) -> Result<Identities, CrawlError> {
        secret::read(dir)
    }

    /// Did the last run in `dir` end in order? Then the archive's index is merged.
    pub fn has_ended(dir: &Path) -> bool {
        Registry::is_closed(&dir.join(REGISTRY_DIR))
    }

    /// What makes two spellings of a URL one in the crawl in `dir`.
    pub fn canonicalizer(dir: &Path) -> Result<Canonicalizer, CrawlError> {
        Ok(Canonicalizer::new(&Self::saved_settings(dir)?.urls))
    }

    /// Are all URLs of the crawl in `dir` judged by its settings? Not while a run judges them again, or if that was cut
    /// off.
    pub fn is_judged(dir: &Path) -> Result<bool, CrawlError> {
        Ok(!judging::is_unfinished(dir)?)
    }

    /// Start, or go on. Everything that a person can get wrong is found before anything is written.
    pub fn start(plan: Plan) -> Result<Self, CrawlError> {
        Self::prepare(plan)?.begin()
    }

    /// Check the plan, and make, open or recover the crawl's directory. Nothing runs yet.
    pub fn prepare(mut plan: Plan) -> Result<Prepared, CrawlError> {
        let divided = redivide::see_to(&mut plan)?;
        let mut books = Checked::new(plan)?.open()?;
        books.divided = divided;
        Ok(Prepared { books })
    }

    /// What has changed since the last run, if URLs are judged again for that before anything is asked for: names of
    /// settings, or "the seeds". Empty where a judging was cut off and begins anew.
    pub fn judging_for(&self) -> Option<&[String]> {
        self.judging_for.as_deref()
    }

    /// What came of judging URLs again, once that is done.
    pub fn judged(&self) -> Option<JudgedAgain> {
        let done = self.judging_for.is_some() && !self.shared.judging.load(Ordering::SeqCst);
        done.then(|| self.shared.metrics.judged_again())
    }

    /// The crawl runs with fewer connections than it is set to, because too few files may be open.
    pub fn too_few_files(&self) -> Option<TooFewFiles> {
        self.too_few_files
    }

    /// What came of dividing the crawl anew, if that was done before this run began.
    pub fn divided(&self) -> Option<&Divided> {
        self.divided.as_ref()
    }

    /// The number of the session; the first is 1.
    pub fn session(&self) -> u32 {
        self.shared.session
    }

    pub fn is_resumed(&self) -> bool {
        self.resumed
    }

    /// What was found and done before the crawl went on.
    pub fn recovered(&self) -> &Recovered {
        &self.recovered
    }

    /// Finish what is under way, then stop.
    pub fn stop(&self, by: StoppedBy) {
        self.shared.budget.stop(by);
    }

    /// Give up what is under way and stop; what was finished is kept.
    pub fn stop_now(&self, by: StoppedBy) {
        self.shared.budget.stop_now(by);
    }

    pub fn is_finished(&self) -> bool {
        self.watcher.is_finished()
    }

    pub fn progress(&self) -> Progress {
        let seconds = self.begun.elapsed().as_secs_f64();
        let shared = &self.shared;
        let settings = &shared.settings;
        let limit_s = settings.limits.time_limit_s;
        let ip_delay_ms = shared.politeness.ip_delay_ms();
        Progress {
            no_network_since_ms: shared.network.down_since_ms(),
            patience_ms: settings.outages.wait_ms,
            pages_left: shared
                .budget
                .left(shared.metrics.pages.load(Ordering::Relaxed)),
            seconds_left: (limit_s > 0.0).then(|| (limit_s - seconds).max(0.0)),
            ip_delay_rules_ms: (settings.politeness.delay_ms < ip_delay_ms).then_some(ip_delay_ms),
            ..shared.metrics.progress(&self.gauges, seconds)
        }
    }

    /// Wait for the end.
    pub fn join(self) -> Result<Report, CrawlError> {
        self.watcher
            .join()
            .unwrap_or_else(|_| Err(CrawlError::Internal("the watcher died".to_owned())))
    }
}
