//! A server that cannot be reached is reported in one line that names it.

use crate::support::start;
use porpoise_bench::connect::{Access, Admin, Endpoint};
use porpoise_bench::peers::Peer;
use porpoise_bench::url::Target;

#[test]
fn a_wrong_password_and_a_wrong_protocol() {
    let running = start(Peer::Mariadb, None);
    let mut target = running.started.target.clone();
    target.password = "wrong".to_owned();
    let error = Admin::connect(&target).err().expect("a refusal");
    assert!(
        error.message.contains("MariaDB: 1045 Access denied"),
        "{error}"
    );
    // A client of PostgreSQL at a server of MySQL's protocol.
    let url = format!("postgres://127.0.0.1:{}", target.port);
    let endpoint = Endpoint {
        target: Target::parse(&url).unwrap(),
        access: Access::Postgres,
    };
    let error = endpoint.connect(&[]).err().expect("a refusal");
    assert!(error.message.starts_with("PostgreSQL: "), "{error}");
    assert!(!error.message.contains('\n'));
}

#[test]
fn a_host_that_is_not_there() {
    let target = Target::parse("mysql://no-such-host.invalid").unwrap();
    let error = Admin::connect(&target).err().expect("a refusal");
    assert!(
        error.message.contains("no-such-host.invalid:3306"),
        "{error}"
    );
}
