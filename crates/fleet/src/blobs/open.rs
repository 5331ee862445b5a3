//! Which store a place names.

use crate::error::FleetError;
use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey};
use object_store::client::{HttpClient, HttpConnector};
use object_store::local::LocalFileSystem;
use object_store::path::Path;
use object_store::prefix::PrefixStore;
use object_store::{ClientOptions, ObjectStore, RetryConfig};
use rustls::RootCertStore;
use std::net::IpAddr;
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
    let endpoint = endpoint(variables);
    let mut builder = AmazonS3Builder::new()
        .with_bucket_name(bucket)
        .with_retry(once)
        .with_unsigned_payload(endpoint.is_none_or(|url| is_private_way(&url)))
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

/// Where the store is, if that is said. The one for S3 alone comes first.
fn endpoint(variables: &[(String, String)]) -> Option<String> {
    let named = |wanted: &str| {
        let mut all = variables.iter();
        let found = all.find(|(name, _)| name.eq_ignore_ascii_case(wanted));
        found.map(|(_, value)| value.clone())
    };
    let names = ["AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT"];
    names.into_iter().find_map(named)
}

/// Can nobody change a body on its way there? Then signatures need not cover bodies: a digest of all that is shipped would be
/// one of the larger costs of a page.
fn is_private_way(url: &str) -> bool {
    let Some(rest) = url.strip_prefix("http://") else {
        return true;
    };
    let host = rest.split('/').next().unwrap_or(rest);
    let host = host.rsplit_once(':').map_or(host, |(host, _)| host);
    let host = host.trim_start_matches('[').trim_end_matches(']');
    host == "localhost"
        || host
            .parse::<IpAddr>()
            .is_ok_and(|address| address.is_loopback())
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bodies_are_signed_where_others_could_change_them() {
        for safe in [
            "https://s3.example.org",
            "http://127.0.0.1:9000",
            "http://localhost:9000/",
            "http://[::1]:9000",
        ] {
            assert!(is_private_way(safe), "{safe}");
        }
        for open in [
            "http://10.0.0.7:9000",
            "http://store.lan",
            "http://127.0.0.1.lan:80",
        ] {
            assert!(!is_private_way(open), "{open}");
        }
    }
}
