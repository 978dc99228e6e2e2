//! Random queries: joins, groups, subqueries, unions.

use super::tables::{Column, Table};
use super::{Gen, Ty};

/// Names in scope at a place of a query.
#[derive(Default)]
pub struct Scope<'a> {
    /// Sources by alias.
    pub sources: Vec<(String, Vec<Column>)>,
    /// The scope of the enclosing query.
    pub outer: Option<&'a Scope<'a>>,
    /// Scope of the grouped rows, if aggregates are allowed.
    pub grouped: Option<&'a Scope<'a>>,
}

impl Scope<'_> {
    /// Qualified names and types of the columns.
    pub fn columns(&self) -> impl Iterator<Item = (String, Ty)> {
        self.sources.iter().flat_map(|(alias, columns)| {
            columns
                .iter()
                .map(move |c| (format!("{alias}.{}", c.name), c.ty))
        })
    }
}

/// The clauses of a SELECT.
pub struct Select {
    pub from: String,
    pub condition: Option<String>,
    pub items: Vec<String>,
    pub distinct: bool,
    /// GROUP BY and HAVING.
    pub groups: String,
    /// Whether it has groups, aggregates over all rows, or windows.
    pub grouped: bool,
}

impl Select {
    /// The query's text, with columns named c0, c1 and so on.
    pub fn text(&self) -> String {
        let condition = self.condition.as_ref();
        self.with_condition(condition.map(String::as_str))
    }

    /// The query's text with this condition in WHERE.
    pub fn with_condition(&self, condition: Option<&str>) -> String {
        let items: Vec<String> = self
            .items
            .iter()
            .enumerate()
            .map(|(at, item)| format!("{item} AS c{at}"))
            .collect();
        let distinct = if self.distinct { "DISTINCT " } else { "" };
        let condition = condition.map_or(String::new(), |c| format!(" WHERE {c}"));
        format!(
            "SELECT {distinct}{} FROM {}{condition}{}",
            items.join(", "),
            self.from,
            self.groups
        )
    }
}

impl Gen {
    fn alias(&mut self) -> String {
        self.aliases += 1;
        format!("q{}", self.aliases)
    }

    /// Between 1 and `max` types of columns.
    pub fn types(&mut self, max: usize) -> Vec<Ty> {
        (0..self.rng.usize(1..=max)).map(|_| self.ty()).collect()
    }

    /// A table, a derived table or a common table expression: its text in FROM, alias and columns.
    fn source(&mut self, depth: usize) -> (String, (String, Vec<Column>)) {
        let alias = self.alias();
        if depth > 0 && self.one_in(6) {
            let types = self.types(3);
            let query = self.query(&Scope::default(), &types, depth - 1);
            let columns = columns_of(&types);
            return (format!("({query}) AS {alias}"), (alias, columns));
        }
        if self.one_in(12) {
            let types = self.types(3);
            let columns = columns_of(&types);
            return (self.json_table(&types, &alias), (alias, columns));
        }
        if !self.named.is_empty() && self.one_in(3) {
            let named = self.named.clone();
            let (name, types) = self.pick(&named).clone();
            return (format!("{name} AS {alias}"), (alias, columns_of(&types)));
        }
        let tables = self.tables.clone();
        let table: &Table = self.pick(&tables);
        let columns = table.columns.clone();
        (format!("{} AS {alias}", table.name), (alias, columns))
    }

    /// A JSON_TABLE with columns of these types; objects of its document may lack some members.
    fn json_table(&mut self, types: &[Ty], alias: &str) -> String {
        let mut rows = Vec::new();
        for _ in 0..self.rng.usize(0..6) {
            let mut members = Vec::new();
            for (at, ty) in types.iter().enumerate() {
                if self.one_in(6) {
                    continue;
                }
                let value = self.value(*ty);
                let value = value.trim_start_matches("DATE").trim_matches('\'');
                members.push(match ty {
                    Ty::Int | Ty::Dec => format!("\"m{at}\": {value}"),
                    Ty::Str | Ty::Date => format!("\"m{at}\": \"{value}\""),
                });
            }
            rows.push(format!("{{{}}}", members.join(", ")));
        }
        let columns = types.iter().enumerate().map(|(at, ty)| {
            let ty = match ty {
                Ty::Int => "INT",
                Ty::Dec => "DECIMAL(8,2)",
                Ty::Str => "VARCHAR(20) CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci",
                Ty::Date => "DATE",
            };
            format!("c{at} {ty} PATH '$.m{at}'")
        });
        let columns: Vec<String> = columns.collect();
        let rows = rows.join(", ");
        format!(
            "JSON_TABLE('[{rows}]', '$[*]' COLUMNS ({})) AS {alias}",
            columns.join(", ")
        )
    }

    /// A tree of joins, whose sources are added to the scope.
    fn join(&mut self, scope: &mut Scope<'_>, depth: usize) -> String {
        let (mut text, first) = self.source(depth);
        // No outer columns: MariaDB returns wrong rows for those in the ON of outer joins.
        let mut tree: Scope<'_> = Scope {
            sources: vec![first],
            ..Scope::default()
        };
        let mut more = *self.pick(&[0, 0, 0, 1, 1, 1, 2]);
        while more > 0 {
            more -= 1;
            let (right, source) = self.source(depth);
            let right = if self.one_in(6) && more > 0 {
                // A nested tree on the right.
                more -= 1;
                let (third, other) = self.source(depth);
                let mut nested = Scope {
                    sources: vec![source, other],
                    ..Scope::default()
                };
                let on = self.on(&nested, depth);
                let kind = *self.pick(&["JOIN", "LEFT JOIN", "RIGHT JOIN"]);
                tree.sources.append(&mut nested.sources);
                format!("({right} {kind} {third} ON {on})")
            } else {
                tree.sources.push(source);
                right
            };
            let kind = *self.pick(&["JOIN", "LEFT JOIN", "LEFT JOIN", "RIGHT JOIN", "CROSS JOIN"]);
            text = match kind {
                "CROSS JOIN" => format!("{text} {kind} {right}"),
                _ if self.one_in(12) => format!("{text} {kind} {right} USING (id)"),
                _ => format!("{text} {kind} {right} ON {}", self.on(&tree, depth)),
            };
            if text.contains("USING") && tree.sources.iter().any(|(_, c)| c[0].name != "id") {
                text = text.replace(" USING (id)", " ON TRUE");
            }
        }
        scope.sources.append(&mut tree.sources);
        text
    }

    /// The condition of a join: mostly an equality of its last source with another.
    fn on(&mut self, scope: &Scope<'_>, depth: usize) -> String {
        if self.one_in(5) {
            return self.condition(scope, depth.min(1));
        }
        let ty = *self.pick(&[Ty::Int, Ty::Int, Ty::Int, Ty::Str, Ty::Dec, Ty::Date]);
        let names = |source: &(String, Vec<Column>)| -> Vec<String> {
            let same = source.1.iter().filter(|c| c.ty == ty);
            same.map(|c| format!("{}.{}", source.0, c.name)).collect()
        };
        let (last, others) = scope.sources.split_last().unwrap();
        let right = names(last);
        let left: Vec<String> = others.iter().flat_map(names).collect();
        if left.is_empty() || right.is_empty() {
            return self.condition(scope, 1);
        }
        let op = *self.pick(&["=", "=", "=", "=", "<=>", "<", ">="]);
        let equal = format!("{} {op} {}", self.pick(&left).clone(), self.pick(&right));
        match self.rng.u8(0..6) {
            0 => format!("{equal} AND {}", self.condition(scope, 1)),
            1 => format!("({equal} OR {})", self.condition(scope, 0)),
            _ => equal,
        }
    }

    /// One SELECT with columns of these types.
    pub fn select(&mut self, outer: &Scope<'_>, types: &[Ty], depth: usize) -> Select {
        let mut scope = Scope {
            outer: Some(outer),
            ..Scope::default()
        };
        let mut from = self.join(&mut scope, depth);
        if self.one_in(8) {
            let second = self.join(&mut scope, depth);
            from = format!("{from}, {second}");
        }
        let mut condition = (!self.one_in(3)).then(|| self.condition(&scope, 2));
        if self.one_in(5) {
            // A condition that mostly selects one row, which plans prefer to read first.
            let (alias, columns) = self.pick(&scope.sources).clone();
            let number = self.rng.u8(0..12);
            let one = format!("{alias}.{} = {number}", columns[0].name);
            if columns[0].ty == Ty::Int {
                condition = Some(condition.map_or(one.clone(), |c| format!("{one} AND ({c})")));
            }
        }
        if self.one_in(3) {
            return self.grouped(&scope, types, from, condition);
        }
        // Only at the top: MariaDB wrongly moves conditions on an IN subquery below its windows.
        let windowed = outer.sources.is_empty() && self.one_in(4);
        let distinct = !windowed && self.one_in(5);
        let items = types.iter().map(|ty| {
            if windowed && self.rng.bool() {
                self.windowed(&scope, *ty)
            } else {
                self.expr(&scope, *ty, 2)
            }
        });
        let items = items.collect();
        Select {
            from,
            condition,
            items,
            distinct,
            groups: String::new(),
            // A condition in WHERE changes the frames, so the query cannot be partitioned by it.
            grouped: windowed,
        }
    }

    /// A window function that does not depend on the order of peers.
    fn windowed(&mut self, scope: &Scope<'_>, ty: Ty) -> String {
        // No outer columns: MariaDB returns wrong rows for those in windows.
        let scope = &Scope {
            sources: scope.sources.clone(),
            ..Scope::default()
        };
        let mut keys = || {
            let ty = *self.pick(&[Ty::Int, Ty::Dec, Ty::Date]);
            self.column(scope, ty)
        };
        let (partition, order) = (keys(), keys());
        let call = match ty {
            Ty::Int if order.is_some() && self.one_in(3) => {
                (*self.pick(&["RANK()", "DENSE_RANK()"])).to_owned()
            }
            Ty::Int => match self.column(scope, Ty::Int) {
                Some(column) => format!("{}({column})", self.pick(&["COUNT", "MIN", "MAX"])),
                None => "COUNT(*)".to_owned(),
            },
            Ty::Dec => {
                let arg = self.expr(scope, Ty::Int, 0);
                format!("{}({arg})", self.pick(&["SUM", "AVG"]))
            }
            Ty::Str | Ty::Date => {
                let arg = self.expr(scope, ty, 0);
                format!("{}({arg})", self.pick(&["MIN", "MAX"]))
            }
        };
        let mut over = String::new();
        if let Some(key) = partition.filter(|_| self.rng.bool()) {
            over += &format!("PARTITION BY {key}");
        }
        if let Some(key) = order.filter(|_| call.contains("RANK") || self.rng.bool()) {
            over += &format!(" ORDER BY {key}{}", self.pick(&["", " DESC"]));
            if !call.contains("RANK") && self.one_in(3) {
                over += " RANGE BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING";
            }
        }
        format!("{call} OVER ({over})")
    }

    fn grouped(
        &mut self,
        scope: &Scope<'_>,
        types: &[Ty],
        from: String,
        condition: Option<String>,
    ) -> Select {
        // The columns of GROUP BY, by their aliases.
        let mut keys: Vec<(String, Vec<Column>)> = Vec::new();
        let mut names = Vec::new();
        for _ in 0..*self.pick(&[0, 1, 1, 1, 2, 2]) {
            let (alias, columns) = self.pick(&scope.sources).clone();
            let column = self.pick(&columns).clone();
            let name = format!("{alias}.{}", column.name);
            if !names.contains(&name) {
                names.push(name);
                keys.push((alias, vec![column]));
            }
        }
        let after = Scope {
            sources: keys,
            outer: scope.outer,
            grouped: Some(scope),
        };
        let mut groups = if names.is_empty() {
            String::new()
        } else {
            format!(" GROUP BY {}", names.join(", "))
        };
        let items: Vec<String> = types
            .iter()
            .map(|ty| {
                if self.rng.bool() {
                    self.aggregate(scope, *ty)
                } else {
                    self.expr(&after, *ty, 1)
                }
            })
            .collect();
        if self.one_in(3) {
            groups += &format!(" HAVING {}", self.condition(&after, 1));
        }
        Select {
            from,
            condition,
            items,
            // MariaDB returns duplicates if all items are constant in a group.
            distinct: false,
            groups,
            grouped: true,
        }
    }

    /// A SELECT, or several joined by set operations.
    pub fn query(&mut self, outer: &Scope<'_>, types: &[Ty], depth: usize) -> String {
        let first = self.select(outer, types, depth).text();
        if !self.one_in(7) {
            return first;
        }
        let mut text = first;
        let ops = ["UNION", "UNION ALL", "UNION", "EXCEPT", "INTERSECT"];
        for _ in 0..self.rng.usize(1..3) {
            // MariaDB returns wrong rows for outer columns beside EXCEPT and INTERSECT.
            let op = if outer.sources.is_empty() {
                *self.pick(&ops)
            } else {
                *self.pick(&["UNION", "UNION ALL"])
            };
            let next = self.select(outer, types, 0).text();
            text = format!("{text} {op} {next}");
        }
        text
    }

    /// A subquery with at most one row.
    pub fn scalar(&mut self, scope: &Scope<'_>, ty: Ty) -> String {
        let mut select = self.select(scope, &[ty], 0);
        if self.one_in(3) {
            return format!("({} ORDER BY 1 LIMIT 1)", select.text());
        }
        let (text, source) = self.source(0);
        select.from = text;
        let inner = Scope {
            sources: vec![source],
            outer: Some(scope),
            grouped: None,
        };
        select.items = vec![self.aggregate(&inner, ty)];
        select.condition = Some(self.condition(&inner, 1));
        select.groups = String::new();
        format!("({})", select.text())
    }

    /// IN, EXISTS and quantified comparisons.
    pub fn subquery_condition(&mut self, scope: &Scope<'_>, depth: usize) -> String {
        // No dates: MariaDB treats a NULL date as a date.
        let ty = *self.pick(&[Ty::Int, Ty::Int, Ty::Dec, Ty::Str]);
        match self.rng.u8(0..7) {
            0..2 => {
                let not = self.pick(&["", "NOT "]);
                let query = self.query(scope, &[ty], 0);
                format!("({not}EXISTS ({query}))")
            }
            2..5 => {
                let a = self.expr(scope, ty, depth);
                let not = self.pick(&["", "NOT "]);
                format!("({a} {not}IN ({}))", self.query(scope, &[ty], 0))
            }
            5 => {
                let other = *self.pick(&[Ty::Int, Ty::Str]);
                let (a, b) = (self.expr(scope, ty, 1), self.expr(scope, other, 0));
                let not = self.pick(&["", "NOT "]);
                let query = self.select(scope, &[ty, other], 0).text();
                format!("(({a}, {b}) {not}IN ({query}))")
            }
            _ => {
                let a = self.expr(scope, ty, depth);
                let op = self.pick(&["=", "<>", "<", "<=", ">", ">="]);
                let quantifier = *self.pick(&["ANY", "ALL", "SOME"]);
                let query = self.select(scope, &[ty], 0).text();
                format!("({a} {op} {quantifier} ({query}))")
            }
        }
    }

    /// A SELECT.
    pub fn statement(&mut self) -> String {
        self.subqueries = 3;
        self.named.clear();
        let mut with = String::new();
        if self.one_in(8) {
            let types = self.types(3);
            let query = self.query(&Scope::default(), &types, 1);
            let names: Vec<String> = (0..types.len()).map(|at| format!("c{at}")).collect();
            with = format!("WITH w ({}) AS ({query}) ", names.join(", "));
            self.named.push(("w".to_owned(), types));
        }
        let types = self.types(4);
        let query = self.query(&Scope::default(), &types, 2);
        let mut text = format!("{with}{query}");
        if self.one_in(3) {
            // All columns, so that rows with equal sort keys are identical.
            let orders = ["", "", " DESC"];
            let mut keys = Vec::new();
            for at in 1..=types.len() {
                keys.push(format!("{at}{}", self.pick(&orders)));
            }
            text += &format!(" ORDER BY {}", keys.join(", "));
            if self.rng.bool() {
                text += &format!(" LIMIT {}", self.rng.u8(0..9));
                // MariaDB ignores OFFSET if DISTINCT items are constant.
                if self.one_in(3) && !text.contains("DISTINCT") {
                    text += &format!(" OFFSET {}", self.rng.u8(0..5));
                }
            }
        }
        text
    }
}

fn columns_of(types: &[Ty]) -> Vec<Column> {
    let column = |(at, ty): (usize, &Ty)| Column {
        name: format!("c{at}"),
        ty: *ty,
    };
    types.iter().enumerate().map(column).collect()
}
