//! What a page can say: the words between the scanner and its user, and the rules that turn `rel`
//! attributes into them.

use super::names::Tag;
use crate::Directives;

/// Something found in a page, in the order of the page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found<'a> {
    /// A link as it is written, references decoded, in UTF-8, without the space around it. To be
    /// resolved against the page's base, which is known only at the page's end: the first BASE
    /// counts for links before it too.
    Link {
        element: Element,
        role: Role,
        href: &'a str,
        nofollow: bool,
    },
    /// The first BASE that has an `href`.
    Base(&'a str),
    /// The title, told at the page's end, when its charset is certain.
    Title(&'a str),
    /// A META for robots; the summary holds the sum of all.
    Robots(Directives),
    /// Visible text in the page's charset, references undecoded. Goes on where the last piece
    /// ended unless a [`Found::TextBreak`] stands between.
    Text(&'a [u8]),
    /// The next text is not of the same word as the last.
    TextBreak,
}

/// What the link stands in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Element {
    A,
    Area,
    Frame,
    Iframe,
    Link,
    MetaRefresh,
    /// Any element that names a part of the page: IMG, SCRIPT, an element with a `style`.
    Part(Tag),
}

/// What the link is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Role {
    /// Another document, for the reader to go to or to see in a frame.
    Navigation,
    /// The same document under its preferred name.
    Canonical,
    /// The same content in another form: a translation, a feed, a version for phones.
    Alternate,
    /// A part of this page: image, script, style sheet, icon, font.
    Embed,
}

/// Whether the `rel` of an A or AREA asks not to follow. `ugc` and `sponsored` ask the same.
pub(super) fn is_nofollow(rel: &[u8]) -> bool {
    words(rel).any(|word| is_any(word, &["nofollow", "ugc", "sponsored"]))
}

/// What the `rel` of a LINK makes of it; `None` if it links to no document: no `rel`, or one
/// that only names a host to connect to or a service.
pub(super) fn role_of_rel(rel: &[u8]) -> Option<Role> {
    let mut role = None;
    for word in words(rel) {
        if is_any(word, EMBEDS) {
            // `alternate stylesheet` is a style sheet.
            return Some(Role::Embed);
        }
        let found = if is_any(word, &["canonical"]) {
            Role::Canonical
        } else if is_any(word, &["alternate", "amphtml"]) {
            Role::Alternate
        } else if is_any(word, NO_DOCUMENT) {
            continue;
        } else {
            Role::Navigation
        };
        role = role.or(Some(found));
    }
    role
}

const EMBEDS: &[&str] = &[
    "stylesheet",
    "icon",
    "apple-touch-icon",
    "apple-touch-icon-precomposed",
    "apple-touch-startup-image",
    "fluid-icon",
    "mask-icon",
    "image_src",
    "import",
    "manifest",
    "modulepreload",
    "prefetch",
    "preload",
];

const NO_DOCUMENT: &[&str] = &[
    "dns-prefetch",
    "preconnect",
    "pingback",
    "webmention",
    "edituri",
    "wlwmanifest",
    "profile",
];

fn words(rel: &[u8]) -> impl Iterator<Item = &[u8]> {
    rel.split(u8::is_ascii_whitespace)
        .filter(|word| !word.is_empty())
}

fn is_any(word: &[u8], list: &[&str]) -> bool {
    list.iter()
        .any(|item| word.eq_ignore_ascii_case(item.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rel_of_link() {
        assert_eq!(role_of_rel(b"Canonical"), Some(Role::Canonical));
        assert_eq!(role_of_rel(b"alternate"), Some(Role::Alternate));
        assert_eq!(role_of_rel(b"alternate stylesheet"), Some(Role::Embed));
        assert_eq!(role_of_rel(b"shortcut icon"), Some(Role::Embed));
        assert_eq!(role_of_rel(b" next\tnofollow"), Some(Role::Navigation));
        assert_eq!(role_of_rel(b"dns-prefetch preconnect"), None);
        assert_eq!(role_of_rel(b""), None);
    }
}
