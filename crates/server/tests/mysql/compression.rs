//! The compressed protocol, in the clear and inside TLS.

use crate::client::{Client, How};
use crate::login::change_user;
use porpoise_testkit::Porpoise;
use porpoise_wire::mysql::Capabilities;
use std::io::Write;
use std::net::TcpStream;

const ALGORITHMS: [(Capabilities, &str, &str); 2] = [
    (Capabilities::COMPRESS, "zlib", "6"),
    (Capabilities::ZSTD_COMPRESSION, "zstd", "3"),
];

fn how(with: Capabilities) -> How {
    How {
        with,
        ..How::default()
    }
}

fn status(client: &mut Client, name: &str) -> String {
    let rows = client.good(&format!("SHOW SESSION STATUS LIKE '{name}'"));
    rows.texts()[0][1].clone()
}

#[test]
fn statements_and_large_results_are_compressed_by_either_algorithm() {
    let server = Porpoise::builder().start();
    for (with, name, level) in ALGORITHMS {
        for tls in [false, true] {
            let how = How { tls, ..how(with) };
            let mut client = Client::connect(server.mysql_addr, &how).unwrap();
            assert!(client.caps.has(with), "{name}");
            assert_eq!(status(&mut client, "Compression"), "ON");
            assert_eq!(status(&mut client, "Compression_algorithm"), name);
            assert_eq!(status(&mut client, "Compression_level"), level);
            assert_eq!(client.good("SELECT 1").one(), "1");
            let long = client.good("SELECT REPEAT('abc', 6000000)").one();
            assert!(long == "abc".repeat(6_000_000), "{name}");
            let noise = "SELECT SHA2(a, 512) FROM (WITH RECURSIVE r AS (SELECT 1 AS a \
                         UNION ALL SELECT a + 1 FROM r WHERE a < 900) SELECT a FROM r) x";
            assert_eq!(client.good(noise).rows.len(), 900);
            let sent = format!("SELECT LENGTH('{}')", "wave ".repeat(1_000_000));
            assert_eq!(client.good(&sent).one(), "5000000");
            assert_eq!(client.query("SELECT nothing").code(), 1054);
        }
    }
}

#[test]
fn without_the_capability_nothing_is_compressed() {
    let server = Porpoise::builder().start();
    let mut client = Client::root(server.mysql_addr);
    assert_eq!(status(&mut client, "Compression"), "OFF");
    assert_eq!(status(&mut client, "Compression_algorithm"), "");
    assert_eq!(status(&mut client, "Compression_level"), "0");
}

#[test]
fn the_variable_chooses_what_is_offered() {
    let server = Porpoise::builder().start();
    let mut root = Client::root(server.mysql_addr);
    root.good("SET GLOBAL protocol_compression_algorithms = 'zstd,Uncompressed'");
    let shown = "SELECT @@protocol_compression_algorithms";
    assert_eq!(root.good(shown).one(), "zstd,uncompressed");
    let both = Capabilities::COMPRESS | Capabilities::ZSTD_COMPRESSION;
    let mut client = Client::connect(server.mysql_addr, &how(both)).unwrap();
    assert_eq!(status(&mut client, "Compression_algorithm"), "zstd");
    for bad in ["''", "'lz4'", "'zlib,,zstd'"] {
        let set = format!("SET GLOBAL protocol_compression_algorithms = {bad}");
        assert_eq!(root.query(&set).code(), 1231, "{bad}");
    }
}

#[test]
fn garbage_in_place_of_a_compressed_packet_ends_only_that_connection() {
    let server = Porpoise::builder().start();
    for (with, ..) in ALGORITHMS {
        let header_lies = [60, 0, 0, 0, 255, 255, 255];
        let packed = [header_lies.to_vec(), vec![0x5a; 60]].concat();
        let too_short = [9, 0, 0, 0, 4, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9];
        for bad in [&packed[..], &too_short[..]] {
            let mut socket = TcpStream::connect(server.mysql_addr).unwrap();
            let stream = socket.try_clone().unwrap();
            let mut client = Client::connect_over(stream, &how(with)).unwrap();
            socket.write_all(bad).unwrap();
            assert_eq!(client.packet(), None);
        }
        let mut other = Client::connect(server.mysql_addr, &how(with)).unwrap();
        assert_eq!(other.good("SELECT 2").one(), "2");
    }
}

#[test]
fn a_change_of_user_keeps_the_compression() {
    let server = Porpoise::builder().start();
    Client::root(server.mysql_addr).good("CREATE USER open@localhost");
    let mut client = Client::connect(server.mysql_addr, &how(Capabilities::COMPRESS)).unwrap();
    let reply = change_user(&mut client, "open", "");
    assert_eq!(reply.first(), Some(&0), "{reply:?}");
    assert_eq!(client.good("SELECT CURRENT_USER()").one(), "open@localhost");
    assert_eq!(status(&mut client, "Compression"), "ON");
}
