//! Serialized aggregate states, for groups written to temporary files.
//!
//! Numbers are little-endian; lists and texts are prefixed with their length.

use super::accumulate::{Accumulator, ConcatPart, State};
use super::distinct::DistinctValues;
use super::documents::Document;
use crate::exec::rowstore;
use crate::expr::number::Unit;
use porpoise_types::{Value, ValueRef, json};

fn append_length(length: usize, out: &mut Vec<u8>) {
    out.extend_from_slice(&(length as u64).to_le_bytes());
}

fn append_bytes(bytes: &[u8], out: &mut Vec<u8>) {
    append_length(bytes.len(), out);
    out.extend_from_slice(bytes);
}

fn take<const N: usize>(rest: &mut &[u8]) -> Option<[u8; N]> {
    let (front, behind) = rest.split_first_chunk::<N>()?;
    *rest = behind;
    Some(*front)
}

fn take_number(rest: &mut &[u8]) -> Option<u64> {
    take(rest).map(u64::from_le_bytes)
}

fn take_bytes<'b>(rest: &mut &'b [u8]) -> Option<&'b [u8]> {
    let length = usize::try_from(take_number(rest)?).ok()?;
    let (front, behind) = rest.split_at_checked(length)?;
    *rest = behind;
    Some(front)
}

fn take_value(rest: &mut &[u8]) -> Option<Value> {
    rowstore::read(rest).map(ValueRef::to_owned)
}

fn append_unit(unit: Option<Unit>, out: &mut Vec<u8>) {
    let (tag, scale) = match unit {
        None => (0, 0),
        Some(Unit::Integer) => (1, 0),
        Some(Unit::Scaled(scale)) => (2, scale),
        Some(Unit::Date) => (3, 0),
        Some(Unit::DateTime) => (4, 0),
        Some(Unit::Time) => (5, 0),
    };
    out.extend_from_slice(&[tag, scale]);
}

fn take_unit(rest: &mut &[u8]) -> Option<Option<Unit>> {
    Some(match take(rest)? {
        [0, _] => None,
        [1, _] => Some(Unit::Integer),
        [2, scale] => Some(Unit::Scaled(scale)),
        [3, _] => Some(Unit::Date),
        [4, _] => Some(Unit::DateTime),
        [5, _] => Some(Unit::Time),
        _ => return None,
    })
}

impl Accumulator {
    /// Appends the serialized state.
    pub(super) fn write(&self, out: &mut Vec<u8>) {
        append_unit(self.numeric_extreme.map(|(_, unit)| unit), out);
        let best = self.numeric_extreme.map_or(0, |(number, _)| number);
        out.extend_from_slice(&best.to_le_bytes());
        self.state.write(out);
        if let Some(seen) = &self.distinct {
            seen.write(out);
        }
    }

    /// Reads a state that [`Accumulator::write`] has appended.
    pub(super) fn read(&mut self, rest: &mut &[u8]) -> Option<()> {
        let unit = take_unit(rest)?;
        let best = i64::from_le_bytes(take(rest)?);
        self.numeric_extreme = unit.map(|unit| (best, unit));
        self.state = State::read(rest)?;
        if let Some(seen) = &mut self.distinct {
            **seen = DistinctValues::read(rest)?;
        }
        Some(())
    }
}

const COUNT: u8 = 0;
const EXACT: u8 = 1;
const SCALED_INTEGER: u8 = 2;
const DOUBLE: u8 = 3;
const EXTREME: u8 = 4;
const BITS: u8 = 5;
const VARIANCE: u8 = 6;
const GROUP_CONCAT: u8 = 7;
const ARRAY: u8 = 8;
const OBJECT: u8 = 9;

impl State {
    fn write(&self, out: &mut Vec<u8>) {
        match self {
            State::Count(n) => {
                out.push(COUNT);
                out.extend_from_slice(&n.to_le_bytes());
            }
            State::Exact { sum, count } => {
                out.push(EXACT);
                out.extend_from_slice(&count.to_le_bytes());
                let sum = sum.as_ref();
                rowstore::write(sum.map_or(ValueRef::Null, |s| ValueRef::Decimal(*s)), out);
            }
            State::ScaledInteger { sum, scale, count } => {
                out.extend_from_slice(&[SCALED_INTEGER, *scale]);
                out.extend_from_slice(&sum.to_le_bytes());
                out.extend_from_slice(&count.to_le_bytes());
            }
            State::Double { sum, count } => {
                out.push(DOUBLE);
                out.extend_from_slice(&sum.to_le_bytes());
                out.extend_from_slice(&count.to_le_bytes());
            }
            State::Extreme(value) => {
                out.push(EXTREME);
                rowstore::write(value.as_ref(), out);
            }
            State::Bits(bits) => {
                out.push(BITS);
                out.extend_from_slice(&bits.to_le_bytes());
            }
            State::Variance {
                count,
                mean,
                squares,
            } => {
                out.push(VARIANCE);
                out.extend_from_slice(&count.to_le_bytes());
                out.extend_from_slice(&mean.to_le_bytes());
                out.extend_from_slice(&squares.to_le_bytes());
            }
            State::GroupConcat(parts) => {
                out.push(GROUP_CONCAT);
                append_length(parts.len(), out);
                for piece in parts {
                    append_bytes(&piece.text, out);
                    append_length(piece.keys.len(), out);
                    let keys = piece.keys.iter().map(Value::as_ref);
                    keys.for_each(|key| rowstore::write(key, out));
                }
            }
            State::Document(Document::Array(text)) => {
                out.push(ARRAY);
                append_bytes(text, out);
            }
            State::Document(Document::Object(members)) => {
                out.push(OBJECT);
                append_length(members.len(), out);
                for (name, value) in members {
                    append_bytes(name.as_bytes(), out);
                    append_bytes(&value.to_text(), out);
                }
            }
        }
    }

    fn read(rest: &mut &[u8]) -> Option<State> {
        let [tag] = take(rest)?;
        Some(match tag {
            COUNT => State::Count(i64::from_le_bytes(take(rest)?)),
            EXACT => State::Exact {
                count: take_number(rest)?,
                sum: match rowstore::read(rest)? {
                    ValueRef::Decimal(sum) => Some(sum),
                    _ => None,
                },
            },
            SCALED_INTEGER => {
                let [scale] = take(rest)?;
                State::ScaledInteger {
                    sum: i128::from_le_bytes(take(rest)?),
                    scale,
                    count: take_number(rest)?,
                }
            }
            DOUBLE => State::Double {
                sum: f64::from_le_bytes(take(rest)?),
                count: take_number(rest)?,
            },
            EXTREME => State::Extreme(take_value(rest)?),
            BITS => State::Bits(take_number(rest)?),
            VARIANCE => State::Variance {
                count: take_number(rest)?,
                mean: f64::from_le_bytes(take(rest)?),
                squares: f64::from_le_bytes(take(rest)?),
            },
            GROUP_CONCAT => {
                let mut parts = Vec::new();
                for _ in 0..take_number(rest)? {
                    let text = take_bytes(rest)?.to_vec();
                    let keys = take_number(rest)?;
                    let keys = (0..keys).map(|_| take_value(rest)).collect::<Option<_>>()?;
                    parts.push(ConcatPart { keys, text });
                }
                State::GroupConcat(parts)
            }
            ARRAY => State::Document(Document::Array(take_bytes(rest)?.to_vec())),
            OBJECT => {
                let mut members = Vec::new();
                for _ in 0..take_number(rest)? {
                    let name = String::from_utf8(take_bytes(rest)?.to_vec()).ok()?;
                    let value = json::parse(take_bytes(rest)?).ok()?;
                    members.push((name, value));
                }
                State::Document(Document::Object(members))
            }
            _ => return None,
        })
    }
}

impl DistinctValues {
    fn write(&self, out: &mut Vec<u8>) {
        append_unit(self.unit, out);
        append_length(self.numbers.len(), out);
        for number in &self.numbers {
            out.extend_from_slice(&number.to_le_bytes());
        }
        append_length(self.keys.len(), out);
        self.keys.iter().for_each(|key| append_bytes(key, out));
    }

    fn read(rest: &mut &[u8]) -> Option<DistinctValues> {
        let mut seen = DistinctValues::default();
        seen.unit = take_unit(rest)?;
        for _ in 0..take_number(rest)? {
            seen.numbers.insert(i64::from_le_bytes(take(rest)?));
        }
        for _ in 0..take_number(rest)? {
            seen.keys.insert(take_bytes(rest)?.to_vec());
        }
        Some(seen)
    }
}
