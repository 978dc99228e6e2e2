//! `porpoise import mysql://...`: moves databases in from a running MySQL or MariaDB server.
//!
//! ```text
//!   define   all objects are created, empty; those that cannot be moved are reported    objects.rs
//!   copy     snapshot at position P, the replica is stopped at P, ranges are loaded,    source.rs, copy.rs
//!            indexes are created                                                        deferred.rs
//!   follow   the replica applies the source's log from P on                             follow.rs
//! ```
//!
//! The progress is recorded in the server that is loaded (`notes.rs`). After a kill of this program or
//! of either server, the same command continues: it opens a snapshot at a later position P2, runs the replica from P to
//! P2, applying changes of copied rows only (`porpoise_replication::copied`), and copies the rest as of P2.
//! At any time the copied rows are those of the source at the replica's position.
//!
//! Invariants:
//! 1. No range is loaded twice or left out: it is recorded in the transaction that loads its rows.
//! 2. No range is loaded unless the replica is at the position of its snapshot; each transaction checks that under a lock.
//! 3. A table is copied after its parents, so that foreign keys hold at every commit and cascades find the copied children.
//!    Tables that refer to each other are copied from one snapshot, or from the beginning again.
//! 4. Before the replica runs, every loaded range has been compared, and every index exists (`deferred.rs`).
//!
//! Rejected: chunks between watermarks (decision 0009).

mod accounts;
mod copy;
mod deferred;
mod follow;
mod notes;
mod objects;
mod plan;
mod source;

use super::connection::{Server, failed, quote};
use super::{Existing, ImportOptions};
use crate::config::StartError;
use accounts::Account;
use notes::Stage;
use objects::{Object, Problem};
use plan::Table;
use porpoise_client::mysql::Target;
use source::{Identity, Snapshot};
use std::time::Instant;

/// The option that names the source.
pub const FROM: crate::target::ServerOption = crate::target::ServerOption {
    name: "SOURCE",
    program: "porpoise import",
};

/// Settings of the connection that defines objects and records the progress.
const SETTINGS: &str =
    "SET NAMES utf8mb4; SET SESSION foreign_key_checks = 0, time_zone = '+00:00', sql_mode = ''";

/// Options of an import from a running server.
#[derive(Clone, Debug)]
pub struct Live {
    /// The server that is copied.
    pub source: Target,
    /// Whether the replica follows the source afterwards.
    pub follow: bool,
    /// Whether the replication is ended once everything is applied.
    pub cut_over: bool,
    /// Whether objects that cannot be moved are left out.
    pub leave_out: bool,
    /// Whether only a report is made.
    pub dry_run: bool,
    /// Approximate number of bytes of rows that one transaction loads.
    pub chunk_bytes: usize,
}

/// An import that runs.
struct Import<'o> {
    options: &'o ImportOptions,
    live: &'o Live,
    identity: Identity,
    source: Server,
    server: Server,
}

/// Copies the selected databases of a source.
///
/// # Errors
/// One line.
pub fn run(options: &ImportOptions, live: &Live) -> Result<(), StartError> {
    let mut source = source::connect(&live.source)?;
    let identity = source::identify(&mut source, &live.source)?;
    let mut server = Server::with_settings(&options.into, SETTINGS)?;
    notes::lock(&mut server, "control")?;
    super::check_local_infile(&mut server)?;
    let mut import = Import {
        options,
        live,
        identity,
        source,
        server,
    };
    import.check()?;
    import.run()
}

impl Import<'_> {
    fn say(&self, text: impl std::fmt::Display) {
        if !self.options.quiet {
            eprintln!("import: {text}");
        }
    }

    /// Whether the source's log is followed: for a later start, or for good.
    fn follows(&self) -> bool {
        self.identity.obstacle.is_none()
    }

    /// Refuses servers that cannot be source and replica.
    fn check(&mut self) -> Result<(), StartError> {
        let [id, version] = self
            .server
            .first_row("SELECT @@server_id, @@version_comment")?;
        if id == self.identity.server_id.to_string() {
            return Err(StartError::usage(format!(
                "import: source and server have the same server_id {id}: start one of them with another server_id"
            )));
        }
        if !version.to_ascii_lowercase().contains("porpoise") {
            return Err(StartError::usage(
                "import: the server that --into names is not a Porpoise server".to_owned(),
            ));
        }
        match &self.identity.obstacle {
            Some(why) if self.live.follow || self.live.cut_over => Err(StartError::usage(format!(
                "import: the source cannot be followed: {why}"
            ))),
            _ => Ok(()),
        }
    }

    fn run(&mut self) -> Result<(), StartError> {
        let start = Instant::now();
        let name = self.identity.name.clone();
        if self.options.restart {
            self.forget()?;
        }
        let stage = notes::stage(&mut self.server, &name)?;
        if stage == Stage::Follow {
            return self.follow();
        }
        if self.live.cut_over && !self.live.follow {
            return Err(StartError::usage(
                "import: --cut-over needs an import that follows: run it with --follow first",
            ));
        }
        let tables = plan::read(&mut self.source, &self.options.selection)?;
        let (objects, mut problems) =
            objects::read(&mut self.source, &self.options.selection, &tables)?;
        if stage != Stage::Copy {
            let mut accounts = Vec::new();
            if self.options.users {
                let (excluded, is_mariadb) = (
                    &self.options.selection.exclude_users,
                    self.identity.is_mariadb,
                );
                let (found, more) = accounts::read(&mut self.source, is_mariadb, excluded)?;
                accounts = found;
                problems.extend(more);
            }
            self.define(stage, (&objects, &tables, accounts), &mut problems)?;
            if self.live.dry_run {
                return Ok(());
            }
        } else if !self.follows() {
            return Err(StartError::usage(
                "import: an interrupted import can be continued only if the source has a binary log; begin again with \
                 --restart --existing drop",
            ));
        }
        self.copy(&tables, stage == Stage::Copy)?;
        for object in objects.iter().filter(|object| object.is_active()) {
            object.drop_from(&mut self.server)?;
            if let Err(why) = object.create(&mut self.server) {
                eprintln!("import: left out: {}: {why}", object.shown());
            }
        }
        self.say(format_args!(
            "copied in {:.1} s",
            start.elapsed().as_secs_f64()
        ));
        if !self.live.follow {
            return self.forget();
        }
        self.change_events("ENABLED", "DISABLE ON REPLICA")?;
        notes::begin_follow(&mut self.server)?;
        self.server.run("START REPLICA")?;
        self.follow()
    }

    /// Removes the progress and the replica's source.
    fn forget(&mut self) -> Result<(), StartError> {
        if follow::status(&mut self.server)?.is_some() {
            self.server.run("STOP REPLICA; RESET REPLICA ALL")?;
        }
        notes::forget(&mut self.server)
    }

    /// Creates all objects, and reports those that cannot be moved.
    fn define(
        &mut self,
        stage: Stage,
        (objects, tables, mut accounts): (&[Object], &[Table], Vec<Account>),
        problems: &mut Vec<Problem>,
    ) -> Result<(), StartError> {
        if stage == Stage::New {
            self.clear_the_way(objects)?;
            accounts::prepare(&mut self.server, &mut accounts, self.options.existing)?;
            notes::begin(&mut self.server, &self.identity.name)?;
        } else {
            self.drop_objects(objects)?;
        }
        problems.extend(accounts::create(&mut self.server, &accounts));
        let failed_objects = objects::create(&mut self.server, objects);
        problems.extend(failed_objects.iter().map(|(_, problem)| problem.clone()));
        problems.extend(objects::compare(
            &mut self.source,
            &mut self.server,
            tables,
        )?);
        problems.extend(accounts::grant(&mut self.server, &accounts));
        let count = problems.len();
        for Problem { object, why } in problems.iter() {
            eprintln!("import: cannot be moved: {object}: {why}");
        }
        if self.live.dry_run || (count > 0 && !self.live.leave_out) {
            self.drop_objects(objects)?;
            accounts::drop_all(&mut self.server, &accounts)?;
            notes::forget(&mut self.server)?;
            if count == 0 {
                let text = format!("all {} objects can be moved", objects.len());
                self.say(text);
                return Ok(());
            }
            return Err(failed(format_args!(
                "{count} problems, nothing was loaded: change the source, exclude objects (--exclude-tables), or \
                 load everything else (--leave-out)"
            )));
        }
        for object in objects.iter().filter(|object| object.is_active()) {
            object.drop_from(&mut self.server)?;
        }
        Ok(())
    }

    /// Refuses or drops objects that exist on the server.
    fn clear_the_way(&mut self, objects: &[Object]) -> Result<(), StartError> {
        if follow::status(&mut self.server)?.is_some() {
            return Err(StartError::usage(
                "import: the server is a replica of another source: run RESET REPLICA ALL there if it is no longer needed",
            ));
        }
        let rows = self.server.run(
            "SELECT TABLE_SCHEMA, TABLE_NAME FROM information_schema.TABLES UNION ALL SELECT ROUTINE_SCHEMA, \
             ROUTINE_NAME FROM information_schema.ROUTINES",
        )?;
        let found = rows.rows.into_iter().map(|row| {
            let mut cells = row.into_iter().map(Option::unwrap_or_default);
            (
                cells.next().unwrap_or_default(),
                cells.next().unwrap_or_default(),
            )
        });
        let found: std::collections::BTreeSet<(String, String)> = found.collect();
        let mut existing = objects.iter().filter(|object| {
            object.kind != "DATABASE"
                && found.contains(&(object.schema.clone(), object.name.clone()))
        });
        match (self.options.existing, existing.next()) {
            (_, None) => Ok(()),
            (Existing::Drop, Some(_)) => self.drop_objects(objects),
            (_, Some(object)) => Err(StartError::usage(format!(
                "import: {} exists already; use --existing drop, or exclude it",
                object.shown()
            ))),
        }
    }

    /// Drops all objects, except databases that are not empty afterwards.
    fn drop_objects(&mut self, objects: &[Object]) -> Result<(), StartError> {
        for object in objects
            .iter()
            .rev()
            .filter(|object| object.kind != "DATABASE")
        {
            // A trigger or view is dropped with its table or schema, which may not exist any more.
            if let Err(error) = object.drop_from(&mut self.server) {
                let is_gone = error.message.contains("ERROR 1049");
                if !is_gone {
                    return Err(error);
                }
            }
        }
        Ok(())
    }

    /// Copies the rest of the tables, from a snapshot at the replica's position.
    fn copy(&mut self, tables: &[Table], is_resumed: bool) -> Result<(), StartError> {
        // When the locks of an earlier process's sessions can be taken, these have ended.
        for number in 0..self.options.threads.max(1) {
            notes::lock(&mut self.server, &format!("worker {number}"))?;
        }
        // Definitions of objects were created in the SQL modes of the source's objects.
        self.server.run("SET SESSION sql_mode = ''")?;
        notes::upgrade(&mut self.server)?;
        let mut tables = self.existing_tables(tables)?;
        if is_resumed {
            let planned = notes::planned(&mut self.server)?;
            let copied = notes::copied(&mut self.server)?;
            self.reset_cycles(&tables, &copied)?;
            let copied = notes::copied(&mut self.server)?;
            tables.retain(|table| planned.contains(&table.name) && !copied.contains(&table.name));
            self.prepare_continuation(&tables)?;
        }
        let names: Vec<plan::Name> = tables.iter().map(|table| table.name.clone()).collect();
        let threads = self.options.threads.max(1);
        let mut snapshot = Snapshot::open(&self.live.source, &self.identity, threads, &names)?;
        match snapshot.position.clone().filter(|_| self.follows()) {
            Some(position) if is_resumed => {
                self.say(format_args!(
                    "continues at {}:{}, {} tables left",
                    position.0,
                    position.1,
                    tables.len()
                ));
                follow::run_until(&mut self.server, &position)?;
            }
            Some(position) => {
                follow::set_source(self.options, self.live, &mut self.server, &position)?;
                self.say(format_args!("snapshot at {}:{}", position.0, position.1));
            }
            None => snapshot.position = None,
        }
        if !is_resumed {
            deferred::drop_indexes(&mut self.server, &tables)?;
            notes::begin_copy(&mut self.server, &tables)?;
        }
        for number in 0..threads {
            self.server.run(&format!(
                "DO RELEASE_LOCK('porpoise_import worker {number}')"
            ))?;
        }
        // A table that is copied already has no jobs left, so that no other table waits for it.
        let (options, server) = (self.options, &mut self.server);
        let copied = copy::run(options, self.live, server, snapshot, &tables)?;
        self.say(format_args!(
            "{} tables, {} rows, {:.1} MB, checksums compared",
            tables.len(),
            copied.rows,
            copied.bytes as f64 / 1e6
        ));
        Ok(())
    }

    /// Brings the tables that an interrupted process has not finished into a state in which the replica can change them.
    fn prepare_continuation(&mut self, tables: &[Table]) -> Result<(), StartError> {
        for table in tables {
            if table.key.is_none() {
                notes::clear(&mut self.server, table)?;
            }
            copy::delete_parts(&mut self.server, table)?;
            copy::compare_loaded(&mut self.server, table)?;
            deferred::create_indexes(&mut self.server, table)?;
        }
        Ok(())
    }

    /// The tables that exist on the server: not those that could not be created, or were dropped since.
    fn existing_tables(&mut self, tables: &[Table]) -> Result<Vec<Table>, StartError> {
        let rows = self.server.run(
            "SELECT TABLE_SCHEMA, TABLE_NAME FROM information_schema.TABLES WHERE TABLE_TYPE = 'BASE TABLE'",
        )?;
        let here: std::collections::BTreeSet<plan::Name> = rows
            .rows
            .into_iter()
            .map(|row| {
                let mut cells = row.into_iter().map(Option::unwrap_or_default);
                (
                    cells.next().unwrap_or_default(),
                    cells.next().unwrap_or_default(),
                )
            })
            .collect();
        let tables = tables.iter().filter(|table| here.contains(&table.name));
        Ok(tables.cloned().collect())
    }

    /// Restarts the copy of cycles of which not all tables are copied.
    fn reset_cycles(
        &mut self,
        tables: &[Table],
        copied: &std::collections::BTreeSet<plan::Name>,
    ) -> Result<(), StartError> {
        let cyclic = || tables.iter().filter(|table| table.is_cyclic);
        if cyclic().all(|table| copied.contains(&table.name)) {
            return Ok(());
        }
        for table in cyclic() {
            notes::clear(&mut self.server, table)?;
        }
        Ok(())
    }

    /// Changes the state of events: while the source runs them, they are disabled on the server.
    fn change_events(&mut self, state: &str, change: &str) -> Result<(), StartError> {
        let listed = self.server.run(&format!(
            "SELECT EVENT_SCHEMA, EVENT_NAME FROM information_schema.EVENTS WHERE STATUS = '{state}'"
        ))?;
        for row in listed.rows {
            let mut cells = row.into_iter().map(Option::unwrap_or_default);
            let (schema, name) = (
                cells.next().unwrap_or_default(),
                cells.next().unwrap_or_default(),
            );
            if self.options.selection.contains_schema(&schema) {
                let (schema, name) = (quote(&schema), quote(&name));
                self.server
                    .run(&format!("ALTER EVENT {schema}.{name} {change}"))?;
            }
        }
        Ok(())
    }

    /// Compares the numbers of rows of all tables with those of the source.
    fn compare_counts(&mut self) -> Result<(), StartError> {
        let tables = plan::read(&mut self.source, &self.options.selection)?;
        for table in self.existing_tables(&tables)? {
            let query = format!("SELECT COUNT(*) FROM {}", table.quoted());
            let [theirs] = self.source.first_row(&query)?;
            let [ours] = self.server.first_row(&query)?;
            if ours != theirs {
                return Err(failed(format_args!(
                    "table {} has {theirs} rows at the source and {ours} on the server: it was changed on the server; the replica goes on following",
                    table.shown()
                )));
            }
        }
        Ok(())
    }

    /// Reports the lag, and cuts over if requested.
    fn follow(&mut self) -> Result<(), StartError> {
        if let Some(status) = follow::status(&mut self.server)?
            && !status.is_running
        {
            self.server.run("START REPLICA")?;
        }
        if !self.live.cut_over {
            self.say("everything is copied; the server follows the source, also after this program has ended");
            return follow::watch(self.options, &mut self.server, &mut self.source, true);
        }
        follow::cut_over(
            self.options,
            &mut self.server,
            &mut self.source,
            &self.identity,
        )?;
        if let Err(error) = self.compare_counts() {
            self.server.run("START REPLICA")?;
            return Err(error);
        }
        self.server.run("RESET REPLICA ALL")?;
        self.change_events("REPLICA_SIDE_DISABLED", "ENABLE")?;
        notes::forget(&mut self.server)?;
        self.say(format_args!(
            "cut over: the server has all rows of {}, and no longer follows it; let the applications write to \
             the server, and keep the source read-only",
            self.identity.name
        ));
        Ok(())
    }
}
