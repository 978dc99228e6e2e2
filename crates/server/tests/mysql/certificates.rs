//! Certificates of tests: authorities, certificates of clients, and the TLS configuration of a
//! client that takes any certificate of the server.

use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, IsCa, Issuer, KeyPair,
};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, Error, SignatureScheme};
use std::sync::Arc;

/// A certificate and its key (DER), kept to the end of the test program.
pub type Pair = &'static [Vec<u8>; 2];

fn subject(attributes: &[(DnType, &str)]) -> CertificateParams {
    let mut params = CertificateParams::new(Vec::<String>::new()).unwrap();
    params.distinguished_name = DistinguishedName::new();
    for (kind, value) in attributes {
        params.distinguished_name.push(kind.clone(), *value);
    }
    params
}

/// A certificate authority.
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    /// Its own certificate.
    pub pem: String,
}

impl Authority {
    /// An authority of this common name.
    pub fn new(name: &str) -> Authority {
        let mut params = subject(&[(DnType::CommonName, name)]);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let pem = params.self_signed(&key).unwrap().pem();
        let issuer = Issuer::new(params, key);
        Authority { issuer, pem }
    }

    /// A certificate of a client with these attributes.
    pub fn certify(&self, attributes: &[(DnType, &str)]) -> Pair {
        let key = KeyPair::generate().unwrap();
        let made = subject(attributes).signed_by(&key, &self.issuer).unwrap();
        Box::leak(Box::new([made.der().to_vec(), key.serialize_der()]))
    }

    /// A certificate of a client with this common name.
    pub fn client(&self, name: &str) -> Pair {
        self.certify(&[(DnType::CommonName, name)])
    }
}

/// A verifier that accepts the certificate that the server made for itself.
#[derive(Debug)]
struct AnyCertificate(Arc<rustls::crypto::CryptoProvider>);

impl ServerCertVerifier for AnyCertificate {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

/// The TLS configuration of a client, with its certificate if it has one.
pub fn client_config(certificate: Option<Pair>) -> Arc<ClientConfig> {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ClientConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .unwrap()
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(AnyCertificate(provider)));
    Arc::new(match certificate.cloned() {
        None => config.with_no_client_auth(),
        Some([certificate, key]) => {
            let key = PrivatePkcs8KeyDer::from(key);
            config
                .with_client_auth_cert(vec![certificate.into()], key.into())
                .unwrap()
        }
    })
}
