//! Scope and access conditions: may this link be crawled, and how urgently? Judges by the URL and
//! where it was found alone; robots.txt, addresses and contents are judged elsewhere.
//!
//! Layout: `settings` (what a person may set), `hosts` (rules by host), `roots` (where the crawl may go), `sites` (hosts
//! chosen and shut out), `shape` (traps and limits that show in the URL's form).

mod hosts;
mod roots;
mod settings;
mod shape;
mod sites;

pub use settings::{PriorityRule, ScopeError, ScopeKind, ScopeSettings};
pub(crate) use sites::Sites;

use crate::settings::HostSettings;
use hosts::HostRules;
use portolan_model::{CanonicalUrl, LinkKind, Reason, Verdict, service_of_port};
use regex::{Regex, RegexBuilder, RegexSet, RegexSetBuilder};
use roots::Roots;
use shape::Shape;

/// Patterns come from a person, but a slip should not cost gigabytes.
const MAX_PATTERN_BYTES: usize = 16 * 1024 * 1024;

/// The settings, compiled, and the roots of the crawl. Asked once for each link.
#[derive(Debug, Clone)]
pub struct Scope {
    roots: Roots,
    sites: Option<Sites>,
    sites_shut_out: Option<Sites>,
    include: Option<RegexSet>,
    exclude: Option<RegexSet>,
    reserved_url_text: Vec<String>,
    allowed_ports: Vec<u16>,
    also_ports: Vec<u16>,
    max_link_depth: Option<u16>,
    shape: Shape,
    priorities: Option<Priorities>,
    respect_nofollow: bool,
    embeds_off_scope: bool,
    /// What `[[host]]` blocks say instead of `include` and `exclude`.
    hosts: HostRules,
}

impl Scope {
    pub fn new<'a>(
        settings: &ScopeSettings,
        roots: impl IntoIterator<Item = &'a CanonicalUrl>,
    ) -> Result<Self, ScopeError> {
        let mut scope = Self {
            roots: Roots::new(settings.scope),
            sites: Sites::new("sites", &settings.sites)?,
            sites_shut_out: Sites::new("sites_shut_out", &settings.sites_shut_out)?,
            include: pattern_set("include", &settings.include)?,
            exclude: pattern_set("exclude", &settings.exclude)?,
            reserved_url_text: shape::reserved_spellings(&settings.reserved_url_text),
            allowed_ports: settings.allowed_ports.clone(),
            also_ports: settings.also_ports.clone(),
            max_link_depth: settings.max_link_depth,
            shape: Shape::new(settings),
            priorities: Priorities::new(&settings.priorities)?,
            respect_nofollow: settings.respect_nofollow,
            embeds_off_scope: settings.embeds_off_scope,
            hosts: HostRules::default(),
        };
        for root in roots {
            scope.add_root(root);
        }
        Ok(scope)
    }

    /// With the rules of `[[host]]` blocks: those of a block take the place of the crawl's own on its hosts.
    pub fn with_hosts(mut self, blocks: &[HostSettings]) -> Result<Self, ScopeError> {
        self.hosts = HostRules::new(blocks)?;
        Ok(self)
    }

    /// A seed, or what a seed redirected to: the crawl may go where it lives.
    pub fn add_root(&mut self, root: &CanonicalUrl) {
        self.roots.add(root);
    }

    /// Does the URL lie under a root?
    pub(crate) fn is_rooted(&self, url: &CanonicalUrl) -> bool {
        self.roots.hold(url)
    }

    /// Tells the roots from others, see `Roots::digest`.
    pub(crate) fn roots_digest(&self) -> u64 {
        self.roots.digest()
    }

    /// Is a URL on a host that has pages in scope, whatever its path?
    pub(crate) fn holds_host(&self, url: &CanonicalUrl) -> bool {
        self.roots.hold_host(url)
    }

    /// May a link to `url`, found as `kind` at `depth` links from a seed, be crawled?
    ///
    /// A **seed** was named by a person, and so it passes scope, include rules, depth and the limits
    /// on form. It still obeys what somebody wrote down as a no: exclude rules, reserved text,
    /// sites shut out and ports not allowed. The **redirect of a seed** passes likewise, but the
    /// server chose it: a list of sites, if there is one, binds it too.
    ///
    /// A **sitemap** is a source of links and no document: it passes scope, include rules, depth and the limits on form
    /// but length, so that what it names can be found. A list of sites binds it. Its entries are judged like any link.
    ///
    /// An **embedded** thing or a frame, where `embeds_off_scope` is set, need not be in scope, on a chosen
    /// site or included, because it belongs to a page that is.
    pub fn verdict(
        &self,
        url: &CanonicalUrl,
        depth: u16,
        kind: LinkKind,
        nofollow: bool,
    ) -> Verdict {
        let refusal = self
            .refused_by_mark(kind, nofollow)
            .or_else(|| self.refused_by_place(url, kind))
            .or_else(|| self.refused_by_form(url, depth, kind))
            .or_else(|| self.refused_by_rule(url, kind));
        match refusal {
            Some(reason) => Verdict::Exclude(reason),
            None => Verdict::Crawl {
                priority: self.priorities.as_ref().map_or(0, |p| p.of(url.as_str())),
            },
        }
    }

    /// Host and port. First, because most links that are refused are refused here.
    fn refused_by_place(&self, url: &CanonicalUrl, kind: LinkKind) -> Option<Reason> {
        let host = url.host();
        if self.sites_shut_out.as_ref().is_some_and(|s| s.hold(host)) {
            return Some(Reason::SiteShutOut);
        }
        let chosen = || self.sites.as_ref().is_none_or(|sites| sites.hold(host));
        let within = match kind {
            LinkKind::Seed => true,
            LinkKind::SeedRedirect | LinkKind::Sitemap => chosen(),
            _ if kind.is_part() && self.embeds_off_scope => true,
            _ => self.roots.hold(url) && chosen(),
        };
        if !within {
            return Some(Reason::OutOfScope);
        }
        // Each protocol may be asked at its own port.
        let scheme = url.scheme();
        if !scheme.is_http() && url.port() == scheme.default_port() {
            return None;
        }
        self.refused_by_port(url.port())
    }

    /// The web's own ports first: nearly all links have one of them.
    fn refused_by_port(&self, port: u16) -> Option<Reason> {
        if self.allowed_ports.is_empty() && matches!(port, 80 | 443) {
            return None;
        }
        if self.also_ports.contains(&port) || self.allowed_ports.contains(&port) {
            return None;
        }
        // Nothing can listen on port 0.
        if port == 0 || !self.allowed_ports.is_empty() {
            return Some(Reason::NotFetchable);
        }
        service_of_port(port).map(|_| Reason::Port)
    }

    /// Depth, length and other limits, all cheap to check.
    fn refused_by_form(&self, url: &CanonicalUrl, depth: u16, kind: LinkKind) -> Option<Reason> {
        if kind.is_seed() {
            return None;
        }
        if kind == LinkKind::Sitemap {
            return self.shape.refuses_length(url);
        }
        if self.max_link_depth.is_some_and(|max| depth > max) {
            return Some(Reason::LinkDepth);
        }
        self.shape.refuses(url)
    }

    /// What has to search the URL's text.
    fn refused_by_rule(&self, url: &CanonicalUrl, kind: LinkKind) -> Option<Reason> {
        let text = url.as_str();
        let (include, exclude) = self
            .hosts
            .patterns(url.host(), (&self.include, &self.exclude));
        if exclude.is_some_and(|set| set.is_match(text)) {
            return Some(Reason::ExcludeRule);
        }
        let is_reserved = |reserved: &String| text.contains(reserved.as_str());
        if self.reserved_url_text.iter().any(is_reserved) {
            return Some(Reason::ReservedUrlText);
        }
        let need_not_match = match kind {
            LinkKind::Seed | LinkKind::SeedRedirect | LinkKind::Sitemap => true,
            _ => kind.is_part() && self.embeds_off_scope,
        };
        let included = || include.is_none_or(|set| set.is_match(text));
        if !need_not_match && !included() {
            return Some(Reason::NotIncluded);
        }
        None
    }

    /// First of all: the mark is the link's and not the URL's, and only the reason remembers it when the URL is judged
    /// again. A link without it takes its place.
    fn refused_by_mark(&self, kind: LinkKind, nofollow: bool) -> Option<Reason> {
        (nofollow && self.respect_nofollow && !kind.is_seed()).then_some(Reason::NoFollow)
    }
}

/// Priority rules. Most URLs meet none, which the set tells in one search.
#[derive(Debug, Clone)]
struct Priorities {
    any: RegexSet,
    rules: Vec<(Regex, i8)>,
}

impl Priorities {
    fn new(rules: &[PriorityRule]) -> Result<Option<Self>, ScopeError> {
        const SETTING: &str = "priorities";
        let patterns: Vec<String> = rules.iter().map(|rule| rule.pattern.clone()).collect();
        let Some(any) = pattern_set(SETTING, &patterns)? else {
            return Ok(None);
        };
        let rules = rules
            .iter()
            .map(|rule| Ok((pattern(SETTING, &rule.pattern)?, rule.priority)))
            .collect::<Result<_, ScopeError>>()?;
        Ok(Some(Self { any, rules }))
    }

    fn of(&self, text: &str) -> i8 {
        if !self.any.is_match(text) {
            return 0;
        }
        self.rules
            .iter()
            .filter(|(pattern, _)| pattern.is_match(text))
            .fold(0, |sum: i8, (_, priority)| sum.saturating_add(*priority))
    }
}

fn pattern(setting: &'static str, text: &str) -> Result<Regex, ScopeError> {
    RegexBuilder::new(text)
        .size_limit(MAX_PATTERN_BYTES)
        .build()
        .map_err(|error| ScopeError::pattern(setting, text, &error))
}

/// `None` for an empty list, which says nothing.
fn pattern_set(setting: &'static str, texts: &[String]) -> Result<Option<RegexSet>, ScopeError> {
    // One by one first: the set's own error does not say which of them is wrong.
    for text in texts {
        pattern(setting, text)?;
    }
    if texts.is_empty() {
        return Ok(None);
    }
    RegexSetBuilder::new(texts)
        .size_limit(MAX_PATTERN_BYTES)
        .build()
        .map(Some)
        .map_err(|error| ScopeError::pattern(setting, &texts.join("', '"), &error))
}

#[cfg(test)]
mod tests;
