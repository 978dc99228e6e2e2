//! Stored programs: privileges, KILL, recursion, restarts of the server.

use crate::common::{ask, code, good, open};
use porpoise_kv::model::Model;
use porpoise_sql::server::SqlServer;
use std::sync::Arc;
use std::time::{Duration, Instant};

fn server() -> Arc<SqlServer> {
    crate::common::server(Arc::new(Model::new()))
}

#[test]
fn routines_run_with_the_rights_of_their_definer_or_invoker() {
    let server = server();
    let mut root = open(&server, "root", "localhost");
    for text in [
        "CREATE DATABASE shop",
        "CREATE TABLE shop.goods (id INT PRIMARY KEY)",
        "INSERT INTO shop.goods VALUES (1), (2)",
        "CREATE USER ann IDENTIFIED BY 'x'",
        "CREATE PROCEDURE shop.of_definer() SELECT COUNT(*), CURRENT_USER() FROM shop.goods",
        "CREATE PROCEDURE shop.of_invoker() SQL SECURITY INVOKER SELECT COUNT(*) FROM shop.goods",
        "CREATE FUNCTION shop.total() RETURNS INT RETURN (SELECT COUNT(*) FROM shop.goods)",
    ] {
        good(&mut root, text);
    }
    let mut ann = open(&server, "ann", "%");
    let denied = "execute command denied to user 'ann'@'localhost' for routine 'shop.of_definer'";
    let refused = ask(&mut ann, "CALL shop.of_definer()").unwrap_err();
    assert_eq!(refused, (1370, denied.to_owned()));
    assert_eq!(code(&mut ann, "SELECT shop.total()"), 1370);
    good(
        &mut root,
        "GRANT EXECUTE ON PROCEDURE shop.of_definer TO ann",
    );
    good(&mut root, "GRANT EXECUTE ON FUNCTION shop.total TO ann");
    assert_eq!(
        good(&mut ann, "CALL shop.of_definer()"),
        ["2|root@localhost"]
    );
    assert_eq!(good(&mut ann, "SELECT shop.total()"), ["2"]);
    assert_eq!(good(&mut ann, "SELECT CURRENT_USER()"), ["ann@%"]);
    assert_eq!(code(&mut ann, "CALL shop.of_invoker()"), 1370);
    good(&mut root, "GRANT EXECUTE ON shop.* TO ann");
    assert_eq!(code(&mut ann, "CALL shop.of_invoker()"), 1142);
    assert_eq!(code(&mut ann, "SELECT * FROM shop.goods"), 1142);
    assert_eq!(code(&mut ann, "DROP PROCEDURE shop.of_definer"), 1370);
    let grants = good(&mut root, "SHOW GRANTS FOR ann");
    let routine = "GRANT EXECUTE ON PROCEDURE `shop`.`of_definer` TO `ann`@`%`";
    assert!(grants.contains(&routine.to_owned()), "{grants:?}");
    let rows = good(
        &mut root,
        "SELECT Routine_name, Proc_priv FROM mysql.procs_priv",
    );
    assert_eq!(rows, ["of_definer|Execute", "total|Execute"]);
    good(&mut root, "REVOKE EXECUTE ON shop.* FROM ann");
    good(
        &mut root,
        "REVOKE EXECUTE ON PROCEDURE shop.of_definer FROM ann",
    );
    assert_eq!(code(&mut ann, "CALL shop.of_definer()"), 1370);
}

#[test]
fn functions_of_a_view_are_called_by_its_definer_or_invoker() {
    let server = server();
    let mut root = open(&server, "root", "localhost");
    for text in [
        "CREATE DATABASE shop",
        "USE shop",
        "CREATE TABLE goods (id INT PRIMARY KEY)",
        "INSERT INTO goods VALUES (1), (2)",
        "CREATE USER ann IDENTIFIED BY 'x', eve IDENTIFIED BY 'x'",
        "CREATE FUNCTION whose() RETURNS TEXT SQL SECURITY INVOKER RETURN CURRENT_USER()",
        "CREATE FUNCTION total() RETURNS INT SQL SECURITY INVOKER \
         RETURN (SELECT COUNT(*) FROM goods)",
        "CREATE VIEW of_definer AS SELECT whose() AS who, total() AS n",
        "CREATE VIEW merged AS SELECT id FROM goods WHERE total() > id",
        "CREATE VIEW nested AS SELECT (SELECT whose() FROM goods LIMIT 1) AS who",
        "CREATE SQL SECURITY INVOKER VIEW of_invoker AS SELECT whose() AS who",
        "CREATE SQL SECURITY INVOKER VIEW outer_view AS SELECT who FROM of_definer",
        "CREATE VIEW over_invoker AS SELECT who FROM of_invoker",
        "CREATE DEFINER = eve VIEW of_eve AS SELECT whose() AS who",
        "GRANT SELECT ON shop.* TO eve",
    ] {
        good(&mut root, text);
    }
    for view in [
        "of_definer",
        "merged",
        "nested",
        "of_invoker",
        "outer_view",
        "over_invoker",
        "of_eve",
    ] {
        good(&mut root, &format!("GRANT SELECT ON shop.{view} TO ann"));
    }
    let mut ann = open(&server, "ann", "%");
    good(&mut ann, "USE shop");
    let of_root = "root@localhost";
    let both = format!("{of_root}|2");
    assert_eq!(good(&mut ann, "SELECT * FROM of_definer"), [both]);
    assert_eq!(good(&mut ann, "SELECT * FROM merged"), ["1"]);
    for view in ["nested", "outer_view", "over_invoker"] {
        assert_eq!(
            good(&mut ann, &format!("SELECT who FROM {view}")),
            [of_root]
        );
    }
    let refused = ask(&mut ann, "SELECT * FROM of_invoker").unwrap_err();
    let denied = "execute command denied to user 'ann'@'localhost' for routine 'shop.whose'";
    assert_eq!(refused, (1370, denied.to_owned()));
    let refused = ask(&mut ann, "SELECT * FROM of_eve").unwrap_err();
    let denied = "execute command denied to user 'eve'@'%' for routine 'shop.whose'";
    assert_eq!(refused, (1370, denied.to_owned()));
    good(
        &mut root,
        "GRANT EXECUTE ON FUNCTION shop.whose TO ann, eve",
    );
    assert_eq!(good(&mut ann, "SELECT * FROM of_invoker"), ["ann@%"]);
    assert_eq!(good(&mut ann, "SELECT * FROM of_eve"), ["eve@%"]);
    assert_eq!(good(&mut ann, "SELECT CURRENT_USER()"), ["ann@%"]);
    assert_eq!(code(&mut ann, "SELECT whose() FROM goods"), 1142);
}

#[test]
fn a_view_is_created_by_those_who_may_execute_its_functions() {
    let server = server();
    let mut root = open(&server, "root", "localhost");
    for text in [
        "CREATE DATABASE shop",
        "USE shop",
        "CREATE USER ann IDENTIFIED BY 'x'",
        "GRANT CREATE VIEW, SELECT, DROP ON shop.* TO ann",
        "CREATE FUNCTION whose() RETURNS TEXT RETURN CURRENT_USER()",
        "CREATE VIEW of_root AS SELECT whose() AS who",
    ] {
        good(&mut root, text);
    }
    let mut ann = open(&server, "ann", "%");
    good(&mut ann, "USE shop");
    let denied = "execute command denied to user 'ann'@'localhost' for routine 'shop.whose'";
    for text in [
        "CREATE VIEW own AS SELECT whose() AS who",
        "CREATE VIEW own AS SELECT 1 AS n FROM of_root WHERE (SELECT whose()) = who",
        "CREATE OR REPLACE SQL SECURITY INVOKER VIEW own AS SELECT who FROM (SELECT whose() AS who) AS w",
    ] {
        assert_eq!(
            ask(&mut ann, text).unwrap_err(),
            (1370, denied.to_owned()),
            "{text}"
        );
    }
    // The function of another view is called by its definer.
    good(&mut ann, "CREATE VIEW own AS SELECT who FROM of_root");
    good(&mut root, "GRANT EXECUTE ON FUNCTION shop.whose TO ann");
    good(
        &mut ann,
        "CREATE OR REPLACE VIEW own AS SELECT whose() AS who",
    );
}

#[test]
fn the_creator_of_a_routine_may_use_and_drop_it() {
    let server = server();
    let mut root = open(&server, "root", "localhost");
    good(&mut root, "CREATE DATABASE shop");
    good(&mut root, "CREATE USER ann IDENTIFIED BY 'x'");
    good(&mut root, "GRANT CREATE ROUTINE ON shop.* TO ann");
    let mut ann = open(&server, "ann", "%");
    assert_eq!(
        code(
            &mut ann,
            "CREATE DEFINER=root@localhost PROCEDURE shop.p() SELECT 1"
        ),
        1227
    );
    good(&mut ann, "CREATE PROCEDURE shop.p() SELECT 1");
    assert_eq!(good(&mut ann, "CALL shop.p()"), ["1"]);
    good(&mut ann, "DROP PROCEDURE shop.p");
    let rows = good(&mut root, "SELECT COUNT(*) FROM mysql.procs_priv");
    assert_eq!(rows, ["0"]);
}

#[test]
fn a_missing_definer_is_an_error() {
    let server = server();
    let mut root = open(&server, "root", "localhost");
    good(&mut root, "CREATE DATABASE shop");
    good(
        &mut root,
        "CREATE DEFINER=nobody@x PROCEDURE shop.p() SELECT 1",
    );
    assert_eq!(code(&mut root, "CALL shop.p()"), 1449);
}

#[test]
fn rows_of_a_batched_trigger_are_written_with_the_rights_of_its_definer() {
    let server = server();
    let mut root = open(&server, "root", "localhost");
    for text in [
        "CREATE DATABASE shop",
        "CREATE DATABASE elsewhere",
        "CREATE USER ann IDENTIFIED BY 'x', eve IDENTIFIED BY 'x'",
        "CREATE TABLE shop.goods (id INT PRIMARY KEY)",
        "CREATE TABLE shop.audit (id INT AUTO_INCREMENT PRIMARY KEY, goods INT, who TEXT, db TEXT)",
        "CREATE DEFINER = eve TRIGGER shop.added AFTER INSERT ON shop.goods FOR EACH ROW \
         INSERT INTO audit (goods, who, db) VALUES (NEW.id, CONCAT(CURRENT_USER(), USER()), DATABASE())",
        "GRANT INSERT, SELECT, DELETE ON shop.goods TO ann",
        "GRANT TRIGGER, SELECT ON shop.goods TO eve",
        "GRANT INSERT ON shop.audit TO eve",
    ] {
        good(&mut root, text);
    }
    let mut ann = open(&server, "ann", "%");
    good(&mut root, "GRANT SELECT ON elsewhere.* TO ann");
    good(&mut ann, "USE elsewhere");
    for first in [1, 4] {
        let rows = format!("({}), ({}), ({})", first, first + 1, first + 2);
        good(&mut ann, &format!("INSERT INTO shop.goods VALUES {rows}"));
    }
    let distinct = "SELECT COUNT(*), MIN(who), MAX(who), MIN(db), MAX(db) FROM shop.audit";
    let who = "eve@%ann@localhost";
    let expected = format!("6|{who}|{who}|shop|shop");
    assert_eq!(good(&mut root, distinct), [expected]);
    assert_eq!(
        good(&mut ann, "SELECT CURRENT_USER(), DATABASE()"),
        ["ann@%|elsewhere"]
    );
    good(&mut root, "REVOKE INSERT ON shop.audit FROM eve");
    assert_eq!(
        code(&mut ann, "INSERT INTO shop.goods VALUES (7), (8)"),
        1142
    );
    good(&mut root, "GRANT INSERT ON shop.audit TO eve");
    good(&mut root, "REVOKE TRIGGER ON shop.goods FROM eve");
    assert_eq!(
        code(&mut ann, "INSERT INTO shop.goods VALUES (7), (8)"),
        1142
    );
    good(&mut root, "DROP USER eve");
    assert_eq!(
        code(&mut ann, "INSERT INTO shop.goods VALUES (7), (8)"),
        1449
    );
    assert_eq!(good(&mut root, "SELECT COUNT(*) FROM shop.goods"), ["6"]);
}

#[test]
fn kill_query_ends_an_endless_loop() {
    let server = server();
    let mut root = open(&server, "root", "localhost");
    good(&mut root, "CREATE DATABASE shop");
    good(&mut root, "USE shop");
    for text in [
        "CREATE PROCEDURE empty_loop() BEGIN l: LOOP BEGIN END; END LOOP; END",
        "CREATE PROCEDURE counting() BEGIN DECLARE i BIGINT DEFAULT 0; WHILE TRUE DO SET i = i + 1; END WHILE; END",
        "CREATE PROCEDURE handled() BEGIN DECLARE CONTINUE HANDLER FOR SQLEXCEPTION BEGIN END; WHILE TRUE DO DO 1; END WHILE; END",
        "CREATE FUNCTION endless() RETURNS INT BEGIN l: LOOP SET @x = 1; END LOOP; RETURN 1; END",
    ] {
        good(&mut root, text);
    }
    for call in [
        "CALL empty_loop()",
        "CALL counting()",
        "CALL handled()",
        "SELECT endless()",
    ] {
        let id = root.id();
        let other = server.clone();
        let killer = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(150));
            let since = Instant::now();
            other.kill(id, true).unwrap();
            since
        });
        assert_eq!(code(&mut root, call), 1317, "{call}");
        let since = killer.join().unwrap();
        let took = since.elapsed();
        assert!(took < Duration::from_millis(500), "{call}: {took:?}");
        assert_eq!(good(&mut root, "SELECT 1"), ["1"]);
    }
}

#[test]
fn deep_recursion_is_an_error() {
    let server = server();
    let run = move || {
        let mut root = open(&server, "root", "localhost");
        good(&mut root, "CREATE DATABASE shop");
        good(&mut root, "USE shop");
        good(&mut root, "SET max_sp_recursion_depth = 255");
        let text = "CREATE PROCEDURE down(n INT) IF n > 0 THEN CALL down(n - 1); END IF";
        good(&mut root, text);
        good(&mut root, "CALL down(10)");
        let ended = code(&mut root, "CALL down(300)");
        assert!(matches!(ended, 1436 | 1456), "{ended}");
        assert_eq!(good(&mut root, "SELECT 1"), ["1"]);
    };
    let thread = std::thread::Builder::new().stack_size(2 << 20);
    thread.spawn(run).unwrap().join().unwrap();
}

#[test]
fn variables_are_charged_to_the_session() {
    let server = server();
    let mut root = open(&server, "root", "localhost");
    good(&mut root, "CREATE DATABASE shop");
    good(&mut root, "USE shop");
    good(
        &mut root,
        "CREATE PROCEDURE grows() BEGIN DECLARE s LONGTEXT DEFAULT 'x'; WHILE TRUE DO SET s = CONCAT(s, s); END WHILE; END",
    );
    good(&mut root, "SET connection_memory_limit = 4194304");
    let ended = code(&mut root, "CALL grows()");
    assert!(matches!(ended, 4082 | 1038), "{ended}");
    assert_eq!(good(&mut root, "SELECT 1"), ["1"]);
}

#[test]
fn routines_outlive_a_restart() {
    let model = Arc::new(Model::new());
    let definitions = {
        let server = crate::common::server(model.clone());
        let mut root = open(&server, "root", "localhost");
        good(&mut root, "CREATE DATABASE shop");
        good(&mut root, "SET sql_mode = 'ANSI_QUOTES'");
        good(
            &mut root,
            "CREATE PROCEDURE shop.\"P q\"(IN a INT, OUT b INT) COMMENT 'c' SET b = a + 1",
        );
        good(&mut root, "SET sql_mode = ''");
        good(
            &mut root,
            "CREATE FUNCTION shop.f() RETURNS VARCHAR(10) RETURN 'x'",
        );
        let show = "SELECT * FROM information_schema.ROUTINES ORDER BY ROUTINE_NAME";
        good(&mut root, show)
    };
    let server = crate::common::server(model);
    let mut root = open(&server, "root", "localhost");
    let show = "SELECT * FROM information_schema.ROUTINES ORDER BY ROUTINE_NAME";
    assert_eq!(good(&mut root, show), definitions);
    good(&mut root, "CALL shop.`p Q`(1, @b)");
    assert_eq!(good(&mut root, "SELECT @b, shop.f()"), ["2|x"]);
    good(&mut root, "DROP DATABASE shop");
    assert_eq!(good(&mut root, show), Vec::<String>::new());
}
