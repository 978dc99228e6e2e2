//! AES_ENCRYPT and AES_DECRYPT in the modes of `block_encryption_mode` (manual, "Encryption and
//! Compression Functions").

use super::codes::bytes_type;
use super::{Call, Function, Nullable};
use crate::error::{Result, SqlError};
use crate::expr::block_cipher::{BlockCipher, CipherMode};
use aws_lc_rs::cipher::{
    AES_128, AES_192, AES_256, DecryptionContext, EncryptionContext, StreamingDecryptingKey,
    StreamingEncryptingKey, UnboundCipherKey,
};
use aws_lc_rs::error::Unspecified;
use aws_lc_rs::hkdf::{HKDF_SHA512, KeyType, Salt};
use aws_lc_rs::iv::FixedLength;
use aws_lc_rs::pbkdf2;
use porpoise_base::interrupt;
use porpoise_types::{Level, ValueRef, Warning};
use std::num::NonZeroU32;

/// Bytes encrypted or decrypted between two interrupt checkpoints.
const PIECE: usize = 64 * 1024;

/// Block size of AES, in bytes: also the length of initialization vectors.
const BLOCK: usize = 16;

/// Minimum and default number of iterations of PBKDF2.
const FEWEST_ITERATIONS: NonZeroU32 = NonZeroU32::MIN.saturating_add(999);

type CipherResult<T> = std::result::Result<T, Unspecified>;

fn broken(_: Unspecified) -> SqlError {
    SqlError::internal("the cipher")
}

/// MySQL's folding of a password to a key of this many bits.
fn fold_key(password: &[u8], bits: usize) -> Vec<u8> {
    let mut key = vec![0; bits / 8];
    for block in password.chunks(key.len()) {
        key.iter_mut().zip(block).for_each(|(k, b)| *k ^= b);
    }
    key
}

/// The AES key of a call: derived from the password by the function that the fourth argument names, or folded.
fn key_of(c: &Call<'_, '_>, password: &[u8], bits: usize) -> Result<UnboundCipherKey> {
    let algorithm = match bits {
        192 => &AES_192,
        256 => &AES_256,
        _ => &AES_128,
    };
    let key = match c.len() {
        0..4 => {
            warn_of_folding(c, password, bits);
            fold_key(password, bits)
        }
        _ => derived_key(c, password, bits)?,
    };
    UnboundCipherKey::new(algorithm, &key).map_err(broken)
}

/// Warning 3237 if the password is longer than the key.
fn warn_of_folding(c: &Call<'_, '_>, password: &[u8], bits: usize) {
    let length = bits / 8;
    if password.len() > length {
        c.cx.env.warn(Warning {
            level: Level::Warning,
            code: 3237,
            message: format!(
                "AES key size should be {length} bytes length or secure KDF methods hkdf or pbkdf2_hmac should be \
                 used, please provide exact AES key size or use KDF methods for better security."
            ),
        });
    }
}

/// An option of the key derivation function. Error 3238 for NULL and for texts of 256 bytes and more.
fn kdf_option<'a>(c: &Call<'_, 'a>, at: usize) -> Result<&'a [u8]> {
    let given = c.text(at)?.filter(|text| text.len() < 256);
    given.ok_or_else(|| {
        let text = "KDF option size is invalid, please provide valid size < 256 bytes and not NULL";
        SqlError::new(3238, "HY000", text)
    })
}

/// The key that the function of the fourth argument derives from the password. The fifth argument is the salt, the sixth
/// the info (HKDF) or the number of iterations (PBKDF2).
fn derived_key(c: &Call<'_, '_>, password: &[u8], bits: usize) -> Result<Vec<u8>> {
    let name = kdf_option(c, 3)?;
    let option = |at: usize| {
        if c.len() > at {
            kdf_option(c, at)
        } else {
            Ok(&[][..])
        }
    };
    let mut key = vec![0; bits / 8];
    match name {
        b"hkdf" => {
            let (salt, information) = (option(4)?, option(5)?);
            let secret = Salt::new(HKDF_SHA512, salt).extract(password);
            let info = [information];
            let expanded = secret.expand(&info, KeyLength(key.len())).map_err(broken)?;
            expanded.fill(&mut key).map_err(broken)?;
        }
        b"pbkdf2_hmac" => {
            let salt = option(4)?;
            let rounds = if c.len() > 5 {
                iterations(kdf_option(c, 5)?)?
            } else {
                FEWEST_ITERATIONS
            };
            pbkdf2::derive(pbkdf2::PBKDF2_HMAC_SHA512, rounds, salt, password, &mut key);
        }
        _ => {
            let text = "KDF method name is not valid. Please use hkdf or pbkdf2_hmac method name";
            return Err(SqlError::new(3235, "HY000", text));
        }
    }
    Ok(key)
}

/// The number of iterations of PBKDF2. Error 3236 if it is not from 1000 to 65535.
fn iterations(text: &[u8]) -> Result<NonZeroU32> {
    let count = str::from_utf8(text)
        .ok()
        .and_then(|text| text.trim().parse().ok());
    let allowed = count.filter(|count| (FEWEST_ITERATIONS.get()..=0xFFFF).contains(count));
    allowed.and_then(NonZeroU32::new).ok_or_else(|| {
        let text = "For KDF method pbkdf2_hmac iterations value less than 1000 or more than 65535 is not allowed due \
                    to security reasons. Please provide iterations >= 1000 and iterations < 65535";
        SqlError::new(3236, "HY000", text)
    })
}

/// Length of a key that HKDF derives.
struct KeyLength(usize);

impl KeyType for KeyLength {
    fn len(&self) -> usize {
        self.0
    }
}

/// The initialization vector: the first 16 bytes of the third argument. Unused in ECB mode.
fn vector_of(c: &Call<'_, '_>, mode: CipherMode, name: &str) -> Result<[u8; BLOCK]> {
    let given = c.len() > 2;
    if mode == CipherMode::Ecb {
        // With a key derivation function the argument is always there.
        if c.len() == 3 {
            c.cx.env.warn(Warning {
                level: Level::Warning,
                code: 1618,
                message: "<IV> option ignored".to_owned(),
            });
        }
        return Ok([0; BLOCK]);
    }
    if !given {
        return Err(SqlError::argument_count(name));
    }
    let vector = c.text(2)?.and_then(|iv| iv.first_chunk::<BLOCK>());
    vector.copied().ok_or_else(|| {
        let text = format!(
            "The initialization vector supplied to {name} is too short. Must be at least {BLOCK} \
             bytes long"
        );
        SqlError::new(1882, "HY000", text)
    })
}

fn encryptor(
    key: UnboundCipherKey,
    mode: CipherMode,
    vector: [u8; BLOCK],
) -> CipherResult<StreamingEncryptingKey> {
    let context = EncryptionContext::Iv128(FixedLength::from(vector));
    match mode {
        CipherMode::Ecb => StreamingEncryptingKey::ecb_pkcs7(key),
        CipherMode::Cbc => StreamingEncryptingKey::less_safe_cbc_pkcs7(key, context),
        CipherMode::Cfb1 => StreamingEncryptingKey::less_safe_cfb1(key, context),
        CipherMode::Cfb8 => StreamingEncryptingKey::less_safe_cfb8(key, context),
        CipherMode::Cfb128 => StreamingEncryptingKey::less_safe_cfb128(key, context),
        CipherMode::Ofb => StreamingEncryptingKey::less_safe_ofb(key, context),
    }
}

fn decryptor(
    key: UnboundCipherKey,
    mode: CipherMode,
    vector: [u8; BLOCK],
) -> CipherResult<StreamingDecryptingKey> {
    let context = DecryptionContext::Iv128(FixedLength::from(vector));
    match mode {
        CipherMode::Ecb => StreamingDecryptingKey::ecb_pkcs7(key, DecryptionContext::None),
        CipherMode::Cbc => StreamingDecryptingKey::cbc_pkcs7(key, context),
        CipherMode::Cfb1 => StreamingDecryptingKey::cfb1(key, context),
        CipherMode::Cfb8 => StreamingDecryptingKey::cfb8(key, context),
        CipherMode::Cfb128 => StreamingDecryptingKey::cfb128(key, context),
        CipherMode::Ofb => StreamingDecryptingKey::ofb(key, context),
    }
}

fn encrypt<'a>(c: &Call<'_, 'a>) -> Result<ValueRef<'a>> {
    let (Some(text), Some(password)) = (c.text(0)?, c.text(1)?) else {
        return Ok(ValueRef::Null);
    };
    let BlockCipher { key_bits, mode } = c.cx.env.block_cipher;
    let vector = vector_of(c, mode, "aes_encrypt")?;
    let mut key = encryptor(key_of(c, password, key_bits)?, mode, vector).map_err(broken)?;
    let secret = in_pieces(text, |piece, out| {
        key.update(piece, out).map(|done| done.written().len())
    })?;
    let mut last = [0; BLOCK];
    let (_, rest) = key.finish(&mut last).map_err(broken)?;
    let secret = secret.ok_or_else(|| SqlError::internal("the cipher"))?;
    Ok(c.keep(&[&secret, rest.written()].concat()))
}

/// Decrypts; NULL if the padding is wrong.
fn decrypt<'a>(c: &Call<'_, 'a>) -> Result<ValueRef<'a>> {
    let (Some(text), Some(password)) = (c.text(0)?, c.text(1)?) else {
        return Ok(ValueRef::Null);
    };
    let BlockCipher { key_bits, mode } = c.cx.env.block_cipher;
    let vector = vector_of(c, mode, "aes_decrypt")?;
    let mut key = decryptor(key_of(c, password, key_bits)?, mode, vector).map_err(broken)?;
    let plain = in_pieces(text, |piece, out| {
        key.update(piece, out).map(|done| done.written().len())
    })?;
    let mut last = [0; BLOCK];
    Ok(match (plain, key.finish(&mut last)) {
        (Some(plain), Ok(rest)) => c.keep(&[&plain, rest.written()].concat()),
        _ => ValueRef::Null,
    })
}

/// Runs a cipher over a text, without its final block; `None` if the cipher fails. `update` returns
/// the number of bytes written: at most one block more than its input.
fn in_pieces(
    text: &[u8],
    mut update: impl FnMut(&[u8], &mut [u8]) -> CipherResult<usize>,
) -> Result<Option<Vec<u8>>> {
    let mut out = Vec::with_capacity(text.len());
    let mut room = vec![0; PIECE.min(text.len()) + BLOCK];
    for piece in text.chunks(PIECE) {
        interrupt::check()?;
        let Ok(written) = update(piece, &mut room) else {
            return Ok(None);
        };
        out.extend_from_slice(room.get(..written).unwrap_or_default());
    }
    Ok(Some(out))
}

/// The registry entries.
pub const FUNCTIONS: &[Function] = &[
    f!("AES_ENCRYPT", (2, 6), bytes_type, IfArgument, encrypt, "Encrypted with AES in the mode of block_encryption_mode.", "HEX(AES_ENCRYPT('text', 'key'))" => "15E36637363712FC2E699B9C95B75393"),
    f!("AES_DECRYPT", (2, 6), bytes_type, Always, decrypt, "Decrypted with AES in the mode of block_encryption_mode; NULL where that fails.", "AES_DECRYPT(AES_ENCRYPT('text', 'key'), 'key')" => "text"),
];
