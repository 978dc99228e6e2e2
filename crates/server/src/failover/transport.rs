//! Messages between members over TCP, authenticated by a shared secret.
//!
//! A connection carries messages in one direction, from the member that opened it. It begins with a challenge, so that recorded
//! messages cannot be replayed; each frame has an authentication code over its number and contents. Contents are not encrypted.
//!
//! ```text
//! receiver   magic (8) | challenge (32)
//! sender     magic (8) | from (4) | to (4) | digest of the members (32) | server_uuid (16) | version (32) | nonce (32) | code (32)
//! sender     length (2) | message | code (32)      ... an empty message shows that the sender is alive
//!
//! key of the frames  = HMAC-SHA256(secret, "porpoise failover session" | challenge | from | to | nonce)
//! code of the hello  = HMAC-SHA256(secret, "porpoise failover hello"   | challenge | hello)
//! code of frame n    = HMAC-SHA256(key, n (8) | message)
//! ```
//!
//! Messages may be lost: those for a member that cannot be reached, and the oldest of a full queue. A receiver accepts a bounded
//! number of connections, each for a bounded time until it has proved that it knows the secret.

use crate::config::Members;
use aws_lc_rs::{hmac, rand};
use parking_lot::Mutex;
use porpoise_base::threads::{self, Role};
use porpoise_replication::election::{MemberId, Message};
use porpoise_replication::gtid::Uuid;
use socket2::SockRef;
use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream, ToSocketAddrs};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::{Duration, Instant};

/// Version of the protocol, in the magic bytes.
pub const FAILOVER_PROTOCOL_VERSION: u8 = 2;

const MAGIC: [u8; 8] = *b"PORPFOV\x02";
const NUMBER_LEN: usize = 32;
const CODE_LEN: usize = 32;
const VERSION_LEN: usize = 32;

/// Offset of the sender's description in its hello.
const DESCRIPTION: std::ops::Range<usize> = 48..48 + 16 + VERSION_LEN;
const HELLO_LEN: usize = DESCRIPTION.end + NUMBER_LEN;

/// Longest message.
const MAX_MESSAGE: usize = 1024;

/// Maximum number of connections that are read at once.
const MAX_CONNECTIONS: usize = 32;

/// Time in which a connection has to prove that it knows the secret.
const HELLO_TIME: Duration = Duration::from_secs(2);

/// Silence after which a connection is closed; senders send something at each heartbeat.
const IDLE_TIME: Duration = Duration::from_secs(30);

/// Longest wait for a connection to a member, and for the TCP acknowledgement of sent bytes.
const SEND_TIME: Duration = Duration::from_secs(1);

/// Messages that wait for a connection.
const QUEUE: usize = 64;

/// The description of a member that it sends when it connects.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Description {
    /// Its `server_uuid`; nil of a witness.
    pub uuid: Uuid,
    /// Its version, as `@@version` shows it.
    pub version: String,
}

impl Description {
    fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.uuid.0);
        let mut version = [0; VERSION_LEN];
        for (to, from) in version.iter_mut().zip(self.version.bytes()) {
            *to = from;
        }
        out.extend_from_slice(&version);
    }

    fn decode(bytes: &[u8]) -> Option<Description> {
        let (uuid, version) = bytes.split_first_chunk::<16>()?;
        let version = version.split(|byte| *byte == 0).next()?;
        Some(Description {
            uuid: Uuid(*uuid),
            version: String::from_utf8_lossy(version).into_owned(),
        })
    }
}

/// An event from a member.
pub enum Received {
    /// It has connected.
    Hello(Description),
    /// It has shown that it is alive.
    Alive,
    /// A message.
    Message(Message),
}

/// Receiver of the events.
pub type Deliver = Arc<dyn Fn(MemberId, Received) + Send + Sync>;

/// A member's identity in the group, with the secret.
pub struct Identity<'a> {
    /// Its number.
    pub id: MemberId,
    /// All members.
    pub members: &'a Members,
    /// Their secret.
    pub secret: &'a [u8],
    /// Its description.
    pub description: Description,
}

/// This member's identity towards the others.
struct OwnIdentity {
    id: MemberId,
    description: Description,
    members: Members,
    digest: [u8; 32],
    secret: hmac::Key,
}

impl OwnIdentity {
    fn new(identity: Identity<'_>) -> OwnIdentity {
        OwnIdentity {
            id: identity.id,
            description: identity.description,
            members: identity.members.clone(),
            digest: identity.members.digest(),
            secret: hmac::Key::new(hmac::HMAC_SHA256, identity.secret),
        }
    }
}

/// The connections of a member.
pub struct Transport {
    queues: BTreeMap<MemberId, SyncSender<Vec<u8>>>,
}

impl Transport {
    /// Accepts messages at `listener`, and connects to the other members. `deliver` is called with each event.
    ///
    /// # Errors
    /// A thread cannot be started.
    pub fn start(
        identity: Identity<'_>,
        keep_alive: Duration,
        listener: TcpListener,
        deliver: Deliver,
    ) -> io::Result<Transport> {
        listener.set_nonblocking(false)?;
        let (id, members) = (identity.id, identity.members);
        let identity = Arc::new(OwnIdentity::new(identity));
        let mut queues = BTreeMap::new();
        for (other, _) in members.iter().filter(|(other, _)| *other != id) {
            let (queue, messages) = sync_channel(QUEUE);
            let identity = identity.clone();
            threads::spawn(Role::FailoverSender, move || {
                send_all(&identity, other, &messages, keep_alive);
            })?;
            queues.insert(other, queue);
        }
        threads::spawn(Role::FailoverAcceptor, move || {
            accept(&identity, &listener, &deliver);
        })?;
        Ok(Transport { queues })
    }

    /// Sends a message, or drops it.
    pub fn send(&self, to: MemberId, message: &Message) {
        let mut bytes = Vec::new();
        message.encode(&mut bytes);
        if let Some(queue) = self.queues.get(&to) {
            let _dropped = queue.try_send(bytes);
        }
    }
}

/// The key and the number of the next frame of a connection.
struct Frames {
    key: hmac::Key,
    number: u64,
}

impl Frames {
    fn new(secret: &hmac::Key, challenge: &[u8], hello: &[u8]) -> Frames {
        let mut text = b"porpoise failover session".to_vec();
        text.extend_from_slice(challenge);
        text.extend_from_slice(hello);
        let key = hmac::sign(secret, &text);
        Frames {
            key: hmac::Key::new(hmac::HMAC_SHA256, key.as_ref()),
            number: 0,
        }
    }

    fn signed(&mut self, message: &[u8]) -> Vec<u8> {
        let mut text = self.number.to_le_bytes().to_vec();
        text.extend_from_slice(message);
        self.number += 1;
        text
    }
}

/// The bytes over which the code of a hello is computed.
fn hello_text(challenge: &[u8], hello: &[u8]) -> Vec<u8> {
    let mut text = b"porpoise failover hello".to_vec();
    text.extend_from_slice(challenge);
    text.extend_from_slice(hello);
    text
}

fn random_number() -> io::Result<[u8; NUMBER_LEN]> {
    let mut number = [0; NUMBER_LEN];
    rand::fill(&mut number).map_err(|_| io::Error::other("no random bytes"))?;
    Ok(number)
}

fn malformed(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

/// Sends the messages for a member, and connects again when a connection has failed.
fn send_all(
    identity: &OwnIdentity,
    to: MemberId,
    messages: &Receiver<Vec<u8>>,
    keep_alive: Duration,
) {
    let mut connection: Option<(TcpStream, Frames)> = None;
    let mut failed: Option<Instant> = None;
    loop {
        let message = match messages.recv_timeout(keep_alive) {
            Ok(message) => message,
            Err(RecvTimeoutError::Timeout) => Vec::new(),
            Err(RecvTimeoutError::Disconnected) => return,
        };
        // Old messages are useless: while the member cannot be reached, they are dropped.
        let may_try = failed.is_none_or(|failed| failed.elapsed() >= keep_alive);
        if connection.is_none() && may_try {
            match connect(identity, to) {
                Ok(opened) => {
                    tracing::info!(member = to, "failover: connected to the member");
                    (connection, failed) = (Some(opened), None);
                }
                Err(error) => {
                    tracing::debug!(member = to, %error, "failover: the member cannot be reached");
                    failed = Some(Instant::now());
                }
            }
        }
        if let Some((stream, frames)) = &mut connection
            && let Err(error) = send(stream, frames, &message)
        {
            tracing::info!(member = to, %error, "failover: the connection to the member is lost");
            connection = None;
        }
    }
}

fn connect(identity: &OwnIdentity, to: MemberId) -> io::Result<(TcpStream, Frames)> {
    let member = identity.members.get(to);
    let member = member.ok_or_else(|| io::Error::other("no such member"))?;
    let mut last = io::Error::other("the host has no address");
    for address in (member.host.as_str(), member.port).to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, SEND_TIME) {
            Ok(stream) => return greet(identity, to, stream),
            Err(error) => last = error,
        }
    }
    Err(last)
}

fn greet(
    identity: &OwnIdentity,
    to: MemberId,
    mut stream: TcpStream,
) -> io::Result<(TcpStream, Frames)> {
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(SEND_TIME))?;
    stream.set_write_timeout(Some(SEND_TIME))?;
    SockRef::from(&stream).set_tcp_user_timeout(Some(SEND_TIME))?;
    let mut opening = [0; MAGIC.len() + NUMBER_LEN];
    stream.read_exact(&mut opening)?;
    let (magic, challenge) = opening.split_at(MAGIC.len());
    if magic != MAGIC {
        return Err(malformed("another protocol or version"));
    }
    let mut hello = MAGIC.to_vec();
    hello.extend_from_slice(&identity.id.to_le_bytes());
    hello.extend_from_slice(&to.to_le_bytes());
    hello.extend_from_slice(&identity.digest);
    identity.description.encode(&mut hello);
    hello.extend_from_slice(&random_number()?);
    let code = hmac::sign(&identity.secret, &hello_text(challenge, &hello));
    let frames = Frames::new(&identity.secret, challenge, &hello);
    hello.extend_from_slice(code.as_ref());
    stream.write_all(&hello)?;
    Ok((stream, frames))
}

fn send(stream: &mut TcpStream, frames: &mut Frames, message: &[u8]) -> io::Result<()> {
    let length = u16::try_from(message.len()).map_err(|_| malformed("a message is too long"))?;
    let text = frames.signed(message);
    let code = hmac::sign(&frames.key, &text);
    let mut frame = length.to_le_bytes().to_vec();
    frame.extend_from_slice(message);
    frame.extend_from_slice(code.as_ref());
    stream.write_all(&frame)
}

/// Accepts connections, each of which has a thread.
fn accept(identity: &Arc<OwnIdentity>, listener: &TcpListener, deliver: &Deliver) {
    let open = Arc::new(AtomicUsize::new(0));
    let last_warning: Arc<Mutex<Option<Instant>>> = Arc::default();
    loop {
        let stream = match listener.accept() {
            Ok((stream, _)) => stream,
            Err(error) => {
                tracing::warn!(%error, "failover: a connection cannot be accepted");
                std::thread::sleep(Duration::from_millis(100));
                continue;
            }
        };
        if open.load(Ordering::Relaxed) >= MAX_CONNECTIONS {
            continue;
        }
        open.fetch_add(1, Ordering::Relaxed);
        let (identity, deliver) = (identity.clone(), deliver.clone());
        let (count, last_warning) = (open.clone(), last_warning.clone());
        let spawned = threads::spawn(Role::FailoverReader, move || {
            if let Err(error) = receive_all(&identity, stream, &deliver)
                && error.kind() == io::ErrorKind::InvalidData
            {
                // Any host can connect: the log must not grow with each attempt.
                let mut last = last_warning.lock();
                if last.is_none_or(|last| last.elapsed() >= Duration::from_secs(10)) {
                    *last = Some(Instant::now());
                    tracing::warn!(%error, "failover: a connection is refused");
                }
            }
            count.fetch_sub(1, Ordering::Relaxed);
        });
        if let Err(error) = spawned {
            tracing::warn!(%error, "failover: no thread for a connection");
            open.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

/// Reads a connection to its end.
fn receive_all(identity: &OwnIdentity, mut stream: TcpStream, deliver: &Deliver) -> io::Result<()> {
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(HELLO_TIME))?;
    stream.set_write_timeout(Some(HELLO_TIME))?;
    let challenge = random_number()?;
    stream.write_all(&[&MAGIC[..], &challenge].concat())?;
    let mut hello = [0; HELLO_LEN];
    stream.read_exact(&mut hello)?;
    let mut code = [0; CODE_LEN];
    stream.read_exact(&mut code)?;
    let from = check_hello(identity, &challenge, &hello, &code)?;
    let description = hello.get(DESCRIPTION).and_then(Description::decode);
    deliver(from, Received::Hello(description.unwrap_or_default()));
    let mut frames = Frames::new(&identity.secret, &challenge, &hello);
    stream.set_read_timeout(Some(IDLE_TIME))?;
    loop {
        let mut length = [0; 2];
        stream.read_exact(&mut length)?;
        let length = usize::from(u16::from_le_bytes(length));
        if length > MAX_MESSAGE {
            return Err(malformed("a message is too long"));
        }
        let mut message = vec![0; length];
        stream.read_exact(&mut message)?;
        stream.read_exact(&mut code)?;
        let text = frames.signed(&message);
        hmac::verify(&frames.key, &text, &code)
            .map_err(|_| malformed("a message has a wrong code"))?;
        if message.is_empty() {
            deliver(from, Received::Alive);
            continue;
        }
        let decoded = Message::decode(&message);
        let decoded = decoded.ok_or_else(|| malformed("a message cannot be read"))?;
        deliver(from, Received::Message(decoded));
    }
}

/// Verifies a hello, and returns the member that has sent it.
fn check_hello(
    identity: &OwnIdentity,
    challenge: &[u8],
    hello: &[u8; HELLO_LEN],
    code: &[u8],
) -> io::Result<MemberId> {
    if !hello.starts_with(&MAGIC) {
        return Err(malformed("another protocol or version"));
    }
    hmac::verify(&identity.secret, &hello_text(challenge, hello), code)
        .map_err(|_| malformed("a member has another secret (--failover-secret-file)"))?;
    let number = |at: usize| {
        let bytes = hello
            .get(at..at + 4)
            .and_then(|bytes| bytes.try_into().ok());
        bytes.map(u32::from_le_bytes)
    };
    let (from, to) = (number(8), number(12));
    if hello.get(16..48) != Some(&identity.digest[..]) {
        return Err(malformed(
            "a member has another list of members (--failover-members)",
        ));
    }
    match from {
        Some(from)
            if to == Some(identity.id)
                && from != identity.id
                && identity.members.get(from).is_some() =>
        {
            Ok(from)
        }
        _ => Err(malformed("the message is addressed to another member")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;

    const LIST: &str = "1=127.0.0.1:1/1,2=127.0.0.1:2/1,3=127.0.0.1:3";

    fn listener() -> (TcpListener, u16) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        (listener, port)
    }

    fn described(id: MemberId) -> Description {
        Description {
            uuid: Uuid([u8::try_from(id).unwrap(); 16]),
            version: format!("8.4.0-test-{id}"),
        }
    }

    fn identity(id: MemberId, list: &str, secret: &[u8]) -> OwnIdentity {
        OwnIdentity::new(Identity {
            id,
            members: &Members::parse(list).unwrap(),
            secret,
            description: described(id),
        })
    }

    #[test]
    fn messages_arrive_and_only_members_with_the_secret_are_heard() {
        let (listener_1, port_1) = listener();
        let (listener_2, port_2) = listener();
        let list = format!("1=127.0.0.1:{port_1}/1,2=127.0.0.1:{port_2}/1");
        let members = Members::parse(&list).unwrap();
        let (sender, received) = channel();
        let sender = Mutex::new(sender);
        let known = Arc::<Mutex<Option<Description>>>::default();
        let hello = known.clone();
        let deliver: Deliver = Arc::new(move |from, received| match received {
            Received::Hello(description) => *hello.lock() = Some(description),
            Received::Alive => {}
            Received::Message(message) => {
                let _ = sender.lock().send((from, message));
            }
        });
        let start = |id, listener, deliver| {
            let identity = Identity {
                id,
                members: &members,
                secret: b"secret",
                description: described(id),
            };
            Transport::start(identity, Duration::from_millis(20), listener, deliver).unwrap()
        };
        let one = start(1, listener_1, Arc::new(|_, _| {}));
        let _two = start(2, listener_2, deliver);
        let message = Message::Heartbeat {
            epoch: 5,
            view: Default::default(),
            incarnation: 0,
        };
        let wait = Duration::from_millis(50);
        let deadline = Instant::now() + Duration::from_secs(30);
        let found = loop {
            one.send(2, &message);
            if let Ok(found) = received.recv_timeout(wait) {
                break found;
            }
            assert!(Instant::now() < deadline, "no message arrives");
        };
        assert_eq!(found, (1, message));
        assert_eq!(*known.lock(), Some(described(1)));
    }

    #[test]
    fn another_secret_list_or_receiver_is_refused() {
        let own = identity(2, LIST, b"secret");
        let challenge = [7; NUMBER_LEN];
        let hello = |identity: &OwnIdentity, to: MemberId| {
            let mut hello = MAGIC.to_vec();
            hello.extend_from_slice(&identity.id.to_le_bytes());
            hello.extend_from_slice(&to.to_le_bytes());
            hello.extend_from_slice(&identity.digest);
            identity.description.encode(&mut hello);
            hello.extend_from_slice(&[9; NUMBER_LEN]);
            let code = hmac::sign(&identity.secret, &hello_text(&challenge, &hello));
            (
                <[u8; HELLO_LEN]>::try_from(hello).unwrap(),
                code.as_ref().to_vec(),
            )
        };
        let check = |(hello, code): ([u8; HELLO_LEN], Vec<u8>)| {
            check_hello(&own, &challenge, &hello, &code).map_err(|error| error.to_string())
        };
        assert_eq!(check(hello(&identity(1, LIST, b"secret"), 2)), Ok(1));
        let wrong = check(hello(&identity(1, LIST, b"other"), 2)).unwrap_err();
        assert!(wrong.contains("secret"), "{wrong}");
        let other = LIST.replace(":3", ":4");
        let wrong = check(hello(&identity(1, &other, b"secret"), 2)).unwrap_err();
        assert!(wrong.contains("list of members"), "{wrong}");
        assert!(check(hello(&identity(1, LIST, b"secret"), 3)).is_err());
        assert!(check(hello(&identity(2, LIST, b"secret"), 2)).is_err());
        let (bytes, code) = hello(&identity(1, LIST, b"secret"), 2);
        let replayed = check_hello(&own, &[8; NUMBER_LEN], &bytes, &code);
        assert!(replayed.is_err(), "a hello counts for one challenge");
    }

    #[test]
    fn frames_that_were_changed_repeated_or_left_out_are_refused() {
        let secret = hmac::Key::new(hmac::HMAC_SHA256, b"secret");
        let key = || Frames::new(&secret, b"challenge", b"hello");
        let (mut sender, mut receiver) = (key(), key());
        let mut verify = |message: &[u8], code: &[u8]| {
            let text = receiver.signed(message);
            hmac::verify(&receiver.key, &text, code).is_ok()
        };
        let mut sign = |message: &[u8]| {
            let text = sender.signed(message);
            hmac::sign(&sender.key, &text).as_ref().to_vec()
        };
        let first = sign(b"a");
        assert!(verify(b"a", &first));
        assert!(!verify(b"a", &first), "repeated");
        let third = (sign(b"b"), sign(b"c")).1;
        assert!(verify(b"c", &third), "the third of both sides");
        let fourth = sign(b"d");
        assert!(!verify(b"e", &fourth), "changed");
    }
}
