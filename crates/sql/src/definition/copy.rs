//! CREATE TABLE ... LIKE and CREATE TABLE ... SELECT (manual, both sections of "CREATE TABLE
//! Statement").

use porpoise_rows::catalog::{CheckConstraint, Column, ColumnDefault, IndexKind, Table};
use porpoise_rows::ddl::{
    CheckSpec, ColumnSpec, IndexSpec, Placement, TableSpec, implicit_default,
};
use porpoise_sql_expr::expr::types::width;
use porpoise_sql_expr::expr::{Expr, ExprKind};
use porpoise_sql_plan::bind::Source;
use porpoise_sql_plan::plan::QueryPlan;
use porpoise_types::{ColumnType, Kind};

/// A definition with a table's columns, indexes and options, but without its foreign keys and
/// AUTO_INCREMENT counter.
pub fn like(table: &Table, database: &str, name: &str, if_not_exists: bool) -> TableSpec {
    let indexes = table.indexes.iter();
    TableSpec {
        database: database.to_owned(),
        name: name.to_owned(),
        if_not_exists,
        columns: table.columns.iter().map(column_like).collect(),
        indexes: indexes
            .filter(|i| !i.parts.is_empty())
            .map(|index| IndexSpec {
                name: (index.kind != IndexKind::Primary).then(|| index.name.clone()),
                kind: index.kind,
                parts: index
                    .parts
                    .iter()
                    .filter_map(|p| {
                        let column = table.columns.get(p.column)?;
                        Some((column.name.clone(), p.prefix, p.desc))
                    })
                    .collect(),
                expressions: Vec::new(),
                using_hash: index.using_hash,
                comment: index.comment.clone(),
                invisible: index.invisible,
                full_text: index.full_text.as_deref().cloned(),
            })
            .collect(),
        foreign_keys: Vec::new(),
        checks: checks_like(&table.checks),
        options: table.options.clone(),
        auto_increment: None,
        placement: Placement {
            partitioning: table.partitioning.clone(),
            colocate: None,
        },
    }
}

/// CHECK constraints of a copy. Names are unique in a database: the copy's are generated, in order of the
/// names that are copied.
fn checks_like(checks: &[CheckConstraint]) -> Vec<CheckSpec> {
    let mut by_name: Vec<&CheckConstraint> = checks.iter().collect();
    by_name.sort_by(|a, b| a.name.cmp(&b.name));
    by_name.into_iter().map(check_like).collect()
}

fn check_like(check: &CheckConstraint) -> CheckSpec {
    CheckSpec {
        name: None,
        expression: check.expression.clone(),
        enforced: check.enforced,
        of_column: None,
    }
}

fn column_like(column: &Column) -> ColumnSpec {
    ColumnSpec {
        name: column.name.clone(),
        ty: column.ty.clone(),
        nullable: Some(column.nullable),
        default: match &column.default {
            ColumnDefault::None => None,
            other => Some(other.clone()),
        },
        on_update_now: column.on_update_now,
        auto_increment: column.auto_increment,
        comment: column.comment.clone(),
        explicit_collation: column.explicit_collation,
        generated: column.generated.clone(),
        invisible: column.invisible,
    }
}

/// The columns of a table created from a query: columns of tables keep their defaults and comments;
/// computed columns that are never NULL get their type's implicit default.
pub fn columns_of(plan: &QueryPlan) -> Vec<ColumnSpec> {
    let shown = plan.columns.iter().zip(&plan.items);
    shown
        .map(|(column, item)| match table_column(plan, item) {
            Some(found) => ColumnSpec {
                name: column.name.clone(),
                // A column on the inner side of an outer join can be NULL.
                nullable: Some(found.nullable || item.nullable),
                auto_increment: false,
                generated: None,
                invisible: false,
                ..column_like(found)
            },
            None => computed_column(column.name.clone(), item, &column.ty),
        })
        .collect()
}

/// The column of a table that an item of the select list is; `None` for any other expression.
fn table_column<'p>(plan: &'p QueryPlan, item: &Expr) -> Option<&'p Column> {
    let ExprKind::Column { slot, column, .. } = &item.kind else {
        return None;
    };
    let table = plan.sources.get(*slot).and_then(Source::table)?;
    table.columns.get(*column)
}

/// Maximum number of characters of a computed integer that is stored as INT.
const MAX_INT_WIDTH: u32 = 10;

fn computed_column(name: String, item: &Expr, ty: &ColumnType) -> ColumnSpec {
    let mut ty = match ty.kind {
        Kind::Null => ColumnType::binary(0),
        _ => ty.clone(),
    };
    if ty.is_integer() && ty.kind != Kind::Year {
        // Computed integers of few digits, such as truth values, are INT.
        let kind = match ty.kind {
            Kind::BigInt if width(item) <= MAX_INT_WIDTH => Kind::Int,
            kind => kind,
        };
        ty = if ty.unsigned {
            ColumnType::uint(kind)
        } else {
            ColumnType::int(kind)
        };
    }
    let has_default = !item.nullable
        && (ty.is_numeric()
            || matches!(ty.kind, Kind::Char | Kind::VarChar)
            || matches!(ty.kind, Kind::Binary | Kind::VarBinary)
            || matches!(ty.kind, Kind::Date | Kind::Time)
            || matches!(ty.kind, Kind::DateTime | Kind::Timestamp));
    ColumnSpec {
        name,
        nullable: Some(item.nullable),
        default: has_default.then(|| ColumnDefault::Literal(implicit_default(&ty))),
        on_update_now: false,
        auto_increment: false,
        comment: String::new(),
        explicit_collation: false,
        generated: None,
        invisible: false,
        ty,
    }
}
