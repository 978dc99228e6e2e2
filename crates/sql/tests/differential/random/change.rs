//! Statements that change rows, whose outcome does not depend on the order of rows.

use super::query::Scope;
use super::tables::Table;
use super::{Gen, Ty};

impl Gen {
    fn rows_of(table: &Table) -> Scope<'static> {
        Scope {
            sources: vec![(table.name.clone(), table.columns.clone())],
            ..Scope::default()
        }
    }

    /// A condition that asks no other table and compares no texts with numbers, which strict
    /// mode refuses in changes.
    fn plain_condition(&mut self, scope: &Scope<'_>) -> String {
        self.subqueries = 0;
        loop {
            let text = self.condition(scope, 2);
            if ![
                "'1'", "'2'", "'-1'", "'0'", "'1.5'", "'10'", "/", "%", "DIV",
            ]
            .iter()
            .any(|word| text.contains(word))
            {
                return text;
            }
        }
    }

    /// INSERT, REPLACE, UPDATE or DELETE of one of the tables.
    pub fn change(&mut self) -> String {
        let tables = self.tables.clone();
        let table = self.pick(&tables).clone();
        let scope = Self::rows_of(&table);
        self.named.clear();
        match self.rng.u8(0..9) {
            0 => format!(
                "INSERT INTO {} VALUES ({})",
                table.name,
                self.row(&table, None)
            ),
            1 => format!(
                "INSERT IGNORE INTO {} VALUES ({}), ({})",
                table.name,
                self.row(&table, None),
                self.row(&table, None)
            ),
            2 => format!(
                "REPLACE INTO {} VALUES ({})",
                table.name,
                self.row(&table, None)
            ),
            3 => {
                let row = self.row(&table, None);
                let (name, value) = self.assignment(&table);
                format!(
                    "INSERT INTO {} VALUES ({row}) ON DUPLICATE KEY UPDATE {name} = {value}",
                    table.name
                )
            }
            4 | 5 => {
                let condition = self.plain_condition(&scope);
                format!("DELETE FROM {} WHERE {condition}", table.name)
            }
            6 => {
                let (name, value) = self.assignment(&table);
                let condition = self.plain_condition(&scope);
                let order = self.order(&table);
                format!(
                    "UPDATE IGNORE {} SET {name} = {value} WHERE {condition}{order}",
                    table.name
                )
            }
            7 => self.joined(&table),
            _ => {
                let (name, value) = self.assignment(&table);
                let condition = self.plain_condition(&scope);
                let order = self.order(&table);
                let limit = if self.rng.bool() && !order.is_empty() {
                    " LIMIT 2"
                } else {
                    ""
                };
                format!(
                    "UPDATE {} SET {name} = {value} WHERE {condition}{order}{limit}",
                    table.name
                )
            }
        }
    }

    /// The order of a table's key.
    fn order(&mut self, table: &Table) -> String {
        let names: Vec<&str> = table
            .key
            .iter()
            .map(|at| table.columns[*at].name.as_str())
            .collect();
        format!(" ORDER BY {}", names.join(", "))
    }

    fn assignment(&mut self, table: &Table) -> (String, String) {
        let at = self.rng.usize(0..table.columns.len());
        let column = table.columns[at].clone();
        let value = match column.ty {
            Ty::Int if self.rng.bool() => format!("{} + 1", column.name),
            Ty::Str if self.one_in(3) => format!("LEFT(CONCAT({}, 'k'), 9)", column.name),
            ty if table.nullable[at] => self.literal(ty),
            ty => self.value(ty),
        };
        (column.name, value)
    }

    /// DELETE or UPDATE of rows that others join. A value that they get is the same
    /// whichever row joins.
    fn joined(&mut self, table: &Table) -> String {
        let tables = self.tables.clone();
        let other = self.pick(&tables).clone();
        let mut scope = Self::rows_of(table);
        scope.sources[0].0 = "x".to_owned();
        scope.sources.push(("y".to_owned(), other.columns.clone()));
        let condition = self.plain_condition(&scope);
        let (a, b) = (&table.name, &other.name);
        let join = *self.pick(&["JOIN", "LEFT JOIN"]);
        let column = table
            .columns
            .iter()
            .zip(&table.nullable)
            .find(|(_, nullable)| **nullable);
        match column {
            Some((column, _)) if self.rng.bool() => {
                let value = self.literal(column.ty);
                format!(
                    "UPDATE {a} AS x {join} {b} AS y ON x.id = y.id SET x.{} = {value} WHERE {condition}",
                    column.name
                )
            }
            _ => format!("DELETE x FROM {a} AS x {join} {b} AS y ON x.id = y.id WHERE {condition}"),
        }
    }
}
