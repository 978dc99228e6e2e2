//! The privileges of an account determine what its login shows and does.

use crate::client::{Login, login};
use porpoise_testkit::{Porpoise, wait_until};
use serde_json::json;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

const SET_UP: &str = "CREATE DATABASE shop; \
    CREATE TABLE shop.orders (id INT PRIMARY KEY, customer VARCHAR(40), KEY (customer)); \
    INSERT INTO shop.orders VALUES (1, 'a'), (2, 'b'); \
    CREATE USER op@localhost IDENTIFIED BY 'x'; GRANT ALL ON *.* TO op@localhost; \
    CREATE USER watcher@localhost IDENTIFIED BY 'x'; GRANT PROCESS ON *.* TO watcher@localhost; \
    GRANT SELECT ON performance_schema.* TO watcher@localhost; \
    CREATE USER nobody@localhost IDENTIFIED BY 'x'";

fn server() -> Porpoise {
    let server = Porpoise::builder().start();
    let output = server.sql(SET_UP);
    assert!(output.is_ok, "{}", output.stderr);
    server
}

fn logins(server: &Porpoise) -> [Login; 3] {
    ["op", "watcher", "nobody"].map(|user| login(server.http_addr, user, "x"))
}

#[test]
fn a_part_is_shown_to_accounts_that_may_read_it() {
    let server = server();
    let [op, watcher, nobody] = logins(&server);
    for part in [
        "history",
        "status",
        "statements",
        "processes",
        "stages",
        "locks",
        "deadlocks",
        "tables",
        "indexes",
        "redundant_indexes",
        "prefixes",
        "variables",
        "variable_sources",
    ] {
        assert_eq!(op.refusal(part), 0, "{part}: {:?}", op.get(part));
    }
    for (part, watched, denied) in [
        ("statements", 0, 1142),
        ("stages", 0, 1142),
        ("variable_sources", 0, 1142),
        ("locks", 0, 1227),
        ("deadlocks", 0, 1227),
        ("redundant_indexes", 1142, 1142),
        ("prefixes", 1142, 1142),
    ] {
        assert_eq!(
            (watcher.refusal(part), nobody.refusal(part)),
            (watched, denied),
            "{part}"
        );
    }
    let orders = |part| {
        let rows = op.get(part).rows();
        let own = rows.into_iter().filter(|row| row["table"] == "orders");
        own.collect::<Vec<_>>()
    };
    let table = &orders("tables")[0];
    assert_eq!(table["table_rows"], 2);
    assert!(table["data_bytes"].as_u64().unwrap() > 50, "{table}");
    assert_eq!(orders("indexes").len(), 2);
    let names = |login: &Login, part| login.get(part).rows().len();
    assert_eq!(
        (names(&nobody, "tables"), names(&nobody, "indexes")),
        (0, 0)
    );
    let users = |login: &Login| {
        let rows = login.get("processes").rows();
        let mut users: Vec<_> = rows
            .iter()
            .map(|p| p["user"].as_str().unwrap().to_owned())
            .collect();
        users.dedup();
        users
    };
    assert_eq!(users(&nobody), ["nobody"]);
    assert!(users(&watcher).len() >= 3);
    // A change of privileges is in force with the next request.
    server.sql("REVOKE SELECT ON performance_schema.* FROM watcher@localhost");
    assert_eq!(watcher.refusal("statements"), 1142);
    server.sql("GRANT SELECT ON performance_schema.* TO nobody@localhost");
    assert_eq!(nobody.refusal("statements"), 0);
}

#[test]
fn kill_needs_its_privilege_and_ends_what_it_names() {
    let server = server();
    let [op, watcher, nobody] = logins(&server);
    let id = |login: &Login, user: &str| {
        let rows = login.get("processes").rows();
        rows.iter()
            .find(|p| p["user"] == user)
            .map(|p| p["id"].as_u64().unwrap())
    };
    let target = id(&op, "nobody").unwrap();
    let refused = watcher.post("kill", &json!({"id": target, "query": false}));
    assert_eq!((refused.status, refused.error().0), (403, 1095));
    assert_eq!(nobody.get("status").status, 200);
    let unknown = op.post("kill", &json!({"id": 99999999, "query": false}));
    assert_eq!((unknown.status, unknown.error().0), (404, 1094));
    let killed = op.post("kill", &json!({"id": target, "query": false}));
    assert_eq!(killed.status, 200, "{killed:?}");
    assert_eq!(nobody.get("status").status, 401);
    // An account may end its own connections; this one, even.
    let own = id(&watcher, "watcher").unwrap();
    let ended = watcher.post("kill", &json!({"id": own, "query": false}));
    assert!([200, 422].contains(&ended.status), "{ended:?}");
    assert_eq!(watcher.get("status").status, 401);
    std::thread::scope(|scope| {
        let slow = scope.spawn(|| server.sql("SELECT SLEEP(100)"));
        let rows = || op.get("processes").rows();
        let sleeping = wait_until(Duration::from_secs(20), || {
            let rows = rows();
            let found = rows.iter().find(|p| p["statement"] == "SELECT SLEEP(100)");
            found.map(|p| p["id"].as_u64().unwrap())
        });
        let request = json!({"id": sleeping.unwrap(), "query": true});
        assert_eq!(op.post("kill", &request).status, 200);
        slow.join().unwrap();
    });
}

#[test]
fn the_plan_of_a_recorded_statement_is_shown_with_or_without_values() {
    let server = server();
    server.sql("SELECT customer FROM shop.orders WHERE customer = 'a'");
    let [op, watcher, _] = logins(&server);
    let digest_of = |login: &Login, text: &str| {
        let rows = login.get("statements").rows();
        let found = rows
            .iter()
            .find(|s| s["text"].as_str().is_some_and(|t| t.starts_with(text)));
        let found = found.unwrap();
        json!({"digest": found["digest"], "schema": found["schema"]})
    };
    let select = digest_of(&op, "SELECT `customer` FROM");
    let plan = op.post("explain", &select).json();
    assert_eq!(plan["parameters"], 1);
    assert!(
        plan["plan"].as_str().unwrap().contains("using customer"),
        "{plan}"
    );
    server.sql("SET GLOBAL statement_sample_values = ON; TRUNCATE performance_schema.events_statements_summary_by_digest; \
                SELECT customer FROM shop.orders WHERE customer = 'b'");
    let plan = op.post("explain", &select).json();
    assert_eq!(plan["parameters"], 0);
    assert!(
        plan["statement"].as_str().unwrap().contains("'b'"),
        "{plan}"
    );
    // EXPLAIN needs the privileges of the statement.
    assert_eq!(watcher.post("explain", &select).error().0, 1142);
    server.sql("DO 1");
    let other = digest_of(&op, "DO ?");
    assert_eq!(op.post("explain", &other).error().0, 1235);
    let gone = json!({"digest": "0".repeat(64), "schema": null});
    assert_eq!(op.post("explain", &gone).error().0, 1643);
}

#[test]
fn explain_executes_nothing() {
    let server = server();
    let [op, ..] = logins(&server);
    server.sql("SET GLOBAL statement_sample_values = ON");
    // Statements that an attacker recorded, hoping that an operator requests their plan.
    for text in [
        "ANALYZE SELECT SLEEP(30)",
        "DELETE FROM shop.orders",
        "/*!50000 ANALYZE */ DELETE FROM shop.orders",
        "INSERT INTO shop.orders VALUES (3, 'x')",
    ] {
        server.sql(&format!("SET autocommit = 0; {text}; ROLLBACK"));
    }
    for row in op.get("statements").rows() {
        if row["digest"].is_string() {
            op.post(
                "explain",
                &json!({"digest": row["digest"], "schema": row["schema"]}),
            );
        }
    }
    let rows = server.sql("SELECT COUNT(*) FROM shop.orders");
    assert_eq!(rows.rows(), [["2"]]);
}

#[test]
fn the_history_has_both_protocols() {
    let server = server();
    let [op, ..] = logins(&server);
    let mut cache = TcpStream::connect(server.memcached_addr).unwrap();
    let busy = wait_until(Duration::from_secs(30), || {
        for _ in 0..40 {
            cache.write_all(b"get nothing\r\n").unwrap();
            cache.read_exact(&mut [0; 5]).unwrap();
        }
        server.sql("SELECT 1");
        let history = op.get("history").json();
        let is_positive = |sample: &serde_json::Value, name: &str| {
            let rate = &sample[name];
            rate["per_second"].as_f64().unwrap() > 0.0 && rate["p99_us"].as_u64().unwrap() > 0
        };
        let samples = history["samples"].as_array().unwrap();
        let both = |s: &serde_json::Value| is_positive(s, "sql") && is_positive(s, "memcached");
        samples.iter().any(both).then_some(())
    });
    assert!(busy.is_some(), "{:?}", op.get("history"));
}
