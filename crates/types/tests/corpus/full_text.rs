//! Searches, ranks and errors against those of InnoDB (`data/full_text.tsv`).

use porpoise_types::Collation;
use porpoise_types::full_text::{Document, Frequencies, Query, WordRules};

const CORPUS: &str = include_str!("../data/full_text.tsv");

fn lines(kind: &'static str) -> impl Iterator<Item = (&'static str, &'static str)> {
    let fields = CORPUS.lines().map(|line| line.split('\t'));
    fields
        .filter_map(move |mut line| (line.next()? == kind).then_some((line.next()?, line.next()?)))
}

fn rules() -> WordRules {
    WordRules::new(Collation::by_name("utf8mb4_general_ci").unwrap())
}

/// Rows that InnoDB found, with their ranks.
fn judged(rows: &str) -> Vec<(usize, f32)> {
    let rows = rows
        .split_whitespace()
        .map(|row| row.split_once('=').unwrap());
    rows.map(|(row, rank)| (row.parse().unwrap(), rank.parse().unwrap()))
        .collect()
}

/// Rows whose rank is not 0.
fn ranked(query: &Query, documents: &[Document<'_>]) -> Vec<(usize, f32)> {
    let mut frequencies = Frequencies::default();
    for document in documents {
        frequencies.add(query, document);
    }
    let ranks = documents
        .iter()
        .map(|d| query.rank(d, &frequencies).unwrap_or(0.0));
    ranks.enumerate().filter(|(_, rank)| *rank != 0.0).collect()
}

fn agree(a: &[(usize, f32)], b: &[(usize, f32)]) -> bool {
    let close = |(a, b): (&(usize, f32), &(usize, f32))| {
        a.0 == b.0 && (a.1 - b.1).abs() <= 1e-5 * a.1.abs().max(1.0)
    };
    a.len() == b.len() && a.iter().zip(b).all(close)
}

#[test]
fn searches_rank_rows_as_innodb() {
    let rules = rules();
    let documents: Vec<Document<'_>> = lines("D")
        .map(|(_, text)| Document::new(&[text], &rules))
        .collect();
    let boolean = lines("B").map(|(q, rows)| (Query::boolean(q, &rules).unwrap(), q, rows));
    let natural = lines("N").map(|(q, rows)| (Query::natural(q, &rules), q, rows));
    let (mut all, mut wrong) = (0, Vec::new());
    for (query, search, rows) in boolean.chain(natural) {
        let (ours, theirs) = (ranked(&query, &documents), judged(rows));
        all += 1;
        if !agree(&ours, &theirs) {
            wrong.push(format!("{search}\n  ours   {ours:?}\n  InnoDB {theirs:?}"));
        }
    }
    assert!(all > 400, "only {all} searches");
    assert!(
        wrong.is_empty(),
        "{} of {all} differ:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}

#[test]
fn malformed_searches_have_the_errors_of_innodb() {
    let errors = lines("E").map(|(search, error)| {
        let refused = Query::boolean(search, &rules())
            .map(|_| ())
            .map_err(|e| e.to_string());
        assert_eq!(refused, Err(error.to_owned()), "{search}");
    });
    assert!(errors.count() > 15);
}

#[test]
fn nesting_is_bounded() {
    let nested = |depth| format!("{}fox{}", "(".repeat(depth), ")".repeat(depth));
    assert!(Query::boolean(&nested(64), &rules()).is_ok());
    let refused = Query::boolean(&nested(100_000), &rules()).unwrap_err();
    assert_eq!(refused.to_string(), "memory exhausted");
}
