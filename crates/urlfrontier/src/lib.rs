//! A frontier for other people's crawlers: the URLFrontier API 2.6 of crawler-commons, over gRPC, with a store that survives what kills it.
//! And the way to such a frontier, for our own crawler.
//!
//! ```
//! use portolan_urlfrontier::{ServerOptions, api::Local, serve, ServerAddress};
//!
//! # #[tokio::main]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let dir = tempfile::tempdir()?;
//! let options = ServerOptions {
//!     dir: dir.path().to_owned(),
//!     listen: "127.0.0.1:0".parse()?,
//!     memory: 64 << 20,
//!     tls: None,
//!     token: None,
//!     insecure: false,
//!     log_levels: std::sync::Arc::new(|_, _| {}),
//! };
//! let (begun, address) = tokio::sync::oneshot::channel();
//! let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
//! let server = tokio::spawn(serve(
//!     options,
//!     async { drop(stopped.await) },
//!     move |at, _| drop(begun.send(at)),
//! ));
//! let url = format!("http://{}", address.await?);
//! let mut client = ServerAddress { url, ..ServerAddress::default() }.client()?;
//! let crawls = client.list_crawls(Local { local: false }).await?;
//! assert!(crawls.into_inner().values.is_empty());
//! drop(client);
//! drop(stop);
//! server.await??;
//! # Ok(())
//! # }
//! ```
//!
//! Layout: `api` (messages and calls, from the schema), `server` (who may call, how it ends), `service` (the calls), `clerk` (the one thread
//! that changes things, and makes them durable), `ledger` (what the calls do), `crawls` and `queue` (what is in memory), `keys`, `stage` and
//! `sweep` (the store), `client` (calling such a server).

pub mod api;
mod clerk;
mod client;
mod crawls;
mod error;
mod keys;
mod ledger;
mod queue;
mod server;
mod service;
mod stage;
mod sweep;

pub use clerk::Found;
pub use client::{Bearer, Client, ServerAddress};
pub use error::FrontierError;
pub use server::{ServerOptions, serve};
pub use service::{Level, LogLevels};
