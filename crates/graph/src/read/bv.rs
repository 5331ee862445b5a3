//! WebGraph's BV format: a row is told by what it copies from one of the rows before, by runs of
//! neighbours, and by gaps between the rest. Sequential reading only.

use std::collections::{HashMap, VecDeque};
use std::fs::File;
use std::io::{self, BufReader};
use std::path::{Path, PathBuf};

use portolan_model::Canonicalizer;
use portolan_model::url::CanonicalSettings;

use super::bits::{BitReader, Code};
use super::lines::Lines;
use crate::error::{GraphError, Result};
use crate::graph::{Links, LinksBuilder, Note, PagesBuilder, Tally, WebGraph};

const READ_BYTES: usize = 256 * 1024;

/// `base` without extension: `base.graph`, `base.properties`, and `base.urls[.gz]` if it is there.
pub fn read_bv(base: &Path) -> Result<WebGraph> {
    let properties = Properties::read(&with_suffix(base, ".properties"))?;
    let mut notes = Vec::new();
    let pages = match urls_path(base) {
        Some(path) => read_urls(&path, properties.nodes, &mut notes)?,
        None => PagesBuilder::nameless(properties.nodes),
    }
    .finish(&mut notes)?;
    let path = with_suffix(base, ".graph");
    let builder = read_rows(&path, &properties)?;
    let links = finish_links(builder, &mut notes);
    Ok(WebGraph {
        pages,
        links,
        seeds: Vec::new(),
        notes,
    })
}

/// The links, with a note of what was left out.
pub(super) fn finish_links(builder: LinksBuilder, notes: &mut Vec<Note>) -> Links {
    let (links, repeated, to_self) = builder.finish();
    for (count, what) in [
        (repeated, "repeated links; each counts once"),
        (to_self, "links from a page to itself; they are left out"),
    ] {
        if count > 0 {
            notes.push(Note {
                count,
                what: what.to_owned(),
                first: None,
            });
        }
    }
    links
}

fn read_rows(path: &Path, properties: &Properties) -> Result<LinksBuilder> {
    let file = File::open(path).map_err(GraphError::io(path))?;
    let mut bits = BitReader::new(BufReader::with_capacity(READ_BYTES, file));
    let mut builder = LinksBuilder::new(properties.nodes);
    let mut window: VecDeque<Vec<u32>> = VecDeque::new();
    let mut arcs = 0_u64;
    let mut row = Vec::new();
    for page in 0..properties.nodes {
        row.clear();
        let damaged = |what: String| {
            GraphError::damaged(path, format!("cannot be read from page {page} on: {what}"))
        };
        decode(&mut bits, properties, page, &window, &mut row).map_err(|error| {
            damaged(match error.kind() {
                io::ErrorKind::UnexpectedEof => "the file ends too early".to_owned(),
                _ => error.to_string(),
            })
        })?;
        row.sort_unstable();
        arcs += row.len() as u64;
        if row.last().is_some_and(|&last| last >= properties.nodes) {
            return Err(damaged("a link leads to no page".to_owned()));
        }
        for &to in &row {
            builder.push(page, to);
        }
        window.push_front(row);
        // The row that nobody can refer to any more gives its memory to the next.
        row = if window.len() > properties.window {
            window.pop_back().unwrap_or_default()
        } else {
            Vec::new()
        };
    }
    if arcs != properties.arcs {
        return Err(GraphError::damaged(
            path,
            format!(
                "it has {arcs} links where its properties say {}",
                properties.arcs
            ),
        ));
    }
    Ok(builder)
}

fn decode(
    bits: &mut BitReader<BufReader<File>>,
    properties: &Properties,
    page: u32,
    window: &VecDeque<Vec<u32>>,
    row: &mut Vec<u32>,
) -> io::Result<()> {
    let degree = bits.read(properties.outdegrees)?;
    if degree > u64::from(properties.nodes) {
        return Err(wrong("a page has more links than there are pages"));
    }
    let degree = degree as usize;
    if degree == 0 {
        return Ok(());
    }
    if properties.window > 0 {
        let reference = bits.read(properties.references)? as usize;
        if reference > 0 {
            let source = window
                .get(reference - 1)
                .ok_or_else(|| wrong("a row refers to no row"))?;
            copy_blocks(bits, properties, source, row)?;
        }
    }
    if row.len() > degree {
        return Err(wrong("a row copies more links than it has"));
    }
    if row.len() < degree && properties.min_interval > 0 {
        intervals(bits, properties, page, degree, row)?;
    }
    let mut previous = i64::from(page);
    for number in 0..degree - row.len() {
        let gap = bits.read(properties.residuals)?;
        let target = match number {
            0 => previous + signed(gap),
            _ => previous + gap as i64 + 1,
        };
        row.push(checked(target)?);
        previous = target;
    }
    Ok(())
}

/// Blocks of the other row, copied and skipped by turns; what follows the last block is copied if the
/// last block was skipped.
fn copy_blocks(
    bits: &mut BitReader<BufReader<File>>,
    properties: &Properties,
    source: &[u32],
    row: &mut Vec<u32>,
) -> io::Result<()> {
    let blocks = bits.read(properties.block_counts)?;
    let mut at = 0_usize;
    for number in 0..blocks {
        let length = bits.read(properties.blocks)? + u64::from(number > 0);
        let end = at
            .checked_add(length as usize)
            .filter(|&end| end <= source.len())
            .ok_or_else(|| wrong("a block is longer than its row"))?;
        if number % 2 == 0 {
            row.extend_from_slice(&source[at..end]);
        }
        at = end;
    }
    if blocks % 2 == 0 {
        row.extend_from_slice(&source[at..]);
    }
    Ok(())
}

fn intervals(
    bits: &mut BitReader<BufReader<File>>,
    properties: &Properties,
    page: u32,
    degree: usize,
    row: &mut Vec<u32>,
) -> io::Result<()> {
    let mut next = i64::from(page);
    for number in 0..bits.read(Code::Gamma)? {
        let gap = bits.read(Code::Gamma)?;
        next = match number {
            0 => next + signed(gap),
            _ => next + gap as i64 + 1,
        };
        let length = bits.read(Code::Gamma)? + u64::from(properties.min_interval);
        if length > (degree - row.len()) as u64 {
            return Err(wrong("an interval is longer than its row"));
        }
        let (left, right) = (checked(next)?, checked(next + length as i64 - 1)?);
        row.extend(left..=right);
        next += length as i64;
    }
    Ok(())
}

fn signed(code: u64) -> i64 {
    let half = (code >> 1) as i64;
    if code & 1 == 0 { half } else { -half - 1 }
}

fn checked(target: i64) -> io::Result<u32> {
    u32::try_from(target).map_err(|_| wrong("a link leads to no page"))
}

fn wrong(what: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

fn with_suffix(base: &Path, suffix: &str) -> PathBuf {
    let mut name = base.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

fn urls_path(base: &Path) -> Option<PathBuf> {
    [".urls", ".urls.gz"]
        .into_iter()
        .map(|suffix| with_suffix(base, suffix))
        .find(|path| path.exists())
}

fn read_urls(path: &Path, nodes: u32, notes: &mut Vec<Note>) -> Result<PagesBuilder> {
    let canonicalizer = Canonicalizer::new(&CanonicalSettings::keep_all_parameters());
    let mut builder = PagesBuilder::default();
    let mut unparsed = Tally::default();
    let mut lines = Lines::open(path)?;
    while lines.advance()? {
        let url = lines.text();
        match canonicalizer.parse(url) {
            Ok(url) => builder.push(url.as_str(), url.host(), None),
            Err(error) => {
                builder.push(url, url, None);
                unparsed.add(|| lines.place(error));
            }
        }
    }
    if builder.count() != nodes as usize {
        return Err(GraphError::damaged(
            path,
            format!("it has {} URLs for {nodes} pages", builder.count()),
        ));
    }
    unparsed.note(
        "URLs that cannot be parsed; each is kept as it is, as a site of its own",
        notes,
    );
    Ok(builder)
}

struct Properties {
    nodes: u32,
    arcs: u64,
    window: usize,
    min_interval: u32,
    outdegrees: Code,
    references: Code,
    block_counts: Code,
    blocks: Code,
    residuals: Code,
}

impl Properties {
    fn read(path: &Path) -> Result<Self> {
        let mut values: HashMap<String, (u64, String)> = HashMap::new();
        let mut lines = Lines::open(path)?;
        while lines.advance()? {
            let (name, value) = lines
                .text()
                .split_once('=')
                .ok_or_else(|| lines.wrong("this is no NAME=VALUE"))?;
            values.insert(
                name.trim().to_owned(),
                (lines.number(), value.trim().to_owned()),
            );
        }
        let number = |name: &str, default: Option<u64>| match (values.get(name), default) {
            (Some((line, text)), _) => text.parse::<u64>().map_err(|_| {
                GraphError::input(path, *line, format!("{name}: '{text}' is no whole number"))
            }),
            (None, Some(default)) => Ok(default),
            (None, None) => Err(GraphError::damaged(path, format!("it does not say {name}"))),
        };
        if let Some((line, class)) = values.get("graphclass")
            && !class.ends_with("BVGraph")
        {
            return Err(GraphError::input(
                path,
                *line,
                format!("graphs of class {class} cannot be read, only BVGraph"),
            ));
        }
        let zeta_k = number("zetak", Some(3))?.clamp(1, 16) as u32;
        let mut found = Self {
            nodes: u32::try_from(number("nodes", None)?)
                .ok()
                .filter(|&nodes| nodes > 0)
                .ok_or_else(|| {
                    GraphError::damaged(path, "the graph is empty or has 2^32 nodes or more")
                })?,
            arcs: number("arcs", None)?,
            window: number("windowsize", Some(7))?.min(1 << 16) as usize,
            min_interval: number("minintervallength", Some(4))?.min(1 << 20) as u32,
            outdegrees: Code::Gamma,
            references: Code::Unary,
            block_counts: Code::Gamma,
            blocks: Code::Gamma,
            residuals: Code::Zeta(zeta_k),
        };
        if let Some((line, flags)) = values.get("compressionflags") {
            for flag in flags
                .split('|')
                .map(str::trim)
                .filter(|flag| !flag.is_empty())
            {
                found.apply(flag, zeta_k).ok_or_else(|| {
                    GraphError::input(path, *line, format!("the code {flag} is not supported"))
                })?;
            }
        }
        Ok(found)
    }

    fn apply(&mut self, flag: &str, zeta_k: u32) -> Option<()> {
        let (what, code) = flag.rsplit_once('_')?;
        let code = match code {
            "GAMMA" => Code::Gamma,
            "DELTA" => Code::Delta,
            "ZETA" => Code::Zeta(zeta_k),
            "UNARY" => Code::Unary,
            _ => return None,
        };
        match what {
            "OUTDEGREES" => self.outdegrees = code,
            "REFERENCES" => self.references = code,
            "BLOCK_COUNT" => self.block_counts = code,
            "BLOCKS" => self.blocks = code,
            "RESIDUALS" => self.residuals = code,
            // Only for random access.
            "OFFSETS" => {}
            _ => return None,
        }
        Some(())
    }
}
