//! portolan-content
