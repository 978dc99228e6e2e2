//! LOAD DATA: files of clients and of the server, formats compared with MariaDB, interruptions.

use crate::client::{Answer, Client, How};
use porpoise_testkit::{Mariadb, Porpoise, PorpoiseBuilder, Random};
use porpoise_wire::mysql::{Capabilities, frame};
use std::time::{Duration, Instant};

const LOCAL: How = How {
    user: "root",
    password: "",
    database: "",
    tls: false,
    without: Capabilities(0),
    with: Capabilities::LOCAL_FILES,
    certificate: None,
};

/// A server that allows files of clients, and a client that sends them.
fn allowing(builder: PorpoiseBuilder) -> (Porpoise, Client) {
    let server = builder.start();
    let mut c = Client::connect(server.mysql_addr, &LOCAL).unwrap();
    c.good("SET GLOBAL local_infile = ON");
    c.good("CREATE DATABASE d");
    c.good("USE d");
    (server, c)
}

/// Sends the statement, and reads the request for the file; the reply if there is none.
fn request(c: &mut Client, statement: &str) -> Result<String, Box<Answer>> {
    let bytes = c.query_bytes(statement);
    c.send(&bytes);
    c.expect(1);
    let packet = c.packet().expect("a reply");
    match packet.split_first() {
        Some((0xFB, name)) => Ok(String::from_utf8(name.to_vec()).unwrap()),
        _ => {
            let error = porpoise_wire::mysql::client::result::parse_error(&packet).expect("error");
            Err(Box::new(Answer {
                error: Some((error.code, error.message)),
                ..Answer::default()
            }))
        }
    }
}

/// The packets of a file, and the sequence number of the reply.
fn packets(file: &[u8], piece: usize) -> (Vec<u8>, u8) {
    let (mut out, mut sequence) = (Vec::new(), 2);
    for chunk in file.chunks(piece.max(1)) {
        frame::packet(&mut out, &mut sequence, chunk);
    }
    frame::packet(&mut out, &mut sequence, b"");
    (out, sequence)
}

/// Runs LOAD DATA LOCAL with this file.
fn load(c: &mut Client, statement: &str, file: &[u8], piece: usize) -> Answer {
    if let Err(answer) = request(c, statement) {
        return *answer;
    }
    let (out, sequence) = packets(file, piece);
    c.send(&out);
    c.answers_from(sequence, false).remove(0)
}

#[test]
fn load_data_local_loads_rows_and_counts_them() {
    let (_server, mut c) = allowing(Porpoise::builder());
    c.good(
        "CREATE TABLE t (id INT AUTO_INCREMENT PRIMARY KEY, a VARCHAR(10) UNIQUE, n INT DEFAULT 7)",
    );
    let statement = "LOAD DATA LOCAL INFILE '/some/file' INTO TABLE t (a, n)";
    assert_eq!(request(&mut c, statement).unwrap(), "/some/file");
    let (out, sequence) = packets(b"x\t1\ny\t\\N\nx\t3\n", 4);
    c.send(&out);
    let done = c.answers_from(sequence, false).remove(0);
    assert_eq!(done.error, None);
    assert_eq!((done.affected, done.id, done.warnings), (2, 1, 1));
    assert_eq!(done.info, "Records: 3  Deleted: 0  Skipped: 1  Warnings: 1");
    let warning = &c.good("SHOW WARNINGS").texts()[0];
    assert_eq!((&*warning[0], &*warning[1]), ("Warning", "1062"));
    let replace = statement.replace("INTO", "REPLACE INTO");
    let done = load(&mut c, &replace, b"y\t5\nz\t6", 100);
    assert_eq!((done.affected, done.id), (3, 4));
    assert_eq!(done.info, "Records: 2  Deleted: 1  Skipped: 0  Warnings: 0");
    assert_eq!(
        c.good("SELECT a, n FROM t ORDER BY a").texts(),
        [["x", "1"], ["y", "5"], ["z", "6"]]
    );
    // The next commands are read as usual, and an empty file is not an error.
    let done = load(&mut c, statement, b"", 1);
    assert_eq!(done.info, "Records: 0  Deleted: 0  Skipped: 0  Warnings: 0");
    assert_eq!(c.good("SHOW STATUS LIKE 'Com_load'").texts()[0][1], "3");
}

#[test]
fn both_sides_must_allow_files_of_clients() {
    let server = Porpoise::builder().start();
    let mut c = Client::connect(server.mysql_addr, &LOCAL).unwrap();
    let text = "Loading local data is disabled; this must be enabled on both the client and server \
                sides";
    let refused = c.query("LOAD DATA LOCAL INFILE '/etc/hosts' INTO TABLE t");
    assert_eq!(refused.error, Some((3948, text.to_owned())));
    c.good("SET GLOBAL local_infile = ON");
    assert_eq!(
        c.query("LOAD DATA LOCAL INFILE 'x' INTO TABLE t").code(),
        1046
    );
    assert!(
        c.prepare("LOAD DATA LOCAL INFILE 'x' INTO TABLE d.t")
            .is_err()
    );
    let mut other = Client::root(server.mysql_addr);
    let refused = other.query("LOAD DATA LOCAL INFILE 'x' INTO TABLE t");
    assert_eq!(refused.code(), 3948);
}

/// Rows, warnings and the counts of one LOAD DATA.
fn effects(c: &mut Client, statement: &str, file: &[u8]) -> Vec<String> {
    c.good("DELETE FROM t");
    c.good("INSERT INTO t (k, a) VALUES (1, 'old')");
    let done = load(c, statement, file, 7);
    let mut all = vec![match &done.error {
        Some((code, _)) => format!("error {code}"),
        None => format!("{} {}", done.affected, done.info),
    }];
    if done.error.is_none() {
        let warnings = c.good("SHOW WARNINGS").texts();
        // Duplicates are found batch by batch: their warnings come later than MySQL's.
        all.extend(warnings.into_iter().map(|w| w[1].clone()));
        all.sort();
    }
    let select = "SELECT k, HEX(a), n, d, b, @v FROM t ORDER BY k, a, n";
    all.extend(c.good(select).texts().into_iter().map(|row| row.join("|")));
    all
}

/// Statements and files that MySQL and MariaDB treat alike.
const ALIKE: &[(&str, &str)] = &[
    ("", "2\tx\t3\t2020-01-02\t4\n3\ty\t\\N\t\\N\t\\N\n"),
    ("", "2\ta\\tb\\\nc\\0\\Z\\b\\r\\\\\\q\t3\t2020-01-02\t4\n"),
    ("", "2\tx\n3\ty\t1\t2020-01-02\t4\t5\t6\n4"),
    ("", "1\tnew\t1\t2020-01-02\t4\n"),
    ("", "2\t\t\t\t\n"),
    ("", "two\tx\t3x\tno date\t4\n"),
    ("", "\\N\tx\t3\t2020-01-02\t4\n"),
    (
        "",
        "2\tmuch too long for its column\t99999999999\t2020-13-02\t4\n",
    ),
    ("", "\n\n"),
    (
        "FIELDS TERMINATED BY ',' ENCLOSED BY '\"'",
        "2,\"a,b\",3,2020-01-02,4\n3,\"q\"\"q\",NULL,\"NULL\",5\n",
    ),
    (
        "FIELDS TERMINATED BY ',' ENCLOSED BY '\"'",
        "2,\"a\"b\",3,2020-01-02,4\n3,\"x\\\"y\",4,2020-01-02,5\n",
    ),
    (
        "FIELDS TERMINATED BY ',' ENCLOSED BY '\"'",
        "2,\"a\nb\",3,2020-01-02,4\n3,\"never closed,4\n",
    ),
    (
        "FIELDS TERMINATED BY ',' OPTIONALLY ENCLOSED BY '\"' ESCAPED BY '\"'",
        "2,\"a\"\"b\",3,2020-01-02,4\n",
    ),
    (
        "FIELDS TERMINATED BY ',' ESCAPED BY ''",
        "2,a\\tb,3,2020-01-02,4\n3,\\N,4,2020-01-02,5\n",
    ),
    (
        "FIELDS TERMINATED BY '--' LINES TERMINATED BY '\\r\\n'",
        "2--a-b--3--2020-01-02--4\r\n3--a\rb--4--2020-01-02--5\r\n",
    ),
    (
        "LINES STARTING BY 'xxx'",
        "xxx2\ta\t3\t2020-01-02\t4\nnot this\nsome xxx3\tb\t4\t2020-01-02\t5\n",
    ),
    (
        "FIELDS TERMINATED BY ',' LINES TERMINATED BY ','",
        "2,a,3,2020-01-02,4,3,b,4,2020-01-02,5,",
    ),
    ("IGNORE 1 LINES", "k\ta\tn\td\tb\n2\tx\t3\t2020-01-02\t4\n"),
    ("IGNORE 5 LINES", "k\ta\tn\td\tb\n2\tx\t3\t2020-01-02\t4\n"),
    ("IGNORE 1 ROWS (a, k)", "a\\\nb\tk\nx\t2\n"),
    (
        "(k, @v, n) SET a = CONCAT('<', @v, '>'), d = '2020-01-02'",
        "2\tx\t3\n3\t\\N\t4\n4\n",
    ),
    (
        "(k, @v) SET n = k * 2 + @v, a = IF(n > 7, 'big', 'small')",
        "2\t3\n3\t4\n",
    ),
    ("(k, a, @v, @v)", "2\tx\t3\t4\n"),
    ("(k, a) SET b = (SELECT COUNT(*) FROM other)", "2\tx\n"),
    ("CHARACTER SET latin1", "2\t\u{e9}\t3\t2020-01-02\t4\n"),
    ("CHARACTER SET binary", "2\t\u{e9}\t3\t2020-01-02\t4\n"),
    (
        "CHARACTER SET gbk FIELDS TERMINATED BY ','",
        "2,a,3,2020-01-02,4\n",
    ),
];

fn pair() -> (Porpoise, Client, Mariadb, Client) {
    let (server, mut ours) = allowing(Porpoise::builder());
    let mariadb = Mariadb::builder().start();
    let mut theirs = Client::connect_unix(&mariadb.socket, &LOCAL).unwrap();
    theirs.good("CREATE DATABASE d CHARACTER SET utf8mb4");
    theirs.good("USE d");
    for c in [&mut ours, &mut theirs] {
        c.good(
            "CREATE TABLE t (k INT PRIMARY KEY, a VARCHAR(20), n INT NOT NULL DEFAULT 9, \
             d DATE, b BLOB)",
        );
        c.good("CREATE TABLE other (a INT)");
        c.good("INSERT INTO other VALUES (1), (2)");
        c.good("SET NAMES utf8mb4");
    }
    (server, ours, mariadb, theirs)
}

#[test]
fn formats_are_read_as_by_mariadb() {
    let (_server, mut ours, _mariadb, mut theirs) = pair();
    for mode in ["''", "'STRICT_ALL_TABLES'", "'NO_BACKSLASH_ESCAPES'"] {
        for c in [&mut ours, &mut theirs] {
            c.good(&format!("SET sql_mode = {mode}"));
        }
        for (clauses, file) in ALIKE {
            for duplicates in ["", "IGNORE", "REPLACE"] {
                // In strict mode a line with too many fields is an error on MySQL only.
                if duplicates == "REPLACE" && mode.contains("STRICT") {
                    continue;
                }
                // Equal rows: a REPLACE counts them otherwise than InnoDB.
                if duplicates == "REPLACE" && *file == "\n\n" {
                    continue;
                }
                let charset = clauses.starts_with("CHARACTER");
                let statement = format!(
                    "LOAD DATA LOCAL INFILE 'f' {duplicates} INTO TABLE t {}{clauses}",
                    if charset {
                        ""
                    } else {
                        "CHARACTER SET utf8mb4 "
                    }
                );
                for c in [&mut ours, &mut theirs] {
                    c.good("SET @v = 'before'");
                }
                let (a, b) = (
                    effects(&mut ours, &statement, file.as_bytes()),
                    effects(&mut theirs, &statement, file.as_bytes()),
                );
                assert_eq!(a, b, "{mode} {statement} {file:?}");
            }
        }
    }
}

#[test]
fn random_files_are_read_as_by_mariadb() {
    let (_server, mut ours, _mariadb, mut theirs) = pair();
    for c in [&mut ours, &mut theirs] {
        c.good("SET sql_mode = ''");
    }
    let mut random = Random(20_261_123);
    let parts = [
        "1", "2", "33", "a", "\"", "\"", "\\", ",", ",", "\n", "\n", "N", "NULL", "x", ";",
    ];
    let formats = [
        "FIELDS TERMINATED BY ','",
        "FIELDS TERMINATED BY ',' ENCLOSED BY '\"'",
        "FIELDS TERMINATED BY ',' ENCLOSED BY '\"' ESCAPED BY '\"'",
        "FIELDS TERMINATED BY ',' ENCLOSED BY '\"' ESCAPED BY ''",
        "FIELDS TERMINATED BY ',' ENCLOSED BY '\"' LINES STARTING BY 'x'",
        "FIELDS TERMINATED BY 'a,' LINES TERMINATED BY '\\n;'",
        "FIELDS TERMINATED BY ',' LINES TERMINATED BY '' IGNORE 2 LINES",
    ];
    for _ in 0..300 {
        let length = random.below(40);
        let file: String = (0..length)
            .map(|_| parts[random.below(parts.len())])
            .collect();
        let format = formats[random.below(formats.len())];
        let statement =
            format!("LOAD DATA LOCAL INFILE 'f' INTO TABLE t CHARACTER SET utf8mb4 {format}");
        let (a, b) = (
            effects(&mut ours, &statement, file.as_bytes()),
            effects(&mut theirs, &statement, file.as_bytes()),
        );
        assert_eq!(a, b, "{statement} {file:?}");
    }
}

#[test]
fn a_long_file_needs_little_memory() {
    let (_server, mut c) = allowing(Porpoise::builder());
    c.good("CREATE TABLE t (id INT PRIMARY KEY, pad VARCHAR(200))");
    c.good("SET SESSION statement_memory_limit = 16777216");
    let pad = "x".repeat(180);
    let mut file = Vec::new();
    for n in 0..250_000 {
        file.extend(format!("{n}\t{pad}\n").into_bytes());
    }
    assert!(file.len() > 40 << 20);
    let done = load(
        &mut c,
        "LOAD DATA LOCAL INFILE 'f' INTO TABLE t",
        &file,
        100_000,
    );
    assert_eq!((done.error, done.affected), (None, 250_000));
    assert_eq!(
        c.good("SELECT COUNT(*), SUM(LENGTH(pad)) FROM t").texts(),
        [["250000", "45000000"]]
    );
}

#[test]
fn a_statement_in_a_transaction_is_undone_alone() {
    let (_server, mut c) = allowing(Porpoise::builder());
    c.good("CREATE TABLE t (id INT PRIMARY KEY)");
    c.good("BEGIN");
    c.good("INSERT INTO t VALUES (1)");
    // REPLACE keeps strict mode: the second line is an error.
    let statement = "LOAD DATA LOCAL INFILE 'f' REPLACE INTO TABLE t";
    let failed = load(&mut c, statement, b"2\nthree\n4\n", 2);
    assert_eq!(failed.code(), 1366);
    let done = load(&mut c, statement, b"5\n", 2);
    assert_eq!(done.affected, 1);
    c.good("COMMIT");
    assert_eq!(
        c.good("SELECT id FROM t ORDER BY id").texts(),
        [["1"], ["5"]]
    );
}

/// Waits until the session `id` runs LOAD DATA.
fn until_loading(watcher: &mut Client, id: u32) {
    let deadline = Instant::now() + Duration::from_secs(20);
    loop {
        let list = watcher.good("SHOW FULL PROCESSLIST").texts();
        let mine = list.iter().find(|row| row[0] == id.to_string());
        if mine.is_some_and(|row| row[7].contains("LOAD DATA")) {
            return;
        }
        assert!(Instant::now() < deadline, "{list:?}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn kill_query_rolls_back_received_rows_and_keeps_the_session() {
    let (server, mut c) = allowing(Porpoise::builder());
    c.good("CREATE TABLE t (id INT PRIMARY KEY)");
    request(&mut c, "LOAD DATA LOCAL INFILE 'f' INTO TABLE t").unwrap();
    let lines: String = (0..100_000).map(|n| format!("{n}\n")).collect();
    let (mut out, mut sequence) = (Vec::new(), 2);
    frame::packet(&mut out, &mut sequence, lines.as_bytes());
    c.send(&out);
    let mut watcher = Client::root(server.mysql_addr);
    until_loading(&mut watcher, c.id);
    watcher.good(&format!("KILL QUERY {}", c.id));
    // Its locks are free although the client continues to send.
    watcher.good("SET innodb_lock_wait_timeout = 20");
    watcher.good("INSERT INTO d.t VALUES (1)");
    out.clear();
    frame::packet(&mut out, &mut sequence, b"7\n8\n");
    frame::packet(&mut out, &mut sequence, b"");
    c.send(&out);
    assert_eq!(c.answers_from(sequence, false)[0].code(), 1317);
    assert_eq!(c.good("SELECT COUNT(*) FROM t").one(), "1");
}

#[test]
fn load_data_of_a_lost_or_silent_client_is_rolled_back() {
    let (server, mut c) = allowing(Porpoise::builder().arg("--net-read-timeout", "1s"));
    c.good("CREATE TABLE t (id INT PRIMARY KEY)");
    request(&mut c, "LOAD DATA LOCAL INFILE 'f' INTO TABLE t").unwrap();
    c.send(b"\x02\0\0\x02");
    assert_eq!(c.last_words(3), Some(1159));
    let mut c = Client::connect(server.mysql_addr, &LOCAL).unwrap();
    request(&mut c, "LOAD DATA LOCAL INFILE 'f' INTO TABLE d.t").unwrap();
    c.send(b"\x02\0\0\x021\n");
    drop(c);
    let mut c = Client::connect(server.mysql_addr, &LOCAL).unwrap();
    request(&mut c, "LOAD DATA LOCAL INFILE 'f' INTO TABLE d.t").unwrap();
    c.send(b"\x02\0\0\x091\n");
    assert_eq!(c.last_words(2), Some(1156));
    let mut watcher = Client::root(server.mysql_addr);
    assert_eq!(watcher.good("SELECT COUNT(*) FROM d.t").one(), "0");
}

#[test]
fn commands_after_a_local_file_are_answered_over_every_transport() {
    let (server, mut first) = allowing(Porpoise::builder());
    first.good("CREATE TABLE t (id INT PRIMARY KEY)");
    for (n, (tls, with)) in [
        (false, Capabilities(0)),
        (true, Capabilities(0)),
        (false, Capabilities::COMPRESS),
        (true, Capabilities::COMPRESS),
    ]
    .into_iter()
    .enumerate()
    {
        let how = How {
            tls,
            with: with | Capabilities::LOCAL_FILES,
            ..LOCAL
        };
        let mut c = Client::connect(server.mysql_addr, &how).unwrap();
        request(
            &mut c,
            "LOAD DATA LOCAL INFILE 'f' INTO TABLE d.t; SELECT 5",
        )
        .unwrap();
        let (mut out, sequence) = packets(format!("{n}1\n{n}2\n").as_bytes(), 3);
        out.extend(c.query_bytes("SELECT 6"));
        c.send(&out);
        let all = c.answers_from(sequence, false);
        assert_eq!((all[0].affected, all[1].one()), (2, "5".to_owned()));
        assert_eq!(c.answers(false)[0].one(), "6");
        // A client that does not wait for the request.
        let mut out = c.query_bytes(&format!(
            "LOAD DATA LOCAL INFILE 'f' INTO TABLE d.t (@x) SET id = @x + {n}"
        ));
        let (file, sequence) = packets(b"1000\n2000\n", 3);
        out.extend(file);
        out.extend(c.query_bytes("SELECT 7"));
        c.send(&out);
        c.expect(1);
        assert_eq!(c.packet().unwrap(), b"\xFBf");
        assert_eq!(c.answers_from(sequence, false)[0].affected, 2);
        assert_eq!(c.answers(false)[0].one(), "7");
    }
    assert_eq!(first.good("SELECT COUNT(*) FROM t").one(), "16");
}

#[test]
fn files_of_the_server_are_read_from_one_directory() {
    let directory = std::env::temp_dir().join(format!("porpoise-load-{}", std::process::id()));
    std::fs::create_dir_all(&directory).unwrap();
    let outside = directory.with_extension("txt");
    std::fs::write(&outside, "1\n").unwrap();
    std::fs::write(directory.join("f.txt"), "1\n2\n").unwrap();
    let server = Porpoise::builder()
        .arg("--secure-file-priv", &directory)
        .start();
    let mut c = Client::root(server.mysql_addr);
    c.good("CREATE DATABASE d");
    c.good("CREATE TABLE d.t (id INT PRIMARY KEY)");
    let path = directory.display().to_string();
    assert_eq!(c.good("SELECT @@secure_file_priv").one(), path);
    let load = |name: &str| format!("LOAD DATA INFILE '{name}' INTO TABLE d.t");
    assert_eq!(c.query(&load(&outside.display().to_string())).code(), 1290);
    assert_eq!(c.query(&load(&format!("{path}/../x"))).code(), 1290);
    assert_eq!(c.query(&load("missing.txt")).code(), 29);
    let done = c.good(&load(&format!("{path}/f.txt")));
    assert_eq!(done.info, "Records: 2  Deleted: 0  Skipped: 0  Warnings: 0");
    // Without LOCAL a duplicate is an error, and nothing is kept.
    c.good("DELETE FROM d.t WHERE id = 1");
    assert_eq!(c.query(&load("f.txt")).code(), 1062);
    assert_eq!(c.good("SELECT id FROM d.t").texts(), [["2"]]);
    c.good("CREATE USER u@localhost");
    c.good("GRANT INSERT ON d.* TO u@localhost");
    let how = How {
        user: "u",
        ..How::default()
    };
    let mut u = Client::connect(server.mysql_addr, &how).unwrap();
    assert_eq!(u.query(&load("f.txt")).code(), 1227);
    let closed = Porpoise::builder().start();
    let mut c = Client::root(closed.mysql_addr);
    c.good("CREATE DATABASE d");
    c.good("CREATE TABLE d.t (id INT PRIMARY KEY)");
    assert_eq!(c.query(&load("f.txt")).code(), 1290);
    std::fs::remove_file(&outside).unwrap();
    std::fs::remove_dir_all(&directory).unwrap();
}

#[test]
fn a_file_is_loaded_with_the_privilege_from_the_directory_only() {
    let directory = std::env::temp_dir().join(format!("porpoise-loaded-{}", std::process::id()));
    std::fs::create_dir_all(&directory).unwrap();
    let outside = directory.with_extension("txt");
    std::fs::write(&outside, "secret").unwrap();
    std::fs::write(directory.join("f.txt"), "a file").unwrap();
    let server = Porpoise::builder()
        .arg("--secure-file-priv", &directory)
        .start();
    let mut c = Client::root(server.mysql_addr);
    let load =
        |name: &str| format!("SELECT IFNULL(CONVERT(LOAD_FILE('{name}') USING utf8mb4), 'none')");
    let path = directory.display().to_string();
    for name in ["f.txt".to_owned(), format!("{path}/f.txt")] {
        assert_eq!(c.good(&load(&name)).one(), "a file");
    }
    let outside_name = outside.display().to_string();
    for name in ["missing.txt", &outside_name, "../x", "."] {
        assert_eq!(c.good(&load(name)).one(), "none", "{name}");
    }
    c.good("CREATE USER u@localhost");
    let how = How {
        user: "u",
        ..How::default()
    };
    let mut u = Client::connect(server.mysql_addr, &how).unwrap();
    assert_eq!(u.good(&load("f.txt")).one(), "none");
    c.good("GRANT FILE ON *.* TO u@localhost");
    assert_eq!(u.good(&load("f.txt")).one(), "a file");
    c.good("REVOKE FILE ON *.* FROM u@localhost");
    assert_eq!(u.good(&load("f.txt")).one(), "none");
    std::fs::remove_file(&outside).unwrap();
    std::fs::remove_dir_all(&directory).unwrap();
}

#[test]
fn load_data_is_refused_before_a_file_is_asked_for() {
    let (_server, mut c) = allowing(Porpoise::builder());
    c.good("CREATE TABLE t (a INT, b INT AS (a + 1), c INT)");
    for (code, clauses) in [
        (1235, "t FIELDS TERMINATED BY '' ENCLOSED BY ''"),
        (1235, "t CHARACTER SET utf16"),
        (1115, "t CHARACTER SET nope"),
        (1083, "t FIELDS ENCLOSED BY 'ab'"),
        (1083, "t FIELDS ESCAPED BY 'ab'"),
        (1146, "missing"),
        (1054, "t (a, missing)"),
        (1054, "t (a) SET missing = 1"),
        (1110, "t (a, A)"),
        (3105, "t (a, b)"),
        (3105, "t (a) SET b = 1"),
        (1747, "t PARTITION (p) (a)"),
    ] {
        let statement = format!("LOAD DATA LOCAL INFILE 'f' INTO TABLE {clauses}");
        assert_eq!(c.query(&statement).code(), code, "{clauses}");
    }
    assert_eq!(
        c.query("LOAD XML LOCAL INFILE 'f' INTO TABLE t").code(),
        1235
    );
    let prepare = "PREPARE s FROM 'LOAD DATA LOCAL INFILE ''f'' INTO TABLE t'";
    assert_eq!(c.query(prepare).code(), 1295);
}

#[test]
fn rows_go_to_the_partitions_that_the_statement_names() {
    let (_server, mut c) = allowing(Porpoise::builder());
    c.good("CREATE TABLE t (a INT) PARTITION BY RANGE (a) (PARTITION p0 VALUES LESS THAN (10), PARTITION p1 VALUES LESS THAN (20))");
    let statement = "LOAD DATA LOCAL INFILE 'f' INTO TABLE t PARTITION (p1)";
    let done = load(&mut c, statement, b"5\n15\n25\n", 3);
    assert_eq!((done.affected, done.warnings), (1, 2));
    assert_eq!(done.info, "Records: 3  Deleted: 0  Skipped: 2  Warnings: 2");
    assert_eq!(c.good("SELECT a FROM t").texts(), [["15"]]);
}
