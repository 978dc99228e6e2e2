//! Restarts the server by replacing its process: open transactions, locks and waiting commits end as in a crash.
//!
//! A leader that steps down has commits on disk that no other member has acknowledged, sessions that wait for them, and transactions
//! whose locks would block its replica. Crash recovery handles all of them.
//!
//! Rejected: an exit status after which a service manager starts the server again (not every server has a service manager, and
//! these limit the number of starts); undoing all of it in the running process (a second implementation of recovery).

use crate::sys;
use std::ffi::CStr;

/// The running program, also after its file was replaced.
const THIS_PROGRAM: &CStr = c"/proc/self/exe";

/// Restarts the process with the same arguments. If that fails, the process ends.
pub fn restart(why: &str) -> ! {
    tracing::warn!("failover: this server restarts: {why}");
    let error = sys::replace_process(THIS_PROGRAM, std::env::args_os());
    tracing::error!(%error, "failover: the server cannot restart, and ends");
    std::process::exit(1)
}
