//! Rows by key.

use super::client::*;
use serde_json::json;

const SCHEMA: &str = "create database shop; use shop;
    create table item (
        id bigint primary key auto_increment, name varchar(20) not null default 'none', price decimal(20,6),
        code varbinary(8), seen datetime(6), moment timestamp(3) null, span time(1), born date, kind enum('a','b'),
        tags set('x','y'), mask bit(9), doc json, small tinyint unsigned, ratio double, single float, made year,
        text_latin varchar(20) character set latin1,
        upper_name varchar(20) generated always as (upper(name)) stored,
        unique key by_name (name));
    create table pair (a int, b varchar(10), c int, primary key (a, b));";

const ITEMS: &str = "/v1/tables/shop/item/rows";

#[test]
fn values_of_every_type_round_trip() {
    let server = builder().start();
    sql(&server, SCHEMA);
    let client = Client::root(&server);
    let row = json!({
        "id": "9223372036854775807", "name": "fin", "price": "12345678901234.123456", "code": "AP8BAg==",
        "seen": "2026-11-24 23:59:58.123456", "moment": "2026-01-02 03:04:05.678", "span": "-101:02:03.4",
        "born": "2026-02-28", "kind": "b", "tags": "x,y", "mask": "511", "doc": "{\"a\": 12345678901234567890}",
        "small": 255, "ratio": 0.1, "single": 1.5, "made": 2026, "text_latin": "caf\u{e9}",
    });
    let reply = client.json("PUT", "/v1/tables/shop/item/rows/9223372036854775807", &row);
    assert_eq!(reply.status, 201, "{reply:?}");
    let read = client.get("/v1/tables/shop/item/rows/9223372036854775807");
    assert_eq!(read.status, 200, "{read:?}");
    assert_eq!(tag(&read), tag(&reply));
    let mut wanted = row.clone();
    wanted["upper_name"] = json!("FIN");
    assert_eq!(body(&read), wanted);
    // What was read can be written: the row stays the same, and keeps its version.
    let again = client.json(
        "PATCH",
        "/v1/tables/shop/item/rows/9223372036854775807",
        &row,
    );
    assert_eq!((again.status, tag(&again)), (200, tag(&read)), "{again:?}");
    // The same values by SQL.
    let by_sql = sql(
        &server,
        "select price, hex(code), seen, span, mask + 0, hex(text_latin), doc from shop.item",
    );
    assert_eq!(
        by_sql,
        "12345678901234.123456\t00FF0102\t2026-11-24 23:59:58.123456\t-101:02:03.4\t511\t636166E9\t\
         {\"a\": 12345678901234567890}"
    );
    // Numbers as they stand for a DECIMAL, an object for JSON.
    let text = r#"{"price": 0.1000001, "doc": {"b": [1, 2]}, "id": 4}"#;
    let reply = client.send("POST", ITEMS, &[JSON], text);
    assert_eq!(reply.status, 201, "{reply:?}");
    let read = client.get("/v1/tables/shop/item/rows/4?columns=price,doc,name");
    assert_eq!(
        body(&read),
        json!({"price": "0.100000", "doc": "{\"b\": [1, 2]}", "name": "none"})
    );
}

#[test]
fn a_row_is_created_replaced_changed_and_deleted_under_conditions() {
    let server = builder().start();
    sql(&server, SCHEMA);
    let client = Client::root(&server);
    let path = format!("{ITEMS}/7");
    let value = |price: &str| json!({"price": price}).to_string();
    // Nothing exists yet.
    assert_eq!(problem(&client.get(&path)), (404, 0));
    assert_eq!(problem(&client.delete(&path)), (404, 0));
    assert_eq!(
        problem(&client.json("PATCH", &path, &json!({"price": 1}))),
        (404, 0)
    );
    let put = |condition: &str, body: &str| client.send("PUT", &path, &[JSON, condition], body);
    assert_eq!(problem(&put("If-Match: *", &value("1"))), (412, 0));
    let created = put(
        "If-None-Match: *",
        &json!({"price": 1, "name": "n"}).to_string(),
    );
    assert_eq!(created.status, 201, "{created:?}");
    assert_eq!(problem(&put("If-None-Match: *", &value("2"))), (412, 1062));
    // A PUT replaces the row: the name gets its default.
    let replaced = client.json("PUT", &path, &json!({"price": "3"}));
    assert_eq!(replaced.status, 200, "{replaced:?}");
    let read = client.get(&format!("{path}?columns=name,price"));
    assert_eq!(body(&read), json!({"name": "none", "price": "3.000000"}));
    // Versions.
    let old = format!("If-Match: {}", tag(&created));
    let new = format!("If-Match: {}", tag(&replaced));
    let patch = |condition: &str| client.send("PATCH", &path, &[JSON, condition], &value("4"));
    assert_eq!(problem(&patch(&old)), (412, 0));
    assert_eq!(problem(&put(&old, &value("4"))), (412, 0));
    let changed = patch(&new);
    assert_eq!(changed.status, 200, "{changed:?}");
    assert_eq!(problem(&patch(&new)), (412, 0));
    let known = format!("If-None-Match: {}", tag(&changed));
    let unchanged = client.send("GET", &path, &[&known], "");
    assert_eq!((unchanged.status, unchanged.body.as_str()), (304, ""));
    assert_eq!(
        client
            .send("GET", &path, &[&old.replace("Match", "None-Match")], "")
            .status,
        200
    );
    let delete = |condition: &str| client.send("DELETE", &path, &[condition], "");
    assert_eq!(problem(&delete(&new)), (412, 0));
    assert_eq!(delete(&format!("If-Match: {}", tag(&changed))).status, 204);
    assert_eq!(problem(&delete("If-Match: *")), (412, 0));
    assert_eq!(client.get(&path).status, 404);
}

#[test]
fn keys_have_several_columns_and_other_names() {
    let server = builder().start();
    sql(&server, SCHEMA);
    let client = Client::root(&server);
    let path = "/v1/tables/shop/pair/rows/5,a%2Cb%2F%25";
    assert_eq!(client.json("PUT", path, &json!({"c": 1})).status, 201);
    assert_eq!(
        body(&client.get(path)),
        json!({"a": 5, "b": "a,b/%", "c": 1})
    );
    assert_eq!(
        client.json("PUT", path, &json!({"a": "5", "c": 2})).status,
        200
    );
    assert_eq!(
        problem(&client.json("PUT", path, &json!({"a": 6}))),
        (400, 0)
    );
    for wrong in [
        "/v1/tables/shop/pair/rows/5",
        "/v1/tables/shop/pair/rows/5,a,b",
    ] {
        assert_eq!(problem(&client.get(wrong)), (400, 0));
    }
    // A unique key by its name.
    assert_eq!(
        client.json("POST", ITEMS, &json!({"name": "a b"})).status,
        201
    );
    let read = client.get(&format!("{ITEMS}/a%20b?key=by_name&columns=id"));
    assert_eq!(body(&read), json!({"id": "1"}));
    let put = client.json(
        "PUT",
        &format!("{ITEMS}/a%20b?key=by_name"),
        &json!({"id": 1, "price": 2}),
    );
    assert_eq!(put.status, 200, "{put:?}");
    assert_eq!(
        problem(&client.get(&format!("{ITEMS}/x?key=other"))),
        (400, 1176)
    );
    assert_eq!(problem(&client.get(&format!("{ITEMS}/x"))), (422, 1366));
}

#[test]
fn refusals_have_the_numbers_of_sql() {
    let server = builder().start();
    sql(&server, SCHEMA);
    sql(
        &server,
        "use shop; create table parent (id int primary key); create table child (id int primary key,
         parent int, foreign key (parent) references parent (id)); insert into parent values (1);
         insert into child values (1, 1);",
    );
    let client = Client::root(&server);
    let insert = |row: serde_json::Value| problem(&client.json("POST", ITEMS, &row));
    assert_eq!(
        client.json("POST", ITEMS, &json!({"name": "one"})).status,
        201
    );
    assert_eq!(insert(json!({"name": "one"})), (409, 1062));
    assert_eq!(insert(json!({"name": null})), (422, 1048));
    assert_eq!(insert(json!({"name": "x".repeat(21)})), (422, 1406));
    assert_eq!(insert(json!({"small": 256})), (422, 1264));
    assert_eq!(insert(json!({"small": "a"})), (422, 1366));
    assert_eq!(insert(json!({"born": "2026-02-30"})), (422, 1292));
    assert_eq!(insert(json!({"kind": "c"})), (422, 1265));
    assert_eq!(insert(json!({"doc": "{"})), (422, 3140));
    assert_eq!(insert(json!({"code": "?"})), (422, 1366));
    assert_eq!(insert(json!({"upper_name": "X"})), (422, 3105));
    assert_eq!(insert(json!({"other": 1})), (422, 1054));
    assert_eq!(insert(json!({"ratio": [1]})), (422, 1366));
    let twice = client.send("POST", ITEMS, &[JSON], r#"{"small": 1, "SMALL": 2}"#);
    assert_eq!(problem(&twice), (422, 1110));
    let parent = client.delete("/v1/tables/shop/parent/rows/1");
    assert_eq!(problem(&parent), (409, 1451));
    let child = client.json("PUT", "/v1/tables/shop/child/rows/2", &json!({"parent": 9}));
    assert_eq!(problem(&child), (409, 1452));
    assert_eq!(
        problem(&client.get("/v1/tables/shop/nothing/rows/1")),
        (404, 1146)
    );
    assert_eq!(
        problem(&client.get("/v1/tables/mysql/user/rows/a,b")),
        (422, 1235)
    );
}

#[test]
fn definitions_are_described() {
    let server = builder().start();
    sql(&server, SCHEMA);
    let client = Client::root(&server);
    let tables = body(&client.get("/v1/tables"));
    assert_eq!(
        tables,
        json!({"tables": [
            {"database": "shop", "table": "item"}, {"database": "shop", "table": "pair"},
        ]})
    );
    let pair = body(&client.get("/v1/tables/shop/pair"));
    assert_eq!(
        pair["keys"],
        json!([{"name": "PRIMARY", "columns": ["a", "b"]}])
    );
    assert_eq!(
        pair["columns"][1],
        json!({"name": "b", "type": "varchar(10)", "nullable": false, "has_default": false,
            "generated": false, "auto_increment": false})
    );
}
