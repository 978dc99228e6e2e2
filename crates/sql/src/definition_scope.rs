//! The tables that a logged definition statement affects, for readers that follow some tables.

use porpoise_sql_parser::ast::{AlterAction, Statement, TableName};
use porpoise_sql_parser::{ParseOptions, parse_one};
use porpoise_types::SqlMode;

/// The effect of a statement on tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DefinitionKind {
    /// Tables were created, perhaps with rows.
    Create,
    /// Columns, indexes or partitions of tables were changed, perhaps with values or rows.
    Alter,
    /// All rows were removed.
    Truncate,
    /// Tables were removed.
    Drop,
    /// Tables were renamed.
    Rename,
}

impl DefinitionKind {
    /// Name in lower case.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            DefinitionKind::Create => "create",
            DefinitionKind::Alter => "alter",
            DefinitionKind::Truncate => "truncate",
            DefinitionKind::Drop => "drop",
            DefinitionKind::Rename => "rename",
        }
    }
}

/// The objects that a statement affects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DefinitionScope {
    /// No table's rows or columns.
    Nothing,
    /// These tables: database and name.
    Tables(DefinitionKind, Vec<(String, String)>),
    /// All tables of a database, which was dropped.
    Database(String),
    /// Possibly all tables: the statement could not be read.
    Anything,
}

/// The objects that a statement affects. `database` and `sql_mode` are those with which it was logged.
#[must_use]
pub fn definition_scope(text: &[u8], database: &str, sql_mode: u64) -> DefinitionScope {
    let options = ParseOptions {
        mode: porpoise_sql_expr::lex_mode::lex_mode(SqlMode::from_bits(sql_mode)),
        ..ParseOptions::default()
    };
    let arena = bumpalo::Bump::new();
    let Ok(parsed) = parse_one(&arena, text, 0, &options) else {
        return DefinitionScope::Anything;
    };
    let full = |name: &TableName<'_>| {
        let schema = name.schema.map_or(database, |schema| schema.name);
        (schema.to_owned(), name.name.name.to_owned())
    };
    let tables = |kind, names: &[TableName<'_>]| {
        DefinitionScope::Tables(kind, names.iter().map(full).collect())
    };
    match &parsed.statement {
        Statement::CreateTable(create) => tables(DefinitionKind::Create, &[create.name]),
        Statement::AlterTable(alter) => {
            let renamed = alter.actions.iter().find_map(|action| match action {
                AlterAction::Rename(name) => Some(*name),
                _ => None,
            });
            match renamed {
                Some(name) => tables(DefinitionKind::Rename, &[alter.name, name]),
                None => tables(DefinitionKind::Alter, &[alter.name]),
            }
        }
        Statement::RenameTable(pairs) => {
            let names = pairs.iter().flat_map(|(old, new)| [*old, *new]);
            tables(DefinitionKind::Rename, &names.collect::<Vec<_>>())
        }
        Statement::DropTable(drop) => tables(DefinitionKind::Drop, drop.names),
        Statement::Truncate(name) => tables(DefinitionKind::Truncate, &[*name]),
        Statement::DropDatabase { name, .. } => DefinitionScope::Database(name.name.to_owned()),
        _ => DefinitionScope::Nothing,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_concern_the_tables_that_they_name() {
        let of = |text: &str| definition_scope(text.as_bytes(), "shop", 0);
        let tables = |kind, names: &[(&str, &str)]| {
            let names = names.iter();
            let names = names.map(|(d, t)| ((*d).to_owned(), (*t).to_owned()));
            DefinitionScope::Tables(kind, names.collect())
        };
        for (text, wanted) in [
            (
                "TRUNCATE TABLE a",
                tables(DefinitionKind::Truncate, &[("shop", "a")]),
            ),
            (
                "DROP TABLE a, x.b",
                tables(DefinitionKind::Drop, &[("shop", "a"), ("x", "b")]),
            ),
            (
                "ALTER TABLE a ADD c INT",
                tables(DefinitionKind::Alter, &[("shop", "a")]),
            ),
            (
                "RENAME TABLE a TO b, x.c TO c",
                tables(
                    DefinitionKind::Rename,
                    &[("shop", "a"), ("shop", "b"), ("x", "c"), ("shop", "c")],
                ),
            ),
            (
                "ALTER TABLE a RENAME TO y.b",
                tables(DefinitionKind::Rename, &[("shop", "a"), ("y", "b")]),
            ),
            (
                "CREATE TABLE a (id INT)",
                tables(DefinitionKind::Create, &[("shop", "a")]),
            ),
            ("DROP DATABASE x", DefinitionScope::Database("x".to_owned())),
            ("CREATE VIEW v AS SELECT 1", DefinitionScope::Nothing),
            ("CREATE INDEX i ON a (b)", DefinitionScope::Nothing),
            ("no statement", DefinitionScope::Anything),
        ] {
            assert_eq!(of(text), wanted, "{text}");
        }
        let ansi = SqlMode::ANSI_QUOTES.bits();
        assert_eq!(
            definition_scope(b"TRUNCATE \"a\"", "shop", ansi),
            tables(DefinitionKind::Truncate, &[("shop", "a")])
        );
    }
}
