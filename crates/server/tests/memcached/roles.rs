//! Several listeners of one server, each with a role.

use crate::with_sql::sql;
use porpoise_testkit::{Porpoise, exchange};
use std::net::SocketAddr;

fn ask(address: SocketAddr, request: &str) -> String {
    String::from_utf8(exchange(address, request.as_bytes())).unwrap()
}

#[test]
fn each_listener_serves_the_prefixes_of_its_role() {
    let server = Porpoise::builder()
        .arg("--memcached-listeners", "db-only=127.0.0.1:0")
        .start();
    let other: SocketAddr = server
        .socket("memcached-listener")
        .and_then(|at| at.to_str())
        .unwrap()
        .parse()
        .unwrap();
    assert_eq!(server.memcached("set a 7 0 1\r\nx\r\n"), "STORED\r\n");
    // That role's default prefix is another table.
    assert_eq!(ask(other, "get a\r\n"), "END\r\n");
    assert_eq!(ask(other, "set t:3 0 0 3\r\np\tq\r\n"), "STORED\r\n");
    assert_eq!(
        sql(
            &server,
            "SELECT mkey, val1, val2 FROM ndbmemcache.demo_table_tabs"
        ),
        "3\tp\tq\n"
    );
    // A change holds for all listeners that play the role.
    sql(
        &server,
        "UPDATE ndbmemcache.key_prefixes SET policy = 'ndb-read-only'
         WHERE server_role_id = 1 AND key_prefix = 't:'",
    );
    assert_eq!(
        ask(other, "get t:3\r\nset t:3 0 0 1\r\nx\r\ndelete t:3\r\n"),
        "VALUE t:3 0 4\r\np\tq\t\r\nEND\r\n\
         SERVER_ERROR set_policy of the keys of prefix 't:' is disabled\r\n\
         SERVER_ERROR delete_policy of the keys of prefix 't:' is disabled\r\n"
    );
    let report = sql(&server, "SHOW MEMCACHED KEY 't:3'");
    let roles: Vec<&str> = report
        .lines()
        .map(|l| l.split('\t').next().unwrap())
        .collect();
    assert_eq!(roles, ["default_role", "db-only"]);
}

#[test]
fn a_listener_of_an_unknown_role_is_refused_at_the_start() {
    let ended = Porpoise::builder()
        .arg("--memcached-listeners", "unknown=127.0.0.1:0")
        .run_to_end(std::time::Duration::from_secs(30));
    assert_eq!(ended.status.code(), Some(2), "{}", ended.stderr);
    assert!(
        ended
            .stderr
            .contains("'unknown' is not in ndbmemcache.memcache_server_roles")
    );
}

#[test]
fn prefixes_of_unknown_roles_are_reported_as_unserved() {
    let server = Porpoise::builder().start();
    let state = |why: &str| {
        let status = "SELECT state, reason FROM ndbmemcache.status WHERE server_role_id = 9";
        assert_eq!(sql(&server, status), why);
    };
    sql(
        &server,
        "INSERT INTO ndbmemcache.key_prefixes VALUES (9, 'x:', 0, 'ndb-only', 'kv')",
    );
    state("disabled\trole 9 is not in memcache_server_roles\n");
    sql(
        &server,
        "INSERT INTO ndbmemcache.memcache_server_roles (role_name, role_id) VALUES ('nine', 9)",
    );
    state("active\t\n");
}
