//! Stored programs over the protocol: several results, OUT parameters, the process list.

use crate::client::{Answer, Client};
use porpoise_testkit::Porpoise;
use porpoise_types::ValueRef;
use porpoise_wire::mysql::capability::type_code;
use porpoise_wire::mysql::params::Param;
use porpoise_wire::mysql::{Status, client};

/// OUT parameters of a prepared CALL.
const PS_OUT_PARAMS: Status = Status(4096);

fn ready() -> (Porpoise, Client) {
    let server = Porpoise::builder().start();
    let mut c = Client::root(server.mysql_addr);
    c.good("CREATE DATABASE d");
    c.good("USE d");
    (server, c)
}

fn rows(all: &[Answer]) -> Vec<Vec<Vec<String>>> {
    all.iter().map(Answer::texts).collect()
}

#[test]
fn each_result_of_a_procedure_is_sent() {
    let (_server, mut c) = ready();
    c.good("CREATE TABLE t (id INT PRIMARY KEY)");
    c.good(
        "CREATE PROCEDURE p() BEGIN SELECT 1 AS a, 'x' AS b; INSERT INTO t VALUES (1), (2); \
         SELECT id FROM t ORDER BY id; END",
    );
    let all = c.all("CALL p(); SELECT 3");
    let none: Vec<Vec<String>> = Vec::new();
    let found = rows(&all);
    assert_eq!(found.len(), 4, "{all:?}");
    assert_eq!(found[0], [["1", "x"]]);
    assert_eq!(found[1], [["1"], ["2"]]);
    assert_eq!(found[2], none);
    assert_eq!(found[3], [["3"]]);
    assert_eq!(all[0].columns, ["a", "b"]);
    let more: Vec<bool> = all
        .iter()
        .map(|a| a.status.has(Status::MORE_RESULTS))
        .collect();
    assert_eq!(more, [true, true, true, false]);
    // An error after a result ends the reply.
    c.good("CREATE PROCEDURE q() BEGIN SELECT 1; SELECT nothing; END");
    let all = c.all("CALL q()");
    assert_eq!(all.len(), 2);
    assert_eq!(all[1].code(), 1054);
    assert_eq!(c.good("SELECT 4").one(), "4");
}

#[test]
fn a_result_whose_error_is_handled_is_not_sent() {
    let (_server, mut c) = ready();
    c.good("CREATE TABLE t (id INT PRIMARY KEY)");
    c.good("INSERT INTO t VALUES (1), (2), (3)");
    c.good(
        "CREATE PROCEDURE p() BEGIN DECLARE CONTINUE HANDLER FOR SQLEXCEPTION SET @e = 1; \
         SELECT id, IF(id = 3, (SELECT id FROM t), 0) FROM t; END",
    );
    for _ in 0..2 {
        let all = c.all("CALL p()");
        assert_eq!(all.len(), 1, "{all:?}");
        assert_eq!(all[0].columns.len(), 0, "{all:?}");
    }
    assert_eq!(c.good("SELECT @e").one(), "1");
}

#[test]
fn out_parameters_of_a_prepared_call_are_a_result() {
    let (_server, mut c) = ready();
    c.good(
        "CREATE PROCEDURE p(IN a INT, OUT b INT, INOUT c VARCHAR(10)) \
         BEGIN SELECT a + 1 AS s; SET b = a * 2; SET c = CONCAT(c, '!'); END",
    );
    let prepared = c.prepare("CALL p(?, ?, ?)").unwrap();
    assert_eq!((prepared.params, prepared.columns), (3, 0));
    let params = [
        Param {
            value: ValueRef::Int(4),
            type_code: type_code::LONGLONG,
            unsigned: false,
        },
        Param {
            value: ValueRef::Null,
            type_code: type_code::LONGLONG,
            unsigned: false,
        },
        Param {
            value: ValueRef::Bytes(b"x"),
            type_code: type_code::VAR_STRING,
            unsigned: false,
        },
    ];
    for _ in 0..2 {
        let mut out = Vec::new();
        client::execute(&mut out, c.caps, prepared.id, &params, true, |_| false);
        c.send(&out);
        let all = c.answers(true);
        assert_eq!(all.len(), 3, "{all:?}");
        assert_eq!(rows(&all)[0], [["5"]]);
        assert_eq!(all[1].columns, ["b", "c"]);
        assert_eq!(rows(&all)[1], [["8", "x!"]]);
        let is_out: Vec<bool> = all.iter().map(|a| a.status.has(PS_OUT_PARAMS)).collect();
        assert_eq!(is_out, [false, true, false]);
    }
}

#[test]
fn the_process_list_shows_the_statement_of_the_procedure() {
    let (server, mut c) = ready();
    c.good("CREATE PROCEDURE waits() BEGIN DO SLEEP(60); END");
    c.send(&c.query_bytes("CALL waits()"));
    let mut other = Client::root(server.mysql_addr);
    let found = |other: &mut Client| {
        let text =
            "SELECT ID, INFO FROM information_schema.PROCESSLIST WHERE INFO = 'DO SLEEP(60)'";
        other.good(text).texts()
    };
    let mut shown = found(&mut other);
    for _ in 0..100 {
        if !shown.is_empty() {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(50));
        shown = found(&mut other);
    }
    assert_eq!(shown.len(), 1, "{shown:?}");
    other.good(&format!("KILL QUERY {}", shown[0][0]));
    let all = c.answers(false);
    assert!(all[0].error.is_some() || all[0].rows.is_empty(), "{all:?}");
}

#[test]
fn routines_survive_kill_9() {
    let mut server = Porpoise::builder().start();
    let mut c = Client::root(server.mysql_addr);
    c.good("CREATE DATABASE d");
    c.good("CREATE FUNCTION d.f(a INT) RETURNS INT RETURN a + 1");
    c.good("CREATE PROCEDURE d.p() BEGIN SELECT d.f(1); SELECT ';'; END");
    server.kill9();
    server.restart();
    let mut c = Client::root(server.mysql_addr);
    let all = c.all("CALL d.p()");
    assert_eq!(rows(&all)[..2], [[["2"]], [[";"]]]);
}
