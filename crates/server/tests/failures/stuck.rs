//! A disk that hangs beneath the real binary.

use super::eventually;
use porpoise_testkit::{Porpoise, http_get};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

#[test]
fn health_reports_a_hanging_sync_within_a_second() {
    let mut server = Porpoise::builder().disk_faults("stuck_sync_at=300").start();
    assert_eq!(server.http("/health"), (200, "ok\n".to_owned()));
    let mut client = TcpStream::connect(server.memcached_addr).unwrap();
    let patience = Some(Duration::from_secs(3));
    client.set_read_timeout(patience).unwrap();
    let mut reply = [0; 8];
    let stuck = (0..1_000).any(|_| {
        client.write_all(b"set k 0 0 1\r\nv\r\n").unwrap();
        client.read_exact(&mut reply).is_err()
    });
    assert!(stuck, "no sync hangs");
    let began = Instant::now();
    let (status, text) = http_get(server.http_addr, "/health");
    assert!(began.elapsed() < Duration::from_secs(1));
    assert_eq!(status, 503, "{text}");
    assert!(text.starts_with("log: no progress for "), "{text}");
    // Reads, and the metrics, do not need the disk.
    let mut reader = TcpStream::connect(server.memcached_addr).unwrap();
    reader.write_all(b"get nothing\r\n").unwrap();
    let mut end = [0; 5];
    reader.read_exact(&mut end).unwrap();
    assert_eq!(&end, b"END\r\n");
    eventually("metrics are shown", || {
        http_get(server.http_addr, "/metrics").0 == 200
    });
    server.kill9();
}
