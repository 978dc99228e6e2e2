//! The other servers start, answer, and end when their handles are dropped.

use std::net::TcpStream;

use porpoise_testkit::{Mariadb, Memcached, exchange};

#[test]
fn memcached_answers_and_ends_with_its_handle() {
    let memcached = Memcached::start(1);
    let request = b"set k 0 0 5\r\nhello\r\nget k\r\nquit\r\n";
    let answer = exchange(memcached.addr, request);
    assert_eq!(answer, b"STORED\r\nVALUE k 0 5\r\nhello\r\nEND\r\n");
    let address = memcached.addr;
    drop(memcached);
    assert!(TcpStream::connect(address).is_err());
}

#[test]
fn mariadb_returns_rows_and_error_numbers_and_ends_with_its_handle() {
    let mariadb = Mariadb::builder().flush_log_at_trx_commit(0).start();
    let setting = mariadb.sql("SELECT @@innodb_flush_log_at_trx_commit, 'é'");
    assert_eq!(setting.rows(), [["0", "é"]]);
    let failed = mariadb.sql("SELECT * FROM nowhere.nothing");
    assert!(!failed.is_ok);
    assert_eq!(failed.error_number(), Some(1146));
    assert!(mariadb.socket.exists());
    let address = mariadb.addr;
    drop(mariadb);
    assert!(TcpStream::connect(address).is_err());
}

#[test]
fn a_server_ends_when_its_test_panics() {
    let (sender, receiver) = std::sync::mpsc::channel();
    let test = std::thread::spawn(move || {
        let memcached = Memcached::start(1);
        sender.send(memcached.addr).unwrap();
        panic!("on purpose, to see that the process ends");
    });
    let address = receiver.recv().unwrap();
    assert!(test.join().is_err());
    assert!(TcpStream::connect(address).is_err());
}

#[test]
fn a_server_outlives_the_thread_that_started_it() {
    let memcached = std::thread::spawn(|| Memcached::start(1)).join().unwrap();
    assert_eq!(exchange(memcached.addr, b"mn\r\n"), b"MN\r\n");
}
