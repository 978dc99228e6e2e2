//! Connections with TLS, and the name of an installation.

use super::double::{Double, get, set, space};
use porpoise_kv::{Engine, Error};
use porpoise_kv_tikv::{KvTikv, KvTikvOptions, TlsOptions};
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use std::sync::Arc;
use std::time::Duration;

/// An authority and a certificate for 127.0.0.1 that it signed, in PEM: authority, certificate, key.
fn certificates() -> [String; 3] {
    let mut authority = CertificateParams::new(Vec::new()).unwrap();
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority_key = KeyPair::generate().unwrap();
    let own = authority.self_signed(&authority_key).unwrap();
    let issuer = Issuer::from_params(&authority, &authority_key);
    let key = KeyPair::generate().unwrap();
    let params = CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap();
    let certificate = params.signed_by(&key, &issuer).unwrap();
    [own.pem(), certificate.pem(), key.serialize_pem()]
}

fn refused(options: KvTikvOptions) -> String {
    match KvTikv::connect(options) {
        Err(Error::Unavailable(why)) => why,
        Err(other) => panic!("{other:?}"),
        Ok(_) => panic!("connected"),
    }
}

#[test]
fn connections_are_encrypted_and_both_sides_are_verified() {
    let directory = tempfile::tempdir().unwrap();
    let pems = certificates();
    let files = ["ca.pem", "cert.pem", "key.pem"].map(|name| directory.path().join(name));
    for (file, pem) in files.iter().zip(&pems) {
        std::fs::write(file, pem).unwrap();
    }
    let [ca, cert, key] = files.each_ref().map(|file| file.to_str().unwrap());
    let cluster = Double::with_arguments(1, 2, &["-ca", ca, "-cert", cert, "-key", key]);
    let [authority, certificate, private] = pems.map(String::into_bytes);
    let with = |authority: &[u8], identity: Option<(&[u8], &[u8])>| KvTikvOptions {
        connect_timeout: Duration::from_millis(700),
        tls: Some(TlsOptions {
            authority: authority.to_vec(),
            identity: identity.map(|(c, k)| (c.to_vec(), k.to_vec())),
        }),
        ..cluster.options()
    };
    let identity = Some((&certificate[..], &private[..]));
    let options = KvTikvOptions {
        connect_timeout: Duration::from_secs(20),
        ..with(&authority, identity)
    };
    let server: Arc<dyn Engine> = Arc::new(KvTikv::connect(options).unwrap());
    let space = space(&server);
    set(&server, space, &[("k", "v")]);
    assert_eq!(get(&server, space, "k").as_deref(), Some("v"));
    // Without a certificate of its own, with another authority, and without TLS.
    refused(with(&authority, None));
    let [stranger, ..] = certificates();
    let why = refused(with(stranger.as_bytes(), identity));
    assert!(why.contains("127.0.0.1"), "{why}");
    refused(KvTikvOptions {
        tls: None,
        ..with(&authority, identity)
    });
    let why = refused(with(b"no certificate", identity));
    assert!(why.contains("certificate"), "{why}");
}

#[test]
fn a_server_of_another_installation_is_refused() {
    let cluster = Double::start();
    let named = |name: Option<&str>| KvTikvOptions {
        name: name.map(str::to_owned),
        ..cluster.options()
    };
    drop(KvTikv::connect(named(None)).unwrap());
    drop(KvTikv::connect(named(Some("shop"))).unwrap());
    drop(KvTikv::connect(named(Some("shop"))).unwrap());
    for other in [Some("forum"), None] {
        let why = refused(named(other));
        assert!(why.contains("\"shop\""), "{why}");
    }
    let elsewhere = KvTikvOptions {
        tenant: 1,
        ..named(Some("forum"))
    };
    assert!(KvTikv::connect(elsewhere).is_ok());
}
