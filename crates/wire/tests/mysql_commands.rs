//! Commands and parameters: round trips with the client half, malformed input.

use crate::support::Random;
use porpoise_types::{Date, DateTime, Decimal, Time, ValueRef};
use porpoise_wire::mysql::capability::type_code;
use porpoise_wire::mysql::command::{self, Command, StmtExecute, code};
use porpoise_wire::mysql::params::{Param, ParamTypes, parse_execute, reuse_allocation};
use porpoise_wire::mysql::{Capabilities, ProtocolError, client};

const PLAIN: Capabilities =
    Capabilities(Capabilities::SERVER.0 & !Capabilities::QUERY_ATTRIBUTES.0);
const BOTH: [Capabilities; 2] = [Capabilities::SERVER, PLAIN];

fn payload(packet: &[u8]) -> &[u8] {
    &packet[4..]
}

fn written(write: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut out = Vec::new();
    write(&mut out);
    payload(&out).to_vec()
}

fn values() -> Vec<Param<'static>> {
    let typed = |value, type_code, unsigned| Param {
        value,
        type_code,
        unsigned,
    };
    let date = Date::new(2024, 2, 29).expect("date");
    let at = |h, m, s, micros| DateTime::new(date, h, m, s, micros).expect("time");
    let time = |micros| Time::from_micros(micros).expect("time");
    let mut all: Vec<Param<'static>> = vec![
        typed(ValueRef::Int(-128), type_code::TINY, false),
        typed(ValueRef::UInt(255), type_code::TINY, true),
        typed(ValueRef::Int(1), type_code::BOOL, false),
        typed(ValueRef::Int(-32768), type_code::SHORT, false),
        typed(ValueRef::UInt(65535), type_code::SHORT, true),
        typed(ValueRef::UInt(2155), type_code::YEAR, true),
        typed(ValueRef::Int(-1), type_code::LONG, false),
        typed(ValueRef::UInt(u64::from(u32::MAX)), type_code::LONG, true),
        typed(ValueRef::Int(-8_388_608), type_code::INT24, false),
        typed(ValueRef::Int(i64::MIN), type_code::LONGLONG, false),
        typed(ValueRef::UInt(u64::MAX), type_code::LONGLONG, true),
        typed(ValueRef::Double(1.5), type_code::FLOAT, false),
        typed(ValueRef::Double(-1e300), type_code::DOUBLE, false),
        typed(ValueRef::Date(date), type_code::DATE, false),
        typed(
            ValueRef::DateTime(at(0, 0, 0, 0)),
            type_code::TIMESTAMP,
            false,
        ),
        typed(ValueRef::Null, type_code::VAR_STRING, false),
    ];
    for code in [
        type_code::VARCHAR,
        type_code::BIT,
        type_code::JSON,
        type_code::ENUM,
        type_code::SET,
        type_code::TINY_BLOB,
        type_code::MEDIUM_BLOB,
        type_code::LONG_BLOB,
        type_code::BLOB,
        type_code::STRING,
        type_code::GEOMETRY,
    ] {
        all.push(typed(ValueRef::Bytes(b"bytes\0\xff"), code, false));
    }
    all.extend(
        [
            ValueRef::Null,
            ValueRef::Decimal(Decimal::parse(b"-123456789.000000001").expect("decimal")),
            ValueRef::Bytes(&[b'x'; 70_000]),
            ValueRef::Bytes(b""),
            ValueRef::Date(Date::ZERO),
            ValueRef::DateTime(DateTime::ZERO),
            ValueRef::DateTime(at(23, 59, 59, 0)),
            ValueRef::DateTime(at(0, 0, 0, 1)),
            ValueRef::Time(time(0)),
            ValueRef::Time(time(-1)),
            ValueRef::Time(time(-3_020_399_000_000)),
            ValueRef::Time(time(3_020_399_000_000)),
        ]
        .map(Param::from),
    );
    all
}

fn execute_of(payload: &[u8], caps: Capabilities) -> StmtExecute<'_> {
    match command::parse(payload, caps) {
        Ok(Command::StmtExecute(execute)) => execute,
        other => panic!("{other:?}"),
    }
}

#[test]
fn parameters_of_every_type_round_trip() {
    let params = values();
    for caps in BOTH {
        for n in [0, 1, 7, 8, 9, params.len()] {
            let sent = &params[..n];
            let packet = written(|out| client::execute(out, caps, 9, sent, true, |_| false));
            let execute = execute_of(&packet, caps);
            assert_eq!(execute.id, 9);
            assert!(!execute.wants_cursor());
            let (mut types, mut found) = (ParamTypes::default(), Vec::new());
            parse_execute(&execute, caps, n, &mut types, |_| None, &mut found).expect("parameters");
            assert_eq!(found, sent);
            // The next execution leaves the types out.
            let packet = written(|out| client::execute(out, caps, 9, sent, false, |_| false));
            let execute = execute_of(&packet, caps);
            parse_execute(&execute, caps, n, &mut types, |_| None, &mut found).expect("parameters");
            assert_eq!(found, sent);
        }
    }
}

#[test]
fn types_are_needed_once() {
    let params = [Param::from(ValueRef::Int(5))];
    let packet = written(|out| client::execute(out, PLAIN, 9, &params, false, |_| false));
    let execute = execute_of(&packet, PLAIN);
    let mut found = Vec::new();
    let result = parse_execute(
        &execute,
        PLAIN,
        1,
        &mut ParamTypes::default(),
        |_| None,
        &mut found,
    );
    assert!(matches!(result, Err(ProtocolError::Malformed(_))));
}

#[test]
fn long_data_stands_for_a_value() {
    let params = [ValueRef::Int(5), ValueRef::Bytes(b""), ValueRef::Int(6)].map(Param::from);
    for caps in BOTH {
        let packet = written(|out| client::execute(out, caps, 9, &params, true, |i| i == 1));
        let execute = execute_of(&packet, caps);
        let long: &[u8] = b"long";
        let mut found = Vec::new();
        let long_data = |i| (i == 1).then_some(long);
        parse_execute(
            &execute,
            caps,
            3,
            &mut ParamTypes::default(),
            long_data,
            &mut found,
        )
        .expect("parameters");
        let found: Vec<_> = found.iter().map(|p| p.value).collect();
        assert_eq!(
            found,
            [ValueRef::Int(5), ValueRef::Bytes(long), ValueRef::Int(6)]
        );
    }
}

#[test]
fn query_attributes_round_trip() {
    let caps = Capabilities::SERVER;
    let attributes: Vec<(&[u8], Param<'_>)> = vec![
        (b"traceparent", ValueRef::Bytes(b"00-1").into()),
        (b"", ValueRef::Null.into()),
        (b"n", ValueRef::UInt(7).into()),
    ];
    let packet = written(|out| client::query(out, caps, b"SELECT 1", &attributes));
    let Ok(Command::Query {
        text,
        attributes: found,
    }) = command::parse(&packet, caps)
    else {
        panic!("no query");
    };
    assert_eq!(text, b"SELECT 1");
    assert_eq!(found.collect::<Vec<_>>(), attributes);
    let packet = written(|out| client::query(out, PLAIN, b"SELECT 1", &[]));
    assert_eq!(packet, b"\x03SELECT 1");
}

#[test]
fn execution_attributes_follow_the_parameters() {
    let caps = Capabilities::SERVER;
    let sent: [(&[u8], Param<'_>); 4] = [
        (b"", ValueRef::Int(5).into()),
        (b"trace", ValueRef::Bytes(b"attribute").into()),
        (b"none", ValueRef::Null.into()),
        (b"n", ValueRef::UInt(7).into()),
    ];
    let write = |types| {
        written(|out| client::execute_with_attributes(out, caps, 9, &sent, types, |_| false))
    };
    let packet = write(true);
    for known in 0..=sent.len() {
        let (mut types, mut found) = (ParamTypes::default(), Vec::new());
        let execute = execute_of(&packet, caps);
        let attributes = parse_execute(&execute, caps, known, &mut types, |_| None, &mut found)
            .expect("parameters");
        let params: Vec<_> = sent[..known].iter().map(|(_, p)| *p).collect();
        assert_eq!(found, params);
        assert_eq!(attributes.is_empty(), known == sent.len());
        assert_eq!(attributes.collect::<Vec<_>>(), sent[known..]);
        // Without types there are no names.
        let packet = write(false);
        let execute = execute_of(&packet, caps);
        let attributes = parse_execute(&execute, caps, known, &mut types, |_| None, &mut found)
            .expect("parameters");
        assert_eq!(found, params);
        assert!(attributes.is_empty());
    }
    let params = sent.map(|(_, p)| p);
    let packet = written(|out| client::execute(out, caps, 9, &params[..2], true, |_| false));
    // But fewer than the statement has are too few.
    let execute = execute_of(&packet, caps);
    let mut types = ParamTypes::default();
    assert!(parse_execute(&execute, caps, 3, &mut types, |_| None, &mut Vec::new()).is_err());
}

#[test]
fn short_commands_are_understood() {
    let caps = PLAIN;
    let parsed = |bytes: &[u8]| format!("{:?}", command::parse(bytes, caps).expect("a command"));
    for (bytes, expected) in [
        (&[code::QUIT][..], "Quit"),
        (b"\x02db", "InitDb([100, 98])"),
        (
            b"\x04t\0c%",
            "FieldList { table: [116], wildcard: [99, 37] }",
        ),
        (b"\x04t", "FieldList { table: [116], wildcard: [] }"),
        (&[code::STATISTICS], "Statistics"),
        (&[code::PROCESS_INFO], "ProcessInfo"),
        (&[code::PROCESS_KILL, 1, 2, 0, 0], "ProcessKill(513)"),
        (&[code::DEBUG], "Debug"),
        (&[code::PING], "Ping"),
        (b"\x16S", "StmtPrepare([83])"),
        (
            b"\x18\x07\0\0\0\x02\0ab",
            "StmtSendLongData { id: 7, param: 2, data: [97, 98] }",
        ),
        (&[code::STMT_CLOSE, 7, 0, 0, 0], "StmtClose(7)"),
        (&[code::STMT_RESET, 7, 0, 0, 0], "StmtReset(7)"),
        (
            &[code::STMT_FETCH, 7, 0, 0, 0, 3, 0, 0, 0],
            "StmtFetch { id: 7, rows: 3 }",
        ),
        (&[code::SET_OPTION, 0, 0], "SetMultiStatements(true)"),
        (&[code::SET_OPTION, 1, 0], "SetMultiStatements(false)"),
        (&[code::RESET_CONNECTION], "ResetConnection"),
    ] {
        assert_eq!(parsed(bytes), expected);
    }
}

#[test]
fn a_change_of_user_is_understood() {
    let body = b"\x11root\0\x03abcdb\0\x2d\0mysql_native_password\0\x04\x01k\x01v";
    let Ok(Command::ChangeUser(change)) = command::parse(body, PLAIN) else {
        panic!("no change of user");
    };
    assert_eq!(
        (change.user, change.auth, change.database),
        (&b"root"[..], &b"abc"[..], &b"db"[..])
    );
    assert_eq!(change.collation, Some(45));
    assert_eq!(change.plugin, b"mysql_native_password");
    assert_eq!(
        change.attributes.collect::<Vec<_>>(),
        [(&b"k"[..], &b"v"[..])]
    );
    let Ok(Command::ChangeUser(short)) = command::parse(b"\x11root\0\0\0", PLAIN) else {
        panic!("no change of user");
    };
    assert_eq!((short.collation, short.plugin), (None, &b""[..]));
}

#[test]
fn unknown_and_malformed_commands_have_errors() {
    let error = |bytes: &[u8]| command::parse(bytes, PLAIN).expect_err("an error");
    for code in [0u8, 5, 6, 11, 15, 16, 19, 20, 29, 33, 255] {
        assert_eq!(error(&[code]).code(), 1047, "{code}");
        assert_eq!(&error(&[code]).sqlstate(), b"08S01");
        assert!(!error(&[code]).fatal());
    }
    for short in [
        &b""[..],
        b"\x07",
        b"\x0c\x01",
        b"\x17\x01\0\0\0\0",
        b"\x18\x01\0\0\0",
        b"\x19\x01",
        b"\x1b",
        b"\x1c\x01\0\0\0",
        b"\x20",
    ] {
        assert_eq!(error(short).code(), 1835, "{short:?}");
    }
}

#[test]
fn malformed_parameters_are_errors_and_never_panics() {
    let params = values();
    let short: Vec<_> = params
        .iter()
        .copied()
        .filter(|p| p.value != ValueRef::Bytes(&[b'x'; 70_000]))
        .collect();
    let mut random = Random(6);
    let mut types;
    for caps in BOTH {
        let packet = written(|out| client::execute(out, caps, 9, &short, true, |_| false));
        for cut in 10..packet.len() {
            let execute = execute_of(&packet[..cut], caps);
            types = ParamTypes::default();
            let mut found = Vec::new();
            assert!(
                parse_execute(
                    &execute,
                    caps,
                    short.len(),
                    &mut types,
                    |_| None,
                    &mut found
                )
                .is_err(),
                "{cut}"
            );
        }
        types = ParamTypes::default();
        for _ in 0..50_000 {
            let bytes = random.mutate(&packet);
            if let Ok(Command::StmtExecute(execute)) = command::parse(&bytes, caps) {
                let n = random.below(short.len() + 2);
                let mut found = Vec::new();
                let _ = parse_execute(&execute, caps, n, &mut types, |_| None, &mut found);
                assert!(found.len() <= n);
            }
        }
    }
}

#[test]
fn a_list_of_parameters_keeps_its_memory() {
    let list: Vec<Param<'_>> = Vec::with_capacity(10);
    let at = list.as_ptr().addr();
    let again: Vec<Param<'static>> = reuse_allocation(list);
    assert_eq!((again.capacity(), again.as_ptr().addr()), (10, at));
}

#[test]
fn claimed_counts_reserve_nothing() {
    // 2^64-1, 2^32 and 60,000 parameters in a few bytes.
    for count in [
        &[0xfe, 255, 255, 255, 255, 255, 255, 255, 255][..],
        &[0xfe, 0, 0, 0, 0, 1, 0, 0, 0],
        &[0xfc, 0x60, 0xea],
    ] {
        let query = [b"\x03", count, b"\x01\0\0\x01"].concat();
        assert!(command::parse(&query, Capabilities::SERVER).is_err());
        let execute = [b"\x17\x09\0\0\0\x08\x01\0\0\0", count, b"\0\0\x01"].concat();
        let execute = execute_of(&execute, Capabilities::SERVER);
        let mut found = Vec::new();
        let mut types = ParamTypes::default();
        assert!(
            parse_execute(
                &execute,
                Capabilities::SERVER,
                1,
                &mut types,
                |_| None,
                &mut found
            )
            .is_err()
        );
        assert!(found.capacity() == 0);
    }
}

#[test]
fn noise_never_panics() {
    let mut random = Random(7);
    for i in 0..100_000 {
        let n = random.below(48);
        let mut bytes = random.bytes(n);
        if let Some(first) = bytes.first_mut() {
            *first %= 33;
        }
        let caps = BOTH[i % 2];
        match command::parse(&bytes, caps) {
            Ok(Command::Query { attributes, .. }) => assert!(attributes.count() <= n),
            Ok(Command::ChangeUser(change)) => assert!(change.attributes.count() <= n),
            Ok(Command::StmtExecute(execute)) => {
                let (mut types, mut found) = (ParamTypes::default(), Vec::new());
                let params = random.below(5);
                let _ = parse_execute(&execute, caps, params, &mut types, |_| None, &mut found);
            }
            _ => {}
        }
    }
}
