//! A source and its replica.

use porpoise_testkit::{Mariadb, MariadbBuilder, Porpoise, wait_until};
use std::time::Duration;

/// Time in which a replica applies everything.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Places of columns in SHOW REPLICA STATUS.
pub const IO_RUNNING: usize = 10;
pub const SQL_RUNNING: usize = 11;
pub const IO_ERROR: usize = 35;
pub const SQL_ERRNO: usize = 36;
pub const SQL_ERROR: usize = 37;
const EXECUTED_FILE: usize = 9;
const EXECUTED_POSITION: usize = 21;

/// Options of a MariaDB source: its log has rows.
pub fn source_options() -> MariadbBuilder {
    Mariadb::builder()
        .arg("--server-id=7")
        .arg("--log-bin=binlog")
        .arg("--binlog-format=ROW")
        .arg("--sync-binlog=1")
}

/// A MariaDB source and a Porpoise replica.
pub struct Pair {
    pub source: Mariadb,
    pub replica: Porpoise,
}

impl Pair {
    /// Starts both; the replica follows from the beginning of the source's log.
    pub fn start() -> Pair {
        Pair::with(source_options(), "")
    }

    /// As [`Pair::start`], with more options of CHANGE REPLICATION SOURCE TO.
    pub fn with(options: MariadbBuilder, more: &str) -> Pair {
        let source = options.start();
        source
            .sql(
                "CREATE USER repl@'127.0.0.1' IDENTIFIED BY 'replica secret'; \
                 GRANT REPLICATION SLAVE ON *.* TO repl@'127.0.0.1'; RESET MASTER",
            )
            .rows();
        let replica = Porpoise::builder().arg("--durability", "sync").start();
        let pair = Pair { source, replica };
        pair.configure(more);
        pair.replica.sql("START REPLICA").rows();
        pair
    }

    /// Sets the source.
    pub fn configure(&self, more: &str) {
        let change = format!(
            "CHANGE REPLICATION SOURCE TO SOURCE_HOST = '127.0.0.1', SOURCE_PORT = {}, SOURCE_USER = 'repl', \
             SOURCE_PASSWORD = 'replica secret', SOURCE_CONNECT_RETRY = 1, SOURCE_RETRY_COUNT = 0{more}",
            self.source.addr.port()
        );
        self.replica.sql(&change).rows();
    }

    /// Fields of SHOW REPLICA STATUS.
    pub fn status(&self) -> Vec<String> {
        let shown = self.replica.sql("SHOW REPLICA STATUS");
        let rows = shown.rows();
        let row = rows.first().expect("no source");
        row.iter().map(|field| (*field).to_owned()).collect()
    }

    /// Waits until everything that the source has logged is applied.
    pub fn catch_up(&self) {
        let shown = self.source.sql("SHOW MASTER STATUS");
        let rows = shown.rows();
        let wanted = (rows[0][0].to_owned(), rows[0][1].to_owned());
        let done = wait_until(PATIENCE, || {
            let status = self.status();
            assert_eq!(status[SQL_RUNNING], "Yes", "stopped: {}", status[SQL_ERROR]);
            let at = (
                status[EXECUTED_FILE].clone(),
                status[EXECUTED_POSITION].clone(),
            );
            (at == wanted).then_some(())
        });
        assert!(done.is_some(), "not at {wanted:?}: {:?}", self.status());
    }

    /// Waits until the replica has stopped with an error; returns its number and text.
    pub fn stopped(&self) -> (String, String) {
        let status = wait_until(PATIENCE, || {
            let status = self.status();
            (status[SQL_RUNNING] == "No").then_some(status)
        });
        let status = status.expect("the replica goes on");
        (status[SQL_ERRNO].clone(), status[SQL_ERROR].clone())
    }

    /// Compares the result of a query on both sides.
    pub fn compare(&self, query: &str) {
        let (ours, theirs) = (self.replica.sql(query), self.source.sql(query));
        assert!(
            theirs.is_ok && ours.is_ok,
            "{query}: {} {}",
            theirs.stderr,
            ours.stderr
        );
        assert!(!theirs.stdout.is_empty(), "{query} has no rows");
        if ours.stdout != theirs.stdout {
            let pairs = ours.stdout.lines().zip(theirs.stdout.lines());
            let first = pairs.enumerate().find(|(_, (ours, theirs))| ours != theirs);
            panic!(
                "{query}: {} rows here, {} at the source; first difference: {first:?}",
                ours.stdout.lines().count(),
                theirs.stdout.lines().count()
            );
        }
    }
}
