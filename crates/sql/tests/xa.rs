//! XA transactions on the reference model: a restart, and an engine that cannot prepare transactions.
//! States and errors are in `sql/xa.slt`.

use crate::common::{self, ask, code, good};
use porpoise_kv::model::Model;
use porpoise_sql::session::SqlSession;
use std::sync::Arc;

fn run(session: &mut SqlSession, statements: &[&str]) {
    for statement in statements {
        good(session, statement);
    }
}

#[test]
fn xa_is_one_phase_on_an_engine_without_preparation() {
    let engine = Arc::new(Model::new().without_preparation());
    let mut session = common::connect(&common::server(engine), 1);
    run(
        &mut session,
        &[
            "CREATE DATABASE d",
            "USE d",
            "CREATE TABLE t (id INT PRIMARY KEY)",
            "XA START 'x'",
            "INSERT INTO t VALUES (1)",
            "XA END 'x'",
        ],
    );
    let text = "XA PREPARE is not available on the model engine; use XA COMMIT ... ONE PHASE";
    let refused = ask(&mut session, "XA PREPARE 'x'");
    assert_eq!(refused, Err((1235, text.to_owned())));
    // The branch is idle, and its work is not lost.
    assert_eq!(code(&mut session, "SELECT * FROM t"), 1399);
    run(&mut session, &["XA COMMIT 'x' ONE PHASE"]);
    let rows = good(&mut session, "SELECT * FROM t");
    assert_eq!(rows, ["1"]);
    let support = "SELECT XA FROM information_schema.ENGINES WHERE ENGINE = 'InnoDB'";
    assert_eq!(good(&mut session, support), ["NO"]);
}

/// The branches are there before the first session, with their locks on rows and definitions.
#[test]
fn branches_are_restored_at_the_start() {
    let store = Model::new();
    {
        let server = common::server(Arc::new(store.reopen()));
        let mut session = common::connect(&server, 1);
        run(
            &mut session,
            &[
                "CREATE DATABASE d",
                "USE d",
                "CREATE TABLE t (id INT PRIMARY KEY, v INT)",
                "INSERT INTO t VALUES (1, 1), (2, 2)",
                "XA START 'one', 'b', 77",
                "UPDATE t SET v = 10 WHERE id = 1",
                "XA END 'one', 'b', 77",
                "XA PREPARE 'one', 'b', 77",
                "XA START 'two'",
                "UPDATE t SET v = 20 WHERE id = 2",
                "XA END 'two'",
                "XA PREPARE 'two'",
            ],
        );
    }
    let server = common::server(Arc::new(store.reopen()));
    let mut session = common::connect(&server, 1);
    run(
        &mut session,
        &[
            "USE d",
            "SET innodb_lock_wait_timeout = 1, lock_wait_timeout = 1",
        ],
    );
    let rows = good(&mut session, "XA RECOVER");
    assert_eq!(rows, ["77|3|1|oneb", "1|3|0|two"]);
    assert_eq!(code(&mut session, "UPDATE t SET v = 0 WHERE id = 1"), 1205);
    assert_eq!(code(&mut session, "ALTER TABLE t ADD w INT"), 1205);
    assert_eq!(code(&mut session, "XA START 'one', 'b'"), 1440);
    run(&mut session, &["XA COMMIT 'one', 'b', 77"]);
    assert_eq!(code(&mut session, "ALTER TABLE t ADD w INT"), 1205);
    run(
        &mut session,
        &["XA ROLLBACK 'two'", "ALTER TABLE t ADD w INT"],
    );
    let rows = good(&mut session, "SELECT id, v FROM t");
    assert_eq!(rows, ["1|10", "2|2"]);
}
