//! ALTER TABLE ... MEMCACHED: a prefix of keys for a table's rows.

use super::Ident;

/// `MEMCACHED PREFIX 'u:' ...`
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KeyPrefix<'a> {
    /// The prefix.
    pub prefix: &'a [u8],
    /// ROLE; `default_role` if not given.
    pub role: Option<&'a [u8]>,
    /// KEY; the primary key if empty.
    pub key: &'a [Ident<'a>],
    /// VALUE; all other columns if empty.
    pub value: &'a [Ident<'a>],
    /// FLAGS: the column of the client's flags.
    pub flags: Option<Ident<'a>>,
    /// CAS: the column filled with the row's version.
    pub cas: Option<Ident<'a>>,
    /// EXPIRES: the column of the moment of expiry.
    pub expires: Option<Ident<'a>>,
    /// POLICY; `ndb-only` if not given.
    pub policy: Option<&'a [u8]>,
    /// SEPARATOR: between several columns.
    pub separator: Option<&'a [u8]>,
    /// ESCAPE: one byte.
    pub escape: Option<&'a [u8]>,
    /// NULL AS: what stands for NULL.
    pub null_token: Option<&'a [u8]>,
    /// AS JSON
    pub json: bool,
}
