//! SQL statements over REST.

use super::client::*;
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::net::TcpStream;
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

/// Makes a table whose last row alone is not JSON.
const LATE_FAILURE: &str =
    "create database d; create table d.t (id int primary key, v varchar(400), j varchar(20));
    set cte_max_recursion_depth = 2000;
    insert into d.t with recursive n as (select 1 as i union all select i + 1 from n where i < 2000)
    select i, repeat('x', 400), if(i = 2000, '{', '{}') from n;";

/// The headers and the body of the answer to a statement whose rows are wanted as an Arrow stream.
fn arrow(client: &Client, statement: &str) -> (String, Vec<u8>) {
    let body = json!({"statement": statement}).to_string();
    let request = format!(
        "POST /v1/sql HTTP/1.0\r\nHost: x\r\n{ROOT}\r\n{JSON}\r\n\
         Accept: application/vnd.apache.arrow.stream, application/json;q=0.5\r\n\
         Content-Length: {}\r\n\r\n{body}",
        body.len()
    );
    let mut stream = TcpStream::connect(client.address).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = Vec::new();
    // A failed stream ends without its end mark.
    let _ = stream.read_to_end(&mut answer);
    let end = answer.windows(4).position(|w| w == b"\r\n\r\n").unwrap();
    let head = String::from_utf8(answer[..end].to_vec()).unwrap();
    (head.to_ascii_lowercase(), answer[end + 4..].to_vec())
}

/// Lengths of the messages of an Arrow stream, and whether it is complete.
fn messages(mut bytes: &[u8]) -> (Vec<usize>, bool) {
    let mut found = Vec::new();
    while let Some(rest) = bytes.strip_prefix(&[0xff; 4]) {
        let length = u32::from_le_bytes(rest[..4].try_into().unwrap()) as usize;
        if length == 0 {
            return (found, rest.len() == 4);
        }
        // The length of the body is the last field of the first table.
        let message = &rest[4..4 + length];
        let root = u32::from_le_bytes(message[..4].try_into().unwrap()) as usize;
        let body = i64::from_le_bytes(message[root + 4..root + 12].try_into().unwrap());
        let end = 4 + length + usize::try_from(body).unwrap();
        if rest.len() < end {
            return (found, false);
        }
        found.push(end + 4);
        bytes = &rest[end..];
    }
    (found, false)
}

#[test]
fn rows_are_streamed_in_arrow() {
    let server = builder().start();
    let client = Client::root(&server);
    let long = "with recursive n as (select 1 as i union all select i + 1 from n where i < 900)
        select a.i, b.i, repeat('x', 20) from n a join n b where a.i <= 100";
    let (head, bytes) = arrow(&client, long);
    assert!(
        head.starts_with("http/1.0 200") || head.starts_with("http/1.1 200"),
        "{head}"
    );
    assert!(
        head.contains("content-type: application/vnd.apache.arrow.stream"),
        "{head}"
    );
    let (lengths, is_complete) = messages(&bytes);
    assert!(is_complete);
    // The schema, and a batch for each 64 KiB.
    assert!(lengths.len() > 30, "{} messages", lengths.len());
    assert!(
        lengths.iter().all(|length| *length < 100_000),
        "{lengths:?}"
    );
    // No rows, no columns, no result.
    assert_eq!(
        messages(&arrow(&client, "select 1 from dual where 1 = 2").1)
            .0
            .len(),
        1
    );
    let (head, bytes) = arrow(&client, "do 1");
    assert!(head.contains("content-type: application/json"), "{head}");
    let summary: Value = serde_json::from_slice(&bytes).unwrap();
    assert_eq!(summary["affected_rows"], 0);
    // A failure before rows were sent is a problem; after it the stream has no end.
    let (head, _) = arrow(&client, "select * from mysql.nothing");
    assert!(head.contains("404 not found"), "{head}");
    assert!(head.contains("application/problem+json"), "{head}");
    sql(&server, LATE_FAILURE);
    let (head, bytes) = arrow(&client, "select v, json_extract(j, '$.a') from d.t");
    assert!(head.contains("200 ok"), "{head}");
    let (lengths, is_complete) = messages(&bytes);
    assert!(!lengths.is_empty() && !is_complete);
    // A date that Arrow cannot represent in the first row gives a problem.
    let statement = "select /*+ SET_VAR(sql_mode = '') */ cast('2026-00-01' as date)";
    let (head, _) = arrow(&client, statement);
    assert!(head.contains("422"), "{head}");
}

#[test]
fn a_failure_after_rows_were_sent_ends_the_result() {
    let server = builder().start();
    let client = Client::root(&server);
    sql(&server, LATE_FAILURE);
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
