//! Random expressions. They are typed, so that both servers agree about conversions, except for
//! occasional comparisons of numbers with texts.

use super::query::Scope;
use super::{Gen, Ty};

impl Gen {
    /// The name of a random column of this type in the scope or the scopes around it; `None` if there
    /// is none.
    pub fn column(&mut self, scope: &Scope<'_>, ty: Ty) -> Option<String> {
        let mut found = Vec::new();
        let mut level = Some(scope);
        let mut weight = 4;
        while let Some(scope) = level {
            for (name, column) in scope.columns() {
                if column == ty {
                    found.extend(std::iter::repeat_n(name, weight));
                }
            }
            level = scope.outer;
            weight = 2;
        }
        if found.is_empty() {
            None
        } else {
            Some(self.pick(&found).clone())
        }
    }

    fn leaf(&mut self, scope: &Scope<'_>, ty: Ty) -> String {
        if let Some(inner) = scope.grouped
            && self.one_in(2)
        {
            return self.aggregate(inner, ty);
        }
        if self.one_in(5) {
            return self.literal(ty);
        }
        self.column(scope, ty).unwrap_or_else(|| self.literal(ty))
    }

    /// An aggregate of a type over rows of `scope`.
    pub fn aggregate(&mut self, scope: &Scope<'_>, ty: Ty) -> String {
        // No columns of outer queries: alone they would make the outer query an aggregate, and
        // beside other columns MariaDB reports them as columns outside of GROUP BY (1055).
        let scope = &Scope {
            sources: scope.sources.clone(),
            ..Scope::default()
        };
        let distinct = if self.one_in(4) { "DISTINCT " } else { "" };
        match ty {
            Ty::Int => match self.rng.u8(0..8) {
                0..3 => "COUNT(*)".to_owned(),
                3 | 4 => {
                    let arg_ty = self.ty();
                    format!("COUNT({distinct}{})", self.expr(scope, arg_ty, 1))
                }
                5 => {
                    let (a, b) = (self.expr(scope, Ty::Int, 1), self.expr(scope, Ty::Str, 1));
                    format!("COUNT(DISTINCT {a}, {b})")
                }
                _ => format!(
                    "{}({})",
                    self.pick(&["MIN", "MAX"]),
                    self.expr(scope, Ty::Int, 1)
                ),
            },
            Ty::Dec => {
                let arg_ty = *self.pick(&[Ty::Int, Ty::Dec]);
                let function = *self.pick(&["SUM", "AVG", "MIN", "MAX"]);
                let arg = self.expr(scope, arg_ty, 1);
                match function {
                    "MIN" | "MAX" if arg_ty == Ty::Int => format!("SUM({arg})"),
                    _ => format!("{function}({distinct}{arg})"),
                }
            }
            Ty::Str if self.one_in(3) => {
                let arg = self.column(scope, Ty::Str).unwrap_or("'k'".to_owned());
                let order = self.pick(&["", " DESC"]);
                // The order of two texts that differ in case is undefined without COLLATE.
                let arg = format!("{arg} COLLATE utf8mb4_bin");
                format!("GROUP_CONCAT({distinct}{arg} ORDER BY {arg}{order})")
            }
            Ty::Str | Ty::Date => {
                format!(
                    "{}({})",
                    self.pick(&["MIN", "MAX"]),
                    self.expr(scope, ty, 1)
                )
            }
        }
    }

    /// An expression of a type, nested at most `depth` levels.
    pub fn expr(&mut self, scope: &Scope<'_>, ty: Ty, depth: usize) -> String {
        if depth == 0 || self.one_in(3) {
            return self.leaf(scope, ty);
        }
        if self.one_in(3) {
            return self.choice(scope, ty, depth - 1);
        }
        if depth > 1 && self.subqueries > 0 && self.one_in(9) {
            self.subqueries -= 1;
            return self.scalar(scope, ty);
        }
        match ty {
            Ty::Int => self.int(scope, depth - 1),
            Ty::Dec => self.dec(scope, depth - 1),
            Ty::Str => self.text(scope, depth - 1),
            Ty::Date => self.date(scope, depth - 1),
        }
    }

    /// A call of a conditional function, or CASE.
    fn choice(&mut self, scope: &Scope<'_>, ty: Ty, depth: usize) -> String {
        let a = self.expr(scope, ty, depth);
        let b = self.expr(scope, ty, depth);
        match self.rng.u8(0..8) {
            0 => format!("COALESCE({a}, {b})"),
            1 => format!("IFNULL({a}, {b})"),
            2 if ty == Ty::Str => format!("NULLIF({a}, {})", self.value(ty)),
            2 => format!("NULLIF({a}, {b})"),
            3 => format!("IF({}, {a}, {b})", self.condition(scope, depth)),
            4 => format!(
                "CASE WHEN {} THEN {a} ELSE {b} END",
                self.condition(scope, depth)
            ),
            5 => format!("CASE WHEN {} THEN {a} END", self.condition(scope, depth)),
            6 => {
                let key = self.ty();
                let x = self.expr(scope, key, depth);
                let (v, w) = (self.expr(scope, key, 0), self.expr(scope, key, 0));
                format!("CASE {x} WHEN {v} THEN {a} WHEN {w} THEN {b} END")
            }
            _ => format!("{}({a}, {b})", self.pick(&["GREATEST", "LEAST"])),
        }
    }

    fn int(&mut self, scope: &Scope<'_>, depth: usize) -> String {
        let a = self.expr(scope, Ty::Int, depth);
        match self.rng.u8(0..12) {
            0..4 => {
                let b = self.expr(scope, Ty::Int, depth);
                let op = self.pick(&["+", "-", "*", "DIV", "%"]);
                match self.rng.u8(0..5) {
                    0 => format!("{a} {op} {b}"),
                    _ => format!("({a} {op} {b})"),
                }
            }
            4 => format!("(- {a})"),
            5 => format!("{}({a})", self.pick(&["ABS", "SIGN"])),
            6 => {
                let s = self.expr(scope, Ty::Str, depth);
                format!("{}({s})", self.pick(&["LENGTH", "CHAR_LENGTH"]))
            }
            7 => {
                let (s, t) = (
                    self.expr(scope, Ty::Str, depth),
                    self.expr(scope, Ty::Str, depth),
                );
                format!("{}({s}, {t})", self.pick(&["INSTR", "STRCMP", "LOCATE"]))
            }
            8 => {
                let d = self.expr(scope, Ty::Date, depth);
                format!(
                    "{}({d})",
                    self.pick(&["YEAR", "MONTH", "DAYOFMONTH", "WEEKDAY", "TO_DAYS"])
                )
            }
            9 => {
                let (d, e) = (
                    self.expr(scope, Ty::Date, depth),
                    self.expr(scope, Ty::Date, depth),
                );
                format!("DATEDIFF({d}, {e})")
            }
            10 => format!("({})", self.condition(scope, depth)),
            _ => {
                let d = self.expr(scope, Ty::Dec, depth);
                format!("{}({d})", self.pick(&["FLOOR", "CEILING", "ROUND"]))
            }
        }
    }

    fn dec(&mut self, scope: &Scope<'_>, depth: usize) -> String {
        let a = self.expr(scope, Ty::Dec, depth);
        match self.rng.u8(0..7) {
            0..3 => {
                let other = *self.pick(&[Ty::Dec, Ty::Int]);
                let b = self.expr(scope, other, depth);
                format!("({a} {} {b})", self.pick(&["+", "-", "*"]))
            }
            3 => format!("ROUND({a}, 1)"),
            4 => format!("ABS({a})"),
            5 => format!(
                "CAST({} AS DECIMAL(12,2))",
                self.expr(scope, Ty::Int, depth)
            ),
            _ => {
                let (x, y) = (self.leaf(scope, Ty::Int), self.leaf(scope, Ty::Int));
                format!("({x} / {y})")
            }
        }
    }

    fn text(&mut self, scope: &Scope<'_>, depth: usize) -> String {
        let a = self.expr(scope, Ty::Str, depth);
        match self.rng.u8(0..9) {
            0 | 1 => format!("CONCAT({a}, {})", self.expr(scope, Ty::Str, depth)),
            2 => format!("{}({a})", self.pick(&["UPPER", "LOWER", "REVERSE", "TRIM"])),
            3 => format!(
                "{}({a}, {})",
                self.pick(&["LEFT", "RIGHT"]),
                self.expr(scope, Ty::Int, 0)
            ),
            4 => format!("SUBSTRING({a}, {}, 2)", self.expr(scope, Ty::Int, 0)),
            5 => format!("REPLACE({a}, 'a', {})", self.value(Ty::Str)),
            6 => format!("CONCAT_WS('-', {a}, {})", self.expr(scope, Ty::Int, 0)),
            7 => format!("CAST({} AS CHAR)", self.expr(scope, Ty::Int, depth)),
            _ => format!("{}({a}, 4, 'q')", self.pick(&["LPAD", "RPAD"])),
        }
    }

    fn date(&mut self, scope: &Scope<'_>, depth: usize) -> String {
        let a = self.expr(scope, Ty::Date, depth);
        match self.rng.u8(0..4) {
            0 => format!("LAST_DAY({a})"),
            _ => {
                let n = self.expr(scope, Ty::Int, 0);
                let unit = self.pick(&["DAY", "MONTH", "WEEK"]);
                format!("DATE_ADD({a}, INTERVAL {n} {unit})")
            }
        }
    }

    /// A condition: 1, 0 or NULL.
    pub fn condition(&mut self, scope: &Scope<'_>, depth: usize) -> String {
        if depth == 0 {
            return self.comparison(scope, 0);
        }
        let d = depth - 1;
        match self.rng.u8(0..12) {
            0 | 1 => {
                let (a, b) = (self.condition(scope, d), self.condition(scope, d));
                let op = self.pick(&["AND", "OR", "AND", "OR", "XOR"]);
                match self.rng.u8(0..4) {
                    0 => format!("{a} {op} {b}"),
                    _ => format!("({a} {op} {b})"),
                }
            }
            2 => format!("(NOT {})", self.condition(scope, d)),
            3 => {
                let what = self.pick(&["TRUE", "FALSE", "UNKNOWN", "NOT TRUE", "NOT UNKNOWN"]);
                format!("(({}) IS {what})", self.condition(scope, d))
            }
            4 | 5 if self.subqueries > 0 => {
                self.subqueries -= 1;
                self.subquery_condition(scope, d)
            }
            _ => self.comparison(scope, d),
        }
    }

    fn comparison(&mut self, scope: &Scope<'_>, depth: usize) -> String {
        let ty = self.ty();
        let a = if self.rng.bool() {
            self.leaf(scope, ty)
        } else {
            self.expr(scope, ty, depth)
        };
        let other = match ty {
            Ty::Int if self.one_in(4) => Ty::Dec,
            Ty::Dec if self.one_in(3) => Ty::Int,
            _ => ty,
        };
        match self.rng.u8(0..16) {
            0 => format!("({a} IS NULL)"),
            1 => format!("({a} IS NOT NULL)"),
            2 => {
                let not = self.pick(&["", "NOT "]);
                let (low, high) = (self.expr(scope, other, 0), self.expr(scope, other, 0));
                format!("({a} {not}BETWEEN {low} AND {high})")
            }
            3 | 4 => {
                let other = if ty == Ty::Int { ty } else { other };
                let not = self.pick(&["", "", "NOT "]);
                let list: Vec<String> = (0..self.rng.usize(1..5))
                    .map(|_| {
                        if self.one_in(4) {
                            self.leaf(scope, other)
                        } else {
                            self.literal(other)
                        }
                    })
                    .collect();
                format!("({a} {not}IN ({}))", list.join(", "))
            }
            5 if ty == Ty::Str => {
                let not = self.pick(&["", "NOT "]);
                let pattern = self.pick(&["a%", "%b", "_", "%a_%", "", "A", "%", "b%a"]);
                format!("({a} {not}LIKE '{pattern}')")
            }
            6 => {
                let (b, c) = (self.leaf(scope, Ty::Int), self.leaf(scope, Ty::Int));
                let e = self.leaf(scope, ty);
                // Only <=>: for other operators MariaDB assumes that no operand of a row is NULL.
                format!("(({a}, {b}) <=> ({e}, {c}))")
            }
            7 if ty == Ty::Int => {
                // A text and a number are compared as doubles. For the equality of an integer
                // column MariaDB rounds '1.5', so this text is left out.
                let op = *self.pick(&["=", "<", ">="]);
                let texts = ["'1'", "'2'", "'-1'", "'0'", "'10'", "'1.5'"];
                let count = if op == "=" { 5 } else { texts.len() };
                format!("({a} {op} {})", self.pick(&texts[..count]))
            }
            _ => {
                // For the equality of an integer column MariaDB rounds 2.25 to 2.
                let op = if ty == other {
                    *self.pick(&["=", "=", "=", "<>", "<", "<=", ">", ">=", "<=>"])
                } else {
                    *self.pick(&["<", "<=", ">", ">="])
                };
                let b = self.expr(scope, other, depth);
                format!("({a} {op} {b})")
            }
        }
    }
}
