//! No function's result is longer than `max_allowed_packet`, whatever its arguments.

use porpoise_kv::model::Model;
use porpoise_sql::ResultColumn;
use porpoise_sql::ResultSink;
use porpoise_sql::SqlError;
use porpoise_sql::session::SqlSession;
use porpoise_sql_expr::functions::{self, Function};
use porpoise_types::ValueRef;
use std::sync::Arc;
use std::time::Duration;

/// The `max_allowed_packet` of the tests: the minimum of the variable.
const LIMIT: usize = 1024;

/// A sink that keeps the length of the longest value, and whether a value is NULL.
#[derive(Default)]
struct Longest {
    bytes: usize,
    null: bool,
}

impl ResultSink for Longest {
    fn columns(&mut self, _: &[ResultColumn]) -> Result<(), SqlError> {
        Ok(())
    }

    fn row(&mut self, values: &[ValueRef<'_>]) -> Result<(), SqlError> {
        for value in values {
            if let ValueRef::Bytes(text) = value {
                self.bytes = self.bytes.max(text.len());
            }
            self.null |= value.is_null();
        }
        Ok(())
    }
}

/// A session with the limit.
fn session() -> SqlSession {
    let server = crate::common::server(Arc::new(Model::new()));
    let mut first = crate::common::connect(&server, 1);
    let set = format!("SET GLOBAL max_allowed_packet = {LIMIT}");
    first
        .query(set.as_bytes(), false, &mut Longest::default())
        .unwrap();
    crate::common::connect(&server, 2)
}

/// Calls of a function with arguments of all kinds, many with lengths near the limit.
fn calls(function: &Function) -> Vec<String> {
    let kinds = [
        "REPEAT('a', 1000)",
        "REPEAT('\"', 1000)",
        "REPEAT('''', 1000)",
        "REPEAT('ä', 500)",
        "REPEAT('%W', 500)",
        "CONCAT('\"', REPEAT('a', 900), '\"')",
        "CONCAT('[', REPEAT('1,', 400), '1]')",
        "CONCAT('{\"k\": \"', REPEAT('a', 900), '\"}')",
        "'$'",
        "'$[0]'",
        "'a'",
        "'all'",
        "100000",
        "1",
        "-1",
        "'2020-01-01 10:00:00'",
        "NULL",
    ];
    let (least, most) = function.args;
    let mut calls = Vec::new();
    for count in least..=most.min(least.max(3) + 1) {
        for first in kinds {
            for second in kinds {
                for rest in ["'a'", "REPEAT('a', 900)"] {
                    let all = [first, second].into_iter().chain(std::iter::repeat(rest));
                    let list: Vec<&str> = all.take(count).collect();
                    calls.push(format!("{}({})", function.name, list.join(", ")));
                }
            }
        }
    }
    calls.sort();
    calls.dedup();
    calls
}

#[test]
fn no_result_exceeds_max_allowed_packet() {
    let mut session = session();
    let special = ["SLEEP", "GET_LOCK"];
    let mut wrong = Vec::new();
    let mut tried = 0;
    for function in functions::all().filter(|f| !special.contains(&f.name)) {
        let mut ran = 0;
        for call in calls(function) {
            let mut longest = Longest::default();
            let text = format!("SELECT {call}");
            match session.query(text.as_bytes(), false, &mut longest) {
                Ok(_) if longest.bytes > LIMIT => {
                    wrong.push(format!("{call}: {}", longest.bytes));
                }
                Ok(_) => ran += 1,
                Err(_) => {}
            }
        }
        tried += usize::from(ran > 0);
    }
    assert!(tried > 100, "only {tried} functions ran");
    assert!(
        wrong.is_empty(),
        "{} calls: {:#?}",
        wrong.len(),
        wrong.iter().take(30).collect::<Vec<_>>()
    );
}

#[test]
fn results_that_would_be_too_long_are_null_with_warning_1301() {
    let mut session = session();
    for call in [
        "REPEAT('a', 1025)",
        "SPACE(1025)",
        "LPAD('a', 1025, 'b')",
        "RPAD('a', 257, 'b')",
        "HEX(REPEAT('a', 513))",
        "CONCAT(REPEAT('a', 1000), REPEAT('a', 25))",
        "CONCAT_WS(',', REPEAT('a', 1000), REPEAT('a', 24))",
        "REPLACE(REPEAT('a', 1000), 'a', 'bb')",
        "INSERT(REPEAT('a', 1000), 1, 1, REPEAT('b', 26))",
        "TO_BASE64(REPEAT('a', 900))",
        "QUOTE(REPEAT('''', 600))",
        "EXPORT_SET(5, REPEAT('a', 20), REPEAT('b', 20))",
        "MAKE_SET(3, REPEAT('a', 600), REPEAT('b', 600))",
        "JSON_QUOTE(REPEAT('\"', 600))",
        "WEIGHT_STRING(REPEAT('a', 1000))",
    ] {
        let mut longest = Longest::default();
        let text = format!("SELECT {call}");
        let outcome = session.query(text.as_bytes(), false, &mut longest).unwrap();
        assert!(longest.null, "{call} is {} bytes", longest.bytes);
        assert!(outcome.warnings > 0, "{call}");
    }
    // Results of exactly the limit are allowed.
    for call in [
        "REPEAT('a', 1024)",
        "HEX(REPEAT('a', 512))",
        "LPAD('a', 256, 'b')",
    ] {
        let mut longest = Longest::default();
        let text = format!("SELECT {call}");
        let outcome = session.query(text.as_bytes(), false, &mut longest).unwrap();
        assert!(!longest.null && outcome.warnings == 0, "{call}");
    }
}

/// CPU time of this thread.
fn cpu() -> Duration {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    Duration::from_nanos(stat.split(' ').next().unwrap().parse().unwrap())
}

/// CPU time that a function may take after the deadline of its statement, in a test build.
const GRACE: Duration = Duration::from_millis(150);

/// Invariant 1 of `porpoise_base::interrupt`, for every function: one call with large values ends
/// soon after the deadline of its statement.
#[test]
#[ignore = "two minutes: every function with large values"]
fn calls_with_large_values_end_at_the_deadline() {
    let server = crate::common::server(Arc::new(Model::new()));
    let mut session = crate::common::connect(&server, 1);
    let mut run = |text: &str| {
        let before = cpu();
        let ended = session.query(text.as_bytes(), false, &mut Longest::default());
        (ended.map_or_else(|e| e.code, |_| 0), cpu() - before)
    };
    for text in [
        "SET SESSION max_execution_time = 0",
        "SET @a = REPEAT('a', 8000000)",
        "SET @b = REPEAT('ä.', 3000000)",
        "SET @c = CONCAT('[', REPEAT('1,', 4000000), '1]')",
        "SET max_execution_time = 20",
    ] {
        assert_eq!(run(text).0, 0, "{text}");
    }
    let special = ["SLEEP", "GET_LOCK", "BENCHMARK"];
    let only = std::env::var("FUNCTION").ok();
    let (mut ended, mut wrong) = (0, Vec::new());
    for function in functions::all().filter(|f| !special.contains(&f.name)) {
        if only.as_ref().is_some_and(|only| only != function.name) {
            continue;
        }
        let (least, most) = function.args;
        let mut counts = vec![least.max(1), most.min(3).max(least)];
        counts.dedup();
        for count in counts {
            for first in ["@a", "@b", "@c"] {
                for rest in [first, "2"] {
                    let all = [first].into_iter().chain(std::iter::repeat(rest));
                    let list: Vec<&str> = all.take(count).collect();
                    let call = format!("{}({})", function.name, list.join(", "));
                    let (code, took) = run(&format!("SELECT {call}"));
                    ended += usize::from(code == 3024);
                    if took > Duration::from_millis(20) + GRACE {
                        wrong.push(format!("{call}: {code} after {took:?}"));
                    }
                }
            }
        }
    }
    assert!(
        ended > 50 || only.is_some(),
        "only {ended} calls were ended"
    );
    assert!(wrong.is_empty(), "{} calls: {wrong:#?}", wrong.len());
}
