//! A naive table of a few columns in memory, which rewrites all rows when it is altered.

use porpoise_rows::ddl::Position;
use porpoise_types::{Collation, ColumnType, Kind, Value};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Type {
    Tiny,
    Int,
    Big,
    Text(u32),
}

#[derive(Clone, Debug, PartialEq)]
pub struct Col {
    pub name: String,
    pub ty: Type,
    pub nullable: bool,
    pub default: Option<Value>,
}

/// Rows in the order of their ids; the first column is `id` at the start.
#[derive(Clone, Debug)]
pub struct Naive {
    pub columns: Vec<Col>,
    pub rows: Vec<Vec<Value>>,
    /// Unique keys: name and columns.
    pub uniques: Vec<(String, Vec<String>)>,
    pub plain: Vec<(String, String)>,
    pub primary: bool,
}

impl Type {
    pub fn column_type(self) -> ColumnType {
        match self {
            Type::Tiny => ColumnType::int(Kind::TinyInt),
            Type::Int => ColumnType::int(Kind::Int),
            Type::Big => ColumnType::int(Kind::BigInt),
            Type::Text(n) => ColumnType::varchar(n, Collation::UTF8MB4_GENERAL_CI),
        }
    }
}

fn number(value: &Value) -> Option<i64> {
    match value {
        Value::Int(v) => Some(*v),
        Value::Bytes(b) => std::str::from_utf8(b).unwrap().parse().ok(),
        _ => None,
    }
}

/// A value in another type; `None` where it does not fit.
pub fn convert(value: &Value, ty: Type) -> Option<Value> {
    if value.is_null() {
        return Some(Value::Null);
    }
    let within = |v: i64, bound: i64| (-bound - 1..=bound).contains(&v).then_some(Value::Int(v));
    match ty {
        Type::Tiny => within(number(value)?, 127),
        Type::Int => within(number(value)?, i64::from(i32::MAX)),
        Type::Big => Some(Value::Int(number(value)?)),
        Type::Text(n) => {
            let text = match value {
                Value::Int(v) => v.to_string().into_bytes(),
                Value::Bytes(b) => b.clone(),
                _ => return None,
            };
            (text.len() <= n as usize).then_some(Value::Bytes(text))
        }
    }
}

impl Naive {
    pub fn at(&self, name: &str) -> usize {
        self.columns.iter().position(|c| c.name == name).unwrap()
    }

    /// Whether all unique keys hold.
    pub fn is_consistent(&self) -> bool {
        let mut keys: Vec<Vec<usize>> = self
            .uniques
            .iter()
            .map(|(_, columns)| columns.iter().map(|c| self.at(c)).collect())
            .collect();
        if self.primary {
            keys.push(vec![self.at("id")]);
        }
        keys.iter().all(|key| {
            let mut values: Vec<String> = self
                .rows
                .iter()
                .filter(|r| key.iter().all(|c| !r[*c].is_null()))
                .map(|r| format!("{:?}", key.iter().map(|c| &r[*c]).collect::<Vec<_>>()))
                .collect();
            let all = values.len();
            values.sort();
            values.dedup();
            values.len() == all
        }) && self.rows.iter().all(|r| {
            let mut cells = self.columns.iter().zip(r);
            cells.all(|(c, v)| c.nullable || !v.is_null())
        })
    }

    pub fn moved(&mut self, from: usize, to: &Position) {
        let column = self.columns[from].name.clone();
        let at = match to {
            Position::Default => return,
            Position::First => 0,
            Position::After(name) => {
                let after = self.at(name);
                if from <= after { after } else { after + 1 }
            }
        };
        let c = self.columns.remove(from);
        self.columns.insert(at, c);
        for row in &mut self.rows {
            let v = row.remove(from);
            row.insert(at, v);
        }
        assert_eq!(self.columns[at].name, column);
    }
}
