//! Any bytes in any split: the parsers of all memcached dialects come to the
//! same requests however the bytes arrive, make progress, ask for no more than
//! their limits allow, and what they give can be rendered.

use crate::support::Random;
use porpoise_wire::memcached::binary::{self, BinaryParser};
use porpoise_wire::memcached::command::{Item, Outcome, Status};
use porpoise_wire::memcached::commands::Command;
use porpoise_wire::memcached::meta::Meta;
use porpoise_wire::memcached::meta_reply::{self, Hit, RefreshState};
use porpoise_wire::memcached::{Limits, Parsed, Parser, Request, binary_reply, reply};

const LIMITS: Limits = Limits {
    max_value: 2000,
    max_item: usize::MAX,
    max_line: 4000,
};
/// More than any request may need at once.
const MOST: usize = 2000 + (16 << 10) + 512;

const ASCII: &[&[u8]] = &[
    b"get a\r\n",
    b"gets a b c\r\n",
    b"gat 10 a b\r\n",
    b"gats 10 a\r\n",
    b"set k 1 2 3\r\nabc\r\n",
    b"add k 1 2 3\r\nabc\r\n",
    b"replace k 1 2 3 noreply\r\nabc\r\n",
    b"cas k 1 2 3 4 noreply\r\nabc\r\n",
    b"append k 0 0 1\r\nx\r\n",
    b"prepend k 0 0 1\r\nx\r\n",
    b"incr n 5\r\n",
    b"decr n 5 noreply\r\n",
    b"delete k\r\n",
    b"touch k 5\r\n",
    b"flush_all 5 noreply\r\n",
    b"stats items\r\n",
    b"version\r\n",
    b"verbosity 1\r\n",
    b"cache_memlimit 64\r\n",
    b"mg k v k O1 t c\r\n",
    b"mg Zm9v b k v N30 R10 T5 h l u q s f\r\n",
    b"ms k 3 F1 T2 C3 MA I c k O9 q\r\nabc\r\n",
    b"ms Zm9v 0 b\r\n\r\n",
    b"md k q I T30 C5 E7 x\r\n",
    b"ma n N0 J5 D3 MI v t c q\r\n",
    b"mn\r\n",
    b"mn begin\r\n",
    b"me k\r\n",
    b"shutdown\r\n",
    b"quit\r\n",
    b"set big 0 0 2001\r\n",
    b"ms big 4000000\r\n",
    b"set k 0 0 99999999999999999999\r\n",
    b"\r\n\n \r\n",
];

#[test]
fn every_command_with_a_name_is_among_the_requests() {
    for word in Command::ALL.iter().filter_map(|command| command.word()) {
        let is_request = |bytes: &&[u8]| {
            let first = bytes.split(|b| b" \r".contains(b)).next();
            first == Some(word)
        };
        assert!(ASCII.iter().any(is_request), "{}", word.escape_ascii());
    }
}

fn binary_request(op: u8, key: &[u8], extras: &[u8], value: &[u8], cas: u64) -> Vec<u8> {
    let body = key.len() + extras.len() + value.len();
    let mut out = vec![0x80, op];
    out.extend(u16::try_from(key.len()).unwrap().to_be_bytes());
    out.extend([u8::try_from(extras.len()).unwrap(), 0, 0, 0]);
    out.extend(u32::try_from(body).unwrap().to_be_bytes());
    out.extend([1, 2, 3, 4]);
    out.extend(cas.to_be_bytes());
    out.extend(extras);
    out.extend(key);
    out.extend(value);
    out
}

fn binary_requests() -> Vec<Vec<u8>> {
    let mut all = Vec::new();
    for op in 0..=0x26 {
        let extras: &[u8] = match op {
            0x01..=0x03 | 0x11..=0x13 => &[0; 8],
            0x05 | 0x06 | 0x15 | 0x16 => &[1; 20],
            0x1b..=0x1e | 0x23 | 0x24 => &[0; 4],
            _ => &[],
        };
        let key: &[u8] = match op {
            0x07 | 0x08 | 0x0a | 0x0b | 0x17 | 0x18 | 0x1b => b"",
            _ => b"key",
        };
        let value: &[u8] = match op {
            0x01..=0x03 | 0x0e | 0x0f | 0x11..=0x13 | 0x19 | 0x1a => b"value",
            _ => b"",
        };
        all.push(binary_request(op, key, extras, value, u64::from(op % 3)));
    }
    all.push(binary_request(1, b"big", &[0; 8], &[7; 3000], 0));
    all
}

/// One event as text, and what it means for the walk: bytes consumed (`None`:
/// more are needed), whether the stream goes on.
type Event = (String, Option<usize>, bool);

fn render_meta(meta: &Meta<'_>) {
    let mut out = Vec::new();
    let item = Item {
        flags: u32::MAX,
        version: u64::MAX,
        value: b"value",
        expires: i64::MIN,
    };
    let hit = Hit {
        item,
        expired_before: i64::MAX,
        now: i64::MIN,
        fetched: true,
        idle: u64::MAX,
        refresh: RefreshState {
            is_winner: true,
            stale: true,
            is_sent: true,
        },
    };
    match meta {
        Meta::Get(get) => {
            meta_reply::hit(&mut out, &get.format, &hit);
            meta_reply::miss(&mut out, &get.format);
        }
        Meta::Debug(format) => meta_reply::debug(&mut out, format, &hit),
        Meta::Change(change, format) => {
            let decoded = format.decoded();
            if let Some(decoded) = &decoded {
                assert_eq!(change.with_key(decoded.bytes()).key(), decoded.bytes());
            }
            for status in [
                Status::Stored,
                Status::Counted,
                Status::Exists,
                Status::NotNumeric,
            ] {
                meta_reply::outcome(
                    &mut out,
                    format,
                    &Outcome::with_version(status, 1),
                    i64::MAX,
                );
            }
        }
        Meta::Noop(_) => out.extend_from_slice(meta_reply::NOOP),
    }
    assert!(out.is_empty() || out.ends_with(b"\r\n"));
}

fn ascii_event(parser: &mut Parser, buf: &[u8]) -> Event {
    match parser.parse(buf) {
        Parsed::NeedMore(missing) => {
            assert!(missing > 0 && buf.len() + missing <= MOST, "{missing}");
            (String::new(), None, true)
        }
        Parsed::Request { request, consumed } => {
            let mut out = Vec::new();
            if let Request::Get { keys, .. } = &request {
                assert_eq!(keys.len(), keys.count());
            }
            if let Request::Meta(meta) = &request {
                render_meta(meta);
            }
            if let Request::Change { change, .. } = &request {
                assert!(change.key().len() <= 250);
                reply::outcome(&mut out, &Outcome::with_status(Status::Stored));
            }
            (format!("{request:?}"), Some(consumed), true)
        }
        Parsed::Refused {
            fault,
            silent,
            consumed,
            ..
        } => {
            let text = format!("{fault:?} {silent}");
            (text, Some(consumed), !fault.closes_connection())
        }
        Parsed::Swallow { consumed } => ("swallow".to_owned(), Some(consumed), true),
    }
}

fn binary_event(parser: &mut BinaryParser, buf: &[u8]) -> Event {
    match parser.parse(buf) {
        binary::Parsed::NeedMore(missing) => {
            assert!(missing > 0 && buf.len() + missing <= MOST, "{missing}");
            (String::new(), None, true)
        }
        binary::Parsed::Request { request, consumed } => {
            let mut out = Vec::new();
            if let binary::Request::Change(_, head) = &request {
                binary_reply::outcome(&mut out, head, &Outcome::with_version(Status::Counted, 7));
                binary_reply::outcome(&mut out, head, &Outcome::with_status(Status::NotStored));
            }
            (format!("{request:?}"), Some(consumed), true)
        }
        binary::Parsed::Refused {
            head,
            status,
            consumed,
            closes,
        } => (format!("{head:?} {status:?}"), Some(consumed), !closes),
        binary::Parsed::Swallow { consumed } => ("swallow".to_owned(), Some(consumed), true),
        binary::Parsed::Foreign => ("foreign".to_owned(), Some(0), false),
    }
}

/// Feeds the bytes in pieces; the events, runs of swallowing taken together.
/// A line that is too long may be noticed early, so what ends a stream is
/// compared without its length.
fn walk(
    input: &[u8],
    pieces: &mut dyn FnMut(usize) -> usize,
    mut event: impl FnMut(&[u8]) -> Event,
) -> (Vec<String>, usize) {
    let (mut start, mut end, mut largest) = (0, 0, 0);
    let mut events: Vec<String> = Vec::new();
    loop {
        let (text, consumed, goes_on) = event(&input[start..end]);
        largest = largest.max(end - start);
        let Some(consumed) = consumed else {
            if end == input.len() {
                return (events, largest);
            }
            end += pieces(input.len() - end).clamp(1, input.len() - end);
            continue;
        };
        assert!(consumed <= end - start);
        assert!(consumed > 0 || !goes_on, "no progress: {text}");
        start += consumed;
        let again = text == "swallow" && events.last().is_some_and(|last| *last == text);
        if !again {
            events.push(text);
        }
        if !goes_on {
            return (events, largest);
        }
    }
}

fn stream(random: &mut Random, corpus: &[Vec<u8>]) -> Vec<u8> {
    let mut input = Vec::new();
    for _ in 0..1 + random.below(8) {
        let valid = &corpus[random.below(corpus.len())];
        match random.below(8) {
            0 => input.extend(random.mutate(valid)),
            1 => {
                let n = random.below(60);
                input.extend(random.bytes(n));
            }
            2 => {
                let n = random.below(3000);
                input.extend(std::iter::repeat_n(b'k', n));
            }
            _ => input.extend(valid),
        }
    }
    input
}

fn check(seeds: std::ops::Range<u64>) {
    let ascii: Vec<Vec<u8>> = ASCII.iter().map(|line| line.to_vec()).collect();
    let binary = binary_requests();
    for seed in seeds {
        let mut random = Random(seed);
        let is_binary = random.below(2) == 0;
        let input = stream(&mut random, if is_binary { &binary } else { &ascii });
        let run = |pieces: &mut dyn FnMut(usize) -> usize| {
            if is_binary {
                let mut parser = BinaryParser::new(LIMITS);
                walk(&input, pieces, |buf| binary_event(&mut parser, buf))
            } else {
                let mut parser = Parser::new(LIMITS);
                walk(&input, pieces, |buf| ascii_event(&mut parser, buf))
            }
        };
        let whole = run(&mut |left| left);
        let bytes = run(&mut |_| 1);
        let split = run(&mut |_| 1 + random.below(50));
        assert_eq!(whole.0, bytes.0, "seed {seed}: {}", input.escape_ascii());
        assert_eq!(whole.0, split.0, "seed {seed}: {}", input.escape_ascii());
        assert!(bytes.1 <= MOST, "seed {seed}: {} bytes kept", bytes.1);
    }
}

#[test]
fn any_split_of_any_bytes_comes_to_the_same_requests() {
    check(0..3000);
}

#[test]
#[ignore = "long: two million streams"]
fn any_split_of_very_many_streams() {
    check(1_000_000..3_000_000);
}
