//! What each page of each host is: decided once from the seed, before anything is served. Knows roles, not bytes.
//!
//! Pages come in blocks of four. The first of a block is a trunk page: plain HTML, allowed, undamaged. Every linked page has a
//! trunk page as parent, so nothing is reachable only through a page that may fail; hosts are arranged the same way.

use crate::oddity::{Fault, Oddity};
use crate::robots::RobotsKind;
use crate::seed::Draw;
use crate::spec::WebSpec;
use serde::{Deserialize, Serialize};

/// Pages in a block, and hosts in a block: the first of each is sound.
pub(crate) const BLOCK: u32 = 4;

/// No host grows past this multiple of the mean, however steep the power law.
const LARGEST_HOST: f64 = 200.0;

#[derive(Clone, Debug)]
pub(crate) struct HostPlan {
    pub(crate) pages: Vec<PagePlan>,
    pub(crate) robots: RobotsKind,
    pub(crate) crawl_delay_ms: u32,
    pub(crate) sitemap: Option<SitemapKind>,
    pub(crate) feed: Option<FeedKind>,
    pub(crate) traps: bool,
    pub(crate) oddity: Option<Oddity>,
    pub(crate) latency_ms: f64,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct PagePlan {
    pub(crate) role: Role,
    pub(crate) path: PathClass,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    Html,
    NoIndex,
    Text,
    Binary,
    WrongType,
    NoType,
    /// Same bytes as every other page of the group.
    Duplicate(u32),
    /// A few words off the group's text.
    NearDuplicate(u32),
    Error(Fault),
    Redirect(Redirect),
    /// HTML that leads to the next page number in one particular way.
    Gate(Via),
    /// A page that only the page before it, a sitemap or a feed leads to.
    Hidden(Via),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Redirect {
    pub(crate) status: u16,
    pub(crate) hop: Hop,
    /// Not linked from anywhere but the hop before it.
    pub(crate) inner: bool,
}

/// Where a redirect goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Hop {
    Trunk,
    OtherHost,
    Next,
    Previous,
    Itself,
}

/// The one way in which a page can be discovered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Via {
    Redirect,
    BaseHref,
    MetaRefresh,
    Frame,
    Iframe,
    Area,
    LinkElement,
    Iso2022Jp,
    EucJp,
    ShiftJis,
    MixedJapanese,
    Sitemap,
    Feed,
    Image,
    RelNofollow,
    MetaNofollow,
    HeaderNofollow,
}

impl Via {
    pub fn is_nofollow(self) -> bool {
        NOFOLLOW.contains(&self)
    }

    pub fn is_japanese(self) -> bool {
        JAPANESE.contains(&self)
    }
}

const GATES: [Via; 6] = [
    Via::BaseHref,
    Via::MetaRefresh,
    Via::Frame,
    Via::Iframe,
    Via::Area,
    Via::LinkElement,
];
const JAPANESE: [Via; 4] = [
    Via::Iso2022Jp,
    Via::EucJp,
    Via::ShiftJis,
    Via::MixedJapanese,
];
const NOFOLLOW: [Via; 3] = [Via::RelNofollow, Via::MetaNofollow, Via::HeaderNofollow];

/// The shape of a page's path. Every shape contains the page number as its last run of digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PathClass {
    Home,
    Folder,
    Flat,
    Slash,
    Query,
    Escaped,
    Private,
    PrivateOpen,
    Secret,
    Tmp,
    TmpOpen,
    /// A directory asked for without its slash: redirected to it, or served as it is.
    Bare,
    /// The directory of the page before, with its slash.
    SlashOfPrevious,
    UnderBase,
    Kana,
    Text,
    Pdf,
    Image,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SitemapKind {
    Xml,
    Index,
    Gzip,
    Text,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FeedKind {
    Rss,
    Atom,
}

impl PagePlan {
    /// Whether ordinary links may lead here.
    pub(crate) fn is_linked(self) -> bool {
        match self.role {
            Role::Hidden(_) => false,
            Role::Redirect(r) => !r.inner,
            _ => true,
        }
    }

    /// Whether the page leads on in a way that must not be damaged.
    pub(crate) fn leads_on(self) -> bool {
        matches!(self.role, Role::Gate(_) | Role::Redirect(_))
    }

    /// Whether the body is HTML with the page's own links.
    pub(crate) fn has_links(self) -> bool {
        matches!(
            self.role,
            Role::Html
                | Role::NoIndex
                | Role::WrongType
                | Role::NoType
                | Role::Gate(_)
                | Role::Hidden(_)
        ) && self.role != Role::Hidden(Via::Image)
    }
}

/// The trunk page of a page's block.
pub(crate) fn trunk_of(page: u32) -> u32 {
    page - page % BLOCK
}

pub(crate) fn plan_host(spec: &WebSpec, host: u32) -> HostPlan {
    let mut draw = Draw::at(spec.seed, u64::from(host), 0, 0x10);
    let sound = host.is_multiple_of(BLOCK);
    let odd_robots = draw.chance(spec.robots.odd_share) && !sound;
    let robots = if odd_robots {
        RobotsKind::ODD[draw.below(RobotsKind::ODD.len() as u32) as usize]
    } else {
        RobotsKind::Rules
    };
    let slow = draw.chance(spec.robots.crawl_delay_share) && robots.has_rules();
    let sitemap = draw
        .chance(spec.discovery.sitemap_share)
        .then(|| match draw.below(4) {
            0 => SitemapKind::Xml,
            1 => SitemapKind::Index,
            2 => SitemapKind::Gzip,
            _ => SitemapKind::Text,
        });
    let feed = draw
        .chance(spec.discovery.feed_share)
        .then(|| match draw.below(2) {
            0 => FeedKind::Rss,
            _ => FeedKind::Atom,
        });
    let traps = draw.chance(spec.traps.host_share);
    let odd = draw.chance(spec.odd.host_share) && !sound;
    let oddity = odd.then(|| pick_oddity(spec, &mut draw));
    let latency_ms = draw.around(spec.latency.mean_ms, spec.latency.host_spread);
    let has_sitemap = sitemap.is_some() && robots.names_sitemaps();
    HostPlan {
        pages: plan_pages(spec, host, has_sitemap, feed.is_some()),
        robots,
        crawl_delay_ms: if slow {
            (spec.robots.crawl_delay_s * 1000.0) as u32
        } else {
            0
        },
        sitemap: sitemap.filter(|_| has_sitemap),
        feed,
        traps,
        oddity,
        latency_ms,
    }
}

pub(crate) fn pick_oddity(spec: &WebSpec, draw: &mut Draw) -> Oddity {
    let kinds: &[Oddity] = if spec.odd.kinds.is_empty() {
        &Oddity::ALL
    } else {
        &spec.odd.kinds
    };
    kinds[draw.below(kinds.len() as u32) as usize]
}

/// Pages of a host: a Pareto law around the mean.
fn host_size(spec: &WebSpec, host: u32) -> u32 {
    let mean = f64::from(spec.pages_per_host);
    if spec.skew == 0.0 {
        return spec.pages_per_host;
    }
    let u = Draw::at(spec.seed, u64::from(host), 0, 0x11)
        .unit()
        .max(1e-9);
    let size = mean * (1.0 - spec.skew) * u.powf(-spec.skew);
    (size.min(mean * LARGEST_HOST) as u32).clamp(1, crate::spec::MAX_PAGES_PER_HOST)
}

fn plan_pages(spec: &WebSpec, host: u32, sitemap: bool, feed: bool) -> Vec<PagePlan> {
    let count = host_size(spec, host) as usize;
    let mut draw = Draw::at(spec.seed, u64::from(host), 0, 0x12);
    let mut pages = Vec::with_capacity(count);
    while pages.len() < count {
        let page = pages.len() as u32;
        if page.is_multiple_of(BLOCK) {
            let path = if page == 0 {
                PathClass::Home
            } else {
                usual_path(&mut draw)
            };
            pages.push(PagePlan {
                role: Role::Html,
                path,
            });
            continue;
        }
        // Companions must fit into the block and the host.
        let room = ((BLOCK - page % BLOCK) as usize).min(count - pages.len());
        place(spec, &mut draw, &mut pages, room, sitemap, feed);
    }
    pages
}

/// What a page that is not of the trunk can be, with the share of such pages that are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Choice {
    Redirect,
    Error,
    Duplicate,
    NearDuplicate,
    Text,
    Binary,
    WrongType,
    NoType,
    NoIndex,
    Japanese,
    Forbidden,
    AllowedException,
    SitemapOnly,
    FeedOnly,
    Gate,
    Nofollow,
    Image,
    Plain,
}

fn choices(spec: &WebSpec) -> [(f64, Choice); 17] {
    let (c, d) = (&spec.content, &spec.discovery);
    [
        (spec.faults.redirect_share, Choice::Redirect),
        (spec.faults.error_share, Choice::Error),
        (c.duplicate_share, Choice::Duplicate),
        (c.near_duplicate_share, Choice::NearDuplicate),
        (c.text_share, Choice::Text),
        (c.binary_share, Choice::Binary),
        (c.wrong_type_share, Choice::WrongType),
        (c.no_type_share, Choice::NoType),
        (c.noindex_share, Choice::NoIndex),
        (c.japanese_share, Choice::Japanese),
        (spec.robots.forbidden_share, Choice::Forbidden),
        (
            spec.robots.allowed_exception_share,
            Choice::AllowedException,
        ),
        (d.sitemap_only_share, Choice::SitemapOnly),
        (d.feed_only_share, Choice::FeedOnly),
        (d.gate_share, Choice::Gate),
        (d.nofollow_share, Choice::Nofollow),
        (d.image_share, Choice::Image),
    ]
}

/// The shares of pages that are special in some way, added up: must leave room for plain ones.
pub(crate) fn special_share(spec: &WebSpec) -> f64 {
    choices(spec).iter().map(|(share, _)| share).sum()
}

fn choose(spec: &WebSpec, draw: &mut Draw) -> Choice {
    let mut left = draw.unit();
    let fits = |(share, choice): (f64, Choice)| {
        left -= share;
        (left < 0.0).then_some(choice)
    };
    choices(spec)
        .into_iter()
        .find_map(fits)
        .unwrap_or(Choice::Plain)
}

/// Puts one page, or a page and the companions only it leads to, into up to `room` places.
fn place(
    spec: &WebSpec,
    draw: &mut Draw,
    pages: &mut Vec<PagePlan>,
    room: usize,
    sitemap: bool,
    feed: bool,
) {
    let mut choice = choose(spec, draw);
    let pair = matches!(
        choice,
        Choice::Japanese | Choice::Gate | Choice::Nofollow | Choice::Image
    );
    let unlisted = choice == Choice::SitemapOnly && !sitemap || choice == Choice::FeedOnly && !feed;
    if pair && room < 2 || unlisted {
        choice = Choice::Plain;
    }
    if choice == Choice::Redirect {
        return place_redirect(draw, pages, room);
    }
    let mut put = |role, path| pages.push(PagePlan { role, path });
    let mut pick = |n: usize| draw.below(n as u32) as usize;
    match choice {
        Choice::Error => {
            let all: &[Fault] = if spec.faults.errors.is_empty() {
                &Fault::ALL
            } else {
                &spec.faults.errors
            };
            put(Role::Error(all[pick(all.len())]), usual_path(draw));
        }
        Choice::Duplicate => {
            let group = draw.below(groups(spec, spec.content.duplicate_share));
            put(Role::Duplicate(group), usual_path(draw));
        }
        Choice::NearDuplicate => {
            let group = draw.below(groups(spec, spec.content.near_duplicate_share));
            put(Role::NearDuplicate(group), usual_path(draw));
        }
        Choice::Text => put(Role::Text, PathClass::Text),
        Choice::Binary => put(Role::Binary, PathClass::Pdf),
        Choice::WrongType => put(Role::WrongType, PathClass::Folder),
        Choice::NoType => put(Role::NoType, PathClass::Folder),
        Choice::NoIndex => put(Role::NoIndex, PathClass::Folder),
        Choice::Forbidden => {
            put(
                Role::Html,
                [PathClass::Private, PathClass::Secret, PathClass::Tmp][pick(3)],
            );
        }
        Choice::AllowedException => put(
            Role::Html,
            [PathClass::PrivateOpen, PathClass::TmpOpen][pick(2)],
        ),
        Choice::SitemapOnly => put(Role::Hidden(Via::Sitemap), PathClass::Folder),
        Choice::FeedOnly => put(Role::Hidden(Via::Feed), PathClass::Folder),
        Choice::Japanese | Choice::Gate | Choice::Nofollow | Choice::Image => {
            let via = match choice {
                Choice::Japanese => JAPANESE[pick(JAPANESE.len())],
                Choice::Gate => GATES[pick(GATES.len())],
                Choice::Nofollow => NOFOLLOW[pick(NOFOLLOW.len())],
                _ => Via::Image,
            };
            put(Role::Gate(via), PathClass::Folder);
            put(Role::Hidden(via), hidden_path(via));
        }
        Choice::Plain | Choice::Redirect => put(Role::Html, usual_path(draw)),
    }
}

fn hidden_path(via: Via) -> PathClass {
    match via {
        // In the mixed page no decoder can be sure of a path's letters; there, what counts is to find the link.
        Via::MixedJapanese => PathClass::Flat,
        Via::Iso2022Jp | Via::EucJp | Via::ShiftJis => PathClass::Kana,
        Via::BaseHref => PathClass::UnderBase,
        Via::Image => PathClass::Image,
        _ => PathClass::Folder,
    }
}

fn place_redirect(draw: &mut Draw, pages: &mut Vec<PagePlan>, room: usize) {
    let status = [301, 302, 307, 308][draw.below(4) as usize];
    let mut put = |hop, inner, path| {
        pages.push(PagePlan {
            role: Role::Redirect(Redirect { status, hop, inner }),
            path,
        });
    };
    let hidden = |path| PagePlan {
        role: Role::Hidden(Via::Redirect),
        path,
    };
    match draw.below(7) {
        0 => put(Hop::OtherHost, false, PathClass::Folder),
        1 => put(Hop::Itself, false, PathClass::Folder),
        2 if room >= 2 => {
            put(Hop::Next, false, PathClass::Folder);
            put(Hop::Previous, true, PathClass::Folder);
        }
        3 if room >= 2 => {
            put(Hop::Next, false, PathClass::Bare);
            pages.push(hidden(PathClass::SlashOfPrevious));
        }
        4 if room >= 3 => {
            put(Hop::Next, false, PathClass::Folder);
            put(Hop::Next, true, PathClass::Flat);
            pages.push(hidden(PathClass::Folder));
        }
        5 if room >= 2 => {
            put(Hop::Next, false, PathClass::Flat);
            pages.push(hidden(PathClass::Folder));
        }
        _ => put(Hop::Trunk, false, PathClass::Folder),
    }
}

fn usual_path(draw: &mut Draw) -> PathClass {
    match draw.below(17) {
        0..=8 => PathClass::Folder,
        9..=11 => PathClass::Flat,
        12 | 13 => PathClass::Slash,
        14 => PathClass::Query,
        15 => PathClass::Bare,
        _ => PathClass::Escaped,
    }
}

/// Groups of duplicates, so that about three pages share a body.
fn groups(spec: &WebSpec, share: f64) -> u32 {
    let pages = f64::from(spec.hosts) * f64::from(spec.pages_per_host) * share;
    ((pages / 3.0) as u32).max(1)
}
