//! portolan-registry
