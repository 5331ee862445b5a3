//! The witness's judgement of a whole crawl in a few figures: what was to be had, what was fetched of it,
//! how long it took, and what a host could complain of.

use crate::truth::TruthQuery;
use crate::web::Web;
use crate::witness::Witness;
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Verdict {
    /// Documents that a perfect crawler fetches from the home page on.
    pub required: u64,
    /// Those of them that were fetched whole.
    pub fetched: u64,
    /// From the first request to the end of the last answer.
    pub seconds: f64,
    pub requests: u64,
    pub bytes: u64,
    /// Requests for what had already been answered for good.
    pub repeats: u64,
    /// Requests for what robots.txt forbids.
    pub forbidden: u64,
    /// Requests to a host before its robots.txt.
    pub before_robots: u64,
    /// Requests to a host while another was under way there.
    pub overlaps: u64,
    /// Requests for URLs that stand only in comments, scripts and the like.
    pub decoys: u64,
    pub connections: u64,
    pub most_connections_on_a_host: u32,
    pub hosts_asked: u64,
}

impl Verdict {
    pub fn of(web: &Web, witness: &Witness) -> Self {
        let truth = web.truth(&TruthQuery::default());
        let required = truth.documents().len() as u64;
        let report = witness.report();
        Verdict {
            required,
            fetched: required - truth.missed(&witness.per_url()).len() as u64,
            seconds: report.seconds,
            requests: report.requests,
            bytes: report.bytes,
            repeats: report.repeats,
            forbidden: report.forbidden,
            before_robots: report.before_robots,
            overlaps: report.overlaps,
            decoys: report.decoys,
            connections: report.connections,
            most_connections_on_a_host: report.most_connections_on_a_host,
            hosts_asked: report.hosts_asked,
        }
    }
}
