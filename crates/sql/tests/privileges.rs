//! Privileges of accounts: GRANT and REVOKE on the server, on databases and on
//! tables, enforced at every execution, and preserved by a restart.

use crate::common::{ask, code, good, open};
use porpoise_kv::model::Model;
use porpoise_sql::server::SqlServer;
use porpoise_sql::session::SqlSession;
use std::sync::Arc;
use std::time::Duration;

fn start(model: Model) -> Arc<SqlServer> {
    crate::common::server(Arc::new(model))
}

/// A server with a database of two tables, and sessions of root and of ann, who has no grants.
fn server() -> (Arc<SqlServer>, SqlSession, SqlSession) {
    let server = start(Model::new());
    let mut root = open(&server, "root", "localhost");
    for text in [
        "CREATE DATABASE shop",
        "CREATE TABLE shop.goods (id INT PRIMARY KEY, n INT)",
        "CREATE TABLE shop.orders (id INT PRIMARY KEY)",
        "INSERT INTO shop.goods VALUES (1, 10)",
        "CREATE USER ann IDENTIFIED BY 'x'",
    ] {
        good(&mut root, text);
    }
    let ann = open(&server, "ann", "%");
    (server, root, ann)
}

#[test]
fn without_grants_nothing_is_allowed() {
    let (_server, _, mut ann) = server();
    let error = ask(&mut ann, "SELECT * FROM shop.goods").unwrap_err();
    let text = "SELECT command denied to user 'ann'@'localhost' for table 'goods'";
    assert_eq!(error, (1142, text.to_owned()));
    let error = ask(&mut ann, "USE shop").unwrap_err();
    let text = "Access denied for user 'ann'@'localhost' to database 'shop'";
    assert_eq!(error, (1044, text.to_owned()));
    let denied = [
        (1142, "INSERT INTO shop.goods VALUES (2, 2)"),
        (1142, "UPDATE shop.goods SET n = 1"),
        (1142, "DELETE FROM shop.goods"),
        (1142, "SELECT (SELECT COUNT(*) FROM shop.goods)"),
        (1142, "DROP TABLE shop.goods"),
        (1142, "TRUNCATE shop.goods"),
        (1142, "CREATE TABLE shop.more (id INT)"),
        (1142, "ALTER TABLE shop.goods COMMENT 'x'"),
        (1142, "CREATE INDEX i ON shop.goods (n)"),
        (1142, "RENAME TABLE shop.goods TO shop.bads"),
        (1142, "SHOW CREATE TABLE shop.goods"),
        (1142, "DESCRIBE shop.goods"),
        (1142, "EXPLAIN SELECT * FROM shop.goods"),
        (1142, "SELECT * FROM mysql.user"),
        (1044, "LOCK TABLES shop.goods READ"),
        (1044, "CREATE DATABASE other"),
        (1044, "DROP DATABASE shop"),
        (1044, "SHOW TABLES FROM shop"),
        (1044, "SHOW GRANTS FOR root@localhost"),
        (1227, "CREATE USER bob"),
        (1227, "DROP USER ann"),
        (1227, "SET PASSWORD FOR root@localhost = 'x'"),
        (1227, "ALTER USER root@localhost IDENTIFIED BY 'x'"),
        (1227, "FLUSH PRIVILEGES"),
        (1227, "SET GLOBAL max_connections = 5"),
        (1142, "GRANT SELECT ON shop.goods TO ann"),
        (1044, "GRANT SELECT ON shop.* TO ann"),
        (1045, "GRANT ALL ON *.* TO ann"),
    ];
    for (number, text) in denied {
        assert_eq!(code(&mut ann, text), number, "{text}");
    }
    good(&mut ann, "SELECT 1");
    good(&mut ann, "SET PASSWORD = 'new'");
    assert_eq!(good(&mut ann, "SHOW DATABASES"), ["information_schema"]);
    assert_eq!(
        good(&mut ann, "SHOW GRANTS"),
        ["GRANT USAGE ON *.* TO `ann`@`%`"]
    );
}

#[test]
fn grants_and_revokes_apply_at_once() {
    let (_server, mut root, mut ann) = server();
    good(&mut root, "GRANT SELECT, INSERT ON shop.goods TO ann");
    let read = "SELECT n FROM shop.goods WHERE id = 1";
    for _ in 0..3 {
        assert_eq!(good(&mut ann, read), ["10"]);
    }
    good(&mut ann, "INSERT INTO shop.goods VALUES (2, 20)");
    assert_eq!(
        code(
            &mut ann,
            "INSERT INTO shop.goods VALUES (2, 2) ON DUPLICATE KEY UPDATE n = 1"
        ),
        1142
    );
    assert_eq!(
        code(&mut ann, "REPLACE INTO shop.goods VALUES (2, 2)"),
        1142
    );
    assert_eq!(
        code(
            &mut ann,
            "SELECT * FROM shop.goods JOIN shop.orders USING (id)"
        ),
        1142
    );
    good(&mut ann, "USE shop");
    assert_eq!(good(&mut ann, "SHOW TABLES"), ["goods"]);
    good(
        &mut ann,
        "PREPARE p FROM 'SELECT n FROM shop.goods WHERE id = 1'",
    );
    assert_eq!(good(&mut ann, "EXECUTE p"), ["10"]);
    good(&mut root, "REVOKE SELECT ON shop.goods FROM ann");
    assert_eq!(code(&mut ann, read), 1142);
    assert_eq!(code(&mut ann, "EXECUTE p"), 1142);
}

#[test]
fn finding_rows_needs_select() {
    let (_server, mut root, mut ann) = server();
    good(&mut root, "GRANT UPDATE, DELETE ON shop.goods TO ann");
    good(&mut ann, "UPDATE shop.goods SET n = 11");
    assert_eq!(
        code(&mut ann, "UPDATE shop.goods SET n = 12 WHERE id = 1"),
        1143
    );
    assert_eq!(code(&mut ann, "DELETE FROM shop.goods WHERE n = 11"), 1143);
    good(&mut root, "GRANT SELECT ON shop.goods TO ann");
    good(&mut ann, "DELETE FROM shop.goods WHERE n = 11");
    let several = "UPDATE shop.goods g JOIN shop.orders o ON o.id = g.id SET g.n = 1";
    assert_eq!(code(&mut ann, several), 1142);
    good(&mut root, "GRANT SELECT ON shop.orders TO ann");
    good(&mut ann, several);
    assert_eq!(
        code(&mut ann, "DELETE g, o FROM shop.goods g JOIN shop.orders o"),
        1142
    );
}

#[test]
fn databases_match_by_pattern() {
    let (_server, mut root, mut ann) = server();
    good(&mut root, "CREATE DATABASE shop2");
    good(&mut root, "GRANT ALL ON `sho_`.* TO ann");
    good(&mut ann, "USE shop");
    good(&mut ann, "CREATE TABLE mine (id INT PRIMARY KEY)");
    good(&mut ann, "DROP TABLE mine");
    assert_eq!(code(&mut ann, "USE shop2"), 1044);
    assert_eq!(
        good(&mut ann, "SHOW GRANTS"),
        [
            "GRANT USAGE ON *.* TO `ann`@`%`",
            "GRANT ALL PRIVILEGES ON `sho_`.* TO `ann`@`%`"
        ]
    );
}

#[test]
fn only_what_is_held_with_grant_option_is_passed_on() {
    let (server, mut root, mut ann) = server();
    good(&mut root, "CREATE USER bob");
    good(&mut root, "GRANT SELECT ON shop.* TO ann WITH GRANT OPTION");
    good(&mut ann, "GRANT SELECT ON shop.goods TO bob");
    assert_eq!(code(&mut ann, "GRANT INSERT ON shop.goods TO bob"), 1142);
    let mut bob = open(&server, "bob", "%");
    assert_eq!(good(&mut bob, "SELECT n FROM shop.goods"), ["10"]);
    good(&mut ann, "REVOKE SELECT ON shop.goods FROM bob");
    assert_eq!(code(&mut bob, "SELECT n FROM shop.goods"), 1142);
}

#[test]
fn missing_accounts_and_grants_are_errors() {
    let (_server, mut root, _) = server();
    assert_eq!(code(&mut root, "GRANT SELECT ON shop.* TO nobody"), 1410);
    assert_eq!(code(&mut root, "REVOKE SELECT ON shop.* FROM nobody"), 1141);
    assert_eq!(code(&mut root, "REVOKE SELECT ON shop.* FROM ann"), 1141);
    assert_eq!(
        code(&mut root, "REVOKE SELECT ON shop.goods FROM ann"),
        1147
    );
    assert_eq!(code(&mut root, "SHOW GRANTS FOR nobody"), 1141);
    assert_eq!(code(&mut root, "GRANT RELOAD ON shop.* TO ann"), 1221);
    assert_eq!(code(&mut root, "GRANT RELOAD ON shop.goods TO ann"), 1144);
    assert_eq!(code(&mut root, "GRANT SELECT ON shop.nothing TO ann"), 1146);
}

#[test]
fn grants_survive_a_restart_and_are_dropped_with_the_account() {
    let model = Model::new();
    let again = model.reopen();
    let server = start(model);
    let mut root = open(&server, "root", "localhost");
    good(&mut root, "CREATE USER ann, bob");
    good(&mut root, "GRANT PROCESS, RELOAD ON *.* TO ann");
    good(&mut root, "GRANT SELECT ON mysql.user TO ann, bob");
    good(&mut root, "DROP USER bob");
    drop((root, server));
    let server = start(again);
    let mut root = open(&server, "root", "localhost");
    assert_eq!(
        good(&mut root, "SHOW GRANTS FOR ann"),
        [
            "GRANT RELOAD, PROCESS ON *.* TO `ann`@`%`",
            "GRANT SELECT ON `mysql`.`user` TO `ann`@`%`"
        ]
    );
    assert_eq!(
        good(&mut root, "SHOW GRANTS"),
        ["GRANT ALL PRIVILEGES ON *.* TO `root`@`localhost` WITH GRANT OPTION"]
    );
    good(&mut root, "CREATE USER bob");
    assert_eq!(
        good(&mut root, "SHOW GRANTS FOR bob"),
        ["GRANT USAGE ON *.* TO `bob`@`%`"]
    );
    good(&mut root, "REVOKE ALL PRIVILEGES, GRANT OPTION FROM ann");
    assert_eq!(
        good(&mut root, "SHOW GRANTS FOR ann"),
        ["GRANT USAGE ON *.* TO `ann`@`%`"]
    );
}

#[test]
fn information_schema_shows_what_one_may_use() {
    let (_server, mut root, mut ann) = server();
    for text in [
        "ALTER TABLE shop.goods ADD CHECK (n > 0)",
        "CREATE DATABASE other",
        "CREATE TABLE other.t (id INT PRIMARY KEY)",
        "CREATE VIEW shop.v AS SELECT id FROM shop.orders",
    ] {
        good(&mut root, text);
    }
    let questions = [
        "SELECT schema_name FROM information_schema.schemata WHERE schema_name <> 'ndbmemcache' ORDER BY 1",
        "SELECT table_name FROM information_schema.tables WHERE table_schema IN ('shop', 'other') ORDER BY 1",
        "SELECT table_name, column_name, privileges FROM information_schema.columns \
         WHERE table_schema IN ('shop', 'other') ORDER BY 1, 2",
        "SELECT table_name, index_name FROM information_schema.statistics \
         WHERE table_schema IN ('shop', 'other') ORDER BY 1, 2",
        "SELECT constraint_name FROM information_schema.check_constraints WHERE constraint_schema = 'shop'",
        "SELECT table_name, view_definition FROM information_schema.views",
        "SELECT table_name FROM information_schema.table_constraints WHERE table_schema IN ('shop', 'other')",
    ];
    let answers = |session: &mut SqlSession| questions.map(|q| good(session, q).join(" "));
    let nothing = answers(&mut ann);
    assert_eq!(nothing, ["information_schema", "", "", "", "", "", ""]);
    good(&mut root, "GRANT SELECT, INSERT ON shop.goods TO ann");
    let some = [
        "information_schema shop",
        "goods",
        "goods|id|select,insert goods|n|select,insert",
        "goods|PRIMARY",
        "goods_chk_1",
        "",
        "goods goods",
    ];
    assert_eq!(answers(&mut ann), some);
    // DELETE makes a table visible, but none of its columns.
    good(&mut root, "GRANT DELETE ON other.t TO ann");
    let more = answers(&mut ann);
    assert_eq!(
        more[..3],
        ["information_schema other shop", "goods t", some[2]]
    );
    // SELECT makes a view visible; its text needs SHOW VIEW.
    good(&mut root, "GRANT SELECT ON shop.v TO ann");
    assert_eq!(answers(&mut ann)[5], "v|");
    good(&mut root, "GRANT SHOW VIEW ON shop.v TO ann");
    assert!(answers(&mut ann)[5].contains("orders"));
    // Server privileges do not make tables visible.
    good(&mut root, "CREATE USER ben IDENTIFIED BY 'x'");
    good(&mut root, "GRANT PROCESS ON *.* TO ben");
    let mut ben = open(&_server, "ben", "%");
    assert_eq!(answers(&mut ben), nothing);
    good(&mut root, "GRANT SHOW DATABASES ON *.* TO ben");
    assert!(answers(&mut ben)[0].contains("shop"));
    assert_eq!(answers(&mut ben)[1..], nothing[1..]);
    assert!(answers(&mut root)[1].contains("orders"));
}

#[test]
fn statements_of_others_are_shown_with_process_only() {
    let (_server, mut root, mut ann) = server();
    let own = "SELECT DISTINCT user FROM information_schema.processlist ORDER BY 1";
    assert_eq!(good(&mut ann, own), ["ann"]);
    assert_eq!(good(&mut root, own), ["ann", "root"]);
    for table in ["lock_waits", "deadlocks"] {
        let text = format!("SELECT COUNT(*) FROM information_schema.{table}");
        let (code, message) = ask(&mut ann, &text).unwrap_err();
        let wanted =
            "Access denied; you need (at least one of) the PROCESS privilege(s) for this operation";
        assert_eq!((code, message.as_str()), (1227, wanted));
        assert_eq!(good(&mut root, &text), ["0"]);
    }
    good(&mut root, "GRANT PROCESS ON *.* TO ann");
    assert_eq!(good(&mut ann, own), ["ann", "root"]);
    good(&mut ann, "SELECT * FROM information_schema.lock_waits");
}

#[test]
fn the_plan_of_a_running_statement_is_explained() {
    let (_server, mut root, mut ann) = server();
    good(&mut root, "CREATE DATABASE plans");
    good(
        &mut root,
        "CREATE TABLE plans.t (id INT PRIMARY KEY, a INT, KEY (a))",
    );
    good(&mut root, "INSERT INTO plans.t VALUES (1, 5), (2, 6)");
    let id = root.id();
    let idle = ask(&mut ann, &format!("EXPLAIN FOR CONNECTION {id}")).unwrap_err();
    assert_eq!(idle.0, 1227, "{idle:?}");
    let plan = std::thread::scope(|scope| {
        let running = scope.spawn(|| {
            good(
                &mut root,
                "SELECT SLEEP(2) FROM plans.t WHERE a > 4 LIMIT 1",
            );
            root
        });
        std::thread::sleep(Duration::from_millis(500));
        let refused = ask(&mut ann, &format!("EXPLAIN FOR CONNECTION {id}")).unwrap_err();
        assert_eq!(refused.0, 1227);
        let mut root = running.join().unwrap();
        good(&mut root, "GRANT PROCESS ON *.* TO ann");
        let running = scope.spawn(move || {
            good(
                &mut root,
                "SELECT SLEEP(2) FROM plans.t WHERE a > 4 LIMIT 1",
            );
            root
        });
        std::thread::sleep(Duration::from_millis(500));
        let formats = ["", "FORMAT=JSON", "FORMAT=TREE"];
        let plans = formats.map(|format| {
            let text = format!("EXPLAIN {format} FOR CONNECTION {id}");
            good(&mut ann, &text).join("\n")
        });
        let mut root = running.join().unwrap();
        let (code, _) = ask(&mut ann, &format!("EXPLAIN FOR CONNECTION {id}")).unwrap_err();
        assert_eq!(code, 3012);
        let (code, _) = ask(&mut root, "EXPLAIN FOR CONNECTION 4000000000").unwrap_err();
        assert_eq!(code, 1094);
        plans
    });
    for plan in plan {
        assert!(plan.contains('t') && plan.contains('a'), "{plan}");
        assert!(plan.contains("range") || plan.contains("scan"), "{plan}");
    }
}

#[test]
fn keys_are_shown_with_select_on_their_table() {
    let (_server, mut root, mut ann) = server();
    good(&mut root, "SET GLOBAL hot_key_sample_interval = 1");
    good(&mut root, "CREATE DATABASE hot");
    good(&mut root, "CREATE TABLE hot.t (id INT PRIMARY KEY)");
    for _ in 0..1200 {
        good(&mut root, "SELECT * FROM hot.t WHERE id = 5");
    }
    let keys = "SELECT KEY_TEXT FROM information_schema.HOT_KEYS WHERE TABLE_SCHEMA = 'hot'";
    assert_eq!(good(&mut root, keys), ["5"]);
    assert!(good(&mut ann, keys).is_empty());
    let (code, _) = ask(&mut ann, "SHOW HOT KEYS FROM hot.t").unwrap_err();
    assert_eq!(code, 1142);
    good(&mut root, "GRANT INSERT ON hot.t TO ann");
    assert!(good(&mut ann, keys).is_empty());
    good(&mut root, "GRANT SELECT ON hot.t TO ann");
    assert_eq!(good(&mut ann, keys), ["5"]);
    assert_eq!(good(&mut ann, "SHOW HOT KEYS FROM hot.t").len(), 1);
}

#[test]
fn a_granted_pattern_is_contained_in_the_grantors() {
    let (_server, mut root, mut ann) = server();
    good(&mut root, "GRANT ALL ON m_l.* TO ann WITH GRANT OPTION");
    for text in [
        "GRANT ALL ON `m%l`.* TO ann",
        "GRANT SELECT ON `m%`.* TO ann",
        "GRANT SELECT ON mysql.* TO ann",
        "REVOKE SELECT ON `m%l`.* FROM ann",
    ] {
        assert_eq!(code(&mut ann, text), 1044, "{text}");
    }
    good(&mut ann, "GRANT SELECT ON `m\\_l`.* TO ann");
    good(&mut ann, "GRANT SELECT ON mul.* TO ann");
}

#[test]
fn patterns_with_wildcards_do_not_reach_system_schemas() {
    let (_server, mut root, mut ann) = server();
    good(&mut root, "GRANT ALL ON `m%`.* TO ann WITH GRANT OPTION");
    good(&mut root, "GRANT ALL ON `%`.* TO ann WITH GRANT OPTION");
    assert_eq!(code(&mut ann, "SELECT * FROM mysql.user"), 1142);
    assert_eq!(code(&mut ann, "GRANT SELECT ON mysql.* TO ann"), 1044);
    good(&mut ann, "SELECT * FROM shop.goods");
    good(&mut root, "GRANT SELECT ON mysql.* TO ann");
    good(&mut ann, "SELECT * FROM mysql.user");
}

#[test]
fn foreign_keys_need_references_on_the_parent() {
    let (_server, mut root, mut ann) = server();
    good(&mut root, "CREATE DATABASE own");
    good(&mut root, "GRANT ALL ON own.* TO ann");
    let create = "CREATE TABLE own.kid (g INT, FOREIGN KEY (g) REFERENCES shop.goods (id) \
                  ON DELETE CASCADE ON UPDATE CASCADE)";
    let text = "REFERENCES command denied to user 'ann'@'localhost' for table 'goods'";
    assert_eq!(ask(&mut ann, create).unwrap_err(), (1142, text.to_owned()));
    good(&mut ann, "CREATE TABLE own.kid (g INT)");
    let alter = "ALTER TABLE own.kid ADD CONSTRAINT c FOREIGN KEY (g) REFERENCES shop.goods (id) \
                 ON DELETE CASCADE";
    assert_eq!(code(&mut ann, alter), 1142);
    // The parent need not exist.
    good(&mut ann, "SET foreign_key_checks = 0");
    let later = "CREATE TABLE own.other (g INT, FOREIGN KEY (g) REFERENCES shop.later (id))";
    assert_eq!(code(&mut ann, later), 1142);
    good(&mut ann, "SET foreign_key_checks = 1");
    good(&mut root, "GRANT REFERENCES ON shop.goods TO ann");
    good(&mut ann, alter);
    good(&mut ann, "INSERT INTO own.kid VALUES (1)");
    // A cascade needs no privilege on the child.
    good(&mut root, "CREATE USER owner");
    good(&mut root, "GRANT SELECT, DELETE ON shop.goods TO owner");
    let mut owner = open(&_server, "owner", "%");
    good(&mut owner, "DELETE FROM shop.goods WHERE id = 1");
    assert_eq!(good(&mut root, "SELECT COUNT(*) FROM own.kid"), ["0"]);
}

#[test]
fn errors_do_not_reveal_tables_without_privileges() {
    let (_server, _root, mut ann) = server();
    for text in [
        "SELECT nosuch FROM shop.goods",
        "SELECT 1 FROM shop.nosuch",
        "SET @a = (SELECT nosuch FROM shop.goods)",
    ] {
        assert_eq!(code(&mut ann, text), 1142, "{text}");
    }
    let error = ann.prepare(b"SELECT * FROM shop.goods").unwrap_err();
    assert_eq!(error.code, 1142);
}

#[test]
fn dynamic_privileges_are_global_and_part_of_super() {
    let (_server, mut root, mut ann) = server();
    let global = "SET GLOBAL max_connections = 5";
    assert_eq!(code(&mut ann, global), 1227);
    good(
        &mut root,
        "GRANT system_variables_admin, MEMCACHED_ADMIN ON *.* TO ann",
    );
    good(&mut ann, global);
    assert_eq!(
        good(&mut ann, "SHOW GRANTS"),
        [
            "GRANT USAGE ON *.* TO `ann`@`%`",
            "GRANT MEMCACHED_ADMIN,SYSTEM_VARIABLES_ADMIN ON *.* TO `ann`@`%`"
        ]
    );
    assert_eq!(code(&mut root, "GRANT BACKUP_ADMIN ON shop.* TO ann"), 3619);
    good(&mut root, "REVOKE SYSTEM_VARIABLES_ADMIN ON *.* FROM ann");
    assert_eq!(code(&mut ann, global), 1227);
    good(&mut root, "GRANT SUPER ON *.* TO ann");
    good(&mut ann, global);
}

#[test]
fn each_dynamic_privilege_has_a_grant_option_of_its_own() {
    let (server, mut root, mut ann) = server();
    good(&mut root, "CREATE USER bob");
    good(
        &mut root,
        "GRANT BACKUP_ADMIN ON *.* TO ann WITH GRANT OPTION",
    );
    good(&mut root, "GRANT SYSTEM_USER, ROLE_ADMIN ON *.* TO ann");
    let shown = |root: &mut SqlSession| good(root, "SHOW GRANTS FOR ann");
    let usage = "GRANT USAGE ON *.* TO `ann`@`%`";
    let others = "GRANT ROLE_ADMIN,SYSTEM_USER ON *.* TO `ann`@`%`";
    let backup = "GRANT BACKUP_ADMIN ON *.* TO `ann`@`%` WITH GRANT OPTION";
    assert_eq!(shown(&mut root), [usage, others, backup]);
    let grantable = "SELECT privilege_type, is_grantable FROM information_schema.user_privileges \
                     WHERE grantee = '''ann''@''%''' ORDER BY 1";
    assert_eq!(
        good(&mut root, grantable),
        ["BACKUP_ADMIN|YES", "ROLE_ADMIN|NO", "SYSTEM_USER|NO"]
    );
    good(&mut ann, "GRANT BACKUP_ADMIN ON *.* TO bob");
    let text = "Access denied; you need (at least one of) the GRANT OPTION privilege(s) for this \
                operation";
    for denied in [
        "GRANT ROLE_ADMIN ON *.* TO bob",
        "GRANT BACKUP_ADMIN, SYSTEM_USER ON *.* TO bob",
        "REVOKE ROLE_ADMIN ON *.* FROM ann",
    ] {
        let error = ask(&mut ann, denied).unwrap_err();
        assert_eq!(error, (1227, text.to_owned()), "{denied}");
    }
    assert_eq!(code(&mut ann, "GRANT USAGE ON *.* TO bob"), 1045);
    assert_eq!(
        code(&mut ann, "GRANT SELECT, BACKUP_ADMIN ON *.* TO bob"),
        1045
    );
    // GRANT OPTION of static privileges does not extend to dynamic ones.
    good(&mut root, "GRANT SELECT ON *.* TO ann WITH GRANT OPTION");
    good(&mut ann, "GRANT SELECT, BACKUP_ADMIN ON *.* TO bob");
    assert_eq!(code(&mut ann, "GRANT ROLE_ADMIN ON *.* TO bob"), 1227);
    let select = "GRANT SELECT ON *.* TO `ann`@`%` WITH GRANT OPTION";
    assert_eq!(shown(&mut root), [select, others, backup]);
    // A grant without GRANT OPTION does not remove it; REVOKE GRANT OPTION removes it from all.
    good(&mut root, "GRANT BACKUP_ADMIN ON *.* TO ann");
    assert_eq!(shown(&mut root), [select, others, backup]);
    good(&mut root, "REVOKE GRANT OPTION ON *.* FROM ann");
    let all = "GRANT BACKUP_ADMIN,ROLE_ADMIN,SYSTEM_USER ON *.* TO `ann`@`%`";
    assert_eq!(shown(&mut root), ["GRANT SELECT ON *.* TO `ann`@`%`", all]);
    good(
        &mut root,
        "GRANT ROLE_ADMIN ON *.* TO ann WITH GRANT OPTION",
    );
    good(&mut root, "REVOKE ROLE_ADMIN ON *.* FROM ann");
    good(&mut root, "GRANT ROLE_ADMIN ON *.* TO ann");
    assert_eq!(code(&mut ann, "GRANT ROLE_ADMIN ON *.* TO bob"), 1227);
    // SUPER WITH GRANT OPTION allows granting all dynamic privileges.
    good(&mut root, "GRANT SUPER ON *.* TO ann WITH GRANT OPTION");
    good(&mut ann, "GRANT ROLE_ADMIN ON *.* TO bob");
    drop(server);
}

#[test]
fn accounts_with_system_user_are_changed_by_such_accounts_only() {
    let (_server, mut root, mut ann) = server();
    good(
        &mut root,
        "CREATE USER sys IDENTIFIED BY 'x', bob IDENTIFIED BY 'x'",
    );
    good(&mut root, "CREATE ROLE r");
    good(&mut root, "GRANT SYSTEM_USER ON *.* TO sys");
    good(
        &mut root,
        "GRANT SELECT, CREATE USER ON *.* TO ann WITH GRANT OPTION",
    );
    good(&mut root, "GRANT r TO ann WITH ADMIN OPTION");
    let text = "Access denied; you need (at least one of) the SYSTEM_USER privilege(s) for this \
                operation";
    let statements = [
        "ALTER USER # IDENTIFIED BY 'y'",
        "ALTER USER # ACCOUNT LOCK",
        "SET PASSWORD FOR # = 'y'",
        "GRANT SELECT ON *.* TO #",
        "REVOKE SELECT ON *.* FROM #",
        "GRANT r TO #",
        "RENAME USER # TO other",
        "RENAME USER other TO #",
        "DROP USER #",
    ];
    for statement in statements {
        let own = statement.replace('#', "bob");
        if !own.contains("RENAME USER other") {
            let denied = ask(&mut ann, &statement.replace('#', "sys")).unwrap_err();
            assert_eq!(denied, (1227, text.to_owned()), "{statement}");
        }
        good(&mut ann, &own);
    }
    good(&mut root, "GRANT SYSTEM_USER ON *.* TO ann");
    good(&mut ann, "DROP USER sys");
}

#[test]
fn sessions_of_accounts_with_system_user_are_killed_by_such_accounts_only() {
    let (server, mut root, mut ann) = server();
    good(&mut root, "CREATE USER bob IDENTIFIED BY 'x'");
    good(&mut root, "GRANT CONNECTION_ADMIN ON *.* TO ann");
    let mut bob = open(&server, "bob", "%");
    let id = |session: &mut SqlSession| good(session, "SELECT CONNECTION_ID()").remove(0);
    let (of_root, of_bob) = (id(&mut root), id(&mut bob));
    let kill = format!("KILL QUERY {of_root}");
    assert_eq!(code(&mut ann, &kill), 1095);
    good(&mut ann, &format!("KILL QUERY {of_bob}"));
    assert_eq!(code(&mut bob, &kill), 1095);
    good(&mut root, "GRANT SYSTEM_USER ON *.* TO ann");
    good(&mut ann, &kill);
}

#[test]
fn grant_tables_need_select() {
    let (_server, mut root, mut ann) = server();
    good(&mut root, "GRANT SELECT ON shop.goods TO ann");
    let shown = "SELECT table_name FROM information_schema.tables WHERE table_schema = 'mysql'";
    for table in ["db", "tables_priv", "columns_priv", "procs_priv"] {
        let text = format!("SELECT COUNT(*) FROM mysql.{table}");
        assert_eq!(code(&mut ann, &text), 1142, "{table}");
        good(&mut root, &format!("GRANT SELECT ON mysql.{table} TO ann"));
        assert_eq!(good(&mut ann, &text).len(), 1, "{table}");
        let seen = good(&mut ann, shown);
        assert!(seen.iter().any(|name| name == table), "{seen:?}");
        good(
            &mut root,
            &format!("REVOKE SELECT ON mysql.{table} FROM ann"),
        );
        assert_eq!(good(&mut ann, shown), [""; 0]);
    }
}
