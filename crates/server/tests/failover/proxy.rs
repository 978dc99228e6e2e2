//! The network between members: proxies that hold back and delay what goes from one member to another.

use porpoise_testkit::free_ports;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Bytes of the greeting of a member, and where its number is in it (docs/formats.md).
const SENDER: std::ops::Range<usize> = 8..12;

#[derive(Default)]
struct State {
    /// Members that are cut off from all others.
    cut: Mutex<BTreeSet<u32>>,
    /// Longest delay of a part of a stream, in milliseconds.
    delay: AtomicU64,
    /// How many of 1,000 parts are lost, with their connections.
    lost: AtomicU64,
    /// Bytes a second of each stream from a MySQL listener; 0: no limit.
    rate: AtomicU64,
}

impl State {
    fn is_cut(&self, member: u32) -> bool {
        self.cut.lock().unwrap().contains(&member)
    }
}

/// The proxies in front of the members.
pub struct Network {
    state: Arc<State>,
    fronts: BTreeMap<SocketAddr, SocketAddr>,
}

impl Network {
    /// Starts proxies in front of the addresses for messages, and of the MySQL listeners.
    pub fn start(members: &[(u32, SocketAddr)], mysql: &[(u32, SocketAddr)]) -> Network {
        let state = Arc::<State>::default();
        let mut fronts = BTreeMap::new();
        let both = members
            .iter()
            .map(|m| (m, true))
            .chain(mysql.iter().map(|m| (m, false)));
        for (&(member, back), has_greeting) in both {
            let (listener, front) = listen();
            fronts.insert(back, front);
            let state = state.clone();
            std::thread::spawn(move || {
                for stream in listener.incoming().flatten() {
                    let state = state.clone();
                    std::thread::spawn(move || {
                        let _ = relay(&state, member, stream, back, has_greeting);
                    });
                }
            });
        }
        Network { state, fronts }
    }

    /// Address at which other members reach this one.
    pub fn front(&self, back: SocketAddr) -> SocketAddr {
        self.fronts[&back]
    }

    /// Cuts a member off: nothing goes to it or comes from it.
    pub fn cut(&self, member: u32) {
        self.state.cut.lock().unwrap().insert(member);
    }

    /// Ends all faults.
    pub fn heal(&self) {
        self.state.cut.lock().unwrap().clear();
        self.state.delay.store(0, Ordering::SeqCst);
        self.state.lost.store(0, Ordering::SeqCst);
        self.limit(0);
    }

    /// Loses this number of 1,000 parts of streams; their connections end.
    pub fn lose(&self, lost: u64) {
        self.state.lost.store(lost, Ordering::SeqCst);
    }

    /// Limits each stream from a MySQL listener to this number of bytes a second; 0: no limit.
    pub fn limit(&self, bytes_per_second: u64) {
        self.state.rate.store(bytes_per_second, Ordering::SeqCst);
    }

    /// Delays everything by up to this many milliseconds.
    pub fn delay(&self, millis: u64) {
        self.state.delay.store(millis, Ordering::SeqCst);
    }
}

fn listen() -> (TcpListener, SocketAddr) {
    let address = free_ports(1)[0];
    let listener = TcpListener::bind(address).unwrap();
    (listener, address)
}

fn relay(
    state: &Arc<State>,
    member: u32,
    client: TcpStream,
    back: SocketAddr,
    has_greeting: bool,
) -> std::io::Result<()> {
    while state.is_cut(member) {
        std::thread::sleep(Duration::from_millis(20));
    }
    let server = TcpStream::connect(back)?;
    for stream in [&client, &server] {
        stream.set_nodelay(true)?;
    }
    // The other direction has the challenge, or is that of a replica that is not the member that is cut off.
    let (to_client, from_server) = (client.try_clone()?, server.try_clone()?);
    let own = state.clone();
    std::thread::spawn(move || {
        let rate = (!has_greeting).then_some(&own.rate);
        let _ = copy(&own, &[member], rate, from_server, to_client);
    });
    let mut sender = Vec::new();
    if has_greeting {
        let mut head = [0; SENDER.end];
        (&client).read_exact(&mut head)?;
        sender.push(u32::from_le_bytes(head[SENDER].try_into().unwrap()));
        wait(state, &[member, sender[0]]);
        (&server).write_all(&head)?;
    }
    sender.push(member);
    copy(state, &sender, None, client, server)
}

fn wait(state: &State, members: &[u32]) {
    while members.iter().any(|member| state.is_cut(*member)) {
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Copies a stream as long as none of the members is cut off.
fn copy(
    state: &State,
    members: &[u32],
    rate: Option<&AtomicU64>,
    mut from: TcpStream,
    mut to: TcpStream,
) -> std::io::Result<()> {
    let mut buffer = vec![0; 64 << 10];
    let mut done = || -> std::io::Result<()> {
        loop {
            let read = from.read(&mut buffer)?;
            if read == 0 {
                return Ok(());
            }
            wait(state, members);
            let delay = state.delay.load(Ordering::SeqCst);
            if delay > 0 {
                std::thread::sleep(Duration::from_millis(fastrand::u64(..=delay)));
            }
            let rate = rate.map_or(0, |rate| rate.load(Ordering::SeqCst));
            if rate > 0 {
                std::thread::sleep(Duration::from_secs_f64(read as f64 / rate as f64));
            }
            if fastrand::u64(..1000) < state.lost.load(Ordering::SeqCst) {
                return Ok(());
            }
            to.write_all(&buffer[..read])?;
        }
    };
    let result = done();
    let _ = from.shutdown(Shutdown::Both);
    let _ = to.shutdown(Shutdown::Both);
    result
}
