//! One row through all interfaces: what one writes the others read, and refusals have one number.

use super::support::*;
use porpoise_testkit::{HttpReply, Porpoise, http_request};

const SCHEMA: &str = "create database shop; use shop;
    create table parent (id int primary key);
    insert into parent values (1), (2);
    create table item (
        id int primary key, owner int, name varchar(20) not null, price decimal(8,2), seen datetime(6),
        upper_name varchar(20) generated always as (upper(name)) stored,
        constraint positive check (price > 0),
        unique key by_name (name),
        constraint item_owner foreign key (owner) references parent (id));
    insert into ndbmemcache.containers (name, db_schema, db_table, key_columns, value_columns)
        values ('shop_item', 'shop', 'item', 'id', 'name');
    insert into ndbmemcache.key_prefixes (server_role_id, key_prefix, cluster_id, policy, container)
        values (0, 'item:', 0, 'ndb-only', 'shop_item');";

#[test]
fn a_row_written_by_one_interface_is_read_by_the_others() {
    let server = start();
    sql(&server, SCHEMA);
    let mut native = connect(&server);
    let table = native.table("shop", "item").unwrap();
    let insert = table
        .insert()
        .columns(&["id", "owner", "name", "price"])
        .with_version()
        .build()
        .unwrap();
    let read = table
        .read()
        .columns(&["owner", "name", "price", "upper_name"])
        .with_version()
        .build()
        .unwrap();
    let update = table
        .update()
        .columns(&["name"])
        .if_version()
        .with_version()
        .build()
        .unwrap();

    let written = native
        .run(&batch(
            &insert,
            &[&[int(1), int(2), text("fin"), text("1.50")]],
        ))
        .unwrap();
    assert_eq!(shown(&written), ["written"]);
    assert_eq!(
        sql(
            &server,
            "select owner, name, price, upper_name from shop.item"
        ),
        "2\tfin\t1.50\tFIN"
    );
    let gets = server.memcached("gets item:1\r\n");
    assert_eq!(
        gets,
        format!("VALUE item:1 0 3 {}\r\nfin\r\nEND\r\n", version(&written))
    );

    // By memcached, with the version that the native interface returned.
    let cas = format!("cas item:1 0 0 4 {}\r\nblow\r\n", version(&written));
    assert_eq!(server.memcached(&cas), "STORED\r\n");
    let now = native.run(&batch(&read, &[&[int(1)]])).unwrap();
    assert_eq!(shown(&now), ["row 2 blow 1.50 BLOW"]);
    assert_ne!(version(&now), version(&written));

    // With an old version, then with the present one.
    let old = [
        int(1),
        porpoise_native_client::ValueRef::UInt(version(&written)),
        text("x"),
    ];
    assert_eq!(
        shown(&native.run(&batch(&update, &[&old])).unwrap()),
        ["condition"]
    );
    let new = [
        int(1),
        porpoise_native_client::ValueRef::UInt(version(&now)),
        text("tail"),
    ];
    let changed = native.run(&batch(&update, &[&new])).unwrap();
    assert_eq!(shown(&changed), ["written"]);
    assert_eq!(sql(&server, "select name from shop.item"), "tail");

    // Over REST: the version is the entity tag.
    let path = "/v1/tables/shop/item/rows/1";
    let read_by_rest = rest(&server, "GET", path, &[], "");
    assert_eq!(
        read_by_rest.body,
        r#"{"id":1,"owner":2,"name":"tail","price":"1.50","seen":null,"upper_name":"TAIL"}"#
    );
    let tag = format!("\"{}\"", version(&changed));
    assert_eq!(read_by_rest.header("etag"), Some(tag.as_str()));
    let old = format!("If-Match: \"{}\"", version(&now));
    let body = r#"{"name": "rest"}"#;
    assert_eq!(rest(&server, "PATCH", path, &[&old], body).status, 412);
    let patched = rest(&server, "PATCH", path, &[&format!("If-Match: {tag}")], body);
    assert_eq!(patched.status, 200, "{patched:?}");
    let last = native.run(&batch(&read, &[&[int(1)]])).unwrap();
    assert_eq!(shown(&last), ["row 2 rest 1.50 REST"]);
    let tag = format!("\"{}\"", version(&last));
    assert_eq!(patched.header("etag"), Some(tag.as_str()));
    let cas = format!("cas item:1 0 0 3 {}\r\ncas\r\n", version(&last));
    assert_eq!(server.memcached(&cas), "STORED\r\n");
    assert_eq!(sql(&server, "select name from shop.item"), "cas");
    let stale = format!("If-Match: {tag}");
    assert_eq!(rest(&server, "DELETE", path, &[&stale], "").status, 412);

    // By SQL: the version changes for all.
    sql(&server, "update shop.item set name = 'sql' where id = 1");
    let last = native.run(&batch(&read, &[&[int(1)]])).unwrap();
    assert_eq!(shown(&last), ["row 2 sql 1.50 SQL"]);
    let gets = server.memcached("gets item:1\r\n");
    assert_eq!(
        gets,
        format!("VALUE item:1 0 3 {}\r\nsql\r\nEND\r\n", version(&last))
    );
}

/// A value as JSON.
fn show_json(value: porpoise_native_client::ValueRef<'_>) -> String {
    match value {
        porpoise_native_client::ValueRef::Null => "null".to_owned(),
        value => format!("\"{}\"", show_value(value)),
    }
}

/// A request to the REST listener as root.
fn rest(server: &Porpoise, method: &str, path: &str, headers: &[&str], body: &str) -> HttpReply {
    let address = server.socket("rest").unwrap();
    let address = address.to_str().unwrap().parse().unwrap();
    let mut lines = vec![
        "Authorization: Basic cm9vdDo=",
        "Content-Type: application/json",
    ];
    lines.extend(headers);
    http_request(address, method, path, &lines, body)
}

/// The number with which an insertion over REST is refused, in the form of [`refusal`].
fn rest_refusal(server: &Porpoise, row: &str) -> String {
    let reply = rest(server, "POST", "/v1/tables/shop/item/rows", &[], row);
    let (_, rest) = reply.body.split_once("\"code\":").unwrap_or_default();
    let digits = rest.split(',').next().unwrap_or_default();
    format!("error {digits}")
}

/// The number with which a native batch's only operation is refused.
fn refusal(reply: &porpoise_native_client::Reply) -> String {
    shown(reply).pop().unwrap()
}

#[test]
fn refusals_have_the_numbers_of_sql() {
    let server = start();
    sql(&server, SCHEMA);
    sql(
        &server,
        "insert into shop.item (id, owner, name, price) values (1, 1, 'one', 1)",
    );
    let mut native = connect(&server);
    let table = native.table("shop", "item").unwrap();
    let all = ["id", "owner", "name", "price"];
    let insert = table.insert().columns(&all).build().unwrap();
    let null = porpoise_native_client::ValueRef::Null;
    let long = "x".repeat(21);
    for (values, statement) in [
        ([int(1), null, text("b"), text("1")], "(1, null, 'b', 1)"),
        (
            [int(2), null, text("one"), text("1")],
            "(2, null, 'one', 1)",
        ),
        ([int(2), int(9), text("b"), text("1")], "(2, 9, 'b', 1)"),
        ([int(2), null, null, text("1")], "(2, null, null, 1)"),
        ([int(2), null, text("b"), text("-1")], "(2, null, 'b', -1)"),
        (
            [int(2), null, text(&long), text("1")],
            "(2, null, repeat('x', 21), 1)",
        ),
        (
            [int(2), null, text("b"), text("1e9")],
            "(2, null, 'b', 1e9)",
        ),
    ] {
        let reply = native.run(&batch(&insert, &[&values])).unwrap();
        let by_sql = server.sql(&format!(
            "insert into shop.item (id, owner, name, price) values {statement}"
        ));
        let number = by_sql.error_number().expect("SQL refuses it, too");
        assert_eq!(refusal(&reply), format!("error {number}"), "{statement}");
        let [id, owner, name, price] = values.map(show_json);
        let row = format!(r#"{{"id":{id},"owner":{owner},"name":{name},"price":{price}}}"#);
        assert_eq!(
            rest_refusal(&server, &row),
            format!("error {number}"),
            "{row}"
        );
    }
    let parent = native.table("shop", "parent").unwrap();
    let delete = parent.delete().build().unwrap();
    let reply = native
        .run(&batch(&delete, &[&[int(1)], &[int(2)]]))
        .unwrap();
    assert_eq!(shown(&reply), ["error 1451", "written"]);
    // Columns without a value and without a default, as a whole request.
    let short = table.insert().columns(&["id"]).build().unwrap();
    let reply = native.run(&batch(&short, &[&[int(5)]])).unwrap();
    assert_eq!(shown(&reply), ["error 1364"]);
    let generated = table
        .insert()
        .columns(&["id", "name", "upper_name"])
        .build()
        .unwrap();
    let refused = native.run(&batch(&generated, &[&[int(5), text("a"), text("A")]]));
    assert_eq!(refused.unwrap_err().code(), Some(3105));
}

#[test]
fn values_of_all_types_round_trip() {
    let server = start();
    sql(
        &server,
        "create database d; create table d.t (id bigint unsigned primary key, a tinyint, b smallint unsigned,
         c mediumint, f float, g double, n decimal(20,5), d date, t time(3), at datetime(6), y year, e enum('x','y'),
         s set('p','q','r'), bits bit(9), j json, l varchar(10) character set latin1, raw varbinary(10), big text)",
    );
    let mut native = connect(&server);
    let table = native.table("d", "t").unwrap();
    let insert = table.insert().all_columns().build().unwrap();
    let read = table.read().all_columns().build().unwrap();
    use porpoise_native_client::ValueRef::*;
    let date = porpoise_types::Date::new(2026, 11, 24).unwrap();
    let at = porpoise_types::DateTime::new(date, 1, 2, 3, 456_789).unwrap();
    let time = porpoise_types::Time::from_micros(-3_600_500_000).unwrap();
    let row = [
        UInt(u64::MAX),
        Int(-128),
        UInt(65_535),
        Int(-8_388_608),
        Double(1.5),
        Double(0.1),
        Bytes(b"123456789.12345"),
        Date(date),
        Time(time),
        DateTime(at),
        UInt(2026),
        UInt(2),
        UInt(5),
        UInt(257),
        Bytes(b"{\"a\": 1}"),
        Bytes("caf\u{e9}".as_bytes()),
        Bytes(&[0, 255]),
        Bytes(b"long"),
    ];
    assert_eq!(
        shown(&native.run(&batch(&insert, &[&row])).unwrap()),
        ["written"]
    );
    let reply = native.run(&batch(&read, &[&[UInt(u64::MAX)]])).unwrap();
    let Some(Ok(porpoise_native_client::Outcome::Row { values, .. })) = reply.results().next()
    else {
        panic!("{:?}", shown(&reply));
    };
    assert_eq!(values.to_vec(), row);
    let by_sql = sql(&server, "select e, s, bits+0, hex(l), t, at from d.t");
    assert_eq!(
        by_sql,
        "y\tp,r\t257\t636166E9\t-01:00:00.500\t2026-11-24 01:02:03.456789"
    );
}
