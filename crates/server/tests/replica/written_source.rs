//! A source whose log is written byte by byte, from MySQL's documents ("Binary Log Event", "Replication Protocol"): what a running
//! MySQL would send.
//!
//! It answers the statements of a replica, then sends the events of its only file from the requested position up to the
//! released end, and heartbeats.

use porpoise_replication::event::{checksum, kind};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

/// The file's name.
pub const FILE: &str = "binlog.000001";

/// UUID of the source.
const UUID: [u8; 16] = *b"\x3e\x11\xfa\x47\x71\xca\x11\xe1\x9e\x33\xc8\x0a\xa9\x42\x95\x62";

const OK: &[u8] = &[0, 0, 0, 2, 0, 0, 0];
const EOF: &[u8] = &[0xFE, 0, 0, 2, 0];

/// A log file; each event begins where the one before it ends.
#[derive(Clone)]
pub struct Log {
    events: Vec<Vec<u8>>,
    end: u32,
    gtids: u8,
}

impl Log {
    /// A file with the head of MySQL 8.4.
    pub fn new() -> Log {
        let mut log = Log {
            events: Vec::new(),
            end: 4,
            gtids: 0,
        };
        let mut body = vec![4, 0];
        let mut version = b"8.4.0".to_vec();
        version.resize(50, 0);
        body.extend(version);
        body.extend([0; 4]);
        body.push(19);
        body.extend([
            0x00, 0x0d, 0x00, 0x08, 0x00, 0x00, 0x00, 0x00, 0x04, 0x00, 0x04, 0x00, 0x00, 0x00,
            0x63, 0x00, 0x04, 0x1a, 0x08, 0x00, 0x00, 0x00, 0x08, 0x08, 0x08, 0x02, 0x00, 0x00,
            0x00, 0x0a, 0x0a, 0x0a, 0x2a, 0x2a, 0x00, 0x12, 0x34, 0x00, 0x0a, 0x28, 0x00, 0x00,
        ]);
        body.push(1);
        log.push(kind::FORMAT_DESCRIPTION, &body);
        log
    }

    /// Position at which the next event begins.
    pub fn end(&self) -> u32 {
        self.end
    }

    /// Number of events.
    pub fn len(&self) -> usize {
        self.events.len()
    }

    /// Appends an event of server 5.
    pub fn push(&mut self, kind: u8, body: &[u8]) -> &mut Log {
        self.end += 19 + body.len() as u32 + 4;
        self.events.push(event(kind, self.end, 0, body));
        self
    }

    /// Appends the GTID of the next transaction.
    pub fn gtid(&mut self) -> &mut Log {
        self.gtids += 1;
        let mut body = vec![0];
        body.extend(UUID);
        body.extend([self.gtids, 0, 0, 0, 0, 0, 0, 0]);
        body.push(2);
        body.extend([0; 16]);
        self.push(kind::GTID, &body)
    }

    /// Appends a statement.
    pub fn query(&mut self, text: &str) -> &mut Log {
        let mut body = vec![9, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, b'd', 0];
        body.extend(text.as_bytes());
        self.push(kind::QUERY, &body)
    }

    /// Appends the insertion of a row into the table `d.t (id INT, v VARCHAR(20))` of utf8mb4.
    pub fn row(&mut self, id: u8, v: &str) -> &mut Log {
        let mut map = vec![42, 0, 0, 0, 0, 0, 1, 0];
        map.extend(b"\x01d\0\x01t\0\x02\x03\x0f\x02\x50\x00\x02");
        self.push(kind::TABLE_MAP, &map);
        let mut rows = vec![42, 0, 0, 0, 0, 0, 1, 0, 2, 0, 2, 3, 0, id, 0, 0, 0];
        rows.push(v.len() as u8);
        rows.extend(v.as_bytes());
        self.push(kind::WRITE_ROWS, &rows)
    }

    /// Appends the end of a transaction.
    pub fn xid(&mut self) -> &mut Log {
        self.push(kind::XID, &[1, 0, 0, 0, 0, 0, 0, 0])
    }

    /// Appends XA_PREPARE of a branch with format 1.
    pub fn xa_prepare(&mut self, one_phase: bool, global: &str, branch: &str) -> &mut Log {
        let mut body = vec![u8::from(one_phase), 1, 0, 0, 0];
        body.extend((global.len() as u32).to_le_bytes());
        body.extend((branch.len() as u32).to_le_bytes());
        body.extend(global.as_bytes());
        body.extend(branch.as_bytes());
        self.push(kind::XA_PREPARE, &body)
    }
}

/// An event with its header and checksum.
fn event(kind: u8, position: u32, flags: u16, body: &[u8]) -> Vec<u8> {
    let mut bytes = vec![1, 0, 0, 0, kind, 5, 0, 0, 0];
    bytes.extend((19 + body.len() as u32 + 4).to_le_bytes());
    bytes.extend(position.to_le_bytes());
    bytes.extend(flags.to_le_bytes());
    bytes.extend(body);
    bytes.extend(checksum(&bytes).to_le_bytes());
    bytes
}

/// A running source.
pub struct WrittenSource {
    pub address: SocketAddr,
    log: Arc<Mutex<Log>>,
    released: Arc<AtomicUsize>,
}

impl WrittenSource {
    /// Starts a source with this log, of which nothing is released. Its threads end with the test.
    pub fn start(log: Log) -> WrittenSource {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let source = WrittenSource {
            address: listener.local_addr().unwrap(),
            log: Arc::new(Mutex::new(log)),
            released: Arc::new(AtomicUsize::new(0)),
        };
        let (log, released) = (source.log.clone(), source.released.clone());
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (log, released) = (log.clone(), released.clone());
                // A replica that disconnects ends its thread.
                thread::spawn(move || serve(stream, &log, &released).map_err(drop));
            }
        });
        source
    }

    /// Releases the first events, of this number.
    pub fn release(&self, events: usize) {
        self.released.store(events, Ordering::SeqCst);
    }
}

fn send(stream: &mut TcpStream, sequence: &mut u8, payload: &[u8]) -> std::io::Result<()> {
    let mut packet = (payload.len() as u32).to_le_bytes()[..3].to_vec();
    packet.push(*sequence);
    packet.extend(payload);
    *sequence = sequence.wrapping_add(1);
    stream.write_all(&packet)
}

fn receive(stream: &mut TcpStream) -> std::io::Result<Vec<u8>> {
    let mut header = [0; 4];
    stream.read_exact(&mut header)?;
    let mut payload = vec![0; u32::from_le_bytes([header[0], header[1], header[2], 0]) as usize];
    stream.read_exact(&mut payload)?;
    Ok(payload)
}

fn serve(mut stream: TcpStream, log: &Mutex<Log>, released: &AtomicUsize) -> std::io::Result<()> {
    let mut greeting = b"\x0a8.4.0\0\x01\0\0\0abcdefgh\0".to_vec();
    // LONG_PASSWORD, PROTOCOL_41, TRANSACTIONS, SECURE_CONNECTION; utf8mb4; autocommit; PLUGIN_AUTH.
    greeting.extend([0x01, 0xA2, 45, 2, 0, 0x08, 0, 21]);
    greeting.extend([0; 10]);
    greeting.extend(b"ijklmnopqrst\0mysql_native_password\0");
    send(&mut stream, &mut 0, &greeting)?;
    receive(&mut stream)?;
    send(&mut stream, &mut 2, OK)?;
    loop {
        let command = receive(&mut stream)?;
        match command[0] {
            3 => answer(&mut stream, &String::from_utf8_lossy(&command[1..]))?,
            0x12 => {
                let position = u32::from_le_bytes(command[1..5].try_into().unwrap());
                return dump(&mut stream, position, log, released);
            }
            1 => return Ok(()),
            _ => send(&mut stream, &mut 1, OK)?,
        }
    }
}

/// Answers the statements with which a replica begins.
fn answer(stream: &mut TcpStream, text: &str) -> std::io::Result<()> {
    let row: &[&str] = match text {
        _ if text.starts_with("SET") => return send(stream, &mut 1, OK),
        _ if text.contains("@@server_uuid") => &["3e11fa47-71ca-11e1-9e33-c80aa9429562"],
        _ if text.contains("@@version") => &["8.4.0", "5", "1", "ROW"],
        _ if text.contains("binlog_checksum") => &["CRC32"],
        _ => &[],
    };
    let mut sequence = 1;
    let columns = row.len().max(2);
    send(stream, &mut sequence, &[columns as u8])?;
    for _ in 0..columns {
        let mut column = b"\x03def\0\0\0\x01c\0\x0c\x2d\0\0\x01\0\0\xfd".to_vec();
        column.extend([0; 5]);
        send(stream, &mut sequence, &column)?;
    }
    send(stream, &mut sequence, EOF)?;
    if !row.is_empty() {
        let mut cells = Vec::new();
        for cell in row
            .iter()
            .copied()
            .chain(std::iter::repeat(""))
            .take(columns)
        {
            cells.push(cell.len() as u8);
            cells.extend(cell.as_bytes());
        }
        send(stream, &mut sequence, &cells)?;
    }
    send(stream, &mut sequence, EOF)
}

/// Sends events from a position on, and heartbeats.
fn dump(
    stream: &mut TcpStream,
    position: u32,
    log: &Mutex<Log>,
    released: &AtomicUsize,
) -> std::io::Result<()> {
    let mut sequence = 1;
    let mut rotate = u64::from(position).to_le_bytes().to_vec();
    rotate.extend(FILE.as_bytes());
    let mut all = vec![event(kind::ROTATE, 0, 0x20, &rotate)];
    if position > 4 {
        let head = log.lock().unwrap().events[0].clone();
        let body = &head[19..head.len() - 4];
        all.push(event(kind::FORMAT_DESCRIPTION, 0, 0x20, body));
    }
    let (mut next, mut at) = (0, 4);
    loop {
        let mut is_idle = true;
        for event in std::mem::take(&mut all) {
            send(stream, &mut sequence, &[&[0][..], &event].concat())?;
        }
        let log = log.lock().unwrap().clone();
        while next < released.load(Ordering::SeqCst).min(log.events.len()) {
            let event = &log.events[next];
            if at >= position {
                all.push(event.clone());
                is_idle = false;
            }
            at += event.len() as u32;
            next += 1;
        }
        if is_idle {
            thread::sleep(Duration::from_millis(100));
            all.push(event(kind::HEARTBEAT, at, 0, FILE.as_bytes()));
        }
    }
}
