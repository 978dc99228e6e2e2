//! Allocations of the codecs: none per request or row once the output has grown to
//! its size, and little before login, whatever the client sends.
#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "a test stops at what it does not expect"
)]

mod support;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use porpoise_types::{Collation, ColumnType, Decimal, Kind, ValueRef};
use porpoise_wire::memcached::binary::{self, BinaryParser};
use porpoise_wire::memcached::command::Item;
use porpoise_wire::memcached::meta::Meta;
use porpoise_wire::memcached::meta_reply::{self, Hit, RefreshState};
use porpoise_wire::memcached::{Limits, Parsed, Parser, Request, binary_reply, reply};
use porpoise_wire::mysql::Capabilities;
use porpoise_wire::mysql::client;
use porpoise_wire::mysql::command::{self, Command};
use porpoise_wire::mysql::frame::PacketReader;
use porpoise_wire::mysql::handshake::parse_hello;
use porpoise_wire::mysql::params::{Param, ParamTypes, parse_execute, reuse_allocation};
use porpoise_wire::mysql::reply as mysql_reply;
use porpoise_wire::mysql::row::RowEncoder;
use support::Random;

thread_local! {
    static CALLS: Cell<usize> = const { Cell::new(0) };
    static BYTES: Cell<usize> = const { Cell::new(0) };
}

struct Counting;

fn count(bytes: usize) {
    CALLS.set(CALLS.get() + 1);
    BYTES.set(BYTES.get() + bytes);
}

// SAFETY: every call is passed on to the system's allocator unchanged; the
// counters are plain cells of the thread and allocate nothing themselves.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size());
        // SAFETY: the caller's obligations are those of the system's allocator.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(size);
        // SAFETY: as above.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Calls of the allocator and bytes asked of it while `work` ran.
fn counted(work: impl FnOnce()) -> (usize, usize) {
    let before = (CALLS.get(), BYTES.get());
    work();
    (CALLS.get() - before.0, BYTES.get() - before.1)
}

#[test]
fn the_counter_counts() {
    let (calls, bytes) = counted(|| drop(std::hint::black_box(vec![0u8; 1000])));
    assert_eq!((calls, bytes), (1, 1000));
}

#[test]
fn memcached_requests_allocate_nothing() {
    let mut out = Vec::with_capacity(1 << 16);
    let mut parser = Parser::new(Limits::default());
    let get = [b"get".as_slice(), &b" key".repeat(100), b"\r\n"].concat();
    let (calls, _) = counted(|| {
        for _ in 0..100 {
            out.clear();
            let Parsed::Request { request, .. } = parser.parse(&get) else {
                panic!("no request");
            };
            let Request::Get { keys, .. } = request else {
                panic!("no get");
            };
            for key in keys {
                reply::value(&mut out, key, 7, b"value", Some(99));
            }
            out.extend_from_slice(reply::END);
            let set = parser.parse(b"set key 0 0 5\r\nvalue\r\n");
            assert!(matches!(set, Parsed::Request { .. }));
        }
    });
    assert_eq!(calls, 0);
}

#[test]
fn mysql_queries_and_rows_allocate_nothing() {
    let caps = Capabilities::SERVER;
    let types = [
        ColumnType::bigint(),
        ColumnType::varchar(20, Collation::UTF8MB4_GENERAL_CI),
        ColumnType::decimal(10, 2),
        ColumnType::int(Kind::Int),
    ];
    let decimal = Decimal::parse(b"12.30").expect("decimal");
    let row = [
        ValueRef::Int(-77),
        ValueRef::Bytes(b"some text"),
        ValueRef::Decimal(decimal),
        ValueRef::Null,
    ];
    let encoder = RowEncoder::new(&types);
    let mut out = Vec::with_capacity(1 << 16);
    let mut packet = Vec::new();
    client::query(&mut packet, caps, b"SELECT 1", &[]);
    let mut reader = PacketReader::before_login();
    let (calls, _) = counted(|| {
        for _ in 0..100 {
            out.clear();
            reader.expect(0);
            reader.next(&mut packet).expect("a packet");
            let parsed = command::parse(&packet[4..], caps);
            assert!(matches!(parsed, Ok(Command::Query { .. })));
            let mut number = reader.sequence();
            for _ in 0..10 {
                encoder.write_text(&mut out, &mut number, &row);
                encoder.write_binary(&mut out, &mut number, &row);
            }
            let ok = mysql_reply::Ok::default();
            mysql_reply::write_end_of_rows(&mut out, &mut number, caps, &ok);
        }
    });
    assert_eq!(calls, 0);
}

#[test]
fn executions_allocate_nothing_after_the_first() {
    let caps = Capabilities::SERVER;
    let params = [ValueRef::Int(5), ValueRef::Bytes(b"x")].map(Param::from);
    let mut packet = Vec::new();
    client::execute(&mut packet, caps, 1, &params, true, |_| false);
    let mut types = ParamTypes::default();
    let mut list: Vec<Param<'static>> = Vec::new();
    let mut once = || {
        let Ok(Command::StmtExecute(execute)) = command::parse(&packet[4..], caps) else {
            panic!("no execution");
        };
        let mut params = reuse_allocation(std::mem::take(&mut list));
        parse_execute(&execute, caps, 2, &mut types, |_| None, &mut params).expect("parameters");
        assert_eq!(params.len(), 2);
        list = reuse_allocation(params);
    };
    once();
    let (calls, _) = counted(|| (0..100).for_each(|_| once()));
    assert_eq!(calls, 0);
}

#[test]
fn noise_before_login_allocates_nothing() {
    let mut random = Random(9);
    for _ in 0..100_000 {
        let n = random.below(200);
        let mut bytes = random.bytes(n);
        if let Some(high) = bytes.get_mut(1) {
            // Most claim the 4.1 protocol.
            *high |= 2;
        }
        let (calls, _) = counted(|| {
            let _ = parse_hello(&bytes, Capabilities::SERVER);
            let _ = PacketReader::before_login().next(&mut bytes);
            Parser::new(Limits::default()).parse(&bytes);
            BinaryParser::new(Limits::default()).parse(&bytes);
        });
        assert_eq!(calls, 0);
    }
}

#[test]
fn memcached_reads_allocate_nothing() {
    let mut parser = Parser::new(Limits::default());
    let mut binary = BinaryParser::new(Limits::default());
    let request = [
        &[0x80, 0x0c, 0, 1, 0, 0, 0, 0, 0, 0, 0, 1][..],
        &[0; 12],
        b"k",
    ]
    .concat();
    let mut out = Vec::with_capacity(4096);
    let item = Item {
        flags: 7,
        version: 9,
        value: b"value",
        expires: 0,
    };
    let (calls, _) = counted(|| {
        for line in [&b"mg k v c t f s k O1 q\r\n"[..], b"mg Zm9v b v k\r\n"] {
            let Parsed::Request { request, .. } = parser.parse(line) else {
                panic!("a request");
            };
            let Request::Meta(Meta::Get(get)) = request else {
                panic!("mg");
            };
            let hit = Hit {
                item,
                expired_before: 0,
                now: 0,
                fetched: false,
                idle: 0,
                refresh: RefreshState::default(),
            };
            assert_eq!(get.format.decoded().is_some(), get.format.is_base64());
            meta_reply::hit(&mut out, &get.format, &hit);
            meta_reply::miss(&mut out, &get.format);
        }
        let binary::Parsed::Request { request, .. } = binary.parse(&request) else {
            panic!("a request");
        };
        let binary::Request::Get(get) = request else {
            panic!("GETK");
        };
        binary_reply::hit(&mut out, &get, &item);
        binary_reply::miss(&mut out, &get);
    });
    assert_eq!(calls, 0);
    assert!(out.starts_with(b"VA 5 c9 t-1 f7 s5 kk O1\r\nvalue\r\n"));
}

#[test]
fn noisy_commands_allocate_in_proportion_to_their_length() {
    let mut random = Random(10);
    let (mut types, mut calls_in_all) = (ParamTypes::default(), 0);
    for _ in 0..100_000 {
        let n = 10 + random.below(200);
        let mut bytes = random.bytes(n);
        bytes[0] = 23;
        bytes[5] = 8;
        let params = random.below(70_000);
        let (calls, asked) = counted(|| {
            if let Ok(Command::StmtExecute(execute)) = command::parse(&bytes, Capabilities::SERVER)
            {
                let mut found = Vec::new();
                let caps = Capabilities::SERVER;
                let _ = parse_execute(&execute, caps, params, &mut types, |_| None, &mut found);
            }
        });
        calls_in_all += calls;
        assert!(asked <= 64 * n + 1024, "{asked} for {n}");
    }
    assert!(calls_in_all > 0);
}
