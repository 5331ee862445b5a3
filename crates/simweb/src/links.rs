//! Which page links to which: a tree of trunk pages that reaches everything, and random links on top. No markup.

use crate::oddity::Oddity;
use crate::plan::{BLOCK, Role, Via, trunk_of};
use crate::seed::Draw;
use crate::web::Web;

/// Hosts that a sound host's home page links to as its children.
const HOST_CHILDREN: u32 = 8;
/// How far "near" is, in pages and in hosts.
const NEAR_PAGES: u32 = 32;
const NEAR_HOSTS: u32 = 8;
/// How far the number of links strays from the mean.
const DEGREE_SPREAD: f64 = 0.4;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Link {
    pub(crate) host: u32,
    pub(crate) page: u32,
    /// Set where the link is not a plain anchor.
    pub(crate) via: Option<Via>,
}

impl Web {
    /// The links of a page, in the order they stand on it. Clears `out` first.
    pub(crate) fn links(&self, host: u32, page: u32, out: &mut Vec<Link>) {
        out.clear();
        let plan = self.plan(host, page);
        if let Role::Duplicate(group) | Role::NearDuplicate(group) = plan.role {
            return self.group_links(group, out);
        }
        if !plan.has_links() {
            return;
        }
        if let Role::Gate(via) = plan.role {
            out.push(Link {
                host,
                page: page + 1,
                via: Some(via),
            });
            if via.is_japanese() {
                return;
            }
        }
        let mut draw = Draw::at(self.spec.seed, u64::from(host), u64::from(page), 0x20);
        let mut degree = draw.around(f64::from(self.spec.links.per_page), DEGREE_SPREAD) as usize;
        if plan.role == Role::Gate(Via::Frame) {
            degree = 2;
        }
        if page.is_multiple_of(BLOCK) {
            self.tree_links(host, page, out);
        }
        let surely_read = self.links_are_sure(host, page);
        while out.len() < degree {
            let link = if !surely_read {
                Link {
                    host,
                    page: trunk_of(self.near_page(host, page, &mut draw)),
                    via: None,
                }
            } else if draw.chance(self.spec.links.off_host_share) {
                self.off_host_link(host, &mut draw)
            } else {
                let page = self.near_page(host, page, &mut draw);
                Link {
                    host,
                    page,
                    via: None,
                }
            };
            out.push(link);
        }
    }

    /// Whether every crawler reads the page's links. Where the answer is damaged or its type is in doubt some do not; such
    /// pages link only to what is known anyway, or the truth would depend on taste.
    fn links_are_sure(&self, host: u32, page: u32) -> bool {
        let doubtful = matches!(self.plan(host, page).role, Role::WrongType | Role::NoType);
        !doubtful && !self.oddity(host, page).is_some_and(Oddity::damages)
    }

    /// Children of a trunk page in the tree of its host, and of a home page in the tree of hosts.
    fn tree_links(&self, host: u32, page: u32, out: &mut Vec<Link>) {
        let pages = &self.hosts[host as usize].pages;
        let width = (self.spec.links.per_page / 2).clamp(2 * BLOCK, 8 * BLOCK);
        let first = (page / BLOCK).saturating_mul(width).saturating_add(1);
        for child in first..first.saturating_add(width).min(pages.len() as u32) {
            if pages[child as usize].is_linked() {
                out.push(Link {
                    host,
                    page: child,
                    via: None,
                });
            }
        }
        if page == 0 && host.is_multiple_of(BLOCK) {
            let first = host / BLOCK * HOST_CHILDREN + 1;
            for child in first..(first + HOST_CHILDREN).min(self.host_count()) {
                out.push(Link {
                    host: child,
                    page: 0,
                    via: None,
                });
            }
        }
    }

    /// Duplicates share their bytes, so they share their links: home pages of sound hosts.
    fn group_links(&self, group: u32, out: &mut Vec<Link>) {
        let mut draw = Draw::at(self.spec.seed, u64::from(group), 0, 0x21);
        for _ in 0..3 {
            out.push(Link {
                host: trunk_of(draw.below(self.host_count())),
                page: 0,
                via: None,
            });
        }
    }

    fn off_host_link(&self, host: u32, draw: &mut Draw) -> Link {
        let count = self.host_count();
        let other = if draw.chance(self.spec.links.locality) {
            (host + 1 + draw.below(NEAR_HOSTS)) % count
        } else {
            draw.below(count)
        };
        // Squared: the front pages of a site are the ones that others link to.
        let u = draw.unit();
        let page = (u * u * self.hosts[other as usize].pages.len() as f64) as u32;
        Link {
            host: other,
            page: self.linked_page(other, page),
            via: None,
        }
    }

    fn near_page(&self, host: u32, page: u32, draw: &mut Draw) -> u32 {
        let count = self.hosts[host as usize].pages.len() as u32;
        let chosen = if draw.chance(self.spec.links.locality) {
            (page + draw.below(2 * NEAR_PAGES))
                .saturating_sub(NEAR_PAGES)
                .min(count - 1)
        } else {
            draw.below(count)
        };
        self.linked_page(host, chosen)
    }

    /// The page itself, or its trunk page where the page must stay hidden.
    fn linked_page(&self, host: u32, page: u32) -> u32 {
        if self.plan(host, page).is_linked() {
            page
        } else {
            trunk_of(page)
        }
    }
}
