//! A frontier for other people's crawlers: the URLFrontier API 2.6 of crawler-commons, over gRPC, with a store that survives what kills it.
//! And the way to such a frontier, for our own crawler.
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
