//! Requests and answers without a protocol, and the codecs that speak them.
//!
//! An experiment fills in a [`Call`]; the codec of the connection encodes it
//! in its protocol, and decodes the reply into an [`Answer`].
//! Every codec does the same work for a call: it writes into the connection's
//! output, parses the connection's input in place, and copies the
//! values of the answer into one buffer. After the first calls none allocates.
//!
//! 1. A codec does no input or output; [`crate::conn`] does.
//! 2. `Done` is returned only when the whole answer has arrived, so that
//!    the next call's answer starts at the next byte.
//! 3. A refused request (an error packet, SERVER_ERROR) leaves the connection
//!    usable; [`Answer::error`] has the refusal.

pub mod dialects;
pub mod memcached;
pub mod mysql;
pub mod postgres;

use crate::error::Result;
use std::ops::Range;

/// Operation of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    /// A statement of the connection, by its number; the arguments are its
    /// parameters.
    Statement(usize),
    /// The SQL text that is the only argument.
    Text,
    /// memcached `get` of all arguments.
    Get,
    /// memcached `set` of the first argument to the second.
    Set,
    /// memcached `add`.
    Add,
    /// memcached `replace`.
    Replace,
    /// memcached `delete`.
    Delete,
    /// memcached `incr` by one.
    Incr,
}

/// An argument of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Arg {
    Int(i64),
    Bytes(Range<usize>),
}

/// An argument as a codec sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Argument<'a> {
    /// An integer.
    Int(i64),
    /// Text or binary.
    Bytes(&'a [u8]),
}

/// A request. It is reused.
#[derive(Clone, Debug)]
pub struct Call {
    verb: Verb,
    args: Vec<Arg>,
    bytes: Vec<u8>,
}

impl Default for Call {
    fn default() -> Call {
        Call {
            verb: Verb::Get,
            args: Vec::new(),
            bytes: Vec::new(),
        }
    }
}

impl Call {
    /// Starts another request, without arguments.
    pub fn begin(&mut self, verb: Verb) -> &mut Call {
        self.verb = verb;
        self.args.clear();
        self.bytes.clear();
        self
    }

    /// Adds an integer.
    pub fn int(&mut self, n: i64) -> &mut Call {
        self.args.push(Arg::Int(n));
        self
    }

    /// Adds bytes.
    pub fn bytes(&mut self, bytes: &[u8]) -> &mut Call {
        self.bytes_by(|out| out.extend_from_slice(bytes))
    }

    /// Adds bytes that `write` appends.
    pub fn bytes_by(&mut self, write: impl FnOnce(&mut Vec<u8>)) -> &mut Call {
        let start = self.bytes.len();
        write(&mut self.bytes);
        self.args.push(Arg::Bytes(start..self.bytes.len()));
        self
    }

    /// Operation.
    pub fn verb(&self) -> Verb {
        self.verb
    }

    /// The arguments in order.
    pub fn args(&self) -> impl ExactSizeIterator<Item = Argument<'_>> {
        self.args.iter().map(|arg| match arg {
            Arg::Int(n) => Argument::Int(*n),
            Arg::Bytes(range) => Argument::Bytes(self.bytes.get(range.clone()).unwrap_or_default()),
        })
    }
}

/// An answer. It is reused.
#[derive(Clone, Debug, Default)]
pub struct Answer {
    data: Vec<u8>,
    cells: Vec<Option<Range<usize>>>,
    /// Rows of a result, or values of a get.
    pub rows: usize,
    /// Rows changed; for memcached 1 if an item was stored or deleted.
    pub affected: u64,
    /// First generated id of inserted rows.
    pub last_insert_id: u64,
    /// The server's refusal, as received.
    pub error: Option<String>,
}

impl Answer {
    /// Clears it for the next answer.
    pub fn clear(&mut self) {
        self.data.clear();
        self.cells.clear();
        self.rows = 0;
        self.affected = 0;
        self.last_insert_id = 0;
        self.error = None;
    }

    /// Adds a value of the current row; `None` for NULL.
    pub fn push(&mut self, value: Option<&[u8]>) {
        let cell = value.map(|bytes| {
            let start = self.data.len();
            self.data.extend_from_slice(bytes);
            start..self.data.len()
        });
        self.cells.push(cell);
    }

    /// Adds an integer to the current row, as text.
    pub fn push_int(&mut self, n: i64) {
        self.push(Some(itoa::Buffer::new().format(n).as_bytes()));
    }

    /// The n-th value over all rows, from 0; `None` if it is NULL or absent.
    pub fn cell(&self, n: usize) -> Option<&[u8]> {
        let range = self.cells.get(n)?.clone()?;
        self.data.get(range)
    }

    /// Whether it has grown so large that a server which never ends its answer
    /// would fill the memory.
    pub fn is_too_large(&self) -> bool {
        const MOST: usize = 256 << 20;
        self.data.len() + self.cells.len() * size_of::<Option<Range<usize>>>() > MOST
    }

    /// Number of values over all rows.
    pub fn cells(&self) -> usize {
        self.cells.len()
    }
}

/// Progress of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// More bytes are needed; this number of bytes was consumed.
    More(usize),
    /// The answer is complete after this number of bytes.
    Done(usize),
}

/// One protocol on one connection.
pub trait Codec: Send {
    /// Appends the request.
    ///
    /// # Errors
    /// A verb that the protocol does not have.
    fn encode(&mut self, call: &Call, out: &mut Vec<u8>) -> Result<()>;

    /// Parses bytes that have arrived and are not processed yet, and adds
    /// their contents to `answer`.
    ///
    /// # Errors
    /// Bytes that are not the protocol's.
    fn decode(&mut self, input: &mut [u8], answer: &mut Answer) -> Result<Progress>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_gives_back_its_arguments() {
        let mut call = Call::default();
        call.begin(Verb::Set).bytes(b"k").int(-4).bytes(b"");
        let args: Vec<Argument<'_>> = call.args().collect();
        assert_eq!(
            args,
            [
                Argument::Bytes(b"k"),
                Argument::Int(-4),
                Argument::Bytes(b"")
            ]
        );
        call.begin(Verb::Get);
        assert_eq!(call.args().len(), 0);
    }

    #[test]
    fn an_answer_keeps_null_apart_from_empty() {
        let mut answer = Answer::default();
        answer.push(Some(b""));
        answer.push(None);
        answer.push_int(-12);
        assert_eq!(answer.cell(0), Some(&b""[..]));
        assert_eq!(answer.cell(1), None);
        assert_eq!(answer.cell(2), Some(&b"-12"[..]));
        assert_eq!(answer.cells(), 3);
    }
}
