//! `porpoise cluster` and `porpoise check --engine` as processes.

use porpoise_testkit::{Porpoise, TikvCluster, TikvDouble};
use std::process::{Command, Output};

fn run(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_porpoise"));
    command.args(arguments).output().unwrap()
}

fn text(output: &Output) -> String {
    let [out, err] = [&output.stdout, &output.stderr].map(|b| String::from_utf8_lossy(b));
    format!("{out}{err}")
}

#[test]
fn the_demonstration_kills_a_server_and_leaves_nothing_behind() {
    let home = tempfile::tempdir().unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_porpoise"))
        .args(["cluster", "demo", "--double"])
        .arg(TikvDouble::program())
        .env("TMPDIR", home.path())
        .output()
        .unwrap();
    let text = text(&output);
    assert!(output.status.success(), "{text}");
    assert!(text.contains("nothing is lost"), "{text}");
    assert_eq!(std::fs::read_dir(home.path()).unwrap().count(), 0);
    let refused = run(&["cluster", "demo"]);
    assert_eq!(refused.status.code(), Some(2));
}

#[test]
fn settings_are_generated_from_the_example() {
    let home = tempfile::tempdir().unwrap();
    let file = |name: &str| home.path().join(name).to_str().unwrap().to_owned();
    let (from, into) = (file("c.toml"), file("out"));
    assert!(run(&["cluster", "init", "--into", &from]).status.success());
    let generate = ["cluster", "generate", "--from", &from, "--into", &into];
    let output = run(&generate);
    assert!(output.status.success(), "{}", text(&output));
    // The program accepts the settings that it wrote for a server.
    let settings = file("out/app1.example.net/porpoise.toml");
    let output = run(&["config", "check", "--config", &settings]);
    assert!(output.status.success(), "{}", text(&output));
    let again = run(&[&generate[..], &["--check"]].concat());
    assert!(again.status.success(), "{}", text(&again));
    std::fs::write(&from, "name = 1").unwrap();
    let refused = run(&generate);
    assert_eq!(refused.status.code(), Some(2));
    assert!(text(&refused).contains("c.toml"), "{}", text(&refused));
}

#[test]
fn a_cluster_is_checked_while_servers_use_it() {
    let store = TikvCluster::start();
    let server = Porpoise::builder().arg("--engine", store.engine()).start();
    let made = server.sql(
        "CREATE DATABASE d; CREATE TABLE d.t (id INT PRIMARY KEY, n INT, KEY (n)); \
         INSERT INTO d.t VALUES (1, 1), (2, 2)",
    );
    assert!(made.is_ok, "{made:?}");
    let output = run(&["check", "--engine", &store.engine()]);
    assert!(output.status.success(), "{}", text(&output));
    assert!(text(&output).contains("no problems"), "{}", text(&output));
    assert!(server.sql("INSERT INTO d.t VALUES (3, 3)").is_ok);
    let members = "SELECT COUNT(*) FROM information_schema.CLUSTER_SERVERS";
    assert_eq!(server.sql(members).stdout.trim(), "1");
    let refused = run(&["check", "--engine", "tikv://127.0.0.1:1?connect-timeout=1s"]);
    assert_eq!(refused.status.code(), Some(2));
}
