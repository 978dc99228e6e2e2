//! What the rows refuse, memcached refuses, with the reason, and nothing
//! changes.

use crate::house::{House, column, reference, required, varchar};
use porpoise_rows::catalog::FkAction;
use porpoise_types::{ColumnType, Kind, Value};

fn child(on_delete: FkAction) -> House {
    let house = House::open();
    let int = || ColumnType::int(Kind::Int);
    house.create("parent", vec![required("id", int())], &["id"], vec![]);
    house.create(
        "child",
        vec![required("id", int()), column("pid", int())],
        &["id"],
        vec![reference("pid", on_delete)],
    );
    house.map("c:", "child", &[("key_columns", "id"), ("value_columns", "pid")]);
    house.put("test", "parent", &[("id", "1")]);
    let parent = [("key_columns", "id"), ("value_columns", "extra")];
    house.create(
        "other",
        vec![required("id", int()), required("extra", varchar(3))],
        &["id"],
        vec![],
    );
    house.map("o:", "other", &parent);
    house
}

#[test]
fn an_orphan_is_refused_and_a_known_parent_accepted() {
    let house = child(FkAction::NoAction);
    let answer = house.ask("set c:7 0 0 1\r\n9\r\nget c:7\r\n");
    assert!(
        answer.starts_with(
            "SERVER_ERROR Cannot add or update a child row: a foreign key constraint fails"
        ),
        "{answer}"
    );
    assert!(answer.contains("fk_parent"), "{answer}");
    assert!(answer.ends_with("\r\nEND\r\n"), "{answer}");
    assert_eq!(answer.lines().count(), 2, "{answer}");
    assert_eq!(house.ask("set c:7 0 0 1\r\n1\r\n"), "STORED\r\n");
    let answer = house.ask("set c:7 0 0 1\r\n9\r\nincr c:7 5\r\nget c:7\r\n");
    assert!(answer.ends_with("VALUE c:7 0 1\r\n1\r\nEND\r\n"), "{answer}");
    assert_eq!(answer.matches("SERVER_ERROR Cannot add").count(), 2, "{answer}");
}

#[test]
fn deleting_a_parent_is_refused_or_takes_its_children_along() {
    for (action, deleted) in [(FkAction::Restrict, false), (FkAction::Cascade, true)] {
        let house = child(action);
        house.put(
            "ndbmemcache",
            "containers",
            &[
                ("name", "parent"),
                ("db_schema", "test"),
                ("db_table", "parent"),
                ("key_columns", "id"),
                ("increment_column", "id2"),
            ],
        );
        house.ask("set c:7 0 0 1\r\n1\r\n");
        // A parent without other columns has no value: it is mapped with one.
        house.drop_table("other");
        let int = || ColumnType::int(Kind::Int);
        house.create(
            "grand",
            vec![required("id", int()), column("v", varchar(5))],
            &["id"],
            vec![],
        );
        house.map("g:", "grand", &[("key_columns", "id"), ("value_columns", "v")]);
        assert_eq!(house.ask("set g:1 0 0 1\r\nx\r\ndelete g:1\r\n"), "STORED\r\nDELETED\r\n");
        let row = house.row("test", "child", &[Value::Int(7)]);
        assert_eq!(row.unwrap(), ["7", "1"]);
        let gone = delete_parent(&house);
        assert_eq!(gone.is_ok(), deleted, "{gone:?}");
        let left = house.ask("get c:7\r\n");
        assert_eq!(left == "END\r\n", deleted, "{left}");
    }
}

fn delete_parent(house: &House) -> Result<(), porpoise_rows::Error> {
    use porpoise_kv::LockMode;
    let table = house.table("test", "parent");
    let mut txn = house.db.begin(porpoise_rows::BeginOptions::default())?;
    let key = table.primary_key(&[Value::Int(1)]);
    let mut rows = Vec::new();
    let wait = txn.wait();
    txn.lock_rows(&table, &[&key], LockMode::Exclusive, wait, &mut |_, l| {
        let row = l.row.unwrap().bytes().to_vec();
        rows.push((key.clone(), porpoise_rows::RowBuf::from(row)));
    })?;
    txn.delete(&table, rows)?;
    let commit = txn.commit()?;
    house.db.engine().wait_durable(commit.ticket)?;
    Ok(())
}

#[test]
fn a_value_that_does_not_fit_is_refused_not_cut() {
    let house = child(FkAction::NoAction);
    assert_eq!(house.ask("set o:1 0 0 3\r\nabc\r\n"), "STORED\r\n");
    let answer = house.ask("set o:1 0 0 4\r\nabcd\r\nappend o:1 0 0 1\r\nd\r\nget o:1\r\n");
    let refused = "SERVER_ERROR Data too long for column 'extra' at row 1\r\n";
    assert_eq!(
        answer,
        format!("{refused}{refused}VALUE o:1 0 3\r\nabc\r\nEND\r\n")
    );
    let answer = house.ask("set c:1 0 0 3\r\nx\ny\r\nset c:x 0 0 1\r\n1\r\nget c:x\r\n");
    let lines: Vec<&str> = answer.split("\r\n").collect();
    assert!(lines[0].starts_with("SERVER_ERROR Incorrect integer value: 'x"), "{answer}");
    assert!(lines[1].starts_with("SERVER_ERROR Incorrect integer value: 'x'"), "{answer}");
    assert_eq!(lines[2], "END");
    assert_eq!(lines.len(), 4, "a message is one line: {answer}");
}

#[test]
fn noreply_hides_refusals_too() {
    let house = child(FkAction::NoAction);
    assert_eq!(house.ask("set c:7 0 0 1 noreply\r\n9\r\nget c:7\r\n"), "END\r\n");
}

#[test]
fn a_column_without_default_that_memcached_cannot_fill_is_told() {
    let house = House::open();
    let int = || ColumnType::int(Kind::Int);
    house.create(
        "t",
        vec![required("id", int()), column("v", int()), required("n", int())],
        &["id"],
        vec![],
    );
    house.map("t:", "t", &[("key_columns", "id"), ("value_columns", "v")]);
    assert_eq!(
        house.ask("set t:1 0 0 1\r\n1\r\n"),
        "SERVER_ERROR Field 'n' doesn't have a default value\r\n"
    );
    house.put("test", "t", &[("id", "1"), ("v", "5"), ("n", "6")]);
    assert_eq!(house.ask("set t:1 0 0 1\r\n8\r\n"), "STORED\r\n");
    let row = house.row("test", "t", &[Value::Int(1)]);
    assert_eq!(row.unwrap(), ["1", "8", "6"]);
}
