//! Validation of new values of variables.

use super::{VarKind, VarValue, Variable};
use porpoise_sql_expr::error::{Result, SqlError};
use porpoise_sql_expr::locale::Locale;
use porpoise_types::{Charset, Collation, Level, SqlMode, TimeZone, ValueRef, Warning};
use std::sync::Arc;

fn wrong_value(variable: &Variable, text: &str) -> SqlError {
    let shown: String = text.chars().take(64).collect();
    SqlError::wrong_variable_value(variable.name, &shown)
}

fn unknown_locale(name: &str) -> SqlError {
    SqlError::new(1649, "HY000", format!("Unknown locale: '{name}'"))
}

fn keep_text(text: &str) -> VarValue {
    VarValue::Text(Arc::from(text))
}

/// Converts a configuration value or keyword to a value of the variable.
///
/// # Errors
/// 1231 if the value is invalid for the variable.
pub fn from_text(variable: &Variable, text: &str) -> Result<VarValue> {
    let wrong = || wrong_value(variable, text);
    match variable.kind {
        VarKind::Bool => match text.to_ascii_lowercase().as_str() {
            "on" | "1" | "true" => Ok(VarValue::Bool(true)),
            "off" | "0" | "false" => Ok(VarValue::Bool(false)),
            _ => Err(wrong()),
        },
        VarKind::Int(low, high) => {
            let n: u64 = text.parse().map_err(|_| wrong())?;
            Ok(VarValue::Int(n.clamp(low, high)))
        }
        VarKind::Double(low, high) => {
            let n: f64 = text.parse().map_err(|_| wrong())?;
            Ok(VarValue::Double(n.clamp(low, high)))
        }
        VarKind::Enum(words) => {
            let mut found = words.iter().filter(|w| w.eq_ignore_ascii_case(text));
            found.next().map(|w| keep_text(w)).ok_or_else(wrong)
        }
        VarKind::Words(words) => {
            let known = |word: &str| words.iter().find(|w| w.eq_ignore_ascii_case(word.trim()));
            let list: Option<Vec<&str>> = text.split(',').map(|w| known(w).copied()).collect();
            list.map(|list| keep_text(&list.join(",")))
                .ok_or_else(wrong)
        }
        VarKind::Text => Ok(keep_text(text)),
        VarKind::NullableText if text.is_empty() => Ok(VarValue::Null),
        VarKind::NullableText => Ok(keep_text(text)),
        VarKind::SqlMode => {
            let mode = SqlMode::parse(text).map_err(|name| wrong_value(variable, &name))?;
            Ok(keep_text(&mode.to_string()))
        }
        VarKind::Charset | VarKind::NullableCharset => match Charset::by_name(text) {
            Some(charset) => Ok(keep_text(charset.name())),
            None => Err(SqlError::new(
                1115,
                "42000",
                format!("Unknown character set: '{text}'"),
            )),
        },
        VarKind::Collation => match Collation::by_name(text) {
            Some(collation) => Ok(keep_text(collation.name())),
            None => Err(SqlError::new(
                1273,
                "HY000",
                format!("Unknown collation: '{text}'"),
            )),
        },
        VarKind::TimeZone => match TimeZone::parse(text) {
            Some(zone) => Ok(keep_text(&zone.name())),
            None => {
                let text = format!("Unknown or incorrect time zone: '{text}'");
                Err(SqlError::new(1298, "HY000", text))
            }
        },
        VarKind::Locale => match Locale::named(text) {
            Some(locale) => Ok(keep_text(locale.name)),
            None => Err(unknown_locale(text)),
        },
        VarKind::Engine if is_engine(text) => Ok(keep_text(&engine_name(text))),
        VarKind::Engine => Err(SqlError::new(
            1286,
            "42000",
            format!("Unknown storage engine '{text}'"),
        )),
    }
}

/// Names of storage engines that definitions may use, as they are printed.
const ENGINES: &[(&str, &str)] = &[
    ("innodb", "InnoDB"),
    ("ndb", "ndbcluster"),
    ("ndbcluster", "ndbcluster"),
    ("myisam", "MyISAM"),
    ("memory", "MEMORY"),
    ("heap", "MEMORY"),
    ("aria", "Aria"),
    ("rocksdb", "ROCKSDB"),
    ("tokudb", "TokuDB"),
    ("archive", "ARCHIVE"),
    ("csv", "CSV"),
    ("blackhole", "BLACKHOLE"),
    ("mrg_myisam", "MRG_MYISAM"),
    ("federated", "FEDERATED"),
    ("porpoise", "Porpoise"),
];

/// Whether a storage engine of this name is known.
pub fn is_engine(name: &str) -> bool {
    ENGINES.iter().any(|(n, _)| n.eq_ignore_ascii_case(name))
}

/// The canonical name of a known storage engine.
pub fn engine_name(name: &str) -> String {
    let found = ENGINES.iter().find(|(n, _)| n.eq_ignore_ascii_case(name));
    found.map_or_else(|| name.to_owned(), |(_, printed)| (*printed).to_owned())
}

/// Converts the value of an expression to a value of the variable.
///
/// # Errors
/// 1231 if the value is invalid for the variable, 1232 if its type is.
pub fn from_value(
    variable: &Variable,
    value: ValueRef<'_>,
    warn: &mut dyn FnMut(Warning),
) -> Result<VarValue> {
    let wrong_type = || SqlError::wrong_variable_type(variable.name);
    match (variable.kind, value) {
        (VarKind::NullableText | VarKind::NullableCharset, ValueRef::Null) => Ok(VarValue::Null),
        (_, ValueRef::Null) => Err(wrong_value(variable, "NULL")),
        (VarKind::Int(low, high), given) => {
            let (n, text) = match given {
                ValueRef::Int(n) => (i128::from(n), n.to_string()),
                ValueRef::UInt(n) => (i128::from(n), n.to_string()),
                _ => return Err(wrong_type()),
            };
            Ok(VarValue::Int(clip(variable, n, low, high, &text, warn)))
        }
        (VarKind::Double(low, high), given) => {
            let n = as_double(given).ok_or_else(wrong_type)?;
            Ok(VarValue::Double(n.clamp(low, high)))
        }
        (VarKind::Bool, ValueRef::Int(0) | ValueRef::UInt(0)) => Ok(VarValue::Bool(false)),
        (VarKind::Bool, ValueRef::Int(1) | ValueRef::UInt(1)) => Ok(VarValue::Bool(true)),
        (VarKind::Bool, ValueRef::Int(n)) => Err(wrong_value(variable, &n.to_string())),
        (VarKind::Bool, ValueRef::UInt(n)) => Err(wrong_value(variable, &n.to_string())),
        (VarKind::Enum(words), ValueRef::Int(_) | ValueRef::UInt(_)) => {
            let at = number(value).and_then(|n| usize::try_from(n).ok());
            let word = at.and_then(|at| words.get(at));
            let wrong = || wrong_value(variable, &number(value).unwrap_or(0).to_string());
            word.map(|w| keep_text(w)).ok_or_else(wrong)
        }
        (VarKind::Locale, ValueRef::Int(_) | ValueRef::UInt(_)) => {
            let number = number(value).unwrap_or(0);
            let locale = usize::try_from(number).ok().and_then(Locale::numbered);
            let unknown = || unknown_locale(&number.to_string());
            locale.map(|l| keep_text(l.name)).ok_or_else(unknown)
        }
        (VarKind::SqlMode, ValueRef::Int(_) | ValueRef::UInt(_)) => {
            let bits = number(value).and_then(|n| u64::try_from(n).ok());
            let mode = SqlMode::from_bits(bits.ok_or_else(wrong_type)?);
            Ok(keep_text(&mode.to_string()))
        }
        (_, ValueRef::Bytes(text)) => from_text(variable, &String::from_utf8_lossy(text)),
        _ => Err(wrong_type()),
    }
}

fn number(value: ValueRef<'_>) -> Option<i128> {
    match value {
        ValueRef::Int(n) => Some(i128::from(n)),
        ValueRef::UInt(n) => Some(i128::from(n)),
        _ => None,
    }
}

fn as_double(value: ValueRef<'_>) -> Option<f64> {
    match value {
        ValueRef::Int(n) => Some(n as f64),
        ValueRef::UInt(n) => Some(n as f64),
        ValueRef::Double(n) => Some(n),
        ValueRef::Decimal(d) => {
            let mut text = Vec::new();
            let ty = porpoise_types::ColumnType::decimal(d.precision(), d.scale());
            porpoise_types::write_text(value, &ty, &mut text);
            String::from_utf8(text).ok()?.parse().ok()
        }
        _ => None,
    }
}

fn clip(
    variable: &Variable,
    n: i128,
    low: u64,
    high: u64,
    given: &str,
    warn: &mut dyn FnMut(Warning),
) -> u64 {
    let clipped = n.clamp(i128::from(low), i128::from(high));
    if clipped != n {
        warn(Warning {
            level: Level::Warning,
            code: 1292,
            message: format!("Truncated incorrect {} value: '{given}'", variable.name),
        });
    }
    u64::try_from(clipped).unwrap_or(low)
}

#[cfg(test)]
mod tests {
    use super::super::entry;
    use super::*;

    fn set(name: &str, value: ValueRef<'_>) -> (Result<VarValue>, usize) {
        let mut warnings = 0;
        let (_, variable) = entry(name).unwrap();
        let result = from_value(variable, value, &mut |_| warnings += 1);
        (result, warnings)
    }

    #[test]
    fn integers_are_clipped_with_a_warning() {
        let (value, warnings) = set("auto_increment_increment", ValueRef::Int(0));
        assert_eq!((value.unwrap(), warnings), (VarValue::Int(1), 1));
        let (value, warnings) = set("auto_increment_increment", ValueRef::Int(7));
        assert_eq!((value.unwrap(), warnings), (VarValue::Int(7), 0));
        let (value, _) = set("auto_increment_increment", ValueRef::Bytes(b"7"));
        assert_eq!(value.unwrap_err().code, 1232);
    }

    #[test]
    fn enums_take_words_and_positions() {
        let value = set("transaction_isolation", ValueRef::Bytes(b"read-committed")).0;
        assert_eq!(value.unwrap().text(), "READ-COMMITTED");
        let value = set("transaction_isolation", ValueRef::Int(2)).0;
        assert_eq!(value.unwrap().text(), "REPEATABLE-READ");
        assert_eq!(
            set("transaction_isolation", ValueRef::Int(9))
                .0
                .unwrap_err()
                .code,
            1231
        );
    }

    #[test]
    fn only_nullable_variables_accept_null() {
        assert_eq!(
            set("character_set_results", ValueRef::Null).0.unwrap(),
            VarValue::Null
        );
        assert_eq!(
            set("character_set_client", ValueRef::Null)
                .0
                .unwrap_err()
                .code,
            1231
        );
    }
}
