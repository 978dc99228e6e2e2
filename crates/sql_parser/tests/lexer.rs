//! Texts are split into the same tokens as in MySQL.

use TokenKind as K;
use porpoise_sql_parser::keyword::Keyword;
use porpoise_sql_parser::lexer::{LexMode, Lexer};
use porpoise_sql_parser::token::TokenKind;

fn lex(text: &str, mode: LexMode) -> Vec<(TokenKind, String)> {
    let mut lexer = Lexer::new(text.as_bytes(), 0, mode);
    let mut out = Vec::new();
    loop {
        let token = lexer.next_token();
        if token.kind == K::End {
            return out;
        }
        out.push((
            token.kind,
            String::from_utf8_lossy(token.span().slice(text.as_bytes())).into_owned(),
        ));
    }
}

fn kinds(text: &str) -> Vec<TokenKind> {
    lex(text, LexMode::default())
        .into_iter()
        .map(|(kind, _)| kind)
        .collect()
}

#[test]
fn numbers_and_names_that_look_like_them() {
    assert_eq!(
        kinds("1 1.5 .5 1. 1e3 1.5E-3 1a 1e 0x1F 0xg 0b01 0b2"),
        [
            K::Int,
            K::Decimal,
            K::Decimal,
            K::Decimal,
            K::Float,
            K::Float,
            K::Word,
            K::Word,
            K::HexNumber,
            K::Word,
            K::BitNumber,
            K::Word
        ]
    );
    assert_eq!(
        kinds("t.1a t.5 t .5"),
        [
            K::Word,
            K::Period,
            K::Word,
            K::Word,
            K::Period,
            K::Word,
            K::Word,
            K::Decimal
        ]
    );
    assert_eq!(
        kinds("x'4D' b'01' n'x' _utf8mb4'x' _nocharset"),
        [
            K::HexString,
            K::BitString,
            K::NationalString,
            K::Introducer,
            K::String,
            K::Word
        ]
    );
    assert_eq!(kinds("x'4'")[0], K::Invalid);
}

#[test]
fn comments() {
    assert_eq!(
        kinds("1 -- x\n2 # y\n/* z */3 --4"),
        [K::Int, K::Int, K::Int, K::Minus, K::Minus, K::Int]
    );
    assert_eq!(
        kinds("/*!40101 1 */ /*!99999 2 /* x */ 3 */ /*! 4*/ /*+ h */"),
        [K::Int, K::Int]
    );
    assert_eq!(kinds("/*!080400 1 */ /*!080401 2 */"), [K::Int]);
    assert_eq!(kinds("1 /* x"), [K::Int, K::Invalid]);
    assert_eq!(kinds("1 /*! 2"), [K::Int, K::Int, K::Invalid]);
}

#[test]
fn quotes() {
    let default = LexMode::default();
    let text = r#"'a''b' 'a\'b' "x" `y``z` @a.b @'q' @@g"#;
    assert_eq!(
        lex(text, default)
            .iter()
            .map(|t| t.1.as_str())
            .collect::<Vec<_>>(),
        [
            "'a''b'", r"'a\'b'", "\"x\"", "`y``z`", "@a.b", "@'q'", "@@", "g"
        ]
    );
    let ansi = LexMode {
        ansi_quotes: true,
        no_backslash_escapes: true,
        ..default
    };
    assert_eq!(
        lex(r#"'a\' "x""#, ansi),
        [
            (K::String, r"'a\'".into()),
            (K::QuotedIdent, "\"x\"".into())
        ]
    );
    assert_eq!(kinds("'abc"), [K::Invalid]);
    assert_eq!(kinds("``"), [K::Invalid]);
}

#[test]
fn operators() {
    assert_eq!(
        kinds("<=> <= <> != << >> >= && || := -> ->> \\N"),
        [
            K::NullSafeEq,
            K::LessEq,
            K::NotEq,
            K::NotEq,
            K::ShiftLeft,
            K::ShiftRight,
            K::GreaterEq,
            K::AndAnd,
            K::OrOr,
            K::Assign,
            K::Arrow,
            K::LongArrow,
            K::NullMark
        ]
    );
}

#[test]
fn keywords_after_a_period_are_names() {
    let mut lexer = Lexer::new(b"t.select", 0, LexMode::default());
    lexer.next_token();
    lexer.next_token();
    assert_eq!(lexer.next_token().keyword, Keyword::NONE);
}
