//! Certificates for a fleet's servers and nodes: an authority of its own in a directory, and a certificate for each name.

use crate::error::FleetError;
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// A name that all certificates have besides their own: the servers map it to the fleet's user.
pub const USER: &str = "portolan-node";

const AUTHORITY: &str = "Portolan fleet authority";

/// What was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Written {
    pub ca: PathBuf,
    /// Was the authority made just now? Otherwise it was there.
    pub new_authority: bool,
    /// Certificate and key of each name.
    pub certificates: Vec<(PathBuf, PathBuf)>,
}

/// Writes `NAME.pem` and `NAME-key.pem` for each name, a host's name or address, into `dir`, signed by `ca.pem` there; that is
/// made where it is missing. Names that have a certificate already are refused.
pub fn write_certificates(dir: &Path, names: &[String]) -> Result<Written, FleetError> {
    std::fs::create_dir_all(dir).map_err(|error| wrong(dir, &error))?;
    let (ca, ca_key) = (dir.join("ca.pem"), dir.join("ca-key.pem"));
    let new_authority = !ca.exists() && !ca_key.exists();
    let key = match new_authority {
        true => make_authority(&ca, &ca_key)?,
        false => read_key(&ca, &ca_key)?,
    };
    let issuer = Issuer::new(authority(), key);
    let mut certificates = Vec::new();
    for name in names {
        let good = |byte: u8| byte.is_ascii_alphanumeric() || b".-:".contains(&byte);
        if name.is_empty()
            || name == "ca"
            || name.starts_with(['-', '.'])
            || !name.bytes().all(good)
        {
            return Err(FleetError::Certificates(format!(
                "'{name}' is no host's name or address"
            )));
        }
        let (path, key_path) = (
            dir.join(format!("{name}.pem")),
            dir.join(format!("{name}-key.pem")),
        );
        let key = KeyPair::generate().map_err(|error| wrong(&key_path, &error))?;
        let params = params(name).map_err(|error| wrong(&path, &error))?;
        let certificate = params
            .signed_by(&key, &issuer)
            .map_err(|error| wrong(&path, &error))?;
        write(&key_path, &key.serialize_pem(), 0o600)?;
        write(&path, &certificate.pem(), 0o644)?;
        certificates.push((path, key_path));
    }
    Ok(Written {
        ca,
        new_authority,
        certificates,
    })
}

/// The authority as it stands in the certificates that it signs: the same each time.
fn authority() -> CertificateParams {
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    params
        .distinguished_name
        .push(DnType::CommonName, AUTHORITY);
    params
}

fn params(name: &str) -> Result<CertificateParams, rcgen::Error> {
    let mut params = CertificateParams::new(vec![name.to_owned(), USER.to_owned()])?;
    params.distinguished_name.push(DnType::CommonName, name);
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![
        ExtendedKeyUsagePurpose::ServerAuth,
        ExtendedKeyUsagePurpose::ClientAuth,
    ];
    params.use_authority_key_identifier_extension = true;
    Ok(params)
}

fn make_authority(ca: &Path, ca_key: &Path) -> Result<KeyPair, FleetError> {
    let key = KeyPair::generate().map_err(|error| wrong(ca_key, &error))?;
    let certificate = authority()
        .self_signed(&key)
        .map_err(|error| wrong(ca, &error))?;
    write(ca_key, &key.serialize_pem(), 0o600)?;
    write(ca, &certificate.pem(), 0o644)?;
    Ok(key)
}

fn read_key(ca: &Path, ca_key: &Path) -> Result<KeyPair, FleetError> {
    if !ca.exists() {
        return Err(wrong(ca, &"it is missing, and its key is there"));
    }
    let pem = std::fs::read_to_string(ca_key).map_err(|error| wrong(ca_key, &error))?;
    KeyPair::from_pem(&pem).map_err(|error| wrong(ca_key, &error))
}

/// Only what is not there yet.
fn write(path: &Path, text: &str, mode: u32) -> Result<(), FleetError> {
    let mut options = std::fs::OpenOptions::new();
    let mut file = options
        .write(true)
        .create_new(true)
        .mode(mode)
        .open(path)
        .map_err(|error| wrong(path, &error))?;
    file.write_all(text.as_bytes())
        .and_then(|()| file.sync_all())
        .map_err(|error| wrong(path, &error))
}

fn wrong(path: &Path, why: &dyn std::fmt::Display) -> FleetError {
    FleetError::Certificates(format!("{}: {why}", path.display()))
}
