//! `porpoise witness`: a member that only votes.

use super::node::{NoActions, Node, NodeOptions};
use super::read_secret;
use super::transport::Description;
use crate::config::members::MIN_FAILOVER_TIMEOUT;
use crate::config::value::duration;
use crate::config::{Members, StartError};
use crate::datadir::DataDir;
use crate::service_manager;
use crate::sys::Signals;
use clap::Args;
use porpoise_replication::gtid::Uuid;
use porpoise_sql::VERSION;
use std::io::Write;
use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;

/// `porpoise witness`.
#[derive(Args, Clone, Debug)]
pub struct WitnessOptions {
    /// Address at which the other members reach it
    #[arg(long, value_name = "ADDR")]
    listen: SocketAddr,
    /// Directory of its votes
    #[arg(long, value_name = "DIR")]
    data_dir: PathBuf,
    /// All members, as the servers have them in --failover-members
    #[arg(long, value_name = "MEMBERS")]
    members: String,
    /// Its number in that list
    #[arg(long, value_name = "N")]
    id: u32,
    /// File with the secret of the group
    #[arg(long, value_name = "FILE")]
    secret_file: PathBuf,
    /// As --failover-timeout of the servers
    #[arg(long, value_name = "TIME", default_value = "2s")]
    timeout: String,
    /// Level of the log
    #[arg(long, value_name = "FILTER", default_value = "info")]
    pub log: String,
}

/// Runs a witness until a signal ends it.
///
/// # Errors
/// A message for the operator in one line.
pub fn run(options: &WitnessOptions) -> Result<(), StartError> {
    let failed =
        |what: &str, error: std::io::Error| StartError::failure(format!("{what}: {error}"));
    let members = Members::parse(&options.members);
    let members = members.map_err(|e| StartError::usage(format!("--members: expected {e}")))?;
    match members.get(options.id) {
        Some(member) if member.mysql_port.is_none() => {}
        _ => {
            let text = format!("--id: {} is not a witness of --members", options.id);
            return Err(StartError::usage(text));
        }
    }
    let timeout = duration(&options.timeout).ok();
    let timeout = timeout.filter(|time| *time >= MIN_FAILOVER_TIMEOUT);
    let timeout = timeout.ok_or_else(|| {
        StartError::usage(format!(
            "--timeout: a time of at least {MIN_FAILOVER_TIMEOUT:?}"
        ))
    })?;
    let signals = Signals::take().map_err(|e| failed("signals", e))?;
    let secret = read_secret("--secret-file", &options.secret_file)?;
    let dir = DataDir::lock(&options.data_dir)?;
    let listener = TcpListener::bind(options.listen);
    let listener = listener.map_err(|e| failed(&format!("--listen {}", options.listen), e))?;
    let address = listener.local_addr().map_err(|e| failed("--listen", e))?;
    let options = NodeOptions {
        id: options.id,
        members,
        secret,
        timeout,
        data_dir: &options.data_dir,
        listener,
        description: Description {
            uuid: Uuid::default(),
            version: VERSION.to_owned(),
        },
    };
    let node = Node::start(options, |_, _| Box::new(NoActions));
    let node = node.map_err(|e| failed("witness", e))?;
    let mut out = std::io::stdout().lock();
    let _ = writeln!(out, "ready failover {address}\nporpoise ready").and_then(|()| out.flush());
    drop(out);
    service_manager::ready();
    signals.next_end(|| ()).map_err(|e| failed("signals", e))?;
    service_manager::stopping();
    node.stop();
    drop(dir);
    Ok(())
}
