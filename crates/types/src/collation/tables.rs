//! Weight tables of the one-byte collations and of utf8mb4_general_ci.
//!
//! The byte tables are those that MariaDB 10.11 shows through WEIGHT_STRING. The general
//! table is data/general_ci.bin, written by scripts/general_ci.py.
//!
//! Invariant: in every table exactly the space has the weight 0x20.

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

#[rustfmt::skip]
pub(super) static LATIN1_SWEDISH_CI: [u8; 256] = [
    0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15,
    16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31,
    32, 33, 34, 35, 36, 37, 38, 39, 40, 41, 42, 43, 44, 45, 46, 47,
    48, 49, 50, 51, 52, 53, 54, 55, 56, 57, 58, 59, 60, 61, 62, 63,
    64, 65, 66, 67, 68, 69, 70, 71, 72, 73, 74, 75, 76, 77, 78, 79,
    80, 81, 82, 83, 84, 85, 86, 87, 88, 89, 90, 91, 92, 93, 94, 95,
    96, 65, 66, 67, 68, 69, 70, 71, 72, 73, 74, 75, 76, 77, 78, 79,
    80, 81, 82, 83, 84, 85, 86, 87, 88, 89, 90, 123, 124, 125, 126, 127,
    128, 129, 130, 131, 132, 133, 134, 135, 136, 137, 138, 139, 140, 141, 142, 143,
    144, 145, 146, 147, 148, 149, 150, 151, 152, 153, 154, 155, 156, 157, 158, 159,
    160, 161, 162, 163, 164, 165, 166, 167, 168, 169, 170, 171, 172, 173, 174, 175,
    176, 177, 178, 179, 180, 181, 182, 183, 184, 185, 186, 187, 188, 189, 190, 191,
    65, 65, 65, 65, 92, 91, 92, 67, 69, 69, 69, 69, 73, 73, 73, 73,
    68, 78, 79, 79, 79, 79, 93, 215, 216, 85, 85, 85, 89, 89, 222, 223,
    65, 65, 65, 65, 92, 91, 92, 67, 69, 69, 69, 69, 73, 73, 73, 73,
    68, 78, 79, 79, 79, 79, 93, 247, 216, 85, 85, 85, 89, 89, 222, 255,
];

#[rustfmt::skip]
pub(super) static LATIN1_GENERAL_CI: [u8; 256] = [
    0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15,
    16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31,
    32, 33, 34, 35, 36, 37, 38, 39, 40, 41, 42, 43, 44, 45, 46, 47,
    48, 49, 50, 51, 52, 53, 54, 55, 56, 57, 58, 59, 60, 61, 62, 63,
    64, 65, 81, 83, 87, 91, 101, 103, 105, 107, 117, 119, 121, 123, 125, 129,
    143, 145, 147, 149, 152, 154, 164, 166, 168, 170, 175, 179, 180, 181, 182, 183,
    184, 65, 81, 83, 87, 91, 101, 103, 105, 107, 117, 119, 121, 123, 125, 129,
    143, 145, 147, 149, 152, 154, 164, 166, 168, 170, 175, 185, 186, 187, 188, 191,
    192, 193, 194, 195, 196, 197, 198, 199, 200, 201, 202, 203, 204, 205, 206, 207,
    208, 209, 210, 211, 212, 213, 214, 215, 216, 217, 218, 219, 220, 221, 222, 223,
    224, 225, 226, 227, 228, 229, 230, 231, 232, 233, 234, 235, 236, 237, 238, 239,
    240, 241, 242, 243, 244, 245, 246, 247, 248, 249, 250, 251, 252, 253, 254, 255,
    67, 69, 71, 73, 75, 77, 79, 85, 93, 95, 97, 99, 109, 111, 113, 115,
    89, 127, 131, 133, 135, 137, 139, 189, 141, 156, 158, 160, 162, 172, 177, 151,
    67, 69, 71, 73, 75, 77, 79, 85, 93, 95, 97, 99, 109, 111, 113, 115,
    89, 127, 131, 133, 135, 137, 139, 190, 141, 156, 158, 160, 162, 172, 177, 174,
];

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
    assert!(used == PAGES, "PAGES must tell the pages that the data has");
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
