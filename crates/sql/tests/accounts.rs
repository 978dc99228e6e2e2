//! Look-up of accounts by the listeners, and accounts after a restart and RENAME USER.

use crate::common::{Nothing, code, good};
use porpoise_kv::model::Model;
use porpoise_sql::server::{SqlConfig, SqlServer};
use std::sync::Arc;

fn start(model: Model, root_password: Option<&str>) -> Arc<SqlServer> {
    let config = SqlConfig {
        variables: Vec::new(),
        root_password: root_password.map(str::to_owned),
        ..SqlConfig::default()
    };
    crate::common::server_with(Arc::new(model), config)
}

fn run(server: &Arc<SqlServer>, text: &str) {
    let mut session = crate::common::connect(server, 1);
    session.query(text.as_bytes(), false, &mut Nothing).unwrap();
}

#[test]
fn root_exists_from_the_first_start_and_keeps_its_password() {
    let model = Model::new();
    let again = model.reopen();
    let server = start(model, Some("first"));
    let root = server.account("root", "localhost").unwrap().unwrap();
    assert_eq!(root.plugin, "caching_sha2_password");
    assert_eq!(root.secret.len(), 70);
    assert_eq!(
        server.account("root", "127.0.0.1").unwrap(),
        Some(root.clone())
    );
    assert_eq!(server.account("root", "10.0.0.1").unwrap(), None);
    assert_eq!(server.account("nobody", "localhost").unwrap(), None);
    drop(server);
    // The password in the configuration of a later start is ignored.
    let server = start(again, Some("second"));
    assert_eq!(server.account("root", "localhost").unwrap(), Some(root));
}

#[test]
fn the_most_specific_host_wins_and_locked_accounts_are_not_found() {
    let server = start(Model::new(), None);
    run(
        &server,
        "CREATE USER u@'%' IDENTIFIED WITH mysql_native_password BY 'any', \
         u@'10.1.%' IDENTIFIED WITH mysql_native_password BY 'net', \
         u@'10.1.1.1' IDENTIFIED WITH mysql_native_password BY 'one'",
    );
    let host = |from: &str| server.account("u", from).unwrap().map(|a| a.host);
    assert_eq!(host("10.1.1.1").as_deref(), Some("10.1.1.1"));
    assert_eq!(host("10.1.2.3").as_deref(), Some("10.1.%"));
    assert_eq!(host("192.168.0.1").as_deref(), Some("%"));
    run(&server, "ALTER USER u@'10.1.1.1' ACCOUNT LOCK");
    assert_eq!(host("10.1.1.1"), None);
}

#[test]
fn an_empty_password_is_an_empty_secret() {
    let server = start(Model::new(), None);
    let root = server.account("root", "localhost").unwrap().unwrap();
    assert!(root.secret.is_empty());
    run(&server, "SET PASSWORD = 'x'");
    let root = server.account("root", "localhost").unwrap().unwrap();
    assert_eq!(root.secret.len(), 70);
    run(&server, "ALTER USER root@localhost IDENTIFIED BY ''");
    let root = server.account("root", "localhost").unwrap().unwrap();
    assert!(root.secret.is_empty());
}

#[test]
fn renamed_accounts_keep_everything_and_their_sessions() {
    let server = start(Model::new(), None);
    let mut root = crate::common::open(&server, "root", "localhost");
    for text in [
        "CREATE DATABASE shop",
        "CREATE TABLE shop.t (id INT PRIMARY KEY)",
        "CREATE ROLE r, unused",
        "GRANT INSERT ON shop.* TO r",
        "CREATE USER ann IDENTIFIED BY 'a' DEFAULT ROLE r PASSWORD HISTORY 2",
        "CREATE USER bob IDENTIFIED BY 'b'",
        "GRANT SELECT ON shop.t TO ann",
    ] {
        good(&mut root, text);
    }
    let mut ann = crate::common::open(&server, "ann", "%");
    let mut bob = crate::common::open(&server, "bob", "%");
    // The statement is prepared before the rename and executed after it.
    let prepared = ann.prepare(b"SELECT COUNT(*) FROM shop.t").unwrap();
    good(
        &mut root,
        "RENAME USER ann TO eve@LocalHost, bob TO ann, unused TO used",
    );
    ann.execute(prepared.id, &[], &mut Nothing).unwrap();
    assert_eq!(good(&mut ann, "SELECT CURRENT_USER()"), ["eve@localhost"]);
    assert_eq!(good(&mut ann, "SELECT CURRENT_ROLE()"), ["`r`@`%`"]);
    good(&mut ann, "INSERT INTO shop.t VALUES (1)");
    good(&mut ann, "SELECT * FROM shop.t");
    assert_eq!(good(&mut bob, "SELECT CURRENT_USER()"), ["ann@%"]);
    assert_eq!(code(&mut bob, "SELECT * FROM shop.t"), 1142);
    assert_eq!(
        good(&mut root, "SHOW GRANTS FOR eve@localhost"),
        [
            "GRANT USAGE ON *.* TO `eve`@`localhost`",
            "GRANT SELECT ON `shop`.`t` TO `eve`@`localhost`",
            "GRANT `r`@`%` TO `eve`@`localhost`",
        ]
    );
    assert_eq!(
        good(&mut root, "SHOW GRANTS FOR ann"),
        ["GRANT USAGE ON *.* TO `ann`@`%`"]
    );
    // Default roles and the password history are renamed, too.
    let mut again = crate::common::open(&server, "eve", "localhost");
    assert_eq!(good(&mut again, "SELECT CURRENT_ROLE()"), ["`r`@`%`"]);
    assert_eq!(code(&mut again, "SET PASSWORD = 'a'"), 3638);
    good(&mut root, "REVOKE SELECT ON shop.t FROM eve@localhost");
    assert_eq!(code(&mut ann, "SELECT * FROM shop.t"), 1142);
    // The session does not get the rights of a new account with the old name.
    good(&mut root, "RENAME USER eve@localhost TO last");
    good(&mut root, "CREATE USER eve@localhost");
    good(&mut root, "GRANT SELECT ON shop.t TO eve@localhost");
    assert_eq!(code(&mut ann, "SELECT * FROM shop.t"), 1142);
    assert_eq!(good(&mut ann, "SELECT CURRENT_USER()"), ["last@%"]);
}

#[test]
fn kill_knows_the_account_of_a_session_after_a_rename() {
    let server = start(Model::new(), None);
    let mut root = crate::common::open(&server, "root", "localhost");
    for text in [
        "CREATE USER boss, killer",
        "GRANT SYSTEM_USER ON *.* TO boss",
        "GRANT CONNECTION_ADMIN ON *.* TO killer",
    ] {
        good(&mut root, text);
    }
    let boss = crate::common::open(&server, "boss", "%");
    let mut killer = crate::common::open(&server, "killer", "%");
    let kill = format!("KILL QUERY {}", boss.id());
    assert_eq!(code(&mut killer, &kill), 1095);
    good(&mut root, "RENAME USER boss TO chief");
    assert_eq!(code(&mut killer, &kill), 1095);
    // The session does not belong to a new account with the old name.
    good(&mut root, "CREATE USER boss");
    assert_eq!(code(&mut killer, &kill), 1095);
    good(&mut root, "REVOKE SYSTEM_USER ON *.* FROM chief");
    good(&mut killer, &kill);
}

#[test]
fn a_rename_is_all_or_nothing() {
    let server = start(Model::new(), None);
    let mut root = crate::common::open(&server, "root", "localhost");
    good(&mut root, "CREATE USER a, b, c");
    good(&mut root, "CREATE ROLE r");
    let users = |root: &mut _| {
        good(
            root,
            "SELECT User FROM mysql.user WHERE User < 'm' ORDER BY 1",
        )
    };
    for (text, names) in [
        ("RENAME USER a TO d, missing TO e", "'missing'@'%'"),
        ("RENAME USER a TO b", "'a'@'%'"),
        ("RENAME USER a TO a", "'a'@'%'"),
        ("RENAME USER a TO d, b TO d, a TO e", "'b'@'%','a'@'%'"),
    ] {
        let error = crate::common::ask(&mut root, text).unwrap_err();
        let message = format!("Operation RENAME USER failed for {names}");
        assert_eq!(error, (1396, message), "{text}");
        assert_eq!(users(&mut root), ["a", "b", "c"]);
    }
    // Pairs are applied one after the other: an exchange of names, and a chain.
    good(&mut root, "ALTER USER a COMMENT 'a'");
    good(&mut root, "ALTER USER b COMMENT 'b'");
    good(
        &mut root,
        "RENAME USER a TO x, b TO a, x TO b, c TO d, d TO e",
    );
    let comments = "SELECT user, attribute FROM information_schema.user_attributes \
                    WHERE attribute IS NOT NULL ORDER BY 1";
    assert_eq!(
        good(&mut root, comments),
        ["a|{\"comment\": \"b\"}", "b|{\"comment\": \"a\"}"]
    );
    assert_eq!(users(&mut root), ["a", "b", "e"]);
    // Roles that are granted keep their names.
    good(&mut root, "GRANT r TO a");
    let error = crate::common::ask(&mut root, "RENAME USER r TO s").unwrap_err();
    let text = "Renaming of a role identifier is forbidden";
    assert_eq!(error, (3532, text.to_owned()));
}

#[test]
fn renaming_the_definer_of_a_view_needs_a_privilege() {
    let server = start(Model::new(), None);
    let mut root = crate::common::open(&server, "root", "localhost");
    for text in [
        "CREATE DATABASE shop",
        "CREATE USER ann, admin",
        "GRANT ALL ON shop.* TO ann",
        "GRANT CREATE USER ON *.* TO admin",
    ] {
        good(&mut root, text);
    }
    let mut ann = crate::common::open(&server, "ann", "%");
    good(&mut ann, "CREATE VIEW shop.v AS SELECT 1");
    let mut admin = crate::common::open(&server, "admin", "%");
    let error = crate::common::ask(&mut admin, "RENAME USER ann TO eve").unwrap_err();
    let text = "User 'ann'@'%' is referenced as a definer account in a view.";
    assert_eq!(error, (4006, text.to_owned()));
    good(&mut root, "RENAME USER ann TO eve");
    assert_eq!(
        good(&mut root, "SHOW WARNINGS"),
        [format!("Warning|4005|{text}")]
    );
}
