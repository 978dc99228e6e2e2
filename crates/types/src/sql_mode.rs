//! The SQL mode: a set of flags with MySQL's names.
//!
//! Invariant: the bits are MySQL's own (`sql_mode` in its binary log), so that
//! a persisted mode keeps its meaning.

use std::fmt;
use std::ops::BitOr;

/// A set of SQL mode flags.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct SqlMode(u64);

macro_rules! modes {
    ($($(#[$doc:meta])* $name:ident = $bit:expr;)*) => {
        impl SqlMode {
            $($(#[$doc])* pub const $name: SqlMode = SqlMode(1 << $bit);)*

            /// All single flags with their names, in the order in which MySQL prints them.
            const NAMES: &'static [(&'static str, SqlMode)] = &[$((stringify!($name), SqlMode::$name)),*];
        }
    };
}

modes! {
    /// REAL means FLOAT.
    REAL_AS_FLOAT = 0;
    /// `||` concatenates.
    PIPES_AS_CONCAT = 1;
    /// `"` quotes identifiers.
    ANSI_QUOTES = 2;
    /// Spaces are allowed between a function's name and `(`.
    IGNORE_SPACE = 3;
    /// Selected columns must be functionally dependent on GROUP BY.
    ONLY_FULL_GROUP_BY = 5;
    /// Subtraction of unsigned numbers is signed.
    NO_UNSIGNED_SUBTRACTION = 6;
    /// DATA DIRECTORY is ignored.
    NO_DIR_IN_CREATE = 7;
    /// The composite mode ANSI was set.
    ANSI = 18;
    /// 0 is stored in an AUTO_INCREMENT column unchanged.
    NO_AUTO_VALUE_ON_ZERO = 19;
    /// `\` is an ordinary character.
    NO_BACKSLASH_ESCAPES = 20;
    /// Bad values are errors in transactional tables.
    STRICT_TRANS_TABLES = 21;
    /// Bad values are errors in all tables.
    STRICT_ALL_TABLES = 22;
    /// Dates with a zero month or day are refused.
    NO_ZERO_IN_DATE = 23;
    /// '0000-00-00' is refused.
    NO_ZERO_DATE = 24;
    /// Days are checked against 31 only.
    ALLOW_INVALID_DATES = 25;
    /// Division by zero is an error in strict assignments.
    ERROR_FOR_DIVISION_BY_ZERO = 26;
    /// The composite mode TRADITIONAL was set.
    TRADITIONAL = 27;
    /// NOT binds as tightly as `!`.
    HIGH_NOT_PRECEDENCE = 29;
    /// An unknown ENGINE is an error.
    NO_ENGINE_SUBSTITUTION = 30;
    /// CHAR is shown with its pad spaces.
    PAD_CHAR_TO_FULL_LENGTH = 31;
    /// Fractional seconds are cut, not rounded.
    TIME_TRUNCATE_FRACTIONAL = 32;
}

impl SqlMode {
    /// No flag.
    pub const EMPTY: SqlMode = SqlMode(0);

    const ANSI_PARTS: u64 = Self::REAL_AS_FLOAT.0
        | Self::PIPES_AS_CONCAT.0
        | Self::ANSI_QUOTES.0
        | Self::IGNORE_SPACE.0
        | Self::ONLY_FULL_GROUP_BY.0;

    const TRADITIONAL_PARTS: u64 = Self::STRICT_TRANS_TABLES.0
        | Self::STRICT_ALL_TABLES.0
        | Self::NO_ZERO_IN_DATE.0
        | Self::NO_ZERO_DATE.0
        | Self::ERROR_FOR_DIVISION_BY_ZERO.0
        | Self::NO_ENGINE_SUBSTITUTION.0;

    /// Whether every flag of `other` is set here.
    #[must_use]
    pub const fn contains(self, other: SqlMode) -> bool {
        self.0 & other.0 == other.0
    }

    /// Whether some flag of `other` is set here.
    #[must_use]
    pub const fn intersects(self, other: SqlMode) -> bool {
        self.0 & other.0 != 0
    }

    /// The flags of both.
    #[must_use]
    pub const fn union(self, other: SqlMode) -> SqlMode {
        SqlMode(self.0 | other.0)
    }

    /// The flags of `self` without those of `other`.
    #[must_use]
    pub const fn without(self, other: SqlMode) -> SqlMode {
        SqlMode(self.0 & !other.0)
    }

    /// The bits, as MySQL numbers them.
    #[must_use]
    pub const fn bits(self) -> u64 {
        self.0
    }

    /// The mode of these bits; unknown bits are dropped.
    #[must_use]
    pub fn from_bits(bits: u64) -> SqlMode {
        SqlMode(Self::NAMES.iter().fold(0, |all, (_, m)| all | (m.0 & bits)))
    }

    /// Whether assignments are strict (either strict flag).
    #[must_use]
    pub const fn is_strict(self) -> bool {
        self.intersects(SqlMode(
            Self::STRICT_TRANS_TABLES.0 | Self::STRICT_ALL_TABLES.0,
        ))
    }

    /// Reads a comma-separated list of names, in any case; composite modes
    /// set their parts too. Modes that older servers had and that dumps and their programs set are
    /// dropped: accounts are never created without a statement of their own, and definitions are
    /// shown with their options.
    ///
    /// # Errors
    /// The first unknown name.
    pub fn parse(list: &str) -> Result<SqlMode, String> {
        let mut mode = 0;
        let names = list.split(',').map(str::trim).filter(|n| !n.is_empty());
        let is_former = |name: &&str| {
            let mut former = FORMER_MODES.iter();
            former.any(|mode| mode.eq_ignore_ascii_case(name))
        };
        for name in names.filter(|name| !is_former(name)) {
            let found = Self::NAMES
                .iter()
                .find(|(n, _)| n.eq_ignore_ascii_case(name));
            let Some((_, flag)) = found else {
                return Err(name.to_owned());
            };
            mode |= flag.0;
            if *flag == Self::ANSI {
                mode |= Self::ANSI_PARTS;
            }
            if *flag == Self::TRADITIONAL {
                mode |= Self::TRADITIONAL_PARTS;
            }
        }
        Ok(SqlMode(mode))
    }
}

/// Modes of MariaDB and MySQL 5.7 that MySQL 8 lacks, and that have no effect here.
const FORMER_MODES: [&str; 4] = [
    "NO_AUTO_CREATE_USER",
    "NO_FIELD_OPTIONS",
    "NO_KEY_OPTIONS",
    "NO_TABLE_OPTIONS",
];

impl Default for SqlMode {
    /// MySQL 8's default.
    fn default() -> SqlMode {
        Self::ONLY_FULL_GROUP_BY
            | Self::STRICT_TRANS_TABLES
            | Self::NO_ZERO_IN_DATE
            | Self::NO_ZERO_DATE
            | Self::ERROR_FOR_DIVISION_BY_ZERO
            | Self::NO_ENGINE_SUBSTITUTION
    }
}

impl BitOr for SqlMode {
    type Output = SqlMode;

    fn bitor(self, other: SqlMode) -> SqlMode {
        self.union(other)
    }
}

impl fmt::Display for SqlMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut first = true;
        for (name, flag) in Self::NAMES {
            if self.contains(*flag) {
                if !first {
                    f.write_str(",")?;
                }
                f.write_str(name)?;
                first = false;
            }
        }
        Ok(())
    }
}

impl fmt::Debug for SqlMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SqlMode({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn default_prints_as_mysql_8_does() {
        let text = "ONLY_FULL_GROUP_BY,STRICT_TRANS_TABLES,NO_ZERO_IN_DATE,NO_ZERO_DATE,\
                    ERROR_FOR_DIVISION_BY_ZERO,NO_ENGINE_SUBSTITUTION";
        assert_eq!(SqlMode::default().to_string(), text);
        assert_eq!(SqlMode::parse(text), Ok(SqlMode::default()));
        assert_eq!(
            SqlMode::from_bits(SqlMode::default().bits()),
            SqlMode::default()
        );
    }

    #[test]
    fn composite_modes_set_their_parts() {
        let mode = SqlMode::parse("ansi, Traditional").unwrap();
        assert!(mode.contains(SqlMode::ANSI_QUOTES | SqlMode::STRICT_ALL_TABLES));
        assert!(mode.is_strict());
        assert_eq!(SqlMode::parse("STRICT"), Err("STRICT".to_owned()));
        assert_eq!(SqlMode::parse(""), Ok(SqlMode::EMPTY));
    }
}
