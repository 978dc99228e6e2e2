//! A system clock before 1970, simulated by a library loaded before libc.

use porpoise_testkit::Porpoise;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Command;

const SHIM: &str = r"
#define _GNU_SOURCE
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
int clock_gettime(clockid_t id, struct timespec *t) {
    int result = (int)syscall(SYS_clock_gettime, id, t);
    if (id == CLOCK_REALTIME) t->tv_sec = -1000;
    return result;
}
";

/// Starts a server with such a clock; the directory holds the library.
fn server() -> (Porpoise, tempfile::TempDir) {
    let dir = tempfile::tempdir().unwrap();
    let (source, shim) = (dir.path().join("shim.c"), dir.path().join("shim.so"));
    std::fs::write(&source, SHIM).unwrap();
    let mut compiler = Command::new("cc");
    compiler
        .args(["-shared", "-fPIC", "-o"])
        .args([&shim, &source]);
    assert!(compiler.status().unwrap().success());
    let server = Porpoise::builder()
        .env("LD_PRELOAD", shim.to_str().unwrap())
        .start();
    (server, dir)
}

#[test]
fn tls_logins_work_with_a_clock_before_1970() {
    let (server, _dir) = server();
    let address = server.mysql_addr;
    // More logins than workers: each login once ended a worker.
    for _ in 0..8 {
        let output = Command::new("mariadb")
            .args(["--no-defaults", "--protocol=tcp", "--user=root", "--ssl"])
            .args(["--skip-ssl-verify-server-cert", "--batch"])
            .arg(format!("--host={}", address.ip()))
            .arg(format!("--port={}", address.port()))
            .arg("--execute=SELECT UNIX_TIMESTAMP() < 10; \\s")
            .output()
            .unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{errors}");
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(text.contains("Cipher in use"), "not encrypted: {text}");
        assert!(text.contains("< 10\n1\n"), "the clock is not early: {text}");
    }
}

#[test]
fn http_tells_of_a_clock_before_1970() {
    let (server, _dir) = server();
    for request in [
        "GET /health HTTP/1.1\r\nHost: x\r\n\r\n",
        "no request\r\n\r\n",
    ] {
        let mut stream = TcpStream::connect(server.http_addr).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 503 "), "{answer}");
        assert!(
            answer.ends_with("\r\n\r\nthe system clock is before 1970\n"),
            "{answer}"
        );
    }
    let log = server.log();
    assert!(!log.contains("panic"), "{log}");
}
