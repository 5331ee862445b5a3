//! Which store a place names.

use crate::error::FleetError;
use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey};
use object_store::client::{HttpClient, HttpConnector};
use object_store::local::LocalFileSystem;
use object_store::path::Path;
use object_store::prefix::PrefixStore;
use object_store::{ClientOptions, ObjectStore, RetryConfig};
use rustls::RootCertStore;
use std::sync::Arc;
use std::time::Duration;

pub(super) fn store(
    place: &str,
    variables: Vec<(String, String)>,
) -> Result<Arc<dyn ObjectStore>, FleetError> {
    let bad = || FleetError::BadStore(place.to_owned());
    match place.split_once("://") {
        Some(("s3", rest)) => {
            let (bucket, prefix) = rest.split_once('/').unwrap_or((rest, ""));
            match bucket {
                "" => Err(bad()),
                _ => s3(place, bucket, prefix, &variables),
            }
        }
        Some(("file", path)) if path.starts_with('/') => directory(place, path),
        Some(_) => Err(bad()),
        None if place.is_empty() => Err(bad()),
        None => directory(place, place),
    }
}

fn directory(place: &str, path: &str) -> Result<Arc<dyn ObjectStore>, FleetError> {
    let not_writable = |why: String| FleetError::StoreNotWritable {
        store: place.to_owned(),
        why,
    };
    std::fs::create_dir_all(path).map_err(|error| not_writable(error.to_string()))?;
    let store = LocalFileSystem::new_with_prefix(path);
    let store = store.map_err(|error| not_writable(super::first_line(&error)))?;
    Ok(Arc::new(store.with_fsync(true)))
}

fn s3(
    place: &str,
    bucket: &str,
    prefix: &str,
    variables: &[(String, String)],
) -> Result<Arc<dyn ObjectStore>, FleetError> {
    let refused = |why: String| FleetError::StoreNotWritable {
        store: place.to_owned(),
        why,
    };
    // `Blobs` tries again itself, and says so.
    let once = RetryConfig {
        max_retries: 0,
        ..RetryConfig::default()
    };
    let mut builder = AmazonS3Builder::new()
        .with_bucket_name(bucket)
        .with_retry(once)
        .with_http_connector(Connector);
    for (name, value) in variables {
        // Variables of other programs are none of the store's.
        if let Ok(key) = name.to_ascii_lowercase().parse::<AmazonS3ConfigKey>() {
            builder = builder.with_config(key, value);
            if key == AmazonS3ConfigKey::Endpoint && value.starts_with("http://") {
                builder = builder.with_allow_http(true);
            }
        }
    }
    let store = builder
        .build()
        .map_err(|error| refused(super::first_line(&error)))?;
    let prefix = Path::parse(prefix.trim_matches('/'));
    let prefix = prefix.map_err(|_| FleetError::BadStore(place.to_owned()))?;
    Ok(match prefix.as_ref() {
        "" => Arc::new(store),
        _ => Arc::new(PrefixStore::new(store, prefix)),
    })
}

/// Makes HTTP clients that use the same cryptography as the rest of the program, and the machine's own authorities.
#[derive(Debug)]
struct Connector;

impl HttpConnector for Connector {
    fn connect(&self, _: &ClientOptions) -> object_store::Result<HttpClient> {
        let generic =
            |error: Box<dyn std::error::Error + Send + Sync>| object_store::Error::Generic {
                store: "S3",
                source: error,
            };
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let tls = rustls::ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| generic(error.into()))?
            .with_root_certificates(roots)
            .with_no_client_auth();
        let client = reqwest::Client::builder()
            .tls_backend_preconfigured(tls)
            .connect_timeout(Duration::from_secs(10))
            .read_timeout(Duration::from_secs(60))
            .build()
            .map_err(|error| generic(error.into()))?;
        Ok(HttpClient::new(client))
    }
}
