//! The server from which tables are copied: its identity, and connections that see one snapshot of it.
//!
//! A snapshot of several connections with its position in the log, without FLUSH TABLES WITH READ LOCK:
//!
//! 1. MariaDB with a binary log: each connection runs START TRANSACTION WITH CONSISTENT SNAPSHOT, and MariaDB shows its
//!    position in `Binlog_snapshot_file` and `Binlog_snapshot_position`. If all connections have the same position, they
//!    see the same state; otherwise they begin again, at most [`TRIES`] times. No statement of other clients waits.
//! 2. Otherwise (MySQL has no such variables; the log is off; the source is too busy): LOCK TABLES ... READ of all tables, for as
//!    long as it takes to begin the transactions and to read the position. Writers wait for that long.

use super::super::connection::{Server, failed, quote};
use crate::config::StartError;
use porpoise_client::mysql::Target;

/// Attempts to begin transactions at the same position.
const TRIES: usize = 30;

/// Settings of all connections to a source.
const SETTINGS: &str = "SET NAMES utf8mb4; SET SESSION sql_mode = '', time_zone = '+00:00', \
    net_write_timeout = 3600, wait_timeout = 86400; \
    SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ";

/// File and position in a log.
pub type Position = (String, u64);

/// Identity and capabilities of a source.
#[derive(Clone, Debug)]
pub struct Identity {
    /// Whether it is MariaDB.
    pub is_mariadb: bool,
    /// `server_id`.
    pub server_id: u32,
    /// The reason why its log cannot be followed; `None` if it can.
    pub obstacle: Option<String>,
    /// Whether it has a binary log.
    pub has_log: bool,
    /// Address and `server_id`, which identify it among sources.
    pub name: String,
}

/// Connects.
///
/// # Errors
/// One line.
pub fn connect(target: &Target) -> Result<Server, StartError> {
    Server::with_settings(target, SETTINGS)
}

/// Reads identity and capabilities of a source.
///
/// # Errors
/// One line.
pub fn identify(server: &mut Server, target: &Target) -> Result<Identity, StartError> {
    let [version, id, log, format, image] = server.first_row(
        "SELECT @@version, @@server_id, @@log_bin, @@binlog_format, @@binlog_row_image",
    )?;
    let is_mariadb = version.contains("MariaDB");
    let has_log = log == "1";
    let obstacle = if !has_log {
        Some("it has no binary log: start it with log_bin".to_owned())
    } else if format != "ROW" {
        Some(format!("its binlog_format is {format}: set it to ROW"))
    } else if !image.eq_ignore_ascii_case("FULL") {
        Some(format!("its binlog_row_image is {image}: set it to FULL"))
    } else {
        None
    };
    Ok(Identity {
        is_mariadb,
        server_id: id.parse().unwrap_or(0),
        obstacle,
        has_log,
        name: format!("{} {id}", target.address),
    })
}

/// The end of the source's log.
///
/// # Errors
/// The account lacks REPLICATION CLIENT (BINLOG MONITOR).
pub fn log_end(server: &mut Server) -> Result<Position, StartError> {
    // MySQL 8.4 has only the new statement, MariaDB only the old one.
    let reply = match server.attempt("SHOW BINARY LOG STATUS", None) {
        Ok(reply) => reply,
        Err(_) => server.run("SHOW MASTER STATUS")?,
    };
    let mut cells = reply
        .rows
        .into_iter()
        .next()
        .unwrap_or_default()
        .into_iter();
    let mut cell = || cells.next().flatten().unwrap_or_default();
    let (file, position) = (cell(), cell());
    let position = position
        .parse()
        .map_err(|_| failed("the position of the source's binary log cannot be read"))?;
    Ok((file, position))
}

/// Connections that see the same state of the source.
pub struct Snapshot {
    /// The connections.
    pub connections: Vec<Server>,
    /// The end of the log in that state; `None` without a log.
    pub position: Option<Position>,
}

impl Snapshot {
    /// Begins transactions at the same position over `count` connections.
    ///
    /// # Errors
    /// One line.
    pub fn open(
        target: &Target,
        identity: &Identity,
        count: usize,
        tables: &[(String, String)],
    ) -> Result<Snapshot, StartError> {
        let mut connections = Vec::new();
        for _ in 0..count {
            connections.push(connect(target)?);
        }
        if let (None, Some(server)) = (&identity.obstacle, connections.first_mut()) {
            refuse_prepared(server)?;
        }
        if identity.is_mariadb && identity.has_log {
            for _ in 0..TRIES {
                if let Some(position) = begin_together(&mut connections)? {
                    return Ok(Snapshot {
                        connections,
                        position: Some(position),
                    });
                }
            }
        }
        let position = begin_under_locks(target, identity, &mut connections, tables)?;
        Ok(Snapshot {
            connections,
            position,
        })
    }
}

/// Fails if the source has prepared XA transactions: the copy would lack their rows, and the log after the copy contains only their
/// ends.
fn refuse_prepared(server: &mut Server) -> Result<(), StartError> {
    // MySQL refuses the statement without the privilege XA_RECOVER_ADMIN. Then the replica stops at the end of such a transaction.
    let prepared = server.attempt("XA RECOVER", None);
    if prepared.is_ok_and(|reply| !reply.rows.is_empty()) {
        let text = "the source has prepared XA transactions, whose rows the copy would lack: end them first (XA RECOVER lists them)";
        return Err(failed(text));
    }
    Ok(())
}

/// Begins a transaction on each connection at once; `None` if their positions differ.
fn begin_together(connections: &mut [Server]) -> Result<Option<Position>, StartError> {
    std::thread::scope(|scope| {
        let begin = |server: &mut Server| server.run("START TRANSACTION WITH CONSISTENT SNAPSHOT");
        let running: Vec<_> = connections
            .iter_mut()
            .map(|server| scope.spawn(move || begin(server).map(drop)))
            .collect();
        running.into_iter().try_for_each(|thread| {
            let ended = thread.join();
            ended.unwrap_or_else(|_| Err(failed("a thread has failed")))
        })
    })?;
    let mut common = None;
    for server in connections {
        let position = snapshot_position(server)?;
        if common.get_or_insert_with(|| position.clone()) != &position {
            return Ok(None);
        }
    }
    Ok(common)
}

/// The position of a connection's snapshot (MariaDB).
fn snapshot_position(server: &mut Server) -> Result<Position, StartError> {
    let rows = server
        .run("SHOW SESSION STATUS LIKE 'binlog_snapshot_%'")?
        .rows;
    let value = |name: &str| {
        let row = rows.iter().find(|row| {
            let found = row.first().and_then(Option::as_deref).unwrap_or_default();
            found.eq_ignore_ascii_case(name)
        });
        row.and_then(|row| row.get(1)?.clone()).unwrap_or_default()
    };
    let position = value("Binlog_snapshot_position").parse();
    let position =
        position.map_err(|_| failed("the position of the source's snapshot cannot be read"))?;
    Ok((value("Binlog_snapshot_file"), position))
}

/// Begins a transaction on each connection while no table can be written.
fn begin_under_locks(
    target: &Target,
    identity: &Identity,
    connections: &mut [Server],
    tables: &[(String, String)],
) -> Result<Option<Position>, StartError> {
    let mut control = connect(target)?;
    let names: Vec<String> = tables
        .iter()
        .map(|(schema, table)| format!("{}.{} READ", quote(schema), quote(table)))
        .collect();
    if !names.is_empty() {
        control.run("SET SESSION lock_wait_timeout = 60")?;
        control.run(&format!("LOCK TABLES {}", names.join(", ")))?;
    }
    for server in connections {
        server.run("START TRANSACTION WITH CONSISTENT SNAPSHOT")?;
    }
    let position = identity
        .has_log
        .then(|| log_end(&mut control))
        .transpose()?;
    control.run("UNLOCK TABLES")?;
    Ok(position)
}
