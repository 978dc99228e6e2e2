//! One connection that sends all of its bytes, in pieces of any length, while it reads whatever
//! comes back, to the end.

use porpoise_testkit::Random;
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::Duration;

/// Longest silence of the server after the last byte was sent.
const PATIENCE: Duration = Duration::from_secs(30);

/// Longest answer that is kept; the rest is read and dropped.
const KEPT: usize = 64 << 20;

/// End of a conversation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// The server closed in order.
    Closed,
    /// One side closed with bytes of the other unread: what was said last may be lost.
    Reset,
    /// The server neither answered nor closed.
    Silent,
}

/// Sends the bytes, ends the sending half and reads to the end.
pub fn exchange(at: SocketAddr, random: &mut Random, bytes: &[u8]) -> (Vec<u8>, Ending) {
    talk(at, random, bytes, true)
}

/// Sends bytes that end with a goodbye, and reads until the server has closed. It may take the end
/// of a sending half for a client that went away, and leave commands without an answer.
pub fn exchange_politely(at: SocketAddr, random: &mut Random, bytes: &[u8]) -> (Vec<u8>, Ending) {
    talk(at, random, bytes, false)
}

fn talk(at: SocketAddr, random: &mut Random, bytes: &[u8], ends: bool) -> (Vec<u8>, Ending) {
    let mut stream = TcpStream::connect(at).expect("connect");
    stream.set_nodelay(true).expect("nodelay");
    stream.set_read_timeout(Some(PATIENCE)).expect("timeout");
    stream.set_write_timeout(Some(PATIENCE)).expect("timeout");
    let reader = stream.try_clone().expect("clone");
    let split = !random.once_in(3);
    let pieces = if split && bytes.len() < 20_000 {
        random.pieces(bytes)
    } else {
        vec![bytes]
    };
    let naps = random.once_in(8);
    std::thread::scope(|scope| {
        let answer = scope.spawn(move || read_all(reader));
        for piece in pieces {
            // The server may have closed already.
            if stream.write_all(piece).is_err() {
                break;
            }
            if naps && random.once_in(8) {
                std::thread::sleep(Duration::from_micros(300));
            }
        }
        // Some clients go without reading what is left for them.
        let leaves = random.once_in(16);
        if leaves {
            let _ = stream.shutdown(Shutdown::Both);
        } else if ends {
            let _ = stream.shutdown(Shutdown::Write);
        }
        let (kept, ending) = answer.join().expect("reader");
        (kept, if leaves { Ending::Reset } else { ending })
    })
}

fn read_all(mut stream: TcpStream) -> (Vec<u8>, Ending) {
    let mut kept = Vec::new();
    let mut buffer = vec![0; 64 * 1024];
    loop {
        match stream.read(&mut buffer) {
            Ok(0) => return (kept, Ending::Closed),
            Ok(n) if kept.len() < KEPT => kept.extend_from_slice(&buffer[..n]),
            Ok(_) => {}
            Err(e) if e.kind() == ErrorKind::Interrupted => {}
            Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                return (kept, Ending::Silent);
            }
            Err(_) => return (kept, Ending::Reset),
        }
    }
}
