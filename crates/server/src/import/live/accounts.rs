//! Accounts and roles of a running server, with their privileges (`--users`).
//!
//! ```text
//!   source   mysql.user, SHOW CREATE USER, SHOW GRANTS
//!   here     CREATE USER with the stored hash, before the objects: some have a definer
//!            GRANT, when the objects exist
//! ```
//!
//! As with other objects, problems are found by trying: an account or privilege whose statement is refused is reported.
//! `root` and the servers' internal accounts are not copied. Later statements on accounts in the source's log are applied
//! like all others.

use super::super::accounts::{AccountName, shown};
use super::super::connection::{Server, literal};
use super::objects::Problem;
use crate::config::StartError;
use crate::import::Existing;
use std::collections::BTreeSet;

/// Accounts that belong to a server.
const SYSTEM: [&str; 7] = [
    "root",
    "memcached",
    "mysql.sys",
    "mysql.session",
    "mysql.infoschema",
    "mariadb.sys",
    "PUBLIC",
];

/// Privileges of MariaDB, with their names in Porpoise.
const RENAMED: [(&str, &str); 6] = [
    ("BINLOG MONITOR", "REPLICATION CLIENT"),
    ("SLAVE MONITOR", "REPLICATION CLIENT"),
    ("REPLICA MONITOR", "REPLICATION CLIENT"),
    ("REPLICATION SLAVE ADMIN", "REPLICATION_SLAVE_ADMIN"),
    ("REPLICATION REPLICA ADMIN", "REPLICATION_SLAVE_ADMIN"),
    ("CONNECTION ADMIN", "CONNECTION_ADMIN"),
];

/// An account of the source.
#[derive(Clone, Debug)]
pub struct Account {
    name: AccountName,
    is_role: bool,
    create: String,
    grants: Vec<String>,
}

impl Account {
    fn shown(&self) -> String {
        match (self.is_role, self.name.1.as_str()) {
            (true, "" | "%") => literal(&self.name.0),
            _ => shown(&self.name),
        }
    }

    fn problem(&self, why: String) -> Problem {
        Problem {
            object: format!("ACCOUNT {}", self.shown()),
            why,
        }
    }
}

/// The accounts of a source, roles first, and those that have no counterpart here.
///
/// # Errors
/// The source's: reading them needs SELECT on the database `mysql`.
pub fn read(
    source: &mut Server,
    is_mariadb: bool,
    excluded: &BTreeSet<AccountName>,
) -> Result<(Vec<Account>, Vec<Problem>), StartError> {
    // Binary salts are printed as hexadecimal digits; MariaDB has no such variable.
    let _ = source.attempt("SET SESSION print_identified_with_as_hex = 1", None);
    let is_role = if is_mariadb { "is_role" } else { "'N'" };
    let listed = source.run(&format!(
        "SELECT User, Host, {is_role} FROM mysql.user ORDER BY 3 DESC, 1, 2"
    ))?;
    let (mut accounts, mut problems) = (Vec::new(), Vec::new());
    for row in listed.rows {
        let mut cells = row.into_iter().map(Option::unwrap_or_default);
        let mut cell = || cells.next().unwrap_or_default();
        let name: AccountName = (cell(), cell());
        let is_role = cell() == "Y";
        if SYSTEM.contains(&name.0.as_str()) || excluded.contains(&name) {
            continue;
        }
        let grantee = if is_role {
            literal(&name.0)
        } else {
            shown(&name)
        };
        let create = if is_role {
            Ok(format!("CREATE ROLE IF NOT EXISTS {grantee}"))
        } else {
            let shown = source.run(&format!("SHOW CREATE USER {grantee}"))?;
            definition(&first_cells(shown.rows).join(" "))
        };
        let grants = source.run(&format!("SHOW GRANTS FOR {grantee}"))?;
        let grants = first_cells(grants.rows);
        let mut account = Account {
            name,
            is_role,
            create: String::new(),
            grants: grants.iter().map(|text| grant_here(text)).collect(),
        };
        match create {
            Ok(create) => {
                account.create = create;
                accounts.push(account);
            }
            Err(why) => problems.push(account.problem(why)),
        }
    }
    Ok((accounts, problems))
}

fn first_cells(rows: Vec<Vec<Option<String>>>) -> Vec<String> {
    let cells = rows.into_iter().filter_map(|row| row.into_iter().next()?);
    cells.collect()
}

/// The CREATE USER that is executed here; the error is the reason why it cannot be.
fn definition(text: &str) -> Result<String, String> {
    let rest = text
        .strip_prefix("CREATE USER ")
        .ok_or("SHOW CREATE USER has an unknown format")?;
    let native = "IDENTIFIED WITH 'mysql_native_password' AS '";
    let mut text = format!("CREATE USER IF NOT EXISTS {rest}");
    // MariaDB's forms of a hash.
    for form in [
        "IDENTIFIED BY PASSWORD '",
        "IDENTIFIED VIA mysql_native_password USING '",
    ] {
        text = text.replacen(form, native, 1);
    }
    if let Some((_, plugin)) = text.split_once("IDENTIFIED VIA ") {
        let plugin = plugin.split_whitespace().next().unwrap_or_default();
        return Err(format!(
            "it authenticates by {plugin}: set a password at the source, or create the account here afterwards"
        ));
    }
    // Of several authentication methods only the password is kept.
    if text.contains(native)
        && let Some((kept, _)) = text.split_once("' OR ")
    {
        text = format!("{kept}'");
    }
    Ok(text)
}

/// The statement that is executed here for a line of SHOW GRANTS.
fn grant_here(text: &str) -> String {
    if let Some(rest) = text.strip_prefix("SET DEFAULT ROLE ")
        && let Some((role, account)) = rest.rsplit_once(" FOR ")
    {
        return format!("SET DEFAULT ROLE {role} TO {account}");
    }
    // The first line of MariaDB contains the authentication, too.
    let Some((head, tail)) = text.split_once(" IDENTIFIED ") else {
        return text.to_owned();
    };
    if tail.ends_with(" WITH GRANT OPTION") {
        format!("{head} WITH GRANT OPTION")
    } else {
        head.to_owned()
    }
}

/// Refuses or drops accounts that exist here; the kept ones are removed from the list.
///
/// # Errors
/// One line that names an account.
pub fn prepare(
    server: &mut Server,
    accounts: &mut Vec<Account>,
    existing: Existing,
) -> Result<(), StartError> {
    let rows = server.run("SELECT User, Host FROM mysql.user")?.rows;
    let found: BTreeSet<AccountName> = rows
        .into_iter()
        .map(|row| {
            let mut cells = row.into_iter().map(Option::unwrap_or_default);
            (
                cells.next().unwrap_or_default(),
                cells.next().unwrap_or_default(),
            )
        })
        .collect();
    let exists = |account: &Account| {
        let (user, host) = &account.name;
        let host = if account.is_role { "%" } else { host };
        found.contains(&(user.clone(), host.to_owned()))
    };
    match existing {
        Existing::Keep => accounts.retain(|account| !exists(account)),
        Existing::Drop => {
            for account in accounts.iter().filter(|account| exists(account)) {
                server.run(&format!("DROP USER {}", account.shown()))?;
            }
        }
        Existing::Refuse => {
            if let Some(account) = accounts.iter().find(|account| exists(account)) {
                return Err(StartError::usage(format!(
                    "import: account {} exists already; use --existing keep, --existing drop or --exclude-users",
                    account.shown()
                )));
            }
        }
    }
    Ok(())
}

/// Drops the accounts that were created.
///
/// # Errors
/// The server's.
pub fn drop_all(server: &mut Server, accounts: &[Account]) -> Result<(), StartError> {
    for account in accounts {
        let kind = if account.is_role { "ROLE" } else { "USER" };
        server.run(&format!("DROP {kind} IF EXISTS {}", account.shown()))?;
    }
    Ok(())
}

/// Creates accounts; returns those that are refused. The texts name no hash.
pub fn create(server: &mut Server, accounts: &[Account]) -> Vec<Problem> {
    let mut problems = Vec::new();
    for account in accounts {
        if let Err(error) = server.attempt(&account.create, None) {
            problems.push(account.problem(error.to_string()));
        }
    }
    problems
}

/// Grants privileges and roles; returns those that are refused.
pub fn grant(server: &mut Server, accounts: &[Account]) -> Vec<Problem> {
    let mut problems = Vec::new();
    for account in accounts {
        for statement in &account.grants {
            if server.attempt(statement, None).is_ok() {
                continue;
            }
            for part in parts(statement) {
                if let Err(error) = server.attempt(&part, None) {
                    problems.push(account.problem(format!("{part}: {error}")));
                }
            }
        }
    }
    problems
}

/// Splits a GRANT into statements for one privilege each, by their names here; the statement itself if it grants a role.
fn parts(statement: &str) -> Vec<String> {
    let split = || {
        let rest = statement.strip_prefix("GRANT ")?;
        let end = top_level(rest, " ON ").next()?;
        let (list, object) = rest.split_at_checked(end)?;
        let mut names = Vec::new();
        let mut start = 0;
        for comma in top_level(list, ",") {
            names.push(list.get(start..comma)?.trim());
            start = comma + 1;
        }
        names.push(list.get(start..)?.trim());
        Some((names, object))
    };
    let Some((names, object)) = split() else {
        return vec![statement.to_owned()];
    };
    let here = |name: &str| {
        let renamed = RENAMED.iter().find(|(theirs, _)| *theirs == name);
        renamed.map_or(name, |(_, ours)| ours).to_owned()
    };
    let statements = names
        .into_iter()
        .map(|name| format!("GRANT {}{object}", here(name)));
    statements.collect()
}

/// The positions of a text outside of parentheses and quotes.
fn top_level<'t>(text: &'t str, wanted: &'t str) -> impl Iterator<Item = usize> + 't {
    let (mut depth, mut quote) = (0u32, None);
    text.char_indices().filter_map(move |(at, c)| {
        match (quote, c) {
            (Some(open), c) if c == open => quote = None,
            (Some(_), _) => return None,
            (None, '`' | '\'' | '"') => quote = Some(c),
            (None, '(') => depth += 1,
            (None, ')') => depth = depth.saturating_sub(1),
            _ => {}
        }
        let is_here = depth == 0 && quote.is_none() && text.get(at..)?.starts_with(wanted);
        is_here.then_some(at)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn definitions_of_mariadb_and_mysql_are_read() {
        let here = |text| definition(text).unwrap();
        assert_eq!(
            here("CREATE USER `a`@`%` IDENTIFIED BY PASSWORD '*12' REQUIRE SSL"),
            "CREATE USER IF NOT EXISTS `a`@`%` IDENTIFIED WITH 'mysql_native_password' AS '*12' REQUIRE SSL"
        );
        assert_eq!(
            here(
                "CREATE USER `a`@`%` IDENTIFIED VIA mysql_native_password USING '*12' OR unix_socket"
            ),
            "CREATE USER IF NOT EXISTS `a`@`%` IDENTIFIED WITH 'mysql_native_password' AS '*12'"
        );
        let mysql =
            "`b`@`h` IDENTIFIED WITH 'caching_sha2_password' AS 0x2441 REQUIRE NONE ACCOUNT LOCK";
        assert_eq!(
            here(&format!("CREATE USER {mysql}")),
            format!("CREATE USER IF NOT EXISTS {mysql}")
        );
        let why = definition("CREATE USER `c`@`%` IDENTIFIED VIA ed25519 USING 'x'").unwrap_err();
        assert!(why.contains("ed25519"), "{why}");
    }

    #[test]
    fn grants_are_put_into_the_form_of_this_server() {
        assert_eq!(
            grant_here(
                "GRANT USAGE ON *.* TO `a`@`%` IDENTIFIED BY PASSWORD '*12' WITH GRANT OPTION"
            ),
            "GRANT USAGE ON *.* TO `a`@`%` WITH GRANT OPTION"
        );
        assert_eq!(
            grant_here("SET DEFAULT ROLE `r` FOR `a`@`%`"),
            "SET DEFAULT ROLE `r` TO `a`@`%`"
        );
        assert_eq!(
            parts(
                "GRANT SELECT (`a`, `b ON c`), BINLOG MONITOR ON `x ON y`.`t` TO `a`@`%` WITH GRANT OPTION"
            ),
            [
                "GRANT SELECT (`a`, `b ON c`) ON `x ON y`.`t` TO `a`@`%` WITH GRANT OPTION",
                "GRANT REPLICATION CLIENT ON `x ON y`.`t` TO `a`@`%` WITH GRANT OPTION"
            ]
        );
        assert_eq!(parts("GRANT `r` TO `a`@`%`"), ["GRANT `r` TO `a`@`%`"]);
    }
}
