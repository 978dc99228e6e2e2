//! Listeners beside TCP: Unix sockets for both protocols, and the pages over HTTP.

use crate::support::{Cache, Sql, server};
use std::collections::BTreeSet;
use std::time::Duration;

#[test]
fn both_protocols_work_over_unix_sockets() {
    let home = tempfile::tempdir().unwrap();
    let (mysql, memcached) = (home.path().join("mysql.sock"), home.path().join("mc.sock"));
    let mut server = server()
        .arg("--mysql-socket", &mysql)
        .arg("--memcached-socket", &memcached)
        .start();
    assert_eq!(server.socket("mysql-socket"), Some(mysql.as_path()));
    assert_eq!(server.socket("memcached-socket"), Some(memcached.as_path()));
    let mut sql = Sql::connect_unix(&mysql);
    let mut cache = Cache::connect_unix(&memcached);
    assert_eq!(cache.set("over", "a socket"), "STORED");
    let select = "select value from ndbmemcache.kv where mkey = 'over'";
    assert_eq!(sql.rows(select), [["a socket"]]);
    sql.run("update ndbmemcache.kv set value = 'sql' where mkey = 'over'");
    assert_eq!(cache.get("over").unwrap(), "sql");
    // TCP leads to the same rows.
    assert_eq!(
        Cache::connect(server.memcached_addr).get("over").unwrap(),
        "sql"
    );
    assert_eq!(Sql::connect(server.mysql_addr).rows(select), [["sql"]]);
    assert!(server.terminate().success());
    assert!(
        !mysql.exists() && !memcached.exists(),
        "sockets are removed"
    );
    // A socket's file that a crash left behind is no hindrance.
    server.restart();
    server.kill9();
    assert!(mysql.exists());
    server.restart();
    assert_eq!(Sql::connect_unix(&mysql).rows(select), [["sql"]]);
}

#[test]
fn a_listener_that_is_off_is_not_open() {
    let home = tempfile::tempdir().unwrap();
    let mysql = home.path().join("mysql.sock");
    let server = server()
        .arg("--mysql-socket", &mysql)
        .arg("--mysql-listen", "off")
        .arg("--memcached-listen", "off")
        .arg("--http-listen", "off")
        .start();
    assert_eq!(server.mysql_addr.port(), 0);
    assert_eq!(server.memcached_addr.port(), 0);
    assert_eq!(server.http_addr.port(), 0);
    assert_eq!(Sql::connect_unix(&mysql).number("select 1"), 1);
}

/// The value of a metric without labels.
fn metric(page: &str, name: &str) -> f64 {
    let found = page
        .lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    found
        .unwrap_or_else(|| panic!("no {name} in\n{page}"))
        .parse()
        .unwrap()
}

#[test]
fn health_and_metrics_report_work_of_both_protocols() {
    let server = server().start();
    let (status, _) = server.http("/health");
    assert_eq!(status, 200);
    let (_, before) = server.http("/metrics");
    let mut sql = Sql::connect(server.mysql_addr);
    let mut cache = Cache::connect(server.memcached_addr);
    sql.run("create database d");
    sql.run("create table d.t (id int primary key)");
    for n in 0..10 {
        sql.run(&format!("insert into d.t values ({n})"));
        assert_eq!(cache.set(&format!("k{n}"), "v"), "STORED");
    }
    let (status, after) = server.http("/metrics");
    assert_eq!(status, 200);
    for line in after.lines().filter(|line| !line.is_empty()) {
        let is_comment = line.starts_with("# HELP ") || line.starts_with("# TYPE ");
        let value = line.rsplit(' ').next().unwrap();
        assert!(is_comment || value.parse::<f64>().is_ok(), "{line}");
    }
    let grown = |name: &str| metric(&after, name) - metric(&before, name);
    assert!(grown("porpoise_requests_total") >= 22.0);
    assert!(grown("porpoise_connections_accepted_total") >= 2.0);
    let inserts = "porpoise_sql_statement_duration_seconds_count{class=\"insert\"}";
    assert!((grown(inserts) - 10.0).abs() < 0.5);
}

#[test]
fn the_metrics_show_phases_sizes_and_old_snapshots() {
    let server = server().start();
    let mut sql = Sql::connect(server.mysql_addr);
    sql.run(
        "create database d; create table d.t (id int primary key, v varchar(3000), key (v(20)))",
    );
    for n in 0..500 {
        sql.run(&format!("insert into d.t values ({n}, repeat('x', 1000))"));
    }
    // A snapshot that another session keeps while a row is changed.
    let mut old = Sql::connect(server.mysql_addr);
    old.run("start transaction with consistent snapshot");
    sql.run("update d.t set v = repeat('y', 1000)");
    let page = server.wait_for("an old snapshot", Duration::from_secs(20), || {
        let (_, page) = server.http("/metrics");
        (metric(&page, "porpoise_engine_oldest_snapshot_seconds") >= 1.0).then_some(page)
    });
    // One statement in 64 is measured on average, at least one in 127; so are deferred replies.
    for phase in ["parse", "execute", "durability_wait"] {
        let name = format!("porpoise_phase_duration_seconds_count{{phase=\"{phase}\"}}");
        assert!(metric(&page, &name) >= 3.0, "{phase}");
        let buckets =
            format!("porpoise_phase_duration_seconds_bucket{{phase=\"{phase}\",le=\"1\"}}");
        assert!(
            !page.contains(&buckets),
            "limits are powers of two of microseconds"
        );
    }
    let of_sync = |what: &str| {
        metric(
            &page,
            &format!("porpoise_engine_log_sync_duration_seconds_{what}"),
        )
    };
    let syncs = of_sync("count");
    assert!(syncs >= 3.0 && of_sync("sum") > 0.0, "{page}");
    assert_eq!(of_sync("bucket{le=\"+Inf\"}"), syncs);
    metric(&page, "porpoise_engine_checkpoint_duration_seconds_count");
    let table = "{database=\"d\",table=\"t\"}";
    let data = metric(&page, &format!("porpoise_table_data_bytes{table}"));
    // Both versions of each row are kept for the snapshot.
    assert!((1_000_000.0..1_300_000.0).contains(&data), "{data}");
    let index = metric(&page, &format!("porpoise_table_index_bytes{table}"));
    assert!((20_000.0..200_000.0).contains(&index), "{index}");
    for part in [
        "rows",
        "indexes",
        "log_buffers",
        "connections",
        "memcached_cache",
        "hot_keys",
    ] {
        metric(&page, &format!("porpoise_memory_bytes{{part=\"{part}\"}}"));
    }
    assert!(metric(&page, "porpoise_memory_bytes{part=\"rows\"}") >= data + index);
    old.run("rollback");
    server.wait_for("the versions to be freed", Duration::from_secs(20), || {
        let (_, page) = server.http("/metrics");
        let data = metric(&page, &format!("porpoise_table_data_bytes{table}"));
        let age = metric(&page, "porpoise_engine_oldest_snapshot_seconds");
        (data < 700_000.0 && age < 1.0).then_some(())
    });
    let status = sql.rows(
        "select data_length, index_length, avg_row_length from information_schema.tables \
         where table_schema = 'd'",
    );
    let sizes: Vec<f64> = status[0].iter().map(|cell| cell.parse().unwrap()).collect();
    assert!((500_000.0..700_000.0).contains(&sizes[0]), "{sizes:?}");
    assert!(
        sizes[1] > 20_000.0 && (1000.0..1400.0).contains(&sizes[2]),
        "{sizes:?}"
    );
}

/// The names of our metrics in a text.
fn metric_names(text: &str) -> BTreeSet<&str> {
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let words = text.split(|c| !is_name(c));
    words
        .filter(|word| word.starts_with("porpoise_") || word.starts_with("process_"))
        .collect()
}

#[test]
fn every_metric_of_the_dashboard_and_the_alert_rules_exists() {
    // The metrics of the archive and of traces exist only if the server archives its log and exports traces.
    let archive = tempfile::tempdir().unwrap();
    let server = server()
        .arg("--archive-to", archive.path())
        .arg("--otlp-endpoint", "http://127.0.0.1:9")
        .start();
    let (_, page) = server.http("/metrics");
    let known = metric_names(&page);
    for file in ["grafana.json", "alerts.yml"] {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../deploy/");
        let text = std::fs::read_to_string(format!("{path}{file}")).unwrap();
        let used = metric_names(&text);
        assert!(used.len() > 5, "{file}: {used:?}");
        let unknown: Vec<_> = used.difference(&known).collect();
        assert!(unknown.is_empty(), "{file}: {unknown:?}");
    }
}
