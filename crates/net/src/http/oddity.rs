//! What was odd about an answer. Oddities are noted, not punished.

use std::fmt;

macro_rules! oddities {
    ($($(#[$doc:meta])* $name:ident = $bit:literal, $word:literal;)*) => {
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum Oddity {
            $($(#[$doc])* $name = 1 << $bit,)*
        }

        impl Oddity {
            pub const ALL: &'static [Oddity] = &[$(Oddity::$name,)*];

            pub fn name(self) -> &'static str {
                match self {
                    $(Oddity::$name => $word,)*
                }
            }
        }
    };
}

oddities! {
    /// No status line: the whole answer is body.
    Http09 = 0, "http/0.9";
    BareLf = 1, "bare-lf";
    LeadingBlankLines = 2, "leading-blank-lines";
    FoldedHeader = 3, "folded-header";
    SpaceBeforeColon = 4, "space-before-colon";
    HeaderWithoutColon = 5, "header-without-colon";
    NulInHead = 6, "nul-in-head";
    EightBitHead = 7, "8-bit-head";
    TooManyHeaders = 8, "too-many-headers";
    StrangeStatusLine = 9, "strange-status-line";
    /// The same length more than once.
    RepeatedContentLength = 10, "repeated-content-length";
    ConflictingContentLength = 11, "conflicting-content-length";
    /// Not a number.
    BadContentLength = 12, "bad-content-length";
    /// The body was shorter or longer than promised.
    WrongContentLength = 13, "wrong-content-length";
    LengthAndChunked = 14, "length-and-chunked";
    BadChunking = 15, "bad-chunking";
    BodyAfterHead = 16, "body-after-head";
    /// The TLS stream ended without saying so.
    NoCloseNotify = 17, "no-close-notify";
    UnknownTransferEncoding = 18, "unknown-transfer-encoding";
    /// The connection ended where the head's blank line should have been.
    HeadWithoutEnd = 19, "head-without-end";
    /// A compression that belongs to the transfer alone, and that nobody asked for.
    CompressedTransfer = 20, "compressed-transfer";
    /// Chunk sizes, padding or frames took more than they may: the answer is cut.
    TooMuchFraming = 21, "too-much-framing";
}

/// A set of oddities.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub struct Oddities(u32);

impl Oddities {
    pub fn add(&mut self, oddity: Oddity) {
        self.0 |= oddity as u32;
    }

    pub fn has(self, oddity: Oddity) -> bool {
        self.0 & oddity as u32 != 0
    }

    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    pub fn iter(self) -> impl Iterator<Item = Oddity> {
        Oddity::ALL.iter().copied().filter(move |&o| self.has(o))
    }
}

impl fmt::Debug for Oddities {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set()
            .entries(self.iter().map(Oddity::name))
            .finish()
    }
}
