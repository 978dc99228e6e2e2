//! Privileges on columns: GRANT and REVOKE, requirements of statements, SHOW and
//! information_schema, and restarts.

use crate::common::{ask, code, good, open};
use porpoise_kv::model::Model;
use porpoise_sql::server::SqlServer;
use porpoise_sql::session::SqlSession;
use std::sync::Arc;

/// The error for a missing privilege on a column.
fn column(command: &str, column: &str, table: &str) -> (u16, String) {
    let text = format!(
        "{command} command denied to user 'ann'@'localhost' for column '{column}' in table '{table}'"
    );
    (1143, text)
}

/// The error for a missing privilege on a table.
fn table(command: &str, table: &str) -> (u16, String) {
    let text = format!("{command} command denied to user 'ann'@'localhost' for table '{table}'");
    (1142, text)
}

/// A server with two tables, and sessions of root and of ann, who has no grants.
struct World {
    server: Arc<SqlServer>,
    root: SqlSession,
    ann: SqlSession,
}

impl World {
    fn new() -> World {
        World::on(Model::new())
    }

    fn on(model: Model) -> World {
        let server = crate::common::server(Arc::new(model));
        let mut root = open(&server, "root", "localhost");
        for text in [
            "CREATE DATABASE shop",
            "CREATE TABLE shop.t (a INT PRIMARY KEY, b INT DEFAULT 5, c INT, \
             g INT AS (a + 1) STORED)",
            "CREATE TABLE shop.u (a INT PRIMARY KEY, d INT)",
            "INSERT INTO shop.t (a, b, c) VALUES (1, 2, 3)",
            "INSERT INTO shop.u VALUES (1, 4)",
            "CREATE USER ann IDENTIFIED BY 'x', bob IDENTIFIED BY 'x'",
        ] {
            good(&mut root, text);
        }
        let ann = open(&server, "ann", "%");
        World { server, root, ann }
    }

    /// Grants to ann.
    fn grant(&mut self, privileges: &str) {
        good(&mut self.root, &format!("GRANT {privileges} TO ann"));
    }

    /// Grants to ann WITH GRANT OPTION.
    fn grant_with_option(&mut self, privileges: &str) {
        let text = format!("GRANT {privileges} TO ann WITH GRANT OPTION");
        good(&mut self.root, &text);
    }

    fn revoke_all(&mut self) {
        let text = "REVOKE ALL PRIVILEGES, GRANT OPTION FROM ann";
        good(&mut self.root, text);
    }

    fn grants(&mut self) -> Vec<String> {
        let mut lines = good(&mut self.ann, "SHOW GRANTS");
        assert_eq!(lines.remove(0), "GRANT USAGE ON *.* TO `ann`@`%`");
        lines
    }

    /// Runs statements as ann; each must fail with the given error, or succeed for `None`.
    fn expect(&mut self, cases: &[(&str, Option<(u16, String)>)]) {
        for (text, expected) in cases {
            let error = ask(&mut self.ann, text).err();
            assert_eq!(error, *expected, "{text}");
        }
    }
}

#[test]
fn grants_are_shown_and_revoked_as_they_were_given() {
    let mut world = World::new();
    world.grant("SELECT (b, a), INSERT (a), UPDATE (c), REFERENCES (a) ON shop.t");
    let all = "GRANT SELECT (`a`, `b`), INSERT (`a`), UPDATE (`c`), REFERENCES (`a`) ON \
               `shop`.`t` TO `ann`@`%`";
    assert_eq!(world.grants(), [all]);
    // They are listed beside those on the table, by the columns' names in the table.
    world.grant("SELECT (A), DELETE ON shop.t");
    world.grant("SELECT ON shop.t");
    assert_eq!(
        world.grants(),
        [
            "GRANT SELECT, SELECT (`a`, `b`), INSERT (`a`), UPDATE (`c`), DELETE, \
          REFERENCES (`a`) ON `shop`.`t` TO `ann`@`%`"
        ]
    );
    let root = &mut world.root;
    good(root, "REVOKE SELECT (a), UPDATE (c) ON shop.t FROM ann");
    good(root, "REVOKE DELETE ON shop.t FROM ann");
    // Revoking a privilege on a table also revokes it on the columns.
    good(root, "REVOKE SELECT ON shop.t FROM ann");
    assert_eq!(
        world.grants(),
        ["GRANT INSERT (`a`), REFERENCES (`a`) ON `shop`.`t` TO `ann`@`%`"]
    );
    world.grant_with_option("UPDATE (b) ON shop.t");
    good(
        &mut world.root,
        "REVOKE INSERT (a), REFERENCES (a) ON shop.t FROM ann",
    );
    assert_eq!(
        world.grants(),
        ["GRANT UPDATE (`b`) ON `shop`.`t` TO `ann`@`%` WITH GRANT OPTION"]
    );
    world.revoke_all();
    assert!(world.grants().is_empty());
    world.grant("ALL ON shop.t");
    world.grant("SELECT (a) ON shop.t");
    assert_eq!(
        world.grants(),
        ["GRANT ALL PRIVILEGES ON `shop`.`t` TO `ann`@`%`"]
    );
    good(&mut world.root, "REVOKE ALL ON shop.t FROM ann");
    assert!(world.grants().is_empty());
    assert_eq!(
        good(&mut world.root, "SELECT COUNT(*) FROM mysql.column_grants"),
        ["0"]
    );
}

#[test]
fn invalid_grants_are_rejected() {
    let mut world = World::new();
    let root = &mut world.root;
    let unknown = (1054, "Unknown column 'x' in 't'".to_owned());
    assert_eq!(
        ask(root, "GRANT SELECT (a, x) ON shop.t TO ann").unwrap_err(),
        unknown
    );
    let no_grant = (
        1147,
        "There is no such grant defined for user 'ann' on host '%' on table 't'".to_owned(),
    );
    for text in [
        "REVOKE SELECT (a) ON shop.t FROM ann",
        "REVOKE SELECT (x) ON shop.t FROM ann",
        "REVOKE SELECT ON shop.t FROM ann",
    ] {
        assert_eq!(ask(root, text).unwrap_err(), no_grant, "{text}");
    }
    for text in [
        "GRANT DELETE (a) ON shop.t TO ann",
        "GRANT SELECT (a) ON shop.* TO ann",
        "GRANT SELECT (a) ON *.* TO ann",
        "REVOKE DROP (a) ON shop.t FROM ann",
    ] {
        assert_eq!(code(root, text), 1144, "{text}");
    }
    assert_eq!(code(root, "GRANT SELECT (a) ON shop.no TO ann"), 1146);
    good(root, "GRANT SELECT (a) ON shop.t TO ann");
    assert_eq!(code(root, "REVOKE SELECT (b) ON shop.t FROM ann"), 1147);
    // Revoking a privilege that was not granted on the column is not an error, as in MySQL.
    good(root, "REVOKE UPDATE (a) ON shop.t FROM ann");
    good(root, "REVOKE UPDATE ON shop.t FROM ann");
    assert_eq!(
        world.grants(),
        ["GRANT SELECT (`a`) ON `shop`.`t` TO `ann`@`%`"]
    );
}

#[test]
fn reads_need_select_on_the_columns_they_name() {
    let mut world = World::new();
    world.grant("SELECT (a, b) ON shop.t");
    let c = || Some(column("SELECT", "c", "t"));
    world.expect(&[
        ("SELECT a, b FROM shop.t", None),
        ("SELECT COUNT(*) FROM shop.t", None),
        ("SELECT 1 FROM shop.t LIMIT 0", None),
        ("SELECT * FROM shop.t", Some(table("SELECT", "t"))),
        ("TABLE shop.t", Some(table("SELECT", "t"))),
        ("SELECT t.* FROM shop.t", Some(table("SELECT", "t"))),
        ("SELECT a, c FROM shop.t", c()),
        ("SELECT a FROM shop.t WHERE c = 3", c()),
        ("SELECT a FROM shop.t ORDER BY c", c()),
        ("SELECT a FROM shop.t GROUP BY a, c", c()),
        ("SELECT MAX(c) FROM shop.t", c()),
        ("SELECT a FROM shop.t GROUP BY a HAVING MAX(c) > 0", c()),
        (
            "SELECT a FROM shop.t x WHERE EXISTS (SELECT 1 WHERE x.c)",
            c(),
        ),
        ("SELECT (SELECT MAX(c) FROM shop.t)", c()),
        ("SELECT a FROM (SELECT a, c FROM shop.t) d", c()),
        ("WITH d AS (SELECT c FROM shop.t) SELECT 1 FROM d", c()),
        ("SELECT a FROM shop.t UNION SELECT c FROM shop.t", c()),
        ("SELECT y.a FROM shop.t x JOIN shop.t y ON x.c = y.a", c()),
        ("DO (SELECT c FROM shop.t)", c()),
        ("SET @x = (SELECT c FROM shop.t)", c()),
        ("SELECT c FROM shop.t LIMIT 1 INTO @x", c()),
        ("EXPLAIN SELECT c FROM shop.t", c()),
        (
            "CREATE TEMPORARY TABLE shop.x AS SELECT c FROM shop.t",
            Some((
                1044,
                "Access denied for user 'ann'@'localhost' to database 'shop'".to_owned(),
            )),
        ),
        (
            "SELECT nosuch FROM shop.t",
            Some((1054, "Unknown column 'nosuch' in 'field list'".to_owned())),
        ),
        ("SELECT d FROM shop.u", Some(table("SELECT", "u"))),
        (
            "SELECT 1 FROM shop.t, shop.u WHERE c",
            Some(table("SELECT", "u")),
        ),
        ("SELECT g FROM shop.t", Some(column("SELECT", "g", "t"))),
    ]);
    world.grant("SELECT (d) ON shop.u");
    let a = || Some(column("SELECT", "a", "u"));
    world.expect(&[
        ("SELECT d FROM shop.u", None),
        ("SELECT b FROM shop.t JOIN shop.u USING (a)", a()),
        ("SELECT b FROM shop.t NATURAL JOIN shop.u", a()),
        ("SELECT b FROM shop.t, shop.u WHERE t.a = d", None),
        (
            "SELECT b FROM shop.t WHERE a IN (SELECT d FROM shop.u)",
            None,
        ),
        (
            "SELECT b FROM shop.t WHERE a IN (SELECT a FROM shop.u)",
            a(),
        ),
    ]);
    world.grant("SELECT (g, c) ON shop.t");
    world.expect(&[("SELECT * FROM shop.t", None)]);
}

#[test]
fn inserts_need_the_columns_that_get_values() {
    let mut world = World::new();
    world.grant("INSERT (a, c) ON shop.t");
    world.expect(&[
        ("INSERT INTO shop.t (a, c) VALUES (2, 2)", None),
        ("INSERT INTO shop.t (a) VALUES (3)", None),
        ("INSERT INTO shop.t SET a = 4", None),
        (
            "INSERT INTO shop.t (a, b) VALUES (5, 5)",
            Some(column("INSERT", "b", "t")),
        ),
        (
            "INSERT INTO shop.t SET a = 5, b = 5",
            Some(column("INSERT", "b", "t")),
        ),
        (
            "INSERT INTO shop.t VALUES (5, 5, 5, DEFAULT)",
            Some(table("INSERT", "t")),
        ),
        (
            "INSERT INTO shop.t (a, c) VALUES (5, a)",
            Some(column("SELECT", "a", "t")),
        ),
        (
            "INSERT INTO shop.t (a) SELECT a + 9 FROM shop.u",
            Some(table("SELECT", "u")),
        ),
        (
            "REPLACE INTO shop.t (a) VALUES (3)",
            Some(table("DELETE", "t")),
        ),
        (
            "INSERT INTO shop.t (a) VALUES (3) ON DUPLICATE KEY UPDATE c = 1",
            Some(table("UPDATE", "t")),
        ),
    ]);
    world.grant("SELECT (d), UPDATE (d) ON shop.u");
    world.grant("UPDATE (c), DELETE ON shop.t");
    let upsert = "INSERT INTO shop.t (a, c) VALUES (3, 1) ON DUPLICATE KEY UPDATE";
    let upsert = |set: &str| format!("{upsert} {set}");
    world.expect(&[
        ("REPLACE INTO shop.t (a) VALUES (3)", None),
        ("INSERT INTO shop.t (a) SELECT d + 9 FROM shop.u", None),
        (
            "INSERT INTO shop.t (a) SELECT a + 19 FROM shop.u",
            Some(column("SELECT", "a", "u")),
        ),
        (&upsert("c = 7"), None),
        (&upsert("b = 7"), Some(column("UPDATE", "b", "t"))),
        (&upsert("c = c + 1"), Some(column("SELECT", "c", "t"))),
        (&upsert("c = VALUES(c)"), Some(column("SELECT", "c", "t"))),
        (
            "INSERT INTO shop.t (a, c) VALUES (3, 8) AS new ON DUPLICATE KEY UPDATE c = new.c",
            None,
        ),
    ]);
    world.grant("SELECT (c) ON shop.t");
    world.expect(&[
        (&upsert("c = VALUES(c)"), None),
        (&upsert("c = c + 1"), None),
        (
            "INSERT INTO shop.t (a) SELECT d - 1 FROM shop.u ON DUPLICATE KEY UPDATE c = d",
            None,
        ),
        (
            "INSERT INTO shop.t (a) SELECT d - 1 FROM shop.u ON DUPLICATE KEY UPDATE c = u.a",
            Some(column("SELECT", "a", "u")),
        ),
    ]);
    let rows = good(&mut world.root, "SELECT a, b, c FROM shop.t ORDER BY a");
    assert_eq!(rows, ["1|2|3", "2|5|2", "3|5|4", "4|5|NULL", "13|5|NULL"]);
}

#[test]
fn updates_and_deletes_need_the_columns_they_set_and_read() {
    let mut world = World::new();
    world.grant("UPDATE (b) ON shop.t");
    let a = || Some(column("SELECT", "a", "t"));
    world.expect(&[
        ("UPDATE shop.t SET b = 1", None),
        ("UPDATE shop.t SET b = 1 LIMIT 1", None),
        ("UPDATE shop.t SET c = 1", Some(column("UPDATE", "c", "t"))),
        ("UPDATE shop.t SET b = a", a()),
        ("UPDATE shop.t SET b = 1 WHERE a = 1", a()),
        ("UPDATE shop.t SET b = 1 ORDER BY a LIMIT 1", a()),
        (
            "UPDATE shop.t SET b = (SELECT MAX(a) FROM shop.u)",
            Some(table("SELECT", "u")),
        ),
        (
            "UPDATE shop.t, shop.u SET b = 1",
            Some(table("SELECT", "u")),
        ),
        ("SELECT b FROM shop.t", Some(table("SELECT", "t"))),
        ("DELETE FROM shop.t", Some(table("DELETE", "t"))),
    ]);
    world.grant("SELECT (a) ON shop.t");
    world.grant("SELECT (d) ON shop.u");
    world.expect(&[
        ("UPDATE shop.t SET b = 1 WHERE a = 1", None),
        ("UPDATE shop.t SET b = a WHERE a = 1", None),
        ("UPDATE shop.t, shop.u SET t.b = d WHERE t.a = d", None),
        (
            "UPDATE shop.t JOIN shop.u USING (a) SET b = d",
            Some(column("SELECT", "a", "u")),
        ),
        (
            "UPDATE shop.t, shop.u SET t.b = d, d = 1",
            Some(table("UPDATE", "u")),
        ),
        ("SELECT a FROM shop.t FOR UPDATE", None),
        (
            "SELECT d FROM shop.u FOR UPDATE",
            Some(table("SELECT with locking clause", "u")),
        ),
        ("SELECT d FROM shop.u FOR SHARE", None),
    ]);
    world.grant("DELETE ON shop.t");
    world.expect(&[
        (
            "DELETE FROM shop.t WHERE c = 9",
            Some(column("SELECT", "c", "t")),
        ),
        (
            "DELETE shop.t FROM shop.t, shop.u WHERE t.a = d AND c = 9",
            Some(column("SELECT", "c", "t")),
        ),
        ("DELETE FROM shop.t WHERE a = 9", None),
        ("DELETE shop.t FROM shop.t, shop.u WHERE t.a = d", None),
        ("DELETE FROM shop.t", None),
    ]);
}

#[test]
fn views_check_their_columns_and_those_of_their_tables() {
    let mut world = World::new();
    for text in [
        "CREATE VIEW shop.v AS SELECT a AS x, b AS y FROM shop.t WHERE c > 0",
        "CREATE SQL SECURITY INVOKER VIEW shop.vi AS SELECT a AS x, b AS y FROM shop.t WHERE c > 0",
        "CREATE VIEW shop.sums AS SELECT a AS x, SUM(b) AS s FROM shop.t GROUP BY a",
        "CREATE VIEW shop.over AS SELECT x FROM shop.vi",
    ] {
        good(&mut world.root, text);
    }
    world.grant("SELECT (x), UPDATE (y) ON shop.v");
    world.grant("SELECT (x), UPDATE (y), INSERT (x) ON shop.vi");
    world.grant("SELECT (x) ON shop.sums");
    world.expect(&[
        ("SELECT x FROM shop.v", None),
        ("SELECT y FROM shop.v", Some(column("SELECT", "y", "v"))),
        ("SELECT * FROM shop.v", Some(table("SELECT", "v"))),
        ("UPDATE shop.v SET y = 7 WHERE x = 1", None),
        (
            "UPDATE shop.v SET y = y + 1",
            Some(column("SELECT", "y", "v")),
        ),
        ("UPDATE shop.v SET x = 7", Some(column("UPDATE", "x", "v"))),
        ("SELECT x FROM shop.sums", None),
        (
            "SELECT s FROM shop.sums",
            Some(column("SELECT", "s", "sums")),
        ),
        ("SELECT x FROM shop.vi", Some(table("SELECT", "t"))),
        ("SELECT x FROM shop.over", Some(table("SELECT", "over"))),
    ]);
    // The invoker needs the columns that the query uses, and those of the view's condition.
    world.grant("SELECT (a) ON shop.t");
    world.expect(&[("SELECT x FROM shop.vi", Some(column("SELECT", "c", "t")))]);
    world.grant("SELECT (c) ON shop.t");
    world.expect(&[
        ("SELECT x FROM shop.vi", None),
        ("UPDATE shop.vi SET y = 8", Some(table("UPDATE", "t"))),
        (
            "INSERT INTO shop.vi (x) VALUES (9)",
            Some(table("INSERT", "t")),
        ),
    ]);
    world.grant("UPDATE (b), INSERT (a) ON shop.t");
    world.expect(&[
        ("UPDATE shop.vi SET y = 8", None),
        ("INSERT INTO shop.vi (x) VALUES (9)", None),
    ]);
    // Root's view `over` reads the inner view as root.
    world.revoke_all();
    world.grant("SELECT (x) ON shop.over");
    world.expect(&[("SELECT x FROM shop.over", None)]);
}

#[test]
fn a_view_fails_when_its_definer_loses_a_column() {
    let mut world = World::new();
    let World { server, root, ann } = &mut world;
    good(root, "GRANT SELECT (a, b), UPDATE (b) ON shop.t TO bob");
    good(root, "GRANT CREATE VIEW ON shop.* TO bob");
    let mut bob = open(server, "bob", "%");
    assert_eq!(
        code(&mut bob, "CREATE VIEW shop.w AS SELECT c FROM shop.t"),
        1143
    );
    good(&mut bob, "CREATE VIEW shop.w AS SELECT a, b FROM shop.t");
    good(root, "GRANT SELECT, UPDATE ON shop.w TO ann");
    good(ann, "SELECT * FROM shop.w");
    good(ann, "UPDATE shop.w SET b = 9");
    good(root, "REVOKE SELECT (b), UPDATE (b) ON shop.t FROM bob");
    good(ann, "SELECT a FROM shop.w");
    for text in ["SELECT b FROM shop.w", "UPDATE shop.w SET b = 8"] {
        assert_eq!(code(ann, text), 1356, "{text}");
    }
}

#[test]
fn changes_through_views_need_rights_on_the_columns_of_view_and_table() {
    let mut world = World::new();
    let World { server, root, ann } = &mut world;
    good(root, "GRANT SELECT ON shop.t TO bob");
    good(root, "GRANT CREATE VIEW ON shop.* TO bob");
    let mut bob = open(server, "bob", "%");
    for text in [
        "CREATE VIEW shop.w AS SELECT a, b + 1 AS s, c FROM shop.t",
        "CREATE VIEW shop.j AS SELECT t.a AS x, t.b AS y, o.c AS z FROM shop.t AS t \
         JOIN shop.t AS o ON o.a = t.a",
    ] {
        good(&mut bob, text);
    }
    good(root, "GRANT SELECT (a, c), UPDATE (a, c) ON shop.w TO ann");
    good(root, "GRANT SELECT (x), UPDATE (y, z) ON shop.j TO ann");
    for text in [
        "UPDATE shop.w SET c = 9",
        "UPDATE shop.j SET y = 9",
        "UPDATE shop.j SET z = 9",
    ] {
        assert_eq!(code(ann, text), 1356, "{text}");
    }
    good(root, "GRANT UPDATE (b, c) ON shop.t TO bob");
    for text in [
        "UPDATE shop.w SET c = 9 WHERE s = 3",
        "UPDATE shop.j SET x = 9",
        "UPDATE shop.j SET y = 9 WHERE z = 1",
    ] {
        assert_eq!(code(ann, text), 1143, "{text}");
    }
    for text in [
        "UPDATE shop.w SET c = 9 WHERE a = 1",
        "UPDATE shop.j SET y = 9 WHERE x = 1",
        "UPDATE shop.j SET z = 9 WHERE x = 1",
    ] {
        good(ann, text);
    }
    assert_eq!(code(ann, "UPDATE shop.w SET a = 9"), 1356);
}

#[test]
fn prepared_statements_notice_a_revoke() {
    let mut world = World::new();
    world.grant("SELECT (a, b), UPDATE (b) ON shop.t");
    let mut sink = crate::common::Collected::default();
    let mut prepare = |text: &str| world.ann.prepare(text.as_bytes()).unwrap().id;
    let (read, write) = (
        prepare("SELECT b FROM shop.t WHERE a = 1"),
        prepare("UPDATE shop.t SET b = 3 WHERE a = 1"),
    );
    world.ann.execute(read, &[], &mut sink).unwrap();
    world.ann.execute(write, &[], &mut sink).unwrap();
    let text = "REVOKE SELECT (b), UPDATE (b) ON shop.t FROM ann";
    good(&mut world.root, text);
    let refused = world.ann.execute(read, &[], &mut sink).unwrap_err();
    assert_eq!((refused.code, refused.message), column("SELECT", "b", "t"));
    let refused = world.ann.execute(write, &[], &mut sink).unwrap_err();
    assert_eq!((refused.code, refused.message), table("UPDATE", "t"));
    let refused = world.ann.prepare(b"SELECT c FROM shop.t").unwrap_err();
    assert_eq!(refused.code, 1143);
}

#[test]
fn foreign_keys_need_references_on_the_columns() {
    let mut world = World::new();
    good(&mut world.root, "CREATE DATABASE own");
    world.grant("ALL ON own.*");
    let create = "CREATE TABLE own.k (x INT, FOREIGN KEY (x) REFERENCES shop.t (a))";
    world.expect(&[(create, Some(table("REFERENCES", "t")))]);
    world.grant("REFERENCES (b) ON shop.t");
    world.expect(&[(create, Some(column("REFERENCES", "a", "t")))]);
    world.grant("REFERENCES (a) ON shop.t");
    world.expect(&[(create, None)]);
}

#[test]
fn only_columns_with_a_privilege_are_shown() {
    let mut world = World::new();
    world.grant("SELECT (a), INSERT (a), UPDATE (c) ON shop.t");
    let ann = &mut world.ann;
    assert_eq!(good(ann, "SHOW TABLES FROM shop"), ["t"]);
    let names = |lines: Vec<String>| -> Vec<String> {
        let first = |line: &String| line.split('|').next().unwrap().to_owned();
        lines.iter().map(first).collect()
    };
    assert_eq!(names(good(ann, "DESCRIBE shop.t")), ["a", "c"]);
    let full = good(ann, "SHOW FULL COLUMNS FROM shop.t");
    assert!(full[0].contains("|select,insert|"), "{full:?}");
    assert!(full[1].contains("|update|"), "{full:?}");
    let columns = "SELECT column_name, ordinal_position, privileges FROM \
                   information_schema.columns WHERE table_schema = 'shop' ORDER BY 2";
    assert_eq!(good(ann, columns), ["a|1|select,insert", "c|3|update"]);
    let own = "SELECT * FROM information_schema.column_privileges ORDER BY 5, 6";
    assert_eq!(
        good(ann, own),
        [
            "'ann'@'%'|def|shop|t|a|INSERT|NO",
            "'ann'@'%'|def|shop|t|a|SELECT|NO",
            "'ann'@'%'|def|shop|t|c|UPDATE|NO"
        ]
    );
    let tables = "SELECT privilege_type, is_grantable FROM information_schema.table_privileges";
    assert_eq!(good(ann, tables), Vec::<String>::new());
    let denied = ask(ann, "SHOW CREATE TABLE shop.t").unwrap_err();
    assert_eq!(denied, table("SHOW", "t"));
    good(ann, "SHOW INDEX FROM shop.t");
    good(ann, "USE shop");
    assert_eq!(code(ann, "DESCRIBE shop.u"), 1142);
    // GRANT OPTION applies to the table.
    world.grant_with_option("SELECT (a) ON shop.t");
    assert_eq!(good(&mut world.ann, tables), ["USAGE|YES"]);
    assert!(
        good(&mut world.ann, own)
            .iter()
            .all(|line| line.ends_with("|YES"))
    );
    let others = good(
        &mut world.root,
        "SELECT COUNT(*) FROM information_schema.column_privileges",
    );
    assert_eq!(others, ["3"]);
    // A session sees all columns of its own temporary tables.
    world.grant("CREATE TEMPORARY TABLES ON shop.*");
    good(&mut world.ann, "CREATE TEMPORARY TABLE shop.t (z INT)");
    good(&mut world.ann, "SELECT z FROM shop.t");
    assert_eq!(names(good(&mut world.ann, "DESCRIBE shop.t")), ["z"]);
}

#[test]
fn a_grantor_passes_on_the_columns_it_holds() {
    let mut world = World::new();
    world.grant("SELECT (a) ON shop.t");
    let grant = "GRANT SELECT (a) ON shop.t TO bob";
    world.expect(&[(grant, Some(table("GRANT", "t")))]);
    world.grant_with_option("INSERT (b) ON shop.t");
    world.expect(&[
        (grant, None),
        (
            "GRANT SELECT (a, b) ON shop.t TO bob",
            Some(column("SELECT", "b", "t")),
        ),
        (
            "GRANT INSERT (a) ON shop.t TO bob",
            Some(column("INSERT", "a", "t")),
        ),
        ("GRANT SELECT ON shop.t TO bob", Some(table("GRANT", "t"))),
        ("REVOKE SELECT (a) ON shop.t FROM bob", None),
        (
            "REVOKE SELECT (a) ON shop.t FROM bob",
            Some((
                1147,
                "There is no such grant defined for user 'bob' on host '%' on table 't'".to_owned(),
            )),
        ),
    ]);
    world.grant("SELECT ON shop.t");
    world.expect(&[("GRANT SELECT (c) ON shop.t TO bob", None)]);
}

#[test]
fn roles_carry_columns() {
    let mut world = World::new();
    for text in [
        "CREATE ROLE reader",
        "GRANT SELECT (a) ON shop.t TO reader",
        "GRANT reader TO ann",
    ] {
        good(&mut world.root, text);
    }
    world.expect(&[
        ("SELECT a FROM shop.t", Some(table("SELECT", "t"))),
        ("SET ROLE reader", None),
        ("SELECT a FROM shop.t", None),
        ("SELECT b FROM shop.t", Some(column("SELECT", "b", "t"))),
    ]);
    let shown = good(&mut world.ann, "SHOW GRANTS FOR ann USING reader");
    assert_eq!(shown[1], "GRANT SELECT (`a`) ON `shop`.`t` TO `ann`@`%`");
}

#[test]
fn grants_outlive_tables_and_restarts_and_go_with_the_account() {
    let model = Model::new();
    let again = model.reopen();
    let mut world = World::on(model);
    world.grant("SELECT (a, b) ON shop.t");
    good(&mut world.root, "GRANT SELECT (d) ON shop.u TO bob");
    good(&mut world.root, "RENAME TABLE shop.t TO shop.s");
    world.expect(&[("SELECT a FROM shop.s", Some(table("SELECT", "s")))]);
    good(&mut world.root, "DROP TABLE shop.s");
    good(&mut world.root, "CREATE TABLE shop.t (b INT, z INT)");
    world.expect(&[
        ("SELECT b FROM shop.t", None),
        ("SELECT z FROM shop.t", Some(column("SELECT", "z", "t"))),
    ]);
    good(&mut world.root, "DROP USER bob");
    drop(world);
    let server = crate::common::server(Arc::new(again));
    let mut ann = open(&server, "ann", "%");
    good(&mut ann, "SELECT b FROM shop.t");
    assert_eq!(code(&mut ann, "SELECT z FROM shop.t"), 1143);
    let mut root = open(&server, "root", "localhost");
    good(&mut root, "CREATE USER bob");
    let rows = "SELECT User, Db, Table_name, Column_name, Privileges FROM mysql.column_grants";
    assert_eq!(
        good(&mut root, rows),
        ["ann|shop|t|a|SELECT", "ann|shop|t|b|SELECT"]
    );
    // FLUSH PRIVILEGES loads rows that a client has inserted, except for privileges that columns
    // cannot have.
    let insert = "INSERT INTO mysql.column_grants VALUES ('%', 'ann', 'shop', 't', 'z', \
                  'DELETE,SELECT')";
    good(&mut root, insert);
    good(&mut root, "FLUSH PRIVILEGES");
    good(&mut ann, "SELECT z FROM shop.t");
    assert_eq!(code(&mut ann, "DELETE FROM shop.t"), 1142);
}

#[test]
fn grants_follow_a_renamed_account() {
    let mut world = World::new();
    world.grant("SELECT (a), UPDATE (c) ON shop.t");
    good(&mut world.root, "RENAME USER ann TO eve");
    let mut lines = good(&mut world.root, "SHOW GRANTS FOR eve");
    assert_eq!(
        lines.split_off(1),
        ["GRANT SELECT (`a`), UPDATE (`c`) ON `shop`.`t` TO `eve`@`%`"]
    );
    assert_eq!(good(&mut world.ann, "SELECT a FROM shop.t"), ["1"]);
    good(&mut world.root, "CREATE USER ann IDENTIFIED BY 'x'");
    let mut lines = good(&mut world.root, "SHOW GRANTS FOR ann");
    assert_eq!(lines.split_off(1), Vec::<String>::new());
}

#[test]
fn restrictions_leave_grants_on_columns() {
    let mut world = World::new();
    good(&mut world.root, "SET GLOBAL partial_revokes = ON");
    world.grant("SELECT ON *.*");
    good(&mut world.root, "REVOKE SELECT ON shop.* FROM ann");
    world.grant("SELECT (a) ON shop.t");
    world.expect(&[
        ("SELECT a FROM shop.t", None),
        ("SELECT b FROM shop.t", Some(column("SELECT", "b", "t"))),
        ("SELECT d FROM shop.u", Some(table("SELECT", "u"))),
    ]);
}

#[test]
fn databases_without_column_grants_are_upgraded() {
    let model = Model::new();
    let again = model.reopen();
    let mut world = World::on(model);
    good(&mut world.root, "DROP TABLE mysql.column_grants");
    drop(world);
    let server = crate::common::server(Arc::new(again));
    let mut root = open(&server, "root", "localhost");
    good(&mut root, "GRANT SELECT (a) ON shop.t TO ann");
    let mut ann = open(&server, "ann", "%");
    good(&mut ann, "SELECT a FROM shop.t");
}
