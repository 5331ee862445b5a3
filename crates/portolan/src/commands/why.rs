//! `portolan why`: everything that a crawl knows of one URL, in sentences.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use portolan_archive::warc_path;
use portolan_crawl::report::{bytes, counted, date, thousands};
use portolan_crawl::{Crawl, Settings};
use portolan_model::{
    Clock, DocId, History, LinkKind, Outcome, Pulse, SiteTables, Standing, SystemClock, Visit,
};
use portolan_registry::{QueuePosition, Snapshot, UrlRecord, UrlState};
use serde_json::json;

use super::fleet_crawl::FleetCrawl;
use super::inspect;
use crate::arguments::WhyArguments;
use crate::failure::Failure;
use crate::output::field;

pub(crate) fn run(arguments: &WhyArguments) -> Result<ExitCode, Failure> {
    match FleetCrawl::at(&arguments.dir)? {
        Some(crawl) => tell_of(&crawl, &arguments.url, arguments.json),
        None => tell(arguments, None),
    }
}

/// Of a fleet's crawl.
pub(super) fn tell_of(crawl: &FleetCrawl, url: &str, json: bool) -> Result<ExitCode, Failure> {
    let arguments = WhyArguments {
        dir: crawl.updated()?,
        url: url.to_owned(),
        json,
    };
    tell(&arguments, Some(crawl))
}

fn tell(arguments: &WhyArguments, fleet: Option<&FleetCrawl>) -> Result<ExitCode, Failure> {
    let snapshot = inspect::open(&arguments.dir)?;
    let canonicalizer = Crawl::canonicalizer(&arguments.dir)?;
    let url = canonicalizer
        .parse_seed(&arguments.url)
        .map_err(|e| Failure::usage(format!("'{}': {e}", arguments.url)))?;
    let record = snapshot
        .find(url.doc_id(snapshot.ids()))
        .map_err(Failure::failed)?;
    let Some(record) = record else {
        return unknown(&snapshot, arguments, url.as_str(), url.politeness_key());
    };
    let visit = snapshot.visit(&record).map_err(Failure::failed)?;
    let found_on = match record.from {
        Some(doc) => snapshot.url_of(doc).map_err(Failure::failed)?,
        None => None,
    };
    let cut = match record.from.filter(|_| record.early) {
        Some(doc) => Some(how_it_came(&snapshot, doc)?),
        None => None,
    };
    let site = snapshot.host(record.host).map_err(Failure::failed)?;
    let mut origins = site.iter().flat_map(|site| &site.robots);
    let tables = origins
        .find(|robots| robots.origin == url.origin())
        .map(|robots| robots.tables);
    let place = snapshot
        .queue_position(record.doc)
        .map_err(Failure::failed)?;
    let copy_of = match visit.as_ref().and_then(|visit| visit.duplicate_of) {
        Some(doc) => snapshot.url_of(doc).map_err(Failure::failed)?,
        None => None,
    };
    let mut warc = match fleet {
        Some(crawl) => archived_by(crawl, visit.as_ref())?,
        None => archived_in(&arguments.dir, visit.as_ref())?,
    };
    let redirects = visit
        .as_ref()
        .is_some_and(|visit| (300..400).contains(&visit.status));
    let redirects_to = match warc.as_mut().filter(|_| redirects) {
        Some((path, offset)) => {
            if let (Some(crawl), Some(name)) = (fleet, path.to_str()) {
                *path = crawl.warc(name)?;
            }
            portolan_crawl::redirect_target(path, *offset, &url, &canonicalizer)?
        }
        None => None,
    };
    let story = Story {
        record,
        visit,
        found_on,
        early: cut,
        tables: tables.unwrap_or_default(),
        place,
        copy_of,
        redirects_to: redirects_to.map(|target| target.as_str().to_owned()),
        warc,
    };
    if arguments.json {
        inspect::write_json(&mut inspect::lines(), &story.json())?;
    } else {
        story.tell(&mut inspect::lines())?;
        if !Crawl::is_judged(&arguments.dir)? {
            writeln!(
                inspect::lines(),
                "  The settings have changed since: URLs are being judged again, or will be when the crawl goes on."
            )?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// What became of the page that a URL was found on while the page was still coming.
fn how_it_came(snapshot: &Snapshot, page: DocId) -> Result<Came, Failure> {
    let Some(page) = snapshot.find(page).map_err(Failure::failed)? else {
        return Ok(Came::Cut("it is not known what became of it"));
    };
    let visit = snapshot.visit(&page).map_err(Failure::failed)?;
    Ok(
        match (page.state, visit.and_then(|visit| visit.truncated)) {
            (UrlState::Visited, None) => Came::Whole,
            (UrlState::Visited, Some(_)) => Came::Cut("a part of it was archived"),
            (UrlState::Due, _) => Came::Cut("it is due again"),
            (UrlState::Failed, _) => Came::Cut("it failed"),
            (UrlState::Excluded, _) => Came::Cut("it was excluded"),
        },
    )
}

/// The WARC file of a visit's answer, and where in it the answer begins. `None` if nothing is archived, or the file is gone.
fn archived_in(dir: &Path, visit: Option<&Visit>) -> Result<Option<(PathBuf, u64)>, Failure> {
    let Some(at) = visit.and_then(|visit| visit.archive) else {
        return Ok(None);
    };
    let prefix = Crawl::saved_settings(dir)?.archive.file_prefix();
    let path = warc_path(dir, &prefix, at.file).map_err(Failure::failed)?;
    Ok(path.map(|path| (path, at.offset)))
}

/// The same of a fleet: the file's name, and not yet where it is.
fn archived_by(
    crawl: &FleetCrawl,
    visit: Option<&Visit>,
) -> Result<Option<(PathBuf, u64)>, Failure> {
    let Some(at) = visit.and_then(|visit| visit.archive) else {
        return Ok(None);
    };
    let name = crawl.warc_of(at.file)?;
    Ok(name.map(|name| (PathBuf::from(name), at.offset)))
}

/// A URL that no page named.
fn unknown(
    snapshot: &Snapshot,
    arguments: &WhyArguments,
    url: &str,
    politeness_key: &str,
) -> Result<ExitCode, Failure> {
    let hosts = snapshot.hosts().map_err(Failure::failed)?;
    let host_known = hosts.iter().any(|(_, state)| state.name == politeness_key);
    let mut out = inspect::lines();
    if arguments.json {
        inspect::write_json(
            &mut out,
            &json!({ "url": url, "state": "unknown", "host_known": host_known }),
        )?;
    } else {
        let host_says = if host_known {
            "though its host is known"
        } else {
            "nor is its host"
        };
        writeln!(
            out,
            "{url}\n  is not known to this crawl, {host_says}: no seed names it, and no link that was followed so far."
        )?;
        for unread in not_looked_for(&Crawl::saved_settings(&arguments.dir)?) {
            writeln!(out, "  {unread}")?;
        }
    }
    Ok(ExitCode::from(1))
}

/// What the settings keep the crawl from finding, so that it knows no URL by it.
fn not_looked_for(settings: &Settings) -> Vec<&'static str> {
    let (content, robots) = (&settings.content, &settings.robots);
    let mut sentences = Vec::new();
    if !content.embeds {
        sentences.push(
            "Style sheets, images, scripts and other things that pages embed are not looked for, because content.embeds is off.",
        );
    }
    if !content.feeds {
        sentences.push("Links in feeds are not looked for, because content.feeds is off.");
    }
    if !robots.sitemaps {
        sentences.push("Sitemaps are not read, because robots.sitemaps is off.");
    }
    sentences
}

/// From then on, or now if that is past.
fn when(not_before_ms: u64) -> String {
    match not_before_ms > SystemClock::start().wall_ms() {
        true => format!("again from {}", date(not_before_ms)),
        false => "now".to_owned(),
    }
}

/// Why the URL waits, if its host fails.
fn tell_trouble(out: &mut impl Write, pulse: &Pulse) -> std::io::Result<()> {
    if !pulse.is_failing() {
        return Ok(());
    }
    writeln!(
        out,
        "  Its host fails since {} ({} in a row): {}.{}",
        date(pulse.failing_since_ms),
        pulse.failures,
        pulse.trouble.map_or("no answer came", |t| t.sentence()),
        if pulse.given_up_by == 0 {
            ""
        } else {
            " A run gave it up; the next one asks again."
        },
    )
}

/// What sessions have found, if there was more than one check, or the page is gone.
fn tell_history(out: &mut impl Write, history: &History) -> std::io::Result<()> {
    if history.checks > 1 {
        let changed = match history.changed_ms {
            0 => "it has never changed".to_owned(),
            at_ms => format!(
                "{}, the last one seen {}",
                counted(history.changes.into(), "change"),
                date(at_ms)
            ),
        };
        let checks = counted(history.checks.into(), "check");
        writeln!(
            out,
            "  {checks} up to session {}: {changed}.",
            history.session
        )?;
    }
    if history.gone_ms > 0 {
        writeln!(out, "  Gone since {}.", date(history.gone_ms))?;
    }
    Ok(())
}

fn standing(standing: Standing) -> Option<&'static str> {
    match standing {
        Standing::Unknown => None,
        Standing::Served => Some("served"),
        Standing::Missing => Some("missing"),
        Standing::Lied => Some("lied"),
    }
}

/// How the page came that a URL was found on early.
enum Came {
    Whole,
    /// It did not come to its end; what became of it.
    Cut(&'static str),
}

struct Story {
    record: UrlRecord,
    visit: Option<Visit>,
    found_on: Option<String>,
    /// Set if it was found before that page was there as a whole.
    early: Option<Came>,
    /// Of its site.
    tables: SiteTables,
    place: Option<QueuePosition>,
    copy_of: Option<String>,
    redirects_to: Option<String>,
    /// File and offset.
    warc: Option<(PathBuf, u64)>,
}

impl Story {
    fn warc_name(&self) -> Option<String> {
        let (path, _) = self.warc.as_ref()?;
        Some(path.file_name()?.to_string_lossy().into_owned())
    }

    fn json(&self) -> serde_json::Value {
        let visit = self.visit.as_ref();
        json!({
            "url": self.record.url,
            "state": inspect::state_name(&self.record),
            "reason": self.record.reason.map(|reason| reason.name()),
            "sentence": self.record.reason.map(|reason| reason.sentence()),
            "found_as": self.record.kind.name(),
            "found_on": self.found_on,
            "found_early": self.early.is_some(),
            "found_on_cut": self.early.as_ref().map(|came| matches!(came, Came::Cut(_))),
            "site_tol": standing(self.tables.tol),
            "site_tvi": standing(self.tables.tvi),
            "refreshed": visit.map(Visit::is_refreshed),
            "back_links": self.record.count,
            "depth": self.record.depth,
            "attempts": self.record.attempts,
            "queue_place": self.place.map(|place| place.place),
            "queue_length": self.place.map(|place| place.queued),
            "host_not_before_ms": self.place.map(|place| place.not_before_ms),
            "host_failures": self.place.map(|place| place.pulse.failures),
            "host_failing_since_ms": self.place.map(|place| place.pulse.failing_since_ms),
            "host_trouble": self.place.and_then(|place| place.pulse.trouble).map(|t| t.name()),
            "at_ms": visit.map(|v| v.at_ms),
            "status": visit.map(|v| v.status),
            "mime": visit.map(|v| v.mime.as_str()),
            "charset": visit.map(|v| v.charset.as_str()),
            "title": visit.map(|v| v.title.as_str()),
            "facts": visit.map(inspect::facts),
            "body_bytes": visit.map(|v| v.body_bytes),
            "fetch_ms": visit.map(|v| v.fetch_ms),
            "links": visit.map(|v| v.links),
            "links_left_out": visit.map(|v| v.links_left_out),
            "truncated": visit.and_then(|v| v.truncated).map(|t| t.name()),
            "copy_of": self.copy_of,
            "redirects_to": self.redirects_to,
            "session": visit.map(|v| v.history.session),
            "checks": visit.map(|v| v.history.checks),
            "changes": visit.map(|v| v.history.changes),
            "changed_ms": visit.map(|v| v.history.changed_ms).filter(|&ms| ms > 0),
            "gone_ms": visit.map(|v| v.history.gone_ms).filter(|&ms| ms > 0),
            "warc_file": self.warc_name(),
            "warc_offset": self.warc.as_ref().map(|(_, offset)| offset),
        })
    }

    fn tell(&self, out: &mut impl Write) -> std::io::Result<()> {
        let record = &self.record;
        writeln!(out, "{}", record.url)?;
        let because = record.reason.map_or("", |reason| reason.sentence());
        match record.state {
            UrlState::Visited => writeln!(out, "  was fetched.")?,
            UrlState::Due if record.attempts > 0 => {
                let attempts = counted(record.attempts.into(), "attempt");
                writeln!(out, "  is due again after {attempts}.")?;
            }
            UrlState::Due => writeln!(out, "  is due.")?,
            UrlState::Failed => writeln!(out, "  failed: {because}.")?,
            UrlState::Excluded => writeln!(out, "  is excluded: {because}.")?,
        }
        match &self.found_on {
            Some(page) if record.kind == LinkKind::Tol => writeln!(
                out,
                "  First found in the table of links of {page}, {} from a seed.",
                counted(record.depth.into(), "link")
            )?,
            Some(page) => writeln!(
                out,
                "  First found as a link ({}) on {page}, {} from a seed.",
                record.kind.name(),
                counted(record.depth.into(), "link")
            )?,
            None if record.kind.is_seed() => writeln!(out, "  It is a seed.")?,
            None => writeln!(out, "  First found through {}.", record.kind.name())?,
        }
        match &self.early {
            Some(Came::Whole) if record.kind == LinkKind::Tol => {}
            Some(Came::Cut(fate)) if record.kind == LinkKind::Tol => {
                writeln!(out, "  That page has not come whole; {fate}.")?
            }
            Some(Came::Whole) => writeln!(out, "  It was found while that page was still coming.")?,
            Some(Came::Cut(fate)) => writeln!(
                out,
                "  It was found while that page was still coming. The page was cut; {fate}."
            )?,
            None => {}
        }
        writeln!(
            out,
            "  Back-links so far: {}.",
            thousands(record.count.into())
        )?;
        if self.tables.tol == Standing::Lied {
            writeln!(
                out,
                "  Its site's tables of links are not believed: one of them was not what its document has."
            )?;
        }
        if let Some(place) = self.place {
            writeln!(
                out,
                "  Place {} of {} in its host's queue; the host may be asked {}.",
                place.place,
                place.queued,
                when(place.not_before_ms)
            )?;
            tell_trouble(out, &place.pulse)?;
        }
        if let Some(visit) = &self.visit {
            self.tell_visit(out, visit)?;
            tell_history(out, &visit.history)?;
        }
        Ok(())
    }

    fn tell_visit(&self, out: &mut impl Write, visit: &Visit) -> std::io::Result<()> {
        let when = date(visit.at_ms);
        if visit.status == 0 {
            let how = match visit.outcome {
                Outcome::Retry(reason) | Outcome::Failed(reason) => reason.sentence(),
                Outcome::Excluded(_) => "nothing was asked",
                Outcome::Fetched => "answered",
            };
            return writeln!(out, "  Last looked at {when}: {how}.");
        }
        writeln!(
            out,
            "  Asked {when} (attempt {}): status {}, {} {}, {} in {} ms{}.",
            visit.attempt,
            visit.status,
            field(match visit.mime.as_str() {
                "" => "no type",
                mime => mime,
            }),
            field(&visit.charset),
            bytes(visit.body_bytes),
            visit.fetch_ms,
            visit
                .truncated
                .map_or(String::new(), |t| format!(", truncated ({})", t.name())),
        )?;
        if visit.is_refreshed() {
            writeln!(
                out,
                "  Then its volatile parts alone were fetched (.tvi), which took {} less. 'portolan warc cat --fresh' shows it.",
                bytes(visit.history.saved_bytes)
            )?;
        }
        if let Some(target) = &self.redirects_to {
            writeln!(out, "  It redirects to {}.", field(target))?;
        }
        if !visit.title.is_empty() {
            writeln!(out, "  Title: {}", field(&visit.title))?;
        }
        for fact in &visit.facts {
            writeln!(out, "  {}: {}", field(&fact.name), field(&fact.value))?;
        }
        if visit.links_left_out > 0 {
            writeln!(
                out,
                "  Links taken: {}. Links beyond content.max_links, not taken: {}.",
                thousands(u64::from(visit.links)),
                thousands(u64::from(visit.links_left_out))
            )?;
        }
        if let Some(first) = &self.copy_of {
            writeln!(out, "  The same payload was archived before, from {first}.")?;
        }
        if let (Some(name), Some((_, offset))) = (self.warc_name(), &self.warc) {
            writeln!(out, "  Archived in {name} at byte {offset}.")?;
        } else if visit.archive.is_some() {
            writeln!(out, "  It was archived, but the WARC file is gone.")?;
        }
        Ok(())
    }
}
