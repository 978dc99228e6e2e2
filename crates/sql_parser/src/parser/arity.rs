//! Functions whose number of arguments is fixed by MySQL's grammar.

use crate::ast::Func;

/// Minimum and maximum number of arguments of a function known to MySQL's grammar. Another number
/// of arguments is a syntax error, not error 1582.
pub(super) fn grammar_arguments(func: &Func<'_>) -> Option<(usize, usize)> {
    const NAMES: &[(&str, usize, usize)] = &[
        ("ASCII", 1, 1),
        ("AVG", 1, 1),
        ("BIT_AND", 1, 1),
        ("BIT_OR", 1, 1),
        ("BIT_XOR", 1, 1),
        ("CHARSET", 1, 1),
        ("COALESCE", 1, usize::MAX),
        ("COLLATION", 1, 1),
        ("CUME_DIST", 0, 0),
        ("DATABASE", 0, 0),
        ("DATE", 1, 1),
        ("DAY", 1, 1),
        ("DENSE_RANK", 0, 0),
        ("FIRST_VALUE", 1, 1),
        ("FORMAT", 2, 3),
        ("HOUR", 1, 1),
        ("IF", 3, 3),
        ("INSERT", 4, 4),
        ("JSON_ARRAYAGG", 1, 1),
        ("JSON_OBJECTAGG", 2, 2),
        ("LAG", 1, 3),
        ("LAST_VALUE", 1, 1),
        ("LEAD", 1, 3),
        ("LEFT", 2, 2),
        ("MAX", 1, 1),
        ("MICROSECOND", 1, 1),
        ("MIN", 1, 1),
        ("MINUTE", 1, 1),
        ("MOD", 2, 2),
        ("MONTH", 1, 1),
        ("NTH_VALUE", 2, 2),
        ("NTILE", 1, 1),
        ("PERCENT_RANK", 0, 0),
        ("QUARTER", 1, 1),
        ("RANK", 0, 0),
        ("REPEAT", 2, 2),
        ("REPLACE", 3, 3),
        ("REVERSE", 1, 1),
        ("RIGHT", 2, 2),
        ("ROW_COUNT", 0, 0),
        ("ROW_NUMBER", 0, 0),
        ("SECOND", 1, 1),
        ("STD", 1, 1),
        ("STDDEV_SAMP", 1, 1),
        ("SUM", 1, 1),
        ("TIME", 1, 1),
        ("TIMESTAMP", 1, 2),
        ("TRUNCATE", 2, 2),
        ("USER", 0, 0),
        ("VARIANCE", 1, 1),
        ("VAR_SAMP", 1, 1),
        ("WEEK", 1, 2),
        ("YEAR", 1, 1),
    ];
    let mut known = NAMES.iter();
    let name = func.name.name;
    let (_, least, most) = known.find(|(known, ..)| name.eq_ignore_ascii_case(known))?;
    func.schema.is_none().then_some((*least, *most))
}
