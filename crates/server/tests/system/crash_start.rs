//! Power failures while the server starts: in its first start, while it creates the data directory,
//! and in later ones, while it recovers. The next start completes the work, after any number of
//! failures.

use std::path::Path;
use std::time::Duration;

use porpoise_testkit::Porpoise;

use crate::support::{Cache, Random, Sql, server};

/// Starts a server whose power goes off before it is ready.
fn cut(data: &Path, seed: u64, operation: u64) {
    let finished = server()
        .data_dir(data)
        .disk_faults(format!("seed={seed},cut_at={operation}"))
        .run_to_end(Duration::from_secs(30));
    assert!(!finished.status.success());
    assert!(!finished.stdout.contains("ready"), "{}", finished.stdout);
}

fn start(data: &Path) -> Porpoise {
    server().data_dir(data).start()
}

/// Contents of a new server: rows of each configuration table, and the accounts.
fn contents(server: &Porpoise) -> Vec<Vec<String>> {
    let mut sql = Sql::connect(server.mysql_addr);
    let mut all = sql.rows("show databases");
    for table in sql.rows("show tables from ndbmemcache") {
        // Time of the server's last start, by its own clock.
        if table[0] == "last_memcached_signon" {
            continue;
        }
        let rows = sql.number(&format!("select count(*) from ndbmemcache.{}", table[0]));
        all.push(vec![table[0].clone(), rows.to_string()]);
    }
    all.extend(sql.rows("select user, host from mysql.user"));
    all
}

#[test]
fn a_first_start_completes_after_repeated_crashes() {
    let home = tempfile::tempdir().unwrap();
    let expected = contents(&start(&home.path().join("undisturbed")));
    let mut random = Random::new(5);
    for (n, cuts) in [1, 1, 2, 3, 6].into_iter().enumerate() {
        let data = home.path().join(n.to_string());
        for _ in 0..cuts {
            let seed = random.below(3);
            cut(&data, seed, 1 + random.below(12 * (n as u64 + 1)));
        }
        let server = start(&data);
        assert_eq!(contents(&server), expected, "after {cuts} cuts");
        assert_eq!(
            Cache::connect(server.memcached_addr).set("a", "b"),
            "STORED"
        );
    }
}

#[test]
fn recovery_completes_after_repeated_crashes() {
    let home = tempfile::tempdir().unwrap();
    let data = home.path().join("data");
    let mut server = start(&data);
    let mut sql = Sql::connect(server.mysql_addr);
    sql.run("create database d");
    sql.run("create table d.t (id int auto_increment primary key, v varchar(20), key (v))");
    let mut random = Random::new(6);
    let mut rows = 0;
    for round in 0..6 {
        let mut sql = Sql::connect(server.mysql_addr);
        let mut cache = Cache::connect(server.memcached_addr);
        for _ in 0..50 {
            rows += 1;
            sql.run(&format!("insert into d.t (v) values ('v{rows}')"));
        }
        assert_eq!(cache.set("rows", &rows.to_string()), "STORED");
        if round % 2 == 0 {
            server.kill9();
        } else {
            assert!(server.terminate().success());
        }
        for _ in 0..3 {
            cut(&data, random.below(3), 1 + random.below(10));
        }
        server = start(&data);
        let mut sql = Sql::connect(server.mysql_addr);
        assert_eq!(sql.number("select count(*) from d.t"), rows);
        assert_eq!(sql.rows("check table d.t")[0].last().unwrap(), "OK");
        let kept = Cache::connect(server.memcached_addr).get("rows");
        assert_eq!(kept, Some(rows.to_string()));
    }
}
