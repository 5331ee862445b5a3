//! A Web graph made up from parameters and a seed: sites of very different sizes, most links within a
//! site, a few pages that everyone links to. Each page's URL, size and links follow from its number
//! alone, so a graph of any size can be written without holding it.

use crate::error::{GraphError, Result};
use crate::graph::{LinksBuilder, MAX_PAGE_BYTES, PagesBuilder, WebGraph};

#[derive(Clone, PartialEq, Debug)]
pub struct SyntheticSpec {
    pub pages: u32,
    pub links: u64,
    pub sites: u32,
    pub seed: u64,
    /// Share of links that stay within their site.
    pub within: f64,
    /// Sizes of sites fall with their rank to this power.
    pub site_skew: f64,
    /// In-degrees: density's exponent.
    pub in_exponent: f64,
    pub mean_page_bytes: u64,
}

impl Default for SyntheticSpec {
    fn default() -> Self {
        Self {
            pages: 100_000,
            links: 1_000_000,
            sites: 0,
            seed: 1,
            within: 0.8,
            site_skew: 0.7,
            in_exponent: 2.1,
            mean_page_bytes: ASSUMED_MEAN_BYTES,
        }
    }
}

const ASSUMED_MEAN_BYTES: u64 = 16_384;
/// Where the number of sites is not given: as in the collection of the data-parallel paper.
const PAGES_A_SITE: u32 = 58;
/// Out-degrees are between none and this many times the mean.
const MAX_OUT_FACTOR: f64 = 50.0;
/// Makes up for that limit.
const OUT_CORRECTION: f64 = 1.06;
/// Rounds of drawing, until a page has as many different links as it should.
const MAX_DRAWS: u32 = 8;
/// How far beside a page its neighbours are.
const NEIGHBOURS: u32 = 64;
/// Top-level domains with their shares, in percent.
const EXTENSIONS: &[(&str, u64)] = &[
    ("com", 46),
    ("org", 10),
    ("net", 8),
    ("de", 7),
    ("edu", 6),
    ("co.uk", 5),
    ("fr", 4),
    ("it", 4),
    ("jp", 4),
    ("gov", 3),
    ("info", 3),
];

impl SyntheticSpec {
    /// `pages=1000000,links=10000000,sites=20000,seed=7`; what is left out has its default.
    pub fn parse(text: &str) -> Result<Self> {
        let mut spec = Self::default();
        let mut links_given = false;
        for field in text.split(',').filter(|field| !field.is_empty()) {
            let wrong = || {
                GraphError::Request(format!(
                    "synthetic: '{field}' is not understood; write pages=, links=, sites=, seed=, within= (0 to 1), \
                     site_skew= (0 to 2), in_exponent= (above 1) or bytes= with a number"
                ))
            };
            let (name, value) = field.split_once('=').ok_or_else(wrong)?;
            let real = |low: f64, high: f64| {
                value
                    .parse::<f64>()
                    .ok()
                    .filter(|x| (low..=high).contains(x))
                    .ok_or_else(wrong)
            };
            match name {
                "pages" => spec.pages = value.parse().map_err(|_| wrong())?,
                "links" => {
                    spec.links = value.parse().map_err(|_| wrong())?;
                    links_given = true;
                }
                "sites" => spec.sites = value.parse().map_err(|_| wrong())?,
                "seed" => spec.seed = value.parse().map_err(|_| wrong())?,
                "within" => spec.within = real(0.0, 1.0)?,
                "site_skew" => spec.site_skew = real(0.0, 2.0)?,
                "in_exponent" => spec.in_exponent = real(1.05, 10.0)?,
                "bytes" => {
                    spec.mean_page_bytes = value
                        .parse()
                        .ok()
                        .filter(|&bytes| bytes <= 1 << 30)
                        .ok_or_else(wrong)?
                }
                _ => return Err(wrong()),
            }
        }
        if spec.pages == 0 {
            return Err(GraphError::Request(
                "synthetic: a graph needs a page".to_owned(),
            ));
        }
        if !links_given {
            spec.links = u64::from(spec.pages) * 10;
        }
        Ok(spec)
    }

    pub fn plan(&self) -> SyntheticWeb {
        SyntheticWeb::new(self.clone())
    }

    /// The whole graph in memory.
    pub fn graph(&self) -> Result<WebGraph> {
        let web = self.plan();
        let mut notes = Vec::new();
        let mut pages = PagesBuilder::default();
        let mut url = String::new();
        for page in 0..self.pages {
            web.url(page, &mut url);
            let host = url["http://".len()..].split('/').next().unwrap_or_default();
            pages.push(&url, host, Some(web.bytes(page)));
        }
        let pages = pages.finish(&mut notes)?;
        let mut links = LinksBuilder::new(self.pages);
        let mut row = Vec::new();
        for page in 0..self.pages {
            web.links(page, &mut row);
            for &to in &row {
                links.push(page, to);
            }
        }
        let (links, _, _) = links.finish();
        Ok(WebGraph {
            pages,
            links,
            seeds: vec![0],
            notes,
        })
    }
}

/// A synthetic graph, page by page.
#[derive(Debug)]
pub struct SyntheticWeb {
    spec: SyntheticSpec,
    /// First page of each site, and the number of pages at the end.
    starts: Vec<u32>,
    /// Spreads ranks over pages, so that well-linked pages are in sites of all sizes.
    stride: u64,
    mean_out: f64,
}

impl SyntheticWeb {
    fn new(spec: SyntheticSpec) -> Self {
        let sites = match spec.sites {
            0 => spec.pages.div_ceil(PAGES_A_SITE),
            sites => sites.min(spec.pages),
        };
        // Every site has a page; the others are dealt out by rank.
        let weights: Vec<f64> = (1..=sites)
            .map(|rank| f64::from(rank).powf(-spec.site_skew))
            .collect();
        let total: f64 = weights.iter().sum();
        let free = f64::from(spec.pages - sites);
        let mut starts = Vec::with_capacity(sites as usize + 1);
        let (mut sum, mut start) = (0.0, 0);
        for (site, weight) in weights.iter().enumerate() {
            starts.push(start);
            sum += weight;
            start = (site as u32 + 1) + (free * (sum / total)).floor() as u32;
            start = start.min(spec.pages);
        }
        starts.push(spec.pages);
        let mut stride = (u64::from(spec.pages) as f64 * 0.618) as u64 | 1;
        while gcd(stride, u64::from(spec.pages)) != 1 {
            stride += 2;
        }
        Self {
            mean_out: spec.links as f64 / f64::from(spec.pages),
            spec,
            starts,
            stride,
        }
    }

    pub fn pages(&self) -> u32 {
        self.spec.pages
    }

    pub fn sites(&self) -> u32 {
        self.starts.len() as u32 - 1
    }

    pub fn url(&self, page: u32, url: &mut String) {
        use std::fmt::Write;
        let site = self.site(page);
        let within = page - self.starts[site as usize];
        url.clear();
        // Writing to a String cannot fail.
        let _ = write!(url, "http://w{site}.{}/", self.extension(site));
        if within > 0 {
            let _ = write!(url, "d{}/page-{within}.html", within % 37);
        }
    }

    /// Log-normal, as sizes of Web pages are.
    pub fn bytes(&self, page: u32) -> u64 {
        let mut dice = Dice::of(self.spec.seed ^ 0xb17e5, u64::from(page));
        // The sum of twelve is nearly normal, with variance 1.
        let normal: f64 = (0..12).map(|_| dice.unit()).sum::<f64>() - 6.0;
        let bytes = self.spec.mean_page_bytes as f64 * (normal - 0.5).exp();
        (bytes as u64).clamp(1, MAX_PAGE_BYTES)
    }

    /// Its links, sorted, each once, none to itself.
    pub fn links(&self, page: u32, row: &mut Vec<u32>) {
        row.clear();
        let mut dice = Dice::of(self.spec.seed, u64::from(page));
        // Pareto with exponent 2.5 above a third of its mean has the mean wanted; a little more, for
        // what the largest are cut by.
        let out = OUT_CORRECTION * self.mean_out / 3.0 * dice.unit().max(1e-9).powf(-1.0 / 1.5);
        let out = out.min(self.mean_out * MAX_OUT_FACTOR);
        let wanted = out as usize + usize::from(dice.unit() < out.fract());
        let wanted = wanted.min(self.spec.pages as usize - 1);
        let site = self.site(page);
        let (first, after) = (self.starts[site as usize], self.starts[site as usize + 1]);
        // How many stay is settled first: drawing again what was drawn twice must not change it.
        let stay = (0..wanted)
            .filter(|_| dice.unit() < self.spec.within)
            .count()
            .min((after - first) as usize - 1);
        self.draw(row, stay, page, || {
            self.inside(&mut dice, page, first, after)
        });
        let mut next = page;
        while row.len() < stay {
            // A small site: whoever is next.
            next = if next + 1 == after { first } else { next + 1 };
            if let Err(place) = row.binary_search(&next) {
                row.insert(place, next);
            }
        }
        self.draw(row, wanted, page, || self.outside(&mut dice));
    }

    /// Draws until the row has `wanted` different pages, but at most `MAX_DRAWS` times.
    fn draw(&self, row: &mut Vec<u32>, wanted: usize, page: u32, mut target: impl FnMut() -> u32) {
        for _ in 0..MAX_DRAWS {
            if row.len() >= wanted {
                return;
            }
            for _ in row.len()..wanted {
                row.push(target());
            }
            row.sort_unstable();
            row.dedup();
            row.retain(|&to| to != page);
        }
    }

    fn inside(&self, dice: &mut Dice, page: u32, first: u32, after: u32) -> u32 {
        let size = after - first;
        if dice.unit() < 0.5 {
            // Up: the home page and those near it.
            first + self.rank(dice, size)
        } else {
            // Beside: neighbours in the site's own order.
            let step = 1 + self.rank(dice, size.min(NEIGHBOURS));
            first + ((page - first) + step) % size
        }
    }

    fn outside(&self, dice: &mut Dice) -> u32 {
        if dice.unit() < 0.5 {
            // Home pages.
            self.starts[self.scattered(dice, self.sites()) as usize]
        } else {
            self.scattered(dice, self.spec.pages)
        }
    }

    /// A rank below `n`, low ones far more often: in-degrees then follow the exponent asked for.
    fn rank(&self, dice: &mut Dice, n: u32) -> u32 {
        // Rank r has weight r^-a with a = 1 / (exponent - 1); by inversion of its integral.
        let a = (1.0 / (self.spec.in_exponent - 1.0)).min(0.999);
        let u = dice.unit();
        ((f64::from(n) * u.powf(1.0 / (1.0 - a))) as u32).min(n - 1)
    }

    fn scattered(&self, dice: &mut Dice, n: u32) -> u32 {
        let rank = u64::from(self.rank(dice, n));
        ((rank * self.stride + 1) % u64::from(n)) as u32
    }

    fn site(&self, page: u32) -> u32 {
        self.starts.partition_point(|&start| start <= page) as u32 - 1
    }

    fn extension(&self, site: u32) -> &'static str {
        let mut roll = Dice::of(self.spec.seed ^ 0xe87, u64::from(site)).next() % 100;
        for &(name, share) in EXTENSIONS {
            if roll < share {
                return name;
            }
            roll -= share;
        }
        "com"
    }
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// splitmix64, started anew for each page.
pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) fn of(seed: u64, number: u64) -> Self {
        let mut dice = Self(
            seed.wrapping_mul(0xd129_0fb0_7ac3_0d35) ^ number.wrapping_mul(0xa24b_aed4_963e_e407),
        );
        dice.next();
        dice
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut x = self.0;
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ (x >> 31)
    }

    /// From 0 up to, but not, 1.
    pub(crate) fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }

    pub(crate) fn below(&mut self, n: u32) -> u32 {
        ((u128::from(self.next()) * u128::from(n)) >> 64) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::Facts;

    #[test]
    fn a_graph_is_as_its_parameters_say() {
        let graph = SyntheticSpec::parse("pages=50000,links=500000,sites=1000,seed=4")
            .and_then(|spec| spec.graph())
            .expect("a graph");
        let facts = Facts::of(&graph);
        assert_eq!((facts.pages, facts.sites), (50_000, Some(1_000)));
        assert!((450_000..550_000).contains(&facts.links), "{}", facts.links);
        let within = facts.links_within_sites.expect("sites") as f64 / facts.links as f64;
        assert!((0.65..0.85).contains(&within), "{within}");
        let tail = facts.in_degree.tail_exponent.expect("a tail");
        assert!((1.7..3.2).contains(&tail), "{tail}");
        let sizes = facts.pages_of_a_site.expect("sites");
        assert!(sizes.max > 20 * sizes.median, "{sizes:?}");
        let mean = facts.bytes / facts.pages;
        assert!((14_000..19_000).contains(&mean), "{mean}");
    }

    #[test]
    fn the_same_seed_is_the_same_graph_and_another_is_not() {
        let graph = |seed| {
            SyntheticSpec {
                pages: 500,
                links: 2_000,
                seed,
                ..Default::default()
            }
            .graph()
            .expect("a graph")
        };
        assert_eq!(graph(1).links, graph(1).links);
        assert_ne!(graph(1).links, graph(2).links);
    }

    #[test]
    fn tiny_graphs_are_possible() {
        for pages in 1..12 {
            for sites in [1, 3, 50] {
                let graph = SyntheticSpec {
                    pages,
                    links: 40,
                    sites,
                    ..Default::default()
                }
                .graph()
                .expect("a graph");
                assert_eq!(graph.pages.count(), pages);
            }
        }
    }
}
