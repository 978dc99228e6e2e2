//! Results of batches and pages of scans.

use crate::failure::c_text;
use crate::value::CValue;
use porpoise_native_client::{Outcome, Reply, Result, ScanPage};
use std::ffi::{CString, c_char, c_int};
use std::ops::Range;

/// Statuses of results, as in the header.
const OK: c_int = 0;
const NOT_FOUND: c_int = 1;
const CONDITION_FAILED: c_int = 2;
const FAILED: c_int = 3;
const ABORTED: c_int = 4;

/// `porpoise_result`.
#[repr(C)]
pub struct CResult {
    status: c_int,
    version: u64,
    generated_id: u64,
    values: *const CValue,
    value_count: usize,
    error: c_int,
    message: *const c_char,
}

/// One result; `values` is a range of the reply's values.
#[derive(Default)]
struct Item {
    status: c_int,
    version: u64,
    generated_id: u64,
    values: Range<usize>,
    error: c_int,
    message: Option<CString>,
}

/// `porpoise_reply`: the received bytes, and results that point into them.
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
                status: OK,
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
                } => (item.version, item.generated_id) = (version, generated_id),
                Outcome::NotFound => item.status = NOT_FOUND,
                Outcome::ConditionFailed => item.status = CONDITION_FAILED,
                Outcome::Aborted => item.status = ABORTED,
                Outcome::Failed(error) => {
                    item.status = FAILED;
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
