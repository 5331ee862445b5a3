//! HTTP/1.x by our own client and HTTP/2 by the `h2` crate, one request at a time on a connection.
//! Redirects, retries, cookies and politeness belong to the caller.

mod body;
mod chunked;
mod connection;
mod deadline;
mod framing;
mod h1;
mod h2;
mod head;
mod meter;
mod oddity;
mod pace;
mod raw_url;
mod request;
mod response;
mod settings;
mod stream;
mod wire;

pub use connection::Connection;
pub(crate) use connection::Opened;
pub use head::{Head, Version};
pub use oddity::{Oddities, Oddity};
pub use raw_url::url_text;
pub use request::{Field, Method, Origin, Request, Scheme, basic_credentials};
pub use response::{BodySink, Response, Timings, Wait};
pub use settings::{Agent, HeadFirst, HttpSettings};

pub(crate) use stream::Stream;

use crate::NetError;

/// So many 1xx answers before the real one are skipped.
const MAX_INTERIM_ANSWERS: u32 = 16;

fn too_many_interim_answers() -> NetError {
    NetError::BrokenHttp(format!("more than {MAX_INTERIM_ANSWERS} interim answers"))
}

fn elapsed_ms(since: tokio::time::Instant) -> u32 {
    u32::try_from(since.elapsed().as_millis()).unwrap_or(u32::MAX)
}

fn lost(detail: &str, retry_on_new_connection: bool) -> NetError {
    NetError::ConnectionLost {
        detail: detail.to_owned(),
        retry_on_new_connection,
    }
}
