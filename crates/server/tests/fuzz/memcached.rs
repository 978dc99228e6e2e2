//! Mutated requests of the transcripts in the three memcached dialects, sent in pieces of random
//! lengths, on the default table and on tables of prefixes of every kind.

use crate::client::Client;
use crate::talk::{Ending, exchange};
use crate::transcript::{self, Part, Step, parts, steps};
use crate::watch::Watched;
use crate::{LONG, SHORT};
use porpoise_testkit::{Porpoise, Random};
use std::sync::OnceLock;

/// Prefixes with several columns, objects, numbers, expiry, parts of long values, no rows at all,
/// and constraints.
const TABLES: &[&str] = &[
    "CREATE DATABASE m",
    "CREATE TABLE m.parent (id INT PRIMARY KEY)",
    "INSERT INTO m.parent VALUES (1), (2)",
    "CREATE TABLE m.wide (a INT, b VARCHAR(20), c VARCHAR(300), d DECIMAL(10,3), n BIGINT UNSIGNED, \
     f INT, x BIGINT, p INT, PRIMARY KEY (a, b), CHECK (d < 1000), \
     g VARCHAR(400) AS (CONCAT(c, '!')) STORED, FOREIGN KEY (p) REFERENCES m.parent (id))",
    "CREATE TABLE m.object (id INT PRIMARY KEY, name VARCHAR(30) NOT NULL, j JSON, at DATETIME(3), \
     bits BIT(9), UNIQUE (name))",
    "CREATE TABLE m.city (id VARCHAR(32) PRIMARY KEY, v VARCHAR(40), w VARCHAR(4))",
    "ALTER TABLE m.wide MEMCACHED PREFIX 'w:' KEY (a, b) VALUE (c, d, p) FLAGS (f) EXPIRES (x)",
    "ALTER TABLE m.object MEMCACHED PREFIX 'o:' AS JSON",
    "ALTER TABLE m.city MEMCACHED PREFIX 'c:' VALUE (v, w) SEPARATOR '|' ESCAPE '^' NULL AS 'N'",
    "INSERT INTO ndbmemcache.key_prefixes VALUES (0, 'm:', 0, 'memcache-only', NULL)",
];

const LINES: &[&[u8]] = &[
    b"get w:1\tx w:2\ty o:1 c:A m:1\r\n",
    b"set w:1\tx 5 60 5\r\nab\t1.5\r\n",
    b"set w:1\tx 5 -1 10\r\nabc\t1.5\t99\r\n",
    b"append w:1\tx 0 0 1\r\n\t\r\n",
    b"incr w:1\tx 5\r\n",
    b"set o:1 0 0 21\r\n{\"id\":1,\"name\":\"a\\u0\r\n",
    b"set o:2 0 0 21\r\n{\"id\":2,\"name\":\"abcd\"}\r\n",
    b"get @@m/city\r\nget @>A\r\nget @>=A@<Z\r\nget @<=\r\nget @@\r\n",
    b"get @@city.A\r\nset A 0 0 3\r\nx|y\r\n",
    b"set c:A 0 0 5\r\nx^|N|\r\n",
    b"set m:1 0 0 3\r\nabc\r\nincr m:1 1\r\ngat 5 m:1 m:2\r\n",
    b"mn begin\r\nms o:3 23\r\n{\"id\":3,\"name\":\"abcde\"}\r\nmd o:2\r\nmn\r\n",
    b"mn begin\r\nmg a v\r\nma n N0 J1\r\nquit\r\n",
    b"mg w:1\tx s v f t c k h l\r\nmg m:1 N30 v R40\r\n",
    b"flush_all 3000000000\r\nstats\r\nstats items\r\nstats conns\r\n",
];

/// Every request that the transcripts send, and some for the tables.
fn corpus() -> &'static [Vec<u8>] {
    static CORPUS: OnceLock<Vec<Vec<u8>>> = OnceLock::new();
    CORPUS.get_or_init(|| {
        let mut all: Vec<Vec<u8>> = LINES.iter().map(|line| line.to_vec()).collect();
        for path in transcript::all() {
            let text = std::fs::read_to_string(path).expect("a transcript");
            all.extend(steps(&text).iter().map(sent));
        }
        all.retain(|request| request.len() < 5_000);
        all
    })
}

fn sent(step: &Step) -> Vec<u8> {
    let mut bytes = Vec::new();
    for part in step.sent.iter().flat_map(|line| parts(line)) {
        match part {
            Part::Bytes(part) => bytes.extend(part),
            Part::Cas => bytes.extend(b"1"),
            Part::Cas8 => bytes.extend([0, 0, 0, 0, 0, 0, 0, 1]),
            Part::Any => {}
        }
    }
    bytes
}

/// A key of a transcript, or of one of the tables.
fn rename(random: &mut Random, request: &[u8]) -> Vec<u8> {
    let name = *random.pick(&[
        "w:1\tx", "w:2", "w:\t", "o:1", "o:x", "c:A", "c:", "m:1", "@@", "@>",
    ]);
    let mut words: Vec<&[u8]> = request.split(|b| *b == b' ').collect();
    if let Some(key) = words.get_mut(1) {
        *key = name.as_bytes();
    }
    words.join(&b' ')
}

fn case(random: &mut Random, server: &Porpoise) {
    let mut bytes = Vec::new();
    let binary = random.once_in(3);
    for _ in 0..1 + random.below(25) {
        let mut request = random.pick(corpus()).clone();
        // A connection keeps the dialect of its first byte.
        while (request.first() == Some(&0x80)) != binary {
            request = random.pick(corpus()).clone();
        }
        match random.below(8) {
            0 => request = random.mutate(&request),
            1 | 2 if !binary => request = rename(random, &request),
            3 => {
                let size = random.below(200);
                bytes.extend(random.bytes(size));
            }
            4 if random.once_in(8) => bytes.extend(vec![b'k'; random.below(3_000_000)]),
            _ => {}
        }
        bytes.extend(request);
    }
    let (_, ending) = exchange(server.memcached_addr, random, &bytes);
    assert_ne!(ending, Ending::Silent, "{}", bytes.escape_ascii());
}

/// Checks that values can be set and read, and that the tables are consistent.
fn ask(server: &Porpoise) {
    let answer = server.memcached("set last 0 0 2\r\nok\r\nget last\r\n");
    assert_eq!(answer, "STORED\r\nVALUE last 0 2\r\nok\r\nEND\r\n");
    let mut root = Client::root(server.mysql_addr);
    for table in ["m.wide", "m.object", "m.city", "ndbmemcache.kv"] {
        let found = root.good(&format!("CHECK TABLE {table}")).texts();
        assert_eq!(found[0][3], "OK", "{found:?}");
    }
    let bad = "SELECT COUNT(*) FROM m.wide WHERE d >= 1000 OR NOT g <=> CONCAT(c, '!') OR p NOT IN \
               (SELECT id FROM m.parent)";
    assert_eq!(root.good(bad).one(), "0");
}

fn watched() -> Watched {
    let watched = Watched::start();
    let mut root = Client::root(watched.server.mysql_addr);
    for statement in TABLES {
        root.good(statement);
    }
    watched
}

#[test]
fn any_memcached_requests() {
    watched().run_and_ask(SHORT, 400, case, ask);
}

#[test]
#[ignore = "long: minutes of random requests"]
fn any_memcached_requests_for_long() {
    watched().run_and_ask(LONG, u64::MAX, case, ask);
}
