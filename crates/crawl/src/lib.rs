//! portolan-crawl

pub mod scope;
