//! A memcached command that violates a constraint of the table fails with the reason and changes
//! nothing.

use crate::in_process::{InProcess, column, reference, required, varchar};
use porpoise_rows::catalog::FkAction;
use porpoise_types::{ColumnType, Kind, Value};

fn child(on_delete: FkAction) -> InProcess {
    let server = InProcess::open();
    let int = || ColumnType::int(Kind::Int);
    server.create(
        "parent",
        vec![required("id", int()), column("name", varchar(9))],
        &["id"],
        vec![],
    );
    server.map(
        "p:",
        "parent",
        &[("key_columns", "id"), ("value_columns", "name")],
    );
    server.create(
        "child",
        vec![required("id", int()), column("pid", int())],
        &["id"],
        vec![reference("pid", on_delete)],
    );
    server.map(
        "c:",
        "child",
        &[("key_columns", "id"), ("value_columns", "pid")],
    );
    server.put("test", "parent", &[("id", "1")]);
    let parent = [("key_columns", "id"), ("value_columns", "extra")];
    server.create(
        "other",
        vec![required("id", int()), required("extra", varchar(3))],
        &["id"],
        vec![],
    );
    server.map("o:", "other", &parent);
    server
}

#[test]
fn a_child_needs_its_parent_row() {
    let server = child(FkAction::NoAction);
    let answer = server.ask("set c:7 0 0 1\r\n9\r\nget c:7\r\n");
    assert!(
        answer.starts_with(
            "SERVER_ERROR Cannot add or update a child row: a foreign key constraint fails"
        ),
        "{answer}"
    );
    assert!(answer.contains("fk_parent"), "{answer}");
    assert!(answer.ends_with("\r\nEND\r\n"), "{answer}");
    assert_eq!(answer.lines().count(), 2, "{answer}");
    assert_eq!(server.ask("set c:7 0 0 1\r\n1\r\n"), "STORED\r\n");
    let answer = server.ask("set c:7 0 0 1\r\n9\r\nincr c:7 5\r\nget c:7\r\n");
    assert!(
        answer.ends_with("VALUE c:7 0 1\r\n1\r\nEND\r\n"),
        "{answer}"
    );
    assert_eq!(
        answer.matches("SERVER_ERROR Cannot add").count(),
        2,
        "{answer}"
    );
}

#[test]
fn deleting_a_parent_is_refused_or_cascades() {
    for (action, deleted) in [(FkAction::Restrict, false), (FkAction::Cascade, true)] {
        let server = child(action);
        assert_eq!(server.ask("set c:7 0 0 1\r\n1\r\n"), "STORED\r\n");
        let answer = server.ask("delete p:1\r\nget p:1 c:7\r\n");
        if deleted {
            assert_eq!(answer, "DELETED\r\nEND\r\n");
        } else {
            let refused = "SERVER_ERROR Cannot delete or update a parent row: a foreign key";
            assert!(answer.starts_with(refused), "{answer}");
            assert!(
                answer.ends_with("VALUE c:7 0 1\r\n1\r\nEND\r\n"),
                "{answer}"
            );
        }
    }
}

#[test]
fn a_value_that_does_not_fit_is_refused_not_cut() {
    let server = child(FkAction::NoAction);
    assert_eq!(server.ask("set o:1 0 0 3\r\nabc\r\n"), "STORED\r\n");
    let answer = server.ask("set o:1 0 0 4\r\nabcd\r\nappend o:1 0 0 1\r\nd\r\nget o:1\r\n");
    let refused = "SERVER_ERROR Data too long for column 'extra' at row 1\r\n";
    assert_eq!(
        answer,
        format!("{refused}{refused}VALUE o:1 0 3\r\nabc\r\nEND\r\n")
    );
    let answer = server.ask("set c:1 0 0 3\r\nx\ny\r\nset c:x 0 0 1\r\n1\r\nget c:x\r\n");
    let lines: Vec<&str> = answer.split("\r\n").collect();
    assert!(
        lines[0].starts_with("SERVER_ERROR Incorrect integer value: 'x"),
        "{answer}"
    );
    assert!(
        lines[1].starts_with("SERVER_ERROR Incorrect integer value: 'x'"),
        "{answer}"
    );
    assert_eq!(lines[2], "END");
    assert_eq!(lines.len(), 4, "a message is one line: {answer}");
}

#[test]
fn noreply_hides_refusals_too() {
    let server = child(FkAction::NoAction);
    assert_eq!(
        server.ask("set c:7 0 0 1 noreply\r\n9\r\nget c:7\r\n"),
        "END\r\n"
    );
}

#[test]
fn a_set_without_a_value_for_a_required_column_is_an_error() {
    let server = InProcess::open();
    let int = || ColumnType::int(Kind::Int);
    server.create(
        "t",
        vec![
            required("id", int()),
            column("v", int()),
            required("n", int()),
        ],
        &["id"],
        vec![],
    );
    server.map("t:", "t", &[("key_columns", "id"), ("value_columns", "v")]);
    assert_eq!(
        server.ask("set t:1 0 0 1\r\n1\r\n"),
        "SERVER_ERROR Field 'n' doesn't have a default value\r\n"
    );
    server.put("test", "t", &[("id", "1"), ("v", "5"), ("n", "6")]);
    assert_eq!(server.ask("set t:1 0 0 1\r\n8\r\n"), "STORED\r\n");
    let row = server.row("test", "t", &[Value::Int(1)]);
    assert_eq!(row.unwrap(), ["1", "8", "6"]);
}

#[test]
fn a_key_that_would_have_to_be_rounded_names_no_row() {
    let server = child(FkAction::NoAction);
    assert_eq!(server.ask("set p:2 0 0 1\r\na\r\n"), "STORED\r\n");
    for command in ["set", "add", "append"] {
        let answer = server.ask(&format!("{command} p:1.6 0 0 1\r\nx\r\n"));
        assert!(!answer.starts_with("STORED"), "{command}: {answer}");
    }
    let answer = server.ask("set p:2e0 0 0 1\r\nx\r\n");
    let refusal = "SERVER_ERROR Incorrect integer value: '2e0' for column 'id' at row 1\r\n";
    assert_eq!(answer, refusal);
    assert_eq!(server.ask("get p:1.6 p:2e0\r\n"), "END\r\n");
    assert_eq!(server.ask("delete p:1.6\r\n"), "NOT_FOUND\r\n");
    assert_eq!(server.ask("get p:2\r\n"), "VALUE p:2 0 1\r\na\r\nEND\r\n");
}

#[test]
fn text_keeps_its_last_spaces_or_is_refused() {
    let server = child(FkAction::NoAction);
    assert_eq!(
        server.ask("set p:2 0 0 10\r\nnine char \r\n"),
        "SERVER_ERROR Data too long for column 'name' at row 1\r\n"
    );
    assert_eq!(server.ask("set p:2 0 0 9\r\nnine cha \r\n"), "STORED\r\n");
    assert_eq!(
        server.ask("get p:2\r\n"),
        "VALUE p:2 0 9\r\nnine cha \r\nEND\r\n"
    );
}
