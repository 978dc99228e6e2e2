//! The mapping of keys to tables is stored in rows: a committed change applies to the next command,
//! and each role has its own mapping.

use crate::support::{Cache, Sql, map_prefix, map_prefix_of_role, server};

#[test]
fn a_mapping_change_applies_to_the_next_command_of_every_connection() {
    let server = server().start();
    let mut sql = Sql::connect(server.mysql_addr);
    let mut old = Cache::connect(server.memcached_addr);
    assert_eq!(old.set("p:1", "default"), "STORED");
    sql.run("create database shop");
    sql.run("create table shop.price (id int primary key, price decimal(8,2))");
    map_prefix(&mut sql, "p:", ("shop", "price"), ("id", "price"));
    assert_eq!(old.get("p:1"), None, "the key is the table's now");
    assert_eq!(old.set("p:1", "12.5"), "STORED");
    assert_eq!(sql.rows("select * from shop.price"), [["1", "12.50"]]);
    assert_eq!(old.get("p:1").unwrap(), "12.50");
    sql.run("update ndbmemcache.memcache_server_roles set update_timestamp = now()");
    assert_eq!(old.get("p:1").unwrap(), "12.50");
    sql.run("begin");
    sql.run("delete from ndbmemcache.key_prefixes where key_prefix = 'p:'");
    assert_eq!(old.get("p:1").unwrap(), "12.50", "not yet committed");
    sql.run("commit");
    assert_eq!(old.get("p:1").unwrap(), "default");
    assert_eq!(
        Cache::connect(server.memcached_addr).get("p:1").unwrap(),
        "default"
    );
}

#[test]
fn each_role_has_its_own_prefixes() {
    let mut server = server().arg("--memcached-role", "db-only").start();
    let mut sql = Sql::connect(server.mysql_addr);
    sql.run("create database shop");
    sql.run("create table shop.one (id int primary key, v varchar(9))");
    sql.run("create table shop.two (id int primary key, v varchar(9))");
    map_prefix_of_role(&mut sql, 1, "k:", ("shop", "one"), ("id", "v"));
    map_prefix_of_role(&mut sql, 0, "k:", ("shop", "two"), ("id", "v"));
    let mut cache = Cache::connect(server.memcached_addr);
    assert_eq!(cache.set("k:5", "db-only"), "STORED");
    assert_eq!(sql.rows("select * from shop.one"), [["5", "db-only"]]);
    assert!(sql.rows("select * from shop.two").is_empty());
    assert!(server.terminate().success());
    server.reconfigure(|_| crate::support::server().arg("--memcached-role", "default_role"));
    server.restart();
    let mut sql = Sql::connect(server.mysql_addr);
    let mut cache = Cache::connect(server.memcached_addr);
    assert_eq!(cache.get("k:5"), None);
    assert_eq!(cache.set("k:6", "default"), "STORED");
    assert_eq!(sql.rows("select * from shop.two"), [["6", "default"]]);
}

#[test]
fn a_bad_row_disables_only_itself_and_says_why() {
    let server = server().start();
    let mut sql = Sql::connect(server.mysql_addr);
    let mut cache = Cache::connect(server.memcached_addr);
    sql.run("create database shop");
    sql.run("create table shop.good (id int primary key, v varchar(9))");
    map_prefix(&mut sql, "bad:", ("shop", "missing"), ("id", "v"));
    map_prefix(&mut sql, "good:", ("shop", "good"), ("id", "v"));
    assert_eq!(cache.set("good:1", "x"), "STORED");
    let reply = cache.set("bad:1", "x");
    assert!(reply.starts_with("SERVER_ERROR "), "{reply}");
    let rows = sql.rows("select key_prefix, reason from ndbmemcache.status");
    let reason = |prefix: &str| {
        let row = rows.iter().find(|row| row[0] == prefix);
        row.unwrap_or_else(|| panic!("{prefix} not in {rows:?}"))[1].clone()
    };
    assert!(reason("bad:").contains("missing"), "{rows:?}");
    assert!(!reason("good:").contains("missing"), "{rows:?}");
    // The table appears, and the mapping works without another word.
    sql.run("create table shop.missing (id int primary key, v varchar(9))");
    assert_eq!(cache.set("bad:1", "x"), "STORED");
}
