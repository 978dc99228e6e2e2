//! Panics within a client's session.

use porpoise_access::{AccessControl, AuthId};
use porpoise_base::clock::{Clock, SystemClock};
use porpoise_kv::{Durability, Engine};
use porpoise_kv_mem::{KvMem, KvMemOptions};
use porpoise_memcached::{Authentication, Cache, ListenerSettings, Memcached};
use porpoise_rows::{Db, DbOptions};
use porpoise_server::memcached::{MemcachedProtocol, TlsSettings, traffic};
use porpoise_server::mysql::MysqlProtocol;
use porpoise_server::net::{
    BoundSocket, DurabilityWatermark, Listener, Listening, Net, NetConfig, Protocol,
};
use porpoise_sql::{SqlConfig, SqlServer};
use porpoise_testkit::{exchange, sql};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

/// The system clock, which panics in workers while armed.
#[derive(Default)]
struct PlantedClock(AtomicBool);

impl Clock for PlantedClock {
    fn unix_micros(&self) -> i64 {
        let in_worker = std::thread::current().name() == Some("worker");
        assert!(!(in_worker && self.0.load(Ordering::SeqCst)), "planted");
        SystemClock.unix_micros()
    }

    fn now(&self) -> Instant {
        SystemClock.now()
    }
}

struct Server {
    clock: Arc<PlantedClock>,
    mysql: SocketAddr,
    memcached: SocketAddr,
    _net: Net,
}

fn listen(protocol: Arc<dyn Protocol>) -> (Listener, SocketAddr) {
    let bound = BoundSocket::tcp("127.0.0.1:0".parse().unwrap()).unwrap();
    let Listening::Tcp(address) = *bound.at() else {
        unreachable!()
    };
    (bound.serving(protocol), address)
}

fn start() -> Server {
    let options = KvMemOptions {
        durability: Durability::Memory,
        ..KvMemOptions::default()
    };
    let engine: Arc<dyn Engine> = KvMem::open(options).unwrap();
    let clock = Arc::new(PlantedClock::default());
    let db = Db::open(engine.clone(), clock.clone(), DbOptions::default()).unwrap();
    let cache = Arc::new(Cache::new(1 << 20, 1 << 20, db.clock().as_ref()));
    let access = AccessControl::open(db.clone(), None).unwrap();
    let root = Some(AuthId::new("root", "localhost"));
    let authentication = Arc::new(Authentication::new(access, root));
    let settings = ListenerSettings {
        role: "default_role".to_owned(),
        max_value: 1 << 20,
        fires_triggers: true,
        cache,
        authentication,
        traffic,
    };
    let memcached = Arc::new(Memcached::open(db.clone(), settings).unwrap());
    let memcached = MemcachedProtocol::new(memcached, TlsSettings::default());
    let config = SqlConfig {
        variables: Vec::new(),
        root_password: None,
        ..SqlConfig::default()
    };
    let server = SqlServer::new(db, config).unwrap();
    server.provide_rows("ndbmemcache", "status", Box::new(|_| panic!("planted")));
    let durability = DurabilityWatermark::of(engine);
    let one_group = NetConfig {
        groups: 1,
        ..NetConfig::default()
    };
    let mut net = Net::start(one_group, durability).unwrap();
    let (mysql, mysql_address) = listen(Arc::new(MysqlProtocol::new(
        server,
        None,
        None,
        Arc::default(),
        None,
        None,
    )));
    let (memcached, memcached_address) = listen(Arc::new(memcached));
    net.serve(vec![mysql, memcached]).unwrap();
    Server {
        clock,
        mysql: mysql_address,
        memcached: memcached_address,
        _net: net,
    }
}

#[test]
fn a_mysql_session_ends_with_1105_and_its_transaction_is_rolled_back() {
    let server = start();
    let made = "CREATE DATABASE d; CREATE TABLE d.t (id INT PRIMARY KEY, v INT);
                INSERT INTO d.t VALUES (1, 1)";
    sql(server.mysql, made).rows();
    for _ in 0..3 {
        let failed = sql(
            server.mysql,
            "BEGIN; UPDATE d.t SET v = 2; SELECT * FROM ndbmemcache.status; COMMIT",
        );
        assert_eq!(failed.error_number(), Some(1105), "{}", failed.stderr);
    }
    // Its locks are gone, too: this would wait for 50 seconds.
    let after = "SET innodb_lock_wait_timeout = 1; UPDATE d.t SET v = v + 10; SELECT v FROM d.t";
    assert_eq!(sql(server.mysql, after).rows(), [["11"]]);
}

#[test]
fn a_memcached_session_ends_with_an_error_and_the_worker_goes_on() {
    let server = start();
    let set = b"set k 0 100 1\r\nv\r\n";
    let text = |reply: Vec<u8>| String::from_utf8_lossy(&reply).into_owned();
    assert_eq!(text(exchange(server.memcached, set)), "STORED\r\n");
    server.clock.0.store(true, Ordering::SeqCst);
    for _ in 0..3 {
        let reply = text(exchange(server.memcached, set));
        assert_eq!(reply, "SERVER_ERROR internal error\r\n");
    }
    server.clock.0.store(false, Ordering::SeqCst);
    let reply = text(exchange(server.memcached, b"get k\r\n"));
    assert_eq!(reply, "VALUE k 0 1\r\nv\r\nEND\r\n");
}
