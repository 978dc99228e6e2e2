//! The flags of sql_mode that change how statements are parsed.

use porpoise_sql_parser::LexMode;
use porpoise_types::SqlMode;

/// The parser's flags of an SQL mode.
#[must_use]
pub fn lex_mode(mode: SqlMode) -> LexMode {
    LexMode {
        ansi_quotes: mode.contains(SqlMode::ANSI_QUOTES),
        no_backslash_escapes: mode.contains(SqlMode::NO_BACKSLASH_ESCAPES),
        pipes_as_concat: mode.contains(SqlMode::PIPES_AS_CONCAT),
        high_not_precedence: mode.contains(SqlMode::HIGH_NOT_PRECEDENCE),
        ignore_space: mode.contains(SqlMode::IGNORE_SPACE),
    }
}
