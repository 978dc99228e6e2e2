//! ALTER TABLE with a key prefix: converts the clause to changes of the configuration tables, which
//! [`porpoise_access::ndbmemcache`] applies.

use super::{Outcome, SqlSession};
use porpoise_access::ndbmemcache::{KEY_PRIVILEGES, MappingEditor, MappingError, PrefixMapping};
use porpoise_kv::CommitPosition;
use porpoise_sql_expr::error::{Result, SqlError};
use porpoise_sql_parser::ast::{Ident, KeyPrefix};

/// [`MappingEditor::add`] or [`MappingEditor::drop`].
type EditMapping =
    fn(&MappingEditor<'_>, &PrefixMapping<'_>) -> std::result::Result<CommitPosition, MappingError>;

impl SqlSession {
    /// Adds or drops the mapping of a key prefix to a table.
    pub(super) fn change_mapping(
        &self,
        database: &str,
        table: &str,
        def: &KeyPrefix<'_>,
        edit: EditMapping,
    ) -> Result<Outcome> {
        let names = |list: &[Ident<'_>]| -> Vec<String> {
            list.iter().map(|c| c.name.to_owned()).collect()
        };
        let (key, value) = (names(def.key), names(def.value));
        let key: Vec<&str> = key.iter().map(String::as_str).collect();
        let value: Vec<&str> = value.iter().map(String::as_str).collect();
        let mapping = PrefixMapping {
            database,
            table,
            prefix: def.prefix,
            role: def.role,
            key: &key,
            value: &value,
            flags: def.flags.map(|c| c.name),
            cas: def.cas.map(|c| c.name),
            expires: def.expires.map(|c| c.name),
            policy: def.policy,
            separator: def.separator,
            escape: def.escape,
            null_token: def.null_token,
            json: def.json,
        };
        let rights = self.cx.rights();
        let editor = MappingEditor {
            db: &self.cx.server.db,
            rights: &rights,
            may_use: &|database, table| {
                let needed = self.cx.need_table(KEY_PRIVILEGES, database, table);
                needed.is_ok()
            },
            now: self.cx.env.now_utc,
        };
        let position =
            edit(&editor, &mapping).map_err(|error| self.mapping_error(error, database, table))?;
        Ok(Outcome {
            position,
            ..Outcome::default()
        })
    }

    fn mapping_error(&self, error: MappingError, database: &str, table: &str) -> SqlError {
        let missing = match error {
            MappingError::Refused(code, sqlstate, text) => {
                return SqlError::new(code, sqlstate, text);
            }
            MappingError::NoTable(database, table) => return SqlError::no_table(&database, &table),
            MappingError::Rows(error) => return error.into(),
            MappingError::NeedsKeyPrivileges => self.cx.need_table(KEY_PRIVILEGES, database, table),
            MappingError::NeedsAdministration(needed) => {
                self.cx.need_global(needed.privilege, needed.shown)
            }
        };
        // The rights may have changed since they were checked.
        let denied = "the privileges of this account changed while the mapping was checked";
        missing.err().unwrap_or_else(|| SqlError::internal(denied))
    }
}
