//! Generated invisible primary keys (`sql_generate_invisible_primary_key`).
//!
//! A table that is created without a primary key gets the column `my_row_id` in front of the others,
//! INVISIBLE and AUTO_INCREMENT, and that column as its key (manual, "Generated Invisible Primary
//! Keys"). CREATE TABLE ... LIKE copies the key of its table, or none.

use crate::context::StatementContext;
use porpoise_rows::catalog::{Column, IndexKind, Table};
use porpoise_rows::ddl::{AlterOp, ColumnSpec, IndexSpec, TableSpec};
use porpoise_sql_expr::error::{Result, SqlError};
use porpoise_types::ColumnType;

/// Name of the column.
const COLUMN: &str = "my_row_id";

/// Checks `sql_require_primary_key` for a table that is created or altered.
///
/// # Errors
/// 3750 for a table without a primary key.
pub fn check_required(cx: &StatementContext, has_key: bool) -> Result<()> {
    if has_key || !cx.settings.requires_key {
        return Ok(());
    }
    let text = "Unable to create or change a table without a primary key, when the system variable \
                'sql_require_primary_key' is set. Add a primary key to the table or unset this variable \
                to avoid this message. Note that tables without a primary key can cause performance \
                problems in row-based replication, so please consult your DBA before changing this \
                setting.";
    Err(SqlError::new(3750, "HY000", text))
}

/// Checks the changes of a table's primary key. Under `sql_require_primary_key` and `sql_generate_invisible_primary_key`
/// it can only be replaced; a generated one can only be dropped together with its column.
///
/// # Errors
/// 3750 and 1235 under these variables, 4110 for a change of the generated column, 4111 for dropping the generated key alone.
pub fn check_altered(cx: &StatementContext, table: &Table, ops: &[AlterOp]) -> Result<()> {
    if table.hidden_key {
        return Ok(());
    }
    let parts = table.indexes.first().map_or(&[][..], |index| &index.parts);
    let columns = parts.iter().filter_map(|p| table.columns.get(p.column));
    let columns: Vec<&Column> = columns.collect();
    let named = |name: &str| columns.iter().any(|c| c.name.eq_ignore_ascii_case(name));
    let drops_column = ops
        .iter()
        .any(|op| matches!(op, AlterOp::DropColumn(name) if named(name)));
    let drops_key = ops.iter().any(|op| match op {
        AlterOp::DropPrimaryKey => true,
        AlterOp::DropIndex(name) => name.eq_ignore_ascii_case("PRIMARY"),
        _ => false,
    });
    let is_generated =
        matches!(columns.as_slice(), [c] if c.invisible && c.auto_increment && c.name == COLUMN);
    if is_generated {
        let is_changed = |op: &AlterOp| match op {
            AlterOp::ChangeColumn(name, ..) | AlterOp::RenameColumn(name, _) => named(name),
            _ => false,
        };
        if ops.iter().any(is_changed) {
            let text =
                "Altering generated invisible primary key column 'my_row_id' is not allowed.";
            return Err(SqlError::new(4110, "HY000", text));
        }
        if drops_key && !drops_column {
            let text = "Please drop primary key column to be able to drop generated invisible primary key.";
            return Err(SqlError::new(4111, "HY000", text));
        }
    }
    let is_dropped = drops_key || drops_column && columns.len() == 1;
    let is_kept = !is_dropped || ops.iter().any(AlterOp::adds_primary_key);
    if !is_kept && cx.settings.generates_keys {
        let what = "existing primary key drop without adding a new primary key. In \
                    @@sql_generate_invisible_primary_key=ON mode table should have a primary key. Please add a \
                    new primary key to be able to drop existing primary key.";
        return Err(SqlError::not_supported(what));
    }
    check_required(cx, is_kept)
}

/// Adds the column and the key where the session requests them.
///
/// # Errors
/// 3750 without a key under `sql_require_primary_key`, 4108 if a column has the name already, 4109 beside another
/// AUTO_INCREMENT column, 1235 for a partitioned table.
pub fn add(cx: &StatementContext, spec: &mut TableSpec) -> Result<()> {
    let has_key = spec.indexes.iter().any(|i| i.kind == IndexKind::Primary);
    let transactional = ["innodb", "porpoise"];
    let engine = spec.options.engine.to_ascii_lowercase();
    if !cx.settings.generates_keys || has_key || !transactional.contains(&engine.as_str()) {
        return check_required(cx, has_key);
    }
    if spec.placement.partitioning.is_some() {
        return Err(SqlError::not_supported(
            "generating invisible primary key for the partitioned tables",
        ));
    }
    for column in &spec.columns {
        let failure = if column.name.eq_ignore_ascii_case(COLUMN) {
            (4108, "Column 'my_row_id' already exists.")
        } else if column.auto_increment {
            (4109, "Auto-increment column already exists.")
        } else {
            continue;
        };
        let text = format!("Failed to generate invisible primary key. {}", failure.1);
        return Err(SqlError::new(failure.0, "HY000", text));
    }
    let column = ColumnSpec {
        auto_increment: true,
        invisible: true,
        ..ColumnSpec::new(COLUMN, ColumnType::bigint_unsigned()).not_null()
    };
    spec.columns.insert(0, column);
    spec.indexes.insert(0, IndexSpec::primary(&[COLUMN]));
    Ok(())
}
