//! Robots, sitemaps, feeds and MIME types judged by conformance data that others wrote.

mod data;
mod feeds;
mod mime_types;
mod real_robots;
mod robots;
mod sitemaps;
