//! The messages and calls of the API, made by the build from `schema/urlfrontier.proto`.

#![allow(missing_docs, clippy::pedantic, clippy::allow_attributes)]

tonic::include_proto!("urlfrontier");
