//! Random statements: their rows must equal MariaDB's, and related queries must agree with each other
//! ([`oracles`], [`frames`]). Random routines and triggers must leave the same tables ([`programs`]).
//!
//! The seed of a case determines its tables, rows and statements. A failure prints the seed and
//! the statements to repeat it by hand; `RANDOM_SEED=n` runs that case alone, and
//! `RANDOM_CASES=n` runs `n` cases from the first seed on (`make soak` runs many).
//!
//! Not generated, because the servers differ on purpose or the result is undefined:
//! LIMIT without a total order, texts converted to numbers in changes, functions that
//! only one of them has. The collation ignores case, so a group may be represented by any
//! of several equal texts: rows are compared in lower case.

mod change;
mod expr;
mod frames;
mod oracles;
mod programs;
mod query;
mod tables;

use crate::both::{Answer, Shared, here, session};
use tables::Table;

/// Type of an expression.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ty {
    Int,
    Dec,
    Str,
    Date,
}

impl Ty {
    fn letter(self) -> char {
        match self {
            Ty::Int => 'i',
            Ty::Dec => 'n',
            Ty::Str => 's',
            Ty::Date => 'd',
        }
    }
}

/// A generator of statements.
pub struct Gen {
    pub rng: fastrand::Rng,
    /// The existing tables.
    pub tables: Vec<Table>,
    /// Common table expressions of the statement: name, and types of the columns c0, c1 and so on.
    pub named: Vec<(String, Vec<Ty>)>,
    /// Number of aliases given so far.
    pub aliases: usize,
    /// Subqueries that the statement may still have.
    pub subqueries: usize,
}

impl Gen {
    fn new(seed: u64) -> Gen {
        Gen {
            rng: fastrand::Rng::with_seed(seed),
            tables: Vec::new(),
            named: Vec::new(),
            aliases: 0,
            subqueries: 0,
        }
    }

    fn one_in(&mut self, n: u32) -> bool {
        self.rng.u32(0..n) == 0
    }

    fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.rng.usize(0..from.len())]
    }

    fn ty(&mut self) -> Ty {
        *self.pick(&[
            Ty::Int,
            Ty::Int,
            Ty::Int,
            Ty::Dec,
            Ty::Str,
            Ty::Str,
            Ty::Date,
        ])
    }

    /// Statements that create and fill tables.
    fn create_tables(&mut self) -> Vec<String> {
        let mut out = Vec::new();
        for at in 0..self.rng.usize(2..4) {
            let rows = *self.pick(&[0, 1, 4, 7, 11, 16]);
            let table = self.table(&format!("t{at}"), rows, &mut out);
            self.tables.push(table);
        }
        out
    }
}

/// The seeds to run: `count` from `first` on, unless the environment sets others.
fn seeds(first: u64, count: u64) -> std::ops::Range<u64> {
    let variable = |name: &str| std::env::var(name).ok().and_then(|n| n.parse::<u64>().ok());
    let seed = variable("RANDOM_SEED");
    let first = seed.unwrap_or(first);
    let count = variable("RANDOM_CASES").unwrap_or(if seed.is_some() { 1 } else { count });
    first..first + count
}

/// The rows in the form in which they are compared.
fn normal(rows: &[String]) -> Vec<String> {
    rows.iter().map(|row| row.to_lowercase()).collect()
}

fn is_ordered(sql: &str) -> bool {
    // ORDER BY of subqueries and aggregates is within parentheses.
    let tail = sql.rfind(')').map_or(sql, |at| &sql[at..]);
    tail.contains("ORDER BY")
}

/// Whether the outcomes agree, apart from known differences.
fn same(sql: &str, theirs: &Answer, ours: &Answer) -> bool {
    let (mut a, mut b) = (normal(&theirs.rows), normal(&ours.rows));
    if !is_ordered(sql) {
        a.sort();
        b.sort();
    }
    // A statement that timed out has no result to compare.
    if theirs.error == Some(1969) || ours.error == Some(3024) {
        return true;
    }
    // MariaDB finds no columns of outer queries in some places of set operations and HAVING.
    let unresolved = matches!(theirs.error, Some(1054 | 1247 | 1463)) && ours.error.is_none();
    // UPDATE IGNORE of rows that it cannot change causes warnings in MySQL, but not in MariaDB.
    let same_warnings = theirs.warnings == ours.warnings || sql.starts_with("UPDATE IGNORE");
    let same_counts = theirs.error.is_some() || (theirs.affected == ours.affected && same_warnings);
    let same_result = a == b && theirs.error == ours.error;
    unresolved || (same_result && (same_counts || !compares_counts(sql)))
}

/// Whether the numbers of affected rows and warnings must agree: for statements that change rows,
/// except REPLACE, which InnoDB counts as one row where it meets an identical one.
fn compares_counts(sql: &str) -> bool {
    ["INSERT", "UPDATE", "DELETE"]
        .iter()
        .any(|verb| sql.starts_with(verb))
}

/// Describes a mismatch, with those of the `preceding` statements that concern the tables of `sql`.
fn report(seed: u64, preceding: &[String], sql: &str, left: &str, right: &str) -> String {
    let is_related = |statement: &&String| {
        let mut words = statement.split_whitespace().filter(|w| w.starts_with('t'));
        words.next().is_none_or(|table| sql.contains(table))
    };
    let related = preceding.iter().filter(is_related).map(String::as_str);
    let related = related.collect::<Vec<&str>>().join(";\n");
    format!("-- seed {seed}\n{related};\n{sql};\n-- {left}\n-- {right}\n")
}

fn describe(server: &str, answer: &Answer, message: &str) -> String {
    format!(
        "{server}: {:?} {:?} affected {} warnings {} {message}",
        answer.error, answer.rows, answer.affected, answer.warnings
    )
}

/// Limits MariaDB's time for a statement, in seconds.
const TIME_LIMIT: &str = "SET max_statement_time = 2";

/// Settings that make MariaDB choose other plans.
const OTHER_PLANS: &[&str] = &[
    "optimizer_switch = 'materialization=off,semijoin=off,derived_merge=off,\
     subquery_cache=off,condition_pushdown_for_derived=off,condition_pushdown_for_subquery=off,\
     split_materialized=off,outer_join_with_cache=off,condition_pushdown_from_having=off,\
     exists_to_in=off,partial_match_rowid_merge=off,partial_match_table_scan=off'",
    "optimizer_switch = 'in_to_exists=off,derived_with_keys=off,index_merge=off,\
     join_cache_incremental=off,join_cache_hashed=off,table_elimination=off,\
     extended_keys=off,exists_to_in=off,subquery_cache=off'",
];

/// Runs one case on both servers. Returns descriptions of the mismatches.
fn case(server: &Shared, seed: u64, queries: usize, changes: usize) -> Vec<String> {
    let mut random = Gen::new(seed);
    let mut statements = random.create_tables();
    for _ in 0..queries {
        statements.push(random.statement());
    }
    for _ in 0..changes {
        let change = random.change();
        let words: Vec<&str> = change.split(|c: char| !c.is_alphanumeric()).collect();
        let named = random
            .tables
            .iter()
            .filter(|t| words.contains(&t.name.as_str()));
        let shown = named
            .map(|t| format!("SELECT * FROM {}", t.name))
            .collect::<Vec<_>>();
        statements.push(change);
        statements.extend(shown);
    }
    let texts: Vec<&str> = statements.iter().map(String::as_str).collect();
    let answers = server.run_with(TIME_LIMIT, &texts);
    let mut session = session();
    here(&mut session, "SET max_execution_time = 4000");
    let mut wrong = Vec::new();
    let mut done = Vec::new();
    let mut others: Option<Vec<Vec<Answer>>> = None;
    for (at, (sql, theirs)) in statements.iter().zip(&answers).enumerate() {
        let (ours, message) = here(&mut session, sql);
        if !same(sql, theirs, &ours) {
            let others = others.get_or_insert_with(|| {
                let run = |set: &&str| server.run_with(&format!("{TIME_LIMIT}, {set}"), &texts);
                OTHER_PLANS.iter().map(run).collect()
            });
            // If MariaDB gives this server's answer with another plan, the mistake is MariaDB's.
            if !others.iter().any(|answers| same(sql, &answers[at], &ours)) {
                let left = describe("MariaDB", theirs, "");
                let right = describe("here", &ours, &message);
                wrong.push(report(seed, &done, sql, &left, &right));
            }
        }
        if !sql.starts_with("SELECT") && !sql.starts_with("WITH") {
            done.push(sql.clone());
        }
    }
    wrong
}

/// Fails with the descriptions of mismatches in `cases` cases, if there are any.
fn fail_if_any(wrong: &[String], cases: usize) {
    let shown: Vec<&str> = wrong.iter().take(60).map(String::as_str).collect();
    assert!(
        wrong.is_empty(),
        "\n{}\n{} wrong answers in {cases} cases",
        shown.join("\n"),
        wrong.len()
    );
}

#[test]
fn random_statements_agree_with_mariadb() {
    let server = Shared::start();
    let seeds = seeds(1, 12);
    let cases = seeds.clone().count();
    let wrong: Vec<String> = seeds.flat_map(|s| case(&server, s, 30, 12)).collect();
    fail_if_any(&wrong, cases);
}

#[test]
#[ignore = "minutes long"]
fn very_many_random_statements_agree_with_mariadb() {
    let server = Shared::start();
    let seeds = seeds(1_000, 600);
    let cases = seeds.clone().count();
    let mut wrong = Vec::new();
    for seed in seeds {
        wrong.extend(case(&server, seed, 40, 20));
    }
    fail_if_any(&wrong, cases);
}
