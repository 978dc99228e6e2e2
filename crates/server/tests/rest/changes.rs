//! The change stream: events, positions, filters, privileges, slow readers.

use super::client::*;
use porpoise_testkit::{Porpoise, PorpoiseBuilder};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

/// Longest wait for an event.
const WAIT: Duration = Duration::from_secs(60);

/// A server with a log and a REST listener.
fn with_log() -> PorpoiseBuilder {
    Porpoise::builder()
        .arg("--rest-listen", "127.0.0.1:0")
        .flag("--log-bin")
}

/// An event.
#[derive(Debug)]
struct Event {
    kind: String,
    id: String,
    data: Value,
}

/// A client of a stream.
struct Stream {
    status: u16,
    headers: String,
    input: BufReader<TcpStream>,
    /// The last id, as a client keeps it.
    last_id: String,
}

impl Stream {
    fn open(client: &Client, query: &str, headers: &[&str]) -> Stream {
        let mut socket = TcpStream::connect(client.address).unwrap();
        socket.set_read_timeout(Some(WAIT)).unwrap();
        let mut request = format!(
            "GET /v1/changes{query} HTTP/1.0\r\n{}\r\n",
            client.credentials
        );
        for line in headers {
            request += &format!("{line}\r\n");
        }
        socket
            .write_all(format!("{request}\r\n").as_bytes())
            .unwrap();
        let mut input = BufReader::new(socket);
        let mut headers = String::new();
        while !headers.ends_with("\r\n\r\n") {
            assert!(input.read_line(&mut headers).unwrap() > 0, "{headers}");
        }
        let status = headers.split(' ').nth(1).unwrap().parse().unwrap();
        Stream {
            status,
            headers,
            input,
            last_id: String::new(),
        }
    }

    /// A stream that has begun: its `start` was read.
    fn started(client: &Client, query: &str) -> Stream {
        let mut stream = Stream::open(client, query, &[]);
        if stream.status != 200 {
            let rest = stream.rest();
            panic!("{query}: {}{rest}", stream.headers);
        }
        let start = stream.next().unwrap();
        assert_eq!(start.kind, "start");
        assert_eq!(start.id, stream.last_id);
        stream
    }

    fn rest(&mut self) -> String {
        let mut rest = String::new();
        self.input.read_to_string(&mut rest).unwrap();
        rest
    }

    /// The next event with data; `None` at the end.
    fn next(&mut self) -> Option<Event> {
        let (mut kind, mut id, mut data) = (String::new(), String::new(), String::new());
        loop {
            let mut line = String::new();
            if self.input.read_line(&mut line).unwrap() == 0 {
                return None;
            }
            let line = line.trim_end_matches('\n');
            match line.split_once(':') {
                Some(("event", value)) => kind = value.trim_start().to_owned(),
                Some(("data", value)) => data = value.trim_start().to_owned(),
                Some(("id", value)) => {
                    id = value.trim_start().to_owned();
                    self.last_id.clone_from(&id);
                }
                _ if line.is_empty() && !data.is_empty() => {
                    let data = serde_json::from_str(&data).unwrap();
                    return Some(Event { kind, id, data });
                }
                _ => {}
            }
        }
    }

    /// The events up to a commit, without it.
    fn transaction(&mut self) -> Vec<Event> {
        let mut events = Vec::new();
        loop {
            let event = self.next().unwrap();
            if event.kind == "commit" {
                return events;
            }
            assert_ne!(event.kind, "error", "{event:?}");
            events.push(event);
        }
    }

    /// The changes of a transaction as (op, table, key).
    fn changes(&mut self) -> Vec<(String, String, String)> {
        let text = |event: &Event, name: &str| event.data[name].as_str().unwrap().to_owned();
        let events = self.transaction();
        let short = |e: &Event| (text(e, "op"), text(e, "table"), e.data["key"].to_string());
        events.iter().map(short).collect()
    }
}

fn change(op: &str, table: &str, key: &str) -> (String, String, String) {
    (op.to_owned(), table.to_owned(), key.to_owned())
}

/// Status and error number of a refused stream.
fn refused(client: &Client, query: &str, headers: &[&str]) -> (u16, u64) {
    let mut stream = Stream::open(client, query, headers);
    let problem: Value = serde_json::from_str(&stream.rest()).unwrap();
    (stream.status, problem["code"].as_u64().unwrap_or(0))
}

#[test]
fn changes_of_all_protocols_come_with_the_encodings_of_rest() {
    let server = with_log().start();
    let client = Client::root(&server);
    sql(
        &server,
        "CREATE DATABASE shop; USE shop;
         CREATE TABLE items (id BIGINT PRIMARY KEY, name VARCHAR(20) CHARACTER SET latin1, price DECIMAL(10,2), raw BINARY(3),
           kind ENUM('a','b'), flags SET('x','y'), doc JSON, at TIMESTAMP(3) NULL, bits BIT(9), n INT UNSIGNED, d DOUBLE, y YEAR)",
    );
    let mut stream = Stream::started(&client, "");
    assert!(
        stream.headers.contains("content-type: text/event-stream"),
        "{}",
        stream.headers
    );
    sql(
        &server,
        "SET time_zone = '+00:00', NAMES utf8mb4; INSERT INTO shop.items VALUES (9007199254740993, 'café', 1.5, X'01', 'b', 'x,y', '{\"a\": 1}',
           '2026-01-02 03:04:05.678', b'100000001', 4000000000, 0.1, 2026)",
    );
    let events = stream.transaction();
    assert_eq!(events.len(), 1);
    assert_eq!(
        events[0].data,
        json!({
            "op": "insert", "database": "shop", "table": "items", "key": ["9007199254740993"],
            "row": {"id": "9007199254740993", "name": "café", "price": "1.50", "raw": "AQAA", "kind": "b",
                "flags": "x,y", "doc": "{\"a\": 1}", "at": "2026-01-02 03:04:05.678", "bits": "257",
                "n": 4_000_000_000u32, "d": 0.1, "y": 2026},
        })
    );
    // The stream encodes a row as a request for the row does.
    let read = client.get("/v1/tables/shop/items/rows/9007199254740993");
    assert_eq!(body(&read), events[0].data["row"]);
}

#[test]
fn definitions_cascades_and_memcached_are_in_the_stream() {
    let server = with_log().start();
    let client = Client::root(&server);
    sql(
        &server,
        "CREATE DATABASE shop; USE shop;
         CREATE TABLE items (id INT PRIMARY KEY, name VARCHAR(20));
         CREATE TABLE parts (id INT PRIMARY KEY, item INT, FOREIGN KEY (item) REFERENCES items (id) ON DELETE CASCADE ON UPDATE CASCADE);
         CREATE TABLE kv (k VARCHAR(20) PRIMARY KEY, v VARCHAR(20)); ALTER TABLE kv MEMCACHED PREFIX 'kv:';
         INSERT INTO items VALUES (1, 'one'), (2, 'two'); INSERT INTO parts VALUES (10, 1), (20, 2)",
    );
    // From the beginning: everything, by a stream that ends at the end of the log.
    let mut all = Stream::started(&client, "?from=first&follow=false&database=shop");
    let mut kinds = Vec::new();
    while let Some(event) = all.next() {
        kinds.push(match event.kind.as_str() {
            "definition" => format!(
                "{} {}",
                event.data["kind"], event.data["tables"][0]["table"]
            ),
            "change" => format!("{} {}", event.data["op"], event.data["key"]),
            other => other.to_owned(),
        });
    }
    let kinds = kinds.join("; ").replace('"', "");
    assert_eq!(
        kinds,
        "create items; commit; create parts; commit; create kv; commit; \
         insert [1]; insert [2]; commit; insert [10]; insert [20]; commit"
    );
    let mut stream = Stream::started(&client, "?database=shop");
    sql(&server, "UPDATE shop.items SET id = 3 WHERE id = 1");
    let events = stream.transaction();
    assert_eq!(events[0].data["key"], json!([3]));
    assert_eq!(events[0].data["old_key"], json!([1]));
    assert_eq!(events[0].data["old"], json!({"id": 1, "name": "one"}));
    assert_eq!(events[1].data["row"], json!({"id": 10, "item": 3}));
    sql(&server, "DELETE FROM shop.items WHERE id = 3");
    assert_eq!(
        stream.changes(),
        [
            change("delete", "items", "[3]"),
            change("delete", "parts", "[10]")
        ]
    );
    server.memcached("set kv:a 0 0 1\r\nx\r\ndelete kv:a\r\n");
    assert_eq!(stream.changes(), [change("insert", "kv", "[\"a\"]")]);
    assert_eq!(stream.changes(), [change("delete", "kv", "[\"a\"]")]);
    sql(
        &server,
        "TRUNCATE TABLE shop.parts; CREATE VIEW shop.v AS SELECT 1; DROP DATABASE shop",
    );
    assert_eq!(
        stream.transaction()[0].data,
        json!({"kind": "truncate", "tables": [{"database": "shop", "table": "parts"}]})
    );
    assert_eq!(
        stream.transaction()[0].data,
        json!({"kind": "drop", "database": "shop", "tables": []})
    );
}

#[test]
fn filters_and_positions() {
    let mut server = with_log().arg("--max-binlog-size", "4K").start();
    sql(
        &server,
        "CREATE DATABASE shop; CREATE TABLE shop.users (name VARCHAR(40), n INT, v INT, PRIMARY KEY (name, n)); CREATE TABLE shop.other (id INT PRIMARY KEY)",
    );
    let client = Client::root(&server);
    let query = "?database=shop&table=users,more&key_prefix=ann%2C&heartbeat_ms=100";
    let mut stream = Stream::started(&client, query);
    sql(
        &server,
        "INSERT INTO shop.other VALUES (1); INSERT INTO shop.users VALUES ('anna', 1, 0), ('bob', 1, 0);
         INSERT INTO shop.users VALUES ('bob', 2, 0), ('ann', 7, 0); UPDATE shop.users SET name = 'zoe' WHERE n = 7",
    );
    assert_eq!(stream.changes(), [change("insert", "users", "[\"ann\",7]")]);
    assert_eq!(stream.changes(), [change("update", "users", "[\"zoe\",7]")]);
    let last = stream.last_id.clone();
    // The position also advances by changes that the filter leaves out, as heartbeats show.
    sql(&server, "INSERT INTO shop.other VALUES (2)");
    let mut line = String::new();
    while stream.last_id == last {
        line.clear();
        stream.input.read_line(&mut line).unwrap();
        if let Some(id) = line.strip_prefix("id: ") {
            stream.last_id = id.trim().to_owned();
        }
    }
    drop(stream);
    // A client that reconnects gets what has happened meanwhile, once; also after a restart.
    sql(&server, "INSERT INTO shop.users VALUES ('ann', 8, 0)");
    let id = format!("Last-Event-ID: {last}");
    let mut again = Stream::open(&client, query, &[&id]);
    assert_eq!(again.next().unwrap().id, last);
    assert_eq!(again.changes(), [change("insert", "users", "[\"ann\",8]")]);
    let last = again.last_id.clone();
    server.kill9();
    server.restart();
    let client = Client::root(&server);
    sql(
        &server,
        &(0..200)
            .map(|n| format!("INSERT INTO shop.users VALUES ('ann', {}, {n});", n + 100))
            .collect::<String>(),
    );
    let mut again = Stream::open(&client, query, &[&format!("Last-Event-ID: {last}")]);
    assert_eq!(again.next().unwrap().kind, "start");
    for n in 100..300 {
        let key = format!("[\"ann\",{n}]");
        assert_eq!(again.changes(), [change("insert", "users", &key)]);
    }
    // By file and position: that of a commit.
    sql(
        &server,
        "INSERT INTO shop.users VALUES ('ann', 301, 0), ('ann', 302, 0); DELETE FROM shop.users WHERE n = 302",
    );
    again.next().unwrap();
    again.next().unwrap();
    let commit = again.next().unwrap();
    let text = |name: &str| commit.data[name].as_str().unwrap().to_owned();
    let place = format!("{}:{}", text("file"), text("position"));
    let mut by_place = Stream::started(&client, &format!("?database=shop&from={place}"));
    assert_eq!(by_place.last_id, commit.id);
    assert_eq!(
        by_place.changes(),
        [change("delete", "users", "[\"ann\",302]")]
    );
    // Positions that are malformed, or no longer in the log.
    let inside = format!(
        "?from={}:{}",
        text("file"),
        text("position").parse::<u64>().unwrap() - 1
    );
    assert_eq!(refused(&client, &inside, &[]), (410, 1236));
    drop((again, by_place));
    let files = sql(&server, "FLUSH BINARY LOGS; SHOW BINARY LOGS");
    let newest = files.lines().last().unwrap().split('\t').next().unwrap();
    sql(&server, &format!("PURGE BINARY LOGS TO '{newest}'"));
    for (query, headers, wanted) in [
        ("", vec![format!("Last-Event-ID: {last}")], (410, 1236)),
        ("?from=-", vec![], (410, 1236)),
        ("?from=binlog.000001:4", vec![], (410, 1236)),
        (
            "?from=3e11fa47-71ca-11e1-9e33-c80aa9429562:1-5",
            vec![],
            (410, 1236),
        ),
        ("?from=yesterday", vec![], (400, 0)),
        ("?table=users", vec![], (400, 0)),
        ("?database=", vec![], (400, 0)),
        ("?database=shop&table=a,,b", vec![], (400, 0)),
        ("?heartbeat_ms=x", vec![], (400, 0)),
        ("?follow=maybe", vec![], (400, 0)),
        ("?since=1", vec![], (400, 0)),
    ] {
        let headers: Vec<&str> = headers.iter().map(String::as_str).collect();
        assert_eq!(refused(&client, query, &headers), wanted, "{query}");
    }
}

#[test]
fn a_stream_needs_select_as_long_as_it_runs() {
    let server = with_log().start();
    sql(
        &server,
        "CREATE DATABASE shop; CREATE TABLE shop.a (id INT PRIMARY KEY); CREATE TABLE shop.b (id INT PRIMARY KEY);
         CREATE USER ann IDENTIFIED BY 'pw'; GRANT SELECT ON shop.a TO ann; GRANT INSERT ON shop.b TO ann",
    );
    let ann = Client {
        address: address(&server),
        // ann:pw
        credentials: "Authorization: Basic YW5uOnB3".to_owned(),
    };
    for (query, wanted) in [
        ("", (403, 1227)),
        ("?database=shop", (403, 1044)),
        ("?database=shop&table=a,b", (403, 1142)),
        ("?database=mysql&table=user", (403, 1142)),
    ] {
        assert_eq!(refused(&ann, query, &[]), wanted, "{query}");
    }
    let mut stream = Stream::started(&ann, "?database=shop&table=a");
    sql(
        &server,
        "INSERT INTO shop.b VALUES (1); INSERT INTO shop.a VALUES (1)",
    );
    assert_eq!(stream.changes(), [change("insert", "a", "[1]")]);
    // The stream is a session like others.
    let listed = sql(
        &server,
        "SELECT id FROM information_schema.processlist WHERE user = 'ann'",
    );
    assert_eq!(listed.lines().count(), 1, "{listed}");
    sql(
        &server,
        "REVOKE SELECT ON shop.a FROM ann; INSERT INTO shop.a VALUES (2)",
    );
    let error = stream.next().unwrap();
    assert_eq!(
        (error.kind.as_str(), &error.data["code"]),
        ("error", &json!(1142))
    );
    assert!(stream.next().is_none());
    // KILL ends a stream.
    sql(&server, "GRANT SELECT ON shop.* TO ann");
    let mut stream = Stream::started(&ann, "?database=shop");
    let id = sql(
        &server,
        "SELECT id FROM information_schema.processlist WHERE user = 'ann'",
    );
    sql(&server, &format!("KILL {id}"));
    assert!(stream.next().is_none_or(|event| event.kind == "error"));
    // A dropped account has no streams.
    let mut stream = Stream::started(&ann, "?database=shop");
    sql(&server, "DROP USER ann; INSERT INTO shop.a VALUES (3)");
    let error = stream.next().unwrap();
    assert_eq!(
        (error.kind.as_str(), &error.data["status"]),
        ("error", &json!(401))
    );
}

#[test]
fn privileges_on_columns_show_these_columns() {
    let server = with_log().start();
    sql(
        &server,
        "CREATE DATABASE shop; CREATE TABLE shop.a (id INT PRIMARY KEY, name VARCHAR(20), secret VARCHAR(20));
         CREATE USER ann IDENTIFIED BY 'pw'; GRANT SELECT (id, name) ON shop.a TO ann",
    );
    let ann = Client {
        address: address(&server),
        credentials: "Authorization: Basic YW5uOnB3".to_owned(),
    };
    assert_eq!(refused(&ann, "?database=shop", &[]), (403, 1044));
    let mut stream = Stream::started(&ann, "?database=shop&table=a&key_prefix=1");
    sql(
        &server,
        "INSERT INTO shop.a VALUES (1, 'n', 's'); UPDATE shop.a SET secret = 't'",
    );
    let inserted = stream.transaction();
    assert_eq!(inserted[0].data["row"], json!({"id": 1, "name": "n"}));
    assert_eq!(inserted[0].data["key"], json!([1]));
    let updated = stream.transaction();
    assert_eq!(updated[0].data["old"], json!({"id": 1, "name": "n"}));
    // The stream ends when it would show something else from now on; another one goes on there.
    sql(
        &server,
        "REVOKE SELECT (id) ON shop.a FROM ann; INSERT INTO shop.a VALUES (12, 'm', 's')",
    );
    let error = stream.next().unwrap();
    assert_eq!(
        (error.kind.as_str(), &error.data["code"]),
        ("error", &json!(1142))
    );
    let after = format!("Last-Event-ID: {}", stream.last_id);
    let mut stream = Stream::open(&ann, "?database=shop&table=a", &[&after]);
    assert_eq!(stream.next().unwrap().kind, "start");
    let inserted = stream.transaction();
    assert_eq!(inserted[0].data["row"], json!({"name": "m"}));
    assert_eq!(inserted[0].data.get("key"), None);
    // A prefix would reveal the key.
    let query = "?database=shop&table=a&key_prefix=1";
    assert_eq!(refused(&ann, query, &[&after]), (403, 1143));
}

#[test]
fn streams_are_limited_and_slow_readers_cost_no_memory() {
    let server = with_log().start();
    let client = Client::root(&server);
    sql(
        &server,
        "CREATE DATABASE d; CREATE TABLE d.t (id INT PRIMARY KEY, v LONGTEXT)",
    );
    let resident = || {
        let status = std::fs::read_to_string(format!("/proc/{}/status", server.id())).unwrap();
        let line = status.lines().find(|l| l.starts_with("VmRSS:")).unwrap();
        let kib = line.split_whitespace().nth(1).unwrap();
        kib.parse::<u64>().unwrap()
    };
    sql(&server, "INSERT INTO d.t VALUES (1, '')");
    // 64 MiB of images of one row.
    let load = || {
        for n in 0..32 {
            let statement = format!("UPDATE d.t SET v = REPEAT('{}', 1000000)", n % 10);
            sql(&server, &statement);
        }
    };
    // Memory of the load itself.
    load();
    let mut slow = Stream::started(&client, "?database=d");
    let before = resident();
    load();
    let grown = resident().saturating_sub(before);
    assert!(grown < 32 * 1024, "{grown} KiB");
    // The reader gets all of it afterwards.
    for n in 0..32 {
        let events = slow.transaction();
        let value = events[0].data["row"]["v"].as_str().unwrap();
        let wanted = (n % 10).to_string();
        assert_eq!((value.len(), &value[..1]), (1_000_000, wanted.as_str()));
    }
    let others: Vec<Stream> = (1..64).map(|_| Stream::started(&client, "")).collect();
    assert_eq!(refused(&client, "", &[]), (503, 1040));
    // Other requests have threads of their own.
    assert_eq!(client.get("/v1/tables").status, 200);
    drop(others);
    server.wait_for("a free stream", WAIT, || {
        (Stream::open(&client, "?follow=false", &[]).status == 200).then_some(())
    });
}

#[test]
fn a_server_without_a_log_has_no_stream() {
    let server = builder().start();
    assert_eq!(refused(&Client::root(&server), "", &[]), (501, 1381));
}

#[test]
fn images_follow_binlog_row_image_and_compressed_transactions_are_read() {
    let server = with_log()
        .flag("--binlog-transaction-compression")
        .arg("--binlog-row-image", "minimal")
        .start();
    let client = Client::root(&server);
    sql(
        &server,
        "CREATE DATABASE d; CREATE TABLE d.t (id INT PRIMARY KEY, a INT, b VARCHAR(400))",
    );
    let mut stream = Stream::started(&client, "?database=d");
    sql(
        &server,
        "INSERT INTO d.t VALUES (1, 1, REPEAT('x', 400)), (2, 2, REPEAT('x', 400)); UPDATE d.t SET a = a + 10; DELETE FROM d.t WHERE id = 1",
    );
    assert_eq!(stream.changes().len(), 2);
    let updates = stream.transaction();
    assert_eq!(updates[1].data["old"], json!({"id": 2}));
    assert_eq!(updates[1].data["row"], json!({"a": 12}));
    assert_eq!(updates[1].data["key"], json!([2]));
    assert_eq!(stream.transaction()[0].data["old"], json!({"id": 1}));
    drop(server);
    let server = with_log().arg("--binlog-row-metadata", "minimal").start();
    let client = Client::root(&server);
    sql(
        &server,
        "CREATE DATABASE d; CREATE TABLE d.t (id INT PRIMARY KEY); INSERT INTO d.t VALUES (1)",
    );
    let query = "?from=first&database=d&follow=false";
    assert_eq!(refused(&client, query, &[]), (410, 1236));
}
