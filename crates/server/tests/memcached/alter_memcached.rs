//! ALTER TABLE ... MEMCACHED PREFIX.

use crate::with_sql::sql;
use porpoise_testkit::Porpoise;

const USERS: &str = "CREATE DATABASE t; USE t;
    CREATE TABLE users (uid INT PRIMARY KEY, name VARCHAR(20) NOT NULL, email VARCHAR(40) UNIQUE);
    INSERT INTO users VALUES (1, 'ann', 'a@x'), (2, 'bob', NULL);
    CREATE TABLE other (id INT PRIMARY KEY, v INT);";

#[test]
fn a_prefix_is_mapped_and_unmapped_by_one_statement_each() {
    let server = Porpoise::builder().start();
    sql(&server, USERS);
    sql(&server, "ALTER TABLE t.users MEMCACHED PREFIX 'u:'");
    assert_eq!(
        server.memcached("get u:1 u:2 u:3\r\n"),
        "VALUE u:1 0 7\r\nann\ta@x\r\nVALUE u:2 0 4\r\nbob\t\r\nEND\r\n"
    );
    sql(
        &server,
        "ALTER TABLE t.users ADD MEMCACHED PREFIX 'u:' VALUE (name)",
    );
    assert_eq!(
        server.memcached("get u:1\r\n"),
        "VALUE u:1 0 3\r\nann\r\nEND\r\n"
    );
    let status = "SELECT key_prefix, container, policy, state FROM ndbmemcache.status
                  WHERE server_role_id = 0 AND key_prefix <> ''";
    assert_eq!(sql(&server, status), "u:\tt/users/u:\tndb-only\tactive\n");
    sql(&server, "ALTER TABLE t.users DROP MEMCACHED PREFIX 'u:'");
    assert_eq!(server.memcached("get u:1\r\n"), "END\r\n");
    assert_eq!(
        sql(
            &server,
            "SELECT COUNT(*) FROM ndbmemcache.containers WHERE db_schema = 't';
             SELECT COUNT(*) FROM ndbmemcache.container_options"
        ),
        "0\n0\n"
    );
}

#[test]
fn one_of_two_concurrent_mappings_of_a_prefix_succeeds() {
    let server = Porpoise::builder().start();
    sql(&server, USERS);
    for round in 0..20 {
        let start = std::sync::Barrier::new(2);
        let mapped = std::thread::scope(|scope| {
            let threads = ["users", "other"].map(|table| {
                let (server, start) = (&server, &start);
                scope.spawn(move || {
                    start.wait();
                    let text = format!("ALTER TABLE t.{table} MEMCACHED PREFIX 'r{round}:'");
                    server.sql(&text).error_number()
                })
            });
            threads.map(|t| t.join().unwrap())
        });
        let refused = mapped.iter().filter(|n| **n == Some(1062)).count();
        let done = mapped.iter().filter(|n| n.is_none()).count();
        assert_eq!((done, refused), (1, 1), "{mapped:?}");
    }
}

#[test]
fn invalid_mappings_are_refused_without_writes() {
    let server = Porpoise::builder().start();
    sql(&server, USERS);
    sql(
        &server,
        "ALTER TABLE t.users MEMCACHED PREFIX 'u:' KEY (email) VALUE (uid)",
    );
    let refused = |statement: &str, number: u32| {
        let done = server.sql(statement);
        assert_eq!(
            done.error_number(),
            Some(number),
            "{statement}: {}",
            done.stderr
        );
    };
    refused("ALTER TABLE t.users MEMCACHED PREFIX 'n:' KEY (name)", 1210);
    refused(
        "ALTER TABLE t.users MEMCACHED PREFIX 'n:' KEY (nobody)",
        1072,
    );
    refused("ALTER TABLE t.users MEMCACHED PREFIX 'n:' POLICY 'p'", 1210);
    refused("ALTER TABLE t.users MEMCACHED PREFIX 'n:' ROLE 'r'", 1210);
    refused("ALTER TABLE t.none MEMCACHED PREFIX 'n:'", 1146);
    refused("ALTER TABLE t.other MEMCACHED PREFIX 'u:'", 1062);
    refused("ALTER TABLE t.other DROP MEMCACHED PREFIX 'u:'", 1091);
    refused("ALTER TABLE t.users MEMCACHED PREFIX", 1064);
    refused(
        "ALTER TABLE t.users MEMCACHED PREFIX 'n:', COMMENT 'x'",
        1235,
    );
    assert_eq!(
        sql(
            &server,
            "SELECT key_prefix FROM ndbmemcache.key_prefixes WHERE server_role_id = 0"
        ),
        "\nu:\n"
    );
}

#[test]
fn show_memcached_key_shows_the_table_and_row_of_a_key() {
    let server = Porpoise::builder().start();
    sql(&server, USERS);
    sql(
        &server,
        "ALTER TABLE t.users MEMCACHED PREFIX 'u:' VALUE (name)",
    );
    let key_report = |key: &str| sql(&server, &format!("SHOW MEMCACHED KEY '{key}'"));
    let policy = "ndb-only (get table, set table, delete table)";
    assert_eq!(
        key_report("u:1"),
        format!("default_role\tu:\t{policy}\tt/users/u:\tt.users\tuid=1\trow\tNULL\tNULL\n")
    );
    assert!(key_report("u:3").contains("\tuid=3\tno row\tNULL\tNULL"));
    assert!(key_report("u:x").contains("\tno such key: Incorrect integer value"));
    assert!(key_report("v").contains("\tkv\tndbmemcache.kv\tmkey=v\tno row\t"));
    let long = "x".repeat(30);
    server.memcached(&format!("set u:1 0 0 30\r\n{long}\r\n"));
    assert!(key_report("u:1").contains("\tData too long for column 'name' at row 1\n"));
}
