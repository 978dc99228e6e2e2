//! MariaDB, statements as text and prepared.

use crate::support::{exercise, start, store};
use porpoise_bench::connect::{Access, Admin, Endpoint};
use porpoise_bench::experiments::store::Layout;
use porpoise_bench::peers::Peer;

#[test]
fn every_operation_by_both_forms_of_statement() {
    let running = start(Peer::Mariadb, None);
    let target = &running.started.target;
    for access in [Access::MysqlText, Access::MysqlPrepared] {
        let endpoint = Endpoint {
            target: target.clone(),
            access,
        };
        exercise(&store(Layout::Plain, ""), &endpoint);
    }
    assert!(
        running
            .started
            .settings
            .contains("flush_log_at_trx_commit=0")
    );
    let mut admin = Admin::connect(target).unwrap();
    let found = admin
        .value("select @@innodb_flush_log_at_trx_commit")
        .unwrap();
    assert_eq!(found.as_deref(), Some("0"), "what is stated is so");
    let pool = admin.value("select @@innodb_buffer_pool_size").unwrap();
    assert_eq!(pool.as_deref(), Some("1073741824"));
    assert!(running.home.path().exists());
}
