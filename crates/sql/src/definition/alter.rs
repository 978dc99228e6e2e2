//! ALTER TABLE: converts clauses to operations.

use super::expressions::{self, check};
use super::partition::may_be_combined;
use super::{Naming, column, default, foreign_key, index, is_engine};
use crate::context::StatementContext;
use crate::table_expressions::ExpressionOwner;
use porpoise_rows::catalog::{CheckConstraint, ColumnDefault, ForeignKey, Index, Table};
use porpoise_rows::ddl::{Algorithm, AlterOp, ColumnSpec, LockLevel, Position};
use porpoise_rows::ttl::TtlChange;
use porpoise_sql_expr::error::{Result, SqlError};
use porpoise_sql_parser::ast::{
    AlterAction, AlterTable, ColumnDef, ColumnPosition, Expr, Ident, OptionValue, TableElement,
    TableOption,
};
use porpoise_types::Collation;
use std::sync::Arc;

/// The operations of an ALTER TABLE.
///
/// # Errors
/// 1146 if the table does not exist, 1235 for unsupported clauses.
pub fn operations(
    cx: &StatementContext,
    database: &str,
    name: &str,
    alter: &AlterTable<'_>,
) -> Result<Vec<AlterOp>> {
    let catalog = cx.catalog();
    let table = catalog.table(database, name);
    let table = table.ok_or_else(|| SqlError::no_table(database, name))?;
    let mut converter = ClauseConverter {
        cx,
        table,
        table_collation: table.options.collation,
        ops: Vec::with_capacity(alter.actions.len()),
    };
    converter.convert_charset_clauses(alter.actions)?;
    converter.convert_ttl_clauses(alter.actions)?;
    for action in alter.actions {
        converter.convert(action)?;
    }
    Ok(converter.ops)
}

/// Converter of the clauses of one ALTER TABLE.
struct ClauseConverter<'a> {
    cx: &'a StatementContext,
    table: &'a Arc<Table>,
    /// Collation of added columns that have no character set.
    table_collation: Collation,
    /// The operations so far.
    ops: Vec<AlterOp>,
}

impl ClauseConverter<'_> {
    fn convert(&mut self, action: &AlterAction<'_>) -> Result<()> {
        let op = match action {
            AlterAction::AddColumn(def, to) => return self.add_column(def, *to),
            AlterAction::AddElements(elements) => return self.add_elements(elements),
            // Added by the caller: partitioning depends on the table as the other clauses leave it.
            action if may_be_combined(action) => return Ok(()),
            AlterAction::DropColumn(name) => AlterOp::DropColumn(name.name.to_owned()),
            AlterAction::ModifyColumn(def, to) => return self.change_column(def.name, def, *to),
            AlterAction::ChangeColumn(old, def, to) => return self.change_column(*old, def, *to),
            AlterAction::RenameColumn(old, new) => {
                AlterOp::RenameColumn(old.name.to_owned(), new.name.to_owned())
            }
            AlterAction::SetDefault(name, value) => self.set_default(name.name, value)?,
            AlterAction::SetColumnVisible(name, visible) => {
                AlterOp::SetColumnVisible(name.name.to_owned(), *visible)
            }
            AlterAction::DropDefault(name) => AlterOp::SetDefault(name.name.to_owned(), None, None),
            AlterAction::AddIndex(def) => AlterOp::AddIndex(index(self.cx, def)?),
            AlterAction::AddForeignKey(def) => AlterOp::AddForeignKey(foreign_key(def)?),
            AlterAction::DropIndex(name) => AlterOp::DropIndex(name.name.to_owned()),
            AlterAction::DropPrimaryKey => AlterOp::DropPrimaryKey,
            AlterAction::DropForeignKey(name) => AlterOp::DropForeignKey(name.name.to_owned()),
            AlterAction::AddCheck(def) => AlterOp::AddCheck(check(def, None)?),
            AlterAction::DropCheck(name) => AlterOp::DropCheck(name.name.to_owned()),
            AlterAction::SetCheckEnforced(name, enforced) => {
                AlterOp::SetCheckEnforced(name.name.to_owned(), *enforced)
            }
            AlterAction::DropConstraint(name) => drop_constraint(self.table, name.name)?,
            AlterAction::RenameIndex(old, new) => {
                AlterOp::RenameIndex(old.name.to_owned(), new.name.to_owned())
            }
            AlterAction::SetIndexVisible(name, visible) => {
                AlterOp::SetIndexVisible(name.name.to_owned(), *visible)
            }
            AlterAction::Rename(to) => {
                let (database, name) = match to.schema {
                    Some(_) => self.cx.qualified(to)?,
                    None => (self.table.database.clone(), to.name.name.to_owned()),
                };
                if (&database, &name) == (&self.table.database, &self.table.name) {
                    return Ok(());
                }
                AlterOp::RenameTo(database, name)
            }
            AlterAction::RemoveTtl => AlterOp::RemoveTtl,
            AlterAction::Option(option) => return self.option(option),
            AlterAction::EnableKeys(_) => {
                let name = &self.table.name;
                let text = format!("Table storage engine for '{name}' doesn't have this option");
                self.cx.note(1031, text);
                return Ok(());
            }
            AlterAction::Force => AlterOp::Force,
            AlterAction::Algorithm(name) => match algorithm(name)? {
                Some(algorithm) => AlterOp::Algorithm(algorithm),
                None => return Ok(()),
            },
            AlterAction::Lock(name) => match lock(name)? {
                Some(level) => AlterOp::Lock(level),
                None => return Ok(()),
            },
            AlterAction::ConvertCharset(..)
            | AlterAction::Validation(_)
            | AlterAction::OrderBy(_) => return Ok(()),
            other => return Err(SqlError::not_supported(unsupported_clause(other))),
        };
        self.ops.push(op);
        Ok(())
    }

    /// The column, and the operations that add the index and CHECK constraints of its attributes.
    fn column(&self, def: &ColumnDef<'_>) -> Result<(ColumnSpec, Vec<AlterOp>)> {
        let resolved = column(self.cx, def, self.table_collation)?;
        let index = resolved.index.map(AlterOp::AddIndex);
        let checks = resolved.checks.into_iter().map(AlterOp::AddCheck);
        Ok((resolved.spec, index.into_iter().chain(checks).collect()))
    }

    fn add_column(&mut self, def: &ColumnDef<'_>, to: ColumnPosition<'_>) -> Result<()> {
        let (spec, constraints) = self.column(def)?;
        self.ops.push(AlterOp::AddColumn(spec, position(to)));
        self.ops.extend(constraints);
        Ok(())
    }

    fn add_elements(&mut self, elements: &[TableElement<'_>]) -> Result<()> {
        for element in elements {
            match element {
                TableElement::Index(def) => self.ops.push(AlterOp::AddIndex(index(self.cx, def)?)),
                TableElement::ForeignKey(def) => {
                    self.ops.push(AlterOp::AddForeignKey(foreign_key(def)?));
                }
                TableElement::Column(def) => self.add_column(def, ColumnPosition::Default)?,
                TableElement::Check(def) => self.ops.push(AlterOp::AddCheck(check(def, None)?)),
            }
        }
        Ok(())
    }

    fn change_column(
        &mut self,
        old: Ident<'_>,
        def: &ColumnDef<'_>,
        to: ColumnPosition<'_>,
    ) -> Result<()> {
        let (spec, constraints) = self.column(def)?;
        let old = old.name.to_owned();
        self.ops
            .push(AlterOp::ChangeColumn(old, spec, position(to)));
        self.ops.extend(constraints);
        Ok(())
    }

    fn set_default(&self, name: &str, value: &Expr<'_>) -> Result<AlterOp> {
        let column = self.table.column(name);
        let column = column.and_then(|at| self.table.columns.get(at));
        let Some(column) = column else {
            let text = format!("Unknown column '{name}' in '{}'", self.table.name);
            return Err(SqlError::new(1054, "42S22", text));
        };
        let spec = ColumnSpec {
            name: column.name.clone(),
            ty: column.ty.clone(),
            nullable: Some(column.nullable),
            default: None,
            on_update_now: false,
            auto_increment: false,
            comment: String::new(),
            explicit_collation: false,
            generated: None,
            invisible: false,
        };
        if column.generated.is_some() {
            return Err(super::check_generated_attributes(&ColumnSpec {
                default: Some(ColumnDefault::Null),
                ..spec
            })
            .map_or_else(|e| e, |()| SqlError::internal("no generated column")));
        }
        let value = if expressions::is_literal(value) {
            default(self.cx, value, &spec)?
        } else {
            let owner = ExpressionOwner::Default(&column.name);
            ColumnDefault::Expr(expressions::expression(value, owner)?)
        };
        Ok(AlterOp::SetDefault(
            name.to_owned(),
            Some(spec.ty),
            Some(value),
        ))
    }

    fn option(&mut self, option: &TableOption<'_>) -> Result<()> {
        let op = match option {
            TableOption::AutoIncrement(n) => AlterOp::SetAutoIncrement(*n),
            TableOption::Comment(comment) => {
                AlterOp::SetComment(super::table_comment(self.cx, &self.table.name, comment)?)
            }
            TableOption::Engine(name) if is_engine(name.name) => {
                let engine = super::engine(self.cx, &self.table.name, name.name)?;
                if engine == self.table.options.engine {
                    // In MySQL this reclaims space; here there is none to reclaim.
                    return Ok(());
                }
                AlterOp::SetEngine(engine)
            }
            TableOption::Engine(name) => {
                let text = format!("Unknown storage engine '{}'", name.name);
                return Err(SqlError::new(1286, "42000", text));
            }
            // `convert_charset_clauses` has processed these together, before the other clauses.
            TableOption::Charset(_) | TableOption::Collate(_) => return Ok(()),
            TableOption::Colocate(_) => {
                return Err(SqlError::not_supported("changing COLOCATE WITH"));
            }
            TableOption::Union(_) => return Ok(()),
            // `convert_ttl_clauses` has processed these together.
            TableOption::Ttl(..) | TableOption::TtlEnable(_) | TableOption::TtlJobInterval(_) => {
                return Ok(());
            }
            TableOption::RowFormat(name) => {
                let value = name.name.to_ascii_uppercase();
                let value = Some(value).filter(|v| v != "DEFAULT");
                AlterOp::SetOption("ROW_FORMAT".to_owned(), value)
            }
            TableOption::Other(name, value) => return self.other_option(name, value),
        };
        self.ops.push(op);
        Ok(())
    }

    fn other_option(&mut self, name: &str, value: &OptionValue<'_>) -> Result<()> {
        let mut options = self.table.options.clone();
        options.other.clear();
        super::other_option(name, value, &mut options)?;
        if name == "CONNECTION" && options.other.is_empty() {
            self.ops.push(AlterOp::SetOption(name.to_owned(), None));
        }
        let set = options.other.into_iter();
        self.ops
            .extend(set.map(|(name, value)| AlterOp::SetOption(name, Some(value))));
        Ok(())
    }

    /// Converts TTL, TTL_ENABLE and TTL_JOB_INTERVAL: one change.
    fn convert_ttl_clauses(&mut self, actions: &[AlterAction<'_>]) -> Result<()> {
        let mut change = TtlChange::default();
        for action in actions {
            if let AlterAction::Option(option) = action {
                super::ttl::record(option, &mut change)?;
            }
        }
        if change != TtlChange::default() {
            self.ops.push(AlterOp::SetTtl(change));
        }
        Ok(())
    }

    /// Converts CHARACTER SET, COLLATE and CONVERT TO: the defaults that new columns inherit.
    fn convert_charset_clauses(&mut self, actions: &[AlterAction<'_>]) -> Result<()> {
        let (mut charset, mut collation, mut converts) = (None, None, false);
        for action in actions {
            match action {
                AlterAction::Option(TableOption::Charset(name)) => charset = Some(*name),
                AlterAction::Option(TableOption::Collate(name)) => collation = *name,
                AlterAction::ConvertCharset(name, with) => {
                    charset = Some(*name);
                    collation = with.or(collation);
                    converts = true;
                }
                _ => {}
            }
        }
        let collation = collation
            .map(|c| super::collation_named(c.name))
            .transpose()?;
        let new = match (charset, collation) {
            (Some(Some(name)), collation) => {
                let charset = porpoise_sql_plan::bind::expr::charset_named(name.name)?;
                match collation {
                    Some(c) if c.charset() != charset => {
                        return Err(super::collation_mismatch(c, charset));
                    }
                    Some(collation) => collation,
                    None => self.cx.collation_for(charset),
                }
            }
            (_, Some(collation)) => collation,
            (Some(None), None) => Naming::of(self.cx, &self.table.database)?.collation,
            (None, None) => return Ok(()),
        };
        self.table_collation = new;
        self.ops.push(if converts {
            AlterOp::ConvertCollation(new)
        } else {
            AlterOp::SetCollation(new)
        });
        Ok(())
    }
}

fn position(to: ColumnPosition<'_>) -> Position {
    match to {
        ColumnPosition::Default => Position::Default,
        ColumnPosition::First => Position::First,
        ColumnPosition::After(name) => Position::After(name.name.to_owned()),
    }
}

/// ALGORITHM; `None` for DEFAULT.
///
/// # Errors
/// 1800 for an unknown algorithm.
pub fn algorithm(name: &Ident<'_>) -> Result<Option<Algorithm>> {
    Ok(match name.name.to_ascii_uppercase().as_str() {
        "DEFAULT" => None,
        "INSTANT" => Some(Algorithm::Instant),
        "INPLACE" => Some(Algorithm::Inplace),
        "COPY" => Some(Algorithm::Copy),
        _ => {
            let text = format!("Unknown ALGORITHM '{}'", name.name);
            return Err(SqlError::new(1800, "HY000", text));
        }
    })
}

/// The clauses other than ALGORITHM and LOCK, whose values are checked.
///
/// # Errors
/// 1800 and 1801 for unknown values.
pub fn without_method<'q, 'a>(actions: &'q [AlterAction<'a>]) -> Result<Vec<&'q AlterAction<'a>>> {
    let mut others = Vec::with_capacity(actions.len());
    for action in actions {
        match action {
            AlterAction::Algorithm(name) => {
                algorithm(name)?;
            }
            AlterAction::Lock(name) => {
                lock(name)?;
            }
            other => others.push(other),
        }
    }
    Ok(others)
}

/// LOCK; `None` for DEFAULT.
///
/// # Errors
/// 1801 for an unknown value.
pub fn lock(name: &Ident<'_>) -> Result<Option<LockLevel>> {
    match name.name.to_ascii_uppercase().as_str() {
        "DEFAULT" => Ok(None),
        "NONE" => Ok(Some(LockLevel::None)),
        "SHARED" => Ok(Some(LockLevel::Shared)),
        "EXCLUSIVE" => Ok(Some(LockLevel::Exclusive)),
        _ => {
            let text = format!("Unknown LOCK type '{}'", name.name);
            Err(SqlError::new(1801, "HY000", text))
        }
    }
}

/// DROP CONSTRAINT: drops the foreign key, CHECK constraint or unique key of this name. Error 3939
/// if there are several.
fn drop_constraint(table: &Table, name: &str) -> Result<AlterOp> {
    let foreign_key = |k: &ForeignKey| k.name.eq_ignore_ascii_case(name);
    let check = |c: &CheckConstraint| c.name.eq_ignore_ascii_case(name);
    let unique_key = |i: &Index| i.kind.is_unique() && i.name.eq_ignore_ascii_case(name);
    let found = [
        table.foreign_keys.iter().any(foreign_key),
        table.checks.iter().any(check),
        table.indexes.iter().any(unique_key),
    ];
    if found.iter().filter(|f| **f).count() > 1 {
        let text = format!(
            "Table has multiple constraints with the name '{name}'. Please use constraint \
             specific 'DROP' clause."
        );
        return Err(SqlError::new(3939, "HY000", text));
    }
    if found == [false, true, false] {
        return Ok(AlterOp::DropCheck(name.to_owned()));
    }
    if table.foreign_keys.iter().any(foreign_key) {
        return Ok(AlterOp::DropForeignKey(name.to_owned()));
    }
    let unique = table.index(name).and_then(|at| table.indexes.get(at));
    if unique.is_some_and(|i| i.kind.is_unique()) {
        return Ok(AlterOp::DropIndex(name.to_owned()));
    }
    let text = format!("Constraint '{name}' does not exist.");
    Err(SqlError::new(3940, "HY000", text))
}

fn unsupported_clause(action: &AlterAction<'_>) -> &'static str {
    match action {
        AlterAction::DiscardTablespace(_) => "DISCARD TABLESPACE",
        AlterAction::AddKeyPrefix(_) | AlterAction::DropKeyPrefix(_) => {
            "a key prefix beside other actions"
        }
        _ => "partitioning",
    }
}
