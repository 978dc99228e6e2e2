//! Accounts as the doors ask for them, and their life over a restart.

#![allow(clippy::unwrap_used, reason = "a test that fails may panic")]

mod common;

use common::Nothing;
use porpoise_kv::model::Model;
use porpoise_sql::session::server::{SqlConfig, SqlServer};
use std::sync::Arc;

fn start(model: Model, root_password: Option<&str>) -> Arc<SqlServer> {
    let config = SqlConfig {
        variables: Vec::new(),
        root_password: root_password.map(str::to_owned),
        ..SqlConfig::default()
    };
    common::server_with(Arc::new(model), config)
}

fn run(server: &Arc<SqlServer>, text: &str) {
    let mut session = common::connect(server, 1);
    session.query(text.as_bytes(), false, &mut Nothing).unwrap();
}

#[test]
fn root_is_there_from_the_first_start_and_keeps_its_password() {
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
    // The password of a later start is not taken.
    let server = start(again, Some("second"));
    assert_eq!(server.account("root", "localhost").unwrap(), Some(root));
}

#[test]
fn the_most_specific_host_wins_and_locked_accounts_are_none() {
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
