//! All forms of SET.

use super::super::ast::{
    Account, ColumnName, Expr, ExprKind, Isolation, Roles, SetItem, SetPassword, SetRole,
    SetTransaction, Statement, SystemVar, VarScope,
};
use super::super::keyword::Keyword as Kw;
use super::super::token::TokenKind as K;
use super::{PResult, Parser};

impl<'a> Parser<'a> {
    /// Parses SET from the keyword on.
    pub(super) fn set(&mut self) -> PResult<Statement<'a>> {
        self.advance();
        let next = self.peek();
        let assigned = matches!(next.kind, K::Eq | K::Assign | K::Period);
        match self.token.keyword {
            Kw::TRANSACTION if !assigned => return self.set_transaction(VarScope::Default),
            Kw::GLOBAL | Kw::SESSION | Kw::LOCAL if next.keyword == Kw::TRANSACTION => {
                let scope = if self.advance().keyword == Kw::GLOBAL {
                    VarScope::Global
                } else {
                    VarScope::Session
                };
                return self.set_transaction(scope);
            }
            Kw::PASSWORD => return self.set_password(),
            Kw::ROLE if !assigned => return self.set_role(),
            Kw::DEFAULT if next.keyword == Kw::ROLE => return self.set_role(),
            _ => {}
        }
        Ok(Statement::Set(self.comma_list(Self::set_item)?))
    }

    pub(super) fn set_item(&mut self) -> PResult<SetItem<'a>> {
        match self.token.kind {
            K::UserVar => {
                let name = self.user_var()?;
                self.assign()?;
                return Ok(SetItem::User(name, self.expr()?));
            }
            K::AtAt => {
                let var = self.system_var()?;
                return self.set_system(var);
            }
            _ => {}
        }
        let scoped = match self.token.keyword {
            Kw::GLOBAL => VarScope::Global,
            Kw::SESSION | Kw::LOCAL => VarScope::Session,
            Kw::PERSIST => VarScope::Persist,
            Kw::PERSIST_ONLY => VarScope::PersistOnly,
            _ => VarScope::Default,
        };
        if scoped != VarScope::Default && !matches!(self.peek().kind, K::Eq | K::Assign | K::Period)
        {
            self.advance();
            return self.set_named(scoped);
        }
        let assigned = matches!(self.peek().kind, K::Eq | K::Assign);
        if self.is_kw(Kw::NAMES) && !assigned {
            self.advance();
            let charset = self.charset_or_default()?;
            let collation = if self.eat_kw(Kw::COLLATE) {
                Some(self.collation_name()?)
            } else {
                None
            };
            return Ok(SetItem::Names { charset, collation });
        }
        if !assigned && self.eat_charset_words() {
            return Ok(SetItem::Charset(self.charset_or_default()?));
        }
        self.set_named(VarScope::Default)
    }

    fn set_named(&mut self, scope: VarScope) -> PResult<SetItem<'a>> {
        let first = self.ident()?;
        let var = if self.eat(K::Period) {
            SystemVar {
                scope,
                component: Some(first),
                name: self.part_after_period()?,
            }
        } else {
            SystemVar {
                scope,
                component: None,
                name: first,
            }
        };
        self.set_system(var)
    }

    fn set_system(&mut self, var: SystemVar<'a>) -> PResult<SetItem<'a>> {
        self.assign()?;
        let value = self.set_value()?;
        Ok(SetItem::System {
            scope: var.scope,
            component: var.component,
            name: var.name,
            value,
        })
    }

    pub(super) fn assign(&mut self) -> PResult<()> {
        if self.eat(K::Eq) || self.eat(K::Assign) {
            Ok(())
        } else {
            self.error()
        }
    }

    /// A value; some reserved words are values here.
    fn set_value(&mut self) -> PResult<Expr<'a>> {
        let next = self.peek();
        let alone = next.ends_statement() || next.kind == K::Comma;
        if alone
            && matches!(
                self.token.keyword,
                Kw::ON | Kw::ALL | Kw::BINARY | Kw::ROW | Kw::SYSTEM
            )
        {
            let start = self.token.start;
            let name = self.any_word()?;
            let column = self.alloc(ColumnName {
                schema: None,
                table: None,
                name,
            });
            return Ok(self.node(start, ExprKind::Column(column)));
        }
        self.expr()
    }

    /// At TRANSACTION.
    fn set_transaction(&mut self, scope: VarScope) -> PResult<Statement<'a>> {
        self.advance();
        let mut set = SetTransaction {
            scope,
            isolation: None,
            read_only: None,
        };
        loop {
            if self.eat_kw(Kw::ISOLATION) {
                self.expect_kw(Kw::LEVEL)?;
                if set.isolation.replace(self.isolation()?).is_some() {
                    return self.error();
                }
            } else {
                self.expect_kw(Kw::READ)?;
                let read_only = match self.eat_any_kw(&[Kw::ONLY, Kw::WRITE]) {
                    Some(word) => word == Kw::ONLY,
                    None => return self.error(),
                };
                if set.read_only.replace(read_only).is_some() {
                    return self.error();
                }
            }
            if !self.eat(K::Comma) {
                return Ok(Statement::SetTransaction(set));
            }
        }
    }

    fn isolation(&mut self) -> PResult<Isolation> {
        match self.eat_any_kw(&[Kw::READ, Kw::REPEATABLE, Kw::SERIALIZABLE]) {
            Some(Kw::READ) => match self.eat_any_kw(&[Kw::COMMITTED, Kw::UNCOMMITTED]) {
                Some(Kw::COMMITTED) => Ok(Isolation::ReadCommitted),
                Some(_) => Ok(Isolation::ReadUncommitted),
                None => self.error(),
            },
            Some(Kw::REPEATABLE) => {
                self.expect_kw(Kw::READ)?;
                Ok(Isolation::RepeatableRead)
            }
            Some(_) => Ok(Isolation::Serializable),
            None => self.error(),
        }
    }

    /// At PASSWORD.
    fn set_password(&mut self) -> PResult<Statement<'a>> {
        self.advance();
        let account: Option<Account<'a>> = if self.eat_kw(Kw::FOR) {
            Some(self.account()?)
        } else {
            None
        };
        let mut set = SetPassword {
            account,
            password: None,
            current: None,
            retain: false,
        };
        if self.eat_kw(Kw::TO) {
            self.expect_kw(Kw::RANDOM)?;
        } else {
            self.assign()?;
            // Old clients send PASSWORD('...').
            set.password = Some(if self.eat_kw(Kw::PASSWORD) {
                self.expect(K::LeftParen)?;
                let password = self.string()?;
                self.expect(K::RightParen)?;
                password
            } else {
                self.string()?
            });
        }
        if self.eat_kw(Kw::REPLACE) {
            set.current = Some(self.string()?);
        }
        set.retain = self.retain_password()?;
        Ok(Statement::SetPassword(self.alloc(set)))
    }

    /// `RETAIN CURRENT PASSWORD`
    pub(super) fn retain_password(&mut self) -> PResult<bool> {
        if !self.eat_kw(Kw::RETAIN) {
            return Ok(false);
        }
        self.expect_kw(Kw::CURRENT)?;
        self.expect_kw(Kw::PASSWORD)?;
        Ok(true)
    }

    /// At ROLE or DEFAULT ROLE.
    fn set_role(&mut self) -> PResult<Statement<'a>> {
        let default = self.eat_kw(Kw::DEFAULT);
        self.advance();
        let keyword = self.token.keyword;
        let roles = match keyword {
            Kw::DEFAULT if !default => {
                self.advance();
                Roles::Default
            }
            Kw::ALL => {
                self.advance();
                let except = if !default && self.eat_kw(Kw::EXCEPT) {
                    self.comma_list(Self::account)?
                } else {
                    &[]
                };
                Roles::AllExcept(except)
            }
            _ if self.eat_word("NONE") => Roles::None,
            _ => Roles::List(self.comma_list(Self::account)?),
        };
        let default_to: &[Account<'a>] = if default {
            self.expect_kw(Kw::TO)?;
            self.comma_list(Self::account)?
        } else {
            &[]
        };
        Ok(Statement::SetRole(
            self.alloc(SetRole { default_to, roles }),
        ))
    }
}
