//! Containers whose values are JSON objects.

use crate::with_sql::sql;
use porpoise_testkit::Porpoise;

fn set(server: &Porpoise, key: &str, object: &str) -> String {
    server.memcached(&format!("set {key} 0 0 {}\r\n{object}\r\n", object.len()))
}

fn get(server: &Porpoise, key: &str) -> String {
    let answer = server.memcached(&format!("get {key}\r\n"));
    answer.lines().nth(1).unwrap_or_default().to_owned()
}

fn start(columns: &str) -> Porpoise {
    let server = Porpoise::builder().start();
    let table = format!(
        "CREATE DATABASE t; CREATE TABLE t.r ({columns});
         ALTER TABLE t.r MEMCACHED PREFIX 'r:' AS JSON"
    );
    sql(&server, &table);
    server
}

#[test]
fn values_of_every_column_type_can_be_stored_again_as_read() {
    let server = start(
        "id INT PRIMARY KEY, big BIGINT UNSIGNED, price DECIMAL(20,4), d DOUBLE, b BIT(8),
         day DATE, at DATETIME(3), word VARCHAR(20) CHARACTER SET latin1, raw VARBINARY(10),
         e ENUM('x','y'), j JSON",
    );
    let object = "{\"id\":1,\"big\":18446744073709551615,\"price\":1234567890123456.5000,\
                  \"d\":0.1,\"b\":5,\"day\":\"2024-02-29\",\"at\":\"2024-02-29 01:02:03.500\",\
                  \"word\":\"caf\u{e9} \\\"q\\\"\",\"raw\":\"base64:/wA=\",\"e\":\"y\",\
                  \"j\":{\"a\": [1, null]}}";
    assert_eq!(set(&server, "r:1", object), "STORED\r\n");
    assert_eq!(get(&server, "r:1"), object);
    let stored = "SELECT HEX(word), HEX(raw), b + 0, price FROM t.r";
    assert_eq!(
        sql(&server, stored),
        "636166E920227122\tFF00\t5\t1234567890123456.5000\n"
    );
    let again = get(&server, "r:1");
    assert_eq!(set(&server, "r:1", &again), "STORED\r\n");
    assert_eq!(get(&server, "r:1"), object);
}

#[test]
fn bits_are_taken_as_numbers_and_as_bytes() {
    let server = start("id INT PRIMARY KEY, b BIT(12)");
    for (bits, number) in [
        ("4095", "4095"),
        ("true", "1"),
        ("\"base64:Af8=\"", "511"),
        ("\"base64:\"", "0"),
        ("\"5\"", "53"),
    ] {
        let object = format!("{{\"b\":{bits}}}");
        assert_eq!(set(&server, "r:1", &object), "STORED\r\n", "{object}");
        assert_eq!(get(&server, "r:1"), format!("{{\"id\":1,\"b\":{number}}}"));
    }
    for bits in ["4096", "\"base64:Af8\"", "\"base64:EAA=\"", "-1", "[1]"] {
        let answer = set(&server, "r:1", &format!("{{\"b\":{bits}}}"));
        assert!(answer.starts_with("SERVER_ERROR "), "{bits}: {answer}");
    }
    assert_eq!(get(&server, "r:1"), "{\"id\":1,\"b\":53}");
}

#[test]
fn unmapped_columns_keep_their_values_or_get_their_defaults() {
    let server = start("id INT PRIMARY KEY, a VARCHAR(5) NOT NULL, b INT DEFAULT 7, c INT");
    assert_eq!(set(&server, "r:1", "{\"a\":\"x\",\"c\":3}"), "STORED\r\n");
    assert_eq!(
        get(&server, "r:1"),
        "{\"id\":1,\"a\":\"x\",\"b\":7,\"c\":3}"
    );
    assert_eq!(set(&server, "r:1", "{\"b\":null}"), "STORED\r\n");
    assert_eq!(
        get(&server, "r:1"),
        "{\"id\":1,\"a\":\"x\",\"b\":null,\"c\":3}"
    );
    assert_eq!(set(&server, "r:1", "{}"), "STORED\r\n");
    assert_eq!(
        set(&server, "r:2", "{\"b\":1}"),
        "SERVER_ERROR Field 'a' doesn't have a default value\r\n"
    );
}

#[test]
fn invalid_json_objects_are_refused_without_changes() {
    let server = start("id INT PRIMARY KEY, a VARCHAR(5) NOT NULL, b INT UNIQUE");
    sql(&server, "INSERT INTO t.r VALUES (1, 'x', 1), (2, 'y', 2)");
    let refused = |object: &str, why: &str| {
        let answer = set(&server, "r:1", object);
        assert_eq!(answer, format!("SERVER_ERROR {why}\r\n"), "{object}");
    };
    refused("{\"z\":1}", "Container 't/r/r:' has no column 'z'");
    refused(
        "{\"b\":3,\"b\":4}",
        "Column 'b' appears twice in the object",
    );
    refused("{\"id\":2}", "Column 'id' differs from the key");
    refused("{\"a\":[1]}", "Column 'a' cannot hold [1]");
    refused(
        "{\"a\":\"longer\"}",
        "Data too long for column 'a' at row 1",
    );
    refused("{\"a\":null}", "Column 'a' cannot be null");
    refused("{\"b\":2}", "Duplicate entry '2' for key 'r.b'");
    refused(
        "{\"b\":\"x\"}",
        "Incorrect integer value: 'x' for column 'b' at row 1",
    );
    assert!(set(&server, "r:1", "[1]").starts_with("SERVER_ERROR The value is not a JSON object"));
    assert_eq!(
        server.memcached("append r:1 0 0 2\r\n{}\r\nincr r:1 1\r\n"),
        "SERVER_ERROR append is not defined on container 't/r/r:', whose values are JSON objects\r\n\
         SERVER_ERROR incr is not defined on container 't/r/r:', whose values are JSON objects\r\n"
    );
    assert_eq!(get(&server, "r:1"), "{\"id\":1,\"a\":\"x\",\"b\":1}");
}
