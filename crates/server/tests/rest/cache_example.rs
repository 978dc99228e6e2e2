//! The example that keeps a cache in step: a memcached server has the rows of a table, after kills of either side.

use super::client::*;
use porpoise_testkit::{Memcached, Porpoise, exchange};
use serde_json::Value;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

const PROGRAM: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../../clients/python/examples/follow_changes.py"
);

/// The running program; it is killed when this is dropped.
struct Program(Child);

impl Program {
    fn start(server: &Porpoise, cache: &Memcached, position: &Path) -> Program {
        let child = Command::new("python3")
            .arg(PROGRAM)
            .args(["--url", &format!("http://{}", address(server))])
            .args(["--table", "shop.items", "--heartbeat-ms", "200"])
            .args(["--memcached", &cache.addr.to_string()])
            .arg("--position")
            .arg(position)
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        Program(child)
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The items of these ids that the cache has.
fn cached(cache: &Memcached, ids: &[u32]) -> Vec<(u32, Value)> {
    let found = ids.iter().filter_map(|id| {
        let request = format!("get shop.items:{id}\r\nquit\r\n");
        let answer = exchange(cache.addr, request.as_bytes());
        let answer = String::from_utf8_lossy(&answer).into_owned();
        let value = answer.lines().nth(1)?;
        Some((*id, serde_json::from_str(value).unwrap()))
    });
    found.collect()
}

/// Waits until the cache has the rows of the table.
fn wait_until_equal(server: &Porpoise, cache: &Memcached) {
    let ids: Vec<u32> = (0..40).chain(1000..1040).collect();
    let client = Client::root(server);
    let all = body(&client.statement(
        "SELECT id, name, price FROM shop.items ORDER BY id",
        &Value::Array(Vec::new()),
    ));
    let rows = all["rows"].as_array().unwrap();
    let rows = rows.iter().map(|row| {
        let id = row[0].as_u64().unwrap() as u32;
        (
            id,
            serde_json::json!({"id": row[0], "name": row[1], "price": row[2]}),
        )
    });
    let wanted: Vec<(u32, Value)> = rows.collect();
    server.wait_for("the cache", Duration::from_secs(60), || {
        (cached(cache, &ids) == wanted).then_some(())
    });
}

#[test]
fn a_cache_has_the_rows_of_its_table_after_kills_of_either_side() {
    let directory = tempfile::tempdir().unwrap();
    let position = directory.path().join("position");
    let cache = Memcached::start(1);
    let mut server = Porpoise::builder()
        .arg("--rest-listen", "127.0.0.1:0")
        .flag("--log-bin")
        .start();
    sql(
        &server,
        "CREATE DATABASE shop; USE shop; CREATE TABLE items (id INT PRIMARY KEY, name VARCHAR(20), price DECIMAL(8,2));
         INSERT INTO items VALUES (1, 'one', 1.5), (2, 'two', NULL), (3, 'three', 3)",
    );
    let program = Program::start(&server, &cache, &position);
    wait_until_equal(&server, &cache);
    sql(
        &server,
        "USE shop; UPDATE items SET id = id + 1000 WHERE id = 1; DELETE FROM items WHERE id = 2; INSERT INTO items VALUES (4, 'vier', 4);
         BEGIN; INSERT INTO items VALUES (5, 'undone', 5); ROLLBACK; UPDATE items SET price = price * 2",
    );
    wait_until_equal(&server, &cache);
    drop(program);
    // Changes while the program does not run.
    sql(
        &server,
        "USE shop; DELETE FROM items WHERE id = 3; INSERT INTO items VALUES (6, 'six', 6), (7, 'seven', 7)",
    );
    let program = Program::start(&server, &cache, &position);
    wait_until_equal(&server, &cache);
    server.kill9();
    server.restart();
    drop(program);
    sql(
        &server,
        "USE shop; UPDATE items SET name = 'later' WHERE id = 6; DELETE FROM items WHERE id = 7",
    );
    let _program = Program::start(&server, &cache, &position);
    wait_until_equal(&server, &cache);
    sql(
        &server,
        "USE shop; TRUNCATE TABLE items; INSERT INTO items VALUES (8, 'eight', 8)",
    );
    wait_until_equal(&server, &cache);
    // The log has lost the position: everything is loaded again.
    drop(_program);
    sql(
        &server,
        "USE shop; INSERT INTO items VALUES (9, 'nine', 9); FLUSH BINARY LOGS; INSERT INTO items VALUES (10, 'ten', 10)",
    );
    let files = sql(&server, "FLUSH BINARY LOGS; SHOW BINARY LOGS");
    let newest = files.lines().last().unwrap().split('\t').next().unwrap();
    sql(&server, &format!("PURGE BINARY LOGS TO '{newest}'"));
    let _program = Program::start(&server, &cache, &position);
    wait_until_equal(&server, &cache);
}
