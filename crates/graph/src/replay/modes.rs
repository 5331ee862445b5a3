//! How K crawling processes may deal with links to each other's pages, after Cho and Garcia-Molina and
//! after WEB-SAILOR: drop them, follow them when idle, send them, or leave all decisions to a server.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, HashSet};

use portolan_model::{Order, Ranker};
use serde::Serialize;

use super::frontier::{Judge as By, replay};
use crate::graph::WebGraph;
use crate::rank::{back_links, by_score};

#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// A link to another part is dropped.
    Firewall,
    /// It is followed once there is nothing else to do, whoever else does.
    CrossOver,
    /// It is sent to its part, once by each sender.
    Exchange,
    /// All links go to a server, which counts them and says what to fetch.
    ServerCentric,
}

impl Mode {
    pub const ALL: [Mode; 4] = [
        Mode::Firewall,
        Mode::CrossOver,
        Mode::Exchange,
        Mode::ServerCentric,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Mode::Firewall => "firewall",
            Mode::CrossOver => "cross-over",
            Mode::Exchange => "exchange",
            Mode::ServerCentric => "server-centric",
        }
    }
}

#[derive(Clone, Copy, PartialEq, Debug)]
pub struct ModeSettings {
    /// Each process sends its messages whenever it has fetched this many pages.
    pub exchange_every_pages: u32,
    /// Quality is judged when this share of the pages has been fetched.
    pub quality_at: f64,
}

impl Default for ModeSettings {
    fn default() -> Self {
        Self {
            exchange_every_pages: 10,
            quality_at: 0.2,
        }
    }
}

#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct ModeResult {
    pub mode: Mode,
    /// Different pages fetched, as a share of those that a single crawler fetches.
    pub coverage: f64,
    /// Needless downloads for each needed one.
    pub overlap: f64,
    pub messages: u64,
    pub urls_sent: u64,
    pub bytes_sent: u64,
    /// Of the most linked pages that could have been fetched by then, how many were.
    pub quality: f64,
    /// That, as a share of a single crawler's.
    pub quality_of_single: f64,
}

/// `part_of` names the process of each page; seeds go to the process they belong to.
pub fn replay_modes(
    graph: &WebGraph,
    part_of: &[u16],
    parts: u16,
    seeds: &[u32],
    settings: ModeSettings,
) -> Vec<ModeResult> {
    let single = replay(graph, seeds, &mut By::Ranker(&Order::Backlinks));
    let judge = Judge::new(graph, &single, settings.quality_at);
    Mode::ALL
        .into_iter()
        .map(|mode| {
            let mut fleet = Fleet::new(graph, part_of, parts, mode, settings);
            fleet.run(seeds, single.len());
            let fetched = &fleet.fetched;
            let quality = judge.quality(fetched);
            ModeResult {
                mode,
                coverage: fetched.len() as f64 / single.len().max(1) as f64,
                overlap: (fleet.downloads as f64 - fetched.len() as f64)
                    / fetched.len().max(1) as f64,
                messages: fleet.messages,
                urls_sent: fleet.urls_sent,
                bytes_sent: fleet.bytes_sent,
                quality,
                quality_of_single: quality / judge.quality(&single).max(f64::MIN_POSITIVE),
            }
        })
        .collect()
}

/// Which pages ought to have been fetched by a certain point.
struct Judge {
    due: usize,
    hot: Vec<bool>,
}

impl Judge {
    fn new(graph: &WebGraph, single: &[u32], quality_at: f64) -> Self {
        let mut reachable = vec![false; graph.pages.count() as usize];
        for &page in single {
            reachable[page as usize] = true;
        }
        let due = ((single.len() as f64 * quality_at).ceil() as usize).max(1);
        let mut hot = vec![false; reachable.len()];
        for page in by_score(&back_links(&graph.links))
            .into_iter()
            .filter(|&page| reachable[page as usize])
            .take(due)
        {
            hot[page as usize] = true;
        }
        Self { due, hot }
    }

    fn quality(&self, fetched: &[u32]) -> f64 {
        let found = fetched
            .iter()
            .take(self.due)
            .filter(|&&page| self.hot[page as usize])
            .count();
        found as f64 / self.due as f64
    }
}

type Heap = BinaryHeap<(u8, Reverse<u32>, u32)>;

#[derive(Default)]
struct Process {
    /// Page to (back-links seen, arrival, fetched).
    known: HashMap<u32, (u32, u32, bool)>,
    own: Heap,
    foreign: Heap,
    sent: HashSet<u32>,
    outbox: Vec<u32>,
}

impl Process {
    /// One more link to this page.
    fn observe(&mut self, page: u32, is_own: bool) {
        let arrival = self.known.len() as u32;
        let entry = self.known.entry(page).or_insert((0, arrival, false));
        let new = entry.0 == 0;
        let before = class(entry.0);
        entry.0 += 1;
        let now = class(entry.0);
        if !entry.2 && (new || before != now) {
            let item = (now, Reverse(entry.1), page);
            if is_own {
                self.own.push(item);
            } else {
                self.foreign.push(item);
            }
        }
    }

    fn take(&mut self) -> Option<u32> {
        while let Some((_, _, page)) = self.own.pop().or_else(|| self.foreign.pop()) {
            if let Some(entry) = self.known.get_mut(&page)
                && !entry.2
            {
                entry.2 = true;
                return Some(page);
            }
        }
        None
    }
}

fn class(back_links: u32) -> u8 {
    Order::Backlinks.class(back_links, 0)
}

struct Fleet<'a> {
    graph: &'a WebGraph,
    part_of: &'a [u16],
    mode: Mode,
    settings: ModeSettings,
    processes: Vec<Process>,
    is_fetched: Vec<bool>,
    fetched: Vec<u32>,
    downloads: u64,
    messages: u64,
    urls_sent: u64,
    bytes_sent: u64,
}

impl<'a> Fleet<'a> {
    fn new(
        graph: &'a WebGraph,
        part_of: &'a [u16],
        parts: u16,
        mode: Mode,
        settings: ModeSettings,
    ) -> Self {
        Self {
            graph,
            part_of,
            mode,
            settings,
            processes: (0..parts).map(|_| Process::default()).collect(),
            is_fetched: vec![false; graph.pages.count() as usize],
            fetched: Vec::new(),
            downloads: 0,
            messages: 0,
            urls_sent: 0,
            bytes_sent: 0,
        }
    }

    /// Every process fetches a page a round, until all that a single crawler fetches is there, or nobody
    /// has anything to do.
    fn run(&mut self, seeds: &[u32], enough: usize) {
        for &seed in seeds {
            let owner = usize::from(self.part_of[seed as usize]);
            self.processes[owner].observe(seed, true);
        }
        let mut round = 0_u32;
        while self.fetched.len() < enough {
            round += 1;
            let mut idle = true;
            for number in 0..self.processes.len() {
                if let Some(page) = self.processes[number].take() {
                    idle = false;
                    self.fetch(number, page);
                }
            }
            let due = round.is_multiple_of(self.settings.exchange_every_pages.max(1));
            let delivered = (due || idle) && self.deliver();
            if idle && !delivered {
                return;
            }
        }
    }

    fn fetch(&mut self, number: usize, page: u32) {
        self.downloads += 1;
        if !std::mem::replace(&mut self.is_fetched[page as usize], true) {
            self.fetched.push(page);
        }
        let graph = self.graph;
        for &to in graph.links.of(page) {
            let is_own = usize::from(self.part_of[to as usize]) == number;
            let process = &mut self.processes[number];
            match self.mode {
                Mode::ServerCentric => process.outbox.push(to),
                _ if is_own => process.observe(to, true),
                Mode::Firewall => {}
                Mode::CrossOver => process.observe(to, false),
                Mode::Exchange => {
                    if process.sent.insert(to) {
                        process.outbox.push(to);
                    }
                }
            }
        }
        if self.mode == Mode::ServerCentric {
            // The server has named this page to its client.
            self.urls_sent += 1;
            self.bytes_sent += u64::from(graph.pages.url_bytes(page));
        }
    }

    /// All outboxes are emptied; was there anything?
    fn deliver(&mut self) -> bool {
        let mut any = false;
        for number in 0..self.processes.len() {
            let outbox = std::mem::take(&mut self.processes[number].outbox);
            if outbox.is_empty() {
                continue;
            }
            any = true;
            let mut receivers = HashSet::new();
            for to in outbox {
                let owner = self.part_of[to as usize];
                receivers.insert(owner);
                self.urls_sent += 1;
                self.bytes_sent += u64::from(self.graph.pages.url_bytes(to));
                self.processes[usize::from(owner)].observe(to, true);
            }
            self.messages += match self.mode {
                // One up to the server, one down from it.
                Mode::ServerCentric => 2,
                _ => receivers.len() as u64,
            };
        }
        any
    }
}
