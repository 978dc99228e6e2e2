//! The command line: output of informational options, and errors with one line and exit status 2.

use std::net::TcpListener;
use std::process::Command;
use std::time::Duration;

use porpoise_testkit::{Finished, PorpoiseBuilder};

use crate::support::{Sql, server};

/// Runs a server that does not start; what it says.
fn refusal(builder: PorpoiseBuilder) -> String {
    let Finished {
        status,
        stdout,
        stderr,
    } = builder.run_to_end(Duration::from_secs(30));
    assert_eq!(status.code(), Some(2), "{stdout}{stderr}");
    assert_eq!(stdout, "");
    // Before it, the log may tell of a recovery.
    let is_log = |line: &&str| line.contains(" INFO ") || line.contains(" WARN ");
    let said: Vec<&str> = stderr.lines().filter(|line| !is_log(line)).collect();
    assert_eq!(said.len(), 1, "one line: {stderr}");
    assert!(said[0].starts_with("porpoise: "), "{stderr}");
    assert!(stderr.ends_with(&format!("{}\n", said[0])), "{stderr}");
    said[0].to_owned()
}

#[test]
fn a_taken_port_is_refused_with_a_free_one_and_the_option() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    for option in ["--mysql-listen", "--memcached-listen", "--http-listen"] {
        let said = refusal(server().arg(option, &address));
        assert!(said.contains(option) && said.contains(&address), "{said}");
        let advice = format!("{option} 127.0.0.1:");
        let (_, free) = said.split_once(&advice).expect("a free port");
        let free: u16 = free.trim().parse().unwrap();
        // The advice helps.
        let started = server().arg(option, format!("127.0.0.1:{free}")).start();
        let ports = [
            started.mysql_addr.port(),
            started.memcached_addr.port(),
            started.http_addr.port(),
        ];
        assert!(ports.contains(&free));
    }
}

#[test]
fn a_second_server_on_one_data_directory_is_refused_and_harms_nothing() {
    let mut first = server().start();
    let mut sql = Sql::connect(first.mysql_addr);
    sql.run("create database d");
    sql.run("create table d.t (id int primary key)");
    let directory = first.data_dir.display().to_string();
    let said = refusal(server().data_dir(&first.data_dir));
    assert!(said.contains(&directory), "{said}");
    sql.run("insert into d.t values (1)");
    first.restart();
    assert_eq!(
        Sql::connect(first.mysql_addr).number("select count(*) from d.t"),
        1
    );
}

#[test]
fn bad_options_and_places_are_refused() {
    let home = tempfile::tempdir().unwrap();
    let file = home.path().join("file");
    std::fs::write(&file, "").unwrap();
    let said = refusal(server().data_dir(file.join("data")));
    assert!(said.contains("data"), "{said}");
    for (option, value, word) in [
        ("--colour", "blue", "--colour"),
        ("--durability", "often", "often"),
        ("--engine", "oracle", "oracle"),
        ("--mysql-listen", "nowhere", "nowhere"),
        ("--memcached-role", "nobody", "nobody"),
        ("--test-fault", "seed=0", "--test-fault"),
        ("--noop-listen", "127.0.0.1:0", "--noop-listen"),
    ] {
        let said = refusal(server().arg(option, value));
        assert!(said.contains(word), "{option} {value}: {said}");
    }
    let config = home.path().join("porpoise.toml");
    std::fs::write(&config, "colour = \"blue\"\n").unwrap();
    let said = refusal(server().arg("--config", &config));
    assert!(said.contains("colour"), "{said}");
    let said = refusal(server().env("PORPOISE_DURABILITY", "often"));
    assert!(said.contains("often"), "{said}");
}

#[test]
fn an_unknown_role_is_refused_also_when_there_is_data() {
    let mut server = server().start();
    assert!(server.terminate().success());
    let builder = crate::support::server().data_dir(&server.data_dir);
    let said = refusal(builder.arg("--memcached-role", "nobody"));
    assert!(said.contains("--memcached-role"), "{said}");
}

#[test]
fn listeners_bind_loopback_while_root_has_no_password() {
    let said = refusal(server().arg("--mysql-listen", "0.0.0.0:0"));
    assert!(said.contains("password"), "{said}");
    let builder = server().env("PORPOISE_ROOT_PASSWORD", "secret");
    let said = refusal(builder.arg("--memcached-listen", "0.0.0.0:0"));
    assert!(said.contains("--insecure-memcached"), "{said}");
}

fn ask(argument: &str) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_porpoise"))
        .args(argument.split(' '))
        .output()
        .unwrap();
    assert!(output.status.success(), "{argument}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn version_and_help_are_told() {
    let version = ask("--version");
    assert!(version.starts_with("porpoise "), "{version}");
    assert!(version.contains(env!("CARGO_PKG_VERSION")), "{version}");
    assert!(ask("--help").contains("serve"));
    let help = ask("serve --help");
    for option in [
        "--config",
        "--data-dir",
        "--engine",
        "--durability",
        "--mysql-listen",
        "--mysql-socket",
        "--memcached-listen",
        "--memcached-socket",
        "--http-listen",
        "--memcached-role",
    ] {
        assert!(help.contains(option), "{option} is not in\n{help}");
    }
}
