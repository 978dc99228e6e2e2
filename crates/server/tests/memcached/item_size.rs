//! The longest value is a setting.

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
    let mut request = set("k", 8 << 20);
    request.extend(set("big", (8 << 20) + 1));
    request.extend(b"mg k s\r\nappend k 0 0 1\r\nx\r\nget k\r\n");
    let answer = exchange(server.memcached_addr, &request);
    let head = b"STORED\r\nSERVER_ERROR object too large for cache\r\nHD s8388608\r\n\
                 SERVER_ERROR object too large for cache\r\nVALUE k 0 8388608\r\nvvv";
    assert!(answer.starts_with(head), "{}", answer[..80].escape_ascii());
    assert!(answer.ends_with(b"vvv\r\nEND\r\n"));
    assert_eq!(answer.len(), head.len() - 3 + (8 << 20) + 7);
    let settings = server.memcached("stats settings\r\n");
    assert!(
        settings.contains("STAT item_size_max 8388608\r\n"),
        "{settings}"
    );
}
