//! `block_encryption_mode`: key length and mode of operation of AES_ENCRYPT and AES_DECRYPT.

/// A mode of operation of AES (manual, "block_encryption_mode").
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CipherMode {
    /// Electronic codebook: no initialization vector.
    Ecb,
    /// Cipher block chaining.
    Cbc,
    /// Cipher feedback of one bit.
    Cfb1,
    /// Cipher feedback of one byte.
    Cfb8,
    /// Cipher feedback of one block.
    Cfb128,
    /// Output feedback.
    Ofb,
}

/// A value of `block_encryption_mode`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockCipher {
    /// Length of the key in bits: 128, 192 or 256.
    pub key_bits: usize,
    /// The mode.
    pub mode: CipherMode,
}

impl BlockCipher {
    /// The values of the variable.
    pub const NAMES: &[&str] = &[
        "aes-128-ecb",
        "aes-192-ecb",
        "aes-256-ecb",
        "aes-128-cbc",
        "aes-192-cbc",
        "aes-256-cbc",
        "aes-128-cfb1",
        "aes-192-cfb1",
        "aes-256-cfb1",
        "aes-128-cfb8",
        "aes-192-cfb8",
        "aes-256-cfb8",
        "aes-128-cfb128",
        "aes-192-cfb128",
        "aes-256-cfb128",
        "aes-128-ofb",
        "aes-192-ofb",
        "aes-256-ofb",
    ];

    /// The cipher of one of [`BlockCipher::NAMES`]; the default for other names.
    pub fn named(name: &str) -> BlockCipher {
        let mut parts = name.split('-').skip(1);
        let bits = parts.next().and_then(|bits| bits.parse().ok());
        BlockCipher {
            key_bits: bits.unwrap_or(128),
            mode: match parts.next() {
                Some("cbc") => CipherMode::Cbc,
                Some("cfb1") => CipherMode::Cfb1,
                Some("cfb8") => CipherMode::Cfb8,
                Some("cfb128") => CipherMode::Cfb128,
                Some("ofb") => CipherMode::Ofb,
                _ => CipherMode::Ecb,
            },
        }
    }
}

impl Default for BlockCipher {
    fn default() -> BlockCipher {
        BlockCipher::named("aes-128-ecb")
    }
}
