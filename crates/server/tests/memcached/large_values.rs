//! Containers with a `large_values_table`.

use crate::with_sql::sql;
use porpoise_testkit::Porpoise;

fn parts(server: &Porpoise) -> String {
    sql(
        server,
        "SELECT part, LENGTH(content) FROM ndbmemcache.external_values ORDER BY id, part",
    )
}

#[test]
fn values_too_long_for_the_column_go_to_the_large_value_table() {
    let server = Porpoise::builder().arg("--memcached-role", "large").start();
    let long: String = (0..30_000)
        .map(|n| char::from(b'a' + (n % 26) as u8))
        .collect();
    assert_eq!(
        server.memcached(&format!(
            "set k 0 0 30000\r\n{long}\r\nset s 0 0 1\r\nx\r\n"
        )),
        "STORED\r\nSTORED\r\n"
    );
    assert_eq!(parts(&server), "0\t13950\n1\t13950\n2\t2100\n");
    let row = "SELECT mkey, string_value IS NULL, ext_size, cas_value > 0
               FROM ndbmemcache.demo_table_large ORDER BY mkey";
    assert_eq!(sql(&server, row), "k\t1\t30000\t1\ns\t0\tNULL\t1\n");
    assert_eq!(
        server.memcached("get s k n\r\n"),
        format!("VALUE s 0 1\r\nx\r\nVALUE k 0 30000\r\n{long}\r\nEND\r\n")
    );
    // Extended, then replaced by a short one: no part is left behind.
    assert_eq!(
        server.memcached("append k 0 0 1\r\n!\r\nprepend k 0 0 1\r\n?\r\ngat 0 k\r\n"),
        format!("STORED\r\nSTORED\r\nVALUE k 0 30002\r\n?{long}!\r\nEND\r\n")
    );
    assert_eq!(parts(&server), "0\t13950\n1\t13950\n2\t2102\n");
    assert_eq!(
        server.memcached("set k 0 0 2\r\n12\r\nincr k 1\r\nget k\r\n"),
        "STORED\r\n13\r\nVALUE k 0 2\r\n13\r\nEND\r\n"
    );
    assert_eq!(parts(&server), "");
    server.memcached(&format!("set k 0 0 30000\r\n{long}\r\n"));
    assert_eq!(server.memcached("delete k\r\n"), "DELETED\r\n");
    assert_eq!(parts(&server), "");
    server.memcached(&format!("set k 0 0 30000\r\n{long}\r\n"));
    assert_eq!(server.memcached("flush_all\r\n"), "OK\r\n");
    assert_eq!(parts(&server), "");
}

#[test]
fn a_large_value_table_with_wrong_columns_disables_the_prefix() {
    let server = Porpoise::builder().start();
    sql(
        &server,
        "INSERT INTO ndbmemcache.containers SET name = 'big', db_schema = 'ndbmemcache',
             db_table = 'demo_table_large', key_columns = 'mkey',
             value_columns = 'string_value', large_values_table = 'ndbmemcache.kv';
         INSERT INTO ndbmemcache.key_prefixes VALUES (0, 'b:', 0, 'ndb-only', 'big')",
    );
    assert_eq!(
        server.memcached("get b:1\r\n"),
        "SERVER_ERROR keys of prefix 'b:' are disabled: \
         large_values_table 'ndbmemcache.kv' has no column 'id'\r\n"
    );
}
