//! PostgreSQL, with every layout of the table, and with a password.

use crate::support::{exercise, start, store};
use porpoise_bench::connect::{Access, Admin, Endpoint};
use porpoise_bench::experiments::store::Layout;
use porpoise_bench::peers::Peer;

#[test]
fn every_operation_on_every_layout() {
    let running = start(Peer::Postgres, None);
    let endpoint = Endpoint {
        target: running.started.target.clone(),
        access: Access::Postgres,
    };
    for layout in [Layout::Plain, Layout::Hstore, Layout::Jsonb] {
        exercise(&store(layout, ""), &endpoint);
    }
    logs_in_with_a_password(&endpoint, running.home.path());
}

/// Switches the server to SCRAM; the right password is let in, a wrong one is
/// not.
fn logs_in_with_a_password(endpoint: &Endpoint, home: &std::path::Path) {
    let mut admin = Admin::connect(&endpoint.target).unwrap();
    admin
        .run("create role joe login password 'caf\u{e9} secret'")
        .unwrap();
    let place = std::fs::read_dir(home).unwrap().flatten().next().unwrap();
    let access = place.path().join("data/pg_hba.conf");
    let rules = std::fs::read_to_string(&access).unwrap();
    let rule = "host all joe 127.0.0.1/32 scram-sha-256\n";
    std::fs::write(&access, format!("{rule}{rules}")).unwrap();
    admin.run("select pg_reload_conf()").unwrap();
    let mut target = endpoint.target.clone();
    target.user = "joe".to_owned();
    target.password = "wrong".to_owned();
    // The new rules hold a moment after the reload.
    let begun = std::time::Instant::now();
    let refusal = loop {
        match Admin::connect(&target) {
            Err(error) => break error,
            Ok(_) if begun.elapsed().as_secs() > 10 => panic!("a wrong password was let in"),
            Ok(_) => std::thread::sleep(std::time::Duration::from_millis(20)),
        }
    };
    assert!(refusal.message.contains("28P01"), "{refusal}");
    target.password = "caf\u{e9} secret".to_owned();
    let mut joe = Admin::connect(&target).unwrap();
    let name = joe.value("select current_user").unwrap();
    assert_eq!(name.as_deref(), Some("joe"));
}
