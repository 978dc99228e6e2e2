//! Accounts and privileges of memcached connections, through the real binary.

use crate::with_sql::sql;
use porpoise_testkit::{Porpoise, exchange};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Command;
use std::time::Duration;

/// A server on which table `app.t` is mapped to keys `t:` and account `u@localhost`, password
/// `pw`, may do nothing.
fn server(account: &str) -> Porpoise {
    let server = Porpoise::builder()
        .arg("--memcached-account", account)
        .start();
    sql(
        &server,
        "CREATE DATABASE app;
         CREATE TABLE app.t (id VARCHAR(20) PRIMARY KEY, v VARCHAR(40));
         INSERT INTO app.t VALUES ('1', '10');
         ALTER TABLE app.t MEMCACHED PREFIX 't:';
         CREATE USER u@localhost IDENTIFIED BY 'pw';",
    );
    server
}

fn ask(server: &Porpoise, request: &[u8]) -> Vec<u8> {
    exchange(server.memcached_addr, request)
}

/// The statement's error number as user `u`; 0: it succeeded.
fn sql_as_u(server: &Porpoise, statement: &str) -> u32 {
    let done = Command::new("mariadb")
        .args(["-h", "127.0.0.1", "-u", "u", "-ppw", "-N", "-e", statement])
        .args(["-P", &server.mysql_addr.port().to_string()])
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&done.stderr).into_owned();
    let number = text
        .split("ERROR ")
        .nth(1)
        .and_then(|t| t.split(' ').next());
    number.map_or(0, |n| n.parse().unwrap())
}

/// An ASCII conversation as user `u`, without the reply to the authentication.
fn as_u(server: &Porpoise, request: &str) -> String {
    let all = format!("set login 0 0 4\r\nu pw\r\n{request}");
    let reply = String::from_utf8(ask(server, all.as_bytes())).unwrap();
    reply.strip_prefix("STORED\r\n").unwrap().to_owned()
}

/// A request of the binary protocol.
pub fn binary(opcode: u8, extras: &[u8], key: &[u8], value: &[u8]) -> Vec<u8> {
    let body = u32::try_from(extras.len() + key.len() + value.len()).unwrap();
    let mut bytes = vec![0x80, opcode];
    bytes.extend(u16::try_from(key.len()).unwrap().to_be_bytes());
    bytes.extend([u8::try_from(extras.len()).unwrap(), 0, 0, 0]);
    bytes.extend(body.to_be_bytes());
    bytes.extend([0; 12]);
    for part in [extras, key, value] {
        bytes.extend(part);
    }
    bytes
}

/// The statuses of a binary conversation's replies.
pub fn statuses(mut reply: &[u8]) -> Vec<u16> {
    let mut all = Vec::new();
    while let Some((head, rest)) = reply.split_first_chunk::<24>() {
        all.push(u16::from_be_bytes([head[6], head[7]]));
        let body = u32::from_be_bytes([head[8], head[9], head[10], head[11]]);
        reply = &rest[body as usize..];
    }
    all
}

const PLAIN: &[u8] = b"PLAIN";

pub fn sasl(password: &str) -> Vec<u8> {
    binary(0x21, b"", PLAIN, format!("\0u\0{password}").as_bytes())
}

#[test]
fn the_default_account_works_until_a_privilege_is_revoked() {
    let server = server("memcached@localhost");
    assert_eq!(
        server.memcached("get t:1\r\nset k 0 0 1\r\nx\r\nget k\r\n"),
        "VALUE t:1 0 2\r\n10\r\nEND\r\nSTORED\r\nVALUE k 0 1\r\nx\r\nEND\r\n"
    );
    sql(&server, "REVOKE UPDATE ON *.* FROM memcached@localhost");
    assert_eq!(
        server.memcached("set t:1 0 0 1\r\n9\r\nget t:1\r\nadd t:2 0 0 1\r\n2\r\n"),
        "SERVER_ERROR UPDATE command denied to user 'memcached'@'localhost' for table 't'\r\n\
         VALUE t:1 0 2\r\n10\r\nEND\r\nSTORED\r\n"
    );
    sql(&server, "ALTER USER memcached@localhost ACCOUNT LOCK");
    assert!(
        server
            .memcached("get t:1\r\n")
            .starts_with("SERVER_ERROR SELECT")
    );
    sql(&server, "DROP USER memcached@localhost");
    assert!(
        server
            .memcached("get t:1\r\n")
            .starts_with("SERVER_ERROR SELECT")
    );
    // No password authenticates it.
    assert_ne!(
        sql_as_u(&server, "SELECT 1"),
        1045,
        "the other account still logs in"
    );
}

#[test]
fn without_a_default_account_commands_need_authentication() {
    let server = server("off");
    sql(&server, "GRANT SELECT ON app.t TO u@localhost");
    let refused = "CLIENT_ERROR unauthenticated\r\n";
    let reply = server.memcached("get t:1\r\nmg t:1 v\r\nstats\r\nflush_all\r\nmn\r\n");
    assert_eq!(reply, refused.repeat(5));
    assert!(
        server
            .memcached("version\r\nquit\r\nget t:1\r\n")
            .starts_with("VERSION ")
    );
    assert_eq!(
        server.memcached("set a 0 0 5\r\nu no!\r\nget t:1\r\n"),
        format!("CLIENT_ERROR authentication failure\r\n{refused}")
    );
    assert_eq!(
        server.memcached("set a 0 0 7\r\nwho pwd\r\n"),
        "CLIENT_ERROR authentication failure\r\n"
    );
    assert_eq!(
        as_u(&server, "get t:1\r\n"),
        "VALUE t:1 0 2\r\n10\r\nEND\r\n"
    );
    // A value that is longer than any credentials is not kept.
    let long = format!("set a 0 0 100000\r\n{}\r\nget t:1\r\n", "x".repeat(100_000));
    assert!(server.memcached(&long).ends_with(refused));
}

#[test]
fn sasl_plain_authenticates_the_binary_protocol() {
    let server = server("off");
    sql(&server, "GRANT SELECT ON app.t TO u@localhost");
    let get = || binary(0x00, b"", b"t:1", b"");
    let talk = |parts: &[Vec<u8>]| statuses(&ask(&server, &parts.concat()));
    assert_eq!(talk(&[get(), binary(0x0b, b"", b"", b"")]), [0x20, 0]);
    let mechanisms = ask(&server, &binary(0x20, b"", b"", b""));
    assert!(mechanisms.ends_with(PLAIN));
    assert_eq!(talk(&[sasl("wrong"), get()]), [0x20, 0x20]);
    assert_eq!(talk(&[sasl("pw"), get()]), [0, 0]);
    let set = binary(0x01, &[0; 8], b"t:1", b"5");
    assert_eq!(talk(&[sasl("pw"), set]), [0, 0x20]);
    let other = binary(0x21, b"", b"CRAM-MD5", b"x");
    assert_eq!(talk(&[other, get()]), [0x20, 0x20]);
}

/// One command: its ASCII or meta request, its binary request, and the privileges it needs.
struct Case {
    ascii: &'static str,
    binary: Option<Vec<u8>>,
    needs: &'static [&'static str],
}

fn cases() -> Vec<Case> {
    let case = |ascii, binary, needs| Case {
        ascii,
        binary,
        needs,
    };
    let store = |opcode, key: &[u8]| Some(binary(opcode, &[0; 8], key, b"7"));
    let count = |opcode| {
        let extras = [[0; 8], [0; 8]].concat();
        let extras = [&[0, 0, 0, 0, 0, 0, 0, 1], &extras[8..], &[0xff; 4]].concat();
        Some(binary(opcode, &extras, b"t:1", b""))
    };
    let change = &["SELECT", "UPDATE"];
    vec![
        case(
            "get t:1\r\n",
            Some(binary(0x00, b"", b"t:1", b"")),
            &["SELECT"],
        ),
        case(
            "gets t:1 t:2\r\n",
            Some(binary(0x0c, b"", b"t:1", b"")),
            &["SELECT"],
        ),
        case("mg t:1 v\r\n", None, &["SELECT"]),
        case("me t:1\r\n", None, &["SELECT"]),
        case(
            "gat 0 t:1\r\n",
            Some(binary(0x1d, &[0; 4], b"t:1", b"")),
            change,
        ),
        case("mg t:1 T0 v\r\n", None, change),
        case(
            "touch t:1 0\r\n",
            Some(binary(0x1c, &[0; 4], b"t:1", b"")),
            change,
        ),
        case(
            "set t:1 0 0 1\r\n7\r\n",
            store(0x01, b"t:1"),
            &["INSERT", "UPDATE"],
        ),
        case("ms t:1 1\r\n7\r\n", None, &["INSERT", "UPDATE"]),
        case("add t:9 0 0 1\r\n7\r\n", store(0x02, b"t:9"), &["INSERT"]),
        case("replace t:1 0 0 1\r\n7\r\n", store(0x03, b"t:1"), change),
        case("cas t:1 0 0 1 1\r\n7\r\n", None, change),
        case(
            "append t:1 0 0 1\r\n7\r\n",
            Some(binary(0x0e, b"", b"t:1", b"7")),
            change,
        ),
        case(
            "prepend t:1 0 0 1\r\n7\r\n",
            Some(binary(0x0f, b"", b"t:1", b"7")),
            change,
        ),
        case("incr t:1 1\r\n", count(0x05), change),
        case("decr t:1 1\r\n", count(0x06), change),
        case("ma t:1\r\n", None, change),
        case("ma t:8 N0 J1\r\n", None, &["SELECT", "UPDATE", "INSERT"]),
        case("md t:1 I\r\n", None, change),
        case(
            "delete t:1\r\n",
            Some(binary(0x04, b"", b"t:1", b"")),
            &["SELECT", "DELETE"],
        ),
        case("md t:1\r\n", None, &["SELECT", "DELETE"]),
    ]
}

const DENIED: &str = "command denied to user 'u'@'localhost' for table 't'";

#[test]
fn every_command_needs_the_privileges_of_its_statement_in_every_dialect() {
    let server = server("off");
    let grant = |privileges: &[&str]| {
        sql(
            &server,
            "REVOKE ALL PRIVILEGES, GRANT OPTION FROM u@localhost;
             REPLACE INTO app.t VALUES ('1', '10');
             DELETE FROM app.t WHERE id <> '1';",
        );
        if !privileges.is_empty() {
            let list = privileges.join(", ");
            sql(&server, &format!("GRANT {list} ON app.t TO u@localhost"));
        }
    };
    for case in cases() {
        for absent in case.needs {
            let others = ["SELECT", "INSERT", "UPDATE", "DELETE"];
            let others: Vec<&str> = others.into_iter().filter(|p| p != absent).collect();
            grant(&others);
            let reply = as_u(&server, case.ascii);
            let expected = format!("SERVER_ERROR {absent} {DENIED}\r\n");
            assert_eq!(reply, expected, "{} without {absent}", case.ascii);
            if let Some(request) = &case.binary {
                let reply = ask(&server, &[sasl("pw"), request.clone()].concat());
                assert_eq!(statuses(&reply), [0, 0x20], "{} binary", case.ascii);
            }
        }
        grant(case.needs);
        let reply = as_u(&server, case.ascii);
        assert!(!reply.contains("denied"), "{}: {reply}", case.ascii);
        if let Some(request) = &case.binary {
            grant(case.needs);
            let reply = ask(&server, &[sasl("pw"), request.clone()].concat());
            assert_ne!(statuses(&reply)[1], 0x20, "{} binary", case.ascii);
        }
    }
    // Several commands as one transaction, and containers by name.
    grant(&["SELECT"]);
    let reply = as_u(&server, "mn begin\r\nms t:1 1\r\n7\r\nmn\r\n");
    assert!(
        reply.ends_with("MN R\r\n") && reply.contains(DENIED),
        "{reply}"
    );
    grant(&["INSERT", "UPDATE"]);
    let container = sql(
        &server,
        "SELECT container FROM ndbmemcache.key_prefixes WHERE key_prefix = 't:'",
    );
    for request in ["get @@NAME\r\n", "get @@NAME.1\r\n"] {
        let reply = as_u(&server, &request.replace("NAME", container.trim()));
        assert!(reply.contains(DENIED), "{request}: {reply}");
    }
}

#[test]
fn grants_on_mapped_columns_replace_grants_on_the_table() {
    let server = server("off");
    sql(
        &server,
        "CREATE TABLE app.c (id VARCHAR(20) PRIMARY KEY, v VARCHAR(40), f INT UNSIGNED DEFAULT 0,
                             secret INT DEFAULT 7);
         INSERT INTO app.c (id, v) VALUES ('1', '10');
         INSERT INTO ndbmemcache.containers SET name = 'c', db_schema = 'app', db_table = 'c',
             key_columns = 'id', value_columns = 'v', flags = 'f';
         INSERT INTO ndbmemcache.key_prefixes VALUES (0, 'c:', 0, 'ndb-only', 'c')",
    );
    let grant = |what: &str| {
        let all = format!(
            "REVOKE ALL PRIVILEGES, GRANT OPTION FROM u@localhost;
             DELETE FROM app.c WHERE id = '2';
             GRANT {what} ON app.c TO u@localhost"
        );
        sql(&server, &all);
    };
    let denied = |privilege: &str| {
        let user = "command denied to user 'u'@'localhost' for table 'c'";
        format!("SERVER_ERROR {privilege} {user}\r\n")
    };
    let (get, set, add) = (
        "get c:1\r\n",
        "set c:1 4 0 2\r\n12\r\n",
        "add c:2 0 0 1\r\n2\r\n",
    );
    grant("SELECT (id, v), INSERT (id, v), UPDATE (f)");
    assert_eq!(as_u(&server, get), denied("SELECT"), "the flags are read");
    assert_eq!(as_u(&server, set), denied("INSERT"));
    assert_eq!(as_u(&server, add), denied("INSERT"));
    grant("SELECT (id, v, f)");
    assert_eq!(as_u(&server, get), "VALUE c:1 0 2\r\n10\r\nEND\r\n");
    assert_eq!(as_u(&server, set), denied("INSERT"));
    grant("INSERT (id, v, f), UPDATE (v)");
    assert_eq!(as_u(&server, add), "STORED\r\n");
    assert_eq!(as_u(&server, set), denied("UPDATE"));
    assert_eq!(as_u(&server, get), denied("SELECT"));
    grant("INSERT, UPDATE (v, f), SELECT (f, v, id), DELETE");
    let all = [set, get, "incr c:1 5\r\n", add, "delete c:2\r\n"].concat();
    assert_eq!(
        as_u(&server, &all),
        "STORED\r\nVALUE c:1 4 2\r\n12\r\nEND\r\n17\r\nSTORED\r\nDELETED\r\n"
    );
    // In force from the next command.
    sql(&server, "REVOKE SELECT (f) ON app.c FROM u@localhost");
    assert_eq!(as_u(&server, get), denied("SELECT"));
    assert_eq!(sql_as_u(&server, "SELECT id, v FROM app.c"), 0);
    assert_eq!(sql_as_u(&server, "SELECT secret FROM app.c"), 1143);
}

#[test]
fn flush_all_needs_delete_on_every_table_it_empties() {
    let server = server("off");
    sql(
        &server,
        "GRANT SELECT, INSERT, UPDATE ON ndbmemcache.kv TO u@localhost",
    );
    assert_eq!(as_u(&server, "set k 0 0 1\r\nx\r\n"), "STORED\r\n");
    let reply = as_u(&server, "flush_all\r\nflush_all 1\r\nget k\r\n");
    let denied = "SERVER_ERROR DELETE command denied to user 'u'@'localhost' for table 'kv'\r\n";
    assert_eq!(
        reply,
        format!("{denied}{denied}VALUE k 0 1\r\nx\r\nEND\r\n")
    );
    sql(&server, "GRANT DELETE ON ndbmemcache.kv TO u@localhost");
    assert_eq!(as_u(&server, "flush_all\r\nget k\r\n"), "OK\r\nEND\r\n");
}

#[test]
fn system_tables_cannot_be_mapped() {
    let server = server("memcached@localhost");
    let refused = server.sql("ALTER TABLE mysql.user MEMCACHED PREFIX 'x:'");
    assert_eq!(refused.error_number(), Some(3554), "{}", refused.stderr);
    sql(
        &server,
        "INSERT INTO ndbmemcache.containers SET name = 'x', db_schema = 'mysql',
             db_table = 'user', key_columns = 'Host,User', value_columns = 'plugin';
         INSERT INTO ndbmemcache.key_prefixes VALUES (0, 'x:', 0, 'ndb-only', 'x')",
    );
    let why = "table mysql.user is a system table and cannot be mapped";
    assert_eq!(
        sql(
            &server,
            "SELECT reason FROM ndbmemcache.status WHERE key_prefix = 'x:'"
        ),
        format!("{why}\n")
    );
    assert_eq!(
        server.memcached("get x:localhost\troot\r\n"),
        format!("SERVER_ERROR keys of prefix 'x:' are disabled: {why}\r\n")
    );
}

#[test]
fn the_mapping_belongs_to_its_administrators_and_owners() {
    let server = server("memcached@localhost");
    sql(
        &server,
        "CREATE TABLE app.own (id INT PRIMARY KEY, v INT);
         CREATE TABLE app.other (id INT PRIMARY KEY, v INT);
         ALTER TABLE app.other MEMCACHED PREFIX 'session:';
         GRANT ALTER, SELECT, INSERT, UPDATE ON app.own TO u@localhost;
         GRANT ALL ON ndbmemcache.* TO u@localhost;",
    );
    let insert = "INSERT INTO ndbmemcache.key_prefixes VALUES (0, 'z:', 0, 'ndb-only', 'kv')";
    assert_eq!(sql_as_u(&server, insert), 1227);
    let map = |prefix: &str| format!("ALTER TABLE app.own MEMCACHED PREFIX '{prefix}'");
    assert_eq!(sql_as_u(&server, &map("own:")), 1142, "DELETE is missing");
    sql(&server, "GRANT DELETE ON app.own TO u@localhost");
    assert_eq!(sql_as_u(&server, &map("own:")), 0);
    for hijack in ["session:", "session:1", "sess"] {
        assert_eq!(sql_as_u(&server, &map(hijack)), 1227, "{hijack}");
    }
    let seen = "SELECT key_prefix FROM ndbmemcache.status";
    let output = Command::new("mariadb")
        .args(["-h", "127.0.0.1", "-u", "u", "-ppw", "-N", "-e", seen])
        .args(["-P", &server.mysql_addr.port().to_string()])
        .output()
        .unwrap();
    let seen = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        seen.contains("own:") && !seen.contains("session:"),
        "{seen}"
    );
    sql(&server, "GRANT MEMCACHED_ADMIN ON *.* TO u@localhost");
    assert_eq!(sql_as_u(&server, &map("sess")), 0);
    assert_eq!(sql_as_u(&server, insert), 0);
}

#[test]
fn either_password_authenticates_in_every_dialect() {
    let server = server("off");
    sql(
        &server,
        "GRANT SELECT ON app.t TO u@localhost;
         ALTER USER u@localhost IDENTIFIED BY 'p2' RETAIN CURRENT PASSWORD",
    );
    let ascii = |password: &str| {
        let request = format!("set a 0 0 4\r\nu {password}\r\nget t:1\r\n");
        server.memcached(&request)
    };
    let read = "STORED\r\nVALUE t:1 0 2\r\n10\r\nEND\r\n";
    for password in ["pw", "p2"] {
        assert_eq!(ascii(password), read);
        assert_eq!(statuses(&ask(&server, &sasl(password))), [0]);
    }
    assert!(ascii("no").starts_with("CLIENT_ERROR authentication failure"));
    sql(&server, "ALTER USER u@localhost DISCARD OLD PASSWORD");
    assert!(ascii("pw").starts_with("CLIENT_ERROR authentication failure"));
    assert_eq!(statuses(&ask(&server, &sasl("pw"))), [0x20]);
    assert_eq!(ascii("p2"), read);
}

#[test]
fn restrictions_of_databases_hold_for_keys() {
    let server = server("memcached@localhost");
    sql(
        &server,
        "SET GLOBAL partial_revokes = ON;
         REVOKE UPDATE, DELETE ON app.* FROM memcached@localhost",
    );
    assert_eq!(
        server.memcached("get t:1\r\nset t:1 0 0 1\r\n9\r\ndelete t:1\r\nset k 0 0 1\r\nx\r\n"),
        "VALUE t:1 0 2\r\n10\r\nEND\r\n\
         SERVER_ERROR UPDATE command denied to user 'memcached'@'localhost' for table 't'\r\n\
         SERVER_ERROR DELETE command denied to user 'memcached'@'localhost' for table 't'\r\n\
         STORED\r\n"
    );
    sql(
        &server,
        "GRANT UPDATE, DELETE ON app.* TO memcached@localhost",
    );
    assert_eq!(server.memcached("set t:1 0 0 1\r\n9\r\n"), "STORED\r\n");
}

#[test]
fn connections_keep_an_account_that_is_renamed() {
    let server = server("off");
    sql(&server, "GRANT SELECT ON app.t TO u@localhost");
    let mut stream = TcpStream::connect(server.memcached_addr).unwrap();
    stream
        .set_read_timeout(Some(Duration::from_secs(20)))
        .unwrap();
    let mut talk = |request: &str, reply: &str| {
        stream.write_all(request.as_bytes()).unwrap();
        let mut bytes = vec![0; reply.len()];
        stream.read_exact(&mut bytes).unwrap();
        assert_eq!(String::from_utf8(bytes).unwrap(), reply);
    };
    talk("set a 0 0 4\r\nu pw\r\n", "STORED\r\n");
    let value = "VALUE t:1 0 2\r\n10\r\nEND\r\n";
    talk("get t:1\r\n", value);
    sql(&server, "RENAME USER u@localhost TO v@localhost");
    talk("get t:1\r\n", value);
    // Another account takes the old name; the connection does not get its rights.
    sql(&server, "CREATE USER u@localhost");
    talk("get t:1\r\n", value);
    sql(&server, "DROP USER v@localhost");
    let denied = "SERVER_ERROR SELECT command denied to user 'v'@'localhost' for table 't'\r\n";
    talk("get t:1\r\n", denied);
}
