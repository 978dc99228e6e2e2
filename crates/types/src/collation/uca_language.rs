//! Orders of languages: utf8mb4_swedish_ci and others, variants of utf8mb4_unicode_ci.
//!
//! A language gives other weights to some characters, and weights of their own to some sequences of
//! two or three characters (contractions). data/uca_languages.bin has these differences;
//! scripts/uca_languages.py describes its layout. A language's table is made from that of version
//! 4.0.0 when it is first used.

use std::sync::OnceLock;

use super::uca::{Contraction, EXPANSION, INDEX, NO_ENTRY, Uca, V400};

/// Number of languages in the data.
pub(super) const LANGUAGES: usize = 22;

const DATA: &[u8] = include_bytes!("../../data/uca_languages.bin");

static MADE: [OnceLock<Uca>; LANGUAGES] = [const { OnceLock::new() }; LANGUAGES];

/// The weights of the language at this position of the data.
pub(super) fn language(at: u8) -> &'static Uca {
    match MADE.get(usize::from(at)) {
        Some(made) => made.get_or_init(|| make(usize::from(at))),
        None => &V400,
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

fn make(at: usize) -> Uca {
    let mut numbers = DATA
        .as_chunks::<2>()
        .0
        .iter()
        .map(|pair| u16::from_be_bytes(*pair));
    let mut differences = None;
    for _ in 0..=at {
        differences = read(&mut numbers);
    }
    let differences = differences.unwrap_or_default();
    let table = overlay(&V400.numbers(), V400.expansions(), &differences.characters);
    let bytes: Vec<u8> = table.numbers.iter().flat_map(|n| n.to_be_bytes()).collect();
    V400.tailored(
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

/// A table with other weights for some characters.
fn overlay(base: &[u16], base_expansions: usize, changes: &[(u32, Vec<u16>)]) -> Table {
    let (pages, expansions) = base
        .split_at_checked(base_expansions)
        .unwrap_or((base, &[]));
    let (mut pages, mut expansions) = (pages.to_vec(), expansions.to_vec());
    for (code, weights) in changes {
        let high = (code >> 8) as usize;
        let page = match pages.get(high).copied() {
            None => continue,
            Some(0) => {
                pages.extend([NO_ENTRY; 256]);
                let page = (pages.len() - INDEX) / 256;
                let page = u16::try_from(page).unwrap_or(0);
                if let Some(place) = pages.get_mut(high) {
                    *place = page;
                }
                page
            }
            Some(page) => page,
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
