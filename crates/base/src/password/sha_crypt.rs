//! sha256-crypt (Ulrich Drepper's "Unix crypt using SHA-256", version 0.6),
//! as MySQL stores passwords of `caching_sha2_password` with it: a salt of 20
//! bytes where the specification stops at 16, and 5,000 rounds.

use aws_lc_rs::digest::{Context, SHA256};

/// Digest of SHA-256.
pub type Sha256 = [u8; 32];

/// Longest password, as in MySQL: the work grows with its square.
pub const MAX_PASSWORD: usize = 256;

/// Length of the encoded digest in characters.
pub const ENCODED_LEN: usize = 43;

/// SHA-256 of the parts one after another.
pub fn sha256(parts: &[&[u8]]) -> Sha256 {
    let mut context = Context::new(&SHA256);
    for part in parts {
        context.update(part);
    }
    finish(context)
}

fn finish(context: Context) -> Sha256 {
    let mut digest = [0; 32];
    for (to, from) in digest.iter_mut().zip(context.finish().as_ref()) {
        *to = *from;
    }
    digest
}

/// The encoded digest of `password` under `salt`.
pub fn sha256_crypt(password: &[u8], salt: &[u8], rounds: u32) -> [u8; ENCODED_LEN] {
    let b = sha256(&[password, salt, password]);
    let mut context = Context::new(&SHA256);
    context.update(password);
    context.update(salt);
    context.update(&cycle(&b, password.len()));
    let mut bits = password.len();
    while bits > 0 {
        context.update(if bits & 1 == 1 { &b } else { password });
        bits >>= 1;
    }
    let mut a = finish(context);

    let mut context = Context::new(&SHA256);
    for _ in 0..password.len() {
        context.update(password);
    }
    let p = cycle(&finish(context), password.len());

    let [first, ..] = a;
    let mut context = Context::new(&SHA256);
    for _ in 0..16 + usize::from(first) {
        context.update(salt);
    }
    let s = cycle(&finish(context), salt.len());

    for round in 0..rounds {
        let odd = round & 1 == 1;
        let mut context = Context::new(&SHA256);
        context.update(if odd { &p } else { &a });
        if round % 3 != 0 {
            context.update(&s);
        }
        if round % 7 != 0 {
            context.update(&p);
        }
        context.update(if odd { &a } else { &p });
        a = finish(context);
    }
    encode(&a)
}

/// The digest repeated to `length` bytes.
fn cycle(digest: &Sha256, length: usize) -> Vec<u8> {
    digest.iter().copied().cycle().take(length).collect()
}

/// Order in which the specification takes the digest's bytes, three to a
/// group of four characters, highest first; the last group has two.
const ORDER: [[usize; 3]; 10] = [
    [0, 10, 20],
    [21, 1, 11],
    [12, 22, 2],
    [3, 13, 23],
    [24, 4, 14],
    [15, 25, 5],
    [6, 16, 26],
    [27, 7, 17],
    [18, 28, 8],
    [9, 19, 29],
];

fn encode(digest: &Sha256) -> [u8; ENCODED_LEN] {
    const ALPHABET: &[u8; 64] = b"./0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    let byte = |i: usize| u32::from(digest.get(i).copied().unwrap_or_default());
    let groups = ORDER
        .iter()
        .map(|&[x, y, z]| (byte(x) << 16 | byte(y) << 8 | byte(z), 4))
        .chain([(byte(31) << 8 | byte(30), 3)]);
    let characters = groups.flat_map(|(word, count)| (0..count).map(move |i| word >> (6 * i) & 63));
    let mut text = [0; ENCODED_LEN];
    for (slot, index) in text.iter_mut().zip(characters) {
        *slot = ALPHABET.get(index as usize).copied().unwrap_or_default();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agrees_with_the_specification() {
        // As `openssl passwd -5` prints them.
        let short = sha256_crypt(b"Hello world!", b"saltstring", 5000);
        assert_eq!(&short, b"5B8vYYiY.CVt1RlTTf8KbXBH3hsxY/GNooZaBBGWEc5");
        let more = sha256_crypt(b"Hello world!", b"saltstringsaltst", 10_000);
        assert_eq!(&more, b"3xv.VbSHBb41AL9AvLeujZkZRBAwqFMz2.opqey6IcA");
    }

    #[test]
    fn agrees_at_lengths_around_a_digest() {
        // `openssl passwd -5 -salt s` of 31, 32, 33 and 70 letters `a`.
        let hash = |n: usize| sha256_crypt(&b"a".repeat(n), b"s", 5000);
        assert_eq!(&hash(31), b"zLlSEjkN7pMXW4bDfs03sI4hRtGs1pDFrTzZtXsBuLA");
        assert_eq!(&hash(32), b"1dNooBpWm.2e9qD6IsJCKat67H.3VsPjBxgDB0M4TV7");
        assert_eq!(&hash(33), b"yBh69N5Y/es8yFfV8TGlJ8GxfXGCEd.Tax6k7U2/bT.");
        assert_eq!(&hash(70), b"CTwOGgfFMOsj7terL2Sxw0qftVw6E4zZuGPzc3Fy4MB");
    }
}
