//! `nodes.tsv` (id, URL, bytes if known; further columns are ignored) and `edges.tsv` (from, to), plain
//! or gzip. Ids may be any whole numbers in any order.

use std::collections::HashMap;
use std::path::Path;

use portolan_model::Canonicalizer;
use portolan_model::url::CanonicalSettings;

use super::lines::Lines;
use crate::error::{GraphError, Result};
use crate::graph::{LinksBuilder, MAX_PAGE_BYTES, PagesBuilder, Tally, WebGraph};

pub fn read_tsv(nodes: &Path, edges: &Path) -> Result<WebGraph> {
    let mut notes = Vec::new();
    let mut unparsed = Tally::default();
    let mut builder = PagesBuilder::default();
    let mut ids = Ids::default();
    // Parameters are part of what was crawled; only the spelling is made one.
    let canonicalizer = Canonicalizer::new(&CanonicalSettings::keep_all_parameters());
    let mut lines = Lines::open(nodes)?;
    while lines.advance()? {
        let (id, url, bytes) = node(lines.text()).map_err(|what| lines.wrong(what))?;
        match canonicalizer.parse(url) {
            Ok(canonical) => builder.push(canonical.as_str(), canonical.host(), bytes),
            Err(error) => {
                // A site of its own: pages of unknown sites must not become one large site.
                builder.push(url, url, bytes);
                unparsed.add(|| lines.place(error));
            }
        }
        ids.add(id).map_err(|what| lines.wrong(what))?;
    }
    if builder.count() == 0 {
        return Err(GraphError::damaged(
            nodes,
            "the graph is empty: no line has an id and a URL",
        ));
    }
    unparsed.note(
        "URLs that cannot be parsed; each is kept as it is, as a site of its own",
        &mut notes,
    );
    let pages = builder.finish(&mut notes)?;
    let mut builder = LinksBuilder::new(pages.count());
    let mut nowhere = Tally::default();
    let mut lines = Lines::open(edges)?;
    while lines.advance()? {
        let (from, to) = edge(lines.text()).map_err(|what| lines.wrong(what))?;
        match (ids.find(from), ids.find(to)) {
            (Some(from), Some(to)) => builder.push(from, to),
            (Some(_), None) => nowhere.add(|| lines.place(format!("no node {to}"))),
            (None, _) => nowhere.add(|| lines.place(format!("no node {from}"))),
        }
    }
    nowhere.note(
        "links from or to an id that no node has; they are left out",
        &mut notes,
    );
    let links = super::bv::finish_links(builder, &mut notes);
    Ok(WebGraph {
        pages,
        links,
        seeds: Vec::new(),
        notes,
    })
}

fn node(line: &str) -> std::result::Result<(u64, &str, Option<u64>), String> {
    let mut fields = line.split('\t');
    let id = id(fields.next(), "the node's id")?;
    let url = match fields.next().map(str::trim) {
        None | Some("") => return Err(format!("node {id} has no URL")),
        Some(url) => url,
    };
    let bytes = match fields.next().map(str::trim) {
        None | Some("" | "-" | "?") => None,
        Some(text) => match text.parse::<u64>() {
            Ok(bytes) if bytes <= MAX_PAGE_BYTES => Some(bytes),
            Ok(bytes) => {
                return Err(format!(
                    "{bytes} bytes are more than a page can have ({MAX_PAGE_BYTES})"
                ));
            }
            Err(_) => return Err(format!("'{text}' is no number of bytes")),
        },
    };
    Ok((id, url, bytes))
}

fn edge(line: &str) -> std::result::Result<(u64, u64), String> {
    let mut fields = line.split(['\t', ' ']).filter(|field| !field.is_empty());
    Ok((
        id(fields.next(), "the link's source")?,
        id(fields.next(), "the link's target")?,
    ))
}

fn id(field: Option<&str>, what: &str) -> std::result::Result<u64, String> {
    match field.map(str::trim) {
        None | Some("") => Err(format!("{what} is missing")),
        Some(text) => text
            .parse()
            .map_err(|_| format!("{what}, '{text}', is no whole number below 2^64")),
    }
}

/// From ids to numbers of pages. Most files count from 0, and then no table is needed.
#[derive(Default)]
struct Ids {
    counted: u64,
    others: Option<HashMap<u64, u32>>,
}

impl Ids {
    fn add(&mut self, id: u64) -> std::result::Result<(), String> {
        let number =
            u32::try_from(self.counted).map_err(|_| "more than 4,294,967,295 nodes".to_owned())?;
        self.counted += 1;
        if id != u64::from(number) && self.others.is_none() {
            self.others = Some((0..number).map(|n| (u64::from(n), n)).collect());
        }
        if let Some(others) = &mut self.others
            && others.insert(id, number).is_some()
        {
            return Err(format!("node {id} is listed twice"));
        }
        Ok(())
    }

    fn find(&self, id: u64) -> Option<u32> {
        match &self.others {
            Some(others) => others.get(&id).copied(),
            None if id < self.counted => u32::try_from(id).ok(),
            None => None,
        }
    }
}
