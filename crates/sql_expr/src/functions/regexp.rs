//! Regular expressions (manual, "Regular Expressions").
//!
//! Patterns are executed by the fancy-regex crate: by a finite automaton (linear time) if the
//! pattern has neither look-around nor back-references, else by backtracking with a step limit.
//! Each thread caches a few compiled patterns, because most statements use one.
//!
//! A search of the crate is a single call, which cannot be interrupted. So the cost of each call is
//! limited:
//!
//! | pattern | text | search |
//! |---|---|---|
//! | linear | bytes times states of the automaton up to [`COST_PER_CALL`] | the crate's |
//! | linear | longer | [`Linear`], which has checkpoints |
//! | linear, not decided there (`\b` beside non-ASCII), or groups of a match | up to [`COST_LIMIT`] | the crate's; beyond, error 3699 |
//! | backtracking | up to [`FULL_STEPS_BYTES`] bytes | the crate's, [`STEPS`] |
//! | backtracking | longer | fewer steps, as each may read the whole text; when they do not suffice, each start by itself, with a checkpoint between |
//!
//! Differences from ICU: `\R`, `\X` and possessive sets are not supported.

use super::json::truth;
use super::linear::{Linear, Search};
use super::regexp_pattern;
use super::{Call, Function, Nullable, bigint, like_first};
use crate::error::{Result, SqlError};
use crate::expr::convert;
use fancy_regex::{Captures, Regex, RegexBuilder, RegexInput};
use porpoise_base::interrupt;
use porpoise_types::{Charset, Collation, ColumnType, ValueRef};
use std::borrow::Cow;
use std::cell::{OnceCell, RefCell};
use std::rc::Rc;

/// Maximum number of steps of a backtracking match.
const STEPS: usize = 1_000_000;
/// Minimum step limit, however long the text is.
const MIN_STEPS: usize = 1_000;
/// Limit for steps times bytes of text of one backtracking search.
const STEP_BYTES: usize = 1_000_000_000;
/// Texts up to this many bytes are searched with the full step limit.
const FULL_STEPS_BYTES: usize = STEP_BYTES / STEPS;
/// Limit for states times bytes of one call: milliseconds at worst, usually far less.
const COST_PER_CALL: usize = 2_000_000;
/// Limit for states times bytes of searches that cannot be interrupted: about 100 ms at worst.
const COST_LIMIT: usize = 50_000_000;
/// Maximum size of a compiled pattern in bytes.
const COMPILED: usize = 4 << 20;
/// Number of compiled patterns in a thread's cache.
const CACHE_SIZE: usize = 16;

type PatternCache = Vec<(String, Flags, Rc<Pattern>)>;

thread_local! {
    static COMPILED_PATTERNS: RefCell<PatternCache> = const { RefCell::new(Vec::new()) };
}

/// Flags of a match type argument.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
struct Flags {
    insensitive: bool,
    multi_line: bool,
    dot_all: bool,
}

fn error(code: u16, text: &str) -> SqlError {
    SqlError::new(code, "HY000", text)
}

/// MySQL's error for an invalid pattern.
fn syntax_error(pattern: &str, e: &fancy_regex::Error) -> SqlError {
    let reason = e.to_string().to_lowercase();
    let says = |words: &[&str]| words.iter().any(|w| reason.contains(w));
    if says(&["size limit", "too big", "exceeds"]) {
        return error(
            3700,
            "The regular expression pattern exceeds limits on size or complexity.",
        );
    }
    if says(&["class"]) && pattern.contains('[') && !says(&["range"]) {
        return error(
            3696,
            "The regular expression contains an unclosed bracket expression.",
        );
    }
    if says(&["class range", "invalid range"]) {
        return error(
            3697,
            "The regular expression contains an [x-y] character range where x comes after y.",
        );
    }
    if says(&[
        "parenthes",
        "unclosed group",
        "unopened group",
        "closing paren",
    ]) {
        return error(3691, "Mismatched parenthesis in regular expression.");
    }
    if says(&["repetition", "repeat", "counted"]) && pattern.contains('{') {
        return error(3692, "Incorrect description of a {min,max} interval.");
    }
    if says(&["backref", "back-ref", "back reference", "group reference"]) {
        return error(3694, "Invalid back-reference in regular expression.");
    }
    if says(&["escape"]) {
        return error(3689, "Unrecognized escape sequence in regular expression.");
    }
    error(
        3688,
        "Syntax error in regular expression on line 1, character 1.",
    )
}

fn timeout() -> SqlError {
    error(3699, "Timeout exceeded in regular expression match.")
}

fn runtime_error(_: fancy_regex::Error) -> SqlError {
    timeout()
}

/// A compiled pattern.
struct Pattern {
    /// The pattern with its flags in front.
    source: String,
    regex: Regex,
    linear: OnceCell<Option<Linear>>,
    /// Variants with lower step limits, for long texts.
    bounded: RefCell<Vec<(usize, Rc<Regex>)>>,
}

impl Pattern {
    fn new(pattern: &str, flags: Flags) -> Result<Pattern> {
        let mut source = String::new();
        for (set, flag) in [
            (flags.insensitive, "(?i)"),
            (flags.multi_line, "(?m)"),
            (flags.dot_all, "(?s)"),
        ] {
            if set {
                source.push_str(flag);
            }
        }
        source.push_str(&regexp_pattern::translated(pattern)?);
        let regex = builder(&source).build();
        Ok(Pattern {
            regex: regex.map_err(|e| syntax_error(pattern, &e))?,
            source,
            linear: OnceCell::new(),
            bounded: RefCell::default(),
        })
    }

    /// The automaton, if the pattern is linear.
    fn linear(&self) -> Option<&Linear> {
        let linear = || Linear::new(&self.source, COMPILED);
        self.linear.get_or_init(linear).as_ref()
    }

    /// Whether a search of this many bytes may be left to the library and, if not, the automaton to
    /// use instead; without one the search backtracks.
    fn is_cheap(&self, bytes: usize) -> (bool, Option<&Linear>) {
        if bytes <= FULL_STEPS_BYTES {
            return (true, None);
        }
        let linear = self.linear();
        let cost = linear.map(|linear| linear.states().saturating_mul(bytes));
        (cost.is_some_and(|cost| cost <= COST_PER_CALL), linear)
    }

    fn is_match(&self, text: &str) -> Result<bool> {
        let found = match self.is_cheap(text.len()) {
            (true, _) => return self.regex.is_match(text).map_err(runtime_error),
            (false, Some(linear)) => linear.is_match(text)?,
            (false, None) => return Ok(self.backtrack(text, 0)?.is_some()),
        };
        match found {
            Some(found) => Ok(found),
            None => {
                self.check_cost(text.len())?;
                self.regex.is_match(text).map_err(runtime_error)
            }
        }
    }

    /// Byte range of the first match from byte `at` on.
    fn find(&self, text: &str, at: usize) -> Result<Option<(usize, usize)>> {
        let bytes = text.len().saturating_sub(at);
        match self.is_cheap(bytes) {
            (true, _) => self.find_at_once(text, at),
            (false, None) => self.backtrack(text, at),
            (false, Some(linear)) => match linear.find(text, at)? {
                Search::Found(start, end) => Ok(Some((start, end))),
                Search::None => Ok(None),
                Search::Undecided => {
                    self.check_cost(bytes)?;
                    self.find_at_once(text, at)
                }
            },
        }
    }

    fn find_at_once(&self, text: &str, at: usize) -> Result<Option<(usize, usize)>> {
        let found = self.regex.find_from_pos(text, at).map_err(runtime_error)?;
        Ok(found.map(|found| (found.start(), found.end())))
    }

    /// Groups of the first match from byte `at` on.
    fn captures<'t>(&self, text: &'t str, at: usize) -> Result<Option<Captures<'t, str>>> {
        let bytes = text.len().saturating_sub(at);
        let (cheap, linear) = self.is_cheap(bytes);
        if cheap {
            return self
                .regex
                .captures_from_pos(text, at)
                .map_err(runtime_error);
        }
        let Some((start, end)) = self.find(text, at)? else {
            return Ok(None);
        };
        let input = RegexInput::new(text).from_pos(start).anchored(true);
        let found = match linear {
            Some(_) => {
                self.check_cost(end - start)?;
                self.regex.captures_input(input.range(start..end))
            }
            None => self.bounded(bytes)?.captures_input(input),
        };
        found.map_err(runtime_error)
    }

    /// Rejects a search that cannot be interrupted and may take long.
    fn check_cost(&self, bytes: usize) -> Result<()> {
        let states = self.linear().map_or(1, Linear::states);
        if states.saturating_mul(bytes) <= COST_LIMIT {
            Ok(())
        } else {
            Err(timeout())
        }
    }

    /// The pattern with the step limit for a text of this many bytes.
    fn bounded(&self, bytes: usize) -> Result<Rc<Regex>> {
        let steps = (STEP_BYTES / bytes.max(1)).clamp(MIN_STEPS, STEPS);
        // Rounded to a power of two, so that there are few variants.
        let steps = 1 << steps.ilog2();
        let mut bounded = self.bounded.borrow_mut();
        if let Some((_, regex)) = bounded.iter().find(|(s, _)| *s == steps) {
            return Ok(regex.clone());
        }
        let regex = builder(&self.source).backtrack_limit(steps).build();
        let regex = Rc::new(regex.map_err(|e| syntax_error(&self.source, &e))?);
        bounded.push((steps, regex.clone()));
        Ok(regex)
    }

    /// Backtracking search in a long text: a single search if few steps suffice, else one for each
    /// start position.
    fn backtrack(&self, text: &str, at: usize) -> Result<Option<(usize, usize)>> {
        let regex = self.bounded(text.len().saturating_sub(at))?;
        match regex.find_from_pos(text, at) {
            Ok(found) => return Ok(found.map(|found| (found.start(), found.end()))),
            // `\G` depends on the start of the search, so positions cannot be tried one by one.
            Err(error) if self.source.contains("\\G") => return Err(runtime_error(error)),
            Err(_) => {}
        }
        for start in (at..=text.len()).filter(|start| text.is_char_boundary(*start)) {
            interrupt::check()?;
            let input = RegexInput::new(text).from_pos(start).anchored(true);
            if let Some(found) = regex.find_input(input).map_err(runtime_error)? {
                return Ok(Some((found.start(), found.end())));
            }
        }
        Ok(None)
    }
}

fn builder(source: &str) -> RegexBuilder {
    let mut builder = RegexBuilder::new(source);
    builder
        .backtrack_limit(STEPS)
        .delegate_size_limit(COMPILED)
        .delegate_dfa_size_limit(COMPILED);
    builder
}

/// Whether a pattern without flags is found in a text; `None` if it is not a regular expression.
pub(super) fn matches_pattern(pattern: &str, text: &str) -> Result<Option<bool>> {
    if pattern.is_empty() {
        return Ok(Some(true));
    }
    match compiled(pattern, Flags::default()) {
        Ok(regex) => regex.is_match(text).map(Some),
        Err(_) => Ok(None),
    }
}

/// Returns the compiled pattern, from the cache if possible.
fn compiled(pattern: &str, flags: Flags) -> Result<Rc<Pattern>> {
    if pattern.is_empty() {
        return Err(error(3685, "Illegal argument to a regular expression."));
    }
    let kept = COMPILED_PATTERNS.with_borrow(|kept| {
        let found = kept.iter().find(|(p, f, _)| *f == flags && p == pattern);
        found.map(|(.., regex)| regex.clone())
    });
    if let Some(regex) = kept {
        return Ok(regex);
    }
    let regex = Rc::new(Pattern::new(pattern, flags)?);
    COMPILED_PATTERNS.with_borrow_mut(|kept| {
        if kept.len() >= CACHE_SIZE {
            kept.remove(0);
        }
        kept.push((pattern.to_owned(), flags, regex.clone()));
    });
    Ok(regex)
}

fn argument<'a>(c: &Call<'_, 'a>, at: usize) -> Result<Option<Cow<'a, str>>> {
    let Some(text) = c.text(at)? else {
        return Ok(None);
    };
    let recode = |ty: &ColumnType| convert::recode(text, ty, Charset::Utf8mb4);
    let text = c
        .args
        .get(at)
        .map_or(Cow::Borrowed(text), |e| recode(&e.ty));
    Ok(Some(match text {
        Cow::Borrowed(text) => String::from_utf8_lossy(text),
        Cow::Owned(text) => Cow::Owned(String::from_utf8_lossy(&text).into_owned()),
    }))
}

/// Text and pattern of a call whose match type is argument `types`; `None` if one is NULL.
fn subject<'a>(c: &Call<'_, 'a>, types: usize) -> Result<Option<(Cow<'a, str>, Rc<Pattern>)>> {
    let (Some(text), Some(pattern)) = (argument(c, 0)?, argument(c, 1)?) else {
        return Ok(None);
    };
    let collation = super::common_collation(c.args.get(..2).unwrap_or(&[]), Collation::BINARY);
    let mut flags = Flags {
        insensitive: collation != Collation::BINARY && collation.is_ci(),
        multi_line: false,
        dot_all: false,
    };
    if c.len() > types {
        let Some(letters) = c.text(types)? else {
            return Ok(None);
        };
        for letter in letters {
            match letter {
                b'c' => flags.insensitive = false,
                b'i' => flags.insensitive = true,
                b'm' => flags.multi_line = true,
                b'n' => flags.dot_all = true,
                b'u' => {}
                _ => return Err(SqlError::wrong_arguments("regexp_like")),
            }
        }
    }
    Ok(Some((text, compiled(&pattern, flags)?)))
}

fn like<'a>(c: &Call<'_, 'a>) -> Result<ValueRef<'a>> {
    let Some((text, regex)) = subject(c, 2)? else {
        return Ok(ValueRef::Null);
    };
    let found = regex.is_match(&text)?;
    Ok(ValueRef::Int(i64::from(found)))
}

/// Converts the start position, which counts characters from 1, to a byte offset.
fn start(text: &str, position: i64) -> Result<usize> {
    let out = || error(3686, "Index out of bounds in regular expression search.");
    let skip = position
        .checked_sub(1)
        .and_then(|skip| usize::try_from(skip).ok());
    let skip = skip.ok_or_else(out)?;
    let mut offsets = text.char_indices().map(|(at, _)| at);
    match offsets.nth(skip) {
        Some(at) => Ok(at),
        None if text.chars().count() == skip => Ok(text.len()),
        None => Err(out()),
    }
}

/// An optional integer argument; `None` if it is NULL.
fn number(c: &Call<'_, '_>, at: usize, default: i64) -> Result<Option<i64>> {
    if c.len() > at {
        c.int(at)
    } else {
        Ok(Some(default))
    }
}

/// Byte range of the wanted occurrence; after an empty match the search advances by one character.
fn occurrence(
    text: &str,
    regex: &Pattern,
    from: usize,
    wanted: i64,
) -> Result<Option<(usize, usize)>> {
    let mut at = from;
    for n in 1.. {
        interrupt::check()?;
        if at > text.len() {
            break;
        }
        let Some((start, end)) = regex.find(text, at)? else {
            break;
        };
        if n >= wanted {
            return Ok(Some((start, end)));
        }
        at = next_start(text, start, end);
    }
    Ok(None)
}

fn next_start(text: &str, start: usize, end: usize) -> usize {
    if end > start {
        return end;
    }
    let one = text.get(end..).and_then(|rest| rest.chars().next());
    end + one.map_or(1, char::len_utf8)
}

fn instr<'a>(c: &Call<'_, 'a>) -> Result<ValueRef<'a>> {
    let (Some(position), Some(wanted), Some(after)) =
        (number(c, 2, 1)?, number(c, 3, 1)?, number(c, 4, 0)?)
    else {
        return Ok(ValueRef::Null);
    };
    let Some((text, regex)) = subject(c, 5)? else {
        return Ok(ValueRef::Null);
    };
    if !(0..=1).contains(&after) {
        return Err(SqlError::wrong_arguments(
            "regexp_instr: return_option must be 1 or 0.",
        ));
    }
    let found = occurrence(&text, &regex, start(&text, position)?, wanted)?;
    let byte = found.map(|(from, to)| if after == 1 { to } else { from });
    let before = byte.and_then(|at| text.get(..at));
    let number = before.map_or(0, |text| text.chars().count() + 1);
    Ok(ValueRef::Int(number as i64))
}

fn substr<'a>(c: &Call<'_, 'a>) -> Result<ValueRef<'a>> {
    let (Some(position), Some(wanted)) = (number(c, 2, 1)?, number(c, 3, 1)?) else {
        return Ok(ValueRef::Null);
    };
    let Some((text, regex)) = subject(c, 4)? else {
        return Ok(ValueRef::Null);
    };
    let found = occurrence(&text, &regex, start(&text, position)?, wanted)?;
    let part = found.and_then(|(from, to)| text.get(from..to));
    Ok(part.map_or(ValueRef::Null, |part| text_result(c, part)))
}

/// Returns text in the character set of the result.
fn text_result<'a>(c: &Call<'_, 'a>, text: &str) -> ValueRef<'a> {
    let charset = c.ty.collation.charset();
    match charset {
        Charset::Utf8mb4 | Charset::Binary => c.keep(text.as_bytes()),
        _ => c.keep(&Charset::Utf8mb4.convert(charset, text.as_bytes()).0),
    }
}

/// Expands a replacement: `$1` to `$99` are groups, and a backslash escapes the next character.
/// `groups` is given if the replacement contains a `$`.
fn expand(
    replacement: &str,
    groups: Option<&Captures<'_, str>>,
    limit: usize,
    out: &mut String,
) -> Result<()> {
    let mut rest = replacement.chars().peekable();
    let count = groups.map_or(0, Captures::len);
    while let Some(c) = rest.next() {
        if out.len() > limit {
            return Err(too_long());
        }
        match c {
            '\\' => out.extend(rest.next()),
            '$' => {
                let mut number: Option<usize> = None;
                while let Some(digit) = rest.peek().and_then(|c| c.to_digit(10)) {
                    let next = number.unwrap_or(0) * 10 + digit as usize;
                    if number.is_some() && next >= count {
                        break;
                    }
                    number = Some(next);
                    rest.next();
                }
                let out_of_bounds =
                    || error(3686, "Index out of bounds in regular expression search.");
                let number =
                    number.ok_or_else(|| error(3887, "A capture group has an invalid name."))?;
                if number >= count {
                    return Err(out_of_bounds());
                }
                // A group may be megabytes long.
                interrupt::check()?;
                let group = groups.and_then(|groups| groups.get(number));
                out.push_str(group.map_or("", |m| m.as_str()));
            }
            other => out.push(other),
        }
    }
    Ok(())
}

fn too_long() -> SqlError {
    error(3684, "The result string is larger than the result buffer.")
}

fn replace<'a>(c: &Call<'_, 'a>) -> Result<ValueRef<'a>> {
    let (Some(position), Some(wanted)) = (number(c, 3, 1)?, number(c, 4, 0)?) else {
        return Ok(ValueRef::Null);
    };
    let Some(replacement) = argument(c, 2)? else {
        return Ok(ValueRef::Null);
    };
    let Some((text, regex)) = subject(c, 5)? else {
        return Ok(ValueRef::Null);
    };
    let mut at = start(&text, position)?;
    let mut out = String::with_capacity(text.len());
    let mut copied = 0;
    let mut n = 0;
    let limit = usize::try_from(c.cx.env.max_allowed_packet).unwrap_or(usize::MAX);
    // Groups are more expensive to find than the match alone.
    let grouped = replacement.contains('$');
    while at <= text.len() {
        interrupt::check()?;
        let (groups, start, end) = if grouped {
            let groups = regex.captures(&text, at)?;
            let Some(whole) = groups.as_ref().and_then(|groups| groups.get(0)) else {
                break;
            };
            (groups, whole.start(), whole.end())
        } else {
            let Some((start, end)) = regex.find(&text, at)? else {
                break;
            };
            (None, start, end)
        };
        at = next_start(&text, start, end);
        n += 1;
        if wanted > 0 && n < wanted {
            continue;
        }
        out.push_str(text.get(copied..start).unwrap_or_default());
        expand(&replacement, groups.as_ref(), limit, &mut out)?;
        copied = end;
        if out.len() > limit {
            return Err(too_long());
        }
        if wanted > 0 {
            break;
        }
    }
    out.push_str(text.get(copied..).unwrap_or_default());
    Ok(text_result(c, &out))
}

fn long_like_first(args: &[crate::expr::Expr], collation: Collation) -> ColumnType {
    let own = super::common_collation(args.get(..1).unwrap_or(&[]), collation);
    ColumnType::text(porpoise_types::Kind::LongText, own)
}

/// The registry entries.
pub const FUNCTIONS: &[Function] = &[
    Function {
        name: "REGEXP_LIKE",
        args: (2, 3),
        constant: true,
        nullable: Nullable::IfArgument,
        ty: truth,
        run: like,
        doc: "Whether a pattern matches somewhere in a text.",
        example: ("REGEXP_LIKE('Michael!', '^m.*[a-z]!$')", "1"),
    },
    Function {
        name: "REGEXP_INSTR",
        args: (2, 6),
        constant: true,
        nullable: Nullable::IfArgument,
        ty: bigint,
        run: instr,
        doc: "The position of a match, counted in characters; 0 when there is none.",
        example: ("REGEXP_INSTR('aa aaa aaaa', 'a{2}', 2)", "4"),
    },
    Function {
        name: "REGEXP_SUBSTR",
        args: (2, 5),
        constant: true,
        nullable: Nullable::Always,
        ty: like_first,
        run: substr,
        doc: "The text that matches.",
        example: ("REGEXP_SUBSTR('abc def ghi', '[a-z]+', 1, 3)", "ghi"),
    },
    Function {
        name: "REGEXP_REPLACE",
        args: (3, 6),
        constant: true,
        nullable: Nullable::IfArgument,
        ty: long_like_first,
        run: replace,
        doc: "The text with its matches replaced; `$1` stands for a group.",
        example: (
            "REGEXP_REPLACE('abc def', '([a-c]+) (d)', '$2-$1')",
            "d-abcef",
        ),
    },
];
