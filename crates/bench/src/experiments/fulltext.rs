//! `bench fulltext`: building a FULLTEXT index over documents of about 1 KB, and searching it.
//!
//! Words are drawn by Zipf's law from a vocabulary of 50,000, so that there are words of nearly all
//! documents and words of a few. Answers contain no relevance, whose last digits differ.
//!
//! Changes are measured with the commit, at which both systems split the texts into words. Each
//! run changes all words. A REPLACE by an equal row, for which InnoDB changes no index entry, is measured as well.

use super::load_rows::{LoadRows, Rows};
use super::query_suite::{self, Question, Suite, unordered};
use super::{Bench, Route};
use crate::connect::Admin;
use crate::error::Result;
use crate::proto::Call;
use crate::url::{System, Target};
use crate::value;

/// Documents unless chosen otherwise.
const ROWS: u64 = 200_000;

/// Words of a document.
const WORDS: u64 = 150;

/// Distinct words.
const VOCABULARY: u64 = 50_000;

/// The condition that a document matches a search.
macro_rules! matches {
    ($search:literal) => {
        concat!("match (body) against (", $search, ")")
    };
}

/// A search whose documents are counted, and their ids added up.
macro_rules! search {
    ($name:literal, $search:literal) => {
        unordered(
            $name,
            concat!(
                "select count(*), sum(id) from doc where ",
                matches!($search)
            ),
        )
    };
}

/// Statements that are measured: the build first, because it replaces the index, and changes last, so
/// that searches read the index as it was built.
const QUESTIONS: &[Question] = &[
    unordered(
        "build",
        "alter table doc drop key body, add fulltext key body (body)",
    ),
    search!("rare word", "'bobobobu'"),
    search!("frequent word", "'bababeba'"),
    unordered(
        "first by relevance",
        concat!(
            "select count(*) from (select id from doc where ",
            matches!("'babobaba bababoda'"),
            " order by ",
            matches!("'babobaba bababoda'"),
            " desc limit 20) as first"
        ),
    ),
    search!(
        "two words required",
        "'+bababeba +babababo' in boolean mode"
    ),
    search!("one word excluded", "'+babababo -bababeba' in boolean mode"),
    search!("prefix", "'bobobo*' in boolean mode"),
    search!("phrase", "'\"bababeba babababe\"' in boolean mode"),
    search!(
        "phrase of frequent words",
        "'\"babababo babababu\"' in boolean mode"
    ),
    search!("words nearby", "'\"babababo babababu\" @5' in boolean mode"),
    unordered(
        "insert 5,000 documents",
        "insert into doc select id + 1000000000, body from doc where id < 5000",
    )
    .after("delete from doc where id >= 1000000000"),
    unordered(
        "replace 5,000 documents by equal ones",
        "replace into doc select id + 1000000000, body from doc where id < 5000",
    ),
    unordered(
        "replace 5,000 documents by others",
        "replace into doc select id, reverse(body) from doc where id < 5000",
    ),
    unordered(
        "update 5,000 documents",
        "update doc set body = reverse(body) where id < 5000",
    ),
    search!("frequent word after changes", "'bababeba'"),
];

/// The word of a rank, the most frequent being 0: four syllables.
fn word(rank: u64) -> String {
    const CONSONANTS: [char; 4] = ['b', 'd', 'k', 'm'];
    const VOWELS: [char; 4] = ['a', 'e', 'o', 'u'];
    let digit = |place: u32, of: [char; 4]| {
        let at = (rank >> (2 * place)) & 3;
        usize::try_from(at)
            .ok()
            .and_then(|at| of.get(at).copied())
            .unwrap_or('x')
    };
    let syllables = (0..4).rev();
    syllables
        .flat_map(|n| [digit(2 * n + 1, CONSONANTS), digit(2 * n, VOWELS)])
        .collect()
}

/// A rank by Zipf's law: its logarithm is uniform.
fn rank(random: u64) -> u64 {
    let uniform = (random >> 11) as f64 / (1u64 << 53) as f64;
    let rank = (VOCABULARY as f64).powf(uniform) - 1.0;
    (rank as u64).min(VOCABULARY - 1)
}

struct Documents;

impl Rows for Documents {
    fn statement(&self, rows: usize) -> String {
        let placeholders = vec!["(?, ?)"; rows].join(", ");
        format!("insert into doc values {placeholders}")
    }

    fn add(&self, n: u64, call: &mut Call) {
        call.int(i64::try_from(n).unwrap_or(i64::MAX));
        let seed = value::mix(n);
        let words = (0..WORDS).map(|at| word(rank(value::mix(seed ^ value::mix(at)))));
        call.bytes(words.collect::<Vec<_>>().join(" ").as_bytes());
    }

    fn item(&self, _: u64, _: &mut Call) {}
}

fn prepare(target: &Target, route: &Route, rows: u64) -> Result<()> {
    let tail = match target.system {
        System::Mysql => " engine=InnoDB",
        _ => "",
    };
    let mut admin = Admin::connect(target)?;
    admin.run("drop table if exists doc")?;
    admin.run(&format!(
        "create table doc (id bigint primary key, body text not null){tail}"
    ))?;
    LoadRows::new(0..rows, Documents).load(&route.endpoint)?;
    admin.run("alter table doc add fulltext key body (body)")?;
    admin.run("analyze table doc")?;
    Ok(())
}

/// `bench fulltext`.
///
/// # Errors
/// Two systems answer differently, or none could be prepared.
pub fn fulltext(bench: &mut Bench) -> Result<()> {
    let rows = bench.rows(if bench.options.is_quick { 20_000 } else { ROWS });
    let suite = Suite {
        name: "fulltext",
        title: "Text search",
        tables: format!(
            "{rows} documents of {WORDS} words, about 1.3 KB, of {VOCABULARY} distinct words"
        ),
        rows,
        prepare,
        questions: QUESTIONS,
    };
    query_suite::run(bench, &suite)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_have_distinct_words() {
        let words: std::collections::HashSet<String> = (0..VOCABULARY).map(word).collect();
        assert_eq!(words.len() as u64, VOCABULARY);
        assert_eq!(word(0), "babababa");
        assert_eq!(word(1), "babababe");
    }

    #[test]
    fn ranks_are_within_the_vocabulary() {
        assert_eq!(rank(0), 0);
        assert!(rank(u64::MAX) < VOCABULARY);
        let low = (0..1000).filter(|n| rank(value::mix(*n)) < 224).count();
        assert!((450..550).contains(&low), "{low}");
    }
}
