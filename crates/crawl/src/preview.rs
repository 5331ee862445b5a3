//! What a crawl would do with one URL: robots.txt is read, the URL is asked for, and the answer goes the way of every
//! answer (`page.rs`), up to the verdict on each of its links. Nothing is written to disk, and nothing is fetched but that.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use portolan_archive::RecordBuilder;
use portolan_content::{Robots, RobotsAnswer};
use portolan_model::{
    CanonicalUrl, Canonicalizer, LinkKind, Outcome, PartitionId, Reason, SystemClock, Verdict,
    Visit,
};
use portolan_net::{BodySink, NetError, Response};
use portolan_registry::Due;

use crate::assembly;
use crate::body_watch::BodyWatch;
use crate::crawl::Seed;
use crate::error::CrawlError;
use crate::mapper::{self, NameDrop};
use crate::named::Named;
use crate::once::ask_once;
use crate::page::{Fetched, Processed, Workbench, ask_programs};
use crate::robots::{FirstBytes, whole_lines};
use crate::settings::Settings;
use crate::shared::Shared;
use crate::start::{check_ports, is_address, parse_seeds};

/// All that was found out about a URL.
#[derive(Debug)]
pub struct Preview {
    pub url: String,
    pub robots: RobotsPreview,
    /// `None` if it was not asked for.
    pub answer: Option<Result<AnswerPreview, NotAnswered>>,
}

/// What robots.txt says of the URL.
#[derive(Debug)]
pub struct RobotsPreview {
    /// Where it was read, redirects followed.
    pub url: String,
    /// Status of the answer; `None` if there was none.
    pub status: Option<u16>,
    pub verdict: RobotsDecision,
    /// The line that decided.
    pub line: Option<String>,
    pub crawl_delay_ms: Option<u64>,
    pub sitemaps: Vec<String>,
}

/// May the URL be fetched?
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RobotsDecision {
    Allowed,
    Forbidden,
    /// robots.txt could not be read, so nothing may be fetched; the reason in words.
    Unreadable(String),
}

/// No answer came.
#[derive(Debug)]
pub struct NotAnswered {
    pub reason: Reason,
    /// What happened exactly.
    pub detail: String,
}

/// An answer and what a crawl would make of it.
#[derive(Debug)]
pub struct AnswerPreview {
    /// Who answered; `None` behind a proxy.
    pub peer: Option<IpAddr>,
    /// As sent; what the settings withhold from archives is withheld here.
    pub request_head: Vec<u8>,
    pub response_head: Vec<u8>,
    /// The visit as it would be logged.
    pub visit: Visit,
    pub redirects_to: Option<String>,
    pub links: Vec<LinkPreview>,
}

/// A link, with what would become of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LinkPreview {
    pub url: String,
    pub kind: LinkKind,
    /// Why it would not be fetched; `None`: it would be.
    pub excluded: Option<Reason>,
    /// It is of this origin, so that robots.txt was asked about it.
    pub robots_known: bool,
}

/// Fetches one URL as a crawl with these settings would that has it as its seed. `anyway`: also if robots.txt forbids it.
/// Between two requests to the host there is the pause that the crawl would make.
pub fn preview(settings: Settings, url: &str, anyway: bool) -> Result<Preview, CrawlError> {
    let canonicalizer = Canonicalizer::new(&settings.urls);
    let seed = Seed {
        text: url.to_owned(),
        place: "the command line".to_owned(),
    };
    let seeds = parse_seeds(&canonicalizer, &[seed])?;
    check_ports(&settings, &seeds)?;
    let Some(url) = seeds.first() else {
        return Err(CrawlError::Input("no URL given".to_owned()));
    };
    let clock = Arc::new(SystemClock::start());
    let mapping = assembly::mapping(&settings, &assembly::bounds(&settings), clock.clone(), None)?;
    let mut named = Named::default();
    let proxy_resolves = assembly::proxies(&settings)?.is_resolving();
    if !settings.dns.allow_private && (!proxy_resolves || is_address(url.host())) {
        named.name(&seeds, &mapping)?;
    }
    let shared = Shared::alone(settings, &seeds, &named, mapping, clock)?;
    shared.modules.begin()?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|e| CrawlError::Internal(format!("nothing can be fetched: {e}")))?;
    let looker = Looker {
        shared: Arc::new(shared),
        canonicalizer,
    };
    let preview = runtime.block_on(looker.look(url, anyway));
    looker.shared.modules.end();
    runtime.shutdown_background();
    preview
}

struct Looker {
    shared: Arc<Shared>,
    canonicalizer: Canonicalizer,
}

impl Looker {
    async fn look(&self, url: &CanonicalUrl, anyway: bool) -> Result<Preview, CrawlError> {
        let (robots, said) = self.robots(url).await;
        let told = said.verdict == RobotsDecision::Allowed;
        let mut preview = Preview {
            url: url.as_str().to_owned(),
            robots: said,
            answer: None,
        };
        if !told && !anyway {
            return Ok(preview);
        }
        let delay_ms = self.shared.access.of(url.host()).delay_ms;
        let delay_ms = delay_ms.max(preview.robots.crawl_delay_ms.unwrap_or(0));
        tokio::time::sleep(Duration::from_millis(delay_ms)).await;
        let mut watch = BodyWatch::new(&self.shared, LinkKind::Seed);
        preview.answer = Some(match self.ask(url, &mut watch).await {
            Ok(answer) => Ok(self.process(url, answer, watch.refused, &robots).await?),
            Err(error) => Err(NotAnswered {
                reason: error.reason(),
                detail: error.to_string(),
            }),
        });
        Ok(preview)
    }

    /// Reads robots.txt of the URL's origin, redirects followed, with the host's pause before each request but the first.
    async fn robots(&self, url: &CanonicalUrl) -> (Robots, RobotsPreview) {
        let settings = &self.shared.settings;
        let access = self.shared.access.of(url.host());
        let mut said = RobotsPreview {
            url: format!("{}/robots.txt", url.origin()),
            status: None,
            verdict: RobotsDecision::Allowed,
            line: None,
            crawl_delay_ms: None,
            sitemaps: Vec::new(),
        };
        let unreadable = |mut said: RobotsPreview, why: String| {
            said.verdict = RobotsDecision::Unreadable(why);
            (Robots::disallow_all(), said)
        };
        for hop in 0..=settings.robots.max_redirects {
            let Ok(at) = CanonicalUrl::from_canonical(said.url.clone()) else {
                break;
            };
            if hop > 0 {
                tokio::time::sleep(Duration::from_millis(access.delay_ms)).await;
            }
            let response = match self.ask(&at, &mut FirstBytes::default()).await {
                Ok((response, _)) => response,
                Err(error) => return unreadable(said, error.to_string()),
            };
            let status = response.status();
            said.status = Some(status);
            match RobotsAnswer::from_status(status) {
                RobotsAnswer::AllowAll => break,
                RobotsAnswer::DisallowAll => {
                    return unreadable(said, format!("it is answered with status {status}"));
                }
                RobotsAnswer::Parse => {
                    let Some(body) = whole_lines(&response) else {
                        return unreadable(said, "it breaks off".to_owned());
                    };
                    let robots = Robots::parse_for(&body, &access.product, url.origin());
                    let verdict = robots.verdict(url.path_and_query());
                    if !verdict.allowed {
                        said.verdict = RobotsDecision::Forbidden;
                    }
                    said.line = verdict.line;
                    let delay = robots.crawl_delay();
                    said.crawl_delay_ms = delay.map(|delay| delay.as_millis() as u64);
                    said.sitemaps = robots.sitemaps().to_vec();
                    return (robots, said);
                }
                RobotsAnswer::Redirect => {
                    let location = response.header_url("location");
                    let next = location.and_then(|to| self.canonicalizer.resolve(&at, &to).ok());
                    match next {
                        Some(next) => said.url = next.as_str().to_owned(),
                        None => break,
                    }
                }
            }
        }
        (Robots::allow_all(), said)
    }

    async fn ask(
        &self,
        url: &CanonicalUrl,
        sink: &mut dyn BodySink,
    ) -> Result<(Response, Option<IpAddr>), NetError> {
        ask_once(&self.shared, url, sink).await
    }

    /// The way of every answer; its record is thrown away.
    async fn process(
        &self,
        url: &CanonicalUrl,
        (response, peer): (Response, Option<IpAddr>),
        refused: Option<Reason>,
        robots: &Robots,
    ) -> Result<AnswerPreview, CrawlError> {
        let shared = &self.shared;
        let builder = RecordBuilder::new(&assembly::archive(&shared.settings), 0)?;
        let (names, _nobody) = mapper::queue();
        let canonicalizer = self.canonicalizer.clone();
        let mut bench = Workbench::new(shared, canonicalizer, builder, NameDrop::new(names));
        let due = Due {
            doc: url.doc_id(&shared.ids),
            url: url.as_str().to_owned(),
            class: 0,
            depth: 0,
            hops: 0,
            kind: LinkKind::Seed,
            attempts: 0,
            score: 0,
            last: None,
        };
        let fetched = Fetched {
            due: &due,
            url,
            partition: PartitionId(0),
            at_ms: shared.wall_ms(),
            ip: peer,
            refused,
            host_was_well: true,
            known_links: Vec::new(),
        };
        let request_head = response.request_head.clone();
        let response_head = response.head.bytes().to_vec();
        let reports = ask_programs(shared, &fetched, &response).await;
        let Processed { visit, links, .. } = bench.process(shared, &fetched, response, reports);
        let links: Vec<LinkPreview> = links
            .iter()
            .map(|link| self.judged(url, robots, link.url, link.kind, link.verdict))
            .collect();
        let is_redirect = (300..400).contains(&visit.status) && visit.outcome == Outcome::Fetched;
        let target = links.first().filter(|_| is_redirect);
        Ok(AnswerPreview {
            peer,
            request_head,
            response_head,
            redirects_to: target.map(|link| link.url.clone()),
            visit,
            links,
        })
    }

    fn judged(
        &self,
        page: &CanonicalUrl,
        robots: &Robots,
        url: &str,
        kind: LinkKind,
        verdict: Verdict,
    ) -> LinkPreview {
        let target = CanonicalUrl::from_canonical(url.to_owned()).ok();
        let same = target.filter(|target| target.origin() == page.origin());
        let forbidden = same
            .as_ref()
            .is_some_and(|target| !robots.allows(target.path_and_query()));
        LinkPreview {
            url: url.to_owned(),
            kind,
            excluded: match verdict {
                Verdict::Exclude(reason) => Some(reason),
                Verdict::Crawl { .. } => forbidden.then_some(Reason::Robots),
            },
            robots_known: same.is_some(),
        }
    }
}
