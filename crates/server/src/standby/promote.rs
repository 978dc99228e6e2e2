//! `porpoise promote`: a standby takes over from its source.
//!
//! ```text
//! planned    source:  refuses writes, and names its transactions
//!            standby: applies them all
//! always     standby: stops following, begins an epoch, permits writes, announces the epoch to the former source
//! ```
//!
//! A planned takeover loses no commit: the source has written its last transaction to its log before the standby is compared
//! with it. If a step fails before the standby takes over, the source accepts writes again.

use crate::config::StartError;
use crate::target::{self, ServerOption};
use clap::Args;
use porpoise_client::TlsOptions;
use porpoise_client::mysql::Connection;
use porpoise_replication::gtid::GtidSet;
use porpoise_wire::mysql::client::result::{Event, Row};
use std::io::{self, Write};
use std::time::{Duration, Instant};

/// Time between two polls of the standby.
const POLL: Duration = Duration::from_millis(50);

const STANDBY: ServerOption = ServerOption {
    name: "--standby",
    program: "porpoise promote",
};

const PRIMARY: ServerOption = ServerOption {
    name: "--primary",
    program: "porpoise promote",
};

/// `porpoise promote`.
#[derive(Args, Clone, Debug)]
pub struct PromoteOptions {
    /// The standby that takes over: HOST:PORT, or mysql://USER:PASSWORD@HOST:PORT
    #[arg(long, value_name = "SERVER")]
    standby: String,
    /// Its source, if that is reachable: then no commit is lost
    #[arg(long, value_name = "SERVER")]
    primary: Option<String>,
    /// Seconds that the standby may take to apply the transactions that it lacks
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    timeout: u64,
}

type Done<T> = Result<T, StartError>;

/// A connection to one of the servers.
struct Server {
    /// Name in messages.
    name: &'static str,
    connection: Connection,
}

impl Server {
    fn connect(option: ServerOption, name: &'static str, text: &str) -> Done<Server> {
        let password = std::env::var("PORPOISE_PASSWORD").ok();
        let mut target = target::parse(option, text, password, TlsOptions::default())?;
        target.read_timeout = Some(Duration::from_secs(60));
        let connection = Connection::connect(&target);
        let failed = |error| StartError::failure(format!("{name} {}: {error}", target.address));
        Ok(Server {
            name,
            connection: connection.map_err(failed)?,
        })
    }

    fn failed(&self, error: &dyn std::fmt::Display) -> StartError {
        StartError::failure(format!("{}: {error}", self.name))
    }

    fn run(&mut self, statement: &str) -> Done<()> {
        let done = self.connection.execute(statement);
        done.map_err(|error| self.failed(&format!("{statement}: {error}")))
    }

    /// The first value of a query's first row.
    fn value(&mut self, query: &str) -> Done<Option<String>> {
        let (mut value, mut failure) = (None, None);
        let done = self.connection.query(query.as_bytes(), |event| {
            match event {
                Event::Error(error) => failure = Some(porpoise_client::Error::Server(error)),
                Event::Row(Row::Text(mut row)) if value.is_none() => {
                    let cell = row.next().flatten();
                    value = cell.map(|cell| String::from_utf8_lossy(cell).into_owned());
                }
                _ => {}
            }
            Ok::<(), porpoise_client::Error>(())
        });
        done.map_err(|error| self.failed(&error))?;
        match failure {
            Some(failure) => Err(self.failed(&failure)),
            None => Ok(value),
        }
    }

    /// The transactions in the server's log.
    fn executed(&mut self) -> Done<GtidSet> {
        let text = self.value("SELECT @@GLOBAL.gtid_executed")?;
        let set = GtidSet::parse(&text.unwrap_or_default());
        set.map_err(|error| self.failed(&error))
    }

    fn epoch(&mut self) -> Done<u64> {
        let text = self.value("SELECT @@GLOBAL.replication_epoch")?;
        let epoch = text.and_then(|text| text.parse().ok());
        epoch.ok_or_else(|| {
            self.failed(&"it has no variable replication_epoch: it is not a Porpoise server")
        })
    }

    /// Makes this source refuse writes. Returns all of its transactions.
    fn close(&mut self) -> Done<GtidSet> {
        // No commit can be between the check of the setting and its log record.
        self.run("FLUSH TABLES WITH READ LOCK")?;
        self.run("SET GLOBAL super_read_only = ON")?;
        self.run("UNLOCK TABLES")?;
        // The commit of this statement follows all others, so that these are on disk when it returns.
        self.run("SET PERSIST super_read_only = ON")?;
        let mut last = None;
        loop {
            // The log's writer writes all commits on disk to the log before it begins a file.
            self.run("FLUSH BINARY LOGS")?;
            let executed = self.executed()?;
            if last.as_ref() == Some(&executed) {
                return Ok(executed);
            }
            last = Some(executed);
        }
    }
}

/// Runs the command.
///
/// # Errors
/// One line: a server cannot be reached, or refuses; the standby lacks transactions.
pub fn run(options: &PromoteOptions) -> Done<()> {
    let begun = Instant::now();
    let mut standby = Server::connect(STANDBY, "standby", &options.standby)?;
    let primary = options.primary.as_deref();
    let mut primary = primary
        .map(|text| Server::connect(PRIMARY, "primary", text))
        .transpose()?;
    let mut epoch = standby.epoch()?;
    if let Some(primary) = &mut primary {
        epoch = epoch.max(primary.epoch()?);
        let limit = Duration::from_secs(options.timeout);
        if let Err(error) = hand_over(primary, &mut standby, limit) {
            // The standby has not taken over: the source accepts writes again.
            primary.run("SET PERSIST super_read_only = OFF")?;
            return Err(error);
        }
    }
    // A member of a group lets the others elect it.
    let is_member = standby
        .value("SHOW GLOBAL STATUS LIKE 'Failover_role'")?
        .is_some();
    if !is_member {
        standby.run("STOP REPLICA")?;
    }
    standby.run(&format!("SET GLOBAL replication_epoch = {}", epoch + 1))?;
    if !is_member {
        // The standby may have been made read-only by SET PERSIST.
        standby.run("SET PERSIST super_read_only = OFF")?;
        standby.run("SET PERSIST read_only = OFF")?;
    }
    let _ = writeln!(
        io::stdout().lock(),
        "the standby has taken over in epoch {} after {:.1} s; its transactions: {}",
        epoch + 1,
        begun.elapsed().as_secs_f64(),
        standby.executed()?
    );
    Ok(())
}

/// Makes the source refuse writes, and waits until the standby has everything.
fn hand_over(primary: &mut Server, standby: &mut Server, limit: Duration) -> Done<()> {
    let begun = Instant::now();
    let wanted = primary.close()?;
    loop {
        let has = standby.executed()?;
        if has.contains_set(&wanted) {
            return Ok(());
        }
        if begun.elapsed() >= limit {
            let missing = wanted.subtract(&has);
            let text = format!(
                "it still lacks the transactions {missing} after {limit:?}: it has not taken over, and the primary accepts writes again. See SHOW REPLICA STATUS"
            );
            return Err(standby.failed(&text));
        }
        std::thread::sleep(POLL);
    }
}
