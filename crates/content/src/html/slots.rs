//! The attributes of one tag, sorted into those that matter. Raw: nothing is decoded here.

use super::context::Traits;
use super::names::{Attr, Name};

/// The raw values of the attributes that matter, the first of each name.
#[derive(Default)]
pub(super) struct Slots<'a>([Option<&'a [u8]>; Attr::COUNT]);

impl<'a> Slots<'a> {
    #[inline]
    pub(super) fn put(&mut self, name: &'a [u8], value: &'a [u8]) {
        let attribute = Attr::of(Name::of(name));
        self.0[attribute as usize].get_or_insert(value);
    }

    pub(super) fn get(&self, attribute: Attr) -> Option<&'a [u8]> {
        self.0[attribute as usize]
    }

    /// Whether the attribute is this keyword, which nobody writes with references.
    pub(super) fn is(&self, attribute: Attr, keyword: &[u8]) -> bool {
        self.get(attribute)
            .is_some_and(|value| value.eq_ignore_ascii_case(keyword))
    }

    pub(super) fn traits(&self, self_closing: bool) -> Traits {
        let font = [Attr::Color, Attr::Face, Attr::Size];
        let html = [&b"text/html"[..], b"application/xhtml+xml"];
        let shadow = [&b"open"[..], b"closed"];
        Traits {
            self_closing,
            old_font: font.iter().any(|&attribute| self.get(attribute).is_some()),
            html_annotation: html.iter().any(|value| self.is(Attr::Encoding, value)),
            shadow_root: shadow
                .iter()
                .any(|value| self.is(Attr::ShadowRootMode, value)),
        }
    }
}
