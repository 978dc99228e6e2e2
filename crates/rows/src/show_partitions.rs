//! PARTITION BY as text: for SHOW CREATE TABLE, in the comments in which
//! MySQL prints it, and piece by piece for information_schema.PARTITIONS.

use crate::catalog::Table;
use crate::fk::quote;
use crate::partition::expr::{PartitionExpr, PartitionOp};
use crate::partition::{Method, Partition, PartitionBound, Partitioning};
use crate::show::literal;
use porpoise_types::{ColumnType, Kind, Value, write_text};

/// The clause with a line break before it, or nothing.
pub(crate) fn clause(table: &Table) -> String {
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
        method => (method.words(), " "),
    };
    let algorithm = by
        .algorithm
        .map(|a| format!(" /*!50611 ALGORITHM = {a} */"));
    let algorithm = algorithm.unwrap_or_default();
    let inner = expression(table, by);
    text.push_str(&format!(
        "\n/*!{since} PARTITION BY {words}{algorithm}{gap}({inner})"
    ));
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

fn partition(table: &Table, by: &Partitioning, p: &Partition) -> String {
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
    if !p.comment.is_empty() {
        text.push_str(&format!(" COMMENT = {}", literal(&p.comment)));
    }
    text.push_str(&format!(" ENGINE = {}", table.options.engine));
    text
}

/// A name, between backticks only where it needs them.
fn plain_name(name: &str) -> String {
    let simple = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '$';
    let digits = name.chars().all(|c| c.is_ascii_digit());
    match !name.is_empty() && name.chars().all(simple) && !digits {
        true => name.to_owned(),
        false => quote(name),
    }
}

/// What stands between the parentheses of PARTITION BY.
fn expression(table: &Table, by: &Partitioning) -> String {
    if let Some(e) = &by.expr {
        return expr(table, e);
    }
    let name = |c: &usize| table.columns.get(*c).map(|c| plain_name(&c.name));
    let names: Vec<String> = by.columns.iter().filter_map(name).collect();
    names.join(",")
}

/// The expression or the columns as information_schema has them: names always
/// between backticks.
pub fn quoted_expression(table: &Table, by: &Partitioning) -> String {
    if let Some(e) = &by.expr {
        return expr(table, e);
    }
    let name = |c: &usize| table.columns.get(*c).map(|c| quote(&c.name));
    let names: Vec<String> = by.columns.iter().filter_map(name).collect();
    names.join(",")
}

fn expr(table: &Table, e: &PartitionExpr) -> String {
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
pub fn description(table: &Table, by: &Partitioning, p: &Partition) -> Option<String> {
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
    match ty.is_integer() {
        true => text.into_owned(),
        false => literal(&text),
    }
}
