//! Values of 64 MB through text and through long data, in and out.

use crate::client::Client;
use porpoise_testkit::Porpoise;
use porpoise_types::ValueRef;
use porpoise_wire::mysql::client;
use porpoise_wire::mysql::params::Param;

const SIZE: usize = 64_000_000;

fn ready() -> (Porpoise, Client) {
    let server = Porpoise::builder().start();
    let mut c = Client::root(server.mysql_addr);
    c.good("CREATE DATABASE d");
    c.good("USE d");
    c.good(
        "CREATE TABLE t (id INT PRIMARY KEY, n INT, v LONGBLOB, s LONGTEXT) \
         PARTITION BY KEY (id) PARTITIONS 3",
    );
    (server, c)
}

fn letters(seed: u64) -> Vec<u8> {
    let mut state = seed;
    let mut letter = || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        b'a' + u8::try_from(state >> 59).unwrap() % 26
    };
    (0..SIZE).map(|_| letter()).collect()
}

#[test]
fn a_text_value_of_64_mib_round_trips_and_survives_a_restart() {
    let (mut server, mut c) = ready();
    let value = letters(1);
    let text = String::from_utf8(value.clone()).unwrap();
    let answer = c.query(&format!("INSERT INTO t VALUES (1, 0, NULL, '{text}')"));
    assert_eq!((answer.error, answer.affected), (None, 1));
    assert_eq!(
        c.good("SELECT LENGTH(s), CHAR_LENGTH(s), s IS NULL FROM t")
            .texts()[0],
        [SIZE.to_string(), SIZE.to_string(), "0".to_owned()]
    );
    c.good("UPDATE t SET n = n + 1");
    let rows = c.good("SELECT s FROM t WHERE id = 1").rows;
    assert!(
        rows[0][0].as_deref() == Some(value.as_slice()),
        "as it was stored"
    );
    drop(c);
    server.restart();
    let mut c = Client::root(server.mysql_addr);
    let end = String::from_utf8_lossy(&value[SIZE - 10..]).into_owned();
    let start = String::from_utf8_lossy(&value[..10]).into_owned();
    let found = c
        .good("SELECT n, LEFT(s, 10), RIGHT(s, 10) FROM d.t")
        .texts();
    assert_eq!(found[0], ["1".to_owned(), start, end]);
    let check = c.good("CHECK TABLE d.t").texts();
    assert_eq!(check[0][3], "OK");
}

#[test]
fn a_prepared_statement_accepts_64_mib_of_long_data() {
    let (_server, mut c) = ready();
    let value = letters(2);
    let insert = c.prepare("INSERT INTO t VALUES (7, 0, ?, NULL)").unwrap();
    for piece in value.chunks(10_000_000) {
        let mut out = Vec::new();
        client::long_data(&mut out, insert.id, 0, piece);
        c.send(&out);
    }
    let answer = c.execute(insert.id, &[Param::from(ValueRef::Null)], &[0]);
    assert_eq!((answer.error, answer.affected), (None, 1));
    let select = c
        .prepare("SELECT v, LENGTH(v) FROM t WHERE id = ?")
        .unwrap();
    let answer = c.execute(select.id, &[Param::from(ValueRef::Int(7))], &[]);
    assert_eq!(answer.error, None);
    assert!(
        answer.rows[0][0].as_deref() == Some(value.as_slice()),
        "as it was stored"
    );
}
