//! From text to syntax tree and back.

pub mod ast;
pub mod keyword;
pub mod token;

/// How large a statement may be.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// The tallest tree, in nodes.
    pub depth: u32,
    /// The most nodes.
    pub nodes: u32,
}
