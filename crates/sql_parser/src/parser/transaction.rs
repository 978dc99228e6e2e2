//! Parses statements on transactions, savepoints and XA, and LOCK TABLES and LOCK INSTANCE.

use super::super::ast::{
    Completion, LockTable, StartTransaction, Statement, TableLock, Xa, XaEnd, XaStart, Xid,
};
use super::super::keyword::Keyword as Kw;
use super::super::token::TokenKind as K;
use super::{PResult, Parser};

impl<'a> Parser<'a> {
    /// Parses START TRANSACTION; the current token is START.
    pub(super) fn start_transaction(&mut self) -> PResult<Statement<'a>> {
        self.advance();
        self.expect_kw(Kw::TRANSACTION)?;
        let mut start = StartTransaction::default();
        if self.token.ends_statement() {
            return Ok(Statement::Begin(start));
        }
        loop {
            if self.eat_kw(Kw::WITH) {
                self.expect_kw(Kw::CONSISTENT)?;
                self.expect_kw(Kw::SNAPSHOT)?;
                start.snapshot = true;
            } else {
                self.expect_kw(Kw::READ)?;
                let read_only = match self.eat_any_kw(&[Kw::ONLY, Kw::WRITE]) {
                    Some(word) => word == Kw::ONLY,
                    None => return self.error(),
                };
                if start.read_only.is_some_and(|earlier| earlier != read_only) {
                    return self.error();
                }
                start.read_only = Some(read_only);
            }
            if !self.eat(K::Comma) {
                return Ok(Statement::Begin(start));
            }
        }
    }

    /// Parses BEGIN; the current token is BEGIN.
    pub(super) fn begin(&mut self) -> PResult<Statement<'a>> {
        self.advance();
        self.eat_kw(Kw::WORK);
        Ok(Statement::Begin(StartTransaction::default()))
    }

    /// Parses `[AND [NO] CHAIN] [[NO] RELEASE]`; everything may be absent. AND CHAIN RELEASE is a syntax
    /// error.
    fn completion(&mut self) -> PResult<Completion> {
        let mut completion = Completion::default();
        if self.eat_kw(Kw::AND) {
            completion.chain = Some(!self.eat_kw(Kw::NO));
            self.expect_kw(Kw::CHAIN)?;
        }
        if self.eat_kw(Kw::NO) {
            self.expect_kw(Kw::RELEASE)?;
            completion.release = Some(false);
        } else if completion.chain != Some(true) && self.eat_kw(Kw::RELEASE) {
            completion.release = Some(true);
        }
        Ok(completion)
    }

    /// Parses COMMIT; the current token is COMMIT.
    pub(super) fn commit(&mut self) -> PResult<Statement<'a>> {
        self.advance();
        self.eat_kw(Kw::WORK);
        Ok(Statement::Commit(self.completion()?))
    }

    /// Parses ROLLBACK; the current token is ROLLBACK.
    pub(super) fn rollback(&mut self) -> PResult<Statement<'a>> {
        self.advance();
        self.eat_kw(Kw::WORK);
        if self.eat_kw(Kw::TO) {
            self.eat_kw(Kw::SAVEPOINT);
            return Ok(Statement::RollbackTo(self.ident()?));
        }
        Ok(Statement::Rollback(self.completion()?))
    }

    /// Parses SAVEPOINT and RELEASE SAVEPOINT; the current token is the first keyword.
    pub(super) fn savepoint(&mut self) -> PResult<Statement<'a>> {
        if self.advance().keyword == Kw::SAVEPOINT {
            return Ok(Statement::Savepoint(self.ident()?));
        }
        self.expect_kw(Kw::SAVEPOINT)?;
        Ok(Statement::ReleaseSavepoint(self.ident()?))
    }

    /// Parses XA; the current token is XA.
    pub(super) fn xa(&mut self) -> PResult<Statement<'a>> {
        self.advance();
        let word = self.advance().keyword;
        let xa = match word {
            Kw::START | Kw::BEGIN => {
                let xid = self.xid()?;
                let how = match self.eat_any_kw(&[Kw::JOIN, Kw::RESUME]) {
                    Some(Kw::JOIN) => XaStart::Join,
                    Some(_) => XaStart::Resume,
                    None => XaStart::New,
                };
                Xa::Start(xid, how)
            }
            Kw::END => {
                let xid = self.xid()?;
                let how = if !self.eat_kw(Kw::SUSPEND) {
                    XaEnd::Plain
                } else if self.eat_kw2(Kw::FOR, Kw::MIGRATE) {
                    XaEnd::SuspendForMigrate
                } else {
                    XaEnd::Suspend
                };
                Xa::End(xid, how)
            }
            Kw::PREPARE => Xa::Prepare(self.xid()?),
            Kw::COMMIT => {
                let xid = self.xid()?;
                Xa::Commit(xid, self.eat_kw2(Kw::ONE, Kw::PHASE))
            }
            Kw::ROLLBACK => Xa::Rollback(self.xid()?),
            Kw::RECOVER => Xa::Recover(self.eat_kw2(Kw::CONVERT, Kw::XID)),
            _ => return self.error(),
        };
        Ok(Statement::Xa(self.alloc(xa)))
    }

    fn xid(&mut self) -> PResult<Xid<'a>> {
        let mut xid = Xid {
            global: self.xid_part()?,
            branch: &[],
            format: 1,
        };
        if self.eat(K::Comma) {
            xid.branch = self.xid_part()?;
            if self.eat(K::Comma) {
                xid.format = self.uint()?;
            }
        }
        Ok(xid)
    }

    /// Parses gtrid or bqual: at most 64 bytes.
    fn xid_part(&mut self) -> PResult<&'a [u8]> {
        let at = self.token.span();
        let bytes = self.bytes()?;
        if bytes.len() > 64 {
            return self.error_at(at);
        }
        Ok(bytes)
    }

    /// Parses a string, hexadecimal or binary literal as bytes.
    fn bytes(&mut self) -> PResult<&'a [u8]> {
        use super::super::ast::Literal;
        let at = self.token.span();
        match self.literal()? {
            Literal::String(bytes) | Literal::Hex(bytes) | Literal::Bit(bytes) => Ok(bytes),
            _ => self.error_at(at),
        }
    }

    /// Parses LOCK TABLES and LOCK INSTANCE; the current token is LOCK.
    pub(super) fn lock(&mut self) -> PResult<Statement<'a>> {
        self.advance();
        if self.eat_kw(Kw::INSTANCE) {
            self.expect_kw(Kw::FOR)?;
            self.expect_kw(Kw::BACKUP)?;
            return Ok(Statement::LockInstance(true));
        }
        if self.eat_any_kw(&[Kw::TABLES, Kw::TABLE]).is_none() {
            return self.error();
        }
        Ok(Statement::LockTables(self.comma_list(|p| {
            let table = p.table_name()?;
            let alias = p.opt_alias()?;
            let mode = match p.eat_any_kw(&[Kw::READ, Kw::WRITE, Kw::LOW_PRIORITY]) {
                Some(Kw::READ) if p.eat_kw(Kw::LOCAL) => TableLock::ReadLocal,
                Some(Kw::READ) => TableLock::Read,
                Some(Kw::LOW_PRIORITY) => {
                    p.expect_kw(Kw::WRITE)?;
                    TableLock::Write
                }
                Some(_) => TableLock::Write,
                None => return p.error(),
            };
            Ok(LockTable { table, alias, mode })
        })?))
    }

    /// Parses UNLOCK TABLES and UNLOCK INSTANCE; the current token is UNLOCK.
    pub(super) fn unlock(&mut self) -> PResult<Statement<'a>> {
        self.advance();
        match self.eat_any_kw(&[Kw::TABLES, Kw::TABLE, Kw::INSTANCE]) {
            Some(Kw::INSTANCE) => Ok(Statement::LockInstance(false)),
            Some(_) => Ok(Statement::UnlockTables),
            None => self.error(),
        }
    }
}
