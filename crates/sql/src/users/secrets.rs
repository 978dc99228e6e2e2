//! Detection of statements that may contain a password and must not be displayed.

/// Whether a statement's text may contain a password and must not be displayed. Every text is
/// checked, so the check first searches for a rare letter of each keyword.
pub fn mentions_password(text: &[u8]) -> bool {
    let has = |word: &[u8], at: usize, letters: (u8, u8)| {
        memchr::memchr2_iter(letters.0, letters.1, text).any(|found| {
            let start = found.checked_sub(at);
            start
                .and_then(|start| text.get(start..start + word.len()))
                .is_some_and(|w| w.eq_ignore_ascii_case(word))
        })
    };
    has(b"identified", 6, (b'f', b'F')) || has(b"password", 4, (b'w', b'W'))
}

#[cfg(test)]
mod tests {
    use super::mentions_password;

    #[test]
    fn words_of_passwords_are_found_anywhere() {
        for text in [
            "identified",
            "CREATE USER a IDENTIFIED BY 'x'",
            "SET PASSWORD = 'x'",
            "f w identifie identified",
            "wpassword",
        ] {
            assert!(mentions_password(text.as_bytes()), "{text}");
        }
        for text in ["", "f", "w", "pass word", "identifie", "SELECT few of 5"] {
            assert!(!mentions_password(text.as_bytes()), "{text}");
        }
    }
}
