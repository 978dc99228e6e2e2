//! A memcached of one connection: the parser and the reply writers around a
//! map, with the semantics of the commands.

use std::collections::HashMap;

use porpoise_wire::memcached::command::{Change, Mode, Store};
use porpoise_wire::memcached::{Fault, Limits, Parsed, Parser, Request, reply};

struct Row {
    flags: u32,
    value: Vec<u8>,
    version: u64,
}

pub struct Connection {
    parser: Parser,
    rows: HashMap<Vec<u8>, Row>,
    version: u64,
    input: Vec<u8>,
    pub output: Vec<u8>,
    pub closed: bool,
}

impl Connection {
    pub fn new() -> Self {
        Connection {
            parser: Parser::new(Limits::default()),
            rows: HashMap::new(),
            version: 0,
            input: Vec::new(),
            output: Vec::new(),
            closed: false,
        }
    }

    /// Takes bytes and carries out what they complete.
    pub fn feed(&mut self, bytes: &[u8]) {
        self.input.extend_from_slice(bytes);
        let input = std::mem::take(&mut self.input);
        let mut at = 0;
        while !self.closed {
            match self.parser.parse(&input[at..]) {
                Parsed::NeedMore(missing) => {
                    assert!(missing > 0);
                    break;
                }
                Parsed::Swallow { consumed } => at += consumed,
                Parsed::Refused {
                    fault,
                    silent,
                    key,
                    consumed,
                } => {
                    if let (Fault::TooLarge, Some(key)) = (fault, key) {
                        self.rows.remove(key);
                    }
                    if !silent {
                        self.output.extend_from_slice(fault.reply());
                    }
                    self.closed = fault.closes_connection();
                    at += consumed;
                }
                Parsed::Request { request, consumed } => {
                    self.execute(request);
                    at += consumed;
                }
            }
        }
        self.input = input[at..].to_vec();
    }

    fn answer(&mut self, noreply: bool, text: &[u8]) {
        if !noreply {
            self.output.extend_from_slice(text);
        }
    }

    fn execute(&mut self, request: Request<'_>) {
        match request {
            Request::Get { keys, cas, touch } => {
                assert_eq!(keys.len(), keys.count());
                for key in keys {
                    if let Some(row) = self.rows.get(key) {
                        let version = cas.then_some(row.version);
                        reply::value(&mut self.output, key, row.flags, &row.value, version);
                        if touch.is_some_and(|t| t < 0) {
                            self.rows.remove(key);
                        }
                    }
                }
                self.output.extend_from_slice(reply::END);
            }
            Request::Change { change, noreply } => {
                let mut out = Vec::new();
                self.change(&change, &mut out);
                self.answer(noreply, &out);
            }
            Request::FlushAll { noreply, .. } => {
                self.rows.clear();
                self.answer(noreply, reply::OK);
            }
            Request::Verbosity { noreply, .. } => self.answer(noreply, reply::OK),
            Request::Stats { .. } => self.output.extend_from_slice(reply::END),
            Request::Version => reply::version(&mut self.output, "0"),
            Request::CacheLimit { noreply, .. } => self.answer(noreply, reply::OK),
            // The model has the classic commands only.
            Request::Meta(_) => self.output.extend_from_slice(reply::ERROR),
            Request::Quit => self.closed = true,
        }
    }

    fn change(&mut self, change: &Change<'_>, out: &mut Vec<u8>) {
        match change {
            Change::Store(store) => {
                out.extend_from_slice(self.store(store));
                if store.exptime < 0 {
                    self.rows.remove(store.key);
                }
            }
            Change::Count(count) => self.count(count.key, count.delta, count.decrement, out),
            Change::Delete(delete) => {
                let found = self.rows.remove(delete.key).is_some();
                let text = if found {
                    reply::DELETED
                } else {
                    reply::NOT_FOUND
                };
                out.extend_from_slice(text);
            }
            Change::Touch(touch) => {
                let found = self.rows.contains_key(touch.key);
                if touch.exptime < 0 {
                    self.rows.remove(touch.key);
                }
                let text = if found {
                    reply::TOUCHED
                } else {
                    reply::NOT_FOUND
                };
                out.extend_from_slice(text);
            }
        }
    }

    fn store(&mut self, store: &Store<'_>) -> &'static [u8] {
        self.version += 1;
        let version = self.version;
        let (mode, value) = (store.mode, store.value);
        let old = self.rows.get_mut(store.key);
        let refused = match (mode, store.compare, &old) {
            (Mode::Add, _, Some(_)) => true,
            (Mode::Replace | Mode::Append | Mode::Prepend, _, None) => true,
            (_, Some(_), None) => return reply::NOT_FOUND,
            (_, Some(wanted), Some(row)) if row.version != wanted => return reply::EXISTS,
            _ => false,
        };
        if refused {
            return reply::NOT_STORED;
        }
        match (mode, old) {
            (Mode::Append, Some(row)) => {
                row.value.extend_from_slice(value);
                row.version = version;
            }
            (Mode::Prepend, Some(row)) => {
                row.value.splice(0..0, value.iter().copied());
                row.version = version;
            }
            _ => {
                let row = Row {
                    flags: store.flags,
                    value: value.to_vec(),
                    version,
                };
                self.rows.insert(store.key.to_vec(), row);
            }
        }
        reply::STORED
    }

    fn count(&mut self, key: &[u8], delta: u64, decrement: bool, out: &mut Vec<u8>) {
        let Some(row) = self.rows.get_mut(key) else {
            out.extend_from_slice(reply::NOT_FOUND);
            return;
        };
        let text = std::str::from_utf8(&row.value).unwrap_or("").trim();
        let Ok(old) = text.parse::<u64>() else {
            out.extend_from_slice(reply::NON_NUMERIC);
            return;
        };
        let new = if decrement {
            old.saturating_sub(delta)
        } else {
            old.wrapping_add(delta)
        };
        let mut digits = new.to_string().into_bytes();
        if digits.len() < row.value.len() {
            digits.resize(row.value.len(), b' ');
        }
        row.value = digits;
        self.version += 1;
        row.version = self.version;
        reply::number(out, new);
    }
}
