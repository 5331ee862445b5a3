//! Where in the page the scanner stands, as far as it changes how tags are read: inside SVG or
//! MathML, back in HTML within those, or in a TEMPLATE. Not a tree: ordinary elements leave no
//! trace here.
//!
//! Known difference to a browser: HTML elements left open inside SVG or MathML are not counted,
//! so an end tag closes the nearest context of its name even where a browser would ignore it.

use super::names::Tag;

/// How many contexts may be nested; deeper ones are read as the last.
const MAX_DEPTH: usize = 64;

#[derive(Default)]
pub(super) struct Contexts {
    stack: Vec<Context>,
    templates: u32,
}

struct Context {
    tag: Tag,
    kind: Kind,
    /// Whether an HTML element was opened directly inside.
    html_inside: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Svg,
    MathMl,
    /// An element of SVG or MathML whose content is HTML again.
    Integration,
    /// MathML's text elements: HTML inside, but for two elements of MathML's own.
    MathText,
    /// MathML's ANNOTATION-XML: only an SVG element inside is not MathML.
    Annotation,
    Template {
        inert: bool,
    },
}

/// The language of an element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Language {
    Html,
    Svg,
    MathMl,
}

/// What a start tag's attributes say that matters here.
#[derive(Clone, Copy, Default)]
pub(super) struct Traits {
    pub(super) self_closing: bool,
    /// FONT with `color`, `face` or `size`.
    pub(super) old_font: bool,
    /// ANNOTATION-XML whose `encoding` is HTML.
    pub(super) html_annotation: bool,
    /// TEMPLATE that is shown: a declarative shadow root.
    pub(super) shadow_root: bool,
}

impl Contexts {
    /// Whether `tag` can pass without [`Contexts::open`]: it stands in plain HTML and opens nothing.
    pub(super) fn ignores(&self, tag: Tag) -> bool {
        self.stack.is_empty() && !matches!(tag, Tag::Svg | Tag::Math | Tag::Template)
    }

    /// Whether what is found here belongs to no document: the content of a TEMPLATE.
    pub(super) fn is_inert(&self) -> bool {
        self.templates > 0
    }

    pub(super) fn allows_cdata(&self) -> bool {
        self.stack.last().is_some_and(|top| match top.kind {
            Kind::Svg | Kind::MathMl | Kind::Annotation => true,
            Kind::Integration | Kind::MathText => !top.html_inside,
            Kind::Template { .. } => false,
        })
    }

    /// A start tag; the language of its element.
    pub(super) fn open(&mut self, tag: Tag, traits: Traits) -> Language {
        let mut language = self.language_of(tag);
        let breaks_out = tag.breaks_out_of_foreign() || tag == Tag::Font && traits.old_font;
        if language != Language::Html && breaks_out {
            self.leave_foreign();
            language = Language::Html;
        }
        if language == Language::Html {
            if let Some(top) = self.stack.last_mut() {
                top.html_inside = true;
            }
            if tag == Tag::Template {
                self.push(
                    tag,
                    Kind::Template {
                        inert: !traits.shadow_root,
                    },
                );
            }
            return language;
        }
        let kind = match (language, tag) {
            _ if traits.self_closing => return language,
            (Language::Svg, Tag::Svg) => Kind::Svg,
            (Language::Svg, Tag::ForeignObject | Tag::Desc | Tag::Title) => Kind::Integration,
            (Language::MathMl, Tag::Math | Tag::Svg) => Kind::MathMl,
            (Language::MathMl, Tag::Mi | Tag::Mo | Tag::Mn | Tag::Ms | Tag::Mtext) => {
                Kind::MathText
            }
            (Language::MathMl, Tag::AnnotationXml) if traits.html_annotation => Kind::Integration,
            (Language::MathMl, Tag::AnnotationXml) => Kind::Annotation,
            _ => return language,
        };
        self.push(tag, kind);
        language
    }

    pub(super) fn close(&mut self, tag: Tag) {
        let Some(top) = self.stack.last() else { return };
        let foreign = matches!(top.kind, Kind::Svg | Kind::MathMl | Kind::Annotation);
        if tag == Tag::Template {
            // Ends whatever was left open inside, too.
            let template = |context: &Context| matches!(context.kind, Kind::Template { .. });
            if let Some(at) = self.stack.iter().rposition(template) {
                self.truncate(at);
            }
        } else if foreign && tag.breaks_out_of_foreign() {
            // Not opened in here, so it closes something around.
            self.leave_foreign();
        } else {
            let found = self.stack.iter().rposition(|context| context.tag == tag);
            let inside = |context: &Context| !matches!(context.kind, Kind::Template { .. });
            if let Some(at) = found
                && self.stack[at..].iter().all(inside)
            {
                self.truncate(at);
            }
        }
    }

    fn language_of(&self, tag: Tag) -> Language {
        let outside = match tag {
            Tag::Svg => Language::Svg,
            Tag::Math => Language::MathMl,
            _ => Language::Html,
        };
        let Some(top) = self.stack.last() else {
            return outside;
        };
        match top.kind {
            Kind::Svg => Language::Svg,
            Kind::MathMl => Language::MathMl,
            Kind::Annotation if tag == Tag::Svg => Language::Svg,
            Kind::Annotation => Language::MathMl,
            Kind::MathText if matches!(tag, Tag::Mglyph | Tag::Malignmark) => Language::MathMl,
            Kind::MathText | Kind::Integration | Kind::Template { .. } => outside,
        }
    }

    /// Closes SVG and MathML up to where HTML is.
    fn leave_foreign(&mut self) {
        let html = |context: &Context| {
            !matches!(context.kind, Kind::Svg | Kind::MathMl | Kind::Annotation)
        };
        let depth = self.stack.iter().rposition(html).map_or(0, |at| at + 1);
        self.truncate(depth);
    }

    fn push(&mut self, tag: Tag, kind: Kind) {
        if self.stack.len() < MAX_DEPTH {
            self.templates += u32::from(kind == Kind::Template { inert: true });
            self.stack.push(Context {
                tag,
                kind,
                html_inside: false,
            });
        }
    }

    fn truncate(&mut self, depth: usize) {
        for context in self.stack.drain(depth..) {
            self.templates -= u32::from(context.kind == Kind::Template { inert: true });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn svg_and_back() {
        let mut contexts = Contexts::default();
        let plain = Traits::default();
        assert!(contexts.ignores(Tag::Title) && !contexts.allows_cdata());
        assert_eq!(contexts.open(Tag::Svg, plain), Language::Svg);
        assert_eq!(contexts.open(Tag::Title, plain), Language::Svg);
        assert_eq!(contexts.open(Tag::Script, plain), Language::Html);
        contexts.close(Tag::Title);
        assert_eq!(contexts.open(Tag::Script, plain), Language::Svg);
        assert_eq!(contexts.open(Tag::Div, plain), Language::Html);
        assert!(contexts.ignores(Tag::Div));
    }

    #[test]
    fn templates_are_inert_until_they_end() {
        let mut contexts = Contexts::default();
        let plain = Traits::default();
        contexts.open(Tag::Template, plain);
        contexts.open(Tag::Svg, plain);
        assert!(contexts.is_inert());
        contexts.close(Tag::Template);
        assert!(!contexts.is_inert() && contexts.ignores(Tag::A));
        contexts.open(
            Tag::Template,
            Traits {
                shadow_root: true,
                ..plain
            },
        );
        assert!(!contexts.is_inert());
    }
}
