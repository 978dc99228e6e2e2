//! Server, client and protocol of these tests. The protocol: one word and one number a line:
//! `echo N`, `burn N` (computes for N ms or until cancelled), `heavy` (its end
//! computes for long), `commit N` (its reply waits until commit N is durable), `wait` (until released
//! or cancelled), `big N` (a reply of N bytes), `stream N` (N bytes, drained as
//! they come), `put N` (followed by N bytes), `panic`, `lock` (from here on others may wait for this
//! session), `login`, `tls` (TLS from here on), `quit`.

use parking_lot::{Condvar, Mutex};
use porpoise_base::blocking::blocking;
use porpoise_base::cancel::Cancel;
use porpoise_kv::CommitPosition;
use porpoise_server::net::{
    BoundSocket, DurabilityWatermark, End, Input, Listening, Net, NetConfig, Next, Output, Peer,
    Protocol, Refusal, Session,
};
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// State of the sessions as observed by the tests.
#[derive(Default)]
pub struct Seen {
    pub open: AtomicUsize,
    pub waiting: AtomicUsize,
    pub burning: AtomicUsize,
    pub cancelled: AtomicUsize,
    pub reserved: AtomicUsize,
    pub ends: Mutex<Vec<End>>,
    pub go: Mutex<bool>,
    pub gate: Condvar,
}

impl Seen {
    pub fn release(&self) {
        *self.go.lock() = true;
        self.gate.notify_all();
    }

    pub fn ended(&self, end: End) -> bool {
        self.ends.lock().contains(&end)
    }
}

pub struct Lines {
    pub seen: Arc<Seen>,
    pub login: bool,
    pub idle: Option<Duration>,
    pub tls: Option<Arc<rustls::ServerConfig>>,
}

impl Protocol for Lines {
    fn name(&self) -> &'static str {
        "lines"
    }

    fn open(&self, peer: Peer, _: &mut Output) -> Box<dyn Session> {
        self.seen.open.fetch_add(1, Ordering::SeqCst);
        if peer.reserved {
            self.seen.reserved.fetch_add(1, Ordering::SeqCst);
        }
        Box::new(Line {
            seen: self.seen.clone(),
            cancel: peer.cancel,
            logged_in: !self.login,
            locks: false,
            heavy: false,
            idle: self.idle,
            tls: self.tls.clone(),
        })
    }

    fn refusal(&self, why: Refusal) -> Vec<u8> {
        format!("refused {why:?}\n").into_bytes()
    }

    fn reserves_connection(&self) -> bool {
        true
    }
}

struct Line {
    seen: Arc<Seen>,
    cancel: Cancel,
    logged_in: bool,
    locks: bool,
    heavy: bool,
    idle: Option<Duration>,
    tls: Option<Arc<rustls::ServerConfig>>,
}

impl Drop for Line {
    fn drop(&mut self) {
        if self.heavy {
            let end = Instant::now() + Duration::from_secs(2);
            self.seen.burning.fetch_add(1, Ordering::SeqCst);
            while Instant::now() < end {
                std::hint::spin_loop();
            }
            self.seen.burning.fetch_sub(1, Ordering::SeqCst);
        }
        self.seen.open.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Line {
    fn wait(&self) -> &'static str {
        let seen = self.seen.clone();
        let _registered = self.cancel.register(Arc::new(move || {
            drop(seen.go.lock());
            seen.gate.notify_all();
        }));
        self.seen.waiting.fetch_add(1, Ordering::SeqCst);
        let released = blocking(|| {
            let mut go = self.seen.go.lock();
            while !*go {
                if self.cancel.reason().is_some() {
                    return false;
                }
                self.seen.gate.wait(&mut go);
            }
            true
        });
        self.seen.waiting.fetch_sub(1, Ordering::SeqCst);
        if released {
            return "waited";
        }
        self.seen.cancelled.fetch_add(1, Ordering::SeqCst);
        "cancelled"
    }

    /// Computes for `millis` without saying so.
    fn burn(&self, millis: u64) -> &'static str {
        let end = Instant::now() + Duration::from_millis(millis);
        self.seen.burning.fetch_add(1, Ordering::SeqCst);
        while Instant::now() < end && self.cancel.reason().is_none() {
            std::hint::spin_loop();
        }
        self.seen.burning.fetch_sub(1, Ordering::SeqCst);
        if self.cancel.reason().is_none() {
            return "burnt";
        }
        self.seen.cancelled.fetch_add(1, Ordering::SeqCst);
        "cancelled"
    }

    fn run(&mut self, line: &str, out: &mut Output) -> Option<Next> {
        let (word, n) = line.split_once(' ').unwrap_or((line, "0"));
        let n: u64 = n.parse().unwrap_or(0);
        let from = out.position();
        match word {
            "echo" => out.buf().extend_from_slice(format!("{n}\n").as_bytes()),
            "commit" => {
                out.buf()
                    .extend_from_slice(format!("done {n}\n").as_bytes());
                out.defer_from(from, CommitPosition(n));
            }
            "wait" => {
                let said = self.wait();
                out.buf().extend_from_slice(format!("{said}\n").as_bytes());
            }
            "burn" => {
                let said = self.burn(n);
                out.buf().extend_from_slice(format!("{said}\n").as_bytes());
            }
            "heavy" => {
                self.heavy = true;
                out.buf().extend_from_slice(b"heavy\n");
            }
            "big" => {
                let len = out.position() + n as usize;
                out.buf().resize(len, b'x');
                out.buf().push(b'\n');
            }
            "stream" => {
                for _ in 0..n / 1000 {
                    if out.is_full() && out.drain().is_err() {
                        return Some(Next::Close);
                    }
                    out.buf().extend_from_slice(&[b'y'; 1000]);
                }
                out.buf().push(b'\n');
            }
            "panic" => {
                out.buf().extend_from_slice(b"half a rep");
                panic!("as asked");
            }
            "login" => {
                self.logged_in = true;
                out.buf().extend_from_slice(b"welcome\n");
            }
            "lock" => {
                self.locks = true;
                out.buf().extend_from_slice(b"locked\n");
            }
            "tls" => {
                out.request_done();
                return self.tls.clone().map(Next::StartTls);
            }
            "quit" => return Some(Next::Close),
            _ => out.buf().extend_from_slice(b"what?\n"),
        }
        out.request_done();
        None
    }
}

impl Session for Line {
    fn on_input(&mut self, input: &mut Input, out: &mut Output) -> Next {
        loop {
            if out.should_yield() {
                return Next::Yield;
            }
            let Some(end) = input.bytes().iter().position(|b| *b == b'\n') else {
                return Next::Wait;
            };
            let rest = input.bytes().len() - end - 1;
            let put = std::str::from_utf8(&input.bytes()[..end])
                .ok()
                .and_then(|l| l.strip_prefix("put "))
                .and_then(|n| n.parse::<usize>().ok());
            if let Some(n) = put {
                if rest < n {
                    input.request_bytes(end + 1 + n);
                    return Next::Wait;
                }
                let sum: u64 = input.bytes()[end + 1..][..n]
                    .iter()
                    .map(|b| u64::from(*b))
                    .sum();
                input.consume(end + 1 + n);
                out.buf()
                    .extend_from_slice(format!("sum {sum}\n").as_bytes());
                out.request_done();
                continue;
            }
            let line = String::from_utf8_lossy(&input.bytes()[..end]).into_owned();
            input.consume(end + 1);
            if let Some(next) = self.run(&line, out) {
                return next;
            }
        }
    }

    fn on_end(&mut self, end: End, out: &mut Output) {
        self.seen.ends.lock().push(end);
        if end != End::Eof {
            out.buf()
                .extend_from_slice(format!("end {end:?}\n").as_bytes());
        }
    }

    fn logged_in(&self) -> bool {
        self.logged_in
    }

    fn idle_timeout(&self) -> Option<Duration> {
        self.idle
    }

    fn holds_locks(&self) -> bool {
        self.locks
    }
}

/// A running server of this protocol.
pub struct Server {
    pub net: Option<Net>,
    pub durability: Arc<DurabilityWatermark>,
    pub seen: Arc<Seen>,
    pub address: SocketAddr,
    pub path: PathBuf,
    _dir: tempfile::TempDir,
}

pub fn config() -> NetConfig {
    NetConfig {
        groups: 2,
        ..NetConfig::default()
    }
}

impl Server {
    pub fn start(config: NetConfig) -> Server {
        Server::with(config, false, None)
    }

    pub fn with(config: NetConfig, login: bool, idle: Option<Duration>) -> Server {
        Server::complete(config, login, idle, None)
    }

    pub fn complete(
        config: NetConfig,
        login: bool,
        idle: Option<Duration>,
        tls: Option<Arc<rustls::ServerConfig>>,
    ) -> Server {
        let seen = Arc::new(Seen::default());
        let durability = DurabilityWatermark::new(CommitPosition(0));
        let protocol = Arc::new(Lines {
            seen: seen.clone(),
            login,
            idle,
            tls,
        });
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lines.sock");
        let unix = BoundSocket::unix(&path).unwrap().serving(protocol.clone());
        let listener = BoundSocket::tcp("127.0.0.1:0".parse().unwrap()).unwrap();
        let Listening::Tcp(address) = *listener.at() else {
            panic!("not TCP");
        };
        let mut net = Net::start(config, durability.clone()).unwrap();
        net.serve(vec![listener.serving(protocol), unix]).unwrap();
        Server {
            net: Some(net),
            durability,
            seen,
            address,
            path,
            _dir: dir,
        }
    }

    pub fn connect(&self) -> Client {
        let stream = TcpStream::connect(self.address).unwrap();
        stream
            .set_read_timeout(Some(Duration::from_secs(30)))
            .unwrap();
        stream.set_nodelay(true).unwrap();
        Client(BufReader::new(stream))
    }
}

pub struct Client(pub BufReader<TcpStream>);

impl Client {
    pub fn send(&mut self, text: &str) {
        self.0.get_mut().write_all(text.as_bytes()).unwrap();
    }

    /// The next line; empty at the end of the stream.
    pub fn line(&mut self) -> String {
        let mut line = String::new();
        self.0.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    pub fn ask(&mut self, text: &str) -> String {
        self.send(&format!("{text}\n"));
        self.line()
    }

    /// Whether nothing comes for a while.
    pub fn silent(&mut self) -> bool {
        let stream = self.0.get_ref();
        stream
            .set_read_timeout(Some(Duration::from_millis(60)))
            .unwrap();
        let quiet = self.0.fill_buf().is_err();
        self.0
            .get_ref()
            .set_read_timeout(Some(Duration::from_secs(10)))
            .unwrap();
        quiet
    }
}

pub fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(10);
    while !holds() {
        assert!(Instant::now() < deadline, "never: {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}
