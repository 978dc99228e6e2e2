//! `mysql.password_history`: earlier secrets of accounts, for PASSWORD HISTORY and PASSWORD
//! REUSE INTERVAL (manual, "Password Reuse Policy").
//!
//! An entry is written when a password is set under a reuse policy, and removed when its account's
//! policy does not cover it any more.

use crate::attributes::DAY;
use crate::auth_id::AuthId;
use crate::system_table::{SystemTable, TableChange, bytes_of, text_column, text_of};
use porpoise_rows::Db;
use porpoise_rows::catalog::TableOptions;
use porpoise_rows::ddl::{ColumnSpec, IndexSpec, TableSpec};
use porpoise_types::{Collation, ColumnType, DateTime, Kind, Value, ValueRef};
use std::sync::Arc;

/// A password that an account had.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OldPassword {
    /// The account.
    pub account: AuthId,
    /// Time at which it was set, in microseconds since 1970.
    pub set_at: i64,
    /// The stored secret.
    pub secret: Vec<u8>,
}

/// A resolved policy: how far back passwords may not be used again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReusePolicy {
    /// This many newest passwords.
    pub history: u16,
    /// Covers passwords set within this many days.
    pub days: u16,
}

impl ReusePolicy {
    /// Whether the policy covers any former password.
    pub fn covers_former_passwords(self) -> bool {
        self.history > 0 || self.days > 0
    }

    /// Splits an account's passwords, of any order, into those that the policy covers and
    /// the rest. A covered one may not be set again at `now`.
    pub fn split_by_coverage(
        self,
        mut list: Vec<OldPassword>,
        now: i64,
    ) -> (Vec<OldPassword>, Vec<OldPassword>) {
        list.sort_by_key(|old| std::cmp::Reverse(old.set_at));
        let since = now.saturating_sub(i64::from(self.days) * DAY);
        let (mut covered, mut rest) = (Vec::new(), Vec::new());
        for (at, old) in list.into_iter().enumerate() {
            let recent = self.days > 0 && old.set_at > since;
            if at < usize::from(self.history) || recent {
                covered.push(old)
            } else {
                rest.push(old)
            }
        }
        (covered, rest)
    }
}

pub(crate) static HISTORY: SystemTable = SystemTable {
    database: "mysql",
    name: "password_history",
    column_count: 4,
};

fn spec() -> TableSpec {
    let secret = ColumnType::text(Kind::Text, Collation::UTF8MB4_BIN);
    let columns = vec![
        text_column("Host", 255),
        text_column("User", 32),
        ColumnSpec::new("Password_timestamp", ColumnType::timestamp(6)).not_null(),
        ColumnSpec::new("Password", secret),
    ];
    let key = vec![IndexSpec::primary(&["Host", "User", "Password_timestamp"])];
    let options = TableOptions {
        comment: "Former passwords, for PASSWORD HISTORY and REUSE INTERVAL".to_owned(),
        ..TableOptions::new(Collation::UTF8MB4_BIN)
    };
    TableSpec {
        if_not_exists: true,
        ..TableSpec::new(HISTORY.database, HISTORY.name, columns, key, options)
    }
}

/// Creates the table if it does not exist.
///
/// # Errors
/// Creating it failed.
pub(crate) fn create_if_missing(db: &Arc<Db>) -> crate::Result<()> {
    if !HISTORY.exists(db) {
        let done = db.define(|cx| db.create_table(cx, &spec()))?;
        db.engine().wait_durable(done.position)?;
    }
    Ok(())
}

/// Loads all entries.
///
/// # Errors
/// Reading the table failed.
pub(crate) fn load(db: &Arc<Db>) -> crate::Result<Vec<OldPassword>> {
    HISTORY.rows(db, |row| OldPassword {
        account: AuthId {
            host: text_of(row, 0),
            user: text_of(row, 1),
        },
        set_at: match row.get(2) {
            ValueRef::DateTime(at) => at.to_unix_micros(),
            _ => 0,
        },
        secret: bytes_of(row, 3),
    })
}

/// Table change that inserts the entries `put` and deletes the entries `remove`.
pub(crate) fn change(put: &[OldPassword], remove: &[OldPassword]) -> TableChange {
    let rows = |list: &[OldPassword]| {
        let row = |old: &OldPassword| {
            let at = DateTime::from_unix_micros(old.set_at);
            vec![
                Value::Bytes(old.account.host.as_bytes().to_vec()),
                Value::Bytes(old.account.user.as_bytes().to_vec()),
                at.map_or(Value::Null, Value::DateTime),
                Value::Bytes(old.secret.clone()),
            ]
        };
        list.iter().map(row).collect()
    };
    TableChange {
        table: &HISTORY,
        put: rows(put),
        remove: rows(remove),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_and_the_recent_are_covered() {
        let old = |days: i64| OldPassword {
            account: AuthId::new("u", "%"),
            set_at: days * DAY,
            secret: vec![days as u8],
        };
        let list = vec![old(1), old(9), old(5), old(8)];
        let kept = |history, days| {
            let (covered, rest) =
                ReusePolicy { history, days }.split_by_coverage(list.clone(), 10 * DAY);
            assert_eq!(covered.len() + rest.len(), 4);
            covered.iter().map(|o| o.secret[0]).collect::<Vec<_>>()
        };
        assert_eq!(kept(0, 0), Vec::<u8>::new());
        assert_eq!(kept(1, 0), [9]);
        assert_eq!(kept(0, 3), [9, 8]);
        assert_eq!(kept(3, 3), [9, 8, 5]);
        assert_eq!(kept(9, 0), [9, 8, 5, 1]);
    }
}
