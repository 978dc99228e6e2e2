//! Binding of expressions, node by node.

pub use super::nodes::charset_named;
use super::nodes::{
    ARRAY_OUTSIDE_OF_INDEX, MULTI_VALUED_CLAUSE, arithmetic_operand, array_element_type, cast_to,
    cast_type, compare, comparison_operator, enum_as_number, fold_negation, node, numeric_operand,
    unit_of, variable_name,
};
use super::special::text_literal;
use super::types::{arithmetic, between_as, is_text, number_like};
use super::{Binder, Scope, literal};
use crate::error::{Result, SqlError};
use crate::expr::types::is_temporal;
use crate::expr::{
    ArithOp, BitOp, CmpOp, Coercibility, Expr, ExprKind, Load, Truth, Unit, load_of,
};
use crate::functions::{self, text_of};
use crate::parse::ast::{
    self, Binary, BinaryOp, Cast, Chain, ColumnName, IsTest, LogicalOp, UnaryOp,
};
use porpoise_types::cast::delimiter_warning;
use porpoise_types::{Charset, Collation, ColumnType, Decimal, Kind, Value};

impl Binder<'_> {
    /// Binds one expression.
    pub fn expr(&mut self, e: &ast::Expr<'_>) -> Result<Expr> {
        use ast::ExprKind as A;
        porpoise_base::interrupt::check()?;
        match &e.kind {
            A::Literal(lit) => self.literal(lit),
            A::Param(at) => Ok(self.param(*at as usize)),
            A::Column(name) => self.column(name),
            A::Unary(op, arg) => self.unary(*op, arg),
            A::Binary(binary) => self.binary(binary),
            A::Chain(chain) => self.chain(chain),
            A::Logical(op, args) => self.logical(*op, args),
            A::Is(is) => self.is(is),
            A::Like(like) => self.like(like),
            A::Between(between) => self.between(between),
            A::InList(list) => self.in_list(&list.expr, list.list, list.not),
            A::Case(case) => self.case(case),
            A::IntervalArith(i) => self.interval(&i.date, &i.amount, unit_of(i.unit), i.subtract),
            A::Cast(cast) => self.cast(cast),
            A::ConvertUsing(convert) => self.convert_using(convert),
            A::Collate(collate) => self.collate(&collate.expr, collate.collation.name),
            A::Extract(unit, arg) => {
                let arg = Box::new(self.expr(arg)?);
                let kind = ExprKind::Extract(unit_of(*unit), arg);
                Ok(node(kind, ColumnType::bigint(), true))
            }
            A::Trim(trim) => self.trim(trim),
            A::UserVar(name) => Ok(self.user_variable(name)),
            A::AssignUserVar(assign) => self.assign_variable(assign),
            A::SystemVar(variable) => self.system_variable(variable),
            A::Func(func) => self.function(func),
            A::ValuesOf(name) => self.values_of(name),
            A::Subquery(query) => self.scalar(query),
            A::Exists(query) => self.exists(query),
            A::InQuery(test) => self.in_query(test),
            A::Quantified(test) => self.quantified(test),
            A::Row(_) => Err(SqlError::operand_columns(1)),
            A::Default => Err(SqlError::not_supported("DEFAULT in an expression")),
            other => self.special(other),
        }
    }

    fn literal(&self, lit: &ast::Literal<'_>) -> Result<Expr> {
        let bound = literal::literal(lit, self.env.collation, self.env.mode)?;
        if let Some((found, text)) = literal::deprecated_delimiter(lit) {
            let (code, message) = delimiter_warning(found, text, 1);
            self.system.warn(code, message);
        }
        Ok(bound)
    }

    /// Binds an expression that is used as a condition. Warning 3986 for a JSON value.
    pub fn condition(&mut self, e: &ast::Expr<'_>) -> Result<Expr> {
        let bound = self.expr(e)?;
        if bound.ty.kind == Kind::Json {
            let text = "Evaluating a JSON value in SQL boolean context does an implicit comparison against JSON \
                 integer 0; if this is not what you want, consider converting JSON to an SQL numeric type with \
                 JSON_VALUE RETURNING";
            self.system.warn(3986, text.to_owned());
        }
        Ok(bound)
    }

    fn is(&mut self, is: &ast::Is<'_>) -> Result<Expr> {
        let truth = match is.test {
            IsTest::Null | IsTest::Unknown => Truth::Null,
            IsTest::True => Truth::True,
            IsTest::False => Truth::False,
        };
        let arg = Box::new(match truth {
            Truth::Null => self.expr(&is.expr)?,
            Truth::True | Truth::False => self.condition(&is.expr)?,
        });
        let negated = is.not;
        Ok(Expr::boolean(
            ExprKind::Is {
                arg,
                truth,
                negated,
            },
            false,
        ))
    }

    fn between(&mut self, between: &ast::Between<'_>) -> Result<Expr> {
        let arg = self.expr(&between.expr)?;
        let (low, high) = (self.expr(&between.low)?, self.expr(&between.high)?);
        let (low, high) = (
            self.convert_constant(&arg, low)?,
            self.convert_constant(&arg, high)?,
        );
        let numbers = enum_as_number(&arg, &low).filter(|_| high.ty.is_numeric());
        let arg = numbers.unwrap_or(arg);
        let how = between_as(&arg, &low, &high)?;
        let nullable = arg.nullable || low.nullable || high.nullable;
        let kind = ExprKind::Between {
            args: Box::new([arg, low, high]),
            how,
            negated: between.not,
        };
        Ok(Expr::boolean(kind, nullable))
    }

    fn convert_using(&mut self, convert: &ast::ConvertUsing<'_>) -> Result<Expr> {
        let arg = self.expr(&convert.expr)?;
        let charset = charset_named(convert.charset.name)?;
        let chars = functions::width(&arg);
        let ty = match charset {
            Charset::Binary => ColumnType::varbinary(arg.ty.max_bytes()),
            _ => text_of(chars, charset.default_collation()),
        };
        Ok(cast_to(arg, ty))
    }

    fn trim(&mut self, trim: &ast::Trim<'_>) -> Result<Expr> {
        let name = match trim.side {
            ast::TrimSide::Both => "TRIM",
            ast::TrimSide::Leading => "TRIM LEADING",
            ast::TrimSide::Trailing => "TRIM TRAILING",
        };
        let mut args = vec![self.expr(&trim.from)?];
        if let Some(what) = &trim.what {
            args.push(self.expr(what)?);
        }
        self.call(name, args)
    }

    fn assign_variable(&mut self, assign: &ast::AssignUserVar<'_>) -> Result<Expr> {
        let value = self.expr(&assign.value)?;
        let (ty, nullable) = (value.ty.clone(), value.nullable);
        let kind = ExprKind::AssignVariable(variable_name(assign.name), Box::new(value));
        Ok(node(kind, ty, nullable))
    }

    fn system_variable(&mut self, variable: &ast::SystemVar<'_>) -> Result<Expr> {
        let global = variable.scope == ast::VarScope::Global;
        let name = match &variable.component {
            Some(component) => format!("{}.{}", component.name, variable.name.name),
            None => variable.name.name.to_owned(),
        };
        self.system.get(global, &name)
    }

    /// Binds a list of expressions.
    pub fn list(&mut self, list: &[ast::Expr<'_>]) -> Result<Vec<Expr>> {
        list.iter().map(|e| self.expr(e)).collect()
    }

    fn param(&self, at: usize) -> Expr {
        let unknown = || ColumnType::varchar(255, self.env.collation);
        let ty = self.env.params.get(at).cloned().unwrap_or_else(unknown);
        let coercibility = match (is_text(&ty), self.env.params_are_variables) {
            (false, _) => Coercibility::Numeric,
            (true, false) => Coercibility::Literal,
            (true, true) => Coercibility::Implicit,
        };
        Expr {
            kind: ExprKind::Param(at),
            ty,
            nullable: true,
            coercibility,
        }
    }

    fn user_variable(&self, name: &[u8]) -> Expr {
        let name = variable_name(name);
        let known = self.system.user_variable(&name);
        let ty = known.unwrap_or_else(|| ColumnType::text(Kind::LongText, self.env.collation));
        let mut e = node(ExprKind::UserVariable(name), ty, true);
        e.coercibility = Coercibility::Implicit;
        e
    }

    /// Resolves a column by name; select-list aliases count where they are allowed.
    pub fn column(&mut self, name: &ColumnName<'_>) -> Result<Expr> {
        let database = name.schema.map(|i| i.name);
        let table = name.table.map(|i| i.name);
        let column = name.name.name;
        match self.scope.resolve(database, table, column, self.clause) {
            Ok((slot, position)) => {
                let found = self.column_at(slot, position);
                match self.preferred_alias(name, &found)? {
                    Some(e) => self.without_window(e, column),
                    None => {
                        if self.is_hidden(&found)
                            && let Some(e) = self.outer_column(name)?
                        {
                            return Ok(e);
                        }
                        if let Some(planner) = self.plan {
                            planner.note_name(name.name.span.start, self.scope, slot, position);
                        }
                        Ok(found)
                    }
                }
            }
            Err(error) => {
                let alias = match table {
                    None => select_item(self.aliases, column, self.clause)?,
                    Some(_) => None,
                };
                match alias {
                    Some(e) => self.without_window(e.clone(), column),
                    None if error.code == 1054 => self.outer_column(name)?.ok_or(error),
                    None => Err(error),
                }
            }
        }
    }

    /// In HAVING a select-list alias takes precedence over a column that is no GROUP BY key.
    fn preferred_alias(&self, name: &ColumnName<'_>, found: &Expr) -> Result<Option<Expr>> {
        let Some(keys) = self.group_keys else {
            return Ok(None);
        };
        if name.table.is_some() || keys.iter().any(|key| is_same_column(key, found)) {
            return Ok(None);
        }
        let item = select_item(self.aliases, name.name.name, self.clause)?;
        Ok(item.cloned())
    }

    /// Whether HAVING cannot use a column of the query: it is neither a GROUP BY key nor in the select
    /// list.
    fn is_hidden(&self, found: &Expr) -> bool {
        let Some(keys) = self.group_keys else {
            return false;
        };
        let mut items = self.aliases.iter().map(|(_, item)| item);
        !keys.iter().any(|key| is_same_column(key, found))
            && !items.any(|item| is_same_column(item, found))
    }

    /// The column at a slot and position.
    pub fn column_at(&self, slot: usize, position: usize) -> Expr {
        let Some(column) = self.scope.column(slot, position) else {
            return Expr::null();
        };
        self.note(self.scope, slot, position);
        if let Some(computed) = self.scope.computed_at(slot, position) {
            return computed;
        }
        let load = if self.scope.is_stored(slot) {
            load_of(&column.ty)
        } else {
            Load::Plain
        };
        Expr {
            kind: ExprKind::Column {
                slot,
                column: position,
                load,
            },
            ty: column.ty.clone(),
            nullable: column.nullable,
            coercibility: Coercibility::Implicit,
        }
    }

    /// Records that a column is read, for the check of privileges.
    pub(super) fn note(&self, scope: &Scope, slot: usize, position: usize) {
        let named = scope.sources.get(slot).and_then(|source| source.use_index);
        if let (Some(planner), Some(at)) = (self.plan, named) {
            planner.note_read(at, position);
        }
    }

    fn values_of(&mut self, name: &ColumnName<'_>) -> Result<Expr> {
        let table = name.table.map(|i| i.name);
        // Resolved in the table that the row is for, even if other tables are in scope.
        let own = Scope {
            sources: self.scope.sources.iter().take(1).cloned().collect(),
            ..Scope::default()
        };
        let seen = if self.values_allowed {
            &own
        } else {
            self.scope
        };
        let (slot, position) = seen.resolve(None, table, name.name.name, self.clause)?;
        let column = self.column_at(slot, position);
        if !self.values_allowed {
            return Ok(Expr::null());
        }
        Ok(Expr {
            kind: ExprKind::NewValue {
                column: position,
                load: load_of(&column.ty),
            },
            nullable: true,
            ..column
        })
    }

    fn unary(&mut self, op: UnaryOp, arg: &ast::Expr<'_>) -> Result<Expr> {
        // -9223372036854775808 is one literal.
        if let (UnaryOp::Neg, ast::ExprKind::Literal(ast::Literal::Int(n))) = (op, &arg.kind)
            && let Some(v) = i64::try_from(-i128::from(*n)).ok()
        {
            return Ok(Expr::constant(Value::Int(v), ColumnType::bigint()));
        }
        if let (UnaryOp::Neg, ast::ExprKind::Literal(ast::Literal::Int(n))) = (op, &arg.kind)
            && let Ok(v) = Decimal::from_i128(-i128::from(*n), 0)
        {
            let ty = ColumnType::decimal(v.precision(), 0);
            return Ok(Expr::constant(Value::Decimal(v), ty));
        }
        let arg = match op {
            UnaryOp::Not => self.condition(arg)?,
            _ => self.expr(arg)?,
        };
        Ok(match op {
            UnaryOp::Plus => arg,
            UnaryOp::Not => {
                let nullable = arg.nullable;
                Expr::boolean(ExprKind::Not(Box::new(arg)), nullable)
            }
            UnaryOp::Neg => {
                let arg = arithmetic_operand(&arg);
                let mut ty = number_like(&arg.ty);
                ty.unsigned = false;
                let nullable = arg.nullable;
                fold_negation(arg, ty, nullable)
            }
            UnaryOp::BitNot if is_byte_operand(&arg) => self.call("BYTES NOT", vec![arg])?,
            UnaryOp::BitNot => {
                let nullable = arg.nullable;
                node(
                    ExprKind::BitNot(Box::new(arithmetic_operand(&arg))),
                    ColumnType::bigint_unsigned(),
                    nullable,
                )
            }
            UnaryOp::Binary => {
                // BINARY has a stronger collation than a literal: the comparison becomes binary.
                let length = arg.ty.max_bytes();
                let mut binary = cast_to(arg, ColumnType::varbinary(length));
                binary.coercibility = binary.coercibility.min(Coercibility::Implicit);
                binary
            }
        })
    }

    fn binary(&mut self, b: &Binary<'_>) -> Result<Expr> {
        self.comparison_of(b.op, &b.left, &b.right)
    }

    /// Binds an operator over two operands, which may be rows if it compares.
    pub(super) fn comparison_of(
        &mut self,
        op: BinaryOp,
        left: &ast::Expr<'_>,
        right: &ast::Expr<'_>,
    ) -> Result<Expr> {
        match (&left.kind, &right.kind) {
            (ast::ExprKind::Row(left), ast::ExprKind::Row(right)) => {
                self.row_comparison(op, left, right)
            }
            (ast::ExprKind::Row(_), ast::ExprKind::Subquery(query)) => {
                self.row_against_query(op, left, query)
            }
            (ast::ExprKind::Subquery(query), ast::ExprKind::Row(_)) => {
                self.query_against_row(op, query, right)
            }
            (ast::ExprKind::Subquery(left), ast::ExprKind::Subquery(right)) => {
                self.query_against_query(op, left, right)
            }
            (ast::ExprKind::Subquery(query), _) if comparison_operator(op).is_some() => {
                self.query_against_value(op, query, right)
            }
            _ => {
                let (left, right) = (self.expr(left)?, self.expr(right)?);
                self.operator(op, left, right)
            }
        }
    }

    fn chain(&mut self, chain: &Chain<'_>) -> Result<Expr> {
        let mut left = self.expr(&chain.first)?;
        for (op, right) in chain.rest {
            let right = self.expr(right)?;
            left = self.operator(*op, left, right)?;
        }
        Ok(left)
    }

    pub(super) fn operator(&mut self, op: BinaryOp, a: Expr, b: Expr) -> Result<Expr> {
        let nullable = a.nullable || b.nullable;
        let arith = match op {
            BinaryOp::Add => Some(ArithOp::Add),
            BinaryOp::Sub => Some(ArithOp::Sub),
            BinaryOp::Mul => Some(ArithOp::Mul),
            BinaryOp::Div => Some(ArithOp::Div),
            BinaryOp::IntDiv => Some(ArithOp::IntDiv),
            BinaryOp::Mod => Some(ArithOp::Mod),
            _ => None,
        };
        if let Some(op) = arith {
            let (a, b) = (arithmetic_operand(&a), arithmetic_operand(&b));
            let mut ty = arithmetic(op, &a.ty, &b.ty, self.env.div_precision);
            let signed = porpoise_types::SqlMode::NO_UNSIGNED_SUBTRACTION;
            if op == ArithOp::Sub && ty.is_integer() && self.env.mode.contains(signed) {
                ty.unsigned = false;
            }
            let divides = matches!(op, ArithOp::Div | ArithOp::IntDiv | ArithOp::Mod);
            return Ok(node(
                ExprKind::Arith(op, Box::new([a, b])),
                ty,
                nullable || divides,
            ));
        }
        let bit = match op {
            BinaryOp::BitAnd => Some(BitOp::And),
            BinaryOp::BitOr => Some(BitOp::Or),
            BinaryOp::BitXor => Some(BitOp::Xor),
            BinaryOp::ShiftLeft => Some(BitOp::Shl),
            BinaryOp::ShiftRight => Some(BitOp::Shr),
            _ => None,
        };
        if let Some(op) = bit {
            let over_bytes = match op {
                BitOp::Shl | BitOp::Shr => is_byte_operand(&a),
                _ => {
                    (is_byte_operand(&a) || is_byte_operand(&b))
                        && a.ty.is_binary()
                        && b.ty.is_binary()
                }
            };
            if over_bytes {
                return self.call(functions::binary_bits::name_of(op), vec![a, b]);
            }
            let args = Box::new([arithmetic_operand(&a), arithmetic_operand(&b)]);
            return Ok(node(
                ExprKind::Bit(op, args),
                ColumnType::bigint_unsigned(),
                nullable,
            ));
        }
        if let Some(cmp) = comparison_operator(op) {
            self.note_date_literal(&a, &b);
            let (a, b) = self.convert_constants(a, b)?;
            return compare(cmp, a, b);
        }
        match op {
            BinaryOp::Concat => self.call("CONCAT", vec![a, b]),
            BinaryOp::SoundsLike => {
                let (a, b) = (
                    self.call("SOUNDEX", vec![a])?,
                    self.call("SOUNDEX", vec![b])?,
                );
                compare(CmpOp::Eq, a, b)
            }
            _ => Err(SqlError::internal("an operator without a binding")),
        }
    }

    /// Records a literal that is compared with a date.
    fn note_date_literal(&self, a: &Expr, b: &Expr) {
        let literal = literal::DateTextLiteral::among(a, b);
        if let (Some(planner), Some(literal)) = (self.plan, literal) {
            planner.note_date_literal(literal);
        }
    }

    fn logical(&mut self, op: LogicalOp, args: &[ast::Expr<'_>]) -> Result<Expr> {
        let args = args.iter().map(|arg| self.condition(arg));
        let args = args.collect::<Result<Vec<Expr>>>()?;
        let nullable = args.iter().any(|a| a.nullable);
        Ok(match op {
            LogicalOp::And => Expr::boolean(ExprKind::And(args), nullable),
            LogicalOp::Or => super::choices::disjunction(args, nullable),
            LogicalOp::Xor => {
                let mut args = args;
                // A long chain is split into halves, so that the depth of the tree stays within the
                // stack.
                while args.len() > MAX_XOR_CHAIN {
                    let mut pairs = args.into_iter();
                    args = Vec::with_capacity(pairs.len() / 2 + 1);
                    while let Some(left) = pairs.next() {
                        args.push(match pairs.next() {
                            Some(right) => xor(left, right, nullable),
                            None => left,
                        });
                    }
                }
                let each = args.into_iter();
                let whole = each.reduce(|left, right| xor(left, right, nullable));
                whole.unwrap_or_else(Expr::null)
            }
        })
    }

    pub(super) fn interval(
        &mut self,
        date: &ast::Expr<'_>,
        amount: &ast::Expr<'_>,
        unit: Unit,
        negative: bool,
    ) -> Result<Expr> {
        let (date, amount) = (self.expr(date)?, self.expr(amount)?);
        let clock = !matches!(
            unit,
            Unit::Day | Unit::Week | Unit::Month | Unit::Quarter | Unit::Year | Unit::YearMonth
        );
        let fraction = matches!(
            unit,
            Unit::Microsecond
                | Unit::SecondMicrosecond
                | Unit::MinuteMicrosecond
                | Unit::HourMicrosecond
                | Unit::DayMicrosecond
        ) || (unit == Unit::Second && amount.ty.kind == Kind::Decimal);
        let fsp = if fraction { 6 } else { date.ty.decimals.min(6) };
        let ty = match date.ty.kind {
            Kind::Date if !clock => ColumnType::date(),
            Kind::Date => ColumnType::datetime(if fraction { 6 } else { 0 }),
            Kind::DateTime | Kind::Timestamp => ColumnType::datetime(fsp),
            Kind::Time => ColumnType::time(fsp),
            _ => ColumnType::varchar(29, self.env.collation),
        };
        let kind = ExprKind::DateAdd {
            args: Box::new([date, amount]),
            unit,
            negative,
        };
        Ok(node(kind, ty, true))
    }

    fn cast(&mut self, cast: &Cast<'_>) -> Result<Expr> {
        if cast.array && self.clause != MULTI_VALUED_CLAUSE {
            return Err(SqlError::not_supported(ARRAY_OUTSIDE_OF_INDEX));
        }
        let mut arg = self.expr(&cast.expr)?;
        if let Some(zone) = cast.time_zone {
            arg = self.at_time_zone(arg, &cast.expr, zone)?;
        }
        if cast.array {
            let ty = array_element_type(&cast.ty, &arg)?;
            return Ok(node(ExprKind::CastArray(Box::new(arg)), ty, true));
        }
        let ty = cast_type(&cast.ty, &arg, self.env.collation)?;
        let arg = if ty.is_numeric() {
            numeric_operand(&arg)
        } else {
            arg
        };
        if arg.ty.kind == Kind::Json && (ty.is_numeric() || is_temporal(&ty)) {
            let name = text_literal(&name_of(&cast.expr));
            let call = self.call("CAST JSON", vec![arg, name])?;
            return Ok(Expr { ty, ..call });
        }
        let mut e = cast_to(arg, ty);
        if is_text(&e.ty) {
            e.coercibility = Coercibility::Implicit;
        }
        Ok(e)
    }

    /// `timestamp AT TIME ZONE zone` in CAST: the zone must be UTC, and the operand a TIMESTAMP.
    fn at_time_zone(&mut self, arg: Expr, written: &ast::Expr<'_>, zone: &[u8]) -> Result<Expr> {
        let is_literal = matches!(
            written.kind,
            ast::ExprKind::Literal(ast::Literal::Timestamp(_))
        );
        if arg.ty.kind != Kind::Timestamp && !is_literal {
            let text = "Cannot cast value to TIMESTAMP WITH TIME ZONE.";
            return Err(SqlError::new(3998, "HY000", text));
        }
        if zone != b"UTC" && zone != b"+00:00" {
            let zone = String::from_utf8_lossy(zone);
            let text = format!("Unknown or incorrect time zone: '{zone}'");
            return Err(SqlError::new(1298, "HY000", text));
        }
        self.call("AT TIME ZONE", vec![arg])
    }

    fn collate(&mut self, arg: &ast::Expr<'_>, name: &str) -> Result<Expr> {
        let mut arg = self.expr(arg)?;
        let unknown = || SqlError::new(1273, "HY000", format!("Unknown collation: '{name}'"));
        let collation = Collation::by_name(name).ok_or_else(unknown)?;
        if !is_text(&arg.ty) {
            let chars = functions::width(&arg);
            arg = cast_to(arg, text_of(chars, collation));
        } else if arg.ty.collation.charset() != collation.charset() {
            let text = format!(
                "COLLATION '{name}' is not valid for CHARACTER SET '{}'",
                arg.ty.collation.charset().name()
            );
            return Err(SqlError::new(1253, "42000", text));
        }
        // A separate node, so that the column below keeps its declared collation.
        let mut ty = match arg.ty.kind {
            Kind::Enum | Kind::Set => text_of(functions::width(&arg), collation),
            _ => arg.ty.clone(),
        };
        ty.collation = collation;
        let mut e = cast_to(arg, ty);
        e.coercibility = Coercibility::Explicit;
        Ok(e)
    }
}

/// The select-list item that a name refers to: the first expression of that name, else the only column.
/// Error 1052 if the name stands for different columns.
pub fn select_item<'i>(
    aliases: &'i [(String, Expr)],
    name: &str,
    clause: &str,
) -> Result<Option<&'i Expr>> {
    let mut found: Option<&Expr> = None;
    for (_, e) in aliases.iter().filter(|(a, _)| a.eq_ignore_ascii_case(name)) {
        if !matches!(e.kind, ExprKind::Column { .. }) {
            return Ok(Some(e));
        }
        if found.is_some_and(|before| !is_same_column(before, e)) {
            return Err(SqlError::ambiguous(name, clause));
        }
        found = Some(e);
    }
    Ok(found)
}

fn is_same_column(a: &Expr, b: &Expr) -> bool {
    let place = |e: &Expr| match e.kind {
        ExprKind::Column { slot, column, .. } => Some((slot, column)),
        _ => None,
    };
    place(a).is_some() && place(a) == place(b)
}

/// Number of operands above which a chain of XOR is bound as a balanced tree.
const MAX_XOR_CHAIN: usize = 64;

fn xor(left: Expr, right: Expr, nullable: bool) -> Expr {
    Expr::boolean(ExprKind::Xor(Box::new([left, right])), nullable)
}

/// Whether bit operators work on the bytes of an operand: a binary string that is no literal.
pub(super) fn is_byte_operand(e: &Expr) -> bool {
    // A hexadecimal or bit literal in a numeric context is unsigned.
    let is_number = match e.kind {
        ExprKind::Const(_) => e.ty.unsigned,
        ExprKind::Param(_) => true,
        _ => false,
    };
    e.ty.is_binary() && !is_number
}

/// The name of a cast value in messages: that of a column or function.
fn name_of(e: &ast::Expr<'_>) -> String {
    match &e.kind {
        ast::ExprKind::Column(column) => column.name.name.to_owned(),
        ast::ExprKind::Func(f) => f.name.name.to_lowercase(),
        _ => String::new(),
    }
}
