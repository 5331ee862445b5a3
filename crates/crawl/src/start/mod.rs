//! Starting a crawl, in three steps that each consume the one before. [`Checked`]: everything that a person can get
//! wrong is found. [`Books`]: everything on disk is made, opened or recovered. Then the threads begin, and there is a
//! [`Crawl`](crate::Crawl).

mod books;
mod checked;
mod seeds;
mod threads;

pub(crate) use books::{Books, is_address};
pub(crate) use checked::{Checked, check_for_nodes};
pub(crate) use seeds::{check_ports, parse_seeds};
