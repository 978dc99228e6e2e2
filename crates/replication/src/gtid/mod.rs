//! Global transaction identifiers of MySQL: `uuid:number`, and sets of them, `uuid:1-5:8,uuid:3`.
//!
//! Since MySQL 8.3 an identifier may have a tag: `uuid:tag:number`, and in sets `uuid:1-5:tag:1-3`. Each tag has numbers of its own.
//!
//! A set keeps, for each server and tag, sorted ranges that neither overlap nor touch, so that equal sets are equal values.
//! [`mariadb`] has MariaDB's identifiers, which are of another form.

pub mod mariadb;
mod tag;

pub use tag::Tag;

use std::collections::BTreeMap;
use std::fmt;

/// Identifier of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Uuid(pub [u8; 16]);

/// Identifier or set that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("malformed GTID set: {0}")]
pub struct GtidError(String);

impl Uuid {
    /// Reads 32 hexadecimal digits, in any case, with hyphens between groups, or none.
    #[must_use]
    pub fn parse(text: &str) -> Option<Uuid> {
        let text = text.trim();
        let text = text
            .strip_prefix('{')
            .and_then(|text| text.strip_suffix('}'))
            .unwrap_or(text);
        let mut digits = text.chars().filter(|c| *c != '-').map(|c| c.to_digit(16));
        let mut bytes = [0; 16];
        for byte in &mut bytes {
            *byte = (digits.next()?? << 4 | digits.next()??) as u8;
        }
        let has_hyphens = text.len() == 36
            && text
                .bytes()
                .enumerate()
                .all(|(at, byte)| (byte == b'-') == matches!(at, 8 | 13 | 18 | 23));
        (digits.next().is_none() && (text.len() == 32 || has_hyphens)).then_some(Uuid(bytes))
    }
}

impl fmt::Display for Uuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, byte) in self.0.iter().enumerate() {
            if matches!(at, 4 | 6 | 8 | 10) {
                f.write_str("-")?;
            }
            write!(f, "{byte:02x}")?;
        }
        Ok(())
    }
}

/// Identifier of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Gtid {
    /// Server that ran the transaction first.
    pub source: Uuid,
    /// Tag.
    pub tag: Tag,
    /// Number, from 1 on.
    pub number: i64,
}

impl Gtid {
    /// An identifier without a tag.
    #[must_use]
    pub fn new(source: Uuid, number: i64) -> Gtid {
        Gtid {
            source,
            tag: Tag::NONE,
            number,
        }
    }

    /// Reads `uuid:number` or `uuid:tag:number`.
    ///
    /// # Errors
    /// Anything else.
    pub fn parse(text: &str) -> Result<Gtid, GtidError> {
        let set = GtidSet::parse(text)?;
        let mut gtids = set.ranges();
        match (gtids.next(), gtids.next()) {
            (Some(((source, tag), first, last)), None) if first == last => Ok(Gtid {
                source,
                tag,
                number: first,
            }),
            _ => Err(GtidError(format!("{text:?} is not one GTID"))),
        }
    }
}

impl fmt::Display for Gtid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:", self.source)?;
        if !self.tag.is_none() {
            write!(f, "{}:", self.tag)?;
        }
        write!(f, "{}", self.number)
    }
}

/// Range of numbers, both ends included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Range {
    first: i64,
    last: i64,
}

/// Set of identifiers.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct GtidSet {
    sources: BTreeMap<Source, Vec<Range>>,
}

/// A server and a tag: the numbers of each such pair are counted separately.
pub type Source = (Uuid, Tag);

/// Number of the binary format with tags.
const TAGGED: u64 = 1;

impl GtidSet {
    /// The empty set.
    #[must_use]
    pub fn new() -> GtidSet {
        GtidSet::default()
    }

    /// Reads `uuid:1-5:8:tag:1-3,uuid:3`. A tag is that of the ranges after it. Whitespace and empty parts between commas are skipped.
    ///
    /// # Errors
    /// A part that is not a UUID, a range that is neither a range nor a tag.
    pub fn parse(text: &str) -> Result<GtidSet, GtidError> {
        let mut set = GtidSet::new();
        for part in text
            .split(',')
            .map(str::trim)
            .filter(|part| !part.is_empty())
        {
            let mut fields = part.split(':').map(str::trim);
            let source = fields.next().and_then(Uuid::parse);
            let source =
                source.ok_or_else(|| GtidError(format!("{part:?} begins with no UUID")))?;
            let mut tag = Tag::NONE;
            for field in fields {
                if let Some(named) = Tag::parse(field) {
                    tag = named;
                    continue;
                }
                let (first, last) = field.split_once('-').unwrap_or((field, field));
                let number = |text: &str| text.trim().parse::<i64>().ok();
                match (number(first), number(last)) {
                    (Some(first), Some(last)) if first > 0 && last < i64::MAX => {
                        // A range that ends before it begins is empty, as with MySQL.
                        set.insert_range((source, tag), first, last);
                    }
                    _ => return Err(GtidError(format!("{field:?} is not a range of numbers"))),
                }
            }
        }
        Ok(set)
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.sources.is_empty()
    }

    /// The identifiers of one server.
    #[must_use]
    pub fn of_source(&self, source: Uuid) -> GtidSet {
        let own = self.sources.iter().filter(|((of, _), _)| *of == source);
        GtidSet {
            sources: own.map(|(of, ranges)| (*of, ranges.clone())).collect(),
        }
    }

    /// Number of identifiers.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.ranges()
            .map(|(_, first, last)| last.abs_diff(first) + 1)
            .fold(0, u64::saturating_add)
    }

    /// The ranges: server and tag, first and last number.
    pub fn ranges(&self) -> impl Iterator<Item = (Source, i64, i64)> {
        self.sources.iter().flat_map(|(source, ranges)| {
            ranges
                .iter()
                .map(|range| (*source, range.first, range.last))
        })
    }

    /// Adds an identifier. Returns whether it was not in the set.
    pub fn insert(&mut self, gtid: Gtid) -> bool {
        let is_new = !self.contains(gtid);
        self.insert_range((gtid.source, gtid.tag), gtid.number, gtid.number);
        is_new
    }

    /// Adds a range, both ends included; numbers below 1 are left out.
    pub fn insert_range(&mut self, source: Source, first: i64, last: i64) {
        let mut added = Range {
            first: first.max(1),
            last: last.min(i64::MAX - 1),
        };
        if added.first > added.last {
            return;
        }
        let ranges = self.sources.entry(source).or_default();
        // Ranges that overlap or touch the new one become part of it.
        let start = ranges.partition_point(|range| range.last + 1 < added.first);
        let end = ranges.partition_point(|range| range.first <= added.last + 1);
        for range in ranges.get(start..end).unwrap_or_default() {
            added.first = added.first.min(range.first);
            added.last = added.last.max(range.last);
        }
        ranges.splice(start..end.max(start), [added]);
    }

    /// Whether an identifier is in the set.
    #[must_use]
    pub fn contains(&self, gtid: Gtid) -> bool {
        let Some(ranges) = self.sources.get(&(gtid.source, gtid.tag)) else {
            return false;
        };
        let at = ranges.partition_point(|range| range.last < gtid.number);
        ranges
            .get(at)
            .is_some_and(|range| range.first <= gtid.number)
    }

    /// Whether all identifiers of another set are in this one.
    #[must_use]
    pub fn contains_set(&self, other: &GtidSet) -> bool {
        other.subtract(self).is_empty()
    }

    /// Adds another set.
    pub fn union_with(&mut self, other: &GtidSet) {
        for (source, first, last) in other.ranges() {
            self.insert_range(source, first, last);
        }
    }

    /// The identifiers of this set that are not in another one.
    #[must_use]
    pub fn subtract(&self, other: &GtidSet) -> GtidSet {
        let mut rest = GtidSet::new();
        for (source, first, last) in self.ranges() {
            let mut next = first;
            let removed = other.sources.get(&source).map(Vec::as_slice);
            for range in removed.unwrap_or_default() {
                if range.last < next {
                    continue;
                }
                if range.first > last {
                    break;
                }
                rest.insert_range(source, next, range.first - 1);
                next = range.last + 1;
            }
            rest.insert_range(source, next, last);
        }
        rest
    }

    /// The identifiers that are in both sets.
    #[must_use]
    pub fn intersect(&self, other: &GtidSet) -> GtidSet {
        self.subtract(&self.subtract(other))
    }

    /// The smallest number of a server, without a tag, that is not in the set.
    #[must_use]
    pub fn next_number(&self, source: Uuid) -> i64 {
        let ranges = self.sources.get(&(source, Tag::NONE));
        let first = ranges.and_then(|ranges| ranges.first());
        match first {
            Some(range) if range.first == 1 => range.last + 1,
            _ => 1,
        }
    }

    /// Appends the binary form: the number of servers, and for each its UUID, the number of ranges, and their first
    /// number and the one after their last, in eight bytes each. With tags, which follow the UUIDs, the first and the last
    /// byte of the first number are the format.
    pub fn append_bytes(&self, out: &mut Vec<u8>) {
        let count = self.sources.len() as u64;
        let has_tags = self.sources.keys().any(|(_, tag)| !tag.is_none());
        let head = if has_tags {
            TAGGED << 56 | count << 8 | TAGGED
        } else {
            count
        };
        out.extend_from_slice(&head.to_le_bytes());
        for ((source, tag), ranges) in &self.sources {
            out.extend_from_slice(&source.0);
            if has_tags {
                tag.append_bytes(out);
            }
            out.extend_from_slice(&(ranges.len() as u64).to_le_bytes());
            for range in ranges {
                out.extend_from_slice(&range.first.to_le_bytes());
                out.extend_from_slice(&(range.last + 1).to_le_bytes());
            }
        }
    }

    /// Reads the binary form.
    ///
    /// # Errors
    /// Bytes missing or left over, ranges out of order, another format.
    pub fn from_bytes(bytes: &[u8]) -> Result<GtidSet, GtidError> {
        let mut rest = bytes;
        let mut set = GtidSet::new();
        let head = take_number(&mut rest)?;
        let (has_tags, servers) = match head >> 56 {
            0 => (false, head),
            TAGGED => (true, head << 8 >> 16),
            other => return Err(GtidError(format!("the format {other} is not known"))),
        };
        for _ in 0..servers {
            let Some((source, after)) = rest.split_first_chunk::<16>() else {
                return Err(GtidError("a UUID is cut off".into()));
            };
            rest = after;
            let tag = if has_tags {
                Tag::take(&mut rest).ok_or_else(|| GtidError("a tag is malformed".into()))?
            } else {
                Tag::NONE
            };
            for _ in 0..take_number(&mut rest)? {
                let first = take_number(&mut rest)? as i64;
                let end = take_number(&mut rest)? as i64;
                if first < 1 || end <= first {
                    return Err(GtidError(format!("a range from {first} to before {end}")));
                }
                set.insert_range((Uuid(*source), tag), first, end - 1);
            }
        }
        if rest.is_empty() {
            Ok(set)
        } else {
            Err(GtidError(format!("{} bytes after its end", rest.len())))
        }
    }
}

fn take_number(rest: &mut &[u8]) -> Result<u64, GtidError> {
    let Some((number, after)) = rest.split_first_chunk::<8>() else {
        return Err(GtidError("a number is cut off".into()));
    };
    *rest = after;
    Ok(u64::from_le_bytes(*number))
}

impl fmt::Display for GtidSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut before = None;
        for ((source, tag), ranges) in &self.sources {
            if before != Some(source) {
                let comma = if before.is_some() { ",\n" } else { "" };
                write!(f, "{comma}{source}")?;
                before = Some(source);
            }
            if !tag.is_none() {
                write!(f, ":{tag}")?;
            }
            for range in ranges {
                if range.first == range.last {
                    write!(f, ":{}", range.first)?
                } else {
                    write!(f, ":{}-{}", range.first, range.last)?
                }
            }
        }
        Ok(())
    }
}
