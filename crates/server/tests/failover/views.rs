//! How proxies, load balancers and operators find the server that takes writes.

use crate::group::{Group, GroupOptions, good};
use crate::load::connect;

const MEMBERS: &str = "SELECT MEMBER_ID, MEMBER_HOST, MEMBER_PORT, MEMBER_STATE, MEMBER_ROLE, MEMBER_VERSION \
    FROM performance_schema.replication_group_members ORDER BY MEMBER_PORT";

/// State and role of each member, by the place of the server; the witness is the last.
fn roles(group: &Group, asked: usize) -> Vec<String> {
    let role = |port: u16| {
        let query = format!(
            "SELECT CONCAT(MEMBER_STATE, ' ', MEMBER_ROLE) FROM performance_schema.replication_group_members WHERE MEMBER_PORT = {port}"
        );
        good(&group.servers[asked], &query).concat()
    };
    let servers = group.servers.iter().map(|s| role(s.mysql_addr.port()));
    let witness = good(
        &group.servers[asked],
        "SELECT CONCAT(MEMBER_STATE, ' ', MEMBER_ROLE) FROM performance_schema.replication_group_members WHERE MEMBER_ROLE = 'WITNESS'",
    );
    servers.chain(witness).collect()
}

fn wait_roles(group: &Group, asked: usize, expected: [&str; 3]) {
    group.wait(&format!("{expected:?} as server {asked} sees it"), || {
        (roles(group, asked) == expected).then_some(())
    });
}

#[test]
fn the_members_of_a_group_are_in_performance_schema() {
    let mut group = Group::start(&GroupOptions::default());
    for asked in [0, 1] {
        wait_roles(
            &group,
            asked,
            ["ONLINE PRIMARY", "ONLINE SECONDARY", "ONLINE WITNESS"],
        );
    }
    assert_eq!(
        good(&group.servers[0], MEMBERS),
        good(&group.servers[1], MEMBERS)
    );
    for server in &group.servers {
        let own = "SELECT MEMBER_PORT, MEMBER_VERSION = @@version, MEMBER_HOST FROM performance_schema.replication_group_members \
            JOIN performance_schema.replication_group_member_stats USING (MEMBER_ID) WHERE MEMBER_ID = @@server_uuid \
            AND COUNT_TRANSACTIONS_REMOTE_IN_APPLIER_QUEUE = 0";
        let port = server.mysql_addr.port();
        assert_eq!(good(server, own), [format!("{port}|1|127.0.0.1")]);
        // Whether the member may get reads, and writes, as ProxySQL asks servers with group replication.
        let asked = "SELECT IF((SELECT COUNT(*) FROM performance_schema.replication_group_members WHERE MEMBER_STATE != 'ONLINE') \
            >= (SELECT COUNT(*) FROM performance_schema.replication_group_members) / 2, 'NO', 'YES'), \
            (SELECT GROUP_CONCAT(VARIABLE_VALUE ORDER BY VARIABLE_NAME) FROM performance_schema.global_variables \
            WHERE VARIABLE_NAME IN ('read_only', 'super_read_only'))";
        let expected = match good(server, "SELECT @@server_id").concat().as_str() {
            "1" => "YES|OFF,OFF",
            _ => "YES|ON,ON",
        };
        assert_eq!(good(server, asked), [expected]);
    }
    let account = "CREATE USER monitor; GRANT REPLICATION CLIENT ON *.* TO monitor; CREATE USER guest; \
        GRANT SELECT ON performance_schema.replication_group_members TO monitor";
    good(&group.servers[0], account);
    group.compare();
    let read = |user: &str| {
        let mut connection = connect(group.servers[1].mysql_addr, user, "").unwrap();
        connection.execute("SELECT * FROM performance_schema.replication_group_members")
    };
    read("monitor").unwrap();
    let refused = read("guest").unwrap_err().to_string();
    assert!(refused.starts_with("ERROR 1142"), "{refused}");
    group.witness().kill9();
    wait_roles(
        &group,
        0,
        ["ONLINE PRIMARY", "ONLINE SECONDARY", "UNREACHABLE WITNESS"],
    );
    group.witness().restart();
    group.servers[0].kill9();
    wait_roles(
        &group,
        1,
        ["UNREACHABLE SECONDARY", "ONLINE PRIMARY", "ONLINE WITNESS"],
    );
    group.servers[0].restart();
    wait_roles(
        &group,
        0,
        ["ONLINE SECONDARY", "ONLINE PRIMARY", "ONLINE WITNESS"],
    );
}

#[test]
fn load_balancers_find_the_writer_by_http() {
    let mut group = Group::start(&GroupOptions::default());
    let status = |group: &Group, server: usize| {
        ["/primary", "/replica", "/health"].map(|path| group.servers[server].http(path).0)
    };
    assert_eq!(status(&group, 0), [200, 503, 200]);
    assert_eq!(status(&group, 1), [503, 200, 200]);
    let (_, reason) = group.servers[1].http("/primary");
    assert!(reason.contains("refuses the writes"), "{reason}");
    group.servers[0].kill9();
    group.wait_leads(1);
    assert_eq!(status(&group, 1), [200, 503, 200]);
    group.servers[0].restart();
    group.wait_in_sync();
    assert_eq!(status(&group, 0), [503, 200, 200]);
}

#[test]
fn topology_managers_get_what_they_ask_for() {
    let group = Group::start(&GroupOptions::default());
    for server in &group.servers {
        // The variables that orchestrator and gh-ost read.
        let variables = "SELECT @@global.hostname <> '', IFNULL(@@global.report_host, ''), @@global.server_id, @@global.version_comment <> '', \
            @@global.binlog_format, @@global.log_bin, @@global.log_slave_updates, @@global.log_replica_updates, @@global.gtid_mode, \
            @@global.enforce_gtid_consistency, @@global.binlog_row_image, @@global.gtid_purged, @@global.port";
        let id = good(server, "SELECT @@server_id").concat();
        let port = server.mysql_addr.port();
        assert_eq!(
            good(server, variables),
            [format!("1||{id}|1|ROW|1|1|1|ON|ON|FULL||{port}")]
        );
        for status in ["SHOW REPLICA STATUS", "SHOW SLAVE STATUS"] {
            let followed = good(server, status);
            assert_eq!(followed.len(), if id == "1" { 0 } else { 1 }, "{status}");
        }
    }
    let leader = &group.servers[0];
    for replicas in ["SHOW REPLICAS", "SHOW SLAVE HOSTS"] {
        let shown = good(leader, replicas).concat();
        assert!(shown.starts_with("2|"), "{replicas}: {shown}");
    }
    let dumps =
        "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE COMMAND LIKE 'Binlog Dump%'";
    assert_eq!(good(leader, dumps), ["1"]);
    let uptime = "SELECT VARIABLE_VALUE >= 0 FROM performance_schema.global_status WHERE VARIABLE_NAME = 'Uptime'";
    assert_eq!(good(leader, uptime), ["1"]);
}
