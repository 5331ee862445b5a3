//! What the nodes of a fleet decide, without IO: events go in, actions come out.

mod assignment;

pub use assignment::{Assignment, Holder, Moving, Share};
