//! Source of the audit log: statements that change definitions, accounts or privileges.
//!
//! The log itself is the server's ([`AuditSink`]); logins are reported by the protocols.
//!
//! Invariant: a reported text contains no password. In a statement that may contain a password,
//! string literals other than names of accounts and hosts are replaced by `?`. Comments are left
//! out of all texts.

use porpoise_sql_expr::error::{Result, SqlError};
use porpoise_sql_parser::LexMode;
use porpoise_sql_parser::ast::Statement;
use porpoise_sql_parser::keyword::Keyword as Kw;
use porpoise_sql_parser::lexer::Lexer;
use porpoise_sql_parser::token::{Token, TokenKind as K};

/// Maximum length of a reported text, in bytes.
const MAX_TEXT: usize = 16 * 1024;

/// Subjects of statements that are reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AuditClass {
    /// Definitions: databases, tables, indexes, views, stored programs.
    Definition,
    /// Accounts, roles and privileges.
    Account,
}

impl AuditClass {
    /// The name in the log.
    pub fn name(self) -> &'static str {
        match self {
            AuditClass::Definition => "definition",
            AuditClass::Account => "account",
        }
    }

    /// The class of a statement; `None` if it is not reported.
    pub(crate) fn of(statement: &Statement<'_>) -> Option<AuditClass> {
        match statement {
            Statement::CreateDatabase(_)
            | Statement::AlterDatabase(_)
            | Statement::DropDatabase { .. }
            | Statement::CreateTable(_)
            | Statement::AlterTable(_)
            | Statement::DropTable(_)
            | Statement::RenameTable(_)
            | Statement::Truncate(_)
            | Statement::CreateIndex(_)
            | Statement::DropIndex(_)
            | Statement::CreateView(_)
            | Statement::DropView(_)
            | Statement::Event(_)
            | Statement::CreateRoutine(_)
            | Statement::CreateTrigger(_)
            | Statement::AlterRoutine(_)
            | Statement::DropProgram { .. } => Some(AuditClass::Definition),
            Statement::User(_)
            | Statement::DropUser { .. }
            | Statement::RenameUser(_)
            | Statement::SetPassword(_)
            | Statement::Grant(_)
            | Statement::Role { .. } => Some(AuditClass::Account),
            Statement::SetRole(set) if !set.default_to.is_empty() => Some(AuditClass::Account),
            _ => None,
        }
    }
}

/// A statement that has ended.
#[derive(Clone, Debug)]
pub struct AuditedStatement<'a> {
    /// Its subject.
    pub class: AuditClass,
    /// Connection id.
    pub connection: u64,
    /// User name of the client.
    pub user: &'a str,
    /// Host of the client.
    pub host: &'a str,
    /// The account, `user@host`.
    pub account: &'a str,
    /// The default database.
    pub database: Option<&'a str>,
    /// The text, without passwords.
    pub text: &'a str,
    /// The error number, or 0.
    pub error: u16,
}

/// An attempt to log in.
#[derive(Clone, Debug)]
pub struct AuditedLogin<'a> {
    /// `mysql`, `native`, `memcached` or `console`.
    pub interface: &'a str,
    /// Connection id, if the protocol has one.
    pub connection: Option<u64>,
    /// The user that the client names.
    pub user: &'a str,
    /// Host of the client.
    pub host: &'a str,
    /// Whether the client may log in.
    pub granted: bool,
}

/// Error 3164: the audit log is mandatory and cannot be written.
pub fn refusal() -> SqlError {
    let text = "Aborted by Audit API ('the audit log cannot be written';1).";
    SqlError::new(3164, "HY000", text)
}

/// The audit log.
pub trait AuditSink: Send + Sync {
    /// Checks whether statements that are reported may run.
    ///
    /// # Errors
    /// [`refusal`] if the log is mandatory and cannot be written.
    fn check(&self) -> Result<()>;
    /// Reports a statement.
    fn statement(&self, statement: &AuditedStatement<'_>);
    /// Reports a login.
    ///
    /// # Errors
    /// [`refusal`] if the login must be refused, because the log is mandatory and cannot be written.
    fn login(&self, login: &AuditedLogin<'_>) -> Result<()>;
    /// Reopens the file, for example after it was renamed.
    fn reopen(&self);
}

/// Properties of a statement's text that decide how it is reported.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct TextShape {
    /// Whether the text may define a stored program, whose body contains semicolons.
    pub(crate) is_program: bool,
    /// Whether the text may contain a password, so that its string literals are hidden.
    pub(crate) hides: bool,
}

/// The text of a statement as it is reported: up to the first semicolon, unless the text may define
/// a stored program.
pub(crate) fn reported_text(text: &[u8], mode: LexMode, shape: TextShape) -> String {
    let TextShape { is_program, hides } = shape;
    let mut lexer = Lexer::new(text, 0, mode);
    let mut out = String::new();
    let (mut before, mut token) = (None, lexer.next_token());
    loop {
        match token.kind {
            K::End | K::Invalid => break,
            K::Semicolon if !is_program => break,
            _ => {}
        }
        let next = lexer.next_token();
        let shown = token.span().slice(text);
        if !out.is_empty() {
            let gap = before.is_none_or(|before: Token| before.end < token.start);
            if gap {
                out.push(' ');
            }
        }
        if hides && is_text(token.kind) && !names_account(text, before, next) {
            out.push('?');
        } else {
            out.push_str(&String::from_utf8_lossy(shown));
        }
        if out.len() > MAX_TEXT {
            out.truncate(out.floor_char_boundary(MAX_TEXT));
            out.push_str("...");
            break;
        }
        (before, token) = (Some(token), next);
    }
    out
}

/// Whether a token is a literal that may be a password.
fn is_text(kind: K) -> bool {
    matches!(
        kind,
        K::String | K::NationalString | K::HexString | K::HexNumber | K::BitString | K::BitNumber
    )
}

/// Whether a string between these tokens is the name of an account.
fn names_account(text: &[u8], before: Option<Token>, next: Token) -> bool {
    if next.span().slice(text).first() == Some(&b'@') {
        return true;
    }
    before.is_some_and(|before| {
        matches!(
            before.keyword,
            Kw::USER | Kw::EXISTS | Kw::FOR | Kw::TO | Kw::FROM
        ) || before.span().slice(text) == b"@"
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reported_texts_have_no_passwords() {
        for (text, shown) in [
            (
                "CREATE USER 'ann'@'%' IDENTIFIED BY 'se''cret', 'ben' IDENTIFIED BY 'x' /* secret */",
                "CREATE USER 'ann'@'%' IDENTIFIED BY ?, ? IDENTIFIED BY ?",
            ),
            (
                "alter user ann identified with caching_sha2_password as 0x24 replace \"old\"",
                "alter user ann identified with caching_sha2_password as ? replace ?",
            ),
            ("SET PASSWORD FOR 'ann' = 'p'", "SET PASSWORD FOR 'ann' = ?"),
            ("SET PASSWORD = 'p'; SELECT 1", "SET PASSWORD = ?"),
            (
                "CREATE TABLE t (a INT DEFAULT '7')  COMMENT 'x'",
                "CREATE TABLE t (a INT DEFAULT '7') COMMENT 'x'",
            ),
            ("GRANT SELECT ON a.* TO ben", "GRANT SELECT ON a.* TO ben"),
        ] {
            let shape = TextShape {
                is_program: false,
                hides: !text.contains("TABLE"),
            };
            assert_eq!(
                reported_text(text.as_bytes(), LexMode::default(), shape),
                shown
            );
        }
        let body = "CREATE PROCEDURE p() BEGIN SELECT 1; SELECT 2; END";
        let program = TextShape {
            is_program: true,
            hides: false,
        };
        assert_eq!(
            reported_text(body.as_bytes(), LexMode::default(), program),
            body
        );
        let long = format!("CREATE TABLE t (a INT COMMENT '{}')", "é".repeat(MAX_TEXT));
        assert!(
            reported_text(long.as_bytes(), LexMode::default(), TextShape::default()).len()
                <= MAX_TEXT + 3
        );
    }
}
