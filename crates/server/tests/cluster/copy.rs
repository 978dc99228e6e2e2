//! Moving databases between the embedded engine and a cluster: `porpoise copy`, `porpoise import`.

use super::PATIENCE;
use porpoise_testkit::{Porpoise, TikvCluster};
use std::path::Path;
use std::process::{Command, Output, Stdio};

fn copy(from: &str, to: &str) -> (Option<i32>, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_porpoise"));
    let output: Output = command
        .args(["copy", "--from", from, "--to", to])
        .output()
        .unwrap();
    let [out, err] = [&output.stdout, &output.stderr].map(|b| String::from_utf8_lossy(b));
    (output.status.code(), format!("{out}{err}"))
}

fn text(path: &Path) -> String {
    path.to_str().unwrap().to_owned()
}

/// Objects of all kinds; a deleted row of the system's own tables.
const OBJECTS: &str = "
    CREATE DATABASE d; USE d;
    CREATE TABLE p (id INT PRIMARY KEY, name VARCHAR(20) UNIQUE);
    CREATE TABLE c (id BIGINT PRIMARY KEY AUTO_INCREMENT, p INT, said VARCHAR(200), twice INT AS (p * 2) STORED, at TIMESTAMP(3),
                    money DECIMAL(10, 2), j JSON, b BLOB, KEY (twice), FULLTEXT (said), CHECK (p < 1000),
                    FOREIGN KEY (p) REFERENCES p (id) ON DELETE CASCADE);
    CREATE TABLE nokey (a INT, b INT);
    CREATE TABLE parts (id INT PRIMARY KEY, n INT) PARTITION BY HASH (id) PARTITIONS 4;
    CREATE TABLE large (id INT PRIMARY KEY, b LONGBLOB);
    INSERT INTO p SELECT 1 + a.n * 10 + b.n, CONCAT('p', a.n * 10 + b.n) FROM
        (SELECT 0 n UNION SELECT 1 UNION SELECT 2 UNION SELECT 3 UNION SELECT 4 UNION SELECT 5 UNION SELECT 6) a,
        (SELECT 0 n UNION SELECT 1 UNION SELECT 2 UNION SELECT 3 UNION SELECT 4 UNION SELECT 5 UNION SELECT 6) b;
    INSERT INTO c (p, said, at, money, j, b) SELECT x.id, CONCAT('some words of ', x.name), '2026-01-02 03:04:05.678', x.id / 3,
        JSON_OBJECT('n', y.id), CONCAT(x'00ff', y.name) FROM p x, p y WHERE y.id < 12;
    INSERT INTO nokey VALUES (1, 2), (1, 2), (3, NULL);
    INSERT INTO parts VALUES (1, 1), (2, 2), (3, 3), (4, 4), (5, 5);
    INSERT INTO large VALUES (1, REPEAT('x', 3000000)), (2, REPEAT('y', 3000000)), (3, '');
    ALTER TABLE c AUTO_INCREMENT = 5000;
";

const PROGRAMS: &str = "
    USE d;
    CREATE VIEW first_view AS SELECT id FROM c; CREATE VIEW v AS SELECT id FROM first_view;
    CREATE PROCEDURE pr() SELECT 7; CREATE FUNCTION f(n INT) RETURNS INT DETERMINISTIC RETURN n + 1;
    CREATE TRIGGER tr BEFORE INSERT ON p FOR EACH ROW SET NEW.name = CONCAT('t-', NEW.name);
    CREATE EVENT e ON SCHEDULE EVERY 1 DAY DISABLE DO SELECT 1;
    ANALYZE TABLE c UPDATE HISTOGRAM ON money WITH 8 BUCKETS;
    CREATE USER u IDENTIFIED BY 'secret word'; GRANT SELECT ON d.* TO u;
    SET PERSIST max_execution_time = 4321;
    DELETE FROM ndbmemcache.key_prefixes WHERE key_prefix = '';
";

/// Lines that describe everything: the same on source and copy.
fn describe(server: &Porpoise) -> String {
    let done = server.sql(
        "CHECKSUM TABLE d.p, d.c, d.parts, d.large; SELECT * FROM d.nokey; SELECT COUNT(*), SUM(twice) FROM d.c;
         SHOW CREATE TABLE d.c; SHOW CREATE TABLE d.parts; SELECT COUNT(*) FROM d.v; CALL d.pr(); SELECT d.f(1);
         SELECT COUNT(*) FROM d.c WHERE MATCH (said) AGAINST ('words');
         SELECT COUNT(*), LENGTH(MIN(b)), MD5(MAX(b)) FROM d.large;
         SHOW CREATE TRIGGER d.tr; SHOW CREATE EVENT d.e; SHOW GRANTS FOR u;
         SELECT user, host, authentication_string FROM mysql.user ORDER BY 1, 2;
         SELECT COLUMN_NAME FROM information_schema.COLUMN_STATISTICS;
         SELECT @@GLOBAL.max_execution_time; SELECT * FROM ndbmemcache.key_prefixes; SELECT COUNT(*) FROM ndbmemcache.containers",
    );
    assert!(done.is_ok, "{}", done.stderr);
    done.stdout
}

#[test]
fn a_database_is_copied_to_a_cluster_and_back() {
    let scratch = tempfile::tempdir().unwrap();
    let dir = scratch.path().join("data");
    let store = TikvCluster::start();
    let engine = store.engine();
    let mut server = Porpoise::builder().data_dir(&dir).start();
    for statements in [OBJECTS, PROGRAMS] {
        let made = server.sql(statements);
        assert!(made.is_ok, "{}", made.stderr);
    }
    let before = describe(&server);
    let (status, output) = copy(&text(&dir), &engine);
    assert_eq!(status, Some(2), "a server uses the source: {output}");
    assert!(server.terminate().success());

    // What an interrupted copy has left is replaced.
    let (status, output) = {
        let mut left = Porpoise::builder()
            .arg("--engine", &engine)
            .arg("--cluster-lease", "3s")
            .start();
        let made = left.sql(
            "CREATE DATABASE porpoise_copy_unfinished; CREATE DATABASE d; CREATE TABLE d.p (id INT PRIMARY KEY);
             CREATE TABLE d.junk (id INT PRIMARY KEY); INSERT INTO d.p VALUES (4711)",
        );
        assert!(made.is_ok, "{}", made.stderr);
        let (status, output) = copy(&text(&dir), &engine);
        assert_eq!(status, Some(2), "{output}");
        assert!(output.contains("uses the cluster"), "{output}");
        assert!(left.terminate().success());
        copy(&text(&dir), &engine)
    };
    assert_eq!(status, Some(0), "{output}");
    assert!(output.contains("rows copied"), "{output}");
    let (status, output) = copy(&text(&dir), &engine);
    assert_eq!(status, Some(2), "{output}");
    assert!(output.contains("has data already"), "{output}");

    let mut on_cluster = Porpoise::builder().arg("--engine", &engine).start();
    assert_eq!(describe(&on_cluster), before);
    let tables = on_cluster.sql("SHOW DATABASES LIKE 'porpoise%'; SHOW TABLES FROM d LIKE 'junk'");
    assert_eq!(tables.stdout.trim(), "");
    // Ids go on where they were, and constraints hold.
    let next = on_cluster.sql("INSERT INTO d.c (p) VALUES (1); SELECT MAX(id) >= 5000 FROM d.c");
    assert_eq!(next.stdout.trim(), "1", "{}", next.stderr);
    let refused = on_cluster.sql("INSERT INTO d.c (p) VALUES (999)");
    assert_eq!(refused.error_number(), Some(1452));
    assert!(on_cluster.sql("DELETE FROM d.c WHERE id >= 5000").is_ok);
    assert!(on_cluster.terminate().success());

    let back = scratch.path().join("back");
    let (status, output) = copy(&engine, &text(&back));
    assert_eq!(status, Some(0), "{output}");
    let (status, output) = copy(&engine, &text(&back));
    assert_eq!(status, Some(2), "the directory exists: {output}");
    let check = Command::new(env!("CARGO_BIN_EXE_porpoise"))
        .args(["check", "--data-dir", &text(&back)])
        .output()
        .unwrap();
    assert!(check.status.success(), "{check:?}");
    let again = Porpoise::builder().data_dir(&back).start();
    // The counter has moved on.
    let counter = |text: &str| {
        let from = text.find("AUTO_INCREMENT=").unwrap();
        let digits = text[from..].find(' ').unwrap();
        [&text[..from], &text[from + digits..]].concat()
    };
    assert_eq!(counter(&describe(&again)), counter(&before));
}

/// `porpoise import` moves a running server's databases to a cluster, and follows it until the cut-over.
#[test]
fn a_running_server_is_moved_to_a_cluster() {
    let store = TikvCluster::start();
    let source = Porpoise::builder().flag("--log-bin").start();
    let target = Porpoise::builder()
        .arg("--engine", store.engine())
        .arg("--server-id", "7")
        .start();
    let made = source.sql(
        "CREATE DATABASE d; CREATE TABLE d.p (id INT PRIMARY KEY);
         CREATE TABLE d.c (id INT PRIMARY KEY AUTO_INCREMENT, p INT, said VARCHAR(20),
                           FOREIGN KEY (p) REFERENCES d.p (id) ON DELETE CASCADE);
         INSERT INTO d.p VALUES (1), (2), (3); INSERT INTO d.c (p, said) VALUES (1, 'a'), (2, 'b'), (3, 'c')",
    );
    assert!(made.is_ok, "{}", made.stderr);
    assert!(target.sql("SET GLOBAL local_infile = ON").is_ok);
    let url = |server: &Porpoise| format!("mysql://root@{}", server.mysql_addr);
    let import = |last: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_porpoise"));
        command.args(["import", &url(&source), "--into", &url(&target), last]);
        command
    };
    let rows = "SELECT * FROM d.c ORDER BY id; SELECT * FROM d.p";
    let is_equal = || {
        let found = target.sql(rows);
        (found.is_ok && found.stdout == source.sql(rows).stdout).then_some(())
    };
    let mut following = import("--follow")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    target.wait_for("the copy", PATIENCE, is_equal);
    let changed = source.sql(
        "DELETE FROM d.p WHERE id = 2; UPDATE d.c SET said = 'changed' WHERE id = 1; INSERT INTO d.c (p) VALUES (3)",
    );
    assert!(changed.is_ok, "{}", changed.stderr);
    target.wait_for("the changes", PATIENCE, is_equal);
    following.kill().unwrap();
    following.wait().unwrap();
    assert!(source.sql("SET GLOBAL read_only = 1").is_ok);
    let output = import("--cut-over").output().unwrap();
    assert!(output.status.success(), "{output:?}");
    assert!(is_equal().is_some());
    let refused = target.sql("INSERT INTO d.c (p) VALUES (2)");
    assert_eq!(refused.error_number(), Some(1452));
}

#[test]
fn places_that_cannot_be_copied_are_refused() {
    let scratch = tempfile::tempdir().unwrap();
    let missing = text(&scratch.path().join("missing"));
    let new = text(&scratch.path().join("new"));
    let (status, output) = copy(&missing, &new);
    assert_eq!(status, Some(2), "{output}");
    let (status, output) = copy(&missing, "tikv://");
    assert_eq!(status, Some(2), "{output}");
    let (status, output) = copy("tikv://127.0.0.1:1?connect-timeout=1s", &new);
    assert_eq!(status, Some(2), "{output}");
    assert!(!Path::new(&new).exists());
}
