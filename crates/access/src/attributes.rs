//! Attributes of an account besides its name and secret: TLS requirements, resource
//! limits, password policy, failed-login tracking, comment (manual, "CREATE USER
//! Statement"), and their columns in `mysql.user`.

use crate::restrictions::Restrictions;
use crate::system_table::text_of;
use crate::user_attributes::UserAttributes;
use porpoise_rows::RowRef;
use porpoise_rows::catalog::ColumnDefault;
use porpoise_rows::ddl::ColumnSpec;
use porpoise_types::{Collation, ColumnType, DateTime, Kind, Value, ValueRef};

/// The REQUIRE clause: requirements on an account's connections.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Require {
    /// NONE
    #[default]
    None,
    /// SSL: any encrypted connection.
    Ssl,
    /// X509: a valid certificate of the client.
    X509,
    /// CIPHER, ISSUER, SUBJECT: those that are not empty.
    Specified {
        /// OpenSSL's name of the cipher suite.
        cipher: String,
        /// The authority that signed the client's certificate, in one line.
        issuer: String,
        /// The certificate's subject, in one line.
        subject: String,
    },
}

/// Properties of an encrypted connection that [`Require`] compares.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TlsPeer {
    /// OpenSSL's name of the cipher suite.
    pub cipher: String,
    /// Issuer and subject of the client's verified certificate, if it sent one.
    pub certificate: Option<(String, String)>,
}

impl Require {
    /// Whether only a client with a certificate satisfies the requirement.
    pub fn needs_certificate(&self) -> bool {
        match self {
            Require::None | Require::Ssl => false,
            Require::X509 => true,
            Require::Specified {
                issuer, subject, ..
            } => !issuer.is_empty() || !subject.is_empty(),
        }
    }

    /// Whether a connection satisfies the requirement; `None`: it is not encrypted.
    pub fn permits(&self, tls: Option<&TlsPeer>) -> bool {
        let equal = |wanted: &str, found: &str| wanted.is_empty() || wanted == found;
        match (self, tls) {
            (Require::None, _) | (Require::Ssl, Some(_)) => true,
            (_, None) => false,
            (Require::X509, Some(tls)) => tls.certificate.is_some(),
            (
                Require::Specified {
                    cipher,
                    issuer,
                    subject,
                },
                Some(tls),
            ) => {
                let names = match &tls.certificate {
                    Some((own_issuer, own_subject)) => {
                        equal(issuer, own_issuer) && equal(subject, own_subject)
                    }
                    None => issuer.is_empty() && subject.is_empty(),
                };
                names && equal(cipher, &tls.cipher)
            }
        }
    }
}

/// Resource limits of an account (WITH ...); 0: no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// MAX_QUERIES_PER_HOUR
    pub queries: u32,
    /// MAX_UPDATES_PER_HOUR
    pub updates: u32,
    /// MAX_CONNECTIONS_PER_HOUR
    pub connections: u32,
    /// MAX_USER_CONNECTIONS: at one time.
    pub concurrent: u32,
}

/// Validity of a password, restrictions on its successors, and conditions for changing it.
/// `None` is DEFAULT: the system variable of the same meaning.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PasswordPolicy {
    /// PASSWORD EXPIRE: the next login must change it.
    pub expired: bool,
    /// Time of the last change of the password.
    pub changed: Option<DateTime>,
    /// PASSWORD EXPIRE INTERVAL n DAY; 0 is NEVER.
    pub lifetime: Option<u16>,
    /// PASSWORD HISTORY
    pub history: Option<u16>,
    /// PASSWORD REUSE INTERVAL n DAY
    pub reuse_days: Option<u16>,
    /// PASSWORD REQUIRE CURRENT; false is OPTIONAL.
    pub require_current: Option<bool>,
    /// FAILED_LOGIN_ATTEMPTS; 0: not counted.
    pub failed_logins: u16,
    /// PASSWORD_LOCK_TIME in days; 0: never locked, -1 is UNBOUNDED.
    pub lock_days: i16,
}

impl PasswordPolicy {
    /// Whether the password must be changed: expired by hand, or older than its lifetime.
    /// `default_lifetime` is `default_password_lifetime`.
    pub fn is_expired(&self, now_unix_micros: i64, default_lifetime: u16) -> bool {
        if self.expired {
            return true;
        }
        let days = i64::from(self.lifetime.unwrap_or(default_lifetime));
        let changed = self.changed.map(DateTime::to_unix_micros);
        days > 0 && changed.is_some_and(|at| at.saturating_add(days * DAY) <= now_unix_micros)
    }

    /// Whether failed logins lock the account for a time.
    pub fn locks_after_failures(&self) -> bool {
        self.failed_logins > 0 && self.lock_days != 0
    }
}

/// Microseconds of a day.
pub(crate) const DAY: i64 = 86_400_000_000;

/// All attributes of an account.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Attributes {
    /// REQUIRE
    pub require: Require,
    /// WITH
    pub limits: Limits,
    /// PASSWORD, FAILED_LOGIN_ATTEMPTS
    pub password: PasswordPolicy,
    /// ATTRIBUTE and COMMENT: a JSON object.
    pub metadata: Option<String>,
    /// Databases on which privileges of `*.*` do not hold.
    pub restrictions: Restrictions,
    /// The stored form of the second password, which RETAIN CURRENT PASSWORD keeps.
    pub second_secret: Option<String>,
}

/// Number of columns returned by [`columns`].
pub(crate) const COLUMN_COUNT: usize = 16;

fn text(t: &str) -> Value {
    Value::Bytes(t.as_bytes().to_vec())
}

/// The columns of `mysql.user` for attributes, which follow those of the first version.
pub(crate) fn columns() -> Vec<ColumnSpec> {
    let column = |name: &str, ty: ColumnType, default: Option<Value>| ColumnSpec {
        nullable: Some(default.is_none()),
        default: default.map(ColumnDefault::Literal),
        ..ColumnSpec::new(name, ty)
    };
    let string = |n| ColumnType::varchar(n, Collation::UTF8MB4_BIN);
    let words = || vec![Box::from(&b"N"[..]), Box::from(&b"Y"[..])];
    let switch = || ColumnType::enumeration(words(), Collation::UTF8MB4_GENERAL_CI);
    let (int, small) = (
        ColumnType::uint(Kind::Int),
        ColumnType::uint(Kind::SmallInt),
    );
    let none = || Some(Value::UInt(0));
    vec![
        column("ssl_type", string(9), Some(text(""))),
        column("ssl_cipher", string(1024), Some(text(""))),
        column("x509_issuer", string(4096), Some(text(""))),
        column("x509_subject", string(4096), Some(text(""))),
        column("max_questions", int.clone(), none()),
        column("max_updates", int.clone(), none()),
        column("max_connections", int.clone(), none()),
        column("max_user_connections", int, none()),
        column("password_expired", switch(), Some(Value::UInt(1))),
        column("password_lifetime", small.clone(), None),
        column("Password_reuse_history", small.clone(), None),
        column("Password_reuse_time", small.clone(), None),
        column("Password_require_current", switch(), None),
        column("Failed_login_attempts", small, none()),
        column(
            "Password_lock_time",
            ColumnType::int(Kind::SmallInt),
            Some(Value::Int(0)),
        ),
        column(
            "User_attributes",
            ColumnType::text(Kind::MediumText, Collation::UTF8MB4_BIN),
            None,
        ),
    ]
}

impl Attributes {
    /// Returns the value of the column User_attributes.
    fn user_attributes(&self) -> Option<String> {
        let all = UserAttributes {
            metadata: self.metadata.clone(),
            restrictions: self.restrictions.clone(),
            second_secret: self.second_secret.clone(),
        };
        all.to_text()
    }

    /// Returns the values of [`columns`].
    pub(crate) fn values(&self) -> Vec<Value> {
        let empty = String::new();
        let (kind, cipher, issuer, subject) = match &self.require {
            Require::None => ("", &empty, &empty, &empty),
            Require::Ssl => ("ANY", &empty, &empty, &empty),
            Require::X509 => ("X509", &empty, &empty, &empty),
            Require::Specified {
                cipher,
                issuer,
                subject,
            } => ("SPECIFIED", cipher, issuer, subject),
        };
        let number = |n: u32| Value::UInt(u64::from(n));
        let maybe = |n: Option<u16>| n.map_or(Value::Null, |n| Value::UInt(u64::from(n)));
        let switch = |on: bool| Value::UInt(if on { 2 } else { 1 });
        let (limits, password) = (&self.limits, &self.password);
        vec![
            text(kind),
            text(cipher),
            text(issuer),
            text(subject),
            number(limits.queries),
            number(limits.updates),
            number(limits.connections),
            number(limits.concurrent),
            switch(password.expired),
            maybe(password.lifetime),
            maybe(password.history),
            maybe(password.reuse_days),
            password.require_current.map_or(Value::Null, switch),
            number(u32::from(password.failed_logins)),
            Value::Int(i64::from(password.lock_days)),
            self.user_attributes().map_or(Value::Null, |t| text(&t)),
        ]
    }

    /// Reads the values of [`columns`], of which the first is column `first`.
    pub(crate) fn from_row(
        row: &RowRef<'_>,
        first: usize,
        changed: Option<DateTime>,
    ) -> Attributes {
        let string = |at| text_of(row, first + at);
        let unsigned = |at| match row.get(first + at) {
            ValueRef::UInt(n) => Some(n),
            ValueRef::Int(n) => u64::try_from(n).ok(),
            _ => None,
        };
        let number = |at| unsigned(at).map_or(0, |n| u32::try_from(n).unwrap_or(u32::MAX));
        let maybe = |at| unsigned(at).map(|n| u16::try_from(n).unwrap_or(u16::MAX));
        let require = match string(0).as_str() {
            "" => Require::None,
            "ANY" => Require::Ssl,
            "X509" => Require::X509,
            _ => Require::Specified {
                cipher: string(1),
                issuer: string(2),
                subject: string(3),
            },
        };
        let lock_days = match row.get(first + 14) {
            ValueRef::Int(n) => i16::try_from(n).unwrap_or(-1),
            ValueRef::UInt(n) => i16::try_from(n).unwrap_or(-1),
            _ => 0,
        };
        let json = UserAttributes::parse(&string(15));
        Attributes {
            require,
            limits: Limits {
                queries: number(4),
                updates: number(5),
                connections: number(6),
                concurrent: number(7),
            },
            password: PasswordPolicy {
                expired: unsigned(8) == Some(2),
                changed,
                lifetime: maybe(9),
                history: maybe(10),
                reuse_days: maybe(11),
                require_current: unsigned(12).map(|n| n == 2),
                failed_logins: maybe(13).unwrap_or(0),
                lock_days,
            },
            metadata: json.metadata,
            restrictions: json.restrictions,
            second_secret: json.second_secret,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requirements_compare_what_they_name() {
        let plain = TlsPeer {
            cipher: "C".to_owned(),
            certificate: None,
        };
        let proven = TlsPeer {
            certificate: Some(("/CN=a".to_owned(), "/CN=b".to_owned())),
            ..plain.clone()
        };
        let specified = |cipher: &str, issuer: &str, subject: &str| Require::Specified {
            cipher: cipher.to_owned(),
            issuer: issuer.to_owned(),
            subject: subject.to_owned(),
        };
        for (require, without, encrypted, certified) in [
            (Require::None, true, true, true),
            (Require::Ssl, false, true, true),
            (Require::X509, false, false, true),
            (specified("C", "", ""), false, true, true),
            (specified("D", "", ""), false, false, false),
            (specified("", "/CN=a", ""), false, false, true),
            (specified("", "", "/CN=b"), false, false, true),
            (specified("", "/CN=a", "/CN=x"), false, false, false),
        ] {
            assert_eq!(require.permits(None), without, "{require:?}");
            assert_eq!(require.permits(Some(&plain)), encrypted, "{require:?}");
            assert_eq!(require.permits(Some(&proven)), certified, "{require:?}");
        }
    }

    #[test]
    fn passwords_expire_by_hand_or_by_age() {
        let changed = DateTime::from_unix_micros(10 * DAY);
        let policy = PasswordPolicy {
            changed,
            ..PasswordPolicy::default()
        };
        assert!(!policy.is_expired(100 * DAY, 0));
        assert!(!policy.is_expired(15 * DAY - 1, 5));
        assert!(policy.is_expired(15 * DAY, 5));
        let own = PasswordPolicy {
            lifetime: Some(2),
            ..policy
        };
        assert!(own.is_expired(12 * DAY, 0));
        let never = PasswordPolicy {
            lifetime: Some(0),
            ..policy
        };
        assert!(!never.is_expired(100 * DAY, 5));
        let by_hand = PasswordPolicy {
            expired: true,
            ..never
        };
        assert!(by_hand.is_expired(0, 0));
    }
}
