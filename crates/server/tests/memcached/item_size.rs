//! The maximum item size, which is a setting.

use porpoise_testkit::{Porpoise, exchange};

fn set(key: &str, length: usize) -> Vec<u8> {
    let mut request = format!("set {key} 0 0 {length}\r\n").into_bytes();
    request.resize(request.len() + length, b'v');
    request.extend(b"\r\n");
    request
}

#[test]
fn values_over_a_megabyte_are_taken_where_they_are_allowed() {
    let server = Porpoise::builder()
        .arg("--mysql-listen", "off")
        .arg("--memcached-item-size", "8M")
        .start();
    // Key and header count against the limit: 60 bytes for a key of one.
    let most = (8 << 20) - 60;
    let mut request = set("k", most);
    request.extend(set("b", most + 1));
    request.extend(b"mg k s\r\nget k\r\n");
    let answer = exchange(server.memcached_addr, &request);
    let head = b"STORED\r\nSERVER_ERROR object too large for cache\r\nHD s8388548\r\n\
                 VALUE k 0 8388548\r\nvvv";
    assert!(answer.starts_with(head), "{}", answer[..80].escape_ascii());
    assert!(answer.ends_with(b"vvv\r\nEND\r\n"));
    assert_eq!(answer.len(), head.len() - 3 + most + 7);
    let settings = server.memcached("stats settings\r\n");
    assert!(
        settings.contains("STAT item_size_max 8388608\r\n"),
        "{settings}"
    );
}

#[test]
fn appends_stop_at_the_largest_value() {
    let server = Porpoise::builder().arg("--mysql-listen", "off").start();
    let mut request = set("k", (1 << 20) - 60);
    request.extend(b"append k 0 0 61\r\n");
    request.resize(request.len() + 61, b'v');
    request.extend(b"\r\nmg k s\r\n");
    let answer = exchange(server.memcached_addr, &request);
    let expected = b"STORED\r\nSERVER_ERROR object too large for cache\r\nHD s1048516\r\n";
    assert_eq!(
        answer.escape_ascii().to_string(),
        expected.escape_ascii().to_string()
    );
}

#[test]
fn a_long_line_is_answered_and_the_connection_goes_on() {
    let server = Porpoise::builder().arg("--mysql-listen", "off").start();
    let key = "k".repeat(100_000);
    let flags = "v ".repeat(50_000);
    let request = format!("set {key} 0 0 1\r\na\r\nmg k {flags}\r\nset a 0 0 1\r\nx\r\nget a\r\n");
    let answer = exchange(server.memcached_addr, request.as_bytes());
    assert_eq!(
        String::from_utf8_lossy(&answer),
        "CLIENT_ERROR bad command line format\r\nERROR\r\n\
         CLIENT_ERROR options flags are too long\r\nSTORED\r\nVALUE a 0 1\r\nx\r\nEND\r\n"
    );
}

fn figure(stats: &str, name: &str) -> u64 {
    let line = format!("STAT {name} ");
    let found = stats.lines().find_map(|l| l.strip_prefix(&line));
    found
        .unwrap_or_else(|| panic!("{name}: {stats}"))
        .trim()
        .parse()
        .unwrap()
}

#[test]
fn stats_count_items_stored_and_expired() {
    let server = Porpoise::builder().arg("--mysql-listen", "off").start();
    server.memcached("set a 0 0 1\r\nx\r\nset b 0 0 1\r\nx\r\nset c 0 -1 1\r\nx\r\n");
    server.memcached("add a 0 0 1\r\nx\r\nget a c\r\n");
    let stats = server.memcached("stats\r\n");
    assert_eq!(figure(&stats, "total_items"), 3, "add stored nothing");
    assert!(figure(&stats, "curr_items") >= 2, "{stats}");
    assert_eq!(figure(&stats, "get_expired"), 1, "{stats}");
    assert_eq!(figure(&stats, "evictions"), 0, "{stats}");
}
