//! Results of batches.

use crate::error::{Error, Result, ServerError};
use crate::operation::Operation;
use crate::row::Row;
use crate::values::RowValues;
use porpoise_wire::native::Reader;
use porpoise_wire::native::batch::{
    Operation as Kind, Status, WITH_CREATED, WITH_GENERATED_ID, WITH_VERSION,
};
use porpoise_wire::native::message::ErrorMessage;

/// Outcome of one operation.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome<'a> {
    /// A row was read.
    Row {
        /// Its version, if the operation requests it; otherwise 0.
        version: u64,
        /// The values.
        values: RowValues<'a>,
    },
    /// A row was written, or deleted.
    Written {
        /// The version of the row, if the operation requests it; otherwise 0.
        version: u64,
        /// The generated id, if the operation requests it; otherwise 0.
        generated_id: u64,
        /// Whether the row is new, if an UPSERT requests it; otherwise false.
        is_new: bool,
    },
    /// No row has the key.
    NotFound,
    /// The row does not meet the conditions.
    ConditionFailed,
    /// The operation failed.
    Failed(ServerError),
    /// The operation was not executed, or undone, because another one of its atomic batch failed.
    Aborted,
}

/// The results of a batch, as received.
#[derive(Clone, Debug, Default)]
pub struct Reply {
    pub(crate) operations: Vec<(Operation, u32)>,
    pub(crate) bytes: Vec<u8>,
}

impl Reply {
    /// The results, in the order of the operations.
    pub fn results(&self) -> Results<'_> {
        Results {
            operations: self.operations.iter(),
            current: None,
            reader: Reader::new(&self.bytes),
        }
    }

    /// Returns the reply if no operation failed. An absent row is not a failure.
    ///
    /// # Errors
    /// The first failure: [`Error::Server`], or [`Error::Usage`] for a row that does not meet the
    /// conditions.
    pub fn into_success(self) -> Result<Reply> {
        for outcome in self.results() {
            match outcome? {
                Outcome::Failed(error) => return Err(Error::Server(error)),
                Outcome::ConditionFailed => {
                    return Err(Error::Usage(
                        "a row does not meet its conditions".to_owned(),
                    ));
                }
                _ => {}
            }
        }
        Ok(self)
    }
}

impl Reply {
    /// The rows of a batch of READs with `.columns(T::COLUMNS)`, in the order of the operations; `None` for keys without
    /// a row.
    ///
    /// # Errors
    /// The first failure, or a value of another type.
    pub fn into_rows<T: Row>(self) -> Result<Vec<Option<T>>> {
        let rows = self.results().map(|outcome| match outcome? {
            Outcome::Row { values, .. } => values.to_row().map(Some),
            Outcome::NotFound => Ok(None),
            Outcome::Failed(error) => Err(Error::Server(error)),
            _ => Err(Error::Usage("an operation reads no row".to_owned())),
        });
        rows.collect()
    }
}

/// Iterator over the results of a batch.
#[derive(Clone, Debug)]
pub struct Results<'a> {
    operations: std::slice::Iter<'a, (Operation, u32)>,
    current: Option<(&'a Operation, u32)>,
    reader: Reader<'a>,
}

impl<'a> Iterator for Results<'a> {
    type Item = Result<Outcome<'a>>;

    #[inline]
    fn next(&mut self) -> Option<Result<Outcome<'a>>> {
        let operation = loop {
            match &mut self.current {
                Some((operation, left)) if *left > 0 => {
                    *left -= 1;
                    break *operation;
                }
                _ => {
                    let (operation, rows) = self.operations.next()?;
                    self.current = Some((operation, *rows));
                }
            }
        };
        let outcome = read(operation, &mut self.reader);
        Some(outcome.ok_or(Error::Protocol("a result that cannot be read")))
    }
}

#[inline]
fn read<'a>(operation: &'a Operation, reader: &mut Reader<'a>) -> Option<Outcome<'a>> {
    let definition = operation.definition();
    let flags = definition.shape.flags;
    let number = |reader: &mut Reader<'_>, flag| {
        if flags & flag == 0 {
            return Some(0);
        }
        reader.u64()
    };
    Some(match Status::read(reader)? {
        Status::Ok => {
            let version = number(reader, WITH_VERSION)?;
            if definition.shape.operation == Kind::Read {
                let values = RowValues::read(reader, &definition.columns)?;
                return Some(Outcome::Row { version, values });
            }
            let generated_id = number(reader, WITH_GENERATED_ID)?;
            let is_new = flags & WITH_CREATED != 0 && reader.u8()? != 0;
            Outcome::Written {
                version,
                generated_id,
                is_new,
            }
        }
        Status::NotFound => Outcome::NotFound,
        Status::ConditionFailed => Outcome::ConditionFailed,
        Status::Aborted => Outcome::Aborted,
        Status::Failed => Outcome::Failed(ErrorMessage::read(reader)?.into()),
    })
}
