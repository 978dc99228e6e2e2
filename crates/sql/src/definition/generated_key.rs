//! Generated invisible primary keys (`sql_generate_invisible_primary_key`).
//!
//! A table that is created without a primary key gets the column `my_row_id` in front of the others,
//! INVISIBLE and AUTO_INCREMENT, and that column as its key (manual, "Generated Invisible Primary
//! Keys"). CREATE TABLE ... LIKE copies the key of its table, or none.

use crate::context::StatementContext;
use porpoise_rows::catalog::IndexKind;
use porpoise_rows::ddl::{ColumnSpec, IndexSpec, TableSpec};
use porpoise_sql_expr::error::{Result, SqlError};
use porpoise_types::ColumnType;

/// Name of the column.
const COLUMN: &str = "my_row_id";

/// Error 3750 for a table without a primary key under `sql_require_primary_key`.
///
/// # Errors
/// 3750.
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

/// Adds the column and the key where the session requests them.
///
/// # Errors
/// 3750 without a key under `sql_require_primary_key`; 4108 if a column has the name already, 4109 beside another AUTO_INCREMENT column, 1235 for a
/// partitioned table.
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
