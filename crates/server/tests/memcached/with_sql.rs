//! The same rows through SQL and memcached; the configuration through SQL.

use porpoise_testkit::Porpoise;
use std::time::Duration;

pub fn sql(server: &Porpoise, statements: &str) -> String {
    let done = server.sql(statements);
    assert!(done.is_ok, "{statements}: {}", done.stderr);
    done.stdout
}

#[test]
fn a_mapping_made_with_sql_serves_the_same_rows_through_both_listeners() {
    let server = Porpoise::builder().arg("--durability", "sync").start();
    sql(
        &server,
        "CREATE DATABASE test;
         CREATE TABLE test.users (uid integer auto_increment primary key, name varchar(8),
                                  view_cnt bigint unsigned default 0);
         INSERT INTO test.users (name) VALUES ('ann'), ('bob');
         INSERT INTO ndbmemcache.containers SET name = 'users', db_schema = 'test',
             db_table = 'users', key_columns = 'uid', value_columns = 'name',
             increment_column = 'view_cnt';
         INSERT INTO ndbmemcache.key_prefixes VALUES (0, 'u:', 0, 'ndb-only', 'users'),
             (0, 'bad:', 0, 'ndb-only', 'nothing');",
    );
    assert_eq!(
        server.memcached("get u:1 u:3 u:2\r\n"),
        "VALUE u:1 0 3\r\nann\r\nVALUE u:2 0 3\r\nbob\r\nEND\r\n"
    );
    assert_eq!(
        sql(
            &server,
            "SELECT key_prefix, state, reason FROM ndbmemcache.status
             WHERE server_role_id = 0 AND key_prefix <> '' ORDER BY key_prefix"
        ),
        "bad:\tdisabled\tcontainer 'nothing' is not in containers\nu:\tactive\t\n"
    );
    // A set is seen by the next SELECT, an UPDATE by the next get and as a
    // new version.
    assert_eq!(server.memcached("set u:7 0 0 3\r\neve\r\n"), "STORED\r\n");
    assert_eq!(
        sql(&server, "SELECT name FROM test.users WHERE uid = 7"),
        "eve\n"
    );
    let before = server.memcached("gets u:7\r\n");
    sql(&server, "UPDATE test.users SET name = 'eva' WHERE uid = 7");
    let after = server.memcached("gets u:7\r\n");
    assert!(after.contains("\r\neva\r\n"), "{after}");
    assert_ne!(before.lines().next(), after.lines().next());
    let refused = server.memcached("set u:7 0 0 9\r\nnine char\r\nget u:7\r\n");
    assert_eq!(
        refused,
        "SERVER_ERROR Data too long for column 'name' at row 1\r\n\
         VALUE u:7 0 3\r\neva\r\nEND\r\n"
    );
    // The counter is table-wide: an explicit key pushed it.
    sql(&server, "INSERT INTO test.users (name) VALUES ('kim')");
    assert_eq!(
        server.memcached("get u:8\r\n"),
        "VALUE u:8 0 3\r\nkim\r\nEND\r\n"
    );
    sql(
        &server,
        "DELETE FROM ndbmemcache.key_prefixes WHERE key_prefix = 'u:'",
    );
    assert_eq!(server.memcached("get u:8\r\n"), "END\r\n");
}

#[test]
fn commands_wait_for_the_global_read_lock_until_its_session_ends() {
    let server = Porpoise::builder().start();
    assert_eq!(server.memcached("set a 0 0 1\r\n1\r\n"), "STORED\r\n");
    std::thread::scope(|scope| {
        let locked = scope.spawn(|| {
            sql(
                &server,
                "FLUSH TABLES WITH READ LOCK;
                 SELECT SLEEP(1);
                 SELECT mkey FROM ndbmemcache.kv",
            )
        });
        let held = || {
            let list = "SELECT COUNT(*) FROM information_schema.PROCESSLIST
                        WHERE info LIKE 'SELECT SLEEP%'";
            (sql(&server, list) == "1\n").then_some(())
        };
        server.wait_for("the lock", Duration::from_secs(10), held);
        // Reads go on; the second command waits for the lock.
        assert_eq!(server.memcached("get a\r\n"), "VALUE a 0 1\r\n1\r\nEND\r\n");
        assert_eq!(server.memcached("set b 0 0 1\r\n2\r\n"), "STORED\r\n");
        assert_eq!(locked.join().unwrap(), "0\na\n");
    });
    let rows = "SELECT mkey FROM ndbmemcache.kv ORDER BY mkey";
    assert_eq!(sql(&server, rows), "a\nb\n");
}

#[test]
fn the_default_table_can_be_selected_from() {
    let server = Porpoise::builder().start();
    server.memcached("set greeting 5 0 5\r\nhello\r\n");
    let rows = "SELECT mkey, value, flags, expire_time FROM ndbmemcache.kv";
    assert_eq!(sql(&server, rows), "greeting\thello\t5\t0\n");
    sql(
        &server,
        "UPDATE ndbmemcache.kv SET value = 'bye' WHERE mkey = 'greeting'",
    );
    assert_eq!(
        server.memcached("get greeting\r\n"),
        "VALUE greeting 5 3\r\nbye\r\nEND\r\n"
    );
    assert_eq!(
        sql(&server, "SELECT metadata_version FROM ndbmemcache.meta"),
        "1.2\n"
    );
}

#[test]
fn a_listener_outlives_its_configuration() {
    let mut server = Porpoise::builder().start();
    sql(
        &server,
        "CREATE DATABASE t; CREATE TABLE t.u (id INT PRIMARY KEY, v VARCHAR(9));
         INSERT INTO t.u VALUES (1, 'x'); ALTER TABLE t.u MEMCACHED PREFIX 'u:' VALUE (v)",
    );
    assert_eq!(
        server.memcached("set k 0 0 1\r\nx\r\nget u:1\r\n"),
        "STORED\r\nVALUE u:1 0 1\r\nx\r\nEND\r\n"
    );
    sql(&server, "DROP DATABASE ndbmemcache");
    let why =
        "SERVER_ERROR keys of prefix '' are disabled: table ndbmemcache.kv does not exist\r\n";
    assert_eq!(
        server.memcached("get u:1\r\nset k 0 0 1\r\ny\r\nmg k v\r\nflush_all\r\nversion\r\n"),
        format!(
            "{why}{why}{why}OK\r\nVERSION 1.6.18-porpoise-{}\r\n",
            env!("CARGO_PKG_VERSION")
        )
    );
    assert_eq!(sql(&server, "SELECT v FROM t.u"), "x\n");
    assert_eq!(
        sql(&server, "SELECT COUNT(*) FROM ndbmemcache.status"),
        "0\n"
    );
    // A mapping created by hand, with SQL, is served.
    sql(
        &server,
        "CREATE DATABASE ndbmemcache;
         CREATE TABLE ndbmemcache.kv (mkey VARBINARY(250) PRIMARY KEY, value LONGBLOB,
             flags INT UNSIGNED NOT NULL DEFAULT 0, expire_time BIGINT NOT NULL DEFAULT 0)",
    );
    assert_eq!(
        server.memcached("set k 0 0 1\r\nz\r\nget k\r\n"),
        "STORED\r\nVALUE k 0 1\r\nz\r\nEND\r\n"
    );
    // The rest comes with the next start.
    server.terminate();
    server.restart();
    assert_eq!(server.memcached("get k\r\n"), "VALUE k 0 1\r\nz\r\nEND\r\n");
    sql(&server, "ALTER TABLE t.u MEMCACHED PREFIX 'u:' VALUE (v)");
    assert_eq!(
        server.memcached("get u:1\r\n"),
        "VALUE u:1 0 1\r\nx\r\nEND\r\n"
    );
}

#[test]
fn a_table_with_ttl_expires_for_both_protocols() {
    let server = Porpoise::builder().arg("--durability", "sync").start();
    sql(
        &server,
        "CREATE DATABASE test;
         CREATE TABLE test.parent (id INT PRIMARY KEY);
         CREATE TABLE test.t (id INT PRIMARY KEY, name VARCHAR(8), ends BIGINT NOT NULL DEFAULT 0,
                              made TIMESTAMP NULL, FOREIGN KEY (id) REFERENCES test.parent (id));
         INSERT INTO test.parent VALUES (1), (2), (3);
         ALTER TABLE test.t MEMCACHED PREFIX 't:' KEY (id) VALUE (name) EXPIRES (ends);",
    );
    let ids = "SELECT id FROM test.t ORDER BY id";
    // Without TTL the expiry of memcached is unknown to SQL.
    assert_eq!(
        server.memcached("set t:1 0 -1 1\r\na\r\nget t:1\r\n"),
        "STORED\r\nEND\r\n"
    );
    assert_eq!(sql(&server, ids), "1\n");
    sql(&server, "ALTER TABLE test.t TTL = ends + INTERVAL 0 SECOND");
    assert_eq!(sql(&server, ids), "");
    assert_eq!(
        server.memcached("set t:1 0 0 1\r\nb\r\nset t:2 0 1000 1\r\nc\r\n"),
        "STORED\r\nSTORED\r\n"
    );
    assert_eq!(sql(&server, ids), "1\n2\n");
    assert_eq!(server.memcached("touch t:2 1\r\n"), "TOUCHED\r\n");
    server.wait_for("row 2 to expire", Duration::from_secs(20), || {
        (sql(&server, ids) == "1\n").then_some(())
    });
    assert_eq!(
        server.memcached("get t:1 t:2\r\n"),
        "VALUE t:1 0 1\r\nb\r\nEND\r\n"
    );
    // TTL on a column that is not mapped holds for memcached, too.
    sql(
        &server,
        "ALTER TABLE test.t TTL = made + INTERVAL 1 DAY;
         INSERT INTO test.t VALUES (3, 'd', 0, NOW() - INTERVAL 2 DAY)",
    );
    assert_eq!(
        server.memcached("get t:3\r\nincr t:3 1\r\ntouch t:3 0\r\ndelete t:3\r\n"),
        "END\r\nNOT_FOUND\r\nNOT_FOUND\r\nNOT_FOUND\r\n"
    );
    sql(
        &server,
        "INSERT INTO test.t VALUES (3, 'd', 0, NOW() - INTERVAL 2 DAY)",
    );
    assert_eq!(
        server.memcached("add t:3 0 0 1\r\ne\r\nget t:3\r\n"),
        "STORED\r\nVALUE t:3 0 1\r\ne\r\nEND\r\n"
    );
    let metrics = server.http("/metrics").1;
    assert!(
        metrics.contains("porpoise_ttl_deleted_rows_total"),
        "{metrics}"
    );
}
