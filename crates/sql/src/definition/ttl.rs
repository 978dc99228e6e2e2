//! TTL clauses of CREATE TABLE and ALTER TABLE.

use porpoise_rows::ttl::{Lifetime, TtlChange, TtlUnit, job_interval_seconds};
use porpoise_sql_expr::error::{Result, SqlError};
use porpoise_sql_parser::ast::{IntervalUnit, TableOption};
use porpoise_sql_parser::print::unit_name;

/// Records a TTL clause; returns false for another option.
///
/// # Errors
/// 1235 for units of several fields, 1231 for values that an option does not have, 1690 for a large
/// interval.
pub(super) fn record(option: &TableOption<'_>, change: &mut TtlChange) -> Result<bool> {
    match option {
        TableOption::Ttl(column, amount, unit) => {
            let column = column.name.to_owned();
            change.rule = Some((column, lifetime(*amount, *unit)?));
        }
        TableOption::TtlEnable(value) => {
            change.enabled = Some(match value.to_ascii_uppercase().as_slice() {
                b"ON" => true,
                b"OFF" => false,
                _ => return Err(wrong_value("TTL_ENABLE", value)),
            });
        }
        TableOption::TtlJobInterval(value) => {
            let text = String::from_utf8_lossy(value).into_owned();
            if job_interval_seconds(&text).is_none() {
                return Err(wrong_value("TTL_JOB_INTERVAL", value));
            }
            change.job_interval = Some(text);
        }
        _ => return Ok(false),
    }
    Ok(true)
}

fn lifetime(amount: u64, unit: IntervalUnit) -> Result<Lifetime> {
    let word = unit_name(unit);
    let Some(unit) = TtlUnit::of_keyword(word) else {
        return Err(SqlError::not_supported(&format!("TTL in units of {word}")));
    };
    let Ok(amount) = u32::try_from(amount) else {
        let text = "Interval value is out of range in 'TTL config'";
        return Err(SqlError::new(1690, "22003", text));
    };
    Ok(Lifetime { amount, unit })
}

fn wrong_value(option: &str, value: &[u8]) -> SqlError {
    let value = String::from_utf8_lossy(value);
    let text = format!("Variable '{option}' can't be set to the value of '{value}'");
    SqlError::new(1231, "42000", text)
}
