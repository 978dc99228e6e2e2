//! Partial revokes: restrictions of global privileges on databases.

use crate::common::{ask, code, good, open};
use porpoise_kv::model::Model;
use porpoise_sql::server::{SqlConfig, SqlServer};
use porpoise_sql::session::SqlSession;
use std::sync::Arc;

/// Ann's global grants.
const GLOBAL_GRANT: &str = "GRANT SELECT, INSERT ON *.* TO `ann`@`%`";

/// Root, and ann, who may SELECT and INSERT everywhere but in `world`, where she may SELECT.
fn restricted(model: Model) -> (Arc<SqlServer>, SqlSession, SqlSession) {
    let server = crate::common::server(Arc::new(model));
    let mut root = open(&server, "root", "localhost");
    for text in [
        "CREATE DATABASE world",
        "CREATE DATABASE w_rld",
        "CREATE TABLE world.t (id INT PRIMARY KEY)",
        "CREATE TABLE w_rld.t (id INT PRIMARY KEY)",
        "CREATE USER ann IDENTIFIED BY 'x', bob IDENTIFIED BY 'x'",
        "GRANT SELECT, INSERT ON *.* TO ann",
        "SET GLOBAL partial_revokes = ON",
        "REVOKE INSERT ON world.* FROM ann",
    ] {
        good(&mut root, text);
    }
    let ann = open(&server, "ann", "%");
    (server, root, ann)
}

fn grants(session: &mut SqlSession, name: &str) -> Vec<String> {
    good(session, &format!("SHOW GRANTS FOR {name}"))
}

/// The lines of SHOW GRANTS for ann: her global grants, then these.
fn lines(more: &[&str]) -> Vec<String> {
    [GLOBAL_GRANT]
        .iter()
        .chain(more)
        .map(|l| (*l).to_owned())
        .collect()
}

const RESTRICTION: &str = "REVOKE INSERT ON `world`.* FROM `ann`@`%`";

#[test]
fn a_revoke_on_a_database_restricts_a_global_privilege() {
    let (_server, mut root, mut ann) = restricted(Model::new());
    assert_eq!(grants(&mut root, "ann"), lines(&[RESTRICTION]));
    let attributes = "SELECT User_attributes FROM mysql.user WHERE User = 'ann'";
    assert_eq!(
        good(&mut root, attributes),
        ["{\"Restrictions\": [{\"Database\": \"world\", \"Privileges\": [\"INSERT\"]}]}"]
    );
    good(&mut ann, "SELECT * FROM world.t");
    let error = ask(&mut ann, "INSERT INTO world.t VALUES (1)").unwrap_err();
    let text = "INSERT command denied to user 'ann'@'localhost' for table 't'";
    assert_eq!(error, (1142, text.to_owned()));
    // Names have no wildcards: neither `world` nor `w_rld` stands for the other database.
    good(&mut ann, "INSERT INTO w_rld.t VALUES (1)");
    good(&mut root, "REVOKE SELECT ON w_rld.* FROM ann");
    assert_eq!(code(&mut ann, "SELECT * FROM w_rld.t"), 1142);
    good(&mut ann, "SELECT * FROM world.t");
    // A grant on a table is in force despite the restriction.
    good(&mut root, "GRANT INSERT ON world.t TO ann");
    good(&mut ann, "INSERT INTO world.t VALUES (1)");
    // The database may be created later.
    good(&mut root, "REVOKE INSERT ON later.* FROM ann");
    good(&mut root, "CREATE DATABASE later");
    good(&mut root, "CREATE TABLE later.t (id INT)");
    assert_eq!(code(&mut ann, "INSERT INTO later.t VALUES (1)"), 1142);
}

#[test]
fn without_the_variable_or_the_privilege_nothing_is_restricted() {
    let server = crate::common::server(Arc::new(Model::new()));
    let mut root = open(&server, "root", "localhost");
    assert_eq!(good(&mut root, "SELECT @@GLOBAL.partial_revokes"), ["0"]);
    good(&mut root, "CREATE USER ann");
    good(&mut root, "GRANT SELECT ON *.* TO ann");
    let revoke = "REVOKE SELECT ON world.* FROM ann";
    let error = ask(&mut root, revoke).unwrap_err();
    let text = "There is no such grant defined for user 'ann' on host '%'";
    assert_eq!(error, (1141, text.to_owned()));
    good(&mut root, "SET GLOBAL partial_revokes = ON");
    assert_eq!(code(&mut root, "REVOKE INSERT ON world.* FROM ann"), 1141);
    assert_eq!(
        code(&mut root, "REVOKE SELECT, INSERT ON world.* FROM ann"),
        1141
    );
    assert_eq!(code(&mut root, "REVOKE FILE ON world.* FROM ann"), 1221);
    good(&mut root, revoke);
    // ALL stands for the privileges that the account has.
    good(&mut root, "GRANT INSERT ON *.* TO ann");
    good(&mut root, "REVOKE ALL ON world.* FROM ann");
    let shown = grants(&mut root, "ann");
    assert_eq!(
        shown,
        lines(&["REVOKE SELECT, INSERT ON `world`.* FROM `ann`@`%`"])
    );
    // The revoking session needs the privileges itself.
    let mut ann = open(&server, "ann", "%");
    assert_eq!(
        code(&mut ann, "REVOKE SELECT ON other.* FROM root@localhost"),
        1227
    );
    good(&mut root, "CREATE USER bob");
    good(&mut root, "GRANT SELECT ON *.* TO bob");
    assert_eq!(code(&mut ann, "REVOKE SELECT ON other.* FROM bob"), 1044);
}

#[test]
fn grants_remove_restrictions() {
    let (_server, mut root, mut ann) = restricted(Model::new());
    good(&mut root, "GRANT INSERT ON world.* TO ann");
    // The global privilege is enough: there is no grant on the database.
    assert_eq!(grants(&mut root, "ann"), lines(&[]));
    good(&mut ann, "INSERT INTO world.t VALUES (1)");
    // A privilege that is not restricted is granted on the database, and REVOKE removes that grant
    // before it adds a restriction.
    good(&mut root, "REVOKE INSERT ON world.* FROM ann");
    good(&mut root, "GRANT INSERT, DELETE ON world.* TO ann");
    let delete = "GRANT DELETE ON `world`.* TO `ann`@`%`";
    assert_eq!(grants(&mut root, "ann"), lines(&[delete]));
    good(&mut root, "REVOKE DELETE, INSERT ON world.* FROM ann");
    assert_eq!(grants(&mut root, "ann"), lines(&[RESTRICTION]));
    // A global grant or revoke of the privilege removes the restriction.
    good(&mut root, "GRANT INSERT ON *.* TO ann");
    assert_eq!(grants(&mut root, "ann"), lines(&[]));
    good(&mut root, "REVOKE INSERT ON world.* FROM ann");
    good(&mut root, "REVOKE INSERT ON *.* FROM ann");
    assert_eq!(
        grants(&mut root, "ann"),
        ["GRANT SELECT ON *.* TO `ann`@`%`"]
    );
    good(&mut root, "REVOKE SELECT ON world.* FROM ann");
    good(&mut root, "REVOKE ALL PRIVILEGES, GRANT OPTION FROM ann");
    assert_eq!(
        grants(&mut root, "ann"),
        ["GRANT USAGE ON *.* TO `ann`@`%`"]
    );
    good(&mut root, "SET GLOBAL partial_revokes = OFF");
}

#[test]
fn restrictions_keep_the_variable_on_and_outlive_a_restart() {
    let model = Model::new();
    let again = model.reopen();
    let (server, mut root, ann) = restricted(model);
    let off = "SET GLOBAL max_connections = 7, GLOBAL partial_revokes = OFF";
    let error = ask(&mut root, off).unwrap_err();
    let text = "At least one partial revoke exists on a database. The system variable \
                '@@partial_revokes' must be set to ON.";
    assert_eq!(error, (3896, text.to_owned()));
    assert_ne!(good(&mut root, "SELECT @@max_connections"), ["7"]);
    drop((root, ann, server));
    let server = crate::common::server(Arc::new(again));
    let mut root = open(&server, "root", "localhost");
    assert_eq!(good(&mut root, "SELECT @@partial_revokes"), ["1"]);
    assert_eq!(grants(&mut root, "ann"), lines(&[RESTRICTION]));
    let mut ann = open(&server, "ann", "%");
    assert_eq!(code(&mut ann, "INSERT INTO world.t VALUES (1)"), 1142);
    good(&mut root, "DROP USER ann");
    good(&mut root, off);
    assert_eq!(good(&mut root, "SELECT @@partial_revokes"), ["0"]);
}

#[test]
fn the_configuration_enables_partial_revokes() {
    let config = SqlConfig {
        variables: vec![("partial_revokes".to_owned(), "ON".to_owned())],
        ..SqlConfig::default()
    };
    let server = crate::common::server_with(Arc::new(Model::new()), config);
    let mut root = open(&server, "root", "localhost");
    good(&mut root, "CREATE USER ann");
    good(&mut root, "GRANT INSERT ON *.* TO ann");
    good(&mut root, "REVOKE INSERT ON mysql.* FROM ann");
}

#[test]
fn a_restricted_grantor_passes_its_restrictions_on() {
    let (server, mut root, mut ann) = restricted(Model::new());
    good(
        &mut root,
        "GRANT CREATE USER ON *.* TO ann WITH GRANT OPTION",
    );
    good(&mut ann, "CREATE USER eve IDENTIFIED BY 'x'");
    good(&mut ann, "GRANT SELECT, INSERT ON *.* TO eve");
    let expected = [
        "GRANT SELECT, INSERT ON *.* TO `eve`@`%`",
        "REVOKE INSERT ON `world`.* FROM `eve`@`%`",
    ];
    assert_eq!(grants(&mut root, "eve"), expected);
    let mut eve = open(&server, "eve", "%");
    assert_eq!(code(&mut eve, "INSERT INTO world.t VALUES (1)"), 1142);
    // A grantor cannot grant a privilege on a database where it is restricted.
    assert_eq!(code(&mut ann, "GRANT INSERT ON world.* TO eve"), 1044);
    assert_eq!(code(&mut ann, "GRANT INSERT ON world.t TO eve"), 1142);
    assert_eq!(code(&mut ann, "GRANT INSERT ON world.* TO ann"), 1044);
    good(&mut ann, "GRANT INSERT ON *.* TO ann");
    assert_eq!(code(&mut ann, "INSERT INTO world.t VALUES (1)"), 1142);
    // bob had the privilege before, and keeps all of it.
    good(&mut root, "GRANT INSERT ON *.* TO bob");
    good(&mut ann, "GRANT SELECT, INSERT ON *.* TO bob");
    let global = "GRANT SELECT, INSERT ON *.* TO `bob`@`%`";
    assert_eq!(grants(&mut root, "bob"), [global]);
    // ann cannot revoke a privilege from bob on a database where she is restricted.
    let error = ask(&mut ann, "REVOKE INSERT ON *.* FROM bob").unwrap_err();
    let text = "Access denied for AuthId `ann`@`%` to database 'world'.";
    assert_eq!(error, (3879, text.to_owned()));
    let all = "REVOKE ALL PRIVILEGES, GRANT OPTION FROM bob";
    assert_eq!(code(&mut ann, all), 3879);
    good(&mut ann, "REVOKE SELECT ON *.* FROM bob");
    good(&mut ann, "REVOKE INSERT ON *.* FROM eve");
    assert_eq!(
        grants(&mut root, "eve"),
        ["GRANT SELECT ON *.* TO `eve`@`%`"]
    );
}

#[test]
fn restrictions_hold_for_everything_that_is_not_a_plan() {
    let server = crate::common::server(Arc::new(Model::new()));
    let mut root = open(&server, "root", "localhost");
    for text in [
        "CREATE DATABASE open",
        "CREATE TABLE open.t (id INT)",
        "CREATE USER dba IDENTIFIED BY 'x'",
        "GRANT ALL ON *.* TO dba",
        "SET GLOBAL partial_revokes = ON",
        "REVOKE ALL ON mysql.* FROM dba",
    ] {
        good(&mut root, text);
    }
    let mut dba = open(&server, "dba", "%");
    good(&mut dba, "SELECT * FROM open.t");
    for (number, text) in [
        (1142, "SELECT * FROM mysql.user"),
        (1142, "UPDATE mysql.user SET authentication_string = ''"),
        (1142, "DELETE FROM mysql.grants"),
        (1142, "DROP TABLE mysql.user"),
        (1142, "CREATE TABLE mysql.t (id INT)"),
        (1142, "RENAME TABLE open.t TO mysql.t"),
        (1142, "SHOW CREATE TABLE mysql.user"),
        (1044, "DROP DATABASE mysql"),
        (1044, "USE mysql"),
        (1044, "SHOW TABLES FROM mysql"),
        (1044, "SHOW GRANTS FOR root@localhost"),
    ] {
        assert_eq!(code(&mut dba, text), number, "{text}");
    }
    let seen = "SELECT COUNT(*) FROM information_schema.tables WHERE table_schema = 'mysql'";
    assert_eq!(good(&mut dba, seen), ["0"]);
    let seen = "SELECT DISTINCT grantee FROM information_schema.user_privileges";
    assert_eq!(good(&mut dba, seen), ["'dba'@'%'"]);
}

#[test]
fn a_role_without_the_restriction_lifts_it() {
    let (_server, mut root, mut ann) = restricted(Model::new());
    good(&mut root, "CREATE ROLE writer");
    good(&mut root, "GRANT INSERT ON *.* TO writer");
    good(&mut root, "GRANT writer TO ann");
    assert_eq!(code(&mut ann, "INSERT INTO world.t VALUES (1)"), 1142);
    good(&mut ann, "SET ROLE writer");
    good(&mut ann, "INSERT INTO world.t VALUES (1)");
    good(&mut root, "REVOKE INSERT ON world.* FROM writer");
    assert_eq!(code(&mut ann, "INSERT INTO world.t VALUES (2)"), 1142);
    let shown = good(&mut root, "SHOW GRANTS FOR ann USING writer");
    assert!(shown.contains(&RESTRICTION.to_owned()), "{shown:?}");
}

#[test]
fn wildcards_in_names_are_literal() {
    let server = crate::common::server(Arc::new(Model::new()));
    let mut root = open(&server, "root", "localhost");
    for text in [
        "CREATE DATABASE a_b",
        "CREATE DATABASE axb",
        "CREATE TABLE a_b.t (id INT)",
        "CREATE TABLE axb.t (id INT)",
        "CREATE USER ann",
        "GRANT SELECT ON `a_b`.* TO ann",
    ] {
        good(&mut root, text);
    }
    let mut ann = open(&server, "ann", "%");
    good(&mut ann, "SELECT * FROM axb.t");
    good(&mut root, "SET GLOBAL partial_revokes = ON");
    assert_eq!(code(&mut ann, "SELECT * FROM axb.t"), 1142);
    good(&mut ann, "SELECT * FROM a_b.t");
    // The escaped name stands for the same database.
    good(&mut root, r"GRANT INSERT ON `a\_b`.* TO ann");
    let both = "GRANT SELECT, INSERT ON `a_b`.* TO `ann`@`%`";
    let usage = "GRANT USAGE ON *.* TO `ann`@`%`";
    assert_eq!(grants(&mut root, "ann"), [usage, both]);
    good(&mut root, r"REVOKE SELECT ON `a\_b`.* FROM ann");
    assert_eq!(code(&mut ann, "SELECT * FROM a_b.t"), 1142);
    good(&mut root, "SET GLOBAL partial_revokes = OFF");
    good(&mut ann, "INSERT INTO axb.t VALUES (1)");
}
