//! The record of one table in the catalog. Fields of later formats follow those of earlier ones.

use crate::bytes::{Reader, Writer};
use crate::definition::{
    CheckConstraint, Colocate, Column, ColumnDefault, ColumnId, Expression, FkAction, ForeignKey,
    FullText, Generated, GeneratedKind, Index, IndexKind, IndexPart, IndexState, LayoutDef,
    TEXT_ENTRY_FORMAT_VERSION, TableDef, TableId, TableOptions, UnfinishedChange,
};
use crate::error::{Error, Result};
use crate::ttl::{Lifetime, Ttl, TtlUnit};
use porpoise_kv::{CounterId, SpaceId};
use porpoise_types::Collation;
use porpoise_types::full_text::TextParser;
use std::sync::Arc;

/// Appends the record of a table.
pub(super) fn write_table(w: &mut Writer, t: &TableDef) {
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
    write_full_text(w, t);
    write_invisible_columns(w, t);
    write_ttl(w, t);
    write_changing(w, t);
    write_unfinished(w, &t.unfinished);
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

/// Defaults and generated columns by position, checks: since format 3; functional key parts since
/// format 4, multi-valued ones since format 5.
fn write_expressions(w: &mut Writer, t: &TableDef) {
    let of_column = |c: &Column| match (&c.generated, &c.default) {
        (Some(g), _) => Some((generated_code(g.kind), g.expression.clone())),
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

fn read_expressions(r: &mut Reader<'_>, t: &mut TableDef) -> Result<()> {
    let columns = r.list(|r| Ok((r.u32()? as usize, r.u8()?, read_expression(r)?)))?;
    for (at, kind, expression) in columns {
        let Some(column) = t.columns.get_mut(at) else {
            return Err(Error::corrupt(
                "an expression for a column that does not exist",
            ));
        };
        match kind {
            0 => column.default = ColumnDefault::Expr(expression),
            code => {
                let kind = generated_of(code)?;
                column.generated = Some(Generated { expression, kind });
            }
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

fn generated_code(kind: GeneratedKind) -> u8 {
    match kind {
        GeneratedKind::Virtual => 1,
        GeneratedKind::Stored => 2,
        GeneratedKind::KeyPart => 3,
        GeneratedKind::ArrayPart => 4,
    }
}

fn generated_of(code: u8) -> Result<GeneratedKind> {
    Ok(match code {
        1 => GeneratedKind::Virtual,
        2 => GeneratedKind::Stored,
        3 => GeneratedKind::KeyPart,
        4 => GeneratedKind::ArrayPart,
        other => return Err(Error::corrupt(&format!("expression of kind {other}"))),
    })
}

/// Partitioning, the spaces of overflow values, and co-location: since format 2.
fn write_placement(w: &mut Writer, t: &TableDef) {
    crate::partition::persist::write(w, &t.partitioning);
    w.list(&t.overflow_spaces, |w, space| w.u64(space.0));
    w.bool(t.colocate.is_some());
    if let Some(c) = &t.colocate {
        w.str(&c.with);
        w.u64(c.group);
    }
}

fn read_placement(r: &mut Reader<'_>, t: &mut TableDef) -> Result<()> {
    t.partitioning = crate::partition::persist::read(r)?;
    t.overflow_spaces = r.list(|r| Ok(SpaceId(r.u64()?)))?;
    if r.bool()? {
        t.colocate = Some(Colocate {
            with: r.str()?,
            group: r.u64()?,
        });
    }
    Ok(())
}

/// Reads the record of a table, written in a format version.
pub(super) fn read_table(r: &mut Reader<'_>, version: u8) -> Result<TableDef> {
    let mut table = read_first_format(r)?;
    if version >= 2 {
        read_placement(r, &mut table)?;
    }
    if version >= 3 {
        read_expressions(r, &mut table)?;
    }
    if version >= 7 {
        read_full_text(r, &mut table)?;
    }
    if version >= 8 {
        read_invisible_columns(r, &mut table)?;
    }
    if version >= 9 {
        read_ttl(r, &mut table)?;
    }
    if version >= 10 {
        read_changing(r, &mut table)?;
    }
    if version >= 11 {
        table.unfinished = read_unfinished(r)?;
    }
    Ok(table)
}

fn read_first_format(r: &mut Reader<'_>) -> Result<TableDef> {
    let id = TableId(r.u64()?);
    Ok(TableDef {
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
            ttl: None,
        },
        partitioning: None,
        overflow_spaces: Vec::new(),
        colocate: None,
        triggers: Default::default(),
        changing: Vec::new(),
        duplicates: None,
        unfinished: UnfinishedChange::default(),
    })
}

/// The indexes of an unfinished schema change: since format 10.
fn write_changing(w: &mut Writer, t: &TableDef) {
    w.list(&t.changing, write_index);
    w.u64(t.duplicates.map_or(0, |space| space.0));
}

fn read_changing(r: &mut Reader<'_>, t: &mut TableDef) -> Result<()> {
    t.changing = r.list(read_index)?;
    // Space 0 does not exist.
    t.duplicates = Some(SpaceId(r.u64()?)).filter(|space| space.0 != 0);
    Ok(())
}

/// The objects of an unfinished schema change: since format 11.
fn write_unfinished(w: &mut Writer, unfinished: &UnfinishedChange) {
    w.list(&unfinished.indexes, |w, id| w.u32(*id));
    let names = [
        &unfinished.foreign_keys,
        &unfinished.checks,
        &unfinished.enforced_checks,
    ];
    for names in names {
        w.list(names, |w, name| w.str(name));
    }
    w.u64(unfinished.changed_rows.map_or(0, |space| space.0));
}

fn read_unfinished(r: &mut Reader<'_>) -> Result<UnfinishedChange> {
    Ok(UnfinishedChange {
        indexes: r.list(|r| r.u32())?,
        foreign_keys: r.list(|r| r.str())?,
        checks: r.list(|r| r.str())?,
        enforced_checks: r.list(|r| r.str())?,
        // Space 0 does not exist.
        changed_rows: Some(SpaceId(r.u64()?)).filter(|space| space.0 != 0),
    })
}

fn write_column(w: &mut Writer, c: &Column) {
    w.u32(c.id.0);
    w.str(&c.name);
    w.column_type(&c.ty);
    w.bool(c.nullable);
    match &c.default {
        // An expression is written after the rest of the table.
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
        invisible: false,
    })
}

fn write_index(w: &mut Writer, i: &Index) {
    w.u32(i.id);
    w.str(&i.name);
    w.u8(match i.kind {
        IndexKind::Primary => 0,
        IndexKind::Unique => 1,
        IndexKind::Plain => 2,
        IndexKind::FullText => 3,
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
        IndexState::DeleteOnly => 2,
        IndexState::Enforced => 3,
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
            // Its settings follow after the rest of the table.
            3 => IndexKind::FullText,
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
            2 => IndexState::DeleteOnly,
            3 => IndexState::Enforced,
            other => return Err(Error::corrupt(&format!("index state {other}"))),
        },
        using_hash: r.bool()?,
        implicit: r.bool()?,
        comment: r.str()?,
        invisible: r.bool()?,
        full_text: None,
    })
}

/// Settings of the FULLTEXT indexes by position: since format 7.
fn write_full_text(w: &mut Writer, t: &TableDef) {
    let indexes = t.indexes.iter().enumerate();
    let settings = indexes.filter_map(|(at, index)| Some((at, index.full_text.clone()?)));
    let settings: Vec<(usize, Arc<FullText>)> = settings.collect();
    w.list(&settings, |w, (at, settings)| {
        w.u32(u32::try_from(*at).unwrap_or(u32::MAX));
        // Sequences of no characters are words.
        w.u32(match settings.parser {
            TextParser::Words => 0,
            TextParser::Ngrams(size) => size,
        });
        w.u32(settings.min_chars);
        w.u32(settings.max_chars);
        // The first version of entries had a truth value here.
        let version = settings.entry_version.saturating_sub(1);
        w.u8(version << 1 | u8::from(settings.stopwords.is_some()));
        if let Some(words) = &settings.stopwords {
            w.list(words, |w, word| w.str(word));
        }
    });
}

fn read_full_text(r: &mut Reader<'_>, t: &mut TableDef) -> Result<()> {
    let settings = r.list(|r| {
        let at = r.u32()? as usize;
        let parser = match r.u32()? {
            0 => TextParser::Words,
            size => TextParser::Ngrams(size),
        };
        let (min_chars, max_chars) = (r.u32()?, r.u32()?);
        let flags = r.u8()?;
        let entry_version = (flags >> 1) + 1;
        if entry_version > TEXT_ENTRY_FORMAT_VERSION {
            return Err(Error::Corrupt(format!(
                "entries of a FULLTEXT index are of format version {entry_version}; this server reads versions 1 to {TEXT_ENTRY_FORMAT_VERSION}"
            )));
        }
        let stopwords = if flags & 1 == 1 {
            Some(r.list(|r| r.str())?)
        } else {
            None
        };
        let settings = FullText {
            parser,
            min_chars,
            max_chars,
            stopwords,
            entry_version,
        };
        Ok((at, settings))
    })?;
    for (at, settings) in settings {
        if let Some(index) = t.indexes.get_mut(at) {
            index.full_text = Some(Arc::new(settings));
        }
    }
    // FULLTEXT indexes have settings, others have none.
    let is_inconsistent = |i: &Index| i.is_full_text() != i.full_text.is_some();
    if t.indexes.iter().any(is_inconsistent) {
        return Err(Error::corrupt("settings that do not suit an index"));
    }
    Ok(())
}

/// Positions of the INVISIBLE columns: since format 8.
fn write_invisible_columns(w: &mut Writer, t: &TableDef) {
    let columns = t.columns.iter().enumerate();
    let invisible: Vec<usize> = columns
        .filter(|(_, c)| c.invisible)
        .map(|(at, _)| at)
        .collect();
    w.list(&invisible, |w, at| {
        w.u32(u32::try_from(*at).unwrap_or(u32::MAX));
    });
}

fn read_invisible_columns(r: &mut Reader<'_>, t: &mut TableDef) -> Result<()> {
    for at in r.list(|r| Ok(r.u32()? as usize))? {
        let Some(column) = t.columns.get_mut(at) else {
            return Err(Error::corrupt("an INVISIBLE column that does not exist"));
        };
        column.invisible = true;
    }
    Ok(())
}

/// Time to live: since format 9.
fn write_ttl(w: &mut Writer, t: &TableDef) {
    w.bool(t.options.ttl.is_some());
    if let Some(ttl) = &t.options.ttl {
        w.str(&ttl.column);
        w.u32(ttl.lifetime.amount);
        let code = TtlUnit::ALL.iter().position(|u| *u == ttl.lifetime.unit);
        w.u8(code
            .and_then(|code| u8::try_from(code).ok())
            .unwrap_or(u8::MAX));
        w.bool(ttl.enabled);
        w.str(&ttl.job_interval);
    }
}

fn read_ttl(r: &mut Reader<'_>, t: &mut TableDef) -> Result<()> {
    if !r.bool()? {
        return Ok(());
    }
    let column = r.str()?;
    let amount = r.u32()?;
    let code = r.u8()?;
    let Some(unit) = TtlUnit::ALL.get(usize::from(code)).copied() else {
        return Err(Error::corrupt(&format!("TTL unit {code}")));
    };
    t.options.ttl = Some(Ttl {
        column,
        lifetime: Lifetime { amount, unit },
        enabled: r.bool()?,
        job_interval: r.str()?,
    });
    Ok(())
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
