//! Random tables with keys of many kinds, and rows with NULLs, duplicates and equal sort keys.

use super::{Gen, Ty};

/// A column as expressions see it.
#[derive(Clone, Debug)]
pub struct Column {
    pub name: String,
    pub ty: Ty,
}

/// A created table.
#[derive(Clone, Debug)]
pub struct Table {
    pub name: String,
    pub columns: Vec<Column>,
    /// Columns by which rows are sorted; empty for all columns.
    pub key: Vec<usize>,
    /// Whether each column may be NULL.
    pub nullable: Vec<bool>,
}

const WORDS: &[&str] = &[
    "a", "A", "b", "B", "ab", "Ab", "abc", "", "1", "2", "10", "-1", "x1", "ba", "b a", "zz", "é",
];

impl Gen {
    /// A literal of a type, sometimes NULL.
    pub fn literal(&mut self, ty: Ty) -> String {
        if self.one_in(14) {
            // For some functions a plain NULL is a text, which becomes a double.
            return match ty {
                Ty::Int => "CAST(NULL AS SIGNED)".to_owned(),
                Ty::Dec => "CAST(NULL AS DECIMAL(8,2))".to_owned(),
                Ty::Str | Ty::Date => "NULL".to_owned(),
            };
        }
        self.value(ty)
    }

    /// A literal that is not NULL.
    pub fn value(&mut self, ty: Ty) -> String {
        match ty {
            Ty::Int => self.rng.i32(-3..7).to_string(),
            Ty::Dec => {
                let hundredths = self.rng.i32(-3..12) * 25;
                let sign = if hundredths < 0 { "-" } else { "" };
                let n = hundredths.abs();
                if self.rng.bool() {
                    format!("{sign}{}.{:02}", n / 100, n % 100)
                } else {
                    format!("{sign}{}.{}", n / 100, n / 10 % 10)
                }
            }
            Ty::Str => format!("'{}'", self.pick(WORDS)),
            Ty::Date => {
                let days = [
                    "2024-01-31",
                    "2024-02-29",
                    "2023-12-31",
                    "2024-02-01",
                    "1999-05-17",
                ];
                format!("DATE'{}'", self.pick(&days))
            }
        }
    }

    fn column_type(&mut self, ty: Ty) -> String {
        let name = match ty {
            Ty::Int => *self.pick(&["INT", "BIGINT", "SMALLINT", "TINYINT"]),
            Ty::Dec => *self.pick(&["DECIMAL(8,2)", "DECIMAL(10,1)", "DECIMAL(12,4)"]),
            Ty::Str => *self.pick(&[
                "VARCHAR(10)",
                "VARCHAR(10)",
                "VARCHAR(20) COLLATE utf8mb4_bin",
                "TEXT",
                "CHAR(10)",
            ]),
            Ty::Date => "DATE",
        };
        name.to_owned()
    }

    /// A random table. Adds the statements that create and fill it to `out`.
    pub fn table(&mut self, name: &str, rows: usize, out: &mut Vec<String>) -> Table {
        let all = [Ty::Int, Ty::Int, Ty::Dec, Ty::Str, Ty::Str, Ty::Date];
        let count = self.rng.usize(2..6);
        let mut columns = vec![Column {
            name: "id".to_owned(),
            ty: Ty::Int,
        }];
        let mut parts = vec!["id INT NOT NULL".to_owned()];
        let mut nullable = vec![false];
        for at in 0..count {
            let ty = *self.pick(&all);
            let name = format!("{}{at}", ty.letter());
            let not_null = self.one_in(4);
            let null = if not_null { " NOT NULL" } else { "" };
            parts.push(format!("{name} {}{null}", self.column_type(ty)));
            columns.push(Column { name, ty });
            nullable.push(!not_null);
        }
        let mut key = vec![0];
        match self.rng.u8(0..6) {
            0 => key.clear(),
            1 => parts.push("UNIQUE KEY (id)".to_owned()),
            2 => {
                let other =
                    (1..columns.len()).find(|at| !nullable[*at] && !parts[*at].contains("TEXT"));
                match other {
                    Some(at) => {
                        parts.push(format!("PRIMARY KEY ({}, id)", columns[at].name));
                        key = vec![at, 0];
                    }
                    None => parts.push("PRIMARY KEY (id)".to_owned()),
                }
            }
            _ => parts.push("PRIMARY KEY (id)".to_owned()),
        }
        for _ in 0..self.rng.usize(0..4) {
            let index = self.index(&columns, &parts);
            parts.push(index);
        }
        out.push(format!("CREATE TABLE {name} ({})", parts.join(", ")));
        let table = Table {
            name: name.to_owned(),
            columns,
            key,
            nullable,
        };
        let rows: Vec<String> = (0..rows)
            .map(|id| format!("({})", self.row(&table, Some(id))))
            .collect();
        if !rows.is_empty() {
            out.push(format!(
                "INSERT IGNORE INTO {name} VALUES {}",
                rows.join(", ")
            ));
        }
        table
    }

    /// An index of random columns; `parts` are the definitions of the columns.
    fn index(&mut self, columns: &[Column], parts: &[String]) -> String {
        let mut used = Vec::new();
        for _ in 0..self.rng.usize(1..4) {
            let at = self.rng.usize(0..columns.len());
            if used.iter().all(|(seen, _)| *seen != at) {
                let name = &columns[at].name;
                let part = match columns[at].ty == Ty::Str {
                    true if parts[at].contains("TEXT") || self.one_in(3) => {
                        format!("{name}({})", self.rng.u8(1..4))
                    }
                    _ => name.clone(),
                };
                let order = if self.one_in(5) { " DESC" } else { "" };
                used.push((at, format!("{part}{order}")));
            }
        }
        let list: Vec<String> = used.into_iter().map(|(_, part)| part).collect();
        let kind = if self.one_in(5) { "UNIQUE KEY" } else { "KEY" };
        format!("{kind} ({})", list.join(", "))
    }

    /// Values of a row; without an id, the id is random and may exist.
    pub fn row(&mut self, table: &Table, id: Option<usize>) -> String {
        let mut values = vec![match id {
            Some(id) => id.to_string(),
            None => self.rng.u8(0..30).to_string(),
        }];
        for at in 1..table.columns.len() {
            let ty = table.columns[at].ty;
            values.push(if table.nullable[at] && self.one_in(4) {
                "NULL".to_owned()
            } else {
                self.value(ty)
            });
        }
        values.join(", ")
    }
}
