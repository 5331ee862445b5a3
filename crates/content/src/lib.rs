//! Bytes to facts: what a document says, without any IO.
//!
//! # Layout
//!
//! - [`charset`]: which charset a page is in, and its pieces as UTF-8
//! - [`html`]: the streaming link scanner

pub mod charset;
pub mod html;
