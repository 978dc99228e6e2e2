//! Detection of statements that may contain a password and must not be displayed.

/// Whether a statement's text may contain a password and must not be displayed. Every text is
/// checked, so the check first searches for a rare letter of each keyword.
pub fn mentions_password(text: &[u8]) -> bool {
    // Searches for the letter at `rare` of `word`, in either case, then compares the whole word.
    let has = |word: &[u8], rare: usize| {
        let letter = word.get(rare).copied().unwrap_or_default();
        memchr::memchr2_iter(letter, letter.to_ascii_uppercase(), text).any(|found| {
            let start = found.checked_sub(rare);
            start
                .and_then(|start| text.get(start..start + word.len()))
                .is_some_and(|w| w.eq_ignore_ascii_case(word))
        })
    };
    has(b"identified", 6) || has(b"password", 4)
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
