//! The simulated Web as a whole: hosts, names, URLs, and which resource a request means. No sockets, no bytes of pages.

use crate::library::Library;
use crate::motion::Motion;
use crate::oddity::Oddity;
use crate::plan::{HostPlan, PagePlan, PathClass, Role, SitemapKind, Via, pick_oddity, plan_host};
use crate::robots::RobotsKind;
use crate::seed::{Draw, mix};
use crate::spec::{SpecError, WebSpec};
use crate::words::Words;
use std::sync::atomic::AtomicU32;

/// Pages of a folder, for paths like `/d3/p200.html`.
const FOLDER_PAGES: u32 = 64;

/// Hiragana and katakana a path is spelled with, as JIS X 0208 (row, cell).
pub(crate) const KANA_PER_PATH: u64 = 4;

/// The parameter that session traps carry; stripped by crawlers that know session parameters.
pub const SESSION_PARAMETER: &str = "PHPSESSID";

/// A Web made from a spec.
pub struct Web {
    pub(crate) spec: WebSpec,
    pub(crate) hosts: Vec<HostPlan>,
    pub(crate) words: Words,
    pub(crate) library: Option<Library>,
    pub(crate) scheme: &'static str,
    /// `:8080` or nothing.
    pub(crate) port_part: String,
    pub(crate) generation: AtomicU32,
    pub(crate) motion: Motion,
}

/// What a request path stands for on a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Resource {
    Page(u32),
    Robots,
    /// Where redirected robots.txt files live: of this host, or of others.
    RobotsMoved,
    /// 0: the sitemap named in robots.txt; 1 and 2: the parts of an index.
    Sitemap(u8),
    Feed,
    Calendar(u32),
    /// How many segments the growing path has.
    Growing(u32),
    /// Page and session id.
    Session(u32, u64),
    /// A page's table of links.
    Table(u32),
    /// Its volatile parts.
    Parts,
    Nothing,
}

impl Web {
    pub fn new(spec: WebSpec) -> Result<Web, SpecError> {
        spec.check()?;
        let hosts = (0..spec.hosts).map(|host| plan_host(&spec, host)).collect();
        let library = spec.pages_from.as_deref().map(Library::read).transpose()?;
        Ok(Web {
            library,
            words: Words::new(spec.seed),
            hosts,
            scheme: if spec.tls { "https" } else { "http" },
            port_part: spec.url_port.map(|p| format!(":{p}")).unwrap_or_default(),
            generation: AtomicU32::new(0),
            motion: Motion::default(),
            spec,
        })
    }

    pub fn spec(&self) -> &WebSpec {
        &self.spec
    }

    pub fn host_count(&self) -> u32 {
        self.hosts.len() as u32
    }

    pub fn page_count(&self) -> u64 {
        self.hosts.iter().map(|h| h.pages.len() as u64).sum()
    }

    pub fn pages_of(&self, host: u32) -> u32 {
        self.hosts[host as usize].pages.len() as u32
    }

    pub fn host_name(&self, host: u32) -> String {
        format!("h{host}.{}", self.spec.suffix)
    }

    /// The host a `Host` header or a URL's authority names, in any case and with any port.
    pub fn host_named(&self, authority: &str) -> Option<u32> {
        let (name, port) = match authority.split_once(':') {
            Some((name, port)) => (name, Some(port)),
            None => (authority, None),
        };
        if port.is_some_and(|p| p.parse::<u16>().is_err()) {
            return None;
        }
        let name = name.strip_suffix('.').unwrap_or(name);
        let (label, suffix) = name.split_once('.')?;
        let digits = label.strip_prefix(['h', 'H'])?;
        if !suffix.eq_ignore_ascii_case(&self.spec.suffix)
            || (digits.starts_with('0') && digits != "0")
        {
            return None;
        }
        let host: u32 = digits.parse().ok()?;
        (host < self.host_count() && digits.bytes().all(|b| b.is_ascii_digit())).then_some(host)
    }

    /// The canonical URL of a page. Page 0 is the host's home page.
    pub fn page_url(&self, host: u32, page: u32) -> String {
        let mut url = self.origin(host);
        url.push_str(&self.path(host, page));
        url
    }

    pub(crate) fn origin(&self, host: u32) -> String {
        format!(
            "{}://h{host}.{}{}",
            self.scheme, self.spec.suffix, self.port_part
        )
    }

    pub(crate) fn plan(&self, host: u32, page: u32) -> PagePlan {
        self.hosts[host as usize].pages[page as usize]
    }

    pub(crate) fn path(&self, host: u32, page: u32) -> String {
        let mut path = Vec::with_capacity(32);
        self.write_path(host, page, &mut path);
        // Paths are made of ASCII only.
        String::from_utf8(path).unwrap_or_default()
    }

    pub(crate) fn write_path(&self, host: u32, page: u32, out: &mut Vec<u8>) {
        let folder = page / FOLDER_PAGES;
        let put = |out: &mut Vec<u8>, before: &str, after: &str| {
            out.extend_from_slice(before.as_bytes());
            push_number(out, u64::from(page));
            out.extend_from_slice(after.as_bytes());
        };
        match self.plan(host, page).path {
            PathClass::Home => out.push(b'/'),
            PathClass::Folder => {
                out.extend_from_slice(b"/d");
                push_number(out, u64::from(folder));
                put(out, "/p", ".html");
            }
            PathClass::Flat => put(out, "/p", ".html"),
            PathClass::Slash => put(out, "/section", "/"),
            PathClass::Query => put(out, "/view?id=", ""),
            PathClass::Escaped => put(out, "/caf%C3%A9/p", ".html"),
            PathClass::Private => put(out, "/private/p", ".html"),
            PathClass::PrivateOpen => put(out, "/private/open/p", ".html"),
            PathClass::Secret => put(out, "/area/secret/p", ".html"),
            PathClass::Tmp => put(out, "/area/p", ".tmp"),
            PathClass::TmpOpen => put(out, "/area/p", ".tmp.html"),
            PathClass::Bare => put(out, "/dir", ""),
            PathClass::SlashOfPrevious => {
                out.extend_from_slice(b"/dir");
                push_number(out, u64::from(page - 1));
                out.push(b'/');
            }
            PathClass::UnderBase => {
                out.extend_from_slice(b"/based/");
                put(out, "x/p", ".html");
            }
            PathClass::Kana => {
                out.extend_from_slice(b"/jp/");
                for (row, cell) in self.kana(host, page) {
                    // Hiragana is row 4 from U+3041, katakana row 5 from U+30A1, both in JIS order.
                    let code = if row == 4 { 0x3040 } else { 0x30A0 } + u32::from(cell);
                    let letter = char::from_u32(code).unwrap_or('\u{3042}');
                    for byte in letter.encode_utf8(&mut [0; 4]).bytes() {
                        out.extend_from_slice(&[b'%', hex_digit(byte >> 4), hex_digit(byte & 15)]);
                    }
                }
                put(out, "/p", ".html");
            }
            PathClass::Text => put(out, "/notes/p", ".txt"),
            PathClass::Pdf => put(out, "/papers/p", ".pdf"),
            PathClass::Image => put(out, "/img/i", ".png"),
        }
    }

    /// The kana in a Japanese page's path.
    pub(crate) fn kana(&self, host: u32, page: u32) -> impl Iterator<Item = (u8, u8)> {
        let seed = self.spec.seed;
        (0..KANA_PER_PATH).map(move |n| {
            let bits = mix(seed, u64::from(host), u64::from(page), 0x2000 + n);
            (if n % 2 == 0 { 4 } else { 5 }, 1 + (bits % 83) as u8)
        })
    }

    /// The resource behind a request target of the form `/path?query`, however it is spelled, and whether the spelling is an
    /// alias.
    pub(crate) fn resource(&self, host: u32, target: &str) -> (Resource, bool) {
        if let Some(page) = self.page_at(host, target) {
            return (Resource::Page(page), false);
        }
        let plain = crate::spelling::canonical_target(target);
        let alias = plain != target;
        if alias && let Some(page) = self.page_at(host, &plain) {
            return (Resource::Page(page), true);
        }
        let resource = self.special(host, &plain);
        (resource, alias && resource != Resource::Nothing)
    }

    pub(crate) fn page_at(&self, host: u32, target: &str) -> Option<u32> {
        if target == "/" {
            return Some(0);
        }
        let bytes = target.as_bytes();
        let end = bytes.iter().rposition(u8::is_ascii_digit)? + 1;
        let start = bytes[..end].iter().rposition(|b| !b.is_ascii_digit())? + 1;
        let number: u32 = target[start..end].parse().ok()?;
        let count = self.hosts[host as usize].pages.len() as u32;
        let mut path = Vec::with_capacity(48);
        // A directory with its slash bears the number of the page that lacks it.
        for page in [number, number.saturating_add(1)] {
            if page < count {
                path.clear();
                self.write_path(host, page, &mut path);
                if path == bytes {
                    return Some(page);
                }
            }
        }
        None
    }

    fn special(&self, host: u32, target: &str) -> Resource {
        let plan = &self.hosts[host as usize];
        match target {
            "/robots.txt" => return Resource::Robots,
            "/robots-moved.txt" => return Resource::RobotsMoved,
            "/feed.xml" if plan.feed.is_some() => return Resource::Feed,
            _ => {}
        }
        if let Some(table) = self.table_at(host, target) {
            return table;
        }
        if let Some(part) = self.sitemap_paths(host).iter().position(|p| *p == target) {
            return Resource::Sitemap(part as u8);
        }
        if plan.traps {
            self.trap(target).unwrap_or(Resource::Nothing)
        } else {
            Resource::Nothing
        }
    }

    fn trap(&self, target: &str) -> Option<Resource> {
        let traps = &self.spec.traps;
        if traps.calendar
            && let Some(rest) = target.strip_prefix("/calendar/")
        {
            let (year, month) = rest.split_once('/')?;
            let month: u32 = month.parse().ok().filter(|m| (1..=12).contains(m))?;
            let months = year
                .parse::<u32>()
                .ok()?
                .checked_sub(2000)?
                .checked_mul(12)?
                + month
                - 1;
            let within = traps.calendar_months == 0 || months < traps.calendar_months;
            return within.then_some(Resource::Calendar(months));
        }
        if traps.growing_path
            && let Some(rest) = target.strip_prefix("/grow/")
        {
            let even = |(i, s): (usize, &str)| s == if i % 2 == 0 { "a" } else { "b" };
            let rest = rest.strip_suffix('/')?;
            return rest
                .split('/')
                .enumerate()
                .all(even)
                .then(|| Resource::Growing(rest.split('/').count() as u32));
        }
        if traps.session_ids
            && let Some(rest) = target.strip_prefix("/shop/item")
        {
            let (item, session) = match rest.split_once('?') {
                None => (rest, 0),
                Some((item, query)) => {
                    let id = query.strip_prefix(SESSION_PARAMETER)?.strip_prefix('=')?;
                    (item, u64::from_str_radix(id, 16).ok()?)
                }
            };
            let item = item.parse().ok().filter(|n| *n < SESSION_ITEMS)?;
            return Some(Resource::Session(item, session));
        }
        None
    }

    /// The paths of a host's sitemaps: the one robots.txt names, then the parts of an index.
    pub(crate) fn sitemap_paths(&self, host: u32) -> &'static [&'static str] {
        match self.hosts[host as usize].sitemap {
            None => &[],
            Some(SitemapKind::Xml) => &["/sitemap.xml"],
            Some(SitemapKind::Gzip) => &["/sitemap.xml.gz"],
            Some(SitemapKind::Text) => &["/sitemap.txt"],
            Some(SitemapKind::Index) => &[
                "/sitemap-index.xml",
                "/sitemap-one.xml",
                "/sitemap-two.xml.gz",
            ],
        }
    }

    /// Whether the host's robots.txt lets the product token request `path_and_query`.
    pub fn allowed(&self, host: u32, path_and_query: &str) -> bool {
        path_and_query == "/robots.txt" || self.hosts[host as usize].robots.allows(path_and_query)
    }

    /// The oddity a page is served with.
    pub(crate) fn oddity(&self, host: u32, page: u32) -> Option<Oddity> {
        let plan = self.plan(host, page);
        let may_suffer = !page.is_multiple_of(crate::plan::BLOCK) && !plan.leads_on();
        if let Some(oddity) = self.hosts[host as usize].oddity {
            // Endless bodies are large: some pages of the host are enough.
            let spared = oddity == Oddity::Endless && page % ENDLESS_EVERY != 1;
            return ((may_suffer && !spared) || !oddity.damages()).then_some(oddity);
        }
        if self.spec.odd.page_share == 0.0 || !may_suffer || matches!(plan.role, Role::Error(_)) {
            return None;
        }
        let mut draw = Draw::at(self.spec.seed, u64::from(host), u64::from(page), 0x13);
        draw.chance(self.spec.odd.page_share)
            .then(|| pick_oddity(&self.spec, &mut draw))
    }

    /// The host whose robots file stands in for this one's.
    pub(crate) fn robots_refuge(&self, host: u32) -> u32 {
        crate::plan::trunk_of(host)
    }

    pub(crate) fn robots_kind(&self, host: u32) -> RobotsKind {
        self.hosts[host as usize].robots
    }

    /// Pages of a host that only the sitemap, or only the feed, names.
    pub(crate) fn named_only_by(&self, host: u32, via: Via) -> impl Iterator<Item = u32> {
        let pages = self.hosts[host as usize].pages.iter().enumerate();
        pages
            .filter(move |(_, p)| p.role == Role::Hidden(via))
            .map(|(n, _)| n as u32)
    }
}

/// One page in this many of a host with endless bodies has one.
const ENDLESS_EVERY: u32 = 8;

/// Items of a shop with session ids.
pub(crate) const SESSION_ITEMS: u32 = 5;

pub(crate) fn push_number(out: &mut Vec<u8>, mut n: u64) {
    let mut digits = [0u8; 20];
    let mut at = digits.len();
    loop {
        at -= 1;
        digits[at] = b'0' + (n % 10) as u8;
        n /= 10;
        if n == 0 {
            break;
        }
    }
    out.extend_from_slice(&digits[at..]);
}

pub(crate) fn hex_digit(n: u8) -> u8 {
    if n < 10 { b'0' + n } else { b'A' + n - 10 }
}
