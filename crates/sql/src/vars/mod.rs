//! System variables: a registry, the values of server and sessions, and typed settings.
//!
//! An entry of [`registry`] has a variable's name, scope, type, default and documentation. Values
//! are in [`Values`], one list for the server and one for each session; a session shares the
//! server's list until it sets a variable (copy on write). [`settings`] converts a list to typed
//! settings, so that statements do not look variables up by name.
//!
//! To add a variable, add an entry to the registry, and a field to the settings if statements need
//! it. Other parts of the server read a global value by [`SqlServer::number`] when they need it. If
//! another part must be notified of a change, SET GLOBAL passes the value on where it stores it
//! (`session/set.rs`).
//!
//! [`SqlServer::number`]: crate::SqlServer::number
//!
//! Invariants:
//! 1. A value in a list has passed its entry's check.
//! 2. A statement that sets several variables sets all or none.

pub mod check;
pub mod registry;
pub mod settings;

use porpoise_access::persisted::PersistedVariable;
use porpoise_sql_expr::error::{Result, SqlError};
use porpoise_sql_expr::expr::Expr;
use porpoise_types::{Collation, ColumnType, Value};
use std::sync::Arc;

pub use registry::VARIABLES;
pub use settings::Settings;

/// Scope of a variable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Global and session.
    Both,
    /// Global only.
    Global,
    /// Session only.
    Session,
    /// Global, and read-only after the start.
    Fixed,
    /// Session, and read-only for clients.
    SessionFixed,
}

impl Scope {
    /// Whether sessions have their own value.
    pub fn session(self) -> bool {
        matches!(self, Scope::Both | Scope::Session | Scope::SessionFixed)
    }

    /// Whether there is a global value.
    pub fn global(self) -> bool {
        matches!(self, Scope::Both | Scope::Global | Scope::Fixed)
    }
}

/// Type of a variable's values.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum VarKind {
    /// ON and OFF, 1 and 0.
    Bool,
    /// An unsigned integer within a range; other values are clipped, with warning 1292.
    Int(u64, u64),
    /// A number with a fraction, within a range.
    Double(f64, f64),
    /// One of these words, or its position, counted from 0.
    Enum(&'static [&'static str]),
    /// A list of these words, separated by commas; at least one.
    Words(&'static [&'static str]),
    /// Any text.
    Text,
    /// Any text or NULL.
    NullableText,
    /// A list of SQL modes.
    SqlMode,
    /// A character set's name.
    Charset,
    /// A character set's name or NULL.
    NullableCharset,
    /// A collation's name.
    Collation,
    /// A time zone.
    TimeZone,
    /// A locale.
    Locale,
    /// The name of a storage engine.
    Engine,
}

/// A registered system variable.
#[derive(Debug)]
pub struct Variable {
    /// The name, in lower case.
    pub name: &'static str,
    /// Scope.
    pub scope: Scope,
    /// Type of its values.
    pub kind: VarKind,
    /// The initial value, as a configuration writes it.
    pub default: &'static str,
    /// One line of documentation.
    pub doc: &'static str,
}

/// The value of a variable.
#[derive(Clone, Debug, PartialEq)]
pub enum VarValue {
    /// NULL.
    Null,
    /// ON or OFF.
    Bool(bool),
    /// An integer.
    Int(u64),
    /// A number.
    Double(f64),
    /// Text.
    Text(Arc<str>),
}

impl VarValue {
    /// The text that SHOW VARIABLES prints.
    pub fn text(&self) -> String {
        match self {
            VarValue::Null => String::new(),
            VarValue::Bool(true) => "ON".to_owned(),
            VarValue::Bool(false) => "OFF".to_owned(),
            VarValue::Int(n) => n.to_string(),
            VarValue::Double(n) => format!("{n:.6}"),
            VarValue::Text(text) => text.to_string(),
        }
    }

    /// The expression that `SELECT @@name` evaluates.
    pub fn expr(&self) -> Expr {
        let text = |t: &str| {
            let length = u32::try_from(t.chars().count()).unwrap_or(u32::MAX);
            ColumnType::varchar(length.max(1), Collation::UTF8MB4_GENERAL_CI)
        };
        let mut expr = match self {
            VarValue::Null => Expr::constant(Value::Null, text("")),
            VarValue::Bool(on) => {
                let mut ty = ColumnType::bigint();
                ty.length = 1;
                Expr::constant(Value::Int(i64::from(*on)), ty)
            }
            VarValue::Int(n) => Expr::constant(Value::UInt(*n), ColumnType::bigint_unsigned()),
            VarValue::Double(n) => Expr::constant(Value::Double(*n), ColumnType::double()),
            VarValue::Text(t) => Expr::constant(Value::Bytes(t.as_bytes().to_vec()), text(t)),
        };
        expr.coercibility = porpoise_sql_expr::expr::Coercibility::System;
        expr
    }
}

/// The position of a variable in [`VARIABLES`]; names are case-insensitive, and synonyms are
/// accepted.
pub fn find(name: &str) -> Option<usize> {
    let lower = name.to_ascii_lowercase();
    let name = match lower.as_str() {
        "tx_isolation" => "transaction_isolation",
        "tx_read_only" => "transaction_read_only",
        "storage_engine" => "default_storage_engine",
        "ndb_autoincrement_prefetch_sz" => "auto_increment_prefetch",
        "identity" => "last_insert_id",
        other => other,
    };
    VARIABLES.binary_search_by(|v| v.name.cmp(name)).ok()
}

/// The position and entry of a variable.
///
/// # Errors
/// 1193 if there is none.
pub fn entry(name: &str) -> Result<(usize, &'static Variable)> {
    let at = find(name).ok_or_else(|| SqlError::unknown_variable(name))?;
    let variable = VARIABLES.get(at);
    variable
        .map(|v| (at, v))
        .ok_or_else(|| SqlError::unknown_variable(name))
}

/// One value for each entry of [`VARIABLES`].
#[derive(Clone, Debug)]
pub struct Values(Arc<Vec<VarValue>>);

impl Values {
    /// Whether no variable has been set in one and not in the other.
    pub(crate) fn is_same(&self, other: &Values) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// The registry's defaults, overridden by a configuration (names and texts).
    ///
    /// # Errors
    /// 1193 for an unknown name, 1231 or 1232 for an invalid value.
    pub fn new(config: &[(String, String)]) -> Result<Values> {
        let mut values = Vec::with_capacity(VARIABLES.len());
        for variable in VARIABLES {
            values.push(check::from_text(variable, variable.default)?);
        }
        for (name, text) in config {
            let (at, variable) = entry(name)?;
            if let Some(slot) = values.get_mut(at) {
                *slot = check::from_text(variable, text)?;
            }
        }
        Ok(Values(Arc::new(values)))
    }

    /// Sets the variables of SET PERSIST, which override the configuration as in MySQL. A variable
    /// that another version knew, or whose value it allowed, keeps the value that it has.
    pub fn set_persisted(&mut self, persisted: &[PersistedVariable]) {
        for stored in persisted {
            if let Ok((at, variable)) = entry(&stored.name)
                && variable.scope != Scope::Fixed
                && let Ok(value) = check::from_text(variable, &stored.value)
            {
                self.set(at, value);
            }
        }
    }

    /// The value at a position.
    pub fn value_at(&self, position: usize) -> &VarValue {
        self.0.get(position).unwrap_or(&VarValue::Null)
    }

    /// The value of this name; NULL if there is no such variable.
    pub fn named(&self, name: &str) -> &VarValue {
        find(name).map_or(&VarValue::Null, |at| self.value_at(at))
    }

    /// Sets a value that has been checked.
    pub fn set(&mut self, position: usize, value: VarValue) {
        if let Some(slot) = Arc::make_mut(&mut self.0).get_mut(position) {
            *slot = value;
        }
    }

    /// Sets a value that is given as text.
    ///
    /// # Errors
    /// 1193 for an unknown variable, 1231 for a value that it cannot have.
    pub fn set_text(&mut self, name: &str, text: &str) -> Result<()> {
        let (at, variable) = entry(name)?;
        self.set(at, check::from_text(variable, text)?);
        Ok(())
    }

    /// The value of a boolean variable; false for other types.
    pub fn bool(&self, name: &str) -> bool {
        matches!(self.named(name), VarValue::Bool(true))
    }

    /// The value of an integer variable; 0 for other types.
    pub fn int(&self, name: &str) -> u64 {
        match self.named(name) {
            VarValue::Int(n) => *n,
            _ => 0,
        }
    }

    /// The value of a text variable; empty for other types and NULL.
    pub fn text(&self, name: &str) -> &str {
        match self.named(name) {
            VarValue::Text(text) => text,
            _ => "",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_registry_is_sorted_and_its_defaults_pass_their_own_checks() {
        for pair in VARIABLES.windows(2) {
            assert!(
                pair[0].name < pair[1].name,
                "{} {}",
                pair[0].name,
                pair[1].name
            );
        }
        assert!(VARIABLES.iter().all(|v| !v.doc.is_empty()));
        let values = Values::new(&[]).unwrap();
        for name in [
            "autocommit",
            "foreign_key_checks",
            "innodb_snapshot_isolation",
        ] {
            assert!(values.bool(name), "{name}");
        }
        assert_eq!(values.int("max_allowed_packet"), 64 << 20);
        assert_eq!(values.text("tx_isolation"), "REPEATABLE-READ");
        assert_eq!(
            find("ndb_autoincrement_prefetch_sz"),
            find("AUTO_INCREMENT_PREFETCH")
        );
    }

    #[test]
    fn a_configuration_overrides_defaults_and_is_checked() {
        let set = |n: &str, v: &str| Values::new(&[(n.to_owned(), v.to_owned())]);
        assert_eq!(set("port", "3307").unwrap().int("port"), 3307);
        assert_eq!(set("no_such", "1").err().map(|e| e.code), Some(1193));
        assert_eq!(
            set("autocommit", "perhaps").err().map(|e| e.code),
            Some(1231)
        );
        assert_eq!(set("sql_mode", "NO_SUCH").err().map(|e| e.code), Some(1231));
    }
}
