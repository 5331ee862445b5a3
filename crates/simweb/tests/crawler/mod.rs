//! A crawler as simple as can be, without politeness: a breadth-first walk over the wire. It shares nothing with the simulated
//! Web but HTTP, so what it finds is evidence.

use crate::client::{Reply, find, get};
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::io::Read;
use std::net::SocketAddr;
use url::Url;

#[derive(Default)]
pub struct Found {
    pub documents: BTreeSet<String>,
    pub redirects: BTreeMap<String, String>,
    pub errors: BTreeMap<String, u16>,
    pub forbidden: BTreeSet<String>,
    pub sitemaps: BTreeSet<String>,
    pub bodies: BTreeMap<String, Vec<u8>>,
}

pub struct Walk {
    pub addr: SocketAddr,
    pub token: &'static str,
    /// Stay on the host of the first URL.
    pub one_host: bool,
    pub nofollow: bool,
    pub images: bool,
}

/// Refusals after which a URL is given up.
const MAX_TRIES: usize = 4;

impl Walk {
    pub fn run(&self, seed: &str) -> Found {
        let mut found = Found::default();
        let mut seen = BTreeSet::new();
        let mut robots: HashMap<String, Rules> = HashMap::new();
        let seed = Url::parse(seed).expect("a seed URL");
        let mut queue = VecDeque::from([seed.clone()]);
        seen.insert(seed.to_string());
        while let Some(url) = queue.pop_front() {
            let host = url.host_str().expect("a host").to_owned();
            let mut links = Vec::new();
            if !robots.contains_key(&host) {
                let rules = self.read_robots(&host);
                for sitemap in rules.sitemaps.clone() {
                    links.extend(self.read_sitemap(&sitemap, &mut found));
                }
                robots.insert(host.clone(), rules);
            }
            if robots[&host].allow(target(&url)) {
                links.extend(self.visit(&url, &mut found));
            } else {
                found.forbidden.insert(url.to_string());
            }
            for link in links {
                let in_scope = !self.one_host || link.host_str() == seed.host_str();
                let trap =
                    link.path().starts_with("/calendar/") || link.path().starts_with("/grow/");
                if in_scope && !trap && seen.insert(link.to_string()) {
                    queue.push_back(link);
                }
            }
        }
        found
    }

    fn visit(&self, url: &Url, found: &mut Found) -> Vec<Url> {
        let mut reply = self.fetch(url);
        for _ in 1..MAX_TRIES {
            if reply.status != 429 && reply.status != 503 {
                break;
            }
            assert!(reply.header("retry-after").is_some(), "{url}");
            reply = self.fetch(url);
        }
        match reply.status {
            200 => {
                found.documents.insert(url.to_string());
                found.bodies.insert(url.to_string(), reply.body.clone());
                self.links(url, &reply)
            }
            301 | 302 | 307 | 308 => {
                let location = reply.header("location").expect("a location");
                let to = canonical(url.join(location).expect("a URL"));
                found.redirects.insert(url.to_string(), to.to_string());
                vec![to]
            }
            status => {
                found.errors.insert(url.to_string(), status);
                Vec::new()
            }
        }
    }

    fn fetch(&self, url: &Url) -> Reply {
        get(self.addr, url.host_str().expect("a host"), target(url))
    }

    fn read_robots(&self, host: &str) -> Rules {
        let mut url = Url::parse(&format!("http://{host}/robots.txt")).expect("a URL");
        for _ in 0..5 {
            let reply = self.fetch(&url);
            match reply.status {
                200 => return Rules::parse(&reply.text(), self.token),
                301 | 302 => {
                    url = url
                        .join(reply.header("location").expect("a location"))
                        .expect("a URL")
                }
                400..500 => return Rules::default(),
                _ => {
                    return Rules {
                        rules: vec![(false, "/".into())],
                        sitemaps: Vec::new(),
                    };
                }
            }
        }
        Rules::default()
    }

    fn read_sitemap(&self, url: &str, found: &mut Found) -> Vec<Url> {
        found.sitemaps.insert(url.to_owned());
        let parsed = Url::parse(url).expect("a URL");
        let mut body = self.fetch(&parsed).body;
        if body.starts_with(&[0x1f, 0x8b]) {
            let mut plain = Vec::new();
            flate2::read::GzDecoder::new(&body[..])
                .read_to_end(&mut plain)
                .expect("gzip");
            body = plain;
        }
        let text = String::from_utf8(body).expect("UTF-8");
        if !text.starts_with('<') {
            return text
                .lines()
                .map(|l| canonical(Url::parse(l).expect("a URL")))
                .collect();
        }
        let locations = between(&text, "<loc>", "</loc>");
        if text.contains("<sitemapindex") {
            return locations
                .iter()
                .flat_map(|part| self.read_sitemap(part, found))
                .collect();
        }
        locations
            .iter()
            .map(|l| canonical(Url::parse(l).expect("a URL")))
            .collect()
    }

    fn links(&self, url: &Url, reply: &Reply) -> Vec<Url> {
        let media = reply.header("content-type").unwrap_or("text/html");
        if media.starts_with("application/rss") || media.starts_with("application/atom") {
            return feed_links(&reply.text());
        }
        let sent_nofollow = reply
            .header("x-robots-tag")
            .is_some_and(|tag| tag.contains("nofollow"));
        if !media.starts_with("text/html") || (sent_nofollow && !self.nofollow) {
            return Vec::new();
        }
        let text = decode(media, &reply.body);
        let mut base = url.clone();
        let mut links = Vec::new();
        let mut page_nofollow = false;
        for tag in tags(&text) {
            let value = |name: &str| attribute(&tag.text, name);
            let link = match tag.name.as_str() {
                "base" => {
                    base = url.join(&value("href").expect("href")).expect("a base");
                    None
                }
                "meta" if value("http-equiv").is_some_and(|v| v == "Refresh") => {
                    value("content").and_then(|c| c.split_once("URL=").map(|(_, u)| u.to_owned()))
                }
                "meta" => {
                    page_nofollow |= value("content").is_some_and(|c| c == "nofollow");
                    None
                }
                "a" if value("rel").is_some_and(|rel| rel == "nofollow") && !self.nofollow => None,
                "img" if !self.images => None,
                "a" | "area" | "link" => value("href"),
                "frame" | "iframe" | "img" => value("src"),
                _ => None,
            };
            links.extend(link.map(|l| canonical(base.join(&l).expect("a URL"))));
        }
        if page_nofollow && !self.nofollow {
            Vec::new()
        } else {
            links
        }
    }
}

#[derive(Default)]
struct Rules {
    rules: Vec<(bool, String)>,
    sitemaps: Vec<String>,
}

impl Rules {
    fn parse(text: &str, token: &str) -> Rules {
        let mut groups: HashMap<String, Vec<(bool, String)>> = HashMap::new();
        let mut sitemaps = Vec::new();
        let mut agent = String::new();
        for line in text.lines() {
            let line = line.split('#').next().unwrap_or_default();
            let Some((key, value)) = line.split_once(':') else {
                continue;
            };
            let value = value.trim().to_owned();
            match key.to_ascii_lowercase().as_str() {
                "user-agent" => agent = value.to_ascii_lowercase(),
                "allow" => groups.entry(agent.clone()).or_default().push((true, value)),
                "disallow" if !value.is_empty() => groups
                    .entry(agent.clone())
                    .or_default()
                    .push((false, value)),
                "sitemap" => sitemaps.push(value),
                _ => {}
            }
        }
        let rules = groups
            .remove(token)
            .or_else(|| groups.remove("*"))
            .unwrap_or_default();
        Rules { rules, sitemaps }
    }

    fn allow(&self, path: &str) -> bool {
        let fits = self.rules.iter().filter(|(_, pattern)| fits(pattern, path));
        fits.max_by_key(|(allow, pattern)| (pattern.len(), *allow))
            .is_none_or(|(allow, _)| *allow)
    }
}

/// Whether a robots pattern fits, by its parts between stars.
fn fits(pattern: &str, path: &str) -> bool {
    let anchored = pattern.ends_with('$');
    let pattern = pattern.trim_end_matches('$');
    let mut parts = pattern.split('*');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = path.strip_prefix(first) else {
        return false;
    };
    let parts: Vec<&str> = parts.collect();
    for (n, part) in parts.iter().enumerate() {
        if anchored && n == parts.len() - 1 {
            return rest.ends_with(part);
        }
        let Some(at) = rest.find(part) else {
            return false;
        };
        rest = &rest[at + part.len()..];
    }
    !anchored || rest.is_empty()
}

/// One spelling for all: unreserved characters unescaped, tracking and session parameters gone, no fragment, no empty query.
fn canonical(mut url: Url) -> Url {
    url.set_fragment(None);
    let path = url.path().to_owned();
    let mut plain = String::new();
    let mut rest = path.as_str();
    while let Some(at) = rest.find('%') {
        plain.push_str(&rest[..at]);
        let byte = rest
            .get(at + 1..at + 3)
            .and_then(|h| u8::from_str_radix(h, 16).ok());
        match byte {
            Some(b) if b.is_ascii_alphanumeric() => plain.push(b as char),
            _ => plain.push_str(&rest[at..at + 3]),
        }
        rest = &rest[at + 3..];
    }
    plain.push_str(rest);
    url.set_path(&plain);
    let query = url.query().unwrap_or_default().to_owned();
    let kept: Vec<&str> = query
        .split('&')
        .filter(|p| !p.is_empty() && !p.starts_with("utm_") && !p.starts_with("PHPSESSID="))
        .collect();
    let kept = kept.join("&");
    url.set_query(if kept.is_empty() { None } else { Some(&kept) });
    url
}

fn target(url: &Url) -> &str {
    &url[url::Position::BeforePath..url::Position::AfterQuery]
}

fn between(text: &str, open: &str, close: &str) -> Vec<String> {
    let parts = text.split(open).skip(1);
    parts
        .filter_map(|p| p.split_once(close))
        .map(|(inside, _)| inside.replace("&amp;", "&"))
        .collect()
}

fn feed_links(text: &str) -> Vec<Url> {
    let rss = between(text, "<link>", "</link>");
    let atom = between(text, "<link href=\"", "\"");
    rss.iter()
        .chain(&atom)
        .map(|l| canonical(Url::parse(l).expect("a URL")))
        .collect()
}

struct Tag {
    name: String,
    text: String,
}

/// Start tags outside comments, scripts, styles and textareas.
fn tags(text: &str) -> Vec<Tag> {
    let mut tags = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.find('<') {
        rest = &rest[at + 1..];
        if let Some(comment) = rest.strip_prefix("!--") {
            rest = comment.split_once("-->").map_or("", |(_, after)| after);
            continue;
        }
        let mut quote = None;
        let end = rest.char_indices().find(|(_, c)| {
            match (quote, *c) {
                (None, '"' | '\'') => quote = Some(*c),
                (Some(q), c) if q == c => quote = None,
                _ => {}
            }
            *c == '>' && quote.is_none()
        });
        let Some((end, _)) = end else { break };
        let (tag, after) = (&rest[..end], &rest[end + 1..]);
        rest = after;
        let name = tag
            .split_whitespace()
            .next()
            .unwrap_or_default()
            .to_ascii_lowercase();
        if ["script", "style", "textarea"].contains(&name.as_str()) {
            rest = after
                .split_once(&format!("</{name}"))
                .map_or("", |(_, after)| after);
        }
        tags.push(Tag {
            name,
            text: tag.to_owned(),
        });
    }
    tags
}

fn attribute(tag: &str, name: &str) -> Option<String> {
    let at = tag.find(&format!(" {name}="))? + name.len() + 2;
    let value = &tag[at..];
    let quote = value.chars().next().filter(|c| *c == '"' || *c == '\'');
    let value = match quote {
        Some(q) => value[1..].split(q).next()?,
        None => value.split_whitespace().next()?,
    };
    Some(value.replace("&amp;", "&"))
}

/// Text by the declared encoding, else by what fits; ISO-2022-JP passages in other encodings are taken out first, line by line.
fn decode(media: &str, body: &[u8]) -> String {
    let head = String::from_utf8_lossy(&body[..body.len().min(500)]).to_ascii_lowercase();
    let label = media
        .split_once("charset=")
        .map(|(_, l)| l.to_owned())
        .or_else(|| {
            let at = head.find("charset=")? + 8;
            Some(
                head[at..]
                    .trim_start_matches('"')
                    .split(['"', '>'])
                    .next()?
                    .to_owned(),
            )
        });
    let declared = label.and_then(|l| encoding_rs::Encoding::for_label(l.as_bytes()));
    if declared == Some(encoding_rs::UTF_8) {
        return String::from_utf8_lossy(body).into_owned();
    }
    let escapes = find(body, b"\x1b$B").is_some();
    let mut text = String::new();
    let whole = [encoding_rs::EUC_JP, encoding_rs::SHIFT_JIS]
        .into_iter()
        .find(|e| !e.decode(body).2);
    for line in body.split_inclusive(|b| *b == b'\n') {
        let encoding = if escapes && find(line, b"\x1b$B").is_some() {
            encoding_rs::ISO_2022_JP
        } else {
            declared.or(whole).unwrap_or(encoding_rs::UTF_8)
        };
        text.push_str(&encoding.decode(line).0);
    }
    text
}
