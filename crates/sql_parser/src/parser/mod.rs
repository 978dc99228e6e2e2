//! The parser: recursive descent over statements, operator precedence over expressions.
//!
//! Invariants
//! 1. One token is current, and at most one more has been read ahead. There is no backtracking, so
//!    the time is linear in the length of the text, also for nested parentheses: their content is
//!    parsed as what it turns out to be (a query, an expression, a list of tables).
//! 2. Every recursion passes [`Parser::enter`], which counts the depth and checks the remaining
//!    stack. The height of every tree is counted, too ([`Parser::grow`]), since loops can build
//!    deep trees.
//! 3. Literals and parameters are parsed in textual order.
//!
//! Rejected: a generated parser. MySQL's grammar has hundreds of conflicts that are resolved by
//! precedence, and its tables are slower than the calls that replace them.

mod admin;
mod arity;
mod column;
mod create;
mod ddl;
mod dml;
mod event;
mod expr;
mod from;
mod func;
mod json;
mod key_prefix;
mod lists;
mod literal;
mod operand;
mod partition;
mod predicate;
mod program;
mod query;
mod replication;
mod routine;
mod select;
mod set;
mod show;
mod special;
mod statement;
mod table;
mod transaction;
mod types;
mod user;
mod window;

use bumpalo::Bump;
use bumpalo::collections::Vec as BumpVec;
use porpoise_base::interrupt::Pacer;

use super::ast::{ColumnName, Ident, TableName};
use super::deprecated::Deprecation;
use super::error::{ParseError, ParseErrorKind};
use super::keyword::Keyword;
use super::lexer::{LexMode, Lexer};
use super::token::{LiteralToken, Span, Token, TokenKind};
use super::{Literals, ParseOptions};

/// The result of a grammar rule.
pub(crate) type PResult<T> = Result<T, ParseError>;

/// Free stack space below which the parser fails. It must suffice for the deepest path between two
/// checks and for returning the error.
const STACK_RESERVE: usize = 96 * 1024;

/// The state of a parse.
pub(crate) struct Parser<'a> {
    text: &'a [u8],
    arena: &'a Bump,
    lexer: Lexer<'a>,
    /// The current token.
    token: Token,
    ahead: Option<Token>,
    /// End of the last token taken.
    last_end: u32,
    mode: LexMode,
    max_depth: u32,
    max_nodes: u32,
    depth: u32,
    nodes: u32,
    /// Height of the tallest tree built since the caller last reset this.
    height: u32,
    /// The highest level of operators that may follow the last operand. After a test or a predicate
    /// only looser ones may follow, so `a IS NULL + 1` is a syntax error.
    ceiling: u8,
    /// Number of parameters so far.
    params: u32,
    /// Literals to parse as parameters; `None` if all stay literals.
    literals: Option<&'a [LiteralToken]>,
    /// Places of the names to parse as parameters.
    variables: Option<&'a [Span]>,
    /// The variables of the body that is parsed.
    program: Option<program::Scopes<'a>>,
    /// Paces the interrupt checkpoints of the parse.
    pacer: Pacer,
    /// An INTO found inside a SELECT, before its FROM.
    into: Option<&'a super::ast::Into<'a>>,
    /// Deprecated syntax so far.
    deprecated: BumpVec<'a, Deprecation<'a>>,
}

impl<'a> Parser<'a> {
    /// Creates a parser at the first token at or after `start`.
    pub(crate) fn new(
        arena: &'a Bump,
        text: &'a [u8],
        start: usize,
        options: &ParseOptions<'a>,
    ) -> Parser<'a> {
        let mut lexer = Lexer::new(text, start, options.mode);
        let token = lexer.next_token();
        Parser {
            text,
            arena,
            lexer,
            token,
            ahead: None,
            last_end: start as u32,
            mode: options.mode,
            max_depth: options.limits.depth,
            max_nodes: options.limits.nodes,
            depth: 0,
            nodes: 0,
            height: 0,
            ceiling: u8::MAX,
            params: 0,
            literals: match options.literals {
                Literals::Keep => None,
                Literals::Params(list) => Some(list),
                Literals::Variables(_) => None,
            },
            variables: match options.literals {
                Literals::Variables(places) => Some(places),
                _ => None,
            },
            program: None,
            pacer: Pacer::new(),
            into: None,
            deprecated: BumpVec::new_in(arena),
        }
    }

    /// Records a use of deprecated syntax.
    #[cold]
    fn note_deprecated(&mut self, deprecation: Deprecation<'a>) {
        self.deprecated.push(deprecation);
    }

    /// The deprecated syntax so far.
    fn take_deprecated(&mut self) -> &'a [Deprecation<'a>] {
        let none = BumpVec::new_in(self.arena);
        std::mem::replace(&mut self.deprecated, none).into_bump_slice()
    }

    /// Number of parameters so far.
    pub(crate) fn params(&self) -> u32 {
        self.params
    }

    /// Offset of the current token.
    pub(crate) fn offset(&self) -> u32 {
        self.token.start
    }

    /// End of the last token taken.
    pub(crate) fn last_end(&self) -> u32 {
        self.last_end
    }

    /// Consumes the current token.
    #[inline]
    fn advance(&mut self) -> Token {
        let taken = self.token;
        self.last_end = taken.end;
        self.token = match self.ahead.take() {
            Some(token) => token,
            None => self.lexer.next_token(),
        };
        if self.pacer.leaves() {
            // No rule accepts this kind: the parse ends here.
            self.token.kind = TokenKind::Invalid;
        }
        taken
    }

    /// The token after the current one.
    #[inline]
    fn peek(&mut self) -> Token {
        match self.ahead {
            Some(token) => token,
            None => {
                let token = self.lexer.next_token();
                self.ahead = Some(token);
                token
            }
        }
    }

    /// The syntax error at the current token.
    #[cold]
    fn error<T>(&self) -> PResult<T> {
        Err(ParseError::new(ParseErrorKind::Syntax, self.token.span()))
    }

    /// The syntax error at a span.
    #[cold]
    fn error_at<T>(&self, span: Span) -> PResult<T> {
        Err(ParseError::new(ParseErrorKind::Syntax, span))
    }

    /// Enters one level of nesting; [`Parser::leave`] undoes it.
    #[inline]
    fn enter(&mut self) -> PResult<()> {
        self.depth += 1;
        let left = porpoise_base::stack::remaining();
        if self.depth > self.max_depth || left < STACK_RESERVE {
            return Err(ParseError::new(
                ParseErrorKind::TooDeep { left },
                self.token.span(),
            ));
        }
        Ok(())
    }

    #[inline]
    fn leave(&mut self) {
        self.depth -= 1;
    }

    /// Counts one more level of height.
    #[inline]
    fn grow(&mut self) -> PResult<()> {
        self.height += 1;
        if self.height > self.max_depth {
            let left = porpoise_base::stack::remaining();
            return Err(ParseError::new(
                ParseErrorKind::TooDeep { left },
                self.token.span(),
            ));
        }
        Ok(())
    }

    /// Counts one more node.
    #[inline]
    fn count_node(&mut self) -> PResult<()> {
        self.nodes += 1;
        if self.nodes > self.max_nodes {
            return Err(ParseError::new(ParseErrorKind::TooLarge, self.token.span()));
        }
        Ok(())
    }

    /// Allocates a node in the arena.
    #[inline]
    fn alloc<T: Copy>(&self, node: T) -> &'a T {
        self.arena.alloc(node)
    }

    /// An empty list in the arena.
    #[inline]
    fn list<T>(&self) -> BumpVec<'a, T> {
        BumpVec::new_in(self.arena)
    }

    #[inline]
    fn is(&self, kind: TokenKind) -> bool {
        self.token.kind == kind
    }

    #[inline]
    fn is_kw(&self, keyword: Keyword) -> bool {
        self.token.keyword == keyword
    }

    #[inline]
    fn is_any_kw(&self, keywords: &[Keyword]) -> bool {
        self.token.keyword != Keyword::NONE && keywords.contains(&self.token.keyword)
    }

    /// Whether the current and the next token are these keywords.
    #[inline]
    fn is_kw2(&mut self, first: Keyword, second: Keyword) -> bool {
        self.token.keyword == first && self.peek().keyword == second
    }

    /// Consumes the token if it is of this kind.
    #[inline]
    fn eat(&mut self, kind: TokenKind) -> bool {
        let found = self.token.kind == kind;
        if found {
            self.advance();
        }
        found
    }

    /// Consumes the keyword if it is the current token.
    #[inline]
    fn eat_kw(&mut self, keyword: Keyword) -> bool {
        let found = self.token.keyword == keyword;
        if found {
            self.advance();
        }
        found
    }

    /// Consumes the current token if it is one of the keywords. Returns which.
    fn eat_any_kw(&mut self, keywords: &[Keyword]) -> Option<Keyword> {
        let found = self.token.keyword;
        if !self.is_any_kw(keywords) {
            return None;
        }
        self.advance();
        Some(found)
    }

    /// Consumes both keywords, or nothing.
    fn eat_kw2(&mut self, first: Keyword, second: Keyword) -> bool {
        let found = self.is_kw2(first, second);
        if found {
            self.advance();
            self.advance();
        }
        found
    }

    #[inline]
    fn expect(&mut self, kind: TokenKind) -> PResult<Token> {
        if self.token.kind == kind {
            Ok(self.advance())
        } else {
            self.error()
        }
    }

    #[inline]
    fn expect_kw(&mut self, keyword: Keyword) -> PResult<()> {
        if self.eat_kw(keyword) {
            Ok(())
        } else {
            self.error()
        }
    }

    /// Consumes an unquoted word by its text, for the few words that are not in the keyword table.
    fn eat_word(&mut self, word: &str) -> bool {
        let found = self.is_word(word);
        if found {
            self.advance();
        }
        found
    }

    fn expect_word(&mut self, word: &str) -> PResult<()> {
        if self.eat_word(word) {
            Ok(())
        } else {
            self.error()
        }
    }

    fn is_word(&self, word: &str) -> bool {
        self.token.kind == TokenKind::Word
            && self
                .token
                .span()
                .slice(self.text)
                .eq_ignore_ascii_case(word.as_bytes())
    }

    /// Whether the token after the current one is this unquoted word.
    fn peek_is_word(&mut self, word: &str) -> bool {
        let next = self.peek();
        next.kind == TokenKind::Word
            && next
                .span()
                .slice(self.text)
                .eq_ignore_ascii_case(word.as_bytes())
    }

    /// The text of a span that the lexer has verified to be UTF-8.
    #[inline]
    fn str_of(&self, span: Span) -> PResult<&'a str> {
        let bytes = self
            .text
            .get(span.start as usize..span.end as usize)
            .unwrap_or_default();
        match std::str::from_utf8(bytes) {
            Ok(text) => Ok(text),
            Err(_) => self.error_at(span),
        }
    }

    /// The name of a `Word` or `QuotedIdent` token.
    fn name_of(&self, token: Token) -> PResult<Ident<'a>> {
        let span = token.span();
        if token.kind == TokenKind::Word {
            return Ok(Ident {
                name: self.str_of(span)?,
                span,
            });
        }
        let quote = self.text.get(span.start as usize).copied().unwrap_or(b'`') as char;
        let inner = self.str_of(Span::new(span.start + 1, span.end.saturating_sub(1)))?;
        if !inner.contains(quote) {
            return Ok(Ident { name: inner, span });
        }
        let mut name = bumpalo::collections::String::with_capacity_in(inner.len(), self.arena);
        let mut chars = inner.chars();
        while let Some(c) = chars.next() {
            name.push(c);
            if c == quote {
                chars.next();
            }
        }
        Ok(Ident {
            name: name.into_bump_str(),
            span,
        })
    }

    /// Whether the current token can be an identifier.
    #[inline]
    fn is_ident(&self) -> bool {
        match self.token.kind {
            TokenKind::Word => !self.token.keyword.is_reserved(),
            TokenKind::QuotedIdent => true,
            // A name that has the form of an introducer.
            TokenKind::Introducer => true,
            _ => false,
        }
    }

    /// An identifier.
    #[inline]
    fn ident(&mut self) -> PResult<Ident<'a>> {
        if !self.is_ident() {
            return self.error();
        }
        let mut token = self.advance();
        if token.kind == TokenKind::Introducer {
            token.kind = TokenKind::Word;
        }
        self.name_of(token)
    }

    /// A word, keyword or not: names of options and of character sets.
    fn any_word(&mut self) -> PResult<Ident<'a>> {
        match self.token.kind {
            TokenKind::Word | TokenKind::QuotedIdent => {
                let token = self.advance();
                self.name_of(token)
            }
            _ => self.error(),
        }
    }

    /// A name written as an identifier or as a string: character sets, collations, engines.
    fn ident_or_string(&mut self) -> PResult<Ident<'a>> {
        if self.is(TokenKind::String) {
            let span = self.token.span();
            let bytes = self.string()?;
            return match std::str::from_utf8(bytes) {
                Ok(name) => Ok(Ident { name, span }),
                Err(_) => self.error_at(span),
            };
        }
        if self.is_any_kw(&[Keyword::BINARY, Keyword::DEFAULT]) {
            return self.any_word();
        }
        self.ident()
    }

    /// `[schema.]name`
    fn table_name(&mut self) -> PResult<TableName<'a>> {
        // MySQL accepts a leading period for ODBC.
        self.eat(TokenKind::Period);
        if self.is_function_token() {
            return self.error();
        }
        let first = self.ident()?;
        if self.eat(TokenKind::Period) {
            return Ok(TableName {
                schema: Some(first),
                name: self.part_after_period()?,
            });
        }
        Ok(TableName {
            schema: None,
            name: first,
        })
    }

    /// An identifier after a period, which may be any keyword.
    fn part_after_period(&mut self) -> PResult<Ident<'a>> {
        self.any_word()
    }

    /// `[[schema.]table.]name`
    fn column_name(&mut self) -> PResult<ColumnName<'a>> {
        self.eat(TokenKind::Period);
        let first = self.ident()?;
        self.column_name_after(first)
    }

    fn column_name_after(&mut self, first: Ident<'a>) -> PResult<ColumnName<'a>> {
        if !self.eat(TokenKind::Period) {
            return Ok(ColumnName {
                schema: None,
                table: None,
                name: first,
            });
        }
        let second = self.part_after_period()?;
        if !self.eat(TokenKind::Period) {
            return Ok(ColumnName {
                schema: None,
                table: Some(first),
                name: second,
            });
        }
        let third = self.part_after_period()?;
        Ok(ColumnName {
            schema: Some(first),
            table: Some(second),
            name: third,
        })
    }
}
