//! Backslash escapes of MySQL's string literals (manual, "String Literals"), which LOAD DATA uses, too.

/// The byte that `\` and this byte stand for. The sequences `\%` and `\_`, which the parser leaves as they
/// are, and `\N` are up to the caller.
#[inline]
pub const fn unescape(byte: u8) -> u8 {
    match byte {
        b'0' => 0,
        b'b' => 8,
        b'n' => b'\n',
        b'r' => b'\r',
        b't' => b'\t',
        b'Z' => 0x1A,
        other => other,
    }
}
