//! The client half against a MariaDB server, through its Unix socket:
//! `cargo test -p porpoise-wire --test integration mysql_mariadb`.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;

use porpoise_testkit::Mariadb;
use porpoise_types::{Collation, ColumnType, Date, DateTime, Decimal, Kind, Time, ValueRef};
use porpoise_wire::mysql::Capabilities;
use porpoise_wire::mysql::client::login::{self, ClientLogin, Credentials, WANTED};
use porpoise_wire::mysql::client::result::{Event, ResultReader, Row, parse_prepared};
use porpoise_wire::mysql::client::{self};
use porpoise_wire::mysql::column::{describe, flag};
use porpoise_wire::mysql::command::code;
use porpoise_wire::mysql::frame::{FrameStep, PacketReader};
use porpoise_wire::mysql::params::Param;

/// A connection that blocks; panics at whatever is unexpected.
struct Client {
    stream: UnixStream,
    reader: PacketReader,
    buf: Vec<u8>,
    caps: Capabilities,
}

impl Client {
    fn connect(
        socket: &Path,
        user: &str,
        password: &str,
        wanted: Capabilities,
    ) -> (Client, login::Step) {
        let stream = UnixStream::connect(socket).expect("a connection");
        let mut client = Client {
            stream,
            reader: PacketReader::before_login(),
            buf: Vec::new(),
            caps: Capabilities::default(),
        };
        let greeting = client.packet();
        let greeting = login::parse_greeting(&greeting).expect("greeting");
        let credentials = Credentials {
            user: user.into(),
            password: password.into(),
            attributes: vec![(b"program_name".to_vec(), b"test".to_vec())],
            ..Credentials::default()
        };
        let mut state = ClientLogin::new(&greeting, credentials, wanted, true);
        client.caps = state.capabilities();
        let (mut out, mut number) = (Vec::new(), client.reader.sequence());
        state.start(&mut out, &mut number);
        loop {
            client.stream.write_all(&out).expect("write");
            client.reader.expect(number);
            let packet = client.packet();
            out.clear();
            number = client.reader.sequence();
            let step = state.more(&packet, &mut out, &mut number);
            if step != login::Step::Wait {
                client.reader.set_limit(1 << 30);
                return (client, step);
            }
        }
    }

    fn packet(&mut self) -> Vec<u8> {
        loop {
            match self.reader.next(&mut self.buf).expect("a packet") {
                FrameStep::Packet { payload, consumed } => {
                    let payload = self.buf[payload].to_vec();
                    self.buf.drain(..consumed);
                    return payload;
                }
                FrameStep::NeedMore(_) => {
                    let mut piece = vec![0; 1 << 16];
                    let n = self.stream.read(&mut piece).expect("read");
                    assert!(n > 0, "the server closed");
                    self.buf.extend_from_slice(&piece[..n]);
                }
                other => panic!("{other:?}"),
            }
        }
    }

    fn send(&mut self, command: &[u8], sequence: u8) {
        self.stream.write_all(command).expect("write");
        self.reader.expect(sequence);
    }

    /// Runs statements; answers each event in words, a row as its values.
    fn query(&mut self, text: &[u8]) -> Vec<String> {
        let mut out = Vec::new();
        client::query(&mut out, self.caps, text, &[]);
        // The number that the answer has follows the last piece's.
        let pieces = (text.len() + 1) / 0xff_ffff + 1;
        self.send(&out, pieces as u8);
        self.events(false)
    }

    fn events(&mut self, binary: bool) -> Vec<String> {
        let mut reader = ResultReader::new(self.caps, binary);
        let mut words = Vec::new();
        while !reader.finished() {
            let packet = self.packet();
            words.push(match reader.next(&packet).expect("an event") {
                Event::Ok(ok) => format!("ok {}", ok.affected_rows),
                Event::Error(e) => format!("error {} {}", e.code, e.message),
                Event::Row(Row::Text(row)) => row
                    .map(|v| v.map_or("NULL".into(), |v| String::from_utf8_lossy(v).into_owned()))
                    .collect::<Vec<_>>()
                    .join("|"),
                Event::Row(Row::Binary(row)) => {
                    row.map(|v| format!("{v:?}")).collect::<Vec<_>>().join("|")
                }
                Event::End(_) => "end".into(),
                Event::FileRequest(name) => format!("file {name:?}"),
                Event::Column(_) | Event::Columns(_) | Event::EndOfColumns => continue,
            });
        }
        words
    }

    fn prepare(&mut self, statement: &[u8]) -> u32 {
        let mut out = Vec::new();
        client::prepare(&mut out, statement);
        self.send(&out, 1);
        let prepared = parse_prepared(&self.packet()).expect("prepared");
        for _ in 0..prepared.packets_to_follow(self.caps) {
            self.packet();
        }
        prepared.id
    }
}

#[test]
fn the_client_half_speaks_with_mariadb() {
    let server = Mariadb::builder().arg("--max-allowed-packet=64M").start();
    for wanted in [
        WANTED,
        Capabilities(WANTED.0 & !Capabilities::DEPRECATE_EOF.0),
    ] {
        let (mut root, step) = Client::connect(&server.socket, "root", "", wanted);
        assert_eq!(step, login::Step::Done);
        logins(&mut root, &server);
        texts(&mut root);
        statements(&mut root);
        metadata(&mut root);
        large(&mut root);
    }
}

fn logins(root: &mut Client, server: &Mariadb) {
    let made = root.query(b"CREATE OR REPLACE USER u@localhost IDENTIFIED BY 'secret'");
    assert_eq!(made, ["ok 0"]);
    let (mut user, step) = Client::connect(&server.socket, "u", "secret", WANTED);
    assert_eq!(step, login::Step::Done);
    assert_eq!(user.query(b"SELECT 1, NULL, 'x'"), ["1|NULL|x", "end"]);
    let (_, step) = Client::connect(&server.socket, "u", "wrong", WANTED);
    assert!(matches!(step, login::Step::Refused(e) if e.code == 1045));
}

fn texts(root: &mut Client) {
    let several = root.query(b"SELECT 1; DO 1; SELECT nothing; SELECT 2");
    assert_eq!(&several[..3], ["1", "end", "ok 0"]);
    assert!(several[3].starts_with("error 1054 "), "{several:?}");
    let mut ping = Vec::new();
    client::simple(&mut ping, code::PING);
    root.send(&ping, 1);
    assert_eq!(root.events(false), ["ok 0"]);
    let mut init = Vec::new();
    client::text(&mut init, code::INIT_DB, b"mysql");
    root.send(&init, 1);
    assert_eq!(root.events(false), ["ok 0"]);
    assert_eq!(root.query(b"SELECT DATABASE()"), ["mysql", "end"]);
}

fn statements(root: &mut Client) {
    let date = Date::new(2024, 2, 29).expect("date");
    let time = Time::from_micros(-90_061_500_000).expect("time");
    let values = [
        ValueRef::Int(-5),
        ValueRef::UInt(u64::MAX),
        ValueRef::Double(1.5),
        ValueRef::Decimal(Decimal::parse(b"-12.30").expect("decimal")),
        ValueRef::Bytes(b"text"),
        ValueRef::Date(date),
        ValueRef::DateTime(DateTime::new(date, 1, 2, 3, 4).expect("time")),
        ValueRef::Time(time),
        ValueRef::Null,
    ];
    let params = values.map(Param::from);
    let id = root.prepare(
        b"SELECT ? = -5, ? = 18446744073709551615, ? = 1.5, ? = -12.30, ? = 'text',
          ? = '2024-02-29', ? = '2024-02-29 01:02:03.000004', ? = '-25:01:01.5', ? IS NULL",
    );
    for types in [true, false] {
        let mut out = Vec::new();
        client::execute(&mut out, root.caps, id, &params, types, |_| false);
        root.send(&out, 1);
        let all = ["Int(1)"; 9].join("|");
        assert_eq!(root.events(true), [all.as_str(), "end"]);
    }
    let id = root.prepare(b"SELECT LENGTH(?), ?");
    let params = [ValueRef::Bytes(b""), ValueRef::Int(7)].map(Param::from);
    let mut out = Vec::new();
    client::long_data(&mut out, id, 0, &[b'x'; 1000]);
    client::long_data(&mut out, id, 0, &[b'y'; 1000]);
    client::execute(&mut out, root.caps, id, &params, true, |i| i == 0);
    client::number(&mut out, code::STMT_CLOSE, id);
    root.send(&out, 1);
    assert_eq!(root.events(true), ["Int(2000)|Int(7)", "end"]);
}

/// Compares the column metadata that both servers announce for these types, except where MySQL 8
/// and MariaDB differ.
fn metadata(root: &mut Client) {
    let utf8 = Collation::UTF8MB4_GENERAL_CI;
    let set = |texts: &[&str]| {
        texts
            .iter()
            .map(|t| t.as_bytes().into())
            .collect::<Vec<Box<[u8]>>>()
    };
    let types = [
        ColumnType::int(Kind::TinyInt),
        ColumnType::uint(Kind::SmallInt),
        ColumnType::int(Kind::MediumInt),
        ColumnType::uint(Kind::Int),
        ColumnType::bigint(),
        ColumnType::bigint_unsigned(),
        ColumnType::float(),
        ColumnType::double(),
        ColumnType::decimal(10, 2),
        ColumnType::bit(9),
        ColumnType::year(),
        ColumnType::date(),
        ColumnType::datetime(0),
        ColumnType::datetime(6),
        ColumnType::time(3),
        ColumnType::char(3, utf8),
        ColumnType::varchar(255, utf8),
        ColumnType::varchar(20, Collation::LATIN1_SWEDISH_CI),
        ColumnType::varchar(5, Collation::UTF8MB4_BIN),
        ColumnType::binary(4),
        ColumnType::varbinary(5),
        ColumnType::text(Kind::TinyText, utf8),
        ColumnType::text(Kind::Text, utf8),
        ColumnType::text(Kind::LongText, utf8),
        ColumnType::blob(Kind::Blob),
        ColumnType::enumeration(set(&["a", "drei"]), utf8),
        ColumnType::set(set(&["a", "bc"]), utf8),
    ];
    let columns: Vec<String> = types
        .iter()
        .enumerate()
        .map(|(i, ty)| {
            let collation = if ty.is_string() && !ty.is_binary() && !ty.is_blob()
                || !ty.members.is_empty()
                || matches!(ty.kind, Kind::TinyText | Kind::Text | Kind::LongText)
            {
                format!(" COLLATE {}", ty.collation.name())
            } else {
                String::new()
            };
            format!("c{i} {}{collation}", ty.sql())
        })
        .collect();
    let text = format!(
        "CREATE OR REPLACE TABLE mysql.porpoise ({})",
        columns.join(", ")
    );
    assert_eq!(root.query(text.as_bytes()), ["ok 0"]);
    let mut out = Vec::new();
    client::query(&mut out, root.caps, b"SELECT * FROM mysql.porpoise", &[]);
    root.send(&out, 1);
    let mut reader = ResultReader::new(root.caps, false);
    let mut found = Vec::new();
    while !reader.finished() {
        let packet = root.packet();
        if let Event::Column(c) = reader.next(&packet).expect("an event") {
            found.push((c.code, c.collation, c.length, c.flags, c.decimals));
        }
    }
    assert_eq!(found.len(), types.len());
    let mut different = Vec::new();
    for (found, ty) in found.into_iter().zip(&types) {
        let ours = describe(ty, Some(utf8));
        // MariaDB sets flags for missing defaults.
        let flags = found.3 & !flag::NO_DEFAULT_VALUE;
        let theirs = (found.0, found.1, found.2, flags, found.4);
        let ours = (
            ours.code,
            ours.collation,
            ours.length,
            ours.flags,
            ours.decimals,
        );
        if ours != theirs {
            different.push(format!("{}: ours {ours:?} theirs {theirs:?}", ty.sql()));
        }
    }
    assert!(different.is_empty(), "{}", different.join("\n"));
}

fn large(root: &mut Client) {
    let mut text = b"SELECT LENGTH('".to_vec();
    text.resize(text.len() + 17_000_000, b'x');
    text.extend_from_slice(b"')");
    assert_eq!(root.query(&text), ["17000000", "end"]);
    for n in [0xff_ffff - 4, 0xff_ffff - 5, 33_554_430] {
        let text = format!("SELECT REPEAT('x', {n})");
        let found = root.query(text.as_bytes());
        assert_eq!((found[0].len(), found.len()), (n, 2), "{n}");
    }
}
