//! A link as it enters a partition's log.

use crate::{DocId, Reason};

/// Where a link was found. The numbers are written to disk: append, never renumber.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum LinkKind {
    Seed = 0,
    Anchor = 1,
    Area = 2,
    LinkElement = 3,
    Frame = 4,
    Iframe = 5,
    Refresh = 6,
    Redirect = 7,
    /// The redirect of a seed: its target becomes a seed too.
    SeedRedirect = 8,
    Sitemap = 9,
    Feed = 10,
    /// IMG, SCRIPT, EMBED, OBJECT, APPLET, SOURCE, srcset: what a page shows rather than names.
    Embed = 11,
}

impl LinkKind {
    pub const ALL: [LinkKind; 12] = [
        LinkKind::Seed,
        LinkKind::Anchor,
        LinkKind::Area,
        LinkKind::LinkElement,
        LinkKind::Frame,
        LinkKind::Iframe,
        LinkKind::Refresh,
        LinkKind::Redirect,
        LinkKind::SeedRedirect,
        LinkKind::Sitemap,
        LinkKind::Feed,
        LinkKind::Embed,
    ];

    pub fn from_u8(value: u8) -> Option<Self> {
        Self::ALL.get(value as usize).copied()
    }

    /// Does this link make its target a root of the crawl's scope?
    pub fn is_seed(self) -> bool {
        matches!(self, LinkKind::Seed | LinkKind::SeedRedirect)
    }

    pub fn name(self) -> &'static str {
        match self {
            LinkKind::Seed => "seed",
            LinkKind::Anchor => "a",
            LinkKind::Area => "area",
            LinkKind::LinkElement => "link",
            LinkKind::Frame => "frame",
            LinkKind::Iframe => "iframe",
            LinkKind::Refresh => "refresh",
            LinkKind::Redirect => "redirect",
            LinkKind::SeedRedirect => "seed-redirect",
            LinkKind::Sitemap => "sitemap",
            LinkKind::Feed => "feed",
            LinkKind::Embed => "embed",
        }
    }
}

/// What scope and access conditions say of a link. Decided once, by whoever found the link, so
/// that folding a log needs no settings.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// Crawl it; `priority` raises (or lowers) its class.
    Crawl {
        priority: i8,
    },
    Exclude(Reason),
}

/// One observation of a URL. `url` is canonical.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Link {
    pub url: String,
    /// The page that points here; `None` for a seed.
    pub from: Option<DocId>,
    pub kind: LinkKind,
    /// Links from the nearest seed.
    pub depth: u16,
    pub verdict: Verdict,
}
