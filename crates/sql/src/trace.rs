//! Traces of statements: which statements are traced, and what a span of one contains.
//!
//! A client passes its trace as a W3C `traceparent` (Trace Context, level 1), in a comment of the
//! statement as sqlcommenter writes it (`/*traceparent='00-...-01'*/`), or in a query attribute of this
//! name, which has precedence. Its flag `sampled` decides. A statement without one begins a trace of its
//! own for a share of the statements that the receiver chooses ([`TraceSink::begins_trace`]).
//!
//! A span ends when the reply is ready; the wait for durability is not part of it. It has the text
//! without values. The phases of a traced statement are measured ([`crate::statements::phases`]).
//!
//! Rejected: spans for the phases (three times the data; attributes say the same).

use crate::statements::phases::PhaseTimes;

/// Length of a `traceparent` of version 00.
const LENGTH: usize = 55;

/// The position of a client's span in its trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceParent {
    /// Id of the trace, not zero.
    pub trace: [u8; 16],
    /// Id of the client's span, not zero.
    pub span: [u8; 8],
    /// Whether the client records the trace.
    pub is_sampled: bool,
}

impl TraceParent {
    /// Parses `VERSION-TRACE-SPAN-FLAGS`. Versions after 00 may have more fields after the flags.
    pub fn parse(text: &[u8]) -> Option<TraceParent> {
        let mut fields = text.get(..LENGTH)?.split(|b| *b == b'-');
        let mut next = || fields.next();
        let (version, trace, span, flags) = (next()?, next()?, next()?, next()?);
        let [version] = from_hex(version)?;
        let (trace, span, [flags]) = (from_hex(trace)?, from_hex(span)?, from_hex(flags)?);
        let rest = text.get(LENGTH);
        let is_valid = rest.is_none_or(|b| version > 0 && *b == b'-')
            && version != 0xff
            && trace != [0; 16]
            && span != [0; 8];
        is_valid.then_some(TraceParent {
            trace,
            span,
            is_sampled: flags & 1 != 0,
        })
    }

    /// The `traceparent` in the comment at the end or at the beginning of a statement.
    pub(crate) fn of_statement(text: &[u8]) -> Option<TraceParent> {
        let text = text.trim_ascii_end();
        let text = text.strip_suffix(b";").unwrap_or(text).trim_ascii();
        let last = text.strip_suffix(b"*/").and_then(|text| {
            let begin = memchr::memmem::rfind(text, b"/*")?;
            text.get(begin + 2..)
        });
        let first = text.strip_prefix(b"/*").and_then(|text| {
            let end = memchr::memmem::find(text, b"*/")?;
            text.get(..end)
        });
        [last, first].into_iter().flatten().find_map(|comment| {
            let name = b"traceparent='";
            let at = memchr::memmem::find(comment, name)?;
            let value = comment.get(at + name.len()..)?;
            let end = memchr::memchr(b'\'', value)?;
            TraceParent::parse(value.get(..end)?)
        })
    }
}

/// Bytes of lower-case hexadecimal digits; `None` for any other text or length.
fn from_hex<const N: usize>(digits: &[u8]) -> Option<[u8; N]> {
    if digits.len() != 2 * N {
        return None;
    }
    let digit = |byte: u8| match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        _ => None,
    };
    let mut bytes = [0; N];
    for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
        let [high, low] = pair else { return None };
        *byte = digit(*high)? << 4 | digit(*low)?;
    }
    Some(bytes)
}

/// A traced statement that has ended. Times are in nanoseconds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StatementSpan {
    /// The client's span; `None` if the statement begins a trace.
    pub parent: Option<TraceParent>,
    /// End, in nanoseconds since 1970 UTC.
    pub ended: u64,
    /// Time from the receipt of the statement until its reply was ready.
    pub nanos: u64,
    /// Part of it for parsing.
    pub parse_nanos: u64,
    /// Part of it for planning.
    pub plan_nanos: u64,
    /// Part of it for waits for locks.
    pub lock_nanos: u64,
    /// The text without values; empty if it has no tokens.
    pub text: String,
    /// The default database.
    pub database: Option<String>,
    /// Connection id.
    pub connection: u64,
    /// The error number, or 0.
    pub error: u16,
    /// Rows read.
    pub rows_examined: u64,
    /// Rows sent to the client.
    pub rows_sent: u64,
    /// Rows changed.
    pub rows_affected: u64,
}

/// Receiver of traced statements.
pub trait TraceSink: Send + Sync {
    /// Whether a statement that belongs to no trace of its client begins a trace.
    fn begins_trace(&self) -> bool;

    /// Takes a span. Does not wait: a span for which there is no room is dropped.
    fn record(&self, span: StatementSpan);
}

/// The trace of the running statement.
#[derive(Debug)]
pub(crate) struct Traced {
    pub(crate) parent: Option<TraceParent>,
    pub(crate) phases: PhaseTimes,
}

#[cfg(test)]
mod tests {
    use super::*;

    const PARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    #[test]
    fn a_traceparent_is_read_from_the_comment_of_a_statement() {
        let parent = TraceParent::parse(PARENT.as_bytes()).unwrap();
        assert!(parent.is_sampled);
        assert_eq!((parent.trace[0], parent.span[7]), (0x0a, 0x31));
        for text in [
            format!("SELECT 1 /*traceparent='{PARENT}'*/"),
            format!("SELECT 1 /*action='x',traceparent='{PARENT}',tracestate='a%3Db'*/ ; "),
            format!(" /* traceparent='{PARENT}' */ SELECT '*/'"),
        ] {
            let found = TraceParent::of_statement(text.as_bytes());
            assert_eq!(found, Some(parent), "{text}");
        }
        for text in [
            format!("SELECT 'traceparent=''{PARENT}''' "),
            format!("SELECT /* traceparent='{PARENT}' */ 1"),
            "SELECT 1 /*traceparent='00-0'*/".to_owned(),
            "SELECT 1 */".to_owned(),
            "/*/".to_owned(),
            String::new(),
        ] {
            assert_eq!(TraceParent::of_statement(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn malformed_traceparents_are_ignored() {
        let with =
            |from: &str, to: &str| TraceParent::parse(PARENT.replacen(from, to, 1).as_bytes());
        let unsampled = TraceParent::parse(PARENT.trim_end_matches('1').as_bytes());
        assert!(unsampled.is_none());
        let unsampled = format!("{}00", PARENT.trim_end_matches("01"));
        assert!(!TraceParent::parse(unsampled.as_bytes()).unwrap().is_sampled);
        let longer = format!("{PARENT}-more");
        assert!(TraceParent::parse(longer.as_bytes()).is_none());
        assert!(with("00-0af", "01-0af").is_some());
        assert!(with("00-0af", "ff-0af").is_none());
        assert!(with("0af", "0AF").is_none());
        assert!(with("b7ad6b7169203331", "0000000000000000").is_none());
        let later = format!("cc{}-what-follows", &PARENT[2..]);
        assert!(TraceParent::parse(later.as_bytes()).is_some());
        for length in 0..PARENT.len() {
            assert!(TraceParent::parse(&PARENT.as_bytes()[..length]).is_none());
        }
    }
}
