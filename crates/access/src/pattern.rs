//! Database patterns of grants: LIKE patterns with the escape `\`.
//!
//! A grantor may pass on a pattern only if one of its own patterns *contains* it: every
//! name that the granted pattern matches, the grantor's pattern matches. Containment of
//! regular languages, decided exactly by simulation of both patterns at once:
//!
//! ```text
//!   outer  m _ l        automaton with positions 0..=3, simulated as a bit set
//!   inner  m % l        words are generated position by position
//!   state  (inner position, set of outer positions reachable by the same word)
//!   "ml" reaches (end, {2}): position 3 is not in the set, so `m_l` lacks "ml"
//! ```
//!
//! The alphabet is the literals of both patterns and one letter that represents all
//! others. The number of sets may grow exponentially (`%a____`); after
//! [`STATE_LIMIT`] states the answer is "not contained", which refuses the grant.
//!
//! Rejected: comparing token by token (it takes `_%` and `%_`, or `_%` and `a%`, for
//! unrelated), and matching the granted pattern as text (`m_l` would match `m%l`).

use porpoise_types::Collation;
use std::collections::HashSet;

/// System schemas.
const SYSTEM_SCHEMAS: [&str; 5] = [
    "mysql",
    "sys",
    "information_schema",
    "performance_schema",
    "ndbmemcache",
];

/// Number of states after which containment is assumed to be false.
const STATE_LIMIT: usize = 4096;

/// Number of tokens above which containment is assumed to be false: positions are bits of a `u128`.
const TOKEN_LIMIT: usize = 120;

/// Whether a database is a system schema.
pub fn is_system_schema(database: &str) -> bool {
    let mut names = SYSTEM_SCHEMAS.iter();
    names.any(|name| name.eq_ignore_ascii_case(database))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Token {
    Literal(char),
    AnyOne,
    AnyMany,
}

/// The tokens of a pattern, normalized: in a run of wildcards all `_` come first, then at most one `%`.
fn tokens(pattern: &str) -> Vec<Token> {
    let mut list = Vec::with_capacity(pattern.len());
    let mut letters = pattern.chars();
    while let Some(letter) = letters.next() {
        let token = match letter {
            '\\' => Token::Literal(letters.next().unwrap_or('\\')),
            '_' => Token::AnyOne,
            '%' => Token::AnyMany,
            other => Token::Literal(other),
        };
        match (list.last(), token) {
            (Some(Token::AnyMany), Token::AnyMany) => {}
            (Some(Token::AnyMany), Token::AnyOne) => {
                list.pop();
                list.extend([Token::AnyOne, Token::AnyMany]);
            }
            _ => list.push(token),
        }
    }
    list
}

/// Whether a pattern names exactly this database: as text, or with its escapes removed.
fn is_exactly(pattern: &str, database: &str) -> bool {
    let mut letters = database.chars();
    let literal = tokens(pattern).into_iter().all(|token| match token {
        Token::Literal(letter) => letters.next() == Some(letter),
        _ => false,
    });
    pattern == database || (literal && letters.next().is_none())
}

/// The database that a name in GRANT or REVOKE means where wildcards are literal
/// (`partial_revokes`): the name with its escapes removed.
pub fn literal(name: &str) -> String {
    let mut plain = String::with_capacity(name.len());
    let mut letters = name.chars();
    while let Some(letter) = letters.next() {
        let escaped = (letter == '\\').then(|| letters.next()).flatten();
        plain.push(escaped.unwrap_or(letter));
    }
    plain
}

/// Whether a grant's pattern covers a database. Patterns with wildcards never cover a
/// system schema.
pub(crate) fn covers(pattern: &str, database: &str) -> bool {
    if is_system_schema(database) {
        return is_exactly(pattern, database);
    }
    Collation::UTF8MB4_BIN.like(database.as_bytes(), pattern.as_bytes(), Some('\\'))
}

/// Whether a grantor's pattern covers every database that a granted pattern covers.
pub(crate) fn covers_pattern(grantor: &str, granted: &str) -> bool {
    let system = SYSTEM_SCHEMAS.iter().find(|name| is_exactly(granted, name));
    if let Some(name) = system {
        return is_exactly(grantor, name);
    }
    grantor == granted || contains(&tokens(grantor), &tokens(granted))
}

/// A pattern as an automaton: a set of positions is a bit set.
struct Automaton<'a> {
    tokens: &'a [Token],
    any_one: u128,
    any_many: u128,
}

impl<'a> Automaton<'a> {
    fn new(tokens: &'a [Token]) -> Automaton<'a> {
        let mask = |wanted: Token| {
            let positions = tokens.iter().enumerate();
            positions
                .filter(|(_, token)| **token == wanted)
                .fold(0, |mask, (at, _)| mask | 1 << at)
        };
        Automaton {
            tokens,
            any_one: mask(Token::AnyOne),
            any_many: mask(Token::AnyMany),
        }
    }

    /// Adds the positions after `%`, which may match the empty string.
    fn closure(&self, set: u128) -> u128 {
        set | (set & self.any_many) << 1
    }

    fn start(&self) -> u128 {
        self.closure(1)
    }

    /// The positions after one letter; `None` is a letter that no pattern names.
    fn step(&self, set: u128, letter: Option<char>) -> u128 {
        let mut literal = 0;
        if let Some(letter) = letter {
            for (at, token) in self.tokens.iter().enumerate() {
                if *token == Token::Literal(letter) {
                    literal |= 1 << at;
                }
            }
        }
        self.closure((set & (literal | self.any_one)) << 1 | (set & self.any_many))
    }

    fn accepts(&self, set: u128) -> bool {
        set >> self.tokens.len() & 1 == 1
    }
}

/// Whether `outer` matches every word that `inner` matches.
fn contains(outer: &[Token], inner: &[Token]) -> bool {
    if outer.len().max(inner.len()) > TOKEN_LIMIT {
        return false;
    }
    let automaton = Automaton::new(outer);
    let mut alphabet: Vec<Option<char>> = vec![None];
    for token in outer.iter().chain(inner) {
        if let Token::Literal(letter) = token
            && !alphabet.contains(&Some(*letter))
        {
            alphabet.push(Some(*letter));
        }
    }
    let mut seen = HashSet::new();
    let mut open = vec![(0, automaton.start())];
    while let Some((at, set)) = open.pop() {
        if set == 0 || seen.len() > STATE_LIMIT {
            return false;
        }
        if !seen.insert((at, set)) {
            continue;
        }
        match inner.get(at) {
            None if automaton.accepts(set) => {}
            None => return false,
            Some(Token::Literal(letter)) => {
                open.push((at + 1, automaton.step(set, Some(*letter))));
            }
            Some(Token::AnyOne) => {
                let next = |letter: &Option<char>| (at + 1, automaton.step(set, *letter));
                open.extend(alphabet.iter().map(next));
            }
            Some(Token::AnyMany) => {
                open.push((at + 1, set));
                let next = |letter: &Option<char>| (at, automaton.step(set, *letter));
                open.extend(alphabet.iter().map(next));
            }
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    fn contained(outer: &str, inner: &str) -> bool {
        covers_pattern(outer, inner)
    }

    #[test]
    fn an_underscore_never_contains_a_percent_sign() {
        for (outer, inner, expected) in [
            ("m_l", "m%l", false),
            ("m_l", "m_l", true),
            ("m_l", "mxl", true),
            ("m_l", "m\\_l", true),
            ("m\\_l", "m_l", false),
            ("m\\_l", "m\\_l", true),
            ("m%", "m_l", true),
            ("m\\%", "m%", false),
            ("m\\%", "m\\%", true),
            ("_%", "%_", true),
            ("_%", "a%", true),
            ("_%", "%", false),
            ("%", "", true),
            ("%ab__%", "a%bxxx%ab%", false),
            ("%a%", "%b%", false),
            ("a%", "a", true),
            ("a\\", "a\\\\", true),
        ] {
            assert_eq!(contained(outer, inner), expected, "{outer} {inner}");
        }
    }

    #[test]
    fn patterns_with_wildcards_never_reach_system_schemas() {
        for pattern in ["%", "m%", "m_sql", "mys%l", "_ysql"] {
            assert!(!covers(pattern, "mysql"), "{pattern}");
            assert!(!covers_pattern(pattern, "mysql"), "{pattern}");
        }
        for name in SYSTEM_SCHEMAS {
            assert!(covers(name, name) && covers_pattern(name, name));
            assert!(!covers("%", name));
            assert!(covers(&name.replace('_', "\\_"), name));
        }
        assert!(!covers("performance%", "performance_schema"));
        assert!(!covers("performance_schem_", "performance_schema"));
        assert!(covers("m%", "mysq") && covers("m%", "mysqlx"));
    }

    #[test]
    fn literal_names_have_no_wildcards() {
        for (name, expected) in [
            ("a_b%", "a_b%"),
            ("a\\_b\\%", "a_b%"),
            ("a\\\\b\\", "a\\b\\"),
            ("", ""),
        ] {
            assert_eq!(literal(name), expected);
        }
    }

    #[test]
    fn exponential_patterns_are_refused_in_bounded_time() {
        let outer = format!("%a{}", "_".repeat(40));
        let inner = format!("%a{}", "%_".repeat(20));
        assert!(!contained(&outer, &inner));
    }

    /// Every word of up to `length` letters over a small alphabet.
    fn words(length: usize) -> Vec<String> {
        let mut all = vec![String::new()];
        let mut last = all.clone();
        for _ in 0..length {
            let longer = |w: &String| ["a", "b", "_", "x"].map(|l| format!("{w}{l}"));
            last = last.iter().flat_map(longer).collect();
            all.extend(last.iter().cloned());
        }
        all
    }

    #[test]
    fn containment_agrees_with_brute_force() {
        let words = words(6);
        let mut random = fastrand::Rng::with_seed(13);
        let pieces = ["a", "b", "\\_", "_", "%", "%", "_"];
        let mut pattern = |length: usize| -> String {
            let length = random.usize(..=length);
            (0..length)
                .map(|_| pieces[random.usize(..pieces.len())])
                .collect()
        };
        let like = |word: &str, pattern: &str| {
            Collation::UTF8MB4_BIN.like(word.as_bytes(), pattern.as_bytes(), Some('\\'))
        };
        let mut positive = 0;
        for _ in 0..6000 {
            let (outer, inner) = (pattern(3), pattern(3));
            let mut members = words.iter().filter(|w| like(w, &inner));
            let expected = members.all(|w| like(w, &outer));
            assert_eq!(contained(&outer, &inner), expected, "{outer} {inner}");
            positive += usize::from(expected);
        }
        assert!(positive > 500 && positive < 5500, "{positive}");
    }
}
