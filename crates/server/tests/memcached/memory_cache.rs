//! Keys whose policy says `cache_only`.

use crate::with_sql::sql;
use porpoise_testkit::Porpoise;
use std::time::Duration;

#[test]
fn all_commands_work_in_memory_and_items_do_not_survive_a_restart() {
    let mut server = Porpoise::builder()
        .arg("--memcached-role", "mc-only")
        .start();
    let answer = server.memcached(
        "set a 5 0 1\r\nx\r\nadd a 0 0 1\r\ny\r\nreplace a 6 0 2\r\nyy\r\nget a b\r\n\
         append a 0 0 1\r\n!\r\nprepend a 0 0 1\r\n?\r\nget a\r\nincr a 1\r\n\
         set n 0 0 2\r\n10\r\ndecr n 1\r\nincr n 18446744073709551615\r\nget n\r\n\
         touch n 100\r\ntouch z 1\r\ngat 0 n a\r\ndelete a\r\ndelete a\r\nget a\r\n\
         cas z 0 0 1 1\r\nx\r\n",
    );
    assert_eq!(
        answer,
        "STORED\r\nNOT_STORED\r\nSTORED\r\nVALUE a 6 2\r\nyy\r\nEND\r\n\
         STORED\r\nSTORED\r\nVALUE a 6 4\r\n?yy!\r\nEND\r\n\
         CLIENT_ERROR cannot increment or decrement non-numeric value\r\n\
         STORED\r\n9\r\n8\r\nVALUE n 0 2\r\n8 \r\nEND\r\n\
         TOUCHED\r\nNOT_FOUND\r\nVALUE n 0 2\r\n8 \r\nVALUE a 6 4\r\n?yy!\r\nEND\r\n\
         DELETED\r\nNOT_FOUND\r\nEND\r\nNOT_FOUND\r\n"
    );
    let gets = server.memcached("gets n\r\n");
    let version = gets.lines().next().unwrap().rsplit(' ').next().unwrap();
    assert_eq!(
        server.memcached(&format!(
            "cas n 0 0 1 {version}\r\n1\r\ncas n 0 0 1 {version}\r\n2\r\nget n\r\n"
        )),
        "STORED\r\nEXISTS\r\nVALUE n 0 1\r\n1\r\nEND\r\n"
    );
    // No table has them.
    assert_eq!(sql(&server, "SELECT COUNT(*) FROM ndbmemcache.kv"), "0\n");
    assert!(server.terminate().success());
    server.restart();
    assert_eq!(server.memcached("get n\r\n"), "END\r\n");
}

#[test]
fn new_items_evict_old_ones_and_flush_all_deletes_all() {
    let server = Porpoise::builder()
        .arg("--memcached-role", "mc-only")
        .arg("--memcached-cache", "16M")
        .start();
    let value = "v".repeat(10_000);
    let sets: String = (0..4_000)
        .map(|n| format!("set k{n} 0 0 10000 noreply\r\n{value}\r\n"))
        .collect();
    assert_eq!(server.memcached(&sets), "");
    let there = |from: usize| {
        let keys: Vec<String> = (from..from + 200).map(|n| format!("k{n}")).collect();
        let answer = server.memcached(&format!("get {}\r\n", keys.join(" ")));
        answer.matches("VALUE ").count()
    };
    assert!(there(3_800) > 100, "new items are there: {}", there(3_800));
    let all: usize = (0..4_000).step_by(200).map(there).sum();
    assert!((800..1_700).contains(&all), "{all} items in 16 MiB");
    assert_eq!(server.memcached("flush_all\r\n"), "OK\r\n");
    assert_eq!(there(3_800), 0);
    assert!(
        server.log().contains("flush_all from 127.0.0.1"),
        "{}",
        server.log()
    );
}

#[test]
fn an_item_expires_and_counters_lose_nothing() {
    let server = Porpoise::builder()
        .arg("--memcached-role", "mc-only")
        .start();
    assert_eq!(
        server.memcached("set e 0 1 1\r\nx\r\nset n 0 0 1\r\n0\r\nset m 0 -1 1\r\nx\r\nget m\r\n"),
        "STORED\r\nSTORED\r\nSTORED\r\nEND\r\n"
    );
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| server.memcached(&"incr n 1\r\n".repeat(1_000)));
        }
    });
    assert_eq!(
        server.memcached("get n\r\n"),
        "VALUE n 0 4\r\n4000\r\nEND\r\n"
    );
    server.wait_for("the item to expire", Duration::from_secs(10), || {
        (server.memcached("get e\r\n") == "END\r\n").then_some(())
    });
}

#[test]
fn one_get_mixes_items_of_the_cache_and_rows() {
    let server = Porpoise::builder().start();
    sql(
        &server,
        "INSERT INTO ndbmemcache.key_prefixes VALUES (0, 'c:', 0, 'memcache-only', NULL)",
    );
    assert_eq!(
        server.memcached(
            "set c:1 1 0 1\r\na\r\nset r 2 0 1\r\nb\r\nset c:2 3 0 1\r\nc\r\n\
             get c:2 r x c:1 c:3 r\r\ngat 0 r c:1\r\n"
        ),
        "STORED\r\nSTORED\r\nSTORED\r\nVALUE c:2 3 1\r\nc\r\nVALUE r 2 1\r\nb\r\n\
         VALUE c:1 1 1\r\na\r\nVALUE r 2 1\r\nb\r\nEND\r\n\
         VALUE r 2 1\r\nb\r\nVALUE c:1 1 1\r\na\r\nEND\r\n"
    );
    assert_eq!(sql(&server, "SELECT mkey FROM ndbmemcache.kv"), "r\n");
}

#[test]
fn the_default_prefix_evicts_after_one_update() {
    let server = Porpoise::builder().start();
    sql(
        &server,
        "UPDATE ndbmemcache.key_prefixes SET policy = 'memcache-only'
         WHERE server_role_id = 0 AND key_prefix = ''",
    );
    assert_eq!(
        server.memcached("set a 0 0 1\r\nx\r\nget a\r\n"),
        "STORED\r\nVALUE a 0 1\r\nx\r\nEND\r\n"
    );
    assert_eq!(sql(&server, "SELECT COUNT(*) FROM ndbmemcache.kv"), "0\n");
}
