//! portolan-net
