//! The kinds of errors and of odd behaviour that hosts show. Names only; `answer` and `wire` act them out.

use serde::{Deserialize, Serialize};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fault {
    NotFound,
    Gone,
    Forbidden,
    ServerError,
    /// 503 with Retry-After, for ever.
    Unavailable,
    /// 503 with Retry-After, 200 after some tries.
    UnavailableThenOk,
    /// 429 with Retry-After, for ever.
    TooMany,
    /// 429 with Retry-After, 200 after some tries.
    TooManyThenOk,
}

impl Fault {
    pub const ALL: [Fault; 8] = [
        Fault::NotFound,
        Fault::Gone,
        Fault::Forbidden,
        Fault::ServerError,
        Fault::Unavailable,
        Fault::UnavailableThenOk,
        Fault::TooMany,
        Fault::TooManyThenOk,
    ];

    pub fn status(self) -> u16 {
        match self {
            Fault::NotFound => 404,
            Fault::Gone => 410,
            Fault::Forbidden => 403,
            Fault::ServerError => 500,
            Fault::Unavailable | Fault::UnavailableThenOk => 503,
            Fault::TooMany | Fault::TooManyThenOk => 429,
        }
    }

    pub fn recovers(self) -> bool {
        matches!(self, Fault::UnavailableThenOk | Fault::TooManyThenOk)
    }

    /// Whether the answer carries Retry-After.
    pub fn asks_to_wait(self) -> bool {
        matches!(self.status(), 429 | 503)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Oddity {
    /// `HTTP/1.0` status line, closed after each answer.
    Http10,
    /// The bare body: no status line, no headers.
    Http09,
    /// No Content-Length: the end of the connection is the end of the body.
    NoLength,
    /// Content-Length smaller than the body.
    ShortLength,
    /// Content-Length larger than the body.
    LongLength,
    /// Well-formed chunks, with an extension and a trailer.
    Chunked,
    /// A chunk size that is no number.
    BadChunkSize,
    /// Chunks that stop without the last one.
    NoLastChunk,
    /// Header lines end in LF.
    BareLf,
    /// A header continued on the next line.
    FoldedHeader,
    /// A body is sent in answer to HEAD.
    BodyAfterHead,
    /// The connection ends in the middle of the body.
    Cut,
    /// The body comes in small pieces with pauses.
    Drip,
    /// Kept connections are closed unannounced after some requests.
    ClosesEarly,
    /// A body that goes on until the client has enough.
    Endless,
}

impl Oddity {
    pub const ALL: [Oddity; 15] = [
        Oddity::Http10,
        Oddity::Http09,
        Oddity::NoLength,
        Oddity::ShortLength,
        Oddity::LongLength,
        Oddity::Chunked,
        Oddity::BadChunkSize,
        Oddity::NoLastChunk,
        Oddity::BareLf,
        Oddity::FoldedHeader,
        Oddity::BodyAfterHead,
        Oddity::Cut,
        Oddity::Drip,
        Oddity::ClosesEarly,
        Oddity::Endless,
    ];

    /// Whether the client cannot know that it has the body whole, or cannot have it whole. Such answers are given only by pages
    /// from which nothing else is discovered.
    pub fn damages(self) -> bool {
        matches!(
            self,
            Oddity::Http09
                | Oddity::ShortLength
                | Oddity::LongLength
                | Oddity::BadChunkSize
                | Oddity::NoLastChunk
                | Oddity::Cut
                | Oddity::Endless
        )
    }
}
