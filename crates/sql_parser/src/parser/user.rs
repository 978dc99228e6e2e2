//! Users, roles, privileges.

use super::super::ast::{
    Account, FactorClause, Grant, GrantOn, Ident, Identified, Privilege, ProgramKind, Roles,
    Statement, TableName, UserOption, UserSpec, UserStatement,
};
use super::super::keyword::Keyword as Kw;
use super::super::token::{Span, TokenKind as K};
use super::{PResult, Parser};

impl<'a> Parser<'a> {
    /// `user@host`, `CURRENT_USER`
    pub(super) fn account(&mut self) -> PResult<Account<'a>> {
        if self.is_kw(Kw::CURRENT_USER)
            || (self.is_kw(Kw::USER) && self.peek().kind == K::LeftParen)
        {
            self.advance();
            if self.eat(K::LeftParen) {
                self.expect(K::RightParen)?;
            }
            return Ok(Account::Current);
        }
        let user = self.ident_or_bytes()?;
        let host = if self.is(K::UserVar) {
            Some(self.user_var()?)
        } else {
            None
        };
        Ok(Account::Named { user, host })
    }

    /// A name written as an identifier or as a string.
    fn ident_or_bytes(&mut self) -> PResult<&'a [u8]> {
        if self.is(K::String) {
            self.string()
        } else {
            Ok(self.ident()?.name.as_bytes())
        }
    }

    /// Parses CREATE USER and ALTER USER from the keyword USER on.
    pub(super) fn user_statement(&mut self, alter: bool) -> PResult<Statement<'a>> {
        self.advance();
        let if_clause = if alter {
            self.if_exists()?
        } else {
            self.if_not_exists()?
        };
        let users = self.comma_list(|p| p.user_spec(alter))?;
        let default_roles = if self.eat_kw2(Kw::DEFAULT, Kw::ROLE) {
            Some(self.default_roles(alter)?)
        } else {
            None
        };
        let mut options = self.list();
        loop {
            match self.token.keyword {
                Kw::REQUIRE => self.require(&mut options)?,
                Kw::WITH => self.resource_limits(&mut options)?,
                _ => match self.opt_user_option()? {
                    Some(option) => options.push(option),
                    None => break,
                },
            }
        }
        let options = options.into_bump_slice();
        Ok(Statement::User(self.alloc(UserStatement {
            alter,
            if_clause,
            users,
            default_roles,
            options,
        })))
    }

    /// The roles after DEFAULT ROLE; NONE and ALL are allowed only in ALTER USER.
    fn default_roles(&mut self, alter: bool) -> PResult<Roles<'a>> {
        if alter && self.eat_word("NONE") {
            return Ok(Roles::None);
        }
        if alter && self.eat_kw(Kw::ALL) {
            return Ok(Roles::AllExcept(&[]));
        }
        Ok(Roles::List(self.comma_list(Self::account)?))
    }

    fn user_spec(&mut self, alter: bool) -> PResult<UserSpec<'a>> {
        let account = self.account()?;
        let mut spec = UserSpec {
            account,
            identified: Identified::None,
            current: None,
            retain: false,
            discard_old: false,
            factors: &[],
        };
        if self.eat_kw(Kw::IDENTIFIED) {
            spec.identified = self.identified()?;
            if self.eat_kw(Kw::REPLACE) {
                spec.current = Some(self.string()?);
            }
            spec.retain = alter && self.retain_password()?;
        } else if alter && self.eat_kw(Kw::DISCARD) {
            self.expect_kw(Kw::OLD)?;
            self.expect_kw(Kw::PASSWORD)?;
            spec.discard_old = true;
        }
        spec.factors = self.factor_clauses(alter)?;
        Ok(spec)
    }

    /// Clauses on further authentication factors, perhaps none.
    fn factor_clauses(&mut self, alter: bool) -> PResult<&'a [FactorClause<'a>]> {
        let mut clauses = self.list();
        loop {
            let clause = if alter {
                match self.eat_any_kw(&[Kw::ADD, Kw::MODIFY, Kw::DROP]) {
                    Some(Kw::ADD) => FactorClause::Add(self.factor()?, self.factor_identified()?),
                    Some(Kw::MODIFY) => {
                        FactorClause::Modify(self.factor()?, self.factor_identified()?)
                    }
                    Some(_) => FactorClause::Drop(self.factor()?),
                    None if self.is(K::Int) => self.registration()?,
                    None => break,
                }
            } else if self.eat_kw(Kw::AND) {
                FactorClause::And(self.factor_identified()?)
            } else if self.eat_kw2(Kw::INITIAL, Kw::AUTHENTICATION) {
                FactorClause::InitialAuthentication(self.factor_identified()?)
            } else {
                break;
            };
            clauses.push(clause);
        }
        Ok(clauses.into_bump_slice())
    }

    /// `n FACTOR`
    fn factor(&mut self) -> PResult<u64> {
        let number = self.uint()?;
        self.expect_word("FACTOR")?;
        Ok(number)
    }

    fn factor_identified(&mut self) -> PResult<Identified<'a>> {
        self.expect_kw(Kw::IDENTIFIED)?;
        self.identified()
    }

    /// Registration of a device, at the factor's number.
    fn registration(&mut self) -> PResult<FactorClause<'a>> {
        let factor = self.factor()?;
        if self.eat_word("UNREGISTER") {
            return Ok(FactorClause::Unregister(factor));
        }
        if self.eat_word("INITIATE") {
            self.expect_word("REGISTRATION")?;
            return Ok(FactorClause::InitiateRegistration(factor));
        }
        self.expect_word("FINISH")?;
        self.expect_word("REGISTRATION")?;
        self.expect_kw(Kw::SET)?;
        self.expect_word("CHALLENGE_RESPONSE")?;
        self.expect_kw(Kw::AS)?;
        Ok(FactorClause::FinishRegistration(factor, self.string()?))
    }

    fn identified(&mut self) -> PResult<Identified<'a>> {
        let plugin = if self.eat_kw(Kw::WITH) {
            Some(self.ident_or_bytes()?)
        } else {
            None
        };
        if self.eat_kw(Kw::BY) {
            if self.eat_kw2(Kw::RANDOM, Kw::PASSWORD) {
                return Ok(Identified::RandomPassword { plugin });
            }
            return Ok(Identified::Password {
                plugin,
                password: self.string()?,
            });
        }
        let Some(plugin) = plugin else {
            return self.error();
        };
        let hash = if self.eat_kw(Kw::AS) {
            Some(match self.literal()? {
                super::super::ast::Literal::String(bytes)
                | super::super::ast::Literal::Hex(bytes) => bytes,
                _ => return self.error(),
            })
        } else {
            None
        };
        Ok(Identified::Plugin { plugin, hash })
    }

    fn require(
        &mut self,
        options: &mut bumpalo::collections::Vec<'a, UserOption<'a>>,
    ) -> PResult<()> {
        self.advance();
        let single = if self.eat_word("NONE") {
            Some(UserOption::RequireNone)
        } else if self.eat_kw(Kw::SSL) {
            Some(UserOption::RequireSsl)
        } else if self.eat_kw(Kw::X509) {
            Some(UserOption::RequireX509)
        } else {
            None
        };
        if let Some(single) = single {
            options.push(single);
            return Ok(());
        }
        loop {
            let word = if self.eat_kw(Kw::SUBJECT) {
                "SUBJECT"
            } else if self.eat_kw(Kw::ISSUER) {
                "ISSUER"
            } else if self.eat_word("CIPHER") {
                "CIPHER"
            } else {
                return self.error();
            };
            options.push(UserOption::Require(word, self.string()?));
            self.eat_kw(Kw::AND);
            if !(self.is_any_kw(&[Kw::SUBJECT, Kw::ISSUER]) || self.is_word("CIPHER")) {
                return Ok(());
            }
        }
    }

    fn resource_limits(
        &mut self,
        options: &mut bumpalo::collections::Vec<'a, UserOption<'a>>,
    ) -> PResult<()> {
        const LIMITS: &[Kw] = &[
            Kw::MAX_QUERIES_PER_HOUR,
            Kw::MAX_UPDATES_PER_HOUR,
            Kw::MAX_CONNECTIONS_PER_HOUR,
            Kw::MAX_USER_CONNECTIONS,
        ];
        self.advance();
        if !self.is_any_kw(LIMITS) {
            return self.error();
        }
        while let Some(word) = self.eat_any_kw(LIMITS) {
            options.push(UserOption::Limit(word.name(), self.uint()?));
        }
        Ok(())
    }

    fn opt_user_option(&mut self) -> PResult<Option<UserOption<'a>>> {
        let keyword = self.token.keyword;
        let option = match keyword {
            Kw::ACCOUNT => {
                self.advance();
                match self.eat_any_kw(&[Kw::LOCK, Kw::UNLOCK]) {
                    Some(word) => UserOption::AccountLock(word == Kw::LOCK),
                    None => return self.error(),
                }
            }
            Kw::PASSWORD => {
                self.advance();
                self.password_option()?
            }
            Kw::FAILED_LOGIN_ATTEMPTS => {
                self.advance();
                UserOption::FailedLogins(self.uint()?)
            }
            Kw::PASSWORD_LOCK_TIME => {
                self.advance();
                let unbounded = self.eat_kw(Kw::UNBOUNDED);
                UserOption::PasswordLockTime(if unbounded { None } else { Some(self.uint()?) })
            }
            Kw::COMMENT => {
                self.advance();
                UserOption::Comment(self.string()?)
            }
            _ if self.eat_word("ATTRIBUTE") => UserOption::Attribute(self.string()?),
            _ => return Ok(None),
        };
        Ok(Some(option))
    }

    /// The option after PASSWORD.
    fn password_option(&mut self) -> PResult<UserOption<'a>> {
        match self.eat_any_kw(&[Kw::EXPIRE, Kw::HISTORY, Kw::REUSE, Kw::REQUIRE]) {
            Some(Kw::EXPIRE) => {
                if self.eat_kw(Kw::DEFAULT) {
                    Ok(UserOption::PasswordExpireDefault)
                } else if self.eat_kw(Kw::NEVER) {
                    Ok(UserOption::PasswordExpireNever)
                } else if self.eat_kw(Kw::INTERVAL) {
                    let days = self.uint()?;
                    self.expect_kw(Kw::DAY)?;
                    Ok(UserOption::PasswordExpireDays(days))
                } else {
                    Ok(UserOption::PasswordExpire)
                }
            }
            Some(Kw::HISTORY) => {
                let default = self.eat_kw(Kw::DEFAULT);
                Ok(UserOption::PasswordHistory(if default {
                    None
                } else {
                    Some(self.uint()?)
                }))
            }
            Some(Kw::REUSE) => {
                self.expect_kw(Kw::INTERVAL)?;
                if self.eat_kw(Kw::DEFAULT) {
                    return Ok(UserOption::PasswordReuse(None));
                }
                let days = self.uint()?;
                self.expect_kw(Kw::DAY)?;
                Ok(UserOption::PasswordReuse(Some(days)))
            }
            Some(_) => {
                self.expect_kw(Kw::CURRENT)?;
                Ok(UserOption::PasswordRequireCurrent(
                    if self.eat_kw(Kw::DEFAULT) {
                        None
                    } else {
                        Some(!self.eat_kw(Kw::OPTIONAL))
                    },
                ))
            }
            None => self.error(),
        }
    }

    /// Parses CREATE ROLE and DROP ROLE from the keyword ROLE on.
    pub(super) fn role_statement(&mut self, create: bool) -> PResult<Statement<'a>> {
        self.advance();
        let if_clause = if create {
            self.if_not_exists()?
        } else {
            self.if_exists()?
        };
        Ok(Statement::Role {
            create,
            if_clause,
            roles: self.comma_list(Self::account)?,
        })
    }

    /// Parses GRANT and REVOKE from the keyword on.
    pub(super) fn grant(&mut self) -> PResult<Statement<'a>> {
        let revoke = self.advance().keyword == Kw::REVOKE;
        let if_exists = revoke && self.if_exists()?;
        let named = self.comma_list(Self::privilege)?;
        let mut on = None;
        let mut everything = false;
        if self.eat_kw(Kw::ON) {
            on = Some(self.grant_on()?);
        } else if let [(all, _), (option, _)] = named {
            everything = revoke && all.name == "ALL" && option.name == "GRANT OPTION";
        }
        let mut privileges = self.list();
        for &(privilege, role) in if everything { &[] } else { named } {
            let name = match (on.is_some(), role) {
                (true, _) => privilege.name,
                (false, Some(role)) => role,
                (false, None) => return self.error(),
            };
            privileges.push(Privilege { name, ..privilege });
        }
        let privileges = privileges.into_bump_slice();
        self.expect_kw(if revoke { Kw::FROM } else { Kw::TO })?;
        let accounts = self.comma_list(Self::account)?;
        let mut grant_option = false;
        if !revoke && self.eat_kw(Kw::WITH) {
            if self.eat_any_kw(&[Kw::GRANT, Kw::ADMIN]).is_none() {
                return self.error();
            }
            self.expect_kw(Kw::OPTION)?;
            grant_option = true;
        }
        let ignore_unknown = revoke && self.eat_kw(Kw::IGNORE);
        if ignore_unknown {
            self.expect_kw(Kw::UNKNOWN)?;
            self.expect_kw(Kw::USER)?;
        }
        let grant = Grant {
            revoke,
            if_exists,
            ignore_unknown,
            privileges,
            on,
            accounts,
            grant_option,
        };
        Ok(Statement::Grant(self.alloc(grant)))
    }

    /// The keywords of a privilege with its columns, or a role, whose name as written is second.
    fn privilege(&mut self) -> PResult<(Privilege<'a>, Option<&'a str>)> {
        if self.is(K::String) || self.is(K::QuotedIdent) {
            let at = self.token.span();
            let bytes = self.ident_or_bytes()?;
            let Ok(name) = std::str::from_utf8(bytes) else {
                return self.error_at(at);
            };
            let host = if self.is(K::UserVar) {
                Some(self.user_var()?)
            } else {
                None
            };
            if !(self.is(K::Comma) || self.is_any_kw(&[Kw::TO, Kw::FROM])) {
                return self.error();
            }
            return Ok((
                Privilege {
                    name,
                    host,
                    columns: &[],
                },
                Some(name),
            ));
        }
        let start = self.token.start;
        let mut words = bumpalo::collections::String::new_in(self.arena);
        let mut count = 0;
        while self.is(K::Word) && !self.is_any_kw(&[Kw::ON, Kw::TO, Kw::FROM]) {
            let word = self.any_word()?.name;
            if count > 0 {
                words.push(' ');
            }
            words.extend(word.chars().map(|c| c.to_ascii_uppercase()));
            count += 1;
        }
        let written = self.str_of(Span::new(start, self.last_end.max(start)))?;
        match count {
            0 => return self.error(),
            1 if self.is(K::UserVar) => {
                let host = Some(self.user_var()?);
                return Ok((
                    Privilege {
                        name: written,
                        host,
                        columns: &[],
                    },
                    Some(written),
                ));
            }
            _ => {}
        }
        let columns = self.opt_paren_idents()?;
        let name = match words.into_bump_str() {
            "ALL PRIVILEGES" => "ALL",
            name => name,
        };
        let role = (count == 1 && columns.is_empty()).then_some(written);
        Ok((
            Privilege {
                name,
                host: None,
                columns,
            },
            role,
        ))
    }

    fn grant_on(&mut self) -> PResult<GrantOn<'a>> {
        let next = self.peek();
        let named = matches!(next.kind, K::Word | K::QuotedIdent);
        let program = match self.token.keyword {
            Kw::PROCEDURE => Some(ProgramKind::Procedure),
            Kw::FUNCTION => Some(ProgramKind::Function),
            _ => None,
        };
        if let Some(kind) = program
            && named
        {
            self.advance();
            return Ok(GrantOn::Program(kind, self.table_name()?));
        }
        self.eat_kw(Kw::TABLE);
        if self.eat(K::Star) {
            if self.eat(K::Period) {
                self.expect(K::Star)?;
                return Ok(GrantOn::Global);
            }
            return Ok(GrantOn::DefaultSchema);
        }
        let first: Ident<'a> = self.ident()?;
        if !self.eat(K::Period) {
            return Ok(GrantOn::Table(TableName {
                schema: None,
                name: first,
            }));
        }
        if self.eat(K::Star) {
            return Ok(GrantOn::Schema(first));
        }
        Ok(GrantOn::Table(TableName {
            schema: Some(first),
            name: self.part_after_period()?,
        }))
    }
}
