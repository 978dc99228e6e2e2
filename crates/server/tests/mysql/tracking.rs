//! Session state in OK packets (session tracking), and results without column definitions.

use crate::client::{Client, How};
use porpoise_testkit::Porpoise;
use porpoise_wire::mysql::{Capabilities, Status};
use xxhash_rust::xxh3::xxh3_64;

type Changes = Vec<(u8, Vec<String>)>;

const VARIABLE: u8 = 0;
const SCHEMA: u8 = 1;
const STATE: u8 = 2;
const CHARACTERISTICS: u8 = 4;
const TRANSACTION: u8 = 5;

fn change(kind: u8, texts: &[&str]) -> (u8, Vec<String>) {
    (kind, texts.iter().map(|t| (*t).to_owned()).collect())
}

fn changes_after(c: &mut Client, statement: &str) -> Changes {
    c.good(statement).changes
}

fn root(server: &Porpoise, with: Capabilities, without: Capabilities) -> Client {
    let how = How {
        with,
        without,
        ..How::default()
    };
    Client::connect(server.mysql_addr, &how).unwrap()
}

const NONE: Capabilities = Capabilities(0);

#[test]
fn tracked_variables_are_reported_when_set() {
    let server = Porpoise::builder().start();
    let mut c = Client::root(server.mysql_addr);
    assert_eq!(
        changes_after(&mut c, "SET NAMES latin1"),
        [
            change(VARIABLE, &["character_set_client", "latin1"]),
            change(VARIABLE, &["character_set_results", "latin1"]),
            change(VARIABLE, &["character_set_connection", "latin1"]),
        ]
    );
    assert_eq!(
        changes_after(&mut c, "SET autocommit = 0, sql_mode = ''"),
        [change(VARIABLE, &["autocommit", "OFF"])]
    );
    c.good("SET autocommit = 1");
    let names = "'sql_mode, nothing,SQL_NOTES'";
    let answer = c.good(&format!("SET session_track_system_variables = {names}"));
    assert_eq!((answer.changes, answer.warnings), (Changes::new(), 1));
    let shown = c.good("SHOW WARNINGS").texts();
    let text = "nothing is not a valid system variable and will be ignored.";
    assert_eq!(shown, [["Warning", "1231", text]]);
    assert_eq!(
        changes_after(
            &mut c,
            "SET sql_notes = 0, sql_mode = 'ANSI_QUOTES', autocommit = 1"
        ),
        [
            change(VARIABLE, &["sql_notes", "OFF"]),
            change(VARIABLE, &["sql_mode", "ANSI_QUOTES"]),
        ]
    );
    c.good("SET session_track_system_variables = '*'");
    assert_eq!(
        changes_after(&mut c, "SET max_execution_time = 9"),
        [change(VARIABLE, &["max_execution_time", "9"])]
    );
    // A change of a global variable is not reported, and a failed statement changes nothing.
    assert_eq!(
        changes_after(&mut c, "SET GLOBAL max_execution_time = 9"),
        []
    );
    assert_eq!(
        c.query("SET max_execution_time = 8, sql_mode = 'x'").code(),
        1231
    );
    assert_eq!(changes_after(&mut c, "DO 1"), []);
    c.good("SET session_track_system_variables = ''");
    assert_eq!(changes_after(&mut c, "SET autocommit = 1"), []);
}

#[test]
fn changes_of_the_default_database_are_reported() {
    let server = Porpoise::builder().start();
    let mut c = Client::root(server.mysql_addr);
    c.good("CREATE DATABASE d");
    assert_eq!(changes_after(&mut c, "USE d"), [change(SCHEMA, &["d"])]);
    assert_eq!(c.query("USE none").code(), 1049);
    assert_eq!(changes_after(&mut c, "DO 1"), []);
    assert_eq!(
        changes_after(&mut c, "DROP DATABASE d"),
        [change(SCHEMA, &[""])]
    );
    c.good("CREATE DATABASE d");
    c.good("SET session_track_schema = OFF");
    assert_eq!(changes_after(&mut c, "USE d"), []);
}

#[test]
fn any_state_change_is_reported() {
    let server = Porpoise::builder().start();
    let mut c = Client::root(server.mysql_addr);
    c.good("CREATE DATABASE d");
    c.good("USE d");
    c.good("CREATE TABLE t (id INT PRIMARY KEY)");
    assert_eq!(changes_after(&mut c, "SET @a = 1"), []);
    c.good("SET session_track_state_change = ON");
    for statement in [
        "SET @a = 1",
        "SET sql_notes = 1",
        "PREPARE p FROM 'SELECT 1'",
        "DEALLOCATE PREPARE p",
        "CREATE TEMPORARY TABLE own (id INT)",
        "DROP TEMPORARY TABLE own",
    ] {
        assert_eq!(
            changes_after(&mut c, statement),
            [change(STATE, &["1"])],
            "{statement}"
        );
    }
    for statement in ["SELECT 1", "INSERT INTO t VALUES (1)", "DO 1"] {
        assert_eq!(changes_after(&mut c, statement), [], "{statement}");
    }
}

#[test]
fn transaction_states_are_reported_as_letters() {
    let server = Porpoise::builder().start();
    let mut c = Client::root(server.mysql_addr);
    c.good("CREATE DATABASE d");
    c.good("USE d");
    c.good("CREATE TABLE t (id INT PRIMARY KEY)");
    c.good("SET session_track_transaction_info = 'STATE'");
    for (statement, letters) in [
        ("START TRANSACTION", Some("T_______")),
        ("DO 1", None),
        ("SELECT 1", Some("T_____S_")),
        ("SELECT * FROM t", Some("T_R___S_")),
        ("INSERT INTO t VALUES (1)", Some("T_R_W_S_")),
        ("INSERT INTO t VALUES (2)", None),
        ("COMMIT", Some("________")),
        ("INSERT INTO t VALUES (3)", None),
        ("LOCK TABLES t READ", Some("_______L")),
        ("UNLOCK TABLES", Some("________")),
    ] {
        let expected: Changes = letters
            .map(|l| change(TRANSACTION, &[l]))
            .into_iter()
            .collect();
        assert_eq!(changes_after(&mut c, statement), expected, "{statement}");
    }
    c.good("SET session_track_system_variables = '', autocommit = 0");
    let implicit = [change(TRANSACTION, &["I___W___"])];
    assert_eq!(changes_after(&mut c, "INSERT INTO t VALUES (4)"), implicit);
    assert_eq!(
        changes_after(&mut c, "ROLLBACK"),
        [change(TRANSACTION, &["________"])]
    );
}

#[test]
fn transaction_state_is_reported_as_the_statements_that_restore_it() {
    let server = Porpoise::builder().start();
    let mut c = Client::root(server.mysql_addr);
    c.good("SET session_track_transaction_info = 'CHARACTERISTICS'");
    let level = "SET TRANSACTION ISOLATION LEVEL READ COMMITTED;";
    for (statement, text, letters) in [
        (
            "SET TRANSACTION READ ONLY",
            "SET TRANSACTION READ ONLY;",
            None,
        ),
        (
            "START TRANSACTION WITH CONSISTENT SNAPSHOT",
            "START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY;",
            Some("T_______"),
        ),
        ("ROLLBACK", "", Some("________")),
        (
            "SET TRANSACTION ISOLATION LEVEL READ COMMITTED",
            level,
            None,
        ),
        (
            "START TRANSACTION READ WRITE",
            "SET TRANSACTION ISOLATION LEVEL READ COMMITTED; START TRANSACTION READ WRITE;",
            Some("T_______"),
        ),
        ("COMMIT", "", Some("________")),
        ("BEGIN", "START TRANSACTION;", Some("T_______")),
    ] {
        let mut expected = vec![change(CHARACTERISTICS, &[text])];
        expected.extend(letters.map(|l| change(TRANSACTION, &[l])));
        assert_eq!(changes_after(&mut c, statement), expected, "{statement}");
    }
}

#[test]
fn state_changes_wait_for_a_reply_that_ends_with_ok() {
    let server = Porpoise::builder().start();
    let mut c = root(&server, NONE, Capabilities::DEPRECATE_EOF);
    c.good("SET session_track_transaction_info = 'STATE'");
    c.good("BEGIN");
    assert_eq!(changes_after(&mut c, "SELECT 1"), []);
    assert_eq!(
        changes_after(&mut c, "DO 1"),
        [change(TRANSACTION, &["T_____S_"])]
    );
    let mut old = root(&server, NONE, Capabilities::SESSION_TRACK);
    let answer = old.good("SET NAMES latin1");
    assert!(!answer.changed && !answer.status.has(Status::SESSION_STATE_CHANGED));
}

#[test]
fn column_metadata_is_omitted_for_clients_that_allow_it() {
    let server = Porpoise::builder().start();
    let mut plain = Client::root(server.mysql_addr);
    assert_eq!(plain.query("SET resultset_metadata = NONE").code(), 1231);
    for without in [NONE, Capabilities::DEPRECATE_EOF] {
        let mut c = root(&server, Capabilities::OPTIONAL_RESULTSET_METADATA, without);
        assert_eq!(c.good("SELECT 1 AS a, 2 AS b").columns, ["a", "b"]);
        c.good("SET resultset_metadata = NONE");
        let bare = c.good("SELECT 1 AS a, 2 AS b");
        assert_eq!(
            (bare.columns.len(), bare.texts()),
            (0, vec![vec!["1".into(), "2".into()]])
        );
        let all = c.all("SELECT 1; SELECT 2");
        assert_eq!((all.len(), all[1].one()), (2, "2".to_owned()));
        c.good("SET resultset_metadata = FULL");
        assert_eq!(c.good("SELECT 1 AS a").columns, ["a"]);
    }
}

#[test]
fn a_checksum_takes_the_place_of_rows() {
    let server = Porpoise::builder().start();
    for without in [NONE, Capabilities::DEPRECATE_EOF] {
        let mut c = root(&server, NONE, without);
        c.good("CREATE DATABASE IF NOT EXISTS d");
        c.good("USE d");
        c.good("DROP TABLE IF EXISTS t");
        c.good("CREATE TABLE t (id INT ZEROFILL PRIMARY KEY, l VARCHAR(9) CHARACTER SET latin1, b BLOB, n DECIMAL(9,2))");
        c.good("INSERT INTO t VALUES (1, 'd\u{e9}j\u{e0}', REPEAT('b', 300), 1.5), (2, NULL, '', NULL)");
        // The payloads of the rows' packets: texts after their lengths, 0xFB for NULL.
        let long = [&[0xFC, 44, 1][..], &[b'b'; 300]].concat();
        let first = [
            b"\x0a0000000001\x06d\xc3\xa9j\xc3\xa0".as_slice(),
            &long,
            b"\x041.50",
        ]
        .concat();
        let second = b"\x0a0000000002\xfb\x00\xfb";
        let sum = xxh3_64(&first).wrapping_add(xxh3_64(second));
        c.good("SET result_checksum = ON");
        for order in ["ASC", "DESC"] {
            let answer = c.good(&format!("SELECT * FROM t ORDER BY id {order}"));
            assert_eq!(answer.columns, ["rows", "checksum"]);
            assert_eq!(answer.texts(), [["2".to_owned(), sum.to_string()]]);
        }
        // One row for each result of a text; the replies of statements without a result do not change.
        let all = c.all("SELECT * FROM t WHERE id = 3; DO 1; SELECT * FROM t WHERE id = 2; SET result_checksum = OFF; SELECT 5");
        let texts: Vec<_> = all.iter().map(|answer| answer.texts()).collect();
        let none = vec![vec!["0".to_owned(), "0".to_owned()]];
        let one = vec![vec!["1".to_owned(), xxh3_64(second).to_string()]];
        assert_eq!(
            texts,
            [none, vec![], one, vec![], vec![vec!["5".to_owned()]]]
        );
    }
}

#[test]
fn transaction_branches_are_reported_by_letters_and_by_xa_start() {
    let server = Porpoise::builder().start();
    let mut c = Client::root(server.mysql_addr);
    c.good("CREATE DATABASE d");
    c.good("USE d");
    c.good("CREATE TABLE t (id INT PRIMARY KEY)");
    c.good("SET session_track_transaction_info = 'CHARACTERISTICS'");
    let start = "XA START 'a','b',7;";
    assert_eq!(
        changes_after(&mut c, "XA START 'a','b',7"),
        [
            change(CHARACTERISTICS, &[start]),
            change(TRANSACTION, &["T_______"])
        ]
    );
    assert_eq!(
        changes_after(&mut c, "INSERT INTO t VALUES (1)"),
        [change(TRANSACTION, &["T___W___"])]
    );
    // Between XA END and XA PREPARE the branch still belongs to the session.
    assert_eq!(changes_after(&mut c, "XA END 'a','b',7"), []);
    let none = [
        change(CHARACTERISTICS, &[""]),
        change(TRANSACTION, &["________"]),
    ];
    assert_eq!(changes_after(&mut c, "XA PREPARE 'a','b',7"), none);
    assert_eq!(changes_after(&mut c, "XA COMMIT 'a','b',7"), []);
    c.good("SET TRANSACTION ISOLATION LEVEL SERIALIZABLE, READ ONLY");
    assert_eq!(
        changes_after(&mut c, "XA START 'c'"),
        [
            change(
                CHARACTERISTICS,
                &[
                    "SET TRANSACTION ISOLATION LEVEL SERIALIZABLE; SET TRANSACTION READ ONLY; XA START 'c';"
                ]
            ),
            change(TRANSACTION, &["T_______"])
        ]
    );
    assert_eq!(changes_after(&mut c, "XA END 'c'"), []);
    assert_eq!(changes_after(&mut c, "XA COMMIT 'c' ONE PHASE"), none);
}
