//! SQL statements over REST.

use super::client::*;
use serde_json::{Value, json};
use std::time::{Duration, Instant};

#[test]
fn rows_are_encoded_by_type_and_parameters_are_bound() {
    let server = builder().start();
    let client = Client::root(&server);
    let reply = client.statement(
        "select ? + 0 as big, ? as text, ? as nothing, ? as truth, hex(?) as bytes, cast(? as decimal(20,4)) as d",
        &json!([9223372036854775807u64, "it's \u{1f42c}", null, true, {"base64": "AP8="}, "0.10"]),
    );
    assert_eq!(reply.status, 200, "{reply:?}");
    let result = body(&reply);
    assert_eq!(
        result["rows"],
        json!([[
            "9223372036854775807",
            "it's \u{1f42c}",
            null,
            "1",
            "00FF",
            "0.1000"
        ]])
    );
    assert_eq!(
        result["columns"][5],
        json!({"name": "d", "type": "decimal(20,4)"})
    );
    assert!(result["error"].is_null());
    for (statement, parameters, wanted) in [
        ("select ?", json!([1, 2]), (422, 1210)),
        ("select ?", json!([[1]]), (400, 0)),
        ("select ?", json!([{"base64": "?"}]), (400, 0)),
        ("select 1; select 2", json!([]), (400, 1064)),
        ("select * from mysql.nothing", json!([]), (404, 1146)),
    ] {
        let reply = client.statement(statement, &parameters);
        assert_eq!(problem(&reply), wanted, "{statement}");
    }
}

#[test]
fn changes_report_their_effects_and_sessions_do_not_outlive_a_request() {
    let server = builder().start();
    let client = Client::root(&server);
    sql(
        &server,
        "create database d; create table d.t (id int primary key auto_increment, v int)",
    );
    let insert = json!({"statement": "insert into t (v) values (1), (2)", "database": "d"});
    let result = body(&client.json("POST", "/v1/sql", &insert));
    assert_eq!(
        (&result["affected_rows"], &result["last_insert_id"]),
        (&json!(2), &json!("1"))
    );
    assert_eq!(client.statement("set @a = 1", &json!([])).status, 200);
    assert_eq!(
        body(&client.statement("select @a", &json!([])))["rows"],
        json!([[null]])
    );
    assert_eq!(client.statement("begin", &json!([])).status, 200);
    assert_eq!(sql(&server, "select count(*) from d.t"), "2");
    let other = json!({"statement": "select 1", "database": "missing"});
    assert_eq!(
        problem(&client.json("POST", "/v1/sql", &other)),
        (404, 1049)
    );
}

#[test]
fn long_results_are_streamed_as_an_object_or_as_lines() {
    let server = builder().start();
    let client = Client::root(&server);
    let statement =
        "with recursive n as (select 1 as i union all select i + 1 from n where i < 900)
        select a.i, b.i, repeat('x', 20) from n a join n b where a.i <= 100";
    let whole = client.statement(statement, &json!([]));
    assert_eq!(whole.status, 200);
    assert_eq!(body(&whole)["rows"].as_array().unwrap().len(), 90_000);
    let lines = client.send(
        "POST",
        "/v1/sql",
        &[JSON, "Accept: application/x-ndjson"],
        &json!({"statement": statement}).to_string(),
    );
    assert_eq!(lines.header("content-type"), Some("application/x-ndjson"));
    let lines: Vec<Value> = lines
        .body
        .lines()
        .map(|l| serde_json::from_str(l).unwrap())
        .collect();
    assert_eq!(lines.len(), 90_002);
    assert!(lines[0]["columns"].is_array() && lines[1].is_array());
    assert_eq!(
        lines[90_001],
        json!({"affected_rows": 0, "last_insert_id": "0", "warnings": 0})
    );
}

#[test]
fn a_failure_after_rows_were_sent_ends_the_result() {
    let server = builder().start();
    let client = Client::root(&server);
    sql(
        &server,
        "create database d; create table d.t (id int primary key, v varchar(400), j varchar(20));
         set cte_max_recursion_depth = 2000;
         insert into d.t with recursive n as (select 1 as i union all select i + 1 from n where i < 2000)
         select i, repeat('x', 400), if(i = 2000, '{', '{}') from n;",
    );
    let reply = client.statement("select v, json_extract(j, '$.a') from d.t", &json!([]));
    assert_eq!(reply.status, 200, "{}", reply.headers);
    let result = body(&reply);
    assert_eq!(result["error"]["code"], 3141, "{}", result["error"]);
    assert!(result["affected_rows"].is_null());
    assert!(!result["rows"].as_array().unwrap().is_empty());
}

#[test]
fn time_limits_and_kill_end_statements() {
    let server = builder().start();
    let client = Client::root(&server);
    let slow = "with recursive n as (select 1 as i union all select i + 1 from n where i < 900)
        select count(*) from n a, n b, n c, n d";
    let began = Instant::now();
    let body = json!({"statement": slow, "time_limit_ms": 300});
    assert_eq!(problem(&client.json("POST", "/v1/sql", &body)), (503, 3024));
    assert!(began.elapsed() < Duration::from_secs(20));
    let other = client.clone();
    let running = std::thread::spawn(move || other.statement(slow, &json!([])));
    let find = "select group_concat(id) from information_schema.processlist where info like 'with recursive%'";
    let id = loop {
        let id = sql(&server, find);
        if id != "NULL" {
            break id;
        }
        assert!(began.elapsed() < Duration::from_secs(40));
    };
    sql(&server, &format!("kill query {id}"));
    assert_eq!(problem(&running.join().unwrap()), (503, 1317));
}
