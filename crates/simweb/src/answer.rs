//! What the Web answers to a request: status, headers, body, and in which odd way to send it. Decides everything, sends nothing.

use crate::changes::Version;
use crate::encoding::Coding;
use crate::motion::Candour;
use crate::oddity::Oddity;
use crate::page::Scratch;
use crate::plan::{Hop, Redirect, Role, Via};
use crate::request::{Method, Request};
use crate::robots::{RobotsKind, robots_text};
use crate::seed::{Draw, mix};
use crate::web::{Resource, Web, push_number};

/// Bodies shorter than this are sent as they are.
const MIN_ENCODED_BYTES: usize = 200;

/// An answer before it is put on the wire. Kept by a connection, so that its buffers are used again.
#[derive(Default)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    /// Whole header lines but for Content-Length and Connection, each with its CRLF.
    pub(crate) headers: Vec<u8>,
    pub(crate) body: Vec<u8>,
    pub(crate) oddity: Option<Oddity>,
    /// What Retry-After asked for.
    pub(crate) retry_after_s: u32,
    /// Over this time the body is sent.
    pub(crate) body_ms: f64,
    scratch: Scratch,
}

impl Reply {
    fn clear(&mut self) {
        self.status = 200;
        self.headers.clear();
        self.body.clear();
        self.oddity = None;
        self.retry_after_s = 0;
        self.body_ms = 0.0;
    }

    pub(crate) fn header(&mut self, name: &str, value: &str) {
        self.headers.extend_from_slice(name.as_bytes());
        self.headers.extend_from_slice(b": ");
        self.headers.extend_from_slice(value.as_bytes());
        self.headers.extend_from_slice(b"\r\n");
    }

    /// A short answer of our own making.
    pub(crate) fn plain(&mut self, status: u16, media: &str, body: &[u8]) {
        self.clear();
        self.status = status;
        self.header("Content-Type", media);
        self.body.extend_from_slice(body);
    }

    /// Whether another request for the same URL would be a repeat and not a retry.
    pub(crate) fn is_final(&self) -> bool {
        let whole = !self.oddity.is_some_and(Oddity::damages);
        whole && self.status != 429 && self.status < 500 && self.status != 304
    }
}

impl Web {
    /// Fills `answer`. `refusals` says how often the resource has already refused.
    pub(crate) fn answer(
        &self,
        host: u32,
        resource: Resource,
        request: &Request,
        refusals: u32,
        answer: &mut Reply,
    ) {
        answer.clear();
        if request.method == Method::Other {
            return answer.plain(405, "text/plain", b"only GET and HEAD\n");
        }
        match resource {
            Resource::Page(page) => self.answer_page(host, page, request, refusals, answer),
            Resource::Robots => self.answer_robots(host, answer),
            Resource::RobotsMoved => {
                let own = self.robots_kind(host) == RobotsKind::RedirectToPath;
                let text = self.robots_text(host, RobotsKind::Rules, own);
                answer.plain(200, "text/plain", text.as_bytes());
            }
            Resource::Sitemap(part) => {
                let (body, media) = self.sitemap(host, part);
                answer.plain(200, media, &body);
            }
            Resource::Feed => {
                let (body, media) = self.feed(host);
                answer.plain(200, media, &body);
            }
            Resource::Calendar(months) => {
                self.trap_page(answer, |out| self.write_calendar(months, out))
            }
            Resource::Growing(segments) => {
                self.trap_page(answer, |out| self.write_growing(segments, out))
            }
            Resource::Session(item, id) => {
                self.trap_page(answer, |out| self.write_session(item, id, out))
            }
            Resource::Table(page) => {
                let table = self.table(host, page);
                answer.plain(200, "text/plain; charset=utf-8", table.as_bytes());
            }
            Resource::Parts => {
                let parts = self.parts(host);
                answer.plain(200, "text/html; charset=utf-8", parts.as_bytes());
            }
            Resource::Nothing => answer.plain(404, "text/html; charset=utf-8", NOT_FOUND),
        }
    }

    fn trap_page(&self, answer: &mut Reply, write: impl FnOnce(&mut Vec<u8>)) {
        answer.header("Content-Type", "text/html; charset=utf-8");
        write(&mut answer.body);
    }

    fn answer_page(
        &self,
        host: u32,
        page: u32,
        request: &Request,
        refusals: u32,
        answer: &mut Reply,
    ) {
        let plan = self.plan(host, page);
        match plan.role {
            Role::Error(fault)
                if !(fault.recovers() && refusals >= self.spec.faults.recover_after) =>
            {
                answer.plain(
                    fault.status(),
                    "text/html; charset=utf-8",
                    b"<html><body>no</body></html>\n",
                );
                if fault.asks_to_wait() {
                    answer.retry_after_s = self.spec.faults.retry_after_s;
                    answer.header("Retry-After", &self.spec.faults.retry_after_s.to_string());
                }
                return;
            }
            Role::Redirect(redirect) => return self.answer_redirect(host, page, redirect, answer),
            _ => {}
        }
        let version = self.version(host, page);
        if version.gone {
            let status = if page.is_multiple_of(2) { 404 } else { 410 };
            return answer.plain(status, "text/html; charset=utf-8", NOT_FOUND);
        }
        let mut scratch = std::mem::take(&mut answer.scratch);
        self.write_body(host, page, &mut scratch, &mut answer.body);
        version.write(&mut answer.body);
        self.write_part(host, page, &mut answer.body);
        self.write_news(host, page, version, &mut answer.body);
        let is_fickle = self.write_fickle(host, page, &mut answer.body);
        answer.scratch = scratch;
        answer.oddity = self.oddity(host, page);
        self.write_type(host, page, answer);
        self.write_table_header(host, page, answer);
        // What differs in each answer has nothing to be known by.
        if !is_fickle {
            self.write_validators(host, page, version, request, answer);
        }
        if answer.status == 200 {
            self.encode(host, page, request, answer);
            answer.body_ms = self.body_ms(host, page);
        }
    }

    /// How long the body of a page takes to come.
    fn body_ms(&self, host: u32, page: u32) -> f64 {
        let latency = &self.spec.latency;
        let mut draw = Draw::at(self.spec.seed, u64::from(host), u64::from(page), 0x54);
        let is_slow = (host, page) == (0, 0) || draw.chance(latency.body_share);
        if is_slow { latency.body_ms } else { 0.0 }
    }

    fn write_type(&self, host: u32, page: u32, answer: &mut Reply) {
        let media = match self.plan(host, page).role {
            Role::Text => "text/plain; charset=utf-8",
            Role::Binary => "application/pdf",
            Role::Hidden(Via::Image) => "image/png",
            Role::WrongType => {
                ["text/plain", "application/octet-stream", "image/gif"][page as usize % 3]
            }
            Role::NoType => return,
            Role::Gate(via) if via.is_japanese() => match self.japanese_header(host, page) {
                Some(script) => {
                    return answer.header(
                        "Content-Type",
                        &format!("text/html; charset={}", script.label()),
                    );
                }
                None => "text/html",
            },
            Role::Gate(Via::HeaderNofollow) => {
                answer.header("X-Robots-Tag", "nofollow");
                "text/html; charset=utf-8"
            }
            // Real pages say their charset themselves.
            _ if self.library.is_some() => "text/html",
            _ => "text/html; charset=utf-8",
        };
        if answer.oddity == Some(Oddity::FoldedHeader) {
            answer
                .headers
                .extend_from_slice(b"X-Note: continued on\r\n\tthe next line\r\n");
            let folded = media.replacen("; ", ";\r\n ", 1);
            return answer.header("Content-Type", &folded);
        }
        answer.header("Content-Type", media);
    }

    fn write_validators(
        &self,
        host: u32,
        page: u32,
        version: Version,
        request: &Request,
        answer: &mut Reply,
    ) {
        if self.lacks_validators(host, page) || self.is_volatile(host, page) {
            return;
        }
        let version = match self.candour(host) {
            Candour::Honest => version,
            Candour::Denies => Version::default(),
            Candour::Boasts => Version {
                number: self.motion_ms().unwrap_or(0) as u32,
                ..version
            },
        };
        let tag = mix(self.spec.seed, u64::from(host), u64::from(page), 0x50)
            .wrapping_add(u64::from(version.number));
        answer.headers.extend_from_slice(b"ETag: \"");
        push_number(&mut answer.headers, tag);
        answer.headers.extend_from_slice(b"\"\r\n");
        let modified = version.last_modified();
        answer.header("Last-Modified", &modified);
        let by_tag = request
            .if_none_match
            .as_ref()
            .map(|t| t.trim_start_matches("W/").trim_matches('"') == tag.to_string());
        let by_date = || {
            request
                .if_modified_since
                .as_ref()
                .map(|since| *since == modified)
        };
        if by_tag.or_else(by_date).unwrap_or(false) {
            answer.status = 304;
            answer.body.clear();
        }
    }

    fn encode(&self, host: u32, page: u32, request: &Request, answer: &mut Reply) {
        if request.accept_encoding.is_empty() || answer.body.len() < MIN_ENCODED_BYTES {
            return;
        }
        let Some(coding) = self.coding(host, page) else {
            return;
        };
        let takes = |part: &str| {
            part.split(';')
                .next()
                .is_some_and(|name| name.trim() == coding.name())
        };
        if request.accept_encoding.split(',').any(takes) {
            answer.body = coding.encode(&answer.body);
            answer.header("Content-Encoding", coding.name());
            answer.header("Vary", "Accept-Encoding");
        }
    }

    /// The coding a page is sent in to those who take it.
    pub(crate) fn coding(&self, host: u32, page: u32) -> Option<Coding> {
        let content = &self.spec.content;
        let mut left = Draw::at(self.spec.seed, u64::from(host), u64::from(page), 0x51).unit();
        let shares = [
            (content.gzip_share, Coding::Gzip),
            (content.deflate_share, Coding::Deflate),
            (content.brotli_share, Coding::Brotli),
            (content.zstd_share, Coding::Zstd),
        ];
        shares.into_iter().find_map(|(share, coding)| {
            left -= share;
            (left < 0.0).then_some(coding)
        })
    }

    /// The page a redirect leads to.
    pub(crate) fn redirect_target(&self, host: u32, page: u32, redirect: Redirect) -> (u32, u32) {
        let bits = mix(self.spec.seed, u64::from(host), u64::from(page), 0x52);
        match redirect.hop {
            Hop::Trunk => (host, crate::plan::trunk_of(page)),
            Hop::OtherHost => (
                crate::plan::trunk_of((bits % u64::from(self.host_count())) as u32),
                0,
            ),
            Hop::Next => (host, page + 1),
            Hop::Previous => (host, page - 1),
            Hop::Itself => (host, page),
        }
    }

    fn answer_redirect(&self, host: u32, page: u32, redirect: Redirect, answer: &mut Reply) {
        let (to_host, to_page) = self.redirect_target(host, page, redirect);
        let bits = mix(self.spec.seed, u64::from(host), u64::from(page), 0x53);
        let path = self.path(to_host, to_page);
        let location = match bits % 3 {
            _ if to_host != host => self.page_url(to_host, to_page),
            0 => self.page_url(to_host, to_page),
            1 => path,
            _ => {
                // Relative to the page's folder: up to the root and down again.
                let own = self.path(host, page);
                let depth = own
                    .split('?')
                    .next()
                    .unwrap_or_default()
                    .matches('/')
                    .count()
                    - 1;
                format!("./{}{}", "../".repeat(depth), &path[1..])
            }
        };
        answer.plain(
            redirect.status,
            "text/html",
            b"<html><body>moved</body></html>\n",
        );
        answer.header("Location", &location);
    }

    fn answer_robots(&self, host: u32, answer: &mut Reply) {
        match self.robots_kind(host) {
            RobotsKind::Missing => answer.plain(404, "text/html", NOT_FOUND),
            RobotsKind::Denied => answer.plain(403, "text/html", b"<html><body>no</body></html>\n"),
            RobotsKind::ServerError => {
                answer.plain(500, "text/html", b"<html><body>broken</body></html>\n")
            }
            RobotsKind::RedirectToPath => {
                answer.plain(301, "text/html", b"");
                answer.header("Location", "/robots-moved.txt");
            }
            RobotsKind::RedirectToHost => {
                answer.plain(302, "text/html", b"");
                let url = self.origin(self.robots_refuge(host)) + "/robots-moved.txt";
                answer.header("Location", &url);
            }
            kind => {
                let text = self.robots_text(host, kind, true);
                answer.plain(200, "text/plain", text.as_bytes());
            }
        }
    }

    fn robots_text(&self, host: u32, kind: RobotsKind, with_sitemap: bool) -> String {
        let plan = &self.hosts[host as usize];
        let sitemap = self.sitemap_paths(host).first().filter(|_| with_sitemap);
        let sitemap = sitemap.map(|path| self.origin(host) + path);
        let mut text = robots_text(plan, kind, &self.spec.product_token, sitemap.as_deref());
        text.push_str(&self.table_rules(host));
        text
    }
}

const NOT_FOUND: &[u8] = b"<html><body>There is nothing here.</body></html>\n";
