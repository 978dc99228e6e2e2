//! Tests of the pages over a real socket.

use super::listener::is_dated;
use super::*;
use porpoise_base::clock::Clock;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};

/// Pages that stall or panic on request.
#[derive(Default)]
struct FaultyPages {
    stalls: AtomicBool,
    panics: AtomicBool,
}

impl Pages for FaultyPages {
    fn send_probes(&self) -> Vec<u64> {
        vec![1]
    }

    fn health(&self, probes: &[u64]) -> Health {
        assert!(!self.panics.load(Ordering::SeqCst), "planted");
        assert_eq!(probes, [1]);
        let mut health = Health::default();
        if self.stalls.load(Ordering::SeqCst) {
            health.unanswered.push("worker group 0 is stuck".into());
        }
        health
    }

    fn takes_writes(&self) -> bool {
        true
    }

    fn metrics(&self) -> String {
        while self.stalls.load(Ordering::SeqCst) {
            std::thread::sleep(Duration::from_millis(10));
        }
        "figures\n".into()
    }
}

fn start() -> (Http, Arc<FaultyPages>, SocketAddr) {
    let socket = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = socket.local_addr().unwrap();
    socket.set_nonblocking(true).unwrap();
    let pages = Arc::new(FaultyPages::default());
    let served = Served {
        pages: pages.clone(),
        more: None,
        tls: None,
    };
    (Http::start(socket, served).unwrap(), pages, address)
}

fn open(address: SocketAddr, sent: &[u8]) -> TcpStream {
    let mut stream = TcpStream::connect(address).unwrap();
    let limit = Duration::from_secs(20);
    stream.set_read_timeout(Some(limit)).unwrap();
    stream.write_all(sent).unwrap();
    stream
}

fn get(address: SocketAddr, path: &str) -> String {
    let request = format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    let mut answer = String::new();
    let mut stream = open(address, request.as_bytes());
    // A connection that the server has closed yields no response.
    let _ = stream.read_to_string(&mut answer);
    answer
}

/// Whether the server has closed the connection, with or without a response.
fn is_closed(stream: &mut TcpStream) -> bool {
    match stream.read_to_end(&mut Vec::new()) {
        Ok(_) => true,
        Err(error) => error.kind() == io::ErrorKind::ConnectionReset,
    }
}

#[test]
fn health_is_answered_beside_hundreds_of_slow_requests() {
    let (http, _pages, address) = start();
    let slow: Vec<_> = (0..200).map(|_| open(address, b"GET /hea")).collect();
    for _ in 0..20 {
        let began = std::time::Instant::now();
        let answer = get(address, "/health");
        assert!(answer.starts_with("HTTP/1.1 200 "), "{answer:?}");
        assert!(began.elapsed() < Duration::from_secs(1));
    }
    drop(slow);
    http.stop();
}

#[test]
fn a_slowly_sent_request_ends_at_its_time_limit() {
    let (http, _pages, address) = start();
    let began = std::time::Instant::now();
    let mut fresh = open(address, b"GET /health HTTP/1.1\r\n");
    let mut used = open(address, b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n");
    let mut first = [0; 12];
    used.read_exact(&mut first).unwrap();
    assert_eq!(&first, b"HTTP/1.1 200");
    used.write_all(b"GET /health HTTP/1.1\r\n").unwrap();
    let mut trickle = fresh.try_clone().unwrap();
    let sender = std::thread::spawn(move || {
        while trickle.write_all(b"A: b\r\n").is_ok() {
            std::thread::sleep(Duration::from_millis(300));
        }
    });
    for stream in [&mut fresh, &mut used] {
        assert!(is_closed(stream));
        let took = began.elapsed();
        assert!(took > LIMITS.request_time - Duration::from_millis(100));
        assert!(took < LIMITS.request_time + Duration::from_secs(3));
    }
    sender.join().unwrap();
    http.stop();
}

#[test]
fn a_request_that_is_too_large_ends_its_connection() {
    let (http, _pages, address) = start();
    let mut large = b"GET /health HTTP/1.1\r\nA: ".to_vec();
    large.resize(LIMITS.request_bytes + 1, b'a');
    let began = std::time::Instant::now();
    let mut stream = open(address, &large);
    assert!(is_closed(&mut stream));
    assert!(began.elapsed() < LIMITS.request_time);
    http.stop();
}

#[test]
fn a_stalled_component_is_reported_within_a_second_beside_stalled_metrics() {
    let (http, pages, address) = start();
    assert!(get(address, "/metrics").ends_with("figures\n"));
    pages.stalls.store(true, Ordering::SeqCst);
    let waiting: Vec<_> = (0..8)
        .map(|_| open(address, b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n"))
        .collect();
    let began = std::time::Instant::now();
    let answer = get(address, "/health");
    assert!(answer.starts_with("HTTP/1.1 503 "), "{answer:?}");
    assert!(answer.ends_with("worker group 0 is stuck\n"), "{answer:?}");
    assert!(began.elapsed() < Duration::from_secs(1));
    pages.stalls.store(false, Ordering::SeqCst);
    assert!(get(address, "/health").starts_with("HTTP/1.1 200 "));
    drop(waiting);
    http.stop();
}

#[test]
fn a_panic_in_a_page_ends_its_connection_only() {
    let (http, pages, address) = start();
    pages.panics.store(true, Ordering::SeqCst);
    assert_eq!(get(address, "/health"), "");
    pages.panics.store(false, Ordering::SeqCst);
    assert!(get(address, "/health").starts_with("HTTP/1.1 200 "));
    http.stop();
}

#[test]
fn responses_have_a_date_from_1970_on() {
    struct At(i64);
    impl Clock for At {
        fn unix_micros(&self) -> i64 {
            self.0
        }
        fn now(&self) -> std::time::Instant {
            std::time::Instant::now()
        }
    }
    assert!(is_dated(&At(1)) && !is_dated(&At(0)) && !is_dated(&At(-1)));
    let (http, _pages, address) = start();
    let answer = get(address, "/health").to_lowercase();
    assert!(answer.contains("\r\ndate: "), "{answer:?}");
    http.stop();
}
