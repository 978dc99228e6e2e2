//! The collation on which the operands of an operation agree (manual, "Collation Coercibility in
//! Expressions").
//!
//! Each text has a collation, a coercibility, and a repertoire: whether it can have characters
//! beyond ASCII. The lower coercibility wins if the other text can be converted to its character
//! set, which is the case for Unicode, for ASCII texts, and for literals. Of equal coercibility,
//! `_bin` wins over other collations of its set; two others of one set give its `_bin` collation
//! with coercibility [`Coercibility::None`], unless both are explicit.

use super::{Coercibility, Expr, ExprKind};
use crate::error::{Result, SqlError};
use porpoise_types::{Charset, Collation, ColumnType, Kind, Value};

/// A collation with its coercibility and repertoire.
#[derive(Clone, Copy, Debug)]
pub struct Claim {
    /// The collation.
    pub collation: Collation,
    /// Its coercibility.
    pub coercibility: Coercibility,
    /// Whether the text has ASCII characters only.
    ascii: bool,
}

impl Claim {
    /// The claim of a text.
    pub fn of(e: &Expr) -> Claim {
        Claim {
            collation: e.ty.collation,
            coercibility: e.coercibility,
            ascii: is_ascii(e),
        }
    }
}

/// Whether a value of this type is a character or binary string.
pub fn is_text(ty: &ColumnType) -> bool {
    ty.is_string() || ty.is_binary() || ty.is_blob() || matches!(ty.kind, Kind::Enum | Kind::Set)
}

/// Whether the text of an expression consists of ASCII characters, whatever its data.
fn is_ascii(e: &Expr) -> bool {
    if !is_text(&e.ty) || e.ty.collation.charset() == Charset::Ascii {
        return true;
    }
    match &e.kind {
        ExprKind::Const(Value::Bytes(text)) => {
            e.ty.collation.charset() != Charset::Binary && text.is_ascii()
        }
        ExprKind::Const(_) => true,
        ExprKind::Call(_, args) => !args.is_empty() && args.iter().all(is_ascii),
        ExprKind::Cast(arg) => is_ascii(arg),
        ExprKind::Case { whens, otherwise } => {
            whens.iter().all(|w| is_ascii(&w.result)) && otherwise.iter().all(|e| is_ascii(e))
        }
        ExprKind::Coalesce(args) => args.iter().all(is_ascii),
        _ => false,
    }
}

/// The claim of two operands together; `None` if their collations cannot be mixed.
pub fn stronger(a: Claim, b: Claim) -> Option<Claim> {
    let both = |winner: Claim| Claim {
        ascii: a.ascii && b.ascii,
        ..winner
    };
    if a.collation.charset() != b.collation.charset() {
        return of_two_charsets(a, b).map(both);
    }
    let winner = match a.coercibility.cmp(&b.coercibility) {
        std::cmp::Ordering::Less => a,
        std::cmp::Ordering::Greater => b,
        std::cmp::Ordering::Equal if a.collation == b.collation => a,
        std::cmp::Ordering::Equal if a.coercibility == Coercibility::Explicit => return None,
        std::cmp::Ordering::Equal if is_bin(a.collation) => a,
        std::cmp::Ordering::Equal if is_bin(b.collation) => b,
        std::cmp::Ordering::Equal => Claim {
            collation: bin_of(a.collation),
            coercibility: Coercibility::None,
            ascii: true,
        },
    };
    Some(both(winner))
}

fn of_two_charsets(a: Claim, b: Claim) -> Option<Claim> {
    if a.collation == Collation::BINARY {
        return Some(if a.coercibility <= b.coercibility {
            a
        } else {
            b
        });
    }
    if b.collation == Collation::BINARY {
        return Some(if b.coercibility <= a.coercibility {
            b
        } else {
            a
        });
    }
    let converts = |from: Claim, to: Claim| {
        to.coercibility < from.coercibility && from.coercibility >= Coercibility::System
    };
    if includes(a, b) {
        Some(a)
    } else if includes(b, a) {
        Some(b)
    } else if converts(b, a) {
        Some(a)
    } else if converts(a, b) {
        Some(b)
    } else {
        None
    }
}

/// Whether `one` wins because every text of `other` can be converted to its character set.
fn includes(one: Claim, other: Claim) -> bool {
    if one.coercibility > other.coercibility {
        return false;
    }
    let stronger = one.coercibility < other.coercibility;
    let (own, its) = (one.collation.charset(), other.collation.charset());
    let larger = || !its.is_unicode() || (own.has_supplement() && its.is_subset_of(own));
    (own.is_unicode() && (stronger || larger())) || (other.ascii && (stronger || !one.ascii))
}

fn is_bin(collation: Collation) -> bool {
    collation == Collation::BINARY || collation.name().ends_with("_bin")
}

fn bin_of(collation: Collation) -> Collation {
    let name = format!("{}_bin", collation.charset().name());
    Collation::by_name(&name).unwrap_or(collation)
}

/// Use of the operands, which decides whether [`Coercibility::None`] is an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    /// The texts are joined or returned.
    Result,
    /// The texts are compared.
    Comparison,
}

/// The claim on which all texts among the operands agree; `None` without texts.
///
/// # Errors
/// 1267, 1270 or 1271 if there is none; the message has all operands if they are at most three.
pub fn agree(operands: &[&Expr], operation: &str, usage: Use) -> Result<Option<Claim>> {
    let mut common: Option<Claim> = None;
    for e in operands.iter().filter(|e| is_text(&e.ty)) {
        let own = Claim::of(e);
        common = match common {
            None => Some(own),
            Some(before) => {
                Some(stronger(before, own).ok_or_else(|| illegal_mix(operands, operation))?)
            }
        };
    }
    let undecided = |c: &Claim| c.coercibility == Coercibility::None;
    if usage == Use::Comparison && common.as_ref().is_some_and(undecided) {
        return Err(illegal_mix(operands, operation));
    }
    Ok(common)
}

fn illegal_mix(operands: &[&Expr], operation: &str) -> SqlError {
    let texts: Vec<String> = operands.iter().map(|e| described(e)).collect();
    let (code, list) = match texts.as_slice() {
        [a, b] => (1267, format!(" {a} and {b}")),
        [a, b, c] => (1270, format!(" {a}, {b}, {c}")),
        _ => (1271, String::new()),
    };
    let text = format!("Illegal mix of collations{list} for operation '{operation}'");
    SqlError::new(code, "HY000", text)
}

/// The collation and coercibility of an operand as a message prints them.
fn described(e: &Expr) -> String {
    let name = match e.ty.kind {
        Kind::Null => Collation::BINARY.name(),
        _ if is_text(&e.ty) => e.ty.collation.name(),
        // The character set of numbers.
        _ => "latin1_swedish_ci",
    };
    let level = match e.coercibility {
        Coercibility::Explicit => "EXPLICIT",
        Coercibility::None => "NONE",
        Coercibility::Implicit => "IMPLICIT",
        Coercibility::System => "SYSCONST",
        Coercibility::Literal => "COERCIBLE",
        Coercibility::Numeric => "NUMERIC",
        Coercibility::Ignorable => "IGNORABLE",
    };
    format!("({name},{level})")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(collation: &str, coercibility: Coercibility, text: &str) -> Expr {
        let collation = Collation::by_name(collation).unwrap();
        let ty = ColumnType::varchar(10, collation);
        let mut e = Expr::constant(Value::Bytes(text.into()), ty);
        e.coercibility = coercibility;
        e
    }

    #[test]
    fn claims_are_merged_as_in_mysql() {
        use Coercibility::{Explicit, Implicit, Literal};
        let latin1 = text("latin1_swedish_ci", Literal, "a");
        let latin2 = text("latin2_general_ci", Literal, "a");
        let latin2_column = text("latin2_general_ci", Implicit, "a");
        let german = text("latin1_german1_ci", Implicit, "\u{e4}");
        let swedish = text("latin1_swedish_ci", Implicit, "\u{e4}");
        let insisting = text("latin1_general_ci", Explicit, "a");
        let utf8 = text("utf8mb4_general_ci", Literal, "\u{e4}");
        let claim = |a: &Expr, b: &Expr, usage| match agree(&[a, b], "=", usage) {
            Ok(claim) => claim.map_or("none", |c| c.collation.name()).to_owned(),
            Err(e) => e.message,
        };
        let cases = [
            (
                &latin1,
                &latin2,
                "Illegal mix of collations (latin1_swedish_ci,COERCIBLE) and (latin2_general_ci,COERCIBLE) for operation '='",
            ),
            (&latin1, &latin2_column, "latin2_general_ci"),
            (&latin2, &utf8, "utf8mb4_general_ci"),
            (&german, &insisting, "latin1_general_ci"),
            (&german, &utf8, "latin1_german1_ci"),
        ];
        for (a, b, expected) in cases {
            assert_eq!(claim(a, b, Use::Comparison), expected);
        }
        assert_eq!(claim(&german, &swedish, Use::Result), "latin1_bin");
        let error = agree(&[&latin1, &latin2, &latin1], " IN ", Use::Comparison);
        assert_eq!(error.map(|_| ()).unwrap_err().code, 1270);
        let compared = claim(&german, &swedish, Use::Comparison);
        assert!(compared.starts_with("Illegal mix"), "{compared}");
    }
}
