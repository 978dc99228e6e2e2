//! Tests of precedence, and of errors that name the source of a value.

use super::*;
use std::io::Write;

fn none(_: &str) -> Option<String> {
    None
}

fn options(pairs: &[(&'static str, &str)]) -> Values {
    pairs.iter().map(|(k, v)| (*k, (*v).to_owned())).collect()
}

fn file(text: &str) -> tempfile::NamedTempFile {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(text.as_bytes()).unwrap();
    file
}

#[test]
fn option_beats_variable_beats_file_beats_default() {
    let file = file("max_connections = 1\nmax_running_statements = 2\nworker_groups = 3\n");
    let variable = |name: &str| match name {
        "PORPOISE_MAX_CONNECTIONS" => Some("10".to_owned()),
        "PORPOISE_MAX_RUNNING_STATEMENTS" => Some("20".to_owned()),
        _ => None,
    };
    let config = resolve(
        &options(&[("max-connections", "100")]),
        &variable,
        Some(file.path()),
    )
    .unwrap();
    assert_eq!(config.max_connections, 100);
    assert_eq!(config.max_running_statements, 20);
    assert_eq!(config.worker_groups, 3);
    assert_eq!(config.mysql_listen, Some("127.0.0.1:3306".parse().unwrap()));
    assert_eq!(
        config.memcached_listen,
        Some("127.0.0.1:11211".parse().unwrap())
    );
    assert_eq!(config.http_listen, Some("127.0.0.1:8380".parse().unwrap()));
}

#[test]
fn every_setting_accepts_its_default() {
    for setting in table::SETTINGS {
        let mut config = table::defaults();
        if !setting.default.is_empty() {
            (setting.apply)(&mut config, setting.default).unwrap();
        }
    }
}

#[test]
fn off_disables_listeners() {
    let off = [
        ("mysql-listen", "off"),
        ("memcached-listen", "off"),
        ("http-listen", "off"),
        ("mysql-socket", "off"),
    ];
    let config = resolve(&options(&off), &none, None).unwrap();
    assert_eq!(config.mysql_listen, None);
    assert_eq!(config.memcached_listen, None);
    assert_eq!(config.http_listen, None);
    assert_eq!(config.mysql_socket, None);
}

#[test]
fn the_error_for_a_bad_value_names_its_source_and_the_accepted_values() {
    let error = resolve(&options(&[("durability", "often")]), &none, None).unwrap_err();
    assert_eq!(
        error.message,
        "--durability: \"often\" is not sync, interval or memory"
    );
    assert_eq!(error.status, 2);
    let variable = |name: &str| (name == "PORPOISE_ENGINE").then(|| "rocks".to_owned());
    let error = resolve(&Values::new(), &variable, None).unwrap_err();
    assert!(
        error
            .message
            .starts_with("PORPOISE_ENGINE: \"rocks\" is not ")
    );
    let bad = file("\n\nmax_connections = \"many\"\n");
    let error = resolve(&Values::new(), &none, Some(bad.path())).unwrap_err();
    assert!(error.message.starts_with("max_connections in "), "{error}");
}

#[test]
fn the_error_for_a_bad_file_names_the_line() {
    let bad = file("mysql_listen = \"off\"\nmemcached_listen off\n");
    let error = resolve(&Values::new(), &none, Some(bad.path())).unwrap_err();
    assert!(error.message.contains("line 2: "), "{error}");
    let unknown = file("colour = \"blue\"\n");
    let error = resolve(&Values::new(), &none, Some(unknown.path())).unwrap_err();
    assert!(
        error.message.ends_with("unknown setting \"colour\""),
        "{error}"
    );
    let error = resolve(&Values::new(), &none, Some(Path::new("/no/such"))).unwrap_err();
    assert!(error.message.starts_with("/no/such: "), "{error}");
    assert!(!error.message.contains('\n'));
}

#[test]
fn tikv_takes_several_addresses() {
    let config = resolve(&options(&[("engine", "tikv://a:1,b:2")]), &none, None).unwrap();
    let EngineChoice::Tikv(url) = config.engine else {
        panic!("not a cluster");
    };
    assert_eq!(url.addresses, ["a:1", "b:2"]);
    assert!(resolve(&options(&[("engine", "tikv://")]), &none, None).is_err());
}
