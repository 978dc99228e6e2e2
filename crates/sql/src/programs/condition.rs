//! Conditions: errors, warnings and NOT FOUND, as handlers and GET DIAGNOSTICS see them.

use super::program::RaisedCondition;
use porpoise_sql_expr::error::{Result, SqlError};
use porpoise_types::{Collation, ColumnType, Kind, Level, Value, Warning, write_text};

/// A condition of the diagnostics area.
#[derive(Clone, Debug)]
pub(crate) struct Condition {
    /// Level.
    pub level: Level,
    /// MySQL's number.
    pub code: u16,
    /// SQLSTATE.
    pub sqlstate: [u8; 5],
    /// The text.
    pub message: String,
    /// Items that SIGNAL has set, by name.
    pub items: Vec<(String, String)>,
}

impl Condition {
    /// The condition of an error.
    pub fn of_error(error: &SqlError) -> Condition {
        Condition {
            level: Level::Error,
            code: error.code,
            sqlstate: error.sqlstate,
            message: error.message.clone(),
            items: Vec::new(),
        }
    }

    /// The condition of a warning.
    pub fn of_warning(warning: &Warning) -> Condition {
        Condition {
            level: warning.level,
            code: warning.code,
            sqlstate: *sqlstate_of(warning.code),
            message: warning.message.clone(),
            items: Vec::new(),
        }
    }

    /// The condition of SIGNAL, or that of RESIGNAL, which is derived from the handled one; without the items of its SET.
    /// A RESIGNAL that names a condition keeps the message.
    pub fn raised(handled: Option<Condition>, raised: Option<&RaisedCondition>) -> Condition {
        let (message, raised) = match (handled, raised) {
            (Some(handled), None) => return handled,
            (handled, raised) => (handled.map(|handled| handled.message), raised),
        };
        let sqlstate = raised.map_or(*b"45000", |r| r.sqlstate);
        let (level, code, default) = match &sqlstate[..2] {
            b"01" => (
                Level::Warning,
                1642,
                "Unhandled user-defined warning condition",
            ),
            b"02" => (
                Level::Error,
                1643,
                "Unhandled user-defined not found condition",
            ),
            _ => (
                Level::Error,
                1644,
                "Unhandled user-defined exception condition",
            ),
        };
        Condition {
            level,
            code: raised.and_then(|r| r.code).unwrap_or(code),
            sqlstate,
            message: message.unwrap_or_else(|| default.to_owned()),
            items: Vec::new(),
        }
    }

    /// Sets an item of SIGNAL other than MYSQL_ERRNO.
    pub fn set_item(&mut self, name: String, text: String) {
        if name == "MESSAGE_TEXT" {
            self.message = text;
            return;
        }
        self.items.retain(|(item, _)| *item != name);
        self.items.push((name, text));
    }

    /// The condition as a warning.
    pub fn warning(&self) -> Warning {
        Warning {
            level: self.level,
            code: self.code,
            message: self.message.clone(),
        }
    }

    /// An item of GET DIAGNOSTICS.
    pub fn item(&self, name: &str) -> String {
        match name {
            "RETURNED_SQLSTATE" => return String::from_utf8_lossy(&self.sqlstate).into_owned(),
            "MESSAGE_TEXT" => return self.message.clone(),
            "MYSQL_ERRNO" => return self.code.to_string(),
            _ => {}
        }
        let set = self.items.iter().find(|(item, _)| item == name);
        match (set, name) {
            (Some((_, value)), _) => value.clone(),
            (None, "CLASS_ORIGIN" | "SUBCLASS_ORIGIN") => {
                let standard = matches!(&self.sqlstate[..2], b"HY" | b"XA");
                if standard { "MySQL" } else { "ISO 9075" }.to_owned()
            }
            (None, _) => String::new(),
        }
    }
}

/// The SQLSTATE of a warning.
pub(crate) fn sqlstate_of(code: u16) -> &'static [u8; 5] {
    match code {
        1329 => b"02000",
        1048 | 1062 | 1169 | 1216 | 1217 | 1451 | 1452 => b"23000",
        1264 => b"22003",
        1292 => b"22007",
        1365 => b"22012",
        1406 => b"22001",
        1051 => b"42S02",
        1050 => b"42S01",
        1146 => b"42S02",
        1265 | 1311 | 1642 => b"01000",
        1305 | 1304 => b"42000",
        1054 => b"42S22",
        1758 => b"35000",
        _ => b"HY000",
    }
}

/// Condition of a handler.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum HandledCondition {
    /// An error number.
    Code(u16),
    /// A SQLSTATE.
    SqlState([u8; 5]),
    /// SQLWARNING
    Warning,
    /// NOT FOUND
    NotFound,
    /// SQLEXCEPTION
    Exception,
}

impl HandledCondition {
    /// The condition of a SQLSTATE; class 00, success, is none.
    ///
    /// # Errors
    /// 1407 for what is no SQLSTATE.
    pub fn of_sqlstate(state: &[u8]) -> Result<HandledCondition> {
        let valid = |s: &[u8; 5]| {
            let known = |b: &u8| b.is_ascii_digit() || b.is_ascii_uppercase();
            s.iter().all(known) && !s.starts_with(b"00")
        };
        let sqlstate = <[u8; 5]>::try_from(state).ok().filter(valid);
        sqlstate.map(HandledCondition::SqlState).ok_or_else(|| {
            let text = format!("Bad SQLSTATE: '{}'", String::from_utf8_lossy(state));
            SqlError::new(1407, "42000", text)
        })
    }

    /// Specificity of its match with a condition: 0 not at all, 3 by its number (manual, "Scope Rules
    /// for Handlers").
    pub fn precedence(&self, condition: &Condition) -> u8 {
        let class = &condition.sqlstate[..2];
        let is_error = condition.level == Level::Error;
        match self {
            HandledCondition::Code(code) if *code == condition.code => 3,
            HandledCondition::SqlState(state) if *state == condition.sqlstate => 2,
            HandledCondition::Warning if class == b"01" || !is_error && class != b"02" => 1,
            HandledCondition::NotFound if class == b"02" => 1,
            HandledCondition::Exception if is_error && !matches!(class, b"00" | b"01" | b"02") => 1,
            _ => 0,
        }
    }
}

/// Error 1645.
pub(crate) fn resignal_without_handler() -> SqlError {
    SqlError::new(1645, "0K000", "RESIGNAL when handler not active")
}

/// The condition with this number. Error 1758 if there is none.
pub(crate) fn condition_numbered(conditions: &[Condition], number: i64) -> Result<&Condition> {
    let at = usize::try_from(number).ok().and_then(|n| n.checked_sub(1));
    let found = at.and_then(|at| conditions.get(at));
    found.ok_or_else(|| SqlError::new(1758, "35000", "Invalid condition number"))
}

/// The text of an item of SIGNAL.
pub(crate) fn text_of(value: &Value) -> Vec<u8> {
    let mut text = Vec::new();
    let ty = ColumnType::text(Kind::LongText, Collation::UTF8MB4_0900_AI_CI);
    write_text(value.as_ref(), &ty, &mut text);
    text
}

/// An item of GET DIAGNOSTICS with its type.
pub(crate) fn diagnostics_item(
    conditions: &[Condition],
    condition: Option<&Condition>,
    row_count: i64,
    name: &str,
) -> (Value, ColumnType) {
    match (condition, name) {
        (None, "NUMBER") => (Value::Int(conditions.len() as i64), ColumnType::bigint()),
        (None, _) => (Value::Int(row_count), ColumnType::bigint()),
        (Some(condition), "MYSQL_ERRNO") => {
            (Value::Int(i64::from(condition.code)), ColumnType::bigint())
        }
        (Some(condition), name) => {
            let text = condition.item(name).into_bytes();
            let collation = Collation::UTF8MB4_0900_AI_CI;
            (Value::Bytes(text), ColumnType::varchar(512, collation))
        }
    }
}

/// The condition 1329 of SELECT ... INTO without a row.
pub(crate) fn no_data() -> Warning {
    Warning {
        level: Level::Warning,
        code: 1329,
        message: "No data - zero rows fetched, selected, or processed".to_owned(),
    }
}
