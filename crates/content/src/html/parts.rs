//! Where a page names what it needs to be shown: one line for each place. What needs more than a line (LINK, META,
//! INPUT, APPLET, style sheets) is in the reader.

use super::names::{Attr, Tag};

/// An attribute of an element that holds one URL, or a set of them.
#[derive(Clone, Copy)]
pub(super) struct Place {
    pub(super) tag: Tag,
    pub(super) attribute: Attr,
    pub(super) holds: Holds,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Holds {
    Url,
    /// URLs with their sizes, as in `srcset`.
    Set,
}

const fn url(tag: Tag, attribute: Attr) -> Place {
    Place {
        tag,
        attribute,
        holds: Holds::Url,
    }
}

const fn set(tag: Tag, attribute: Attr) -> Place {
    Place {
        tag,
        attribute,
        holds: Holds::Set,
    }
}

/// In HTML. `data-src` and `data-srcset` are where scripts take them from that load images late.
pub(super) const IN_HTML: &[Place] = &[
    url(Tag::Audio, Attr::Src),
    url(Tag::Embed, Attr::Src),
    url(Tag::Iframe, Attr::DataSrc),
    url(Tag::Image, Attr::Src),
    set(Tag::Image, Attr::Srcset),
    url(Tag::Img, Attr::Src),
    set(Tag::Img, Attr::Srcset),
    url(Tag::Img, Attr::DataSrc),
    set(Tag::Img, Attr::DataSrcset),
    url(Tag::Object, Attr::Data),
    url(Tag::Script, Attr::Src),
    url(Tag::Source, Attr::Src),
    set(Tag::Source, Attr::Srcset),
    url(Tag::Source, Attr::DataSrc),
    set(Tag::Source, Attr::DataSrcset),
    url(Tag::Track, Attr::Src),
    url(Tag::Video, Attr::Src),
    url(Tag::Video, Attr::Poster),
    url(Tag::Video, Attr::DataSrc),
];

/// Elements of SVG whose `href` or `xlink:href` is a part of the page.
pub(super) const IN_SVG: &[Tag] = &[Tag::FeImage, Tag::Image, Tag::Script, Tag::Use];

/// METAs that name a picture of the page, by their `property` or `name`.
pub(super) const IN_META: &[&str] = &[
    "og:image",
    "og:image:url",
    "og:image:secure_url",
    "twitter:image",
    "twitter:image:src",
];
