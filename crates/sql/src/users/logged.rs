//! Statements on accounts for the change log: as they were written, but with stored secrets instead of passwords,
//! and with names instead of CURRENT_USER, whose meaning depends on the session.

use crate::context::{StatementContext, lex_mode};
use porpoise_access::{Account, AuthId};
use porpoise_rows::changes::LoggedStatement;
use porpoise_sql_parser::ast::{
    Account as AstAccount, Grant, Identified, SetPassword, Statement, UserSpec, UserStatement,
};
use porpoise_sql_parser::print;

/// The account of a name.
fn named(id: &AuthId) -> AstAccount<'_> {
    AstAccount::Named {
        user: id.user.as_bytes(),
        host: Some(id.host.as_bytes()),
    }
}

/// IDENTIFIED clause with the stored secret.
fn stored(account: &Account) -> Identified<'_> {
    Identified::Plugin {
        plugin: account.plugin.as_bytes(),
        hash: (!account.secret.is_empty()).then_some(account.secret.as_slice()),
    }
}

/// A user whose password was set to the stored secret of `account`.
fn spec(account: &Account, retain: bool) -> UserSpec<'_> {
    UserSpec {
        account: AstAccount::Current,
        identified: stored(account),
        current: None,
        retain,
        discard_old: false,
        factors: &[],
    }
}

impl StatementContext {
    /// The current statement for the log, with another text.
    fn logged_as(&self, statement: &Statement<'_>) -> Option<LoggedStatement> {
        let mut logged = self.account_statement.clone()?;
        logged.text = print::statement(statement, lex_mode(self.settings.mode));
        Some(logged)
    }

    /// The current statement for the log, as it was written.
    pub(super) fn logged_text(&self) -> Option<LoggedStatement> {
        let logged = self.account_statement.clone();
        logged.filter(|logged| !logged.text.is_empty())
    }

    /// CREATE USER or ALTER USER for the log; `accounts` are the accounts that it has written.
    pub(super) fn logged_users(
        &self,
        user: &UserStatement<'_>,
        accounts: &[Account],
    ) -> Option<LoggedStatement> {
        self.account_statement.as_ref()?;
        let ids: Vec<AuthId> = user
            .users
            .iter()
            .map(|u| self.auth_id(&u.account))
            .collect();
        let users: Vec<UserSpec<'_>> = user
            .users
            .iter()
            .zip(&ids)
            .filter_map(|(written, id)| {
                let account = accounts.iter().find(|account| account.id() == *id)?;
                let sets = written.identified != Identified::None;
                Some(UserSpec {
                    account: named(id),
                    identified: if sets {
                        stored(account)
                    } else {
                        Identified::None
                    },
                    current: None,
                    ..*written
                })
            })
            .collect();
        let statement = UserStatement {
            if_clause: false,
            users: &users,
            ..*user
        };
        self.logged_as(&Statement::User(&statement))
    }

    /// SET PASSWORD for the log, as an ALTER USER.
    pub(super) fn logged_password(
        &self,
        set: &SetPassword<'_>,
        account: &Account,
    ) -> Option<LoggedStatement> {
        self.account_statement.as_ref()?;
        let id = account.id();
        let user = UserSpec {
            account: named(&id),
            ..spec(account, set.retain)
        };
        let statement = UserStatement {
            alter: true,
            if_clause: false,
            users: &[user],
            default_roles: None,
            options: &[],
        };
        self.logged_as(&Statement::User(&statement))
    }

    /// GRANT or REVOKE for the log.
    pub(crate) fn logged_grant(&self, grant: &Grant<'_>) -> Option<LoggedStatement> {
        if !grant.accounts.contains(&AstAccount::Current) {
            return self.logged_text();
        }
        self.account_statement.as_ref()?;
        let ids: Vec<AuthId> = grant.accounts.iter().map(|a| self.auth_id(a)).collect();
        let accounts: Vec<AstAccount<'_>> = ids.iter().map(named).collect();
        let grant = Grant {
            accounts: &accounts,
            ..*grant
        };
        self.logged_as(&Statement::Grant(&grant))
    }
}
