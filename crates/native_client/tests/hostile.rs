//! Clients that send anything: random bytes, mutated frames, lengths without data, half frames, and
//! clients that do not read.

use super::support::*;
use porpoise_native_client::ValueRef;
use porpoise_wire::native::frame::{self, HEADER, Kind, LAST};
use porpoise_wire::native::message::Login;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

fn open(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).unwrap();
    stream
        .set_read_timeout(Some(Duration::from_secs(20)))
        .unwrap();
    stream
        .set_write_timeout(Some(Duration::from_secs(20)))
        .unwrap();
    stream
}

fn preamble() -> Vec<u8> {
    let mut out = Vec::new();
    frame::put_preamble(&mut out, 1, 1);
    out
}

/// The bytes of a client that logs in as root without a password.
fn login() -> Vec<u8> {
    let mut out = preamble();
    let at = frame::begin(&mut out, Kind::Login, 0);
    Login {
        user: "root",
        answer: b"",
        program: "hostile",
    }
    .put(&mut out);
    frame::finish(&mut out, at, LAST);
    out
}

/// Requests of a well-behaved client, as bytes.
fn corpus(server: &porpoise_testkit::Porpoise) -> Vec<Vec<u8>> {
    let mut native = connect(server);
    let table = native.table("d", "t").unwrap();
    let mut requests = Vec::new();
    let mut shape = |kind, body: Vec<u8>| {
        let mut out = Vec::new();
        frame::put(&mut out, kind, 7, LAST, &body);
        requests.push(out);
    };
    use porpoise_wire::native::batch::*;
    for operation in [
        Operation::Read,
        Operation::Insert,
        Operation::Update,
        Operation::Upsert,
        Operation::Delete,
    ] {
        let columns = match operation {
            Operation::Delete => vec![],
            _ => vec![
                ColumnUse {
                    position: 0,
                    action: Action::Set,
                },
                ColumnUse {
                    position: 1,
                    action: Action::Set,
                },
            ],
        };
        let conditions = match operation {
            Operation::Update | Operation::Delete => vec![Condition::Version, Condition::Equals(1)],
            _ => vec![],
        };
        let mut encoded = Vec::new();
        Shape {
            operation,
            flags: 3,
            index: 0,
            table: table.id,
            version: table.version,
            columns,
            conditions,
        }
        .put(&mut encoded);
        let mut body = Vec::new();
        put_head(&mut body, false, 0, 1);
        put_part(
            &mut body,
            &encoded,
            2,
            &[
                1, 0, 0, 0, 0, 9, 0, 0, 0, 2, b'a', b'b', 2, 0, 0, 0, 0, 8, 0, 0, 0, 0,
            ],
        );
        shape(Kind::Batch, body);
    }
    let scan = porpoise_wire::native::scan::Scan {
        flags: 1,
        index: 0,
        table: table.id,
        version: table.version,
        limit: 5,
        time_limit: 0,
        columns: vec![0, 1],
        continuation: &[1, 2],
        bounds: &[1, 1, 0, 1, 0, 0, 0, 0, 0],
    };
    let mut body = Vec::new();
    scan.put(&mut body);
    shape(Kind::Scan, body);
    let subscribe = porpoise_wire::native::changes::Subscribe {
        table: table.id,
        version: table.version,
        position: "first",
        ranges: 1,
        bounds: &[1, 1, 0, 1, 0, 0, 0, 0, 0, 0],
    };
    let mut body = Vec::new();
    subscribe.put(&mut body);
    shape(Kind::Subscribe, body);
    shape(Kind::NextChanges, vec![1, 0, 0, 0]);
    shape(Kind::OpenTable, vec![1, b'd', 1, b't']);
    shape(Kind::Begin, vec![0]);
    shape(Kind::Commit, vec![]);
    shape(Kind::Ping, vec![]);
    requests
}

/// Sends bytes, and reads until the server closes or nothing comes for a moment.
fn talk(address: SocketAddr, bytes: &[u8]) {
    let mut stream = open(address);
    // The server may close before everything is sent.
    let _ = stream.write_all(bytes);
    let _ = stream.shutdown(std::net::Shutdown::Write);
    let mut sink = [0; 4096];
    while matches!(stream.read(&mut sink), Ok(n) if n > 0) {}
}

fn fuzz(rounds: u32, seed: u64) {
    let mut server = start();
    sql(
        &server,
        "create database d; create table d.t (id int primary key, v varchar(10)); insert into d.t values (1, 'one')",
    );
    let (address, corpus) = (address(&server), corpus(&server));
    let mut random = fastrand::Rng::with_seed(seed);
    for round in 0..rounds {
        let mut bytes = if random.u8(..) < 32 {
            preamble()
        } else {
            login()
        };
        for _ in 0..random.usize(1..8) {
            let mut request = corpus[random.usize(..corpus.len())].clone();
            for _ in 0..random.usize(0..4) {
                let at = random.usize(..request.len());
                match random.u8(0..4) {
                    0 => request[at] = random.u8(..),
                    1 => request[at] ^= 1 << random.u8(0..8),
                    2 => request.truncate(at.max(1)),
                    _ => request.insert(at, random.u8(..)),
                }
            }
            // Mostly with a correct length, so that the body is parsed.
            if request.len() >= HEADER && random.u8(..) < 200 {
                let length = (request.len() - HEADER) as u32;
                request[..4].copy_from_slice(&length.to_le_bytes());
            }
            bytes.extend_from_slice(&request);
        }
        if round % 16 == 0 {
            bytes = (0..random.usize(0..300)).map(|_| random.u8(..)).collect();
        }
        talk(address, &bytes);
        assert!(server.is_running(), "seed {seed}, round {round}: {bytes:?}");
    }
    assert!(!server.log().contains("panicked"), "{}", server.log());
    assert_eq!(
        sql(&server, "check table d.t").split('\t').next_back(),
        Some("OK")
    );
}

#[test]
fn no_bytes_end_the_server() {
    fuzz(1500, 20_261_124);
}

#[test]
#[ignore = "takes minutes: many more rounds, with a seed from the clock"]
fn no_bytes_end_the_server_for_long() {
    let seed = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .unwrap()
        .as_secs();
    println!("seed {seed}");
    fuzz(60_000, seed);
}

/// Resident memory of the server in bytes.
fn memory(server: &porpoise_testkit::Porpoise) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/statm", server.id())).unwrap();
    status.split(' ').nth(1).unwrap().parse::<u64>().unwrap() * 4096
}

#[test]
fn a_length_without_data_allocates_nothing() {
    let server = start();
    let address = address(&server);
    let before = memory(&server);
    let mut held = Vec::new();
    // Before the login the length itself is refused.
    let mut stream = open(address);
    let mut bytes = preamble();
    bytes.extend_from_slice(&(1u32 << 20).to_le_bytes());
    bytes.extend_from_slice(&[0, 0, 0, 0, Kind::Login as u8, 1, 0, 0]);
    stream.write_all(&bytes).unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    assert!(String::from_utf8_lossy(&answer).contains("too long"));
    // Afterwards it is waited for.
    for _ in 0..50 {
        let mut stream = open(address);
        let mut bytes = login();
        bytes.extend_from_slice(&(16u32 << 20).to_le_bytes());
        bytes.extend_from_slice(&[1, 0, 0, 0, Kind::Batch as u8, 1, 0, 0, 0]);
        stream.write_all(&bytes).unwrap();
        held.push(stream);
    }
    std::thread::sleep(Duration::from_millis(500));
    let grown = memory(&server).saturating_sub(before);
    assert!(grown < 64 << 20, "{grown} bytes for 50 lengths of 16 MiB");
}

#[test]
fn requests_that_arrive_byte_by_byte_are_answered() {
    let server = start();
    let mut stream = open(address(&server));
    stream.set_nodelay(true).unwrap();
    let mut bytes = login();
    frame::put(&mut bytes, Kind::Ping, 9, LAST, &[]);
    for byte in bytes {
        stream.write_all(&[byte]).unwrap();
        std::thread::sleep(Duration::from_micros(300));
    }
    let (mut received, mut chunk) = (Vec::new(), [0; 512]);
    let end = Instant::now() + Duration::from_secs(10);
    let mut done = Vec::new();
    frame::put(&mut done, Kind::Done, 9, LAST, &[]);
    while !received.ends_with(&done) && Instant::now() < end {
        let n = stream.read(&mut chunk).unwrap();
        assert!(n > 0);
        received.extend_from_slice(&chunk[..n]);
    }
    assert!(received.ends_with(&done));
}

/// The first frame that a client of these versions receives.
fn greeted(address: SocketAddr, (lowest, highest): (u8, u8)) -> (Kind, Vec<u8>) {
    let mut out = Vec::new();
    frame::put_preamble(&mut out, lowest, highest);
    let mut stream = open(address);
    stream.write_all(&out).unwrap();
    let mut received = Vec::new();
    loop {
        if let Ok(frame::FrameStep::Frame { header, body }) = frame::next(&received, 1 << 20) {
            return (header.kind, received[body].to_vec());
        }
        let mut bytes = [0; 4096];
        let read = stream.read(&mut bytes).unwrap();
        assert!(read > 0, "{received:?}");
        received.extend_from_slice(&bytes[..read]);
    }
}

#[test]
fn the_highest_version_that_both_sides_speak_is_used() {
    let server = start();
    let address = address(&server);
    for (versions, wanted) in [((1, 1), 1), ((1, 2), 2), ((2, 9), 2), ((1, 255), 2)] {
        let (kind, body) = greeted(address, versions);
        assert_eq!((kind, body[0]), (Kind::Greeting, wanted), "{versions:?}");
    }
    for versions in [(0, 0), (3, 9), (2, 1)] {
        let (kind, _) = greeted(address, versions);
        assert_eq!(kind, Kind::Error, "{versions:?}");
    }
}

#[test]
fn a_half_request_is_not_waited_for_for_ever() {
    let server = builder()
        .arg("--durability", "memory")
        .arg("--net-read-timeout", "1s")
        .start();
    let mut stream = open(address(&server));
    let mut bytes = login();
    frame::put(&mut bytes, Kind::Ping, 9, LAST, &[]);
    bytes.truncate(bytes.len() - 3);
    stream.write_all(&bytes).unwrap();
    let begin = Instant::now();
    let mut all = Vec::new();
    stream.read_to_end(&mut all).unwrap();
    assert!(begin.elapsed() < Duration::from_secs(15));
}

#[test]
fn a_client_that_does_not_read_delays_no_other() {
    let server = start();
    sql(
        &server,
        "create database d; create table d.t (id int primary key, v longtext); insert into d.t values (1, repeat('a', 1000000))",
    );
    let mut native = connect(&server);
    let table = native.table("d", "t").unwrap();
    let read = table.read().columns(&["v"]).build().unwrap();
    let mut slow = connect(&server);
    let rows: Vec<[ValueRef<'_>; 1]> = (0..50).map(|_| [int(1)]).collect();
    let rows: Vec<&[ValueRef<'_>]> = rows.iter().map(|row| row.as_slice()).collect();
    let large = batch(&read, &rows);
    for _ in 0..20 {
        slow.send(&large).unwrap();
    }
    slow.flush().unwrap();
    let before = memory(&server);
    std::thread::sleep(Duration::from_millis(500));
    for _ in 0..20 {
        assert_eq!(
            native
                .run(&batch(&read, &[&[int(1)]]))
                .unwrap()
                .results()
                .count(),
            1
        );
    }
    // A gigabyte of answers is not buffered.
    let grown = memory(&server).saturating_sub(before);
    assert!(grown < 256 << 20, "{grown}");
    for _ in 0..20 {
        assert_eq!(slow.receive().unwrap().results().count(), 50);
    }
}

#[test]
#[ignore = "needs 10,000 open files; prints the memory of idle connections"]
fn memory_of_ten_thousand_idle_connections() {
    const CONNECTIONS: u64 = 10_000;
    let server = builder()
        .arg("--durability", "memory")
        .arg("--max-connections", "12000")
        .start();
    let before = memory(&server);
    let held: Vec<_> = (0..CONNECTIONS).map(|_| connect(&server)).collect();
    std::thread::sleep(Duration::from_secs(1));
    let each = memory(&server).saturating_sub(before) / CONNECTIONS;
    println!("{each} bytes for each idle connection");
    assert!(each < 16 * 1024, "{each}");
    drop(held);
}
