//! Users, roles, privileges.

use super::super::ast::{
    Account, FactorClause, Grant, GrantOn, Identified, Roles, SetPassword, SetRole, UserOption,
    UserSpec, UserStatement,
};
use super::Printer;

impl Printer<'_> {
    pub(super) fn account(&mut self, account: &Account<'_>) {
        match account {
            Account::Current => self.put("CURRENT_USER()"),
            Account::Named { user, host } => {
                self.string(user);
                if let Some(host) = host {
                    self.put("@");
                    self.string(host);
                }
            }
        }
    }

    fn accounts(&mut self, accounts: &[Account<'_>]) {
        self.list(accounts, Self::account);
    }

    pub(super) fn user_statement(&mut self, user: &UserStatement<'_>) {
        self.put(if user.alter {
            "ALTER USER "
        } else {
            "CREATE USER "
        });
        self.put_if(
            user.if_clause,
            if user.alter {
                "IF EXISTS "
            } else {
                "IF NOT EXISTS "
            },
        );
        self.list(user.users, Self::user_spec);
        if let Some(roles) = &user.default_roles {
            self.put(" DEFAULT ROLE ");
            self.roles(roles);
        }
        self.user_options(user.options);
    }

    fn user_spec(&mut self, spec: &UserSpec<'_>) {
        self.account(&spec.account);
        self.identified(&spec.identified);
        self.opt_string(" REPLACE ", spec.current);
        self.put_if(spec.retain, " RETAIN CURRENT PASSWORD");
        self.put_if(spec.discard_old, " DISCARD OLD PASSWORD");
        for clause in spec.factors {
            self.factor_clause(clause);
        }
    }

    fn factor_clause(&mut self, clause: &FactorClause<'_>) {
        match clause {
            FactorClause::And(identified) => {
                self.put(" AND");
                self.identified(identified);
            }
            FactorClause::InitialAuthentication(identified) => {
                self.put(" INITIAL AUTHENTICATION");
                self.identified(identified);
            }
            FactorClause::Add(factor, identified) => {
                self.put(&format!(" ADD {factor} FACTOR"));
                self.identified(identified);
            }
            FactorClause::Modify(factor, identified) => {
                self.put(&format!(" MODIFY {factor} FACTOR"));
                self.identified(identified);
            }
            FactorClause::Drop(factor) => self.put(&format!(" DROP {factor} FACTOR")),
            FactorClause::InitiateRegistration(factor) => {
                self.put(&format!(" {factor} FACTOR INITIATE REGISTRATION"));
            }
            FactorClause::FinishRegistration(factor, response) => {
                self.put(&format!(" {factor} FACTOR FINISH REGISTRATION"));
                self.opt_string(" SET CHALLENGE_RESPONSE AS ", Some(response));
            }
            FactorClause::Unregister(factor) => self.put(&format!(" {factor} FACTOR UNREGISTER")),
        }
    }

    fn identified(&mut self, identified: &Identified<'_>) {
        match *identified {
            Identified::None => {}
            Identified::Password { plugin, password } => {
                self.identified_with(plugin);
                self.opt_string(" BY ", Some(password));
            }
            Identified::RandomPassword { plugin } => {
                self.identified_with(plugin);
                self.put(" BY RANDOM PASSWORD");
            }
            Identified::Plugin { plugin, hash } => {
                self.identified_with(Some(plugin));
                if let Some(hash) = hash {
                    self.put(" AS ");
                    // MariaDB accepts only string literals here.
                    if hash.iter().all(u8::is_ascii_graphic) {
                        self.string(hash);
                    } else {
                        self.hex(hash);
                    }
                }
            }
        }
    }

    fn identified_with(&mut self, plugin: Option<&[u8]>) {
        self.put(" IDENTIFIED");
        self.opt_string(" WITH ", plugin);
    }

    fn user_options(&mut self, options: &[UserOption<'_>]) {
        let mut required = false;
        let mut limited = false;
        for option in options {
            let requires = matches!(option, UserOption::Require(..));
            let limits = matches!(option, UserOption::Limit(..));
            self.put_if(requires && !required, " REQUIRE");
            self.put_if(requires && required, " AND");
            self.put_if(limits && !limited, " WITH");
            (required, limited) = (requires, limits);
            self.user_option(option);
        }
    }

    fn user_option(&mut self, option: &UserOption<'_>) {
        self.put(" ");
        match option {
            UserOption::RequireNone => self.put("REQUIRE NONE"),
            UserOption::RequireSsl => self.put("REQUIRE SSL"),
            UserOption::RequireX509 => self.put("REQUIRE X509"),
            UserOption::Require(word, value) => {
                self.put(word);
                self.opt_string(" ", Some(value));
            }
            UserOption::Limit(word, value) => {
                self.put(word);
                self.opt_number(" ", Some(*value));
            }
            UserOption::AccountLock(lock) => self.put(if *lock {
                "ACCOUNT LOCK"
            } else {
                "ACCOUNT UNLOCK"
            }),
            UserOption::PasswordExpire => self.put("PASSWORD EXPIRE"),
            UserOption::PasswordExpireDefault => self.put("PASSWORD EXPIRE DEFAULT"),
            UserOption::PasswordExpireNever => self.put("PASSWORD EXPIRE NEVER"),
            UserOption::PasswordExpireDays(days) => {
                self.opt_number("PASSWORD EXPIRE INTERVAL ", Some(*days));
                self.put(" DAY");
            }
            UserOption::PasswordHistory(count) => {
                self.number_or("PASSWORD HISTORY ", *count, "DEFAULT", "")
            }
            UserOption::PasswordReuse(days) => {
                self.number_or("PASSWORD REUSE INTERVAL ", *days, "DEFAULT", " DAY")
            }
            UserOption::PasswordRequireCurrent(required) => self.put(match required {
                None => "PASSWORD REQUIRE CURRENT DEFAULT",
                Some(true) => "PASSWORD REQUIRE CURRENT",
                Some(false) => "PASSWORD REQUIRE CURRENT OPTIONAL",
            }),
            UserOption::FailedLogins(count) => {
                self.opt_number("FAILED_LOGIN_ATTEMPTS ", Some(*count))
            }
            UserOption::PasswordLockTime(days) => {
                self.number_or("PASSWORD_LOCK_TIME ", *days, "UNBOUNDED", "")
            }
            UserOption::Comment(text) => self.opt_string("COMMENT ", Some(text)),
            UserOption::Attribute(text) => self.opt_string("ATTRIBUTE ", Some(text)),
        }
    }

    fn number_or(&mut self, words: &str, number: Option<u64>, otherwise: &str, suffix: &str) {
        self.put(words);
        match number {
            Some(number) => {
                self.number(number);
                self.put(suffix);
            }
            None => self.put(otherwise),
        }
    }

    pub(super) fn set_password(&mut self, set: &SetPassword<'_>) {
        self.put("SET PASSWORD");
        if let Some(account) = &set.account {
            self.put(" FOR ");
            self.account(account);
        }
        match set.password {
            Some(password) => self.opt_string(" = ", Some(password)),
            None => self.put(" TO RANDOM"),
        }
        self.opt_string(" REPLACE ", set.current);
        self.put_if(set.retain, " RETAIN CURRENT PASSWORD");
    }

    pub(super) fn set_role(&mut self, set: &SetRole<'_>) {
        let default = !set.default_to.is_empty();
        self.put(if default {
            "SET DEFAULT ROLE "
        } else {
            "SET ROLE "
        });
        self.roles(&set.roles);
        if default {
            self.put(" TO ");
            self.accounts(set.default_to);
        }
    }

    fn roles(&mut self, roles: &Roles<'_>) {
        match roles {
            Roles::None => self.put("NONE"),
            Roles::Default => self.put("DEFAULT"),
            Roles::AllExcept(except) => {
                self.put(if except.is_empty() {
                    "ALL"
                } else {
                    "ALL EXCEPT "
                });
                self.accounts(except);
            }
            Roles::List(roles) => self.accounts(roles),
        }
    }

    pub(super) fn grant(&mut self, grant: &Grant<'_>) {
        self.put(if grant.revoke { "REVOKE " } else { "GRANT " });
        self.put_if(grant.if_exists, "IF EXISTS ");
        self.put_if(grant.privileges.is_empty(), "ALL PRIVILEGES, GRANT OPTION");
        let roles = grant.on.is_none();
        self.list(grant.privileges, |p, privilege| {
            if roles {
                p.string(privilege.name.as_bytes());
            } else {
                p.put(privilege.name);
            }
            p.opt_string("@", privilege.host);
            p.opt_idents(privilege.columns);
        });
        match &grant.on {
            None => {}
            Some(GrantOn::Global) => self.put(" ON *.*"),
            Some(GrantOn::DefaultSchema) => self.put(" ON *"),
            Some(GrantOn::Schema(schema)) => {
                self.opt_ident(" ON ", Some(schema));
                self.put(".*");
            }
            Some(GrantOn::Table(table)) => {
                self.put(" ON TABLE ");
                self.table_name(table);
            }
            Some(GrantOn::Program(kind, name)) => {
                self.put(" ON ");
                self.program_kind(*kind);
                self.table_name(name);
            }
        }
        self.put(if grant.revoke { " FROM " } else { " TO " });
        self.accounts(grant.accounts);
        self.put_if(
            grant.grant_option,
            if roles {
                " WITH ADMIN OPTION"
            } else {
                " WITH GRANT OPTION"
            },
        );
        self.put_if(grant.ignore_unknown, " IGNORE UNKNOWN USER");
    }
}
