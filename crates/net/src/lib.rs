//! The only room that opens sockets to the Web: it finds addresses, guards private networks,
//! connects, and speaks HTTP as odd servers do, FTP and Gopher.
//!
//! Layout: `resolve` (host names to addresses, cached), `guard` (which addresses may be reached),
//! `network` (blocks of addresses), `connect` (TCP and TLS), `dial` (who opens connections, if not this
//! machine), `proxy` (through whom), `other` (FTP, Gopher, files), `tls` (whom we trust), `http` (requests
//! and answers), `cookies` (what servers want to be told again), `decode` (content encodings), `error` (why no answer came).
//!
//! # Example
//!
//! ```no_run
//! use std::ops::ControlFlow;
//!
//! use portolan_net::{Connector, Decoder, Guard, HttpSettings, Origin, Request, Resolver, Resolved, Scheme, SystemResolver};
//!
//! # async fn fetch() -> Result<(), Box<dyn std::error::Error>> {
//! let connector = Connector::new(HttpSettings::default(), Guard::default())?;
//! let found = SystemResolver.lookup("example.org").await?;
//! let resolved = Resolved {
//!     addresses: found.addresses,
//!     port_override: None,
//!     expires_ms: u64::MAX,
//!     named: false,
//! };
//! // The guard looks at the address, so a name that leads to a private network is refused here.
//! let origin = Origin::new(Scheme::Https, "example.org", 443);
//! let mut connection = connector.connect(&origin, &resolved).await?;
//! let mut everything = |_: &[u8]| ControlFlow::Continue(());
//! let response = connection.fetch(&Request::get("/"), &mut everything).await?;
//! let most_bytes = connector.settings().max_decoded_bytes;
//! let (body, _) = Decoder::decode_answer(&response.head, &response.body, most_bytes);
//! println!("{} with {} bytes", response.status(), body.len());
//! # Ok(())
//! # }
//! ```

mod connect;
mod cookies;
mod decode;
mod dial;
mod error;
mod guard;
mod http;
mod network;
mod other;
mod proxy;
mod resolve;
mod tls;

pub use connect::Connector;
pub use cookies::{CookieJar, NotCookies};
pub use decode::{DecodeEnd, Decoder};
pub use dial::{Dialed, Dialer, Pipe};
pub use error::NetError;
pub use guard::{Guard, Refused, RefusedPort, special};
pub use http::{
    Agent, BodySink, Connection, Field, Head, HeadFirst, HttpSettings, Method, Oddities, Oddity,
    Origin, Request, Response, Scheme, Timings, Version, Wait, basic_credentials, url_text,
};
pub use network::{Network, NotANetwork};
pub use proxy::{Proxies, ProxyError};
pub use resolve::{
    Addresses, DnsResolver, DnsSettings, Lookup, Mapping, MappingCounters, NotResolved,
    NotResolvedBy, ResolveRule, ResolveRuleError, Resolved, Resolver, StaticResolver,
    SystemResolver, check_name_server,
};
pub use tls::{BadCertificate, Certificate, SetupError};
