//! SHOW CREATE TABLE: the definition as text that MySQL can load.
//!
//! Formatted as by MySQL 8, so that dumps and schema tools that compare texts work. An engine name
//! that was given (`ndbcluster`, `InnoDB`) is printed; nothing is printed that MySQL would refuse.
//! The parts of PARTITION BY are also available separately for information_schema.PARTITIONS.

use crate::definition::{
    CheckConstraint, Column, ColumnDefault, GeneratedKind, Index, IndexKind, IndexPart, TableDef,
};
use crate::fk;
use crate::partition::expr::{PartitionExpr, PartitionOp};
use crate::partition::{
    Method, Partition, PartitionBound, Partitioning, Subpartition, Subpartitioning,
};
use porpoise_types::full_text::TextParser;
use porpoise_types::{ColumnType, Kind, Value, write_text};

/// The text of SHOW CREATE TABLE. `next_id` is the next auto-increment value,
/// printed when above 1.
pub fn create_table(table: &TableDef, next_id: Option<u64>) -> String {
    let columns = table.named_columns();
    let mut lines: Vec<String> = columns.map(|(_, c)| column(table, c)).collect();
    lines.extend(table.indexes.iter().filter_map(|i| index(table, i)));
    lines.extend(table.foreign_keys.iter().map(|k| fk::definition(table, k)));
    lines.extend(table.checks.iter().map(check));
    let body = lines.join(",\n  ");
    let mut text = format!("CREATE TABLE {} (\n  {body}\n)", quote(&table.name));
    let options = &table.options;
    text.push_str(&format!(" ENGINE={}", options.engine));
    if let Some(next) = next_id.filter(|n| *n > 1 && table.auto_increment().is_some()) {
        text.push_str(&format!(" AUTO_INCREMENT={next}"));
    }
    let collation = options.collation;
    text.push_str(&format!(" DEFAULT CHARSET={}", collation.charset().name()));
    if collation.charset().default_collation() != collation
        || collation.charset().name() == "utf8mb4"
    {
        text.push_str(&format!(" COLLATE={}", collation.name()));
    }
    let is_connection = |(name, _): &&(String, String)| name == "CONNECTION";
    for (name, value) in options.other.iter().filter(|o| !is_connection(o)) {
        text.push_str(&format!(" {name}={value}"));
    }
    if !options.comment.is_empty() {
        text.push_str(&format!(" COMMENT={}", literal(&options.comment)));
    }
    for (name, value) in options.other.iter().filter(is_connection) {
        text.push_str(&format!(" {name}={value}"));
    }
    if let Some(ttl) = &options.ttl {
        text.push_str(&ttl.clauses());
    }
    text.push_str(&partition_clause(table));
    text
}

/// `` `name` ``, with backticks inside doubled.
pub fn quote(name: &str) -> String {
    fk::quote(name)
}

/// `'text'`, escaped as MySQL prints it.
pub fn literal(text: &str) -> String {
    let escaped = text
        .replace('\\', "\\\\")
        .replace('\'', "''")
        .replace('\n', "\\n")
        .replace('\r', "\\r")
        .replace('\0', "\\0");
    format!("'{escaped}'")
}

fn column(table: &TableDef, c: &Column) -> String {
    let mut text = format!("{} {}", quote(&c.name), c.ty.sql());
    if has_charset(&c.ty) {
        let collation = c.ty.collation;
        let named = c.explicit_collation || collation != table.options.collation;
        if named {
            text.push_str(&format!(" CHARACTER SET {}", collation.charset().name()));
        }
        if collation != collation.charset().default_collation()
            || c.explicit_collation
            || named && collation.charset().name() == "utf8mb4"
        {
            text.push_str(&format!(" COLLATE {}", collation.name()));
        }
    }
    if let Some(generated) = &c.generated {
        let kind = match generated.kind {
            GeneratedKind::Stored => "STORED",
            GeneratedKind::Virtual | GeneratedKind::KeyPart | GeneratedKind::ArrayPart => "VIRTUAL",
        };
        let of = &generated.expression.text;
        text.push_str(&format!(" GENERATED ALWAYS AS ({of}) {kind}"));
    }
    if !c.nullable {
        text.push_str(" NOT NULL");
    } else if c.ty.kind == Kind::Timestamp {
        text.push_str(" NULL");
    }
    if c.auto_increment {
        text.push_str(" AUTO_INCREMENT");
    }
    text.push_str(&default(c));
    if c.on_update_now {
        text.push_str(&format!(" ON UPDATE {}", now(&c.ty)));
    }
    if c.invisible {
        text.push_str(" /*!80023 INVISIBLE */");
    }
    if !c.comment.is_empty() {
        text.push_str(&format!(" COMMENT {}", literal(&c.comment)));
    }
    text
}

fn has_charset(ty: &ColumnType) -> bool {
    let textual = matches!(ty.kind, Kind::Char | Kind::VarChar | Kind::Enum | Kind::Set)
        || matches!(
            ty.kind,
            Kind::TinyText | Kind::Text | Kind::MediumText | Kind::LongText
        );
    textual && ty.collation.charset().name() != "binary"
}

fn now(ty: &ColumnType) -> String {
    match ty.decimals {
        0 => "CURRENT_TIMESTAMP".to_owned(),
        fsp => format!("CURRENT_TIMESTAMP({fsp})"),
    }
}

fn default(c: &Column) -> String {
    if c.generated.is_some() {
        return String::new();
    }
    match &c.default {
        ColumnDefault::Expr(e) => format!(" DEFAULT ({})", e.text),
        ColumnDefault::None => String::new(),
        ColumnDefault::Null if c.ty.is_blob() && c.ty.kind != Kind::Json => String::new(),
        ColumnDefault::Null => " DEFAULT NULL".to_owned(),
        ColumnDefault::Now => format!(" DEFAULT {}", now(&c.ty)),
        ColumnDefault::Literal(value) => format!(" DEFAULT {}", default_literal(c, value)),
    }
}

/// Formats a default value as MySQL does: quoted, except bits and binary strings.
fn default_literal(c: &Column, value: &Value) -> String {
    if let (Kind::Bit, Value::UInt(bits)) = (c.ty.kind, value) {
        return format!("b'{bits:b}'");
    }
    let mut text = Vec::new();
    write_text(value.as_ref(), &c.ty, &mut text);
    match String::from_utf8(text) {
        Ok(text) => literal(&text),
        Err(raw) => {
            let hex = raw.as_bytes().iter().map(|b| format!("{b:02X}"));
            format!("0x{}", hex.collect::<String>())
        }
    }
}

fn part(table: &TableDef, part: &IndexPart) -> String {
    let column = table.columns.get(part.column);
    let mut text = match column.and_then(Column::key_part) {
        Some(expression) => format!("({})", expression.text),
        None => quote(column.map_or("", |c| &c.name)),
    };
    if let Some(prefix) = part.prefix {
        text.push_str(&format!("({prefix})"));
    }
    if part.desc {
        text.push_str(" DESC");
    }
    text
}

fn check(check: &CheckConstraint) -> String {
    let name = quote(&check.name);
    let mut text = format!("CONSTRAINT {name} CHECK ({})", check.expression.text);
    if !check.enforced {
        text.push_str(" /*!80016 NOT ENFORCED */");
    }
    text
}

fn index(table: &TableDef, index: &Index) -> Option<String> {
    if index.kind == IndexKind::Primary && table.hidden_key {
        return None;
    }
    let parts: Vec<String> = index.parts.iter().map(|p| part(table, p)).collect();
    let parts = parts.join(",");
    let mut text = match index.kind {
        IndexKind::Primary => format!("PRIMARY KEY ({parts})"),
        IndexKind::Unique => format!("UNIQUE KEY {} ({parts})", quote(&index.name)),
        IndexKind::Plain => format!("KEY {} ({parts})", quote(&index.name)),
        IndexKind::FullText => format!("FULLTEXT KEY {} ({parts})", quote(&index.name)),
    };
    if index.using_hash {
        text.push_str(" USING HASH");
    }
    if !index.comment.is_empty() {
        text.push_str(&format!(" COMMENT {}", literal(&index.comment)));
    }
    if index.invisible {
        text.push_str(" /*!80000 INVISIBLE */");
    }
    let parser = index.full_text.as_ref().map(|settings| settings.parser);
    if let Some(TextParser::Ngrams(_)) = parser {
        text.push_str(" /*!50100 WITH PARSER `ngram` */ ");
    }
    Some(text)
}

/// Returns the PARTITION BY clause after a line break, or an empty string.
fn partition_clause(table: &TableDef) -> String {
    let mut text = String::new();
    if let Some(colocate) = &table.colocate {
        text.push_str(&format!(" /*!99999 COLOCATE WITH {} */", colocate.with));
    }
    let Some(by) = &table.partitioning else {
        return text;
    };
    let since = match by.method {
        Method::RangeColumns | Method::ListColumns => "50500",
        _ => "50100",
    };
    let (words, gap) = match by.method {
        Method::RangeColumns => ("RANGE  COLUMNS", ""),
        Method::ListColumns => ("LIST  COLUMNS", ""),
        method => (method.sql_keywords(), " "),
    };
    let algorithm = algorithm(by.algorithm);
    let inner = expression(table, &by.columns, by.expr.as_ref());
    text.push_str(&format!(
        "\n/*!{since} PARTITION BY {words}{algorithm}{gap}({inner})"
    ));
    if let Some(sub) = &by.sub {
        text.push_str(&subpartition_by(table, sub));
    }
    if by.by_number {
        text.push_str(&format!("\nPARTITIONS {} */", by.partitions.len()));
        return text;
    }
    let parts: Vec<String> = by
        .partitions
        .iter()
        .map(|p| partition(table, by, p))
        .collect();
    text.push_str(&format!("\n({}) */", parts.join(",\n ")));
    text
}

/// ALGORITHM of KEY.
fn algorithm(algorithm: Option<u8>) -> String {
    algorithm.map_or_else(String::new, |a| format!(" /*!50611 ALGORITHM = {a} */"))
}

/// Returns SUBPARTITION BY after a line break.
fn subpartition_by(table: &TableDef, sub: &Subpartitioning) -> String {
    let words = sub.method.sql_keywords();
    let algorithm = algorithm(sub.algorithm);
    let inner = expression(table, &sub.columns, sub.expr.as_ref());
    let mut text = format!("\nSUBPARTITION BY {words}{algorithm} ({inner})");
    if sub.by_number && sub.count > 1 {
        text.push_str(&format!("\nSUBPARTITIONS {}", sub.count));
    }
    text
}

fn partition(table: &TableDef, by: &Partitioning, p: &Partition) -> String {
    let mut text = format!("PARTITION {}", plain_name(&p.name));
    match (&p.bound, description(table, by, p)) {
        (PartitionBound::LessThan(_), Some(bound)) if bound == "MAXVALUE" => {
            text.push_str(" VALUES LESS THAN MAXVALUE");
        }
        (PartitionBound::LessThan(_), Some(bound)) => {
            text.push_str(&format!(" VALUES LESS THAN ({bound})"));
        }
        (PartitionBound::In(_), Some(values)) => text.push_str(&format!(" VALUES IN ({values})")),
        _ => {}
    }
    if by.sub.as_ref().is_some_and(|sub| !sub.by_number) {
        let subpartition = |sub: &Subpartition| {
            let options = partition_options(table, &sub.comment);
            format!("SUBPARTITION {}{options}", plain_name(&sub.name))
        };
        let all: Vec<String> = p.subpartitions.iter().map(subpartition).collect();
        text.push_str(&format!("\n ({})", all.join(",\n  ")));
        return text;
    }
    text.push_str(&partition_options(table, &p.comment));
    text
}

/// COMMENT and ENGINE of a partition or subpartition.
fn partition_options(table: &TableDef, comment: &str) -> String {
    let mut text = String::new();
    if !comment.is_empty() {
        text.push_str(&format!(" COMMENT = {}", literal(comment)));
    }
    text.push_str(&format!(" ENGINE = {}", table.options.engine));
    text
}

/// Quotes a name with backticks if necessary.
fn plain_name(name: &str) -> String {
    let simple = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '$';
    let digits = name.chars().all(|c| c.is_ascii_digit());
    if !name.is_empty() && name.chars().all(simple) && !digits {
        name.to_owned()
    } else {
        quote(name)
    }
}

/// Returns the text between the parentheses of PARTITION BY or SUBPARTITION BY.
fn expression(table: &TableDef, columns: &[usize], by: Option<&PartitionExpr>) -> String {
    if let Some(e) = by {
        return expr(table, e);
    }
    let name = |c: &usize| table.columns.get(*c).map(|c| plain_name(&c.name));
    let names: Vec<String> = columns.iter().filter_map(name).collect();
    names.join(",")
}

/// Returns the expression or the columns as in information_schema, with all names between
/// backticks.
pub fn quoted_expression(
    table: &TableDef,
    columns: &[usize],
    by: Option<&PartitionExpr>,
) -> String {
    if let Some(e) = by {
        return expr(table, e);
    }
    let name = |c: &usize| table.columns.get(*c).map(|c| quote(&c.name));
    let names: Vec<String> = columns.iter().filter_map(name).collect();
    names.join(",")
}

fn expr(table: &TableDef, e: &PartitionExpr) -> String {
    match e {
        PartitionExpr::Column(at) => table
            .columns
            .get(*at)
            .map_or_else(String::new, |c| quote(&c.name)),
        PartitionExpr::Int(v) => v.to_string(),
        PartitionExpr::Op(op, a, b) => {
            let op = match op {
                PartitionOp::Add => "+",
                PartitionOp::Sub => "-",
                PartitionOp::Mul => "*",
                PartitionOp::Div => "DIV",
                PartitionOp::Mod => "%",
            };
            format!("({} {op} {})", expr(table, a), expr(table, b))
        }
        PartitionExpr::Call(function, args) => {
            let args: Vec<String> = args.iter().map(|a| expr(table, a)).collect();
            format!(
                "{}({})",
                function.name().to_ascii_lowercase(),
                args.join(",")
            )
        }
    }
}

/// The bound or the values of a partition; `None` for HASH and KEY.
pub fn description(table: &TableDef, by: &Partitioning, p: &Partition) -> Option<String> {
    let types: Vec<Option<&ColumnType>> = match &by.expr {
        Some(_) => vec![None],
        None => {
            let ty = |c: &usize| table.columns.get(*c).map(|c| &c.ty);
            by.columns.iter().map(ty).collect()
        }
    };
    match &p.bound {
        PartitionBound::None => None,
        PartitionBound::LessThan(bounds) => {
            let bounds = bounds.iter().zip(&types).map(|(bound, ty)| match bound {
                None => "MAXVALUE".to_owned(),
                Some(v) => value(v, *ty),
            });
            Some(bounds.collect::<Vec<_>>().join(","))
        }
        PartitionBound::In(tuples) => {
            let tuples = tuples.iter().map(|tuple| {
                let values = tuple.iter().zip(&types).map(|(v, ty)| value(v, *ty));
                let values = values.collect::<Vec<_>>().join(",");
                match types.len() {
                    1 => values,
                    _ => format!("({values})"),
                }
            });
            Some(tuples.collect::<Vec<_>>().join(","))
        }
    }
}

fn value(value: &Value, ty: Option<&ColumnType>) -> String {
    let number = ColumnType::int(Kind::BigInt);
    let ty = ty.unwrap_or(&number);
    if value.is_null() {
        return "NULL".to_owned();
    }
    let mut out = Vec::new();
    write_text(value.as_ref(), ty, &mut out);
    let text = String::from_utf8_lossy(&out);
    if ty.is_integer() {
        text.into_owned()
    } else {
        literal(&text)
    }
}
