//! A running server.

use crate::process::{Running, porpoise};
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::time::{Duration, Instant};

const MEMCACHED: [&str; 2] = ["--memcached-listen", "127.0.0.1:0"];

fn get(place: &str, path: &str) -> String {
    let mut stream = TcpStream::connect(place).unwrap();
    write!(
        stream,
        "GET {path} HTTP/1.1\r\nHost: {place}\r\nConnection: close\r\n\r\n"
    )
    .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn health_and_metrics_are_shown() {
    let dir = tempfile::tempdir().unwrap();
    let mut command = porpoise(dir.path());
    command
        .args(["--http-listen", "127.0.0.1:0"])
        .args(MEMCACHED);
    let server = Running::start(command);
    assert_eq!(server.announced.last().unwrap(), "porpoise ready");
    let mut client = TcpStream::connect(server.place("memcached")).unwrap();
    client
        .write_all(b"set a 0 0 2\r\nbb\r\nget a b\r\n")
        .unwrap();
    client.shutdown(Shutdown::Write).unwrap();
    let mut answer = String::new();
    client.read_to_string(&mut answer).unwrap();
    assert_eq!(answer, "STORED\r\nVALUE a 0 2\r\nbb\r\nEND\r\n");
    let health = get(server.place("http"), "/health");
    assert!(health.starts_with("HTTP/1.1 200 "), "{health}");
    let metrics = get(server.place("http"), "/metrics");
    assert!(metrics.contains("\r\n\r\n# HELP "), "{metrics}");
    let value = |name: &str| -> u64 {
        let begin = format!("{name} ");
        let line = metrics.lines().find_map(|l| l.strip_prefix(&begin));
        line.unwrap().parse().unwrap()
    };
    assert_eq!(value("porpoise_requests_total"), 2);
    assert_eq!(value("porpoise_connections_accepted_total"), 1);
    assert!(value("process_resident_memory_bytes") > 1_000_000);
    assert!(get(server.place("http"), "/nothing").starts_with("HTTP/1.1 404 "));
}

#[test]
fn sigterm_and_ctrl_c_end_it_cleanly() {
    for signal in ["TERM", "INT"] {
        let dir = tempfile::tempdir().unwrap();
        let mut command = porpoise(dir.path());
        command
            .args(["--http-listen", "127.0.0.1:0"])
            .args(MEMCACHED);
        let server = Running::start(command);
        let mut client = TcpStream::connect(server.place("memcached")).unwrap();
        client.write_all(b"get a\r\n").unwrap();
        let mut some = [0; 5];
        client.read_exact(&mut some).unwrap();
        server.signal(signal);
        let mut rest = Vec::new();
        client.read_to_end(&mut rest).unwrap();
        assert_eq!(server.end(), (0, String::new()));
    }
}

#[test]
fn a_second_signal_ends_it_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let mut command = porpoise(dir.path());
    command
        .args(["--http-listen", "off", "--memcached-listen", "127.0.0.1:0"])
        .args(["--shutdown-timeout", "1h"]);
    let server = Running::start(command);
    // A request that never becomes complete keeps the shutdown waiting.
    let mut client = TcpStream::connect(server.place("memcached")).unwrap();
    client.write_all(b"get a\r\nget").unwrap();
    let mut some = [0; 5];
    client.read_exact(&mut some).unwrap();
    server.signal("TERM");
    std::thread::sleep(Duration::from_millis(200));
    server.signal("TERM");
    assert_eq!(server.end().0, 1);
}

#[test]
fn free_ports_are_chosen_and_printed() {
    let dir = tempfile::tempdir().unwrap();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let mut command = porpoise(dir.path());
    command.args(["--http-listen", &address, "--pick-ports"]);
    let server = Running::start(command);
    let place = server.place("http").to_owned();
    assert_ne!(place, address);
    let is_shown = |line: &String| line.contains("HTTP") && line.contains(&place);
    assert!(server.announced.iter().any(is_shown));
    assert!(get(&place, "/health").starts_with("HTTP/1.1 200 "));
}

#[test]
fn settings_come_from_file_variable_and_option_in_this_order() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("porpoise.toml");
    std::fs::write(&file, "http_listen = \"off\"\nmemcached_listen = \"off\"\n").unwrap();
    let mut command = porpoise(dir.path());
    command
        .arg("--config")
        .arg(&file)
        .env("PORPOISE_HTTP_LISTEN", "127.0.0.1:0")
        .env("PORPOISE_MEMCACHED_LISTEN", "127.0.0.1:0")
        .args(["--memcached-listen", "off"]);
    let server = Running::start(command);
    assert!(server.place("http").starts_with("127.0.0.1:"));
    let announced = |l: &String| l.starts_with("ready memcached");
    assert!(!server.announced.iter().any(announced));
}

fn ask(place: &str) -> String {
    let mut client = TcpStream::connect(place).unwrap();
    client
        .set_read_timeout(Some(Duration::from_secs(5)))
        .unwrap();
    let _ = client.write_all(b"get a\r\n");
    let mut some = [0; 5];
    match client.read_exact(&mut some) {
        Ok(()) => String::from_utf8_lossy(&some).into_owned(),
        Err(_) => String::new(),
    }
}

fn served_again(place: &str) {
    for _ in 0..400 {
        if ask(place) == "END\r\n" {
            return;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("no client is served any more");
}

#[test]
fn connections_beyond_max_connections_get_an_error() {
    let dir = tempfile::tempdir().unwrap();
    let mut command = porpoise(dir.path());
    command
        .args(["--http-listen", "off", "--memcached-listen", "127.0.0.1:0"])
        .args(["--max-connections", "40"]);
    let server = Running::start(command);
    let place = server.place("memcached");
    let mut clients: Vec<_> = (0..40)
        .map(|_| TcpStream::connect(place).unwrap())
        .collect();
    let mut answer = String::new();
    let mut late = TcpStream::connect(place).unwrap();
    late.read_to_string(&mut answer).unwrap();
    assert_eq!(answer, "ERROR Too many open connections\r\n");
    clients.truncate(39);
    served_again(place);
}

#[test]
fn a_server_without_free_descriptors_continues() {
    let dir = tempfile::tempdir().unwrap();
    let mut command = porpoise(dir.path());
    command.args(["--http-listen", "off", "--memcached-listen", "127.0.0.1:0"]);
    let server = Running::start(command);
    let place = server.place("memcached");
    let limited = std::process::Command::new("prlimit")
        .args(["--pid", &server.id().to_string(), "--nofile=60:60"])
        .status()
        .unwrap();
    assert!(limited.success());
    let mut clients = Vec::new();
    let mut refused = 0;
    for _ in 0..100 {
        let mut client = TcpStream::connect(place).unwrap();
        client
            .set_read_timeout(Some(Duration::from_secs(5)))
            .unwrap();
        let _ = client.write_all(b"get a\r\n");
        let mut some = [0; 5];
        match client.read_exact(&mut some) {
            Ok(()) if &some == b"END\r\n" => clients.push(client),
            _ => refused += 1,
        }
    }
    assert!(refused > 0, "the limit was never reached");
    assert!(clients.len() > 20);
    clients.clear();
    served_again(place);
}

#[test]
fn repeated_log_lines_are_left_out_and_counted() {
    let dir = tempfile::tempdir().unwrap();
    let log = dir.path().join("log");
    let mut command = porpoise(&dir.path().join("data"));
    command.args(["--http-listen", "off"]).args(MEMCACHED);
    command.stderr(File::create(&log).unwrap());
    let server = Running::start(command);
    let stream = TcpStream::connect(server.place("memcached")).unwrap();
    let mut client = BufReader::new(stream);
    // Each of these commands is logged.
    let mut flush = |times: usize| {
        for _ in 0..times {
            client.get_mut().write_all(b"flush_all\r\n").unwrap();
            let mut answer = String::new();
            client.read_line(&mut answer).unwrap();
            assert_eq!(answer, "OK\r\n");
        }
        times
    };
    let deadline = Instant::now() + Duration::from_secs(120);
    let mut commands = 0;
    // On a slow machine the first commands may take longer than the time in which lines are counted.
    let text = loop {
        commands += flush(150);
        std::thread::sleep(Duration::from_secs(10));
        commands += flush(1);
        let text = std::fs::read_to_string(&log).unwrap();
        if text.contains("left out") {
            break text;
        }
        assert!(Instant::now() < deadline, "{text}");
    };
    let logged = text.lines().filter(|line| line.contains("flush_all from"));
    let left_out = text.lines().filter_map(|line| {
        let number = line.strip_suffix(" lines like the next one were left out)")?;
        number.strip_prefix('(')?.parse::<usize>().ok()
    });
    let (logged, left_out) = (logged.count(), left_out.sum::<usize>());
    assert_eq!(logged + left_out, commands, "{text}");
    assert!(left_out > 0);
}
