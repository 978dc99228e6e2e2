//! TLS of clients: what is verified, and with which certificates.

use crate::error::{Error, Result};
use crate::stream::{Address, Stream};
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{
    CertificateError, ClientConfig, ClientConnection, DigitallySignedStruct, RootCertStore,
    SignatureScheme,
};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Use of TLS, with the words of MySQL's `--ssl-mode`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TlsMode {
    /// Never.
    Disabled,
    /// If the server offers it; its certificate is not verified.
    #[default]
    Preferred,
    /// Always; the certificate is not verified.
    Required,
    /// Always; an authority of the file must have signed the certificate.
    VerifyCa,
    /// Like `VerifyCa`, and the certificate must name the host.
    VerifyIdentity,
}

/// TLS settings of a connection.
#[derive(Clone, Debug, Default)]
pub struct TlsOptions {
    /// Use of TLS.
    pub mode: TlsMode,
    /// File with the certificates of authorities (PEM).
    pub authorities: Option<PathBuf>,
    /// Files of the client's own certificate chain and key (PEM).
    pub identity: Option<(PathBuf, PathBuf)>,
}

impl TlsOptions {
    /// Wraps a stream into TLS and runs the handshake.
    ///
    /// # Errors
    /// Files that cannot be read, or a certificate that is refused.
    pub fn wrap(&self, stream: Stream, address: &Address) -> Result<Stream> {
        let mut session = ClientConnection::new(self.config()?, server_name(address)?)
            .map_err(|error| Error::Tls(error.to_string()))?;
        let mut stream = stream;
        while session.is_handshaking() {
            session
                .complete_io(&mut stream)
                .map_err(|error| Error::Tls(format!("handshake failed: {error}")))?;
        }
        Ok(stream.into_tls(session))
    }

    /// The configuration of rustls.
    ///
    /// # Errors
    /// Files that cannot be read.
    pub fn config(&self) -> Result<Arc<ClientConfig>> {
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let builder = ClientConfig::builder_with_provider(provider.clone())
            .with_safe_default_protocol_versions()
            .map_err(|error| Error::Tls(error.to_string()))?
            .dangerous()
            .with_custom_certificate_verifier(self.verifier(provider)?);
        let config = match &self.identity {
            None => builder.with_no_client_auth(),
            Some((chain, key)) => builder
                .with_client_auth_cert(
                    certificates(chain)?,
                    PrivateKeyDer::from_pem_file(key).map_err(|error| unreadable(key, error))?,
                )
                .map_err(|error| Error::Tls(error.to_string()))?,
        };
        Ok(Arc::new(config))
    }

    fn verifier(&self, provider: Arc<CryptoProvider>) -> Result<Arc<dyn ServerCertVerifier>> {
        let verifies_identity = self.mode == TlsMode::VerifyIdentity;
        if !verifies_identity && self.mode != TlsMode::VerifyCa {
            return Ok(Arc::new(Verifier {
                provider,
                authorities: None,
            }));
        }
        let Some(path) = &self.authorities else {
            return Err(Error::Tls(
                "a file with the certificates of authorities is needed to verify the server's"
                    .into(),
            ));
        };
        let mut roots = RootCertStore::empty();
        for authority in certificates(path)? {
            roots
                .add(authority)
                .map_err(|error| unreadable(path, error))?;
        }
        let verifier =
            WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider.clone())
                .build()
                .map_err(|error| unreadable(path, error))?;
        if verifies_identity {
            return Ok(verifier);
        }
        Ok(Arc::new(Verifier {
            provider,
            authorities: Some(verifier),
        }))
    }
}

/// The name that the certificate of a server at this address must have, where it is verified.
///
/// # Errors
/// The host is not a name of a server.
pub fn server_name(address: &Address) -> Result<ServerName<'static>> {
    let host = match address {
        Address::Tcp(host, _) => host.as_str(),
        Address::Unix(_) => "localhost",
    };
    let name = ServerName::try_from(host.to_owned());
    name.map_err(|_| Error::Tls(format!("{host} is not a name of a server")))
}

fn unreadable(path: &Path, error: impl std::fmt::Display) -> Error {
    Error::Tls(format!("{}: {error}", path.display()))
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>> {
    let list = CertificateDer::pem_file_iter(path)
        .and_then(Iterator::collect::<std::result::Result<Vec<_>, _>>)
        .map_err(|error| unreadable(path, error))?;
    if list.is_empty() {
        return Err(unreadable(path, "no certificate in PEM form"));
    }
    Ok(list)
}

/// Verifies less than a browser does: nothing, or the authority but not the name.
#[derive(Debug)]
struct Verifier {
    provider: Arc<CryptoProvider>,
    authorities: Option<Arc<WebPkiServerVerifier>>,
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> std::result::Result<ServerCertVerified, rustls::Error> {
        use CertificateError::{NotValidForName, NotValidForNameContext};
        let Some(authorities) = &self.authorities else {
            return Ok(ServerCertVerified::assertion());
        };
        match authorities.verify_server_cert(certificate, intermediates, name, ocsp, now) {
            // The name is verified last.
            Err(rustls::Error::InvalidCertificate(
                NotValidForName | NotValidForNameContext { .. },
            )) => Ok(ServerCertVerified::assertion()),
            other => other,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> std::result::Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signature, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> std::result::Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider
            .signature_verification_algorithms
            .supported_schemes()
    }
}
