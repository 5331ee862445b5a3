//! portolan-crawl
