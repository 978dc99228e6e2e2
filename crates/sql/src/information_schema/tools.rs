//! KEYWORDS and PLUGINS, which tools query when they connect or dump.

use crate::results::table::text;
use porpoise_sql_parser::keyword;
use porpoise_types::Value;

/// Rows of KEYWORDS, in alphabetical order.
pub(super) fn keywords() -> Vec<Vec<Value>> {
    let mut words: Vec<(&str, bool)> = keyword::all().collect();
    words.sort_unstable();
    let row = |(word, reserved): (&str, bool)| vec![text(word), Value::Int(i64::from(reserved))];
    words.into_iter().map(row).collect()
}

/// Rows of PLUGINS, as in SHOW PLUGINS.
pub(super) fn plugins() -> Vec<Vec<Value>> {
    let row = |(name, kind): (&str, &str)| {
        vec![
            text(name),
            text("1.0"),
            text("ACTIVE"),
            text(kind),
            Value::Null,
            Value::Null,
            Value::Null,
            text("Porpoise"),
            Value::Null,
            text("Apache-2.0"),
            text("FORCE"),
        ]
    };
    crate::show::server::PLUGINS.into_iter().map(row).collect()
}
