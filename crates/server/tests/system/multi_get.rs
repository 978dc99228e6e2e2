//! The multi-get, as published: one table read by `get` of 1 to 50 keys and by `SELECT ... IN`,
//! and written through both protocols.

use std::io::Write;
use std::process::{Command, Stdio};

use porpoise_testkit::{Porpoise, exchange};

use crate::support::{Cache, Sql, map_prefix, server};

/// The statement byte for byte.
const TABLE: &str = "create table memcache_t (id int(11) not null default '0', \
    value varchar(20) default null, flags int(11) default null, cas_value int(11) default null, \
    primary key (id) using hash) engine=ndbcluster default charset=latin1";
const KEYS: usize = 50;

/// The published table with its rows, and keys `mt:N` mapped to it.
fn start() -> (Porpoise, Sql) {
    let server = server().start();
    let mut sql = Sql::connect(server.mysql_addr);
    sql.run("create database test");
    sql.run("use test");
    sql.run(TABLE);
    for n in 1..=KEYS {
        let insert = format!("insert into memcache_t values ({n}, repeat('a',10), 0, 0)");
        assert_eq!(sql.run(&insert).affected, 1);
    }
    map_prefix(&mut sql, "mt:", ("test", "memcache_t"), ("id", "value"));
    (server, sql)
}

fn list(keys: usize, prefix: &str, separator: &str) -> String {
    let words: Vec<String> = (1..=keys).map(|n| format!("{prefix}{n}")).collect();
    words.join(separator)
}

/// The answer that memcached would give for what SELECT finds.
fn expected(sql: &mut Sql, keys: usize) -> String {
    let mut rows = sql.rows(&format!(
        "select id,value from memcache_t where id in ({})",
        list(keys, "", ",")
    ));
    rows.sort_by_key(|row| row[0].parse::<u32>().unwrap());
    let mut text = String::new();
    for row in rows {
        let (id, value) = (&row[0], &row[1]);
        text.push_str(&format!("VALUE mt:{id} 0 {}\r\n{value}\r\n", value.len()));
    }
    text.push_str("END\r\n");
    text
}

#[test]
fn get_and_select_in_give_the_same_for_1_to_50_keys() {
    let (server, mut sql) = start();
    // Rows that differ, so that a mix-up of values shows.
    for n in (1..=KEYS).step_by(3) {
        sql.run(&format!(
            "update memcache_t set value = 'v{n}' where id = {n}"
        ));
    }
    sql.run("delete from memcache_t where id = 42");
    let mut open = Cache::connect(server.memcached_addr);
    for keys in 1..=KEYS {
        let expected = expected(&mut sql, keys);
        // As published: two spaces, a line feed alone, and the sending half closed.
        let request = format!("get  {}\n", list(keys, "mt:", " "));
        let answer = exchange(server.memcached_addr, request.as_bytes());
        assert_eq!(String::from_utf8_lossy(&answer), expected, "{keys} keys");
        let line = format!("get {}\r\n", list(keys, "mt:", " "));
        let items = open.items(&line).unwrap().unwrap();
        assert_eq!(items.len(), if keys >= 42 { keys - 1 } else { keys });
    }
}

#[test]
fn the_published_command_line_is_answered() {
    let (server, mut sql) = start();
    let expected = expected(&mut sql, KEYS);
    let mut netcat = Command::new("nc")
        .arg("-N")
        .arg(server.memcached_addr.ip().to_string())
        .arg(server.memcached_addr.port().to_string())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("nc: run `make needs`");
    let request = format!("get  {}\n", list(KEYS, "mt:", " "));
    let mut input = netcat.stdin.take().unwrap();
    input.write_all(request.as_bytes()).unwrap();
    drop(input);
    let answer = netcat.wait_with_output().unwrap();
    assert_eq!(String::from_utf8_lossy(&answer.stdout), expected);
    assert!(expected.contains("VALUE mt:50 0 10\r\naaaaaaaaaa\r\n"));
}

#[test]
fn what_one_protocol_writes_the_other_reads_next() {
    let (server, mut sql) = start();
    let mut cache = Cache::connect(server.memcached_addr);
    for n in 1..=KEYS {
        let key = format!("mt:{n}");
        let select = format!("select value from memcache_t where id = {n}");
        let before = cache.version(&key);
        assert_eq!(cache.set(&key, &format!("set {n}")), "STORED");
        assert_eq!(sql.rows(&select), [[format!("set {n}")]]);
        let stored = cache.version(&key);
        assert_ne!(stored, before, "a set changes the version");
        sql.run(&format!(
            "update memcache_t set value = 'sql {n}' where id = {n}"
        ));
        assert_eq!(cache.get(&key), Some(format!("sql {n}")));
        let updated = cache.version(&key);
        assert_ne!(updated, stored, "an UPDATE changes the version");
        let stale = format!("cas {key} 0 0 1 {stored}\r\nx\r\n");
        assert_eq!(cache.run(&stale), "EXISTS");
        let fresh = format!("cas {key} 0 0 3 {updated}\r\ncas\r\n");
        assert_eq!(cache.run(&fresh), "STORED");
        assert_eq!(sql.rows(&select), [["cas"]]);
    }
    assert_eq!(cache.set("mt:1000", "new"), "STORED");
    assert_eq!(
        sql.rows("select id, value from memcache_t where id > 50"),
        [["1000", "new"]]
    );
    assert_eq!(cache.run("delete mt:1000\r\n"), "DELETED");
    assert_eq!(sql.number("select count(*) from memcache_t"), 50);
    sql.run("delete from memcache_t where id = 50");
    assert_eq!(cache.get("mt:50"), None);
}

#[test]
fn a_transaction_of_sql_is_seen_by_get_when_it_commits() {
    let (server, mut sql) = start();
    let mut cache = Cache::connect(server.memcached_addr);
    sql.run("begin");
    sql.run("update memcache_t set value = 'both' where id in (1, 2)");
    assert_eq!(cache.get("mt:1").unwrap(), "aaaaaaaaaa");
    sql.run("commit");
    let values: Vec<Vec<u8>> = cache
        .gets(&["mt:1", "mt:2"])
        .into_iter()
        .map(|item| item.data)
        .collect();
    assert_eq!(values, [b"both", b"both"]);
    sql.run("begin");
    sql.run("update memcache_t set value = 'never' where id = 1");
    sql.run("rollback");
    assert_eq!(cache.get("mt:1").unwrap(), "both");
}

/// A refused write: its reply has the reason, and nothing has changed.
fn refused(cache: &mut Cache, sql: &mut Sql, key: &str, value: &str, reason: &str) {
    let all = "select * from memcache_t order by id";
    let before = (sql.rows(all), cache.gets(&["mt:1", "mt:2"]));
    let reply = cache.set(key, value);
    assert!(reply.starts_with("SERVER_ERROR "), "{key}: {reply}");
    assert!(reply.contains(reason), "{key}: {reply} lacks {reason}");
    assert_eq!((sql.rows(all), cache.gets(&["mt:1", "mt:2"])), before);
}

#[test]
fn a_set_that_does_not_fit_is_refused_with_the_reason() {
    let (server, mut sql) = start();
    let mut cache = Cache::connect(server.memcached_addr);
    let long = "x".repeat(21);
    refused(
        &mut cache,
        &mut sql,
        "mt:1",
        &long,
        "Data too long for column 'value'",
    );
    refused(
        &mut cache,
        &mut sql,
        "mt:999",
        &long,
        "Data too long for column 'value'",
    );
    refused(&mut cache, &mut sql, "mt:many", "x", "'id'");
    refused(&mut cache, &mut sql, "mt:99999999999", "x", "'id'");
    // The connection stays open.
    assert_eq!(cache.set("mt:1", &"y".repeat(20)), "STORED");
}

#[test]
fn a_set_that_violates_a_constraint_is_refused_with_the_reason() {
    let (server, mut sql) = start();
    let mut cache = Cache::connect(server.memcached_addr);
    sql.run("create table owner (id int primary key, name varchar(9))");
    sql.run("insert into owner values (1, 'a'), (2, 'b')");
    sql.run(
        "create table thing (id int primary key, owner int, name varchar(20) not null default '', \
         unique key (name), constraint fk_owner foreign key (owner) references owner (id))",
    );
    map_prefix(&mut sql, "th:", ("test", "thing"), ("id", "owner,name"));
    assert_eq!(cache.set("th:1", "1\tlamp"), "STORED");
    let before = sql.rows("select * from thing");
    for (key, value, reason) in [
        ("th:2", "3\tchair", "fk_owner"),
        ("th:1", "3\tlamp", "fk_owner"),
        ("th:2", "1\tlamp", "Duplicate entry 'lamp'"),
    ] {
        let reply = cache.set(key, value);
        assert!(reply.starts_with("SERVER_ERROR "), "{key} {value}: {reply}");
        assert!(reply.contains(reason), "{key} {value}: {reply}");
        assert_eq!(sql.rows("select * from thing"), before);
    }
    // A parent is held by its child, whichever protocol it is deleted through.
    map_prefix(&mut sql, "ow:", ("test", "owner"), ("id", "name"));
    let reply = cache.run("delete ow:1\r\n");
    assert!(reply.starts_with("SERVER_ERROR "), "{reply}");
    assert!(reply.contains("fk_owner"), "{reply}");
    assert_eq!(cache.run("delete ow:2\r\n"), "DELETED");
    assert_eq!(sql.rows("select id from owner"), [["1"]]);
}

#[test]
fn keys_without_a_prefix_are_rows_of_the_default_table() {
    let server = server().start();
    let mut cache = Cache::connect(server.memcached_addr);
    assert_eq!(cache.run("set greeting 7 0 5\r\nhello\r\n"), "STORED");
    let mut sql = Sql::connect(server.mysql_addr);
    assert_eq!(
        sql.rows("select mkey, value, flags from ndbmemcache.kv"),
        [["greeting", "hello", "7"]]
    );
    sql.run("update ndbmemcache.kv set value = 'goodbye' where mkey = 'greeting'");
    assert_eq!(cache.get("greeting").unwrap(), "goodbye");
}
