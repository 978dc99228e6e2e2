//! Placeholder header, filled below.

use super::token::Span;

/// What a literal is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LiteralKind {
    /// A whole number up to 9223372036854775807.
    Int,
}

/// A literal that a parameter stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LiteralToken {
    /// Where it stands.
    pub span: Span,
    /// What it is.
    pub kind: LiteralKind,
}
