//! The bytes of pages: HTML around text from the pool, Japanese pages, plain text, binaries. Pure: same place, same bytes.

use crate::japanese::{LOOKS_LIKE_COMMENT, Script, prose};
use crate::links::Link;
use crate::plan::{Role, Via};
use crate::seed::{Draw, mix};
use crate::spelling::Place;
use crate::web::{SESSION_ITEMS, SESSION_PARAMETER, Web, push_number};

/// Bytes of markup and URL around a link, roughly: what is left of a page's size is text.
const LINK_BYTES: usize = 75;
/// Least text between two links.
const MIN_TEXT: usize = 20;
/// Months a calendar page looks back from and ahead to.
const FIRST_YEAR: u32 = 2000;

/// Buffers that a page is made with, kept between pages.
#[derive(Default)]
pub(crate) struct Scratch {
    links: Vec<Link>,
}

impl Web {
    /// Appends the body that a page has when it answers 200.
    pub(crate) fn write_body(
        &self,
        host: u32,
        page: u32,
        scratch: &mut Scratch,
        out: &mut Vec<u8>,
    ) {
        match self.plan(host, page).role {
            Role::Text => self.write_text(host, page, out),
            Role::Binary => self.write_binary(b"%PDF-1.4\n%\xe2\xe3\xcf\xd3\n", host, page, out),
            Role::Hidden(Via::Image) => self.write_binary(b"\x89PNG\r\n\x1a\n", host, page, out),
            Role::Duplicate(group) => self.write_shared(group, None, scratch, host, page, out),
            Role::NearDuplicate(group) => {
                self.write_shared(group, Some(page), scratch, host, page, out)
            }
            Role::Gate(Via::Iso2022Jp) => self.write_japanese(Script::Iso2022Jp, host, page, out),
            Role::Gate(Via::EucJp) => self.write_japanese(Script::EucJp, host, page, out),
            Role::Gate(Via::ShiftJis) => self.write_japanese(Script::ShiftJis, host, page, out),
            Role::Gate(Via::MixedJapanese) => self.write_mixed(host, page, out),
            Role::Gate(Via::Frame) => self.write_frames(host, page, scratch, out),
            _ => match &self.library {
                Some(library) => self.write_real(library, host, page, &mut scratch.links, out),
                None => self.write_html(host, page, scratch, out),
            },
        }
    }

    /// The body of a page that answers 200, before any content coding.
    pub fn page_body(&self, host: u32, page: u32) -> Vec<u8> {
        let mut body = Vec::new();
        self.write_body(host, page, &mut Scratch::default(), &mut body);
        body
    }

    /// How a Japanese page says its encoding: in the header, in a meta element, or not at all.
    pub(crate) fn japanese_header(&self, host: u32, page: u32) -> Option<Script> {
        let script = match self.plan(host, page).role {
            Role::Gate(Via::Iso2022Jp) => Script::Iso2022Jp,
            Role::Gate(Via::EucJp) => Script::EucJp,
            Role::Gate(Via::ShiftJis) => Script::ShiftJis,
            _ => return None,
        };
        (self.declaration(host, page) == 0).then_some(script)
    }

    fn declaration(&self, host: u32, page: u32) -> u64 {
        mix(self.spec.seed, u64::from(host), u64::from(page), 0x30) % 3
    }

    fn place(&self, host: u32, page: u32) -> Place {
        let path = self.path(host, page);
        let before_query = path.split('?').next().unwrap_or_default();
        let depth = before_query.bytes().filter(|b| *b == b'/').count() as u32 - 1;
        let rooted = self.plan(host, page).role == Role::Gate(Via::BaseHref);
        Place {
            host,
            depth,
            rooted,
        }
    }

    fn write_html(&self, host: u32, page: u32, scratch: &mut Scratch, out: &mut Vec<u8>) {
        let mut draw = Draw::at(self.spec.seed, u64::from(host), u64::from(page), 0x31);
        let content = &self.spec.content;
        let size = draw.around(f64::from(content.page_bytes), content.page_bytes_spread) as usize;
        self.links(host, page, &mut scratch.links);
        let count = scratch.links.len().max(1);
        let text = (size.saturating_sub(300 + count * LINK_BYTES) / count).max(MIN_TEXT);
        let place = self.place(host, page);
        out.reserve(size + size / 4);

        out.extend_from_slice(
            b"<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n<title>Page ",
        );
        push_number(out, u64::from(page));
        out.extend_from_slice(b" of host ");
        push_number(out, u64::from(host));
        out.extend_from_slice(b"</title>\n");
        let links = &scratch.links[..];
        let rest = self.write_head_links(host, page, &place, links, out);
        out.extend_from_slice(b"</head><body>\n<h1>");
        out.extend_from_slice(self.words.slice(draw.bits(), 40));
        out.extend_from_slice(b"</h1>\n");
        if page == 0 {
            self.write_trap_entrances(host, out);
        }
        if draw.chance(self.spec.discovery.decoy_share) {
            write_decoys(page, out);
        }
        for link in rest {
            let at = draw.bits();
            out.extend_from_slice(b"<p>");
            out.extend_from_slice(self.words.slice(at, text));
            self.write_link(&place, *link, &mut draw, out);
            out.extend_from_slice(b"</p>\n");
        }
        out.extend_from_slice(b"</body></html>\n");
    }

    /// Writes what a gate puts into the head; gives back the links left for the body.
    fn write_head_links<'a>(
        &self,
        host: u32,
        page: u32,
        place: &Place,
        links: &'a [Link],
        out: &mut Vec<u8>,
    ) -> &'a [Link] {
        if page == 0
            && let Some(kind) = self.hosts[host as usize].feed
        {
            let media = crate::listing::feed_type(kind);
            out.extend_from_slice(
                format!("<link rel=\"alternate\" type=\"{media}\" href=\"/feed.xml\">\n")
                    .as_bytes(),
            );
        }
        let plan = self.plan(host, page);
        if plan.role == Role::NoIndex {
            out.extend_from_slice(b"<meta name=\"robots\" content=\"noindex\">\n");
        }
        let Role::Gate(via) = plan.role else {
            return links;
        };
        let mut draw = Draw::at(self.spec.seed, u64::from(host), u64::from(page), 0x32);
        match via {
            Via::MetaNofollow => {
                out.extend_from_slice(b"<meta name=\"robots\" content=\"nofollow\">\n")
            }
            Via::BaseHref => out.extend_from_slice(b"<base href=\"/based/x/\">\n"),
            Via::MetaRefresh => {
                out.extend_from_slice(b"<meta http-equiv=\"Refresh\" content=\"5; URL=");
                self.write_href(place, host, page + 1, &mut draw, out);
                out.extend_from_slice(b"\">\n");
                return &links[1..];
            }
            Via::LinkElement => {
                out.extend_from_slice(b"<link rel=\"next\" href=\"");
                self.write_href(place, host, page + 1, &mut draw, out);
                out.extend_from_slice(b"\">\n");
                return &links[1..];
            }
            _ => {}
        }
        links
    }

    fn write_link(&self, place: &Place, link: Link, draw: &mut Draw, out: &mut Vec<u8>) {
        let (before, after): (&[u8], &[u8]) = match link.via {
            None => (b" <a href=\"", b"\">"),
            Some(Via::Iframe) => (b"<iframe width=300 src=\"", b"\"></iframe> <b>"),
            Some(Via::Area) => (b"<map name=m><area shape=default href='", b"'></map> <b>"),
            Some(Via::Image) => (b"<img alt=\"\" src=\"", b"\"> <b>"),
            Some(Via::RelNofollow) => (b" <a rel=\"nofollow\" href=\"", b"\">"),
            Some(_) => (b" <a href=\"", b"\">"),
        };
        out.extend_from_slice(before);
        if link.via == Some(Via::BaseHref) {
            out.extend_from_slice(b"p");
            push_number(out, u64::from(link.page));
            out.extend_from_slice(b".html");
        } else {
            self.write_href(place, link.host, link.page, draw, out);
        }
        out.extend_from_slice(after);
        out.extend_from_slice(self.words.slice(draw.bits(), 16));
        out.extend_from_slice(if after.ends_with(b"<b>") {
            b"</b>"
        } else {
            b"</a>"
        });
    }

    fn write_trap_entrances(&self, host: u32, out: &mut Vec<u8>) {
        if !self.hosts[host as usize].traps {
            return;
        }
        let traps = &self.spec.traps;
        if traps.calendar {
            out.extend_from_slice(b"<p><a href=\"/calendar/2000/1\">calendar</a></p>\n");
        }
        if traps.growing_path {
            out.extend_from_slice(b"<p><a href=\"/grow/a/\">tree</a></p>\n");
        }
        if traps.session_ids {
            out.extend_from_slice(b"<p><a href=\"/shop/item0\">shop</a></p>\n");
        }
    }

    fn write_frames(&self, host: u32, page: u32, scratch: &mut Scratch, out: &mut Vec<u8>) {
        let mut draw = Draw::at(self.spec.seed, u64::from(host), u64::from(page), 0x33);
        self.links(host, page, &mut scratch.links);
        let place = self.place(host, page);
        out.extend_from_slice(
            b"<html><head><title>Frames</title></head>\n<frameset cols=\"20%,80%\">\n",
        );
        for link in &scratch.links {
            out.extend_from_slice(b"<frame src=\"");
            self.write_href(&place, link.host, link.page, &mut draw, out);
            out.extend_from_slice(b"\">\n");
        }
        out.extend_from_slice(b"</frameset></html>\n");
    }

    fn write_text(&self, host: u32, page: u32, out: &mut Vec<u8>) {
        let mut draw = Draw::at(self.spec.seed, u64::from(host), u64::from(page), 0x34);
        let content = &self.spec.content;
        let size = draw.around(f64::from(content.page_bytes), content.page_bytes_spread) as usize;
        while out.len() < size {
            out.extend_from_slice(self.words.slice(draw.bits(), 72));
            out.push(b'\n');
        }
    }

    fn write_binary(&self, magic: &[u8], host: u32, page: u32, out: &mut Vec<u8>) {
        let mut draw = Draw::at(self.spec.seed, u64::from(host), u64::from(page), 0x35);
        out.extend_from_slice(magic);
        let size = out.len() + self.spec.content.page_bytes as usize / 2;
        while out.len() < size {
            out.extend_from_slice(&draw.bits().to_le_bytes());
        }
    }

    /// A body that depends on its group alone, or, for near-duplicates, differs in a few words.
    fn write_shared(
        &self,
        group: u32,
        own: Option<u32>,
        scratch: &mut Scratch,
        host: u32,
        page: u32,
        out: &mut Vec<u8>,
    ) {
        let purpose = if own.is_some() { 0x36 } else { 0x37 };
        let mut draw = Draw::at(self.spec.seed, u64::from(group), 0, purpose);
        self.links(host, page, &mut scratch.links);
        out.extend_from_slice(
            b"<!DOCTYPE html>\n<html><head><title>Often seen</title></head><body>\n",
        );
        let paragraphs = 8;
        let text = (self.spec.content.page_bytes as usize / paragraphs).max(MIN_TEXT);
        for n in 0..paragraphs {
            out.extend_from_slice(b"<p>");
            out.extend_from_slice(self.words.slice(draw.bits(), text));
            if n == 4
                && let Some(page) = own
            {
                out.extend_from_slice(format!(" seen {page} times on {host}").as_bytes());
            }
            out.extend_from_slice(b"</p>\n");
        }
        for link in &scratch.links {
            let url = self.page_url(link.host, link.page);
            out.extend_from_slice(format!("<a href=\"{url}\">home</a>\n").as_bytes());
        }
        out.extend_from_slice(b"</body></html>\n");
    }

    /// A page whose one link of interest has Japanese letters in its path, and stands behind text that trips who does not decode.
    fn write_japanese(&self, script: Script, host: u32, page: u32, out: &mut Vec<u8>) {
        let mut draw = Draw::at(self.spec.seed, u64::from(host), u64::from(page), 0x38);
        out.extend_from_slice(b"<html><head>");
        if self.declaration(host, page) == 1 {
            let label = script.label();
            let meta = format!(
                "<meta http-equiv=\"Content-Type\" content=\"text/html; charset={label}\">"
            );
            out.extend_from_slice(meta.as_bytes());
        }
        out.extend_from_slice(b"\n<title>");
        script.write(prose(&mut draw, 12), out);
        out.extend_from_slice(b"</title></head><body>\n");
        self.write_japanese_paragraph(script, &mut draw, out);
        out.extend_from_slice(b"<p><a title=\"");
        script.write(prose(&mut draw, 10), out);
        out.extend_from_slice(b"\" href=\"/jp/");
        script.write(self.kana(host, page + 1), out);
        out.extend_from_slice(b"/p");
        push_number(out, u64::from(page + 1));
        out.extend_from_slice(b".html\">");
        script.write(prose(&mut draw, 8), out);
        out.extend_from_slice(b"</a></p>\n");
        self.write_japanese_paragraph(script, &mut draw, out);
        out.extend_from_slice(b"</body></html>\n");
    }

    fn write_mixed(&self, host: u32, page: u32, out: &mut Vec<u8>) {
        let mut draw = Draw::at(self.spec.seed, u64::from(host), u64::from(page), 0x39);
        out.extend_from_slice(b"<html><head>");
        if self.declaration(host, page) == 1 {
            out.extend_from_slice(
                b"<meta http-equiv=\"Content-Type\" content=\"text/html; charset=EUC-JP\">",
            );
        }
        out.extend_from_slice(b"\n<title>Three scripts</title></head><body>\n");
        for script in [Script::EucJp, Script::Iso2022Jp, Script::ShiftJis] {
            self.write_japanese_paragraph(script, &mut draw, out);
        }
        out.extend_from_slice(b"<p><a href=\"");
        self.write_path(host, page + 1, out);
        out.extend_from_slice(b"\">");
        Script::EucJp.write(prose(&mut draw, 8), out);
        out.extend_from_slice(b"</a></p>\n</body></html>\n");
    }

    fn write_japanese_paragraph(&self, script: Script, draw: &mut Draw, out: &mut Vec<u8>) {
        out.extend_from_slice(b"<p>");
        for _ in 0..4 {
            script.write(prose(draw, 40), out);
            if script == Script::Iso2022Jp {
                script.write(LOOKS_LIKE_COMMENT, out);
            }
            out.extend_from_slice(b"<br>\n");
        }
        out.extend_from_slice(b"</p>\n");
    }

    pub(crate) fn write_calendar(&self, months: u32, out: &mut Vec<u8>) {
        let month_path = |m: u32| format!("/calendar/{}/{}", FIRST_YEAR + m / 12, m % 12 + 1);
        let bound = self.spec.traps.calendar_months;
        out.extend_from_slice(
            format!(
                "<html><head><title>{}</title></head><body>\n",
                month_path(months)
            )
            .as_bytes(),
        );
        if months > 0 {
            out.extend_from_slice(
                format!("<a href=\"{}\">before</a>\n", month_path(months - 1)).as_bytes(),
            );
        }
        if bound == 0 || months + 1 < bound {
            out.extend_from_slice(
                format!("<a href=\"{}\">after</a>\n", month_path(months + 1)).as_bytes(),
            );
        }
        out.extend_from_slice(b"<p>Nothing on.</p></body></html>\n");
    }

    pub(crate) fn write_growing(&self, segments: u32, out: &mut Vec<u8>) {
        let next = if segments.is_multiple_of(2) {
            "a/"
        } else {
            "b/"
        };
        let page = format!(
            "<html><body><p>{segments} deep</p><a href=\"{next}\">deeper</a></body></html>\n"
        );
        out.extend_from_slice(page.as_bytes());
    }

    /// A shop page: every link carries an id that depends on the id it was asked with, so no two visits see the same URLs.
    pub(crate) fn write_session(&self, item: u32, session: u64, out: &mut Vec<u8>) {
        out.extend_from_slice(format!("<html><body><h1>Item {item}</h1>\n").as_bytes());
        for other in 0..SESSION_ITEMS {
            let id = mix(
                self.spec.seed,
                session,
                u64::from(item),
                0x40 + u64::from(other),
            );
            out.extend_from_slice(
                format!(
                    "<a href=\"/shop/item{other}?{SESSION_PARAMETER}={id:016x}\">item {other}</a>\n"
                )
                .as_bytes(),
            );
        }
        out.extend_from_slice(b"</body></html>\n");
    }
}

/// URLs in places where no browser sees a link.
fn write_decoys(page: u32, out: &mut Vec<u8>) {
    let text = format!(
        "<!-- <a href=\"/decoy/c{page}.html\">old</a> > -->\n\
         <script>if (1 < 2) document.write('<a href=\"/decoy/s{page}.html\">x</a>');</script>\n\
         <style>/* <a href=\"/decoy/y{page}.html\"> */ p > a {{ color: red }}</style>\n\
         <textarea><a href=\"/decoy/t{page}.html\">x</a></textarea>\n"
    );
    out.extend_from_slice(text.as_bytes());
}
