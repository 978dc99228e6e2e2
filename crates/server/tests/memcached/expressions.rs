//! Expressions of a table's definition through this listener: checks, generated
//! columns, expressions as defaults, as through SQL.

use crate::with_sql::sql;
use porpoise_testkit::{Porpoise, exchange};

fn start(statements: &str) -> Porpoise {
    let server = Porpoise::builder().start();
    sql(&server, &format!("CREATE DATABASE t; {statements}"));
    server
}

const CHECKED: &str = "CREATE TABLE t.c (id INT PRIMARY KEY, n INT, s VARCHAR(20), \
     CONSTRAINT small CHECK (n < 100), CONSTRAINT named CHECK (s <> 'bad')); \
     ALTER TABLE t.c MEMCACHED PREFIX 'n:' VALUE (n); \
     ALTER TABLE t.c MEMCACHED PREFIX 's:' VALUE (s)";

const REFUSED: &str = "SERVER_ERROR Check constraint 'small' is violated.\r\n";

#[test]
fn check_constraints_apply_to_every_storage_command() {
    let server = start(CHECKED);
    assert_eq!(
        server.memcached(
            "set n:1 0 0 2\r\n99\r\nset n:1 0 0 3\r\n100\r\nadd n:2 0 0 3\r\n100\r\n\
             replace n:1 0 0 3\r\n100\r\nappend n:1 0 0 1\r\n9\r\nprepend n:1 0 0 1\r\n1\r\n\
             incr n:1 1\r\nget n:1 n:2\r\ndecr n:1 1\r\nincr n:1 1\r\n"
        ),
        format!(
            "STORED\r\n{}VALUE n:1 0 2\r\n99\r\nEND\r\n98\r\n99\r\n",
            REFUSED.repeat(6)
        )
    );
    let meta = server.memcached("ms n:1 3\r\n100\r\nma n:1 D5\r\nma n:9 N0 J500\r\nmg n:1 v\r\n");
    assert_eq!(meta, format!("{}VA 2\r\n99\r\n", REFUSED.repeat(3)));
    let named = server.memcached("set s:1 0 0 3\r\nbad\r\nset s:1 0 0 4\r\ngood\r\n");
    let refused = "SERVER_ERROR Check constraint 'named' is violated.\r\n";
    assert_eq!(named, format!("{refused}STORED\r\n"));
    assert_eq!(sql(&server, "SELECT * FROM t.c"), "1\t99\tgood\n");
}

#[test]
fn binary_refusals_carry_the_reason_as_text() {
    let server = start(CHECKED);
    let mut request = vec![0x80, 1, 0, 3, 8, 0, 0, 0, 0, 0, 0, 14, 1, 2, 3, 4];
    request.extend([0; 8]);
    request.extend([0; 8]);
    request.extend(b"n:1100");
    let answer = exchange(server.memcached_addr, &request);
    assert_eq!(answer.get(..2), Some(&[0x81, 1][..]));
    assert_eq!(answer.get(6..8), Some(&[0, 0x84][..]));
    let text = String::from_utf8_lossy(answer.get(24..).unwrap());
    assert_eq!(text, "Check constraint 'small' is violated.");
}

#[test]
fn a_check_holds_from_when_it_is_enforced() {
    let server = start(CHECKED);
    sql(&server, "ALTER TABLE t.c ALTER CHECK small NOT ENFORCED");
    assert_eq!(server.memcached("set n:1 0 0 3\r\n100\r\n"), "STORED\r\n");
    assert!(
        !server
            .sql("ALTER TABLE t.c ALTER CHECK small ENFORCED")
            .is_ok
    );
    assert_eq!(server.memcached("decr n:1 50\r\n"), "50\r\n");
    sql(&server, "ALTER TABLE t.c ALTER CHECK small ENFORCED");
    assert_eq!(server.memcached("incr n:1 50\r\n"), REFUSED);
}

#[test]
fn generated_columns_follow_what_is_stored() {
    let server = start(
        "CREATE TABLE t.g (id INT PRIMARY KEY, s VARCHAR(20), n INT DEFAULT 3, \
         up VARCHAR(40) AS (CONCAT(UPPER(s), '-', n)) STORED NOT NULL, \
         twice INT AS (n * 2) VIRTUAL, UNIQUE (up), KEY (twice)); \
         ALTER TABLE t.g MEMCACHED PREFIX 's:' VALUE (s); \
         ALTER TABLE t.g MEMCACHED PREFIX 'n:' VALUE (n); \
         ALTER TABLE t.g MEMCACHED PREFIX 'a:' VALUE (s, up, twice); \
         ALTER TABLE t.g MEMCACHED PREFIX 'o:' AS JSON; \
         ALTER TABLE t.g MEMCACHED PREFIX 'u:' VALUE (up)",
    );
    assert_eq!(
        server.memcached("set s:1 0 0 1\r\na\r\nincr n:1 4\r\nget a:1 o:1 u:1\r\n"),
        "STORED\r\n7\r\nVALUE a:1 0 8\r\na\tA-7\t14\r\n\
         VALUE o:1 0 44\r\n{\"id\":1,\"s\":\"a\",\"n\":7,\"up\":\"A-7\",\"twice\":14}\r\n\
         VALUE u:1 0 3\r\nA-7\r\nEND\r\n"
    );
    // A value that was read can be stored again, also with another value for the columns that are
    // not generated.
    let object = "{\"id\":1,\"s\":\"b\",\"n\":7,\"up\":\"A-7\",\"twice\":14}";
    let again = format!(
        "set o:1 0 0 {}\r\n{object}\r\nset a:1 0 0 8\r\nc\tB-7\t14\r\nget a:1\r\n",
        object.len()
    );
    assert_eq!(
        server.memcached(&again),
        "STORED\r\nSTORED\r\nVALUE a:1 0 8\r\nc\tC-7\t14\r\nEND\r\n"
    );
    // A value is refused if the container has only generated columns.
    let only = "SERVER_ERROR The value specified for generated column 'up' in table 'g' is not \
                allowed.\r\n";
    let stored = server.memcached("set u:1 0 0 1\r\nx\r\nappend u:1 0 0 1\r\nx\r\nget u:1\r\n");
    assert_eq!(
        stored,
        format!("{only}{only}VALUE u:1 0 3\r\nC-7\r\nEND\r\n")
    );
    // Indexes hold what was computed; unique ones refuse it.
    let found = "SELECT id FROM t.g FORCE INDEX (up) WHERE up = 'C-7'";
    assert_eq!(sql(&server, found), "1\n");
    let twice =
        server.memcached("set s:2 0 0 1\r\nc\r\nset n:2 0 0 1\r\n7\r\nset s:2 0 0 1\r\nc\r\n");
    let refused = "SERVER_ERROR Duplicate entry 'C-7' for key 'g.up'\r\n";
    assert_eq!(twice, format!("STORED\r\n{refused}STORED\r\n"));
    assert!(sql(&server, "CHECK TABLE t.g").contains("\tOK\n"));
}

#[test]
fn functional_indexes_follow_what_is_stored() {
    let server = start(
        "CREATE TABLE t.f (id INT PRIMARY KEY, s VARCHAR(20), n INT DEFAULT 3, \
         UNIQUE low ((lower(s))), INDEX ((n * 2))); \
         ALTER TABLE t.f MEMCACHED PREFIX 's:' VALUE (s); \
         ALTER TABLE t.f MEMCACHED PREFIX 'n:' VALUE (n); \
         ALTER TABLE t.f MEMCACHED PREFIX 'o:' AS JSON",
    );
    let refused = "SERVER_ERROR Duplicate entry 'ab' for key 'f.low'\r\n";
    assert_eq!(
        server.memcached(
            "set s:1 0 0 2\r\nAb\r\nincr n:1 4\r\nget o:1\r\nset s:2 0 0 2\r\naB\r\nset s:2 0 0 1\r\nB\r\n\
             append s:2 0 0 1\r\nc\r\n"
        ),
        format!(
            "STORED\r\n7\r\nVALUE o:1 0 23\r\n{{\"id\":1,\"s\":\"Ab\",\"n\":7}}\r\nEND\r\n\
             {refused}STORED\r\nSTORED\r\n"
        )
    );
    let find = |condition: &str| sql(&server, &format!("SELECT id FROM t.f WHERE {condition}"));
    assert_eq!(find("lower(s) = 'ab'"), "1\n");
    assert_eq!(find("lower(s) = 'bc'"), "2\n");
    assert_eq!(find("lower(s) = 'b'"), "");
    assert_eq!(find("n * 2 = 14"), "1\n");
    assert_eq!(server.memcached("delete s:2\r\n"), "DELETED\r\n");
    assert_eq!(find("lower(s) = 'bc'"), "");
    assert!(sql(&server, "CHECK TABLE t.f").contains("\tOK\n"));
}

#[test]
fn multi_valued_indexes_follow_what_is_stored() {
    let server = start(
        "CREATE TABLE t.m (id INT PRIMARY KEY, j JSON, \
         UNIQUE tags ((CAST(j->'$.tags' AS CHAR(8) ARRAY))), \
         INDEX n ((CAST(j->'$.n' AS SIGNED ARRAY)))); \
         ALTER TABLE t.m MEMCACHED PREFIX 'j:' VALUE (j)",
    );
    let set = |id: u32, json: &str| {
        server.memcached(&format!("set j:{id} 0 0 {}\r\n{json}\r\n", json.len()))
    };
    assert_eq!(
        set(1, r#"{"tags": ["a", "b", "a"], "n": [1, 2]}"#),
        "STORED\r\n"
    );
    assert_eq!(
        set(2, r#"{"tags": ["c", "b"]}"#),
        "SERVER_ERROR Duplicate entry 'b' for key 'm.tags'\r\n"
    );
    assert_eq!(
        set(2, r#"{"n": ["x"]}"#),
        "SERVER_ERROR Invalid JSON value for CAST for functional index 'n'.\r\n"
    );
    assert_eq!(set(1, r#"{"tags": ["b"], "n": 2}"#), "STORED\r\n");
    assert_eq!(
        set(2, r#"{"tags": ["a", "c"], "n": [2, 2, 3]}"#),
        "STORED\r\n"
    );
    let find = |condition: &str| {
        sql(
            &server,
            &format!("SELECT id FROM t.m WHERE {condition} ORDER BY id"),
        )
    };
    assert_eq!(find("'a' MEMBER OF (j->'$.tags')"), "2\n");
    assert_eq!(
        find("JSON_OVERLAPS(j->'$.tags', '[\"b\", \"c\", \"a\"]')"),
        "1\n2\n"
    );
    assert_eq!(find("2 MEMBER OF (j->'$.n')"), "1\n2\n");
    assert_eq!(find("1 MEMBER OF (j->'$.n')"), "");
    assert_eq!(server.memcached("delete j:1\r\n"), "DELETED\r\n");
    assert_eq!(find("JSON_OVERLAPS(j->'$.n', '[1, 2, 3]')"), "2\n");
    assert!(sql(&server, "CHECK TABLE t.m").contains("\tOK\n"));
}

#[test]
fn full_text_indexes_follow_what_is_stored() {
    let server = start(
        "CREATE TABLE t.w (id INT PRIMARY KEY, s TEXT, n INT, FULLTEXT (s)); \
         CREATE TABLE t.c (id INT PRIMARY KEY, w INT, s TEXT, FULLTEXT (s), \
         FOREIGN KEY (w) REFERENCES t.w (id) ON DELETE CASCADE); \
         ALTER TABLE t.w MEMCACHED PREFIX 's:' VALUE (s)",
    );
    let set = |id: u32, text: &str| {
        server.memcached(&format!("set s:{id} 0 0 {}\r\n{text}\r\n", text.len()))
    };
    let find = |table: &str, words: &str| {
        let search = format!("MATCH (s) AGAINST ('{words}' IN BOOLEAN MODE)");
        sql(
            &server,
            &format!("SELECT id FROM t.{table} WHERE {search} ORDER BY id"),
        )
    };
    assert_eq!(set(1, "quick brown fox"), "STORED\r\n");
    assert_eq!(set(2, "lazy dog"), "STORED\r\n");
    assert_eq!(find("w", "\"quick brown\" dog"), "1\n2\n");
    assert_eq!(set(1, "brown bear"), "STORED\r\n");
    assert_eq!(
        server.memcached("append s:2 0 0 5\r\n bear\r\n"),
        "STORED\r\n"
    );
    assert_eq!(find("w", "quick fox"), "");
    assert_eq!(find("w", "+bear"), "1\n2\n");
    sql(
        &server,
        "INSERT INTO t.c VALUES (7, 1, 'child words'), (8, 2, 'other words')",
    );
    assert_eq!(server.memcached("delete s:1\r\n"), "DELETED\r\n");
    assert_eq!(find("w", "+bear"), "2\n");
    assert_eq!(find("c", "words"), "8\n");
    assert!(sql(&server, "CHECK TABLE t.w").contains("\tOK\n"));
    assert!(sql(&server, "CHECK TABLE t.c").contains("\tOK\n"));
}

#[test]
fn a_generated_key_column_must_match_the_requested_key() {
    let server = start(
        "CREATE TABLE t.k (id INT AUTO_INCREMENT PRIMARY KEY, mail VARCHAR(40), \
         low VARCHAR(40) AS (LOWER(mail)) STORED, UNIQUE (low)); \
         ALTER TABLE t.k MEMCACHED PREFIX 'k:' KEY (low) VALUE (mail)",
    );
    assert_eq!(
        server.memcached(
            "set k:a@x 0 0 3\r\nA@x\r\nget k:a@x\r\nset k:a@x 0 0 3\r\nB@x\r\n\
             set k:c@x 0 0 3\r\nD@x\r\nget k:a@x k:b@x k:c@x k:d@x\r\n"
        ),
        "STORED\r\nVALUE k:a@x 0 3\r\nA@x\r\nEND\r\n\
         SERVER_ERROR Column 'low' differs from the key\r\n\
         SERVER_ERROR Column 'low' differs from the key\r\n\
         VALUE k:a@x 0 3\r\nA@x\r\nEND\r\n"
    );
}

#[test]
fn defaults_that_are_expressions_fill_new_rows() {
    let server = start(
        "CREATE TABLE t.d (id INT PRIMARY KEY, v VARCHAR(20) DEFAULT (CONCAT('d', 4 * 5)), \
         w VARCHAR(40) DEFAULT (UUID()), x INT DEFAULT (id + 1), r DOUBLE DEFAULT (RAND()), \
         j JSON DEFAULT (JSON_ARRAY(1)), at DATETIME DEFAULT (NOW() - INTERVAL 1 DAY)); \
         ALTER TABLE t.d MEMCACHED PREFIX 'd:' VALUE (v); \
         ALTER TABLE t.d MEMCACHED PREFIX 'x:' VALUE (x); \
         ALTER TABLE t.d MEMCACHED PREFIX 'o:' AS JSON",
    );
    assert_eq!(
        server.memcached(
            "set d:1 0 0 1\r\na\r\nset d:2 0 0 1\r\nb\r\nset x:3 0 0 2\r\n70\r\n\
             set o:4 0 0 14\r\n{\"v\":null,\"x\":9}\r\n"
                .replace("0 0 14", "0 0 16")
                .as_str()
        ),
        "STORED\r\n".repeat(4)
    );
    assert_eq!(
        sql(
            &server,
            "SELECT id, v, LENGTH(w), x, j, at < NOW() FROM t.d ORDER BY id"
        ),
        "1\ta\t36\t2\t[1]\t1\n2\tb\t36\t3\t[1]\t1\n3\td20\t36\t70\t[1]\t1\n4\tNULL\t36\t9\t[1]\t1\n"
    );
    let distinct = "SELECT COUNT(DISTINCT w), COUNT(DISTINCT r) FROM t.d";
    assert_eq!(sql(&server, distinct), "4\t4\n");
    // A row that is there keeps what it has.
    let kept = sql(&server, "SELECT w, r FROM t.d WHERE id = 1");
    assert_eq!(server.memcached("set d:1 0 0 1\r\nz\r\n"), "STORED\r\n");
    assert_eq!(sql(&server, "SELECT w, r FROM t.d WHERE id = 1"), kept);
}

#[test]
fn cascades_compute_and_check_in_the_children() {
    let server = start(
        "CREATE TABLE t.p (id INT PRIMARY KEY, v VARCHAR(9)); \
         CREATE TABLE t.c (id INT PRIMARY KEY, p INT, had VARCHAR(9) AS (IFNULL(p, 'none')) STORED, \
         FOREIGN KEY (p) REFERENCES t.p (id) ON DELETE SET NULL); \
         CREATE TABLE t.s (id INT PRIMARY KEY, p INT, CONSTRAINT has CHECK (p IS NOT NULL OR id > 5), \
         q INT, FOREIGN KEY (q) REFERENCES t.c (id) ON DELETE CASCADE); \
         INSERT INTO t.p VALUES (1, 'a'); INSERT INTO t.c (id, p) VALUES (1, 1); \
         ALTER TABLE t.p MEMCACHED PREFIX 'p:' VALUE (v)",
    );
    assert_eq!(server.memcached("delete p:1\r\n"), "DELETED\r\n");
    assert_eq!(sql(&server, "SELECT * FROM t.c"), "1\tNULL\tnone\n");
}

#[test]
fn columns_that_the_listener_fills_itself_are_not_generated() {
    let server = start(
        "CREATE TABLE t.m (id INT PRIMARY KEY, v INT, g BIGINT AS (v + 1) STORED); \
         INSERT INTO ndbmemcache.containers SET name = 'm', db_schema = 't', db_table = 'm', \
         key_columns = 'id', value_columns = 'v', flags = 'g'; \
         INSERT INTO ndbmemcache.key_prefixes VALUES (0, 'm:', 0, 'ndb-only', 'm')",
    );
    for (column, what) in [
        ("flags", "flags column 'g'"),
        ("cas_column", "cas_column 'g'"),
        ("expire_time_column", "expire_time_column 'g'"),
        ("increment_column", "increment_column 'g'"),
    ] {
        let setting = format!(
            "UPDATE ndbmemcache.containers SET flags = '0', cas_column = NULL, \
             expire_time_column = NULL, increment_column = NULL WHERE name = 'm'; \
             UPDATE ndbmemcache.containers SET {column} = 'g' WHERE name = 'm'"
        );
        sql(&server, &setting);
        let answer = server.memcached("set m:1 0 0 1\r\n1\r\n");
        let reason = format!("{what} is a generated column");
        assert!(answer.contains(&reason), "{answer}");
    }
}
