//! An answer without its body, and the one way from it to a capture for the archive: with the body for the first
//! record of a payload, without it for a revisit.

use std::net::IpAddr;

use portolan_archive::{Built, Capture, Conversion, PageFacts};
use portolan_model::{CanonicalUrl, Visit};
use portolan_net::{Oddity, Response, Version};

/// The records of a visit, as built by a worker.
pub(crate) enum VisitRecords {
    /// An answer, stored in full unless its payload is known.
    Answer {
        built: Built,
        /// What a revisit record needs in case the payload is known already; `None`: stored in full.
        copy: Option<Box<Answered>>,
    },
    /// The server said that nothing had changed since `since_ms`. The record is built by who knows where the payload is.
    NotModified {
        answered: Box<Answered>,
        since_ms: u64,
    },
}

impl VisitRecords {
    /// About how many bytes it takes until it is written.
    pub(crate) fn bytes(&self) -> u64 {
        match self {
            VisitRecords::Answer { built, copy } => {
                let texts = copy.as_ref().map_or(&[][..], |copy| &copy.texts);
                let texts: usize = texts.iter().map(|text| text.text.len()).sum();
                built.bytes() + texts as u64
            }
            VisitRecords::NotModified { answered, .. } => {
                (answered.request_head.len() + answered.response_head.len()) as u64
            }
        }
    }
}

/// What came back for a request, but for the body.
pub(crate) struct Answered {
    surt: String,
    ip: Option<IpAddr>,
    request_head: Vec<u8>,
    response_head: Vec<u8>,
    protocol: Option<&'static str>,
    /// It is no HTTP, and this is its media type.
    resource_type: Option<String>,
    oddities: Vec<&'static str>,
    /// What modules made of it.
    pub(crate) texts: Vec<Conversion>,
}

impl Answered {
    /// Takes a response apart: all but its body, and its body.
    pub(crate) fn of(
        url: &CanonicalUrl,
        ip: Option<IpAddr>,
        response: Response,
    ) -> (Self, Vec<u8>) {
        let answered = Self {
            surt: url.surt(),
            ip,
            protocol: protocol_of(&response),
            resource_type: resource_type_of(&response),
            oddities: response.oddities.iter().map(Oddity::name).collect(),
            request_head: response.request_head,
            response_head: response.head.into_bytes(),
            texts: Vec::new(),
        };
        (answered, response.body)
    }

    /// What the archive is given. Without a body the payload is the one whose SHA-1 is in `visit`.
    pub(crate) fn capture<'a>(
        &'a self,
        url: &'a str,
        visit: &'a Visit,
        body: Option<&'a [u8]>,
    ) -> Capture<'a> {
        Capture {
            url,
            surt: &self.surt,
            at_ms: visit.at_ms,
            ip: self.ip,
            request_head: &self.request_head,
            response_head: &self.response_head,
            body: body.unwrap_or_default(),
            sha1: body.is_none().then_some(visit.sha1),
            status: visit.status,
            protocol: self.protocol,
            resource_type: self.resource_type.as_deref(),
            identified_type: None,
            truncated: visit.truncated,
            facts: PageFacts {
                fetch_ms: visit.fetch_ms,
                depth: visit.depth,
                via: None,
                charset: &visit.charset,
                title: &visit.title,
                simhash: visit.simhash,
                refreshes: None,
                oddities: &self.oddities,
                said: &visit.facts,
            },
            conversions: &self.texts,
        }
    }
}

fn protocol_of(response: &Response) -> Option<&'static str> {
    match response.version() {
        Version::Http2 => Some("h2"),
        Version::Http09 => Some("http/0.9"),
        Version::Other(scheme) => Some(scheme.name()),
        Version::Http10 | Version::Http11 => None,
    }
}

fn resource_type_of(response: &Response) -> Option<String> {
    let Version::Other(_) = response.version() else {
        return None;
    };
    let said = response.header_str("content-type");
    Some(said.unwrap_or("application/octet-stream").to_owned())
}
