//! `portolan crawl`: what was typed becomes settings and seeds, then the crawl runs to its report.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use portolan_crawl::report::{counted, thousands};
use portolan_crawl::scope::ScopeKind;
use portolan_crawl::settings::{ExchangeMode, TolUse};
use portolan_crawl::{
    Crawl, Divide, DivideBy, Extensions, Outside, Plan, Report, Retry, RunLimits, Seed, Settings,
    StoppedBy,
};
use portolan_model::url::Scheme;
use signal_hook::consts::{SIGINT, SIGTERM, SIGWINCH};
use signal_hook::iterator::Signals;

use crate::arguments::{CrawlArguments, DivideArgument, ModeArgument, ScopeArgument, TolArgument};
use crate::failure::{EXIT_WAITING, Failure};
use crate::log;
use crate::output::{say, sayln};
use crate::terminal::Display;

const POLL: Duration = Duration::from_millis(50);

/// The crawl's directory where none is named.
const DEFAULT_DIR: &str = "./crawl";

/// A seeds file larger than this is a mistake.
const SEEDS_FILE_MAX_BYTES: u64 = 1 << 30;

pub(crate) fn run(arguments: Box<CrawlArguments>) -> Result<ExitCode, Failure> {
    let (json, quiet) = (arguments.json, arguments.quiet);
    log::begin(arguments.verbose, arguments.log.as_deref())?;
    let plan = plan(arguments)?;
    let dir = plan.dir.clone();
    let display = Display::new(quiet);
    let report = drive(plan, display)?;
    if json {
        sayln!(
            "{}",
            serde_json::to_string(&report).map_err(Failure::failed)?
        );
    } else if !quiet {
        say!("{report}");
    }
    if report.stopped_by == StoppedBy::Waiting.name() {
        if !json && !quiet {
            sayln!(
                "  At once: portolan crawl --out {} --retry-failed",
                dir.display()
            );
        }
        return Ok(ExitCode::from(EXIT_WAITING));
    }
    if report.pages == 0 && report.stopped_by == StoppedBy::Done.name() {
        return Err(Failure::failed(format!(
            "no document could be fetched; 'portolan urls {}' says why",
            dir.display()
        )));
    }
    Ok(ExitCode::SUCCESS)
}

/// Run a crawl with progress on the terminal and Ctrl-C as a person expects it.
pub(crate) fn drive(mut plan: Plan, mut display: Display) -> Result<Report, Failure> {
    let heard = Heard::listen()?;
    let dir = plan.dir.clone();
    plan.give_up = Arc::clone(&heard.stopped);
    if let Some(divide) = plan.divide {
        let by = divide.by.name();
        display.say(&format!(
            "Dividing the crawl in {} anew by {by}.",
            dir.display()
        ));
    }
    let crawl = Crawl::start(plan)?;
    if crawl.is_resumed() {
        display.say(&format!("Going on with the crawl in {}.", dir.display()));
        for sentence in crawl.recovered().sentences() {
            display.say(&sentence);
        }
    }
    if let Some(divided) = crawl.divided() {
        display.say(&divided.to_string());
    }
    if let Some(files) = crawl.too_few_files() {
        display.say(&format!(
            "This process may have {} files open, and its settings need up to {}: the crawl goes on with fewer \
             connections. 'ulimit -n {}' before the start would do.",
            thousands(files.allowed),
            thousands(files.needed),
            files.needed
        ));
    }
    if let Some(changed) = crawl.judging_for() {
        display.say(&match changed {
            [] => "The URLs are judged again by the settings, which a run before this one did not finish.".into(),
            changed => format!(
                "Changed since the last run: {}. The URLs are judged again before the crawl goes on.",
                changed.join(", ")
            ),
        });
    }
    let mut told_judged = false;
    let mut heeded = 0;
    while !crawl.is_finished() {
        std::thread::sleep(POLL);
        let resized = heard.resized.swap(false, Ordering::SeqCst);
        display.show(&crawl.progress(), resized);
        tell_judged(&crawl, &display, &mut told_judged);
        let interrupted = heard.interrupts.load(Ordering::SeqCst);
        if interrupted > heeded {
            heeded = interrupted;
            if heeded == 1 {
                display.say("Stopping: finishing what is under way. Once more to stop now.");
                crawl.stop(StoppedBy::Signal);
            } else {
                display.say("Stopping now; nothing is lost.");
                crawl.stop_now(StoppedBy::Signal);
            }
        }
    }
    tell_judged(&crawl, &display, &mut told_judged);
    display.end();
    Ok(crawl.join()?)
}

/// What came of judging URLs again, once, as soon as it is known.
fn tell_judged(crawl: &Crawl, display: &Display, told: &mut bool) {
    if let Some(judged) = crawl.judged().filter(|_| !*told) {
        *told = true;
        display.say(&judged.to_string());
    }
}

/// What the person and the terminal tell by signals.
#[derive(Default)]
pub(crate) struct Heard {
    pub(crate) interrupts: AtomicUsize,
    /// There was at least one.
    stopped: Arc<AtomicBool>,
    /// The terminal has another size.
    resized: AtomicBool,
}

impl Heard {
    pub(crate) fn listen() -> Result<Arc<Self>, Failure> {
        let heard = Arc::new(Self::default());
        let mut signals = Signals::new([SIGINT, SIGTERM, SIGWINCH]).map_err(Failure::failed)?;
        let ear = Arc::clone(&heard);
        std::thread::spawn(move || {
            for signal in signals.forever() {
                if signal == SIGWINCH {
                    ear.resized.store(true, Ordering::SeqCst);
                } else {
                    ear.interrupts.fetch_add(1, Ordering::SeqCst);
                    ear.stopped.store(true, Ordering::SeqCst);
                }
            }
        });
        Ok(heard)
    }
}

fn plan(arguments: Box<CrawlArguments>) -> Result<Plan, Failure> {
    let out = arguments.out.clone();
    let dir = out.unwrap_or_else(|| PathBuf::from(DEFAULT_DIR));
    let resumed = Crawl::exists(&dir);
    let begun = match resumed {
        true => Crawl::saved_settings(&dir)?,
        false => Settings::default(),
    };
    let mut settings = read_settings(arguments.config.as_deref(), begun)?;
    let mut seeds: Vec<Seed> = arguments
        .seeds
        .iter()
        .map(|text| Seed {
            text: text.clone(),
            place: "the command line".into(),
        })
        .collect();
    if let Some(file) = &arguments.seeds_file {
        seeds.extend(read_seeds(file)?);
    }
    if resumed && arguments.out.is_none() {
        refuse_other_seeds(&dir, &seeds)?;
    }
    if arguments.new_session && !resumed {
        return Err(Failure::usage(format!(
            "--new-session: {} holds no crawl to begin another session of; without it the first session starts there",
            dir.display()
        )));
    }
    if arguments.keep_fresh && !resumed {
        return Err(Failure::usage(format!(
            "--keep-fresh: {0} holds no crawl, so there is nothing to keep fresh; 'portolan crawl --out {0} URL' makes one first",
            dir.display()
        )));
    }
    if seeds.is_empty()
        && !resumed
        && !settings.frontier_server.is_used()
        && arguments.frontier_server.is_none()
    {
        return Err(Failure::usage(if dir.exists() {
            format!(
                "{} holds no crawl to go on with; name at least one SEED to start one, as in 'portolan crawl https://example.org/'",
                dir.display()
            )
        } else {
            "no SEED given; name at least one URL to start from, as in 'portolan crawl https://example.org/'".into()
        }));
    }
    apply_options(&arguments, &mut settings)?;
    let retry = match &arguments.retry_failed {
        Some(reasons) => {
            let retry = Retry::named(reasons.iter().map(String::as_str));
            Some(retry.map_err(|e| Failure::usage(format!("--retry-failed: {e}")))?)
        }
        None => None,
    };
    Ok(Plan {
        dir,
        seeds,
        settings,
        this_run: RunLimits {
            max_pages: arguments.max_pages,
            time_limit_s: arguments.time_limit.map(|limit| limit.as_secs_f64()),
        },
        outside: Outside::default(),
        extensions: Extensions::default(),
        retry,
        new_session: arguments.new_session,
        keep_fresh: arguments.keep_fresh,
        ranked_session: arguments.order.is_some(),
        divide: arguments.divide.map(|by| Divide {
            by: match by {
                DivideArgument::Graph => DivideBy::Graph,
                DivideArgument::Hash => DivideBy::Hash,
            },
            partitions: arguments.partitions,
        }),
        give_up: Arc::default(),
        part: None,
    })
}

/// The directory that nobody named goes on with its own seeds only: another site's pages would be mixed with what it holds.
fn refuse_other_seeds(dir: &Path, seeds: &[Seed]) -> Result<(), Failure> {
    let canonicalizer = Crawl::canonicalizer(dir)?;
    let known = Crawl::seeds(dir)?;
    for seed in seeds {
        // What is no URL is told later, as for any crawl.
        let Ok(url) = canonicalizer.parse_seed(&seed.text) else {
            continue;
        };
        if !known.contains(&url) {
            let of = match known.as_slice() {
                [] => "other seeds".to_owned(),
                [one] => one.to_string(),
                [one, ..] => format!(
                    "{one} and {}",
                    counted(known.len() as u64 - 1, "other seed")
                ),
            };
            return Err(Failure::usage(format!(
                "{0} holds the crawl of {of}; for a crawl of its own, give {url} another directory, as in '--out {1}', or \
                 add it to the crawl that is there with '--out {0}'",
                dir.display(),
                url.host().trim_matches(['[', ']']),
            )));
        }
    }
    Ok(())
}

/// What a settings file makes of settings.
pub(crate) fn read_settings(file: Option<&Path>, begun: Settings) -> Result<Settings, Failure> {
    let Some(file) = file else {
        return Ok(begun);
    };
    let text = std::fs::read_to_string(file)
        .map_err(|e| Failure::usage(format!("--config {}: {e}", file.display())))?;
    begun
        .changed_by(&text)
        .map_err(|e| Failure::usage(e.in_file(&format!("--config {}", file.display()))))
}

/// Options win over the file; what comes of both is sound.
pub(crate) fn apply_options(
    arguments: &CrawlArguments,
    settings: &mut Settings,
) -> Result<(), Failure> {
    apply(arguments, settings);
    arguments
        .seeds
        .iter()
        .for_each(|seed| name_scheme(seed, settings));
    arguments.access.apply(settings)?;
    settings.check().map_err(Failure::usage)
}

fn apply(arguments: &CrawlArguments, settings: &mut Settings) {
    if let Some(server) = &arguments.frontier_server {
        settings.frontier_server.url.clone_from(server);
    }
    if let Some(scope) = arguments.scope {
        settings.scope.scope = match scope {
            ScopeArgument::Host => ScopeKind::Host,
            ScopeArgument::Domain => ScopeKind::Domain,
            ScopeArgument::Prefix => ScopeKind::Prefix,
            ScopeArgument::Any => ScopeKind::Any,
        };
    }
    add(&mut settings.scope.include, &arguments.include);
    add(&mut settings.scope.exclude, &arguments.exclude);
    if arguments.page_requisites {
        settings.content.embeds = true;
        settings.scope.embeds_off_scope = true;
    }
    let wanted = |when| match when {
        TolArgument::Never => TolUse::Never,
        TolArgument::Told => TolUse::Told,
        TolArgument::Probe => TolUse::Probe,
    };
    settings.content.tol = arguments.tol.map_or(settings.content.tol, wanted);
    settings.content.tvi = arguments.tvi.map_or(settings.content.tvi, wanted);
    if let Some(depth) = arguments.max_depth {
        settings.scope.max_link_depth = Some(depth);
    }
    if let Some(delay) = arguments.delay {
        // Rounded up: only a delay of nothing is none. One that is too long is told of by the check.
        let delay_ms = delay.as_nanos().div_ceil(1_000_000);
        settings.politeness.delay_ms = u64::try_from(delay_ms).unwrap_or(u64::MAX);
    }
    if let Some(wait) = arguments.wait {
        settings.outages.wait_ms = u64::try_from(wait.as_millis()).unwrap_or(u64::MAX);
    }
    if let Some(mode) = arguments.mode {
        settings.partition.mode = match mode {
            ModeArgument::Exchange => ExchangeMode::Exchange,
            ModeArgument::Server => ExchangeMode::Server,
            ModeArgument::Firewall => ExchangeMode::Firewall,
            ModeArgument::CrossOver => ExchangeMode::CrossOver,
        };
    }
    // A division anew sets them itself.
    if let Some(partitions) = arguments.partitions.filter(|_| arguments.divide.is_none()) {
        settings.registry.partitions = partitions;
    }
    if let Some(connections) = arguments.connections {
        settings.limits.connections = connections;
    }
    if let Some(threads) = arguments.threads {
        settings.limits.threads = threads;
    }
    let a_day = arguments.per_day.map(|fetches| fetches as f64 / 86_400.0);
    if let Some(rate) = arguments.rate.or(a_day) {
        settings.freshness.fetches_per_s = rate;
    }
    add(&mut settings.dns.resolve, &arguments.resolve);
    if let Some(agent) = &arguments.user_agent {
        settings.identity.user_agent.clone_from(agent);
    }
    if let Some(contact) = &arguments.contact {
        settings.identity.contact.clone_from(contact);
    }
}

/// Who types an FTP, Gopher or file URL wants its scheme crawled, and the folder that a file's URL names.
fn name_scheme(seed: &str, settings: &mut Settings) {
    let scheme = seed
        .split_once("://")
        .and_then(|(name, _)| Scheme::from_name(name));
    let Some(scheme) = scheme.filter(|scheme| !scheme.is_http()) else {
        return;
    };
    if !settings.urls.also_schemes.contains(&scheme) {
        settings.urls.also_schemes.push(scheme);
    }
    if scheme != Scheme::File {
        return;
    }
    let path = seed
        .trim_start_matches("file://")
        .trim_start_matches("localhost");
    let folder = PathBuf::from(path.rsplit_once('/').map_or("/", |(folder, _)| folder));
    let is_named = |known: &PathBuf| folder.starts_with(known);
    // A folder that is none, or is at the root of all files, has to be named in the settings.
    if folder.is_absolute()
        && folder.parent().is_some()
        && !settings.files.folders.iter().any(is_named)
    {
        settings.files.folders.push(folder);
    }
}

/// What is there already, as when a crawl goes on with the same options, is not added again.
fn add(list: &mut Vec<String>, more: &[String]) {
    for text in more {
        if !list.contains(text) {
            list.push(text.clone());
        }
    }
}

pub(crate) fn read_seeds(file: &Path) -> Result<Vec<Seed>, Failure> {
    let name = if file.as_os_str() == "-" {
        "standard input".into()
    } else {
        file.display().to_string()
    };
    let wrong = |e: std::io::Error| Failure::usage(format!("--seeds-file {name}: {e}"));
    let mut text = String::new();
    if file.as_os_str() == "-" {
        std::io::stdin()
            .take(SEEDS_FILE_MAX_BYTES)
            .read_to_string(&mut text)
            .map_err(wrong)?;
    } else {
        let opened = std::fs::File::open(file).map_err(wrong)?;
        opened
            .take(SEEDS_FILE_MAX_BYTES)
            .read_to_string(&mut text)
            .map_err(wrong)?;
    }
    let seeds: Vec<Seed> = text
        .trim_start_matches('\u{feff}')
        .lines()
        .enumerate()
        .map(|(number, line)| (number + 1, without_comment(line)))
        .filter(|(_, line)| !line.is_empty())
        .map(|(number, line)| Seed {
            text: line.into(),
            place: format!("{name} line {number}"),
        })
        .collect();
    if seeds.is_empty() {
        return Err(Failure::usage(format!("--seeds-file {name} names no URL")));
    }
    Ok(seeds)
}

/// A line of a seeds file without its comment. A '#' right behind a URL's text is part of it.
fn without_comment(line: &str) -> &str {
    let comment = line.match_indices('#').map(|(at, _)| at).find(|&at| {
        line[..at]
            .chars()
            .next_back()
            .is_none_or(char::is_whitespace)
    });
    line[..comment.unwrap_or(line.len())].trim()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_begin_behind_a_space_and_fragments_do_not() {
        for (line, seed) in [
            ("http://a.test/", "http://a.test/"),
            (" http://a.test/ # the first", "http://a.test/"),
            ("http://a.test/\t#x", "http://a.test/"),
            ("http://a.test/#top", "http://a.test/#top"),
            (
                "http://a.test/#top # and more # of it",
                "http://a.test/#top",
            ),
            ("# http://a.test/", ""),
            ("  # x", ""),
            ("", ""),
        ] {
            assert_eq!(without_comment(line), seed, "{line}");
        }
    }
}
