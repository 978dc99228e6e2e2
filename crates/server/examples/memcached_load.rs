//! A small load generator for the memcached listener and for memcached itself.
//!
//! `memcached_load ADDRESS get|set CONNECTIONS THREADS SECONDS [KEYS_PER_GET] [PID]`:
//! each thread drives its share of the connections, one request outstanding on
//! each, over 10,000 keys with values of 32 bytes, and checks every answer.
//! Tells requests per second and, with the server's process id, its CPU time
//! per request.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a tool for measuring may panic"
)]

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

const KEYS: u64 = 10_000;
const VALUE: &[u8] = b"0123456789abcdef0123456789abcdef";

/// CPU seconds of a process.
fn cpu(pid: u32) -> f64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let fields: Vec<&str> = stat
        .rsplit(')')
        .next()
        .unwrap()
        .split_whitespace()
        .collect();
    let ticks: u64 = fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap();
    ticks as f64 / 100.0
}

struct Client {
    stream: TcpStream,
    seed: u64,
    expect: usize,
    got: usize,
}

impl Client {
    fn key(&mut self) -> u64 {
        self.seed = self
            .seed
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (self.seed >> 33) % KEYS
    }

    fn send(&mut self, set: bool, keys: usize, buffer: &mut Vec<u8>) {
        buffer.clear();
        self.got = 0;
        if set {
            let key = self.key();
            write!(buffer, "set key:{key:05} 0 0 {}\r\n", VALUE.len()).unwrap();
            buffer.extend_from_slice(VALUE);
            buffer.extend_from_slice(b"\r\n");
            self.expect = b"STORED\r\n".len();
        } else {
            buffer.extend_from_slice(b"get");
            for _ in 0..keys {
                let key = self.key();
                write!(buffer, " key:{key:05}").unwrap();
            }
            buffer.extend_from_slice(b"\r\n");
            let each = b"VALUE key:00000 0 32\r\n".len() + VALUE.len() + 2;
            self.expect = keys * each + b"END\r\n".len();
        }
        self.stream.write_all(buffer).unwrap();
    }

    /// True when the whole answer is there.
    fn receive(&mut self, buffer: &mut [u8]) -> bool {
        let n = self.stream.read(buffer).unwrap();
        assert!(n > 0, "the server is gone");
        self.got += n;
        assert!(self.got <= self.expect, "{}", buffer[..n].escape_ascii());
        self.got == self.expect
    }
}

fn drive(
    address: SocketAddr,
    set: bool,
    count: usize,
    keys: usize,
    end: Instant,
    seed: u64,
) -> u64 {
    let mut clients: Vec<Client> = (0..count as u64)
        .map(|n| {
            let stream = TcpStream::connect(address).unwrap();
            stream.set_nodelay(true).unwrap();
            let seed = seed * 1000 + n;
            Client {
                stream,
                seed,
                expect: 0,
                got: 0,
            }
        })
        .collect();
    let (mut request, mut answer) = (Vec::new(), vec![0; 1 << 16]);
    let mut polls: Vec<libc::pollfd> = clients
        .iter()
        .map(|c| libc::pollfd {
            fd: c.stream.as_raw_fd(),
            events: libc::POLLIN,
            revents: 0,
        })
        .collect();
    for client in &mut clients {
        client.send(set, keys, &mut request);
    }
    let mut done = 0;
    loop {
        if polls.len() > 1 {
            // SAFETY: the pointer and the length are those of one live vector.
            let ready =
                unsafe { libc::poll(polls.as_mut_ptr(), polls.len() as libc::nfds_t, 1000) };
            assert!(ready > 0);
        } else {
            polls[0].revents = libc::POLLIN;
        }
        let over = Instant::now() >= end;
        for (client, poll) in clients.iter_mut().zip(&polls) {
            if poll.revents != 0 && client.receive(&mut answer) {
                done += 1;
                if over {
                    return done;
                }
                client.send(set, keys, &mut request);
            }
        }
    }
}

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let address: SocketAddr = args[0].parse().unwrap();
    let set = args[1] == "set";
    let number = |n: usize, other: usize| args.get(n).map_or(other, |a| a.parse().unwrap());
    let (connections, threads) = (number(2, 8), number(3, 2));
    let (seconds, keys) = (number(4, 3) as u64, number(5, 1));
    let pid = args.get(6).map(|p| p.parse::<u32>().unwrap());
    if !set {
        let mut stream = TcpStream::connect(address).unwrap();
        let mut all = Vec::new();
        for key in 0..KEYS {
            write!(all, "set key:{key:05} 0 0 32 noreply\r\n").unwrap();
            all.extend_from_slice(VALUE);
            all.extend_from_slice(b"\r\n");
        }
        // The answer to the last one tells that all of them are stored.
        write!(all, "set key:00000 0 0 32\r\n").unwrap();
        all.extend_from_slice(VALUE);
        all.extend_from_slice(b"\r\n");
        stream.write_all(&all).unwrap();
        let mut answer = [0; 100];
        assert!(stream.read(&mut answer).unwrap() > 0);
    }
    let (before, start) = (pid.map(cpu), Instant::now());
    let end = start + Duration::from_secs(seconds);
    let done: u64 = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads)
            .map(|t| {
                let count = connections / threads;
                scope.spawn(move || drive(address, set, count, keys, end, t as u64 + 1))
            })
            .collect();
        workers.into_iter().map(|w| w.join().unwrap()).sum()
    });
    let rate = done as f64 / start.elapsed().as_secs_f64();
    let mut out = std::io::stdout().lock();
    write!(out, "{} {connections} connections: {rate:.0}/s", args[1]).unwrap();
    if let (Some(pid), Some(before)) = (pid, before) {
        let each = (cpu(pid) - before) * 1e6 / done as f64;
        write!(out, ", {each:.2} us CPU each").unwrap();
    }
    writeln!(out).unwrap();
}
