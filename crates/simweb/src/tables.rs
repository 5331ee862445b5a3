//! Tables beside pages, as some hosts keep them: of links (`.tol`), read off the page itself, right ones and ones that lie; and of volatile parts
//! (`.tvi`).

use crate::answer::Reply;
use crate::plan::Role;
use crate::seed::Draw;
use crate::web::{Resource, Web};
use serde::{Deserialize, Serialize};

/// Which hosts keep tables beside their pages.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TablesSpec {
    /// Share of hosts that have a table of links beside each plain page.
    pub tol_share: f64,
    /// Share of these hosts whose tables lack a link of the page, and name `/lie/…`, which the page does not.
    pub lying_share: f64,
    /// Share of hosts whose plain pages have a volatile part, another one in each generation, and a table of it.
    pub tvi_share: f64,
    /// Share of these hosts whose tables name a part that the page does not have.
    pub misfit_share: f64,
    /// How crawlers learn of the tables.
    pub told: Told,
}

/// How a host tells that it has tables.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Told {
    /// `TOL: /` in robots.txt.
    #[default]
    Robots,
    /// A `Link` header on every page that has one.
    Header,
    /// Not at all: only asking finds them.
    Nowhere,
}

/// What a page's URL has behind it in its table's.
const TOL: &str = ".tol";
const TVI: &str = ".tvi";
/// What a URL that ends in a slash stands for.
const INDEX: &str = "index.html";

impl Web {
    /// Does the host keep tables of links beside its pages?
    pub fn has_tables(&self, host: u32) -> bool {
        self.table_draw(host).chance(self.spec.tables.tol_share)
    }

    /// Are they wrong?
    pub fn tables_lie(&self, host: u32) -> bool {
        let mut draw = self.table_draw(host);
        draw.chance(self.spec.tables.tol_share) && draw.chance(self.spec.tables.lying_share)
    }

    fn table_draw(&self, host: u32) -> Draw {
        Draw::at(self.spec.seed, u64::from(host), 0, 0x70)
    }

    /// The path of a page's table of links, if it has one.
    pub(crate) fn table_path(&self, host: u32, page: u32) -> Option<String> {
        let path = self.path(host, page);
        let is_plain = self.plan(host, page).role == Role::Html && !path.contains('?');
        let index = if path.ends_with('/') { INDEX } else { "" };
        (is_plain && self.has_tables(host)).then(|| format!("{path}{index}{TOL}"))
    }

    /// Does the host's pages have volatile parts, and tables of them?
    pub fn has_parts(&self, host: u32) -> bool {
        self.part_draw(host).chance(self.spec.tables.tvi_share)
    }

    /// Do these tables name what the pages do not have?
    pub fn parts_misfit(&self, host: u32) -> bool {
        let mut draw = self.part_draw(host);
        draw.chance(self.spec.tables.tvi_share) && draw.chance(self.spec.tables.misfit_share)
    }

    fn part_draw(&self, host: u32) -> Draw {
        Draw::at(self.spec.seed, u64::from(host), 0, 0x71)
    }

    pub(crate) fn is_volatile(&self, host: u32, page: u32) -> bool {
        self.plan(host, page).role == Role::Html && self.has_parts(host)
    }

    /// The volatile part of every page, as of now.
    fn part(&self) -> String {
        let generation = self.generation();
        format!("<span id=\"Vol1\" class=\"volatile\">as of {generation}</span>")
    }

    pub(crate) fn write_part(&self, host: u32, page: u32, body: &mut Vec<u8>) {
        if self.is_volatile(host, page) {
            body.extend_from_slice(format!("<p>{}</p>\n", self.part()).as_bytes());
        }
    }

    /// The table of volatile parts.
    pub(crate) fn parts(&self, host: u32) -> String {
        let mut table = format!("<!-- tvi 1 -->\n{}\n", self.part());
        if self.parts_misfit(host) {
            table.push_str("<span id=\"Vol9\">elsewhere</span>\n");
        }
        table
    }

    /// The path of a page's table of volatile parts, if it has one.
    fn parts_path(&self, host: u32, page: u32) -> Option<String> {
        let path = self.path(host, page);
        let index = if path.ends_with('/') { INDEX } else { "" };
        let has_one = self.is_volatile(host, page) && !path.contains('?');
        has_one.then(|| format!("{path}{index}{TVI}"))
    }

    pub(crate) fn table_at(&self, host: u32, target: &str) -> Option<Resource> {
        let path = target.strip_suffix(TOL).or(target.strip_suffix(TVI))?;
        let page = self
            .page_at(host, path)
            .or_else(|| self.page_at(host, path.strip_suffix(INDEX)?))?;
        if self.table_path(host, page).as_deref() == Some(target) {
            return Some(Resource::Table(page));
        }
        (self.parts_path(host, page).as_deref() == Some(target)).then_some(Resource::Parts)
    }

    /// Robots.txt's lines about them.
    pub(crate) fn table_rules(&self, host: u32) -> String {
        let mut lines = String::new();
        if self.spec.tables.told == Told::Robots {
            for (has_them, line) in [
                (self.has_tables(host), "\nTOL: /\n"),
                (self.has_parts(host), "\nTVI: /\n"),
            ] {
                lines.push_str(if has_them { line } else { "" });
            }
        }
        lines
    }

    pub(crate) fn write_table_header(&self, host: u32, page: u32, answer: &mut Reply) {
        if self.spec.tables.told != Told::Header {
            return;
        }
        for (path, relation) in [
            (self.table_path(host, page), "tol"),
            (self.parts_path(host, page), "tvi"),
        ] {
            if let Some(path) = path {
                answer.header("Link", &format!("<{path}>; rel=\"{relation}\""));
            }
        }
    }

    /// The table itself.
    pub(crate) fn table(&self, host: u32, page: u32) -> String {
        let body = self.page_body(host, page);
        let body = String::from_utf8_lossy(&body);
        let mut hrefs: Vec<String> = body
            .split("href=\"")
            .skip(1)
            .filter_map(|rest| rest.split_once('"'))
            .map(|(href, _)| href.replace("&amp;", "&"))
            // What stands in comments and scripts is no link.
            .filter(|href| !href.contains("/decoy/"))
            .collect();
        if self.tables_lie(host) {
            hrefs.pop();
            hrefs.push(format!("/lie/p{page}.html"));
        }
        let own = self.origin(host);
        let mut table = "tol 1\n".to_owned();
        for href in hrefs {
            let href = href.split('#').next().unwrap_or_default();
            let is_own = !href.contains("://") && !href.starts_with("//") || href.starts_with(&own);
            if !href.is_empty() {
                let word = if is_own { "internal" } else { "external" };
                table.push_str(&format!("{word} {href}\n"));
            }
        }
        table
    }
}
