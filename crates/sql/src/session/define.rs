//! Data definition and table maintenance statements.
//!
//! Each commits the open transaction before it begins (manual, "Statements That Cause an Implicit
//! Commit"), and its own changes at its end.

use super::create::Variables;
use super::table_locks::TableLocks;
use super::{Outcome, SqlSession};
use crate::definition::{self, Naming};
use crate::performance_schema;
use porpoise_rows::catalog::Table;
use porpoise_rows::ddl::partition::Exchange;
use porpoise_rows::ddl::{AlterOp, DdlCx, DdlOutcome};
use porpoise_sql_expr::error::{Result, SqlError};
use porpoise_sql_parser::ast::{
    AlterAction, CreateIndex, CreateTable, DatabaseOption, DropTables, Ident, Statement, TableName,
};
use porpoise_sql_plan::virtual_tables;
use porpoise_types::{CastCx, Collation};

impl SqlSession {
    /// Executes CREATE, ALTER, DROP and TRUNCATE.
    pub(super) fn define(
        &mut self,
        statement: &Statement<'_>,
        text: &[u8],
        variables: &Variables<'_>,
    ) -> Result<Outcome> {
        if let Some(done) = self.define_temporary(statement, text, variables)? {
            return Ok(done);
        }
        let before = self.begin_definition()?;
        let mut outcome = match statement {
            Statement::CreateDatabase(create) => {
                let collation = self.database_collation(create.options, None)?;
                let name = create.name.name;
                if name.eq_ignore_ascii_case("information_schema") {
                    let text = format!("Access denied for user to database '{name}'");
                    return Err(SqlError::new(1044, "42000", text));
                }
                let db = self.cx.server.db.clone();
                let done =
                    db.create_database(&self.ddl_cx(), name, collation, create.if_not_exists)?;
                if done.is_note {
                    let text = format!("Can't create database '{name}'; database exists");
                    self.cx.note(1007, text);
                }
                Outcome {
                    affected_rows: 1,
                    position: done.position,
                    ..Outcome::default()
                }
            }
            Statement::AlterDatabase(alter) => {
                let name = alter.name.map(|n| n.name.to_owned());
                let name = name.or_else(|| self.cx.env.database.clone());
                let name = name.ok_or_else(SqlError::no_database_selected)?;
                let old = self
                    .cx
                    .server
                    .db
                    .catalog()
                    .database(&name)
                    .map(|d| d.collation);
                let collation = self.database_collation(alter.options, old)?;
                let db = self.cx.server.db.clone();
                let done = db.alter_database(&self.ddl_cx(), &name, collation)?;
                Outcome {
                    affected_rows: 1,
                    position: done.position,
                    ..Outcome::default()
                }
            }
            Statement::DropDatabase { if_exists, name } => {
                self.drop_database(name.name, *if_exists)?
            }
            Statement::DropTable(drop) => self.drop_tables(drop)?,
            Statement::Truncate(name) => {
                let (database, name) = self.resolve_for_ddl(name)?;
                if performance_schema::reset(&self.cx, &database, &name) {
                    return Ok(Outcome::default());
                }
                let db = self.cx.server.db.clone();
                ddl_outcome(db.truncate(&self.ddl_cx(), &database, &name)?)
            }
            _ => self.define_table(statement, text, variables)?,
        };
        outcome.position = outcome.position.max(before);
        Ok(outcome)
    }

    /// Resolves a table whose definition is to change. Under LOCK TABLES it must be locked for
    /// writing.
    pub(super) fn resolve_for_ddl(&self, name: &TableName<'_>) -> Result<(String, String)> {
        let (database, name) = self.cx.qualified(name)?;
        if let Some(locks) = &self.table_locks
            && let Some(table) = self.cx.server.db.catalog().table(&database, &name)
        {
            locks.check(table, true)?;
        }
        Ok((database, name))
    }

    /// Error 1100 for CREATE TABLE under LOCK TABLES, because a new table is not locked; for an existing table the
    /// errors of a table that is written.
    fn check_locked_creation(&self, create: &CreateTable<'_>) -> Result<()> {
        let Some(locks) = &self.table_locks else {
            return Ok(());
        };
        let (database, name) = self.cx.qualified(&create.name)?;
        match self.cx.server.db.catalog().table(&database, &name) {
            Some(table) => locks.check(table, true),
            None => Err(TableLocks::not_locked(&name)),
        }
    }

    /// Whether a table to be created has the name of a virtual one.
    fn names_virtual_table(&self, create: &CreateTable<'_>) -> Result<bool> {
        let (database, name) = self.cx.qualified(&create.name)?;
        let is_virtual = virtual_tables::find(&database, &name).is_some();
        Ok(is_virtual && !virtual_tables::is_database(&database) && !create.temporary)
    }

    fn define_table(
        &mut self,
        statement: &Statement<'_>,
        text: &[u8],
        variables: &Variables<'_>,
    ) -> Result<Outcome> {
        let db = self.cx.server.db.clone();
        if let Statement::CreateTable(create) = statement {
            self.check_locked_creation(create)?;
        }
        match statement {
            Statement::CreateTable(create) if self.names_virtual_table(create)? => {
                let text = format!("Table '{}' already exists", create.name.name.name);
                if !create.if_not_exists {
                    return Err(SqlError::new(1050, "42S01", text));
                }
                self.cx.note(1050, text);
                Ok(Outcome::default())
            }
            Statement::CreateTable(create) if create.like.is_some() && !create.temporary => {
                self.create_like(create)
            }
            Statement::CreateTable(create) if create.query.is_some() && !create.temporary => {
                match create.query {
                    Some(query) => self.create_select(create, query, text, variables),
                    None => Err(SqlError::internal("no query")),
                }
            }
            Statement::CreateTable(create) => {
                let (database, name) = self.cx.qualified(&create.name)?;
                let naming = Naming::of(&self.cx, &database)?;
                let mut spec = definition::table(&self.cx, &naming, create)?;
                definition::generated_key::add(&self.cx, &mut spec)?;
                let done = db.create_table(&self.ddl_cx(), &spec)?;
                if done.is_note {
                    self.cx.note(1050, format!("Table '{name}' already exists"));
                } else {
                    self.warn_of_duplicate_indexes(&database, &name, &[]);
                }
                Ok(ddl_outcome(done))
            }
            Statement::AlterTable(alter) => {
                let (database, name) = self.resolve_for_ddl(&alter.name)?;
                if let Some(done) = self.alter_single_action(&database, &name, alter.actions)? {
                    return Ok(done);
                }
                let mut ops = definition::alter::operations(&self.cx, &database, &name, alter)?;
                self.add_combined_partitioning(&database, &name, alter.actions, &mut ops)?;
                self.alter(&database, &name, &ops)
            }
            Statement::RenameTable(pairs) => self.rename_tables(pairs),
            Statement::CreateIndex(create) => self.create_index(create),
            Statement::DropIndex(drop) => {
                let (database, name) = self.resolve_for_ddl(&drop.table)?;
                let mut ops = vec![AlterOp::DropIndex(drop.name.name.to_owned())];
                ops.extend(index_method(drop.algorithm.as_ref(), drop.lock.as_ref())?);
                self.alter(&database, &name, &ops)
            }
            _ => Err(SqlError::internal("no definition")),
        }
    }

    /// Executes an ALTER TABLE whose only action does not concern the table's definition, or cannot
    /// be combined with others; `None` for all other statements.
    fn alter_single_action(
        &mut self,
        database: &str,
        name: &str,
        actions: &[AlterAction<'_>],
    ) -> Result<Option<Outcome>> {
        let temporary = self.cx.temporary.table(database, name).is_some();
        if let [AlterAction::Rename(to)] = actions
            && !temporary
            && self.cx.catalog().view(database, name).is_some()
        {
            let pair = (
                (database.to_owned(), name.to_owned()),
                self.cx.qualified(to)?,
            );
            let db = self.cx.server.db.clone();
            let done = db.rename_tables(&self.ddl_cx(), &[pair])?;
            return Ok(Some(ddl_outcome(done)));
        }
        let mut clauses = actions
            .iter()
            .map(definition::partition::is_partition_clause);
        match definition::alter::without_method(actions)?.as_slice() {
            [AlterAction::AddKeyPrefix(_) | AlterAction::DropKeyPrefix(_)] if temporary => {
                let what = "a key prefix of a temporary table";
                Err(SqlError::not_supported(what))
            }
            _ if temporary && clauses.any(|clause| clause) => {
                let text = "Cannot create temporary table with partitions";
                Err(SqlError::new(1562, "HY000", text))
            }
            [AlterAction::AddKeyPrefix(def)] => self
                .change_mapping(database, name, def, |editor, def| editor.add(def))
                .map(Some),
            [AlterAction::DropKeyPrefix(def)] => self
                .change_mapping(database, name, def, |editor, def| editor.drop(def))
                .map(Some),
            [AlterAction::ExchangePartition(partition, with, _)] => self
                .exchange_partition(database, name, partition.name, with)
                .map(Some),
            [action] if clauses.any(|clause| clause) => {
                self.alter_partitions(database, name, action).map(Some)
            }
            _ if clauses.any(|clause| clause) && !is_combined_partitioning(actions) => {
                let what = "partitioning clauses beside others";
                Err(SqlError::not_supported(what))
            }
            _ => Ok(None),
        }
    }

    /// Adds the operation for a partitioning clause that is combined with other clauses: it is
    /// computed for the table as the other clauses leave it.
    fn add_combined_partitioning(
        &self,
        database: &str,
        name: &str,
        actions: &[AlterAction<'_>],
        ops: &mut Vec<AlterOp>,
    ) -> Result<()> {
        let mut actions = actions.iter();
        let Some(action) = actions.find(|a| definition::partition::may_be_combined(a)) else {
            return Ok(());
        };
        let altered = || -> Result<Table> {
            let mut without = ops.clone();
            without.push(AlterOp::Partition(None));
            let mut ignore = |_| ();
            let cast = CastCx {
                mode: self.cx.settings.mode,
                strict: self.cx.settings.mode.is_strict(),
                warnings: &mut ignore,
                tz: &self.cx.settings.time_zone,
                now: self.cx.env.now(),
            };
            let (db, cx) = (&self.cx.server.db, self.ddl_cx());
            Ok(db.altered_table(&cx, database, name, &without, &cast)?)
        };
        let op = definition::partition::combined_change(&self.cx, action, &altered)?;
        ops.extend(op);
        Ok(())
    }

    fn rename_tables(&mut self, pairs: &[(TableName<'_>, TableName<'_>)]) -> Result<Outcome> {
        let resolve = |(old, new): &(TableName<'_>, TableName<'_>)| -> Result<_> {
            Ok((self.resolve_for_ddl(old)?, self.cx.qualified(new)?))
        };
        let pairs: Vec<_> = pairs.iter().map(resolve).collect::<Result<_>>()?;
        let db = self.cx.server.db.clone();
        Ok(ddl_outcome(db.rename_tables(&self.ddl_cx(), &pairs)?))
    }

    fn create_index(&mut self, create: &CreateIndex<'_>) -> Result<Outcome> {
        let method = index_method(create.algorithm.as_ref(), create.lock.as_ref())?;
        let (database, name) = self.resolve_for_ddl(&create.table)?;
        let index = definition::index(&self.cx, &create.index)?;
        let mut ops = vec![AlterOp::AddIndex(index)];
        ops.extend(method);
        self.alter(&database, &name, &ops)
    }

    fn alter(&mut self, database: &str, name: &str, ops: &[AlterOp]) -> Result<Outcome> {
        let db = self.cx.server.db.clone();
        let mut ops = ops.to_vec();
        if let Some(table) = self.cx.catalog().table(database, name) {
            definition::generated_key::check_altered(&self.cx, table, &ops)?;
            definition::shorten_added_keys(&self.cx, table, &mut ops);
        }
        let indexes = self.indexes_of(database, name);
        let mode = self.cx.settings.mode;
        let tz = self.cx.settings.time_zone.clone();
        let mut warnings = Vec::new();
        let mut warn = |w| warnings.push(w);
        let mut cast = CastCx {
            mode,
            strict: mode.is_strict(),
            warnings: &mut warn,
            tz: &tz,
            now: self.cx.env.now(),
        };
        let altered = match self.cx.temporary.table(database, name).cloned() {
            Some(table) => {
                let rows = self.alter_temporary(&table, &ops, &mut cast);
                rows.map(|rows| DdlOutcome {
                    rows,
                    ..DdlOutcome::default()
                })
            }
            None => db
                .alter_table_as(&self.ddl_cx(), database, name, &ops, &mut cast)
                .map_err(SqlError::from),
        };
        for warning in warnings {
            self.cx.env.warn(warning);
        }
        let done = altered?;
        self.warn_of_duplicate_indexes(database, name, &indexes);
        let mut outcome = ddl_outcome(done);
        outcome.affected_rows = done.rows;
        let warnings = self.cx.env.warnings.get_mut().len();
        let rows = done.rows;
        outcome.info = format!("Records: {rows}  Duplicates: 0  Warnings: {warnings}");
        Ok(outcome)
    }

    /// Executes the partitioning clauses of ALTER TABLE.
    fn alter_partitions(
        &mut self,
        database: &str,
        name: &str,
        action: &AlterAction<'_>,
    ) -> Result<Outcome> {
        let change = definition::partition::change(&self.cx, database, name, action)?;
        let change = change.ok_or_else(|| SqlError::no_table(database, name))?;
        let db = self.cx.server.db.clone();
        let done = db.change_partitions(&self.ddl_cx(), database, name, &change)?;
        let mut outcome = ddl_outcome(done);
        let warnings = self.cx.env.warnings.get_mut().len();
        outcome.info = format!("Records: 0  Duplicates: 0  Warnings: {warnings}");
        Ok(outcome)
    }

    /// Executes EXCHANGE PARTITION.
    fn exchange_partition(
        &mut self,
        database: &str,
        name: &str,
        partition: &str,
        with: &TableName<'_>,
    ) -> Result<Outcome> {
        let with = self.resolve_for_ddl(with)?;
        if self.cx.temporary.table(&with.0, &with.1).is_some() {
            let text = format!(
                "Table to exchange with partition is temporary: '{}'",
                with.1
            );
            return Err(SqlError::new(1733, "HY000", text));
        }
        for (database, name) in [(database, name), (&with.0, &with.1)] {
            if self.cx.catalog().view(database, name).is_some() {
                let text = format!("'{database}.{name}' is not BASE TABLE");
                return Err(SqlError::new(1347, "HY000", text));
            }
        }
        let exchange = Exchange {
            table: (database.to_owned(), name.to_owned()),
            partition: partition.to_owned(),
            with,
        };
        let db = self.cx.server.db.clone();
        let done = db.exchange_partition(&self.ddl_cx(), &exchange)?;
        Ok(ddl_outcome(DdlOutcome { rows: 0, ..done }))
    }

    /// Context of a definition statement.
    pub(crate) fn ddl_cx(&self) -> DdlCx<'_> {
        DdlCx {
            metadata_locks: &self.metadata_locks,
            deadline: self.definition_deadline(),
            cancel: &self.cx.env.cancel,
            foreign_key_checks: self.cx.settings.foreign_key_checks,
            now: self.cx.env.now_utc.to_unix_micros(),
            statement: self.logged_statement.as_ref(),
            memory: self.cx.env.memory.connection(),
        }
    }

    fn database_collation(
        &self,
        options: &[DatabaseOption<'_>],
        old: Option<Collation>,
    ) -> Result<Collation> {
        let mut charset = None;
        let mut collation = None;
        for option in options {
            match option {
                DatabaseOption::Charset(Some(name)) => {
                    charset = Some(porpoise_sql_plan::bind::expr::charset_named(name.name)?);
                }
                DatabaseOption::Collate(Some(name)) => {
                    collation = Some(definition::collation_named(name.name)?);
                }
                DatabaseOption::Encryption(value) if value.eq_ignore_ascii_case(b"Y") => {
                    return Err(SqlError::not_supported("ENCRYPTION"));
                }
                DatabaseOption::ReadOnly(Some(true)) => {
                    return Err(SqlError::not_supported("READ ONLY databases"));
                }
                DatabaseOption::Charset(None) | DatabaseOption::Collate(None) => {
                    collation = Some(self.cx.settings.server_collation);
                }
                _ => {}
            }
        }
        match (charset, collation) {
            (Some(charset), Some(c)) if c.charset() != charset => {
                Err(definition::collation_mismatch(c, charset))
            }
            (_, Some(collation)) => Ok(collation),
            (Some(charset), None) => Ok(self.cx.collation_for(charset)),
            (None, None) => Ok(old.unwrap_or(self.cx.settings.server_collation)),
        }
    }

    fn drop_database(&mut self, name: &str, if_exists: bool) -> Result<Outcome> {
        if name == "mysql" || porpoise_sql_plan::virtual_tables::is_database(name) {
            let text = format!("Access to system schema '{name}' is rejected.");
            return Err(SqlError::new(3552, "HY000", text));
        }
        let db = self.cx.server.db.clone();
        let (done, tables) = db.drop_database(&self.ddl_cx(), name, if_exists)?;
        if done.is_note {
            let text = format!("Can't drop database '{name}'; database doesn't exist");
            self.cx.note(1008, text);
        }
        let mut outcome = ddl_outcome(done);
        outcome.affected_rows = tables as u64;
        if self.cx.env.database.as_deref() == Some(name) {
            self.cx.env.database = None;
            self.tracker.schema();
        }
        Ok(outcome)
    }

    fn drop_tables(&mut self, drop: &DropTables<'_>) -> Result<Outcome> {
        let names = drop.names.iter().map(|n| self.resolve_for_ddl(n));
        let mut names: Vec<(String, String)> = names.collect::<Result<_>>()?;
        for (at, name) in names.iter().enumerate() {
            if names.iter().take(at).any(|n| n == name) {
                let text = format!("Not unique table/alias: '{}'", name.1);
                return Err(SqlError::new(1066, "42000", text));
            }
        }
        // Temporary tables hide permanent tables of the same name.
        let temporary = |(d, n): &(String, String)| self.cx.temporary.table(d, n).is_some();
        let (own, rest): (Vec<_>, Vec<_>) = names.into_iter().partition(temporary);
        names = rest;
        let db = self.cx.server.db.clone();
        let done = db.drop_tables(&self.ddl_cx(), &names, drop.if_exists)?;
        for (database, name) in &own {
            self.remove_temporary(database, name);
        }
        for name in &done.missing {
            self.cx.note(1051, format!("Unknown table '{name}'"));
        }
        self.unlock_dropped_tables()?;
        Ok(Outcome {
            position: done.position,
            ..Outcome::default()
        })
    }
}

fn ddl_outcome(done: DdlOutcome) -> Outcome {
    Outcome {
        position: done.position,
        ..Outcome::default()
    }
}

/// Whether the only partitioning clause is one that may be combined with other clauses.
fn is_combined_partitioning(actions: &[AlterAction<'_>]) -> bool {
    let mut clauses = actions
        .iter()
        .filter(|a| definition::partition::is_partition_clause(a));
    let first = clauses.next();
    first.is_some_and(definition::partition::may_be_combined) && clauses.next().is_none()
}

/// ALGORITHM and LOCK of CREATE INDEX and DROP INDEX.
///
/// # Errors
/// 1800 and 1801 for unknown values.
fn index_method(algorithm: Option<&Ident<'_>>, lock: Option<&Ident<'_>>) -> Result<Vec<AlterOp>> {
    let algorithm = algorithm.map(definition::alter::algorithm).transpose()?;
    let lock = lock.map(definition::alter::lock).transpose()?;
    let algorithm = algorithm.flatten().map(AlterOp::Algorithm);
    let lock = lock.flatten().map(AlterOp::Lock);
    Ok(algorithm.into_iter().chain(lock).collect())
}
