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

/// Adds the column and the key where the session requests them.
///
/// # Errors
/// 4108 if a column has the name already, 4109 beside another AUTO_INCREMENT column, 1235 for a
/// partitioned table.
pub fn add(cx: &StatementContext, spec: &mut TableSpec) -> Result<()> {
    let has_key = spec.indexes.iter().any(|i| i.kind == IndexKind::Primary);
    let transactional = ["innodb", "porpoise"];
    let engine = spec.options.engine.to_ascii_lowercase();
    if !cx.settings.generates_keys || has_key || !transactional.contains(&engine.as_str()) {
        return Ok(());
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
