//! The persisted form of column types.

use super::{ColumnType, Kind, TYPE_FORMAT_VERSION};
use crate::collation::Collation;

impl ColumnType {
    /// Appends the persisted form.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.push(TYPE_FORMAT_VERSION);
        out.push(self.kind as u8);
        out.push(u8::from(self.unsigned) | u8::from(self.zerofill) << 1);
        leb128(u64::from(self.length), out);
        out.push(self.decimals);
        leb128(u64::from(self.collation.0), out);
        leb128(self.members.len() as u64, out);
        for member in self.members.iter() {
            leb128(member.len() as u64, out);
            out.extend_from_slice(member);
        }
    }

    /// Reads the persisted form from the front of `bytes`, which is advanced;
    /// None for a newer version, an unknown kind or collation, or bytes that end early.
    #[must_use]
    pub fn decode(bytes: &mut &[u8]) -> Option<ColumnType> {
        let mut rest = *bytes;
        if take(&mut rest)? != TYPE_FORMAT_VERSION {
            return None;
        }
        let kind = Kind::from_number(take(&mut rest)?)?;
        let flags = take(&mut rest)?;
        let length = u32::try_from(take_leb128(&mut rest)?).ok()?;
        let decimals = take(&mut rest)?;
        let collation = Collation::from_id(u16::try_from(take_leb128(&mut rest)?).ok()?)?;
        let count = usize::try_from(take_leb128(&mut rest)?).ok()?;
        let mut members = Vec::new();
        for _ in 0..count {
            let len = usize::try_from(take_leb128(&mut rest)?).ok()?;
            let (member, after) = rest.split_at_checked(len)?;
            members.push(Box::from(member));
            rest = after;
        }
        *bytes = rest;
        Some(ColumnType {
            kind,
            unsigned: flags & 1 != 0,
            zerofill: flags & 2 != 0,
            length,
            decimals,
            collation,
            members: members.into(),
        })
    }
}

fn leb128(v: u64, out: &mut Vec<u8>) {
    let mut v = v;
    while v >= 0x80 {
        out.push((v & 0x7F) as u8 | 0x80);
        v >>= 7;
    }
    out.push(v as u8);
}

fn take(bytes: &mut &[u8]) -> Option<u8> {
    let (first, rest) = bytes.split_first()?;
    *bytes = rest;
    Some(*first)
}

fn take_leb128(bytes: &mut &[u8]) -> Option<u64> {
    let mut v = 0u64;
    for shift in (0..64).step_by(7) {
        let byte = take(bytes)?;
        v |= u64::from(byte & 0x7F) << shift;
        if byte & 0x80 == 0 {
            return Some(v);
        }
    }
    None
}
