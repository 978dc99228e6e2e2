//! Windows without another server: a window function's result is that of a subquery over the rows of
//! its frame.
//!
//! The rows of a table are numbered within the partitions in the order of the window. The frame is then
//! a condition on numbers (ROWS) or on values of the sort key (RANGE), so that the reference uses no
//! window operator:
//!
//! ```text
//!  SUM(v) OVER (PARTITION BY p ORDER BY k, id ROWS BETWEEN 2 PRECEDING AND CURRENT ROW)
//!  (SELECT SUM(y.v) FROM n y WHERE y.p <=> x.p AND y.n >= x.n - 2 AND y.n <= x.n)
//! ```
//!
//! Each query also runs as a derived table, whose rows are aggregated as they are computed.

use super::oracles::rows_here;
use super::{Gen, fail_if_any, report, seeds};
use crate::both::{here, session};
use porpoise_sql::session::SqlSession;

/// An end of a frame.
#[derive(Clone, Copy)]
enum Bound {
    Unbounded,
    Current,
    Preceding(u8),
    Following(u8),
}

impl Bound {
    fn text(self, is_start: bool) -> String {
        match self {
            Bound::Unbounded if is_start => "UNBOUNDED PRECEDING".to_owned(),
            Bound::Unbounded => "UNBOUNDED FOLLOWING".to_owned(),
            Bound::Current => "CURRENT ROW".to_owned(),
            Bound::Preceding(n) => format!("{n} PRECEDING"),
            Bound::Following(n) => format!("{n} FOLLOWING"),
        }
    }

    /// A number by which the start of a frame may not exceed the end; none for UNBOUNDED.
    fn kind(self) -> Option<i32> {
        match self {
            Bound::Unbounded => None,
            Bound::Preceding(_) => Some(-1),
            Bound::Current => Some(0),
            Bound::Following(_) => Some(1),
        }
    }

    /// The distance forward, if it has one.
    fn distance(self) -> Option<i32> {
        match self {
            Bound::Unbounded => None,
            Bound::Current => Some(0),
            Bound::Preceding(n) => Some(-i32::from(n)),
            Bound::Following(n) => Some(i32::from(n)),
        }
    }
}

/// A window over `w`, and the condition by which a row `y` is in the frame of `x`.
struct Window {
    /// Column of PARTITION BY, if there is one.
    partition: Option<&'static str>,
    key: &'static str,
    is_descending: bool,
    is_range: bool,
    start: Bound,
    end: Bound,
}

impl Window {
    fn of(random: &mut Gen) -> Window {
        let bound = |random: &mut Gen| {
            let n = *random.pick(&[0, 1, 1, 2, 3, 7, 40]);
            *random.pick(&[
                Bound::Unbounded,
                Bound::Current,
                Bound::Preceding(n),
                Bound::Preceding(n),
                Bound::Following(n),
            ])
        };
        let (mut start, mut end) = (bound(random), bound(random));
        // BETWEEN CURRENT ROW AND 1 PRECEDING is an error.
        if start.kind().unwrap_or(-2) > end.kind().unwrap_or(2) {
            std::mem::swap(&mut start, &mut end);
        }
        Window {
            partition: *random.pick(&[Some("p"), Some("s"), None]),
            key: random.pick::<&str>(&["k", "d"]),
            is_descending: random.rng.bool(),
            is_range: random.rng.bool(),
            start,
            end,
        }
    }

    /// The sort keys; RANGE has one.
    fn order(&self) -> String {
        let direction = if self.is_descending { " DESC" } else { "" };
        let last = if self.is_range { "" } else { ", id" };
        format!("{}{direction}{last}", self.key)
    }

    fn text(&self) -> String {
        let order = self.order();
        let partition = self
            .partition
            .map_or(String::new(), |column| format!("PARTITION BY {column} "));
        let kind = if self.is_range { "RANGE" } else { "ROWS" };
        let (start, end) = (self.start.text(true), self.end.text(false));
        format!("({partition}ORDER BY {order} {kind} BETWEEN {start} AND {end})")
    }

    /// Conditions of ROWS and RANGE, in the partition.
    fn is_in_frame(&self) -> String {
        let same = self
            .partition
            .map_or("TRUE".to_owned(), |p| format!("y.{p} <=> x.{p}"));
        let bounds = [(self.start, ">="), (self.end, "<=")];
        let bounds = bounds.map(|(bound, op)| match bound.distance() {
            None => "TRUE".to_owned(),
            Some(distance) if !self.is_range => format!("y.n {op} x.n + {distance}"),
            Some(distance) => self.range_bound(op, distance),
        });
        format!("{same} AND {} AND {}", bounds[0], bounds[1])
    }

    /// The condition of a bound of RANGE. NULL is below all values; the frame of a NULL that has a
    /// distance is its peers.
    fn range_bound(&self, op: &str, distance: i32) -> String {
        let key = self.key;
        let (op, distance) = match (self.is_descending, op) {
            (false, op) => (op, distance),
            (true, ">=") => ("<=", -distance),
            (true, _) => (">=", -distance),
        };
        let null = match op {
            "<=" => format!("OR y.{key} IS NULL"),
            _ => String::new(),
        };
        let of_null = match op {
            "<=" => format!("y.{key} IS NULL"),
            _ => "TRUE".to_owned(),
        };
        format!(
            "IF(x.{key} IS NULL, {of_null}, (y.{key} {op} x.{key} + {distance} {null}) IS TRUE)"
        )
    }

    /// A call over the window, and its reference.
    fn call(&self, random: &mut Gen) -> (String, String) {
        let over = self.text();
        let frame = self.is_in_frame();
        let of = |what: &str, rest: &str| format!("(SELECT {what} FROM n y WHERE {frame} {rest})");
        let positional = if self.is_range { 0 } else { 4 };
        let value = *random.pick(&["v", "d", "s"]);
        match random.rng.u8(0..6 + positional) {
            0 => (format!("COUNT(*) OVER {over}"), of("COUNT(*)", "")),
            1 => (
                format!("COUNT({value}) OVER {over}"),
                of(&format!("COUNT(y.{value})"), ""),
            ),
            2..6 => {
                let function = *random.pick(&["SUM", "AVG", "MIN", "MAX", "BIT_XOR", "BIT_OR"]);
                let value = match function {
                    "SUM" | "AVG" => *random.pick(&["v", "d"]),
                    "MIN" | "MAX" => value,
                    _ => "u",
                };
                (
                    format!("{function}({value}) OVER {over}"),
                    of(&format!("{function}(y.{value})"), ""),
                )
            }
            6 => (
                format!("FIRST_VALUE({value}) OVER {over}"),
                of(&format!("y.{value}"), "ORDER BY y.n LIMIT 1"),
            ),
            7 => (
                format!("LAST_VALUE({value}) OVER {over}"),
                of(&format!("y.{value}"), "ORDER BY y.n DESC LIMIT 1"),
            ),
            8 => (
                format!("NTH_VALUE({value}, 3) OVER {over}"),
                of(&format!("y.{value}"), "ORDER BY y.n LIMIT 2, 1"),
            ),
            _ => {
                let back = random.rng.u8(0..4);
                let whole = Window {
                    start: Bound::Preceding(back),
                    end: Bound::Preceding(back),
                    ..*self
                };
                let frame = whole.is_in_frame();
                (
                    format!("LAG({value}, {back}) OVER {over}"),
                    format!("(SELECT y.{value} FROM n y WHERE {frame})"),
                )
            }
        }
    }
}

/// Creates `w`, with few values in most columns.
fn fill(random: &mut Gen) -> Vec<String> {
    let mut rows = Vec::new();
    let count = *random.pick(&[0, 1, 5, 20, 60, 60]);
    for id in 0..count {
        let p = random.rng.u8(0..4);
        let k = random.rng.u8(0..20);
        let d = random.rng.u16(0..2000);
        let v = i32::from(random.rng.u16(..)) - 30_000;
        let null = |random: &mut Gen, value: String| {
            if random.one_in(6) {
                "NULL".to_owned()
            } else {
                value
            }
        };
        let letter = *random.pick(&["a", "B", "ä"]);
        let values = [
            id.to_string(),
            null(random, p.to_string()),
            null(random, k.to_string()),
            null(random, format!("{}.{:02}", d / 100, d % 100)),
            null(random, v.to_string()),
            random.rng.u8(..).to_string(),
            null(random, format!("'{letter}{}'", v % 3)),
        ];
        rows.push(format!("({})", values.join(", ")));
    }
    let mut made = vec![
        "CREATE TABLE w (id INT PRIMARY KEY, p INT, k INT, d DECIMAL(8,2), v INT, u INT UNSIGNED, \
         s VARCHAR(10) COLLATE utf8mb4_bin)"
            .to_owned(),
    ];
    if !rows.is_empty() {
        made.push(format!("INSERT INTO w VALUES {}", rows.join(", ")));
    }
    made
}

/// Creates `n`: the rows of `w`, numbered by counting the rows before them.
fn number(window: &Window) -> [String; 2] {
    let key = window.key;
    let same = window
        .partition
        .map_or("TRUE".to_owned(), |p| format!("b.{p} <=> a.{p}"));
    let (less, null_is_less) = if window.is_descending {
        (">", format!("b.{key} IS NOT NULL AND a.{key} IS NULL"))
    } else {
        ("<", format!("b.{key} IS NULL AND a.{key} IS NOT NULL"))
    };
    let before = format!(
        "{same} AND (b.{key} {less} a.{key} OR ({null_is_less}) OR (b.{key} <=> a.{key} AND b.id < a.id))"
    );
    [
        "DROP TABLE IF EXISTS n".to_owned(),
        format!(
            "CREATE TABLE n AS SELECT a.*, (SELECT COUNT(*) FROM w b WHERE {before}) AS n FROM w a"
        ),
    ]
}

/// Compares windows with their references. Returns descriptions of the mismatches.
fn check_frames(seed: u64, queries: usize) -> Vec<String> {
    let mut random = Gen::new(seed);
    let mut made = fill(&mut random);
    let mut session: SqlSession = session();
    here(&mut session, "SET sql_mode = ''");
    for sql in &made {
        assert_eq!(here(&mut session, sql).0.error, None, "{sql}");
    }
    let mut wrong = Vec::new();
    for _ in 0..queries {
        let window = Window::of(&mut random);
        let numbered = number(&window);
        for sql in &numbered {
            assert_eq!(here(&mut session, sql).0.error, None, "{sql}");
        }
        let (mut calls, mut references) = (Vec::new(), Vec::new());
        for at in 0..random.rng.usize(1..4) {
            let (call, reference) = window.call(&mut random);
            calls.push(format!("{call} AS r{at}"));
            references.push(format!("{reference} AS r{at}"));
        }
        let windowed = format!("SELECT id, {} FROM w", calls.join(", "));
        let expected = format!("SELECT x.id, {} FROM n x", references.join(", "));
        let results: Vec<String> = (0..calls.len()).map(|at| format!("r{at}")).collect();
        let hash = |query: &str| {
            let row = format!("CONCAT_WS('/', id, {})", results.join(", "));
            format!(
                "SELECT COUNT(*), MIN({row}), MAX({row}), SUM(CRC32({row})) FROM ({query}) AS q"
            )
        };
        for (sql, reference) in [
            (windowed.clone(), expected.clone()),
            (hash(&windowed), hash(&expected)),
        ] {
            let mut found = rows_here(&mut session, &sql);
            let mut right = rows_here(&mut session, &reference);
            for rows in [&mut found, &mut right].into_iter().flatten() {
                rows.sort();
            }
            if found != right {
                made.truncate(2);
                made.extend(numbered.clone());
                let text = format!("{sql};\n{reference}");
                let (left, right) = (format!("window: {found:?}"), format!("frames: {right:?}"));
                wrong.push(report(seed, &made, &text, &left, &right));
            }
        }
    }
    wrong
}

#[test]
fn windows_have_the_results_of_subqueries_over_their_frames() {
    let seeds = seeds(1, 30);
    let cases = seeds.clone().count();
    let wrong: Vec<String> = seeds.flat_map(|s| check_frames(s, 12)).collect();
    fail_if_any(&wrong, cases);
}
