//! A certificate of our own making for all hosts of the Web, and the rustls settings around it.

use rcgen::{CertificateParams, KeyPair};
use std::net::IpAddr;
use std::sync::Arc;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};

/// An acceptor and its certificate as PEM, for clients to trust.
pub(crate) fn self_signed(suffix: &str, ips: &[IpAddr]) -> Result<(TlsAcceptor, String), String> {
    let mut names = vec![
        format!("*.{suffix}"),
        suffix.to_owned(),
        "localhost".to_owned(),
    ];
    names.extend(ips.iter().map(IpAddr::to_string));
    let key = KeyPair::generate().map_err(|e| e.to_string())?;
    let params = CertificateParams::new(names).map_err(|e| e.to_string())?;
    let certificate = params.self_signed(&key).map_err(|e| e.to_string())?;
    let secret = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
    let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|e| e.to_string())?
        .with_no_client_auth()
        .with_single_cert(vec![certificate.der().clone()], secret)
        .map_err(|e| e.to_string())?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok((TlsAcceptor::from(Arc::new(config)), certificate.pem()))
}
