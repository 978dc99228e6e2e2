//! Commands of a logged-in session: well formed, slightly malformed, and random.

use crate::corpus;
use crate::packets::capabilities;
use porpoise_testkit::Random;
use porpoise_types::ValueRef;
use porpoise_wire::mysql::capability::type_code;
use porpoise_wire::mysql::command::code;
use porpoise_wire::mysql::frame::HEADER;
use porpoise_wire::mysql::params::Param;
use porpoise_wire::mysql::{Capabilities, client};

/// Whether a command is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reply {
    /// Once, unless the connection is closed.
    One,
    /// Not at all where it is well formed, else once.
    Perhaps,
    /// The connection is closed, or the packets that follow are not commands.
    Last,
}

/// Commands that the server does not have, or that are of other servers' replication.
const OTHERS: &[u8] = &[
    0, 5, 6, 7, 8, 11, 15, 16, 18, 19, 20, 21, 29, 30, 32, 33, 100, 250, 255,
];

/// Statements to prepare, with parameters.
const PREPARED: &[&str] = &[
    "SELECT ?",
    "SELECT ?, ?, ?",
    "SELECT * FROM t WHERE id = ?",
    "SELECT * FROM t WHERE id IN (?, ?, ?) ORDER BY s LIMIT ?",
    "INSERT INTO t (id, s, b) VALUES (?, ?, ?) ON DUPLICATE KEY UPDATE s = ?, n = n + 1",
    "UPDATE t SET s = ?, d = ? WHERE id < ?",
    "SELECT a.id, b.s FROM t a JOIN t b ON a.id = b.n WHERE a.s > ? FOR UPDATE",
    "SELECT id + ?, CONCAT(s, ?), d FROM t GROUP BY 1, 2, 3",
    "CALL nothing(?)",
    "SELECT 1 UNION SELECT ?",
    "DELETE FROM t WHERE b = ? LIMIT ?",
    "SELECT ? LIKE ?, ? REGEXP ?, JSON_EXTRACT(?, ?)",
    "CREATE TABLE IF NOT EXISTS u (a INT DEFAULT 5)",
    "DO ?",
];

/// Statements whose results the surrounding commands use.
const TEXTS: &[&str] = &[
    "SELECT * FROM t",
    "SELECT 1; SELECT 2; SELECT 3",
    "BEGIN",
    "COMMIT",
    "ROLLBACK",
    "SET autocommit = 0",
    "SET autocommit = 1",
    "SET session_track_system_variables = '*'",
    "SET session_track_schema = 0, session_track_state_change = 1",
    "SET session_track_transaction_info = 'CHARACTERISTICS'",
    "SET resultset_metadata = 'NONE'",
    "SET character_set_results = NULL",
    "SET NAMES latin1",
    "ALTER TABLE t ADD COLUMN z INT",
    "ALTER TABLE t DROP COLUMN z",
    "DROP TABLE t",
    "USE fuzz",
    "INSERT INTO t (s) VALUES ('x'), (REPEAT('y', 1000))",
    "PREPARE p FROM 'SELECT ?'",
    "EXECUTE p USING @a",
    "LOAD DATA LOCAL INFILE 'x' INTO TABLE t",
    "SET max_allowed_packet = 1024",
    "KILL QUERY CONNECTION_ID()",
];

/// A command, its reply, and its payload.
pub fn command(random: &mut Random, caps: Capabilities) -> (Reply, Vec<u8>) {
    let (reply, payload) = intended(random, caps);
    // It may have become another one.
    let reply = match payload.first() {
        Some(&(code::QUIT | code::CHANGE_USER)) => Reply::Last,
        Some(&(code::STMT_CLOSE | code::STMT_SEND_LONG_DATA)) => Reply::Perhaps,
        _ if UNSURE.iter().any(|word| mentions(&payload, word)) => Reply::Last,
        _ => reply,
    };
    (reply, payload)
}

/// Words of statements that close the connection after an OK (COMMIT RELEASE, `completion_type`) or
/// may take long.
const UNSURE: &[&[u8]] = &[
    b"release",
    b"completion",
    b"sleep",
    b"benchmark",
    b"get_lock",
];

fn mentions(payload: &[u8], word: &[u8]) -> bool {
    let found = |w: &[u8]| w.eq_ignore_ascii_case(word);
    payload.len() < 10_000 && payload.windows(word.len()).any(found)
}

fn intended(random: &mut Random, caps: Capabilities) -> (Reply, Vec<u8>) {
    match random.below(40) {
        0..6 => (Reply::One, text(random, caps)),
        6..11 => (Reply::One, prepare(random)),
        11..22 => (Reply::One, execute(random, caps)),
        22..25 => (Reply::Perhaps, long_data(random)),
        25..29 => (Reply::One, fetch(random)),
        29 => (Reply::One, statement_id(random, code::STMT_RESET)),
        30 => (Reply::Perhaps, statement_id(random, code::STMT_CLOSE)),
        31 => (Reply::One, tail(random, code::RESET_CONNECTION, 3)),
        32 => (Reply::One, tail(random, code::SET_OPTION, 4)),
        33 => (Reply::One, field_list(random)),
        34 => (Reply::One, simple(random)),
        35 => (Reply::One, init_db(random)),
        36 => {
            let command = *random.pick(OTHERS);
            (Reply::One, tail(random, command, 60))
        }
        37 => rare(random),
        38 => (Reply::One, broken(random, caps)),
        _ => (Reply::One, vec![code::PING]),
    }
}

fn with(command: u8, body: &[u8]) -> Vec<u8> {
    [&[command], body].concat()
}

fn tail(random: &mut Random, command: u8, most: usize) -> Vec<u8> {
    let size = random.below(most);
    with(command, &random.bytes(size))
}

fn text(random: &mut Random, caps: Capabilities) -> Vec<u8> {
    let text = *random.pick(TEXTS);
    let text = match random.below(4) {
        0 => {
            let other = corpus::statement(random);
            corpus::mutated(random, other)
        }
        1 => corpus::mutated(random, text),
        _ => text.into(),
    };
    let named = values(random);
    let attributes: Vec<(&[u8], Param<'_>)> = match random.below(3) {
        0 => named.iter().map(|p| (&b"name"[..], *p)).collect(),
        _ => Vec::new(),
    };
    let mut out = Vec::new();
    client::query(&mut out, caps, &text, &attributes);
    out.split_off(HEADER)
}

fn prepare(random: &mut Random) -> Vec<u8> {
    let text = match random.below(4) {
        0 => corpus::statement(random),
        _ => random.pick(PREPARED),
    };
    let text = match random.below(3) {
        0 => corpus::mutated(random, text),
        _ => text.into(),
    };
    with(code::STMT_PREPARE, &text)
}

/// Numbers of statements are given in order, so small ones are likely to be there.
fn id(random: &mut Random) -> u32 {
    match random.below(12) {
        0 => random.bits() as u32,
        n => n as u32 / 2,
    }
}

fn values(random: &mut Random) -> Vec<Param<'static>> {
    let one = |random: &mut Random| -> Param<'static> {
        let value = *random.pick(&[
            ValueRef::Null,
            ValueRef::Int(-1),
            ValueRef::Int(5),
            ValueRef::UInt(u64::MAX),
            ValueRef::Double(f64::NAN),
            ValueRef::Double(-1e308),
            ValueRef::Bytes(b""),
            ValueRef::Bytes(b"5"),
            ValueRef::Bytes(b"\xff\x00'\\"),
            ValueRef::Bytes(&[b'x'; 3000]),
        ]);
        let mut param = Param::from(value);
        if let ValueRef::Bytes(_) = value {
            param.type_code = *random.pick(&[
                type_code::VARCHAR,
                type_code::BLOB,
                type_code::JSON,
                type_code::NEWDECIMAL,
                type_code::GEOMETRY,
                type_code::ENUM,
            ]);
        }
        param
    };
    (0..random.below(6)).map(|_| one(random)).collect()
}

fn execute(random: &mut Random, caps: Capabilities) -> Vec<u8> {
    let mut out = Vec::new();
    let params = values(random);
    let typed = !random.once_in(5);
    let long = random.below(12);
    client::execute(&mut out, caps, id(random), &params, typed, |i| i == long);
    let mut payload = out.split_off(HEADER);
    // Flags: cursors of all kinds, and the number of parameters.
    payload[5] |= *random.pick(&[0, 0, 1, 1, 1, 2, 4, 8, 9, 255]);
    match random.below(6) {
        0 => random.mutate(&payload),
        _ => payload,
    }
}

fn long_data(random: &mut Random) -> Vec<u8> {
    let mut body = id(random).to_le_bytes().to_vec();
    body.extend((random.below(7) as u16).to_le_bytes());
    let size = match random.below(20) {
        0 => 2 << 20,
        1 => 70_000,
        _ => random.below(300),
    };
    body.resize(body.len() + size, b'l');
    if random.once_in(10) {
        body.truncate(random.below(7));
    }
    with(code::STMT_SEND_LONG_DATA, &body)
}

fn fetch(random: &mut Random) -> Vec<u8> {
    let mut body = id(random).to_le_bytes().to_vec();
    let rows: u32 = *random.pick(&[0, 1, 2, 3, 100, u32::MAX]);
    body.extend(rows.to_le_bytes());
    body.truncate(8 - random.below(9) / 8 * random.below(8));
    with(code::STMT_FETCH, &body)
}

fn statement_id(random: &mut Random, command: u8) -> Vec<u8> {
    let body = id(random).to_le_bytes();
    let cut = 4 - random.below(9) / 8 * random.below(4);
    with(command, &body[..cut])
}

fn field_list(random: &mut Random) -> Vec<u8> {
    let table = *random.pick(&["t", "none", "", "information_schema.TABLES", "calm.t"]);
    let wild = *random.pick(&["", "%", "_", "i%", "%%%%%%%%%%%%a", "\u{fc}"]);
    let body = [table.as_bytes(), b"\0", wild.as_bytes()].concat();
    match random.below(4) {
        0 => with(code::FIELD_LIST, &random.mutate(&body)),
        _ => with(code::FIELD_LIST, &body),
    }
}

fn simple(random: &mut Random) -> Vec<u8> {
    let command = *random.pick(&[code::STATISTICS, code::PROCESS_INFO, code::DEBUG]);
    tail(random, command, 2)
}

fn init_db(random: &mut Random) -> Vec<u8> {
    let names: [&[u8]; 6] = [b"fuzz", b"calm", b"", b"none", b"\xff\xfe", b"mysql"];
    let name = *random.pick(&names);
    with(code::INIT_DB, name)
}

/// Commands after which the session has another user, or is closed.
fn rare(random: &mut Random) -> (Reply, Vec<u8>) {
    match random.below(4) {
        0 => (Reply::Last, vec![code::QUIT]),
        1 => {
            let id = 1_000_000 + random.bits() as u32 / 2;
            (Reply::One, with(code::PROCESS_KILL, &id.to_le_bytes()))
        }
        _ => {
            let user = *random.pick(&["fuzz", "fuzz", "", "nobody"]);
            let mut body = [user.as_bytes(), b"\0\0fuzz\0\x2d\0"].concat();
            body.extend(b"caching_sha2_password\0");
            if capabilities(random).has(Capabilities::CONNECT_ATTRS) {
                body.extend(b"\x0d\x05_name\x06fuzzer");
            }
            let body = match random.below(3) {
                0 => random.mutate(&body),
                _ => body,
            };
            (Reply::Last, with(code::CHANGE_USER, &body))
        }
    }
}

/// Bytes that may be any command.
fn broken(random: &mut Random, caps: Capabilities) -> Vec<u8> {
    match random.below(4) {
        0 => Vec::new(),
        1 => {
            let size = random.below(80);
            random.bytes(size)
        }
        2 => vec![random.bits() as u8; random.below(400_000)],
        _ => {
            let (_, payload) = command(random, caps);
            random.mutate(&payload)
        }
    }
}
