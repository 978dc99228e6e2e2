//! Parse errors, with MySQL's error numbers and messages.

use super::ast::ProgramKind;
use super::token::Span;

/// Maximum number of bytes of the text that an error message quotes.
const MAX_QUOTED_LEN: usize = 80;

/// Kinds of parse errors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParseErrorKind {
    /// Unexpected token at the offset.
    Syntax,
    /// The text has only white space and comments.
    Empty,
    /// A derived table has no alias.
    DerivedAlias,
    /// A table function has no alias.
    FunctionAlias,
    /// The tree has more nodes than the limit allows.
    TooLarge,
    /// The text is nested more deeply than the limit or the stack allows.
    TooDeep {
        /// Free stack space, in bytes.
        left: usize,
    },
    /// Literals were to become parameters, but one is where no parameter is allowed.
    NotParametric,
    /// CREATE PROCEDURE and the like in the body of a program.
    NestedProgram(ProgramKind),
    /// An argument of a function has a name. The position is that of the function's name.
    NamedArgument,
    /// A partition has another number of subpartitions than those before it.
    SubpartitionCount,
}

/// A parse error with its position in the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ParseError {
    /// Kind of the error.
    pub kind: ParseErrorKind,
    /// Offset of the offending token.
    pub offset: u32,
}

impl ParseError {
    /// MySQL's error number.
    #[must_use]
    pub const fn code(&self) -> u16 {
        match self.kind {
            ParseErrorKind::Syntax
            | ParseErrorKind::TooLarge
            | ParseErrorKind::NotParametric
            | ParseErrorKind::SubpartitionCount => 1064,
            ParseErrorKind::NestedProgram(ProgramKind::Event) => 1576,
            ParseErrorKind::NestedProgram(_) => 1303,
            ParseErrorKind::NamedArgument => 1583,
            ParseErrorKind::Empty => 1065,
            ParseErrorKind::DerivedAlias => 1248,
            ParseErrorKind::FunctionAlias => 3667,
            ParseErrorKind::TooDeep { .. } => 1436,
        }
    }

    /// The SQLSTATE that goes with [`ParseError::code`].
    #[must_use]
    pub const fn sqlstate(&self) -> &'static str {
        match self.kind {
            ParseErrorKind::Syntax
            | ParseErrorKind::TooLarge
            | ParseErrorKind::NotParametric
            | ParseErrorKind::SubpartitionCount
            | ParseErrorKind::DerivedAlias
            | ParseErrorKind::FunctionAlias
            | ParseErrorKind::NamedArgument
            | ParseErrorKind::Empty => "42000",
            ParseErrorKind::TooDeep { .. } | ParseErrorKind::NestedProgram(ProgramKind::Event) => {
                "HY000"
            }
            ParseErrorKind::NestedProgram(_) => "2F003",
        }
    }

    /// MySQL's message for an error in `text`.
    #[must_use]
    pub fn message(&self, text: &[u8]) -> String {
        match self.kind {
            ParseErrorKind::Empty => "Query was empty".to_owned(),
            ParseErrorKind::DerivedAlias => {
                "Every derived table must have its own alias".to_owned()
            }
            ParseErrorKind::FunctionAlias => "Every table function must have an alias".to_owned(),
            ParseErrorKind::TooDeep { left } => format!(
                "Thread stack overrun:  the statement is nested too deeply, {left} bytes of stack were left"
            ),
            ParseErrorKind::TooLarge => {
                "The statement has too many parts for the parser".to_owned()
            }
            ParseErrorKind::NestedProgram(ProgramKind::Event) => {
                "Recursion of EVENT DDL statements is forbidden when body is present".to_owned()
            }
            ParseErrorKind::NestedProgram(kind) => {
                let what = kind.name();
                format!("Can't create a {what} from within another stored routine")
            }
            ParseErrorKind::NamedArgument => {
                let name = text.get(self.offset as usize..).unwrap_or_default();
                let is_part = |b: &&u8| b.is_ascii_alphanumeric() || **b == b'_' || **b >= 0x80;
                let length = name.iter().take_while(is_part).count();
                let name = String::from_utf8_lossy(name.get(..length).unwrap_or_default());
                format!("Incorrect parameters in the call to native function '{name}'")
            }
            ParseErrorKind::NotParametric => {
                "A literal of the statement cannot be a parameter".to_owned()
            }
            ParseErrorKind::Syntax | ParseErrorKind::SubpartitionCount => {
                let at = (self.offset as usize).min(text.len());
                let rest = text.get(at..).unwrap_or_default();
                let line = 1 + text.iter().take(at).filter(|&&b| b == b'\n').count();
                let near =
                    String::from_utf8_lossy(rest.get(..quoted_length(rest)).unwrap_or_default());
                let what = if self.kind == ParseErrorKind::SubpartitionCount {
                    "Wrong number of subpartitions defined, mismatch with previous setting"
                } else {
                    "You have an error in your SQL syntax; check the manual that corresponds to your MySQL server \
                     version for the right syntax to use"
                };
                format!("{what} near '{near}' at line {line}")
            }
        }
    }

    /// Creates an error at a span.
    #[must_use]
    pub const fn new(kind: ParseErrorKind, at: Span) -> ParseError {
        ParseError {
            kind,
            offset: at.start,
        }
    }
}

/// Number of bytes to quote: at most [`MAX_QUOTED_LEN`], without splitting a character.
fn quoted_length(rest: &[u8]) -> usize {
    let mut length = rest.len().min(MAX_QUOTED_LEN);
    if length < rest.len() {
        while length > 0 && rest.get(length).is_some_and(|&b| b & 0xC0 == 0x80) {
            length -= 1;
        }
    }
    length
}
