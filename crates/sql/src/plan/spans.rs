//! Parts of an index that an access path looks at.

use super::Bound;
use crate::expr::Expr;

/// Entries of an index whose leading parts are equal to one of some lists of
/// values, and whose next part lies between bounds.
#[derive(Clone, Debug)]
pub struct Span {
    /// Values of the leading parts; one empty list where there are none.
    pub keys: Vec<Vec<Expr>>,
    /// The next part from here.
    pub low: Option<Bound>,
    /// The next part to here.
    pub high: Option<Bound>,
}

impl Span {
    /// Leading parts that it says anything of.
    pub fn parts(&self) -> usize {
        let bounded = self.low.is_some() || self.high.is_some();
        self.keys.first().map_or(0, Vec::len) + usize::from(bounded)
    }

    /// Visits its expressions.
    pub fn expressions(&self, visit: &mut dyn FnMut(&Expr)) {
        self.keys.iter().flatten().for_each(&mut *visit);
        let bounds = self.low.iter().chain(&self.high);
        bounds.for_each(|bound| visit(&bound.value));
    }
}
