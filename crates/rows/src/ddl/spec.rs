//! Specifications of tables and their parts, as statements give them.

use crate::definition::{
    ColumnDefault, Expression, FkAction, FullText, Generated, IndexKind, TableOptions,
};
use crate::partition::Partitioning;
use porpoise_types::ColumnType;

/// Specification of a table in CREATE TABLE.
#[derive(Clone, Debug)]
pub struct TableSpec {
    /// The database, which must exist.
    pub database: String,
    /// The table's name.
    pub name: String,
    /// IF NOT EXISTS.
    pub if_not_exists: bool,
    /// The columns.
    pub columns: Vec<ColumnSpec>,
    /// The indexes, the primary key included.
    pub indexes: Vec<IndexSpec>,
    /// The foreign keys.
    pub foreign_keys: Vec<FkSpec>,
    /// The CHECK constraints.
    pub checks: Vec<CheckSpec>,
    /// The options.
    pub options: TableOptions,
    /// AUTO_INCREMENT = n.
    pub auto_increment: Option<u64>,
    /// PARTITION BY and COLOCATE WITH.
    pub placement: Placement,
}

impl TableSpec {
    /// Creates a specification with only these columns and indexes.
    #[must_use]
    pub fn new(
        database: &str,
        name: &str,
        columns: Vec<ColumnSpec>,
        indexes: Vec<IndexSpec>,
        options: TableOptions,
    ) -> TableSpec {
        TableSpec {
            database: database.to_owned(),
            name: name.to_owned(),
            if_not_exists: false,
            columns,
            indexes,
            foreign_keys: Vec::new(),
            checks: Vec::new(),
            options,
            auto_increment: None,
            placement: Placement::default(),
        }
    }
}

/// Placement of a table's rows.
#[derive(Clone, Debug, Default)]
pub struct Placement {
    /// PARTITION BY: columns are positions in [`TableSpec::columns`].
    pub partitioning: Option<Partitioning>,
    /// COLOCATE WITH: database (the table's own when `None`) and table.
    pub colocate: Option<(Option<String>, String)>,
}

/// Specification of a column.
#[derive(Clone, Debug)]
pub struct ColumnSpec {
    /// The name.
    pub name: String,
    /// The type.
    pub ty: ColumnType,
    /// NULL or NOT NULL, when given.
    pub nullable: Option<bool>,
    /// DEFAULT, when given; literals are already of the column's type.
    pub default: Option<ColumnDefault>,
    /// ON UPDATE CURRENT_TIMESTAMP.
    pub on_update_now: bool,
    /// AUTO_INCREMENT.
    pub auto_increment: bool,
    /// COMMENT.
    pub comment: String,
    /// Whether a character set or collation was given for this column.
    pub explicit_collation: bool,
    /// GENERATED ALWAYS AS.
    pub generated: Option<Generated>,
}

impl ColumnSpec {
    /// Creates a specification with only a name and a type.
    #[must_use]
    pub fn new(name: &str, ty: ColumnType) -> ColumnSpec {
        ColumnSpec {
            name: name.to_owned(),
            ty,
            nullable: None,
            default: None,
            on_update_now: false,
            auto_increment: false,
            comment: String::new(),
            explicit_collation: false,
            generated: None,
        }
    }

    /// The same with NOT NULL.
    #[must_use]
    pub fn not_null(self) -> ColumnSpec {
        ColumnSpec {
            nullable: Some(false),
            ..self
        }
    }
}

/// Specification of a CHECK constraint.
#[derive(Clone, Debug)]
pub struct CheckSpec {
    /// CONSTRAINT name, when given.
    pub name: Option<String>,
    /// The condition, which must not be false for any row.
    pub expression: Expression,
    /// Whether it is enforced (not NOT ENFORCED).
    pub enforced: bool,
    /// For a column constraint, the column, the only one that it may read.
    pub of_column: Option<String>,
}

/// Specification of an index.
#[derive(Clone, Debug)]
pub struct IndexSpec {
    /// The name, when given.
    pub name: Option<String>,
    /// The kind.
    pub kind: IndexKind,
    /// Column names with prefix length and DESC. The names of functional key parts are empty.
    pub parts: Vec<(String, Option<u32>, bool)>,
    /// Expressions of the functional key parts, by position in `parts`.
    pub expressions: Vec<(usize, Expression)>,
    /// USING HASH.
    pub using_hash: bool,
    /// COMMENT.
    pub comment: String,
    /// INVISIBLE.
    pub invisible: bool,
    /// Settings of a FULLTEXT index; `None` for other kinds.
    pub full_text: Option<FullText>,
}

impl IndexSpec {
    /// An index over whole columns, ascending.
    #[must_use]
    pub fn new(kind: IndexKind, name: Option<&str>, columns: &[impl AsRef<str>]) -> IndexSpec {
        let parts = columns.iter().map(|c| (c.as_ref().to_owned(), None, false));
        IndexSpec {
            name: name.map(str::to_owned),
            kind,
            parts: parts.collect(),
            expressions: Vec::new(),
            using_hash: false,
            comment: String::new(),
            invisible: false,
            full_text: (kind == IndexKind::FullText).then(FullText::default),
        }
    }

    /// The primary key.
    #[must_use]
    pub fn primary(columns: &[impl AsRef<str>]) -> IndexSpec {
        IndexSpec::new(IndexKind::Primary, None, columns)
    }
}

/// Specification of a foreign key.
#[derive(Clone, Debug)]
pub struct FkSpec {
    /// CONSTRAINT name, when given.
    pub name: Option<String>,
    /// FOREIGN KEY index_name, when given.
    pub index_name: Option<String>,
    /// The child's columns.
    pub columns: Vec<String>,
    /// The parent's database; the child's when `None`.
    pub parent_database: Option<String>,
    /// The parent.
    pub parent_table: String,
    /// The parent's columns.
    pub parent_columns: Vec<String>,
    /// ON DELETE.
    pub on_delete: FkAction,
    /// ON UPDATE.
    pub on_update: FkAction,
}

impl FkSpec {
    /// A reference to a table of the same database, without actions.
    #[must_use]
    pub fn new(columns: &[&str], parent: &str, parent_columns: &[&str]) -> FkSpec {
        let owned = |names: &[&str]| names.iter().map(|n| (*n).to_owned()).collect();
        FkSpec {
            name: None,
            index_name: None,
            columns: owned(columns),
            parent_database: None,
            parent_table: parent.to_owned(),
            parent_columns: owned(parent_columns),
            on_delete: FkAction::NoAction,
            on_update: FkAction::NoAction,
        }
    }
}
