//! Crawls of a graph that is known already: in which order, and by how many processes in which mode.
//! Nothing is fetched; a step is a page.

mod frontier;
mod modes;
mod order;
mod seeds;

pub use modes::{Mode, ModeResult, ModeSettings, replay_modes};
pub use order::{CHECKPOINTS, OrderResult, Orders, replay_orders};
pub use seeds::{draw_seeds, draw_seeds_of_parts};
