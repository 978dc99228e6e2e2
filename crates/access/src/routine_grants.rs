//! Grants on stored procedures and functions.
//!
//! They are rows of `mysql.grants` like those on tables. The column of the table name holds a control
//! character (1 for a procedure, 2 for a function) and the routine's name in lower case. So grants on
//! routines are revoked, inherited from databases and held by roles as all others are.
//!
//! Rejected: a separate table, because every function on grants would have to handle it, too.

const PROCEDURE: char = '\u{1}';
const FUNCTION: char = '\u{2}';

/// Returns the text in place of a table's name under which a grant on a routine is stored.
pub fn routine_place(is_function: bool, name: &str) -> String {
    let mark = if is_function { FUNCTION } else { PROCEDURE };
    format!("{mark}{}", name.to_lowercase())
}

/// Parses the table name of a grant; the inverse of [`routine_place`]. Returns whether the routine is
/// a function, and its name; `None` for a grant on a table.
pub fn routine_of_place(place: &str) -> Option<(bool, &str)> {
    let procedure = place.strip_prefix(PROCEDURE).map(|name| (false, name));
    procedure.or_else(|| place.strip_prefix(FUNCTION).map(|name| (true, name)))
}
