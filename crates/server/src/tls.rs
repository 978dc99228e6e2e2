//! The TLS certificate: the operator's own, or one generated at the first start.
//!
//! A certificate generated here is self-signed, names this machine, and is stored in
//! the data directory, its key readable only by the owner. It encrypts connections;
//! clients that verify certificates need one from the operator.
//!
//! With `--ssl-ca`, client certificates are optional: the handshake fails for a certificate that no
//! authority of that file has signed, and succeeds without a certificate. The REQUIRE clause of an
//! account decides whether its clients need one.

use crate::config::{Config, StartError};
use arc_swap::ArcSwap;
use porpoise_base::clock::{self, Clock};
use porpoise_wire::mysql::auth::RsaKey;
use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::server::{ClientHello, ResolvesServerCert, WebPkiClientVerifier};
use rustls::sign::CertifiedKey;
use rustls::time_provider::TimeProvider;
use rustls::{
    DigitallySignedStruct, DistinguishedName, RootCertStore, ServerConfig, SignatureScheme,
};
use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// Names of the files in the data directory.
const CERT: &str = "server-cert.pem";
const KEY: &str = "server-key.pem";
const PASSWORD_KEY: &str = "password-key.der";

/// The TLS configuration of all listeners.
pub fn server_config(config: &Config) -> Result<Arc<ServerConfig>, StartError> {
    Ok(Certificates::open(config)?.server_config().clone())
}

/// A certificate with its key, and the verifier of client certificates.
pub struct CertificateSet {
    own: Arc<CertifiedKey>,
    clients: Option<Arc<dyn ClientCertVerifier>>,
}

/// The certificates in use. A reload replaces them for later handshakes.
pub struct Certificates {
    server: Arc<ServerConfig>,
    own: Arc<OwnCertificate>,
    clients: Option<Arc<ClientVerifier>>,
}

/// The current certificate.
#[derive(Debug)]
struct OwnCertificate(ArcSwap<CertifiedKey>);

impl ResolvesServerCert for OwnCertificate {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.0.load_full())
    }
}

/// The current verifier of client certificates.
#[derive(Debug)]
struct ClientVerifier(ArcSwap<Arc<dyn ClientCertVerifier>>);

impl ClientCertVerifier for ClientVerifier {
    fn offer_client_auth(&self) -> bool {
        true
    }

    fn client_auth_mandatory(&self) -> bool {
        false
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        // Hints borrowed from the present verifier could not outlive a reload. Without hints a
        // client sends any certificate that it has.
        &[]
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        let present = self.0.load();
        present.verify_client_cert(end_entity, intermediates, now)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.0
            .load()
            .verify_tls12_signature(message, cert, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.0
            .load()
            .verify_tls13_signature(message, cert, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.load().supported_verify_schemes()
    }
}

impl Certificates {
    /// Reads the certificates.
    ///
    /// # Errors
    /// Files that cannot be read or do not belong together.
    pub fn open(config: &Config) -> Result<Arc<Certificates>, StartError> {
        let set = read_set(config)?;
        let own = Arc::new(OwnCertificate(ArcSwap::new(set.own)));
        let clients = set.clients.map(|verifier| {
            let swap = ArcSwap::from_pointee(verifier);
            Arc::new(ClientVerifier(swap))
        });
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let time = Arc::new(WallTime(clock::system()));
        let builder = ServerConfig::builder_with_details(provider, time)
            .with_safe_default_protocol_versions()
            .map_err(|e| StartError::usage(format!("TLS: {e}")))?;
        let builder = match &clients {
            Some(verifier) => builder.with_client_cert_verifier(verifier.clone()),
            None => builder.with_no_client_auth(),
        };
        let server = Arc::new(builder.with_cert_resolver(own.clone()));
        Ok(Arc::new(Certificates {
            server,
            own,
            clients,
        }))
    }

    /// The configuration for handshakes.
    pub fn server_config(&self) -> &Arc<ServerConfig> {
        &self.server
    }

    /// Reads the certificates of a configuration, without using them yet.
    ///
    /// # Errors
    /// As [`Certificates::open`]; client certificates cannot be switched on or off.
    pub fn read_again(&self, config: &Config) -> Result<CertificateSet, StartError> {
        let set = read_set(config)?;
        if set.clients.is_some() != self.clients.is_some() {
            let text = "ssl_ca can be set or removed only by a restart";
            return Err(StartError::usage(text));
        }
        Ok(set)
    }

    /// Uses these certificates from now on.
    pub fn replace(&self, set: CertificateSet) {
        self.own.0.store(set.own);
        if let (Some(mine), Some(verifier)) = (&self.clients, set.clients) {
            mine.0.store(Arc::new(verifier));
        }
    }
}

fn read_set(config: &Config) -> Result<CertificateSet, StartError> {
    let (cert, key) = match (&config.tls_cert, &config.tls_key) {
        (Some(cert), Some(key)) => (cert.clone(), key.clone()),
        _ => own_files(&config.data_dir)?,
    };
    let bad = |path: &Path, what: String| StartError::usage(format!("{}: {what}", path.display()));
    let chain = CertificateDer::pem_file_iter(&cert)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(|e| bad(&cert, format!("no certificate in PEM form: {e}")))?;
    let private = PrivateKeyDer::from_pem_file(&key)
        .map_err(|e| bad(&key, format!("no private key in PEM form: {e}")))?;
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let own =
        CertifiedKey::from_der(chain, private, &provider).map_err(|e| bad(&cert, e.to_string()))?;
    let clients = match &config.ssl_ca {
        Some(path) => Some(client_verifier(path, provider)?),
        None => None,
    };
    Ok(CertificateSet {
        own: Arc::new(own),
        clients,
    })
}

/// Current time for the TLS library, whose own time source panics before 1970.
struct WallTime(Arc<dyn Clock>);

impl std::fmt::Debug for WallTime {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("WallTime")
    }
}

impl TimeProvider for WallTime {
    fn current_time(&self) -> Option<UnixTime> {
        let micros = u64::try_from(self.0.unix_micros()).unwrap_or(0);
        Some(UnixTime::since_unix_epoch(Duration::from_micros(micros)))
    }
}

/// Creates the verifier of client certificates.
fn client_verifier(
    path: &Path,
    provider: Arc<CryptoProvider>,
) -> Result<Arc<dyn ClientCertVerifier>, StartError> {
    let bad = |what: String| StartError::usage(format!("{}: {what}", path.display()));
    let list = CertificateDer::pem_file_iter(path)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(|e| bad(format!("no certificate in PEM form: {e}")))?;
    let mut roots = RootCertStore::empty();
    for authority in list {
        roots.add(authority).map_err(|e| bad(e.to_string()))?;
    }
    WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider)
        .allow_unauthenticated()
        .build()
        .map_err(|e| bad(e.to_string()))
}

/// Returns the paths of certificate and key in the data directory; generates both unless both
/// exist.
fn own_files(dir: &Path) -> Result<(PathBuf, PathBuf), StartError> {
    let (cert, key) = (dir.join(CERT), dir.join(KEY));
    if cert.exists() && key.exists() {
        return Ok((cert, key));
    }
    let failed = |what: &dyn std::fmt::Display| {
        StartError::failure(format!(
            "cannot make a certificate in {}: {what}",
            dir.display()
        ))
    };
    let mut names = vec![
        "localhost".to_owned(),
        "127.0.0.1".to_owned(),
        "::1".to_owned(),
    ];
    names.extend(host_name());
    let made = rcgen::generate_simple_self_signed(names).map_err(|e| failed(&e))?;
    let private = made.signing_key.serialize_pem();
    write(&key, private.as_bytes(), 0o600).map_err(|e| failed(&e))?;
    write(&cert, made.cert.pem().as_bytes(), 0o644).map_err(|e| failed(&e))?;
    Ok((cert, key))
}

/// The RSA key with which clients without TLS encrypt their passwords: stored in the data
/// directory, generated at first start.
///
/// # Errors
/// A file that cannot be read or written, or holds no key.
pub fn password_key(config: &Config) -> Result<RsaKey, StartError> {
    let path = config.data_dir.join(PASSWORD_KEY);
    let failed = |what: String| StartError::failure(format!("{}: {what}", path.display()));
    if !path.exists() {
        let generated = RsaKey::generate_pkcs8();
        let generated = generated.ok_or_else(|| failed("no RSA key could be made".to_owned()))?;
        write(&path, &generated, 0o600).map_err(|e| failed(e.to_string()))?;
    }
    let der = std::fs::read(&path).map_err(|e| failed(e.to_string()))?;
    RsaKey::from_pkcs8(&der).ok_or_else(|| failed("no RSA key in PKCS#8 form".to_owned()))
}

/// This machine's name, if it is valid in a certificate.
fn host_name() -> Option<String> {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").ok()?;
    let name = name.trim();
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '.';
    (!name.is_empty() && name != "localhost" && name.chars().all(plain)).then(|| name.to_owned())
}

/// Writes a file atomically.
fn write(path: &Path, bytes: &[u8], mode: u32) -> std::io::Result<()> {
    let unfinished = path.with_extension("tmp");
    let _ = std::fs::remove_file(&unfinished);
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(mode)
        .open(&unfinished)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    std::fs::rename(&unfinished, path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::table;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_certificate_is_made_once_and_its_key_is_private() {
        let dir = tempfile::tempdir().unwrap();
        let mut config = table::defaults();
        config.data_dir = dir.path().to_owned();
        server_config(&config).unwrap();
        let key = dir.path().join(KEY);
        let mode = std::fs::metadata(&key).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let before = std::fs::read(&key).unwrap();
        server_config(&config).unwrap();
        assert_eq!(std::fs::read(&key).unwrap(), before);
    }

    #[test]
    fn a_clock_before_1970_has_a_time_for_tls() {
        struct Early;
        impl Clock for Early {
            fn unix_micros(&self) -> i64 {
                -5_000_000
            }
            fn now(&self) -> std::time::Instant {
                std::time::Instant::now()
            }
        }
        let time = WallTime(Arc::new(Early)).current_time();
        assert_eq!(time.map(|t| t.as_secs()), Some(0));
    }

    #[test]
    fn the_password_key_is_made_once() {
        let dir = tempfile::tempdir().unwrap();
        let mut config = table::defaults();
        config.data_dir = dir.path().to_owned();
        let made = password_key(&config).unwrap();
        let read = password_key(&config).unwrap();
        assert_eq!(made.public_pem(), read.public_pem());
        std::fs::write(dir.path().join(PASSWORD_KEY), "nothing").unwrap();
        let error = password_key(&config).unwrap_err();
        assert!(error.message.contains(PASSWORD_KEY), "{error}");
    }

    #[test]
    fn a_bad_certificate_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let bad = dir.path().join("bad.pem");
        std::fs::write(&bad, "nothing").unwrap();
        let mut config = table::defaults();
        config.data_dir = dir.path().to_owned();
        config.tls_cert = Some(bad.clone());
        config.tls_key = Some(bad.clone());
        let error = server_config(&config).unwrap_err();
        assert!(
            error.message.starts_with(&bad.display().to_string()),
            "{error}"
        );
    }
}
