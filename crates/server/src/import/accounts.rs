//! Accounts of a dump: the script `@.users.sql`.
//!
//! ```text
//! -- begin user 'app'@'%'            CREATE USER, before schemas, for programs with a definer
//! -- end user 'app'@'%'
//! -- begin grants 'app'@'%'          GRANT, SET DEFAULT ROLE: last, when the objects exist
//! -- end grants 'app'@'%'
//! ```

use super::connection::{Server, failed, literal, statements};
use super::{Existing, Report};
use crate::config::StartError;
use porpoise_client::Error;
use std::collections::BTreeSet;
use std::path::Path;

/// An account: user and host.
pub type AccountName = (String, String);

/// Errors of a GRANT that end the import: the loading account may not grant at all.
const DENIED: [u16; 2] = [1044, 1045];

/// Error of CREATE USER if the account exists.
const CANNOT_CREATE: u16 = 1396;

/// Statements of one account.
#[derive(Debug, PartialEq, Eq)]
struct Block {
    /// Whether they create the account.
    creates: bool,
    account: AccountName,
    statements: Vec<String>,
}

/// The accounts of a dump that are to be created.
#[derive(Debug, Default)]
pub struct Accounts {
    blocks: Vec<Block>,
}

impl Accounts {
    /// Reads the script of a dump's accounts.
    ///
    /// # Errors
    /// One line: the dump has no accounts, or the script cannot be read.
    pub fn read(folder: &Path, excluded: &BTreeSet<AccountName>) -> Result<Accounts, StartError> {
        let path = folder.join("@.users.sql");
        let unusable = |what: &dyn std::fmt::Display| {
            StartError::usage(format!("import: {}: {what}", path.display()))
        };
        if !path.is_file() {
            return Err(unusable(&"the dump contains no accounts"));
        }
        let script = std::fs::read_to_string(&path).map_err(|error| unusable(&error))?;
        let mut blocks = blocks(&script).map_err(|what| unusable(&what))?;
        blocks.retain(|block| !excluded.contains(&block.account) && !is_system(&block.account));
        Ok(Accounts { blocks })
    }

    /// The accounts that exist and stay as they are; drops the others. `root` and the account in use always
    /// stay.
    ///
    /// # Errors
    /// One line; accounts of the dump exist and `existing` refuses that.
    pub fn prepare(
        &self,
        server: &mut Server,
        existing: Existing,
    ) -> Result<BTreeSet<AccountName>, StartError> {
        if self.blocks.is_empty() {
            return Ok(BTreeSet::new());
        }
        let current = server.run("SELECT CURRENT_USER()")?.rows;
        let current = current.into_iter().flatten().flatten().next();
        let current = current.unwrap_or_default();
        let mut kept = BTreeSet::new();
        let rows = server.run("SELECT User, Host FROM mysql.user")?.rows;
        for row in rows {
            let mut cells = row.into_iter().map(Option::unwrap_or_default);
            let (user, host) = (
                cells.next().unwrap_or_default(),
                cells.next().unwrap_or_default(),
            );
            let is_fixed = user == "root" || format!("{user}@{host}") == current;
            let account = (user, host);
            if !self
                .blocks
                .iter()
                .any(|block| block.creates && block.account == account)
            {
                continue;
            }
            match existing {
                Existing::Refuse if !is_fixed => {
                    return Err(StartError::usage(format!(
                        "import: account {} of the dump exists; use --existing keep or --existing drop",
                        shown(&account)
                    )));
                }
                Existing::Drop if !is_fixed => {
                    server.run(&format!("DROP USER {}", shown(&account)))?;
                }
                _ => {
                    kept.insert(account);
                }
            }
        }
        Ok(kept)
    }

    /// Removes accounts from the list, with their privileges.
    pub fn leave_out(&mut self, accounts: &BTreeSet<AccountName>) {
        self.blocks
            .retain(|block| !accounts.contains(&block.account));
    }

    /// Creates the accounts. `may_exist`: those that exist were created by the same import before an
    /// interruption.
    ///
    /// # Errors
    /// One line, without the statement, which contains the hash of a password.
    pub fn create(
        &self,
        server: &mut Server,
        may_exist: bool,
        report: &mut Report,
    ) -> Result<(), StartError> {
        for block in self.blocks.iter().filter(|block| block.creates) {
            for statement in &block.statements {
                match server.attempt(statement, None) {
                    Ok(_) => {}
                    Err(Error::Server(error)) if may_exist && error.code == CANNOT_CREATE => {}
                    Err(error) => {
                        let account = shown(&block.account);
                        return Err(failed(format_args!("{error}, in account {account}")));
                    }
                }
            }
            report.accounts += 1;
        }
        Ok(())
    }

    /// Runs the statements of created accounts that grant privileges and roles. Those that the server refuses,
    /// because it lacks a privilege or an object of the dump was left out, are reported.
    ///
    /// # Errors
    /// The connection's; the account in use may not grant.
    pub fn grant(&self, server: &mut Server, report: &mut Report) -> Result<(), StartError> {
        for block in self.blocks.iter().filter(|block| !block.creates) {
            for statement in &block.statements {
                match server.attempt(statement, None) {
                    Ok(_) => {}
                    Err(Error::Server(error)) if !DENIED.contains(&error.code) => {
                        let text = format!("{}: {}", error.code, error.message);
                        report.refused_grants.push(format!("{statement} ({text})"));
                    }
                    Err(error) => {
                        let account = shown(&block.account);
                        return Err(failed(format_args!("{error}, in grants of {account}")));
                    }
                }
            }
        }
        Ok(())
    }
}

/// Whether an account belongs to the server that was dumped.
fn is_system((user, host): &AccountName) -> bool {
    host == "localhost" && matches!(&**user, "mysql.sys" | "mysql.session" | "mysql.infoschema")
}

/// An account as statements name it.
pub fn shown((user, host): &AccountName) -> String {
    format!("{}@{}", literal(user), literal(host))
}

/// Splits a script into its blocks, one for each account. Comments and SET statements outside of the blocks are
/// left out.
fn blocks(script: &str) -> Result<Vec<Block>, &'static str> {
    let mut blocks = Vec::new();
    let mut open: Option<(bool, AccountName, String)> = None;
    for line in script.split_inclusive('\n') {
        if let Some(head) = line.strip_prefix("-- begin ") {
            let head = head.trim();
            let (kind, account) = head.split_at(head.find('\'').unwrap_or(head.len()));
            let account =
                account_name(account).filter(|(user, _)| !user.is_empty() || account.len() > 1);
            let account = account.ok_or("has a block without an account")?;
            open = Some((kind.trim() == "user", account, String::new()));
        } else if line.starts_with("-- end ") {
            if let Some((creates, account, text)) = open.take() {
                blocks.push(Block {
                    creates,
                    account,
                    statements: statements(text.as_bytes())?,
                });
            }
        } else if let Some((_, _, text)) = &mut open {
            text.push_str(line);
        }
    }
    if open.is_some() {
        return Err("ends within a block");
    }
    Ok(blocks)
}

/// Reads `'user'@'host'` or `user@host`; the host is `%` if none is named.
pub fn account_name(text: &str) -> Option<AccountName> {
    let (user, rest) = part(text)?;
    let host = match rest {
        "" => "%".to_owned(),
        rest => {
            let (host, rest) = part(rest.strip_prefix('@')?)?;
            if !rest.is_empty() {
                return None;
            }
            host
        }
    };
    Some((user, host))
}

/// A name in quotes, or up to the next `@`, and what follows it.
fn part(text: &str) -> Option<(String, &str)> {
    let quote = text
        .chars()
        .next()
        .filter(|c| matches!(c, '\'' | '"' | '`'));
    let Some(quote) = quote else {
        let end = text.find('@').unwrap_or(text.len());
        let (name, rest) = text.split_at_checked(end)?;
        return Some((name.to_owned(), rest));
    };
    let mut name = String::new();
    let mut chars = text.char_indices().skip(1).peekable();
    while let Some((at, c)) = chars.next() {
        if c == quote {
            match chars.peek() {
                Some((_, next)) if *next == quote => {
                    chars.next();
                }
                _ => return Some((name, text.get(at + 1..)?)),
            }
        } else if c == '\\' && quote != '`' {
            name.extend(chars.next().map(|(_, escaped)| escaped));
            continue;
        }
        name.push(c);
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_read_with_their_accounts() {
        let script = "-- MySQLShell dump\nSET x = 1;\n-- begin user 'a''b'@'%'\nCREATE USER IF NOT EXISTS \
                      'a''b'@'%' IDENTIFIED WITH 'x' AS '-- begin';\n-- end user 'a''b'@'%'\n\n-- begin grants \
                      'a''b'@'%'\nGRANT USAGE ON *.* TO `a'b`@`%`;\nGRANT `r`@`%` TO `a'b`@`%`;\n-- end grants \
                      'a''b'@'%'\n";
        let read = blocks(script).unwrap();
        let summary: Vec<_> = read
            .iter()
            .map(|b| (b.creates, &*b.account.0, &*b.account.1, b.statements.len()))
            .collect();
        assert_eq!(summary, [(true, "a'b", "%", 1), (false, "a'b", "%", 2)]);
        assert!(blocks("-- begin user 'a'@'b'\nCREATE USER a;\n").is_err());
        assert!(blocks("-- begin user\n-- end user\n").is_err());
    }

    #[test]
    fn names_of_accounts_are_read_with_and_without_quotes() {
        let read = |text| account_name(text).unwrap();
        let pair = |a: &str, b: &str| (a.to_owned(), b.to_owned());
        assert_eq!(read("app"), pair("app", "%"));
        assert_eq!(read("app@10.0.0.1"), pair("app", "10.0.0.1"));
        assert_eq!(read("`a@b`@\"local\""), pair("a@b", "local"));
        assert_eq!(read(r"'it\'s'@'%'"), pair("it's", "%"));
        for wrong in ["'a'x", "'a'@'b'c", "'a"] {
            assert!(account_name(wrong).is_none(), "{wrong}");
        }
    }
}
