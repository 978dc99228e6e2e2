//! The path language: `$`, then legs.
//!
//! | leg | selects |
//! |---|---|
//! | `.name`, `."name"` | a member |
//! | `.*` | every member |
//! | `[n]`, `[last]`, `[last-n]` | an element; a value that is not an array counts as an array of itself |
//! | `[m to n]`, `[*]` | elements |
//! | `**` | the value and everything beneath it; never the last leg |
//!
//! Every value is selected once, in the order of the document.

use super::Json;
use porpoise_base::interrupt;
use std::collections::HashSet;

/// An index into an array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Index {
    number: usize,
    from_last: bool,
}

impl Index {
    /// The position in an array of `len` elements, which may be past its end; `None` if before its
    /// start.
    #[must_use]
    pub fn at(self, len: usize) -> Option<usize> {
        if self.from_last {
            len.checked_sub(self.number.checked_add(1)?)
        } else {
            Some(self.number)
        }
    }

    /// The position, if it does not depend on the array's length.
    pub(super) fn fixed_position(self) -> Option<usize> {
        (!self.from_last).then_some(self.number)
    }
}

/// One leg of a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// `.name`
    Member(String),
    /// `.*`
    AnyMember,
    /// `[n]`
    Element(Index),
    /// `[m to n]`
    Range(Index, Index),
    /// `[*]`
    AnyElement,
    /// `**`
    Descend,
}

/// A parsed path.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Path {
    /// Legs of the path after `$`.
    pub steps: Vec<Step>,
}

impl Path {
    /// Parses a path.
    ///
    /// # Errors
    /// Offset near the syntax error, as in error 3143.
    pub fn parse(text: &[u8]) -> Result<Path, usize> {
        let text = match std::str::from_utf8(text) {
            Ok(text) => text,
            Err(e) => return Err(e.valid_up_to()),
        };
        let mut p = PathParser { text, at: 0 };
        p.skip_space();
        if !p.eat('$') {
            // MySQL's position is after the character that should be the scope.
            return Err(text.len().min(p.at + 1));
        }
        let mut steps = Vec::new();
        loop {
            p.skip_space();
            if p.at >= text.len() {
                break;
            }
            steps.push(p.step()?);
        }
        match steps.last() {
            Some(Step::Descend) => Err(p.at),
            _ => Ok(Path { steps }),
        }
    }

    /// Whether it can select several values.
    #[must_use]
    pub fn is_multiple(&self) -> bool {
        let single = |s: &Step| matches!(s, Step::Member(_) | Step::Element(_));
        !self.steps.iter().all(single)
    }

    /// The values that it selects.
    #[must_use]
    pub fn select<'j>(&self, document: &'j Json) -> Vec<&'j Json> {
        let mut found = Vec::new();
        select(&self.steps, document, &mut found);
        found
    }

    /// The value that it selects. For paths that cannot select several ([`Path::is_multiple`]).
    #[must_use]
    pub fn select_single<'j>(&self, document: &'j Json) -> Option<&'j Json> {
        self.steps
            .iter()
            .try_fold(document, |value, step| match (step, value) {
                (Step::Member(name), Json::Object(members)) => members.get(name),
                (Step::Element(index), Json::Array(items)) => items.get(index.at(items.len())?),
                (Step::Element(index), other) if index.at(1) == Some(0) => Some(other),
                _ => None,
            })
    }

    /// Whether it selects anything.
    #[must_use]
    pub fn exists(&self, document: &Json) -> bool {
        !self.select(document).is_empty()
    }
}

/// Follows the legs of a path. After `**` a value can be reached twice; only the first occurrence
/// is kept, so that the work is bounded by the document's size.
fn select<'j>(steps: &[Step], document: &'j Json, found: &mut Vec<&'j Json>) {
    found.push(document);
    let repeats = steps.contains(&Step::Descend);
    for step in steps {
        let mut next: Vec<&Json> = Vec::with_capacity(found.len());
        for value in &*found {
            if interrupt::leaves() {
                return;
            }
            select_step(step, value, &mut next);
        }
        if repeats {
            let mut seen = HashSet::with_capacity(next.len());
            next.retain(|value| seen.insert(std::ptr::from_ref(*value)));
        }
        *found = next;
    }
}

fn select_step<'j>(step: &Step, value: &'j Json, next: &mut Vec<&'j Json>) {
    match (step, value) {
        (Step::Member(name), Json::Object(members)) => next.extend(members.get(name)),
        (Step::AnyMember, Json::Object(members)) => next.extend(members.iter().map(|(_, v)| v)),
        (Step::Element(index), Json::Array(items)) => {
            next.extend(index.at(items.len()).and_then(|at| items.get(at)));
        }
        (Step::Element(index), other) if index.at(1) == Some(0) => next.push(other),
        (Step::Range(from, to), Json::Array(items)) => {
            let from = from.at(items.len()).unwrap_or(0);
            if let Some(to) = to.at(items.len()) {
                let count = to.saturating_add(1).saturating_sub(from);
                next.extend(items.iter().skip(from).take(count));
            }
        }
        (Step::Range(from, to), other) if from.at(1).unwrap_or(0) == 0 && to.at(1).is_some() => {
            next.push(other);
        }
        (Step::AnyElement, Json::Array(items)) => next.extend(items),
        (Step::Descend, _) => descend(value, next),
        _ => {}
    }
}

fn descend<'j>(value: &'j Json, next: &mut Vec<&'j Json>) {
    if interrupt::leaves() {
        return;
    }
    next.push(value);
    match value {
        Json::Array(items) => items.iter().for_each(|v| descend(v, next)),
        Json::Object(members) => members.iter().for_each(|(_, v)| descend(v, next)),
        _ => {}
    }
}

/// Visits the strings of `document` with their paths, only those below `roots` if these are
/// given, until `visit` returns false.
pub fn each_string(
    document: &Json,
    roots: Option<&[&Json]>,
    visit: &mut dyn FnMut(&str, &str) -> bool,
) {
    let roots = roots.map(|r| r.iter().map(|j| std::ptr::from_ref(*j)).collect());
    strings(
        document,
        "$",
        roots.is_none(),
        &roots.unwrap_or_default(),
        visit,
    );
}

fn strings(
    value: &Json,
    path: &str,
    inside: bool,
    roots: &HashSet<*const Json>,
    visit: &mut dyn FnMut(&str, &str) -> bool,
) -> bool {
    if interrupt::leaves() {
        return false;
    }
    let inside = inside || roots.contains(&std::ptr::from_ref(value));
    match value {
        Json::String(text) if inside => visit(path, text),
        Json::Array(items) => items
            .iter()
            .enumerate()
            .all(|(i, item)| strings(item, &format!("{path}[{i}]"), inside, roots, visit)),
        Json::Object(members) => members.iter().all(|(key, item)| {
            strings(item, &format!("{path}.{}", leg(key)), inside, roots, visit)
        }),
        _ => true,
    }
}

/// Formats a member's name as a path leg.
fn leg(key: &str) -> String {
    let mut characters = key.chars();
    let plain = characters.next().is_some_and(starts_name) && characters.all(continues_name);
    if plain {
        return key.to_owned();
    }
    let mut quoted = Vec::new();
    super::quote(key, &mut quoted);
    String::from_utf8_lossy(&quoted).into_owned()
}

fn starts_name(c: char) -> bool {
    c.is_alphabetic() || c == '_' || c == '$'
}

fn continues_name(c: char) -> bool {
    starts_name(c) || c.is_numeric() || matches!(c, '\u{200c}' | '\u{200d}')
}

struct PathParser<'t> {
    text: &'t str,
    at: usize,
}

impl PathParser<'_> {
    fn rest(&self) -> &str {
        self.text.get(self.at..).unwrap_or_default()
    }

    fn skip_space(&mut self) {
        let rest = self.rest();
        self.at += rest.len() - rest.trim_start_matches([' ', '\t', '\n', '\r']).len();
    }

    fn eat(&mut self, c: char) -> bool {
        let found = self.rest().starts_with(c);
        if found {
            self.at += c.len_utf8();
        }
        found
    }

    fn eat_word(&mut self, word: &str) -> bool {
        let found = self.rest().starts_with(word);
        if found {
            self.at += word.len();
        }
        found
    }

    fn step(&mut self) -> Result<Step, usize> {
        if self.eat('.') {
            self.skip_space();
            return if self.eat('*') {
                Ok(Step::AnyMember)
            } else {
                self.name().map(Step::Member)
            };
        }
        if self.eat('[') {
            let step = self.array_step()?;
            self.skip_space();
            return if self.eat(']') {
                Ok(step)
            } else {
                Err(self.at)
            };
        }
        if self.eat_word("**") && !self.rest().starts_with('*') {
            Ok(Step::Descend)
        } else {
            Err(self.at)
        }
    }

    fn name(&mut self) -> Result<String, usize> {
        if self.rest().starts_with('"') {
            let bytes = self.rest().as_bytes();
            let mut escaped = false;
            let end = bytes.iter().skip(1).position(|b| {
                let end = *b == b'"' && !escaped;
                escaped = *b == b'\\' && !escaped;
                end
            });
            let length = end.ok_or(self.text.len())? + 2;
            let quoted = bytes.get(..length).unwrap_or_default();
            let Ok(Json::String(name)) = super::parse(quoted) else {
                return Err(self.at);
            };
            self.at += length;
            return Ok(name);
        }
        let rest = self.rest();
        let length = rest.find(|c| !continues_name(c)).unwrap_or(rest.len());
        let name = rest.get(..length).unwrap_or_default().to_owned();
        if !name.starts_with(starts_name) {
            return Err(self.at);
        }
        self.at += length;
        Ok(name)
    }

    fn array_step(&mut self) -> Result<Step, usize> {
        self.skip_space();
        if self.eat('*') {
            return Ok(Step::AnyElement);
        }
        let from = self.index()?;
        let before = self.at;
        self.skip_space();
        if self.at == before || !self.eat_word("to") {
            return Ok(Step::Element(from));
        }
        if !self.rest().starts_with([' ', '\t', '\n', '\r']) {
            return Err(self.at);
        }
        let to = self.index()?;
        let backwards = from.from_last == to.from_last
            && if from.from_last {
                from.number < to.number
            } else {
                from.number > to.number
            };
        if backwards {
            Err(self.at)
        } else {
            Ok(Step::Range(from, to))
        }
    }

    fn index(&mut self) -> Result<Index, usize> {
        self.skip_space();
        let from_last = self.eat_word("last");
        if from_last {
            let before = self.at;
            self.skip_space();
            if !self.eat('-') {
                self.at = before;
                let number = 0;
                return Ok(Index { number, from_last });
            }
            self.skip_space();
        }
        let rest = self.rest();
        let digits = rest.find(|c: char| !c.is_ascii_digit());
        let digits = rest.get(..digits.unwrap_or(rest.len())).unwrap_or_default();
        // MySQL's array indexes have 32 bits.
        let number: u32 = digits.parse().map_err(|_| self.at)?;
        self.at += digits.len();
        let number = number as usize;
        Ok(Index { number, from_last })
    }
}

#[cfg(test)]
mod tests {
    use super::super::parse;
    use super::*;

    fn found(document: &str, path: &str) -> String {
        let document = parse(document.as_bytes()).unwrap();
        let path = Path::parse(path.as_bytes()).unwrap();
        let values = path.select(&document);
        if !path.is_multiple() {
            assert_eq!(path.select_single(&document), values.first().copied());
        }
        let values = values.into_iter();
        let texts = values.map(|v| String::from_utf8(v.to_text()).unwrap());
        texts.collect::<Vec<_>>().join(";")
    }

    #[test]
    fn path_legs_select_values() {
        let doc = r#"{"a": [10, [20, 30], {"b c": 1}], "x": {"a": 5}}"#;
        let cases = [
            ("$.a[0]", "10"),
            ("$.a[1][last]", "30"),
            ("$.a[last-1]", "[20, 30]"),
            ("$.a[0 to 1]", "10;[20, 30]"),
            ("$.a[last-1 to last]", "[20, 30];{\"b c\": 1}"),
            ("$ . a [ 2 ] . \"b c\"", "1"),
            ("$**.a", "[10, [20, 30], {\"b c\": 1}];5"),
            ("$.x.*", "5"),
            ("$.x[0][0].a", "5"),
            ("$.x.a[last]", "5"),
            ("$.x.a[1]", ""),
            ("$.nothing", ""),
        ];
        for (path, expected) in cases {
            assert_eq!(found(doc, path), expected, "{path}");
        }
    }

    #[test]
    fn wrong_paths_name_a_position() {
        for (path, at) in [
            ("", 0),
            ("a", 1),
            (" .a", 2),
            ("$a", 1),
            ("$.foo[bar]", 6),
            ("$.", 2),
            ("$[", 2),
            ("$**", 3),
            ("$[2 to 1]", 8),
        ] {
            assert_eq!(Path::parse(path.as_bytes()), Err(at), "{path}");
        }
    }

    #[test]
    fn repeated_ellipses_take_bounded_time() {
        let doc = format!("{}{}", "[".repeat(90), "]".repeat(90));
        assert_eq!(found(&doc, "$**[7]"), "");
        assert_eq!(found(&doc, &format!("$.a{}[7]", "**[0]".repeat(60))), "");
        assert_eq!(found(&doc, &format!("${}.a", "**[0]".repeat(60))), "");
    }
}
