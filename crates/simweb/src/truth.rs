//! What a perfect, polite crawler must end with: computed from the plan, without a socket and without parsing a byte of HTML.

use crate::oddity::Oddity;
use crate::page::Scratch;
use crate::plan::{Role, Via};
use crate::web::{Resource, SESSION_ITEMS, Web};
use crate::witness::UrlCount;
use serde::{Deserialize, Serialize};
use sha1::{Digest, Sha1};
use std::collections::{BTreeMap, BTreeSet, HashSet, VecDeque};

/// Which crawl is asked about.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct TruthQuery {
    /// Canonical URLs of this Web; the home page of h0 when empty.
    pub seeds: Vec<String>,
    pub scope: Scope,
    pub sitemaps: bool,
    pub feeds: bool,
    pub images: bool,
    /// Links marked nofollow are followed all the same.
    pub nofollow: bool,
    /// Session parameters are stripped, so that the shop has an end.
    pub strip_sessions: bool,
    /// Compute the digest of every body: costs making every page once.
    pub digests: bool,
}

impl Default for TruthQuery {
    fn default() -> Self {
        TruthQuery {
            seeds: Vec::new(),
            scope: Scope::Any,
            sitemaps: true,
            feeds: true,
            images: false,
            nofollow: false,
            strip_sessions: true,
            digests: false,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    Any,
    /// Only the hosts of the seeds.
    Host,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Truth {
    /// By canonical URL.
    pub urls: BTreeMap<String, UrlTruth>,
    /// Beginnings of URLs of endless places: requests there are neither required nor wrong.
    pub trap_prefixes: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct UrlTruth {
    pub kind: UrlKind,
    /// The status in the end, where it may be asked for.
    pub status: u16,
    /// Refusals before that status is given.
    pub refusals: u32,
    pub redirects_to: Option<String>,
    /// The way it is discovered, where that is not a plain link.
    pub via: Option<Via>,
    pub oddity: Option<Oddity>,
    pub noindex: bool,
    /// The body before any content coding; for damaged answers what a whole one would have been.
    pub body: Option<BodyTruth>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum UrlKind {
    Document,
    Redirect,
    Error,
    /// robots.txt forbids it: known, never requested.
    Forbidden,
    Sitemap,
    Feed,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BodyTruth {
    pub bytes: u64,
    /// Lower-case hexadecimal.
    pub sha1: String,
}

impl Truth {
    pub fn of_kind(&self, kind: UrlKind) -> BTreeSet<&str> {
        self.urls
            .iter()
            .filter(|(_, t)| t.kind == kind)
            .map(|(url, _)| url.as_str())
            .collect()
    }

    /// URLs that end in a 200 document; a feed is one too.
    pub fn documents(&self) -> BTreeSet<&str> {
        let mut urls = self.of_kind(UrlKind::Document);
        urls.extend(self.of_kind(UrlKind::Feed));
        urls
    }

    /// Documents that were not fetched, by the witness's count. An answer that is damaged on purpose counts when it was given,
    /// since nobody can have it whole.
    pub fn missed(&self, seen: &BTreeMap<String, UrlCount>) -> Vec<&str> {
        let fetched = |url: &str| {
            let damaged = self.urls[url].oddity.is_some_and(Oddity::damages);
            seen.get(url)
                .is_some_and(|count| count.served > 0 || damaged && count.refused > 0)
        };
        let mut documents: Vec<&str> = self.documents().into_iter().collect();
        documents.retain(|url| !fetched(url));
        documents
    }

    pub fn forbidden(&self) -> BTreeSet<&str> {
        self.of_kind(UrlKind::Forbidden)
    }

    pub fn redirects(&self) -> BTreeSet<&str> {
        self.of_kind(UrlKind::Redirect)
    }

    pub fn errors(&self) -> BTreeSet<&str> {
        self.of_kind(UrlKind::Error)
    }

    /// Everything that must be requested at least once.
    pub fn requested(&self) -> BTreeSet<&str> {
        self.urls
            .iter()
            .filter(|(_, t)| t.kind != UrlKind::Forbidden)
            .map(|(url, _)| url.as_str())
            .collect()
    }

    pub fn is_trap(&self, url: &str) -> bool {
        self.trap_prefixes
            .iter()
            .any(|prefix| url.starts_with(prefix))
    }

    /// Documents whose body another document has too, beyond the first of each body. Needs digests.
    pub fn duplicates(&self) -> u64 {
        let mut seen = HashSet::new();
        let bodies = self
            .urls
            .values()
            .filter(|t| t.status == 200)
            .filter_map(|t| t.body.as_ref());
        bodies
            .filter(|body| !seen.insert(body.sha1.as_str()))
            .count() as u64
    }
}

impl Web {
    pub fn truth(&self, query: &TruthQuery) -> Truth {
        Walk::new(self, query).run()
    }

    /// The host and the target of a URL of this Web.
    pub fn locate<'a>(&self, url: &'a str) -> Option<(u32, &'a str)> {
        let rest = url.strip_prefix(self.scheme)?.strip_prefix("://")?;
        let slash = rest.find('/')?;
        Some((self.host_named(&rest[..slash])?, &rest[slash..]))
    }
}

struct Walk<'a> {
    web: &'a Web,
    query: &'a TruthQuery,
    hosts_in_scope: Option<HashSet<u32>>,
    /// For each host, which pages are known; empty until the host is.
    known: Vec<Vec<bool>>,
    queue: VecDeque<(u32, u32)>,
    links: Vec<crate::links::Link>,
    scratch: Scratch,
    body: Vec<u8>,
    truth: Truth,
}

impl<'a> Walk<'a> {
    fn new(web: &'a Web, query: &'a TruthQuery) -> Self {
        Walk {
            web,
            query,
            hosts_in_scope: None,
            known: vec![Vec::new(); web.hosts.len()],
            queue: VecDeque::new(),
            links: Vec::new(),
            scratch: Scratch::default(),
            body: Vec::new(),
            truth: Truth::default(),
        }
    }

    fn run(mut self) -> Truth {
        let home = [self.web.page_url(0, 0)];
        let seeds: &[String] = if self.query.seeds.is_empty() {
            &home
        } else {
            &self.query.seeds
        };
        let located: Vec<(u32, &str)> = seeds
            .iter()
            .filter_map(|url| self.web.locate(url))
            .collect();
        if self.query.scope == Scope::Host {
            self.hosts_in_scope = Some(located.iter().map(|(host, _)| *host).collect());
        }
        for (host, target) in located {
            if let (Resource::Page(page), _) = self.web.resource(host, target) {
                self.find(host, page);
            }
        }
        while let Some((host, page)) = self.queue.pop_front() {
            self.visit(host, page);
        }
        self.truth
    }

    fn find(&mut self, host: u32, page: u32) {
        if self
            .hosts_in_scope
            .as_ref()
            .is_some_and(|hosts| !hosts.contains(&host))
        {
            return;
        }
        if self.known[host as usize].is_empty() {
            self.known[host as usize] = vec![false; self.web.hosts[host as usize].pages.len()];
            self.find_by_sitemap(host);
        }
        if !std::mem::replace(&mut self.known[host as usize][page as usize], true) {
            self.queue.push_back((host, page));
        }
    }

    /// A host's robots.txt is read when the host is first due, and names its sitemap.
    fn find_by_sitemap(&mut self, host: u32) {
        if !self.query.sitemaps {
            return;
        }
        for (part, path) in self.web.sitemap_paths(host).iter().enumerate() {
            let url = self.web.origin(host) + path;
            let body = self
                .query
                .digests
                .then(|| digest(&self.web.sitemap(host, part as u8).0));
            self.truth.urls.insert(
                url,
                UrlTruth {
                    body,
                    ..plain(UrlKind::Sitemap)
                },
            );
            for page in self.web.sitemap_pages(host, part as u8) {
                self.find(host, page);
            }
        }
    }

    fn visit(&mut self, host: u32, page: u32) {
        let path = self.web.path(host, page);
        let plan = self.web.plan(host, page);
        let mut truth = plain(UrlKind::Document);
        truth.via = if let Role::Hidden(via) = plan.role {
            Some(via)
        } else {
            None
        };
        if !self.web.allowed(host, &path) {
            truth.kind = UrlKind::Forbidden;
            truth.status = 0;
        } else if let Role::Redirect(redirect) = plan.role {
            let (to_host, to_page) = self.web.redirect_target(host, page, redirect);
            truth.kind = UrlKind::Redirect;
            truth.status = redirect.status;
            truth.redirects_to = Some(self.web.page_url(to_host, to_page));
            self.find(to_host, to_page);
        } else if let Role::Error(fault) = plan.role
            && !fault.recovers()
        {
            truth.kind = UrlKind::Error;
            truth.status = fault.status();
        } else {
            if let Role::Error(_) = plan.role {
                truth.refusals = self.web.spec.faults.recover_after;
            }
            truth.oddity = self.web.oddity(host, page);
            truth.noindex = plan.role == Role::NoIndex;
            truth.body = self.page_digest(host, page);
            self.follow_links(host, page);
        }
        self.truth.urls.insert(self.web.origin(host) + &path, truth);
    }

    fn follow_links(&mut self, host: u32, page: u32) {
        let role = self.web.plan(host, page).role;
        let page_wide = matches!(role, Role::Gate(Via::MetaNofollow | Via::HeaderNofollow));
        if !page_wide || self.query.nofollow {
            let mut links = std::mem::take(&mut self.links);
            self.web.links(host, page, &mut links);
            for link in &links {
                let follows = match link.via {
                    Some(Via::Image) => self.query.images,
                    Some(via) => self.query.nofollow || !via.is_nofollow(),
                    None => true,
                };
                if follows {
                    self.find(link.host, link.page);
                }
            }
            self.links = links;
        }
        if page == 0 {
            self.follow_home(host);
        }
    }

    /// What a home page has beyond its links: the feed and the traps.
    fn follow_home(&mut self, host: u32) {
        let origin = self.web.origin(host);
        let plan = &self.web.hosts[host as usize];
        if plan.feed.is_some() && self.query.feeds {
            let body = self.query.digests.then(|| digest(&self.web.feed(host).0));
            self.truth.urls.insert(
                origin.clone() + "/feed.xml",
                UrlTruth {
                    body,
                    ..plain(UrlKind::Feed)
                },
            );
            for page in self.web.feed_pages(host) {
                self.find(host, page);
            }
        }
        let traps = &self.web.spec.traps;
        if !plan.traps {
            return;
        }
        if traps.calendar {
            self.truth.trap_prefixes.push(origin.clone() + "/calendar/");
        }
        if traps.growing_path {
            self.truth.trap_prefixes.push(origin.clone() + "/grow/");
        }
        if traps.session_ids && !self.query.strip_sessions {
            self.truth.trap_prefixes.push(origin.clone() + "/shop/");
        } else if traps.session_ids {
            for item in 0..SESSION_ITEMS {
                self.truth.urls.insert(
                    format!("{origin}/shop/item{item}"),
                    plain(UrlKind::Document),
                );
            }
        }
    }

    fn page_digest(&mut self, host: u32, page: u32) -> Option<BodyTruth> {
        if !self.query.digests {
            return None;
        }
        self.body.clear();
        self.web
            .write_body(host, page, &mut self.scratch, &mut self.body);
        Some(digest(&self.body))
    }
}

fn plain(kind: UrlKind) -> UrlTruth {
    UrlTruth {
        kind,
        status: 200,
        refusals: 0,
        redirects_to: None,
        via: None,
        oddity: None,
        noindex: false,
        body: None,
    }
}

fn digest(body: &[u8]) -> BodyTruth {
    let hash = Sha1::digest(body);
    BodyTruth {
        bytes: body.len() as u64,
        sha1: hash.iter().map(|b| format!("{b:02x}")).collect(),
    }
}
