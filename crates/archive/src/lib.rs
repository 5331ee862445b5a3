//! portolan-archive
