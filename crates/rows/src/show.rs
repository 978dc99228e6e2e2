//! SHOW CREATE TABLE: the definition as text that MySQL can load.
//!
//! Laid out as MySQL 8 prints it, so that dumps and schema tools that compare
//! texts find what they expect. An engine name that was given (`ndbcluster`,
//! `InnoDB`) is printed back; nothing is printed that MySQL would refuse.

use crate::catalog::{CheckConstraint, Column, ColumnDefault, Index, IndexKind, IndexPart, Table};
use crate::fk;
use porpoise_types::{ColumnType, Kind, Value, write_text};

/// The text of SHOW CREATE TABLE. `next_id` is the next auto-increment value,
/// printed when above 1.
pub fn create_table(table: &Table, next_id: Option<u64>) -> String {
    let mut lines: Vec<String> = table.columns.iter().map(|c| column(table, c)).collect();
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
    for (name, value) in &options.other {
        text.push_str(&format!(" {name}={value}"));
    }
    if !options.comment.is_empty() {
        text.push_str(&format!(" COMMENT={}", literal(&options.comment)));
    }
    text.push_str(&crate::show_partitions::clause(table));
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

fn column(table: &Table, c: &Column) -> String {
    let mut text = format!("{} {}", quote(&c.name), c.ty.sql());
    if has_charset(&c.ty) {
        let collation = c.ty.collation;
        let named = c.explicit_collation || collation != table.options.collation;
        if named {
            text.push_str(&format!(" CHARACTER SET {}", collation.charset().name()));
        }
        if collation != collation.charset().default_collation()
            || named && collation.charset().name() == "utf8mb4"
        {
            text.push_str(&format!(" COLLATE {}", collation.name()));
        }
    }
    if let Some(generated) = &c.generated {
        let kind = if generated.stored {
            "STORED"
        } else {
            "VIRTUAL"
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

/// A default as MySQL prints it: always quoted, but for bits and raw bytes.
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

fn part(table: &Table, part: &IndexPart) -> String {
    let name = table.columns.get(part.column).map_or("", |c| &c.name);
    let mut text = quote(name);
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

fn index(table: &Table, index: &Index) -> Option<String> {
    if index.kind == IndexKind::Primary && table.hidden_key {
        return None;
    }
    let parts: Vec<String> = index.parts.iter().map(|p| part(table, p)).collect();
    let parts = parts.join(",");
    let mut text = match index.kind {
        IndexKind::Primary => format!("PRIMARY KEY ({parts})"),
        IndexKind::Unique => format!("UNIQUE KEY {} ({parts})", quote(&index.name)),
        IndexKind::Plain => format!("KEY {} ({parts})", quote(&index.name)),
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
    Some(text)
}
