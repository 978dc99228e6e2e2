//! Roles: CREATE ROLE, GRANT of roles, SET ROLE, default and mandatory roles.

use crate::common::{Collected, ask, code, good, open};
use porpoise_kv::model::Model;
use porpoise_sql::server::SqlServer;
use porpoise_sql::session::SqlSession;
use std::sync::Arc;

/// A server, and sessions of root and of ann, who has the role `reader`. The role `reader` may
/// SELECT, and `writer` may INSERT.
fn server(model: Model) -> (Arc<SqlServer>, SqlSession, SqlSession) {
    let server = crate::common::server(Arc::new(model));
    let mut root = open(&server, "root", "localhost");
    for text in [
        "CREATE DATABASE shop",
        "CREATE TABLE shop.goods (id INT PRIMARY KEY)",
        "CREATE USER ann IDENTIFIED BY 'x'",
        "CREATE ROLE reader, writer",
        "GRANT SELECT ON shop.* TO reader",
        "GRANT INSERT ON shop.goods TO writer",
        "GRANT reader TO ann",
    ] {
        good(&mut root, text);
    }
    let ann = open(&server, "ann", "%");
    (server, root, ann)
}

const READ: &str = "SELECT COUNT(*) FROM shop.goods";
const WRITE: &str = "INSERT IGNORE INTO shop.goods VALUES (1)";
const ROLES: &str = "SELECT CURRENT_ROLE()";

#[test]
fn a_role_counts_while_it_is_active() {
    let (_server, mut root, mut ann) = server(Model::new());
    assert_eq!(good(&mut ann, ROLES), ["NONE"]);
    assert_eq!(code(&mut ann, READ), 1142);
    good(&mut ann, "SET ROLE reader");
    assert_eq!(good(&mut ann, ROLES), ["`reader`@`%`"]);
    good(&mut ann, READ);
    assert_eq!(code(&mut ann, WRITE), 1142);
    let error = ask(&mut ann, "SET ROLE writer").unwrap_err();
    let text = "`writer`@`%` is not granted to `ann`@`%`";
    assert_eq!(error, (3530, text.to_owned()));
    good(&mut root, "GRANT writer TO ann");
    good(&mut ann, "SET ROLE ALL");
    assert_eq!(good(&mut ann, ROLES), ["`reader`@`%`,`writer`@`%`"]);
    good(&mut ann, WRITE);
    good(&mut ann, "SET ROLE ALL EXCEPT writer");
    assert_eq!(good(&mut ann, ROLES), ["`reader`@`%`"]);
    assert_eq!(code(&mut ann, WRITE), 1142);
    good(&mut ann, "SET ROLE NONE");
    assert_eq!(code(&mut ann, READ), 1142);
}

#[test]
fn a_revoke_reaches_active_roles_and_prepared_statements() {
    let (_server, mut root, mut ann) = server(Model::new());
    good(&mut ann, "SET ROLE reader");
    let prepared = ann.prepare(READ.as_bytes()).unwrap();
    let run = |ann: &mut SqlSession| {
        let mut sink = Collected::default();
        let ran = ann.execute(prepared.id, &[], &mut sink);
        ran.map(|_| ()).map_err(|e| e.code)
    };
    assert_eq!(run(&mut ann), Ok(()));
    good(&mut root, "REVOKE reader FROM ann");
    assert_eq!(run(&mut ann), Err(1142));
    assert_eq!(code(&mut ann, READ), 1142);
    good(&mut root, "GRANT reader TO ann");
    assert_eq!(run(&mut ann), Ok(()));
    good(&mut root, "REVOKE SELECT ON shop.* FROM reader");
    assert_eq!(run(&mut ann), Err(1142));
    good(&mut root, "GRANT SELECT ON shop.* TO reader");
    assert_eq!(run(&mut ann), Ok(()));
    good(&mut root, "DROP ROLE reader");
    assert_eq!(run(&mut ann), Err(1142));
    assert_eq!(code(&mut root, "REVOKE writer FROM ann"), 3530);
    assert_eq!(code(&mut root, "GRANT reader TO ann"), 3523);
}

#[test]
fn roles_nest_without_cycles() {
    let (_server, mut root, mut ann) = server(Model::new());
    good(&mut root, "CREATE ROLE boss");
    good(&mut root, "GRANT reader, writer TO boss");
    good(&mut root, "REVOKE reader FROM ann");
    good(&mut root, "GRANT boss TO ann");
    good(&mut ann, "SET ROLE boss");
    good(&mut ann, READ);
    good(&mut ann, WRITE);
    for text in [
        "GRANT boss TO reader",
        "GRANT boss TO boss",
        "GRANT ann TO writer",
    ] {
        assert_eq!(code(&mut root, text), 4027, "{text}");
    }
    good(&mut root, "CREATE ROLE a, b");
    assert_eq!(code(&mut root, "GRANT a, b TO b, a"), 4027);
    let none = good(
        &mut root,
        "SELECT COUNT(*) FROM mysql.role_edges WHERE FROM_USER IN ('a','b')",
    );
    assert_eq!(none, ["0"]);
}

#[test]
fn default_roles_are_active_after_a_login() {
    let model = Model::new();
    let again = model.reopen();
    let (server, mut root, _) = server(model);
    assert_eq!(code(&mut root, "SET DEFAULT ROLE writer TO ann"), 3530);
    good(&mut root, "SET DEFAULT ROLE reader TO ann");
    let mut ann = open(&server, "ann", "%");
    assert_eq!(good(&mut ann, ROLES), ["`reader`@`%`"]);
    good(&mut ann, READ);
    good(&mut ann, "SET ROLE NONE");
    good(&mut ann, "SET ROLE DEFAULT");
    assert_eq!(good(&mut ann, ROLES), ["`reader`@`%`"]);
    good(&mut ann, "SET DEFAULT ROLE NONE TO ann");
    assert_eq!(
        code(&mut ann, "SET DEFAULT ROLE NONE TO root@localhost"),
        1227
    );
    assert_eq!(good(&mut open(&server, "ann", "%"), ROLES), ["NONE"]);
    good(&mut root, "ALTER USER ann DEFAULT ROLE ALL");
    good(&mut root, "CREATE USER bob DEFAULT ROLE writer, reader");
    drop((ann, root));
    drop(server);
    let server = crate::common::server(Arc::new(again));
    let mut bob = open(&server, "bob", "%");
    assert_eq!(good(&mut bob, ROLES), ["`reader`@`%`,`writer`@`%`"]);
    good(&mut bob, WRITE);
    assert_eq!(
        good(&mut open(&server, "ann", "%"), ROLES),
        ["`reader`@`%`"]
    );
    let mut root = open(&server, "root", "localhost");
    let shown = good(&mut root, "SHOW CREATE USER bob").remove(0);
    assert!(
        shown.contains(" DEFAULT ROLE `reader`@`%`,`writer`@`%` REQUIRE"),
        "{shown}"
    );
    good(&mut root, "SET GLOBAL activate_all_roles_on_login = ON");
    good(&mut root, "SET DEFAULT ROLE NONE TO bob");
    let mut bob = open(&server, "bob", "%");
    assert_eq!(good(&mut bob, ROLES), ["`reader`@`%`,`writer`@`%`"]);
}

#[test]
fn mandatory_roles_are_granted_to_all_accounts() {
    let (server, mut root, mut ann) = server(Model::new());
    good(
        &mut root,
        "SET GLOBAL mandatory_roles = '`writer`@`%`,missing'",
    );
    good(&mut ann, "SET ROLE writer");
    good(&mut ann, WRITE);
    assert_eq!(code(&mut root, "DROP ROLE writer"), 3628);
    assert_eq!(code(&mut root, "REVOKE writer FROM ann"), 3628);
    let shown = good(&mut ann, "SHOW GRANTS");
    assert_eq!(
        shown,
        [
            "GRANT USAGE ON *.* TO `ann`@`%`",
            "GRANT `reader`@`%`,`writer`@`%` TO `ann`@`%`"
        ]
    );
    good(&mut root, "SET GLOBAL mandatory_roles = ''");
    assert_eq!(code(&mut ann, WRITE), 1142);
    drop(server);
}

#[test]
fn admin_option_allows_granting_a_role() {
    let (server, mut root, mut ann) = server(Model::new());
    good(&mut root, "CREATE USER bob");
    let text = "Access denied; you need (at least one of) the WITH ADMIN, ROLE_ADMIN, SUPER \
                privilege(s) for this operation";
    let error = ask(&mut ann, "GRANT reader TO bob").unwrap_err();
    assert_eq!(error, (1227, text.to_owned()));
    good(&mut root, "GRANT reader TO ann WITH ADMIN OPTION");
    good(&mut ann, "GRANT reader TO bob");
    assert_eq!(code(&mut ann, "GRANT writer TO bob"), 1227);
    good(&mut ann, "REVOKE reader FROM bob");
    let mut bob = open(&server, "bob", "%");
    assert_eq!(code(&mut bob, "CREATE ROLE r"), 1227);
    good(&mut root, "GRANT CREATE ROLE, DROP ROLE ON *.* TO bob");
    good(&mut bob, "CREATE ROLE r");
    good(&mut bob, "DROP ROLE r");
    assert_eq!(code(&mut bob, "DROP ROLE root@localhost"), 1227);
    assert_eq!(code(&mut bob, "DROP ROLE r"), 1396);
    good(&mut bob, "DROP ROLE IF EXISTS r");
    assert_eq!(code(&mut bob, "CREATE ROLE reader"), 1396);
    good(&mut bob, "CREATE ROLE IF NOT EXISTS reader");
}

#[test]
fn show_grants_and_information_schema_list_roles() {
    let (_server, mut root, mut ann) = server(Model::new());
    good(&mut root, "GRANT writer TO ann WITH ADMIN OPTION");
    good(&mut root, "GRANT writer TO reader");
    good(&mut root, "SET DEFAULT ROLE reader TO ann");
    let shown = good(&mut ann, "SHOW GRANTS FOR ann USING reader");
    assert_eq!(
        shown,
        [
            "GRANT USAGE ON *.* TO `ann`@`%`",
            "GRANT SELECT ON `shop`.* TO `ann`@`%`",
            "GRANT INSERT ON `shop`.`goods` TO `ann`@`%`",
            "GRANT `reader`@`%` TO `ann`@`%`",
            "GRANT `writer`@`%` TO `ann`@`%` WITH ADMIN OPTION",
        ]
    );
    assert_eq!(code(&mut root, "SHOW GRANTS FOR reader USING ann"), 3530);
    let schema = "information_schema";
    let text = format!(
        "SELECT GRANTEE, ROLE_NAME, IS_GRANTABLE, IS_DEFAULT FROM {schema}.APPLICABLE_ROLES \
         ORDER BY 1, 2"
    );
    let rows = good(&mut ann, &text);
    assert_eq!(
        rows,
        [
            "ann|reader|NO|YES",
            "ann|writer|YES|NO",
            "reader|writer|NO|NO"
        ]
    );
    let text = format!("SELECT ROLE_NAME FROM {schema}.ADMINISTRABLE_ROLE_AUTHORIZATIONS");
    assert_eq!(good(&mut ann, &text), ["writer"]);
    let text = format!("SELECT ROLE_NAME, IS_DEFAULT FROM {schema}.ENABLED_ROLES ORDER BY 1");
    assert!(good(&mut ann, &text).is_empty());
    good(&mut ann, "SET ROLE reader");
    assert_eq!(good(&mut ann, &text), ["reader|YES", "writer|NO"]);
}
