//! `porpoise copy`: copies a whole database from a data directory to a TiKV cluster, or back, while no server uses either.
//!
//! The source is not changed: a data directory is opened as by `porpoise check`, with recovery in memory. A data directory
//! as the target is built beside its place, and gets its name when it is complete. A cluster as the target is
//! marked by a database ([`UNFINISHED`]) until the copy is complete:
//!
//! ```text
//! vacant -> marked -> rows -> mark removed
//!             |  interrupted
//!             +-> the next run drops what is there, and begins again
//! ```
//!
//! Accounts, settings and the other tables of the system are copied, too; what the target's first start has written into
//! them is deleted.
//!
//! Exit statuses: 0 if everything is copied, 1 if something was refused, 2 if nothing was done.

use crate::check;
use crate::config::{ClusterUrl, StartError};
use crate::datadir::DataDir;
use crate::engine::{self, STORE};
use crate::new_data_dir::NewDataDir;
use crate::transfer::{Report, Source, Target, execute};
use porpoise_access::is_system_schema;
use porpoise_kv::Engine;
use porpoise_rows::catalog::Catalog;
use porpoise_rows::prepared::PreparedTxn;
use porpoise_rows::{Db, show};
use porpoise_sql::session::SqlSession;
use std::collections::{BTreeSet, HashMap};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// Suffix of the name of an incomplete data directory.
const UNFINISHED_ENDING: &str = "copying";

/// Database that exists in a cluster while a copy into it is not complete.
const UNFINISHED: &str = "porpoise_copy_unfinished";

/// Interval at which the leases of other servers are read.
const LEASE_STEP: Duration = Duration::from_millis(200);

/// The source or the target of a copy.
#[derive(Clone, Debug)]
pub enum Place {
    /// A data directory.
    Directory(PathBuf),
    /// A cluster.
    Cluster(Box<ClusterUrl>),
}

impl Place {
    /// Parses a path or a URL.
    ///
    /// # Errors
    /// A description of the accepted form.
    pub fn parse(text: &str) -> Result<Place, String> {
        if !text.starts_with("tikv://") {
            return Ok(Place::Directory(text.into()));
        }
        let url = ClusterUrl::parse(text)?;
        Ok(Place::Cluster(Box::new(url)))
    }
}

/// The database that is read.
struct Original {
    db: Arc<Db>,
    engine: Arc<dyn Engine>,
    /// Keeps servers from opening the data directory.
    _lock: Option<DataDir>,
}

impl Original {
    fn open(place: &Place) -> Result<Original, StartError> {
        let (engine, lock): (Arc<dyn Engine>, _) = match place {
            Place::Directory(dir) => {
                let store = check::store_in(dir)?;
                let lock = DataDir::lock_unchanged(dir)?;
                (check::open_unchanged(store)?, Some(lock))
            }
            Place::Cluster(url) => (engine::open_cluster(url)?, None),
        };
        let db = crate::rows::open(engine.clone())
            .map_err(|e| StartError::failure(format!("--from: {e}")))?;
        let original = Original {
            db,
            engine,
            _lock: lock,
        };
        check_alone(&original.db, "--from")?;
        let prepared = PreparedTxn::restore(&original.db)
            .map_err(|e| StartError::failure(format!("--from: {e}")))?;
        if !prepared.is_empty() {
            return Err(StartError::usage(format!(
                "--from: {} prepared XA transactions are not decided: start the server, and end them (XA RECOVER)",
                prepared.len()
            )));
        }
        Ok(original)
    }

    fn close(self) -> Result<(), StartError> {
        self.db.leave_cluster();
        self.engine.shutdown()?;
        Ok(())
    }
}

/// Refuses a cluster that servers use. A server that was killed is waited for until its lease has run out.
fn check_alone(db: &Db, option: &str) -> Result<(), StartError> {
    let mut seen: HashMap<u64, u64> = HashMap::new();
    loop {
        let view = db.cluster_view();
        let view = view.map_err(|e| StartError::failure(format!("{option}: {e}")))?;
        let Some(view) = view else {
            return Ok(());
        };
        let others = view.servers.iter().filter(|s| s.id != view.own);
        let others: Vec<_> = others.collect();
        if others.is_empty() {
            return Ok(());
        }
        for server in others {
            let first = *seen.entry(server.id).or_insert(server.lease_end);
            if server.lease_end > first {
                return Err(StartError::usage(format!(
                    "{option}: the server at {} uses the cluster: stop all servers first",
                    server.address
                )));
            }
        }
        std::thread::sleep(LEASE_STEP);
    }
}

/// Copies a database.
///
/// # Errors
/// With exit status 2: the source cannot be read, the target is not vacant, a server uses one of them.
pub fn copy(from: &Place, to: &Place) -> Result<Report, StartError> {
    let original = Original::open(from)?;
    let report = match to {
        Place::Directory(dir) => into_directory(&original.db, dir)?,
        Place::Cluster(url) => into_cluster(&original.db, url)?,
    };
    original.close()?;
    Ok(report)
}

fn into_directory(source: &Arc<Db>, dir: &Path) -> Result<Report, StartError> {
    if std::fs::symlink_metadata(dir).is_ok() {
        let text = format!("--to: {} exists", dir.display());
        return Err(StartError::usage(text));
    }
    let mut new = NewDataDir::begin(dir, UNFINISHED_ENDING)?;
    let target = Target::embedded(Some(new.path().join(STORE)))?;
    let mut report = Report::default();
    fill(source, &target, &mut report)?;
    target.close()?;
    if report.lost.is_empty() {
        new.finish(dir)?;
    }
    Ok(report)
}

fn into_cluster(source: &Arc<Db>, url: &ClusterUrl) -> Result<Report, StartError> {
    let target = Target::open(engine::open_cluster(url)?)?;
    check_alone(target.server.db(), "--to")?;
    let fresh = Target::embedded(None)?;
    let fresh = fresh.server.db().catalog();
    let catalog = target.server.db().catalog();
    let mut session = session_of(&target)?;
    if catalog.database(UNFINISHED).is_some() {
        drop_databases(&mut session, &catalog, &fresh)?;
    } else if let Some(object) = first_foreign(&catalog, &fresh) {
        return Err(StartError::usage(format!(
            "--to: the cluster has data already, {object} for example: name another tenant, or drop its databases"
        )));
    }
    let run = |session: &mut SqlSession, text: &str| {
        let done = execute(session, text);
        done.map(drop)
            .map_err(|e| StartError::failure(format!("--to: {}", e.message)))
    };
    run(
        &mut session,
        &format!("CREATE DATABASE IF NOT EXISTS {UNFINISHED}"),
    )?;
    let mut report = Report::default();
    fill(source, &target, &mut report)?;
    if report.lost.is_empty() {
        run(&mut session, &format!("DROP DATABASE {UNFINISHED}"))?;
    }
    drop(session);
    target.close()?;
    Ok(report)
}

fn session_of(target: &Target) -> Result<SqlSession, StartError> {
    let session = target.session();
    session.map_err(|e| StartError::failure(format!("--to: {}", e.message)))
}

/// Copies everything; drops databases of a first start that the source does not have.
fn fill(source: &Arc<Db>, target: &Target, report: &mut Report) -> Result<(), StartError> {
    let mut session = session_of(target)?;
    let catalog = source.catalog();
    for name in target.server.db().catalog().databases.keys() {
        if name != UNFINISHED && catalog.database(name).is_none() {
            let text = format!("DROP DATABASE {}", show::quote(name));
            target.try_statement(&mut session, &text, name, report);
        }
    }
    drop(session);
    target.copy_all(source, Source::Whole, report);
    Ok(())
}

/// The names of tables, views, routines and events.
fn objects(catalog: &Catalog) -> BTreeSet<String> {
    let tables = catalog.tables.values().map(|t| t.quoted_name());
    let views = (catalog.views.keys()).map(|(database, view)| format!("view {database}.{view}"));
    let routines =
        (catalog.routines.values()).map(|r| format!("routine {}.{}", r.database, r.name));
    let events = (catalog.events.values()).map(|e| format!("event {}.{}", e.database, e.name));
    tables.chain(views).chain(routines).chain(events).collect()
}

/// An object that a first start does not create.
fn first_foreign(catalog: &Catalog, fresh: &Catalog) -> Option<String> {
    let own = objects(fresh);
    objects(catalog)
        .into_iter()
        .find(|name| !own.contains(name))
}

/// Drops the databases that a first start does not create.
fn drop_databases(
    session: &mut SqlSession,
    catalog: &Catalog,
    fresh: &Catalog,
) -> Result<(), StartError> {
    for name in catalog.databases.keys() {
        if name == UNFINISHED || is_system_schema(name) || fresh.database(name).is_some() {
            continue;
        }
        let text = format!("DROP DATABASE {}", show::quote(name));
        execute(session, &text).map_err(|e| StartError::failure(format!("--to: {}", e.message)))?;
    }
    Ok(())
}

/// Copies, and prints what was copied and what was refused.
///
/// # Errors
/// As [`copy`]; with exit status 1 if something was refused.
pub fn run(from: &Place, to: &Place) -> Result<(), StartError> {
    let report = copy(from, to)?;
    let mut out = io::stdout().lock();
    for line in &report.lost {
        // Standard output may be closed; the exit status says the same.
        let _ = writeln!(out, "not copied: {line}");
    }
    let counts = format!("{} tables, {} rows copied", report.tables, report.rows);
    if report.lost.is_empty() {
        let _ = writeln!(out, "{counts}");
        return Ok(());
    }
    Err(StartError::failure(format!(
        "{counts}; {} were refused, so the copy is not complete: see the lines above",
        report.lost.len()
    )))
}
