//! What modules say of a document, within bounds: links go to the page's other links, facts into its visit.

use encoding_rs::Encoding;
use portolan_archive::{Conversion, MAX_CONVERSIONS};
use portolan_content::{Directives, Simhash};
use portolan_model::{Fact, LinkKind};

use crate::keep::Lastmods;
use crate::links::RawLinks;
use crate::page::{MAX_FIELD_BYTES, shortened};

/// Longest name of a fact, the module's included.
const MAX_NAME_BYTES: usize = 100;
/// All facts of a document together. Those beyond it are counted in a last one.
const MAX_FACT_BYTES: usize = 4096;
/// The texts of a document together.
const MAX_TEXT_BYTES: usize = 8 << 20;

/// What reading a document brought, but for its links.
#[derive(Debug, Default)]
pub(crate) struct Learned {
    /// `None` for what is not HTML.
    pub(crate) charset: Option<&'static Encoding>,
    pub(crate) title: String,
    /// The first BASE, relative to the page's URL.
    pub(crate) base: Option<String>,
    pub(crate) directives: Directives,
    /// 0 where there is no text.
    pub(crate) simhash: u64,
    pub(crate) facts: Vec<Fact>,
    /// Facts for which there was no room.
    pub(super) facts_left_out: u32,
    pub(crate) texts: Vec<Conversion>,
}

impl Learned {
    /// A name stands once: what is said later counts.
    fn note(&mut self, name: String, value: String) {
        self.facts.retain(|fact| fact.name != name);
        let held: usize = self.facts.iter().map(Fact::bytes).sum();
        match held + name.len() + value.len() <= MAX_FACT_BYTES {
            true => self.facts.push(Fact { name, value }),
            false => self.facts_left_out = self.facts_left_out.saturating_add(1),
        }
    }

    /// The facts, and how many there was no room for.
    pub(crate) fn take_facts(&mut self) -> Vec<Fact> {
        if self.facts_left_out > 0 {
            self.facts.push(Fact {
                name: "portolan.facts_left_out".to_owned(),
                value: self.facts_left_out.to_string(),
            });
        }
        std::mem::take(&mut self.facts)
    }
}

/// Where a module says what it found in a document.
pub struct Findings<'a> {
    /// The module's name.
    pub(crate) by: &'a str,
    pub(crate) raw: &'a mut RawLinks,
    /// What a sitemap says of when pages changed.
    pub(crate) lastmods: &'a mut Lastmods,
    pub(crate) learned: &'a mut Learned,
    /// Are texts hashed, for near-duplicates?
    pub(crate) hashes: bool,
}

impl Findings<'_> {
    /// A link to another document, absolute or relative to this one. It is followed as links of pages are: if it is in
    /// scope, and robots.txt allows it. Beyond `content.max_links` of a document links are counted and left out.
    pub fn link(&mut self, href: &str) {
        self.raw.push(href, LinkKind::Module, false);
    }

    /// The same for a link that the document asks not to be followed (see `scope.respect_nofollow`).
    pub fn nofollow_link(&mut self, href: &str) {
        self.raw.push(href, LinkKind::Module, true);
    }

    /// Something that is part of this document, such as an image. It is fetched only if `content.embeds` is on.
    pub fn embed(&mut self, href: &str) {
        self.raw.push(href, LinkKind::Embed, false);
    }

    /// A fact about the document. It is in the archive's metadata record and in `portolan urls` as `MODULE.NAME`. Said
    /// again, it replaces what was said before. A value of more than 512 bytes is cut; all facts of a document may take
    /// 4 KiB.
    pub fn fact(&mut self, name: &str, value: impl ToString) {
        let value = value.to_string();
        let name = format!("{}.{}", self.by, plain(name));
        let name = shortened(&name, MAX_NAME_BYTES).to_owned();
        self.learned
            .note(name, shortened(&value, MAX_FIELD_BYTES).to_owned());
    }

    /// The document's title, if it has none yet.
    pub fn title(&mut self, title: &str) {
        if self.learned.title.is_empty() {
            self.learned.title = one_line(title, MAX_FIELD_BYTES);
        }
    }

    /// The document's text: a conversion record in the archive. Its beginning is the fact `text` and its length `text_bytes`;
    /// where a document has no other text, near-duplicates are told by it. At most 8 MiB for a document.
    pub fn text(&mut self, text: String) {
        self.fact("text", one_line(&text, MAX_FIELD_BYTES));
        self.fact("text_bytes", text.len());
        if self.learned.simhash == 0 && self.hashes {
            let mut simhash = Simhash::new();
            simhash.push_text(text.as_bytes());
            self.learned.simhash = simhash.finish();
        }
        let held: usize = self.learned.texts.iter().map(|t| t.text.len()).sum();
        if self.learned.texts.len() < MAX_CONVERSIONS && held + text.len() <= MAX_TEXT_BYTES {
            self.learned.texts.push(Conversion {
                by: self.by.to_owned(),
                text,
            });
        } else {
            self.fact("text_left_out", true);
        }
    }

    /// A link of whatever kind.
    pub(crate) fn push(&mut self, href: &str, kind: LinkKind) {
        self.raw.push(href, kind, false);
    }
}

/// What may stand in a name.
fn plain(name: &str) -> String {
    let fits = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    name.chars()
        .map(|c| if fits(c) { c } else { '_' })
        .collect()
}

/// The beginning of a text with single blanks for all white space.
fn one_line(text: &str, max_bytes: usize) -> String {
    let mut line = String::new();
    for word in text.split_whitespace() {
        if !line.is_empty() {
            line.push(' ');
        }
        let piece = shortened(word, max_bytes);
        line.push_str(piece);
        if line.len() >= max_bytes || piece.len() < word.len() {
            break;
        }
    }
    shortened(&line, max_bytes).trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(say: impl FnOnce(&mut Findings<'_>)) -> Learned {
        let (mut raw, mut learned) = (RawLinks::default(), Learned::default());
        raw.clear(10);
        say(&mut Findings {
            by: "pdf",
            raw: &mut raw,
            lastmods: &mut Lastmods::default(),
            learned: &mut learned,
            hashes: true,
        });
        learned
    }

    #[test]
    fn facts_stand_once_and_are_bounded() {
        let mut learned = said(|findings| {
            findings.fact("pages", 3);
            findings.fact("a b:c", "x");
            findings.fact("pages", 4);
            for n in 0..100 {
                findings.fact(&format!("f{n}"), "y".repeat(600));
            }
        });
        let facts = learned.take_facts();
        let names: Vec<&str> = facts.iter().map(|fact| fact.name.as_str()).collect();
        assert_eq!(names[..3], ["pdf.a_b_c", "pdf.pages", "pdf.f0"]);
        assert_eq!(facts[1].value, "4");
        assert_eq!(facts[2].value.len(), MAX_FIELD_BYTES);
        let last = facts.last().expect("facts");
        assert_eq!(last.name, "portolan.facts_left_out");
        let kept = facts.len() as u64 - 3;
        assert_eq!(last.value.parse::<u64>(), Ok(100 - kept));
        let held: usize = facts[..facts.len() - 1].iter().map(Fact::bytes).sum();
        assert!(held <= MAX_FACT_BYTES, "{held}");
    }

    #[test]
    fn texts_are_told_in_a_line_and_kept_whole_within_bounds() {
        let learned = said(|findings| {
            findings.text("One\r\n two\x0c three".to_owned());
            findings.text("x".repeat(MAX_TEXT_BYTES));
        });
        assert_eq!(learned.texts.len(), 1);
        assert_eq!(learned.texts[0].text, "One\r\n two\x0c three");
        assert_ne!(learned.simhash, 0);
        let value = |name: &str| {
            let fact = learned.facts.iter().find(|fact| fact.name == name);
            fact.map(|fact| fact.value.as_str())
        };
        assert_eq!(value("pdf.text_left_out"), Some("true"));
        assert_eq!(one_line(" One\r\n two\x0c three ", 512), "One two three");
        assert_eq!(one_line("añb c", 2), "a");
        assert_eq!(one_line("a b c", 2), "a");
    }
}
