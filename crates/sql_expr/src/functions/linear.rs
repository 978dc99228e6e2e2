//! Regular expressions over large values in linear time, with interrupt checkpoints.
//!
//! A pattern without look-around, back-references and similar constructs is executed by a
//! finite automaton. The library that [`super::regexp`] uses runs it in one call: over
//! megabytes, and if the automaton's cache thrashes, that takes seconds to minutes in which KILL is not
//! observed. Here the same automaton is built lazily (`regex_automata::hybrid`) and driven from
//! outside:
//!
//! ```text
//! forward    text[at..] ──────────────▶ end of the leftmost match    a checkpoint every
//! backward        start of it ◀──────── text[..end], anchored        STRIDE bytes
//! ```
//!
//! Invariants:
//! 1. The automaton is built from the pattern as the library translates it, so that both find the
//!    same matches.
//! 2. A step creates at most one state, in time proportional to the pattern's size, which
//!    [`super::regexp`] limits. A full cache is cleared and reused; the search never gives up.
//! 3. If the automaton cannot decide (a Unicode word boundary next to a non-ASCII character), the
//!    result is [`Search::Undecided`], and the caller limits the library's cost.

use fancy_regex::Expr;
use porpoise_base::interrupt::{self, Interrupted};
use regex_automata::hybrid::LazyStateID;
use regex_automata::hybrid::dfa::{Cache, Config, DFA};
use regex_automata::nfa::thompson;
use regex_automata::util::syntax;
use regex_automata::{Anchored, Input, MatchKind};
use std::cell::RefCell;

/// Bytes between two interrupt checkpoints.
const STRIDE: usize = 64;

/// Size of an automaton's state cache, in bytes.
const CACHE: usize = 2 << 20;

/// A pattern compiled to a lazy DFA for each direction.
pub(super) struct Linear {
    forward: DFA,
    backward: DFA,
    caches: RefCell<(Cache, Cache)>,
    states: usize,
}

/// Result of a search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Search {
    /// The leftmost match, as byte offsets.
    Found(usize, usize),
    /// No match.
    None,
    /// The automaton cannot decide.
    Undecided,
}

/// Result of a scan in one direction.
enum Walk {
    At(usize),
    None,
    Undecided,
}

/// Whether a finite automaton can execute the expression.
fn is_linear(expr: &Expr) -> bool {
    let own = matches!(
        expr,
        Expr::Empty
            | Expr::Any { .. }
            | Expr::Assertion(_)
            | Expr::Literal { .. }
            | Expr::Concat(_)
            | Expr::Alt(_)
            | Expr::Group(_)
            | Expr::Repeat { .. }
            | Expr::Delegate { .. }
    );
    own && expr.children_iter().all(is_linear)
}

impl Linear {
    /// Compiles a pattern that has its flags in front; `None` if the pattern needs backtracking, or
    /// is larger than `size_limit` bytes.
    pub(super) fn new(pattern: &str, size_limit: usize) -> Option<Linear> {
        let tree = Expr::parse_tree(pattern).ok()?;
        if !is_linear(&tree.expr) {
            return None;
        }
        let mut plain = String::with_capacity(pattern.len());
        tree.expr.to_str(&mut plain, 0);
        let compile = |backward: bool| {
            let config = thompson::Config::new()
                .reverse(backward)
                .which_captures(thompson::WhichCaptures::None)
                .nfa_size_limit(Some(size_limit));
            let nfa = thompson::Compiler::new()
                .configure(config)
                .syntax(syntax::Config::new())
                .build(&plain)
                .ok()?;
            let kind = if backward {
                MatchKind::All
            } else {
                MatchKind::LeftmostFirst
            };
            let config = Config::new()
                .match_kind(kind)
                .unicode_word_boundary(true)
                .cache_capacity(CACHE)
                .skip_cache_capacity_check(true);
            DFA::builder().configure(config).build_from_nfa(nfa).ok()
        };
        let (forward, backward) = (compile(false)?, compile(true)?);
        let caches = RefCell::new((forward.create_cache(), backward.create_cache()));
        Some(Linear {
            states: forward.get_nfa().states().len(),
            forward,
            backward,
            caches,
        })
    }

    /// Number of NFA states: the worst-case cost of a byte of text.
    pub(super) fn states(&self) -> usize {
        self.states
    }

    /// Whether the pattern matches anywhere; `None` if undecided.
    ///
    /// # Errors
    /// [`Interrupted`] if the statement was killed or timed out.
    pub(super) fn is_match(&self, text: &str) -> Result<Option<bool>, Interrupted> {
        let mut caches = self.caches.borrow_mut();
        Ok(match self.end(&mut caches.0, text, 0, true)? {
            Walk::At(_) => Some(true),
            Walk::None => Some(false),
            Walk::Undecided => None,
        })
    }

    /// Finds the leftmost match from byte `at` on.
    ///
    /// # Errors
    /// [`Interrupted`] if the statement was killed or timed out.
    pub(super) fn find(&self, text: &str, at: usize) -> Result<Search, Interrupted> {
        let mut caches = self.caches.borrow_mut();
        let (forward, backward) = &mut *caches;
        let end = match self.end(forward, text, at, false)? {
            Walk::At(end) => end,
            Walk::None => return Ok(Search::None),
            Walk::Undecided => return Ok(Search::Undecided),
        };
        Ok(match self.start(backward, text, at, end)? {
            // An empty match inside a character does not count.
            Walk::At(start) if text.is_char_boundary(start) && text.is_char_boundary(end) => {
                Search::Found(start, end)
            }
            _ => Search::Undecided,
        })
    }

    /// Finds the end of the leftmost match; with `earliest` the first end found.
    fn end(
        &self,
        cache: &mut Cache,
        text: &str,
        at: usize,
        earliest: bool,
    ) -> Result<Walk, Interrupted> {
        let dfa = &self.forward;
        let input = Input::new(text).range(at..);
        let Ok(mut state) = dfa.start_state_forward(cache, &input) else {
            return Ok(Walk::Undecided);
        };
        let mut last = Walk::None;
        let mut position = at;
        for piece in text.as_bytes().get(at..).unwrap_or_default().chunks(STRIDE) {
            interrupt::check()?;
            for byte in piece {
                let Some(next) = step(dfa, cache, state, *byte) else {
                    return Ok(Walk::Undecided);
                };
                state = next;
                // The match state is delayed by one byte.
                if state.is_match() {
                    last = Walk::At(position);
                    if earliest {
                        return Ok(last);
                    }
                } else if state.is_dead() {
                    return Ok(last);
                }
                position += 1;
            }
        }
        match dfa.next_eoi_state(cache, state) {
            Ok(state) if state.is_match() => Ok(Walk::At(text.len())),
            Ok(state) if state.is_quit() => Ok(Walk::Undecided),
            Ok(_) => Ok(last),
            Err(_) => Ok(Walk::Undecided),
        }
    }

    /// Finds the start of the match that starts at or after `at` and ends at `end`.
    fn start(
        &self,
        cache: &mut Cache,
        text: &str,
        at: usize,
        end: usize,
    ) -> Result<Walk, Interrupted> {
        let dfa = &self.backward;
        let input = Input::new(text).range(at..end).anchored(Anchored::Yes);
        let Ok(mut state) = dfa.start_state_reverse(cache, &input) else {
            return Ok(Walk::Undecided);
        };
        let bytes = text.as_bytes();
        let mut last = Walk::None;
        let mut position = end;
        for piece in bytes.get(at..end).unwrap_or_default().rchunks(STRIDE) {
            interrupt::check()?;
            for byte in piece.iter().rev() {
                let Some(next) = step(dfa, cache, state, *byte) else {
                    return Ok(Walk::Undecided);
                };
                state = next;
                if state.is_match() {
                    last = Walk::At(position);
                } else if state.is_dead() {
                    return Ok(last);
                }
                position -= 1;
            }
        }
        // The byte before the range decides about `^` and `\b` at its start.
        let before = at.checked_sub(1).and_then(|before| bytes.get(before));
        let state = match before {
            Some(byte) => step(dfa, cache, state, *byte),
            None => dfa.next_eoi_state(cache, state).ok(),
        };
        Ok(match state {
            Some(state) if state.is_match() => Walk::At(at),
            Some(state) if !state.is_quit() => last,
            _ => Walk::Undecided,
        })
    }
}

/// The state after a byte; `None` if the automaton cannot continue.
fn step(dfa: &DFA, cache: &mut Cache, state: LazyStateID, byte: u8) -> Option<LazyStateID> {
    let next = dfa.next_state(cache, state, byte).ok()?;
    (!next.is_quit()).then_some(next)
}

#[cfg(test)]
mod tests {
    use super::*;
    use fancy_regex::Regex;

    /// All matches by the automaton and by the library.
    fn compared(pattern: &str, text: &str) {
        let linear = Linear::new(pattern, 1 << 20).unwrap();
        let regex = Regex::new(pattern).unwrap();
        assert_eq!(
            linear.is_match(text).unwrap(),
            Some(regex.is_match(text).unwrap()),
            "{pattern} {text:?}"
        );
        for at in (0..=text.len()).filter(|at| text.is_char_boundary(*at)) {
            let expected = regex.find_from_pos(text, at).unwrap();
            let expected = match expected {
                Some(found) => Search::Found(found.start(), found.end()),
                None => Search::None,
            };
            assert_eq!(
                linear.find(text, at).unwrap(),
                expected,
                "{pattern} {text:?} from {at}"
            );
        }
    }

    #[test]
    fn automata_and_the_regex_library_find_the_same_matches() {
        let patterns = [
            "a",
            "",
            "a*",
            "a+?",
            "(a|ab)(c|bcd)",
            "^a",
            "a$",
            "(?m)^b$",
            "(?i)ÄB",
            "[^a]b?",
            "b{2,3}",
            "(?s).",
            ".",
            r"\d+|\w",
            "x|",
            "(?:a|b)*c",
            r"\p{L}+",
            "a{0}",
            "[[:space:]]",
        ];
        let texts = [
            "", "a", "aaab", "abcd", "b\nbb\nb", "äbÄB", "xabab c", "é", "bbbb", "12 ab\n", "日本a",
        ];
        for pattern in patterns {
            for text in texts {
                compared(pattern, text);
            }
        }
        for text in ["ab cd", "", " a"] {
            compared(r"\bc", text);
            compared(r"\b", text);
        }
    }

    #[test]
    fn patterns_with_backtracking_are_left_to_the_library() {
        for pattern in [
            r"(a)\1", "a(?=b)", "(?<!a)b", "(?>a+)b", "a++b", r"a\Kb", "(a",
        ] {
            assert!(Linear::new(pattern, 1 << 20).is_none(), "{pattern}");
        }
        let boundary = Linear::new(r"\bb", 1 << 20).unwrap();
        assert_eq!(boundary.is_match("é b").unwrap(), None);
        assert_eq!(boundary.find("é b", 0).unwrap(), Search::Undecided);
    }

    #[test]
    fn a_full_cache_is_cleared() {
        // Some 2^16 states, far more than the cache takes.
        let linear = Linear::new("[ab]*a[ab]{16}c", 1 << 20).unwrap();
        let mut seed = 1u32;
        let text: String = (0..200_000)
            .map(|_| {
                seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                if seed >> 31 == 0 { 'a' } else { 'b' }
            })
            .collect();
        assert_eq!(linear.is_match(&text).unwrap(), Some(false));
        assert!(linear.caches.borrow().0.clear_count() > 0);
    }

    #[test]
    fn a_search_observes_the_end_of_its_statement() {
        use porpoise_base::cancel::{Cancel, Reason};
        let linear = Linear::new("a*b", 1 << 20).unwrap();
        let cancel = Cancel::new();
        let _scope = interrupt::Scope::enter(&cancel);
        assert_eq!(linear.is_match("aaa").unwrap(), Some(false));
        cancel.cancel(Reason::Query);
        assert!(linear.is_match("aaa").is_err());
        assert!(linear.find("aaa", 0).is_err());
    }
}
