//! Panics of workers and of the acceptor outside of sessions, each in a process of its own: this
//! test binary, started again. A worker that is busy.

use super::eventually;
use porpoise_base::threads::PANIC_EXIT_STATUS;
use porpoise_kv::CommitPosition;
use porpoise_server::net::{
    BoundSocket, DurabilityWatermark, End, Input, Listening, Net, NetConfig, Next, Output, Peer,
    Protocol, Refusal, Session,
};
use std::io::Write;
use std::net::{SocketAddr, TcpStream};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

const CHILD: &str = "PORPOISE_TEST_PLANTED_THREAD";

/// A protocol that panics on the thread `name`, and keeps a worker busy on input while `busy`.
#[derive(Default)]
struct Planted {
    name: Option<String>,
    busy: Arc<AtomicBool>,
    calls: Arc<AtomicUsize>,
}

impl Planted {
    fn panic_if_planted(&self) {
        let here = std::thread::current();
        assert!(
            self.name.is_none() || here.name() != self.name.as_deref(),
            "planted"
        );
    }
}

struct Busy {
    busy: Arc<AtomicBool>,
    calls: Arc<AtomicUsize>,
}

impl Session for Busy {
    fn on_input(&mut self, input: &mut Input, _: &mut Output) -> Next {
        input.consume(input.bytes().len());
        self.calls.fetch_add(1, Ordering::SeqCst);
        while self.busy.load(Ordering::SeqCst) {
            std::thread::sleep(Duration::from_millis(1));
        }
        Next::Wait
    }

    fn on_end(&mut self, _: End, _: &mut Output) {}

    fn logged_in(&self) -> bool {
        true
    }
}

impl Protocol for Planted {
    fn name(&self) -> &'static str {
        "planted"
    }

    fn open(&self, _: Peer, _: &mut Output) -> Box<dyn Session> {
        Box::new(Busy {
            busy: self.busy.clone(),
            calls: self.calls.clone(),
        })
    }

    fn refusal(&self, _: Refusal) -> Vec<u8> {
        Vec::new()
    }

    /// Called by the acceptor once `max_connections` are open.
    fn reserves_connection(&self) -> bool {
        self.panic_if_planted();
        true
    }

    /// Called by the worker that admits a connection.
    fn half_closes(&self) -> bool {
        self.panic_if_planted();
        false
    }
}

fn start(config: NetConfig, protocol: Planted) -> (Net, SocketAddr) {
    let mut net = Net::start(config, DurabilityWatermark::new(CommitPosition(0))).unwrap();
    let bound = BoundSocket::tcp("127.0.0.1:0".parse().unwrap()).unwrap();
    let Listening::Tcp(address) = *bound.at() else {
        unreachable!()
    };
    net.serve(vec![bound.serving(Arc::new(protocol))]).unwrap();
    (net, address)
}

/// Not a test by itself: the process that the test below starts.
#[test]
fn child() {
    let Ok(name) = std::env::var(CHILD) else {
        return;
    };
    let config = NetConfig {
        max_connections: 1,
        ..NetConfig::default()
    };
    let protocol = Planted {
        name: Some(name),
        ..Planted::default()
    };
    let (_net, address) = start(config, protocol);
    let _clients: Vec<_> = (0..2).map(|_| TcpStream::connect(address)).collect();
    std::thread::sleep(Duration::from_secs(5));
    // Not reached: the panic ends the process first.
    std::process::exit(3);
}

#[test]
fn a_panic_outside_of_sessions_ends_the_process() {
    for name in ["worker", "accept"] {
        let output = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "workers::child", "--nocapture"])
            .env(CHILD, name)
            .output()
            .unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        let status = output.status.code();
        assert_eq!(status, Some(PANIC_EXIT_STATUS), "{name}: {errors}");
        let message = format!("internal error in thread {name}: planted");
        assert!(errors.contains(&message), "{errors}");
    }
}

/// With a limit of one computing detached worker, the event loop of a second busy
/// worker is not retaken, so its group does not answer.
#[test]
fn a_thread_group_serves_while_one_of_its_workers_is_free() {
    let busy = Arc::new(AtomicBool::new(true));
    let calls = Arc::new(AtomicUsize::new(0));
    let protocol = Planted {
        name: None,
        busy: busy.clone(),
        calls: calls.clone(),
    };
    let config = NetConfig {
        groups: 2,
        max_running_statements: 1,
        ..NetConfig::default()
    };
    let (net, address) = start(config, protocol);
    let probe = net.monitor();
    let all_answer = |when: &str| {
        let asked = probe.send_probes();
        eventually(when, || probe.unanswered(&asked).is_empty());
    };
    let occupy = |workers: usize| {
        let mut client = TcpStream::connect(address).unwrap();
        client.write_all(b"x").unwrap();
        eventually("the worker is busy", || {
            calls.load(Ordering::SeqCst) == workers
        });
        client
    };
    all_answer("both groups answer");
    let _first = occupy(1);
    all_answer("another worker answers");
    let _second = occupy(2);
    let asked = probe.send_probes();
    eventually("the other group answers", || {
        probe.unanswered(&asked).len() == 1
    });
    std::thread::sleep(Duration::from_millis(50));
    assert_eq!(probe.unanswered(&asked).len(), 1);
    busy.store(false, Ordering::SeqCst);
    eventually("both groups answer again", || {
        probe.unanswered(&asked).is_empty()
    });
}
