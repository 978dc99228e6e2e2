//! A server replaces its process by itself: what it had not committed, locked or acknowledged ends as in a crash.
//!
//! A leader that steps down has commits on disk that nobody has acknowledged, sessions that wait for them, and transactions with
//! locks that its replica would wait for. Recovery from a crash deals with all of them.
//!
//! Rejected: to end with an exit status and let a service manager start the server again (not every server has one, and those
//! that have one limit the number of starts); to undo all that in the running process (a second way for what recovery does).

use crate::sys;
use std::ffi::CStr;

/// The running program, also after its file was replaced.
const THIS_PROGRAM: &CStr = c"/proc/self/exe";

/// Begins the process anew, with the same arguments. If that is not possible, the process ends.
pub fn restart(why: &str) -> ! {
    tracing::warn!("failover: this server begins anew: {why}");
    let error = sys::replace_process(THIS_PROGRAM, std::env::args_os());
    tracing::error!(%error, "failover: the server cannot begin anew and ends");
    std::process::exit(1)
}
