//! TLS: whom we trust, what we offer, and what a server's certificate was worth.

use crate::http::HttpSettings;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{
    CertificateError, ClientConfig, ClientConnection, DigitallySignedStruct, OtherError,
    RootCertStore, SignatureScheme,
};
use std::sync::Arc;
use thiserror::Error;

/// What a server's certificate was worth.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Certificate {
    /// Plain HTTP.
    None,
    Valid,
    /// Accepted because a setting says so; what was wrong with it.
    Invalid(String),
}

/// Why a server's certificate is not accepted, as far as a person can do something about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BadCertificate {
    /// Its time is over, or has not come.
    Expired,
    /// Whom it is for is who signed it.
    SelfSigned,
    /// No chain of signatures leads to anybody who is trusted. Often the server leaves out a certificate between.
    UnknownIssuer,
    /// It is good, but for other hosts.
    WrongHost,
}

impl BadCertificate {
    /// What a failed handshake says of the certificate; `None` if it failed for another reason.
    pub(crate) fn of(error: &std::io::Error) -> Option<Self> {
        let error = error.get_ref()?.downcast_ref::<rustls::Error>()?;
        let rustls::Error::InvalidCertificate(fault) = error else {
            return None;
        };
        match fault {
            CertificateError::Expired
            | CertificateError::ExpiredContext { .. }
            | CertificateError::NotValidYet
            | CertificateError::NotValidYetContext { .. } => Some(BadCertificate::Expired),
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
                Some(BadCertificate::WrongHost)
            }
            CertificateError::UnknownIssuer => Some(BadCertificate::UnknownIssuer),
            CertificateError::Other(OtherError(other)) => other
                .is::<SelfSigned>()
                .then_some(BadCertificate::SelfSigned),
            _ => None,
        }
    }
}

/// A setting that the client cannot be built from.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{0}")]
pub struct SetupError(String);

impl SetupError {
    pub(crate) fn new(sentence: &str) -> Self {
        Self(sentence.to_owned())
    }
}

pub(crate) struct Tls {
    pub(crate) config: Arc<ClientConfig>,
    /// The same for proxies, which are not asked for HTTP/2.
    pub(crate) for_proxies: Arc<ClientConfig>,
    verifier: Arc<WebPkiServerVerifier>,
    accept_invalid: bool,
}

impl Tls {
    pub(crate) fn new(settings: &HttpSettings) -> Result<Self, SetupError> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let roots = Arc::new(trusted_roots(settings)?);
        let verifier = WebPkiServerVerifier::builder_with_provider(roots, provider.clone())
            .build()
            .map_err(|error| SetupError(format!("no certificate can be verified: {error}")))?;
        let builder = ClientConfig::builder_with_provider(provider.clone())
            .with_safe_default_protocol_versions()
            .map_err(|error| SetupError(format!("TLS is not available: {error}")))?;
        let mut config = if settings.accept_invalid_certificates {
            builder
                .dangerous()
                .with_custom_certificate_verifier(Arc::new(AcceptAny { provider }))
                .with_no_client_auth()
        } else {
            let webpki = verifier.clone();
            builder
                .dangerous()
                .with_custom_certificate_verifier(Arc::new(TellSelfSigned { webpki }))
                .with_no_client_auth()
        };
        config.alpn_protocols = if settings.http2 {
            vec![b"h2".to_vec(), b"http/1.1".to_vec()]
        } else {
            vec![b"http/1.1".to_vec()]
        };
        let mut for_proxies = config.clone();
        for_proxies.alpn_protocols.clear();
        Ok(Self {
            config: Arc::new(config),
            for_proxies: Arc::new(for_proxies),
            verifier,
            accept_invalid: settings.accept_invalid_certificates,
        })
    }

    /// What the certificate of a finished handshake was worth.
    pub(crate) fn judge(&self, session: &ClientConnection, name: &ServerName<'_>) -> Certificate {
        if !self.accept_invalid {
            return Certificate::Valid;
        }
        let Some((server, chain)) = session.peer_certificates().and_then(<[_]>::split_first) else {
            return Certificate::Invalid("the server sent none".to_owned());
        };
        let verified = self
            .verifier
            .verify_server_cert(server, chain, name, &[], UnixTime::now());
        match verified {
            Ok(_) => Certificate::Valid,
            Err(error) => Certificate::Invalid(error.to_string()),
        }
    }
}

fn trusted_roots(settings: &HttpSettings) -> Result<RootCertStore, SetupError> {
    let mut roots = RootCertStore {
        roots: webpki_roots::TLS_SERVER_ROOTS.to_vec(),
    };
    let path = &settings.ca_file;
    if path.as_os_str().is_empty() {
        return Ok(roots);
    }
    let bad = |error: String| {
        SetupError(format!(
            "ca_file {}: {error}; it must hold certificates in PEM form",
            path.display()
        ))
    };
    let mut added = 0;
    for certificate in CertificateDer::pem_file_iter(path).map_err(|e| bad(e.to_string()))? {
        let certificate = certificate.map_err(|e| bad(e.to_string()))?;
        roots.add(certificate).map_err(|e| bad(e.to_string()))?;
        added += 1;
    }
    if added == 0 {
        return Err(bad("no certificate in it".to_owned()));
    }
    Ok(roots)
}

/// What the usual verification says, but that a certificate without a known issuer may have none because it is signed by
/// itself. Nothing is accepted that would not be accepted without this.
#[derive(Debug)]
struct TellSelfSigned {
    webpki: Arc<WebPkiServerVerifier>,
}

#[derive(Debug, Error)]
#[error("it is self-signed")]
struct SelfSigned;

impl ServerCertVerifier for TellSelfSigned {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let verified = self.webpki.verify_server_cert(
            end_entity,
            intermediates,
            server_name,
            ocsp_response,
            now,
        );
        match verified {
            Err(rustls::Error::InvalidCertificate(CertificateError::UnknownIssuer))
                if is_self_signed(end_entity) =>
            {
                let fault = CertificateError::Other(OtherError(Arc::new(SelfSigned)));
                Err(rustls::Error::InvalidCertificate(fault))
            }
            verified => verified,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.webpki.verify_tls12_signature(message, cert, dss)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.webpki.verify_tls13_signature(message, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.webpki.supported_verify_schemes()
    }
}

fn is_self_signed(certificate: &CertificateDer<'_>) -> bool {
    webpki::EndEntityCert::try_from(certificate).is_ok_and(|cert| cert.issuer() == cert.subject())
}

/// Takes every certificate, as a person does who clicks "proceed". The handshake's own signature
/// must still be right: the server holds the key of the certificate that it shows.
#[derive(Debug)]
struct AcceptAny {
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for AcceptAny {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        forgive_certificate(rustls::crypto::verify_tls12_signature(
            message, cert, dss, algorithms,
        ))
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        forgive_certificate(rustls::crypto::verify_tls13_signature(
            message, cert, dss, algorithms,
        ))
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider
            .signature_verification_algorithms
            .supported_schemes()
    }
}

/// A certificate that cannot even be read (version 1, say) is one more way to be invalid; a wrong
/// signature is not.
fn forgive_certificate(
    verified: Result<HandshakeSignatureValid, rustls::Error>,
) -> Result<HandshakeSignatureValid, rustls::Error> {
    match verified {
        Err(rustls::Error::InvalidCertificate(error))
            if error != CertificateError::BadSignature =>
        {
            Ok(HandshakeSignatureValid::assertion())
        }
        other => other,
    }
}
