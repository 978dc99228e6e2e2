//! SELECT ... INTO OUTFILE and DUMPFILE: bytes compared with MariaDB, files that must not be
//! written, and failing statements.

use crate::client::{Client, How};
use porpoise_testkit::{Mariadb, Porpoise};
use std::path::{Path, PathBuf};

/// A directory of files, removed at the end.
struct Directory(PathBuf);

impl Directory {
    fn new(name: &str) -> Directory {
        let path = std::env::temp_dir().join(format!("porpoise-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Directory(path)
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn exporting(directory: &Path) -> (Porpoise, Client) {
    let server = Porpoise::builder()
        .arg("--secure-file-priv", directory)
        .start();
    let mut c = Client::root(server.mysql_addr);
    c.good("CREATE DATABASE d");
    c.good("USE d");
    (server, c)
}

const ROWS: &[&str] = &[
    "CREATE TABLE t (k INT PRIMARY KEY, a VARCHAR(40), n DECIMAL(10,2), f DOUBLE, d DATE, \
     s TIMESTAMP NULL, b BLOB, e ENUM('x,y','z'), z INT(5) ZEROFILL, l VARCHAR(10) CHARACTER SET latin1) \
     DEFAULT CHARSET utf8mb4",
    "INSERT INTO t VALUES \
     (1, 'plain', 1.50, 1.25, '2020-01-02', '2020-01-02 03:04:05', 'x', 'x,y', 7, 'a'), \
     (2, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL), \
     (3, 'tab\\there', -3.00, 1e100, '0001-01-01', NULL, x'00ff5c22', 'z', 12345, 'caf\u{e9}'), \
     (4, 'line\\nbreak \"quoted\" back\\\\slash', 0, 0.1, NULL, NULL, ',;|n', NULL, 0, ''), \
     (5, 'n1,n2;\u{20ac}', 12345678.90, -1e-9, NULL, NULL, '', NULL, 1, NULL)",
];

/// Clauses after the file's name.
const FORMATS: &[&str] = &[
    "",
    "FIELDS TERMINATED BY ','",
    "FIELDS TERMINATED BY ',' ENCLOSED BY '\"'",
    "FIELDS TERMINATED BY ',' OPTIONALLY ENCLOSED BY '\"' LINES TERMINATED BY '\\r\\n'",
    "FIELDS TERMINATED BY ';' ENCLOSED BY '|' ESCAPED BY '|' LINES STARTING BY '> '",
    "FIELDS TERMINATED BY ',' ENCLOSED BY '\"' ESCAPED BY ''",
    "FIELDS ESCAPED BY ''",
    "FIELDS TERMINATED BY '||' LINES TERMINATED BY '##'",
    "FIELDS TERMINATED BY 'n' ESCAPED BY '\\\\'",
    "FIELDS TERMINATED BY '1' OPTIONALLY ENCLOSED BY '\"'",
    "FIELDS TERMINATED BY ',' LINES TERMINATED BY ''",
    "FIELDS TERMINATED BY ',' LINES TERMINATED BY ','",
    "FIELDS ENCLOSED BY 'N'",
    "CHARACTER SET utf8mb4 FIELDS TERMINATED BY ','",
    "CHARACTER SET latin1 FIELDS ENCLOSED BY '\\''",
];

#[test]
fn files_are_those_of_mariadb_byte_by_byte() {
    let directory = Directory::new("outfile-mariadb");
    let (_server, mut ours) = exporting(&directory.0);
    let mariadb = Mariadb::builder().start();
    let mut theirs = Client::connect_unix(&mariadb.socket, &How::default()).unwrap();
    theirs.good("CREATE DATABASE d");
    theirs.good("USE d");
    for statement in ROWS {
        ours.good(statement);
        theirs.good(statement);
    }
    for (n, format) in FORMATS.iter().enumerate() {
        let mut files = Vec::new();
        let mut counts = Vec::new();
        for (c, side) in [(&mut ours, "ours"), (&mut theirs, "theirs")] {
            let path = directory.0.join(format!("{n}.{side}"));
            // MariaDB converts binary strings to the file's character set.
            let columns = if format.starts_with("CHARACTER") {
                "k, a, n, f, d, s, e, z, l"
            } else {
                "*"
            };
            let done = c.good(&format!(
                "SELECT {columns} INTO OUTFILE '{}' {format} FROM t ORDER BY k",
                path.display()
            ));
            files.push(String::from_utf8_lossy(&std::fs::read(&path).unwrap()).into_owned());
            counts.push((done.affected, c.good("SHOW WARNINGS").texts()));
        }
        assert_eq!(files[0], files[1], "{format}");
        assert_eq!(counts[0], counts[1], "{format}");
    }
}

#[test]
fn a_file_that_was_written_is_loaded_again() {
    let directory = Directory::new("outfile-again");
    let (_server, mut c) = exporting(&directory.0);
    for statement in ROWS {
        c.good(statement);
    }
    c.good("CREATE TABLE u LIKE t");
    for (n, format) in ["", "FIELDS TERMINATED BY ',' ENCLOSED BY '\"'"]
        .iter()
        .enumerate()
    {
        let done = c.good(&format!(
            "TABLE t INTO OUTFILE 'f{n}' CHARACTER SET utf8mb4 {format}"
        ));
        assert_eq!(done.affected, 5);
        c.good("DELETE FROM u");
        c.good(&format!(
            "LOAD DATA INFILE 'f{n}' INTO TABLE u CHARACTER SET utf8mb4 {format}"
        ));
        let all = "SELECT *, HEX(b), HEX(a) FROM";
        let expected = c.good(&format!("{all} t ORDER BY k")).texts();
        assert_eq!(c.good(&format!("{all} u ORDER BY k")).texts(), expected);
    }
}

#[test]
fn a_dump_file_has_the_bytes_of_one_row() {
    let directory = Directory::new("dumpfile");
    let (_server, mut c) = exporting(&directory.0);
    let done = c.good("SELECT x'00ff0a5c', 'text', 12 INTO DUMPFILE 'one'");
    assert_eq!(done.affected, 1);
    let one = std::fs::read(directory.0.join("one")).unwrap();
    assert_eq!(one, b"\x00\xff\x0a\x5ctext12");
    let two = c.query("SELECT 1 UNION SELECT 2 INTO DUMPFILE 'two'");
    assert_eq!(two.code(), 1172);
    assert!(!directory.0.join("two").exists());
}

#[test]
fn outfiles_are_new_files_in_the_allowed_directory_and_failures_leave_none() {
    let directory = Directory::new("outfile-denied");
    let (server, mut c) = exporting(&directory.0);
    c.good("CREATE TABLE t (k INT PRIMARY KEY)");
    c.good("INSERT INTO t VALUES (1), (2)");
    c.good("SELECT k FROM t INTO OUTFILE 'f'");
    let again = c.query("SELECT k FROM t INTO OUTFILE 'f'");
    assert_eq!(
        again.error,
        Some((1086, "File 'f' already exists".to_owned()))
    );
    assert_eq!(std::fs::read(directory.0.join("f")).unwrap(), b"1\n2\n");
    for outside in ["../g", "/tmp/porpoise-outfile-outside", "/etc/passwd"] {
        let refused = c.query(&format!("SELECT k FROM t INTO OUTFILE '{outside}'"));
        assert_eq!(refused.code(), 1290, "{outside}");
    }
    assert_eq!(
        c.query("SELECT k FROM t INTO OUTFILE 'no/such/g'").code(),
        1
    );
    // The second row fails: what was written is removed.
    let failed = c.query(
        "SELECT 1 + (SELECT k FROM t u WHERE u.k >= t.k) FROM t ORDER BY k DESC INTO OUTFILE 'g'",
    );
    assert_eq!(failed.code(), 1242);
    assert!(!directory.0.join("g").exists());
    c.good("CREATE USER u@localhost");
    c.good("GRANT SELECT ON d.* TO u@localhost");
    let how = How {
        user: "u",
        ..How::default()
    };
    let mut u = Client::connect(server.mysql_addr, &how).unwrap();
    assert_eq!(u.query("SELECT k FROM d.t INTO OUTFILE 'g'").code(), 1227);
    assert_eq!(u.query("SELECT 1 INTO DUMPFILE 'g'").code(), 1227);
    assert!(!directory.0.join("g").exists());
    // Prepared statements execute it, too.
    c.good("PREPARE s FROM 'SELECT k FROM t WHERE k > ? INTO OUTFILE ''p'''");
    c.good("SET @k = 1");
    c.good("EXECUTE s USING @k");
    assert_eq!(std::fs::read(directory.0.join("p")).unwrap(), b"2\n");
    let closed = Porpoise::builder().start();
    let mut c = Client::root(closed.mysql_addr);
    let refused = c.query("SELECT 1 INTO OUTFILE '/tmp/porpoise-outfile-closed'");
    assert_eq!(refused.code(), 1290);
}
