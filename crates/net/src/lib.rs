//! The only room that opens sockets to the Web: it finds addresses, guards private networks,
//! connects, and speaks HTTP as odd servers do, FTP and Gopher.
//!
//! Layout: `resolve` (host names to addresses, cached), `guard` (which addresses may be reached),
//! `network` (blocks of addresses), `connect` (TCP and TLS), `dial` (who opens connections, if not this
//! machine), `proxy` (through whom), `other` (FTP, Gopher, files), `tls` (whom we trust), `http` (requests
//! and answers), `cookies` (what servers want to be told again), `decode` (content encodings), `error` (why no answer came).

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
