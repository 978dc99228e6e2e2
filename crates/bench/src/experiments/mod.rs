//! The experiments: what each does, on which systems, and how it is measured.
//!
//! An experiment prepares its tables in every target, makes groups of runs,
//! hands them to [`crate::matrix`], and defines which systems are compared.

pub mod analytics;
pub mod asynchronous;
pub mod backup;
pub mod batch;
pub mod change_log;
pub mod cluster;
mod cluster_double;
pub mod contention;
pub mod dump;
mod families;
pub mod fk;
pub mod fulltext;
pub mod idle;
pub mod inserts;
pub mod kv;
pub mod kv_runs;
pub mod load_rows;
pub mod memcached;
pub mod memcached_runs;
pub mod mget;
pub mod native;
mod prefetch;
pub mod programs;
mod query_suite;
pub mod requests;
pub mod schema_change;
pub mod store;
pub mod sysbench;
pub mod tpch;

use crate::connect::{Access, Admin, Endpoint};
use crate::error::{Error, Result};
use crate::load::Shape;
use crate::machine::Machine;
use crate::matrix::{self, Effort, Group};
use crate::peers::BINARY_LOG;
use crate::progress::Progress;
use crate::report::{Experiment, REPORT_FORMAT_VERSION, Report, Run, Setup, SystemInfo};
use crate::url::{System, Target};

/// An endpoint of a system, with its name in reports.
#[derive(Clone, Debug)]
pub struct Route {
    /// Name, such as "Porpoise prepared".
    pub name: String,
    /// Target of the system.
    pub endpoint: Endpoint,
}

/// Options of all experiments.
#[derive(Clone, Debug)]
pub struct BenchOptions {
    /// Number and length of runs.
    pub effort: Effort,
    /// Numbers of clients; empty: those of the experiment.
    pub clients: Vec<usize>,
    /// Client's shape.
    pub shape: Shape,
    /// Operations; empty: all.
    pub operations: Vec<kv::Operation>,
    /// Numbers of keys of `bench mget`; empty: as usual.
    pub keys: Vec<usize>,
    /// Scripts of `bench sysbench`; empty: all.
    pub scripts: Vec<String>,
    /// Rows of the table; 0: as usual.
    pub rows: u64,
    /// Options of `bench memcached` only.
    pub memcached: memcached_runs::MemcachedOptions,
    /// Options of `bench native` only.
    pub native: native::NativeOptions,
    /// Seed of all keys.
    pub seed: u64,
    /// Whether the run is shortened (`--quick`).
    pub is_quick: bool,
}

/// State of an experiment: systems, options, output and results.
pub struct Bench {
    /// Systems that are measured.
    pub targets: Vec<Target>,
    /// Options.
    pub options: BenchOptions,
    /// Output of progress lines.
    pub progress: Progress,
    /// Report.
    pub report: Report,
    /// Settings of the servers, for the report.
    pub setup: Option<Setup>,
}

impl Bench {
    /// Creates the state without results. `settings` are those of started targets, by name; the
    /// settings of others are queried.
    pub fn new(
        targets: Vec<Target>,
        settings: &[(String, String)],
        options: BenchOptions,
        progress: Progress,
        machine: Machine,
    ) -> Bench {
        let systems = targets
            .iter()
            .map(|target| SystemInfo {
                name: target.name.clone(),
                url: target.shown(),
                settings: settings
                    .iter()
                    .find(|(name, _)| *name == target.name)
                    .map_or_else(|| ask_settings(target), |(_, told)| told.clone()),
            })
            .collect();
        Bench {
            targets,
            options,
            progress,
            report: Report {
                format: REPORT_FORMAT_VERSION,
                machine,
                systems,
                experiments: Vec::new(),
                notes: Vec::new(),
                failure: None,
            },
            setup: None,
        }
    }

    /// The routes to all targets that `access` allows, in the targets' order.
    pub fn routes(&self, allows: impl Fn(Access) -> bool) -> Vec<Route> {
        let all = self.targets.iter().flat_map(routes);
        all.filter(|route| allows(route.endpoint.access)).collect()
    }

    /// The clients chosen, or the usual ones.
    pub fn clients(&self, usual: &[usize]) -> Vec<usize> {
        if self.options.clients.is_empty() {
            usual.to_vec()
        } else {
            self.options.clients.clone()
        }
    }

    /// Rows of the key-value table.
    pub fn rows(&self, usual: u64) -> u64 {
        match self.options.rows {
            0 => usual,
            rows => rows,
        }
    }

    /// Runs an experiment's groups and keeps their results, complete or not.
    ///
    /// # Errors
    /// A wrong answer.
    pub fn run(
        &mut self,
        mut experiment: Experiment,
        groups: &[Group<'_>],
        effort: Effort,
    ) -> Result<()> {
        let done = matrix::run(groups, effort, &mut self.progress, &mut experiment.cells);
        self.keep(experiment);
        done
    }

    /// Keeps an experiment's results, whole or not.
    pub fn keep(&mut self, mut experiment: Experiment) {
        experiment.setup = experiment.setup.or(self.setup);
        // At a fixed rate all systems have the same throughput.
        let is_paced = |run: &Run| run.open_loop.is_some();
        let mut runs = experiment.cells.iter().flat_map(|cell| &cell.runs);
        experiment.is_about_latency |= runs.any(is_paced);
        self.report.experiments.push(experiment);
    }
}

/// The error that no system can be measured, with the reason for the first one.
fn no_system(what: &str, notes: &[String]) -> Error {
    if crate::sys::is_interrupted() {
        return Error::failed(crate::load::INTERRUPTED);
    }
    match notes.first() {
        Some(reason) => Error::failed(format!("{what}: {reason}")),
        None => Error::failed(what),
    }
}

/// The routes to one target.
fn routes(target: &Target) -> Vec<Route> {
    let kinds: &[(Access, &str)] = match target.system {
        System::Mysql => &[
            (Access::MysqlText, " text"),
            (Access::MysqlPrepared, " prepared"),
        ],
        System::Porpoise => &[
            (Access::MysqlText, " text"),
            (Access::MysqlPrepared, " prepared"),
            (Access::Memcached, " memcached"),
        ],
        System::Postgres => &[(Access::Postgres, "")],
        System::Memcached | System::Noop => &[(Access::Memcached, "")],
    };
    let route = |(access, suffix): &(Access, &str)| Route {
        name: format!("{}{suffix}", target.name),
        endpoint: Endpoint {
            target: target.clone(),
            access: *access,
        },
    };
    kinds.iter().map(route).collect()
}

/// Version and durability of a server that was not started here.
fn ask_settings(target: &Target) -> String {
    let query = || -> Result<String> {
        let mut admin = Admin::connect(target)?;
        let version = admin.value("select version()")?.unwrap_or_default();
        let durable = match target.system {
            System::Postgres => admin.value("show synchronous_commit")?,
            _ => admin
                .value("select @@innodb_flush_log_at_trx_commit")
                .unwrap_or(None),
        };
        let durable = durable.unwrap_or_else(|| "unknown".to_owned());
        Ok(format!(
            "{version}; durability setting {durable}; as it was found"
        ))
    };
    match target.system {
        System::Memcached | System::Noop => "as it was found".to_owned(),
        _ => query().unwrap_or_else(|error| error.message),
    }
}

/// Comparisons of ours with theirs, for all pairs of routes of the same kind: SQL text with
/// text, prepared with prepared (and with PostgreSQL), memcached with
/// memcached and with the no-op listener, and our SQL with our memcached listener.
pub fn usual_pairs(routes: &[Route]) -> Vec<(String, String)> {
    let is_ours = |route: &&Route| route.endpoint.target.system == System::Porpoise;
    // A Porpoise server with a binary log beside one without.
    let is_variant = |ours: &Route, theirs: &Route| {
        ours.endpoint.access == theirs.endpoint.access
            && ours.endpoint.target.name != theirs.endpoint.target.name
            && ours.endpoint.target.name.starts_with(BINARY_LOG)
            && !theirs.endpoint.target.name.starts_with(BINARY_LOG)
    };
    let is_peer = |ours: Access, theirs: Access| {
        ours == theirs || (ours == Access::MysqlPrepared && theirs == Access::Postgres)
    };
    let mut pairs = Vec::new();
    for ours in routes.iter().filter(is_ours) {
        for theirs in routes.iter().filter(|route| !is_ours(route)) {
            if is_peer(ours.endpoint.access, theirs.endpoint.access) {
                pairs.push((ours.name.clone(), theirs.name.clone()));
            }
        }
        for theirs in routes.iter().filter(is_ours) {
            if is_variant(ours, theirs) {
                pairs.push((ours.name.clone(), theirs.name.clone()));
            }
        }
        // Cost of SQL compared with memcached for the same rows.
        let own_get = routes.iter().filter(is_ours).find(|route| {
            route.endpoint.access == Access::Memcached
                && route.endpoint.target == ours.endpoint.target
                && ours.endpoint.access != Access::Memcached
        });
        if let Some(get) = own_get {
            pairs.push((ours.name.clone(), get.name.clone()));
        }
    }
    pairs
}
