//! portolan-simweb
