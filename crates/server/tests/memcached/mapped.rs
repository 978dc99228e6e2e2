//! Rows as memcached sees them: columns of many kinds.

use crate::in_process::{InProcess, column, required, varchar, zero};
use porpoise_types::{ColumnType, Kind, Value};

fn int() -> ColumnType {
    ColumnType::int(Kind::Int)
}

#[test]
fn several_key_columns_and_several_value_columns_are_separated_by_tabs() {
    let server = InProcess::open();
    server.create(
        "t",
        vec![
            required("a", int()),
            required("b", varchar(10)),
            column("x", varchar(10)),
            column("y", int()),
            column("z", varchar(10)),
        ],
        &["b", "a"],
        vec![],
    );
    let columns = [("key_columns", "a,b"), ("value_columns", "x, y ,z")];
    server.map("t:", "t", &columns);
    assert_eq!(
        server.ask("set t:7\tq 0 0 7\r\none\t2\t3\r\nget t:7\tq t:8\tq t:7\r\n"),
        "STORED\r\nVALUE t:7\tq 0 7\r\none\t2\t3\r\nEND\r\n"
    );
    let key = [Value::Bytes(b"q".to_vec()), Value::Int(7)];
    assert_eq!(
        server.row("test", "t", &key).unwrap(),
        ["7", "q", "one", "2", "3"]
    );
    // Nothing is NULL for a number and '' for a text; what is missing is NULL.
    assert_eq!(
        server.ask("set t:7\tq 0 0 1\r\n\t\r\nget t:7\tq\r\n"),
        "STORED\r\nVALUE t:7\tq 0 2\r\n\t\t\r\nEND\r\n"
    );
    let row = server.row("test", "t", &key).unwrap();
    assert_eq!(row, ["7", "q", "", "NULL", "NULL"]);
    assert_eq!(
        server.ask(
            "set t:7\tq 0 0 7\r\n1\t2\t3\t4\r\nset t:7 0 0 1\r\n1\r\nappend t:7\tq 0 0 1\r\nx\r\n"
        ),
        "SERVER_ERROR The value has more parts than container 't' has value columns (3)\r\n\
         SERVER_ERROR The key has 1 parts, container 't' has 2 key columns\r\n\
         SERVER_ERROR append is not defined on container 't', which has several value columns\r\n"
    );
}

#[test]
fn numbers_dates_and_enum_values_are_read_and_written_as_text() {
    let server = InProcess::open();
    let members = vec![b"red".as_slice().into(), b"blue".as_slice().into()];
    let collation = porpoise_types::Collation::UTF8MB4_GENERAL_CI;
    let columns = vec![
        required("id", int()),
        column("d", ColumnType::decimal(8, 2)),
        column("t", ColumnType::datetime(0)),
        column("e", ColumnType::enumeration(members, collation)),
        column("f", ColumnType::double()),
    ];
    server.create("t", columns, &["id"], vec![]);
    server.map(
        "t:",
        "t",
        &[("key_columns", "id"), ("value_columns", "d,t,e,f")],
    );
    let value = "3.50\t2024-02-29 12:00:00\tblue\t1.5";
    let set = format!("set t:-3 0 0 {}\r\n{value}\r\nget t:-3\r\n", value.len());
    assert_eq!(
        server.ask(&set),
        format!(
            "STORED\r\nVALUE t:-3 0 {}\r\n{value}\r\nEND\r\n",
            value.len()
        )
    );
    for bad in ["x", "1\t2024-02-30", "1\t2024-02-28\tgreen"] {
        let answer = server.ask(&format!("set t:-3 0 0 {}\r\n{bad}\r\n", bad.len()));
        assert!(answer.starts_with("SERVER_ERROR "), "{bad}: {answer}");
    }
}

#[test]
fn flags_are_a_constant_or_a_column() {
    let server = InProcess::open();
    for (name, flags) in [("constant", "1280"), ("kept", "f")] {
        let columns = vec![
            required("id", int()),
            column("v", varchar(9)),
            column("f", ColumnType::uint(Kind::Int)),
        ];
        server.create(name, columns, &["id"], vec![]);
        let more = [
            ("key_columns", "id"),
            ("value_columns", "v"),
            ("flags", flags),
        ];
        server.map(&format!("{name}:"), name, &more);
    }
    assert_eq!(
        server.ask(
            "set constant:1 7 0 1\r\nx\r\nget constant:1\r\nset kept:1 7 0 1\r\nx\r\nget kept:1\r\n"
        ),
        "STORED\r\nVALUE constant:1 1280 1\r\nx\r\nEND\r\nSTORED\r\nVALUE kept:1 7 1\r\nx\r\nEND\r\n"
    );
    server.put("test", "kept", &[("id", "2"), ("v", "y")]);
    assert_eq!(
        server.ask("get kept:2\r\n"),
        "VALUE kept:2 0 1\r\ny\r\nEND\r\n"
    );
}

#[test]
fn an_increment_column_counts_and_the_value_follows() {
    let server = InProcess::open();
    let columns = vec![
        required("k", varchar(20)),
        column("v", varchar(20)),
        column("n", ColumnType::bigint_unsigned()),
    ];
    server.create("t", columns, &["k"], vec![]);
    let more = [
        ("key_columns", "k"),
        ("value_columns", "v"),
        ("increment_column", "n"),
    ];
    server.map("t:", "t", &more);
    assert_eq!(
        server.ask("set t:a 0 0 2\r\n41\r\nincr t:a 1\r\nget t:a\r\ndecr t:a 50\r\n"),
        "STORED\r\n42\r\nVALUE t:a 0 2\r\n42\r\nEND\r\n0\r\n"
    );
    let row = |k: &str| server.row("test", "t", &[Value::Bytes(k.as_bytes().to_vec())]);
    assert_eq!(row("a").unwrap(), ["a", "0", "0"]);
    assert_eq!(
        server.ask("set t:b 0 0 3\r\nabc\r\nincr t:b 1\r\nget t:b\r\n"),
        "STORED\r\nCLIENT_ERROR cannot increment or decrement non-numeric value\r\n\
         VALUE t:b 0 3\r\nabc\r\nEND\r\n"
    );
    server.put("test", "t", &[("k", "c"), ("n", "18446744073709551615")]);
    assert_eq!(
        server.ask("get t:c\r\nincr t:c 2\r\nget t:c\r\n"),
        "VALUE t:c 0 20\r\n18446744073709551615\r\nEND\r\n1\r\nVALUE t:c 0 1\r\n1\r\nEND\r\n"
    );
}

#[test]
fn a_numeric_value_column_counts_and_refuses_what_it_cannot_hold() {
    let server = InProcess::open();
    let columns = vec![
        required("id", int()),
        column("n", ColumnType::uint(Kind::TinyInt)),
    ];
    server.create("t", columns, &["id"], vec![]);
    server.map("t:", "t", &[("key_columns", "id"), ("value_columns", "n")]);
    assert_eq!(
        server.ask("set t:1 0 0 3\r\n100\r\ndecr t:1 1\r\nget t:1\r\nincr t:1 200\r\nget t:1\r\nincr t:2 1\r\n"),
        "STORED\r\n99\r\nVALUE t:1 0 2\r\n99\r\nEND\r\n\
         SERVER_ERROR Out of range value for column 'n' at row 1\r\n\
         VALUE t:1 0 2\r\n99\r\nEND\r\nNOT_FOUND\r\n"
    );
}

#[test]
fn a_cas_column_holds_the_version_and_other_columns_keep_their_values() {
    let server = InProcess::open();
    let columns = vec![
        required("id", int()),
        column("v", varchar(9)),
        column("c", ColumnType::bigint_unsigned()),
        zero(required("seen", int())),
    ];
    server.create("t", columns, &["id"], vec![]);
    let more = [
        ("key_columns", "id"),
        ("value_columns", "v"),
        ("cas_column", "c"),
    ];
    server.map("t:", "t", &more);
    server.put("test", "t", &[("id", "1"), ("v", "x"), ("seen", "5")]);
    assert_eq!(server.ask("set t:1 0 0 1\r\ny\r\n"), "STORED\r\n");
    let shown = server.ask("gets t:1\r\n");
    let version = shown
        .split(' ')
        .nth(4)
        .unwrap()
        .split("\r\n")
        .next()
        .unwrap();
    let row = server.row("test", "t", &[Value::Int(1)]).unwrap();
    assert_eq!(row, ["1", "y", version, "5"]);
}

#[test]
fn every_store_changes_the_cas_value_and_touch_keeps_it() {
    let server = InProcess::open();
    let version = || {
        let shown = server.ask("gets k\r\n");
        let word = shown.split(' ').nth(4).unwrap().to_owned();
        word.split("\r\n").next().unwrap().parse::<u64>().unwrap()
    };
    server.ask("set k 0 0 1\r\n1\r\n");
    let mut last = version();
    for request in [
        "set k 0 0 1\r\n1\r\n",
        "incr k 0\r\n",
        "append k 0 0 0\r\n\r\n",
        "replace k 0 0 1\r\n1\r\n",
    ] {
        server.ask(request);
        let now = version();
        assert_ne!(now, last, "{request}");
        last = now;
    }
    for request in ["touch k 1000\r\n", "gat 2000 k\r\n", "gats 0 k\r\n"] {
        server.ask(request);
        assert_eq!(version(), last, "{request}");
    }
    let stale = server.ask(&format!(
        "cas k 0 0 1 {last}\r\n2\r\ncas k 0 0 1 {last}\r\n3\r\n"
    ));
    assert_eq!(stale, "STORED\r\nEXISTS\r\n");
    // A write through another protocol changes it, too.
    let before = version();
    server.put("ndbmemcache", "kv", &[("mkey", "k"), ("value", "9")]);
    let answer = server.ask(&format!("cas k 0 0 1 {before}\r\n2\r\nget k\r\n"));
    assert_eq!(answer, "EXISTS\r\nVALUE k 0 1\r\n9\r\nEND\r\n");
}
