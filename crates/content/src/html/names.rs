//! The tag and attribute names that matter, recognised without allocating. All others are `Other`.

/// Up to sixteen lower-cased bytes of a name, packed; longer names are [`Name::LONG`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Name(u128);

impl Name {
    /// Matches nothing: no name that matters is this long.
    pub(super) const LONG: Name = Name(u128::MAX);
    pub(super) const MAX_BYTES: usize = 16;

    pub(super) const fn of(bytes: &[u8]) -> Name {
        if bytes.len() > Name::MAX_BYTES {
            return Name::LONG;
        }
        let mut packed = 0;
        let mut i = 0;
        while i < bytes.len() {
            packed = Name::pack(packed, bytes[i]);
            i += 1;
        }
        Name(packed)
    }

    /// One more byte of a name that is packed while it is read.
    #[inline]
    pub(super) const fn pack(packed: u128, byte: u8) -> u128 {
        packed << 8 | byte.to_ascii_lowercase() as u128
    }

    /// The name of which `bytes` bytes were packed.
    #[inline]
    pub(super) const fn from_packed(packed: u128, bytes: usize) -> Name {
        if bytes > Name::MAX_BYTES {
            Name::LONG
        } else {
            Name(packed)
        }
    }

    const fn low(self) -> u64 {
        self.0 as u64
    }

    const fn is_short(self) -> bool {
        self.0 >> 64 == 0
    }
}

/// Makes an enum of names with `Other` for the rest. Short names are told apart by one u64.
macro_rules! names {
    ($(#[$doc:meta])* $enum:ident {
        short { $($short:ident = $short_text:literal,)* }
        long { $($long:ident = $long_text:literal,)* }
    }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(u8)]
        pub enum $enum { $($short,)* $($long,)* Other }

        impl $enum {
            /// How many there are, `Other` among them.
            #[allow(dead_code)]
            pub(super) const COUNT: usize = $enum::Other as usize + 1;

            #[inline]
            pub(super) fn of(name: Name) -> $enum {
                #[allow(non_upper_case_globals)]
                mod short {
                    use super::Name as Packed;
                    $(pub(super) const $short: u64 = Packed::of($short_text).low();)*
                }
                if name.is_short() {
                    return match name.low() {
                        $(short::$short => $enum::$short,)*
                        _ => $enum::Other,
                    };
                }
                $(if name == const { Name::of($long_text) } { return $enum::$long; })*
                $enum::Other
            }
        }
    };
}

names! {
    /// Elements that carry links, change how what follows is read, or join words.
    Tag {
        short {
        A = b"a", Abbr = b"abbr", Acronym = b"acronym", Applet = b"applet", Area = b"area",
        Audio = b"audio", B = b"b", Base = b"base", Bdi = b"bdi", Bdo = b"bdo", Big = b"big",
        Body = b"body", Br = b"br", Center = b"center", Cite = b"cite", Code = b"code", Dd = b"dd",
        Del = b"del", Desc = b"desc", Dfn = b"dfn", Div = b"div", Dl = b"dl", Dt = b"dt",
        Em = b"em", Embed = b"embed", FeImage = b"feimage", Font = b"font", Frame = b"frame", H1 = b"h1", H2 = b"h2",
        H3 = b"h3", H4 = b"h4", H5 = b"h5", H6 = b"h6", Head = b"head", Hr = b"hr", I = b"i",
        Iframe = b"iframe", Image = b"image", Img = b"img", Input = b"input", Ins = b"ins",
        Kbd = b"kbd", Label = b"label", Li = b"li", Link = b"link", Listing = b"listing",
        Mark = b"mark", Math = b"math", Menu = b"menu", Meta = b"meta", Mglyph = b"mglyph",
        Mi = b"mi", Mn = b"mn", Mo = b"mo", Ms = b"ms", Mtext = b"mtext", Nobr = b"nobr",
        Noembed = b"noembed", Noframes = b"noframes", Object = b"object", Ol = b"ol", P = b"p",
        Pre = b"pre", Q = b"q", Ruby = b"ruby", S = b"s", Samp = b"samp", Script = b"script",
        Small = b"small", Source = b"source", Span = b"span", Strike = b"strike",
        Strong = b"strong", Style = b"style", Sub = b"sub", Sup = b"sup", Svg = b"svg",
        Table = b"table", Template = b"template", Textarea = b"textarea", Title = b"title",
        Track = b"track", Tt = b"tt", U = b"u", Ul = b"ul", Use = b"use", Var = b"var",
        Video = b"video", Wbr = b"wbr", Xmp = b"xmp",
        }
        long {
        AnnotationXml = b"annotation-xml", Blockquote = b"blockquote",
        ForeignObject = b"foreignobject", Malignmark = b"malignmark", Plaintext = b"plaintext",
        }
    }
}

names! {
    /// Attributes the scanner reads.
    Attr {
        short {
        Archive = b"archive", Charset = b"charset", Code = b"code", Codebase = b"codebase",
        Color = b"color", Content = b"content", Data = b"data", DataSrc = b"data-src",
        Encoding = b"encoding",
        Face = b"face", Href = b"href", Name = b"name", Poster = b"poster", Property = b"property",
        Rel = b"rel", Size = b"size", Src = b"src", Srcset = b"srcset", Style = b"style", Type = b"type",
        }
        long {
        Background = b"background", DataSrcset = b"data-srcset", HttpEquiv = b"http-equiv", ImageSrcset = b"imagesrcset",
        ShadowRootMode = b"shadowrootmode", XlinkHref = b"xlink:href",
        }
    }
}

impl Tag {
    /// Elements that do not end a word: `<b>a</b>bc` reads "abc".
    pub(super) fn joins_words(self) -> bool {
        use Tag::*;
        matches!(
            self,
            A | Abbr
                | Acronym
                | B
                | Bdi
                | Bdo
                | Big
                | Cite
                | Code
                | Del
                | Dfn
                | Em
                | Font
                | I
                | Ins
                | Kbd
                | Label
                | Mark
                | Nobr
                | Q
                | Ruby
                | S
                | Samp
                | Small
                | Span
                | Strike
                | Strong
                | Sub
                | Sup
                | Tt
                | U
                | Var
                | Wbr
        )
    }

    /// HTML elements that cannot stand in SVG or MathML and so end it. FONT only with the
    /// attributes of old, which the caller looks at.
    pub(super) fn breaks_out_of_foreign(self) -> bool {
        use Tag::*;
        matches!(
            self,
            B | Big
                | Blockquote
                | Body
                | Br
                | Center
                | Code
                | Dd
                | Div
                | Dl
                | Dt
                | Em
                | Embed
                | H1
                | H2
                | H3
                | H4
                | H5
                | H6
                | Head
                | Hr
                | I
                | Img
                | Li
                | Listing
                | Menu
                | Meta
                | Nobr
                | Ol
                | P
                | Pre
                | Ruby
                | S
                | Small
                | Span
                | Strong
                | Strike
                | Sub
                | Sup
                | Table
                | Tt
                | U
                | Ul
                | Var
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_recognised_in_any_case() {
        assert_eq!(Tag::of(Name::of(b"ScRiPt")), Tag::Script);
        assert_eq!(Tag::of(Name::of(b"ANNOTATION-XML")), Tag::AnnotationXml);
        assert_eq!(Tag::of(Name::of(b"scripts")), Tag::Other);
        assert_eq!(Tag::of(Name::of(b"a-very-long-element-name")), Tag::Other);
        assert_eq!(Attr::of(Name::of(b"HREF")), Attr::Href);
        assert_eq!(Attr::of(Name::of(b"http-equiv")), Attr::HttpEquiv);
        assert_eq!(Attr::of(Name::of(b"")), Attr::Other);
    }
}
