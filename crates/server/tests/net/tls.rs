//! A connection that switches to TLS.

use crate::harness::{Server, config, eventually};
use porpoise_kv::{CommitPosition, DurableListener};
use porpoise_server::config::table;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

type Encrypted = BufReader<StreamOwned<ClientConnection, TcpStream>>;

struct Setting {
    server: Server,
    client: Arc<ClientConfig>,
    _dir: tempfile::TempDir,
}

fn start() -> Setting {
    let dir = tempfile::tempdir().unwrap();
    let mut settings = table::defaults();
    settings.data_dir = dir.path().to_owned();
    let tls = porpoise_server::tls::server_config(&settings).unwrap();
    let mut roots = RootCertStore::empty();
    let cert = CertificateDer::from_pem_file(dir.path().join("server-cert.pem")).unwrap();
    roots.add(cert).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let client = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    Setting {
        server: Server::complete(config(), false, None, Some(tls)),
        client: Arc::new(client),
        _dir: dir,
    }
}

impl Setting {
    /// Connects, says something in the clear, and turns to TLS. The request
    /// and the first bytes of the handshake may arrive together.
    fn connect(&self) -> Encrypted {
        let mut stream = TcpStream::connect(self.server.address).unwrap();
        stream
            .set_read_timeout(Some(Duration::from_secs(10)))
            .unwrap();
        let name = ServerName::try_from("localhost").unwrap();
        let mut tls = ClientConnection::new(self.client.clone(), name).unwrap();
        let mut first = b"echo 1\ntls\n".to_vec();
        tls.write_tls(&mut first).unwrap();
        stream.write_all(&first).unwrap();
        let mut clear = [0; 2];
        stream.read_exact(&mut clear).unwrap();
        assert_eq!(&clear, b"1\n");
        BufReader::new(StreamOwned::new(tls, stream))
    }
}

fn ask(client: &mut Encrypted, line: &str) -> String {
    client
        .get_mut()
        .write_all(format!("{line}\n").as_bytes())
        .unwrap();
    line_of(client)
}

fn line_of(client: &mut Encrypted) -> String {
    let mut line = String::new();
    client.read_line(&mut line).unwrap();
    line.trim_end().to_owned()
}

#[test]
fn requests_and_replies_of_every_size_pass() {
    let setting = start();
    let mut client = setting.connect();
    for i in 0..100 {
        assert_eq!(ask(&mut client, &format!("echo {i}")), i.to_string());
    }
    assert_eq!(ask(&mut client, "big 5000000").len(), 5_000_000);
    assert_eq!(ask(&mut client, "stream 5000000").len(), 5_000_000);
    let pipeline: String = (0..20_000).map(|i| format!("echo {i}\n")).collect();
    client.get_mut().write_all(pipeline.as_bytes()).unwrap();
    for i in 0..20_000 {
        assert_eq!(line_of(&mut client), i.to_string());
    }
    client.get_mut().write_all(b"commit 5\necho 2\n").unwrap();
    std::thread::sleep(Duration::from_millis(50));
    setting.server.durability.durable(CommitPosition(5));
    assert_eq!(line_of(&mut client), "done 5");
    assert_eq!(line_of(&mut client), "2");
}

#[test]
fn a_close_in_either_direction_is_orderly() {
    let setting = start();
    let mut client = setting.connect();
    client.get_mut().write_all(b"echo 2\nquit\n").unwrap();
    assert_eq!(line_of(&mut client), "2");
    // An end of the stream without a notice would be an error here.
    assert_eq!(line_of(&mut client), "");
    let mut client = setting.connect();
    assert_eq!(ask(&mut client, "echo 3"), "3");
    client.get_mut().conn.send_close_notify();
    client.get_mut().flush().unwrap();
    assert_eq!(line_of(&mut client), "");
    drop(client);
    eventually("all sessions are gone", || {
        setting.server.seen.open.load(Ordering::SeqCst) == 0
    });
}

#[test]
fn a_client_that_sends_garbage_is_disconnected_alone() {
    let setting = start();
    let mut bad = TcpStream::connect(setting.server.address).unwrap();
    bad.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    bad.write_all(b"tls\nthis is no handshake, not at all, whatever you say\n")
        .unwrap();
    let mut answer = Vec::new();
    let _ = bad.read_to_end(&mut answer);
    eventually("it is gone", || {
        setting.server.seen.open.load(Ordering::SeqCst) == 0
    });
    let mut client = setting.connect();
    assert_eq!(ask(&mut client, "echo 4"), "4");
}
