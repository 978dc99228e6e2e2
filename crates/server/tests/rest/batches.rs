//! Batches over several tables.

use super::client::*;
use serde_json::{Value, json};

const SCHEMA: &str = "create database shop; use shop;
    create table item (id int primary key, name varchar(20), stock int, unique key by_name (name));
    create table log (id bigint primary key auto_increment, what varchar(20));";

fn statuses(reply: &porpoise_testkit::HttpReply) -> Vec<String> {
    assert_eq!(reply.status, 200, "{reply:?}");
    let body = body(reply);
    let results = body["results"].as_array().unwrap().iter();
    results
        .map(|result| match &result["error"]["code"] {
            Value::Null => result["status"].as_str().unwrap().to_owned(),
            code => format!("{} {code}", result["status"].as_str().unwrap()),
        })
        .collect()
}

fn operation(op: &str, table: &str, more: &Value) -> Value {
    let mut operation = json!({"op": op, "database": "shop", "table": table});
    for (name, value) in more.as_object().unwrap() {
        operation[name] = value.clone();
    }
    operation
}

#[test]
fn operations_take_effect_in_their_order() {
    let server = builder().start();
    sql(&server, SCHEMA);
    let client = Client::root(&server);
    let insert = |id: i64, name: &str| {
        operation(
            "insert",
            "item",
            &json!({"values": {"id": id, "name": name, "stock": 1}}),
        )
    };
    let batch = json!({"operations": [
        insert(1, "a"),
        operation("insert", "log", &json!({"values": {"what": "first"}})),
        insert(1, "b"),
        operation("update", "item", &json!({"key": [1], "add": {"stock": 41}})),
        operation("read", "item", &json!({"key": ["a"], "by": "by_name", "columns": ["stock"]})),
        operation("upsert", "item", &json!({"values": {"id": 2, "name": "c"}})),
        operation("upsert", "item", &json!({"values": {"id": 2, "name": "d"}})),
        operation("delete", "item", &json!({"key": [3]})),
        operation("update", "item", &json!({"key": [2], "values": {"stock": 5}, "if_equals": {"name": "c"}})),
    ]});
    let reply = client.json("POST", "/v1/batch", &batch);
    assert_eq!(
        statuses(&reply),
        [
            "ok",
            "ok",
            "failed 1062",
            "ok",
            "ok",
            "ok",
            "ok",
            "not_found",
            "condition_failed"
        ]
    );
    let results = body(&reply)["results"].clone();
    assert_eq!(results[1]["generated_id"], "1");
    assert_eq!(results[4]["row"], json!({"stock": 42}));
    assert_eq!(results[4]["version"], results[3]["version"]);
    assert_eq!(
        (&results[5]["created"], &results[6]["created"]),
        (&json!(true), &Value::Null)
    );
    assert_eq!(
        sql(&server, "select * from shop.item order by id"),
        "1\ta\t42\n2\td\tNULL"
    );
    // Keys that move within the batch.
    let moves = json!({"operations": [
        operation("update", "item", &json!({"key": [1], "values": {"id": 10}})),
        operation("update", "item", &json!({"key": [10], "values": {"stock": 0}})),
    ]});
    assert_eq!(
        statuses(&client.json("POST", "/v1/batch", &moves)),
        ["ok", "ok"]
    );
    assert_eq!(
        sql(&server, "select stock from shop.item where id = 10"),
        "0"
    );
}

#[test]
fn an_atomic_batch_takes_effect_as_a_whole_or_not() {
    let server = builder().start();
    sql(&server, SCHEMA);
    let client = Client::root(&server);
    let version =
        |reply: &porpoise_testkit::HttpReply| body(reply)["results"][0]["version"].clone();
    let first = client.json(
        "POST",
        "/v1/batch",
        &json!({"atomic": true, "operations": [
            operation("insert", "item", &json!({"values": {"id": 1, "name": "a"}})),
            operation("insert", "item", &json!({"values": {"id": 2, "name": "b"}})),
        ]}),
    );
    assert_eq!(statuses(&first), ["ok", "ok"]);
    let refused = client.json("POST", "/v1/batch", &json!({"atomic": true, "operations": [
        operation("delete", "item", &json!({"key": [2]})),
        operation("update", "item", &json!({"key": [1], "values": {"stock": 1}, "if_version": "1"})),
        operation("insert", "log", &json!({"values": {"what": "x"}})),
    ]}));
    assert_eq!(
        statuses(&refused),
        ["aborted", "condition_failed", "aborted"]
    );
    assert_eq!(sql(&server, "select count(*) from shop.item"), "2");
    let done = client.json("POST", "/v1/batch", &json!({"atomic": true, "operations": [
        operation("update", "item", &json!({"key": [1], "values": {"stock": 1}, "if_version": version(&first)})),
        operation("insert", "log", &json!({"values": {"what": "x"}})),
    ]}));
    assert_eq!(statuses(&done), ["ok", "ok"]);
}

#[test]
fn many_keys_over_several_tables_are_read_in_one_request() {
    let server = builder().start();
    sql(&server, SCHEMA);
    sql(
        &server,
        "set cte_max_recursion_depth = 2000;
         insert into shop.item with recursive n as (select 1 as i union all select i + 1 from n where i < 1000)
         select i, concat('n', i), i from n; insert into shop.log (what) select name from shop.item;",
    );
    let client = Client::root(&server);
    let operations: Vec<Value> = (0..2000)
        .map(|n| {
            operation(
                ["read", "read"][n % 2],
                ["item", "log"][n % 2],
                &json!({"key": [n / 2 + 1]}),
            )
        })
        .collect();
    let reply = client.json("POST", "/v1/batch", &json!({"operations": operations}));
    let results = body(&reply)["results"].clone();
    let results = results.as_array().unwrap();
    assert_eq!(results.len(), 2000);
    for (n, result) in results.iter().enumerate() {
        assert_eq!(result["status"], "ok", "{n}: {result}");
    }
    assert_eq!(results[1998]["row"]["name"], "n1000");
    let most: Vec<Value> = (0..4097)
        .map(|n| operation("read", "item", &json!({"key": [n]})))
        .collect();
    let reply = client.json("POST", "/v1/batch", &json!({"operations": most}));
    assert_eq!(problem(&reply), (413, 0));
}

#[test]
fn operations_are_counted_by_table_and_requests_by_status() {
    let server = builder().start();
    sql(&server, SCHEMA);
    let client = Client::root(&server);
    let insert = |id: i64| operation("insert", "item", &json!({"values": {"id": id}}));
    let batch = json!({"operations": [insert(1), insert(2), insert(1)]});
    assert_eq!(client.json("POST", "/v1/batch", &batch).status, 200);
    assert_eq!(client.get("/v1/tables/shop/item/rows/1").status, 200);
    assert_eq!(client.get("/v1/tables/shop/item/rows/9").status, 404);
    let found = sql(
        &server,
        "select digest_text, count_star, sum_errors, sum_rows_affected, sum_rows_sent, sum_timer_wait > 0
         from performance_schema.events_statements_summary_by_digest
         where schema_name = 'shop' and digest_text like '% `shop`.`item`' order by 1",
    );
    assert_eq!(
        found,
        "INSERT `shop`.`item`\t3\t1\t2\t0\t1\nREAD `shop`.`item`\t2\t0\t0\t1\t1"
    );
    let (_, metrics) = server.http("/metrics");
    for line in [
        "{status=\"2xx\"} 2",
        "{status=\"4xx\"} 1",
        "{status=\"5xx\"} 0",
    ] {
        let line = format!("porpoise_rest_requests_total{line}");
        assert!(metrics.contains(&line), "{line}");
    }
}

#[test]
fn malformed_batches_are_refused_as_a_whole() {
    let server = builder().start();
    sql(&server, SCHEMA);
    let client = Client::root(&server);
    let insert = operation("insert", "item", &json!({"values": {"id": 1}}));
    for (wrong, wanted) in [
        (operation("drop", "item", &json!({})), (400, 0)),
        (operation("read", "item", &json!({})), (400, 0)),
        (operation("read", "item", &json!({"key": []})), (400, 0)),
        (
            operation("read", "item", &json!({"key": [null]})),
            (422, 1048),
        ),
        (
            operation("read", "item", &json!({"key": [1], "values": {}})),
            (400, 0),
        ),
        (operation("insert", "item", &json!({"key": [1]})), (400, 0)),
        (
            operation("update", "item", &json!({"key": [1], "if_version": "x"})),
            (400, 0),
        ),
        (
            operation(
                "update",
                "item",
                &json!({"key": [1], "add": {"stock": "x"}}),
            ),
            (422, 1366),
        ),
        (
            operation("read", "item", &json!({"key": [1], "columns": ["other"]})),
            (422, 1054),
        ),
        (
            operation("read", "item", &json!({"key": [1], "more": 1})),
            (400, 0),
        ),
        (
            operation("read", "nothing", &json!({"key": [1]})),
            (404, 1146),
        ),
        (json!([]), (400, 0)),
    ] {
        let batch = json!({"operations": [insert, wrong]});
        let reply = client.json("POST", "/v1/batch", &batch);
        assert_eq!(problem(&reply), wanted, "{wrong}");
    }
    assert_eq!(sql(&server, "select count(*) from shop.item"), "0");
    assert_eq!(
        body(&client.json("POST", "/v1/batch", &json!({"operations": []}))),
        json!({"results": []})
    );
}
