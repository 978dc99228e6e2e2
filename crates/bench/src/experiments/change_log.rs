//! `bench log`: cost of the change log for the throughput of UPDATE.
//!
//! Each system runs twice, with and without its log, and the runs of all four servers are interleaved. MariaDB
//! syncs its binary log with every commit, as its data. Porpoise's changes are in the log record of the commit, and need
//! no sync of their own.

use super::kv::{KvWorkload, Operation};
use super::kv_runs::{FilledStore, filled_stores};
use super::{Bench, no_system};
use crate::connect::Access;
use crate::error::{Error, Result};
use crate::matrix::{Entry, Group};
use crate::report::Experiment;
use crate::url::System;

/// Rows of the table unless chosen otherwise.
const ROWS: u64 = 160_000;

/// End of the names of servers that keep a log.
pub const WITH_LOG: &str = " with log";

/// Pairs of systems: each server with a log and the same without; each and the other servers with a log.
fn pairs(names: &[String]) -> Vec<(String, String)> {
    let with_log = || names.iter().filter(|name| name.ends_with(WITH_LOG));
    let mut pairs = Vec::new();
    for name in with_log() {
        let plain = name.trim_end_matches(WITH_LOG);
        if names.iter().any(|known| known == plain) {
            pairs.push((name.clone(), plain.to_owned()));
        }
    }
    let ours = with_log().filter(|name| name.starts_with("Porpoise"));
    for name in ours {
        let others = with_log().filter(|other| !other.starts_with("Porpoise"));
        pairs.extend(others.map(|other| (name.clone(), other.clone())));
    }
    pairs
}

/// The prepared UPDATE on each store.
fn entries(stores: &[FilledStore], seed: u64, stream: u64) -> Vec<Entry<'_>> {
    let mut found = Vec::new();
    for filled in stores {
        let mut routes = filled.routes.iter();
        let Some(route) = routes.find(|r| r.endpoint.access == Access::MysqlPrepared) else {
            continue;
        };
        let access = Access::MysqlPrepared;
        let workload = KvWorkload::new(&filled.store, access, Operation::Update, seed, stream);
        found.push(Entry {
            system: &filled.target.name,
            endpoint: &route.endpoint,
            workload: Box::new(workload),
            before: None,
        });
    }
    found
}

/// `bench log`.
///
/// # Errors
/// A wrong answer; no system could be prepared; no system is there with and without a log.
pub fn log(bench: &mut Bench) -> Result<()> {
    bench.progress.begin("log: cost of the change log");
    let speaks_mysql = |system| matches!(system, System::Porpoise | System::Mysql);
    bench.targets.retain(|target| speaks_mysql(target.system));
    let rows = bench.rows(ROWS);
    let mut notes = Vec::new();
    let stores = filled_stores(bench, rows, false, &mut notes);
    if stores.is_empty() {
        return Err(no_system("log: no system could be prepared", &notes));
    }
    let names: Vec<String> = stores.iter().map(|s| s.target.name.clone()).collect();
    let pairs = pairs(&names);
    if pairs.is_empty() {
        return Err(Error::failed(format!(
            "log: no server is there both with and without a log: let --start-peers start them, or name the \
             targets like ?name=NAME and ?name=NAME{WITH_LOG}"
        )));
    }
    let mut groups = Vec::new();
    for clients in bench.clients(&[8, 64]) {
        groups.push(Group {
            operation: Operation::Update.name().to_owned(),
            size: clients as u64,
            connections: clients,
            shape: bench.options.shape,
            units: 1,
            entries: entries(&stores, bench.options.seed, clients as u64),
        });
    }
    let experiment = Experiment {
        pairs,
        notes,
        ..Experiment::new(
            "log",
            "Cost of the change log",
            format!(
                "UPDATE of a value by primary key, prepared, each a transaction of its own, on a table of {rows} rows, by \
                 servers with and without a log of changes for replicas (--log-bin). No replica reads the logs."
            ),
            "clients",
        )
    };
    bench.run(experiment, &groups, bench.options.effort)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_is_compared_with_none_and_with_the_peers() {
        let names = [
            "Porpoise",
            "Porpoise with log",
            "MariaDB",
            "MariaDB with log",
        ];
        let found = pairs(&names.map(str::to_owned));
        let expected = [
            ("Porpoise with log", "Porpoise"),
            ("MariaDB with log", "MariaDB"),
            ("Porpoise with log", "MariaDB with log"),
        ];
        assert_eq!(found, expected.map(|(a, b)| (a.to_owned(), b.to_owned())));
        assert!(pairs(&["Porpoise".to_owned(), "MariaDB".to_owned()]).is_empty());
    }
}
