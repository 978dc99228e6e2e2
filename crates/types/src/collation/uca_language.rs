//! Orders of languages: utf8mb4_swedish_ci and others, variants of utf8mb4_unicode_ci;
//! utf8mb4_sv_0900_ai_ci and others, variants of utf8mb4_0900_ai_ci.
//!
//! A language gives other weights to some characters, and weights of their own to some sequences of
//! two or three characters (contractions). data/uca_languages.bin and data/uca_0900_languages.bin
//! have these differences; scripts/uca_languages.py describes their layout. A language's table is
//! made from that of version 4.0.0, or those of version 13, when it is first used.

use std::sync::OnceLock;

use super::uca::{
    Contraction, EXPANSION, INDEX, NO_ENTRY, Uca, V13, V13_SECONDARY, V13_TERTIARY, V400,
};

/// Number of languages of version 4.0.0 in the data.
const LANGUAGES: usize = 22;

/// Number of languages of version 13 in the data.
const LANGUAGES_13: usize = 21;

/// Levels of weights: primary, secondary, tertiary.
pub(super) const LEVELS: usize = 3;

const DATA: &[u8] = include_bytes!("../../data/uca_languages.bin");

const DATA_13: &[u8] = include_bytes!("../../data/uca_0900_languages.bin");

static LOADED: [OnceLock<Uca>; LANGUAGES] = [const { OnceLock::new() }; LANGUAGES];

static LOADED_13: [[OnceLock<Uca>; LEVELS]; LANGUAGES_13] =
    [const { [const { OnceLock::new() }; LEVELS] }; LANGUAGES_13];

/// The weights of the language at this position of the data for version 4.0.0.
pub(super) fn language(at: u8) -> &'static Uca {
    match LOADED.get(usize::from(at)) {
        Some(made) => made.get_or_init(|| make(&V400, DATA, usize::from(at))),
        None => &V400,
    }
}

/// The weights of version 13 on a level; with a language, those of the language at this position of
/// the data.
pub(super) fn version_13(language: Option<u8>, level: usize) -> &'static Uca {
    let base = match level {
        0 => &V13,
        1 => &V13_SECONDARY,
        _ => &V13_TERTIARY,
    };
    let Some(at) = language.map(usize::from) else {
        return base;
    };
    match LOADED_13.get(at).and_then(|levels| levels.get(level)) {
        Some(made) => made.get_or_init(|| make(base, DATA_13, at * LEVELS + level)),
        None => base,
    }
}

/// Characters and contractions of a language.
#[derive(Default)]
struct Differences {
    characters: Vec<(u32, Vec<u16>)>,
    contractions: Vec<Contraction>,
}

/// Reads the differences of one language and advances `numbers`; `None` at the end of the data.
fn read(numbers: &mut impl Iterator<Item = u16>) -> Option<Differences> {
    let (characters, contractions) = (numbers.next()?, numbers.next()?);
    let mut out = Differences::default();
    for _ in 0..characters {
        let code = u32::from(numbers.next()?);
        out.characters.push((code, read_list(numbers)?));
    }
    for _ in 0..contractions {
        let codes = read_list(numbers)?.into_iter().map(u32::from).collect();
        let weights = read_list(numbers)?;
        out.contractions.push(Contraction { codes, weights });
    }
    Some(out)
}

fn read_list(numbers: &mut impl Iterator<Item = u16>) -> Option<Vec<u16>> {
    let count = usize::from(numbers.next()?);
    let list: Vec<u16> = numbers.take(count).collect();
    (list.len() == count).then_some(list)
}

/// Applies the differences at this position of the data.
fn make(base: &'static Uca, data: &[u8], at: usize) -> Uca {
    let mut numbers = data
        .as_chunks::<2>()
        .0
        .iter()
        .map(|pair| u16::from_be_bytes(*pair));
    let mut differences = None;
    for _ in 0..=at {
        differences = read(&mut numbers);
    }
    let mut differences = differences.unwrap_or_default();
    let length = |c: &Contraction| std::cmp::Reverse(c.codes.len());
    let contractions = &mut differences.contractions;
    contractions.sort_by_key(|c| (c.codes.first().copied(), length(c)));
    let table = overlay(&base.numbers(), base.expansions(), &differences.characters);
    let bytes: Vec<u8> = table.numbers.iter().flat_map(|n| n.to_be_bytes()).collect();
    base.tailored(
        bytes.leak(),
        table.expansions,
        differences.contractions.leak(),
    )
}

/// A table as numbers, and the position of its expansions.
struct Table {
    numbers: Vec<u16>,
    expansions: usize,
}

/// The number of the page for the code points `high << 8` and up, which no other code points share
/// afterwards; `None` beyond the table.
fn own_page(pages: &mut Vec<u16>, high: usize) -> Option<u16> {
    let page = *pages.get(high)?;
    let start = INDEX + 256 * (usize::from(page).saturating_sub(1));
    let content = match page {
        0 => vec![NO_ENTRY; 256],
        _ => pages.get(start..start + 256)?.to_vec(),
    };
    let index = pages.get(..INDEX)?;
    if page > 0 && index.iter().filter(|p| **p == page).count() == 1 {
        return Some(page);
    }
    pages.extend(content);
    let page = u16::try_from((pages.len() - INDEX) / 256).ok()?;
    *pages.get_mut(high)? = page;
    Some(page)
}

/// A table with other weights for some characters.
fn overlay(base: &[u16], base_expansions: usize, changes: &[(u32, Vec<u16>)]) -> Table {
    let (pages, expansions) = base
        .split_at_checked(base_expansions)
        .unwrap_or((base, &[]));
    let (mut pages, mut expansions) = (pages.to_vec(), expansions.to_vec());
    for (code, weights) in changes {
        let high = (code >> 8) as usize;
        let Some(page) = own_page(&mut pages, high) else {
            continue;
        };
        let entry = match weights.as_slice() {
            [] => 0,
            [one] if *one < EXPANSION => *one,
            _ => {
                let at = u16::try_from(expansions.len()).unwrap_or(0);
                expansions.push(u16::try_from(weights.len()).unwrap_or(0));
                expansions.extend_from_slice(weights);
                EXPANSION + at
            }
        };
        let place = INDEX + 256 * (usize::from(page) - 1) + (code & 0xFF) as usize;
        if let Some(place) = pages.get_mut(place) {
            *place = entry;
        }
    }
    let start = pages.len();
    pages.append(&mut expansions);
    Table {
        numbers: pages,
        expansions: start,
    }
}
