//! `portolan fetch`: what a crawl would do with one URL, without a crawl.

use std::io::Write;
use std::process::ExitCode;

use portolan_crawl::report::{bytes, counted};
use portolan_crawl::{
    AnswerPreview, LinkPreview, Preview, RobotsDecision, RobotsPreview, Settings, preview,
};
use portolan_model::Outcome;
use serde_json::{Value, json};

use super::crawl::{apply_options, read_settings};
use super::inspect;
use crate::arguments::{CrawlArguments, FetchArguments};
use crate::failure::{EXIT_FAILED, Failure};
use crate::output::field;

pub(crate) fn run(arguments: &FetchArguments) -> Result<ExitCode, Failure> {
    let crawl = &arguments.crawl;
    refuse_what_is_for_crawls(crawl)?;
    let [url] = crawl.seeds.as_slice() else {
        return Err(Failure::usage(
            "name one URL, as in 'portolan fetch https://example.org/'",
        ));
    };
    let mut settings = read_settings(crawl.config.as_deref(), Settings::default())?;
    apply_options(crawl, &mut settings)?;
    let preview = preview(settings, url, arguments.anyway)?;
    let mut out = inspect::lines();
    match crawl.json {
        true => inspect::write_json(&mut out, &as_json(&preview))?,
        false => tell(&mut out, &preview)?,
    }
    out.flush()?;
    let kept = match &preview.answer {
        Some(Ok(answer)) => answer.visit.outcome == Outcome::Fetched,
        _ => false,
    };
    let allowed = preview.robots.verdict == RobotsDecision::Allowed;
    Ok(match kept && allowed {
        true => ExitCode::SUCCESS,
        false => ExitCode::from(EXIT_FAILED),
    })
}

/// Options that would change nothing here are mistakes.
fn refuse_what_is_for_crawls(crawl: &CrawlArguments) -> Result<(), Failure> {
    for (given, option) in [
        (crawl.out.is_some(), "--out"),
        (crawl.seeds_file.is_some(), "--seeds-file"),
        (crawl.max_pages.is_some(), "--max-pages"),
        (crawl.time_limit.is_some(), "--time-limit"),
        (crawl.wait.is_some(), "--wait"),
        (crawl.retry_failed.is_some(), "--retry-failed"),
        (crawl.new_session, "--new-session"),
        (crawl.keep_fresh, "--keep-fresh"),
        (crawl.frontier_server.is_some(), "--frontier-server"),
        (crawl.connections.is_some(), "--connections"),
        (crawl.quiet, "--quiet"),
    ] {
        if given {
            return Err(Failure::usage(format!(
                "{option} is for 'portolan crawl'; fetch asks for one URL and writes nothing"
            )));
        }
    }
    Ok(())
}

fn tell(out: &mut impl Write, preview: &Preview) -> std::io::Result<()> {
    writeln!(out, "{}", field(&preview.url))?;
    tell_robots(out, &preview.robots)?;
    match &preview.answer {
        None => writeln!(out, "  It was not asked for; --anyway asks all the same."),
        Some(Err(none)) => {
            writeln!(out, "  No answer: {}.", none.reason.sentence())?;
            writeln!(out, "  {}", field(&none.detail))
        }
        Some(Ok(answer)) => tell_answer(out, answer),
    }
}

fn tell_robots(out: &mut impl Write, robots: &RobotsPreview) -> std::io::Result<()> {
    let status = match robots.status {
        Some(status) => format!("status {status}"),
        None => "no answer".to_owned(),
    };
    let (url, line) = (field(&robots.url), robots.line.as_deref().map(field));
    match (&robots.verdict, line) {
        (RobotsDecision::Allowed, Some(line)) => {
            writeln!(out, "  Allowed by '{line}' of {url} ({status}).")?;
        }
        (RobotsDecision::Allowed, None) => {
            writeln!(
                out,
                "  Allowed: nothing in {url} ({status}) speaks against it."
            )?;
        }
        (RobotsDecision::Forbidden, line) => {
            let line = line.map_or(String::new(), |line| format!(" by '{line}'"));
            writeln!(out, "  Forbidden{line} of {url} ({status}).")?;
        }
        (RobotsDecision::Unreadable(why), _) => {
            writeln!(
                out,
                "  Nothing may be fetched there before {url} can be read: {}.",
                field(why)
            )?;
        }
    }
    if let Some(delay_ms) = robots.crawl_delay_ms {
        writeln!(out, "  It asks for {delay_ms} ms between requests.")?;
    }
    for sitemap in &robots.sitemaps {
        writeln!(out, "  It names the sitemap {}.", field(sitemap))?;
    }
    Ok(())
}

fn tell_answer(out: &mut impl Write, answer: &AnswerPreview) -> std::io::Result<()> {
    let visit = &answer.visit;
    match answer.peer {
        Some(peer) => writeln!(out, "\nAsked at {peer}:")?,
        None => writeln!(out, "\nAsked through a proxy:")?,
    }
    tell_head(out, &answer.request_head)?;
    writeln!(out, "\nAnswered after {} ms:", visit.fetch_ms)?;
    tell_head(out, &answer.response_head)?;
    writeln!(out)?;
    let or_none = |text: &str| match text {
        "" => "none".to_owned(),
        text => field(text).to_string(),
    };
    writeln!(
        out,
        "  Type: {}. Charset: {}. {} on the wire, {} of body{}.",
        or_none(&visit.mime),
        or_none(&visit.charset),
        bytes(visit.wire_bytes),
        bytes(visit.body_bytes),
        visit
            .truncated
            .map_or(String::new(), |t| format!(", truncated ({})", t.name())),
    )?;
    if !visit.title.is_empty() {
        writeln!(out, "  Title: {}", field(&visit.title))?;
    }
    for fact in &visit.facts {
        writeln!(out, "  {}: {}", field(&fact.name), field(&fact.value))?;
    }
    writeln!(out, "  {}", sentence(answer))?;
    if visit.links_left_out > 0 {
        let more = counted(visit.links_left_out.into(), "link");
        writeln!(out, "  {more} beyond content.max_links left out.")?;
    }
    if answer.redirects_to.is_none() && !answer.links.is_empty() {
        let all = counted(answer.links.len() as u64, "link");
        let followed = answer.links.iter().filter(|link| link.excluded.is_none());
        writeln!(
            out,
            "\n{all}, of which {} would be fetched:",
            followed.count()
        )?;
    }
    for link in &answer.links {
        writeln!(
            out,
            "  {:<18} {:<12} {}",
            verdict(link),
            link.kind.name(),
            field(&link.url)
        )?;
    }
    if answer.links.iter().any(is_open) {
        writeln!(
            out,
            "  (fetch?) robots.txt of that origin is read when its turn comes."
        )?;
    }
    Ok(())
}

fn tell_head(out: &mut impl Write, head: &[u8]) -> std::io::Result<()> {
    for line in String::from_utf8_lossy(head).lines() {
        if !line.is_empty() {
            writeln!(out, "  | {}", field(line))?;
        }
    }
    Ok(())
}

/// What would become of the answer.
fn sentence(answer: &AnswerPreview) -> String {
    match (answer.visit.outcome, &answer.redirects_to) {
        (Outcome::Fetched, Some(target)) => {
            format!("It would be archived, and redirects to {}.", field(target))
        }
        (Outcome::Fetched, None) => "It would be archived.".to_owned(),
        (Outcome::Retry(reason), _) => {
            format!("It would be asked for again later: {}.", reason.sentence())
        }
        (Outcome::Failed(reason), _) => format!("It counts as failed: {}.", reason.sentence()),
        (Outcome::Excluded(reason), _) => {
            format!("It would not be kept: {}.", reason.sentence())
        }
    }
}

/// It would be fetched unless a robots.txt that was not read says otherwise.
fn is_open(link: &LinkPreview) -> bool {
    link.excluded.is_none() && !link.robots_known
}

fn verdict(link: &LinkPreview) -> &'static str {
    match link.excluded {
        Some(reason) => reason.name(),
        None if is_open(link) => "fetch?",
        None => "fetch",
    }
}

fn as_json(preview: &Preview) -> Value {
    let robots = &preview.robots;
    let (verdict, detail) = match &robots.verdict {
        RobotsDecision::Allowed => ("allowed", None),
        RobotsDecision::Forbidden => ("forbidden", None),
        RobotsDecision::Unreadable(why) => ("unreadable", Some(why)),
    };
    json!({
        "url": preview.url,
        "robots": {
            "url": robots.url, "status": robots.status, "verdict": verdict, "detail": detail, "line": robots.line,
            "crawl_delay_ms": robots.crawl_delay_ms, "sitemaps": robots.sitemaps,
        },
        "answer": match &preview.answer {
            None => Value::Null,
            Some(Ok(answer)) => answer_json(answer),
            Some(Err(none)) => json!({ "outcome": "none", "reason": none.reason.name(), "detail": none.detail }),
        },
    })
}

fn answer_json(answer: &AnswerPreview) -> Value {
    let visit = &answer.visit;
    let (outcome, reason) = match visit.outcome {
        Outcome::Fetched => ("kept", None),
        Outcome::Retry(reason) => ("again", Some(reason.name())),
        Outcome::Failed(reason) => ("failed", Some(reason.name())),
        Outcome::Excluded(reason) => ("excluded", Some(reason.name())),
    };
    let links: Vec<Value> = answer
        .links
        .iter()
        .map(|link| {
            json!({
                "url": link.url, "kind": link.kind.name(),
                "verdict": link.excluded.map_or("fetch", |reason| reason.name()),
                "robots_known": link.robots_known,
            })
        })
        .collect();
    json!({
        "outcome": outcome, "reason": reason, "address": answer.peer, "fetch_ms": visit.fetch_ms,
        "request_head": String::from_utf8_lossy(&answer.request_head),
        "response_head": String::from_utf8_lossy(&answer.response_head),
        "status": visit.status, "mime": visit.mime, "charset": visit.charset, "title": visit.title,
        "wire_bytes": visit.wire_bytes, "body_bytes": visit.body_bytes,
        "truncated": visit.truncated.map(|t| t.name()), "redirects_to": answer.redirects_to,
        "links_left_out": visit.links_left_out, "links": links, "facts": inspect::facts(visit),
    })
}
