//! Integration tests of the parser, one module for each subject, in one program: linking one
//! for each file took longer than running them.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "tests fail by panicking"
)]

mod corpus;
mod digest;
mod errors;
mod lexer;
mod limits;
mod precedence;
mod print;
mod random;
