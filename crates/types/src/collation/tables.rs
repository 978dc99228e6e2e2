//! Weight tables of ASCII and of utf8mb4_general_ci.
//!
//! The general table is data/general_ci.bin, written by scripts/general_ci.py.

#![expect(
    clippy::indexing_slicing,
    reason = "pages are found by a high byte that was tested, and indexed by a byte; the rest is evaluated at compile time"
)]

/// The identity: the weight of a byte is its value.
pub(super) static IDENTITY: [u8; 256] = {
    let mut table = [0; 256];
    let mut i = 0;
    while i < 256 {
        table[i] = i as u8;
        i += 1;
    }
    table
};

/// ASCII letters folded to upper case.
pub(super) static ASCII_GENERAL_CI: [u8; 256] = {
    let mut table = [0; 256];
    let mut i = 0;
    while i < 256 {
        table[i] = (i as u8).to_ascii_uppercase();
        i += 1;
    }
    table
};

const GENERAL: &[u8] = include_bytes!("../../data/general_ci.bin");

/// Number of pages of 256 code points whose weights differ from the code points.
const PAGES: usize = 11;

/// The page of each high byte, or 0xFF for none; and the pages.
static GENERAL_PAGES: ([u8; 256], [[u16; 256]; PAGES]) = {
    let mut index = [0xFF; 256];
    let mut pages = [[0; 256]; PAGES];
    let mut used = 0;
    let mut at = 0;
    while at < GENERAL.len() {
        let high = GENERAL[at] as usize;
        if index[high] == 0xFF {
            index[high] = used as u8;
            let mut low = 0;
            while low < 256 {
                pages[used][low] = (high << 8 | low) as u16;
                low += 1;
            }
            used += 1;
        }
        let weight = (GENERAL[at + 2] as u16) << 8 | GENERAL[at + 3] as u16;
        pages[index[high] as usize][GENERAL[at + 1] as usize] = weight;
        at += 4;
    }
    assert!(
        used == PAGES,
        "PAGES must equal the number of pages in the data"
    );
    (index, pages)
};

/// The weight of a code point in utf8mb4_general_ci; for invalid bytes (codes from 0x11_0000 up) it
/// is the code.
#[inline]
pub(super) fn general_weight(code: u32) -> u32 {
    match code {
        0..=0xFFFF => {
            let page = GENERAL_PAGES.0[(code >> 8) as usize];
            if page == 0xFF {
                code
            } else {
                u32::from(GENERAL_PAGES.1[usize::from(page)][(code & 0xFF) as usize])
            }
        }
        0x1_0000..=0x10_FFFF => 0xFFFD,
        _ => code,
    }
}
