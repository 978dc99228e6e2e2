//! Definitions.

use super::super::ast::{
    CheckDef, ColumnAttr, ColumnDef, CreateDatabase, CreateIndex, CreateTable, CreateView,
    DataType, DatabaseOption, DropTables, Expr, ForeignKeyAction, ForeignKeyDef, ForeignKeyMatch,
    Ident, IndexAlgorithm, IndexDef, IndexKind, IndexOption, IndexPart, IndexPartKey, OptionValue,
    PartitionBy, PartitionDef, PartitionScheme, PartitionValues, References, TableElement,
    TableOption, TypeKind,
};
use super::Printer;

impl Printer<'_> {
    pub(super) fn data_type(&mut self, ty: &DataType<'_>) {
        self.put(type_name(ty.kind));
        if matches!(ty.kind, TypeKind::Enum | TypeKind::Set) {
            self.put("(");
            self.list(ty.members, |p, member| {
                if member.is_binary {
                    p.hex(member.bytes);
                } else {
                    p.string(member.bytes);
                }
            });
            self.put(")");
        }
        if let Some(length) = ty.length {
            self.put("(");
            self.number(length);
            self.opt_number(",", ty.decimals);
            self.put(")");
        }
        self.put_if(ty.unsigned, " UNSIGNED");
        self.put_if(ty.zerofill, " ZEROFILL");
        self.opt_ident(" CHARACTER SET ", ty.charset.as_ref());
        self.put_if(ty.binary, " BINARY");
        self.opt_ident(" COLLATE ", ty.collation.as_ref());
    }

    pub(super) fn create_database(&mut self, create: &CreateDatabase<'_>) {
        self.put("CREATE DATABASE ");
        self.put_if(create.if_not_exists, "IF NOT EXISTS ");
        self.ident(&create.name);
        self.database_options(create.options);
    }

    pub(super) fn database_options(&mut self, options: &[DatabaseOption<'_>]) {
        for option in options {
            match option {
                DatabaseOption::Charset(name) => {
                    self.name_or_default(" CHARACTER SET ", name.as_ref())
                }
                DatabaseOption::Collate(name) => self.name_or_default(" COLLATE ", name.as_ref()),
                DatabaseOption::Encryption(text) => self.opt_string(" ENCRYPTION ", Some(text)),
                DatabaseOption::ReadOnly(None) => self.put(" READ ONLY DEFAULT"),
                DatabaseOption::ReadOnly(Some(on)) => {
                    self.put(if *on { " READ ONLY 1" } else { " READ ONLY 0" })
                }
            }
        }
    }

    pub(super) fn create_table(&mut self, table: &CreateTable<'_>) {
        self.put("CREATE ");
        self.put_if(table.temporary, "TEMPORARY ");
        self.put("TABLE ");
        self.put_if(table.if_not_exists, "IF NOT EXISTS ");
        self.table_name(&table.name);
        if let Some(like) = &table.like {
            self.put(" LIKE ");
            self.table_name(like);
            return;
        }
        if !table.elements.is_empty() {
            self.put(" ");
            self.paren_list(table.elements, Self::table_element);
        }
        for option in table.options {
            self.put(" ");
            self.table_option(option);
        }
        if let Some(by) = table.partition_by {
            self.put(" ");
            self.partition_by(by);
        }
        self.on_duplicate_row(table.duplicates);
        if let Some(query) = table.query {
            self.put(" AS ");
            self.query(query);
        }
    }

    pub(super) fn table_element(&mut self, element: &TableElement<'_>) {
        match element {
            TableElement::Column(column) => self.column_def(column),
            TableElement::Index(index) => self.index_def(index),
            TableElement::ForeignKey(key) => self.foreign_key(key),
            TableElement::Check(check) => self.check(check),
        }
    }

    pub(super) fn column_def(&mut self, column: &ColumnDef<'_>) {
        self.ident(&column.name);
        self.put(" ");
        self.data_type(&column.ty);
        for attr in column.attrs {
            self.put(" ");
            self.column_attr(attr);
        }
    }

    fn column_attr(&mut self, attr: &ColumnAttr<'_>) {
        match attr {
            ColumnAttr::Null => self.put("NULL"),
            ColumnAttr::NotNull => self.put("NOT NULL"),
            ColumnAttr::Default(expr) => {
                self.put("DEFAULT ");
                self.expr(expr);
            }
            ColumnAttr::DefaultExpr(expr) => self.paren_expr("DEFAULT (", expr),
            ColumnAttr::OnUpdateNow(0) => self.put("ON UPDATE CURRENT_TIMESTAMP"),
            ColumnAttr::OnUpdateNow(digits) => {
                self.opt_number("ON UPDATE CURRENT_TIMESTAMP(", Some(*digits));
                self.put(")");
            }
            ColumnAttr::AutoIncrement => self.put("AUTO_INCREMENT"),
            ColumnAttr::SerialDefault => self.put("SERIAL DEFAULT VALUE"),
            ColumnAttr::PrimaryKey => self.put("PRIMARY KEY"),
            ColumnAttr::Unique => self.put("UNIQUE KEY"),
            ColumnAttr::Comment(text) => self.opt_string("COMMENT ", Some(text)),
            ColumnAttr::Collate(name) => self.opt_ident("COLLATE ", Some(name)),
            ColumnAttr::ColumnFormat(word) => {
                self.put("COLUMN_FORMAT ");
                self.word(word);
            }
            ColumnAttr::Storage(word) => {
                self.put("STORAGE ");
                self.word(word);
            }
            ColumnAttr::Generated { expr, stored } => {
                self.paren_expr("GENERATED ALWAYS AS (", expr);
                self.put(if *stored { " STORED" } else { " VIRTUAL" });
            }
            ColumnAttr::Check(check) => self.check(check),
            ColumnAttr::References(references) => self.references(references),
            ColumnAttr::Visible(visible) => self.visible(*visible),
            ColumnAttr::Srid(srid) => self.opt_number("SRID ", Some(*srid)),
            ColumnAttr::EngineAttribute(text) => self.opt_string("ENGINE_ATTRIBUTE ", Some(text)),
            ColumnAttr::SecondaryEngineAttribute(text) => {
                self.opt_string("SECONDARY_ENGINE_ATTRIBUTE ", Some(text));
            }
        }
    }

    /// `prefix`, which ends with an opening parenthesis, and an expression.
    pub(super) fn paren_expr(&mut self, prefix: &str, expr: &Expr<'_>) {
        self.put(prefix);
        self.expr(expr);
        self.put(")");
    }

    pub(super) fn visible(&mut self, visible: bool) {
        self.put(if visible { "VISIBLE" } else { "INVISIBLE" });
    }

    fn constraint(&mut self, name: Option<&Ident<'_>>) {
        if let Some(name) = name {
            self.opt_ident("CONSTRAINT ", Some(name));
            self.put(" ");
        }
    }

    pub(super) fn index_def(&mut self, index: &IndexDef<'_>) {
        self.constraint(index.constraint.as_ref());
        self.put(match index.kind {
            IndexKind::Primary => "PRIMARY KEY",
            IndexKind::Unique => "UNIQUE KEY",
            IndexKind::Plain => "KEY",
            IndexKind::Fulltext => "FULLTEXT KEY",
            IndexKind::Spatial => "SPATIAL KEY",
        });
        self.opt_ident(" ", index.name.as_ref());
        self.put(" ");
        self.index_parts(index.parts);
        self.index_options(index.options);
    }

    fn index_parts(&mut self, parts: &[IndexPart<'_>]) {
        self.paren_list(parts, |p, part| {
            match &part.key {
                IndexPartKey::Column(name, length) => {
                    p.ident(name);
                    if let Some(length) = length {
                        p.opt_number("(", Some(*length));
                        p.put(")");
                    }
                }
                IndexPartKey::Expr(expr) => p.paren_expr("(", expr),
            }
            p.put_if(part.desc, " DESC");
            p.put_if(part.has_order && !part.desc, " ASC");
        });
    }

    fn index_options(&mut self, options: &[IndexOption<'_>]) {
        for option in options {
            self.put(" ");
            match option {
                IndexOption::Using(IndexAlgorithm::Btree) => self.put("USING BTREE"),
                IndexOption::Using(IndexAlgorithm::Hash) => self.put("USING HASH"),
                IndexOption::Using(IndexAlgorithm::Rtree) => self.put("USING RTREE"),
                IndexOption::KeyBlockSize(size) => self.opt_number("KEY_BLOCK_SIZE ", Some(*size)),
                IndexOption::Parser(name) => self.opt_ident("WITH PARSER ", Some(name)),
                IndexOption::Comment(text) => self.opt_string("COMMENT ", Some(text)),
                IndexOption::Visible(visible) => self.visible(*visible),
                IndexOption::EngineAttribute(text) => {
                    self.opt_string("ENGINE_ATTRIBUTE ", Some(text))
                }
                IndexOption::SecondaryEngineAttribute(text) => {
                    self.opt_string("SECONDARY_ENGINE_ATTRIBUTE ", Some(text));
                }
            }
        }
    }

    pub(super) fn foreign_key(&mut self, key: &ForeignKeyDef<'_>) {
        self.constraint(key.constraint.as_ref());
        self.put("FOREIGN KEY");
        self.opt_ident(" ", key.index_name.as_ref());
        self.opt_idents(key.columns);
        self.put(" ");
        self.references(&key.references);
    }

    fn references(&mut self, references: &References<'_>) {
        self.put("REFERENCES ");
        self.table_name(&references.table);
        self.opt_idents(references.columns);
        self.put(match references.matching {
            None => "",
            Some(ForeignKeyMatch::Full) => " MATCH FULL",
            Some(ForeignKeyMatch::Partial) => " MATCH PARTIAL",
            Some(ForeignKeyMatch::Simple) => " MATCH SIMPLE",
        });
        for (words, action) in [
            (" ON DELETE ", references.on_delete),
            (" ON UPDATE ", references.on_update),
        ] {
            let Some(action) = action else { continue };
            self.put(words);
            self.put(match action {
                ForeignKeyAction::Restrict => "RESTRICT",
                ForeignKeyAction::Cascade => "CASCADE",
                ForeignKeyAction::SetNull => "SET NULL",
                ForeignKeyAction::NoAction => "NO ACTION",
                ForeignKeyAction::SetDefault => "SET DEFAULT",
            });
        }
    }

    pub(super) fn check(&mut self, check: &CheckDef<'_>) {
        self.constraint(check.constraint.as_ref());
        self.paren_expr("CHECK (", &check.expr);
        self.put_if(!check.enforced, " NOT ENFORCED");
    }

    pub(super) fn table_option(&mut self, option: &TableOption<'_>) {
        match option {
            TableOption::Engine(name) => self.opt_ident("ENGINE=", Some(name)),
            TableOption::AutoIncrement(value) => self.opt_number("AUTO_INCREMENT=", Some(*value)),
            TableOption::Charset(name) => self.name_or_default("DEFAULT CHARSET=", name.as_ref()),
            TableOption::Collate(name) => self.name_or_default("COLLATE=", name.as_ref()),
            TableOption::Comment(text) => self.opt_string("COMMENT=", Some(text)),
            TableOption::RowFormat(word) => {
                self.put("ROW_FORMAT=");
                self.word(word);
            }
            TableOption::Colocate(table) => {
                self.put("COLOCATE WITH ");
                self.table_name(table);
            }
            TableOption::Ttl(column, amount, unit) => {
                self.opt_ident("TTL=", Some(column));
                self.opt_number(" + INTERVAL ", Some(*amount));
                self.put(" ");
                self.put(super::unit_name(*unit));
            }
            TableOption::TtlEnable(value) => self.opt_string("TTL_ENABLE=", Some(value)),
            TableOption::TtlJobInterval(value) => {
                self.opt_string("TTL_JOB_INTERVAL=", Some(value));
            }
            TableOption::Union(tables) => {
                self.put("UNION=");
                self.paren_list(tables, Self::table_name);
            }
            TableOption::Other(name, value) => {
                self.put(name);
                self.put("=");
                match value {
                    OptionValue::Int(value) => self.number(*value),
                    OptionValue::String(text) => self.string(text),
                    OptionValue::Word(word) if word.name.eq_ignore_ascii_case("DEFAULT") => {
                        self.word(word)
                    }
                    OptionValue::Word(word) => self.ident(word),
                }
            }
        }
    }

    pub(super) fn partition_by(&mut self, by: &PartitionBy<'_>) {
        self.put("PARTITION BY ");
        self.partition_scheme(&by.scheme);
        self.opt_number(" PARTITIONS ", by.count);
        if let Some(scheme) = &by.sub_scheme {
            self.put(" SUBPARTITION BY ");
            self.partition_scheme(scheme);
            self.opt_number(" SUBPARTITIONS ", by.sub_count);
        }
        if !by.partitions.is_empty() {
            self.put(" ");
            self.partition_defs(by.partitions);
        }
    }

    fn partition_scheme(&mut self, scheme: &PartitionScheme<'_>) {
        match scheme {
            PartitionScheme::Hash { linear, expr } => {
                self.put_if(*linear, "LINEAR ");
                self.paren_expr("HASH (", expr);
            }
            PartitionScheme::Key {
                linear,
                algorithm,
                columns,
            } => {
                self.put_if(*linear, "LINEAR ");
                self.put("KEY");
                self.opt_number(" ALGORITHM=", *algorithm);
                self.put(" (");
                self.idents(columns);
                self.put(")");
            }
            PartitionScheme::Range(expr) => self.paren_expr("RANGE (", expr),
            PartitionScheme::List(expr) => self.paren_expr("LIST (", expr),
            PartitionScheme::RangeColumns(columns) => {
                self.put("RANGE COLUMNS");
                self.opt_idents(columns);
            }
            PartitionScheme::ListColumns(columns) => {
                self.put("LIST COLUMNS");
                self.opt_idents(columns);
            }
        }
    }

    pub(super) fn partition_defs(&mut self, partitions: &[PartitionDef<'_>]) {
        self.paren_list(partitions, |p, partition| {
            p.opt_ident("PARTITION ", Some(&partition.name));
            match partition.values {
                PartitionValues::None => {}
                PartitionValues::LessThan(bounds) => {
                    p.put(" VALUES LESS THAN ");
                    p.paren_list(bounds, |p, bound| match bound {
                        Some(expr) => p.expr(expr),
                        None => p.put("MAXVALUE"),
                    });
                }
                PartitionValues::In(values) => {
                    p.put(" VALUES IN ");
                    p.paren_list(values, Self::expr);
                }
            }
            p.partition_options(partition.options);
            if !partition.subpartitions.is_empty() {
                p.put(" ");
                p.paren_list(partition.subpartitions, |p, (name, options)| {
                    p.opt_ident("SUBPARTITION ", Some(name));
                    p.partition_options(options);
                });
            }
        });
    }

    fn partition_options(&mut self, options: &[TableOption<'_>]) {
        for option in options {
            self.put(" ");
            self.table_option(option);
        }
    }

    pub(super) fn create_index(&mut self, create: &CreateIndex<'_>) {
        let index = &create.index;
        self.put(match index.kind {
            IndexKind::Unique => "CREATE UNIQUE INDEX",
            IndexKind::Fulltext => "CREATE FULLTEXT INDEX",
            IndexKind::Spatial => "CREATE SPATIAL INDEX",
            IndexKind::Primary | IndexKind::Plain => "CREATE INDEX",
        });
        self.opt_ident(" ", index.name.as_ref());
        self.put(" ON ");
        self.table_name(&create.table);
        self.put(" ");
        self.index_parts(index.parts);
        self.index_options(index.options);
        self.algorithm_lock(create.algorithm.as_ref(), create.lock.as_ref());
    }

    pub(super) fn algorithm_lock(
        &mut self,
        algorithm: Option<&Ident<'_>>,
        lock: Option<&Ident<'_>>,
    ) {
        for (prefix, word) in [(" ALGORITHM=", algorithm), (" LOCK=", lock)] {
            if let Some(word) = word {
                self.put(prefix);
                self.word(word);
            }
        }
    }

    pub(super) fn drop_tables(&mut self, what: &str, drop: &DropTables<'_>) {
        self.put("DROP ");
        self.put_if(drop.temporary, "TEMPORARY ");
        self.put(what);
        self.put_if(drop.if_exists, "IF EXISTS ");
        self.list(drop.names, Self::table_name);
        self.put(match drop.cascade {
            None => "",
            Some(true) => " CASCADE",
            Some(false) => " RESTRICT",
        });
    }

    pub(super) fn create_view(&mut self, view: &CreateView<'_>) {
        self.put(if view.alter { "ALTER " } else { "CREATE " });
        self.put_if(view.or_replace, "OR REPLACE ");
        if let Some(algorithm) = &view.algorithm {
            self.put("ALGORITHM=");
            self.word(algorithm);
            self.put(" ");
        }
        if let Some(definer) = &view.definer {
            self.put("DEFINER=");
            self.account(definer);
            self.put(" ");
        }
        match view.invoker {
            Some(true) => self.put("SQL SECURITY INVOKER "),
            Some(false) => self.put("SQL SECURITY DEFINER "),
            None => {}
        }
        self.put("VIEW ");
        self.table_name(&view.name);
        self.opt_idents(view.columns);
        self.put(" AS ");
        self.query(view.query);
        self.put(match view.check_option {
            None => "",
            Some(true) => " WITH CASCADED CHECK OPTION",
            Some(false) => " WITH LOCAL CHECK OPTION",
        });
    }
}

fn type_name(kind: TypeKind) -> &'static str {
    use TypeKind as T;
    match kind {
        T::TinyInt => "TINYINT",
        T::SmallInt => "SMALLINT",
        T::MediumInt => "MEDIUMINT",
        T::Int => "INT",
        T::BigInt => "BIGINT",
        T::Float => "FLOAT",
        T::Double => "DOUBLE",
        T::Real => "REAL",
        T::Decimal => "DECIMAL",
        T::Bit => "BIT",
        T::Year => "YEAR",
        T::Date => "DATE",
        T::DateTime => "DATETIME",
        T::Timestamp => "TIMESTAMP",
        T::Time => "TIME",
        T::Char => "CHAR",
        T::VarChar => "VARCHAR",
        T::TinyText => "TINYTEXT",
        T::Text => "TEXT",
        T::MediumText => "MEDIUMTEXT",
        T::LongText => "LONGTEXT",
        T::Binary => "BINARY",
        T::VarBinary => "VARBINARY",
        T::TinyBlob => "TINYBLOB",
        T::Blob => "BLOB",
        T::MediumBlob => "MEDIUMBLOB",
        T::LongBlob => "LONGBLOB",
        T::Enum => "ENUM",
        T::Set => "SET",
        T::Json => "JSON",
        T::Serial => "SERIAL",
        T::Geometry => "GEOMETRY",
        T::Point => "POINT",
        T::LineString => "LINESTRING",
        T::Polygon => "POLYGON",
        T::MultiPoint => "MULTIPOINT",
        T::MultiLineString => "MULTILINESTRING",
        T::MultiPolygon => "MULTIPOLYGON",
        T::GeometryCollection => "GEOMETRYCOLLECTION",
    }
}
