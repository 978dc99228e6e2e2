//! Options of accounts: password policy, limits, requirements, comments, and the columns of
//! `mysql.user` that store them.

use crate::common::{ask, code, good, open, try_open};
use porpoise_kv::model::Model;
use porpoise_sql::server::SqlServer;
use porpoise_sql::session::SqlSession;
use std::sync::Arc;

fn start(model: Model) -> (Arc<SqlServer>, SqlSession) {
    let server = crate::common::server(Arc::new(model));
    let root = open(&server, "root", "localhost");
    (server, root)
}

#[test]
fn all_options_are_kept_and_shown() {
    let model = Model::new();
    let again = model.reopen();
    let (server, mut root) = start(model);
    good(
        &mut root,
        "CREATE USER u IDENTIFIED WITH mysql_native_password BY 'x' \
         REQUIRE SUBJECT '/CN=u' AND ISSUER '/CN=a' AND CIPHER 'C' \
         WITH MAX_QUERIES_PER_HOUR 1 MAX_UPDATES_PER_HOUR 2 MAX_CONNECTIONS_PER_HOUR 3 \
         MAX_USER_CONNECTIONS 4 \
         PASSWORD EXPIRE INTERVAL 90 DAY PASSWORD HISTORY 5 PASSWORD REUSE INTERVAL 6 DAY \
         PASSWORD REQUIRE CURRENT FAILED_LOGIN_ATTEMPTS 7 PASSWORD_LOCK_TIME UNBOUNDED \
         ACCOUNT LOCK COMMENT 'it''s'",
    );
    good(&mut root, "CREATE USER plain");
    let expected = "CREATE USER `u`@`%` IDENTIFIED WITH 'mysql_native_password' AS \
                    '*B69027D44F6E5EDC07F1AEAD1477967B16F28227' REQUIRE SUBJECT '/CN=u' ISSUER \
                    '/CN=a' CIPHER 'C' WITH MAX_QUERIES_PER_HOUR 1 MAX_UPDATES_PER_HOUR 2 \
                    MAX_CONNECTIONS_PER_HOUR 3 MAX_USER_CONNECTIONS 4 PASSWORD EXPIRE INTERVAL 90 \
                    DAY ACCOUNT LOCK PASSWORD HISTORY 5 PASSWORD REUSE INTERVAL 6 DAY PASSWORD \
                    REQUIRE CURRENT FAILED_LOGIN_ATTEMPTS 7 PASSWORD_LOCK_TIME UNBOUNDED ATTRIBUTE \
                    '{\"comment\": \"it''s\"}'";
    assert_eq!(good(&mut root, "SHOW CREATE USER u"), [expected]);
    drop(root);
    drop(server);
    let (_server, mut root) = start(again);
    assert_eq!(good(&mut root, "SHOW CREATE USER u"), [expected]);
    // The statement creates the same account.
    good(&mut root, "DROP USER u");
    good(&mut root, expected);
    assert_eq!(good(&mut root, "SHOW CREATE USER u"), [expected]);
    assert_eq!(
        good(&mut root, "SHOW CREATE USER plain"),
        [
            "CREATE USER `plain`@`%` IDENTIFIED WITH 'caching_sha2_password' REQUIRE NONE PASSWORD \
          EXPIRE DEFAULT ACCOUNT UNLOCK PASSWORD HISTORY DEFAULT PASSWORD REUSE INTERVAL DEFAULT \
          PASSWORD REQUIRE CURRENT DEFAULT"
        ]
    );
    assert_eq!(
        code(&mut root, "ALTER USER u FAILED_LOGIN_ATTEMPTS 32768"),
        1525
    );
}

#[test]
fn attributes_are_merged() {
    let (_server, mut root) = start(Model::new());
    good(&mut root, "CREATE USER u ATTRIBUTE '{\"a\": 1, \"b\": 2}'");
    good(&mut root, "ALTER USER u COMMENT 'c'");
    good(&mut root, "ALTER USER u ATTRIBUTE '{\"a\": null}'");
    let text = "SELECT ATTRIBUTE FROM information_schema.USER_ATTRIBUTES WHERE USER = 'u'";
    assert_eq!(good(&mut root, text), ["{\"b\": 2, \"comment\": \"c\"}"]);
    assert_eq!(code(&mut root, "ALTER USER u ATTRIBUTE '[1]'"), 3140);
    assert_eq!(code(&mut root, "ALTER USER u ATTRIBUTE 'x'"), 3140);
}

#[test]
fn an_expired_password_allows_only_its_change() {
    let (server, mut root) = start(Model::new());
    good(&mut root, "CREATE USER u IDENTIFIED BY 'x'");
    let mut own = open(&server, "u", "%");
    good(&mut own, "SELECT 1");
    own.expire_password();
    for text in [
        "SELECT 1",
        "CREATE USER v",
        "ALTER USER root@localhost IDENTIFIED BY 'y'",
        "BEGIN",
    ] {
        assert_eq!(code(&mut own, text), 1820, "{text}");
    }
    assert_eq!(own.prepare(b"SELECT 1").unwrap_err().code, 1820);
    good(&mut own, "SET @a = 1");
    good(&mut own, "ALTER USER CURRENT_USER() IDENTIFIED BY 'y'");
    good(&mut own, "SELECT 1");
    own.expire_password();
    good(&mut own, "SET PASSWORD = 'z'");
    good(&mut own, "SELECT 1");
    good(&mut root, "ALTER USER u PASSWORD EXPIRE");
    let shown = good(
        &mut root,
        "SELECT password_expired FROM mysql.user WHERE User = 'u'",
    );
    assert_eq!(shown, ["Y"]);
    good(&mut root, "ALTER USER u IDENTIFIED BY 'w'");
    let shown = good(
        &mut root,
        "SELECT password_expired FROM mysql.user WHERE User = 'u'",
    );
    assert_eq!(shown, ["N"]);
}

#[test]
fn passwords_are_not_used_again() {
    let (_server, mut root) = start(Model::new());
    good(
        &mut root,
        "CREATE USER u IDENTIFIED BY 'one' PASSWORD HISTORY 2",
    );
    assert_eq!(code(&mut root, "ALTER USER u IDENTIFIED BY 'one'"), 3638);
    good(&mut root, "ALTER USER u IDENTIFIED BY 'two'");
    assert_eq!(code(&mut root, "SET PASSWORD FOR u = 'one'"), 3638);
    good(&mut root, "SET PASSWORD FOR u = 'three'");
    good(&mut root, "SET PASSWORD FOR u = 'one'");
    let kept = "SELECT COUNT(*) FROM mysql.password_history WHERE User = 'u'";
    good(&mut root, "SET PASSWORD FOR u = 'four'");
    assert_eq!(good(&mut root, kept), ["3"]);
    good(&mut root, "SET GLOBAL password_reuse_interval = 5");
    assert_eq!(code(&mut root, "SET PASSWORD FOR u = 'four'"), 3638);
    good(
        &mut root,
        "ALTER USER u PASSWORD HISTORY 0 PASSWORD REUSE INTERVAL 0 DAY",
    );
    good(&mut root, "SET PASSWORD FOR u = 'four'");
    assert_eq!(good(&mut root, kept), ["0"]);
    good(&mut root, "DROP USER u");
}

#[test]
fn the_current_password_may_be_required() {
    let (server, mut root) = start(Model::new());
    good(
        &mut root,
        "CREATE USER u IDENTIFIED BY 'x' PASSWORD REQUIRE CURRENT",
    );
    let mut own = open(&server, "u", "%");
    assert_eq!(code(&mut own, "SET PASSWORD = 'y'"), 3892);
    assert_eq!(code(&mut own, "SET PASSWORD = 'y' REPLACE 'z'"), 3891);
    good(&mut own, "SET PASSWORD = 'y' REPLACE 'x'");
    good(
        &mut own,
        "ALTER USER CURRENT_USER() IDENTIFIED BY 'x' REPLACE 'y'",
    );
    assert_eq!(
        code(&mut root, "SET PASSWORD FOR u = 'y' REPLACE 'x'"),
        3893
    );
    good(&mut root, "SET PASSWORD FOR u = 'y'");
    good(&mut root, "ALTER USER u PASSWORD REQUIRE CURRENT OPTIONAL");
    good(&mut own, "SET PASSWORD = 'z'");
    good(&mut root, "ALTER USER u PASSWORD REQUIRE CURRENT DEFAULT");
    good(&mut root, "SET GLOBAL password_require_current = ON");
    assert_eq!(code(&mut own, "SET PASSWORD = 'y'"), 3892);
}

#[test]
fn random_passwords_are_returned_once() {
    let (_server, mut root) = start(Model::new());
    let rows = good(&mut root, "CREATE USER a IDENTIFIED BY RANDOM PASSWORD, b");
    assert_eq!(rows.len(), 1);
    let rest = rows.first().and_then(|r| r.strip_prefix("a|%|")).unwrap();
    assert_eq!(rest.len(), "|1".len() + 20);
    good(
        &mut root,
        "SET GLOBAL generated_random_password_length = 30",
    );
    let other = good(&mut root, "SET PASSWORD FOR a TO RANDOM");
    assert_eq!(other.first().unwrap().len(), "a|%||1".len() + 30);
}

#[test]
fn limits_of_statements_and_connections_hold() {
    let (server, mut root) = start(Model::new());
    good(&mut root, "CREATE TABLE mysql.t (a INT)");
    good(
        &mut root,
        "CREATE USER u WITH MAX_QUERIES_PER_HOUR 5 MAX_UPDATES_PER_HOUR 1 MAX_USER_CONNECTIONS 1",
    );
    good(&mut root, "GRANT INSERT ON mysql.t TO u");
    let mut own = open(&server, "u", "%");
    assert_eq!(try_open(&server, "u", "%").err(), Some(1226));
    good(&mut own, "INSERT INTO mysql.t VALUES (1)");
    let error = ask(&mut own, "INSERT INTO mysql.t VALUES (2)").unwrap_err();
    let text = "User 'u' has exceeded the 'max_updates' resource (current value: 1)";
    assert_eq!(error, (1226, text.to_owned()));
    for _ in 0..3 {
        good(&mut own, "SELECT 1");
    }
    let error = ask(&mut own, "SELECT 1").unwrap_err();
    let text = "User 'u' has exceeded the 'max_questions' resource (current value: 5)";
    assert_eq!(error, (1226, text.to_owned()));
    good(&mut root, "FLUSH USER_RESOURCES");
    good(&mut own, "SELECT 1");
    drop(own);
    drop(open(&server, "u", "%"));
    good(&mut root, "ALTER USER u WITH MAX_CONNECTIONS_PER_HOUR 1");
    good(&mut root, "FLUSH PRIVILEGES");
    drop(open(&server, "u", "%"));
    assert_eq!(try_open(&server, "u", "%").err(), Some(1226));
    good(&mut root, "CREATE USER v");
    good(&mut root, "SET GLOBAL max_user_connections = 1");
    let _first = open(&server, "v", "%");
    assert_eq!(try_open(&server, "v", "%").err(), Some(1203));
}

#[test]
fn account_tables_of_the_first_layout_are_upgraded() {
    let model = Model::new();
    let again = model.reopen();
    let (server, mut root) = start(model);
    good(
        &mut root,
        "CREATE USER u IDENTIFIED WITH mysql_native_password BY 'x' ACCOUNT LOCK",
    );
    let secret = "SELECT authentication_string FROM mysql.user WHERE User = 'u'";
    let before = good(&mut root, secret);
    // Changes the tables back to their first layout.
    let columns = [
        "ssl_type",
        "ssl_cipher",
        "x509_issuer",
        "x509_subject",
        "max_questions",
        "max_updates",
        "max_connections",
        "max_user_connections",
        "password_expired",
        "password_lifetime",
        "Password_reuse_history",
        "Password_reuse_time",
        "Password_require_current",
        "Failed_login_attempts",
        "Password_lock_time",
        "User_attributes",
    ];
    let drops: Vec<String> = columns.iter().map(|c| format!("DROP COLUMN {c}")).collect();
    good(
        &mut root,
        &format!("ALTER TABLE mysql.user {}", drops.join(", ")),
    );
    good(
        &mut root,
        "DROP TABLE mysql.role_edges, mysql.default_roles, mysql.password_history",
    );
    drop(root);
    drop(server);
    let (_server, mut root) = start(again);
    assert_eq!(good(&mut root, secret), before);
    let shown = good(&mut root, "SHOW CREATE USER u").remove(0);
    assert!(
        shown.contains("REQUIRE NONE PASSWORD EXPIRE DEFAULT ACCOUNT LOCK"),
        "{shown}"
    );
    good(&mut root, "ALTER USER u REQUIRE SSL");
    good(&mut root, "CREATE ROLE r");
    good(&mut root, "GRANT r TO u");
}

#[test]
fn names_without_an_account_have_decoys_of_the_plugins_in_use() {
    let (server, mut root) = start(Model::new());
    let plugins = || {
        let decoys = (0..200).map(|n| server.access().decoy(&format!("u{n}")).plugin);
        let mut plugins: Vec<String> = decoys.collect();
        plugins.sort();
        plugins.dedup();
        plugins
    };
    assert_eq!(plugins(), ["caching_sha2_password"]);
    good(
        &mut root,
        "CREATE USER old@localhost IDENTIFIED WITH mysql_native_password BY 'x'",
    );
    good(&mut root, "CREATE USER open@localhost");
    assert_eq!(
        plugins(),
        ["caching_sha2_password", "mysql_native_password"]
    );
    let access = server.access();
    let is_password = |user: &str, password: &[u8]| {
        let account = access.find(user, "localhost").unwrap();
        access.is_password(user, account.as_ref(), password)
    };
    assert!(is_password("old", b"x") && is_password("open", b""));
    for (user, password) in [
        ("old", &b"y"[..]),
        ("old", b""),
        ("open", b"x"),
        ("u1", b""),
        ("u1", b"x"),
    ] {
        assert!(!is_password(user, password), "{user}");
    }
}
fn secrets(server: &Arc<SqlServer>, user: &str) -> (String, Option<String>) {
    let account = server.account(user, "localhost").unwrap().unwrap();
    let secret = String::from_utf8(account.secret).unwrap();
    (secret, account.attributes.second_secret)
}

/// The secret that a password has with mysql_native_password.
fn native(password: &str) -> String {
    let secret = porpoise_access::hash_password("mysql_native_password", password.as_bytes());
    String::from_utf8(secret.unwrap()).unwrap()
}

#[test]
fn a_second_password_is_kept_until_it_is_discarded() {
    let model = Model::new();
    let again = model.reopen();
    let (server, mut root) = start(model);
    good(
        &mut root,
        "CREATE USER u IDENTIFIED WITH mysql_native_password BY 'a' COMMENT 'c'",
    );
    let retain = |text: &str| format!("ALTER USER u {text} RETAIN CURRENT PASSWORD");
    good(&mut root, &retain("IDENTIFIED BY 'b'"));
    assert_eq!(secrets(&server, "u"), (native("b"), Some(native("a"))));
    let attributes = "SELECT User_attributes FROM mysql.user WHERE User = 'u'";
    let expected = format!(
        "{{\"metadata\": {{\"comment\": \"c\"}}, \"additional_password\": \"{}\"}}",
        native("a")
    );
    assert_eq!(good(&mut root, attributes), [expected]);
    // Other accounts see only the metadata.
    let seen = "SELECT attribute FROM information_schema.user_attributes WHERE user = 'u'";
    assert_eq!(good(&mut root, seen), ["{\"comment\": \"c\"}"]);
    let shown = good(&mut root, "SHOW CREATE USER u");
    assert!(!shown[0].contains(&native("a")), "{shown:?}");
    // A new password without RETAIN does not change the second password.
    good(&mut root, "ALTER USER u IDENTIFIED BY 'c'");
    assert_eq!(secrets(&server, "u"), (native("c"), Some(native("a"))));
    good(
        &mut root,
        "SET PASSWORD FOR u = 'd' RETAIN CURRENT PASSWORD",
    );
    assert_eq!(secrets(&server, "u"), (native("d"), Some(native("c"))));
    let hash = format!("IDENTIFIED WITH mysql_native_password AS '{}'", native("e"));
    good(&mut root, &retain(&hash));
    assert_eq!(secrets(&server, "u"), (native("e"), Some(native("d"))));
    drop((root, server));
    let (server, mut root) = start(again);
    assert_eq!(secrets(&server, "u"), (native("e"), Some(native("d"))));
    for (number, text, message) in [
        (
            3894,
            "IDENTIFIED WITH caching_sha2_password BY 'x'",
            "Current password can not be retained for user 'u'@'%' because authentication plugin \
             is being changed.",
        ),
        (
            3895,
            "IDENTIFIED BY ''",
            "Current password can not be retained for user 'u'@'%' because new password is empty.",
        ),
    ] {
        let error = ask(&mut root, &retain(text)).unwrap_err();
        assert_eq!(error, (number, message.to_owned()));
    }
    good(&mut root, "ALTER USER u DISCARD OLD PASSWORD");
    assert_eq!(secrets(&server, "u"), (native("e"), None));
    good(&mut root, "ALTER USER u DISCARD OLD PASSWORD");
    // An empty password and a change of the plugin remove the second password, too.
    for change in [
        "IDENTIFIED BY ''",
        "IDENTIFIED WITH caching_sha2_password BY 'z'",
    ] {
        let first = "ALTER USER u IDENTIFIED WITH mysql_native_password BY 'f'";
        good(&mut root, first);
        good(&mut root, &retain("IDENTIFIED BY 'g'"));
        assert!(secrets(&server, "u").1.is_some());
        good(&mut root, &format!("ALTER USER u {change}"));
        assert_eq!(secrets(&server, "u").1, None);
    }
    good(&mut root, "ALTER USER u IDENTIFIED BY ''");
    let error = ask(&mut root, &retain("IDENTIFIED BY 'x'")).unwrap_err();
    let text = "Empty password can not be retained as second password for user 'u'@'%'.";
    assert_eq!(error, (3878, text.to_owned()));
    assert_eq!(
        code(
            &mut root,
            "CREATE USER v IDENTIFIED BY 'x' RETAIN CURRENT PASSWORD"
        ),
        1064
    );
}

#[test]
fn changing_ones_own_second_password_needs_a_privilege() {
    let (server, mut root) = start(Model::new());
    good(
        &mut root,
        "CREATE USER u IDENTIFIED BY 'a', v IDENTIFIED BY 'a'",
    );
    let mut u = open(&server, "u", "%");
    let text = "Access denied; you need (at least one of) the CREATE USER or \
                APPLICATION_PASSWORD_ADMIN privilege(s) for this operation";
    let own = [
        "ALTER USER USER() IDENTIFIED BY 'b' RETAIN CURRENT PASSWORD",
        "SET PASSWORD = 'c' RETAIN CURRENT PASSWORD",
        "ALTER USER u DISCARD OLD PASSWORD",
    ];
    for statement in own {
        let error = ask(&mut u, statement).unwrap_err();
        assert_eq!(error, (1227, text.to_owned()), "{statement}");
    }
    good(&mut root, "GRANT APPLICATION_PASSWORD_ADMIN ON *.* TO u");
    for statement in own {
        good(&mut u, statement);
        let other = "ALTER USER v IDENTIFIED BY 'b' RETAIN CURRENT PASSWORD";
        assert_eq!(code(&mut u, other), 1227);
    }
}

#[test]
fn attributes_of_the_first_layout_are_metadata() {
    let model = Model::new();
    let again = model.reopen();
    let (server, mut root) = start(model);
    good(&mut root, "CREATE USER u COMMENT 'new'");
    // Earlier versions wrote the column in this form.
    good(
        &mut root,
        "UPDATE mysql.user SET User_attributes = '{\"comment\": \"old\"}' WHERE User = 'u'",
    );
    drop((root, server));
    let (_server, mut root) = start(again);
    let shown = good(&mut root, "SHOW CREATE USER u");
    assert!(
        shown[0].ends_with("ATTRIBUTE '{\"comment\": \"old\"}'"),
        "{shown:?}"
    );
    good(
        &mut root,
        "ALTER USER u ATTRIBUTE '{\"Restrictions\": [1], \"metadata\": {}}'",
    );
    let column = "SELECT User_attributes FROM mysql.user WHERE User = 'u'";
    assert_eq!(
        good(&mut root, column),
        ["{\"metadata\": {\"comment\": \"old\", \"metadata\": {}, \"Restrictions\": [1]}}"]
    );
}
