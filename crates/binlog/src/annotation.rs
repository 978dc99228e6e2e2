//! Annotations of commits: what the engine stores of a transaction for the change log (docs/formats.md,
//! "Annotations of commits").
//!
//! ```text
//!   0         1      2           6                 14      15 (with a GTID 39)
//!   | version | kind | server id | commit time     | gtid? | [uuid, number] | events ...
//! ```
//!
//! The events are finished but for positions and checksums, which depend on the place in the file.

use porpoise_replication::gtid::{Gtid, Uuid};

/// Version of the format.
pub const ANNOTATION_FORMAT_VERSION: u8 = 1;

/// Kind of an annotation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Changes of rows: TABLE_MAP and rows events.
    Rows,
    /// A statement: one QUERY event.
    Statement,
}

/// A decoded annotation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Annotation<'a> {
    /// Kind of its events.
    pub kind: Kind,
    /// Server that ran the transaction first.
    pub server_id: u32,
    /// Time of the commit, on that server, in microseconds since 1970 UTC.
    pub micros: u64,
    /// Its identifier, if another server gave it one.
    pub gtid: Option<Gtid>,
    /// The events, with room for checksums, one after the other.
    pub events: &'a [u8],
}

impl Annotation<'_> {
    /// Appends the encoded annotation.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.push(ANNOTATION_FORMAT_VERSION);
        out.push(match self.kind {
            Kind::Rows => 0,
            Kind::Statement => 1,
        });
        out.extend_from_slice(&self.server_id.to_le_bytes());
        out.extend_from_slice(&self.micros.to_le_bytes());
        out.push(u8::from(self.gtid.is_some()));
        if let Some(gtid) = self.gtid {
            out.extend_from_slice(&gtid.source.0);
            out.extend_from_slice(&gtid.number.to_le_bytes());
        }
        out.extend_from_slice(self.events);
    }
}

impl<'a> Annotation<'a> {
    /// Decodes an annotation. The error is a description.
    ///
    /// # Errors
    /// Another version; too few bytes.
    pub fn decode(bytes: &'a [u8]) -> Result<Annotation<'a>, String> {
        fn take<'b, const N: usize>(bytes: &mut &'b [u8]) -> Result<&'b [u8; N], String> {
            let (head, rest) = bytes
                .split_first_chunk::<N>()
                .ok_or("an annotation is too short")?;
            *bytes = rest;
            Ok(head)
        }
        let mut rest = bytes;
        let [version] = *take::<1>(&mut rest)?;
        if version != ANNOTATION_FORMAT_VERSION {
            return Err(format!(
                "annotation format {version}; this server reads {ANNOTATION_FORMAT_VERSION}"
            ));
        }
        let kind = match *take::<1>(&mut rest)? {
            [0] => Kind::Rows,
            [1] => Kind::Statement,
            [other] => return Err(format!("annotation of kind {other}")),
        };
        let server_id = u32::from_le_bytes(*take(&mut rest)?);
        let micros = u64::from_le_bytes(*take(&mut rest)?);
        let gtid = match *take::<1>(&mut rest)? {
            [0] => None,
            _ => {
                let source = Uuid(*take(&mut rest)?);
                let number = i64::from_le_bytes(*take(&mut rest)?);
                Some(Gtid::new(source, number))
            }
        };
        Ok(Annotation {
            kind,
            server_id,
            micros,
            gtid,
            events: rest,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn annotations_come_back_and_short_ones_are_refused() {
        for gtid in [None, Some(Gtid::new(Uuid([7; 16]), 300))] {
            let annotation = Annotation {
                kind: Kind::Statement,
                server_id: 9,
                micros: 1 << 50,
                gtid,
                events: b"events",
            };
            let mut bytes = Vec::new();
            annotation.encode(&mut bytes);
            assert_eq!(Annotation::decode(&bytes), Ok(annotation));
            for cut in 0..bytes.len() - 6 {
                assert!(Annotation::decode(&bytes[..cut]).is_err(), "{cut}");
            }
            bytes[0] = 2;
            assert!(Annotation::decode(&bytes).unwrap_err().contains("format 2"));
        }
    }
}
