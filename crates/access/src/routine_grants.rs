//! Grants on stored procedures and functions.
//!
//! They are rows of `mysql.grants` like those on tables: in the place of the table is the routine's
//! name in lower case behind a control character, 1 for a procedure and 2 for a function. So they
//! are revoked, inherited from databases and held by roles as all others are.
//!
//! Rejected: a table of its own, whose grants every function on grants would have to handle too.

const PROCEDURE: char = '\u{1}';
const FUNCTION: char = '\u{2}';

/// What stands in the place of the table in a grant on a routine.
pub fn routine_place(is_function: bool, name: &str) -> String {
    let mark = if is_function { FUNCTION } else { PROCEDURE };
    format!("{mark}{}", name.to_lowercase())
}

/// Whether it is a function, and the name, if a grant in this place is on a routine.
pub fn routine_of_place(place: &str) -> Option<(bool, &str)> {
    let procedure = place.strip_prefix(PROCEDURE).map(|name| (false, name));
    procedure.or_else(|| place.strip_prefix(FUNCTION).map(|name| (true, name)))
}
