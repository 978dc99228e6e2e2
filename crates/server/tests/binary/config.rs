//! `porpoise config`, and what SIGHUP puts in force.

use porpoise_testkit::{Porpoise, wait_until};
use std::process::{Command, Output};
use std::time::Duration;

fn config(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_porpoise"));
    for (name, _) in std::env::vars().filter(|(n, _)| n.starts_with("PORPOISE_")) {
        command.env_remove(name);
    }
    command.env("PORPOISE_WORKER_GROUPS", "3");
    command.arg("config").args(arguments).output().unwrap()
}

#[test]
fn effective_settings_are_shown_with_their_sources() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("porpoise.toml");
    std::fs::write(&file, "max_connections = 77\nworker_groups = 5\n").unwrap();
    let file = file.to_str().unwrap();
    let done = config(&["show", "--config", file, "--log", "debug"]);
    let text = String::from_utf8(done.stdout).unwrap();
    let line = |name: &str| {
        let line = text.lines().find(|l| l.starts_with(&format!("{name} ")));
        line.unwrap()
            .split_whitespace()
            .collect::<Vec<_>>()
            .join(" ")
    };
    assert_eq!(
        line("max-connections"),
        format!("max-connections 77 max_connections in {file}")
    );
    assert_eq!(
        line("worker-groups"),
        "worker-groups 3 PORPOISE_WORKER_GROUPS"
    );
    assert_eq!(line("log"), "log debug --log");
    assert_eq!(line("durability"), "durability sync default");
    let done = config(&["check", "--config", file]);
    assert!(done.status.success());
    assert_eq!(
        String::from_utf8_lossy(&done.stdout),
        "the configuration is valid\n"
    );
    for bad in [
        &["--max-connections", "many"][..],
        &["--log", "a=b=c"],
        &["--memcached-listen", "0.0.0.0:11211"],
        &["--tls-cert", "none.pem", "--tls-key", "none.pem"],
    ] {
        let done = config(&[&["check"], bad].concat());
        assert_eq!(done.status.code(), Some(2), "{bad:?}");
        assert_eq!(
            String::from_utf8_lossy(&done.stderr).lines().count(),
            1,
            "{bad:?}"
        );
    }
}

/// The certificate that a server presents, in DER.
fn presented(server: &Porpoise) -> String {
    let script = format!(
        "openssl s_client -starttls mysql -connect {} </dev/null 2>/dev/null | openssl x509 -fingerprint -noout",
        server.mysql_addr
    );
    let done = Command::new("bash").args(["-c", &script]).output().unwrap();
    String::from_utf8(done.stdout).unwrap()
}

fn write_certificate(dir: &std::path::Path) {
    let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    std::fs::write(dir.join("cert.pem"), made.cert.pem()).unwrap();
    std::fs::write(dir.join("key.pem"), made.signing_key.serialize_pem()).unwrap();
}

#[test]
fn sighup_puts_changes_in_force_and_a_bad_file_changes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("porpoise.toml");
    let write = |text: &str| {
        let (cert, key) = (dir.path().join("cert.pem"), dir.path().join("key.pem"));
        let paths = format!("tls_cert = {cert:?}\ntls_key = {key:?}\n");
        std::fs::write(&file, paths + text).unwrap();
    };
    write_certificate(dir.path());
    write("max_connections = 5\n");
    let server = Porpoise::builder().arg("--config", &file).start();
    let hang_up = |wanted: &str| {
        let id = server.id().to_string();
        assert!(
            Command::new("kill")
                .args(["-HUP", &id])
                .status()
                .unwrap()
                .success()
        );
        let seen = wait_until(Duration::from_secs(10), || {
            server.log().contains(wanted).then_some(())
        });
        assert!(seen.is_some(), "{wanted}: {}", server.log());
    };
    let first = presented(&server);
    assert!(first.contains("Fingerprint"), "{first}");
    // Nothing has changed but the certificate.
    write_certificate(dir.path());
    hang_up("certificates read again; no setting has changed");
    let second = presented(&server);
    assert!(second.contains("Fingerprint") && first != second);
    // A bad certificate, a bad value and an unknown setting change nothing.
    std::fs::write(dir.path().join("cert.pem"), "nothing").unwrap();
    write("max_connections = 1\n");
    hang_up("reload: nothing was changed");
    assert_eq!(presented(&server), second);
    write_certificate(dir.path());
    write("max_connections = \"few\"\n");
    hang_up("\"few\" is not");
    assert_eq!(presented(&server), second);
    // Limits and the log filter are put in force; others need a restart.
    write("max_connections = 9\nlog = \"debug\"\nworker_groups = 7\n");
    hang_up("reload: max-connections is \"9\", was \"5\"");
    hang_up("reload: worker-groups is \"7\" in the configuration; a restart puts it in force");
    assert!(server.log().contains("reload: log is \"debug\", was"));
    assert_ne!(presented(&server), second);
    let held: Vec<_> = (0..8)
        .map(|_| std::net::TcpStream::connect(server.memcached_addr).unwrap())
        .collect();
    let done = server.sql("SELECT @@global.max_connections");
    assert!(done.is_ok, "the ninth connection: {}", done.stderr);
    assert_eq!(done.stdout, "9\n");
    drop(held);
}

#[test]
fn each_command_has_a_manual_page_with_its_options() {
    let dir = tempfile::tempdir().unwrap();
    let into = dir.path().join("man");
    let porpoise = || Command::new(env!("CARGO_BIN_EXE_porpoise"));
    let done = porpoise()
        .arg("man")
        .arg("--into")
        .arg(&into)
        .output()
        .unwrap();
    assert!(done.status.success(), "{done:?}");
    let read = |name: &str| std::fs::read_to_string(into.join(name)).unwrap();
    // roff has hyphens and dashes escaped.
    let plain = |text: String| text.replace("\\-", "-");
    let index = plain(read("porpoise.1"));
    for command in [
        "serve", "config", "sql", "mc", "demo", "check", "salvage", "backup", "restore", "import",
    ] {
        assert!(
            index.contains(&format!("porpoise-{command}(1)")),
            "{command}: {index}"
        );
        let page = plain(read(&format!("porpoise-{command}.1")));
        assert!(
            page.starts_with(".ie") || page.contains(".TH "),
            "{command}"
        );
        let help = porpoise().args([command, "--help"]).output().unwrap();
        let help = String::from_utf8(help.stdout).unwrap();
        let options = help.split_whitespace().filter(|word| {
            let name = word.strip_prefix("--").unwrap_or_default();
            !name.is_empty() && name.chars().all(|c| c.is_ascii_lowercase() || c == '-')
        });
        for option in options {
            assert!(page.contains(option), "{command}: {option}");
        }
    }
    let show = plain(read("porpoise-config-show.1"));
    assert!(show.contains("--otlp-endpoint"));
}

#[test]
fn a_setting_that_needs_a_restart_is_reported_at_each_reload() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("porpoise.toml");
    std::fs::write(&file, "max_connections = 77\n").unwrap();
    let server = Porpoise::builder()
        .binary(env!("CARGO_BIN_EXE_porpoise"))
        .arg("--config", &file)
        .start();
    std::fs::write(&file, "max_connections = 77\nworker_groups = 5\n").unwrap();
    for reloads in 1..=2 {
        let pid = server.id().to_string();
        assert!(
            Command::new("kill")
                .args(["-HUP", &pid])
                .status()
                .unwrap()
                .success()
        );
        server.wait_for("the warning", Duration::from_secs(20), || {
            let warnings = server.log().matches("worker-groups is \"5\"").count();
            (warnings == reloads).then_some(())
        });
    }
}
