//! In-place rewriting of expressions: the mutable counterpart of [`Expr::walk`].

use super::{Expr, ExprKind};

impl Expr {
    /// Applies `change` to this node and all nodes below it, children first.
    pub fn rewrite(&mut self, change: &mut impl FnMut(&mut Expr)) {
        self.each_child_mut(&mut |child| child.rewrite(change));
        change(self);
    }

    /// Applies `f` to the direct operands.
    pub fn each_child_mut(&mut self, f: &mut impl FnMut(&mut Expr)) {
        match &mut self.kind {
            ExprKind::Const(_)
            | ExprKind::Param(_)
            | ExprKind::Column { .. }
            | ExprKind::Outer { .. }
            | ExprKind::Enclosing(..)
            | ExprKind::Aggregate(_)
            | ExprKind::Window(_)
            | ExprKind::UserVariable(_)
            | ExprKind::NewValue { .. } => {}
            ExprKind::Query(test) => test.left.iter_mut().for_each(f),
            ExprKind::Call(_, args)
            | ExprKind::SessionCall(_, args)
            | ExprKind::Grouping(args)
            | ExprKind::And(args)
            | ExprKind::Or(args)
            | ExprKind::Coalesce(args) => args.iter_mut().for_each(f),
            ExprKind::Compare(_, _, args)
            | ExprKind::Xor(args)
            | ExprKind::Benchmark(args)
            | ExprKind::NullIf(_, args)
            | ExprKind::Arith(_, args)
            | ExprKind::Bit(_, args)
            | ExprKind::Like { args, .. }
            | ExprKind::DateAdd { args, .. } => args.iter_mut().for_each(f),
            ExprKind::Between { args, .. } => args.iter_mut().for_each(f),
            ExprKind::Not(arg)
            | ExprKind::Is { arg, .. }
            | ExprKind::Negate(arg)
            | ExprKind::BitNot(arg)
            | ExprKind::Cast(arg)
            | ExprKind::CastArray(arg)
            | ExprKind::ArrayKeys(_, arg)
            | ExprKind::Extract(_, arg)
            | ExprKind::AssignVariable(_, arg) => f(arg),
            ExprKind::ArrayTest(test) => {
                f(&mut test.condition);
                f(&mut test.column);
                f(&mut test.keys);
            }
            ExprKind::TextMatch(found) => {
                found.columns.iter_mut().for_each(&mut *f);
                f(&mut found.against);
            }
            ExprKind::In { arg, list, .. } => {
                f(arg);
                list.iter_mut().for_each(|(_, item)| f(item));
            }
            ExprKind::Case { whens, otherwise } => {
                for when in whens {
                    f(&mut when.condition);
                    f(&mut when.result);
                }
                if let Some(otherwise) = otherwise {
                    f(otherwise);
                }
            }
        }
    }
}
