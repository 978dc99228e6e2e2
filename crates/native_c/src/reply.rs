//! Results of batches and pages of scans.

use crate::failure::c_text;
use crate::value::CValue;
use porpoise_native_client::{Outcome, Reply, Result, ScanPage};
use std::ffi::{CString, c_char, c_int};
use std::ops::Range;

/// The operation was executed; a row was read or written.
pub const PORPOISE_OK: c_int = 0;
/// No row has the key.
pub const PORPOISE_NOT_FOUND: c_int = 1;
/// The row has another version or value.
pub const PORPOISE_CONDITION_FAILED: c_int = 2;
/// `error` and `message` say why.
pub const PORPOISE_FAILED: c_int = 3;
/// Another operation of the atomic batch failed.
pub const PORPOISE_ABORTED: c_int = 4;

/// A result.
#[repr(C)]
pub struct CResult {
    /// PORPOISE_OK to PORPOISE_ABORTED.
    status: c_int,
    /// Version of the row with PORPOISE_WITH_VERSION; otherwise 0.
    version: u64,
    /// Generated id of the row with PORPOISE_WITH_GENERATED_ID; otherwise 0.
    generated_id: u64,
    /// Whether an UPSERT with PORPOISE_WITH_CREATED has inserted its row; otherwise 0.
    is_new: c_int,
    /// Values of a row that was read. Valid until the reply is freed.
    values: *const CValue,
    value_count: usize,
    /// MySQL's error number.
    error: c_int,
    /// Valid until the reply is freed.
    message: *const c_char,
}

/// One result; `values` is a range of the reply's values.
#[derive(Default)]
struct Item {
    status: c_int,
    version: u64,
    generated_id: u64,
    is_new: bool,
    values: Range<usize>,
    error: c_int,
    message: Option<CString>,
}

/// Results of a batch, or rows of a page.
pub struct CReply {
    items: Vec<Item>,
    values: Vec<CValue>,
    /// Text forms of values that are not bytes.
    _texts: Vec<String>,
    pub(crate) continuation: Vec<u8>,
    /// The received bytes, which are never changed: values point into them.
    _source: Source,
}

enum Source {
    Batch { _reply: Reply },
    Scan { _page: ScanPage },
}

impl CReply {
    /// The results of a batch.
    pub(crate) fn of_batch(reply: Reply) -> Result<CReply> {
        let (mut items, mut values, mut texts) = (Vec::new(), Vec::new(), Vec::new());
        for outcome in reply.results() {
            let mut item = Item {
                status: PORPOISE_OK,
                ..Item::default()
            };
            match outcome? {
                Outcome::Row {
                    version,
                    values: row,
                } => {
                    let start = values.len();
                    values.extend(row.into_iter().map(|value| CValue::of(value, &mut texts)));
                    item.version = version;
                    item.values = start..values.len();
                }
                Outcome::Written {
                    version,
                    generated_id,
                    is_new,
                } => {
                    (item.version, item.generated_id, item.is_new) =
                        (version, generated_id, is_new);
                }
                Outcome::NotFound => item.status = PORPOISE_NOT_FOUND,
                Outcome::ConditionFailed => item.status = PORPOISE_CONDITION_FAILED,
                Outcome::Aborted => item.status = PORPOISE_ABORTED,
                Outcome::Failed(error) => {
                    item.status = PORPOISE_FAILED;
                    item.error = c_int::from(error.code);
                    item.message = Some(c_text(&error.message));
                }
            }
            items.push(item);
        }
        Ok(CReply {
            items,
            values,
            _texts: texts,
            continuation: Vec::new(),
            _source: Source::Batch { _reply: reply },
        })
    }

    /// The rows of a page.
    pub(crate) fn of_page(page: ScanPage) -> Result<CReply> {
        let (mut items, mut values, mut texts) = (Vec::new(), Vec::new(), Vec::new());
        for (version, row) in page.rows()? {
            let start = values.len();
            values.extend(row.into_iter().map(|value| CValue::of(value, &mut texts)));
            items.push(Item {
                version,
                values: start..values.len(),
                ..Item::default()
            });
        }
        Ok(CReply {
            items,
            values,
            _texts: texts,
            continuation: page.continuation.clone(),
            _source: Source::Scan { _page: page },
        })
    }

    /// Number of results.
    pub(crate) fn len(&self) -> usize {
        self.items.len()
    }

    /// A result, with pointers into the reply.
    pub(crate) fn get(&self, position: usize) -> Option<CResult> {
        let item = self.items.get(position)?;
        let values = self.values.get(item.values.clone()).unwrap_or_default();
        Some(CResult {
            status: item.status,
            version: item.version,
            generated_id: item.generated_id,
            is_new: c_int::from(item.is_new),
            values: values.as_ptr(),
            value_count: values.len(),
            error: item.error,
            message: item
                .message
                .as_ref()
                .map_or(std::ptr::null(), |m| m.as_ptr()),
        })
    }
}
