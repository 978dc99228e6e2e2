//! The screen that `serve` prints once it is ready: where it listens, where the data are, and what is not
//! safe about the configuration.

use crate::config::exposure::non_loopback;
use crate::config::{Config, DurabilityChoice, EngineChoice, TlsMode};
use std::fmt::Write;
use std::os::unix::fs::MetadataExt;
use std::path::absolute;

/// Formats the screen. `lines`: names and addresses of the listeners.
pub fn render(
    config: &Config,
    lines: &[(&'static str, String)],
    root_has_password: bool,
) -> String {
    let mut text = format!(
        "\nPorpoise {}, process {}\n\n",
        env!("CARGO_PKG_VERSION"),
        std::process::id()
    );
    for (name, place) in lines {
        put(&mut text, listener(name), &place_and_command(name, place));
    }
    put(&mut text, "data", &data(config));
    let warnings = warnings(config, root_has_password, is_root());
    for warning in &warnings {
        put(&mut text, "NOT SAFE", warning);
    }
    text.push('\n');
    text
}

fn put(text: &mut String, name: &str, value: &str) {
    // Writing into a String does not fail.
    let _ = writeln!(text, "  {name:<18} {value}");
}

/// Name of a listener for people.
fn listener(name: &str) -> &str {
    match name {
        "mysql" => "MySQL",
        "mysql-socket" => "MySQL, socket",
        "memcached" | "memcached-listener" => "memcached",
        "memcached-socket" => "memcached, socket",
        "native" => "native",
        "rest" => "REST",
        "http" => "HTTP",
        other => other,
    }
}

/// An address with the command that connects to it.
fn place_and_command(name: &str, place: &str) -> String {
    let port = place.rsplit_once(':').map_or(place, |(_, port)| port);
    let command = match name {
        "mysql" if port == "3306" => "porpoise sql".to_owned(),
        "mysql" => format!("porpoise sql -P {port}"),
        "mysql-socket" => format!("porpoise sql -S {place}"),
        "memcached" if port == "11211" => "porpoise mc".to_owned(),
        "memcached" | "memcached-listener" => format!("porpoise mc -P {port}"),
        "memcached-socket" => format!("porpoise mc -S {place}"),
        "rest" => format!("http://{place}/v1/openapi.json"),
        "http" => format!("http://{place}/, /health, /metrics"),
        _ => String::new(),
    };
    format!("{place:<24} {command}").trim_end().to_owned()
}

fn data(config: &Config) -> String {
    let directory = absolute(&config.data_dir).unwrap_or_else(|_| config.data_dir.clone());
    let durability = match config.durability {
        DurabilityChoice::Sync => "sync".to_owned(),
        DurabilityChoice::Interval => format!("interval {:?}", config.durability_interval),
        DurabilityChoice::Memory => "memory".to_owned(),
    };
    match &config.engine {
        EngineChoice::Embedded => format!("{}, durability {durability}", directory.display()),
        EngineChoice::Tikv(url) => format!("TiKV cluster at {}", url.addresses.join(", ")),
    }
}

/// Whether the process runs as the system's superuser.
fn is_root() -> bool {
    std::fs::metadata("/proc/self").is_ok_and(|process| process.uid() == 0)
}

/// Warnings: what others could do, what can be lost, and the remedy.
fn warnings(config: &Config, root_has_password: bool, is_root: bool) -> Vec<String> {
    let mut found = Vec::new();
    let mut warn = |applies: bool, text: &str| {
        if applies {
            found.push(text.to_owned());
        }
    };
    let is_embedded = config.engine == EngineChoice::Embedded;
    warn(
        !root_has_password,
        "root has no password, so every user of this machine is root here: ALTER USER root IDENTIFIED BY ...",
    );
    warn(
        is_embedded && config.durability == DurabilityChoice::Memory,
        "nothing is written to disk: all rows are lost when the server ends (--durability sync)",
    );
    warn(
        is_embedded && config.durability == DurabilityChoice::Interval,
        "a crash loses the commits of the last interval (--durability sync)",
    );
    let memcached = non_loopback(config.memcached_listen);
    warn(
        memcached.is_some() && config.memcached_tls != TlsMode::Required,
        "other machines reach memcached without TLS, passwords in the clear (--memcached-tls required)",
    );
    warn(
        memcached.is_some() && config.memcached_account.is_some(),
        "other machines use memcached without a password (--memcached-account off)",
    );
    warn(
        non_loopback(config.http_listen).is_some(),
        "other machines read the metrics without a password (--http-listen 127.0.0.1:PORT)",
    );
    warn(
        (non_loopback(config.mysql_listen).is_some() || memcached.is_some())
            && config.tls_cert.is_none(),
        "clients cannot verify the certificate, which the server has made itself (--tls-cert, --tls-key)",
    );
    warn(
        is_root,
        "the server runs as the system's root: use an account of its own",
    );
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::table;

    #[test]
    fn a_safe_configuration_has_no_warnings() {
        assert_eq!(
            warnings(&table::defaults(), true, false),
            Vec::<String>::new()
        );
    }

    #[test]
    fn each_danger_is_named_with_its_remedy() {
        let mut config = table::defaults();
        assert_eq!(warnings(&config, false, true).len(), 2);
        config.durability = DurabilityChoice::Memory;
        config.mysql_listen = "0.0.0.0:3306".parse().ok();
        config.memcached_listen = "10.0.0.1:11211".parse().ok();
        config.http_listen = "[::]:80".parse().ok();
        let text = warnings(&config, true, false).join("\n");
        for remedy in [
            "--durability sync",
            "--memcached-tls",
            "--memcached-account",
            "--http-listen",
            "--tls-cert",
        ] {
            assert!(text.contains(remedy), "{remedy} in\n{text}");
        }
        config.memcached_tls = TlsMode::Required;
        config.durability = DurabilityChoice::Interval;
        let text = warnings(&config, true, false).join("\n");
        assert!(
            !text.contains("--memcached-tls") && text.contains("last interval"),
            "{text}"
        );
    }

    #[test]
    fn the_screen_says_where_everything_is() {
        let lines = [
            ("mysql", "127.0.0.1:3307".to_owned()),
            ("memcached", "127.0.0.1:11211".to_owned()),
            ("http", "127.0.0.1:8380".to_owned()),
            ("mysql-socket", "/run/p.sock".to_owned()),
        ];
        let text = render(&table::defaults(), &lines, true);
        for part in [
            "porpoise sql -P 3307\n",
            "porpoise mc\n",
            "/health",
            "porpoise sql -S /run/p.sock",
            "porpoise-data, durability sync",
        ] {
            assert!(text.contains(part), "{part} in\n{text}");
        }
        assert!(text.lines().count() < 24);
    }
}
