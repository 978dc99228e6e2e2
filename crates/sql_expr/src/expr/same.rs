//! Comparison of expressions by form.

use super::{Expr, ExprKind};

/// Comparison of an expression with a pattern without parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Form {
    /// Equal: both have the same value for every row.
    Equal,
    /// Equal if its parameters have certain values.
    DependsOnParameters,
    /// Different.
    Different,
}

impl Expr {
    /// Compares a deterministic expression with a pattern of the same kind. Types of results must be
    /// equal, except of constants, whose collation has no effect beside that of a column.
    pub fn form(&self, pattern: &Expr) -> Form {
        if let ExprKind::Const(value) = &pattern.kind {
            return match &self.kind {
                ExprKind::Const(own) if own == value && self.ty.kind == pattern.ty.kind => {
                    Form::Equal
                }
                _ if self.reads_parameters_only() => Form::DependsOnParameters,
                _ => Form::Different,
            };
        }
        if !self.is_same_node(pattern) {
            return Form::Different;
        }
        let mut children: Vec<&Expr> = Vec::new();
        pattern.children(&mut children);
        let count = children.len();
        self.children(&mut children);
        let (patterns, own) = children.split_at(count);
        if own.len() != patterns.len() {
            return Form::Different;
        }
        let forms = own.iter().zip(patterns).map(|(e, p)| e.form(p));
        match forms.max().unwrap_or(Form::Equal) {
            Form::Equal if self.ty != pattern.ty => Form::Different,
            form => form,
        }
    }

    /// Whether it is computed from parameters and constants, at least one parameter among them.
    fn reads_parameters_only(&self) -> bool {
        let mut found = false;
        self.walk(&mut |e| found |= matches!(e.kind, ExprKind::Param(_)));
        found && self.is_constant()
    }

    /// Whether the node itself is the same, whatever its operands.
    fn is_same_node(&self, other: &Expr) -> bool {
        use ExprKind as K;
        match (&self.kind, &other.kind) {
            (K::Call(f, _), K::Call(g, _)) => f.name == g.name,
            (K::Compare(op, how, _), K::Compare(o, h, _)) => (op, how) == (o, h),
            (K::NullIf(how, _), K::NullIf(h, _)) => how == h,
            (K::Arith(op, _), K::Arith(o, _)) => op == o,
            (K::Bit(op, _), K::Bit(o, _)) => op == o,
            (K::Extract(unit, _), K::Extract(u, _)) => unit == u,
            (K::And(_), K::And(_))
            | (K::Or(_), K::Or(_))
            | (K::Xor(_), K::Xor(_))
            | (K::Not(_), K::Not(_))
            | (K::Coalesce(_), K::Coalesce(_))
            | (K::Negate(_), K::Negate(_))
            | (K::BitNot(_), K::BitNot(_))
            | (K::Cast(_), K::Cast(_)) => true,
            (K::TextMatch(a), K::TextMatch(b)) => a.is_same(b),
            _ => self.has_same_fields(other),
        }
    }

    /// [`Expr::is_same_node`] for nodes with named fields.
    fn has_same_fields(&self, other: &Expr) -> bool {
        use ExprKind as K;
        match (&self.kind, &other.kind) {
            (
                K::Column { slot, column, .. },
                K::Column {
                    slot: s, column: c, ..
                },
            ) => (slot, column) == (s, c),
            (
                K::Is { truth, negated, .. },
                K::Is {
                    truth: t,
                    negated: n,
                    ..
                },
            ) => (truth, negated) == (t, n),
            (
                K::In { list, negated, .. },
                K::In {
                    list: l,
                    negated: n,
                    ..
                },
            ) => {
                let how = |list: &[(_, Expr)]| list.iter().map(|(how, _)| *how).collect::<Vec<_>>();
                negated == n && how(list) == how(l)
            }
            (
                K::Between { how, negated, .. },
                K::Between {
                    how: h, negated: n, ..
                },
            ) => (how, negated) == (h, n),
            (
                K::Like {
                    escape,
                    collation,
                    negated,
                    ..
                },
                K::Like {
                    escape: e,
                    collation: c,
                    negated: n,
                    ..
                },
            ) => (escape, collation, negated) == (e, c, n),
            (
                K::DateAdd { unit, negative, .. },
                K::DateAdd {
                    unit: u,
                    negative: n,
                    ..
                },
            ) => (unit, negative) == (u, n),
            (
                K::Case { whens, otherwise },
                K::Case {
                    whens: w,
                    otherwise: o,
                },
            ) => whens.len() == w.len() && otherwise.is_some() == o.is_some(),
            _ => false,
        }
    }

    /// Adds the operands, in the order of [`Expr::each_child`].
    fn children<'e>(&'e self, out: &mut Vec<&'e Expr>) {
        use ExprKind as K;
        match &self.kind {
            K::Call(_, args) | K::And(args) | K::Or(args) | K::Coalesce(args) => out.extend(args),
            K::Compare(_, _, args)
            | K::Xor(args)
            | K::NullIf(_, args)
            | K::Arith(_, args)
            | K::Bit(_, args)
            | K::Like { args, .. }
            | K::DateAdd { args, .. } => out.extend(args.iter()),
            K::Between { args, .. } => out.extend(args.iter()),
            K::Not(arg)
            | K::Is { arg, .. }
            | K::Negate(arg)
            | K::BitNot(arg)
            | K::Cast(arg)
            | K::Extract(_, arg) => out.push(arg),
            K::TextMatch(found) => {
                out.extend(&found.columns);
                out.push(&found.against);
            }
            K::In { arg, list, .. } => {
                out.push(arg);
                out.extend(list.iter().map(|(_, item)| item));
            }
            K::Case { whens, otherwise } => {
                for when in whens {
                    out.extend([&when.condition, &when.result]);
                }
                out.extend(otherwise.as_deref());
            }
            _ => {}
        }
    }
}
