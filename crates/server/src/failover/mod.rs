//! Automatic failover: a group of servers and witnesses elects the server that takes writes.
//!
//! * [`crate::config::Members`]: the list of members. [`transport`]: authenticated messages between them.
//!   [`state`]: the state of a member on disk.
//! * [`node`]: the thread that runs the state machine of the election.
//! * [`server`]: a server as leader and as follower. [`witness`]: the command `porpoise witness`.
//! * [`status`]: the group as operators and proxies see it.
//! * [`clone`]: a physical copy of the leader's data, for members whose data the leader's log does not continue.
//! * [`rewind`]: removes the transactions that the leader lacks from the own data.
//! * [`restart`]: a leader that steps down restarts as a follower, as after a crash.
//!
//! Decision 0010 has the reasons, docs/internals/following.md a picture.

pub mod clone;
pub mod node;
pub mod restart;
pub mod rewind;
pub mod server;
pub mod state;
pub mod status;
pub mod transport;
pub mod witness;

use crate::config::{Config, DurabilityChoice, EngineChoice, StartError};
use std::path::Path;

/// Shortest secret, in bytes.
const MIN_SECRET: usize = 16;

/// Longest content of a file with a secret.
const MAX_SECRET: usize = 4096;

/// Reads a file with a secret; white space around it is ignored.
///
/// # Errors
/// The file cannot be read; the secret is too short.
pub fn read_secret(option: &str, path: &Path) -> Result<Vec<u8>, StartError> {
    let secret = read_password(option, path)?;
    if secret.len() < MIN_SECRET {
        return Err(StartError::usage(format!(
            "{option}: the secret in {} has fewer than {MIN_SECRET} bytes; create one by `openssl rand -hex 32`",
            path.display()
        )));
    }
    Ok(secret)
}

fn read_password(option: &str, path: &Path) -> Result<Vec<u8>, StartError> {
    let failed = |what: &dyn std::fmt::Display| {
        StartError::usage(format!("{option}: {}: {what}", path.display()))
    };
    let bytes = std::fs::read(path).map_err(|error| failed(&error))?;
    if bytes.len() > MAX_SECRET {
        return Err(failed(&"the file is too long"));
    }
    Ok(bytes.trim_ascii().to_vec())
}

/// Checks that the options of a member are consistent.
///
/// # Errors
/// A message for the operator in one line.
pub fn check(config: &Config) -> Result<(), StartError> {
    let refuse = |text: String| Err(StartError::usage(text));
    let Some(members) = &config.failover_members else {
        if config.failover_listen.is_some() {
            return refuse("--failover-listen needs --failover-members".to_owned());
        }
        return Ok(());
    };
    let is_durable = config.engine == EngineChoice::Embedded
        && config.durability == DurabilityChoice::Sync
        && config.log_bin;
    if !is_durable {
        let text = "--failover-members needs --log-bin, --durability sync and the embedded engine";
        return refuse(text.to_owned());
    }
    let id = config.server_id;
    if members
        .get(id)
        .is_none_or(|member| member.mysql_port.is_none())
    {
        return refuse(format!(
            "--failover-members: server {id} (--server-id) is not in the list, or has no MySQL port there"
        ));
    }
    for (option, is_missing) in [
        ("--failover-listen", config.failover_listen.is_none()),
        (
            "--failover-secret-file",
            config.failover_secret_file.is_none(),
        ),
        ("--failover-account", config.failover_account.is_none()),
        (
            "--failover-password-file",
            config.failover_password_file.is_none(),
        ),
        ("--mysql-listen", config.mysql_listen.is_none()),
    ] {
        if is_missing {
            return refuse(format!("--failover-members needs {option}"));
        }
    }
    if config.replication_ack_timeout.is_some() {
        let text = "--replication-ack-timeout: in a group with automatic failover commits do not pass unacknowledged";
        return refuse(text.to_owned());
    }
    Ok(())
}
