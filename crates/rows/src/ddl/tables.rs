//! CREATE, DROP and TRUNCATE TABLE.

use super::{
    DdlCx, DdlOutcome, TableSpec, check_name, checks, columns, errors, foreign,
    foreign_key_relatives, indexes, key_parts, partition, spaces, ttl,
};
use crate::catalog::{Catalog, persist};
use crate::db::Db;
use crate::definition::{IndexKind, TableDef, TableId};
use crate::error::Result;
use crate::table::Table;
use porpoise_kv::{CommitPosition, CounterId, SpaceId};
use std::sync::Arc;

/// Result of DROP TABLE.
#[derive(Clone, Debug, Default)]
pub struct DropOutcome {
    /// Commit position that the reply waits for.
    pub position: CommitPosition,
    /// With IF EXISTS: tables that did not exist, as `db.name`.
    pub missing: Vec<String>,
}

impl Db {
    /// CREATE TABLE.
    pub fn create_table(&self, cx: &DdlCx<'_>, spec: &TableSpec) -> Result<DdlOutcome> {
        check_name(&spec.name)?;
        if spec.name.is_empty() || spec.name.ends_with(' ') {
            return Err(errors::bad_table_name(&spec.name));
        }
        if self.is_name_taken(spec)? {
            if !spec.if_not_exists {
                return Err(errors::table_exists(&spec.name));
            }
            return Ok(DdlOutcome {
                is_note: true,
                ..DdlOutcome::default()
            });
        }
        let _barrier = self.barrier(cx, |catalog| Ok(future_relatives(catalog, spec)))?;
        let id = TableId(self.engine().reserve_ids(persist::TABLE_IDS, 1, 1)?.start);
        let mut table = draft_table(self, &self.catalog(), cx, spec, id)?;
        self.check_expressions(&table)?;
        let spaces = self.create_spaces_for(&mut table)?;
        let result = self.commit_new_table(cx, spec, table);
        if let Err(error) = &result {
            self.abandon_spaces(&spaces, error);
        }
        Ok(DdlOutcome {
            position: result?,
            ..DdlOutcome::default()
        })
    }

    pub(super) fn is_name_taken(&self, spec: &TableSpec) -> Result<bool> {
        let catalog = self.catalog();
        if catalog.database(&spec.database).is_none() {
            return Err(errors::no_database(&spec.database));
        }
        let view = catalog.view(&spec.database, &spec.name).is_some();
        Ok(view || catalog.table(&spec.database, &spec.name).is_some())
    }

    pub(super) fn commit_new_table(
        &self,
        cx: &DdlCx<'_>,
        spec: &TableSpec,
        table: TableDef,
    ) -> Result<CommitPosition> {
        if let Some(first) = spec.auto_increment {
            self.engine().set_next_id(table.counter, first.max(1))?;
        }
        self.change_catalog(cx, move |draft| {
            let Some(database) = draft.catalog.databases.get_mut(&spec.database) else {
                return Err(errors::no_database(&spec.database));
            };
            let database = Arc::make_mut(database);
            if database.tables.contains_key(&spec.name) {
                return Err(errors::table_exists(&spec.name));
            }
            database.tables.insert(spec.name.clone(), table.id);
            if draft.catalog.view(&spec.database, &spec.name).is_some() {
                return Err(errors::table_exists(&spec.name));
            }
            let mut table = table;
            table.incompatible_since = draft.catalog.version + 1;
            let table = Arc::new(Table::new(table));
            draft.catalog.tables.insert(table.id, table);
            Ok(())
        })
    }

    /// Creates the table's spaces and sets the counter.
    pub(super) fn create_spaces_for(&self, table: &mut TableDef) -> Result<Vec<SpaceId>> {
        let specs = spaces::table_spaces(table);
        let spaces = self.engine().create_spaces(&specs)?;
        spaces::assign(table, &spaces);
        if let Some(first) = spaces.first() {
            table.counter = CounterId(first.0);
        }
        Ok(spaces)
    }

    /// DROP TABLE: drops all `names` (database, table) or none.
    pub fn drop_tables(
        &self,
        cx: &DdlCx<'_>,
        names: &[(String, String)],
        if_exists: bool,
    ) -> Result<DropOutcome> {
        let found = |catalog: &Catalog| -> Vec<Arc<Table>> {
            let tables = names.iter().filter_map(|(d, t)| catalog.table(d, t));
            tables.cloned().collect()
        };
        let missing = |catalog: &Catalog| -> Vec<String> {
            let absent = names.iter().filter(|(d, t)| catalog.table(d, t).is_none());
            absent.map(|(d, t)| format!("{d}.{t}")).collect()
        };
        let absent = missing(&self.catalog());
        if !absent.is_empty() && !if_exists {
            return Err(errors::unknown_tables(&absent));
        }
        if absent.len() == names.len() {
            return Ok(DropOutcome {
                missing: absent,
                ..DropOutcome::default()
            });
        }
        let _barrier = self.barrier(cx, |catalog| {
            Ok(found(catalog)
                .iter()
                .flat_map(|t| foreign_key_relatives(t))
                .collect())
        })?;
        let mut spaces: Vec<SpaceId> = Vec::new();
        let mut absent = Vec::new();
        let mut gone: Vec<Arc<Table>> = Vec::new();
        let position = self.change_catalog(cx, |draft| {
            absent = missing(&draft.catalog);
            if !absent.is_empty() && !if_exists {
                return Err(errors::unknown_tables(&absent));
            }
            let tables = found(&draft.catalog);
            let ids: Vec<TableId> = tables.iter().map(|t| t.id).collect();
            for table in &tables {
                if cx.foreign_key_checks {
                    refuse_if_referenced(&draft.catalog, table, &ids)?;
                }
                draft.catalog.tables.remove(&table.id);
                if let Some(database) = draft.catalog.databases.get_mut(&table.database) {
                    Arc::make_mut(database).tables.remove(&table.name);
                }
                spaces.extend(table.all_spaces());
            }
            gone = tables;
            Ok(())
        })?;
        self.retire_spaces(&spaces);
        for table in &gone {
            self.forget_counters(table);
        }
        Ok(DropOutcome {
            position,
            missing: absent,
        })
    }

    /// TRUNCATE TABLE: replaces the spaces and the counter by new ones.
    pub fn truncate(&self, cx: &DdlCx<'_>, database: &str, name: &str) -> Result<DdlOutcome> {
        let find = |catalog: &Catalog| {
            let table = catalog.table(database, name).cloned();
            table.ok_or_else(|| errors::no_table(database, name))
        };
        let _barrier = self.barrier(cx, |catalog| Ok(foreign_key_relatives(&*find(catalog)?)))?;
        let table = find(&self.catalog())?;
        let outsider = table.referenced_by.iter().find(|(c, _)| *c != table.id);
        if let Some((child, at)) = outsider.filter(|_| cx.foreign_key_checks) {
            let catalog = self.catalog();
            let child = catalog.table_by_id(*child);
            let key = child.and_then(|c| Some((c, c.foreign_keys.get(*at)?)));
            let text = key.map_or_else(String::new, |(c, k)| {
                format!("{}, CONSTRAINT `{}`", c.quoted_name(), k.name)
            });
            return Err(errors::cannot_truncate(&text));
        }
        let mut fresh = table.definition().clone();
        let spaces = self.create_spaces_for(&mut fresh)?;
        let position = self.change_catalog(cx, |draft| {
            let version = draft.catalog.version + 1;
            let changed = draft.edit(table.id, |now| {
                now.indexes = fresh.indexes;
                now.overflow_spaces = fresh.overflow_spaces;
                now.counter = fresh.counter;
                now.incompatible_since = version;
            });
            changed.ok_or_else(|| errors::no_table(database, name))
        });
        let position = match position {
            Ok(position) => position,
            Err(error) => {
                self.abandon_spaces(&spaces, &error);
                return Err(error);
            }
        };
        let old: Vec<SpaceId> = table.all_spaces().collect();
        self.retire_spaces(&old);
        self.forget_counters(&table);
        Ok(DdlOutcome {
            position,
            ..DdlOutcome::default()
        })
    }
}

/// Returns the tables that gain or lose a foreign key with the new table: the parents it
/// references, and children that referenced its name before.
pub(super) fn future_relatives(catalog: &Catalog, spec: &TableSpec) -> Vec<TableId> {
    let parents = spec.foreign_keys.iter().filter_map(|k| {
        let database = k.parent_database.as_ref().unwrap_or(&spec.database);
        catalog.table(database, &k.parent_table)
    });
    let children = catalog.children_waiting_for(&spec.database, &spec.name);
    parents.chain(children).map(|t| t.id).collect()
}

/// Creates the table as specified, without spaces.
pub(super) fn draft_table(
    db: &Db,
    catalog: &Catalog,
    cx: &DdlCx<'_>,
    spec: &TableSpec,
    id: TableId,
) -> Result<TableDef> {
    let columns = columns::columns(&spec.columns, &spec.indexes)?;
    let mut options = spec.options.clone();
    options.created = cx.now;
    let mut table = TableDef {
        changing: Vec::new(),
        duplicates: None,
        unfinished: Default::default(),
        id,
        database: spec.database.clone(),
        name: spec.name.clone(),
        version: 1,
        incompatible_since: 0,
        next_column: u32::try_from(columns.len()).unwrap_or(u32::MAX),
        layouts: Vec::new(),
        columns,
        indexes: Vec::new(),
        foreign_keys: Vec::new(),
        checks: Vec::new(),
        hidden_key: false,
        counter: CounterId(0),
        options,
        partitioning: spec.placement.partitioning.clone(),
        overflow_spaces: Vec::new(),
        colocate: partition::colocation(catalog, spec)?,
        triggers: Arc::default(),
    };
    add_indexes(db, &mut table, spec)?;
    table.layouts = vec![columns::layout(1, &table.columns)];
    for wanted in &spec.foreign_keys {
        let key = foreign::foreign_key(catalog, &table, wanted, cx.foreign_key_checks)?;
        if let Some(index) = foreign::missing_index(&table, &key, wanted) {
            indexes::add(&mut table.indexes, &table.columns, &index, true)?;
        }
        table.foreign_keys.push(key);
    }
    for check in &spec.checks {
        checks::add(catalog, &mut table, check)?;
    }
    checks::validate(&table)?;
    ttl::validate(&table)?;
    indexes::sort(&mut table.indexes, &table.columns);
    partition::check(&table)?;
    check_waiting_children(catalog, &table)?;
    Ok(table)
}

/// Adds the indexes of a new table, the primary key first.
fn add_indexes(db: &Db, table: &mut TableDef, spec: &TableSpec) -> Result<()> {
    let declared = |i: &&super::IndexSpec| i.kind == IndexKind::Primary;
    match spec.indexes.iter().find(declared) {
        Some(primary) if primary.invisible => return Err(errors::primary_invisible()),
        Some(primary) => {
            let primary = key_parts::add_columns(db, table, primary)?;
            indexes::add(&mut table.indexes, &table.columns, &primary, false)?;
        }
        None => {
            table.hidden_key = true;
            table.indexes.push(indexes::hidden_primary());
        }
    }
    if spec.indexes.iter().filter(declared).count() > 1 {
        return Err(errors::two_primary_keys());
    }
    for index in spec.indexes.iter().filter(|i| !declared(i)) {
        let index = key_parts::add_columns(db, table, index)?;
        indexes::add(&mut table.indexes, &table.columns, &index, false)?;
    }
    if table
        .implicit_primary_key()
        .is_some_and(|index| index.invisible)
    {
        return Err(errors::primary_invisible());
    }
    Ok(())
}

/// Checks constraints that were created while this parent did not exist.
fn check_waiting_children(catalog: &Catalog, table: &TableDef) -> Result<()> {
    for child in catalog.children_waiting_for(&table.database, &table.name) {
        for key in &child.foreign_keys {
            if key.parent_database == table.database && key.parent_table == table.name {
                foreign::check_parent(child, table, key)?;
            }
        }
    }
    Ok(())
}

/// 3730 if a table outside `leaving` references `table`.
pub(super) fn refuse_if_referenced(
    catalog: &Catalog,
    table: &Table,
    leaving: &[TableId],
) -> Result<()> {
    for (child, at) in &table.referenced_by {
        if leaving.contains(child) {
            continue;
        }
        let child = catalog.table_by_id(*child);
        if let Some((child, key)) = child.and_then(|c| Some((c, c.foreign_keys.get(*at)?))) {
            return Err(errors::parent_in_use(&table.name, &key.name, &child.name));
        }
    }
    Ok(())
}
