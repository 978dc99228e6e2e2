//! The part of a dump that is loaded, by names of schemas, tables and accounts.

use super::dump::Dump;
use crate::config::StartError;
use std::collections::BTreeSet;

/// Names that options list. An empty list of included names includes all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selection {
    /// Schemas of `--include-schemas`.
    pub include_schemas: BTreeSet<String>,
    /// Schemas of `--exclude-schemas`.
    pub exclude_schemas: BTreeSet<String>,
    /// Tables and views of `--include-tables`, each with its schema.
    pub include_tables: BTreeSet<(String, String)>,
    /// Tables and views of `--exclude-tables`.
    pub exclude_tables: BTreeSet<(String, String)>,
    /// Accounts of `--exclude-users`, user and host.
    pub exclude_users: BTreeSet<(String, String)>,
}

/// Reads `SCHEMA.TABLE`; either name may be in backquotes.
///
/// # Errors
/// One line.
pub fn table_name(text: &str) -> Result<(String, String), StartError> {
    let malformed = || StartError::usage(format!("{text:?} is not SCHEMA.TABLE"));
    let (schema, rest) = name(text).ok_or_else(malformed)?;
    let rest = rest.strip_prefix('.').ok_or_else(malformed)?;
    let (table, rest) = name(rest).ok_or_else(malformed)?;
    if schema.is_empty() || table.is_empty() || !rest.is_empty() {
        return Err(malformed());
    }
    Ok((schema, table))
}

/// A name at the beginning of a text, and what follows it.
fn name(text: &str) -> Option<(String, &str)> {
    let Some(quoted) = text.strip_prefix('`') else {
        let end = text.find('.').unwrap_or(text.len());
        let (name, rest) = text.split_at_checked(end)?;
        return Some((name.to_owned(), rest));
    };
    let (mut name, mut rest) = (String::new(), quoted);
    loop {
        let (part, after) = rest.split_once('`')?;
        name.push_str(part);
        match after.strip_prefix('`') {
            Some(after) => {
                name.push('`');
                rest = after;
            }
            None => return Some((name, after)),
        }
    }
}

impl Selection {
    /// Removes from a dump what is not selected. Returns the number of tables and views removed.
    ///
    /// # Errors
    /// One line: a name that the dump does not contain.
    pub fn apply(&self, dump: &mut Dump) -> Result<usize, StartError> {
        self.check_names(dump)?;
        let objects = |dump: &Dump| -> usize {
            let count = |schema: &super::dump::Schema| schema.tables.len() + schema.views.len();
            dump.schemas.iter().map(count).sum()
        };
        let before = objects(dump);
        dump.schemas
            .retain(|schema| self.contains_schema(&schema.name));
        for schema in &mut dump.schemas {
            let is_selected = |table: &str| self.contains(&schema.name, table);
            schema.tables.retain(|table| is_selected(&table.name));
            schema.views.retain(|view| is_selected(&view.name));
        }
        Ok(before - objects(dump))
    }

    /// Whether anything of a schema is selected.
    pub fn contains_schema(&self, schema: &str) -> bool {
        let is_included = self.include_schemas.is_empty() && self.include_tables.is_empty()
            || self.include_schemas.contains(schema)
            || self.include_tables.iter().any(|(of, _)| of == schema);
        is_included && !self.exclude_schemas.contains(schema)
    }

    /// Whether a table or view is selected.
    pub fn contains(&self, schema: &str, table: &str) -> bool {
        let name = (schema.to_owned(), table.to_owned());
        let is_included = self.include_tables.is_empty()
            || self.include_tables.contains(&name)
            || self.include_schemas.contains(schema);
        self.contains_schema(schema) && is_included && !self.exclude_tables.contains(&name)
    }

    fn check_names(&self, dump: &Dump) -> Result<(), StartError> {
        let schema = |name: &str| dump.schemas.iter().find(|schema| schema.name == name);
        for name in self.include_schemas.iter().chain(&self.exclude_schemas) {
            if schema(name).is_none() {
                let text = format!("import: the dump contains no schema {name}");
                return Err(StartError::usage(text));
            }
        }
        for (of, name) in self.include_tables.iter().chain(&self.exclude_tables) {
            let is_known = schema(of).is_some_and(|schema| {
                schema.tables.iter().any(|table| table.name == *name)
                    || schema.views.iter().any(|view| view.name == *name)
            });
            if !is_known {
                let text = format!("import: the dump contains no table or view {of}.{name}");
                return Err(StartError::usage(text));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_tables_are_read_with_and_without_quotes() {
        let read = |text| table_name(text).unwrap();
        let pair = |a: &str, b: &str| (a.to_owned(), b.to_owned());
        assert_eq!(read("shop.goods"), pair("shop", "goods"));
        assert_eq!(read("`a.b`.`c``d`"), pair("a.b", "c`d"));
        for wrong in ["", "shop", "shop.", ".t", "a.b.c", "`a.b", "`a`b.c"] {
            assert!(table_name(wrong).is_err(), "{wrong}");
        }
    }
}
