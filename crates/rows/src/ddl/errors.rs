//! Errors of data definition statements, with MySQL's numbers and texts
//! (MySQL 8.4 Error Message Reference, "Server Error Message Reference").

use crate::error::Error;

fn refuse(code: u16, state: &'static str, message: String) -> Error {
    Error::refused(code, state, message)
}

/// 1049: the database does not exist.
pub fn no_database(name: &str) -> Error {
    refuse(1049, "42000", format!("Unknown database '{name}'"))
}

pub(crate) fn database_exists(name: &str) -> Error {
    let text = format!("Can't create database '{name}'; database exists");
    refuse(1007, "HY000", text)
}

pub(crate) fn cannot_drop_database(name: &str) -> Error {
    let text = format!("Can't drop database '{name}'; database doesn't exist");
    refuse(1008, "HY000", text)
}

pub(crate) fn table_exists(name: &str) -> Error {
    refuse(1050, "42S01", format!("Table '{name}' already exists"))
}

pub(crate) fn unknown_tables(names: &[String]) -> Error {
    refuse(
        1051,
        "42S02",
        format!("Unknown table '{}'", names.join(",")),
    )
}

/// 1146: the table does not exist.
pub fn no_table(database: &str, name: &str) -> Error {
    let text = format!("Table '{database}.{name}' doesn't exist");
    refuse(1146, "42S02", text)
}

pub(crate) fn bad_full_text_column(name: &str) -> Error {
    let text = format!("Column '{name}' cannot be part of FULLTEXT index");
    refuse(1283, "HY000", text)
}

pub(crate) fn full_text_of_temporary() -> Error {
    let text = "Cannot create FULLTEXT index on temporary InnoDB table";
    refuse(1796, "HY000", text.to_owned())
}

pub(crate) fn full_text_over_virtual() -> Error {
    let text = "'Fulltext index on virtual generated column' is not supported for generated \
                columns.";
    refuse(3106, "HY000", text.to_owned())
}

pub(crate) fn name_too_long(name: &str) -> Error {
    refuse(
        1059,
        "42000",
        format!("Identifier name '{name}' is too long"),
    )
}

pub(crate) fn bad_table_name(name: &str) -> Error {
    refuse(1103, "42000", format!("Incorrect table name '{name}'"))
}

/// 1304: there is a routine of that name.
pub(crate) fn routine_exists(kind: &str, name: &str) -> Error {
    refuse(1304, "42000", format!("{kind} {name} already exists"))
}

/// 1305: there is no such routine.
pub fn no_routine(key: &crate::catalog::RoutineKey) -> Error {
    let (kind, database, name) = (key.kind.name(), &key.database, &key.name);
    let text = format!("{kind} {database}.{name} does not exist");
    refuse(1305, "42000", text)
}

pub(crate) fn event_exists(name: &str) -> Error {
    refuse(1537, "HY000", format!("Event '{name}' already exists"))
}

/// 1539: there is no such event.
pub fn no_event(name: &str) -> Error {
    refuse(1539, "HY000", format!("Unknown event '{name}'"))
}

pub(crate) fn bad_routine_name(name: &str) -> Error {
    refuse(1458, "42000", format!("Incorrect routine name '{name}'"))
}

/// 1347: a trigger is for a table.
pub(crate) fn not_a_base_table(database: &str, name: &str) -> Error {
    let text = format!("'{database}.{name}' is not BASE TABLE");
    refuse(1347, "HY000", text)
}

/// 1359: there is a trigger of that name.
pub(crate) fn trigger_exists() -> Error {
    refuse(1359, "HY000", "Trigger already exists".to_owned())
}

/// 4100: with IF NOT EXISTS, the name belongs to another table's trigger.
pub(crate) fn trigger_of_other_table(database: &str, name: &str) -> Error {
    let text = format!(
        "Trigger '{database}'.'{name}' already exists on a different table. The 'IF NOT EXISTS' \
         clause is only supported for triggers associated with the same table."
    );
    refuse(4100, "HY000", text)
}

/// 1360: there is no trigger of that name.
pub(crate) fn no_trigger() -> Error {
    refuse(1360, "HY000", "Trigger does not exist".to_owned())
}

/// 1435: a table with triggers cannot change its database.
pub(crate) fn trigger_in_wrong_schema() -> Error {
    refuse(1435, "HY000", "Trigger in wrong schema".to_owned())
}

pub(crate) fn bad_database_name(name: &str) -> Error {
    refuse(1102, "42000", format!("Incorrect database name '{name}'"))
}

pub(crate) fn bad_column_name(name: &str) -> Error {
    refuse(1166, "42000", format!("Incorrect column name '{name}'"))
}

pub(crate) fn bad_index_name(name: &str) -> Error {
    refuse(1280, "42000", format!("Incorrect index name '{name}'"))
}

pub(crate) fn no_columns() -> Error {
    let text = "A table must have at least 1 column".to_owned();
    refuse(1113, "42000", text)
}

pub(crate) fn too_many_columns() -> Error {
    refuse(1117, "HY000", "Too many columns".to_owned())
}

pub(crate) fn duplicate_column(name: &str) -> Error {
    refuse(1060, "42S21", format!("Duplicate column name '{name}'"))
}

pub(crate) fn duplicate_index(name: &str) -> Error {
    refuse(1061, "42000", format!("Duplicate key name '{name}'"))
}

pub(crate) fn two_primary_keys() -> Error {
    refuse(1068, "42000", "Multiple primary key defined".to_owned())
}

pub(crate) fn too_many_keys() -> Error {
    let text = "Too many keys specified; max 64 keys allowed".to_owned();
    refuse(1069, "42000", text)
}

pub(crate) fn too_many_parts() -> Error {
    let text = "Too many key parts specified; max 16 parts allowed".to_owned();
    refuse(1070, "42000", text)
}

pub(crate) fn key_too_long() -> Error {
    let text = "Specified key was too long; max key length is 3072 bytes".to_owned();
    refuse(1071, "42000", text)
}

pub(crate) fn no_key_column(name: &str) -> Error {
    let text = format!("Key column '{name}' doesn't exist in table");
    refuse(1072, "42000", text)
}

pub(crate) fn blob_key_without_length(name: &str) -> Error {
    let text = format!("BLOB/TEXT column '{name}' used in key specification without a key length");
    refuse(1170, "42000", text)
}

pub(crate) fn json_key(name: &str) -> Error {
    let text = format!(
        "JSON column '{name}' supports indexing only via generated columns on a specified JSON path."
    );
    refuse(3152, "42000", text)
}

pub(crate) fn bad_prefix() -> Error {
    let text = "Incorrect prefix key; the used key part isn't a string, the used length is \
                longer than the key part, or the storage engine doesn't support unique prefix keys";
    refuse(1089, "HY000", text.to_owned())
}

pub(crate) fn nullable_primary() -> Error {
    let text = "All parts of a PRIMARY KEY must be NOT NULL; if you need NULL in a key, use \
                UNIQUE instead";
    refuse(1171, "42000", text.to_owned())
}

pub(crate) fn two_auto_columns() -> Error {
    let text = "Incorrect table definition; there can be only one auto column and it must be \
                defined as a key";
    refuse(1075, "42000", text.to_owned())
}

pub(crate) fn bad_specifier(column: &str) -> Error {
    let text = format!("Incorrect column specifier for column '{column}'");
    refuse(1063, "42000", text)
}

pub fn bad_default(column: &str) -> Error {
    refuse(
        1067,
        "42000",
        format!("Invalid default value for '{column}'"),
    )
}

pub(crate) fn blob_default(column: &str) -> Error {
    let text = format!("BLOB, TEXT, GEOMETRY or JSON column '{column}' can't have a default value");
    refuse(1101, "42000", text)
}

pub(crate) fn cannot_drop(name: &str) -> Error {
    let text = format!("Can't DROP '{name}'; check that column/key exists");
    refuse(1091, "42000", text)
}

pub(crate) fn index_needed(name: &str) -> Error {
    let text = format!("Cannot drop index '{name}': needed in a foreign key constraint");
    refuse(1553, "HY000", text)
}

pub(crate) fn bad_fk_definition(name: &str) -> Error {
    let text = format!(
        "Incorrect foreign key definition for '{name}': Key reference and table reference don't match"
    );
    refuse(1239, "42000", text)
}

pub(crate) fn fk_no_parent(parent: &str) -> Error {
    let text = format!("Failed to open the referenced table '{parent}'");
    refuse(1824, "HY000", text)
}

pub(crate) fn fk_no_parent_column(column: &str, constraint: &str, parent: &str) -> Error {
    let text = format!(
        "Failed to add the foreign key constraint. Missing column '{column}' for constraint \
         '{constraint}' in the referenced table '{parent}'"
    );
    refuse(3734, "HY000", text)
}

pub(crate) fn fk_no_parent_index(constraint: &str, parent: &str) -> Error {
    let text = format!(
        "Failed to add the foreign key constraint. Missing index for constraint \
         '{constraint}' in the referenced table '{parent}'"
    );
    refuse(1822, "HY000", text)
}

pub(crate) fn fk_not_unique(constraint: &str, parent: &str) -> Error {
    let text = format!(
        "Failed to add the foreign key constraint. Missing unique key for constraint \
         '{constraint}' in the referenced table '{parent}'"
    );
    refuse(6125, "HY000", text)
}

pub(crate) fn fk_incompatible(child: &str, parent: &str, constraint: &str) -> Error {
    let text = format!(
        "Referencing column '{child}' and referenced column '{parent}' in foreign key \
         constraint '{constraint}' are incompatible."
    );
    refuse(3780, "HY000", text)
}

pub(crate) fn fk_duplicate(name: &str) -> Error {
    let text = format!("Duplicate foreign key constraint name '{name}'");
    refuse(1826, "HY000", text)
}

pub(crate) fn fk_not_null(column: &str, constraint: &str) -> Error {
    let text = format!(
        "Column '{column}' cannot be NOT NULL: needed in a foreign key constraint \
         '{constraint}' SET NULL"
    );
    refuse(1830, "HY000", text)
}

pub(crate) fn fk_memory_parent(constraint: &str) -> Error {
    let text = format!(
        "Cannot add foreign key constraint '{constraint}': a durable table cannot reference one \
         that is not durable"
    );
    refuse(1215, "HY000", text)
}

pub(crate) fn parent_in_use(parent: &str, constraint: &str, child: &str) -> Error {
    let text = format!(
        "Cannot drop table '{parent}' referenced by a foreign key constraint '{constraint}' on \
         table '{child}'."
    );
    refuse(3730, "HY000", text)
}

pub(crate) fn cannot_truncate(constraint: &str) -> Error {
    let text =
        format!("Cannot truncate a table referenced in a foreign key constraint ({constraint})");
    refuse(1701, "42000", text)
}

pub(crate) fn refuse_on_update(column: &str) -> Error {
    let text = format!("Invalid ON UPDATE clause for '{column}' column");
    refuse(1294, "HY000", text)
}

/// 1054, of a column that a clause of ALTER TABLE names.
pub fn unknown_column(name: &str, table: &str) -> Error {
    refuse(
        1054,
        "42S22",
        format!("Unknown column '{name}' in '{table}'"),
    )
}

pub(crate) fn all_columns_dropped() -> Error {
    let text = "You can't delete all columns with ALTER TABLE; use DROP TABLE instead";
    refuse(1090, "42000", text.to_owned())
}

pub(crate) fn no_visible_column() -> Error {
    let text = "A table must have at least one visible column.";
    refuse(4028, "HY000", text.to_owned())
}

pub(crate) fn column_in_foreign_key(column: &str, constraint: &str) -> Error {
    let text =
        format!("Cannot drop column '{column}': needed in a foreign key constraint '{constraint}'");
    refuse(1828, "HY000", text)
}

pub(crate) fn column_referenced(column: &str, constraint: &str, child: &str) -> Error {
    let text = format!(
        "Cannot drop column '{column}': needed in a foreign key constraint '{constraint}' of \
         table '{child}'"
    );
    refuse(1829, "HY000", text)
}

pub(crate) fn column_change_in_foreign_key(column: &str, constraint: &str) -> Error {
    let text =
        format!("Cannot change column '{column}': used in a foreign key constraint '{constraint}'");
    refuse(1832, "HY000", text)
}

pub(crate) fn column_change_referenced(column: &str, constraint: &str, child: &str) -> Error {
    let text = format!(
        "Cannot change column '{column}': used in a foreign key constraint '{constraint}' of \
         table '{child}'"
    );
    refuse(1833, "HY000", text)
}

pub(crate) fn no_such_key(name: &str, table: &str) -> Error {
    let text = format!("Key '{name}' doesn't exist in table '{table}'");
    refuse(1176, "42000", text)
}

pub(crate) fn invalid_null() -> Error {
    refuse(1138, "22004", "Invalid use of NULL value".to_owned())
}

pub(crate) fn null_truncated(column: &str, row: u64) -> Error {
    let text = format!("Data truncated for column '{column}' at row {row}");
    refuse(1265, "01000", text)
}

pub(crate) fn resequencing(entry: &str, key: &str) -> Error {
    let text = format!(
        "ALTER TABLE causes auto_increment resequencing, resulting in duplicate entry '{entry}' \
         for key '{key}'"
    );
    refuse(1569, "23000", text)
}

pub(crate) fn algorithm_refused(algorithm: &str, instead: &str) -> Error {
    let text = format!(
        "ALGORITHM={algorithm} is not supported for this operation. Try ALGORITHM={instead}."
    );
    refuse(1845, "0A000", text)
}

pub(crate) fn lock_refused(lock: &str, instead: &str) -> Error {
    let text = format!("LOCK={lock} is not supported for this operation. Try LOCK={instead}.");
    refuse(1845, "0A000", text)
}

pub(crate) fn copy_requires_lock() -> Error {
    let text =
        "LOCK=NONE is not supported. Reason: COPY algorithm requires a lock. Try LOCK=SHARED.";
    refuse(1846, "0A000", text.to_owned())
}

pub(crate) fn type_change_in_place() -> Error {
    let text = "ALGORITHM=INPLACE is not supported. Reason: Cannot change column type INPLACE. \
                Try ALGORITHM=COPY.";
    refuse(1846, "0A000", text.to_owned())
}

pub(crate) fn primary_invisible() -> Error {
    let text = "A primary key index cannot be invisible";
    refuse(3522, "HY000", text.to_owned())
}

pub(super) fn partitioning_column(name: &str) -> Error {
    let text = format!(
        "Column '{name}' has a partitioning function dependency and cannot be dropped or renamed."
    );
    refuse(3855, "HY000", text)
}

pub(crate) fn check_duplicate(name: &str) -> Error {
    let text = format!("Duplicate check constraint name '{name}'.");
    refuse(3822, "HY000", text)
}

pub(crate) fn check_other_column(name: &str) -> Error {
    let text = format!("Column check constraint '{name}' references other column.");
    refuse(3813, "HY000", text)
}

pub(crate) fn no_such_check(name: &str) -> Error {
    let text = format!("Check constraint '{name}' is not found in the table.");
    refuse(3821, "HY000", text)
}

pub(crate) fn check_auto_increment(name: &str) -> Error {
    let text = format!("Check constraint '{name}' cannot refer to an auto-increment column.");
    refuse(3818, "HY000", text)
}

pub(crate) fn check_fk_action(column: &str, check: &str, key: &str) -> Error {
    let text = format!(
        "Column '{column}' cannot be used in a check constraint '{check}': needed in a foreign \
         key constraint '{key}' referential action."
    );
    refuse(3823, "HY000", text)
}

pub(crate) fn check_depends(check: &str, column: &str) -> Error {
    let text = format!(
        "Check constraint '{check}' uses column '{column}', hence column cannot be dropped or \
         renamed."
    );
    refuse(3959, "HY000", text)
}

pub(crate) fn generated_depends(column: &str) -> Error {
    let text = format!("Column '{column}' has a generated column dependency.");
    refuse(3108, "HY000", text)
}

pub(crate) fn key_part_depends(column: &str) -> Error {
    let text = format!(
        "Column '{column}' has a functional index dependency and cannot be dropped or renamed."
    );
    refuse(3837, "HY000", text)
}

pub(crate) fn key_part_auto_increment(index: &str) -> Error {
    let text = format!("Functional index '{index}' cannot refer to an auto-increment column.");
    refuse(3754, "HY000", text)
}

pub(crate) fn functional_primary() -> Error {
    let text = "The primary key cannot be a functional index";
    refuse(3756, "HY000", text.to_owned())
}

pub(crate) fn several_arrays() -> Error {
    let text = "This version of Porpoise doesn't yet support 'more than one multi-valued key part per \
                index'";
    refuse(1235, "42000", text.to_owned())
}

pub(crate) fn generated_non_prior() -> Error {
    let text = "Generated column can refer only to generated columns defined prior to it.";
    refuse(3107, "HY000", text.to_owned())
}

pub(crate) fn generated_auto_increment(column: &str) -> Error {
    let text = format!("Generated column '{column}' cannot refer to auto-increment column.");
    refuse(3109, "HY000", text)
}

pub(crate) fn generated_status() -> Error {
    let text = "'Changing the STORED status' is not supported for generated columns.";
    refuse(3106, "HY000", text.to_owned())
}

pub(crate) fn generated_key() -> Error {
    let text = "'Defining a virtual generated column as primary key' is not supported for \
                generated columns.";
    refuse(3106, "HY000", text.to_owned())
}

pub(crate) fn default_non_prior(column: &str) -> Error {
    let text = format!(
        "Default value expression of column '{column}' cannot refer to a column defined after it \
         if that column is a generated column or has an expression as default value."
    );
    refuse(3767, "HY000", text)
}

pub(crate) fn default_auto_increment(column: &str) -> Error {
    let text = format!(
        "Default value expression of column '{column}' cannot refer to an auto-increment column."
    );
    refuse(3768, "HY000", text)
}

pub(crate) fn default_depends(column: &str, table: &str) -> Error {
    let text = format!(
        "Column '{column}' of table '{table}' has a default value expression dependency and \
         cannot be dropped or renamed."
    );
    refuse(3766, "HY000", text)
}

pub(crate) fn fk_generated(clause: &str) -> Error {
    let text = format!("Cannot define foreign key with {clause} clause on a generated column.");
    refuse(3104, "HY000", text)
}

pub(crate) fn fk_virtual(key: &str, column: &str) -> Error {
    let text =
        format!("Foreign key '{key}' uses virtual column '{column}' which is not supported.");
    refuse(3733, "HY000", text)
}

pub(crate) fn view_changes_database(old: &str, new: &str) -> Error {
    let text = format!("Changing schema from '{old}' to '{new}' is not allowed.");
    refuse(1450, "HY000", text)
}

pub(crate) fn not_a_view(database: &str, name: &str) -> Error {
    refuse(1347, "HY000", format!("'{database}.{name}' is not VIEW"))
}

pub(crate) fn temporary_foreign_key() -> Error {
    refuse(
        1215,
        "HY000",
        "Cannot add foreign key constraint".to_owned(),
    )
}

pub(crate) fn temporary_partitions() -> Error {
    let text = "Cannot create temporary table with partitions";
    refuse(1562, "HY000", text.to_owned())
}
