//! Deprecated syntax that a statement uses, for which MySQL gives warnings.
//!
//! The parser notes each use in the order of the text. The caller turns the notes into warnings,
//! also when it executes the statement by a plan that it has kept.

/// A use of deprecated syntax.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Deprecation<'a> {
    /// `INT(10)`
    IntegerWidth,
    /// `DOUBLE(10, 2)`
    FloatDigits,
    /// `FLOAT UNSIGNED`, `DECIMAL UNSIGNED`
    FloatUnsigned,
    /// `YEAR UNSIGNED`
    YearUnsigned,
    /// `ZEROFILL`
    Zerofill,
    /// `NATIONAL CHAR`, `N'text'`
    National,
    /// A character set, by the name that the statement gives.
    Charset(&'a str),
    /// A collation, by the name that the statement gives.
    Collation(&'a str),
    /// Syntax with a replacement.
    Replaced(&'static str, &'static str),
    /// `@a := 1` in an expression
    Assignment,
    /// `SQL_CALC_FOUND_ROWS`
    CalcFoundRows,
    /// `FOUND_ROWS()`
    FoundRows,
    /// `SQL_NO_CACHE`
    NoCache,
}

/// Character sets that are deprecated in favour of utf8mb4, besides utf8mb3.
const OLD_CHARSETS: [&str; 5] = ["ucs2", "macroman", "macce", "dec8", "hp8"];

const NO_REPLACEMENT: u16 = 1681;
const REPLACED: u16 = 1287;
const UTF8_ALIAS: u16 = 3719;
const NATIONAL: u16 = 3720;
const UTF8MB3_COLLATION: u16 = 3778;
const OLD_COLLATION: u16 = 4079;

impl Deprecation<'_> {
    /// The warning's number and text; `None` for character sets and collations that are not deprecated.
    #[must_use]
    pub fn warning(&self) -> Option<(u16, String)> {
        let (code, text) = match *self {
            Self::IntegerWidth => (NO_REPLACEMENT, removed("Integer display width is")),
            Self::FloatDigits => {
                let what = "Specifying number of digits for floating point data types is";
                (NO_REPLACEMENT, removed(what))
            }
            Self::FloatUnsigned => (
                NO_REPLACEMENT,
                "UNSIGNED for decimal and floating point data types is deprecated and support for it \
                 will be removed in a future release."
                    .to_owned(),
            ),
            Self::YearUnsigned => (
                NO_REPLACEMENT,
                "UNSIGNED for the YEAR data type is deprecated and support for it will be removed in a \
                 future release."
                    .to_owned(),
            ),
            Self::Zerofill => (
                NO_REPLACEMENT,
                removed("The ZEROFILL attribute is")
                    + " Use the LPAD function to zero-pad numbers, or store the formatted numbers in a \
                       CHAR column.",
            ),
            Self::NoCache => (NO_REPLACEMENT, removed("'SQL_NO_CACHE' is")),
            Self::National => (
                NATIONAL,
                "NATIONAL/NCHAR/NVARCHAR implies the character set UTF8MB3, which will be replaced by \
                 UTF8MB4 in a future release. Please consider using CHAR(x) CHARACTER SET UTF8MB4 in \
                 order to be unambiguous."
                    .to_owned(),
            ),
            Self::Charset(name) => return charset_warning(name),
            Self::Collation(name) => return collation_warning(name),
            Self::Replaced(what, by) => (REPLACED, replaced(what, by)),
            Self::Assignment => (
                REPLACED,
                removed("Setting user variables within expressions is")
                    + " Consider alternatives: 'SET variable=expression, ...', or 'SELECT expression(s) \
                       INTO variables(s)'.",
            ),
            Self::CalcFoundRows => (
                REPLACED,
                removed("SQL_CALC_FOUND_ROWS is") + " Consider using two separate queries instead.",
            ),
            Self::FoundRows => (
                REPLACED,
                removed("FOUND_ROWS() is") + " Consider using COUNT(*) instead.",
            ),
        };
        Some((code, text))
    }
}

fn removed(subject: &str) -> String {
    format!("{subject} deprecated and will be removed in a future release.")
}

fn replaced(what: &str, by: &str) -> String {
    removed(&format!("'{what}' is")) + &format!(" Please use {by} instead")
}

/// The warning for a character set's name.
fn charset_warning(name: &str) -> Option<(u16, String)> {
    let name = name.to_ascii_lowercase();
    if name == "utf8" {
        let text = "'utf8' is currently an alias for the character set UTF8MB3, but will be an alias for \
                    UTF8MB4 in a future release. Please consider using UTF8MB4 in order to be \
                    unambiguous.";
        return Some((UTF8_ALIAS, text.to_owned()));
    }
    let old = name == "utf8mb3" || OLD_CHARSETS.contains(&name.as_str());
    old.then(|| (REPLACED, replaced(&name, "utf8mb4")))
}

/// The warning for a collation's name.
fn collation_warning(name: &str) -> Option<(u16, String)> {
    let name = name.to_ascii_lowercase();
    let (charset, rest) = name.split_once('_')?;
    if charset == "utf8" || charset == "utf8mb3" {
        let text = format!(
            "'utf8mb3_{rest}' is a collation of the deprecated character set UTF8MB3. Please consider \
             using UTF8MB4 with an appropriate collation instead."
        );
        return Some((UTF8MB3_COLLATION, text));
    }
    OLD_CHARSETS.contains(&charset).then(|| {
        let text = format!(
            "'{name}' is a collation of the deprecated character set {charset}. Please consider using \
             utf8mb4 with an appropriate collation instead."
        );
        (OLD_COLLATION, text)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deprecated_character_sets_and_collations_have_their_warnings() {
        let code = |d: Deprecation<'_>| d.warning().map(|(code, _)| code);
        assert_eq!(code(Deprecation::Charset("UTF8")), Some(3719));
        assert_eq!(code(Deprecation::Charset("utf8mb3")), Some(1287));
        assert_eq!(code(Deprecation::Charset("utf8mb4")), None);
        assert_eq!(code(Deprecation::Collation("utf8_bin")), Some(3778));
        assert_eq!(code(Deprecation::Collation("ucs2_bin")), Some(4079));
        assert_eq!(code(Deprecation::Collation("utf8mb4_bin")), None);
        assert_eq!(code(Deprecation::Collation("binary")), None);
        let (_, text) = Deprecation::Replaced("&&", "AND").warning().unwrap();
        assert_eq!(
            text,
            "'&&' is deprecated and will be removed in a future release. Please use AND instead"
        );
    }
}
