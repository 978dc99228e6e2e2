//! Scans of ranges with limits and continuations.

use super::support::*;
use porpoise_native_client::{Batch, Bound, Connection, ScanRequest, Value};

/// All rows of a scan, page by page, and the number of pages.
fn all(native: &mut Connection, scan: &ScanRequest) -> (Vec<String>, usize) {
    let (mut rows, mut pages, mut continuation) = (Vec::new(), 0, Vec::new());
    loop {
        let page = native.scan(scan, &continuation).unwrap();
        pages += 1;
        for (_, values) in page.rows().unwrap() {
            let shown: Vec<String> = values.into_iter().map(show_value).collect();
            rows.push(shown.join(" "));
        }
        if page.continuation.is_empty() {
            return (rows, pages);
        }
        continuation = page.continuation.clone();
    }
}

#[test]
fn pages_of_a_range_continue_in_both_directions() {
    let server = start();
    sql(
        &server,
        "create database d; use d; create table t (id int primary key, a int, b varchar(10), key ab (a, b))
         partition by hash (id) partitions 3;
         insert into t with recursive n (n) as (select 0 union all select n + 1 from n where n < 99)
         select n, n div 10, concat('b', n mod 10) from n",
    );
    let mut native = connect(&server);
    let table = native.table("d", "t").unwrap();
    let scan = table.scan().columns(&["id"]).limit(7);
    let (rows, pages) = all(&mut native, &scan);
    let expected: Vec<String> = (0..100).map(|n| n.to_string()).collect();
    assert_eq!(rows, expected);
    assert_eq!(pages, 15);
    let (mut rows, _) = all(&mut native, &scan.reverse());
    rows.reverse();
    assert_eq!(rows, expected);

    let int = |n| vec![Value::Int(n)];
    let by_a = || table.scan().index("ab").columns(&["a", "b"]).limit(3);
    for (lower, upper, ids) in [
        (Bound::Inclusive(int(3)), Bound::Exclusive(int(5)), 30..50),
        (Bound::Exclusive(int(3)), Bound::Inclusive(int(5)), 40..60),
        (Bound::None, Bound::Exclusive(int(1)), 0..10),
        (Bound::Exclusive(int(9)), Bound::None, 0..0),
        (Bound::Inclusive(int(5)), Bound::Exclusive(int(3)), 0..0),
    ] {
        let expected: Vec<String> = ids.map(|n| format!("{} b{}", n / 10, n % 10)).collect();
        let scan = by_a().range(lower, upper);
        assert_eq!(all(&mut native, &scan).0, expected, "{scan:?}");
        let (mut rows, _) = all(&mut native, &scan.reverse());
        rows.reverse();
        assert_eq!(rows, expected);
    }
    let whole_key = vec![Value::Int(4), Value::Bytes(b"b4".to_vec())];
    let scan = by_a().range(
        Bound::Inclusive(whole_key.clone()),
        Bound::Inclusive(whole_key),
    );
    assert_eq!(all(&mut native, &scan).0, ["4 b4"]);
}

#[test]
fn an_answer_without_a_limit_is_sent_in_pages_of_a_mebibyte() {
    let server = start();
    sql(
        &server,
        "create database d; use d; create table t (id int primary key, v varchar(1000));
         insert into t with recursive n (n) as (select 0 union all select n + 1 from n where n < 999)
         select n, repeat('v', 900) from n;
         insert into t select id + 1000, v from t; insert into t select id + 2000, v from t;
         insert into t select id + 4000, v from t where id < 1000",
    );
    let mut native = connect(&server);
    let table = native.table("d", "t").unwrap();
    let (rows, pages) = all(&mut native, &table.scan().columns(&["id", "v"]));
    assert_eq!(rows.len(), 5000);
    assert!((4..=8).contains(&pages), "{pages}");
    // In a transaction all pages are of one snapshot.
    native.begin(Default::default()).unwrap();
    let scan = table.scan().columns(&["id"]).limit(10);
    let first = native.scan(&scan, &[]).unwrap();
    sql(&server, "delete from d.t where id >= 10");
    let second = native.scan(&scan, &first.continuation).unwrap();
    assert_eq!(second.rows().unwrap().len(), 10);
    native.rollback().unwrap();
    let second = native.scan(&scan, &first.continuation).unwrap();
    assert_eq!(second.rows().unwrap().len(), 0);
}

#[test]
fn expired_rows_are_absent() {
    let server = start();
    sql(
        &server,
        "create database d;
         create table d.t (id int primary key, name varchar(10) unique, at timestamp) ttl = at + interval 1 day;
         insert into d.t values (1, 'old', '2000-01-01'), (2, 'new', now()), (3, 'gone', '2000-01-01')",
    );
    let mut native = connect(&server);
    let table = native.table("d", "t").unwrap();
    let columns = &["id", "name"];
    assert_eq!(
        all(&mut native, &table.scan().columns(columns)).0,
        ["2 new"]
    );
    let limited = table.scan().columns(columns).limit(1);
    assert_eq!(all(&mut native, &limited).0, ["2 new"]);
    let by_id = table.read().columns(columns).build().unwrap();
    let by_name = table.read().by("name").columns(columns).build().unwrap();
    let update = table.update().columns(&["name"]).build().unwrap();
    let delete = table.delete().build().unwrap();
    let mut changes = Batch::new();
    changes.push(&by_id, &[int(1)]).unwrap();
    changes.push(&by_id, &[int(2)]).unwrap();
    changes.push(&by_name, &[text("old")]).unwrap();
    changes.push(&update, &[int(1), text("x")]).unwrap();
    changes.push(&delete, &[int(3)]).unwrap();
    let reply = native.run(&changes).unwrap();
    assert_eq!(
        shown(&reply),
        [
            "not found",
            "row 2 new",
            "not found",
            "not found",
            "not found"
        ]
    );
    let insert = table.insert().columns(columns).build().unwrap();
    let reply = native
        .run(&batch(&insert, &[&[int(4), text("old")]]))
        .unwrap();
    assert_eq!(shown(&reply), ["written"]);
    assert_eq!(sql(&server, "select id from d.t order by id"), "2\n4");
}
