//! Statistics of commands and hot keys by prefix, as SQL shows them.

use crate::support::{Cache, Sql, map_prefix, server};

#[test]
fn commands_are_counted_by_prefix_beside_statements() {
    let server = server().start();
    let mut sql = Sql::connect(server.mysql_addr);
    sql.run(
        "CREATE DATABASE h; CREATE TABLE h.users (id INT PRIMARY KEY, name VARCHAR(20)); \
         INSERT INTO h.users VALUES (1, 'ann'), (2, 'ben'); SET GLOBAL hot_key_sample_interval = 1",
    );
    map_prefix(&mut sql, "user:", ("h", "users"), ("id", "name"));
    let mut cache = Cache::connect(server.memcached_addr);
    for _ in 0..1500 {
        assert_eq!(cache.get("user:1").as_deref(), Some("ann"));
    }
    assert_eq!(cache.get("user:7"), None);
    assert_eq!(cache.set("user:2", "bob"), "STORED");
    let refused = cache.set("user:no", "x");
    assert!(refused.starts_with("SERVER_ERROR"), "{refused}");
    let counted = "SELECT SCHEMA_NAME, DIGEST_TEXT, COUNT_STAR, SUM_ERRORS, SUM_ROWS_SENT, SUM_ROWS_AFFECTED \
         FROM performance_schema.events_statements_summary_by_digest \
         WHERE DIGEST_TEXT LIKE '%user:*' ORDER BY DIGEST_TEXT";
    assert_eq!(
        sql.rows(counted),
        [
            ["h", "get user:*", "1501", "0", "1500", "0"],
            ["h", "set user:*", "2", "1", "0", "1"],
        ]
    );
    let times = sql.rows(
        "SELECT MIN_TIMER_WAIT > 0, MIN_TIMER_WAIT <= MAX_TIMER_WAIT, SUM_TIMER_WAIT > MAX_TIMER_WAIT, \
         QUANTILE_95 > 0, FIRST_SEEN <= LAST_SEEN FROM performance_schema.events_statements_summary_by_digest \
         WHERE DIGEST_TEXT = 'get user:*'",
    );
    assert_eq!(times, [["1", "1", "1", "1", "1"]]);
    let hot = sql.rows("SHOW HOT KEYS FROM h.users LIMIT 1").remove(0);
    assert_eq!(
        hot[..6],
        ["h", "users", "PRIMARY", "memcached", "user:", "user:1"]
    );
    let lookups: u64 = hot[6].parse().unwrap();
    assert!((900..=1500).contains(&lookups), "{hot:?}");
    sql.run("TRUNCATE TABLE performance_schema.events_statements_summary_by_digest");
    assert!(sql.rows(counted).is_empty());
}

#[test]
fn nothing_is_counted_while_statistics_are_off() {
    let server = server().arg("--performance-schema", "off").start();
    let mut sql = Sql::connect(server.mysql_addr);
    let mut cache = Cache::connect(server.memcached_addr);
    for _ in 0..200 {
        cache.set("a", "1");
    }
    for view in [
        "performance_schema.events_statements_summary_by_digest",
        "information_schema.HOT_KEYS",
    ] {
        assert_eq!(
            sql.number(&format!("SELECT COUNT(*) FROM {view}")),
            0,
            "{view}"
        );
    }
}
