//! The catalog on disk: rows of one catalog space (docs/formats.md, "Catalog").
//!
//! A database is one row, a table with all its columns, indexes and foreign
//! keys is one row. A DDL statement writes the rows it changes and the
//! catalog version in one transaction; recovery therefore finds either the
//! definition before or the one after.
//!
//! Invariants:
//! 1. Every row starts with [`CATALOG_FORMAT_VERSION`]; a newer one stops the
//!    start with a message, never a guess.
//! 2. Derived fields are not stored.

use super::{
    Catalog, CheckConstraint, CheckOption, Colocate, Column, ColumnDefault, ColumnId, Database,
    Expression, FkAction, ForeignKey, Generated, Index, IndexKind, IndexPart, IndexState,
    LayoutDef, Table, TableId, TableOptions,
};
use crate::bytes::{Reader, Writer};
use crate::error::{Error, Result};
use crate::layout::DerivedCell;
use porpoise_kv::{Check, CounterId, Key, Mark, Read, ScanRange, SpaceId, Txn, View};
use porpoise_types::Collation;
use std::ops::ControlFlow;
use std::sync::Arc;

/// Version of the rows of the catalog space.
pub const CATALOG_FORMAT_VERSION: u8 = 3;
/// The oldest version that is still read.
const OLDEST: u8 = 1;

/// The space that holds the catalog.
pub const CATALOG_SPACE: SpaceId = SpaceId(1);

/// Table numbers come from this counter; 1 is the row versions'.
pub const TABLE_IDS: CounterId = CounterId(2);

const KEY_META: u8 = 0;
const KEY_DATABASE: u8 = 1;
const KEY_TABLE: u8 = 2;
const KEY_VIEW: u8 = 3;

fn database_key(name: &str) -> Vec<u8> {
    let mut key = vec![KEY_DATABASE];
    key.extend_from_slice(name.as_bytes());
    key
}

/// No name holds a NUL.
fn view_key(database: &str, name: &str) -> Vec<u8> {
    let mut key = vec![KEY_VIEW];
    key.extend_from_slice(database.as_bytes());
    key.push(0);
    key.extend_from_slice(name.as_bytes());
    key
}

fn table_key(id: TableId) -> Vec<u8> {
    let mut key = vec![KEY_TABLE];
    key.extend_from_slice(&id.0.to_be_bytes());
    key
}

/// Reads the whole catalog as of now. An empty space is an empty catalog.
pub fn load(txn: &mut dyn Txn) -> Result<Catalog> {
    let mut catalog = Catalog::default();
    let mut failed = None;
    let range = ScanRange {
        space: CATALOG_SPACE,
        start: &[],
        end: None,
        reverse: false,
    };
    let read = Read {
        view: View::Current,
        mark: Mark::ALL,
        validate: false,
    };
    txn.scan(
        read,
        &[range],
        usize::MAX,
        &mut |_, key, value| match add_row(&mut catalog, key, value) {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => {
                failed = Some(error);
                ControlFlow::Break(())
            }
        },
    )?;
    if let Some(error) = failed {
        return Err(error);
    }
    link_names(&mut catalog)?;
    catalog.derive();
    Ok(catalog)
}

fn add_row(catalog: &mut Catalog, key: &[u8], value: &[u8]) -> Result<()> {
    let Some((kind, rest)) = key.split_first() else {
        return Err(Error::corrupt("an empty key in the catalog"));
    };
    let mut r = Reader::new(value);
    let version = r.u8()?;
    if !(OLDEST..=CATALOG_FORMAT_VERSION).contains(&version) {
        return Err(Error::corrupt(&format!(
            "catalog format version {version}; this server reads versions {OLDEST} to {CATALOG_FORMAT_VERSION}"
        )));
    }
    match *kind {
        KEY_META => catalog.version = r.u64()?,
        KEY_DATABASE => {
            let name = String::from_utf8_lossy(rest).into_owned();
            let database = Database {
                name: name.clone(),
                collation: Collation(r.u16()?),
                tables: Default::default(),
            };
            catalog.databases.insert(name, Arc::new(database));
        }
        KEY_TABLE => {
            let mut table = read_table(&mut r)?;
            if version >= 2 {
                read_placement(&mut r, &mut table)?;
            }
            if version >= 3 {
                read_expressions(&mut r, &mut table)?;
            }
            catalog.tables.insert(table.id, Arc::new(table));
        }
        KEY_VIEW => {
            let view = read_view(&mut r)?;
            let key = (view.database.clone(), view.name.clone());
            catalog.views.insert(key, Arc::new(view));
        }
        other => {
            return Err(Error::corrupt(&format!("catalog row of kind {other}")));
        }
    }
    Ok(())
}

fn link_names(catalog: &mut Catalog) -> Result<()> {
    let names: Vec<(String, String, TableId)> = catalog
        .tables
        .values()
        .map(|t| (t.database.clone(), t.name.clone(), t.id))
        .collect();
    for (database, name, id) in names {
        let Some(database) = catalog.databases.get_mut(&database) else {
            return Err(Error::corrupt(&format!(
                "table `{name}` of unknown database `{database}`"
            )));
        };
        Arc::make_mut(database).tables.insert(name, id);
    }
    Ok(())
}

/// Writes what differs between `old` and `new` and the new version number.
pub fn write_changes(txn: &mut dyn Txn, old: &Catalog, new: &Catalog) -> Result<()> {
    let mut w = Writer::new();
    w.u8(CATALOG_FORMAT_VERSION);
    w.u64(new.version);
    put(txn, &[KEY_META], Some(w.as_slice()))?;
    for (name, database) in &new.databases {
        let before = old.databases.get(name);
        if before.is_none_or(|b| b.collation != database.collation) {
            let mut w = Writer::new();
            w.u8(CATALOG_FORMAT_VERSION);
            w.u16(database.collation.0);
            put(txn, &database_key(name), Some(w.as_slice()))?;
        }
    }
    for name in old.databases.keys() {
        if !new.databases.contains_key(name) {
            put(txn, &database_key(name), None)?;
        }
    }
    for (id, table) in &new.tables {
        let before = old.tables.get(id);
        if before.is_none_or(|b| !Arc::ptr_eq(b, table)) {
            let mut w = Writer::new();
            w.u8(CATALOG_FORMAT_VERSION);
            write_table(&mut w, table);
            put(txn, &table_key(*id), Some(w.as_slice()))?;
        }
    }
    for ((database, name), view) in &new.views {
        let before = old.views.get(&(database.clone(), name.clone()));
        if before != Some(view) {
            let mut w = Writer::new();
            w.u8(CATALOG_FORMAT_VERSION);
            write_view(&mut w, view);
            put(txn, &view_key(database, name), Some(w.as_slice()))?;
        }
    }
    for (database, name) in old.views.keys() {
        let key = (database.clone(), name.clone());
        if !new.views.contains_key(&key) {
            put(txn, &view_key(database, name), None)?;
        }
    }
    for id in old.tables.keys() {
        if !new.tables.contains_key(id) {
            put(txn, &table_key(*id), None)?;
        }
    }
    Ok(())
}

/// The catalog is changed by one statement at a time (the caller holds the
/// lock on its version row), so its rows need no locks of their own.
fn put(txn: &mut dyn Txn, key: &[u8], value: Option<&[u8]>) -> Result<()> {
    let key = Key::new(CATALOG_SPACE, key);
    match value {
        Some(value) => txn.put(key, value, Check::Blind)?,
        None => txn.delete(key, Check::Blind)?,
    }
    Ok(())
}

/// The key of the row that serializes changes of the catalog.
pub fn version_key() -> Key<'static> {
    Key::new(CATALOG_SPACE, &[KEY_META])
}

fn write_table(w: &mut Writer, t: &Table) {
    w.u64(t.id.0);
    w.str(&t.database);
    w.str(&t.name);
    w.u32(t.version);
    w.u64(t.incompatible_since);
    w.u32(t.next_column);
    w.bool(t.hidden_key);
    w.u64(t.counter.0);
    w.list(&t.columns, write_column);
    w.list(&t.indexes, write_index);
    w.list(&t.foreign_keys, write_foreign_key);
    w.list(&t.layouts, |w, layout| {
        w.u32(layout.version);
        w.list(&layout.columns, |w, (id, ty)| {
            w.u32(id.0);
            w.column_type(ty);
        });
    });
    let o = &t.options;
    w.str(&o.engine);
    w.u16(o.collation.0);
    w.str(&o.comment);
    w.bool(o.memory);
    w.list(&o.other, |w, (name, text)| {
        w.str(name);
        w.str(text);
    });
    w.i64(o.created);
    write_placement(w, t);
    write_expressions(w, t);
}

fn write_view(w: &mut Writer, v: &super::View) {
    w.str(&v.database);
    w.str(&v.name);
    w.str(&v.query);
    w.list(&v.columns, |w, c| w.str(c));
    w.str(&v.algorithm);
    w.u8(match v.check {
        CheckOption::None => 0,
        CheckOption::Local => 1,
        CheckOption::Cascaded => 2,
    });
    w.str(&v.definer);
    w.bool(v.invoker);
    w.str(&v.charset);
    w.str(&v.collation);
}

fn read_view(r: &mut Reader<'_>) -> Result<super::View> {
    Ok(super::View {
        database: r.str()?,
        name: r.str()?,
        query: r.str()?,
        columns: r.list(|r| r.str())?,
        algorithm: r.str()?,
        check: match r.u8()? {
            0 => CheckOption::None,
            1 => CheckOption::Local,
            2 => CheckOption::Cascaded,
            other => return Err(Error::corrupt(&format!("check option {other}"))),
        },
        definer: r.str()?,
        invoker: r.bool()?,
        charset: r.str()?,
        collation: r.str()?,
    })
}

fn write_expression(w: &mut Writer, e: &Expression) {
    w.str(&e.text);
    w.list(&e.columns, |w, c| w.str(c));
}

fn read_expression(r: &mut Reader<'_>) -> Result<Expression> {
    Ok(Expression {
        text: r.str()?,
        columns: r.list(|r| r.str())?,
    })
}

/// Defaults and generated columns by position, checks: since format 3.
fn write_expressions(w: &mut Writer, t: &Table) {
    let of_column = |c: &Column| match (&c.generated, &c.default) {
        (Some(g), _) => Some((1 + u8::from(g.stored), g.expression.clone())),
        (None, ColumnDefault::Expr(e)) => Some((0, e.clone())),
        _ => None,
    };
    let columns: Vec<(usize, (u8, Expression))> = t
        .columns
        .iter()
        .enumerate()
        .filter_map(|(at, c)| Some((at, of_column(c)?)))
        .collect();
    w.list(&columns, |w, (at, (kind, e))| {
        w.u32(u32::try_from(*at).unwrap_or(u32::MAX));
        w.u8(*kind);
        write_expression(w, e);
    });
    w.list(&t.checks, |w, c| {
        w.str(&c.name);
        write_expression(w, &c.expression);
        w.bool(c.enforced);
    });
}

fn read_expressions(r: &mut Reader<'_>, t: &mut Table) -> Result<()> {
    let columns = r.list(|r| Ok((r.u32()? as usize, r.u8()?, read_expression(r)?)))?;
    for (at, kind, expression) in columns {
        let Some(column) = t.columns.get_mut(at) else {
            return Err(Error::corrupt("an expression of no column"));
        };
        match kind {
            0 => column.default = ColumnDefault::Expr(expression),
            1 | 2 => {
                column.generated = Some(Generated {
                    expression,
                    stored: kind == 2,
                });
            }
            other => return Err(Error::corrupt(&format!("expression of kind {other}"))),
        }
    }
    t.checks = r.list(|r| {
        Ok(CheckConstraint {
            name: r.str()?,
            expression: read_expression(r)?,
            enforced: r.bool()?,
        })
    })?;
    Ok(())
}

/// Partitioning, parts and co-location: since format 2.
fn write_placement(w: &mut Writer, t: &Table) {
    crate::partition::persist::write(w, &t.partitioning);
    w.list(&t.parts, |w, space| w.u64(space.0));
    w.bool(t.colocate.is_some());
    if let Some(c) = &t.colocate {
        w.str(&c.with);
        w.u64(c.group);
    }
}

fn read_placement(r: &mut Reader<'_>, t: &mut Table) -> Result<()> {
    t.partitioning = crate::partition::persist::read(r)?;
    t.parts = r.list(|r| Ok(SpaceId(r.u64()?)))?;
    if r.bool()? {
        t.colocate = Some(Colocate {
            with: r.str()?,
            group: r.u64()?,
        });
    }
    Ok(())
}

fn read_table(r: &mut Reader<'_>) -> Result<Table> {
    let id = TableId(r.u64()?);
    Ok(Table {
        id,
        database: r.str()?,
        name: r.str()?,
        version: r.u32()?,
        incompatible_since: r.u64()?,
        next_column: r.u32()?,
        hidden_key: r.bool()?,
        counter: CounterId(r.u64()?),
        columns: r.list(read_column)?,
        indexes: r.list(read_index)?,
        foreign_keys: r.list(read_foreign_key)?,
        checks: Vec::new(),
        layouts: r.list(|r| {
            Ok(LayoutDef {
                version: r.u32()?,
                columns: r.list(|r| Ok((ColumnId(r.u32()?), r.column_type()?)))?,
            })
        })?,
        options: TableOptions {
            engine: r.str()?,
            collation: Collation(r.u16()?),
            comment: r.str()?,
            memory: r.bool()?,
            other: r.list(|r| Ok((r.str()?, r.str()?)))?,
            created: r.i64()?,
        },
        partitioning: None,
        parts: Vec::new(),
        colocate: None,
        referenced_by: Vec::new(),
        write_set: Arc::from([id]),
        derived: DerivedCell::default(),
    })
}

fn write_column(w: &mut Writer, c: &Column) {
    w.u32(c.id.0);
    w.str(&c.name);
    w.column_type(&c.ty);
    w.bool(c.nullable);
    match &c.default {
        // An expression follows behind the rest of the table.
        ColumnDefault::None | ColumnDefault::Expr(_) => w.u8(0),
        ColumnDefault::Null => w.u8(1),
        ColumnDefault::Literal(value) => {
            w.u8(2);
            w.value(value);
        }
        ColumnDefault::Now => w.u8(3),
    }
    w.bool(c.on_update_now);
    w.bool(c.auto_increment);
    w.str(&c.comment);
    w.value(&c.backfill);
    w.bool(c.explicit_collation);
}

fn read_column(r: &mut Reader<'_>) -> Result<Column> {
    Ok(Column {
        id: ColumnId(r.u32()?),
        name: r.str()?,
        ty: r.column_type()?,
        nullable: r.bool()?,
        default: match r.u8()? {
            0 => ColumnDefault::None,
            1 => ColumnDefault::Null,
            2 => ColumnDefault::Literal(r.value()?),
            3 => ColumnDefault::Now,
            other => return Err(Error::corrupt(&format!("column default of kind {other}"))),
        },
        on_update_now: r.bool()?,
        auto_increment: r.bool()?,
        comment: r.str()?,
        backfill: r.value()?,
        explicit_collation: r.bool()?,
        generated: None,
    })
}

fn write_index(w: &mut Writer, i: &Index) {
    w.u32(i.id);
    w.str(&i.name);
    w.u8(match i.kind {
        IndexKind::Primary => 0,
        IndexKind::Unique => 1,
        IndexKind::Plain => 2,
    });
    w.list(&i.parts, |w, part| {
        w.u32(u32::try_from(part.column).unwrap_or(u32::MAX));
        w.u32(part.prefix.unwrap_or(0));
        w.bool(part.desc);
    });
    w.list(&i.spaces, |w, space| w.u64(space.0));
    w.u8(match i.state {
        IndexState::Building => 0,
        IndexState::Public => 1,
    });
    w.bool(i.using_hash);
    w.bool(i.implicit);
    w.str(&i.comment);
    w.bool(i.invisible);
}

fn read_index(r: &mut Reader<'_>) -> Result<Index> {
    Ok(Index {
        id: r.u32()?,
        name: r.str()?,
        kind: match r.u8()? {
            0 => IndexKind::Primary,
            1 => IndexKind::Unique,
            2 => IndexKind::Plain,
            other => return Err(Error::corrupt(&format!("index of kind {other}"))),
        },
        parts: r.list(|r| {
            Ok(IndexPart {
                column: r.u32()? as usize,
                prefix: Some(r.u32()?).filter(|p| *p != 0),
                desc: r.bool()?,
            })
        })?,
        spaces: r.list(|r| Ok(SpaceId(r.u64()?)))?,
        state: match r.u8()? {
            0 => IndexState::Building,
            1 => IndexState::Public,
            other => return Err(Error::corrupt(&format!("index state {other}"))),
        },
        using_hash: r.bool()?,
        implicit: r.bool()?,
        comment: r.str()?,
        invisible: r.bool()?,
    })
}

fn write_foreign_key(w: &mut Writer, k: &ForeignKey) {
    w.str(&k.name);
    w.list(&k.columns, |w, c| {
        w.u32(u32::try_from(*c).unwrap_or(u32::MAX));
    });
    w.str(&k.parent_database);
    w.str(&k.parent_table);
    w.list(&k.parent_columns, |w, c| w.str(c));
    w.u8(action_code(k.on_delete));
    w.u8(action_code(k.on_update));
}

fn read_foreign_key(r: &mut Reader<'_>) -> Result<ForeignKey> {
    Ok(ForeignKey {
        name: r.str()?,
        columns: r.list(|r| Ok(r.u32()? as usize))?,
        parent_database: r.str()?,
        parent_table: r.str()?,
        parent_columns: r.list(|r| r.str())?,
        on_delete: action_of(r.u8()?)?,
        on_update: action_of(r.u8()?)?,
        child_index: 0,
        parent: None,
    })
}

fn action_code(action: FkAction) -> u8 {
    match action {
        FkAction::NoAction => 0,
        FkAction::Restrict => 1,
        FkAction::Cascade => 2,
        FkAction::SetNull => 3,
    }
}

fn action_of(code: u8) -> Result<FkAction> {
    Ok(match code {
        0 => FkAction::NoAction,
        1 => FkAction::Restrict,
        2 => FkAction::Cascade,
        3 => FkAction::SetNull,
        other => return Err(Error::corrupt(&format!("foreign key action {other}"))),
    })
}
