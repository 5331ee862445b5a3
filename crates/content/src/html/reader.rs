//! What tags mean: turns the tokenizer's tags into links, base, title and robots rules.

use encoding_rs::{Encoding, UTF_8};

use super::attributes::{Attributes, Ending};
use super::context::{Contexts, Language};
use super::entities::{Place, decode_references};
use super::links::{Element, Found, Role, is_nofollow, role_of_rel};
use super::names::{Attr, Tag};
use super::page::{PageSummary, ScanOptions};
use super::parts::{Holds, IN_HTML, IN_META, IN_SVG};
use super::refresh::refresh_target;
use super::slots::Slots;
use super::sources::{applet_files, srcset_urls};
use super::tokenizer::{Content, TokenSink};
use crate::charset::{
    Charset, CharsetSource, ESC, charset_of_content, decode_segment, from_meta_label,
};
use crate::{CssScanner, Directives, meta_concerns};

/// What is known of the page so far.
pub(super) struct Page {
    options: ScanOptions,
    pub(super) charset: Charset,
    /// Whether the bytes were decoded to UTF-8 before they were tokenized.
    pub(super) is_decoded: bool,
    /// The tags whose attributes are read, one bit each.
    wanted: u128,
    contexts: Contexts,
    /// The element whose raw text is read.
    raw: Tag,
    title: Option<Vec<u8>>,
    title_cut: bool,
    /// What the text at hand is.
    reading: Reading,
    /// The style sheet at hand.
    css: Option<CssScanner>,
    base: Option<String>,
    robots: Directives,
    links: u32,
    embeds: u32,
    links_over_limit: u32,
    oversize: u32,
    inert: u32,
    text_break: bool,
    scratch: String,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Reading {
    Text,
    Title,
    Style,
}

pub(super) struct Reader<'p, S> {
    pub(super) page: &'p mut Page,
    pub(super) sink: &'p mut S,
}

impl Page {
    pub(super) fn new(options: ScanOptions) -> Page {
        Page {
            wanted: wanted(&options),
            options,
            charset: Charset {
                encoding: UTF_8,
                source: CharsetSource::Ascii,
            },
            is_decoded: false,
            contexts: Contexts::default(),
            raw: Tag::Other,
            title: None,
            title_cut: false,
            reading: Reading::Text,
            css: None,
            base: None,
            robots: Directives::default(),
            links: 0,
            embeds: 0,
            links_over_limit: 0,
            oversize: 0,
            inert: 0,
            text_break: false,
            scratch: String::new(),
        }
    }

    pub(super) fn finish<S: FnMut(Found<'_>)>(self, sink: &mut S) -> PageSummary {
        let title = self.title.as_deref().map(|raw| self.title_text(raw));
        if let Some(title) = &title {
            sink(Found::Title(title));
        }
        PageSummary {
            charset: self.charset,
            title,
            base: self.base,
            robots: self.robots,
            links: self.links,
            embeds: self.embeds,
            links_over_limit: self.links_over_limit,
            oversize: self.oversize,
            inert: self.inert,
        }
    }

    fn title_text(&self, mut raw: &[u8]) -> String {
        let encoding = self.encoding();
        if self.title_cut {
            // The cut may have split a character, which must not look like another charset.
            let fits = |bytes: &[u8]| {
                encoding
                    .decode_without_bom_handling_and_without_replacement(bytes)
                    .is_some()
            };
            let whole = (0..4)
                .map(|cut| &raw[..raw.len().saturating_sub(cut)])
                .find(|t| fits(t));
            raw = whole.unwrap_or(raw);
        }
        let mut text = String::new();
        decode_references(&decode_segment(raw, encoding), Place::Text, &mut text);
        let words = text
            .split(|c: char| c.is_ascii_whitespace())
            .filter(|word| !word.is_empty());
        words.collect::<Vec<_>>().join(" ")
    }

    fn encoding(&self) -> &'static Encoding {
        if self.is_decoded {
            UTF_8
        } else {
            self.charset.encoding
        }
    }

    fn wants(&self, tag: Tag) -> bool {
        self.wanted >> (tag as u8) & 1 == 1
    }

    /// Notes how what follows is read, and whether it is the title.
    fn begin_content(&mut self, tag: Tag) -> Content {
        let content = Content::of_element(tag);
        if content == Content::Data {
            return content;
        }
        self.raw = tag;
        if tag == Tag::Title && self.title.is_none() && !self.contexts.is_inert() {
            self.title = Some(Vec::new());
            self.reading = Reading::Title;
        }
        content
    }

    /// A META that names the charset after the first kilobyte still counts if nothing else did.
    fn late_charset(&mut self, slots: &Slots<'_>) {
        if self.charset.source < CharsetSource::Detected {
            return;
        }
        let pragma = slots.is(Attr::HttpEquiv, b"content-type");
        let named = match slots.get(Attr::Charset) {
            Some(label) => from_meta_label(label),
            None => slots
                .get(Attr::Content)
                .filter(|_| pragma)
                .and_then(charset_of_content),
        };
        if let Some(encoding) = named {
            self.charset = Charset {
                encoding,
                source: CharsetSource::Meta,
            };
        }
    }
}

impl<S: FnMut(Found<'_>)> TokenSink for Reader<'_, S> {
    #[inline]
    fn start_tag(&mut self, tag: Tag, attributes: &mut Attributes<'_>) -> Content {
        if self.page.contexts.ignores(tag) && !self.page.wants(tag) {
            if attributes.read(|_, _| {}) == Ending::Incomplete {
                return Content::Data;
            }
            self.page.text_break |= !tag.joins_words();
            return self.page.begin_content(tag);
        }
        self.meaningful_tag(tag, attributes)
    }

    fn end_tag(&mut self, tag: Tag, _name: &[u8]) {
        self.page.text_break |= !tag.joins_words();
        self.page.contexts.close(tag);
        self.end_style();
        self.page.reading = Reading::Text;
    }

    #[inline]
    fn text(&mut self, bytes: &[u8], content: Content) {
        let page = &mut *self.page;
        match page.reading {
            Reading::Title => {
                if let Some(title) = &mut page.title {
                    let room = page.options.max_title_bytes.saturating_sub(title.len());
                    title.extend_from_slice(&bytes[..bytes.len().min(room)]);
                    page.title_cut |= bytes.len() > room;
                }
            }
            Reading::Style => self.style_text(bytes),
            Reading::Text if page.options.text => self.visible_text(bytes, content),
            Reading::Text => {}
        }
    }

    fn allows_cdata(&self) -> bool {
        self.page.contexts.allows_cdata()
    }
}

impl<S: FnMut(Found<'_>)> Reader<'_, S> {
    fn visible_text(&mut self, bytes: &[u8], content: Content) {
        let visible = match content {
            Content::Data | Content::Plaintext | Content::Cdata => true,
            Content::Rcdata | Content::Rawtext => matches!(self.page.raw, Tag::Textarea | Tag::Xmp),
            Content::Script => false,
        };
        if !visible || self.page.contexts.is_inert() {
            return;
        }
        if std::mem::take(&mut self.page.text_break) {
            (self.sink)(Found::TextBreak);
        }
        (self.sink)(Found::Text(bytes));
    }

    /// A tag that carries something or stands where tags are read differently.
    fn meaningful_tag(&mut self, tag: Tag, attributes: &mut Attributes<'_>) -> Content {
        let mut slots = Slots::default();
        let self_closing = match attributes.read(|name, value| slots.put(name, value)) {
            Ending::Incomplete => return Content::Data,
            Ending::Closed { self_closing } => self_closing,
            Ending::TooLong { self_closing } => {
                slots = Slots::default();
                self.page.oversize += u32::from(self.page.wants(tag));
                self_closing
            }
        };
        self.page.text_break |= !tag.joins_words();
        let language = if self.page.contexts.ignores(tag) {
            Language::Html
        } else {
            self.page.contexts.open(tag, slots.traits(self_closing))
        };
        match language {
            Language::Html => {
                self.html_element(tag, &slots);
                self.page.begin_content(tag)
            }
            Language::Svg => {
                self.svg_element(tag, &slots, self_closing);
                Content::Data
            }
            Language::MathMl => Content::Data,
        }
    }

    fn html_element(&mut self, tag: Tag, slots: &Slots<'_>) {
        match tag {
            Tag::A => self.anchor(Element::A, slots.get(Attr::Href), slots),
            Tag::Area => self.anchor(Element::Area, slots.get(Attr::Href), slots),
            Tag::Link => self.link_element(slots),
            Tag::Frame => self.frame(Element::Frame, slots),
            Tag::Iframe => self.frame(Element::Iframe, slots),
            Tag::Base => self.base(slots),
            Tag::Meta => self.meta(slots),
            _ => {}
        }
        if self.page.options.embeds {
            self.parts(tag, slots);
        }
    }

    /// What the page needs to be shown.
    fn parts(&mut self, tag: Tag, slots: &Slots<'_>) {
        let element = Element::Part(tag);
        for place in IN_HTML.iter().filter(|place| place.tag == tag) {
            let value = slots.get(place.attribute);
            match place.holds {
                Holds::Url => self.embed(element, value),
                Holds::Set => self.srcset(element, value),
            }
        }
        match tag {
            Tag::Input if slots.is(Attr::Type, b"image") => {
                self.embed(element, slots.get(Attr::Src));
            }
            Tag::Applet => self.applet(slots),
            Tag::Style => self.begin_style(slots),
            _ => {}
        }
        self.embed(element, slots.get(Attr::Background));
        self.style_attribute(tag, slots);
    }

    fn svg_element(&mut self, tag: Tag, slots: &Slots<'_>, self_closing: bool) {
        let href = slots.get(Attr::Href).or(slots.get(Attr::XlinkHref));
        if tag == Tag::A {
            self.anchor(Element::A, href, slots);
        }
        if !self.page.options.embeds {
            return;
        }
        // Most uses point into the page itself.
        if IN_SVG.contains(&tag) && !href.is_some_and(|href| href.starts_with(b"#")) {
            self.embed(Element::Part(tag), href);
        }
        if tag == Tag::Style && !self_closing {
            self.begin_style(slots);
        }
        self.style_attribute(tag, slots);
    }

    /// What follows is a style sheet, unless its type says otherwise.
    fn begin_style(&mut self, slots: &Slots<'_>) {
        let is_css = slots
            .get(Attr::Type)
            .is_none_or(|value| value.is_empty() || value.eq_ignore_ascii_case(b"text/css"));
        if is_css && !self.page.contexts.is_inert() {
            self.page.css = Some(CssScanner::new(self.page.options.max_attribute_bytes));
            self.page.reading = Reading::Style;
        }
    }

    fn style_text(&mut self, bytes: &[u8]) {
        if let Some(mut css) = self.page.css.take() {
            css.feed(bytes, &mut |url| self.tell_styled(Tag::Style, url));
            self.page.css = Some(css);
        }
    }

    /// The style sheet at hand, if any, has ended.
    pub(super) fn end_style(&mut self) {
        if let Some(css) = self.page.css.take() {
            css.finish(&mut |url| self.tell_styled(Tag::Style, url));
        }
    }

    /// Only functions hold URLs.
    fn style_attribute(&mut self, tag: Tag, slots: &Slots<'_>) {
        let style = slots.get(Attr::Style);
        let Some(style) = style.filter(|style| style.contains(&b'(') && self.fits(style)) else {
            return;
        };
        let style = self.decode(style);
        let mut css = CssScanner::new(self.page.options.max_attribute_bytes);
        let mut each = |url: &[u8]| {
            let url = String::from_utf8_lossy(url);
            self.tell(Element::Part(tag), Role::Embed, url.trim_ascii(), false);
        };
        css.feed(style.as_bytes(), &mut each);
        css.finish(&mut each);
    }

    fn tell_styled(&mut self, tag: Tag, url: &[u8]) {
        let url = decode_segment(url, self.page.encoding());
        self.tell(Element::Part(tag), Role::Embed, url.trim_ascii(), false);
    }

    fn anchor(&mut self, element: Element, href: Option<&[u8]>, slots: &Slots<'_>) {
        if let Some(href) = href {
            let nofollow = slots.get(Attr::Rel).is_some_and(is_nofollow);
            self.link(element, Role::Navigation, href, nofollow);
        }
    }

    fn frame(&mut self, element: Element, slots: &Slots<'_>) {
        if let Some(src) = slots
            .get(Attr::Src)
            .filter(|src| !src.trim_ascii().is_empty())
        {
            self.link(element, Role::Navigation, src, false);
        }
    }

    fn link_element(&mut self, slots: &Slots<'_>) {
        let rel = slots.get(Attr::Rel).unwrap_or_default();
        match role_of_rel(rel) {
            Some(Role::Embed) if self.page.options.embeds => {
                self.embed(Element::Link, slots.get(Attr::Href));
                self.srcset(Element::Link, slots.get(Attr::ImageSrcset));
            }
            Some(Role::Embed) | None => {}
            Some(role) => {
                let href = slots
                    .get(Attr::Href)
                    .filter(|href| !href.trim_ascii().is_empty());
                if let Some(href) = href {
                    self.link(Element::Link, role, href, is_nofollow(rel));
                }
            }
        }
    }

    fn embed(&mut self, element: Element, url: Option<&[u8]>) {
        if let Some(url) = url.filter(|url| !url.trim_ascii().is_empty()) {
            self.link(element, Role::Embed, url, false);
        }
    }

    fn srcset(&mut self, element: Element, srcset: Option<&[u8]>) {
        let Some(srcset) = srcset.filter(|srcset| self.fits(srcset)) else {
            return;
        };
        let srcset = self.decode(srcset);
        for url in srcset_urls(&srcset) {
            self.tell(element, Role::Embed, url, false);
        }
    }

    fn applet(&mut self, slots: &Slots<'_>) {
        let parts = [Attr::Code, Attr::Archive, Attr::Codebase].map(|attribute| {
            slots
                .get(attribute)
                .filter(|value| self.fits(value))
                .map(|value| self.decode(value))
        });
        let [code, archive, codebase] = &parts;
        for file in applet_files(code.as_deref(), archive.as_deref(), codebase.as_deref()) {
            self.tell(Element::Part(Tag::Applet), Role::Embed, &file, false);
        }
    }

    fn base(&mut self, slots: &Slots<'_>) {
        if self.page.base.is_some() || self.page.contexts.is_inert() {
            return;
        }
        let Some(href) = slots.get(Attr::Href).filter(|href| self.fits(href)) else {
            return;
        };
        let base = self.decode(href).trim_ascii().to_owned();
        (self.sink)(Found::Base(&base));
        self.page.base = Some(base);
    }

    fn meta(&mut self, slots: &Slots<'_>) {
        if self.page.contexts.is_inert() {
            return;
        }
        self.page.late_charset(slots);
        let Some(content) = slots
            .get(Attr::Content)
            .filter(|content| self.fits(content))
        else {
            return;
        };
        if slots.is(Attr::HttpEquiv, b"refresh") {
            let content = self.decode(content);
            if let Some(target) = refresh_target(&content) {
                self.tell(Element::MetaRefresh, Role::Navigation, target, false);
            }
        }
        let name = slots.get(Attr::Name).unwrap_or_default();
        if self.page.options.embeds {
            let property = slots.get(Attr::Property).unwrap_or(name);
            let is_picture = |known: &&str| property.eq_ignore_ascii_case(known.as_bytes());
            if IN_META.iter().any(is_picture) {
                self.embed(Element::Part(Tag::Meta), Some(content));
            }
        }
        let product_token = self.page.options.product_token.as_deref().unwrap_or("");
        if meta_concerns(name, product_token) {
            let directives = Directives::from_meta(self.decode(content).as_bytes());
            self.page.robots |= directives;
            (self.sink)(Found::Robots(directives));
        }
    }

    /// Decodes and tells a link; the common case copies nothing.
    fn link(&mut self, element: Element, role: Role, raw: &[u8], nofollow: bool) {
        if !self.fits(raw) {
            return;
        }
        if is_verbatim(raw)
            && let Ok(href) = std::str::from_utf8(raw)
        {
            return self.tell(element, role, href.trim_ascii(), nofollow);
        }
        let mut scratch = std::mem::take(&mut self.page.scratch);
        scratch.clear();
        let text = decode_segment(raw, self.page.encoding());
        decode_references(&text, Place::Attribute, &mut scratch);
        self.tell(element, role, scratch.trim_ascii(), nofollow);
        self.page.scratch = scratch;
    }

    fn tell(&mut self, element: Element, role: Role, href: &str, nofollow: bool) {
        let page = &mut *self.page;
        if page.contexts.is_inert() {
            page.inert += 1;
        } else if page.links >= page.options.max_links {
            page.links_over_limit += 1;
        } else {
            page.links += 1;
            page.embeds += u32::from(role == Role::Embed);
            (self.sink)(Found::Link {
                element,
                role,
                href,
                nofollow,
            });
        }
    }

    fn decode(&self, raw: &[u8]) -> String {
        let mut text = String::new();
        let decoded = decode_segment(raw, self.page.encoding());
        decode_references(&decoded, Place::Attribute, &mut text);
        text
    }

    /// Whether a value is short enough to be looked at.
    fn fits(&mut self, raw: &[u8]) -> bool {
        let fits = raw.len() <= self.page.options.max_attribute_bytes;
        self.page.oversize += u32::from(!fits);
        fits
    }
}

fn wanted(options: &ScanOptions) -> u128 {
    const { assert!(Tag::COUNT <= 128, "one bit a tag") };
    use Tag::*;
    if options.embeds {
        // Any element may have a `style`.
        return u128::MAX;
    }
    [A, Area, Base, Frame, Iframe, Link, Meta]
        .into_iter()
        .fold(0, |bits, tag| bits | 1 << (tag as u8))
}

/// Whether raw bytes are the value itself in every charset: no references, no escapes.
fn is_verbatim(raw: &[u8]) -> bool {
    // No early exit: so the compiler looks at many bytes at once.
    raw.iter().fold(true, |plain, &byte| {
        plain & byte.is_ascii() & (byte != b'&') & (byte != b'\r') & (byte != 0) & (byte != ESC)
    })
}
