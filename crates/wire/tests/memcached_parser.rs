//! Properties of the parser of memcached's ASCII dialect.

use crate::support::Random;
use porpoise_wire::memcached::client::{self, Answer, Reply};
use porpoise_wire::memcached::command::{Change, Mode, Store};
use porpoise_wire::memcached::{Fault, Limits, Parsed, Parser, Request};

/// Everything that a stream is parsed to, in words.
fn events(stream: &[u8], cut: impl FnMut(usize) -> usize, limits: Limits) -> Vec<String> {
    let mut cut = cut;
    let mut parser = Parser::new(limits);
    let mut events = Vec::new();
    let (mut start, mut end) = (0, 0);
    loop {
        match parser.parse(&stream[start..end]) {
            Parsed::NeedMore(missing) => {
                assert!(missing > 0);
                if end == stream.len() {
                    return events;
                }
                end += cut(stream.len() - end).clamp(1, stream.len() - end);
            }
            Parsed::Swallow { consumed } => {
                assert!(consumed > 0);
                start += consumed;
            }
            Parsed::Request { request, consumed } => {
                events.push(describe(&request));
                start += consumed;
            }
            Parsed::Refused {
                fault,
                silent,
                key,
                consumed,
            } => {
                events.push(format!("{fault:?} {silent} {key:?}"));
                if fault.closes_connection() {
                    return events;
                }
                start += consumed;
            }
        }
        assert!(start <= end);
    }
}

fn describe(request: &Request<'_>) -> String {
    match request {
        Request::Get { keys, cas, touch } => {
            format!("get {:?} {cas} {touch:?}", keys.collect::<Vec<_>>())
        }
        Request::Stats { args } => format!("stats {:?}", args.collect::<Vec<_>>()),
        Request::Change { change, noreply } => describe_change(change, *noreply),
        other => format!("{other:?}"),
    }
}

fn describe_change(change: &Change<'_>, noreply: bool) -> String {
    match change {
        Change::Store(store) => {
            let verb = match (store.mode, store.compare) {
                (Mode::Set, Some(version)) => format!("Cas({version})"),
                (mode, None) => format!("{mode:?}"),
                (mode, compare) => format!("{mode:?} {compare:?}"),
            };
            format!(
                "Store {{ verb: {verb}, key: {:?}, flags: {}, exptime: {}, value: {:?}, \
                 noreply: {noreply} }}",
                store.key, store.flags, store.exptime, store.value
            )
        }
        Change::Count(count) => format!(
            "Arithmetic {{ key: {:?}, delta: {}, decrement: {}, noreply: {noreply} }}",
            count.key, count.delta, count.decrement
        ),
        Change::Delete(delete) => format!("Delete {{ key: {:?}, noreply: {noreply} }}", delete.key),
        Change::Touch(touch) => format!(
            "Touch {{ key: {:?}, exptime: {}, noreply: {noreply} }}",
            touch.key, touch.exptime
        ),
    }
}

const SMALL: Limits = Limits {
    max_value: 64,
    max_item: usize::MAX,
    max_line: 4096,
};

fn requests() -> Vec<Vec<u8>> {
    let mut all: Vec<Vec<u8>> = [
        "get a\r\n",
        "get a b  c \n",
        "gets a\r\n",
        "gat 10 a b\r\n",
        "gats -1 a\r\n",
        "set a 1 2 3\r\nabc\r\n",
        "set a 1 2 3 noreply\r\nabc\r\n",
        "set a 0 0 70\r\n",
        "set a 0 0 1\r\nabc\r\n",
        "add a 1 2 0\r\n\r\n",
        "cas a 1 2 3 99\r\nabc\r\n",
        "append a 0 0 2\r\n\r\n\r\n",
        "incr a 5\r\n",
        "decr a 5 noreply\r\n",
        "delete a\r\n",
        "delete a 0 noreply\r\n",
        "touch a 5\r\n",
        "flush_all\r\n",
        "flush_all 10 noreply\r\n",
        "stats\r\n",
        "stats items x\r\n",
        "version\r\n",
        "verbosity 1\r\n",
        "shutdown\r\n",
        "foo\r\n",
        "\r\n",
        "get\r\n",
    ]
    .iter()
    .map(|s| s.as_bytes().to_vec())
    .collect();
    all.push([b"set a 0 0 70\r\n".as_slice(), &[b'x'; 72]].concat());
    all.push([b"get ".as_slice(), &b"k ".repeat(1500), b"\r\n"].concat());
    all.push([b"get ".as_slice(), &b"k ".repeat(3000), b"\r\n"].concat());
    all.push([b"incr ".as_slice(), &b"k ".repeat(1500), b"\r\n"].concat());
    all
}

#[test]
fn any_cut_gives_the_same_requests() {
    let requests = requests();
    let mut random = Random(1);
    for round in 0..400 {
        let mut stream = Vec::new();
        for _ in 0..8 {
            let request = &requests[random.below(requests.len())];
            if round % 3 == 0 {
                stream.extend(random.mutate(request));
            } else {
                stream.extend_from_slice(request);
            }
        }
        let whole = events(&stream, |left| left, SMALL);
        assert_eq!(whole, events(&stream, |_| 1, SMALL), "round {round}");
        let mut cuts = Random(round);
        let cut = |left| 1 + cuts.below(left);
        assert_eq!(whole, events(&stream, cut, SMALL), "round {round}");
    }
}

#[test]
fn noise_never_panics_and_always_advances() {
    let requests = requests();
    let mut random = Random(2);
    for i in 0..100_000 {
        let input = if i % 2 == 0 {
            let length = random.below(64);
            random.bytes(length)
        } else {
            let request = &requests[random.below(requests.len())];
            random.mutate(request)
        };
        events(&input, |left| left, SMALL);
        client::parse_reply(&input, 100);
    }
}

#[test]
fn a_stated_length_asks_for_no_more_than_the_limit() {
    let mut parser = Parser::new(SMALL);
    for length in [64u64, 65, 1 << 20, 1 << 31, 1 << 40, u64::MAX] {
        let line = format!("set a 0 0 {length}\r\n");
        match parser.parse(line.as_bytes()) {
            Parsed::NeedMore(n) => assert!(n <= SMALL.max_value + 2 && length <= 64),
            Parsed::Refused { fault, .. } => {
                assert!(matches!(fault, Fault::TooLarge | Fault::BadFormat));
                parser = Parser::new(SMALL);
            }
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn control_characters_in_keys_are_refused_but_for_tab() {
    for line in [
        "get \x01\r\n",
        "delete a\x7f\r\n",
        "get a\0b\r\n",
        "gat 0 a\x1bb\r\n",
    ] {
        let events = events(line.as_bytes(), |left| left, SMALL);
        assert_eq!(events, ["BadFormat false None"], "{line:?}");
    }
    let tab = events(b"get a\tb\r\n", |left| left, SMALL);
    assert!(tab[0].starts_with("get"), "{tab:?}");
    let utf8 = events("get ключ\r\n".as_bytes(), |left| left, SMALL);
    assert!(utf8[0].starts_with("get"), "{utf8:?}");
}

#[test]
fn numbers_out_of_range_are_refused() {
    for line in [
        "set a 0 0 4294967297\r\n",
        "set a 0 9223372036854775808 1\r\n",
    ] {
        let events = events(line.as_bytes(), |left| left, SMALL);
        assert_eq!(events, ["BadFormat false None"], "{line:?}");
    }
}

#[test]
fn client_flags_are_cut_to_32_bits() {
    for (sent, kept) in [
        ("4294967296", 0),
        ("4294967303", 7),
        ("18446744073709551615", u32::MAX),
    ] {
        let line = format!("set a {sent} 0 1\r\nx\r\n");
        let events = events(line.as_bytes(), |left| left, SMALL);
        assert!(events[0].contains(&format!("flags: {kept},")), "{events:?}");
        let line = format!("ms a 1 F{sent}\r\nx\r\n");
        let events = self::events(line.as_bytes(), |left| left, SMALL);
        assert!(events[0].contains(&format!("flags: {kept},")), "{events:?}");
    }
}

#[test]
fn an_item_counts_as_memcached_counts_it() {
    let limits = Limits::default();
    let most = (1 << 20) - 60;
    assert!(limits.allow(1, 0, most) && !limits.allow(1, 0, most + 1));
    assert!(limits.allow(1, 9, most - 4) && !limits.allow(1, 9, most - 3));
    assert!(limits.allow(250, 0, most - 249) && !limits.allow(250, 0, most - 248));
    assert!(!limits.allow(1, 0, usize::MAX));
}

/// Feeds a stream in pieces to one parser, as a connection does: the events of
/// its requests and refusals, and the most bytes that were buffered.
fn feed(stream: &[u8], piece: usize) -> (Vec<String>, usize) {
    let mut parser = Parser::new(Limits::default());
    let (mut buffer, mut seen, mut most) = (Vec::new(), Vec::new(), 0);
    for part in stream.chunks(piece) {
        buffer.extend_from_slice(part);
        most = most.max(buffer.len());
        loop {
            let consumed = match parser.parse(&buffer) {
                Parsed::NeedMore(_) => break,
                Parsed::Swallow { consumed } => consumed,
                Parsed::Request { consumed, request } => {
                    seen.push(describe(&request));
                    consumed
                }
                Parsed::Refused {
                    fault, consumed, ..
                } => {
                    assert!(!fault.closes_connection());
                    seen.push(fault.reply().escape_ascii().to_string());
                    consumed
                }
            };
            buffer.drain(..consumed);
        }
    }
    (seen, most)
}

#[test]
fn a_line_over_its_limit_is_skipped_and_the_next_command_is_served() {
    let long = |n: usize| "k".repeat(n);
    let flags = "v ".repeat(20_000);
    let spaces = " ".repeat(40_000);
    for (line, reply) in [
        (
            format!("set {} 0 0 1", long(40_000)),
            "CLIENT_ERROR bad command line format",
        ),
        (
            format!("delete {}", long(40_000)),
            "CLIENT_ERROR bad command line format",
        ),
        (
            format!("mg {}", long(40_000)),
            "CLIENT_ERROR bad command line format",
        ),
        (
            format!("mg k {flags}"),
            "CLIENT_ERROR options flags are too long",
        ),
        (
            format!("md k {flags}"),
            "CLIENT_ERROR options flags too long",
        ),
        (
            format!("mg k O{}", long(40_000)),
            "CLIENT_ERROR opaque token too long",
        ),
        (format!("me k {flags}"), "CLIENT_ERROR line too long"),
        (long(40_000), "ERROR"),
        (format!("delete a{spaces}"), "CLIENT_ERROR line too long"),
        (spaces, "ERROR"),
    ] {
        let stream = format!("{line}\r\nversion\r\n");
        for piece in [1, 7, 2048, 2049, 16_384, 16_385, stream.len()] {
            let (seen, most) = feed(stream.as_bytes(), piece);
            let expected = [format!("{reply}\\r\\n"), "Version".to_owned()];
            assert_eq!(seen, expected, "{line:.20} in pieces of {piece}");
            assert!(most <= 16_384 + 1 + piece, "{most} bytes buffered");
        }
    }
}

#[test]
fn a_line_of_2049_bytes_is_parsed_whatever_the_pieces() {
    let line = format!("delete a{}\r\nversion\r\n", " ".repeat(3000));
    for piece in [1, 2048, 2049, 5000] {
        let (seen, _) = feed(line.as_bytes(), piece);
        assert!(seen[0].starts_with("Delete"), "{seen:?}");
        assert_eq!(seen[1], "Version");
    }
}

#[test]
fn a_long_request_line_of_http_ends_the_connection() {
    let stream = format!("POST /{} HTTP/1.1\r\nflush_all\r\n", "a".repeat(40_000));
    let seen = events(stream.as_bytes(), |left| left, Limits::default());
    assert_eq!(seen, ["ForeignProtocol false None"]);
}

#[test]
fn a_get_beyond_16_mib_is_refused_and_skipped() {
    let mut stream = b"get".to_vec();
    stream.extend(b" key".repeat(5 << 20));
    stream.extend(b"\r\nversion\r\n");
    let (seen, most) = feed(&stream, 1 << 20);
    assert_eq!(seen, ["CLIENT_ERROR line too long\\r\\n", "Version"]);
    assert!(most <= (17 << 20) + 1, "{most} bytes buffered");
}

#[test]
fn binary_dialect_is_refused_at_its_first_byte() {
    for stream in [&b"\x80"[..], b"\x80\n", b"\x80\0\0\0\0\n\n"] {
        assert_eq!(
            events(stream, |left| left, SMALL),
            ["BinaryDialect false None"]
        );
    }
}

#[test]
fn requests_of_the_client_half_are_understood() {
    let mut out = Vec::new();
    let keys: [&[u8]; 2] = [b"a", b"bb"];
    client::get(&mut out, keys, false);
    client::get(&mut out, keys, true);
    client::gat(&mut out, -5, keys, true);
    for (mode, compare) in [
        (Mode::Set, None),
        (Mode::Add, None),
        (Mode::Replace, None),
        (Mode::Append, None),
        (Mode::Prepend, None),
        (Mode::Set, Some(77)),
    ] {
        let store = Store {
            flags: 9,
            exptime: -1,
            compare,
            ..Store::new(mode, b"k", b"v\r\nw")
        };
        client::store(&mut out, &store, (mode, compare) == (Mode::Set, None));
    }
    client::arithmetic(&mut out, b"n", 3, false, false);
    client::arithmetic(&mut out, b"n", u64::MAX, true, true);
    client::delete(&mut out, b"k", true);
    client::touch(&mut out, b"k", 60, false);
    client::flush_all(&mut out, 5, false);
    let a_bb = "[[97], [98, 98]]";
    let mut expected = vec![
        format!("get {a_bb} false None"),
        format!("get {a_bb} true None"),
        format!("get {a_bb} true Some(-5)"),
    ];
    for verb in ["Set", "Add", "Replace", "Append", "Prepend", "Cas(77)"] {
        expected.push(format!(
            "Store {{ verb: {verb}, key: [107], flags: 9, exptime: -1, \
             value: [118, 13, 10, 119], noreply: {} }}",
            verb == "Set"
        ));
    }
    for rest in [
        "Arithmetic { key: [110], delta: 3, decrement: false, noreply: false }",
        "Arithmetic { key: [110], delta: 18446744073709551615, decrement: true, noreply: true }",
        "Delete { key: [107], noreply: true }",
        "Touch { key: [107], exptime: 60, noreply: false }",
        "FlushAll { delay: 5, noreply: false }",
    ] {
        expected.push(rest.to_owned());
    }
    assert_eq!(events(&out, |left| left, SMALL), expected);
}

#[test]
fn replies_are_understood_at_any_cut() {
    let stream: &[u8] =
        b"VALUE a 7 3\r\nx\r\n\r\nVALUE b 0 0 99\r\n\r\nEND\r\nSTORED\r\nNOT_STORED\r\n\
        EXISTS\r\nNOT_FOUND\r\nDELETED\r\nTOUCHED\r\nOK\r\nRESET\r\n12 \r\nVERSION 1.2.3\r\n\
        STAT pid 5 6\r\nERROR\r\nCLIENT_ERROR bad data chunk\r\nSERVER_ERROR no\r\n";
    let expected = [
        Reply::Value {
            key: b"a",
            flags: 7,
            data: b"x\r\n",
            cas: None,
        },
        Reply::Value {
            key: b"b",
            flags: 0,
            data: b"",
            cas: Some(99),
        },
        Reply::End,
        Reply::Stored,
        Reply::NotStored,
        Reply::Exists,
        Reply::NotFound,
        Reply::Deleted,
        Reply::Touched,
        Reply::Ok,
        Reply::Reset,
        Reply::Number(12),
        Reply::Version(b"1.2.3"),
        Reply::Stat {
            name: b"pid",
            value: b"5 6",
        },
        Reply::Error(b"ERROR"),
        Reply::Error(b"CLIENT_ERROR bad data chunk"),
        Reply::Error(b"SERVER_ERROR no"),
    ];
    let (mut start, mut end) = (0, 0);
    let mut replies = Vec::new();
    while start < stream.len() {
        match client::parse_reply(&stream[start..end], 100) {
            Answer::NeedMore(n) => {
                assert!(n > 0);
                end += 1;
            }
            Answer::Reply(reply, used) => {
                replies.push(reply);
                start += used;
            }
            Answer::Malformed => panic!("at {start}"),
        }
    }
    assert_eq!(replies, expected);
    let large = client::parse_reply(b"VALUE a 0 101\r\n", 100);
    assert_eq!(large, Answer::Malformed);
}
