//! Look-up of tables, and clients whose definition is stale.

use super::support::*;

#[test]
fn a_stale_client_is_told_and_refreshes() {
    let server = start();
    sql(
        &server,
        "create database d; create table d.t (id int primary key, v int); insert into d.t values (1, 10)",
    );
    let mut native = connect(&server);
    let table = native.table("d", "t").unwrap();
    let read = table.read().columns(&["v"]).build().unwrap();
    let update = table.update().columns(&["v"]).build().unwrap();
    assert_eq!(
        shown(&native.run(&batch(&read, &[&[int(1)]])).unwrap()),
        ["row 10"]
    );
    sql(
        &server,
        "alter table d.t add column w varchar(10) default 'w' first",
    );
    for stale in [
        batch(&read, &[&[int(1)]]),
        batch(&update, &[&[int(1), int(11)]]),
    ] {
        let error = native.run(&stale).unwrap_err();
        assert!(error.is_stale(), "{error}");
    }
    let scan = native.scan(&table.scan().columns(&["v"]), &[]).unwrap_err();
    assert!(scan.is_stale());
    let table = native.table("d", "t").unwrap();
    let read = table.read().columns(&["w", "v"]).build().unwrap();
    assert_eq!(
        shown(&native.run(&batch(&read, &[&[int(1)]])).unwrap()),
        ["row w 10"]
    );
    // A change of another table does not matter.
    sql(&server, "create table d.other (id int primary key)");
    assert_eq!(
        shown(&native.run(&batch(&read, &[&[int(1)]])).unwrap()),
        ["row w 10"]
    );
    sql(&server, "rename table d.t to d.renamed");
    let error = native.run(&batch(&read, &[&[int(1)]]));
    assert!(error.is_ok() || error.unwrap_err().is_stale());
    sql(&server, "drop table d.renamed");
    let error = native.run(&batch(&read, &[&[int(1)]])).unwrap_err();
    assert_eq!(error.code(), Some(1146));
}

#[test]
fn a_definition_shows_what_operations_need() {
    let server = start();
    sql(
        &server,
        "create database d; create table d.t (id bigint unsigned auto_increment primary key, n varchar(10) not null,
         g int as (length(n)) virtual, p text, key prefix (p(5)), unique key u (n), fulltext key f (p));
         create table d.keyless (v int)",
    );
    let mut native = connect(&server);
    let table = native.table("d", "t").unwrap();
    let columns: Vec<_> = table
        .columns
        .iter()
        .map(|c| (c.name.as_str(), c.sql_type.as_str()))
        .collect();
    assert_eq!(
        columns,
        [
            ("id", "bigint unsigned"),
            ("n", "varchar(10)"),
            ("g", "int"),
            ("p", "text")
        ]
    );
    let flags: Vec<_> = table
        .columns
        .iter()
        .map(|c| {
            (
                c.is_nullable,
                c.has_default,
                c.is_generated,
                c.is_auto_increment,
            )
        })
        .collect();
    assert_eq!(
        flags,
        [
            (false, true, false, true),
            (false, false, false, false),
            (true, true, true, false),
            (true, true, false, false)
        ]
    );
    let indexes: Vec<_> = table
        .indexes
        .iter()
        .map(|i| (i.name.as_str(), i.is_unique))
        .collect();
    assert_eq!(indexes, [("PRIMARY", true), ("u", true)]);
    let keyless = native.table("d", "keyless").unwrap();
    assert!(keyless.read().columns(&["v"]).build().is_err());
    let insert = keyless.insert().columns(&["v"]).build().unwrap();
    assert_eq!(
        shown(
            &native
                .run(&batch(&insert, &[&[int(5)], &[int(5)]]))
                .unwrap()
        ),
        ["written", "written"]
    );
    let page = native.scan(&keyless.scan().columns(&["v"]), &[]).unwrap();
    assert_eq!(page.rows().unwrap().len(), 2);
    assert_eq!(native.table("d", "none").unwrap_err().code(), Some(1146));
    let system = native.table("mysql", "user");
    let read = system.and_then(|table| {
        let read = table.scan().columns(&["User"]);
        native.scan(&read, &[])
    });
    assert_eq!(read.unwrap_err().code(), Some(1235));
}
