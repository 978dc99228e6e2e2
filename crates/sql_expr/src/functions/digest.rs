//! STATEMENT_DIGEST() and STATEMENT_DIGEST_TEXT() (manual, "Encryption and Compression Functions").

use super::hash::hex;
use super::{Call, Function, Nullable, text_of};
use crate::error::{Result, SqlError};
use crate::lex_mode::lex_mode;
use aws_lc_rs::digest as hashes;
use bumpalo::Bump;
use porpoise_sql_parser::{ParseOptions, digest, parse_one};
use porpoise_types::{Collation, ColumnType, Kind, ValueRef};

/// The digest text of the statement in the argument; `None` for NULL.
///
/// # Errors
/// 3676 for a text that is not one statement.
fn digest_text(c: &Call<'_, '_>) -> Result<Option<String>> {
    let Some(text) = c.text(0)? else {
        return Ok(None);
    };
    let failed = |message: String| {
        let text = format!("Could not parse argument to digest function: \"{message}\".");
        SqlError::new(3676, "HY000", text)
    };
    let mode = lex_mode(c.cx.env.mode);
    let arena = Bump::new();
    let options = ParseOptions {
        mode,
        ..ParseOptions::default()
    };
    match parse_one(&arena, text, 0, &options) {
        Ok(parsed) if parsed.rest.is_none() => {
            let found = digest::text::text(text, mode);
            found
                .map(Some)
                .ok_or_else(|| failed("invalid token".to_owned()))
        }
        Ok(_) => Err(failed("more than one statement".to_owned())),
        Err(error) => Err(failed(error.message(text))),
    }
}

fn text<'a>(c: &Call<'_, 'a>) -> Result<ValueRef<'a>> {
    let found = digest_text(c)?;
    Ok(found.map_or(ValueRef::Null, |text| c.keep(text.as_bytes())))
}

/// The hash of a digest text, in hexadecimal: SHA-256. MySQL hashes the numbers of its own tokens.
pub fn hash_of(text: &str) -> String {
    hex(hashes::digest(&hashes::SHA256, text.as_bytes()).as_ref())
}

fn hash<'a>(c: &Call<'_, 'a>) -> Result<ValueRef<'a>> {
    let Some(text) = digest_text(c)? else {
        return Ok(ValueRef::Null);
    };
    Ok(c.keep(hash_of(&text).as_bytes()))
}

/// The registry entries.
#[rustfmt::skip]
pub const FUNCTIONS: &[Function] = &[
    f!("STATEMENT_DIGEST", (1, 1), |_, c| text_of(64, c), IfArgument, hash, "A hash of the statement's digest text.", "LENGTH(STATEMENT_DIGEST('SELECT 1'))" => "64"),
    f!("STATEMENT_DIGEST_TEXT", (1, 1), |_, _| ColumnType::text(Kind::LongText, Collation::UTF8MB4_0900_AI_CI), IfArgument, text, "The statement without its values.", "STATEMENT_DIGEST_TEXT('select a from t where b in (1, 2)')" => "SELECT `a` FROM `t` WHERE `b` IN (...)"),
];
