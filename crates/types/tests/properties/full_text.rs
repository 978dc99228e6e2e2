//! Searches of random documents: total, and equal to a naive model.

use porpoise_types::Collation;
use porpoise_types::full_text::{Document, Frequencies, Query, WordRules};
use proptest::prelude::*;

const NAMES: [&str; 5] = ["ant", "bee", "cat", "dog", "the"];

fn rules() -> WordRules<'static> {
    WordRules::new(Collation::by_name("utf8mb4_0900_ai_ci").unwrap())
}

fn is_found(search: &str, text: &str) -> bool {
    let rules = rules();
    let query = Query::boolean(search, &rules).unwrap();
    let document = Document::new(&[text], &rules);
    query.rank(&document, &Frequencies::default()).is_some()
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
            let rank = query.rank(&document, &frequencies).unwrap_or_default();
            prop_assert!(rank.is_finite());
        }
    }

    #[test]
    fn distances_are_those_of_a_model(words in document(), distance in 0_usize..8) {
        let search = format!("\"ant cat\" @{distance}");
        let has_both = |window: &[&str]| window.contains(&"ant") && window.contains(&"cat");
        let size = distance.min(words.len());
        let expected = size > 0 && words.windows(size).any(has_both);
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
