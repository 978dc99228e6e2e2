//! `porpoise._native`: the Python package's module over the native client of Rust (`crates/native_client`).
//!
//! ```text
//! porpoise (Python)     names, numpy arrays
//!    _native (this)     Connection, Table, Batch, Subscription; values of Python <-> values of the protocol
//!       native_client   protocol, TLS, login
//! ```
//!
//! Invariants:
//! 1. A thread that waits for the server is detached from the interpreter, and takes the connection's mutex only then: no thread
//!    waits for another one's answer while it keeps the interpreter.
//! 2. A signal that interrupts a wait is handled at once. If its handler raises (Ctrl-C), the connection is closed: an answer
//!    is still on its way.
//! 3. Unsafe code is in [`arrow`] only.

#![deny(unsafe_code)]

mod arrow;
mod batch;
mod changes;
mod columns;
mod connection;
mod errors;
mod results;
mod scan;
mod table;
mod values;

use pyo3::prelude::*;

#[pymodule]
mod _native {
    #[pymodule_export]
    use crate::arrow::ArrowBatch;
    #[pymodule_export]
    use crate::batch::Batch;
    #[pymodule_export]
    use crate::changes::{Change, Subscription, Transaction};
    #[pymodule_export]
    use crate::connection::{Connection, connect};
    #[pymodule_export]
    use crate::results::Written;
    #[pymodule_export]
    use crate::scan::Scan;
    #[pymodule_export]
    use crate::table::{Column, Index, Table};
}
