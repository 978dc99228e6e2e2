//! The audit log: logins, definitions, accounts; rotation; a disk that fails.

use crate::support::{Cache, Sql, server};
use serde_json::Value;
use std::path::Path;
use std::time::{Duration, Instant};

fn lines(path: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(path).unwrap();
    let line = |line: &str| serde_json::from_str(line).unwrap();
    text.lines().map(line).collect()
}

#[test]
fn logins_definitions_and_accounts_are_logged_without_passwords() {
    let directory = std::env::temp_dir().join(format!("porpoise-audit-{}", std::process::id()));
    std::fs::create_dir_all(&directory).unwrap();
    let path = directory.join("audit.log");
    let server = server().arg("--audit-log", &path).start();
    let mut sql = Sql::connect(server.mysql_addr);
    sql.run("CREATE DATABASE h; CREATE TABLE h.t (id INT PRIMARY KEY)");
    sql.run("INSERT INTO h.t VALUES (1)");
    sql.run("CREATE USER 'ann'@'%' IDENTIFIED BY 'hunter2'; GRANT SELECT ON h.* TO 'ann'@'%'");
    assert_eq!(sql.refused("CREATE TABLE h.t (id INT)").code, 1050);
    sql.run("PREPARE p FROM 'DROP TABLE h.t'; EXECUTE p");
    let mut command = std::process::Command::new("mariadb");
    command.args([
        "--no-defaults",
        "--protocol=tcp",
        "--user=ann",
        "--password=wrong",
    ]);
    command.arg(format!("--host={}", server.mysql_addr.ip()));
    command.arg(format!("--port={}", server.mysql_addr.port()));
    assert!(
        !command
            .args(["-e", "SELECT 1"])
            .output()
            .unwrap()
            .status
            .success()
    );
    let all = lines(&path);
    assert!(!std::fs::read_to_string(&path).unwrap().contains("hunter2"));
    let logins: Vec<_> = all.iter().filter(|line| line["event"] == "login").collect();
    let shown =
        |line: &Value| [&line["interface"], &line["user"], &line["outcome"]].map(Value::to_string);
    assert_eq!(shown(logins[0]), ["\"mysql\"", "\"root\"", "\"granted\""]);
    assert_eq!(shown(logins[1]), ["\"mysql\"", "\"ann\"", "\"denied\""]);
    let statements = all.iter().filter(|line| line["event"] == "statement");
    let statements: Vec<_> = statements
        .map(|line| {
            assert_eq!(
                (&line["version"], &line["user"]),
                (&Value::from(1), &Value::from("root"))
            );
            let text = line["text"].as_str().unwrap().to_owned();
            (
                line["class"].as_str().unwrap().to_owned(),
                text,
                line["error"].as_u64().unwrap(),
            )
        })
        .collect();
    let expected = [
        ("definition", "CREATE DATABASE h", 0),
        ("definition", "CREATE TABLE h.t (id INT PRIMARY KEY)", 0),
        ("account", "CREATE USER 'ann'@'%' IDENTIFIED BY ?", 0),
        ("account", "GRANT SELECT ON h.* TO 'ann'@'%'", 0),
        ("definition", "CREATE TABLE h.t (id INT)", 1050),
        ("definition", "DROP TABLE h.t", 0),
    ];
    let expected = expected.map(|(class, text, error)| (class.to_owned(), text.to_owned(), error));
    assert_eq!(statements, expected);
    // Rotation.
    let old = directory.join("audit.old");
    std::fs::rename(&path, &old).unwrap();
    sql.run("FLUSH LOGS; CREATE TABLE h.u (id INT)");
    assert_eq!(lines(&path).len(), 1);
    assert_eq!(lines(&old).len(), all.len());
    std::fs::remove_dir_all(directory).unwrap();
}

#[test]
fn a_log_that_cannot_be_written_stops_changes_only_if_it_is_required() {
    for required in ["off", "on"] {
        // Every write to /dev/full fails.
        let server = server()
            .arg("--audit-log", "/dev/full")
            .arg("--audit-log-required", required)
            .start();
        if required == "off" {
            let mut sql = Sql::connect(server.mysql_addr);
            sql.run("CREATE DATABASE h");
            let (_, metrics) = server.http("/metrics");
            assert!(
                metrics.contains("porpoise_audit_log_write_errors_total 2"),
                "{metrics}"
            );
        } else {
            // Refusals do not count as failed passwords, which would delay logins by 1, 2, 3, 4 and 5 seconds.
            let began = Instant::now();
            for _ in 0..8 {
                let mut command = std::process::Command::new("mariadb");
                command.args(["--no-defaults", "--protocol=tcp", "--user=root"]);
                command.arg(format!("--host={}", server.mysql_addr.ip()));
                command.arg(format!("--port={}", server.mysql_addr.port()));
                let done = command.args(["-e", "SELECT 1"]).output().unwrap();
                let stderr = String::from_utf8_lossy(&done.stderr).into_owned();
                assert!(stderr.contains("3164"), "{stderr}");
            }
            assert!(began.elapsed() < Duration::from_secs(12));
        }
        let mut cache = Cache::connect(server.memcached_addr);
        assert_eq!(cache.set("a", "1"), "STORED");
    }
}
