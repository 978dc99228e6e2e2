//! The default table, which serves clients without any configuration.

use crate::in_process::InProcess;
use porpoise_testkit::Porpoise;
use porpoise_types::Value;

#[test]
fn keys_of_no_prefix_are_rows_of_the_default_table() {
    let server = InProcess::open();
    let answers = server.ask("set a:b 7 0 5\r\nhello\r\nadd a:b 0 0 1\r\nx\r\ngets a:b\r\n");
    assert!(
        answers.starts_with("STORED\r\nNOT_STORED\r\nVALUE a:b 7 5 "),
        "{answers}"
    );
    let row = server.row("ndbmemcache", "kv", &[Value::Bytes(b"a:b".to_vec())]);
    assert_eq!(row.unwrap(), ["a:b", "hello", "7", "0"]);
    assert_eq!(
        server.ask("delete a:b\r\nget a:b\r\n"),
        "DELETED\r\nEND\r\n"
    );
}

#[test]
fn a_half_closed_connection_gets_all_its_answers() {
    let server = InProcess::open();
    let request = "set a 0 0 1\r\nx\r\n".to_owned() + &"get  a \n".repeat(200);
    let answer = server.ask(&request);
    let expected = "STORED\r\n".to_owned() + &"VALUE a 0 1\r\nx\r\nEND\r\n".repeat(200);
    assert_eq!(answer, expected);
}

#[test]
fn commands_about_memcacheds_own_memory_are_unknown() {
    let server = InProcess::open();
    for line in [
        "lru tune 10 25 0.1 2.0",
        "lru_crawler metadump all",
        "slabs reassign 1 2",
        "watch fetchers",
        "extstore free_memchunks 1 2",
    ] {
        assert_eq!(server.ask(&format!("{line}\r\n")), "ERROR\r\n", "{line}");
    }
}

#[test]
fn an_unknown_role_is_a_command_line_error() {
    let finished = Porpoise::builder()
        .arg("--mysql-listen", "off")
        .arg("--memcached-role", "nobody")
        .run_to_end(std::time::Duration::from_secs(20));
    assert_eq!(finished.status.code(), Some(2));
    assert!(
        finished.stderr.contains("'nobody' is not in"),
        "{}",
        finished.stderr
    );
}

#[test]
fn another_role_has_other_prefixes() {
    let server = Porpoise::builder()
        .arg("--mysql-listen", "off")
        .arg("--memcached-role", "db-only")
        .start();
    let set = "set t:5 3 0 6\r\na\tb\t12\r\nget t:5\r\nset k 0 0 2\r\n17\r\nincr k 1\r\nget k\r\n";
    assert_eq!(
        server.memcached(set),
        "STORED\r\nVALUE t:5 3 6\r\na\tb\t12\r\nEND\r\n\
         STORED\r\n18\r\nVALUE k 0 2\r\n18\r\nEND\r\n"
    );
    assert_eq!(
        server.memcached("get b:1\r\nflush_all\r\nget k\r\n"),
        "END\r\nOK\r\nVALUE k 0 2\r\n18\r\nEND\r\n"
    );
}

#[test]
fn stats_count_and_can_be_reset() {
    let server = InProcess::open();
    server.ask("set a 0 0 1\r\nx\r\n");
    let stats = server.ask("stats\r\n");
    for name in [
        "pid",
        "uptime",
        "version",
        "curr_connections",
        "cmd_get",
        "cmd_set",
    ] {
        assert!(stats.contains(&format!("STAT {name} ")), "{name}: {stats}");
    }
    for figure in [
        "curr_items 1",
        "get_flushed 0",
        "accepting_conns 1",
        "bytes 0",
    ] {
        let line = format!("STAT {figure}\r\n");
        assert!(stats.contains(&line), "{figure}: {stats}");
    }
    // Counters are of the process, which runs other tests.
    for name in ["total_items", "evictions", "get_expired"] {
        assert!(stats.contains(&format!("STAT {name} ")), "{name}: {stats}");
    }
    assert!(stats.ends_with("END\r\n"));
    assert_eq!(server.ask("stats reset\r\n"), "RESET\r\n");
    assert!(
        server
            .ask("stats settings\r\n")
            .contains("STAT item_size_max 1048576\r\n")
    );
    let settings = server.ask("stats settings\r\n");
    assert!(settings.contains("STAT verbosity 0\r\n"), "{settings}");
    assert_eq!(server.ask("stats cachedump 1 0\r\n"), "END\r\n");
    assert_eq!(server.ask("stats detail on\r\n"), "OK\r\n");
    assert_eq!(server.ask("stats detail dump\r\n"), "END\r\n");
    assert_eq!(
        server.ask("stats sizes\r\n"),
        "STAT sizes_status disabled\r\nEND\r\n"
    );
    assert_eq!(server.ask("stats nothing\r\n"), "ERROR\r\n");
    let items = server.ask("stats items\r\n");
    assert!(
        items.contains("STAT items:1:table ndbmemcache.kv\r\n"),
        "{items}"
    );
    let conns = server.ask("stats conns\r\n");
    assert!(conns.contains(":addr tcp:127.0.0.1:"), "{conns}");
}
