//! Statements that change rows, whose outcome does not depend on the order of rows.

use super::query::Scope;
use super::tables::{Column, Table};
use super::{Gen, Ty};

impl Gen {
    /// A scope whose only source is the table.
    fn table_scope(table: &Table) -> Scope<'static> {
        Scope {
            sources: vec![(table.name.clone(), table.columns.clone())],
            ..Scope::default()
        }
    }

    /// A condition without subqueries, and without comparisons of texts with numbers, which strict
    /// mode rejects in statements that change rows.
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
        let scope = Self::table_scope(&table);
        self.named.clear();
        match self.rng.u8(0..15) {
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
            7 => self.change_join(&table),
            8 => self.insert_select(&table),
            9 => self.update_with_subquery(&table),
            10 => {
                let condition = self.plain_condition(&scope);
                let order = self.order(&table);
                format!(
                    "DELETE FROM {} WHERE {condition}{order} LIMIT 3",
                    table.name
                )
            }
            11 => {
                let condition = self.condition_of_others(&scope, &table);
                format!("DELETE FROM {} WHERE {condition}", table.name)
            }
            12 => self.change_both_of_join(&table),
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

    /// A condition with subqueries on tables other than the one that changes.
    fn condition_of_others(&mut self, scope: &Scope<'_>, table: &Table) -> String {
        let all = self.tables.clone();
        self.tables.retain(|t| t.name != table.name);
        if self.tables.is_empty() {
            self.tables = all;
            return self.plain_condition(scope);
        }
        let mut text;
        loop {
            self.subqueries = 1;
            text = self.condition(scope, 2);
            if ![
                "'1'", "'2'", "'-1'", "'0'", "'1.5'", "'10'", "/", "%", "DIV",
            ]
            .iter()
            .any(|word| text.contains(word))
            {
                break;
            }
        }
        self.tables = all;
        text
    }

    /// INSERT ... SELECT from another table, in the order of its key, with a choice of what happens
    /// to rows whose key exists.
    fn insert_select(&mut self, table: &Table) -> String {
        let others: Vec<Table> = self.tables.clone();
        let other = self.pick(&others).clone();
        if other.name == table.name {
            return format!("INSERT IGNORE INTO {0} SELECT * FROM {0}", table.name);
        }
        let scope = Self::table_scope(&other);
        self.subqueries = 0;
        let mut items = vec![format!("{}.id + {}", other.name, self.rng.u8(0..12))];
        for at in 1..table.columns.len() {
            let ty = table.columns[at].ty;
            let value = if self.rng.bool() {
                self.expr(&scope, ty, 0)
            } else {
                self.value(ty)
            };
            items.push(match (ty, table.nullable[at]) {
                (Ty::Str, true) => format!("LEFT({value}, 9)"),
                (Ty::Str, false) => format!("LEFT(COALESCE({value}, 'd'), 9)"),
                (_, true) => value,
                (ty, false) => format!("COALESCE({value}, {})", self.value(ty)),
            });
        }
        let condition = self.plain_condition(&scope);
        let order = self.order(&other);
        let (verb, on_duplicate) = match self.rng.u8(0..4) {
            0 => ("INSERT", String::new()),
            1 => ("INSERT IGNORE", String::new()),
            2 => ("REPLACE", String::new()),
            _ => {
                let at = self.rng.usize(0..table.columns.len());
                let column = table.columns[at].clone();
                let value = match self.rng.u8(0..3) {
                    0 => format!("VALUES({})", column.name),
                    1 => format!("{}.{}", table.name, column.name),
                    _ => match column.ty {
                        Ty::Int => format!("COALESCE({}.id, 0) + 1", other.name),
                        ty => self.value(ty),
                    },
                };
                (
                    "INSERT",
                    format!(
                        " ON DUPLICATE KEY UPDATE {}.{} = {value}",
                        table.name, column.name
                    ),
                )
            }
        };
        format!(
            "{verb} INTO {} SELECT {} FROM {} WHERE {condition}{order}{on_duplicate}",
            table.name,
            items.join(", "),
            other.name
        )
    }

    /// UPDATE with a value from another table, or of rows that subqueries on other tables select.
    fn update_with_subquery(&mut self, table: &Table) -> String {
        let scope = Self::table_scope(table);
        let condition = self.condition_of_others(&scope, table);
        let (name, value) = self.assignment(table);
        let others: Vec<Table> = self.tables.clone();
        let other = self.pick(&others).clone();
        let column = table.columns.iter().zip(&table.nullable);
        let column = column.clone().find(|(c, null)| **null && c.name != "id");
        if let (Some((column, _)), true) = (column, other.name != table.name) {
            let same = other.columns.iter().find(|c| c.ty == column.ty);
            if let Some(same) = same {
                return format!(
                    "UPDATE {0} SET {1} = (SELECT MAX({3}) FROM {2} WHERE {2}.id > {0}.id) WHERE {condition}",
                    table.name,
                    column.name,
                    other.name,
                    match column.ty {
                        Ty::Str => format!("LEFT({}.{}, 9)", other.name, same.name),
                        _ => format!("{}.{}", other.name, same.name),
                    }
                );
            }
        }
        let order = self.order(table);
        format!(
            "UPDATE {} SET {name} = {value} WHERE {condition}{order}",
            table.name
        )
    }

    /// DELETE from two tables at once, or UPDATE of both.
    fn change_both_of_join(&mut self, table: &Table) -> String {
        let tables = self.tables.clone();
        let other = self.pick(&tables).clone();
        if other.name == table.name {
            return self.change_join(table);
        }
        let mut scope = Self::table_scope(table);
        scope.sources[0].0 = "x".to_owned();
        scope.sources.push(("y".to_owned(), other.columns.clone()));
        let condition = self.plain_condition(&scope);
        let (a, b) = (&table.name, &other.name);
        let nullable = |t: &Table| {
            let mut both = t.columns.iter().zip(&t.nullable);
            both.find(|(_, null)| **null).map(|(c, _)| c.clone())
        };
        match (nullable(table), nullable(&other)) {
            (Some(c), Some(d)) if self.rng.bool() => {
                let (v, w) = (self.literal(c.ty), self.literal(d.ty));
                format!(
                    "UPDATE {a} AS x JOIN {b} AS y ON x.id = y.id SET x.{} = {v}, y.{} = {w} WHERE {condition}",
                    c.name, d.name
                )
            }
            _ => {
                format!("DELETE x, y FROM {a} AS x JOIN {b} AS y ON x.id = y.id WHERE {condition}")
            }
        }
    }

    /// ORDER BY the table's key, or all columns: rows with equal sort keys are identical.
    fn order(&mut self, table: &Table) -> String {
        let name = |column: &Column| match column.ty {
            Ty::Str => format!("CAST({} AS BINARY)", column.name),
            _ => column.name.clone(),
        };
        let names: Vec<String> = if table.key.is_empty() {
            table.columns.iter().map(name).collect()
        } else {
            let key = table.key.iter().map(|at| table.columns[*at].name.clone());
            key.collect()
        };
        format!(" ORDER BY {}", names.join(", "))
    }

    /// A column and a value for it.
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

    /// DELETE or UPDATE of rows that a join selects. An assigned value does not depend on the
    /// joined row.
    fn change_join(&mut self, table: &Table) -> String {
        let tables = self.tables.clone();
        let other = self.pick(&tables).clone();
        let mut scope = Self::table_scope(table);
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
