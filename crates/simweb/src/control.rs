//! Questions and orders from another process, on any name that is no host of the Web: `/-/witness`, `/-/mark`, …

use crate::answer::Reply;
use crate::request::Request;
use crate::truth::{Scope, TruthQuery};
use crate::verdict::Verdict;
use crate::web::Web;
use crate::witness::Witness;
use serde::Serialize;

const INDEX: &str = "\
/-/witness     what the witness saw, as JSON      /-/report   the same in words
/-/hosts       figures for each host              /-/urls     requests for each URL
/-/requests    the recorded requests              /-/record?max=N   record the last N requests
/-/mark        start a new epoch                  /-/reset    forget everything seen
/-/expect?delay_ms=N   the delay to judge by      /-/expect?ip_delay_ms=N   the same for an address
/-/truth?scope=any|host&seed=URL&digests=true     what a perfect crawler fetches
/-/verdict     both in a few figures: what was fetched of what there is, how fast, how politely
/-/figures     counts so far, of healthy and of sick hosts
/-/spec        the parameters of this Web         /-/generation?set=N   let pages change
/-/motion      pages change from now on           /-/freshness?from_s=N  how fresh the client's copies were since then
                                                  &until_s=N   later changes do not count
";

/// Answers a request that names no host of the Web. False: not ours either.
pub(crate) fn control(web: &Web, witness: &Witness, request: &Request, answer: &mut Reply) -> bool {
    let (path, query) = request
        .target
        .split_once('?')
        .unwrap_or((&request.target, ""));
    let value = |name: &str| {
        query.split('&').find_map(|pair| {
            pair.split_once('=')
                .filter(|(key, _)| *key == name)
                .map(|(_, v)| v)
        })
    };
    let number = |name: &str| value(name).and_then(|v| v.parse::<u64>().ok());
    match path {
        "/-/" => answer.plain(200, "text/plain", INDEX.as_bytes()),
        "/-/witness" => json(answer, &witness.report()),
        "/-/report" => answer.plain(200, "text/plain", witness.report().to_string().as_bytes()),
        "/-/hosts" => json(answer, &witness.per_host()),
        "/-/urls" => json(answer, &witness.per_url()),
        "/-/requests" => json(answer, &witness.requests()),
        "/-/record" => {
            witness.record_requests(number("max").unwrap_or(0).min(MAX_RECORDED) as usize);
            answer.plain(200, "text/plain", b"ok\n");
        }
        "/-/mark" => json(answer, &witness.mark()),
        "/-/reset" => {
            witness.reset();
            answer.plain(200, "text/plain", b"ok\n");
        }
        "/-/expect" => {
            if let Some(delay_ms) = number("delay_ms") {
                witness.expect_delay_ms(delay_ms);
            }
            if let Some(delay_ms) = number("ip_delay_ms") {
                witness.expect_ip_delay_ms(delay_ms);
            }
            answer.plain(200, "text/plain", b"ok\n");
        }
        "/-/figures" => json(answer, &witness.figures()),
        "/-/verdict" => json(answer, &Verdict::of(web, witness)),
        "/-/spec" => json(answer, web.spec()),
        "/-/generation" => {
            if let Some(generation) = number("set").and_then(|n| n.try_into().ok()) {
                web.set_generation(generation);
            }
            json(answer, &web.generation());
        }
        "/-/motion" => {
            web.set_in_motion();
            json(answer, &web.motion_ms());
        }
        "/-/freshness" => {
            let from_ms = number("from_s").unwrap_or(0).saturating_mul(1000);
            let until_ms = number("until_s").map_or(u64::MAX, |s| s.saturating_mul(1000));
            json(answer, &witness.freshness(from_ms, until_ms));
        }
        "/-/truth" => {
            let mut truth_query = TruthQuery::default();
            if value("scope") == Some("host") {
                truth_query.scope = Scope::Host;
            }
            if let Some(seed) = value("seed") {
                truth_query.seeds = vec![seed.to_owned()];
            }
            truth_query.digests = value("digests") == Some("true");
            json(answer, &web.truth(&truth_query));
        }
        _ => return false,
    }
    true
}

/// Requests that can be recorded on order.
const MAX_RECORDED: u64 = 1_000_000;

fn json<T: Serialize>(answer: &mut Reply, value: &T) {
    match serde_json::to_vec(value) {
        Ok(text) => answer.plain(200, "application/json", &text),
        Err(error) => answer.plain(500, "text/plain", error.to_string().as_bytes()),
    }
}
