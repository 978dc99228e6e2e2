//! Searches of random documents: total, and equal to a naive model.

use porpoise_types::Collation;
use porpoise_types::full_text::{
    Document, Frequencies, IndexedDocument, Occurrences, Query, WordRules,
};
use proptest::prelude::*;

const NAMES: [&str; 5] = ["ant", "bee", "cat", "dog", "the"];

fn rules() -> WordRules {
    WordRules::new(Collation::by_name("utf8mb4_0900_ai_ci").unwrap())
}

fn is_found(search: &str, text: &str) -> bool {
    let rules = rules();
    let query = Query::boolean(search, &rules).unwrap();
    let document = Document::new(&[text], &rules);
    query.rank(&document, &Frequencies::default()).is_some()
}

/// The rank that an index gives a document, by a naive index: the words with their numbers.
fn rank_by_index(query: &Query, text: &str, frequencies: &Frequencies) -> Option<f32> {
    let rules = rules();
    let equal = |a: &str, b: &str| rules.collation.equal(a.as_bytes(), b.as_bytes());
    let begins = |word: &str, start: &str| {
        let chars = start.chars().count();
        let end = word
            .char_indices()
            .nth(chars)
            .map_or(word.len(), |(at, _)| at);
        equal(&word[..end], start)
    };
    let found = query.terms().map(|(wanted, prefix)| {
        let tokens = (0_u32..).zip(rules.tokens(text));
        let indexed = tokens.filter(|(_, word)| rules.is_indexed(word));
        let matching = |word: &str| match prefix {
            true => begins(word, wanted),
            false => equal(word, wanted),
        };
        let mut places: Vec<(&str, u32)> = Vec::new();
        places.extend(
            indexed
                .filter(|(_, word)| matching(word))
                .map(|(at, word)| (word, at)),
        );
        places.sort_by(|a, b| rules.collation.compare(a.0.as_bytes(), b.0.as_bytes()));
        let last = places.last().map_or("", |(word, _)| word);
        let mut positions: Vec<u32> = places.iter().map(|(_, at)| *at).collect();
        positions.sort_unstable();
        let frequency = places.iter().filter(|(word, _)| equal(word, last)).count();
        (positions, frequency as u64)
    });
    let found: Vec<(Vec<u32>, u64)> = found.collect();
    let terms: Vec<Occurrences<'_>> = found
        .iter()
        .map(|(positions, frequency)| Occurrences {
            distinct: 1,
            frequency: *frequency,
            positions,
        })
        .collect();
    let document = Document::new(&[text], &rules);
    let gaps: Vec<(usize, &[String])> = query.phrases_to_verify(false).collect();
    let lacks = |number: usize| {
        let (_, words) = gaps.iter().find(|(n, _)| *n == number).unwrap();
        !document.has_words(words)
    };
    let indexed = IndexedDocument {
        terms: &terms,
        has_several_columns: false,
        lacks: &lacks,
    };
    query.ranking(frequencies).rank_indexed(&indexed)
}

/// A text or a search in which operators, quotes and words of several scripts meet.
fn any_search() -> impl Strategy<Value = String> {
    let pieces = [
        "+", "-", "<", ">", "~", "*", "(", ")", "\"", "@", "3", " ", "ant", "bee", "the", "é",
        "日本", "\n", "_", "'",
    ];
    let piece = prop::sample::select(pieces.to_vec());
    prop::collection::vec(piece, 0..12).prop_map(|all| all.concat())
}

fn document() -> impl Strategy<Value = Vec<&'static str>> {
    prop::collection::vec(prop::sample::select(NAMES.to_vec()), 0..12)
}

proptest! {
    #[test]
    fn searches_are_total(search in any_search(), text in any_search()) {
        let rules = rules();
        let document = Document::new(&[&text], &rules);
        let boolean = Query::boolean(&search, &rules).ok();
        for query in [Some(Query::natural(&search, &rules)), boolean].into_iter().flatten() {
            let mut frequencies = Frequencies::default();
            frequencies.add(&query, &document);
            let rank = query.rank(&document, &frequencies);
            prop_assert!(rank.unwrap_or_default().is_finite());
            prop_assert_eq!(rank, rank_by_index(&query, &text, &frequencies));
        }
    }

    #[test]
    fn an_index_ranks_a_document_as_its_text_does(
        search in prop::collection::vec(
            prop::sample::select(vec![
                "ant", "bee", "cat*", "c*", "\"ant bee\"", "\"bee the cat\"", "+", "-", "~", ">",
                "\"ant cat\" @3", "+(ant dog)",
            ]),
            1..6,
        ),
        words in document(),
    ) {
        let (rules, text) = (rules(), words.join(" "));
        if let Ok(query) = Query::boolean(&search.join(" "), &rules) {
            let document = Document::new(&[&text], &rules);
            let mut frequencies = Frequencies::default();
            frequencies.add(&query, &document);
            let by_text = query.rank(&document, &frequencies);
            prop_assert_eq!(by_text, rank_by_index(&query, &text, &frequencies));
        }
    }

    #[test]
    fn distances_are_those_of_a_model(words in document(), distance in 0_usize..8) {
        let search = format!("\"ant cat\" @{distance}");
        let has_both = |window: &[&str]| window.contains(&"ant") && window.contains(&"cat");
        let size = distance.min(words.len());
        // A distance of 0 is none: the search is a phrase.
        let expected = match size {
            0 if distance == 0 => words.windows(2).any(|window| window == ["ant", "cat"]),
            0 => false,
            _ => words.windows(size).any(has_both),
        };
        prop_assert_eq!(is_found(&search, &words.join(" ")), expected);
    }

    #[test]
    fn phrases_are_those_of_a_model(words in document()) {
        let text = words.join(" ");
        let has = |phrase: &[&str]| words.windows(phrase.len()).any(|window| window == phrase);
        prop_assert_eq!(is_found("\"bee the dog\"", &text), has(&["bee", "the", "dog"]));
        prop_assert_eq!(is_found("\"the bee dog\"", &text), has(&["bee", "dog"]));
    }

    #[test]
    fn operators_are_those_of_a_model(words in document()) {
        let text = words.join(" ");
        let has = |word: &str| words.contains(&word);
        let expected = has("ant") && !has("dog") && (has("bee") || has("cat"));
        prop_assert_eq!(is_found("+ant -dog +(bee cat)", &text), expected);
        prop_assert_eq!(is_found("+ant >bee", &text), has("ant"));
        prop_assert_eq!(is_found("be* ~ant", &text), has("bee"));
        prop_assert!(!is_found("the", &text) && !is_found("-ant", &text));
    }
}
