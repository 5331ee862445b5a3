//! A simulated Web with a witness of how it was treated.
//!
//! [`WebSpec`] says what the Web is like, [`Web`] is that Web, [`Server`] serves it on the loopback interface, [`Witness`]
//! records how its hosts are treated, [`Truth`] says what a perfect crawler must end with. Nothing here imports another room:
//! who is to judge the crawler must not share its code.
//!
//! # Layout
//!
//! - `spec`: the parameters; `presets`: ready ones; `oddity`: kinds of errors and odd behaviour
//! - `changes`: pages of one generation and the next; `motion`: pages that change while they are served
//! - `seed`: arithmetic that turns parameters into choices
//! - `plan`: what every page is; `links`: who links to whom; `spelling`: how a link writes a URL; `robots`: robots.txt
//! - `web`: names, URLs, and which resource a request means
//! - `words`, `page`, `japanese`, `listing`, `encoding`: the bytes of bodies; `library`: real pages instead
//! - `request`, `answer`, `wire`, `connection`, `tls`, `server`: HTTP, proper and odd
//! - `within`: the same without sockets
//! - `sick`: hosts that never get an answer out; `dns`: a DNS server that keeps silent about some of them
//! - `witness`: the record; `control`: asking for it from another process; `truth`: what should have happened; `verdict`: both
//!   in a few figures
//! - `run`: all of it for a person at a terminal
//!
//! # Example
//!
//! ```
//! use portolan_simweb::{Server, Web, WebSpec};
//! use std::sync::Arc;
//!
//! let spec = WebSpec { hosts: 3, pages_per_host: 5, ..WebSpec::default() };
//! let web = Arc::new(Web::new(spec)?);
//! let server = Server::start(web, "127.0.0.1:0".parse()?)?;
//! // A crawler would be sent to the server here.
//! let witness = server.shutdown();
//! assert_eq!(witness.requests().len(), 0);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod answer;
mod changes;
mod connection;
mod control;
mod dns;
mod encoding;
mod japanese;
mod library;
mod links;
mod listing;
mod motion;
mod oddity;
mod page;
mod plan;
mod presets;
mod request;
mod robots;
mod run;
mod seed;
mod server;
mod sick;
mod spec;
mod spelling;
mod tables;
mod tls;
mod truth;
mod verdict;
mod web;
mod wire;
mod within;
mod witness;
mod words;

pub use changes::ChangeSpec;
pub use library::html_files;
pub use motion::{Candour, MotionSpec};
pub use oddity::{Fault, Oddity};
pub use plan::Via;
pub use run::{RunError, StopHandle, control_url, crawl_command, run};
pub use server::{Server, ServerError, ServerOptions};
pub use sick::{Figures, Sick, SickKind};
pub use spec::{
    ContentSpec, DiscoverySpec, FaultSpec, LatencySpec, LinkSpec, OddSpec, RobotsSpec, SickSpec,
    SpecError, TrapSpec, WebSpec,
};
pub use tables::{TablesSpec, Told};
pub use truth::{BodyTruth, Scope, Truth, TruthQuery, UrlKind, UrlTruth};
pub use verdict::Verdict;
pub use web::{SESSION_PARAMETER, Web};
pub use within::Within;
pub use witness::{
    FreshnessReport, GapClass, HostReport, IpReport, Repeat, RequestRecord, Seen, UrlCount,
    Violation, ViolationKind, Witness, WitnessReport,
};
