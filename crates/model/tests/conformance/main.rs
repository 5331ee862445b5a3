//! Canonical URLs and registrable domains against data written by others.

mod comparison;
mod crawlers;
mod wpt;
